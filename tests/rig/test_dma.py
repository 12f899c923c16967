# SPDX-License-Identifier: GPL-2.0-only
"""Large frames are copied by a DMA engine, and by the CPU whenever that fails.

The engine is `dma_test`, in the sender; see rust/dma_test.rs for what it can do
wrong.
"""

import contextlib
import time

import pytest
from ntbrig import stack

from frames import (
    LOWER,
    TEST,
    Receivers,
    counters,
    link_counter,
    peer_id,
    send,
    wait_for_everyone,
    wait_for_peers,
    wait_until_received,
)

ENGINE = "/sys/kernel/dma_test"
# Records of this size and more are for the engine.
THRESHOLD = 4096


def also(faults):
    """What others find as well: for the long suite."""
    return pytest.param(faults, marks=pytest.mark.long)


@pytest.fixture(scope="module")
def pair(boot):
    """Two hosts, all but the transport loaded."""
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=LOWER)
    return fabric.hosts


@contextlib.contextmanager
def engine(pair, faults="", transport=f"dma_threshold={THRESHOLD}"):
    """An engine in the first host and a link from it to the second."""
    sender, receiver = pair
    stack.load(sender, modules=("dma_test",), parameters={"dma_test": faults})
    try:
        parameters = {"pximc_ntb": f"timeout_ms=2000 {transport}"}
        stack.load(sender, modules=("pximc_ntb",), parameters=parameters)
        stack.load(receiver, modules=("pximc_ntb",))
        wait_for_everyone(*pair)
        yield
    finally:
        stack.unload(*pair, modules=("pximc_ntb",))
        stack.unload(sender, modules=("dma_test",))


def engine_counter(guest, name):
    return int(guest.run(f"cat {ENGINE}/{name}").out)


def exchange(pair, count=200, size=40000):
    """Frames of which each must arrive once, in order and intact."""
    sender, receiver = pair
    with Receivers(receiver):
        sent = send(sender, peer_id(receiver), count, size)
        seen = wait_until_received(receiver, count)
    assert (sent["sent_ok"], sent["sent_failed"]) == (count, 0)
    assert (seen["received"], seen["corrupt"], seen["repeated"]) == (count, 0, 0)


@pytest.mark.parametrize("size", [THRESHOLD, 131072])
def test_large_frames_are_copied_by_the_engine(pair, size):
    with engine(pair):
        exchange(pair, 100, size)
        assert link_counter(*pair, "dma_frames") >= 100
        assert link_counter(*pair, "dma_bytes") == 100 * size
        assert link_counter(*pair, "dma_errors") == 0
        assert engine_counter(pair[0], "copied") >= 100


def test_small_frames_and_priority_frames_are_left_to_the_cpu(pair):
    sender, receiver = pair
    with engine(pair):
        exchange(pair, 100, THRESHOLD - 1)
        with Receivers(receiver):
            send(sender, peer_id(receiver), 20, 2 * THRESHOLD, priority=1)
            assert wait_until_received(receiver, 20)["received"] == 20
        assert link_counter(*pair, "dma_frames") == 0
        assert engine_counter(sender, "copied") == 0


def test_the_engine_is_left_alone_if_a_parameter_says_so(pair):
    with engine(pair, transport="dma=0"):
        exchange(pair)
        assert engine_counter(pair[0], "copied") == 0


@pytest.mark.parametrize("faults", [also("fail_every=3"), "fail_every=5 garbage=1"])
def test_what_the_engine_fails_to_copy_is_copied_by_the_cpu(pair, faults):
    with engine(pair, faults):
        exchange(pair)
        assert engine_counter(pair[0], "failed") > 20
        assert link_counter(*pair, "dma_errors") > 20
        assert link_counter(*pair, "cpu_fallbacks") >= link_counter(*pair, "dma_errors")
        assert link_counter(*pair, "dma_frames") > 0


def test_what_the_engine_refuses_is_copied_by_the_cpu(pair):
    with engine(pair, "refuse_every=2"):
        exchange(pair)
        assert engine_counter(pair[0], "refused") > 20
        assert link_counter(*pair, "cpu_fallbacks") > 20


@pytest.mark.parametrize("faults", ["reorder=1 delay_us=300", also("reclaim=1"), "reclaim=1 reorder=1"])
def test_frames_keep_their_order_whatever_order_the_engine_takes(pair, faults):
    with engine(pair, faults):
        exchange(pair)
        assert link_counter(*pair, "dma_frames") > 0


def test_large_and_small_frames_keep_their_order(pair):
    """A small frame's copy is complete before that of the large one before it."""
    sender, receiver = pair
    with engine(pair, "delay_us=500"):
        with Receivers(receiver):
            order = f"dst={peer_id(receiver)} count=200 size=30000 mix=1"
            stack.load(sender, modules=TEST, parameters={"mp_func_test": order})
            try:
                seen = wait_until_received(receiver, 200, timeout=30)
            finally:
                stack.unload(sender, modules=TEST)
        assert (seen["received"], seen["corrupt"], seen["repeated"]) == (200, 0, 0)
        assert 0 < link_counter(*pair, "dma_frames") < 200


def test_an_engine_that_stops_reporting_is_given_up(pair):
    with engine(pair, "stall_every=20"):
        exchange(pair)
        assert engine_counter(pair[0], "stalled") > 0
        assert "the DMA engine does not finish" in pair[0].run("dmesg").out
        # Without it everything goes on.
        before = engine_counter(pair[0], "copied")
        exchange(pair)
        assert engine_counter(pair[0], "copied") == before


@pytest.mark.parametrize("faults", [also("delay_us=2000"), "stall_every=3", "reclaim=1"])
def test_the_sender_of_frames_under_way_may_be_unloaded(pair, faults):
    sender, receiver = pair
    with engine(pair, faults), Receivers(receiver):
        for _ in range(3):
            order = f"dst={peer_id(receiver)} count=100000 size=60000"
            stack.load(sender, modules=TEST, parameters={"mp_func_test": order})
            time.sleep(0.1)
            stack.unload(sender, modules=TEST)
        assert counters(receiver)["corrupt"] == 0


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("faults", [also("delay_us=2000"), "stall_every=3"])
def test_the_transport_may_be_unloaded_while_the_engine_copies(pair, faults, side):
    sender, receiver = pair
    with engine(pair, faults), Receivers(receiver):
        order = f"dst={peer_id(receiver)} count=100000 size=60000"
        stack.load(sender, modules=TEST, parameters={"mp_func_test": order})
        try:
            wait_until_received(receiver, 1)
            stack.unload(pair[side], modules=("pximc_ntb",))
            wait_for_peers(pair[1 - side], 0, timeout=5)
            stack.load(pair[side], modules=("pximc_ntb",))
            wait_for_everyone(*pair)
            seen = counters(receiver)["received"]
            assert wait_until_received(receiver, seen + 5)["received"] >= seen + 5
        finally:
            stack.unload(sender, modules=TEST)
        assert counters(receiver)["corrupt"] == 0


def test_an_engine_in_use_cannot_be_unloaded(pair):
    with engine(pair):
        assert pair[0].run("rmmod dma_test", check=False).rc != 0
        exchange(pair, 20)


def test_a_peer_that_is_killed_while_the_engine_copies_is_missed(pair):
    sender, receiver = pair
    with engine(pair, "delay_us=2000"):
        order = f"dst={peer_id(receiver)} count=100000 size=60000"
        stack.load(sender, modules=TEST, parameters={"mp_func_test": order})
        try:
            time.sleep(0.1)
            receiver.kill()
            wait_for_peers(sender, 0, timeout=5)
        finally:
            stack.unload(sender, modules=TEST)
        receiver.boot()
        stack.load(receiver, modules=(*LOWER, "pximc_ntb"))
        wait_for_everyone(*pair)
        exchange(pair, 20)
