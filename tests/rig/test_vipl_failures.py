# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of VIs when one side goes away, in each way to go and at each step of a connection's
life: who is left is told once and for the right reason, can connect again, and nobody else
notices. Three hosts: who is left on the first one, who goes on the second, and another client of
the first one's interface on the third."""

import random
import re
import time
from contextlib import ExitStack, contextmanager, nullcontext
from typing import NamedTuple

import pytest
from frames import wait_for_everyone
from ntbrig import stack
from ntbrig import vipl as programs
from ntbrig.settings import PATIENCE
from outages import GOES, STAYS, THIRD, boot_host, fabric, kill_host, plug, unplug
from pximc import MODULES
from sharing import pinned, wait_until_unpinned
from shell import until
from vipl import (
    ERRORS, FOREVER, FUNCTIONS, LEVELS, PAGE, RD, RECV, RESOURCES, RETURNS, RR, SEND, SOON, STATUS, UD,
    Done, Ends, ViplError, all_ends, ask, calls, connect, ends, fails, meet, memory_left, says, stopped,
)  # fmt: skip

WRITE, READ = 1, 2
FLUSHED = {"DESC_FLUSHED"}
LOST = ["CONN_LOST"]
# What windows are mapped from.
DEVICE = "/dev/mp_fabric"
# Bytes for windows that connections share.
LITTLE = 0x2_0000


# --- three hosts


def test_one_interface_has_connections_to_two_hosts(ends):
    """SC-1, SC-4, VI-CQ-8: as server and as client, at once; completions of both in one queue."""
    own = ends.side(STAYS, RR, send_cq=64, recv_cq=64)
    others = [ends.side(host, RR) for host in (GOES, THIRD)]
    pairs = []
    for other in others:
        pairs.append((own.another(), other))
        connect(*pairs[-1])
        back = other.another(), own.another()
        connect(*back)
        pairs.append(back[::-1])
    for n, (here, there) in enumerate(pairs):
        here.receive(n * 64)
        there.receive(n * 64)
    for n, (here, there) in enumerate(pairs):
        there.send(b"to %d" % n, 0x10000 + n * 64)
        here.send(b"of %d" % n, 0x10000 + n * 64)
    seen = sorted(own.program.cq_entry(own.cqs["recv_cq"]) for _ in pairs)
    assert seen == sorted((here.vi, 1) for here, _ in pairs)
    for n, (here, there) in enumerate(pairs):
        assert (here.done(RECV).errors, there.wait(RECV).errors) == (set(), set())
        assert (here.bytes(n * 64, 4), there.bytes(n * 64, 4)) == (b"to %d" % n, b"of %d" % n)
    pairs[0][1].disconnect()
    until(lambda: pairs[0][0].state() == "ERROR")
    assert [here.state() for here, _ in pairs[1:]] == ["CONNECTED"] * 3


def test_a_third_host_does_not_take_a_peers_place(ends):
    """VI-PEER-2: with the same discriminator, if it does not ask for that host, or is not asked
    for."""
    one, other, third = (ends.side(host) for host in (STAYS, GOES, THIRD))
    third.program.peer_request(third.vi, (third.host, b""), (one.host, b"meet"), 2_000)
    one.program.peer_request(one.vi, (one.host, b""), (other.host, b"meet"))
    with fails("NOT_DONE"):
        one.program.peer_done(one.vi)
    other.program.peer_request(other.vi, (other.host, b""), (one.host, b"meet"))
    assert one.program.peer_wait(one.vi) == other.attributes._replace(ptag=0)
    assert other.program.peer_wait(other.vi) == one.attributes._replace(ptag=0)
    with fails("TIMEOUT"):
        third.program.peer_wait(third.vi)
    says(one, other, b"the right one")


# --- each way to go, at each step


class Bystander:
    """A connection of the first and the third host, which notices nothing."""

    def __init__(self, ends):
        self.here, self.there = ends.side(STAYS), ends.side(THIRD)
        connect(self.here, self.there)

    def goes_on(self):
        says(self.there, self.here, b"still here")
        says(self.here, self.there, b"and there")
        assert (self.here.reports(), self.there.reports()) == ([], [])


def server_waits(stays, goes):
    goes.program.wait_client(goes.nic, goes.host, b"waits", FOREVER)
    goes.program.until_asleep()

    def check(way):
        own, other = (stays.host, b""), (goes.host, b"waits")
        asking = stays.program.request_later(stays.vi, own, other, 1_000 if way.stops else SOON)
        with fails("NOT_REACHABLE" if way.cut else "TIMEOUT" if way.stops else "NO_MATCH"):
            asking.result()

    return check


def server_was_asked(stays, goes):
    _, asking = ask(goes, stays, b"asked", timeout=FOREVER)

    def check(way):
        if way.stops:
            assert not asking.call.returned() and stays.state() == "CONNECT_PENDING"
            stays.disconnect()
            with fails("INVALID_STATE"):
                asking.result()
            return
        with fails("NOT_REACHABLE" if way.cut else "NO_MATCH"):
            asking.result()

    return check


def client_has_asked(stays, goes):
    found, _ = ask(stays, goes, b"asks", timeout=FOREVER)

    def check(way):
        if way.stops:
            meets_who_is_stopped(stays, lambda: stays.program.accept(found.conn, stays.vi))
            return
        with fails("NOT_REACHABLE" if way.cut else "TIMEOUT"):
            stays.program.accept(found.conn, stays.vi)

    return check


def meets_who_is_stopped(stays, call):
    """It is connected where others share a trunk with it already: their hosts do the rest. Otherwise
    it is too late, as long as the other one is stopped."""
    state = "CONNECTED"
    try:
        call()
    except ViplError as error:
        assert error.name == "TIMEOUT"
        state = "IDLE"
    assert (stays.state(), stays.reports()) == (state, [])


def peer_has_asked(stays, goes):
    goes.program.peer_request(goes.vi, (goes.host, b""), (stays.host, b"peer"), FOREVER)

    def check(way):
        # Its request has gone with it.
        stays.program.peer_request(stays.vi, (stays.host, b""), (goes.host, b"peer"), 200)
        if way.stops:
            meets_who_is_stopped(stays, lambda: stays.program.peer_wait(stays.vi))
            return
        with fails("NOT_REACHABLE" if way.cut else "TIMEOUT"):
            stays.program.peer_wait(stays.vi)

    return check


def client_was_late(stays, goes):
    """The client has not waited for an answer."""
    found, asking = ask(stays, goes, b"late", timeout=2_000)
    with fails("TIMEOUT"):
        asking.result()

    def check(way):
        # A server is told of what there is now.
        with fails("NOT_REACHABLE" if way.cut else "TIMEOUT"):
            stays.program.accept(found.conn, stays.vi)
        assert (stays.state(), stays.reports()) == ("ERROR" if way.cut else "IDLE", [])

    return check


def peer_was_asked(stays, goes):
    """Who is left has asked, and goes on waiting for somebody in the other one's place."""
    stays.program.peer_request(stays.vi, (stays.host, b""), (goes.host, b"never"), FOREVER)

    def check(way):
        if way.cut:
            with fails("NOT_REACHABLE"):
                stays.program.peer_wait(stays.vi)
            return
        with fails("NOT_DONE"):
            stays.program.peer_done(stays.vi)
        assert stays.state() == "CONNECT_PENDING"
        stays.disconnect()
        with fails("INVALID_STATE"):
            stays.program.peer_done(stays.vi)

    return check


def peers_have_met(stays, goes):
    """Nobody has asked what has come of it."""
    for one, other in ((stays, goes), (goes, stays)):
        one.program.peer_request(one.vi, (one.host, b""), (other.host, b"met"), FOREVER)
    stays.until_state("CONNECTED")
    goes.until_state("CONNECTED")

    def check(way):
        if way.stops:
            assert (stays.reports(), stays.state()) == ([], "CONNECTED")
        else:
            assert (stays.told(1), stays.state()) == (LOST, "ERROR")
        assert stays.program.peer_done(stays.vi) == goes.attributes._replace(ptag=0)
        with fails("INVALID_STATE"):
            stays.program.peer_done(stays.vi)

    return check


def connected(stays, goes):
    connect(stays, goes)
    return loses_connection(stays, goes)


def connected_to_server(stays, goes):
    connect(goes, stays)
    return loses_connection(stays, goes)


def loses_connection(stays, goes):
    posted = [stays.receive(64 * n) for n in range(2)]
    says(stays, goes, b"before")

    def check(way):
        if way.stops:
            with fails("NOT_DONE"):
                stays.done(RECV)
            assert (stays.reports(), stays.state()) == ([], "CONNECTED")
            return
        done = [stays.wait(RECV) for _ in posted]
        assert [(each.descriptor, each.errors) for each in done] == [(at, FLUSHED) for at in posted]
        assert stays.told(1) == LOST

    return check


def lost_before(stays, goes):
    """Who is left has been told, and has not disconnected."""
    connect(stays, goes)
    goes.disconnect()
    assert stays.told(1) == LOST

    def check(way):
        assert (stays.told(1), stays.state()) == (LOST, "ERROR")
        at = stays.receive()
        assert (stays.wait(RECV).descriptor, stays.told(1)) == (at, LOST)

    return check


def idle(stays, goes):
    """Post receives that wait for the next connection."""
    connect(stays, goes)
    stays.disconnect()
    goes.until_state("ERROR")
    posted = [stays.receive(64 * n) for n in range(2)]

    def check(way):
        with fails("NOT_DONE"):
            stays.done(RECV)
        assert (stays.state(), stays.reports()) == ("IDLE", [])
        stays.disconnect()
        done = stays.drain(RECV)
        assert [(each.descriptor, each.errors) for each in done] == [(at, FLUSHED) for at in posted]

    return check


def busy(stays, goes):
    connect(stays, goes)
    return loses_writes(stays, goes)


def busy_with_server(stays, goes):
    connect(goes, stays)
    return loses_writes(stays, goes)


def loses_writes(stays, goes):
    """Writes are under way, and more than there is room for."""
    posted = [stays.receive(64 * n) for n in range(2)]
    piece = [stays.part(0, 0x10000)]
    sent = [
        stays.post(SEND, piece, control=WRITE, remote=goes.part(0, 0)) for _ in range(40)
    ]

    def check(way):
        if way.stops:
            # Some may have been before it was stopped.
            done = complete(stays)
            assert [each.descriptor for each in done] == sent[: len(done)]
            assert all(each.errors == set() for each in done)
            assert (stays.reports(), stays.state()) == ([], "CONNECTED")
            return
        for queue, all_of in ((SEND, sent), (RECV, posted)):
            done = [stays.wait(queue) for _ in all_of]
            assert [each.descriptor for each in done] == all_of
            # Those that were done already, perhaps one that was not, and the rest.
            errors = [each.errors for each in done]
            while errors and not errors[0]:
                errors.pop(0)
            if errors and queue == SEND and errors[0] == {"TRANSPORT"}:
                errors.pop(0)
            assert errors == [FLUSHED] * len(errors)
        assert stays.told(1) == LOST

    return check


def complete(side):
    """What a send queue has that is complete, of those at its head."""
    taken = []
    try:
        while done := side.done(SEND):
            taken.append(done)
    except ViplError as error:
        assert error.name == "NOT_DONE"
    return taken


def disconnecting(stays, goes):
    """The one that is left has ended the connection, while both had writes under way."""
    connect(stays, goes)
    for one, other in ((goes, stays), (stays, goes)):
        piece = [one.part(0, 0x10000)]
        sent = [
            one.post(SEND, piece, control=WRITE, remote=other.part(0x10000, 0)) for _ in range(8)
        ]
    at = stays.receive()
    stays.disconnect()

    def check(way):
        done = stays.drain(SEND)
        assert [each.descriptor for each in done] == sent
        errors = [each.errors for each in done]
        while errors and not errors[0]:
            errors.pop(0)
        assert errors == [FLUSHED] * len(errors)
        (flushed,) = stays.drain(RECV)
        assert (flushed.descriptor, flushed.errors) == (at, FLUSHED)
        assert (stays.state(), stays.reports()) == ("IDLE", [])

    return check


STEPS = (
    server_waits, server_was_asked, client_has_asked, client_was_late, peer_has_asked, peer_was_asked,
    peers_have_met, connected, connected_to_server, lost_before, idle, busy, busy_with_server,
    disconnecting,
)  # fmt: skip


class Way(NamedTuple):
    """How the second host's program goes, what brings it back, whether hosts are cut off, and what
    is left of it to be ended."""

    go: callable
    back: callable = lambda fabric: None
    cut: bool = False
    bury: callable = lambda goes: None
    # It does not go: it only answers nothing, until it is buried.
    stops: bool = False


def kill(fabric, goes):
    goes.program.end()


def end(fabric, goes):
    goes.program.exit(3)


def close(fabric, goes):
    goes.program.close_nic(goes.nic)


def become_another(fabric, goes):
    goes.program.become("/bin/sleep", 600)


def fork(fabric, goes):
    """Leave a child behind, which has what its parent had open, and which runs on."""
    program = goes.program
    program.command("&", lambda answer: None, "fork", "storm", goes.data, 64, 1, 600_000)
    children = f"grep -lE '^PPid:\\s+{program.pid}$' /proc/[0-9]*/status || true"
    found = until(lambda: program.guest.run(children).out.split())
    goes.children = [path.split("/")[2] for path in found]
    program.guest.run(["kill", "-9", program.pid])


def kill_children(goes):
    goes.program.guest.run(["kill", "-9", *goes.children])
    goes.program.reap()


def stop(fabric, goes):
    goes.program.guest.run(f"kill -STOP {goes.program.pid}")


def go_on(goes):
    goes.program.guest.run(f"kill -CONT {goes.program.pid}")


WAYS = {
    "stopped": Way(stop, bury=go_on, stops=True),
    "killed": Way(kill),
    "exited": Way(end),
    "closed": Way(close),
    "forks": Way(fork, bury=kill_children),
    "execs": Way(become_another, bury=lambda goes: goes.program.end()),
    "unplugged": Way(unplug, plug, cut=True),
    "host killed": Way(kill_host, boot_host(programs.configure), cut=True),
}


@contextmanager
def little_memory(fabric):
    """Inside, all new connections of the first host share memory with the other ones to the same."""
    stays, goes, third = fabric.hosts
    with ExitStack() as taken:
        for other in (goes, third):
            for both in ((stays, other), (other, stays)):
                taken.enter_context(memory_left(*both, LITTLE))
        yield


@pytest.fixture(params=("own memory", "lanes"))
def memory_of_connections(request, fabric):
    with little_memory(fabric) if request.param == "lanes" else nullcontext():
        yield request.param


def as_before(ends, stays, serves=True):
    """Connect the one that is left, as server or as client, to a new one on the other host."""
    stays.end_connection()
    ends.start()
    again = ends.side(GOES, RR)
    connect(*((stays, again) if serves else (again, stays)))
    says(again, stays, b"as before")


@pytest.mark.parametrize("name", WAYS)
def test_who_is_left_is_told_and_nobody_else(fabric, ends, memory_of_connections, name):
    """VI-NIC-6, VI-NIC-7, VI-STATE-9, VI-DISC-4, VI-CONN-6, VI-CONN-11, VI-CONN-20, VI-CONN-24,
    VI-EM-11, VI-NR-1, VI-NR-3, VI-PEER-9, VI-STATE-16, SC-17: at each step of a connection, as server,
    client and peer; then it is as if nobody had been there. Of one that is only stopped nothing is
    told, and what waits for it waits for as long as it is told to."""
    way = WAYS[name]
    bystander = Bystander(ends)
    both = ends.side(STAYS, RR), ends.side(GOES, RR)
    lesser = [(ends.side(STAYS, level), ends.side(GOES, level)) for level in (UD, RD) if way.cut]
    for pair in lesser:
        connect(*pair)
        pair[0].receive()
    before = pinned(fabric.hosts[GOES])
    held = []
    for step in STEPS:
        pair = [side.another() for side in both]
        held.append((pair[0], step(*pair)))
    goes = both[1]
    way.go(fabric, goes)
    try:
        for _, check in held:
            check(way)
        for side, _ in lesser:
            assert (side.wait(RECV).errors, side.told(1)) == (FLUSHED, LOST)
        bystander.goes_on()
        if not way.cut and not way.stops:
            wait_until_unpinned(fabric.hosts[GOES], before)
    finally:
        way.bury(goes)
        way.back(fabric)
    ends.start()
    again = ends.side(GOES, RR)
    for side, _ in held:
        side.end_connection()
        connect(side, again)
        says(again, side, b"as before")
        again.disconnect()
        side.until_state("ERROR")
        side.end_connection()
    bystander.goes_on()


# --- a partner that does not confirm


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


# --- links


@pytest.mark.parametrize("level", LEVELS)
def test_what_waits_for_a_partner_fails_with_the_link(fabric, ends, level):
    """VI-EM-11, VI-EM-13, VI-STS-6, VI-STS-9, VI-STATE-10, VI-STATE-11, VI-STATE-20, VI-REL-4,
    VI-REL-9, VI-REL-10, SC-16: reads, and the oldest send that was not acknowledged, with
    TRANSPORT; all others are flushed."""
    stays, goes = ends.side(STAYS, level), ends.side(GOES, level)
    connect(stays, goes)
    for _ in range(5):
        goes.receive(0, 0x10000)
    last = stays.receive()
    with stopped(goes.program):
        reads = []
        if level != UD:
            for _ in range(2):
                piece = [stays.part(0, 64)]
                reads.append(stays.post(SEND, piece, control=READ, remote=goes.part(0, 0)))
        sends = [stays.send(b"never")]
        long = [stays.post(SEND, [stays.part(0, 0x10000)]) for _ in range(4)]
        begun = time.monotonic()
        fabric.unplug(fabric.hosts[GOES])
        try:
            stays.told(1)
            # A heartbeat that is missing is noticed after less than a second.
            assert time.monotonic() - begun < 5 * PATIENCE
            done = [stays.wait(SEND) for _ in reads + sends + long]
            assert [each.descriptor for each in done] == reads + sends + long
            errors = [each.errors for each in done]
            assert errors[: len(reads)] == [{"TRANSPORT"}] * len(reads)
            rest = errors[len(reads) :]
            if level == RR:
                assert rest == [{"TRANSPORT"}] + [FLUSHED] * 4
            else:
                # What is on its way is complete; the one that waits for room is not.
                assert rest[0] == set() and rest[-1] == FLUSHED
                assert all(each in (set(), FLUSHED) for each in rest)
            assert (stays.wait(RECV).descriptor, stays.told(1)) == (last, LOST)
            assert stays.state() == "ERROR"
            stays.send(b"later")
            assert stays.wait(SEND).errors == FLUSHED
        finally:
            plug(fabric)
    goes.until_state("ERROR")
    assert goes.told(1) == LOST
    stays.end_connection()
    goes.end_connection()
    connect(goes, stays)
    says(stays, goes, b"back again")


@pytest.mark.parametrize("level", (RD, RR))
def test_a_write_that_the_link_cuts_is_told(fabric, ends, level):
    """VI-ERR-12, VI-ERR-18, VI-STATE-10: without immediate data it has no descriptor there that
    could say so."""
    stays, goes = ends.side(STAYS, level, size=1 << 17), ends.side(GOES, level, size=1 << 17)
    connect(stays, goes)
    try:
        with stopped(goes.program):
            piece = [stays.part(0, 0x20000)]
            stays.post(SEND, piece, control=WRITE, remote=goes.part(0, 0))
            fabric.unplug(fabric.hosts[GOES])
            stays.told(1)
        assert goes.told(2) == ["RDMA_TRANSPORT", *LOST]
    finally:
        plug(fabric)
    code = [ERRORS.index("RDMA_TRANSPORT")]
    vi = [goes.nic, goes.vi, 0, 0, STATUS.OP_REMOTE_RDMA_WRITE, RESOURCES.index("VI"), *code]
    assert goes.reports()[0][:7] == vi
    assert goes.state() == "ERROR"


def test_a_bridge_that_is_unloaded_ends_connections(fabric, ends):
    """VI-EM-11, VI-ERR-15, VI-NR-4, VI-SMI-4, VI-SMI-5: of the host where that is done, and of its
    peers, at each level."""
    pairs = [(ends.side(STAYS, level), ends.side(GOES, level)) for level in LEVELS]
    for pair in pairs:
        connect(*pair)
    bystander = Bystander(ends)
    all_sides = [side for pair in pairs for side in pair]
    for side in all_sides:
        side.receive()
    stays, goes = pairs[0]
    guest = fabric.hosts[GOES]
    third = bystander.there.host
    assert stays.program.neighbours(stays.nic) == {goes.host, third}
    stack.unload(guest, modules=("pximc_ntb",))
    try:
        for side in all_sides:
            assert (side.wait(RECV).errors, side.told(1)) == (FLUSHED, LOST)
            side.disconnect()
            assert side.state() == "IDLE"
        assert stays.program.neighbours(stays.nic) == {third}
        bystander.goes_on()
    finally:
        stack.load(guest, modules=("pximc_ntb",))
        wait_for_everyone(*fabric.hosts)
    connect(goes, stays)
    says(stays, goes, b"back again")


# --- partners that lie


def outbound(liar, victim):
    """The window of a program into the memory of its partner's host: its address and length."""
    marker = bytes(range(250, 255)) * 200
    liar.receive(0, len(marker))
    victim.send(marker)
    assert (liar.wait(RECV).errors, victim.wait(SEND).errors) == (set(), set())
    spans = windows(liar.program)
    # The marker has arrived in the other one, perhaps in several pieces.
    (span,) = [span for span in spans if marker[:30] not in memory(liar.program, *span)]
    return span


def windows(program):
    """Windows of a program: the address and length of each, and where its device has it."""
    maps = program.guest.read(f"/proc/{program.pid}/maps")
    found = re.findall(rf"^(\w+)-(\w+) rw-s (\w+) .*{DEVICE}", maps, re.M)
    spans = [[int(word, 16) for word in words] for words in found]
    return {(begin, end - begin): offset for begin, end, offset in spans}


def memory(program, begin, length):
    return b"".join(program.read(begin + at, PAGE) for at in range(0, length, PAGE))


# So long the longer ones of the tests below go on.
MINUTE = pytest.param(60, marks=pytest.mark.long)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seconds", (0, MINUTE))
def test_a_partner_that_scribbles_ends_its_own_connection_and_nothing_else(ends, level, seconds):
    """VI-EM-10, VI-MEM-7, VI-DESC-18: over all that it can reach of another host, by stores that no
    library has looked at; on one connection after the other, for so long."""
    bystander = Bystander(ends)
    stays, liar = ends.side(STAYS, level), ends.side(GOES, level)
    stays.program.fill(stays.data, 0x8000, 1)
    chance = random.Random(level)
    end = time.monotonic() + seconds
    while True:
        connect(stays, liar)
        begin, length = outbound(liar, stays)
        posted = [stays.receive(0x10000 + 64 * n) for n in range(4)]
        # A queue on which nothing is: it looks all the same.
        scribble(liar, begin, length, stays, chance, lambda: stays.program.count(stays.vi, SEND))
        assert stays.told(1)[-1:] == LOST
        done = stays.drain(RECV)
        assert [each.descriptor for each in done] == posted
        assert stays.program.check(stays.data, 0x8000, 1).wrong == 0
        bystander.goes_on()
        stays.end_connection()
        liar.end_connection()
        if time.monotonic() > end:
            break
    connect(stays, liar)
    says(liar, stays, b"the truth")


@pytest.mark.parametrize("seconds", (3, MINUTE))
def test_a_partner_that_scribbles_over_an_ended_connection_harms_nobody(ends, seconds):
    """VI-EM-10, VI-MEM-7: by a mapping that its library knows nothing of, from before the end on, and
    while both, and others, have new connections and give their memory back."""
    bystander = Bystander(ends)
    stays, liar = ends.side(STAYS), ends.side(GOES)
    connect(stays, liar)
    span = outbound(liar, stays)
    offset = windows(liar.program)[span]
    mapped = liar.program.map_path(DEVICE, offset, span[1])
    storm = liar.program.later.storm(mapped, span[1], 0xA5, 1000 * seconds)
    # Nobody has rung: it looks by itself.
    until(lambda: stays.done(SEND) is None and stays.state() == "ERROR")
    assert stays.told(1)[-1:] == LOST
    rounds = 0
    while True:
        over = storm.returned()
        stays.end_connection()
        liar.end_connection()
        connect(stays, liar)
        for one, other in ((stays, liar), (liar, stays)):
            says(one, other, bytes(rounds + n & 0xFF for n in range(64)))
        bystander.goes_on()
        rounds += 1
        if over:
            break
    # It has gone on all the time.
    storm.result()
    assert rounds > 2 and len(stays.reports()) == 1
    liar.program.unmap(mapped, span[1])


@pytest.mark.parametrize("seconds", (0, MINUTE))
def test_a_partner_that_scribbles_over_a_trunk_ends_its_connections_and_nothing_else(
    fabric, ends, seconds
):
    """VI-EM-10, VI-MEM-7, VI-LIM-6: all connections of the two NIC handles, which have nothing else;
    not those of another handle of the same program."""
    chance = random.Random(1)
    end = time.monotonic() + seconds
    with little_memory(fabric):
        bystander = Bystander(ends)
        stays, liar = ends.side(STAYS), ends.side(GOES)
        here, there = stays.another(), ends.side(GOES)
        pairs = [(stays.another(), liar.another()) for _ in range(3)]
        kept = stays.data + 0x1000
        stays.program.fill(kept, 0x8000, 1)
        while True:
            for pair in pairs:
                connect(*pair)
            span = outbound(pairs[0][1], pairs[0][0])
            connect(here, there)
            posted = [own.receive(0x10000 + 64 * n) for n, (own, _) in enumerate(pairs)]
            done = []
            first, scribbles = pairs[0]
            scribble(scribbles, *span, first, chance, lambda: done.extend(briefly(first)))
            for (own, _), at in zip(pairs, posted):
                assert own.told(1)[-1:] == LOST
                done.extend(own.drain(RECV))
                assert own.state() == "ERROR"
            assert [each.descriptor for each in done] == posted
            assert all(each.errors for each in done)
            says(there, here, b"another trunk")
            says(here, there, b"and back")
            bystander.goes_on()
            assert (here.reports(), there.reports()) == ([], [])
            assert stays.program.check(kept, 0x8000, 1).wrong == 0
            for side in (*(side for pair in pairs for side in pair), here, there):
                side.end_connection()
            if time.monotonic() > end:
                break
            # Its trunk ends with it: the next one has other windows.
            there.program.close_nic(there.nic)
            there = ends.side(GOES)
        connect(*pairs[0])
        says(*pairs[0], b"the truth")


def briefly(side):
    """What comes for a side in a moment."""
    try:
        return [side.wait(RECV, 5)]
    except ViplError as error:
        assert error.name == "TIMEOUT"
        return []


def scribble(liar, begin, length, stays, chance, look):
    """Store what comes, until the other side has had enough of it, which looks in this way."""
    for _ in range(20):
        for at in range(0, length, PAGE):
            liar.program.write(begin + at, chance.randbytes(PAGE))
        # Nobody has rung: it looks by itself.
        look()
        if stays.state() == "ERROR":
            return
    pytest.fail(f"the other side is still {stays.state()}")


# --- hosts in a row


@pytest.fixture
def row(boot):
    """Three hosts in a row, of which the last one has no modules yet."""
    fabric = boot(hosts=3, topology="star")
    stack.load(*fabric.hosts[:-1], modules=MODULES)
    yield fabric
    boot.end(fabric)


def test_hosts_are_found_up_to_so_many_links_away(row):
    """VI-SMI-2, VI-SMI-4, VI-SMI-5: of three hosts in a row the outer ones are no neighbours of each
    other, and two links away.
    """
    stack.load(row.hosts[-1], modules=MODULES)
    wait_for_everyone(*row.hosts)
    ends = Ends(row.hosts, programs.configure(row.hosts))
    try:
        ends.start()
        middle, *outer = (ends.side(host) for host in (STAYS, GOES, THIRD))
        with fails("ERROR_RESOURCE"):
            middle.program.neighbours(middle.nic, room=1)
        for room in (2, 4):
            found = middle.program.neighbours(middle.nic, room=room)
            assert found == {side.host for side in outer}
        for side in outer:
            assert side.program.neighbours(side.nic) == {middle.host}
            assert side.program.neighbours(side.nic, hops=0) == set()
        hosts = {side.host for side in (middle, *outer)}
        for side in (middle, *outer):
            with fails("ERROR_RESOURCE"):
                side.program.neighbours(side.nic, hops=2, room=1)
            for hops in (2, 3, (1 << 64) - 1):
                assert side.program.neighbours(side.nic, hops=hops) == hosts - {side.host}
    finally:
        ends.end()
