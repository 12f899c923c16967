# SPDX-License-Identifier: GPL-2.0-only
"""What the guide's examples do with virtual interfaces: between two hosts with a bridge in common,
between two endpoints of a star, whose root processor forwards what they send each other, and
between two programs of one host. The calls, and what comes of them, are the same."""

import random
import struct
import uuid

import pytest
from frames import wait_for_everyone
from ntbrig import stack
from ntbrig import vipl as programs
from pximc import MODULES
from shell import INTACT, until
from vipl import (
    FOREVER, LEVELS, PAGE, RD, RECV, RR, SEND, STATUS, UD, Ends, Program, Segment, Side, ViplError,
    ask, connect, ends, fails, meet, says,
)  # fmt: skip

WRITE, READ, IMMEDIATE = 1, 2, 4
FLUSHED = {"DESC_FLUSHED"}
BUFFER = 1024
# Milliseconds in which nobody answers.
BRIEF = 300


@pytest.fixture(scope="module", params=("bridge", "star", "own"))
def place(request):
    return request.param


@pytest.fixture(scope="module")
def fabric(place, boot):
    fabric = boot(hosts=3, topology="star") if place == "star" else boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    wait_for_everyone(*fabric.hosts)
    yield fabric
    boot.end(fabric)


@pytest.fixture(scope="module")
def all_ends(place, fabric):
    """A program on each of the last two hosts, or both on one."""
    ends = Ends(fabric.hosts[-2:], programs.configure(fabric.hosts)[-2:])
    if place == "own":
        ends = ends.on_one_host()
    yield ends
    ends.end()


# --- the echo service


class Service:
    """A server whose receive queues share a completion queue."""

    def __init__(self, ends, level=RD):
        self.listener = ends.side(1, level, recv_cq=64)
        # What it has for each VI.
        self.served = {}

    def wait(self, discriminator=b"echo"):
        side = self.listener
        return side.program.wait_client(side.nic, side.host, discriminator)

    def accept(self, found):
        """Serve a client that was found."""
        side = self.listener.another()
        number = len(self.served)
        posted = [side.receive(n * BUFFER + number * 2 * BUFFER, BUFFER) for n in range(2)]
        side.program.accept(found.conn, side.vi)
        self.served[side.vi] = (side, posted)
        return side

    def answer(self):
        """Answer the next message, whoever has sent it."""
        vi, queue = self.listener.program.cq_entry(self.listener.cqs["recv_cq"])
        side, posted = self.served[vi]
        done = side.done(RECV)
        assert (queue, done.descriptor, done.errors) == (1, posted.pop(0), set())
        piece = side.program.read(done.descriptor + 32, 8)
        offset = int.from_bytes(piece, "little") - side.data
        data = side.bytes(offset, done.length)
        posted.append(side.receive(offset, BUFFER))
        side.send(data, 0x10000 + offset)
        status = side.program.poll(side.vi, SEND)
        assert status[0] == "SUCCESS"

    def forget(self, side):
        """Take what a client that has left has left behind."""
        until(lambda: side.state() == "ERROR")
        sent, received = side.end_connection()
        assert (sent, [done.errors for done in received]) == ([], [FLUSHED] * 2)
        side.program.destroy_vi(side.vi)
        del self.served[side.vi]


def named(client, server):
    """The address that a client finds for the name of a server's host."""
    program = client.program
    program.call("VipNSInit", client.nic, 0)
    address = program.address(bytes(4))
    name = server.program.guest.name
    program.call("VipNSGetHostByName", client.nic, f"text={name}", address, 0)
    program.call("VipNSShutdown", client.nic)
    return program.read(address + 4, 4)


def joins(service, client, discriminator=b"echo"):
    """A client that finds the server by its name."""
    host = named(client, service.listener)
    found, asking = meet(service.wait(discriminator), client, (host, discriminator))
    side = service.accept(found)
    asking.result()
    return side


def echoes(service, client, data):
    at = client.receive(0x8000, BUFFER)
    client.send(data, 0xC000)
    assert client.wait(SEND).errors == set()
    service.answer()
    got = client.wait(RECV)
    assert (got.descriptor, got.errors, got.length) == (at, set(), len(data))
    assert client.bytes(0x8000, len(data)) == data


def test_an_echo_service_answers_clients_that_come_and_go(ends):
    """SC-1, SC-2, SC-3, SC-4: each is found by the completion queue of all receives, and answered on
    a send queue that is polled; one that leaves disturbs no other, and another one takes its
    place."""
    service = Service(ends)
    clients = [ends.side(0) for _ in range(3)]
    served = [joins(service, client) for client in clients]
    for n in range(4):
        for client in clients:
            echoes(service, client, b"%d of %x" % (n, client.vi))
    clients[1].end_connection()
    service.forget(served[1])
    for client in (clients[0], clients[2]):
        echoes(service, client, b"still here")
    served[1] = joins(service, clients[1])
    for client in clients:
        echoes(service, client, b"all of them" * 90)
    for client, side in zip(clients, served):
        assert client.end_connection() == ([], [])
        service.forget(side)
        assert client.reports() == []


def test_a_client_that_comes_between_two_waits_asks_again(ends):
    """SC-6: nobody waits while a connection is set up, and connections go on meanwhile."""
    service = Service(ends)
    first, second = ends.side(0), ends.side(0)
    found, asking = meet(service.wait(), first, (service.listener.host, b"echo"))
    remote = service.listener.host, b"echo"
    for _ in range(2):
        with fails("NO_MATCH"):
            second.program.request(second.vi, (second.host, b""), remote)
        assert second.state() == "IDLE"
    service.accept(found)
    asking.result()
    with fails("NO_MATCH"):
        second.program.request(second.vi, (second.host, b""), remote)
    waiting = service.wait()
    echoes(service, first, b"while another one is waited for")
    found, asking = meet(waiting, second, remote)
    echoes(service, first, b"while another one is answered")
    service.accept(found)
    asking.result()
    echoes(service, second, b"both")
    echoes(service, first, b"of them")


# --- completion queues


def test_many_vis_share_a_completion_queue(ends):
    """VI-CQ-8, VI-CQ-14, VI-EP-2, SC-9, SC-2: 64 of them, with both queues; each entry names its
    own, by a handle that no other one has."""
    server, client = ends.pair(UD, server={"recv_cq": 512})
    shared = server.cqs["recv_cq"]
    handles = {}
    for n in range(64):
        there, here = server.another(), client.another()
        there.vi = server.program.create_vi(server.nic, server.attributes, shared, shared)
        there.receive(64 * n, 64)
        there.program.peer_request(there.vi, (there.host, b""), (here.host, b"of %d" % n))
        here.program.peer_request(here.vi, (here.host, b""), (there.host, b"of %d" % n))
        handles[there.vi] = there, here, n
    assert len(handles) == 64
    for there, here, _ in handles.values():
        there.program.peer_wait(there.vi)
        here.program.peer_wait(here.vi)
    for there, here, n in handles.values():
        here.send(control=IMMEDIATE, immediate=n)
        there.send(b"")
    seen = [server.program.cq_entry(shared) for _ in range(128)]
    assert sorted(seen) == sorted((vi, queue) for vi in handles for queue in (0, 1))
    for vi, (there, _, n) in handles.items():
        assert server.program.done(vi, SEND).errors == set()
        assert server.program.done(vi, RECV).immediate == n
    with fails("NOT_DONE"):
        server.program.cq_done(shared)


def test_entries_tell_of_each_completion_once(ends):
    """VI-CQ-2, VI-CQ-4, VI-CQ-6, VI-CQ-7, VI-CQ-15, VI-EP-3, VI-WQ-9, VI-WQ-10, VI-NTFY-8, SC-14:
    good, with an error, and flushed; the descriptor stays on its queue, and one that was taken
    before its entry leaves it."""
    server, client = ends.pair(UD, server={"recv_cq": 64})
    # Both queues are bound to one.
    shared = server.cqs["recv_cq"]
    server.vi = server.program.create_vi(server.nic, server.attributes, shared, shared)
    connect(server, client)
    with fails("TIMEOUT"):
        server.program.cq_entry(shared, 0)
    with fails("TIMEOUT"):
        server.program.cq_entry(shared, 150)
    good, small, own = server.receive(0, 64), server.receive(0, 2), server.send(b"own")
    out = server.program.allocate(PAGE)
    # The send's own entry.
    assert server.program.cq_entry(shared) == (server.vi, 0)
    assert server.done(SEND).descriptor == own
    waiting = server.program.later.call("VipCQWait", shared, FOREVER, out, out + 8)
    server.program.until_asleep()
    client.send(b"good")
    waiting.result()
    assert struct.unpack("<Qi", server.program.read(out, 12)) == (server.vi, 1)
    # One is complete, and another one is not; nothing but Done takes them.
    server.send(b"own")
    for queue, name in ((SEND, "VipSendNotify"), (RECV, "VipRecvNotify")):
        with fails("ERROR_RESOURCE"):
            server.wait(queue, 0)
        with fails("ERROR_RESOURCE"):
            server.program.notify(name, server.vi, server.program.handler("queue"))
    assert server.done(SEND).errors == set()
    assert server.program.cq_entry(shared) == (server.vi, 0)
    done = server.done(RECV)
    assert (done.descriptor, done.errors) == (good, set())
    client.send(b"too long")
    assert until(lambda: taken(server)).descriptor == small
    assert server.program.cq_done(shared) == (server.vi, 1)
    assert server.done(RECV) is None
    left = [server.receive(), server.receive()]
    server.disconnect()
    for at in left:
        assert server.program.cq_done(shared) == (server.vi, 1)
        assert server.done(RECV).descriptor == at
    with fails("NOT_DONE"):
        server.program.cq_done(shared)


def taken(side):
    """The first receive, if it is complete."""
    try:
        return side.done(RECV)
    except ViplError as error:
        assert error.name == "NOT_DONE"
        return None


# --- finding each other

DISCRIMINATORS = {
    "none": b"",
    "port": (7471).to_bytes(2, "big"),
    "zeros": bytes(4),
    "uuid": uuid.UUID("8b0f0a6e-3c41-4c0f-9f0e-2f6a5d1c7e90").bytes,
    "longest": b"0123456789abcdef",
}


def test_discriminators_of_all_kinds_match_exactly(ends):
    """SC-18: a port number, a UUID, the longest one and none; a byte less, more or other is another
    one."""
    server, client = ends.pair(UD)
    for discriminator in DISCRIMINATORS.values():
        waiting = server.program.wait_client(server.nic, server.host, discriminator)
        server.program.until_asleep()
        others = {discriminator[:-1], discriminator[1:], (discriminator + b"\0")[:16]}
        others |= {other for other in DISCRIMINATORS.values()}
        if discriminator:
            others.add(bytes((discriminator[0] ^ 1,)) + discriminator[1:])
        for other in sorted(others - {discriminator}):
            with fails("NO_MATCH"):
                client.program.request(client.vi, (client.host, b""), (server.host, other))
        found, asking = meet(waiting, client, (server.host, discriminator), local=discriminator)
        assert found.discriminator == discriminator
        server.program.accept(found.conn, server.vi)
        asking.result()
        says(client, server, b"it is " + discriminator)
        client.end_connection()
        server.end_connection()


@pytest.mark.parametrize("first", (0, 1))
def test_peers_meet_in_either_order_and_not_too_late(ends, first):
    """SC-10: by a wait and by looking; a peer that comes in time is met, and a later one is not."""
    sides = [ends.side(0), ends.side(1)]
    one, other = sides[first], sides[1 - first]
    one.program.peer_request(one.vi, (one.host, b""), (other.host, b"meet"))
    with fails("NOT_DONE"):
        one.program.peer_done(one.vi)
    other.program.peer_request(other.vi, (other.host, b""), (one.host, b"meet"))
    assert other.program.peer_wait(other.vi) == one.attributes._replace(ptag=0)
    until(lambda: one.state() == "CONNECTED")
    assert one.program.peer_done(one.vi) == other.attributes._replace(ptag=0)
    says(one, other, b"met")
    says(other, one, b"both ways")
    for side in sides:
        side.end_connection()
    one.program.peer_request(one.vi, (one.host, b""), (other.host, b"late"), 300)
    with fails("TIMEOUT"):
        one.program.peer_wait(one.vi)
    other.program.peer_request(other.vi, (other.host, b""), (one.host, b"late"), 300)
    with fails("TIMEOUT"):
        other.program.peer_wait(other.vi)
    assert (one.state(), other.state()) == ("IDLE", "IDLE")


def test_an_acceptance_with_the_wrong_attributes_is_tried_again(ends):
    """SC-11: the second one connects."""
    server, client = ends.pair(RD)
    wrong = server.another(size=1 << 15)
    found, asking = ask(server, client)
    with fails("INVALID_MTU"):
        server.program.accept(found.conn, wrong.vi)
    server.program.accept(found.conn, server.vi)
    asking.result()
    says(client, server, b"with the right one")


def test_a_client_of_a_server_with_the_wrong_attributes_waits_in_vain(ends):
    """SC-11: until its time is over; what the server answers then comes too late."""
    server, client = ends.pair(RD)
    wrong = server.another(size=1 << 15)
    for late in ("accept", "reject"):
        found, asking = ask(server, client, timeout=BRIEF)
        with fails("INVALID_MTU"):
            server.program.accept(found.conn, wrong.vi)
        with fails("TIMEOUT"):
            asking.result()
        if late == "accept":
            with fails("TIMEOUT"):
                server.program.accept(found.conn, server.vi)
        else:
            server.program.reject(found.conn)
        assert [side.state() for side in (server, wrong, client)] == ["IDLE"] * 3


# --- data


@pytest.mark.parametrize("level", LEVELS)
def test_writes_into_a_region_that_was_told_of(ends, level):
    """SC-13: with immediate data a receive is consumed, and without nobody is told."""
    server, client = ends.connected(level)
    target = server.part(0x100, 0)
    at = server.receive(0x4000)
    client.put(0, b"placed quietly")
    client.post(SEND, [client.part(0, 14)], control=WRITE, remote=target)
    assert client.wait(SEND).errors == set()
    until(lambda: server.bytes(0x100, 14) == b"placed quietly")
    with fails("NOT_DONE"):
        server.done(RECV)
    client.put(0, b"placed and told")
    words = {"control": WRITE | IMMEDIATE, "remote": target, "immediate": 77}
    client.post(SEND, [client.part(0, 15)], **words)
    done = server.wait(RECV)
    assert (done.descriptor, done.errors, done.length) == (at, set(), 15)
    assert (done.operation, done.immediate) == (STATUS.OP_REMOTE_RDMA_WRITE, 77)
    assert server.bytes(0x100, 15) == b"placed and told"
    assert client.wait(SEND).errors == set()


# What is wrong with the target of a write.


def other_handle(server):
    return server.part(0x100, 0)._replace(handle=server.memory ^ 0x10000)


def other_tag(server):
    tag = server.program.ptag(server.nic)
    address = server.program.allocate(PAGE)
    return Segment(address, server.program.register(server.nic, address, PAGE, tag, 1, 1), 0)


def region_without_writes(server):
    address = server.program.allocate(PAGE)
    handle = server.program.register(server.nic, address, PAGE, server.ptag, 0, 1)
    return Segment(address, handle, 0)


def beyond_its_end(server):
    return Segment(server.base + 40 * PAGE - 4, server.memory, 0)


def vi_without_writes(server):
    """Any memory: it is the VI that allows none."""
    return server.part(0x100, 0)


REFUSED = (other_handle, other_tag, region_without_writes, beyond_its_end, vi_without_writes)


@pytest.mark.parametrize("level", (UD, RD, RR))
@pytest.mark.parametrize("target", REFUSED, ids=lambda target: target.__name__)
def test_a_write_that_is_not_allowed_places_nothing(ends, level, target):
    """SC-13: the target is told, by its handler or by the receive; the other side as the level
    says."""
    for control in (WRITE, WRITE | IMMEDIATE):
        server, client = ends.pair(level)
        server = server.another(write=int(target is not vi_without_writes))
        connect(server, client)
        where = target(server)
        at = server.receive(0x4000)
        before = server.program.read(where.address, 4)
        client.put(0, b"shut out")
        client.post(SEND, [client.part(0, 8)], control=control, remote=where, immediate=1)
        sent = client.wait(SEND).errors
        assert sent == ({"RDMA_PROT"} if level == RR else set())
        if control & IMMEDIATE:
            done = server.wait(RECV)
            assert (done.descriptor, done.errors) == (at, {"PROTECTION"})
        else:
            assert server.told(1)[0] == "RDMAW_PROT"
        assert server.program.read(where.address, 4) == before
        wanted = "CONNECTED" if level == UD else "ERROR"
        until(lambda: (server.state(), client.state()) == (wanted, wanted))


@pytest.mark.parametrize("level", LEVELS)
def test_messages_up_to_the_longest_arrive_from_and_to_odd_pieces(ends, level):
    """SC-8, SC-20: many pieces at odd addresses; a byte too many is an error, and a message without
    data has immediate data."""
    server, client = ends.connected(level)
    size = client.attributes.size
    client.program.fill(client.data, size + 1, 5)
    pieces = [(1, 3), (4, 61), (65, 1), (66, 0), (66, 1000)]
    sent = [client.part(at, length) for at, length in pieces]
    server.post(RECV, [server.part(at + 0x203, length) for at, length in ((0, 7), (7, 1058))])
    client.post(SEND, sent)
    done = server.wait(RECV)
    assert (done.errors, done.length) == (set(), 1065)
    assert server.bytes(0x203, 1065) == client.bytes(1, 1065)
    assert client.wait(SEND).errors == set()
    server.receive(0, size)
    client.post(SEND, [client.part(0, size)])
    done = server.wait(RECV)
    assert (done.errors, done.length) == (set(), size)
    assert server.program.check(server.data, size, 5) == INTACT
    assert client.wait(SEND).errors == set()
    server.receive(0, 8)
    client.post(SEND, [], control=IMMEDIATE, immediate=0x01020304)
    done = server.wait(RECV)
    assert (done.errors, done.length, done.immediate) == (set(), 0, 0x01020304)
    assert client.wait(SEND).errors == set()
    client.post(SEND, [client.part(0, size), client.part(0, 1)])
    assert client.wait(SEND).errors == {"LENGTH"}


# Most pieces of a descriptor, and the bytes that they lie in.
MOST = 252
SPAN = 64 * MOST


def scattered(side, lengths):
    """Pieces of these lengths, each at an odd address."""
    return [side.part(64 * n + n % 16 * 2 + 1, length) for n, length in enumerate(lengths)]


def test_as_many_pieces_as_there_can_be_arrive_in_as_many(ends):
    """SC-20: each at an odd address and with an odd length, and nothing around them changes."""
    server, client = ends.pair(RD, pages=80)
    connect(server, client)
    lengths = [n % 8 * 2 + 1 for n in range(MOST)]
    sources = scattered(client, lengths)
    targets = scattered(server, random.Random(20).sample(lengths, MOST))
    assert len(sources) == len(targets) == MOST
    for side, seed in ((client, 1), (server, 2)):
        side.program.fill(side.data, SPAN, seed)
    sent, wanted = client.bytes(0, SPAN), bytearray(server.bytes(0, SPAN))
    stream = b"".join(sent[at - client.data :][:length] for at, _, length in sources)
    for address, _, length in targets:
        at = address - server.data
        wanted[at : at + length], stream = stream[:length], stream[length:]
    # Behind the descriptors of one piece.
    server.post(RECV, targets, at=server.data + SPAN)
    client.post(SEND, sources, at=client.data + SPAN)
    done = server.wait(RECV)
    assert (done.errors, done.length) == (set(), sum(lengths))
    assert client.wait(SEND).errors == set()
    assert server.bytes(0, SPAN) == wanted


@pytest.mark.parametrize("level", (RD, RR))
def test_reads_bring_what_was_written(ends, level):
    server, client = ends.connected(level)
    for length in (1, 40, 4096, 0x8000):
        server.program.fill(server.data, length, length & 0xFF)
        client.post(SEND, [client.part(3, length)], control=READ, remote=server.part(0, 0))
        done = client.wait(SEND)
        assert (done.errors, done.length) == (set(), length)
        assert client.bytes(3, min(length, 4096)) == server.bytes(0, min(length, 4096))


def test_handlers_answer_one_message_after_the_other(ends):
    """SC-12: each takes itself up again, one after the other, in a thread of its own; those that
    there is nothing for any more are told of none."""
    server, client = ends.connected()
    echo = server.program.handler("echo")
    posted = [server.receive(64 * n) for n in range(4)]
    server.program.notify("VipRecvNotify", server.vi, echo)
    for n in range(4):
        client.receive(64 * n)
        client.send(b"%d" % n)
        assert (client.wait(RECV).errors, client.bytes(64 * n, 1)) == (set(), b"%d" % n)
    assert [call[2] for call in echo.wait(4)] == posted
    # All wait for one receive.
    posted.append(server.receive(64))
    others = [server.program.handler("queue") for _ in range(2)]
    for handler in (echo, *others):
        server.program.notify("VipRecvNotify", server.vi, handler)
    client.receive(64)
    client.send(b"last")
    assert (client.wait(RECV).errors, client.bytes(64, 4)) == (set(), b"last")
    assert [handler.wait(1)[0][2] for handler in others] == [0, 0]
    assert [call[2] for call in echo.calls()] == posted
    told = [each for handler in (echo, *others) for each in handler.told()]
    assert len({each["thread"] for each in told}) == 1


# --- errors


def test_an_error_of_one_client_ends_its_own_connection_only(ends):
    """SC-5, SC-7, VI-STATE-20, VI-ERR-2: also if nobody has asked to be told."""
    server, client = ends.connected(RD)
    server.program.call("VipErrorCallback", server.nic, 0, 0)
    other = server.another(), client.another()
    connect(*other)
    client.send(b"nobody")
    client.until_state("ERROR")
    server.until_state("ERROR")
    other[0].receive()
    other[1].send(b"goes on")
    assert other[0].wait(RECV).errors == set()
    assert server.errors.calls() == []


def test_a_completion_queue_is_destroyed_after_a_catastrophe(ends):
    """VI-ERR-17, VI-CQ-13, SC-15: step by step; entries of the VI are never seen, and others go on.
    """
    others = ends.connected(RD)
    server, client = ends.pair(RD, server={"recv_cq": 16})
    connect(server, client)
    server.receive()
    # Not at a multiple of 64 bytes.
    server.post(RECV, [server.part(0, 8)], at=server.base + 0x7020)
    assert server.told(2) == ["POST_DESC", "CONN_LOST"]
    server.disconnect()
    assert len(server.drain(RECV)) == 1
    server.program.destroy_vi(server.vi)
    with fails("NOT_DONE"):
        server.program.cq_done(server.cqs["recv_cq"])
    server.program.call("VipDestroyCQ", server.cqs["recv_cq"])
    client.until_state("ERROR")
    says(*others, b"goes on")
    assert [side.reports() for side in others] == [[], []]


def test_a_write_that_is_changed_on_its_way_is_told_by_a_receive_alone(ends):
    """SC-19: bytes are changed where they land, before the target's library looks at them. A write
    with immediate data has a receive that tells of it; one without is told to nobody."""
    server = ends.side(1, UD)
    with Program(ends.guests[0], how=("env", "VIPL_CHECKS=1")) as program:
        client = Side(program, ends.numbers[0], UD)
        connect(server, client)
        data = bytes(n * 7 % 251 for n in range(1000))
        client.put(0, data)
        assert immediately(server, client, data) == set()
        assert server.bytes(0x2000, len(data)) == data
        # Messages take turns in what follows in the window.
        at, length = server.program.in_windows(data)
        storm = server.program.later.storm(at, length, 0x5A, 3_000)
        assert until(lambda: immediately(server, client, data)) == {"TRANSPORT"}
        for _ in range(20):
            client.post(SEND, [client.part(0, 1000)], control=WRITE, remote=server.part(0x2000, 0))
            assert client.wait(SEND).errors == set()
        storm.result()
        says(client, server, b"goes on")
        assert (server.state(), client.state()) == ("CONNECTED", "CONNECTED")
        assert (server.reports(), client.reports()) == ([], [])


def immediately(server, client, data):
    """Write bytes with immediate data; the errors of the receive."""
    at = server.receive(0x4000)
    words = {"control": WRITE | IMMEDIATE, "remote": server.part(0x2000, 0), "immediate": 19}
    client.post(SEND, [client.part(0, len(data))], **words)
    assert client.wait(SEND).errors == set()
    done = server.wait(RECV)
    assert done.descriptor == at
    return done.errors


# --- losses


def is_found(client, server):
    """Whether the client's request gets to the host of the server, where nobody waits for it."""
    try:
        client.program.request(client.vi, (client.host, b""), (server.host, b"nobody"))
    except ViplError as error:
        client.disconnect()
        return error.name == "NO_MATCH"


@pytest.mark.two_hosts(why="it takes the link between them away")
def test_a_loss_with_receives_alone_is_told(fabric, ends):
    """SC-16: of the link, wherever it is between the two; both connect again."""
    server, client = ends.connected(RD)
    posted = [side.receive() for side in (server, client)]
    lost = fabric.hosts[0]
    stack.unload(lost, modules=("pximc_ntb",))
    try:
        for side, at in zip((server, client), posted):
            done = side.wait(RECV)
            assert (done.descriptor, done.errors) == (at, FLUSHED)
            assert side.told(1) == ["CONN_LOST"]
            assert side.end_connection() == ([], [])
    finally:
        stack.load(lost, modules=("pximc_ntb",))
        wait_for_everyone(*fabric.hosts)

    until(lambda: is_found(client, server), 60.0)
    connect(server, client)
    says(client, server, b"back again")


def test_a_process_that_is_killed_while_it_waits_is_forgotten(ends):
    """SC-17: its discriminator matches nobody, and another one may wait for it."""
    server, client = ends.pair()
    server.program.wait_client(server.nic, server.host, b"waits")
    server.program.until_asleep()
    server.program.guest.run(f"kill -9 {server.program.pid}")
    until(server.program.process.ended)
    with fails("NO_MATCH"):
        client.program.request(client.vi, (client.host, b""), (server.host, b"waits"))
    ends.start()
    again = ends.side(1)
    found, asking = ask(again, client, b"waits")
    again.program.accept(found.conn, again.vi)
    asking.result()
    says(client, again, b"served again")
