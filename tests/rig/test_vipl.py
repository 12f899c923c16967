# SPDX-License-Identifier: GPL-2.0-only
"""Virtual interfaces between hosts: programs as they were written in the 1990s, and rules that need
another host. The development host shows most of the rest, in `userlib/vipl`."""

import itertools
import json
import os
import time
from contextlib import contextmanager

import phases
import pytest
from ntbrig import stack
from ntbrig import vipl as programs
from pximc import MODULES
from vipl import RECV, RETURNED, SEND, STATUS, UD, RD, RR, Ends, Program, Side, connect, fails

# Long tests play more rounds.
LONG = os.environ.get("LONG") == "1"


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    return fabric


@pytest.fixture(scope="module")
def numbers(fabric):
    return programs.configure(fabric.hosts)


@pytest.fixture(params=("hosts", "own"))
def ends(request, fabric, numbers):
    """Where the server and the client run, and the numbers of their hosts: on two hosts, or both
    on one."""
    one, other = fabric.hosts
    if request.param == "own":
        return (one, numbers[0]), (one, numbers[0])
    return (other, numbers[1]), (one, numbers[0])


@pytest.fixture
def pair(ends):
    """Make two connected sides of a level."""
    started = []

    def make(level=RD, **options):
        sides = []
        for guest, number in ends:
            program = Program(guest)
            started.append(program)
            sides.append(Side(program, number, level, **options))
        connect(*sides)
        return sides

    yield make
    for program in started:
        program.end()


# --- the echo server and its clients


@pytest.mark.parametrize("level", ("unreliable", "delivery", "reception"))
def test_an_echo_server_serves_every_client(ends, level):
    """Clients come one after the other and side by side; each gets back what it has sent."""
    (there, number), (here, _) = ends
    clients, messages = 4, 100
    server = there.spawn([programs.example("vipl_echo_server"), clients], timeout=240)
    try:
        server.wait_for_output("ready")
        name = there.name.upper() if level == "delivery" else hex(number)
        command = [programs.example("vipl_echo_client"), name, messages, level]
        running = [here.spawn(command, env=programs.ENV, timeout=240) for _ in range(clients - 1)]
        for client in running:
            told = client.wait(120).check()
            assert told.out == f"{messages} messages, 0 wrong\n"
        last = here.run(command, 120, env=programs.ENV)
        assert last.out == f"{messages} messages, 0 wrong\n"
        assert f"{clients} clients have come and gone" in server.wait(60).check().out
    finally:
        server.kill()


def test_a_program_of_the_1990s_does_what_it_always_did(ends):
    """In C of 1989: a completion queue, RDMA, handlers of notices and errors, and an end."""
    (there, _), (here, _) = ends
    program = programs.tool("vipl_customary")
    server = there.spawn([program, "server"], env=programs.ENV, timeout=240)
    try:
        server.wait_for_output("ready")
        told = here.run([program, "client", there.name], 60, env=programs.ENV)
        assert told.out == "notified; all bytes are there\n"
        assert server.wait(60).check().out == "ready\nwritten; the client has left\n"
    finally:
        server.kill()


def test_a_client_without_a_server_finds_nobody(ends):
    """VI-CONN-19: at a host whose server is there, and waits for others."""
    (there, number), (here, host) = ends
    with Program(there) as other, Program(here) as program:
        server, side = Side(other, number), Side(program, host)
        request = program.request_later(side.vi, (host, b"x"), (number, b"nobody"), 30_000)
        with fails("NO_MATCH"):
            request.result()
        assert request.call.seconds < 10
        assert program.state(side.vi) == "IDLE"
        connect(server, side)


def test_a_host_has_the_address_that_the_fabric_has_for_it(fabric, numbers):
    """VI-NIC-9: each host its own, whoever asks."""
    for guest, number in zip(fabric.hosts, numbers):
        with Program(guest) as program:
            nics = [program.open_nic() for _ in range(2)]
            told = [program.nic_attributes(nic).host for nic in nics]
            assert told == [number.to_bytes(4, "big")] * 2
    assert len(set(numbers)) == 2


def test_hosts_find_each_other_without_being_told(fabric, numbers):
    """VI-SMI-2, VI-SMI-4, VI-SMI-5: the other host is a direct neighbour, and the host itself is
    none."""
    for guest, other in zip(fabric.hosts, reversed(numbers)):
        with Program(guest) as program:
            nic = program.open_nic()
            place = program.address(bytes(8))
            pointers = program.passed(place.to_bytes(8, "little"))
            for hops, room, result in ((1, 0, "ERROR_RESOURCE"), (1, 1, None), (0, 1, None)):
                values = [value.to_bytes(8, "little") for value in (hops, pointers, room)]
                listed = program.passed(b"".join(values))
                if result:
                    with fails(result):
                        program.call("VipQuerySystemManagementInfo", nic, 1, listed)
                else:
                    program.call("VipQuerySystemManagementInfo", nic, 1, listed)
                count = int.from_bytes(program.read(listed + 16, 8), "little")
                assert count == (1 if hops else 0)
            assert program.read(place, 2) == b"\x04\x00"
            assert program.read(place + 4, 4) == other.to_bytes(4, "big")


def test_names_come_from_the_file_of_the_host(fabric, numbers):
    """VI-NS-1: without a file of the program's own, for each interface that asks for names."""
    guest = fabric.hosts[0]
    guest.run(f"cp {programs.CONFIG} /etc/vipl.conf")
    try:
        with Program(guest, how=("env", "-u", "VIPL_CONF")) as program:
            nic, other = program.open_nic(), program.open_nic()
            at = program.address(bytes(4))
            program.call("VipNSInit", nic, 0)
            program.call("VipNSGetHostByName", nic, f"text={fabric.hosts[1].name}", at, 0)
            assert program.read(at + 4, 4) == numbers[1].to_bytes(4, "big")
            with fails("ERROR_NAMESERVICE"):
                program.call("VipNSGetHostByName", other, f"text={guest.name}", at, 0)
    finally:
        guest.run("rm /etc/vipl.conf")


# --- phases of conformance


def test_the_phase_is_full(fabric, numbers):
    """VI-CONF-1, VI-CONF-2, VI-CONF-3, VI-CONF-4, VI-CONF-5: all functions succeed for programs in C,
    and what each phase asks for works."""
    ends = Ends(fabric.hosts, numbers)
    ends.start()
    RETURNED.clear()
    try:
        rows = phases.examine(phases.PHASES, ends.connected)
        beside = phases.beside(ends.connected)
    finally:
        ends.end()
    print(phases.table(rows, beside))
    assert [row.missing for row in rows] == [()] * 3
    assert [(row.called, row.calls) for row in rows] == [(20, 20), (15, 15), (6, 6)]
    assert phases.attained(rows) == "Full"
    assert beside == list(phases.BESIDE)


def test_a_phase_is_attained_with_all_that_are_lower():
    """VI-CONF-4, VI-CONF-5: the report of interfaces that lack something; nothing lacks what is in no
    phase."""
    whole = [phases.Row(phase.name, len(phase.calls), len(phase.calls), ()) for phase in phases.PHASES]
    assert phases.attained(whole) == "Full"
    for lacking, best in enumerate((None, "Early Adopter", "Functional")):
        for change in ({"called": 5}, {"missing": ("RDMA write",)}):
            rows = list(whole)
            rows[lacking] = rows[lacking]._replace(**change)
            assert phases.attained(rows) == best
    asked = {need for phase in phases.PHASES for need in phase.needs}
    assert not asked & phases.BESIDE.keys()


# --- messages and remote memory


@pytest.mark.parametrize("level", (UD, RD, RR))
def test_a_message_arrives_and_both_descriptors_come_back(pair, level):
    """VI-RDMA-1, VI-DESC-16, VI-DESC-17: with immediate data, at every level."""
    server, client = pair(level)
    there = server.post(RECV, [server.part(0, 4096)])
    client.program.write(client.data, b"hello, world")
    here = client.post(SEND, [client.part(0, 12)], control=4, immediate=0x12345678)
    sent, received = client.wait(SEND), server.wait(RECV)
    assert (sent.descriptor, sent.errors, sent.length) == (here, set(), 12)
    assert sent.operation == STATUS.OP_SEND
    assert (received.descriptor, received.errors, received.length) == (there, set(), 12)
    assert received.operation == STATUS.OP_RECEIVE
    assert (received.status & STATUS.IMMEDIATE, received.immediate) == (STATUS.IMMEDIATE, 0x12345678)
    assert server.program.read(server.data, 13) == b"hello, world\0"


def test_a_write_and_a_read_need_nobody_there(pair):
    """VI-RDMA-2, VI-RDMA-4: memory changes, or is brought, and the target's queues stay as they
    are."""
    server, client = pair(RD)
    server.post(RECV, [server.part(0x4000, 64)])
    client.program.write(client.data, b"written")
    client.post(SEND, [client.part(0, 7)], control=1, remote=server.part(0x100, 0))
    done = client.wait(SEND)
    assert (done.errors, done.length, done.operation) == (set(), 7, STATUS.OP_RDMA_WRITE)
    server.program.write(server.data + 0x200, b"to be read")
    client.post(SEND, [client.part(0x1000, 10)], control=2, remote=server.part(0x200, 0))
    done = client.wait(SEND)
    assert (done.errors, done.length, done.operation) == (set(), 10, STATUS.OP_RDMA_READ)
    assert client.program.read(client.data + 0x1000, 10) == b"to be read"
    assert server.program.read(server.data + 0x100, 7) == b"written"
    with fails("NOT_DONE"):
        server.program.done(server.vi, RECV)


def test_a_partner_that_leaves_is_told_once(pair):
    """VI-DISC-2, VI-DISC-4, VI-ERR-5, VI-ERR-20: what is posted comes back flushed, and the VI can be
    used again."""
    server, client = pair(RD)
    handler = server.program.handler("error")
    server.program.notify("VipErrorCallback", server.nic, handler)
    posted = [server.post(RECV, [server.part(0, 64)]) for _ in range(3)]
    client.program.disconnect(client.vi)
    assert client.state() == "IDLE"
    (call,) = handler.wait(1)
    assert (call[0], call[1], handler.errors()) == (server.nic, server.vi, ["CONN_LOST"])
    assert call[7] == 3, "the VI was not in Error yet"
    flushed = server.program.drain(server.vi, RECV)
    assert [done.descriptor for done in flushed] == posted
    assert all(done.errors == {"DESC_FLUSHED"} for done in flushed)
    server.program.disconnect(server.vi)
    assert (server.state(), len(handler.calls())) == ("IDLE", 1)
    connect(server, client)
    assert (server.state(), client.state()) == ("CONNECTED", "CONNECTED")


def test_a_killed_partner_is_noticed(pair):
    """VI-NIC-7, VI-STATE-9"""
    server, client = pair(RD)
    handler = server.program.handler("error")
    server.program.notify("VipErrorCallback", server.nic, handler)
    server.post(RECV, [server.part(0, 64)])
    client.program.end()
    handler.wait(1)
    assert (handler.errors(), server.state()) == (["CONN_LOST"], "ERROR")
    assert [done.errors for done in server.program.drain(server.vi, RECV)] == [{"DESC_FLUSHED"}]


# --- tools


RUST = ("vi_perf", "vi_copy")
C = ("vipl_perf", "vipl_copy")


def path_of(name):
    return programs.tool(name) if name in RUST else programs.example(name)


@contextmanager
def running(guest, *command):
    """A program of the other side, which ends by itself."""
    process = guest.spawn(command, env=programs.ENV, timeout=240)
    try:
        yield
        process.wait(60).check()
    finally:
        process.kill()


def measured(there, here, server, client, *options, words=()):
    """What a client has printed."""
    with running(there, path_of(server), "server", "--once", *options):
        command = [path_of(client), "client", there.name, *options, *words]
        return here.run(command, 120, env=programs.ENV).out.splitlines()


@pytest.mark.parametrize(("server", "client"), ((RUST, RUST), (C, C), (RUST, C), (C, RUST)))
def test_the_tools_measure_and_copy(ends, server, client):
    """In Rust and in C, each on both sides: all kinds of results, and the bytes of a file."""
    (there, _), (here, _) = ends
    sizes = (8, 4096)
    words = ("--json", "--rounds", 64, "--sizes", ",".join(map(str, sizes)))
    told = list(map(json.loads, measured(there, here, server[0], client[0], words=words)))
    moved = [(r["kind"], r["operation"], r["bytes"], r["rounds"]) for r in told[:-1]]
    operations = ("send", "write", "read")
    assert moved == [
        (kind, *each, 64)
        for kind in ("latency", "bandwidth")
        for each in itertools.product(operations, sizes)
    ]
    assert (told[-1]["kind"], told[-1]["rounds"]) == ("connect", 7)
    for result in told:
        if result["kind"] == "latency":
            assert 0 < result["min"] <= result["median"] <= result["p99"]
        else:
            assert result.get("mb_s", result.get("per_s")) > 0
    there.run("rm -f /tmp/copied")
    source = path_of(client[1])
    with running(there, path_of(server[1]), "receive", "/tmp/copied"):
        here.run([source, "send", there.name, source], 120, env=programs.ENV)
    there.run(["cmp", source, "/tmp/copied"])


@pytest.mark.parametrize("options", (("--wait",), ("--cq",), ("--wait", "--cq", "--level", "reception")))
def test_the_tool_in_c_measures_in_every_way(fabric, numbers, options):
    here, there = fabric.hosts
    # A latency takes 50 rounds in advance, which last long with the largest size: once is enough.
    largest = 1 << (20 if LONG or "reception" in options else 16)
    words = ("--rounds", 32 if LONG else 4, "--sizes", f"1,{largest}")
    lines = measured(there, here, C[0], C[0], *options, words=words)
    assert lines[0].split() == ["measured", "with", "bytes", "rounds", "result", "of"]
    # Three lines for each latency, one for each bandwidth, one for connections.
    assert len(lines) == 1 + 3 * 2 * (3 + 1) + 1
    assert {line.split()[0] for line in lines[1:]} == {"latency", "bandwidth", "connect"}


@pytest.mark.parametrize(("server", "client"), ((C[0], C[0]), (C[0], RUST[0]), (RUST[0], C[0])))
def test_pauses_are_made_and_do_not_count(fabric, numbers, server, client):
    """A side that pauses tells for how long, and the other one, in whichever language, does not count
    it."""
    here, there = fabric.hosts
    pause, rounds = 40_000, 20
    options = ("--wait", "--pause", pause)
    words = ("--json", "--only", "latency", "--operations", "send,write")
    words += ("--rounds", rounds, "--sizes", 8)
    start = time.monotonic()
    told = list(map(json.loads, measured(there, here, server, client, *options, words=words)))
    # Two operations, with pauses of both sides.
    assert time.monotonic() - start >= 2 * 2 * rounds * pause / 1e6
    assert [result["operation"] for result in told] == ["send", "write"]
    assert all(0 < result["median"] < pause / 2 for result in told), told


def test_the_tools_in_c_copy_files_of_all_lengths(fabric, numbers):
    """None, less than a part, whole parts, and more than all receives take."""
    here, there = fabric.hosts
    for length in (0, 1, 32 << 10, 3 << 20, (3 << 20) + 17):
        here.run(f"head -c {length} /dev/urandom > /tmp/source")
        with running(there, path_of(C[1]), "receive", "/tmp/copied"):
            words = ["send", there.name, "/tmp/source", "--json"]
            told = here.run([path_of(C[1]), *words], env=programs.ENV)
        assert json.loads(told.out) == {"bytes": length}
        sent, received = here.run("sha256sum < /tmp/source"), there.run("sha256sum < /tmp/copied")
        assert sent.out == received.out


@pytest.mark.parametrize(
    "words",
    (
        (C[0],),
        (C[0], "client"),
        (C[0], "server", "more"),
        (C[0], "client", "4", "--sizes", "0"),
        (C[0], "client", "4", "--sizes", "8,"),
        (C[0], "client", "4", "--sizes", "1048577"),
        (C[0], "client", "4", "--rounds", "0"),
        (C[0], "client", "4", "--only", "speed"),
        (C[0], "client", "4", "--operations", "send,post"),
        (C[0], "server", "--level", "unreliable"),
        (C[1], "send", "4"),
        (C[1], "receive", "/tmp/copied", "--patience", "-1"),
    ),
)
def test_a_tool_in_c_refuses_a_command_line_that_makes_no_sense(fabric, words):
    name, *rest = words
    told = fabric.hosts[0].run([path_of(name), *rest], check=False)
    assert (told.rc, told.out, told.err.count("usage: ")) == (2, "", 1)
