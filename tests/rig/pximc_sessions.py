# SPDX-License-Identifier: GPL-2.0-only
"""Requests as the tests of PXImc make them most often, and what sessions answer."""

from ntbrig.settings import PATIENCE

from pximc import MAX, OK

PROTOCOL = 0xABCD1000
PAGE = 0x1000
# What the examples of the specification ask for: largest and smallest size.
USUAL = (0x1000, 0x400)
NONE = (0, 0)
ANY = (MAX, 0)
UNKNOWN = 0x7FFFFFF1
UNTOUCHED_CONNECTION = (None, None, None, None)
# "At once", on a machine that is emulated and busy.
PROMPT = 2.0 * PATIENCE
# The functions for sessions, but for the one that closes them.
SESSION_CALLS = (
    "waitForConnection",
    "getPhysicalAddress",
    "enableDeviceAccess",
    "assertEvent",
    "waitForSessionEvent",
)


def server(system, local=USUAL, remote=USUAL, uid=0, data=b"", protocol=PROTOCOL):
    """The answer to a request; so with the next ones."""
    return system.request_window_logical_as_server(
        system.interface, protocol, *local, *remote, uid, data
    )


def client(system, local=USUAL, remote=USUAL, uid=0, protocol=PROTOCOL):
    return system.request_window_logical_as_client(
        system.interface, protocol, *local, *remote, uid
    )


def peer(system, local=USUAL, remote=USUAL, uid=0, data=b"", protocol=PROTOCOL):
    return system.request_window_logical_as_peer(
        system.interface, protocol, *local, *remote, uid, data
    )


KINDS = {"server": server, "client": client, "peer": peer}


def opened(answer):
    assert answer.status == OK and answer.session
    return answer.session


def pair(s0, s1, local=USUAL, remote=USUAL, protocol=PROTOCOL):
    """A client on one system and a server on the other; sizes are the client's."""
    there = opened(server(s1, remote, local, protocol=protocol))
    return opened(client(s0, local, remote, protocol=protocol)), there


def windows(systems, sessions):
    """The windows of both sides, the first one's first."""
    return [system.connect(session) for system, session in zip(systems, sessions)]


def close(systems, sessions):
    for system, session in zip(systems, sessions):
        assert system.close_window(session) == OK


def meet(one, other):
    """The interfaces of two processes by which they reach each other's host."""
    uid = 0x3EE7
    for mine in one.find_interfaces().ids:
        posted = one.request_window_logical_as_server(mine, PROTOCOL, *USUAL, *USUAL, uid).session
        seen = [theirs for theirs in other.find_interfaces().ids if uid in other.windows(theirs)]
        assert one.close_window(posted) == OK
        if seen:
            (theirs,) = seen
            other.wait_for_windows(interface=theirs)
            return mine, theirs
    raise AssertionError(f"{one.guest} and {other.guest} do not reach each other")


def all_calls(system, session):
    """What each function says to a session, but for closing it."""
    return {
        "waitForConnection": system.wait_for_connection(session, 0).status,
        "getPhysicalAddress": system.get_physical_address(session).status,
        "enableDeviceAccess": system.enable_device_access(session, 1),
        "assertEvent": system.assert_event(session),
        "waitForSessionEvent": system.wait_for_session_event(session, 0).status,
    }
