# SPDX-License-Identifier: GPL-2.0-only
"""How VIs of two hosts find each other, and how they part: the rules of connections, states and
partitions. A server runs on the second host, and its client on the first one; then both run on
one."""

import os
import random
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from frames import wait_for_peers
from ntbrig.settings import PATIENCE
from places import all_ends, fabric
from shell import INTACT, until
from vipl import (
    FOREVER, LEVELS, PAGE, RD, RECV, RR, SEND, SOON, STATUS, UD, Program, Side, ViplError, ask,
    connect, ends, fails, meet, says, stopped,
)  # fmt: skip

LONG = os.environ.get("LONG") == "1"
FLUSHED = {"DESC_FLUSHED"}
# Milliseconds in which nobody answers.
BRIEF = 300


@contextmanager
def unplugged(fabric):
    """Inside, there is no link between the hosts."""
    fabric.unplug(fabric.hosts[1])
    try:
        wait_for_peers(fabric.rp, 0)
        yield
    finally:
        fabric.plug(fabric.hosts[1])
        for guest in fabric.hosts:
            wait_for_peers(guest, 1)


# --- client and server


@pytest.mark.parametrize("exchanged", (False, True), ids=("", "exchanged"))
def test_a_server_and_a_client_learn_of_each_other(ends, exchanged):
    """VI-CONN-1, VI-CONN-2, VI-CONN-16, VI-CONN-17, VI-CONN-18, VI-CONN-22, VI-ADDR-7, VI-STATE-2,
    VI-STATE-3, VI-STATE-4: by the discriminator that the client asks for, and nothing else;
    whichever host the server is on."""
    server = ends.side(1 - exchanged, enables=(0, 1))
    client = ends.side(int(exchanged), enables=(1, 0))
    local = (client.host, b"anything else...")
    waiting = server.program.wait_client(server.nic, server.host, b"right")
    for wrong in (b"", b"wrong", b"righ", b"right\0"):
        with fails("NO_MATCH"):
            client.program.request(client.vi, local, (server.host, wrong))
    found, asking = meet(waiting, client, (server.host, b"right"), local=local[1])
    assert client.state() == "CONNECT_PENDING"
    before = client.program.query(client.vi)
    with fails("INVALID_STATE"):
        client.program.request(client.vi, local, (server.host, b"right"))
    with fails("INVALID_STATE"):
        client.program.peer_request(client.vi, local, (server.host, b"right"))
    assert client.program.query(client.vi) == before
    assert (found.host, found.discriminator) == (client.host.to_bytes(4, "big"), local[1])
    assert found.attributes == client.attributes._replace(ptag=0)
    server.program.accept(found.conn, server.vi)
    assert asking.result() == server.attributes._replace(ptag=0)
    assert (server.state(), client.state()) == ("CONNECTED", "CONNECTED")
    says(client, server, b"data")


def test_both_ends_can_be_used_at_once(ends):
    """VI-CONN-12, VI-POST-5: receives that were posted in Idle and Pending Connect are used."""
    server, client = ends.pair()
    kept = [server.receive(), client.receive()]
    found, asking = ask(server, client)
    later = client.receive(1024)
    server.program.accept(found.conn, server.vi)
    server.send(b"from the server")
    asking.result()
    client.send(b"from the client")
    server.send(b"once more")
    assert [server.wait(RECV).descriptor, client.wait(RECV).descriptor] == kept
    assert client.wait(RECV).descriptor == later
    assert server.bytes(0, 15) == b"from the client"
    assert (client.bytes(0, 15), client.bytes(1024, 9)) == (b"from the server", b"once more")


def test_one_wait_takes_one_client(ends):
    """VI-CONN-4, VI-CONN-5: of two clients the other one finds nobody; of two servers the other one
    goes on waiting."""
    server, client = ends.pair(UD)
    found, asking = ask(server, client)
    other = client.another()
    with fails("NO_MATCH"):
        other.program.request(other.vi, (client.host, b""), (server.host, b"test"))
    server.program.reject(found.conn)
    with fails("REJECT"):
        asking.result()
    waiting = [server.program.wait_client(server.nic, server.host, b"two") for _ in range(2)]
    server.program.until_asleep()
    for left in (1, 0):
        asking = client.program.request_later(client.vi, (client.host, b""), (server.host, b"two"))
        until(lambda: [wait.call.returned() for wait in waiting].count(False) == left)
        (taken,) = [wait for wait in waiting if wait.call.returned()]
        waiting.remove(taken)
        server.program.reject(taken.result().conn)
        with fails("REJECT"):
            asking.result()


@pytest.mark.parametrize("servers", (1, 2))
def test_many_clients_ask_for_the_same_discriminator(ends, servers):
    """VI-CONN-25: of one or two processes; all of them are answered."""
    clients = 32
    client = ends.side(0, UD)
    sides = [client, *(client.another() for _ in range(clients - 1))]
    server = ends.side(1, UD)
    with Program(server.program.guest) as second:
        owners = [(server.program, server.nic), (second, second.open_nic())][:servers]
        turns = [owners[n % servers] for n in range(clients)]
        waiting = [program.wait_client(nic, server.host, b"many") for program, nic in turns]
        for program, _ in owners:
            program.until_asleep()
        asking = [
            side.program.request_later(side.vi, (side.host, b""), (server.host, b"many"))
            for side in sides
        ]
        found = {program: [] for program, _ in owners}
        for (program, _), wait in zip(turns, waiting):
            found[program].append(wait.result().conn)
        for program, conns in found.items():
            first, *others = conns
            if program is server.program:
                program.accept(first, server.vi)
            else:
                nic = dict(owners)[program]
                attributes = server.attributes._replace(ptag=program.ptag(nic))
                program.accept(first, program.create_vi(nic, attributes))
            for conn in others:
                program.reject(conn)
        answers = sorted(result(request.result) for request in asking)
        assert answers == ["REJECT"] * (clients - servers) + ["SUCCESS"] * servers


def test_a_killed_server_that_waits_is_forgotten(ends):
    """VI-CONN-6, SC-17: its discriminator matches nobody, and can be waited for again."""
    server, client = ends.pair()
    found, asking = ask(server, client)
    server.program.reject(found.conn)
    with fails("REJECT"):
        asking.result()
    server.program.wait_client(server.nic, server.host, b"test", FOREVER)
    server.program.until_asleep()
    server.program.end()
    with fails("NO_MATCH"):
        client.program.request(client.vi, (client.host, b""), (server.host, b"test"), FOREVER)
    ends.start()
    connect(ends.side(1), client)


def test_a_thread_that_is_cancelled_waits_for_nobody(ends):
    """VI-CONN-6: in VipConnectWait; nothing is left of it, and other threads go on."""
    server, client = ends.pair()
    connected = server.another(), client.another()
    connect(*connected)
    program, where = server.program, (server.host, b"test")
    other = program.wait_client(server.nic, server.host, b"other", FOREVER)
    out = program.allocate(PAGE)
    files = lambda: len(program.guest.run(f"ls /proc/{program.pid}/fd").out.split())
    opened = []
    for _ in range(3):
        arguments = (program.address(*where), FOREVER, out, out + 64, out + 128)
        assert program.cancel(500, "VipConnectWait", server.nic, *arguments)
        with fails("NO_MATCH"):
            client.program.request(client.vi, (client.host, b""), where, FOREVER)
        opened.append(files())
    assert opened == opened[:1] * 3
    assert program.same(out, PAGE, 0) == INTACT
    says(*connected, b"still here")
    found, asking = meet(other, client, (server.host, b"other"))
    program.accept(found.conn, server.vi)
    asking.result()
    again = client.another()
    connect(server.another(), again)


def test_a_thread_that_was_cancelled_goes_on_in_all_other_functions(ends):
    """VI-GEN-1: those that open and close, read files, post, look and wait return; the thread
    ends behind them."""
    server, client = ends.connected()
    program = server.program
    out = program.allocate(PAGE)
    program.cancelled("VipOpenNic", "text=VINIC", out)
    nic = int.from_bytes(program.read(out, 8), "little")
    program.cancelled("VipNSInit", nic, 0)
    program.cancelled("VipNSShutdown", nic)
    program.cancelled("VipCreatePtag", nic, out)
    program.cancelled("VipCloseNic", nic)
    at = server.receive()
    with fails("TIMEOUT"):
        program.cancelled("VipRecvWait", server.vi, BRIEF, out)
    with fails("NO_MATCH"):
        names = program.address(server.host, b""), program.address(client.host, b"nobody")
        program.cancelled("VipConnectRequest", server.another().vi, *names, FOREVER, out)
    program.cancelled("VipDisconnect", server.vi)
    assert server.done(RECV).descriptor == at


@pytest.mark.parametrize("end", ("close", "kill"))
def test_a_server_that_goes_without_an_answer(ends, end):
    """VI-CONN-24: its client need not wait for ever."""
    server, client = ends.pair()
    _, asking = ask(server, client, timeout=FOREVER)
    if end == "kill":
        server.program.end()
    else:
        server.program.close_nic(server.nic)
    with fails("NO_MATCH"):
        asking.result()
    assert client.state() == "IDLE"


def test_a_request_is_answered_by_one_thread(ends):
    """VI-CONN-13, VI-CONN-14: while a server waits for a client that is stopped, nothing else can be
    said to that one, and nobody waits to hear so."""
    server, client = ends.pair()
    found, asking = ask(server, client, timeout=FOREVER)
    other = server.another()
    with stopped(client.program):
        accepting = server.program.later.call("VipConnectAccept", found.conn, server.vi)
        server.program.until_asleep()
        for answer in (
            lambda: server.program.accept(found.conn, other.vi),
            lambda: server.program.reject(found.conn),
        ):
            with fails("INVALID_PARAMETER"):
                answer()
            # The kernel waits for the client for five.
            assert server.program.seconds < 2
        assert not accepting.returned()
    accepting.result()
    asking.result()
    assert other.state() == "IDLE"
    says(client, server, b"connected")


@pytest.mark.parametrize("end", ("disconnect", "close"))
def test_an_acceptance_that_waits_is_ended(ends, end):
    """VI-DISC-9, VI-NIC-8: its client is stopped, and another thread ends the VI's attempt or closes
    the interface. The call says so, and does not wait for the client's time."""
    server, client = ends.pair()
    found, asking = ask(server, client, timeout=FOREVER)
    with stopped(client.program):
        accepting = server.program.later.call("VipConnectAccept", found.conn, server.vi)
        server.program.until_asleep()
        if end == "close":
            server.program.close_nic(server.nic)
        else:
            server.disconnect()
        with fails("INVALID_PARAMETER" if end == "close" else "INVALID_STATE"):
            accepting.result()
        assert accepting.seconds < 4
    with fails("INVALID_PARAMETER"):
        server.program.accept(found.conn, server.vi)
    # The client had no answer, or was connected and has lost that.
    assert result(asking.result) in ("SUCCESS", "NO_MATCH", "TIMEOUT")


def interrupted(program, come, name, before, after=(), vain=BRIEF):
    """Call a function that waits while a signal interrupts its thread a thousand times each second: in
    vain, and for what comes."""
    often = 1000
    if vain:
        with fails("TIMEOUT"):
            program.interrupted(often, name, *before, vain, *after)
        assert vain / 1000 <= program.seconds < 5, name
    waits = program.later.interrupted(often, name, *before, FOREVER, *after)
    time.sleep(0.3)
    assert not waits.returned(), name
    come()
    assert waits.result() > 20, name


def test_signals_end_no_wait(ends):
    """VI-GEN-2, VI-GEN-4: nor make it longer or shorter."""
    server, client = ends.connected(RR)
    program = server.program
    cq = program.cq(server.nic)
    queued, there = server.another(), client.another()
    queued.vi = program.create_vi(server.nic, server.attributes, recv_cq=cq)
    connect(queued, there)
    out = program.allocate(PAGE)
    server.receive()
    interrupted(program, lambda: client.send(b"comes"), "VipRecvWait", (server.vi,), (out,))
    queued.receive()
    interrupted(program, lambda: there.send(b"comes"), "VipCQWait", (cq,), (out, out + 8))
    client.receive()
    goes_on = lambda: client.program.guest.run(f"kill -CONT {client.program.pid}")
    with stopped(client.program):
        server.send(b"is taken later")
        interrupted(program, goes_on, "VipSendWait", (server.vi,), (out,))
    new, other = server.another(), client.another()
    names = (client.host, b""), (server.host, b"signals")
    asking = []
    come = lambda: asking.append(other.program.request_later(other.vi, *names, FOREVER))
    places = out, out + 64, out + 128
    interrupted(
        program, come, "VipConnectWait", (server.nic, program.address(*names[1])), places
    )
    conn = int.from_bytes(program.read(out + 128, 8), "little")
    with stopped(client.program):
        accepting = program.later.interrupted(1000, "VipConnectAccept", conn, new.vi)
        time.sleep(0.3)
        assert not accepting.returned()
    assert accepting.result() > 20
    asking[0].result()
    # The other way round.
    serves = client.program.wait_client(client.nic, client.host, b"signals", FOREVER)
    client.program.until_asleep()
    own = server.another()
    names = program.address(server.host, b""), program.address(client.host, b"signals")
    with fails("TIMEOUT"):
        program.interrupted(1000, "VipConnectRequest", own.vi, *names, BRIEF, out)
    assert BRIEF / 1000 <= program.seconds < 5
    serves.result()
    serves = client.program.wait_client(client.nic, client.host, b"signals", FOREVER)
    client.program.until_asleep()
    answers = client.another()
    come = lambda: client.program.accept(serves.result().conn, answers.vi)
    interrupted(program, come, "VipConnectRequest", (own.vi, *names), (out,), vain=None)
    met, peer = server.another(), client.another()
    met.program.peer_request(met.vi, (met.host, b""), (peer.host, b"meet"), BRIEF)
    with fails("TIMEOUT"):
        program.interrupted(1000, "VipConnectPeerWait", met.vi, out)
    met.program.peer_request(met.vi, (met.host, b""), (peer.host, b"meet"), FOREVER)
    waits = program.later.interrupted(1000, "VipConnectPeerWait", met.vi, out)
    time.sleep(0.3)
    assert not waits.returned()
    peer.program.peer_request(peer.vi, (peer.host, b""), (met.host, b"meet"))
    assert waits.result() > 20
    assert collected(peer)


def test_an_acceptance_that_fails_tells_the_client_nothing(ends):
    """VI-CONN-9, VI-CONN-10, VI-CONN-21, SC-11: the server may change the attributes, or take
    another VI; tags and enables need not agree."""
    server, client = ends.pair(server={"enables": (0, 0)}, client={"enables": (1, 1)})
    good = server.attributes
    found, asking = ask(server, client)
    for attributes, error in (
        (good._replace(level=RR), "INVALID_RELIABILITY_LEVEL"),
        (good._replace(level=UD, size=1), "INVALID_RELIABILITY_LEVEL"),
        (good._replace(size=good.size - 1), "INVALID_MTU"),
    ):
        server.program.set_vi(server.vi, attributes)
        with fails(error):
            server.program.accept(found.conn, server.vi)
        assert server.program.query(server.vi).attributes == attributes
        assert (server.state(), client.state()) == ("IDLE", "CONNECT_PENDING")
    assert not asking.call.returned()
    other = server.another(**good._asdict())
    server.program.accept(found.conn, other.vi)
    assert asking.result() == good._replace(ptag=0)
    assert (other.state(), client.state()) == ("CONNECTED", "CONNECTED")
    says(client, other, b"and it works")


def test_a_client_whose_server_never_answers(ends):
    """VI-GEN-2, VI-CONN-11, VI-CONN-15, VI-CONN-20, VI-CONN-21, VI-CONN-23, VI-STATE-5: it waits as
    long as it was told, and can try again with what it has posted. Also if the server has looked at
    it, and the attributes did not fit."""
    server, client = ends.pair()
    kept = client.receive()
    for timeout in (0, BRIEF):
        waiting = server.program.wait_client(server.nic, server.host, b"nobody", timeout)
        with fails("TIMEOUT"):
            waiting.result()
        assert timeout / 1000 <= waiting.call.seconds < 10 * BRIEF / 1000
    found = []
    for attributes in (None, server.attributes._replace(level=RR)):
        request, asking = ask(server, client, timeout=BRIEF)
        if attributes:
            server.program.set_vi(server.vi, attributes)
            with fails("INVALID_RELIABILITY_LEVEL"):
                server.program.accept(request.conn, server.vi)
            server.program.set_vi(server.vi, server.attributes)
        with fails("TIMEOUT"):
            asking.result()
        assert BRIEF / 1000 <= asking.call.seconds < 10 * BRIEF / 1000
        info = client.program.query(client.vi)
        assert (info.state, info.recv_empty) == ("IDLE", False)
        found.append(request.conn)
    with fails("TIMEOUT"):
        server.program.accept(found[0], server.vi)
    assert server.state() == "IDLE"
    with fails("INVALID_PARAMETER"):
        server.program.accept(found[0], server.vi)
    server.program.reject(found[1])
    connect(server, client)
    server.send(b"kept")
    assert client.wait(RECV).descriptor == kept


def test_a_rejected_client_is_told_at_once(ends):
    """VI-CONN-14, VI-CONN-23, VI-STATE-5"""
    server, client = ends.pair()
    kept = client.receive()
    found, asking = ask(server, client, timeout=FOREVER)
    server.program.reject(found.conn)
    with fails("REJECT"):
        asking.result()
    assert asking.call.seconds < 10
    with fails("INVALID_PARAMETER"):
        server.program.accept(found.conn, server.vi)
    with fails("NO_MATCH"):
        client.program.request(client.vi, (client.host, b""), (server.host, b"test"))
    info = client.program.query(client.vi)
    assert (info.state, info.recv_empty) == ("IDLE", False)
    connect(server, client)
    server.send(b"kept")
    assert client.wait(RECV).descriptor == kept


def test_both_sides_agree_on_what_has_become_of_a_request(ends):
    """VI-CONN-12: also if the client's time is over just then; a side that has a connection which
    the other one has not is told that it is lost. The client's time is half of the time that was
    too long, or twice that which was too short."""
    server, client = ends.pair(UD)
    chance = random.Random(1)
    waiting, longest, seen = None, 100, Counter()
    for _ in range(300):
        if sum(seen.values()) >= 30 and min(seen["connected"], seen["too late"]) >= 5:
            break
        waiting = waiting or server.program.wait_client(server.nic, server.host, b"race")
        names = (client.host, b""), (server.host, b"race")
        asking = client.program.request_later(client.vi, *names, chance.randrange(1, max(3, longest)))
        until(lambda: waiting.call.returned() or asking.call.returned())
        if not waiting.call.returned():
            assert result(asking.result) in ("TIMEOUT", "NO_MATCH")
            longest = min(2 * longest, 400)
            seen["before a server"] += 1
            continue
        conn, waiting = waiting.result().conn, None
        outcomes = {
            server: result(lambda: server.program.accept(conn, server.vi)),
            client: result(asking.result),
        }
        good = [side for side, outcome in outcomes.items() if outcome == "SUCCESS"]
        assert outcomes[server] in ("SUCCESS", "TIMEOUT")
        assert outcomes[client] in ("SUCCESS", "TIMEOUT", "NO_MATCH")
        seen["connected" if client in good else "too late"] += 1
        longest = max(longest * 3 // 4, 3) if client in good else min(longest * 3 // 2, 400)
        if len(good) == 1:
            good[0].until_state("ERROR")
            assert "CONN_LOST" in good[0].told(1)
        for side in (server, client):
            side.disconnect()
    else:
        raise AssertionError(f"there was no race: {seen}")
    connect(server, client)
    says(client, server, b"still there")


def result(call):
    try:
        call()
    except ViplError as error:
        return error.name
    return "SUCCESS"


def test_a_host_that_nobody_has_heard_of(ends):
    """VI-CONN-26, VI-NR-3"""
    server, client = ends.pair(UD)
    local = (client.host, b"")
    for length in (0, 3, 5):
        with fails("INVALID_PARAMETER"):
            client.program.request(client.vi, local, (bytes(length), b"x"))
    begun = client.program.request_later(client.vi, local, (0x7F7F, b"x"), SOON)
    with fails("NOT_REACHABLE"):
        begun.result()
    assert begun.call.seconds < SOON / 1000 / 2
    connect(server, client)


# --- peers


@pytest.mark.parametrize("first", (0, 1))
@pytest.mark.parametrize("wait", (False, True), ids=("done", "wait"))
def test_peers_meet_whoever_is_first(ends, first, wait):
    """VI-PEER-1, VI-PEER-2, VI-PEER-5, VI-PEER-7, VI-PEER-10, VI-ADDR-7, SC-10: with the same
    discriminator of the remote addresses, whatever their own ones are."""
    sides = [ends.side(0, enables=(0, 1)), ends.side(1, enables=(1, 0))]
    one, other = sides[first], sides[1 - first]
    untouched = one.program.passed(b"\xee" * 40)
    one.program.peer_request(one.vi, (one.host, b"one"), (other.host, b"meet"))
    assert one.program.seconds < 1
    assert one.state() == "CONNECT_PENDING"
    with fails("NOT_DONE"):
        one.program.call("VipConnectPeerDone", one.vi, untouched)
    assert one.program.read(untouched, 40) == b"\xee" * 40
    # It asks for somebody else.
    stranger = other.another()
    stranger.program.peer_request(stranger.vi, (other.host, b"meet"), (one.host, b"other"), BRIEF)
    other.program.peer_request(other.vi, (other.host, b"two"), (one.host, b"meet"))
    collect = collected if wait else polled
    assert collect(one) == other.attributes._replace(ptag=0)
    assert collect(other) == one.attributes._replace(ptag=0)
    with fails("TIMEOUT"):
        collect(stranger)
    assert [side.state() for side in (one, other, stranger)] == ["CONNECTED", "CONNECTED", "IDLE"]
    says(one, other, b"here")
    says(other, one, b"there")


def collected(side):
    return side.program.peer_wait(side.vi)


def polled(side):
    def look():
        try:
            return side.program.peer_done(side.vi)
        except ViplError as error:
            if error.name != "NOT_DONE":
                raise
            return None

    return until(look)


@pytest.mark.two_hosts(why="equal requests of one host never wait side by side: they meet")
def test_equal_requests_of_peers_are_met_in_their_order(ends):
    """VI-PEER-3"""
    labels = ((0, 0), (1, 0), (0, 1))
    sides = [ends.side(0), ends.side(1)]
    made = [
        [side.another(write=write, read=read) for write, read in labels] for side in sides
    ]
    for own, there in zip(made, reversed(sides)):
        for side in own:
            side.program.peer_request(side.vi, (side.host, b""), (there.host, b"many"))
    for one, other in zip(*made):
        assert collected(one) == other.attributes._replace(ptag=0)
        assert collected(other) == one.attributes._replace(ptag=0)


def test_peers_that_do_not_fit_are_both_told(ends):
    """VI-PEER-4, VI-PEER-11, VI-STATE-5: with the same error; they may ask again with what they
    have posted."""
    one, other = ends.side(0), ends.side(1)
    kept = one.receive()
    good = other.attributes
    for attributes, error in (
        (good._replace(level=RR), "INVALID_RELIABILITY_LEVEL"),
        (good._replace(level=RR, size=7), "INVALID_RELIABILITY_LEVEL"),
        (good._replace(size=7), "INVALID_MTU"),
    ):
        other.program.set_vi(other.vi, attributes)
        request_both(one, other)
        for side in (one, other):
            with fails(error):
                collected(side)
            assert side.state() == "IDLE"
    other.program.set_vi(other.vi, good)
    request_both(one, other)
    assert (collected(one).level, collected(other).level) == (RD, RD)
    other.send(b"kept")
    assert one.wait(RECV).descriptor == kept


def request_both(one, other):
    one.program.peer_request(one.vi, (one.host, b""), (other.host, b"meet"))
    other.program.peer_request(other.vi, (other.host, b""), (one.host, b"meet"))


def test_a_peer_that_nobody_meets(ends):
    """VI-PEER-1, VI-PEER-8, VI-PEER-10, VI-PEER-11, VI-ADDR-5: its time counts from the request;
    Done and Wait tell the same, once. A server that waits there is no peer, and a peer no client.
    """
    one, other = ends.side(0), ends.side(1)
    server = other.program.wait_client(other.nic, other.host, b"meet", FOREVER)
    for collect in (collected, polled):
        kept = one.receive()
        one.program.peer_request(one.vi, (one.host, b""), (other.host, b"meet"), BRIEF)
        # While another request that differs comes and goes.
        other.program.peer_request(other.vi, (other.host, b"meet"), (one.host, b"none"), 1)
        with fails("TIMEOUT"):
            collected(other)
        if collect is collected:
            # Its time is over then: one that began in the wait would be too late.
            time.sleep(BRIEF / 1000)
        with fails("TIMEOUT"):
            collect(one)
        assert collect is polled or one.program.seconds < BRIEF / 2000
        with fails("INVALID_STATE"):
            collect(one)
        info = one.program.query(one.vi)
        assert (info.state, info.recv_empty) == ("IDLE", False)
    # One that is late meets nobody.
    other.program.peer_request(other.vi, (other.host, b""), (one.host, b"meet"), BRIEF)
    with fails("TIMEOUT"):
        collected(other)
    request_both(one, other)
    assert collected(one) and collected(other)
    assert kept and not server.call.returned()


# --- disconnecting


def test_a_disconnect_flushes_what_is_not_complete(ends):
    """VI-DISC-2, VI-DISC-3, VI-DISC-4, VI-DISC-6, VI-DISC-7, VI-STATE-8, VI-STATE-9, VI-STATE-19,
    VI-STS-5: in order, with an entry each; what was complete stays as it is, and only the other end
    is told."""
    server, client = ends.pair(RR, client={"send_cq": 64, "recv_cq": 64})
    connect(server, client)
    server.receive()
    good = client.send(b"good")
    assert server.wait(RECV).errors == set()
    until(lambda: settled(client))
    left = [server.receive(64 * n) for n in range(2)]
    with stopped(server.program):
        sends = [
            client.send(b"never"),
            client.post(SEND, [client.part(0, 64)], control=1, remote=server.part(0, 0)),
            client.post(SEND, [client.part(0, 64)], control=2, remote=server.part(0, 0)),
        ]
        receives = [client.receive(64 * n) for n in range(2)]
        client.disconnect()
        assert client.state() == "IDLE"
    first, *rest = client.drain(SEND)
    assert (first.descriptor, first.status) == (good, STATUS.DONE | STATUS.OP_SEND)
    operations = (STATUS.OP_SEND, STATUS.OP_RDMA_WRITE, STATUS.OP_RDMA_READ)
    flushed = STATUS.DONE | STATUS.DESC_FLUSHED_ERROR
    assert [(done.descriptor, done.status) for done in rest] == [
        (at, flushed | operation) for at, operation in zip(sends, operations)
    ]
    assert [(done.descriptor, done.status) for done in client.drain(RECV)] == [
        (at, flushed | STATUS.OP_RECEIVE) for at in receives
    ]
    for cq, queue, count in (("send_cq", 0, 3), ("recv_cq", 1, 2)):
        for _ in range(count):
            assert client.program.cq_entry(client.cqs[cq], 0) == (client.vi, queue)
        with fails("NOT_DONE"):
            client.program.cq_done(client.cqs[cq])
    assert server.told(1) == ["CONN_LOST"]
    assert server.state() == "ERROR"
    # Of what had been sent before, some may have arrived.
    assert [done.descriptor for done in server.drain(RECV)] == left
    server.disconnect()
    assert (server.state(), client.errors.errors()) == ("IDLE", [])
    connect(server, client)


def settled(client):
    """Whether the first entry of the sends has come."""
    try:
        return client.program.cq_done(client.cqs["send_cq"]) == (client.vi, 0)
    except ViplError:
        return False


@pytest.mark.parametrize("way", ("own", "remote", "close", "kill"))
def test_a_wait_ends_with_the_connection(ends, way):
    """VI-WQ-8, VI-NIC-6, VI-NIC-7, VI-STATE-9, VI-DISC-4: with a flushed descriptor."""
    server, client = ends.connected()
    first, second = server.receive(), server.receive()
    waiting = server.waits(RECV)
    server.program.until_asleep()
    if way == "own":
        server.disconnect()
    elif way == "remote":
        client.disconnect()
    elif way == "close":
        client.program.close_nic(client.nic)
    else:
        client.program.end()
    done, returned = waiting.result()
    assert (done.descriptor, done.errors, returned) == (first, FLUSHED, "DESCRIPTOR_ERROR")
    assert [done.descriptor for done in server.drain(RECV)] == [second]
    assert server.state() == ("IDLE" if way == "own" else "ERROR")
    assert way == "own" or server.told(1) == ["CONN_LOST"]
    server.disconnect()
    ends.start()
    connect(server, ends.side(0))


def test_a_disconnect_ends_an_attempt(ends):
    """VI-DISC-9, VI-STATE-7: in both models; the other side may meet somebody else."""
    server, client = ends.pair()
    kept = client.receive()
    found, asking = ask(server, client, timeout=FOREVER)
    client.disconnect()
    with fails("INVALID_STATE"):
        asking.result()
    assert (client.state(), client.wait(RECV).descriptor) == ("IDLE", kept)
    with fails("TIMEOUT"):
        server.program.accept(found.conn, server.vi)
    kept = client.receive()
    client.program.peer_request(client.vi, (client.host, b""), (server.host, b"meet"), FOREVER)
    out = client.program.allocate(4096)
    waiting = client.program.later.call("VipConnectPeerWait", client.vi, out)
    client.program.until_asleep()
    client.disconnect()
    with fails("INVALID_STATE"):
        waiting.result()
    done = client.wait(RECV)
    assert (client.state(), done.descriptor, done.errors) == ("IDLE", kept, FLUSHED)
    # Another client, while the server still has the first one's request; and another peer.
    other = client.another()
    connect(server, other)
    other.disconnect()
    server.until_state("ERROR")
    server.disconnect()
    server.program.peer_request(server.vi, (server.host, b""), (client.host, b"meet"))
    other.program.peer_request(other.vi, (client.host, b""), (server.host, b"meet"))
    assert collected(server) and collected(other)


def test_memory_stays_as_it_is_after_a_disconnect(ends):
    """VI-DISC-10: while the partner has more to write."""
    server, client = ends.pair()
    for _ in range(20):
        connect(server, client)
        with stopped(server.program):
            for n in range(60):
                piece = [client.part(0, 0x10000)]
                client.post(SEND, piece, control=1, remote=server.part(n % 2 * 0x8000, 0))
            leaving = server.program.later.call("VipDisconnect", server.vi)
        leaving.result()
        server.program.fill(server.data, 0x18000, 5)
        client.until_state("ERROR")
        outcomes = [done.errors for done in client.drain(SEND)]
        assert len(outcomes) == 60
        assert server.program.check(server.data, 0x18000, 5).wrong == 0
        client.disconnect()
        if FLUSHED in outcomes:
            break
    else:
        raise AssertionError("nothing was left to be written in any round")


def test_both_sides_disconnect_at_the_same_time(ends):
    """VI-DISC-11: both are Idle, and what is told of it is told before the call returns, once."""
    server, client = ends.pair()
    lost = {server.vi: 0, client.vi: 0}
    for _ in range(10):
        connect(server, client)
        calls = [side.program.later.call("VipDisconnect", side.vi) for side in (server, client)]
        for call in calls:
            call.result()
        for side in (server, client):
            assert side.state() == "IDLE"
            told = side.errors.errors()[lost[side.vi] :]
            assert told in ([], ["CONN_LOST"])
            lost[side.vi] += len(told)
    connect(server, client)
    for side in (server, client):
        assert len(side.errors.calls()) == lost[side.vi]


def test_a_loss_is_noticed_by_the_next_send_without_a_handler(ends):
    """VI-DISC-8"""
    server, client = ends.connected()
    client.program.call("VipErrorCallback", client.nic, 0, 0)
    server.disconnect()
    until(lambda: client.send(b"late") and client.wait(SEND).errors == FLUSHED)
    assert (client.state(), client.errors.calls()) == ("ERROR", [])


# --- states


def refuse(side, conn, remote):
    """Each call that is for an idle VI is refused, and changes nothing."""
    program = side.program
    before = program.query(side.vi)
    calls = (
        lambda: program.destroy_vi(side.vi),
        lambda: program.set_vi(side.vi, side.attributes._replace(size=1)),
        lambda: program.accept(conn, side.vi),
        lambda: program.request(side.vi, (side.host, b""), remote),
        lambda: program.peer_request(side.vi, (side.host, b""), remote),
    )
    for call in calls:
        with fails("INVALID_STATE"):
            call()
        assert program.query(side.vi) == before


def test_what_is_for_idle_vis_is_refused_in_every_other_state(ends):
    """VI-STATE-18, VI-STATE-22, VI-GEN-7, VI-ATTR-1, VI-QRY-3, VI-POST-6, VI-POST-7, VI-EP-1,
    VI-EP-10, VI-DISC-1, VI-DISC-5, VI-STATE-1, VI-STATE-14, VI-STATE-15, VI-STATE-16, VI-STATE-17:
    and what is for all states works in them."""
    server, client = ends.pair()
    assert client.program.query(client.vi) == ("IDLE", client.attributes, True, True)
    # A client of its own, which is asked about, but never answered.
    asker = client.another()
    found, asking = ask(server, asker, b"held", timeout=FOREVER)
    own = server.program.wait_client(server.nic, server.host, b"own")
    _, pending = meet(own, client, (server.host, b"own"), timeout=FOREVER)
    # The one that can be accepted is the server's; a VI of the client's program has its own.
    back = client.program.wait_client(client.nic, client.host, b"back")
    guest = server.another()
    held, _ = meet(back, guest, (client.host, b"back"), timeout=FOREVER)
    remote = (server.host, b"held")
    refuse(client, held.conn, remote)
    assert client.state() == "CONNECT_PENDING"
    usable(client)
    client.disconnect()
    with fails("INVALID_STATE"):
        pending.result()
    assert client.state() == "IDLE"
    usable(client)
    connect(server, client)
    refuse(client, held.conn, remote)
    assert client.state() == "CONNECTED"
    refuse(server, found.conn, (client.host, b"back"))
    server.disconnect()
    assert server.state() == "IDLE"
    client.until_state("ERROR")
    refuse(client, held.conn, remote)
    posted = [client.receive(), client.send(b"late")]
    for queue, at in zip((RECV, SEND), posted):
        done = client.program.done(client.vi, queue)
        assert (done.descriptor, done.errors) == (at, FLUSHED)
    usable(client)
    client.disconnect()
    assert client.state() == "IDLE"
    # With a descriptor that was not taken it cannot be destroyed in Idle either.
    at = client.receive()
    with fails("INVALID_STATE"):
        client.program.destroy_vi(client.vi)
    client.disconnect()
    with fails("INVALID_STATE"):
        client.program.destroy_vi(client.vi)
    assert client.program.query(client.vi).recv_empty is False
    assert [(done.descriptor, done.errors) for done in client.drain(RECV)] == [(at, FLUSHED)]
    client.program.destroy_vi(client.vi)
    with fails("INVALID_PARAMETER"):
        client.state()


def usable(side):
    """Query, Done, Wait and Notify say what is there; what is sent comes back at once."""
    program = side.program
    at = side.send(b"nowhere")
    done = side.done(SEND)
    assert (done.descriptor, done.status) == (at, STATUS.DONE | STATUS.DESC_FLUSHED_ERROR)
    info = program.query(side.vi)
    assert (info.send_empty, info.recv_empty) == (True, True)
    assert program.done(side.vi, SEND) is None
    assert program.wait(side.vi, RECV, FOREVER) is None
    with fails("DESCRIPTOR_ERROR"):
        program.notify("VipRecvNotify", side.vi, program.handler("queue"))


def test_a_vi_is_connected_again_and_again(ends):
    """VI-STATE-21, SC-4: in turns by both ends, and it never leaves Error but by Disconnect. As often
    as the rule asks for with LONG=1."""
    server, client = ends.pair(RR)
    for n in range(1000 if LONG else 30):
        connect(server, client)
        if n % 10 == 0:
            says(client, server, b"%d" % n)
        first, second = (server, client) if n % 2 else (client, server)
        first.disconnect()
        second.until_state("ERROR")
        with fails("INVALID_STATE"):
            second.program.request(second.vi, (second.host, b""), (first.host, b"test"))
        second.disconnect()
    assert server.errors.errors() + client.errors.errors() == ["CONN_LOST"] * (n + 1)


# --- names


def test_an_address_by_name_connects_in_both_models(ends):
    """VI-NS-6: upper and lower case letters of a name are the same."""
    server, client = ends.pair()
    program = client.program
    program.call("VipNSInit", client.nic, 0)
    address = program.address(bytes(4))
    name = server.program.guest.name
    for spelled in (name, name.upper()):
        program.call("VipNSGetHostByName", client.nic, f"text={spelled}", address, 0)
        host = program.read(address + 4, 4)
        found, asking = ask(server, client)
        assert found.conn
        server.program.accept(found.conn, server.vi)
        asking.result()
        assert host == server.host.to_bytes(4, "big")
        client.disconnect()
        server.disconnect()
        waiting = server.program.wait_client(server.nic, server.host, b"named")
        found, asking = meet(waiting, client, (host, b"named"))
        server.program.accept(found.conn, server.vi)
        asking.result()
        client.disconnect()
        server.disconnect()
        program.peer_request(client.vi, (client.host, b""), (host, b"meet"))
        server.program.peer_request(server.vi, (server.host, b""), (client.host, b"meet"))
        assert collected(client) and collected(server)
        client.disconnect()
        server.disconnect()
    program.call("VipNSShutdown", client.nic)


# --- partitions, last


@pytest.mark.two_hosts(why="it cuts their link")
def test_a_partition_is_told_at_once(fabric, ends):
    """VI-NR-1, VI-NR-3, VI-NR-4, VI-STATE-6, VI-REL-9, VI-REL-10, VI-STATE-11, VI-EM-11, SC-16: to
    connections, which are lost within five seconds, and to those who ask for one."""
    server, client = ends.pair()
    connected = [(server, client)]
    connect(server, client)
    for level in (UD, RR):
        both = [side.another(level=level, read=0) for side in (server, client)]
        connect(*both)
        connected.append(both)
    held, asking = ask(server, client.another())
    found, other = ask(server, client.another())
    idle = {level: client.another(level=level, read=0) for level in LEVELS}
    kept = {level: side.receive() for level, side in idle.items()}
    for _, side in connected:
        side.receive()
    begun = time.monotonic()
    with unplugged(fabric):
        for both in connected:
            for side in both:
                side.told(1)
        assert time.monotonic() - begun < 5 * PATIENCE
        for _, side in connected:
            assert side.wait(RECV).errors == FLUSHED
            assert side.state() == "ERROR"
            side.send(b"late")
            assert side.wait(SEND).errors == FLUSHED
        assert [here.told(1) for _, here in connected] == [["CONN_LOST"]] * 3
        for request in (asking, other):
            with fails("NOT_REACHABLE"):
                request.result()
        with fails("NOT_REACHABLE"):
            acceptor = server.another()
            server.program.accept(held.conn, acceptor.vi)
        assert acceptor.state() == "ERROR"
        with fails("NOT_REACHABLE"):
            server.program.reject(found.conn)
        for level, side in idle.items():
            requests = (
                lambda: side.program.request(side.vi, (side.host, b""), (server.host, b"x")),
                lambda: meets(side, server),
            )
            for ask_for in requests:
                with fails("NOT_REACHABLE"):
                    ask_for()
                if level == UD:
                    assert side.state() == "IDLE"
                    assert side.program.query(side.vi).recv_empty is False
                else:
                    assert side.state() == "ERROR"
                    done = side.wait(RECV)
                    assert (done.descriptor, done.errors) == (kept[level], FLUSHED)
                    side.disconnect()
                    kept[level] = side.receive()
                assert side.state() == "IDLE"
        for _, side in connected:
            side.disconnect()
            assert side.state() == "IDLE"
    for there, here in connected:
        there.end_connection()
        here.end_connection()
        connect(there, here)
        says(here, there, b"back again")


@pytest.mark.two_hosts(why="it cuts their link")
def test_a_partition_that_is_not_told_takes_the_time_of_the_caller(fabric, ends):
    """VI-NR-2, VI-CONN-20, VI-CONN-23, VI-PEER-8, VI-PEER-11: of a program with VIPL_PARTITIONS=0. Its
    calls go on trying; a link that comes back in time is used."""
    with Program(ends.guests[0], how=("env", "VIPL_PARTITIONS=0")) as program:
        server = ends.side(1)
        clients = {level: Side(program, ends.numbers[0], level) for level in LEVELS}
        kept = {level: side.receive() for level, side in clients.items()}
        serving = Side(program, ends.numbers[0])
        held, asking = ask(serving, server)
        found, other = ask(serving, server.another())
        with unplugged(fabric):
            for level, side in clients.items():
                requests = (
                    lambda: side.program.request(
                        side.vi, (side.host, b""), (server.host, b"x"), BRIEF
                    ),
                    lambda: meets(side, server, BRIEF),
                )
                for ask_for in requests:
                    begun = time.monotonic()
                    with fails("TIMEOUT"):
                        ask_for()
                    assert time.monotonic() - begun >= BRIEF / 1000
                    assert side.state() == "IDLE"
                    assert side.program.query(side.vi).recv_empty is False
            with fails("TIMEOUT"):
                program.accept(held.conn, serving.vi)
            assert serving.state() == "IDLE"
            program.reject(found.conn)
            for request in (asking, other):
                with fails("NOT_REACHABLE"):
                    request.result()
            here, there = clients[RD], server.another()
            program.peer_request(here.vi, (here.host, b""), (there.host, b"late"), FOREVER)
            program.until_asleep()
            with fails("NOT_DONE"):
                program.peer_done(here.vi)
        there.program.peer_request(there.vi, (there.host, b""), (here.host, b"late"))
        for side in (here, there):
            side.program.peer_wait(side.vi)
        there.send(b"it was worth it")
        assert here.wait(RECV).descriptor == kept[RD]


def meets(side, other, timeout=SOON):
    side.program.peer_request(side.vi, (side.host, b""), (other.host, b"x"), timeout)
    collected(side)
