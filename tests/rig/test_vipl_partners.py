# SPDX-License-Identifier: GPL-2.0-only
"""Partners that do not confirm, do not do their part, or stand still: what a VI is told of them, and when."""

import time
from contextlib import nullcontext

import pytest
from ntbrig.settings import PATIENCE
from outages import GOES, STAYS, fabric
from vipl import (
    FOREVER, FUNCTIONS, RD, RECV, RETURNS, RR, SEND, STATUS, Done, all_ends, ask, calls, connect, ends,
    fails, meet, says, stopped,
)  # fmt: skip
from vipl_ways import FLUSHED, LOST, WAYS, Bystander, as_before, go_on, memory_of_connections, stop

WRITE, READ = 1, 2


def lost_at_once(client):
    """A client was connected, and heard of the end next."""
    client.until_state("ERROR")
    assert client.told(1) == LOST


@pytest.mark.parametrize("name", ("stopped", "killed", "unplugged", "host killed"))
def test_a_client_that_does_not_confirm(fabric, ends, memory_of_connections, name):
    """VI-CONN-11, VI-CONN-13, VI-STATE-3, VI-NR-3: it is stopped when its server accepts. One that
    runs again finds that it was connected, and that this is over; or, where its server would have
    had to do more for the connection, that there is none."""
    way = WAYS[name] if name != "stopped" else None
    bystander = Bystander(ends)
    stays, goes = ends.side(STAYS, RR), ends.side(GOES, RR)
    kept = stays.receive()
    found, asking = ask(stays, goes, timeout=FOREVER)
    try:
        with stopped(goes.program) if not way else nullcontext():
            if way:
                goes.program.guest.run(f"kill -STOP {goes.program.pid}")
            begun = time.monotonic()
            accepting = stays.program.later.call("VipConnectAccept", found.conn, stays.vi)
            if way:
                stays.program.until_asleep()
                way.go(fabric, goes)
            with fails("NOT_REACHABLE" if way and way.cut else "TIMEOUT"):
                accepting.result()
            assert time.monotonic() - begun < 10 * PATIENCE
        with fails("INVALID_PARAMETER"):
            stays.program.accept(found.conn, stays.vi)
        if way and way.cut:
            assert (stays.state(), stays.wait(RECV).errors) == ("ERROR", FLUSHED)
        else:
            with fails("NOT_DONE"):
                stays.done(RECV)
            assert (stays.state(), stays.reports()) == ("IDLE", [])
        if not way and memory_of_connections == "lanes":
            with fails("TIMEOUT"):
                asking.result()
            assert (goes.state(), goes.reports()) == ("IDLE", [])
        elif not way:
            assert asking.result() == stays.attributes._replace(ptag=0)
            lost_at_once(goes)
        bystander.goes_on()
    finally:
        if way:
            if name == "unplugged":
                goes.program.end()
            way.back(fabric)
    as_before(ends, stays)


@pytest.mark.parametrize("name", ("killed", "unplugged", "host killed"))
def test_a_server_that_goes_when_it_has_accepted(fabric, ends, memory_of_connections, name):
    """VI-CONN-20, VI-STATE-6, VI-STATE-9, VI-NR-3: its client, which was stopped meanwhile, was
    connected, or cannot reach it any more; or there is no connection, where its server would have
    had to do more for it."""
    way = WAYS[name]
    bystander = Bystander(ends)
    stays, goes = ends.side(STAYS, RR), ends.side(GOES, RR)
    found, asking = ask(goes, stays, timeout=FOREVER)
    try:
        with stopped(stays.program):
            goes.program.later.call("VipConnectAccept", found.conn, goes.vi)
            goes.program.until_asleep()
            way.go(fabric, goes)
        if way.cut:
            with fails("NOT_REACHABLE"):
                asking.result()
            assert stays.state() == "ERROR"
        elif memory_of_connections == "lanes":
            with fails("TIMEOUT"):
                asking.result()
            assert (stays.state(), stays.reports()) == ("IDLE", [])
        else:
            assert asking.result() == goes.attributes._replace(ptag=0)
            lost_at_once(stays)
        bystander.goes_on()
    finally:
        way.back(fabric)
    as_before(ends, stays, serves=False)


@pytest.mark.parametrize("name", ("stopped", "killed", "unplugged", "host killed"))
def test_a_peer_that_does_not_do_its_part(fabric, ends, memory_of_connections, name):
    """VI-PEER-8, VI-PEER-9, VI-STATE-9, VI-NR-3: it is stopped before the other one asks, so that
    their hosts bring them together and its library does nothing, and goes meanwhile. One that runs
    again finds that they had met, and that this is over; or, where more would have had to be done
    for the connection, that nobody has come."""
    way = WAYS[name]
    bystander = Bystander(ends)
    stays, goes = ends.side(STAYS, RR), ends.side(GOES, RR)
    kept = stays.receive()
    goes.program.peer_request(goes.vi, (goes.host, b""), (stays.host, b"half"), FOREVER)
    goes.program.until_asleep()
    try:
        stop(fabric, goes)
        begun = time.monotonic()
        stays.program.peer_request(stays.vi, (stays.host, b""), (goes.host, b"half"), FOREVER)
        stays.program.until_asleep()
        if not way.stops:
            way.go(fabric, goes)
        with fails("NOT_REACHABLE" if way.cut else "TIMEOUT"):
            stays.program.peer_wait(stays.vi)
        assert time.monotonic() - begun < 10 * PATIENCE
        if way.cut:
            done = stays.wait(RECV)
            assert (stays.state(), done.descriptor, done.errors) == ("ERROR", kept, FLUSHED)
        else:
            with fails("NOT_DONE"):
                stays.done(RECV)
            assert (stays.state(), stays.reports()) == ("IDLE", [])
        if way.stops:
            go_on(goes)
            if memory_of_connections == "lanes":
                with fails("TIMEOUT"):
                    goes.program.peer_wait(goes.vi)
                assert (goes.state(), goes.reports()) == ("IDLE", [])
            else:
                assert goes.program.peer_wait(goes.vi) == stays.attributes._replace(ptag=0)
                lost_at_once(goes)
        bystander.goes_on()
    finally:
        if name == "unplugged":
            goes.program.end()
        way.back(fabric)
    as_before(ends, stays)


def test_a_partner_that_is_stopped_is_waited_for(fabric, ends, memory_of_connections):
    """VI-CONN-20, VI-PEER-8, VI-REL-11: at each step, as long as the caller says and not
    longer; what it was told goes on when it runs again."""
    both = ends.side(STAYS, RD), ends.side(GOES, RD)
    bystander = Bystander(ends)
    pairs = {step: [side.another() for side in both] for step in (
        "waits", "was asked", "peer", "connected", "busy")}  # fmt: skip
    for step in ("connected", "busy"):
        connect(*pairs[step])
    stays, goes = pairs["waits"]
    waiting = goes.program.wait_client(goes.nic, goes.host, b"waits", FOREVER)
    goes.program.until_asleep()
    stays, goes = pairs["was asked"]
    asked, asking = ask(goes, stays, b"asked", timeout=FOREVER)
    receive = pairs["connected"][1].receive()
    with stopped(goes.program):
        stays, goes = pairs["waits"]
        with fails("TIMEOUT"):
            stays.program.request(stays.vi, (stays.host, b""), (goes.host, b"waits"), 1_000)
        stays, goes = pairs["peer"]
        stays.program.peer_request(stays.vi, (stays.host, b""), (goes.host, b"peer"), 1_000)
        with fails("TIMEOUT"):
            stays.program.peer_wait(stays.vi)
        assert [pairs[step][0].state() for step in pairs] == [
            "IDLE", "CONNECT_PENDING", "IDLE", "CONNECTED", "CONNECTED"]  # fmt: skip
        stays, goes = pairs["connected"]
        stays.send(b"waits")
        assert stays.wait(SEND).errors == set()
        busy_ones, target = pairs["busy"]
        piece = [busy_ones.part(0, 0x10000)]
        sent = [
            busy_ones.post(SEND, piece, control=WRITE, remote=target.part(0x10000, 0))
            for _ in range(40)
        ]
        bystander.goes_on()
    done = [busy_ones.wait(SEND) for _ in sent]
    assert [(each.descriptor, each.errors) for each in done] == [(at, set()) for at in sent]
    got = goes.wait(RECV)
    assert (got.descriptor, goes.bytes(0, 5)) == (receive, b"waits")
    # It is not told of a client that has left, and waits for the next one.
    stays, goes = pairs["waits"]
    found, asking_again = meet(waiting, stays, (goes.host, b"waits"))
    goes.program.accept(found.conn, goes.vi)
    asking_again.result()
    stays, goes = pairs["was asked"]
    goes.program.accept(asked.conn, goes.vi)
    asking.result()
    for step in ("waits", "was asked", "connected", "busy"):
        says(*pairs[step], b"goes on")
    connect(*pairs["peer"])
    says(*pairs["peer"], b"as if nothing had been")
    assert all(side.reports() == [] for pair in pairs.values() for side in pair)


def test_a_child_does_nothing_to_its_parents_connections(ends):
    """VI-GEN-9: with any function that takes a handle, while they have traffic."""
    stays, goes = ends.side(STAYS, RR), ends.side(GOES, RR)
    connect(stays, goes)
    program = goes.program
    found, asking = ask(goes, stays.another(), b"asks", timeout=FOREVER)
    handles = {
        "nic": goes.nic, "vi": goes.vi, "cq": program.cq(goes.nic), "conn": found.conn
    }  # fmt: skip
    orders = [
        (f"Vip{name}", handles[kind], *arguments)
        for kind, of_kind in calls(program, goes.nic, goes).items()
        for name, *arguments in of_kind
    ]
    assert len(orders) == len(FUNCTIONS) - 1
    for order in orders:
        piece = [stays.part(0, 0x10000)]
        sent = [
            stays.post(SEND, piece, control=WRITE, remote=goes.part(0, 0)) for _ in range(4)
        ]
        child = program.command("fork", lambda answer: answer["value"], "call", *order)
        assert child.result() == RETURNS.index("INVALID_PARAMETER"), order
        assert [stays.wait(SEND) for _ in sent] == [
            Done(at, STATUS.DONE | STATUS.OP_RDMA_WRITE, 0x10000, 0) for at in sent
        ]
    # The parent has all of them.
    program.accept(found.conn, goes.another().vi)
    asking.result()
    program.call("VipDestroyCQ", handles["cq"])
    says(stays, goes, b"to the parent")
    says(goes, stays, b"and back")
    assert (stays.state(), goes.state()) == ("CONNECTED", "CONNECTED")
    assert (stays.reports(), goes.reports()) == ([], [])
