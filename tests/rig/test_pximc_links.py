# SPDX-License-Identifier: GPL-2.0-only
"""PXImc over several links, which are lost and return, and hosts that go and come."""

import contextlib
import random
import time

import pytest
from ntbrig import stack

import pximc
from pximc import (
    ASSERTED,
    CLOSED,
    DOWN,
    LOST,
    NULL,
    OK,
    PXIMC,
    STATE_CHANGE,
    UP,
    USER,
    Process,
    Status,
)
from pximc_sessions import (
    KINDS,
    PAGE,
    PROMPT,
    PROTOCOL,
    SESSION_CALLS,
    UNTOUCHED_CONNECTION,
    USUAL,
    all_calls,
    client,
    meet,
    opened,
    pair,
    peer,
    server,
    windows,
)
from shell import INTACT, until

LINK = "pximc_ntb"


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3)
    pximc.load(*fabric.hosts)
    return fabric


@pytest.fixture(scope="module")
def interfaces(fabric):
    """By host and host: the interface of the first by which it reaches the second."""
    found = {}
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(Process(guest)) for guest in fabric.hosts]
        for at, one in enumerate(processes):
            for other in processes[at + 1 :]:
                names = one.guest.name, other.guest.name
                found[names], found[names[::-1]] = meet(one, other)
    return found


@pytest.fixture
def systems(fabric, interfaces):
    """The processes on the RP and on an EP, which the tests are for, and on another EP; each of
    the last two has the RP at its interface, and the RP the first EP."""
    to = lambda one, other: interfaces[one.name, other.name]
    rp, ep1, ep2 = fabric.hosts
    with (
        Process(rp, to(rp, ep1)) as s0,
        Process(ep1, to(ep1, rp)) as s1,
        Process(ep2, to(ep2, rp)) as s2,
    ):
        for system in (s0, s1, s2):
            for interface in system.find_interfaces().ids:
                system.wait_for_state(UP, interface)
                system.wait_for_windows(interface=interface)
        yield s0, s1, s2


@contextlib.contextmanager
def unplugged(fabric, guest):
    """Inside, the host has no cables."""
    fabric.unplug(guest)
    try:
        yield
    finally:
        fabric.plug(guest)


@contextlib.contextmanager
def without_link(fabric, s0, s1):
    """Inside, the host of the second process has no cables, and both know."""
    with unplugged(fabric, s1.guest):
        s0.wait_for_state(DOWN)
        s1.wait_for_state(DOWN)
        yield


@contextlib.contextmanager
def unloaded(*guests, module=LINK):
    """Inside, hosts have not got a module."""
    stack.unload(*guests, modules=(module,))
    try:
        yield
    finally:
        stack.load(*guests, modules=(module,))


# --- several links


def test_each_host_reaches_each_other_by_an_interface_of_its_own(fabric, interfaces, systems):
    """PXI-FI-1, PXI-FI-3, PXI-FI-6, PXI-FI-7, PXI-VM-1, PXI-VM-2, PXI-GEN-11: and by no
    other."""
    for guest, system in zip(fabric.hosts, systems):
        ids = [id for (one, _), id in interfaces.items() if one == guest.name]
        assert len(set(ids)) == 2
        found = system.find_interfaces(2)
        assert (found.status, found.actual) == (OK, 2)
        assert sorted(found.ids) == sorted(ids)
        assert system.find_interfaces(1) == (Status.INSUFFICIENT_SPACE, 2, [])
        assert system.find_interfaces(12) == found
        assert {system.state(id) for id in ids} == {UP}


def test_links_have_identifiers_of_their_own_and_sessions_have_not(interfaces, systems):
    """PXI-REQLS-7, PXI-REQLS-10, PXI-REQLP-11, PXI-REQLP-16, PXI-SES-4, PXI-FW-8: the same
    one on two interfaces of a system, but never the same session number."""
    s0, s1, s2 = systems
    other = interfaces["rp", "ep2"]
    numbers = [
        opened(kind(s0, uid=uid)) for kind, uid in ((server, 7), (peer, 8))
    ]
    request = s0.request_window_logical_as_server
    for uid in (7, 8):
        numbers.append(opened(request(other, PROTOCOL, *USUAL, *USUAL, uid)))
        assert request(other, PROTOCOL, *USUAL, *USUAL, uid) == (Status.UID_CONFLICT, None)
    assert len(set(numbers)) == 4
    assert sorted(s1.windows()) == sorted(s2.windows()) == [7, 8]


def test_links_carry_data_at_the_same_time(interfaces, systems):
    """PXI-GEN-11, PXI-PAIR-13, PXI-VM-1, PXI-AE-1: each its own."""
    s0, s1, s2 = systems
    size, rounds = 20000, 20
    calls = []
    for other, to in ((s1, s0.interface), (s2, interfaces["rp", "ep2"])):
        there = opened(server(other, (size, size), (size, size)))
        here = opened(
            s0.request_window_logical_as_client(to, PROTOCOL, size, size, size, size)
        )
        (out, _), (_, into) = windows((s0, other), (here, there))
        calls.append(s0.later.produce(here, out.address, size, rounds))
        calls.append(other.later.consume(there, into.address, size, rounds))
    assert [call.result(60) for call in calls] == [(rounds, 0)] * 4


# --- a link that is lost


def test_a_lost_link_ends_all_waits_at_once(fabric, systems):
    """PXI-WFC-1, PXI-WFC-7, PXI-WSE-7, PXI-WSE-12, PXI-WIE-1, PXI-WIE-8, PXI-WIE-9,
    PXI-QI-11, PXI-AE-6: of sessions that are paired, of those that are not, and for the
    interface, on both sides."""
    s0, s1, _ = systems
    here, there = pair(s0, s1)
    posted = opened(server(s0, protocol=1))
    until(s1.windows)
    for system in (s0, s1):
        system.wait_for_interface_event(system.interface, 0)
        system.wait_for_interface_event(system.interface, 300)
    waiting = {
        s0: s0.later.wait_for_session_event(here),
        s1: s1.later.wait_for_session_event(there),
    }
    connecting = s0.later.wait_for_connection(posted)
    watching = [system.later.wait_for_interface_event(system.interface) for system in (s0, s1)]
    time.sleep(0.3)
    with unplugged(fabric, s1.guest):
        start = time.monotonic()
        assert [call.result() for call in waiting.values()] == [(OK, LOST)] * 2
        assert connecting.result() == (Status.INTERFACE_DOWN, *UNTOUCHED_CONNECTION)
        assert time.monotonic() - start < 2 * PROMPT
        for call in watching:
            status, reason = call.result()
            assert status == OK and reason & STATE_CHANGE
        assert [system.state() for system in (s0, s1)] == [DOWN, DOWN]


def test_over_a_lost_link_nothing_can_be_asked_for(fabric, systems):
    """PXI-FW-11, PXI-QW-17, PXI-FI-2, PXI-QI-3, PXI-SES-3, PXI-REQLS-2, PXI-REQLC-2,
    PXI-REQLP-2: but interfaces are there as before, and arguments that make
    no sense are so first."""
    s0, s1, _ = systems
    before = s0.find_interfaces()
    opened(server(s1, uid=4))
    assert s0.windows() == [4]
    down = Status.INTERFACE_DOWN
    with without_link(fabric, s0, s1):
        assert s0.find_interfaces() == before
        for attribute, value in (
            (PXIMC.U32_PROTOCOL_VERSION, 0x10000),
            (PXIMC.U32_INTERFACE_STATE, DOWN),
        ):
            assert s0.query_interface_information(s0.interface, attribute).u32 == value
        manufacturer = PXIMC.U32_MANF_ID
        assert s0.query_interface_information(s0.interface, manufacturer).u32 <= 0xFFFF
        assert s0.find_windows(s0.interface) == (down, None, [])
        attribute = PXIMC.U32_WINDOW_PAIRING_STATE
        assert s0.query_window_information(s0.interface, 4, attribute) == (down, None, b"")
        for kind in KINDS.values():
            assert kind(s0) == (down, None)
            assert kind(s0, (0, 0), (0, 0)) == (Status.INVALID_ARGUMENT, None)
            assert kind(s0, (1, 2)) == (Status.INVALID_ARGUMENT, None)
            # What cannot be had is not looked at before.
            assert kind(s0, ((1 << 64) - 1, 1 << 40)) == (down, None)
        physical = s0.request_window_physical_as_client
        assert physical(s0.interface, PROTOCOL, PAGE, 1) == (down, None)


def test_sessions_over_a_lost_link_say_so_until_it_is_back(fabric, systems):
    """PXI-CW-3, PXI-CW-5, PXI-GPA-2, PXI-EDA-5, PXI-AE-6, PXI-WFC-6, PXI-WFC-7, PXI-WSE-12,
    PXI-WSE-13, PXI-SES-6: none is closed for that. When it is back, those that were paired
    have lost their partner for good."""
    s0, s1, _ = systems
    here, there = pair(s0, s1)
    posted = opened(server(s0, uid=5, protocol=1))
    (out, into), _ = windows((s0, s1), (here, there))
    down = dict.fromkeys(SESSION_CALLS, Status.INTERFACE_DOWN)
    with without_link(fabric, s0, s1):
        for _ in range(2):
            assert all_calls(s0, here) == down | {"waitForSessionEvent": OK}
            assert s0.wait_for_session_event(here) == (OK, LOST)
            assert s0.wait_for_connection(here) == (
                Status.INTERFACE_DOWN,
                *UNTOUCHED_CONNECTION,
            )
            assert s0.seconds < PROMPT
        assert all_calls(s0, posted) == down | {"waitForSessionEvent": Status.NO_PAIRING}
        assert s0.enable_device_access(here, 4) == Status.INVALID_ARGUMENT
        assert s0.get_physical_address(here, NULL).status == Status.INVALID_ARGUMENT
        # Memory is there as long as the session: nobody sees what is written.
        assert until(lambda: out.same(0xFF) == INTACT)
        out.fill(1)
        into.fill(2)
        assert into.check(2) == INTACT
    for system, session in ((s0, here), (s1, there)):
        system.wait_for_state(UP)
        assert system.wait_for_session_event(session, 10000) == (OK, CLOSED)
        assert all_calls(system, session) == dict.fromkeys(
            SESSION_CALLS, Status.SESSION_CLOSED
        ) | {"waitForSessionEvent": OK}
        assert system.close_window(session) == OK
    # What had no partner has not lost one.
    assert s0.wait_for_connection(posted, 0).status == Status.TIMEOUT
    s1.wait_for_windows(5)
    windows((s1, s0), (opened(client(s1, uid=5, protocol=1)), posted))


def test_what_was_posted_is_posted_again(fabric, systems):
    """PXI-PAIR-1, PXI-FW-1, PXI-CW-3, PXI-QW-1: with its identifier and all else, and peers
    that meet only now are paired."""
    s0, s1, _ = systems
    opened(server(s1, uid=6, data=b"still here", protocol=1))
    assigned = opened(server(s1, protocol=2))
    before = sorted(s0.windows())
    with without_link(fabric, s0, s1):
        assert s1.close_window(assigned) == OK
    s0.wait_for_state(UP)
    s0.wait_for_windows(6)
    assert len(before) == 2
    assert s0.query_window_information(s0.interface, 6, PXIMC.U8_WINDOW_DATA, 64) == (
        OK,
        10,
        b"still here",
    )
    here = opened(client(s0, protocol=1))
    assert s0.wait_for_connection(here, 0).status == OK


def test_sessions_can_be_closed_while_the_link_is_down(fabric, systems):
    """PXI-CW-4, PXI-CW-5, PXI-CW-8: without waiting for it; nothing of them is
    left when it is back."""
    s0, s1, _ = systems
    size = (1 << 20, 1 << 20)
    here, there = pair(s0, s1, size, size)
    posted = opened(server(s0, protocol=1))
    with without_link(fabric, s0, s1):
        for session in (here, posted):
            assert s0.close_window(session) == OK
            assert s0.seconds < PROMPT
            assert s0.close_window(session) == Status.INVALID_SESSION
    s1.wait_for_state(UP)
    assert s1.wait_for_session_event(there, 10000) == (OK, CLOSED)
    assert s1.cleanup() == OK
    s0.wait_for_windows()
    s1.wait_for_windows()
    windows((s0, s1), pair(s0, s1, size, size))


def test_a_partner_that_has_gone_stays_gone_when_the_link_is_lost(fabric, systems):
    """PXI-WSE-2, PXI-WSE-4, PXI-WSE-14: the loss is not what is told then."""
    s0, s1, _ = systems
    here, there = pair(s0, s1)
    assert s1.close_window(there) == OK
    until(lambda: s0.assert_event(here) == Status.SESSION_CLOSED)
    with without_link(fabric, s0, s1):
        assert s0.wait_for_session_event(here) == (OK, CLOSED)
        assert s0.assert_event(here) == Status.SESSION_CLOSED
        assert s0.close_window(here) == OK


def test_a_signal_that_nobody_took_does_not_hide_the_loss(fabric, systems):
    """PXI-WSE-1, PXI-WSE-12, PXI-WSE-14: of the two, the loss is told."""
    s0, s1, _ = systems
    here, there = pair(s0, s1)
    assert s1.assert_event(there) == OK
    time.sleep(0.2)
    with without_link(fabric, s0, s1):
        assert s0.wait_for_session_event(here, 5000) == (OK, LOST)
        assert s0.wait_for_session_event(here, 0) == (OK, LOST)


def test_losses_that_nobody_waited_for_are_one_event(fabric, systems):
    """PXI-WIE-1, PXI-WIE-3, PXI-WIE-5, PXI-WIE-10: for each process."""
    s0, s1, _ = systems
    # Two that have waited for nothing yet: s0 has for the link.
    with Process(s0.guest, s0.interface) as one, Process(s0.guest, s0.interface) as other:
        for process in (one, other):
            assert process.wait_for_interface_event(process.interface, 0).status == OK
        for _ in range(2):
            with unplugged(fabric, s1.guest):
                until(lambda: s0.state() == DOWN)
            until(lambda: s0.state() == UP)
        time.sleep(0.3)
        for process in (one, other):
            wait = process.wait_for_interface_event
            status, reason = wait(process.interface, 0)
            assert status == OK and reason & STATE_CHANGE
            assert wait(process.interface, 0) == (Status.TIMEOUT, None)


def test_other_links_do_not_notice(fabric, systems, interfaces):
    """PXI-GEN-11: their windows, sessions and events go on meanwhile."""
    s0, s1, s2 = systems
    other = interfaces["rp", "ep2"]
    there = opened(server(s2))
    here = opened(s0.request_window_logical_as_client(other, PROTOCOL, *USUAL, *USUAL))
    lost, _ = pair(s0, s1)
    (out, _), (_, into) = windows((s0, s2), (here, there))
    with without_link(fabric, s0, s1):
        assert s0.wait_for_session_event(lost, 0) == (OK, LOST)
        assert s0.state(other) == UP
        out.fill(9)
        assert s0.assert_event(here) == OK
        assert s2.wait_for_session_event(there, 5000) == (OK, ASSERTED)
        assert into.check(9) == INTACT
    assert s0.wait_for_session_event(here, 0).status == Status.TIMEOUT


def test_a_process_that_ends_while_the_link_is_down_leaves_nothing(fabric, systems):
    """PXI-CW-10: on either side of it."""
    s0, s1, _ = systems
    with Process(s0.guest, s0.interface) as victim:
        _, there = pair(victim, s1)
        opened(server(victim, uid=44, protocol=1))
        with without_link(fabric, s0, s1):
            victim.die()
    s1.wait_for_state(UP)
    assert s1.wait_for_session_event(there, 10000) == (OK, CLOSED)
    s1.wait_for_windows()
    opened(server(s0, uid=44))


# --- hosts and modules that go and come


def test_a_host_that_hangs_is_missed(fabric, systems):
    """PXI-QI-11, PXI-WSE-12: although its link is up."""
    s0, s1, _ = systems
    here, _ = pair(s0, s1)
    s1.guest.freeze()
    try:
        s0.wait_for_state(DOWN)
        assert s0.wait_for_session_event(here, 0) == (OK, LOST)
    finally:
        s1.guest.thaw()
    s0.wait_for_state(UP)
    assert s0.wait_for_session_event(here, 10000) == (OK, CLOSED)


def test_nobody_waits_for_a_host_that_hangs(fabric, systems):
    """PXI-CW-4, PXI-CL-4, PXI-AE-3: not to signal, to close, or to clean up, although its
    link seems to be up."""
    s0, s1, _ = systems
    sessions = [pair(s0, s1, protocol=number) for number in range(3)]
    s1.guest.freeze()
    try:
        assert s0.assert_event(sessions[0][0]) == OK
        assert s0.seconds < PROMPT
        assert s0.close_window(sessions[0][0]) == OK
        assert s0.seconds < PROMPT
        assert s0.cleanup() == OK
        assert s0.seconds < PROMPT
        assert s0.close_window(sessions[1][0]) == Status.INVALID_SESSION
    finally:
        s1.guest.thaw()
    for _, there in sessions:
        until(lambda: s1.assert_event(there) == Status.SESSION_CLOSED)
        assert s1.wait_for_session_event(there, 0) == (OK, CLOSED)
    pximc.wait_until_up(*fabric.hosts)


def test_a_host_whose_transport_is_unloaded_is_missed(fabric, systems):
    """PXI-FI-2, PXI-QI-11, PXI-WSE-3, PXI-WSE-12, PXI-FI-5, PXI-FI-8, PXI-CW-5: there, the
    interface is gone and its sessions are closed for good; it comes back with its number."""
    s0, s1, _ = systems
    before = s1.find_interfaces()
    here, there = pair(s0, s1)
    posted = opened(server(s1, protocol=1))
    waiting = s1.later.wait_for_session_event(there)
    watching = s1.later.wait_for_interface_event(s1.interface)
    assert watching.result().status == OK
    with unloaded(s1.guest):
        # The link goes down before the interface goes.
        assert waiting.result() in ((OK, LOST), (OK, CLOSED))
        s0.wait_for_state(DOWN)
        assert s0.wait_for_session_event(here, 0) == (OK, LOST)
        assert s0.interface in s0.find_interfaces().ids
        assert s1.find_interfaces() == (OK, 0, [])
        assert s1.query_interface_information(
            s1.interface, PXIMC.U32_INTERFACE_STATE
        ).status == Status.INVALID_INTERFACE
        assert s1.find_windows(s1.interface).status == Status.INVALID_INTERFACE
        assert s1.wait_for_session_event(there) == (OK, CLOSED)
        # The first wait of a process may have found something that it was not told.
        s1.wait_for_interface_event(s1.interface, 0)
        assert s1.wait_for_interface_event(s1.interface) == (Status.INVALID_INTERFACE, None)
        for session in (there, posted):
            assert s1.close_window(session) == OK
    assert until(lambda: s1.find_interfaces().actual == 2)
    assert sorted(s1.find_interfaces().ids) == sorted(before.ids)
    for system in (s0, s1):
        system.wait_for_state(UP)
    assert s0.wait_for_session_event(here, 10000) == (OK, CLOSED)
    windows((s0, s1), pair(s0, s1, protocol=2))


def test_a_host_without_the_service_is_down_although_its_link_is_up(fabric, systems):
    """PXI-QI-11, PXI-FI-2: until it has been loaded again."""
    s0, s1, _ = systems
    here, _ = pair(s0, s1)
    guest, interface = s1.guest, s1.interface
    s1.die()
    assert s0.wait_for_session_event(here, 5000) == (OK, CLOSED)
    with unloaded(guest, module=USER):
        s0.wait_for_state(DOWN)
        assert server(s0) == (Status.INTERFACE_DOWN, None)
        with Process(guest) as without:
            assert without.find_interfaces() == (OK, 0, [])
            assert without.find_windows(interface).status == Status.INVALID_INTERFACE
    s0.wait_for_state(UP)
    assert s0.close_window(here) == OK
    with Process(guest, interface) as fresh:
        windows((s0, fresh), pair(s0, fresh))


def test_without_a_bridge_there_are_no_interfaces(fabric, systems):
    """PXI-FI-8, PXI-FI-9: which is no error."""
    _, _, s2 = systems
    before = sorted(s2.find_interfaces().ids)
    with unloaded(s2.guest):
        assert s2.find_interfaces() == (OK, 0, [])
        assert s2.find_interfaces(0, NULL) == (OK, 0, [])
    assert until(lambda: sorted(s2.find_interfaces().ids) == before)


@pytest.mark.parametrize("way", ["kill", "reboot"])
def test_a_host_that_ends_is_missed_and_comes_back(fabric, systems, interfaces, way):
    """PXI-FI-2, PXI-FI-5, PXI-QI-11, PXI-WSE-12, PXI-CW-8, PXI-CW-9, PXI-PAIR-11: with the
    interface numbers that it had, and without its sessions."""
    s0, s1, _ = systems
    here, _ = pair(s0, s1)
    opened(server(s1, uid=12, protocol=1))
    kept = opened(server(s0, uid=13, protocol=2))
    (out, _) = s0.connect(here)
    guest = s1.guest
    waiting = s0.later.wait_for_session_event(here)
    time.sleep(0.2)
    if way == "kill":
        guest.kill()
        assert waiting.result() == (OK, LOST)
        s0.wait_for_state(DOWN)
        assert until(lambda: out.same(0xFF) == INTACT)
        guest.boot()
    else:
        guest.reboot()
        assert waiting.result().status == OK
    stack.load(guest, modules=pximc.MODULES)
    s0.wait_for_state(UP)
    with Process(guest, interfaces["ep1", "rp"]) as fresh:
        known = {id for (one, _), id in interfaces.items() if one == "ep1"}
        assert set(fresh.find_interfaces().ids) == known
        fresh.wait_for_state(UP)
        assert s0.wait_for_session_event(here, 10000) == (OK, CLOSED)
        s0.wait_for_windows()
        fresh.wait_for_windows(13)
        windows((fresh, s0), (opened(client(fresh, protocol=2)), kept))
        assert client(fresh, protocol=1).status == Status.NO_PAIRING
    pximc.wait_until_up(*fabric.hosts)


@pytest.mark.long
def test_links_are_lost_at_any_time(fabric, systems):
    """PXI-PAIR-1, PXI-PAIR-18, PXI-CW-3, PXI-CW-8: under requests, signals and closes;
    afterwards both sides agree, and all memory is there."""
    s0, s1, _ = systems
    rng = random.Random(4)
    size = (1 << 20, 1 << 20)
    for turn in range(40):
        calls = [
            (system, system.later.request_window_logical_as_peer(
                system.interface, number, *USUAL, *USUAL
            ))
            for number in range(4)
            for system in (s0, s1)
        ]  # fmt: skip
        time.sleep(rng.random() / 20)
        with unplugged(fabric, s1.guest):
            time.sleep(rng.random() / 5)
        for system, call in calls:
            answer = call.result()
            assert answer.status in (OK, Status.INTERFACE_DOWN)
            if answer.status == OK and rng.random() < 0.5:
                assert system.close_window(answer.session) == OK
        if turn % 4:
            continue
        for system in (s0, s1):
            assert system.cleanup() == OK
        for system in (s0, s1):
            system.wait_for_state(UP)
            system.wait_for_windows()
        both = [opened(peer(system, size, size)) for system in (s0, s1)]
        windows((s0, s1), both)
        for system, session in zip((s0, s1), both):
            assert system.close_window(session) == OK
