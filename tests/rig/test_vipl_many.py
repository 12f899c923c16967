# SPDX-License-Identifier: GPL-2.0-only
"""As many virtual interfaces as a NIC tells, between hosts with windows of 1 MiB, and what becomes of
connections where there is less."""

import time
from contextlib import ExitStack, contextmanager

import pytest
from ntbrig import stack
from ntbrig import vipl as programs
from ntbrig.settings import MIB, PATIENCE
from pximc import MODULES
from shell import INTACT
from vipl import (
    PAGE, RECV, RR, SEND, Program, Side, all_ends, ask, connect, descriptor, ends, fails, memory_left, says, stopped,
)  # fmt: skip

SECONDS = 400
# VIs that a NIC tells.
MOST = 960
# Bytes: less than any window of a connection, and so few that connections share them.
TOO_LITTLE, SHORT = 0x3000, 0x2_0000
# Enough for twelve trunks, and still short.
FOR_TWELVE = 0x3_F000
# Milliseconds that the largest transfer may take.
LARGE = 120_000
WRITE, READ = 1, 2
CLIENT, SERVER = range(2)


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters={"ntb_hw_ivshmem": f"mw_size={MIB}"})
    programs.configure(fabric.hosts)
    return fabric


def test_all_virtual_interfaces_are_connected_at_once(fabric):
    """VI-LIM-6: each has a message both ways after the last one was connected."""
    client, server = fabric.hosts
    program = programs.tool("vipl_many")
    serving = server.spawn([program, "serve"], env=programs.ENV, timeout=SECONDS)
    try:
        serving.wait_for_output("ready")
        command = [program, "ask", server.name]
        asked = client.run(command, SECONDS, env=programs.ENV)
        served = serving.wait(60).check()
        # As many as both NICs have told.
        assert asked.out == f"{MOST} virtual interfaces\n"
        assert served.out.endswith(asked.out)
    finally:
        serving.kill()


# --- memory that is short


@contextmanager
def left(fabric, short, length):
    """Inside, so many bytes for windows are free at a host."""
    with memory_left(fabric.hosts[short], fabric.hosts[1 - short], length):
        yield


def goes_idle(side):
    assert side.state() == "IDLE"
    assert side.reports() == []


@pytest.mark.parametrize("short", ((SERVER,), (CLIENT,), (SERVER, CLIENT)))
def test_memory_that_is_missing_is_told_to_a_client_and_a_server(fabric, ends, short):
    """VI-CONN-8, VI-GEN-8, VI-STATE-5: a server whose host has none can still answer; otherwise both
    are told, and at once."""
    server, client = ends.pair()
    with ExitStack() as taken:
        for host in short:
            taken.enter_context(left(fabric, host, TOO_LITTLE))
        found, asking = ask(server, client)
        begun = time.monotonic()
        with fails("ERROR_RESOURCE"):
            server.program.accept(found.conn, server.vi)
        goes_idle(server)
        if SERVER in short:
            assert client.state() == "CONNECT_PENDING"
            with fails("ERROR_RESOURCE"):
                server.program.accept(found.conn, server.vi)
            server.program.reject(found.conn)
            with fails("REJECT"):
                asking.result()
        else:
            with fails("ERROR_RESOURCE"):
                asking.result()
        assert time.monotonic() - begun < 4 * PATIENCE
        goes_idle(client)
    connect(server, client)
    says(server, client, b"as if nothing had been")


@pytest.mark.parametrize("short", (SERVER, CLIENT))
def test_memory_that_is_missing_is_told_to_peers(fabric, ends, short):
    """VI-GEN-8, VI-STATE-5, VI-PEER-9: to both, whose host it is that has none."""
    pair = ends.pair()
    with left(fabric, short, TOO_LITTLE):
        for one, other in (pair, pair[::-1]):
            one.program.peer_request(one.vi, (one.host, b""), (other.host, b"peer"))
        for side in pair:
            with fails("ERROR_RESOURCE"):
                side.program.peer_wait(side.vi)
            goes_idle(side)
    connect(*pair)
    says(*pair, b"as if nothing had been")


@pytest.mark.parametrize("short", (SERVER, CLIENT))
def test_connections_share_what_is_short_at_one_host(fabric, ends, short):
    """VI-LIM-6: although the other one has enough, and more than what is free would be needed."""
    server, client = ends.pair()
    with left(fabric, short, SHORT):
        with left(fabric, 1 - short, SHORT):
            connect(server, client)
        pairs = [(server, client)]
        with left(fabric, short, TOO_LITTLE):
            for _ in range(8):
                pairs.append((server.another(), client.another()))
                connect(*pairs[-1])
            for one, other in pairs:
                says(one, other, b"here")
                says(other, one, b"there")


# --- the most of everything, in lanes


@contextmanager
def lanes(fabric):
    """Inside, connections share what memory there is."""
    with left(fabric, SERVER, SHORT), left(fabric, CLIENT, SHORT):
        yield


def copies(side, queue, count, piece, **fields):
    """Post so many descriptors of one piece of the data, which lie at the begin of the memory."""
    side.program.write(side.base, descriptor([side.part(0, piece)], **fields))
    side.program.post_copies(side.vi, queue, side.base, 64, 0, side.memory, count)


def test_the_largest_transfer_goes_through_a_lane(fabric, ends):
    """VI-LIM-6, VI-LIM-5: as a message, a write and a read."""
    with lanes(fabric):
        most = ends.program(0).nic_attributes(ends.side(0).nic).transfer
        assert most == 16 * MIB
        server, client = ends.connected(RR, size=most, pages=8 + most // PAGE)
        for n, control in enumerate((0, WRITE, READ)):
            own, other = (server, client) if control == READ else (client, server)
            own.program.fill(own.data, most, n)
            receive = server.receive(0, most) if not control else None
            remote = server.part(0, 0) if control else None
            client.post(SEND, [client.part(0, most)], control=control, remote=remote)
            done = client.wait(SEND, LARGE)
            assert (done.errors, done.length) == (set(), most)
            if receive:
                assert server.wait(RECV).descriptor == receive
            assert other.program.check(other.data, most, n) == INTACT


def test_lanes_have_checks(fabric, ends):
    """VI-REL-1, VI-REL-2: connections that share a pair, with and without checks, between hosts. A
    message of one that is changed on its way ends that one alone."""
    asks = {"how": ("env", "VIPL_CHECKS=1")}
    with lanes(fabric), Program(fabric.hosts[0], **asks) as program:
        server, client = ends.side(1, RR), Side(program, ends.numbers[0], RR)
        pairs = [(server, client)] + [(server.another(), client.another()) for _ in range(3)]
        for there, here in pairs:
            connect(there, here)
        for there, here in pairs:
            here.program.fill(here.data, 0x8001, 1)
            receive = there.receive(0, 0x8001)
            here.post(SEND, [here.part(0, 0x8001)])
            assert here.wait(SEND).errors == set()
            got = there.wait(RECV)
            assert (got.descriptor, got.errors, got.length) == (receive, set(), 0x8001)
            assert there.program.check(there.data, 0x8001, 1) == INTACT
        data = bytes(n * 7 % 251 for n in range(1000))
        server.receive(0, len(data))
        client.put(0x10000, data)
        with stopped(server.program):
            client.post(SEND, [client.part(0x10000, len(data))])
            at, _ = client.program.in_windows(data)
            client.program.write(at + 500, b"\xff")
        assert client.wait(SEND).errors == server.wait(RECV).errors == {"TRANSPORT"}
        client.until_state("ERROR")
        for there, here in pairs[1:]:
            says(there, here, b"goes on")
            says(here, there, b"goes on")


@pytest.mark.parametrize("control", (0, WRITE, READ))
def test_queues_of_lanes_hold_as_many_descriptors_as_a_nic_tells(fabric, ends, control):
    """VI-LIM-6: messages, writes and reads. All of them wait at once for a partner that is stopped, and
    all are complete afterwards."""
    with lanes(fabric):
        most = ends.program(0).nic_attributes(ends.side(0).nic).descriptors
        server, client = ends.connected(RR, pages=8 + most * 64 // PAGE)
        for side in (server, client):
            side.data = side.base + most * 64
        remote = server.part(64, 0) if control else None
        if not control:
            copies(server, RECV, most, 64)
        with stopped(server.program):
            copies(client, SEND, most, 64, control=control, remote=remote)
            with fails("NOT_DONE"):
                client.done(SEND)
            assert (client.state(), client.reports()) == ("CONNECTED", [])
        assert client.program.collect(client.vi, SEND, most) == (most, 0)
        if not control:
            assert server.program.collect(server.vi, RECV, most) == (most, 0)


def test_a_completion_queue_is_filled_by_lanes(fabric, ends):
    """VI-LIM-6: with as many entries as a NIC tells, of VIs whose queues are full."""
    with lanes(fabric):
        told = ends.program(0).nic_attributes(ends.side(0).nic)
        server = ends.side(SERVER, RR, recv_cq=told.cq_entries, pages=8 + told.descriptors * 64 // PAGE)
        client = ends.side(CLIENT, RR, pages=8 + told.descriptors * 64 // PAGE)
        pairs = [(server.another(), client.another())]
        while len(pairs) * told.descriptors < told.cq_entries:
            pairs.append((server.another(), client.another()))
        for there, here in pairs:
            connect(there, here)
            # Without data, and without a place of its own for each.
            there.program.post_many(there.vi, RECV, there.base, there.memory, told.descriptors)
            here.program.post_many(here.vi, SEND, here.base, here.memory, told.descriptors)
            count = told.descriptors
            assert here.program.collect(here.vi, SEND, count) == (count, 0)
            # Their entries stay.
            assert there.program.count(there.vi, RECV) == (0, count)
        cq = server.cqs["recv_cq"]
        assert server.program.count_entries(cq) == told.cq_entries
        assert server.errors.calls() == []


def test_several_nic_handles_have_trunks_of_their_own(fabric, ends):
    """VI-LIM-6: each with connections to each of the other program, and all of them at once."""
    servers, clients = [ends.side(SERVER) for _ in range(3)], [ends.side(CLIENT) for _ in range(4)]
    with left(fabric, SERVER, FOR_TWELVE), left(fabric, CLIENT, FOR_TWELVE):
        pairs = []
        for server in servers:
            for client in clients:
                pairs.append((server.another(), client.another()))
                connect(*pairs[-1])
        for n, (one, other) in enumerate(pairs):
            says(one, other, b"from %d" % n)
            says(other, one, b"to %d" % n)
