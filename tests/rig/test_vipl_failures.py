# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of VIs when one side goes away, in each way to go and at each step of a connection's
life: who is left is told once and for the right reason, can connect again, and nobody else
notices. Three hosts: who is left on the first one, who goes on the second, and another client of
the first one's interface on the third."""

import pytest
from outages import GOES, STAYS, THIRD, fabric
from sharing import pinned, wait_until_unpinned
from shell import until
from vipl import (
    FOREVER, RD, RECV, RR, SEND, SOON, UD, ViplError, all_ends, ask, connect, ends, fails, says,
)  # fmt: skip
from vipl_ways import FLUSHED, LOST, WAYS, Bystander, memory_of_connections

WRITE, READ = 1, 2


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
