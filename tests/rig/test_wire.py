# SPDX-License-Identifier: GPL-2.0-only
"""What one host writes into another one's memory, byte for byte as Documentation/wire-format.md
has it. The memory is looked at from outside, in the file that is the guest's RAM."""

import struct
from typing import NamedTuple

import pytest
from ntbrig import qemu, stack

from frames import (
    TRANSPORT,
    Receivers,
    counters,
    peer_counter,
    peer_id,
    send,
    wait_for_everyone,
    wait_until_received,
)
from samples import SAMPLE, order, values

# Of inbound memory: where it can begin, and its length.
ALIGNMENT, SLOT = 64 << 10, 4 << 20
UNIT = 64
SERVICE, TEST_FUNCTION = 0, 0x54534554
HERE = 1
CONTROL = 0


class Record(NamedTuple):
    """A frame in one block of a ring, as its bytes have it."""

    place: int
    index: int
    buffer_len: int
    hdr_len: int
    len: int
    mark: int
    dst: int
    src: int
    msg_len: int
    func: int
    rest: bytes


@pytest.fixture(scope="module")
def fabric(boot):
    """Three hosts whose links are up, and last while one of them stands still."""
    fabric = boot(hosts=3)
    stack.load(*fabric.hosts, modules=TRANSPORT, parameters={"pximc_ntb": "timeout_ms=60000"})
    wait_for_everyone(*fabric.hosts)
    return fabric


def hellos(fabric, owner, sender):
    """What the sender has ever written its Hello into, in the owner's memory: its place, and
    all from there on."""
    start, size = fabric.settings.area_base, fabric.settings.area_size
    with open(qemu.ram_file(fabric.directory, owner.port), "rb") as ram:
        ram.seek(start)
        area = ram.read(size)
    for at in range(0, size, ALIGNMENT):
        if area[at : at + 4] == b"MPEH" and u32(area, at + 24) == sender.port << 8:
            yield start + at, area[at : at + SLOT]


def inbound(fabric, owner, sender):
    """The place in the owner's memory that the sender writes to, all that is there, and what is
    in the memory that the owner writes to: of the two that name each other's epoch."""
    epochs = lambda memory: (u64(memory, 8), u64(memory, 16))
    answers = [memory for _, memory in hellos(fabric, sender, owner)]
    for place, memory in hellos(fabric, owner, sender):
        for answer in answers:
            if epochs(memory) == epochs(answer)[::-1]:
                return place, memory, answer
    raise AssertionError(f"{owner} and {sender} do not know each other")


def u32(memory, offset):
    return struct.unpack_from("<I", memory, offset)[0]


def u64(memory, offset):
    return struct.unpack_from("<Q", memory, offset)[0]


def mix(x):
    x ^= x >> 32
    x = x * 0xD6E8FEB86659FD93 % (1 << 64)
    x ^= x >> 29
    x = x * 0xA0761D6478BD642F % (1 << 64)
    return x ^ (x >> 32)


def tag(writer, reader):
    y = mix(mix(writer) ^ reader)
    return (y ^ (y >> 32)) % (1 << 32) or 1


def mark(tag, index):
    return ((tag ^ (index * 0x9E3779B1 % (1 << 32))) * 0x85EBCA6B) % (1 << 32)


def ram_on_the_bus(fabric, guest, other):
    """Where the guest reaches the other one's RAM: BAR 2 of a device."""
    (board,) = fabric.settings.boards
    device = board.plain_slot_base + board.port(other.port)
    bars = guest.run(f"cat /sys/bus/pci/devices/0000:00:{device:02x}.0/resource").out
    return int(bars.splitlines()[2].split()[0], 16)


class Reader:
    """The rings that one host fills in another one's memory, which lie there as the reader's
    Hello in the writer's memory says."""

    def __init__(self, fabric, reader, writer):
        self.place, self.memory, answer = inbound(fabric, reader, writer)
        self.tag = tag(u64(self.memory, 8), u64(answer, 8))
        sizes = [u32(answer, 72)] + [u32(answer, 76)] * u32(answer, 44)
        data, control = u64(answer, 64), u64(answer, 56)
        places = [control] + [data + n * sizes[1] for n in range(len(sizes) - 1)]
        self.rings = list(zip(places, sizes))

    def published(self, ring):
        """How many units have been."""
        word = u64(self.memory, 0x200 + 128 * ring)
        return word % (1 << 32) if word >> 32 == self.tag else 0

    def records(self, ring):
        """All of a ring that has not come to its end yet."""
        start, size = self.rings[ring]
        index, end = 0, self.published(ring)
        assert end * UNIT <= size, "it has begun again from its start"
        while index < end:
            at = start + index * UNIT
            head = struct.unpack_from("<8I", self.memory, at)
            yield Record(self.place + at, index, *head, self.memory[at + 32 : at + head[0]])
            index += -(-head[0] // UNIT)

    def frames(self, func, rings=None):
        """Those for a function, by ring."""
        rings = range(len(self.rings)) if rings is None else rings
        return {n: found for n in rings if (found := [r for r in self.records(n) if r.func == func])}


@pytest.mark.parametrize("size", (0, 100, 5000))
def test_a_frame_stands_in_the_other_hosts_memory_as_documented(fabric, size):
    """IDT-MSG-1, IDT-EP-2, IDT-EP-6: little-endian, with the lengths that the guide has, the
    function's header and the data behind them, and a mark of epoch and place in the word that
    the guide reserves."""
    rp, ep1, _ = fabric.hosts
    restart(fabric)
    with Receivers(ep1):
        send(rp, peer_id(ep1), 10, size)
        assert wait_until_received(ep1, 10)["received"] == 10
        reader = Reader(fabric, ep1, rp)
    found = [frame for frames in reader.frames(TEST_FUNCTION).values() for frame in frames]
    assert sorted(struct.unpack_from("<I", frame.rest)[0] for frame in found) == list(range(10))
    for frame in found:
        assert (frame.hdr_len, frame.len) == (16 + 4, size)
        assert frame.buffer_len == 16 + 16 + 4 + size
        assert (frame.dst, frame.src) == (0x100, 0)
        assert (frame.msg_len, frame.func) == (4 + size, TEST_FUNCTION)
        assert frame.mark == mark(reader.tag, frame.index)
        assert len(frame.rest) == 4 + size


def test_an_endpoint_is_announced_by_its_peer_data(fabric):
    """IDT-EP-3, IDT-EP-5: where on the root processor's bus its memory is, and which index it
    has been given, in little-endian words; to each other endpoint."""
    rp, *endpoints = fabric.hosts
    restart(fabric)
    for told, other in (endpoints, endpoints[::-1]):
        messages = Reader(fabric, told, rp).frames(SERVICE, [CONTROL])[CONTROL]
        heads = [struct.unpack_from("<IIIQQII", message.rest) for message in messages]
        announced = [head for head in heads if head[:2] == (HERE, peer_id(other))]
        assert announced, heads
        place, _, _ = inbound(fabric, other, rp)
        for _, _, _, inb_base, reg_base, index, zero in announced:
            assert inb_base == ram_on_the_bus(fabric, rp, other) + place
            assert (reg_base, index, zero) == (0, other.port, 0)


def test_a_frame_whose_header_is_not_true_is_dropped_and_counted(fabric):
    """IDT-MSG-8: from a host that is at another link, from nobody, and longer than it is; what
    comes behind it is received."""
    rp, ep1, ep2 = fabric.hosts
    restart(fabric)
    source, length = 16 + 4, 16 + 8
    lies = ((source, peer_id(ep2)), (source, 0x7700), (length, 4 + 100 + 1))
    # What says that it was forwarded may be an old one's as well.
    names = "cd /sys/kernel/mp && cat dropped_bad_header dropped_stale"
    counted = lambda: (
        sum(map(int, ep1.run(names).out.split())),
        peer_counter(ep1, peer_id(rp), "rx_errors"),
    )
    with Receivers(ep1):
        before = counted()
        ep1.freeze()
        try:
            assert send(rp, peer_id_of(ep1), 5, 100)["sent_ok"] == 5
            rings = Reader(fabric, ep1, rp).frames(TEST_FUNCTION).values()
            frames = [frame for ring in rings for frame in ring]
            with open(qemu.ram_file(fabric.directory, ep1.port), "r+b") as ram:
                for frame, (offset, value) in zip(frames, lies):
                    ram.seek(frame.place + offset)
                    ram.write(struct.pack("<I", value))
        finally:
            ep1.thaw()
        assert len(frames) == 5
        seen = wait_until_received(ep1, 2)
        assert (seen["received"], seen["corrupt"]) == (2, 0)
        assert counted() == tuple(count + len(lies) for count in before)


def test_a_priority_frame_overtakes_those_that_wait_for_room(fabric):
    """IDT-ID-6: it is in the other host's memory while ordinary frames that were sent before
    still wait for room there."""
    rp, ep1, _ = fabric.hosts
    restart(fabric)
    count = 20000
    # Its own clock shows how long it has stood still.
    ep1.run("sysctl -e -w kernel.watchdog=0")
    stack.load(rp, ep1, modules=SAMPLE)
    try:
        with Receivers(ep1):
            ep1.freeze()
            try:
                flood = rp.spawn(order(peer_id_of(ep1), count, 2000), 120)
                wait_until_full(rp)
                stack.load(
                    rp,
                    modules=("mp_func_test",),
                    parameters={"mp_func_test": f"dst={peer_id_of(ep1)} count=1 size=100 priority=1"},
                )
                stack.wait_until(stack.holds("/sys/kernel/mp_func_test/done", "= 1"), rp)
                waiting = count - values(rp, "mp_sample_c")["success"]
                urgent = Reader(fabric, ep1, rp).frames(TEST_FUNCTION, [CONTROL])
            finally:
                ep1.thaw()
            stack.unload(rp, modules=("mp_func_test",))
            assert waiting > 0
            assert len(urgent[CONTROL]) == 1
            flood.wait().check()
            seen = counters(ep1)
            assert (seen["received"], seen["corrupt"]) == (1, 0)
    finally:
        stack.unload(rp, ep1, modules=SAMPLE)


def peer_id_of(guest):
    """Of a guest that need not answer."""
    return guest.port << 8


def wait_until_full(guest):
    """Wait until what the sample has sent grows no more."""
    guest.run(
        "f=/sys/kernel/mp_sample_c/success; until a=$(cat $f); sleep 0.3;"
        ' [ "$a" -gt 0 ] && [ "$a" = "$(cat $f)" ]; do :; done'
    )


def restart(fabric):
    """End the epochs, so that rings begin at their start."""
    stack.unload(*fabric.hosts, modules=("pximc_ntb",))
    parameters = {"pximc_ntb": "timeout_ms=60000"}
    stack.load(*fabric.hosts, modules=("pximc_ntb",), parameters=parameters)
    wait_for_everyone(*fabric.hosts)
