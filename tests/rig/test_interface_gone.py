# SPDX-License-Identifier: GPL-2.0-only
"""A bridge goes while processes use its interfaces: who waits is told, and so is who names one later."""

import errno
from contextlib import contextmanager

import pytest
import sharing
from frames import wait_for_everyone
from ntbrig import stack
from ntbrig.settings import PATIENCE
from pximc import MODULES
from sharing import MP, fails
from shell import until

PAGE = 0x1000
DRIVER = "/sys/bus/ntb/drivers/pximc_ntb"
SIZES = {"local_max": PAGE, "remote_max": PAGE, "protocol": 9, "location": 1}


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    return fabric


@contextmanager
def bound(fabric):
    """The bridge of the first host, while its driver has it; and a way to take it away."""
    guest = fabric.rp
    wait_for_everyone(*fabric.hosts)
    (bridge,) = guest.run("ls /sys/bus/ntb/devices").out.split()
    is_there = True

    def unbind():
        nonlocal is_there
        is_there = False
        guest.run(f"echo {bridge} > {DRIVER}/unbind", timeout=60 * PATIENCE)

    try:
        yield unbind
    finally:
        if not is_there:
            guest.run(f"echo {bridge} > {DRIVER}/bind")


def windows(process, interface):
    fields = {"interface": interface, "capacity": 16, "ids": process.buffer}
    return process.call("WINDOWS", "mp_windows", **fields).count


def test_who_waits_for_an_answer_is_told_that_there_will_be_none(fabric):
    """The link is down before the interface has gone."""
    with bound(fabric) as unbind, sharing.pair(fabric) as (owner, back, user, there):
        server = {"interface": back, "role": MP.ROLE_SERVER, "flags": MP.SESSION_DEFER, **SIZES}
        owner.call("SESSION_OPEN", "mp_session_open", **server)
        until(lambda: windows(user, there))
        client = {"interface": there, "role": MP.ROLE_CLIENT, **SIZES}
        opens = user.later("SESSION_OPEN", "mp_session_open", **client)
        user.until_asleep()
        assert not opens.returned()
        unbind()
        with fails(errno.ENETDOWN):
            opens.result()


def test_what_names_an_interface_that_has_gone_is_told_so(fabric):
    with bound(fabric) as unbind, sharing.pair(fabric) as (_, _, user, there):
        segment = user.segment(880, PAGE, there)
        unbind()
        at = {"interface": there}
        port = {"object": MP.OBJECT_PORT, "flags": MP.OFFER_ANY}
        to = {"object": MP.OBJECT_SEGMENT, "number": 880}
        for call, kind, fields in (
            ("INTERFACE", "mp_interface", {"id": there}),
            ("WINDOWS", "mp_windows", at),
            ("SESSION_OPEN", "mp_session_open", {"role": MP.ROLE_SERVER, **at, **SIZES}),
            ("SEGMENT_PREPARE", "mp_segment_interface", {"handle": segment, **at}),
            ("SEGMENT_PUBLISH", "mp_segment_interface", {"handle": segment, **at}),
            ("SEGMENT_WITHDRAW", "mp_segment_interface", {"handle": segment, **at}),
            ("SEGMENT", "mp_segment", {"handle": segment, **at}),
            ("SEGMENT_CREATE", "mp_segment_create", {"flags": MP.SEGMENT_ONE_PEER, "length": 1, **at}),
            ("OFFER", "mp_offer", {**port, **at}),
            ("CONNECT", "mp_connect", {**to, **at}),
            ("QUEUE_CREATE", "mp_queue_create", {"entries": 1, **at}),
        ):
            with fails(errno.ENODEV):
                user.call(call, kind, **fields)
        # What is left of it ends as everything does.
        user.remove(segment)


def test_there_is_a_new_one_when_the_bridge_comes_back(fabric):
    """Under the same id, as the hardware is where it was."""
    with bound(fabric) as unbind, sharing.pair(fabric) as (_, _, user, there):
        unbind()
        with fails(errno.ENODEV):
            user.call("INTERFACE", "mp_interface", id=there)
    wait_for_everyone(*fabric.hosts)
    with sharing.pair(fabric) as (owner, back, user, again):
        assert again == there
        owner.segment(881, PAGE, back)
        user.close(user.connect(again, MP.OBJECT_SEGMENT, 881))
