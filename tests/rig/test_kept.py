# SPDX-License-Identifier: GPL-2.0-only
"""Received frames that a function keeps, still in the ring, for longer than it takes
to receive them."""

import contextlib
import time

import pytest
from ntbrig import stack

from frames import TEST, TRANSPORT, counters, peer_id, send, wait_for_everyone, wait_until_received

pytestmark = pytest.mark.everywhere


@pytest.fixture(scope="module")
def pair(boot):
    """Two hosts whose link is up, with rings of some hundred KiB."""
    fabric = boot(hosts=2)
    parameters = {"pximc_ntb": "timeout_ms=2000 memory_kib=512 queues=1"}
    stack.load(*fabric.hosts, modules=TRANSPORT, parameters=parameters)
    wait_for_everyone(*fabric.hosts)
    return fabric.hosts


@contextlib.contextmanager
def keeper(guest, keep):
    """The test service, which keeps so many frames."""
    stack.load(guest, modules=TEST, parameters={"mp_func_test": f"keep={keep}"})
    try:
        yield
    finally:
        stack.unload(guest, modules=TEST)


def exchange(pair, count, size, priority=0):
    sender, receiver = pair
    sent = send(sender, peer_id(receiver), count, size, priority)
    assert (sent["sent_ok"], sent["sent_failed"]) == (count, 0)
    return wait_until_received(receiver, count, timeout=30)


def wait_until_checked(guest, count, timeout=10):
    """Frames are checked a little after they have been received."""
    deadline = time.monotonic() + timeout
    while (seen := counters(guest))["checked"] < count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert seen["checked"] == count
    return seen


def moved_out(pair):
    sender, receiver = pair
    link = f"/sys/kernel/mp/peers/{peer_id(sender):08x}/link"
    return int(receiver.run(f"cat {link}/moved_out").out)


@pytest.mark.parametrize("size", [0, 100, 5000, 60000])
@pytest.mark.parametrize("keep", [1, 7])
def test_frames_that_are_kept_stay_intact_while_others_pass(pair, keep, size):
    """IDT-FN-2"""
    count = 300
    with keeper(pair[1], keep):
        seen = exchange(pair, count, size)
        assert (seen["received"], seen["corrupt"], seen["repeated"]) == (count, 0, 0)
        assert wait_until_checked(pair[1], count - keep)["cut_off"] == 0


@pytest.mark.parametrize("size", [100, 20000])
def test_a_function_may_keep_more_than_the_ring_holds(pair, size):
    """IDT-FN-2, IDT-MSG-6"""
    count, keep = 600, 200
    with keeper(pair[1], keep):
        seen = exchange(pair, count, size)
        assert (seen["received"], seen["corrupt"], seen["repeated"]) == (count, 0, 0)
        assert wait_until_checked(pair[1], count - keep)["cut_off"] == 0


def test_priority_frames_that_are_kept_do_not_hold_the_control_ring(pair):
    count, keep = 600, 400
    with keeper(pair[1], keep):
        seen = exchange(pair, count, 1000, priority=1)
        assert seen["received"] == count
        wait_until_checked(pair[1], count - keep)


def test_a_function_that_keeps_everything_does_not_stop_the_ring(pair):
    """What it keeps is moved out of the ring, and still intact."""
    count, keep = 1000, 900
    with keeper(pair[1], keep):
        before = moved_out(pair)
        seen = exchange(pair, count, 2000)
        assert (seen["received"], seen["corrupt"], seen["repeated"]) == (count, 0, 0)
        assert wait_until_checked(pair[1], count - keep)["cut_off"] == 0
        assert moved_out(pair) > before


def test_frames_whose_link_goes_down_have_their_data_or_none(pair):
    """Never what a later link has written to the same place."""
    sender, receiver = pair
    keep = 20
    with keeper(receiver, keep):
        exchange(pair, keep, 3000)
        stack.unload(receiver, modules=("pximc_ntb",))
        stack.load(receiver, modules=("pximc_ntb",))
        wait_for_everyone(*pair)
        send(sender, peer_id(receiver), keep, 3000)
        wait_until_received(receiver, 2 * keep)
        # The last one is checked a little later.
        time.sleep(0.2)
        seen = counters(receiver)
        assert (seen["cut_off"] + seen["checked"], seen["corrupt"]) == (keep, 0)


def test_modules_go_while_frames_are_kept_and_fly(pair):
    sender, receiver = pair
    order = f"dst={peer_id(receiver)} count=1000000 size=2000"
    stack.load(sender, modules=TEST, parameters={"mp_func_test": order})
    try:
        for _ in range(2):
            with keeper(receiver, 50):
                assert wait_until_received(receiver, 200)["corrupt"] == 0
            with keeper(receiver, 50):
                wait_until_received(receiver, 100)
                for host in pair:
                    stack.unload(host, modules=("pximc_ntb",))
                    stack.load(host, modules=("pximc_ntb",))
                    wait_for_everyone(*pair)
                assert counters(receiver)["corrupt"] == 0
    finally:
        stack.unload(sender, modules=TEST)
