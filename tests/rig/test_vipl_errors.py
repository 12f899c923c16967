# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of errors between hosts, and within one: the table of errors by level of reliability,
row by row, and what is told asynchronously. A client on the first host acts on a server on the
second one, or on the same one."""

import errno
import itertools
import re
import signal
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Optional

import pytest
import sharing
from places import all_ends, fabric
from sharing import MP, pinned, wait_until_unpinned
from shell import INTACT, until
from vipl import (
    ERRORS, FOREVER, LEVELS, PAGE, RD, RECV, RESOURCES, RR, SEND, STATES, STATUS, UD, Program, Segment, Side, ViplError,
    FUNCTIONS, ask, calls, connect, descriptor, ends, fails, meet, says, stopped,
)  # fmt: skip

WRITE, READ, IMMEDIATE = 1, 2, 4
FLUSHED = {"DESC_FLUSHED"}
LOST = "CONN_LOST"


# --- the table


class Outcome(NamedTuple):
    """What a fault leads to, at a level that is reliable or not."""

    # Errors of the operation at its own side, and of the receive that it consumes.
    sent: frozenset = frozenset()
    received: Optional[frozenset] = None
    # What is told at the server's side: code and operation.
    told: Optional[tuple] = None
    # The operation may have been sent whole before the error came back.
    races: bool = False


def outcome(sent=(), received=None, told=None, races=False):
    errors = None if received is None else frozenset(received)
    return Outcome(frozenset(sent), errors, told, races)


def report(server, code, operation, at=0):
    """What an error handler is told of a VI, and where its descriptor is if one is at fault."""
    resource = RESOURCES.index("VI")
    return [server.nic, server.vi, 0, at, operation, resource, ERRORS.index(code)]


def examine(server, client, act, wanted):
    """Act on a connection, and look at everything that comes of it; a message follows the
    operation."""
    level = client.attributes.level
    receive, operation = act(server, client)
    next_receive = server.receive(0x2000)
    behind = client.send(b"behind", 0x11000)
    done = client.wait(SEND)
    assert done.descriptor == operation
    assert done.errors == wanted.sent or wanted.races and not done.errors
    follower = client.wait(SEND)
    assert follower.descriptor == behind
    if wanted.received is not None:
        got = server.wait(RECV)
        assert (got.descriptor, got.errors, got.length) == (receive, wanted.received, 0)
    last = server.wait(RECV)
    # A receive that the operation has not consumed is the next one's.
    unused = receive if wanted.received is None and receive else next_receive
    assert last.descriptor == unused
    told = [] if wanted.told is None else [report(server, *wanted.told)]
    if level == UD:
        assert (last.errors, follower.errors) == (set(), set())
        assert (server.state(), client.state()) == ("CONNECTED", "CONNECTED")
        assert client.reports() == []
    else:
        assert last.errors == FLUSHED
        # With Reliable Delivery it may have been sent before the error came back.
        assert follower.errors in ([FLUSHED] if level == RR else [FLUSHED, set()])
        until(lambda: (server.state(), client.state()) == ("ERROR", "ERROR"))
        told.append(report(server, LOST, 0))
        client.told(1)
        assert [call[:7] for call in client.reports()] == [report(client, LOST, 0)]
    if told:
        server.told(len(told))
    assert [call[:7] for call in server.reports()] == told
    assert server.bytes(0x1000, 64) == bytes(64)


def each(ends, level, causes, **options):
    """Examine each cause with new VIs of the same two interfaces."""
    server, client = ends.pair(level, **options)
    for act, wanted in causes:
        there, here = server.another(), client.another()
        connect(there, here)
        examine(there, here, act, wanted)
        there.end_connection()
        here.end_connection()


def of_own(segments=lambda client: [client.part(0, 8)], **fields):
    """A send that is wrong; a receive is there."""

    def act(server, client):
        return server.receive(0), client.post(SEND, segments(client), **fields)

    return act


def foreign_tag(side):
    """Memory with another protection tag."""
    program = side.program
    address = program.allocate(PAGE)
    handle = program.register(side.nic, address, PAGE, program.ptag(side.nic), 1, 1)
    return Segment(address, handle, 8)


def code_of(side):
    """Where memory is that the process may only read: its own code."""
    line = side.program.guest.run(f"grep -m1 ' r--p .*vipl_shell' /proc/{side.program.pid}/maps")
    return int(line.out.partition("-")[0], 16)


def read_only(side):
    """Memory that the process may only read, registered."""
    address = code_of(side)
    handle = side.program.register(side.nic, address, PAGE, side.ptag, 1, 1)
    return Segment(address, handle, 8)


@pytest.mark.parametrize("level", LEVELS)
def test_an_own_descriptor_is_wrong(ends, level):
    """VI-EM-1, VI-STS-2, VI-STS-3, VI-STS-5, VI-STS-9, VI-STATE-10, VI-STATE-12, VI-STATE-20,
    VI-PTAG-2, VI-PTAG-6, VI-POST-10, VI-RDMA-6, VI-MEM-1, VI-REL-4, VI-REL-6, VI-ERR-3, VI-DISC-8,
    VI-WQ-3, VI-DESC-2, VI-DESC-8, VI-DESC-20"""
    data = lambda client: [client.part(0, 8)]
    nobodys = lambda client: [Segment(client.program.allocate(PAGE), client.memory, 8)]
    causes = [
        (of_own(control=0x10), "FORMAT"),
        (of_own(control=3), "FORMAT"),
        (of_own(lambda client: [client.part(0, 8)._replace(handle=0x7FFFFFFF)]), "PROTECTION"),
        (of_own(nobodys), "PROTECTION"),
        (of_own(lambda client: [foreign_tag(client)]), "PROTECTION"),
        (of_own(lambda client: [client.part(32 * PAGE - 4, 8)]), "PROTECTION"),
        (of_own(data, length=7), "LENGTH"),
        (of_own(data, length=9), "LENGTH"),
        (of_own(data, count=255), "LENGTH"),
        # It has no address segment: what would be one is data.
        (of_own(lambda client: [Segment(0x1000, 9999, 8), client.part(0, 8)]), "PROTECTION"),
    ]  # fmt: skip
    if level == UD:
        # There are no reads at this level.
        causes.append((of_own(control=READ, remote=Segment(0x1000, 1, 0)), "FORMAT"))
    each(ends, level, [(act, outcome(sent=[bit])) for act, bit in causes])


def of_receive(segments, **fields):
    """A receive that is wrong, or too small for eight bytes."""

    def act(server, client):
        receive = server.post(RECV, segments(server), **fields)
        return receive, client.send(b"too much")

    return act


@pytest.mark.parametrize("level", LEVELS)
def test_a_receive_is_wrong(ends, level):
    """VI-EM-2, VI-STS-2, VI-STS-3, VI-STS-8, VI-STS-9, VI-STATE-10, VI-STATE-12, VI-DESC-12,
    VI-MEM-8, VI-PTAG-2, VI-REL-4, VI-REL-5, VI-REL-6, VI-ERR-3"""
    causes = [
        (of_receive(lambda server: [server.part(0, 7)]), "LENGTH"),
        (of_receive(lambda server: []), "LENGTH"),
        (of_receive(lambda server: [server.part(0, 8)], count=255), "LENGTH"),
        (of_receive(lambda server: [server.part(0, 8)], control=WRITE), "FORMAT"),
        (of_receive(lambda server: [server.part(0, 8)._replace(handle=9999)]), "PROTECTION"),
        (of_receive(lambda server: [foreign_tag(server)]), "PROTECTION"),
        (of_receive(lambda server: [read_only(server)]), "PROTECTION"),
    ]
    heard = ["REMOTE_DESC"] if level == RR else []
    each(ends, level, [(act, outcome(sent=heard, received=[bit])) for act, bit in causes])


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_posted_for_a_message(ends, level):
    """VI-EM-3, VI-STS-8, VI-STS-9, VI-ERR-6, VI-ERR-18, VI-STATE-10, VI-STATE-12, VI-REL-4,
    VI-REL-6"""

    def send(server, client):
        at = client.send(b"nobody")
        # Before the next receive is posted.
        server.told(1)
        return None, at

    def write(server, client):
        there = server.part(0x1000, 0)
        at = client.post(SEND, [client.part(0, 8)], control=WRITE | IMMEDIATE, remote=there)
        # Before the next receive is posted.
        server.told(1)
        return None, at

    heard = ["REMOTE_DESC"] if level == RR else []
    each(
        ends, level,
        [
            (send, outcome(sent=heard, told=("RECVQ_EMPTY", STATUS.OP_RECEIVE))),
            (write, outcome(sent=heard, told=("RECVQ_EMPTY", STATUS.OP_REMOTE_RDMA_WRITE))),
        ],
    )  # fmt: skip


# What refuses remote access: memory of the server's, and whether the VI allows it.
REFUSALS = {
    "VI": (lambda server: server.part(0x1000, 0), False),
    "region": (lambda server: region(server), True),
    "tag": (lambda server: foreign_tag(server), True),
    "handle": (lambda server: server.part(0x1000, 0)._replace(handle=9999), True),
    "range": (lambda server: server.part(32 * PAGE - 4, 0), True),
    "page": (lambda server: read_only(server), True),
}


def region(server):
    """Memory that no remote side may use."""
    address = server.program.allocate(PAGE)
    handle = server.program.register(server.nic, address, PAGE, server.ptag, 0, 0)
    return Segment(address, handle, 8)


def remotely(ends, level, control, causes, wanted):
    """Ask for eight bytes of memory that refuses it, for each cause; the memory stays as it is."""
    server, client = ends.pair(level)
    for cause in causes:
        where, allowed = REFUSALS[cause]
        enables = {} if allowed else {"write": 0, "read": 0}
        there, here = server.another(**enables), client.another()
        connect(there, here)
        target = where(there)
        before = there.program.read(target.address, 4)

        def act(server, client):
            receive = server.receive(0) if control & IMMEDIATE else None
            fields = {"control": control, "remote": target, "immediate": 77}
            piece = [client.part(0x3000, 8)]
            client.program.write(client.data + 0x3000, b"untouched"[:8])
            at = client.post(SEND, piece, **fields)
            if not receive and wanted.told:
                server.told(1)
            return receive, at

        examine(there, here, act, wanted)
        assert there.program.read(target.address, 4) == before, cause
        assert here.bytes(0x3000, 8) == b"untouche"
        there.end_connection()
        here.end_connection()


@pytest.mark.parametrize("level", LEVELS)
def test_a_write_is_refused(ends, level):
    """VI-EM-4, VI-RDMA-5, VI-ERR-8, VI-ERR-18, VI-MEM-7, VI-MEM-8, VI-PTAG-2, VI-STS-7, VI-STS-9,
    VI-DESC-20, VI-STATE-10, VI-REL-4: by each of the checks alone."""
    heard = ["RDMA_PROT"] if level == RR else []
    told = "RDMAW_PROT", STATUS.OP_REMOTE_RDMA_WRITE
    remotely(ends, level, WRITE, REFUSALS, outcome(sent=heard, told=told))


@pytest.mark.parametrize("level", LEVELS)
def test_a_write_with_immediate_data_is_refused(ends, level):
    """VI-EM-5, VI-RDMA-5, VI-ERR-11, VI-STS-2, VI-STS-7, VI-STS-9, VI-MEM-7, VI-MEM-8, VI-STATE-10
    """
    heard = ["RDMA_PROT"] if level == RR else []
    wanted = outcome(sent=heard, received=["PROTECTION"])
    remotely(ends, level, WRITE | IMMEDIATE, REFUSALS, wanted)


@pytest.mark.parametrize("level", (RD, RR))
def test_a_read_is_refused(ends, level):
    """VI-EM-6, VI-RDMA-5, VI-RDMA-8, VI-ERR-13, VI-ERR-18, VI-STS-7, VI-STS-9, VI-MEM-7,
    VI-STATE-10"""
    causes = [cause for cause in REFUSALS if cause != "page"]
    told = "RDMAR_PROT", STATUS.OP_RDMA_READ
    remotely(ends, level, READ, causes, outcome(sent=["RDMA_PROT"], told=told))


def test_what_can_only_be_read_can_be_sent(ends):
    """VI-MEM-8"""
    server, client = ends.connected()
    server.receive()
    where = read_only(client)
    client.post(SEND, [where])
    assert (client.wait(SEND).errors, server.wait(RECV).errors) == (set(), set())
    assert server.bytes(0, 8) == client.program.read(where.address, 8)


@pytest.mark.parametrize("control", (WRITE, READ))
def test_remote_access_without_bytes_is_checked_as_well(ends, control):
    """VI-RDMA-8"""
    server, client = ends.connected(RR)
    client.post(SEND, control=control, remote=server.part(0, 0))
    done = client.wait(SEND)
    assert (done.errors, done.length) == (set(), 0)
    client.post(SEND, control=control, remote=server.part(0, 0)._replace(handle=9999))
    assert client.wait(SEND).errors == {"RDMA_PROT"}
    server.until_state("ERROR")


def test_the_memory_of_one_process_is_not_that_of_another(ends):
    """VI-MEM-6, VI-DESC-20: handles are those of the process that has the VI; two VIs of it share
    memory."""
    server, client = ends.connected(UD)
    second = server.another(), client.another()
    connect(*second)
    piece = [client.part(0, 6)]
    client.program.write(client.data, b"shared")
    for _, here in ((server, client), second):
        server.program.write(server.data, bytes(6))
        here.post(SEND, piece, control=WRITE, remote=server.part(0, 0))
        until(lambda: server.bytes(0, 6) == b"shared")
    with Program(server.program.guest) as program:
        stranger = Side(program, server.host, UD)
        third = client.another()
        connect(stranger, third)
        server.program.write(server.data, bytes(6))
        third.post(SEND, piece, control=WRITE, remote=server.part(0, 0))
        assert stranger.told(1) == ["RDMAW_PROT"]
        assert stranger.memory == server.memory
        assert server.bytes(0, 6) == bytes(6)


# --- messages that are cut


def stuck(client, **fields):
    """Begin to send more than there is room for while the partner does not receive, from memory of
    its own: the descriptor, and the memory."""
    size = client.attributes.size
    address = client.program.allocate(size)
    handle = client.program.register(client.nic, address, size, client.ptag)
    at = client.post(SEND, [Segment(address, handle, size)], **fields)
    return at, address, handle


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ("send", "write", "immediate"))
def test_a_message_is_cut_in_the_middle(ends, level, kind):
    """VI-EM-9, VI-ERR-10, VI-ERR-11, VI-ERR-18, VI-STS-4, VI-STS-6, VI-STS-9, VI-MEM-12, VI-STATE-10:
    memory that it is sent from is deregistered before all of it was sent."""
    server, client = ends.pair(level, size=1 << 20, pages=40)
    connect(server, client)
    room = server.program.allocate(1 << 20)
    region = server.program.register(server.nic, room, 1 << 20, server.ptag, 1, 1)
    whole = Segment(room, region, 1 << 20)
    receive = server.post(RECV, [whole]) if kind != "write" else None
    fields = {} if kind == "send" else {"control": WRITE, "remote": whole}
    if kind == "immediate":
        fields["control"] |= IMMEDIATE
    with stopped(server.program):
        at, address, handle = stuck(client, **fields)
        client.program.deregister(client.nic, address, handle)
        # It goes on where it was interrupted, and finds that out.
        client.program.fill(address, 1 << 20, 3)
    done = client.wait(SEND)
    assert (done.descriptor, done.errors) == (at, {"PROTECTION", "PARTIAL"})
    if receive:
        got = server.wait(RECV)
        assert (got.descriptor, got.errors) == (receive, {"PARTIAL", "TRANSPORT"})
    lost = [] if level == UD else [LOST]
    abort = ["RDMAW_ABORT"] if kind == "write" and level != UD else []
    if level != UD:
        until(lambda: (server.state(), client.state()) == ("ERROR", "ERROR"))
        assert (server.told(len(abort) + 1), client.told(1)) == (abort + lost, lost)
        found = [call[:7] for call in server.reports()]
        operation = STATUS.OP_REMOTE_RDMA_WRITE
        assert found[: len(abort)] == [report(server, code, operation) for code in abort]
    else:
        server.receive()
        client.send(b"goes on")
        assert server.wait(RECV).errors == set()
        assert (server.reports(), client.reports()) == ([], [])


# --- handles that are none


def test_each_function_refuses_handles_that_are_none(ends):
    """VI-GEN-1, VI-GEN-5, VI-EP-11, VI-POST-11: NULL, numbers, handles of other kinds, of objects
    that were destroyed, of requests that were answered, and those of another process."""
    server, client = ends.connected(RD)
    program = server.program
    nic = program.open_nic()
    gone = {
        "nic": nic,
        "vi": program.create_vi(nic, server.attributes._replace(ptag=program.ptag(nic))),
        "cq": program.cq(nic),
    }
    program.call("VipDestroyVi", gone["vi"])
    program.call("VipDestroyCQ", gone["cq"])
    program.close_nic(nic)
    found, asking = ask(server, client.another(), b"answered")
    program.reject(found.conn)
    with fails("REJECT"):
        asking.result()
    gone["conn"] = found.conn
    good = {"nic": server.nic, "vi": server.vi, "cq": program.cq(server.nic)}
    functions = calls(program, server.nic, server)
    assert sum(map(len, functions.values())) == len(FUNCTIONS) - 1
    for kind, all_calls in functions.items():
        others = [handle for of, handle in good.items() if of != kind]
        for handle in (0, 1, server.base, (1 << 64) - 1, gone[kind], *others):
            for name, *arguments in all_calls:
                with fails("INVALID_PARAMETER"):
                    program.call(f"Vip{name}", handle, *arguments)
    with Program(program.guest) as stranger:
        for kind, all_calls in calls(stranger, 0, server).items():
            for name, *arguments in all_calls:
                with fails("INVALID_PARAMETER"):
                    stranger.call(f"Vip{name}", good.get(kind, found.conn), *arguments)
    says(client, server, b"goes on")


def test_as_many_bytes_are_registered_as_an_interface_tells(ends):
    """VI-LIM-6, VI-MEM-10: of the host's memory, by a process that may lock as much as it wants; the
    last bytes of it are sent, and a page more is refused."""
    server, client = ends.pair()
    with Program(client.program.guest) as program:
        side = Side(program, client.host)
        limits = program.nic_attributes(side.nic)
        assert limits.block_bytes == limits.register_bytes > 64 * PAGE
        left = limits.register_bytes - 40 * PAGE
        base = program.allocate(left + PAGE)
        with fails("ERROR_RESOURCE"):
            program.register(side.nic, base, left + PAGE, side.ptag)
        handle = program.register(side.nic, base, left, side.ptag)
        with fails("ERROR_RESOURCE"):
            program.register(side.nic, base + left, 1, side.ptag)
        connect(server, side)
        server.receive(0, 8)
        program.write(base + left - 8, b"the last")
        side.post(SEND, [Segment(base + left - 8, handle, 8)])
        assert (side.wait(SEND).errors, server.wait(RECV).errors) == (set(), set())
        assert server.bytes(0, 8) == b"the last"
        program.deregister(side.nic, base, handle)


@pytest.mark.parametrize("level", LEVELS)
def test_an_interface_that_has_lost_its_device_is_a_catastrophe(ends, level):
    """VI-ERR-15, VI-ERR-16, VI-ERR-17, VI-ERR-18, VI-STATE-13: all its VIs fail, whatever their state
    is, and are recovered; their partners hear of it, and another interface of the host goes on."""
    server, client = ends.pair(level)
    bystander = ends.side(1)
    connect(bystander, ends.side(0), b"bystander")
    with Program(client.program.guest) as program:
        losing = Side(program, client.host, level)
        idle = losing.another()
        connect(server, losing)
        receives = [losing.receive(), server.receive()]
        handler = losing.errors
        serves = program.wait_client(losing.nic, losing.host, b"nobody comes", FOREVER)
        meets = losing.another()
        program.peer_request(meets.vi, (losing.host, b"one"), (server.host, b"other"), FOREVER)
        waits = program.later.call("VipConnectPeerWait", meets.vi, program.allocate(PAGE))
        program.until_asleep()
        assert program.close_path("/dev/mp_fabric") == 1
        # Those that wait for partners, without end, are told as well.
        with fails("ERROR_RESOURCE"):
            serves.call.result()
        # The peer's own call may have failed first, or its VI.
        with pytest.raises(ViplError) as raised:
            waits.result()
        assert raised.value.name in ("ERROR_RESOURCE", "INVALID_STATE")
        until(lambda: "CATASTROPHIC" in handler.errors())
        (told,) = [call for call in handler.calls() if ERRORS[call[6]] == "CATASTROPHIC"]
        nic, vi, cq, descriptor, operation, resource, _ = told[:7]
        assert (nic, vi, cq, descriptor, operation) == (losing.nic, 0, 0, 0, 0)
        assert RESOURCES[resource] == "NIC"
        for side in (losing, idle, meets):
            until(lambda: side.state() == "ERROR")
        got = losing.done(RECV)
        assert (got.descriptor, got.errors) == (receives[0], FLUSHED)
        with fails("INVALID_STATE"):
            program.request(idle.vi, (losing.host, b""), (server.host, b"test"))
        for side in (losing, idle, meets):
            assert side.end_connection() == ([], [])
            program.destroy_vi(side.vi)
        got = server.wait(RECV)
        assert (got.descriptor, got.errors) == (receives[1], FLUSHED)
        assert server.told(1) == [LOST]
        program.close_nic(losing.nic)
        again = Side(program, client.host, level)
        server.disconnect()
        connect(server, again)
        says(again, server, b"anew")
    assert bystander.state() == "CONNECTED" and bystander.reports() == []


def test_without_its_device_no_interface_is_opened(ends):
    """VI-ERR-15, VI-NIC-3: the device node has gone; who has opened it goes on."""
    server, client = ends.connected(RD)
    guest = server.program.guest
    guest.run("mv /dev/mp_fabric /dev/mp_hidden")
    try:
        with fails("ERROR_RESOURCE"):
            server.program.open_nic()
        says(client, server, b"goes on")
        assert (server.state(), server.reports()) == ("CONNECTED", [])
    finally:
        guest.run("mv /dev/mp_hidden /dev/mp_fabric")
    server.program.close_nic(server.program.open_nic())


# --- messages that are changed on their way, come twice, or never


@pytest.fixture(scope="module")
def checking(fabric, all_ends):
    """A program on the first host that asks for checks of what crosses."""
    with Program(fabric.hosts[0], how=("env", "VIPL_CHECKS=1")) as program:
        yield program, all_ends.numbers[0]


def changed(server, client, size, how, **fields):
    """An operation whose bytes are changed while they are on their way: where its receive is, and
    its descriptor."""
    data = bytes(n * 7 % 251 for n in range(PIECE))
    receive = server.receive(0x2000, size)
    client.put(0x10000, (data * (size // PIECE + 1))[:size])
    with stopped(server.program):
        operation = client.post(SEND, [client.part(0x10000, size)], **fields)
        at, _ = client.program.in_windows(data)
        client.program.write(at, how(data))
    return receive, operation


# Bytes of what is looked for.
PIECE = 1000
# A bit of it is another one; or nothing of it has come.
CHANGES = {
    "changed": lambda data: data[:500] + bytes([data[500] ^ 0x10]) + data[501:],
    "lost": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_changed_on_its_way_is_told(ends, checking, level):
    """VI-EM-7, VI-EM-8, VI-EM-9, VI-EM-10, VI-ERR-9, VI-ERR-11, VI-ERR-18, VI-REL-1, VI-REL-2,
    VI-REL-8, VI-STATE-10, VI-STS-4, VI-STS-6, VI-STS-9, SC-19: by stores into the window between
    the hosts, that the receiver has not looked at."""
    server = ends.side(1, level)
    client = Side(*checking, level)
    transport = ("TRANSPORT",)
    sent = transport if level == RR else ()
    told = ("RDMAW_DATA", STATUS.OP_REMOTE_RDMA_WRITE) if level != UD else None
    # More than there is room for on the way.
    long = server.attributes.size
    stays_behind = {UD: (), RD: FLUSHED, RR: ("TRANSPORT", "PARTIAL")}[level]
    causes = [
        (PIECE, {}, outcome(sent, transport)),
        (PIECE, {"control": WRITE | IMMEDIATE}, outcome(sent, transport)),
        (PIECE, {"control": WRITE}, outcome(sent, told=told)),
        (long, {}, outcome(stays_behind, transport, races=level == RD)),
    ]
    cases = [(cause, CHANGES["changed"]) for cause in causes] + [(causes[0], CHANGES["lost"])]
    for (size, fields, wanted), how in cases:
        there, here = server.another(), client.another()
        connect(there, here)
        if fields:
            fields = {**fields, "remote": there.part(0x2000, size)}
        act = lambda server, client: changed(server, client, size, how, **fields)
        examine(there, here, act, wanted)
        there.end_connection()
        here.end_connection()
    client.program.close_nic(client.nic)


@pytest.mark.parametrize("level", (RD, RR))
@pytest.mark.parametrize("how", CHANGES)
def test_an_answer_that_is_changed_on_its_way_fails_its_read(ends, checking, level, how):
    """VI-EM-13: in the window between the hosts, that the reader's library has not looked at.
    Nothing of it is stored, and both sides lose the connection."""
    server = ends.side(1, level)
    client = Side(*checking, level)
    connect(server, client)
    data = bytes(n * 7 % 251 for n in range(PIECE))
    server.put(0x3000, data)
    with ExitStack() as reader:
        with stopped(server.program):
            piece = [client.part(0x3000, PIECE)]
            read = client.post(SEND, piece, control=READ, remote=server.part(0x3000, 0))
            reader.enter_context(stopped(client.program))
        at, _ = until(lambda: server.program.found_in_windows(data))
        server.program.write(at, CHANGES[how](data))
    done = client.wait(SEND)
    assert (done.descriptor, done.errors) == (read, {"TRANSPORT"})
    assert client.bytes(0x3000, PIECE) == bytes(PIECE)
    until(lambda: (server.state(), client.state()) == ("ERROR", "ERROR"))
    for side in (server, client):
        side.told(1)
        assert [call[:7] for call in side.reports()] == [report(side, LOST, 0)]
    client.program.close_nic(client.nic)


@pytest.mark.parametrize("level", LEVELS)
def test_operations_of_all_sizes_pass_the_checks(ends, checking, level):
    """VI-REL-1, VI-REL-2: what arrives as it was sent is never taken for changed."""
    server = ends.side(1, level)
    client = Side(*checking, level)
    connect(server, client)
    for seed, length in enumerate((0, 1, 40, 41, PAGE, PAGE + 1, 0x8001), start=1):
        passes_checks(server, client, seed, length)
    assert (server.state(), client.state()) == ("CONNECTED", "CONNECTED")
    assert (server.reports(), client.reports()) == ([], [])
    client.program.close_nic(client.nic)


def passes_checks(server, client, seed, length):
    """A message, a write, and a read where there are reads, each to where other bytes are."""
    level = client.attributes.level
    for control in (0, WRITE, READ) if level != UD else (0, WRITE):
        own, other = (server, client) if control == READ else (client, server)
        own.program.fill(own.data, length + 1, seed)
        other.program.fill(other.data, length + 1, seed + 100)
        receive = server.receive(0, length) if not control else None
        remote = server.part(0, 0) if control else None
        client.post(SEND, [client.part(0, length)], control=control, remote=remote)
        done = client.wait(SEND)
        assert (done.errors, done.length) == (set(), length)
        if control == WRITE:
            # It is there when what follows it is.
            receive = server.receive(length + 64, 0)
            client.post(SEND)
            assert client.wait(SEND).errors == set()
        if receive:
            got = server.wait(RECV)
            assert (got.descriptor, got.errors) == (receive, set())
            assert got.length == (0 if control else length)
        assert other.program.check(other.data, length, seed) == INTACT


def line_of(program, byte):
    """Where the line of a message is that consists of one byte, repeated: each word of a line has
    seven bytes of it."""
    at, _ = program.in_windows(bytes([byte]) * 7)
    return at - at % 64


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ("send", "write"))
def test_a_message_that_comes_twice_is_dropped_and_one_that_is_lost_is_told(
    ends, checking, level, kind
):
    """VI-EM-10, VI-ERR-12, VI-ERR-18: in the window between the hosts, the second message is stored
    where the third one was, which the receiver has not seen. The fourth one shows the gap."""
    server = ends.side(1, level)
    client = Side(*checking, level)
    connect(server, client)

    def post(n):
        client.program.write(client.data + n * 64, bytes([0xA0 + n]) * 16)
        there = server.part(0x1000 + n * 64, 0)
        fields = {} if kind == "send" else {"control": WRITE, "remote": there}
        return client.post(SEND, [client.part(n * 64, 16)], **fields)

    receives = [server.receive(n * 64) for n in range(3)] if kind == "send" else []
    with stopped(server.program):
        posted = [post(n) for n in range(3)]
        second, third = (line_of(client.program, 0xA0 + n) for n in (1, 2))
        client.program.write(third, client.program.read(second, 64))
    for at in receives[:2]:
        got = server.wait(RECV)
        assert (got.descriptor, got.errors, got.length) == (at, set(), 16)
    posted.append(post(3))
    if kind == "send":
        got = server.wait(RECV)
        assert got.descriptor == receives[2]
        assert got.errors == (set() if level == UD else {"TRANSPORT"})
    if level == UD:
        last = 0x80 if kind == "send" else 0x10C0
        until(lambda: server.bytes(last, 16) == b"\xa3" * 16)
        assert (server.state(), client.state()) == ("CONNECTED", "CONNECTED")
    else:
        until(lambda: (server.state(), client.state()) == ("ERROR", "ERROR"))
        told = [report(server, "RDMA_TRANSPORT", STATUS.OP_REMOTE_RDMA_WRITE)]
        told = [*(told if kind == "write" else []), report(server, LOST, 0)]
        server.told(len(told))
        assert [call[:7] for call in server.reports()] == told
    if kind == "write":
        written = [server.bytes(0x1000 + n * 64, 1) for n in range(4)]
        assert written == [b"\xa0", b"\xa1", b"\0", b"\xa3" if level == UD else b"\0"]
    errors = [client.wait(SEND).errors for _ in posted]
    assert errors[:2] == [set(), set()]
    if level == RR:
        assert errors[2:] == [{"TRANSPORT"}, FLUSHED]
    else:
        assert errors[2] == set() and errors[3] in ([set()] if level == UD else [set(), FLUSHED])
    client.program.close_nic(client.nic)


def test_memory_that_is_deregistered_under_load_is_not_touched(ends):
    """VI-MEM-12: remote writes end in an error, and what is there afterwards stays."""
    size, count = 1 << 20, 30
    server, client = ends.pair(RR, size=size, pages=8 + size // PAGE)
    connect(server, client)
    room = server.program.allocate(size)
    region = server.program.register(server.nic, room, size, server.ptag, 1, 1)
    with stopped(server.program):
        for _ in range(count):
            piece = [client.part(0, size)]
            client.post(SEND, piece, control=WRITE, remote=Segment(room, region, 0))
        gone = server.program.later.call("VipDeregisterMem", server.nic, room, region)
    gone.result()
    server.program.fill(room, size, 4)
    until(lambda: (server.state(), client.state()) == ("ERROR", "ERROR"))
    assert server.program.check(room, size, 4) == INTACT
    errors = [done.errors for done in client.drain(SEND)]
    while not errors[0]:
        errors.pop(0)
    # The partner may refuse one that has been sent in part.
    assert errors.pop(0) in ({"RDMA_PROT"}, {"RDMA_PROT", "PARTIAL"})
    assert errors == [FLUSHED] * len(errors)
    assert server.told(2) == ["RDMAW_PROT", LOST]


@pytest.mark.parametrize("rounds", (4, pytest.param(200, marks=pytest.mark.long)))
def test_memory_that_is_deregistered_while_it_is_written_is_used_again(ends, rounds):
    """VI-MEM-12, VI-MEM-11: in the middle of remote writes that go on; then there is other memory at the
    same address, which stays as it is."""
    size, count = 0x10000, 300
    server, client = ends.connected(UD, size=size)
    program = server.program
    client.program.write(client.data, b"\xa5" * 64)
    piece = [client.part(0, size)]
    room = program.allocate(size)
    for n in range(20 * rounds):
        if n >= rounds and server.reports():
            # Not all of them had come before.
            break
        region = program.register(server.nic, room, size, server.ptag, 1, 1)
        model = descriptor(piece, WRITE, length=size, remote=Segment(room, region, 0))
        client.program.write(client.base, model)
        # All of them from and to the same place.
        copies = (64, 0, client.memory, count)
        client.program.post_copies(client.vi, SEND, client.base, *copies)
        collecting = client.program.later.collect(client.vi, SEND, count)
        until(lambda: program.read(room, 1) == b"\xa5")
        program.deregister(server.nic, room, region)
        program.renew(room, size)
        program.fill(room, size, 4)
        assert collecting.result() == (count, 0)
        server.receive(0, 64)
        client.send(b"behind them", 0x1000)
        assert (server.wait(RECV).errors, client.wait(SEND).errors) == (set(), set())
        assert program.check(room, size, 4) == INTACT
        program.renew(room, size)
    assert set(server.told(1)) == {"RDMAW_PROT"}


# --- memory that is unmapped too early


def locked(program):
    """Bytes that a process has locked."""
    status = program.guest.read(f"/proc/{program.pid}/status")
    return 1024 * int(re.search(r"^VmLck:\s*(\d+) kB", status, re.M)[1])


@pytest.mark.parametrize("hole", ((0, 1), (1, 1), (3, 1), (0, 4)))
def test_memory_that_was_unmapped_is_deregistered_as_any_other(ends, hole):
    """VI-MEM-3, VI-MEM-11: as long as nobody uses it nothing happens, and no page beside it stays
    locked."""
    server, client = ends.connected()
    before = locked(server.program)
    room = server.program.allocate(4 * PAGE)
    region = server.program.register(server.nic, room, 4 * PAGE, server.ptag, 1, 1)
    assert locked(server.program) == before + 4 * PAGE
    at, pages = hole
    server.program.unmap(room + at * PAGE, pages * PAGE)
    says(client, server, b"meanwhile")
    server.program.deregister(server.nic, room, region)
    assert locked(server.program) == before
    with fails("INVALID_PARAMETER"):
        server.program.deregister(server.nic, room, region)
    says(client, server, b"afterwards")
    assert (server.reports(), client.reports()) == ([], [])


def write_into(server, client, room, region):
    client.post(SEND, [client.part(0, 8)], control=WRITE, remote=Segment(room, region, 0))


def receive_into(server, client, room, region):
    server.post(RECV, [Segment(room, region, 8)])
    client.send(b"for none")


def read_from(server, client, room, region):
    client.post(SEND, [client.part(0, 8)], control=READ, remote=Segment(room, region, 0))


@pytest.mark.parametrize("use", (write_into, receive_into, read_from))
def test_who_has_unmapped_memory_that_is_used_dies_alone(ends, use):
    """The process gets SIGSEGV, also in a thread of the library; its partner is told, and nobody else
    notices."""
    server, client = ends.connected(RR)
    with Program(ends.guests[1]) as another:
        bystander, partner = Side(another, ends.numbers[1]), client.another(level=RD)
        connect(bystander, partner)
        room = server.program.allocate(PAGE)
        region = server.program.register(server.nic, room, PAGE, server.ptag, 1, 1)
        server.program.unmap(room, PAGE)
        use(server, client, room, region)
        assert server.program.process.wait(20).rc == -signal.SIGSEGV
        assert client.told(1) == [LOST]
        assert client.state() == "ERROR"
        says(partner, bystander, b"still here")
        says(bystander, partner, b"and there")
        assert (partner.reports(), bystander.reports()) == ([], [])


# --- catastrophes


def misaligned(side, queue=RECV):
    return side.post(queue, [side.part(0, 8)], at=side.base + 0x7020)


def unregistered(side, queue):
    return side.post(queue, [side.part(0, 8)], at=side.program.allocate(PAGE))


def another_handle(side, queue):
    return side.post(queue, [side.part(0, 8)], handle=9999)


def foreign_descriptor(side, queue):
    other = foreign_tag(side)
    return side.post(queue, [side.part(0, 8)], at=other.address, handle=other.handle)


NO_DESCRIPTORS = (misaligned, unregistered, another_handle, foreign_descriptor)
# What is told of a queue's descriptors.
OPERATIONS = {SEND: STATUS.OP_SEND, RECV: STATUS.OP_RECEIVE}


@pytest.mark.parametrize("level", LEVELS)
def test_a_descriptor_that_is_none_is_a_catastrophe(ends, level):
    """VI-EM-12, VI-ERR-4, VI-ERR-16, VI-ERR-17, VI-ERR-18, VI-POST-8, VI-MEM-1, VI-PTAG-2,
    VI-DESC-3, VI-STATE-13, VI-EP-10, SC-15: at every level; the VI can be recovered, and others go
    on."""
    server, client = ends.pair(level, server={"recv_cq": 16})
    other = server.another(), client.another()
    connect(*other)
    for act, queue in itertools.product(NO_DESCRIPTORS, OPERATIONS):
        there, here = server.another(), client.another()
        connect(there, here)
        left = there.receive()
        flushed = here.receive()
        at = act(there, queue)
        there.told(1)
        told = [there.nic, there.vi, 0, at, OPERATIONS[queue], RESOURCES.index("DESCRIPTOR"), 0]
        assert there.reports()[0][:7] == told
        assert there.reports()[0][7] == STATES.index("ERROR")
        assert there.told(2) == ["POST_DESC", LOST]
        assert there.state() == "ERROR"
        with fails("INVALID_STATE"):
            there.program.destroy_vi(there.vi)
        assert (here.wait(RECV).descriptor, here.told(1)) == (flushed, [LOST])
        assert here.state() == "ERROR"
        there.disconnect()
        assert [(done.descriptor, done.errors) for done in there.drain(RECV)] == [(left, FLUSHED)]
        there.program.destroy_vi(there.vi)
        with fails("INVALID_PARAMETER"):
            there.state()
    other[0].receive()
    other[1].send(b"goes on")
    assert server.program.cq_entry(server.cqs["recv_cq"]) == (other[0].vi, 1)
    assert other[0].done(RECV).errors == set()


def test_every_descriptor_that_is_not_aligned_is_one(ends):
    """VI-DESC-3, VI-POST-8, VI-ERR-4, VI-STATE-13, VI-STATE-14: off by 1 to 63 bytes; of a VI that
    has no connection."""
    side = ends.side(0)
    for offset in range(1, 64):
        side.program.post(side.vi, RECV, side.base + offset, side.memory)
        assert side.state() == "ERROR"
        side.disconnect()
        assert side.state() == "IDLE"
    assert side.told(63) == ["POST_DESC"] * 63


@pytest.mark.parametrize("level", LEVELS)
def test_one_descriptor_too_many_is_a_catastrophe(ends, level):
    """VI-EM-12, VI-ERR-7, VI-ERR-16, VI-ERR-17, VI-ERR-18, VI-POST-9, VI-LIM-6, VI-STATE-13: with
    all that were posted before."""
    server, client = ends.pair(level, pages=80)
    connect(server, client)
    most = server.program.nic_attributes(server.nic).descriptors
    server.program.post_many(server.vi, RECV, server.data, server.memory, most)
    assert server.state() == "CONNECTED"
    excess = server.receive()
    assert server.told(2) == ["VI_OVERRUN", LOST]
    assert server.reports()[0][:7] == report(server, "VI_OVERRUN", STATUS.OP_RECEIVE, excess)
    assert client.told(1) == [LOST]
    assert (server.state(), client.state()) == ("ERROR", "ERROR")
    server.disconnect()
    assert server.program.count(server.vi, RECV) == (most + 1, 0)
    server.program.destroy_vi(server.vi)


@pytest.mark.parametrize("level", LEVELS)
def test_one_send_too_many_is_a_catastrophe(ends, level):
    """VI-ERR-7, VI-ERR-18, VI-POST-9, VI-STATE-13: also of those that are complete, if nobody has
    taken them."""
    server, client = ends.pair(level, pages=80)
    connect(server, client)
    most = client.program.nic_attributes(client.nic).descriptors
    with stopped(server.program):
        client.program.post_many(client.vi, SEND, client.data, client.memory, most)
        assert client.state() == "CONNECTED"
        excess = client.send()
        assert client.told(2) == ["VI_OVERRUN", LOST]
    assert client.reports()[0][:7] == report(client, "VI_OVERRUN", STATUS.OP_SEND, excess)
    assert client.state() == "ERROR"
    client.disconnect()
    assert sum(client.program.count(client.vi, SEND)) == most + 1
    client.program.destroy_vi(client.vi)


@pytest.mark.parametrize("level", LEVELS)
def test_an_overrun_of_a_completion_queue_is_a_catastrophe(ends, level):
    """VI-CQ-11, VI-CQ-13, VI-EM-12, VI-ERR-16, VI-ERR-17, VI-ERR-18: for all that are bound to it.
    """
    server, client = ends.pair(level, server={"recv_cq": 2})
    idle = server.another()
    connect(server, client)
    for _ in range(4):
        server.receive()
    for _ in range(3):
        client.send(b"x")
    until(lambda: (server.state(), idle.state()) == ("ERROR", "ERROR"))
    code, resource = ERRORS.index("CATASTROPHIC"), RESOURCES.index("CQ")
    overrun = [server.nic, 0, server.cqs["recv_cq"], 0, 0, resource, code]
    until(lambda: overrun in [call[:7] for call in server.errors.calls()])
    assert (server.told(1), client.told(1)) == ([LOST], [LOST])
    for side in (server, idle):
        side.disconnect()
        side.drain(RECV)
        side.program.destroy_vi(side.vi)
    with fails("NOT_DONE"):
        server.program.cq_done(server.cqs["recv_cq"])
    server.program.call("VipDestroyCQ", server.cqs["recv_cq"])


@pytest.mark.parametrize("level", LEVELS)
def test_a_completion_that_cannot_be_written_is_told(ends, level):
    """VI-ERR-14, VI-ERR-16, VI-ERR-18, VI-MEM-12: the memory of the descriptor has gone since it
    was posted."""
    server, client = ends.connected(level)
    page = server.program.allocate(PAGE)
    handle = server.program.register(server.nic, page, PAGE, server.ptag)
    at = server.post(RECV, [server.part(0, 64)], at=page, handle=handle)
    left = server.receive()
    server.program.deregister(server.nic, page, handle)
    before = server.program.read(page, 64)
    client.send(b"where to")
    server.told(2)
    assert server.reports()[0][:7] == unwritten(server, at, STATUS.OP_RECEIVE)
    assert server.told(2) == ["COMP_PROT", LOST]
    assert (server.state(), server.program.read(page, 64)) == ("ERROR", before)
    client.until_state("ERROR")
    assert [done.descriptor for done in server.drain(RECV)][-1] == left


def unwritten(side, at, operation):
    """What is told of a descriptor that could not be completed."""
    resource, code = RESOURCES.index("DESCRIPTOR"), ERRORS.index("COMP_PROT")
    return [side.nic, side.vi, 0, at, operation, resource, code]


@pytest.mark.parametrize(
    ("control", "operation"),
    ((0, STATUS.OP_SEND), (WRITE, STATUS.OP_RDMA_WRITE), (READ, STATUS.OP_RDMA_READ)),
    ids=("send", "write", "read"),
)
def test_a_completion_of_an_operation_that_cannot_be_written_is_told(ends, control, operation):
    """VI-ERR-14, VI-ERR-18: the partner has answered after the memory of the descriptor has gone."""
    server, client = ends.connected(RR)
    server.receive()
    page = client.program.allocate(PAGE)
    handle = client.program.register(client.nic, page, PAGE, client.ptag)
    remote = server.part(0x1000, 0) if control else None
    piece = [client.part(0, 8)]
    with stopped(server.program):
        client.post(SEND, piece, at=page, handle=handle, control=control, remote=remote)
        client.program.deregister(client.nic, page, handle)
        before = client.program.read(page, 64)
    assert client.told(2) == ["COMP_PROT", LOST]
    assert client.reports()[0][:7] == unwritten(client, page, operation)
    assert (client.state(), client.program.read(page, 64)) == ("ERROR", before)
    server.until_state("ERROR")


# --- resources of which there are no more


@contextmanager
def no_sessions(guest):
    """Inside, another process has all sessions that are left to a user."""
    with sharing.Process(guest) as other:
        sizes = {"protocol": 7, "local_min": 1, "local_max": 1}
        where = {"location": MP.LOCATION_LOGICAL, "interface": other.interface(loopback=True)}
        server = {"role": MP.ROLE_SERVER, "flags": MP.SESSION_DEFER, **where, **sizes}
        with sharing.fails(errno.EDQUOT):
            while True:
                other.call("SESSION_OPEN", "mp_session_open", **server)
        yield


def test_a_vi_without_a_session_is_told_so_and_others_go_on(ends):
    """VI-STATE-5, VI-CONN-23, VI-PEER-11: of a client and of a peer, which are Idle then and keep
    what they have posted; a server does not wait. Later they connect."""
    server, client = ends.connected(RD)
    one, other = server.another(), client.another()
    kept = other.receive()
    waiting = server.program.wait_client(server.nic, server.host, b"waits")
    server.program.until_asleep()
    with no_sessions(client.program.guest):
        for ask_for in (
            lambda: other.program.request(other.vi, (other.host, b""), (server.host, b"waits")),
            lambda: asks_peer(other, server),
            lambda: other.program.wait_client(other.nic, other.host, b"own").call.result(),
        ):
            with fails("ERROR_RESOURCE"):
                ask_for()
            info = other.program.query(other.vi)
            assert (info.state, info.recv_empty) == ("IDLE", False)
            says(client, server, b"goes on")
            says(server, client, b"as well")
    assert (server.reports(), client.reports()) == ([], [])
    found, asking = meet(waiting, other, (server.host, b"waits"))
    one.program.accept(found.conn, one.vi)
    asking.result()
    one.send(b"kept")
    assert other.wait(RECV).descriptor == kept


def asks_peer(side, other):
    side.program.peer_request(side.vi, (side.host, b""), (other.host, b"peer"))
    side.program.peer_wait(side.vi)


# --- what is told


def test_errors_are_told_one_after_the_other(ends):
    """VI-ERR-5, VI-ERR-19, VI-ERR-20, VI-ERR-3: in order of occurrence, on a thread of their own;
    each loss once."""
    server, client = ends.connected(UD)
    for _ in range(4):
        client.send(b"nobody")
        nowhere = server.part(0, 0)._replace(handle=7)
        client.post(SEND, [client.part(0, 8)], control=WRITE, remote=nowhere)
    # What the descriptor itself tells is told nobody else.
    server.receive(0, 1)
    client.send(b"too long")
    client.disconnect()
    assert server.told(9) == ["RECVQ_EMPTY", "RDMAW_PROT"] * 4 + [LOST]
    assert server.reports()[-1][7] == STATES.index("ERROR")
    assert server.wait(RECV).errors == {"LENGTH"}
    threads = {told["thread"] for told in server.errors.told()}
    assert len(threads) == 1 and server.program.pid not in threads
    server.disconnect()
    connect(server, client)
    client.disconnect()
    assert server.told(10)[9:] == [LOST]
    assert client.reports() == []


# --- within one host


def test_what_was_destroyed_is_refused(ends):
    """VI-EP-7, VI-EP-9, VI-PTAG-1, VI-PTAG-4: tags and completion queues; a tag can be destroyed once
    memory has another one."""
    side = ends.side(0)
    program = side.program
    tags = [program.ptag(side.nic) for _ in range(40)]
    assert len({side.ptag, *tags}) == 41
    old, new, gone = tags[:3]
    cq = program.cq(side.nic)
    program.call("VipDestroyPtag", side.nic, gone)
    program.call("VipDestroyCQ", cq)
    with fails("INVALID_PTAG"):
        program.create_vi(side.nic, side.attributes._replace(ptag=gone))
    for queues in ((cq, 0), (0, cq)):
        with fails("INVALID_PARAMETER"):
            program.create_vi(side.nic, side.attributes, *queues)
    address = program.allocate(PAGE)
    with fails("INVALID_PTAG"):
        program.register(side.nic, address, PAGE, gone)
    handle = program.register(side.nic, address, PAGE, old)
    program.set_memory(side.nic, address, handle, new)
    program.call("VipDestroyPtag", side.nic, old)
    with fails("ERROR_RESOURCE"):
        program.call("VipDestroyPtag", side.nic, new)


def test_each_handle_of_a_nic_has_its_own_handler(ends):
    """VI-ERR-1: and only the last one that was given."""
    one, other = ends.side(0), ends.side(0)
    misaligned(one)
    assert one.told(1) == ["POST_DESC"]
    later = one.program.handler("error")
    one.program.notify("VipErrorCallback", one.nic, later)
    misaligned(one)
    misaligned(other)
    assert (later.wait(1)[0][0], other.told(1)) == (one.nic, ["POST_DESC"])
    assert [len(handler.calls()) for handler in (one.errors, later, other.errors)] == [1, 1, 1]


def test_a_catastrophe_is_one_in_every_state(ends):
    """VI-STATE-13: Idle, Pending Connect and Error; Connected is above."""
    side = ends.side(0)
    for pending in (False, True):
        if pending:
            here = (side.host, b"nobody")
            side.program.peer_request(side.vi, here, here)
        for _ in range(2):
            kept = side.receive()
            misaligned(side)
            assert side.state() == "ERROR"
            assert [done.descriptor for done in side.drain(RECV)] == [kept]
        side.disconnect()
    assert side.told(4) == ["POST_DESC"] * 4


def test_waits_of_no_time_look_once(ends):
    """VI-GEN-4"""
    server, client = ends.connected(RR)
    at = server.receive()
    with stopped(server.program):
        client.send(b"later")
        with fails("TIMEOUT"):
            client.wait(SEND, 0)
        assert client.program.seconds < 1
    until(lambda: server.program.completion(at).status & STATUS.DONE)
    assert server.wait(RECV, 0).errors == set()
    server.receive()
    with fails("TIMEOUT"):
        server.wait(RECV, 0)
    sent = client.base
    until(lambda: client.program.completion(sent).status & STATUS.DONE)
    assert client.wait(SEND, 0).descriptor == sent


def test_a_peer_of_the_own_host_that_is_alone(ends):
    """VI-PEER-6: it does not meet itself."""
    one = ends.side(0)
    here = (one.host, b"here")
    one.program.peer_request(one.vi, here, here, 300)
    with fails("TIMEOUT"):
        one.program.peer_wait(one.vi)
    other = one.another()
    for side in (one, other):
        side.program.peer_request(side.vi, here, here)
    for side in (one, other):
        side.program.peer_wait(side.vi)
    assert (one.state(), other.state()) == ("CONNECTED", "CONNECTED")


def test_a_nic_that_is_closed_leaves_nothing(ends):
    """VI-NIC-5, VI-QRY-1, VI-QRY-2: no thread, and no page that is pinned; until then it says the
    same of itself."""
    first = ends.side(0)
    program, guest = first.program, first.program.guest
    threads = lambda: len(guest.run(f"ls /proc/{program.pid}/task").out.split())
    program.close_nic(first.nic)
    server = ends.side(1)
    before, pages = until(lambda: idle_threads(threads)), pinned(guest)
    client = ends.side(0, recv_cq=8)
    told = client.program.nic_attributes(client.nic)
    other = client.another()
    other.vi = program.create_vi(client.nic, client.attributes)
    connect(server, other)
    for n in range(10):
        other.receive()
        server.send(b"%d" % n)
        assert other.wait(RECV).errors == set()
    other.receive()
    program.notify("VipRecvNotify", other.vi, program.handler("queue"))
    program.notify("VipCQNotify", client.cqs["recv_cq"], program.handler("cq"))
    assert client.program.nic_attributes(client.nic) == told
    assert program.read(told.address, told.address_len) == client.host.to_bytes(4, "big")
    assert threads() > before
    program.close_nic(client.nic)
    until(lambda: threads() == before)
    wait_until_unpinned(guest, pages)
    assert server.told(1) == [LOST]


def idle_threads(threads):
    """How many there are, once there are no fewer."""
    found = threads()
    return found if found == threads() else None


def test_registration_leaves_memory_as_it_is(ends):
    """VI-MEM-3, VI-MEM-9: its bytes, and how it is mapped, but that it is locked; also what can only be
    read."""
    side = ends.side(0)
    program = side.program
    address = program.allocate(4 * PAGE)
    program.fill(address, 4 * PAGE, 7)
    code = code_of(side)
    flags = lambda: [mapping(program, at) for at in (address, code)]
    before, bytes_of_code = flags(), program.read(code, PAGE)
    handle = program.register(side.nic, address, 4 * PAGE, side.ptag, 1, 1)
    of_code = program.register(side.nic, code, PAGE, side.ptag, 1, 1)
    assert flags() == [(rights, own | {"lo"}) for rights, own in before]
    program.deregister(side.nic, address, handle)
    program.deregister(side.nic, code, of_code)
    assert flags() == before
    assert program.check(address, 4 * PAGE, 7) == INTACT
    assert program.read(code, PAGE) == bytes_of_code


def mapping(program, address):
    """The permissions and the flags of the mapping that an address lies in."""
    text = program.guest.run(f"grep -E '^[0-9a-f]+-|^VmFlags' /proc/{program.pid}/smaps").out
    for span, flags in re.findall(r"^(\w+-\w+ \S+).*\n(VmFlags.*)", text, re.M):
        begin, end = (int(part, 16) for part in span.split()[0].split("-"))
        if begin <= address < end:
            return span.split()[1], set(flags.split()[1:])
    raise AssertionError("nothing is mapped there")
