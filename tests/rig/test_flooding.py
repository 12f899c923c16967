# SPDX-License-Identifier: GPL-2.0-only
"""Processes that have more said to a peer than it takes, while it stands still: the link
outlives it."""

import errno
from contextlib import contextmanager

import pytest
import sharing
from ntbrig import stack
from frames import no_link_ends
from pximc import MODULES
from sharing import EACH, MP, PAST, fails, fill, pair

PAGE = 0x1000
# Of a port.
CONNECTIONS = 256
# More than wait for a peer.
MANY = 5000
NUMBER = 77


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters={"pximc_ntb": "timeout_ms=60000"})
    # Their own clocks show how long they have stood still.
    for guest in fabric.hosts:
        guest.run("sysctl -e -w kernel.watchdog=0")
    return fabric


@pytest.fixture
def ends(fabric):
    """A process that offers, one that uses, and the interfaces between them."""
    with pair(fabric) as both:
        yield both


@contextmanager
def frozen(guest, *others):
    """Inside, a guest stands still; no link is down or starts over because of that."""
    with no_link_ends(guest, *others):
        guest.freeze()
        try:
            yield
        finally:
            guest.thaw()


def test_all_messages_are_taken_while_their_sender_stands_still(fabric, ends):
    """SI-TRDINT-3"""
    owner, back, user, there = ends
    port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
    connections = [user.connect(there, MP.OBJECT_PORT, NUMBER) for _ in range(CONNECTIONS)]
    user.write(user.buffer, bytes(range(256)))
    for connection in connections:
        fill(user, connection)
    # There is room for one more, behind all others.
    assert owner.receive(port) == bytes(range(256))
    user.send(connections[0], b"the last")
    fields = {"handle": port, "data": owner.buffer, "length": 256, "deadline": PAST}
    with frozen(*fabric.hosts):
        received = owner.repeat(CONNECTIONS * EACH, "RECEIVE", "mp_message", **fields)
    assert received > MANY
    rest = [owner.receive(port) for _ in range(received, CONNECTIONS * EACH)]
    assert not rest or rest[-1] == b"the last"
    # The sender is told of each.
    for connection in connections:
        assert user.state(connection) == MP.CONNECTION_OPERATIONAL
    fill(user, connections[-1])
    for _ in range(EACH):
        owner.receive(port)


def test_connections_are_asked_for_of_a_host_that_stands_still(fabric, ends):
    """Each time somebody has no patience."""
    owner, back, user, there = ends
    fields = {"interface": there, "object": MP.OBJECT_EVENT, "number": NUMBER, "deadline": PAST}
    with frozen(fabric.hosts[1], fabric.rp):
        # None of them has found that there is no such event.
        assert user.guess(0, MANY, 0, "CONNECT", "mp_connect", **fields) == MANY
        with fails(errno.ETIMEDOUT):
            user.call("CONNECT", "mp_connect", **fields)
    event = owner.offer(back, MP.OBJECT_EVENT, NUMBER)
    connection = user.connect(there, MP.OBJECT_EVENT, NUMBER)
    user.signal(connection)
    assert owner.wait(event, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL


def test_a_host_that_stands_still_is_asked_whether_it_is_there(fabric, ends):
    """SI-PROBE-2"""
    owner, back, user, there = ends
    owner.segment(7, PAGE, back)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 7)
    with frozen(fabric.hosts[1], fabric.rp):
        fields = {"target": connection, "deadline": PAST}
        assert user.guess(connection, MANY, 0, "BARRIER", "mp_barrier", **fields) == MANY
        with fails(errno.ETIMEDOUT):
            user.call("BARRIER", "mp_barrier", **fields)
    user.call("BARRIER", "mp_barrier", target=connection, deadline=sharing.FOREVER)


def test_processes_that_stand_still_are_asked_to_leave_over_and_over(fabric, ends):
    """SI-UNAVAIL-3"""
    owner, back, user, there = ends
    segment = owner.segment(7, PAGE, back)
    connections = [user.connect(there, MP.OBJECT_SEGMENT, 7) for _ in range(CONNECTIONS)]
    with frozen(*fabric.hosts):
        for _ in range(MANY // CONNECTIONS + 1):
            owner.at("WITHDRAW", segment, back, MP.WITHDRAW_NOTIFY)
            owner.at("PUBLISH", segment, back)
    for connection in connections:
        assert user.notice(connection) == MP.NOTICE_DISCONNECTED
