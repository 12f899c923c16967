# SPDX-License-Identifier: GPL-2.0-only
"""What crosses between VIs of two hosts, and of two programs of one: descriptors and their status,
work queues, completion queues, handlers, remote memory, order, and limits."""

import random
import re
import struct

import pytest
from ntbrig.settings import PATIENCE
from places import all_ends, fabric
from shell import INTACT, until
from vipl import (
    LEVELS, PAGE, RD, RECV, RR, SEND, STATUS, UD, Segment, ViplError, connect, descriptor, ends,
    fails, stopped,
)  # fmt: skip

IMMEDIATE, FENCE = 4, 8
WRITE, READ = 1, 2
GUARD = b"\xee"
DONE = STATUS.DONE


# --- descriptors and their status


@pytest.mark.parametrize("level", LEVELS)
def test_a_descriptor_comes_back_with_what_it_has_done(ends, level):
    """VI-DESC-1, VI-DESC-7, VI-DESC-8, VI-DESC-10, VI-DESC-11, VI-DESC-13, VI-DESC-15, VI-DESC-16,
    VI-DESC-17, VI-RDMA-1, VI-RDMA-2, VI-RDMA-3, VI-RDMA-4, VI-RDMA-6, VI-WQ-2, VI-LIM-4, VI-POST-3:
    the whole status, length and immediate data of each operation, with data and without; fields
    that mean nothing there are ignored, and no other one is changed."""
    server, client = ends.connected(level)
    where = server.part(0x1000, 0)
    has = client.program.nic_attributes(client.nic)
    assert (has.levels, has.reads) == (UD | RD | RR, RD | RR)
    cases = [
        # control, bytes, remote; what the receive says if it is consumed
        (0, b"data", None, STATUS.OP_RECEIVE),
        (0, b"", None, STATUS.OP_RECEIVE),
        (IMMEDIATE, b"data", None, STATUS.OP_RECEIVE | STATUS.IMMEDIATE),
        (IMMEDIATE, b"", None, STATUS.OP_RECEIVE | STATUS.IMMEDIATE),
        (IMMEDIATE | FENCE, b"data", None, STATUS.OP_RECEIVE | STATUS.IMMEDIATE),
        (WRITE, b"written", where, None),
        (WRITE, b"", where, None),
        (WRITE | IMMEDIATE, b"longer", where, STATUS.OP_REMOTE_RDMA_WRITE | STATUS.IMMEDIATE),
        (WRITE | IMMEDIATE, b"", where, STATUS.OP_REMOTE_RDMA_WRITE | STATUS.IMMEDIATE),
    ]
    if level != UD:
        cases += [(READ, b"read", where, None), (READ | IMMEDIATE, b"", where, None)]
    operations = {0: STATUS.OP_SEND, WRITE: STATUS.OP_RDMA_WRITE, READ: STATUS.OP_RDMA_READ}
    for number, (control, data, remote, consumed) in enumerate(cases):
        server.program.write(server.data, GUARD * 64)
        server.program.write(server.data + 0x1000, b"read".ljust(16, GUARD))
        # Length, immediate data and flags of a receive have no meaning.
        odd = {"control": IMMEDIATE | FENCE, "immediate": 0xBAD, "length": 0xBAD}
        there = server.post(RECV, [server.part(0, 8)], **odd)
        here = client.send(data, control=control, immediate=0x1000 + number, remote=remote)
        sent = client.wait(SEND)
        assert (sent.descriptor, sent.length) == (here, len(data))
        assert sent.status == DONE | operations[control & 3]
        if consumed is None:
            # A message behind it consumes the receive.
            client.send(b"behind", 0x11000)
            assert client.wait(SEND).status == DONE
        got = server.wait(RECV)
        assert got.descriptor == there
        if consumed is None:
            assert (got.status, got.length) == (DONE | STATUS.OP_RECEIVE, 6)
        else:
            assert (got.status, got.length) == (DONE | consumed, len(data))
            if consumed & STATUS.IMMEDIATE:
                assert got.immediate == 0x1000 + number
        # Data of a send and that of a write go where they are to go, and nowhere else.
        sent_there = b"behind" if consumed is None else data if control & 3 == 0 else b""
        assert server.bytes(0, 16) == sent_there.ljust(16, GUARD)
        written = data if control & 3 == WRITE else b""
        assert server.bytes(0x1000, 16) == (written + b"read"[len(written) :]).ljust(16, GUARD)
        if control & 3 == READ:
            assert client.bytes(0x10000, len(data)) == b"read"[: len(data)]
        raw = server.program.read(there, 32 + 16)
        assert struct.unpack_from("<HHI", raw, 12) == (1, IMMEDIATE | FENCE, 0)
        assert struct.unpack_from("<II", raw, 24) == (got.length, got.status)
        assert struct.unpack_from("<QII", raw, 32) == server.part(0, 8)
        assert server.done(RECV) is None


@pytest.mark.parametrize("shape", ("send", "write", "read"))
def test_any_pieces_go_to_any_pieces(ends, shape):
    """VI-DESC-3, VI-DESC-18, VI-DESC-19, VI-LIM-2, SC-20: up to 252 with data, at every alignment,
    and nothing around them is touched."""
    server, client = ends.pair(pages=80)
    connect(server, client)
    chance = random.Random(5)
    own = scatter(client, [chance.randint(1, 100) for _ in range(MOST)])
    total = sum(segment.length for segment in own)
    sources, targets = own, [server.part(7, total)]
    if shape == "send":
        targets = scatter(server, cut(chance, total))
        large(server, RECV, targets)
    if shape == "read":
        sources, targets = targets, own
    for side, seed in ((client, 1), (server, 2)):
        side.program.fill(side.data, SPAN, seed)
    source, target = (server, client) if shape == "read" else (client, server)
    stream, wanted = collect(source, sources), bytearray(target.bytes(0, SPAN))
    for segment in targets:
        at, length = segment.address - target.data, segment.length
        wanted[at : at + length], stream = stream[:length], stream[length:]
    fields = {"send": {}, "write": {"control": WRITE}, "read": {"control": READ}}[shape]
    large(client, SEND, own, remote=None if shape == "send" else server.part(7, 0), **fields)
    if shape == "send":
        assert server.wait(RECV).length == total
    done = client.wait(SEND)
    assert (done.errors, done.length) == (set(), total)
    if shape == "write":
        # It is there before a later message.
        server.receive(SPAN, 1)
        client.send(b"!")
        assert server.wait(RECV).errors == set()
    assert target.bytes(0, SPAN) == wanted


# Most pieces with data, how far apart they are, and bytes of all of them.
MOST, STEP = 252, 512
SPAN = MOST * STEP


def scatter(side, lengths):
    """Pieces of these lengths, each at another alignment."""
    places = (n * STEP + n % 64 for n in range(len(lengths)))
    return [side.part(place, length) for place, length in zip(places, lengths)]


def cut(chance, total):
    """Lengths of as many pieces that have so many bytes together; some are empty."""
    cuts = sorted(chance.choices(range(total + 1), k=MOST - 1))
    lengths = [end - begin for begin, end in zip([0, *cuts], [*cuts, total])]
    assert max(lengths) < STEP - 64
    return lengths


def collect(side, segments):
    """The bytes of pieces, in order."""
    whole = side.bytes(0, SPAN)
    starts = ((segment.address - side.data, segment.length) for segment in segments)
    return b"".join(whole[at : at + length] for at, length in starts)


def large(side, queue, segments, **fields):
    """Post a descriptor of up to a page, in one of the pages before the data."""
    return side.post(queue, segments, at=side.base + (6 + queue) * PAGE, **fields)


@pytest.mark.parametrize("level", LEVELS)
def test_the_longest_transfer_arrives(ends, level):
    """VI-LIM-5, VI-REL-7, SC-8: a byte more is an error; buffers can be used again at once."""
    most = 1 << 18
    server, client = ends.pair(level, size=most, pages=8 + 64 + 64)
    connect(server, client)
    server.receive(0, most)
    client.program.fill(client.data, most, 1)
    client.post(SEND, [client.part(0, most)])
    done = client.wait(SEND)
    assert (done.errors, done.length) == (set(), most)
    client.program.fill(client.data, most, 2)
    got = server.wait(RECV)
    assert (got.errors, got.length) == (set(), most)
    assert server.program.check(server.data, most, 1) == INTACT
    client.post(SEND, [client.part(0, most), client.part(0, 1)])
    assert client.wait(SEND).errors == {"LENGTH"}


def test_the_longest_transfer_of_an_interface_arrives(ends):
    """VI-LIM-5: as many bytes as it tells, and a byte more is an error."""
    has = ends.program(0)
    nic = has.open_nic()
    most = has.nic_attributes(nic).transfer
    has.close_nic(nic)
    assert most == 16 << 20
    server, client = ends.pair(RD, size=most, pages=8 + most // PAGE)
    connect(server, client)
    server.receive(0, most)
    client.program.fill(client.data, most, 1)
    client.post(SEND, [client.part(0, most)])
    assert (client.wait(SEND).errors, server.wait(RECV).length) == (set(), most)
    assert server.program.check(server.data, most, 1) == INTACT
    client.post(SEND, [client.part(0, most), client.part(0, 1)])
    assert client.wait(SEND).errors == {"LENGTH"}


@pytest.mark.parametrize("count", (40, pytest.param(2000, marks=pytest.mark.long)))
def test_a_posted_descriptor_that_changes_is_safe(ends, count):
    """VI-DESC-21: whatever a program stores into one that is posted, and while it is used, it comes
    back, and nothing but its own pieces is touched."""
    server, client = ends.connected(UD)
    server.program.write(server.data + 0x1000, GUARD * 64)
    at = server.slot()
    # SegCount and Control, and the length of its piece.
    storms = [
        server.program.later.storm(at + offset, 1, byte, 40 * count)
        for offset, byte in ((12, 0), (12, 1), (44, 0), (44, 8))
    ]
    for n in range(count):
        server.post(RECV, [server.part(0, 8)], at=at)
        client.send(b"%08d" % n)
        assert client.wait(SEND).status == DONE
        done = server.wait(RECV)
        assert done.descriptor == at and done.errors <= {"LENGTH"}
        assert done.errors or server.bytes(0, 8) == b"%08d" % n
        assert server.state() == "CONNECTED"
    assert server.bytes(0x1000, 64) == GUARD * 64
    for storm in storms:
        storm.result(120)
    server.receive(0, 8)
    client.send(b"12345678")
    assert (server.wait(RECV).errors, server.bytes(0, 8)) == (set(), b"12345678")


# --- work queues


# Receives of one round, and how far apart their descriptors are; bytes of each message.
ROUND, STRIDE, MESSAGE = 1000, 64, 64


def posts_a_round(sender, receiver):
    """Post receives for messages of which each byte is the message's number; where they are, and what
    sends them."""
    at, data = receiver.base, receiver.data
    # With more room than is needed, so that nothing in it is as it will be.
    room = MESSAGE + 4
    model = descriptor([Segment(data, receiver.memory, room)], length=room)
    receiver.program.write(at, model)
    receiver.program.fill(data, ROUND * MESSAGE, 1)
    copies = (STRIDE, MESSAGE, receiver.memory, ROUND)
    receiver.program.post_copies(receiver.vi, RECV, at, *copies)
    model = descriptor([Segment(sender.data, sender.memory, MESSAGE)], IMMEDIATE, length=MESSAGE)
    sender.program.write(sender.base, model)

    def send():
        copies = (STRIDE, MESSAGE, sender.memory, ROUND)
        sender.program.post_copies(sender.vi, SEND, sender.base, *copies)
        assert sender.program.collect(sender.vi, SEND, ROUND) == (ROUND, 0)

    return (at, STRIDE, data, MESSAGE, ROUND), send


# Pages of a side that a round is in: descriptors, and data behind them.
DESCRIPTORS, PAGES = -(-ROUND * STRIDE // PAGE), 64


def rounds_of(sides):
    """Give sides room for rounds."""
    for side in sides:
        side.data = side.base + DESCRIPTORS * PAGE
    sides[1].put(0, b"".join(bytes([n & 255]) * MESSAGE for n in range(ROUND)))
    return sides


@pytest.mark.parametrize("rounds", (2, pytest.param(100, marks=pytest.mark.long)))
@pytest.mark.parametrize("level", (RD, RR))
def test_a_reader_that_spins_sees_whole_completions(ends, level, rounds):
    """VI-DESC-14: as soon as a descriptor is done, all of it and its data are there, for a thread that
    calls nothing and looks at memory."""
    server, client = rounds_of(ends.connected(level, pages=PAGES))
    for _ in range(rounds):
        receives, send = posts_a_round(client, server)
        seen = server.program.later.watch(*receives)
        send()
        assert seen.result() == (0, 0)
        assert server.program.collect(server.vi, RECV, ROUND) == (ROUND, 0)


@pytest.mark.parametrize("rounds", (2, pytest.param(100, marks=pytest.mark.long)))
@pytest.mark.parametrize("level", (RD, RR))
def test_whoever_sees_an_entry_gets_the_whole_completion(ends, level, rounds):
    """VI-CQ-14: the descriptor of the queue that the entry names, with all that it says and its data."""
    sides = ends.pair(level, server={"recv_cq": ROUND}, pages=PAGES)
    connect(*sides)
    server, client = rounds_of(sides)
    for _ in range(rounds):
        receives, send = posts_a_round(client, server)
        seen = server.program.later.take_entries(server.cqs["recv_cq"], *receives)
        send()
        assert seen.result() == (0, 0)


@pytest.mark.parametrize("level", LEVELS)
def test_a_target_does_nothing_for_what_comes(ends, level):
    """VI-RDMA-7, VI-POST-2: messages, writes and reads are complete at their side and in its memory,
    which others look at, and no thread of its program has been given a processor."""
    server, client = ends.connected(level)
    posted = [server.receive(offset) for offset in (0x1000, 0x1100)]
    server.program.write(server.data, b"to be read")
    client.program.write(client.data, b"is written")
    server.program.until_asleep()
    before = turns(server.program)
    for control, offset in ((WRITE, 0x2000), (WRITE | IMMEDIATE, 0x2100)):
        piece, there = [client.part(0, 10)], server.part(offset, 0)
        client.post(SEND, piece, control=control, remote=there)
    client.send(b"is told")
    if level != UD:
        client.post(SEND, [client.part(0x100, 10)], control=READ, remote=server.part(0, 0))
    for _ in range(3 if level == UD else 4):
        assert client.wait(SEND).errors == set()
    looks = lambda at, size: seen(server.program, at, size)
    status = lambda at: int.from_bytes(looks(at + 28, 4), "little")
    until(lambda: status(posted[1]) == DONE | STATUS.OP_RECEIVE)
    assert status(posted[0]) == DONE | STATUS.OP_REMOTE_RDMA_WRITE | STATUS.IMMEDIATE
    assert looks(server.data + 0x1100, 7) == b"is told"
    assert [looks(server.data + at, 10) for at in (0x2000, 0x2100)] == [b"is written"] * 2
    if level != UD:
        assert client.bytes(0x100, 10) == b"to be read"
    assert turns(server.program) == before


def turns(program):
    """How often each thread of a program has given its processor back; those of the library are none.
    All of them sleep."""
    told = program.guest.run(f"cat /proc/{program.pid}/task/*/status").out
    names, states = (re.findall(rf"^{key}:\t(\S+)", told, re.M) for key in ("Name", "State"))
    counts = zip(*(re.findall(rf"^{how}_ctxt_switches:\t(\d+)", told, re.M) for how in SWITCHES))
    own = [each for each in zip(names, states, counts) if not each[0].startswith("vipl-")]
    assert own and {state for _, state, _ in own} == {"S"}
    return own


SWITCHES = ("voluntary", "nonvoluntary")


def seen(program, address, length):
    """Memory of a program, as another one sees it."""
    words = f"dd if=/proc/{program.pid}/mem bs=1 skip={address} count={length} status=none"
    return bytes.fromhex(program.guest.run(f"{words} | od -An -v -tx1").out)


@pytest.mark.parametrize("level", LEVELS)
def test_a_target_that_is_stopped_loses_nothing(ends, level):
    """VI-RDMA-7: while no thread of its process runs, not even the library's, a write is complete at its
    side unless it has to be in memory for that, a read waits, and nothing changes there. All of it is done
    as soon as the process goes on, without a call."""
    server, client = ends.connected(level)
    server.program.write(server.data, b"to be read")
    client.program.write(client.data, b"written meanwhile")
    with stopped(server.program):
        client.post(SEND, [client.part(0, 17)], control=WRITE, remote=server.part(0x100, 0))
        left = 1
        if level != RR:
            assert client.wait(SEND).errors == set()
            left = 0
        if level != UD:
            client.post(SEND, [client.part(0x100, 10)], control=READ, remote=server.part(0, 0))
            left += 1
            with fails("TIMEOUT"):
                client.wait(SEND, 300)
        assert seen(server.program, server.data + 0x100, 17) == bytes(17)
    for _ in range(left):
        assert client.wait(SEND).errors == set()
    if level != UD:
        assert client.bytes(0x100, 10) == b"to be read"
    until(lambda: seen(server.program, server.data + 0x100, 17) == b"written meanwhile")


def test_a_wait_ends_when_the_message_comes(ends):
    """VI-WQ-7, VI-WQ-2, VI-WQ-11, VI-POST-2, VI-RDMA-7, VI-GEN-2: and the sender need not make
    another call for it; one whose time is over leaves the descriptor, which can be posted again as
    it is."""
    server, client = ends.connected(RR)
    at = server.receive()
    with fails("TIMEOUT"):
        server.wait(RECV, 200)
    assert 0.2 <= server.program.seconds < 5
    with fails("TIMEOUT"):
        server.wait(RECV, 0)
    assert server.program.seconds < 1
    assert server.program.query(server.vi).recv_empty is False
    waiting = server.waits(RECV)
    server.program.until_asleep()
    client.send(b"wakes")
    done, returned = waiting.result()
    assert (done.descriptor, done.errors, returned) == (at, set(), "SUCCESS")
    for data in (b"again", b"and again"):
        server.program.post(server.vi, RECV, at, server.memory)
        client.send(data)
        got = server.wait(RECV)
        assert (got.descriptor, got.errors, server.bytes(0, len(data))) == (at, set(), data)
        assert client.wait(SEND).errors == set()
    # Neither of them calls anything.
    server.program.write(server.data + 0x8000, bytes(8))
    client.program.write(client.data + 0x8000, b"by itself")
    piece, there = [client.part(0x8000, 9)], server.part(0x8000, 0)
    written = client.post(SEND, piece, control=WRITE, remote=there)
    until(lambda: server.bytes(0x8000, 9) == b"by itself")
    assert [client.wait(SEND).errors for _ in range(2)] == [set(), set()]
    assert client.program.completion(written).length == 9


def test_posts_return_at_once(ends):
    """VI-POST-1: also while nothing can be sent, and in order."""
    server, client = ends.connected(RR)
    for n in range(40):
        server.receive(n * 64, 64)
    with stopped(server.program):
        posted = []
        for n in range(40):
            posted.append(client.send(b"%d" % n, 0x10000 + n * 64))
            assert client.program.seconds < 1
    assert [client.wait(SEND).descriptor for _ in posted] == posted
    for n in range(40):
        assert server.wait(RECV).length == len(b"%d" % n)
        assert server.bytes(n * 64, 2).rstrip(b"\0") == b"%d" % n


@pytest.mark.parametrize("level", LEVELS)
def test_messages_and_receives_keep_their_order(ends, level):
    """VI-ORD-1, VI-ORD-4, VI-ORD-7, VI-WQ-1: of posting, on both sides."""
    server, client = ends.connected(level)
    receives = [server.receive(n * 64) for n in range(30)]
    sends = [client.send(b"%d" % n, control=IMMEDIATE, immediate=n) for n in range(30)]
    assert [client.wait(SEND).descriptor for _ in sends] == sends
    got = [server.wait(RECV) for _ in receives]
    assert [done.descriptor for done in got] == receives
    assert [done.immediate for done in got] == list(range(30))


def test_a_send_that_overtakes_a_read_comes_back_behind_it(ends):
    """VI-WQ-1, VI-ORD-2, VI-ORD-4, VI-CQ-3, VI-CQ-2: on the work queue, and in the completion
    queue."""
    server, client = ends.pair(client={"send_cq": 8})
    connect(server, client)
    server.receive()
    with stopped(server.program):
        # It does not answer, and a send is complete once it is on its way.
        piece = [client.part(0, 0x8000)]
        read = client.post(SEND, piece, control=READ, remote=server.part(0x1000, 0))
        send = client.send(b"quick")
        with fails("NOT_DONE"):
            client.done(SEND)
        with fails("NOT_DONE"):
            client.program.cq_done(client.cqs["send_cq"])
    for at in (read, send):
        assert client.program.cq_entry(client.cqs["send_cq"]) == (client.vi, 0)
        done = client.done(SEND)
        assert (done.descriptor, done.errors) == (at, set())
    assert server.wait(RECV).errors == set()


def test_a_fenced_send_has_what_the_read_before_it_has_brought(ends):
    """VI-ORD-3"""
    server, client = ends.connected()
    for n in range(4):
        server.program.fill(server.data, 0x4000, n)
        server.receive(0x4000, 0x4000)
        piece = [client.part(0, 0x4000)]
        with stopped(server.program):
            client.post(SEND, piece, control=READ, remote=server.part(0, 0))
            client.post(SEND, piece, control=FENCE)
        assert server.wait(RECV).errors == set()
        assert server.program.check(server.data + 0x4000, 0x4000, n) == INTACT
        assert [client.wait(SEND).errors for _ in range(2)] == [set(), set()]


@pytest.mark.parametrize("level", (RD, RR))
def test_what_was_written_is_there_when_a_later_message_is(ends, level):
    """VI-ORD-5, VI-REL-2"""
    server, client = ends.connected(level)
    for n in range(8):
        client.program.fill(client.data, 0xC000, n)
        server.receive(0x10000, 1)
        piece = [client.part(0, 0xC000)]
        client.post(SEND, piece, control=WRITE, remote=server.part(0, 0))
        client.send(b"!")
        assert server.wait(RECV).errors == set()
        assert server.program.check(server.data, 0xC000, n) == INTACT
        assert [client.wait(SEND).errors for _ in range(2)] == [set(), set()]


def test_unreliable_messages_arrive_at_most_once(ends):
    """VI-ORD-6, VI-REL-1, VI-EM-3: while receives are missing again and again."""
    server, client = ends.connected(UD)
    chance = random.Random(3)
    sent, numbers = 0, []
    for _ in range(20):
        for _ in range(chance.randrange(4)):
            server.receive()
        for _ in range(chance.randrange(4)):
            client.send(control=IMMEDIATE, immediate=sent)
            assert client.wait(SEND).errors == set()
            sent += 1
        numbers += arrived(server)
    client.send(control=IMMEDIATE, immediate=sent)
    client.disconnect()
    server.until_state("ERROR")
    numbers += [done.immediate for done in server.drain(RECV) if not done.errors]
    assert numbers == sorted(set(numbers)) and set(numbers) <= set(range(sent + 1))
    *lost, end = server.told(sent + 2 - len(numbers))
    assert (lost, end) == (["RECVQ_EMPTY"] * (sent + 1 - len(numbers)), "CONN_LOST")


def post_many(side, queue, count, control=0):
    """Post so many descriptors without data, one behind the other; those of sends have numbers."""
    side.program.write(side.base, descriptor([], control))
    side.program.post_copies(side.vi, queue, side.base, 64, 0, side.memory, count)


def burst(client, count):
    """Send so many messages without data."""
    post_many(client, SEND, count, IMMEDIATE)
    assert client.program.collect(client.vi, SEND, count) == (count, 0)


def test_unreliable_messages_of_a_burst_arrive_at_most_once(ends):
    """VI-ORD-6, VI-REL-1: of thousands those arrive that find a receive: the first ones, as none is
    posted meanwhile; of each of the others it is told."""
    server, client = ends.connected(UD)
    lost = 0
    for number in range(10):
        receives = 60 + 18 * number
        post_many(server, RECV, receives)
        burst(client, 300)
        lost += 300 - receives
        server.told(lost)
        assert arrived(server) == list(range(receives))
    assert server.told(1) == ["RECVQ_EMPTY"] * lost
    assert (server.state(), client.state()) == ("CONNECTED", "CONNECTED")


def arrived(side):
    found = []
    try:
        while done := side.done(RECV):
            found.append(done.immediate)
    except ViplError as error:
        assert error.name == "NOT_DONE"
    return found


def test_a_vi_without_receives_does_not_slow_another_one(ends):
    """VI-REL-11, VI-STATE-12: each message to the other one is there within a second, also behind
    bursts to the deaf one."""
    server, client = ends.connected(UD)
    deaf = server.another(), client.another()
    connect(*deaf)
    for n in range(40):
        deaf[1].send(bytes(500))
        assert deaf[1].wait(SEND).errors == set()
        if n % 8 == 0:
            server.receive()
            client.send(b"heard")
            assert server.wait(RECV).errors == set()
            assert server.program.seconds < PATIENCE
    assert [side.state() for side in deaf] == ["CONNECTED"] * 2
    assert deaf[0].told(40) == ["RECVQ_EMPTY"] * 40
    for _ in range(10):
        burst(deaf[1], 200)
        server.receive()
        client.send(b"heard")
        assert server.wait(RECV).errors == set()
        assert server.program.seconds < PATIENCE
    # More than these may not wait to be told.
    assert set(deaf[0].told(256)) == {"RECVQ_EMPTY"}
    assert [side.state() for side in deaf] == ["CONNECTED"] * 2


# --- handlers


def test_handlers_take_descriptors_in_order(ends):
    """VI-NTFY-1, VI-NTFY-2, VI-NTFY-3, VI-NTFY-4, VI-NTFY-6, VI-NTFY-7, VI-NTFY-12: one each, all
    in one thread, and nothing once the queue is empty; errors as well."""
    server, client = ends.connected(UD)
    receives = [server.receive(0, 64), server.receive(0, 2), server.receive(0, 64)]
    handlers = [server.program.handler("queue") for _ in range(5)]
    for handler in handlers[:2]:
        server.program.notify("VipRecvNotify", server.vi, handler)
    client.send(b"good")
    client.send(b"too long")
    for handler, at in zip(handlers[:2], receives):
        assert handler.wait(1) == [[server.nic, server.vi, at]]
    assert server.program.completion(receives[1]).errors == {"LENGTH"}
    client.send(b"is there before")
    assert until(lambda: server.program.completion(receives[2]).status & DONE)
    for handler in handlers[2:]:
        try:
            server.program.notify("VipRecvNotify", server.vi, handler)
        except ViplError as error:
            assert error.name == "DESCRIPTOR_ERROR"
            break
    else:
        pytest.fail("a handler was taken for an empty queue")
    assert handlers[2].wait(1) == [[server.nic, server.vi, receives[2]]]
    # Two wait for one descriptor.
    last = server.receive(0, 64)
    two = [server.program.handler("queue") for _ in range(3)]
    for handler in two:
        server.program.notify("VipRecvNotify", server.vi, handler)
    client.send(b"last")
    assert [handler.wait(1)[0][2] for handler in two] == [last, 0, 0]
    server.receive()
    client.send(b"nobody is told")
    server.wait(RECV)
    ran = [told for handler in handlers + two for told in handler.told()]
    assert len(ran) == 6 and len({told["thread"] for told in ran}) == 1
    sends = server.program.handler("queue")
    server.receive()
    server.send(b"of its own")
    server.program.notify("VipSendNotify", server.vi, sends)
    sends.wait(1)
    assert sends.told()[0]["thread"] != ran[0]["thread"]
    assert server.program.pid not in {told["thread"] for told in ran + sends.told()}


def test_handlers_of_different_queues_overlap(ends):
    """VI-NTFY-12: one that takes its time holds up those of its own queue, and no other."""
    server, client = ends.connected(UD)
    slow, behind = server.program.handler("slow"), server.program.handler("queue")
    sends = server.program.handler("queue")
    for n in range(2):
        server.receive(64 * n)
        server.program.notify("VipRecvNotify", server.vi, (slow, behind)[n])
        client.send(b"%d" % n)
    slow.wait(1)
    server.send(b"meanwhile")
    server.program.notify("VipSendNotify", server.vi, sends)
    sends.wait(1)
    assert (len(slow.calls()), behind.calls()) == (1, [])
    slow.wait(2)
    behind.wait(1)


def test_handlers_take_entries_in_order(ends):
    """VI-NTFY-9, VI-NTFY-10: the descriptors are still to be taken."""
    server, client = ends.pair(UD, server={"recv_cq": 8})
    connect(server, client)
    cq = server.cqs["recv_cq"]
    first = [server.receive(0, 64) for _ in range(2)]
    handlers = [server.program.handler("cq") for _ in range(3)]
    for handler in handlers:
        server.program.notify("VipCQNotify", cq, handler)
    for count in (1, 2):
        client.send(b"x")
        handlers[count - 1].wait(1)
        assert [len(handler.calls()) for handler in handlers] == [1] * count + [0] * (3 - count)
    for at in first:
        assert server.done(RECV).descriptor == at
    with fails("NOT_DONE"):
        server.program.cq_done(cq)
    server.receive()
    client.send(b"x")
    assert handlers[2].wait(1) == [[server.nic, server.vi, 1]]


def test_an_echo_by_handlers(ends):
    """VI-NTFY-13, SC-12: they take up themselves again, post, and look at queues; one that
    disconnects is none the worse for it."""
    server, client = ends.connected()
    echo = server.program.handler("echo")
    posted = [server.receive(64 * n) for n in range(6)]
    server.program.notify("VipRecvNotify", server.vi, echo)
    for n in range(5):
        client.receive(64 * n)
        client.send(b"%d" % n)
        assert (client.wait(RECV).errors, client.bytes(64 * n, 1)) == (set(), b"%d" % n)
    assert [call[2] for call in echo.wait(5)] == posted[:5]
    ends_it = client.program.handler("disconnect")
    client.program.notify("VipErrorCallback", client.nic, ends_it)
    client.receive()
    server.disconnect()
    (call,) = ends_it.wait(1)
    # It is Idle while the handler runs.
    assert (ends_it.errors(), call[7]) == (["CONN_LOST"], 0)
    assert client.state() == "IDLE"
    assert echo.wait(6)[5][2] == posted[5]


# --- remote memory


@pytest.mark.parametrize("length", (0, 1, 4096, 0xF000))
@pytest.mark.parametrize("level", (RD, RR))
def test_reads_and_writes_of_all_sizes(ends, level, length):
    """VI-RDMA-2, VI-RDMA-4, VI-RDMA-8, VI-REL-3: what has succeeded with Reliable Reception is in
    the target's memory."""
    server, client = ends.connected(level)
    server.program.fill(server.data, 0x10000, 1)
    client.program.fill(client.data, 0x10000, 2)
    there = server.part(0x10, 0)
    client.post(SEND, [client.part(0, length)], control=WRITE, remote=there)
    done = client.wait(SEND)
    assert (done.errors, done.length) == (set(), length)
    if level == RR:
        assert server.program.check(server.data + 0x10, length, 2) == INTACT
    client.program.fill(client.data, 0x10000, 3)
    client.post(SEND, [client.part(8, length)], control=READ, remote=there)
    done = client.wait(SEND)
    assert (done.errors, done.length) == (set(), length)
    assert client.program.check(client.data + 8, length, 2) == INTACT
    assert server.done(RECV) is None


def test_success_with_reliable_reception_is_seen_at_once(ends):
    """VI-REL-3: by whoever looks into the target's memory in the moment in which a write is complete,
    without the library. Where both programs are on one host: nobody else can look so soon."""
    if not ends.need_no_link:
        pytest.skip("looks into the memory of a process of the same host")
    server, client = ends.connected(RR)
    at, count = client.slot(), 2000
    model = descriptor([client.part(0, 8)], WRITE, length=8, remote=server.part(0x100, 0))
    client.program.write(at, model)
    look = client.program.write_and_look
    done = look(client.vi, at, client.memory, client.data, server.program.pid, count)
    assert done == (count, 0)


def test_success_with_reliable_reception_waits_for_the_target(ends):
    """VI-REL-3: a process that does nothing has nothing in its memory yet."""
    server, client = ends.connected(RR)
    server.receive()
    with stopped(server.program):
        client.send(b"x")
        client.post(SEND, [client.part(0, 8)], control=WRITE, remote=server.part(0x100, 0))
        with fails("TIMEOUT"):
            client.wait(SEND, 300)
    assert [client.wait(SEND).errors for _ in range(2)] == [set(), set()]
    assert server.wait(RECV).errors == set()


def test_memory_is_registered_in_whole_pages(ends):
    """VI-MEM-2, VI-DESC-20: what is beside an odd piece on its pages can be reached, and nothing
    beyond."""
    server, client = ends.connected(UD)
    program = server.program
    at = program.allocate(3 * PAGE)
    handle = program.register(server.nic, at + PAGE + 5, 7, server.ptag, 1, 1)
    with fails("INVALID_PARAMETER"):
        program.register(server.nic, at, 0, server.ptag)
    for offset, length, good in (
        (PAGE + 5, 7, True),
        (PAGE, 16, True),
        (2 * PAGE - 16, 16, True),
        (PAGE - 1, 8, False),
        (2 * PAGE - 7, 8, False),
    ):
        program.write(at + offset, bytes(length))
        client.program.write(client.data, b"w" * length)
        piece = [client.part(0, length)]
        client.post(SEND, piece, control=WRITE, remote=Segment(at + offset, handle, 0))
        server.receive()
        client.send(b"after it")
        assert server.wait(RECV).errors == set()
        assert program.read(at + offset, length) == (b"w" if good else b"\0") * length
        # The same piece as a receive.
        server.post(RECV, [Segment(at + offset, handle, length)])
        client.post(SEND, piece)
        assert server.wait(RECV).errors == (set() if good else {"PROTECTION"})
        for _ in range(3):
            assert client.wait(SEND).errors == set()
    assert server.told(2) == ["RDMAW_PROT"] * 2


def test_enables_change_under_load(ends):
    """VI-ATTR-5: each write is either done or refused."""
    server, client = ends.connected(UD)
    count = 60
    client.program.write(client.data, b"written!")
    for n in range(count):
        there = server.part(n * 8, 0)
        client.post(SEND, [client.part(0, 8)], control=WRITE, remote=there)
        if n % 5 == 0:
            write = n // 5 % 2
            server.program.set_memory(server.nic, server.base, server.memory, server.ptag, write)
    server.receive(0x8000)
    client.send(b"after it")
    assert server.wait(RECV).errors == set()
    slots = [server.bytes(n * 8, 8) for n in range(count)]
    refused = slots.count(bytes(8))
    assert slots.count(b"written!") + refused == count
    assert 0 < refused < count
    assert server.told(refused) == ["RDMAW_PROT"] * refused


def pieces(side):
    """What the messages of a round have brought, one by one."""
    found = side.bytes(0, ROUND * MESSAGE)
    return [found[at : at + MESSAGE] for at in range(0, len(found), MESSAGE)]


@pytest.mark.parametrize("rounds", (2, pytest.param(100, marks=pytest.mark.long)))
def test_enables_change_while_writes_follow_each_other(ends, rounds):
    """VI-ATTR-5, VI-RDMA-5: each of a thousand is done as a whole or refused as a whole, while the
    region and its tag stay as they are."""
    server, client = rounds_of(ends.connected(UD, pages=PAGES))
    program, done = server.program, 0
    sent = 0
    for n in range(50 * rounds):
        if n >= rounds and 0 < done < sent:
            break
        sent += ROUND
        program.fill(server.data, ROUND * MESSAGE, 1)
        before = pieces(server)
        here = Segment(client.data, client.memory, MESSAGE)
        there = Segment(server.data, server.memory, 0)
        model = descriptor([here], WRITE, length=MESSAGE, remote=there)
        client.program.write(client.base, model)
        copies = (STRIDE, MESSAGE, client.memory, ROUND)
        client.program.post_copies(client.vi, SEND, client.base, *copies)
        collecting = client.program.later.collect(client.vi, SEND, ROUND)
        while not collecting.returned():
            for write in (0, 1):
                program.set_memory(server.nic, server.base, server.memory, server.ptag, write)
        assert collecting.result() == (ROUND, 0)
        server.receive(ROUND * MESSAGE)
        client.send(b"after it", ROUND * MESSAGE)
        assert (server.wait(RECV).errors, client.wait(SEND).errors) == (set(), set())
        for n, found in enumerate(pieces(server)):
            assert found in (before[n], bytes([n & 255]) * MESSAGE)
            done += found != before[n]
    assert 0 < done < sent
    assert set(server.told(1)) == {"RDMAW_PROT"}


@pytest.mark.parametrize("control", (WRITE, READ))
@pytest.mark.parametrize("level", (RD, RR))
def test_an_enable_that_is_taken_away_under_load_ends_a_connection(ends, level, control):
    """VI-ATTR-5, VI-RDMA-5: of writes or reads that follow each other, those before are done, and none from
    the first one on that is refused."""
    server, client = ends.connected(level)
    own, other = (client, server) if control == WRITE else (server, client)
    own.program.write(own.data, b"is moved")
    count = 60
    for n in range(count):
        target, source = 0x1000 + n * 8, 0
        here, there = (source, target) if control == WRITE else (target, source)
        piece, remote = [client.part(here, 8)], server.part(there, 0)
        client.post(SEND, piece, control=control, remote=remote)
        if n == count // 2:
            until(lambda: other.bytes(0x1000, 8) == b"is moved")
            rights = (int(control != WRITE), int(control != READ))
            place = (server.nic, server.base, server.memory, server.ptag)
            server.program.set_memory(*place, *rights)
    errors = [client.wait(SEND).errors for _ in range(count)]
    until(lambda: (server.state(), client.state()) == ("ERROR", "ERROR"))
    moved = [other.bytes(0x1000 + n * 8, 8) == b"is moved" for n in range(count)]
    done = moved.index(False)
    assert 0 < done <= count // 2 + 1 and not any(moved[done:])
    if (level, control) == (RD, WRITE):
        # What was sent before the refusal came back is complete.
        sent = errors.count(set())
        assert sent >= done and errors == [set()] * sent + [{"DESC_FLUSHED"}] * (count - sent)
    else:
        behind = [{"DESC_FLUSHED"}] * (count - done - 1)
        assert errors == [set()] * done + [{"RDMA_PROT"}] + behind
    assert server.told(2) == ["RDMAW_PROT" if control == WRITE else "RDMAR_PROT", "CONN_LOST"]
