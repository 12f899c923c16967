# SPDX-License-Identifier: GPL-2.0-only
"""Memory that programs of SISCI give to segments, and that is copied for them.

The bridges have three windows, of which the third can be led to any page. A DMA engine
copies what is large enough for it.
"""

import pytest
import sharing
import sisci
from ntbrig import stack
from ntbrig.settings import MIB
from pximc import MODULES
from shell import INTACT, until
from sisci import NODES, PAGE, SCI, fails, pair

# Memory that the kernel leaves alone, and what it uses.
ADDRESS, SIZE = 384 * MIB, MIB
SYSTEM_RAM = 16 * MIB
# Much for the engine, which takes no less than 16 KiB.
MUCH = 256 * 1024
ENGINE = "dma_test"


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2, kernel_options=f"memmap={SIZE // MIB}M${ADDRESS // MIB}M")
    for guest in fabric.hosts:
        # So small a machine has none otherwise.
        guest.run("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
    bottom, *others = MODULES
    stack.load(*fabric.hosts, modules=(bottom, ENGINE))
    parameters = {"ntb_hw_ivshmem": "personality=amd"}
    sisci.load(*fabric.hosts, modules=others, parameters=parameters)
    return fabric


@pytest.fixture(params=("another host", "the same host"))
def ends(request, fabric):
    with pair(fabric, request.param == "the same host") as both:
        yield both


def empty(program, number, room):
    return program.SCICreateSegment(program.sd, number, room, None, SCI.FLAG_EMPTY)


def show(program, segment):
    program.SCIPrepareSegment(segment, program.adapter, 0)
    program.SCISetSegmentAvailable(segment, program.adapter, 0)


def scattered(program, pages):
    """Memory in pages that are no run: the kernel gives them in a row as a rule, but not in
    this direction."""
    memory = program.allocate(pages * PAGE)
    for page in reversed(range(pages)):
        program.write(memory + page * PAGE, b"there")
    return memory


def copy(program, segment, connection, length, flags=0):
    """Copy from a segment to another host's, or back, by a queue."""
    queue = program.queue(1)
    program.SCIStartDmaTransfer(queue, segment, connection, 0, length, 0, None, flags)
    assert sisci.DMA[program.SCIWaitForDMAQueue(queue, 20000, 0)] == "DONE"


def copied(guest):
    """How many pieces the engine has copied."""
    return int(guest.run(f"cat /sys/kernel/{ENGINE}/copied").out)


@pytest.mark.parametrize("length", [PAGE, 2 * MIB])
def test_memory_of_a_program_is_a_segment_for_others(ends, length):
    """SI-REGMEM-1, SI-REGMEM-4, SI-REGMEM-6, SI-CRSEG-4, SI-SDMA-3, SI-PREP-3, SI-RMSEG-1: and it
    is the program's again when the segment is gone."""
    owner, user, node = ends
    memory = owner.allocate_runs(length)
    owner.fill(memory, length, 1)
    before = sharing.pinned(owner.guest)
    segment = empty(owner, 31, length)
    with fails("ILLEGAL_OPERATION"):
        owner.SCIPrepareSegment(segment, owner.adapter, 0)
    owner.SCIRegisterSegmentMemory(memory, length, segment, SCI.FLAG_LOCK_USER_MEM)
    assert sharing.pinned(owner.guest) - before == length // PAGE
    with fails("ILLEGAL_OPERATION"):
        owner.SCIRegisterSegmentMemory(memory, length, segment, 0)
    show(owner, segment)
    connection = user.connect(node, 31)
    assert user.SCIGetRemoteSegmentSize(connection) == length
    mapped, remote = user.map_remote(connection, length)
    user.fill(remote, length, 2)
    until(lambda: owner.check(memory, length, 2) == INTACT)
    # A map of the segment is the same memory.
    local_map, local = owner.map_local(segment, length)
    owner.fill(local, length, 3)
    assert owner.check(memory, length, 3) == INTACT
    # It is copied to as any other segment, and from.
    back = user.segment(32, length)
    _, arrives = user.map_local(back, length)
    there = owner.connect(NODES[0], 32)
    owner.map_remote(there, length)
    copy(owner, segment, there, length)
    assert user.check(arrives, length, 3) == INTACT
    with fails("BUSY"):
        owner.SCIRemoveSegment(segment, 0)
    user.SCIUnmapSegment(mapped, 0)
    user.SCIDisconnectSegment(connection, 0)
    owner.SCIUnmapSegment(local_map, 0)
    until(lambda: removed(owner, segment))
    assert owner.check(memory, length, 3) == INTACT
    sharing.wait_until_unpinned(owner.guest, before)


def removed(program, segment):
    """Whether nobody keeps it any longer."""
    try:
        program.SCIRemoveSegment(segment, 0)
    except sisci.SisciError as error:
        assert error.name == "BUSY"
        return False
    return True


def test_pages_that_are_no_run_are_reached_by_transfers(fabric):
    """SI-REGMEM-5, SI-NTB-6, SI-CONSEG-2, SI-MAPR-7, SI-SDMA-2, SI-SDMA-3: no window leads there,
    and there is nothing to map."""
    length = 16 * PAGE
    with pair(fabric) as (owner, user, node):
        memory = scattered(owner, 16)
        segment = empty(owner, 33, length)
        owner.SCIRegisterSegmentMemory(memory, length, segment, 0)
        show(owner, segment)
        connection = user.connect(node, 33)
        assert user.SCIGetRemoteSegmentSize(connection) == length
        assert owner.local_event(segment)[0] == "CONNECT"
        with fails("HW_NOSPC"):
            user.map_remote(connection, length)
        local = user.segment(34, length)
        _, mapped = user.map_local(local, length)
        user.fill(mapped, length, 4)
        copy(user, local, connection, length)
        assert owner.check(memory, length, 4) == INTACT
        owner.fill(memory, length, 5)
        copy(user, local, connection, length, SCI.FLAG_DMA_READ)
        assert user.check(mapped, length, 5) == INTACT


def test_what_is_read_goes_to_any_memory_of_the_program(ends):
    """SI-SDMA-2, SI-SDMAM-1, SI-SDMAM-3: at any address, and in segments over such memory."""
    owner, user, node = ends
    _, remote = owner.map_local(owner.segment(38, MUCH), MUCH)
    connection = user.connect(node, 38)
    user.map_remote(connection, MUCH)
    queue = user.queue(1)
    memory = scattered(user, MUCH // PAGE + 1)
    before = sharing.pinned(user.guest)
    for seed, (at, size, place) in enumerate([(0, MUCH, 0), (5, MUCH - 8, 3), (1, 7, 99)], 6):
        owner.fill(remote + place, size, seed)
        flags = SCI.FLAG_DMA_READ
        user.SCIStartDmaTransferMem(queue, memory + at, connection, size, place, None, flags)
        assert sisci.DMA[user.SCIWaitForDMAQueue(queue, 20000, 0)] == "DONE"
        assert user.check(memory + at, size, seed) == INTACT
    sharing.wait_until_unpinned(user.guest, before)
    segment = empty(user, 39, MUCH)
    user.SCIRegisterSegmentMemory(memory, MUCH, segment, 0)
    user.SCIPrepareSegment(segment, user.adapter, SCI.FLAG_DMA_SOURCE_ONLY)
    owner.fill(remote, MUCH, 9)
    copy(user, segment, connection, MUCH, SCI.FLAG_DMA_READ)
    assert user.check(memory, MUCH, 9) == INTACT


def test_physical_memory_is_a_segment_for_others(ends):
    """SI-APHYS-1, SI-APHYS-2, SI-APHYS-4: as long as the segment lasts, and the memory outlives
    it."""
    owner, user, node = ends
    segment = empty(owner, 35, SIZE)

    def attach(address, size):
        owner.SCIAttachPhysicalMemory(address, 0, 0, size, segment, 0)

    with fails("NOT_SUPPORTED"):
        attach(SYSTEM_RAM, PAGE)
    with fails("OUT_OF_RANGE"):
        attach(ADDRESS, 2 * SIZE)
    attach(ADDRESS, SIZE)
    with fails("ILLEGAL_OPERATION"):
        attach(ADDRESS, SIZE)
    show(owner, segment)
    local_map, local = owner.map_local(segment, SIZE)
    connection = user.connect(node, 35)
    _, remote = user.map_remote(connection, SIZE)
    user.fill(remote, SIZE, 5)
    until(lambda: owner.check(local, SIZE, 5) == INTACT)
    owner.SCIUnmapSegment(local_map, 0)
    with fails("BUSY"):
        owner.SCIRemoveSegment(segment, 0)
    owner.SCIRemoveSegment(segment, SCI.FLAG_FORCE_REMOVE)
    assert [user.remote_event(connection)[0] for _ in range(2)] == ["DISCONNECT", "LOST"]
    segment = empty(owner, 35, SIZE)
    attach(ADDRESS, SIZE)
    _, local = owner.map_local(segment, SIZE)
    assert owner.check(local, SIZE, 5) == INTACT


def test_memory_of_a_program_is_copied_where_it_is(ends):
    """SI-SDMAM-1, SI-SDMAM-2, SI-SDMAM-3: by the engine if there is much, from any address."""
    owner, user, node = ends
    segment = owner.segment(36, MUCH)
    _, local = owner.map_local(segment, MUCH)
    connection = user.connect(node, 36)
    user.map_remote(connection, MUCH)
    queue = user.queue(1)
    memory = scattered(user, MUCH // PAGE + 1)
    before = sharing.pinned(user.guest)
    for seed, (at, size, place) in enumerate([(0, MUCH, 0), (5, MUCH - 8, 3), (1, 7, 99)], 6):
        pieces = copied(user.guest)
        user.fill(memory + at, size, seed)
        user.SCIStartDmaTransferMem(queue, memory + at, connection, size, place, None, 0)
        assert sisci.DMA[user.SCIWaitForDMAQueue(queue, 20000, 0)] == "DONE"
        assert owner.check(local + place, size, seed) == INTACT
        is_for_engine = size > PAGE and owner.guest is not user.guest
        assert (copied(user.guest) > pieces) == is_for_engine
    sharing.wait_until_unpinned(user.guest, before)
    # Memory that a segment has from the driver cannot be pinned, and is read at once.
    _, source = user.map_local(user.segment(37))
    user.fill(source, PAGE, 9)
    user.SCIStartDmaTransferMem(queue, source, connection, PAGE, 2 * PAGE, None, 0)
    assert user.dma_state(queue) == "DONE"
    assert owner.check(local + 2 * PAGE, PAGE, 9) == INTACT
    with fails("ILLEGAL_ADDRESS"):
        user.SCIStartDmaTransferMem(queue, PAGE, connection, MUCH, 0, None, 0)
