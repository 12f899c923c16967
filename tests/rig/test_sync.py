# SPDX-License-Identifier: GPL-2.0-only
"""Large received frames are copied into a function's buffers by a DMA engine, and by
the CPU whenever that fails.

The engine is `dma_test`, in the receiver, whose function is samples/mp_sample_c.c.
"""

import contextlib
import json
import time

import pytest
from ntbrig import stack
from ntbrig.settings import programs_dir

from frames import LOWER, link_counter, peer_id, wait_for_everyone
from samples import SAMPLE, flooding, order, values, wait_for

pytestmark = pytest.mark.everywhere

C = "mp_sample_c"
# One record holds it even in the ring of a window of 64 KiB.
SIZE = 12000
# There it needs several, and the CPU puts it together.
LARGE = 40000


@pytest.fixture(scope="module")
def pair(boot):
    """Two hosts, all but the transport loaded."""
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=LOWER)
    return fabric.hosts


@contextlib.contextmanager
def linked(pair, faults=""):
    """A link, an engine in the second host, and the sample on both."""
    _, receiver = pair
    stack.load(receiver, modules=("dma_test",), parameters={"dma_test": faults})
    try:
        parameters = {"pximc_ntb": "timeout_ms=2000 dma_threshold=4096"}
        stack.load(*pair, modules=("pximc_ntb",), parameters=parameters)
        stack.load(*pair, modules=SAMPLE)
        wait_for_everyone(*pair)
        yield
    finally:
        stack.unload(*pair, modules=SAMPLE)
        stack.unload(*pair, modules=("pximc_ntb",))
        stack.unload(receiver, modules=("dma_test",))


def exchange(pair, count=200, size=SIZE):
    """Frames of which each must arrive once and intact, and none may leave a buffer."""
    sender, receiver = pair
    sender.run(order(peer_id(receiver), count, size), timeout=30)
    seen = wait_for(receiver, C, received=count)
    assert (seen["received"], seen["corrupt"], seen["repeated"]) == (count, 0, 0)
    assert seen["buffers"] == 0


def is_one_record(guest, size):
    """Whether that is less than half of the ring in which the guest receives it."""
    [link] = json.loads(guest.run(f"{programs_dir()}/ntbctl --json links").out)
    return size < max(ring["rx_size"] for ring in link["rings"]) // 2


@pytest.mark.parametrize("size", [4096, SIZE, LARGE, 65536])
def test_the_engine_copies_into_the_functions_buffers(pair, size):
    """IDT-MSG-5"""
    with linked(pair):
        exchange(pair, 200, size)
        copied = link_counter(*reversed(pair), "dma_received") > 0
        assert copied == is_one_record(pair[1], size)
        assert link_counter(*reversed(pair), "dma_errors") == 0


def test_small_frames_are_left_to_the_cpu(pair):
    with linked(pair):
        exchange(pair, 200, 4095)
        assert link_counter(*reversed(pair), "dma_received") == 0


@pytest.mark.parametrize("faults", ["fail_every=3", "fail_every=5 garbage=1"])
def test_what_the_engine_fails_to_copy_is_copied_by_the_cpu(pair, faults):
    with linked(pair, faults):
        exchange(pair)
        assert link_counter(*reversed(pair), "dma_errors") > 0
        assert link_counter(*reversed(pair), "dma_received") > 0


@pytest.mark.parametrize("faults", ["refuse_every=2", "reclaim=1", "delay_us=500"])
def test_frames_arrive_whatever_the_engine_does(pair, faults):
    with linked(pair, faults):
        exchange(pair, size=LARGE)


def test_an_engine_that_stops_reporting_is_given_up(pair):
    with linked(pair, "stall_every=20"):
        exchange(pair, 100)
        assert "the DMA engine does not finish" in pair[1].run("dmesg").out
        exchange_more(pair)


def exchange_more(pair):
    """Without the engine everything goes on."""
    sender, receiver = pair
    before = values(receiver, C)["received"]
    sender.run(order(peer_id(receiver), 50, SIZE), timeout=30)
    assert wait_for(receiver, C, received=before + 50)["received"] == before + 50


@pytest.mark.parametrize("faults", ["delay_us=2000", "stall_every=3"])
def test_modules_may_go_while_the_engine_copies(pair, faults):
    sender, receiver = pair
    with linked(pair, faults):
        with flooding(sender, peer_id(receiver), 100, LARGE):
            for modules in (SAMPLE, ("pximc_ntb",)):
                wait_for(receiver, C, received=10)
                stack.unload(receiver, modules=modules)
                time.sleep(0.1)
                stack.load(receiver, modules=modules)
            wait_for_everyone(*pair)
        assert values(receiver, C)["corrupt"] == 0
