# SPDX-License-Identifier: GPL-2.0-only
"""The local processor of the C interface: addresses of windows, and copies by the
DMA engine `dma_test`, by way of tests/modules/mp_local_test.c."""

import contextlib
import errno
import time

import pytest
from ntbrig import stack
from ntbrig.settings import PATIENCE

from frames import LOWER, wait_for_everyone, wait_for_peers
from local import command, find_outbound

pytestmark = pytest.mark.everywhere

# Of each host; less where the windows are shorter.
MEMORY_KIB = 1024
KIB = 1 << 10
L2L, L2P, P2L, P2P = range(4)


@pytest.fixture(scope="module")
def pair(boot):
    """Two hosts, all but the transport loaded."""
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=(*LOWER, "mp_local_test"))
    return fabric.hosts


@contextlib.contextmanager
def linked(pair, engine=None):
    """A link, with an engine in the first host whose faults are given."""
    sender, receiver = pair
    if engine is not None:
        stack.load(sender, modules=("dma_test",), parameters={"dma_test": engine})
    try:
        parameters = {"pximc_ntb": f"timeout_ms=2000 memory_kib={MEMORY_KIB}"}
        stack.load(*pair, modules=("pximc_ntb",), parameters=parameters)
        wait_for_everyone(*pair)
        yield sender, receiver
    finally:
        stack.unload(*pair, modules=("pximc_ntb",))
        if engine is not None:
            stack.unload(sender, modules=("dma_test",))


def find_inbound(guest):
    """The memory that the peer reaches, in the area for windows."""
    return command(guest, "in 0x10000000 0x20000000 0x10000")


def find_memory(guest):
    """The peer's memory, for later commands, and its length."""
    start = find_outbound(guest)[0]
    ends = (start + (MEMORY_KIB * KIB >> n) for n in range(8))
    end = next(end for end in ends if command(guest, f"out {end - KIB:#x} {end:#x} {KIB}"))
    find_outbound(guest)
    return end - start


def find_arena(guest):
    """Where no rings of the peer's memory are, to its end: in the last quarter of it."""
    length = find_memory(guest)
    return length // 4 * 3, length // 4


def dma(guest, direction=L2P, offset=None, length=1000, pieces=3):
    """What the call returned, calls of the callback, and its status."""
    arena, _ = find_arena(guest)
    offset = arena if offset is None else offset
    return command(guest, f"dma {direction} {offset:#x} {length} {pieces}")


def test_inbound_addresses_convert_both_ways(pair):
    """IDT-LP-1, IDT-LP-2, IDT-LP-3, IDT-LP-4"""
    with linked(pair):
        for guest in pair:
            phys, pci, right = find_inbound(guest)
            assert right == 6
            # Without an IOMMU they are the same.
            assert pci == phys


def test_outbound_addresses_convert_both_ways(pair):
    """IDT-LP-5, IDT-LP-6, IDT-LP-7, IDT-LP-8"""
    with linked(pair):
        for guest in pair:
            assert find_outbound(guest)[2] == 6


def test_addresses_outside_all_windows_are_not_converted(pair):
    """IDT-LP-10"""
    with linked(pair):
        assert command(pair[0], "in 0 0x10000000 0x10000") is None
        assert command(pair[0], "out 0 0x20000000 0x10000") is None
    assert find_inbound(pair[0]) is None
    assert find_outbound(pair[0]) is None


@pytest.mark.parametrize("length,pieces", [(1, 1), (1000, 3), (4096, 16), (555, 24)])
def test_the_engine_copies_into_the_peers_memory(pair, length, pieces):
    """IDT-LP-9, IDT-DMA-1, IDT-DMA-2, IDT-DMA-3"""
    with linked(pair, "") as (sender, receiver):
        arena, room = find_arena(sender)
        if length * pieces > room:
            pytest.skip("the windows are too short")
        find_inbound(receiver)
        command(receiver, f"spoil {arena:#x} {length * pieces}")
        assert dma(sender, length=length, pieces=pieces) == [0, 1, 0]
        assert command(receiver, f"check {arena:#x} {length * pieces}") == [length * pieces]
        wait_for_peers(sender, 1)


@pytest.mark.parametrize("direction", [L2L, P2L, P2P, 7])
def test_directions_that_are_not_supported_are_refused(pair, direction):
    """IDT-ID-7, IDT-DMA-4"""
    with linked(pair, "") as (sender, _):
        assert dma(sender, direction) == [-errno.EOPNOTSUPP, 0, 1]


def test_copies_that_cannot_be_are_refused(pair):
    """IDT-DMA-3"""
    with linked(pair, "") as (sender, _):
        memory = find_memory(sender)
        assert dma(sender, offset=memory) == [-errno.EINVAL, 0, 1]
        assert dma(sender, offset=memory - 2500) == [-errno.EINVAL, 0, 1]
        assert dma(sender, pieces=0) == [-errno.EINVAL, 0, 1]
        for pieces in (25, 33):
            assert dma(sender, length=100, pieces=pieces) == [-errno.E2BIG, 0, 1]


def test_without_an_engine_nothing_is_started(pair):
    """IDT-DMA-4"""
    with linked(pair) as (sender, _):
        assert dma(sender) == [-errno.ENODEV, 0, 1]


def test_a_copy_that_fails_tells_so_once(pair):
    """IDT-DMA-2, IDT-DMA-5"""
    with linked(pair, "fail_every=1 garbage=1") as (sender, _):
        assert dma(sender) == [0, 1, -errno.EIO]


def test_a_copy_that_the_engine_refuses_is_not_started(pair):
    """IDT-DMA-3"""
    with linked(pair, "refuse_every=1") as (sender, _):
        assert dma(sender) == [-errno.EAGAIN, 0, 1]


def test_copies_are_made_one_after_the_other_and_timed(pair):
    """What the benchmark takes for the engine's own rate."""
    with linked(pair, "") as (sender, _):
        arena, _ = find_arena(sender)
        status, ended, nanoseconds = command(sender, f"rate {arena:#x} 4096 4 50")
        assert (status, ended) == (0, 50)
        assert nanoseconds > 0


def test_a_copy_that_does_not_end_ends_with_the_link(pair):
    """IDT-DMA-2"""
    with linked(pair, "stall_every=1") as (sender, _):
        assert dma(sender)[0] == 0
    assert command(pair[0], "end 0 0") == [1, -errno.EIO]


def test_a_copy_that_does_not_end_is_given_up_in_time(pair):
    with linked(pair, "stall_every=1") as (sender, _):
        assert dma(sender)[0] == 0
        end = time.monotonic() + 5 * PATIENCE
        while command(sender, "end 0 0") != [1, -errno.EIO]:
            assert time.monotonic() < end, "it goes on"
            time.sleep(0.1)
        # Nothing is left to the engine any more; the link goes on.
        assert dma(sender) == [-errno.ENODEV, 0, 1]
        wait_for_peers(sender, 1)
