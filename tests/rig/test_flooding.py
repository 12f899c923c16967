# SPDX-License-Identifier: GPL-2.0-only
"""Processes that have more said to a peer than it takes, while it stands still: the link
outlives it."""

import errno
import json

import pytest
import sharing
import shell
from frames import frozen, peer_id
from sharing import EACH, MP, PAST, fails, fill, pair, patient
from shell import until

PAGE = 0x1000
# Of a port.
CONNECTIONS = 256
# More than wait for a peer.
MANY = 5000
NUMBER = 77
# To a peer, for its statistics, that may be open at a time.
QUESTIONS = 16
# Connections that a user asks for at a time.
ASKED = 64
# Signals one thread of a process.
_SIGNAL = """
import ctypes, sys
group, thread = map(int, sys.argv[1:3])
TGKILL, USR1 = 234, 10
assert ctypes.CDLL(None).syscall(TGKILL, group, thread, USR1) == 0
"""


@pytest.fixture(scope="module")
def fabric(boot):
    return patient(boot)


@pytest.fixture
def ends(fabric):
    """A process that offers, one that uses, and the interfaces between them."""
    with pair(fabric) as both:
        yield both


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


# --- one user, and others

# Those who flood a peer, and another user.
FLOOD, OTHER = 4711, 4712
# Connections of one user whose messages a host that stands still has no room for.
FULL = 128


@pytest.fixture
def users(fabric):
    """Processes of two users of this host."""
    fabric.rp.run("chmod 666 /dev/mp_fabric")
    with sharing.Process(fabric.rp, user=FLOOD) as one, sharing.Process(fabric.rp, user=OTHER) as two:
        yield one, two


def send(process, connection):
    """How many messages a connection takes at once."""
    fields = {"handle": connection, "data": process.buffer, "length": 4096, "deadline": PAST}
    return process.repeat(EACH, "SEND", "mp_message", **fields)


def test_a_user_who_floods_a_host_that_stands_still_holds_up_no_other_user(fabric, ends, users):
    """With messages to ports."""
    owner, back, _, there = ends
    owner.offer(back, MP.OBJECT_PORT, NUMBER)
    flood, other = users
    full = [flood.connect(there, MP.OBJECT_PORT, NUMBER) for _ in range(FULL)]
    connection = other.connect(there, MP.OBJECT_PORT, NUMBER)
    with frozen(fabric.hosts[1], fabric.rp):
        assert sum(send(flood, to) for to in full) < FULL * EACH
        assert send(flood, full[-1]) == 0
        assert send(other, connection) == EACH


def test_a_user_who_asks_a_host_that_stands_still_holds_up_no_other_user(fabric, ends, users):
    """The host hears of what that one has asked for, also if nobody waits for the answer."""
    owner, back, _, there = ends
    segment = owner.segment(8, PAGE, back)
    flood, other = users
    fields = {"interface": there, "number": NUMBER, "deadline": PAST}
    with frozen(fabric.hosts[1], fabric.rp):
        kind = {"object": MP.OBJECT_EVENT, **fields}
        assert flood.guess(0, MANY, 0, "CONNECT", "mp_connect", **kind) == MANY
        with fails(errno.ETIMEDOUT):
            kind = {"object": MP.OBJECT_SEGMENT, **fields, "number": 8}
            other.call("CONNECT", "mp_connect", **kind)
    assert owner.notice(segment) == MP.NOTICE_CONNECTED
    assert owner.notice(segment) == MP.NOTICE_DISCONNECTED


# --- who is asked for a session, and does not answer

# Half of what the session's process waits.
HALF = 5


def test_a_session_that_nobody_answers_for_ends_no_link(fabric, ends):
    """The call fails; the others go on when the host does."""
    owner, back, user, there = ends
    event = owner.offer(back, MP.OBJECT_EVENT, NUMBER)
    connection = user.connect(there, MP.OBJECT_EVENT, NUMBER)
    session = {"interface": there, "role": 1, "location": 1, "protocol": 9, "local_max": PAGE}
    with frozen(fabric.hosts[1], fabric.rp):
        call = user.later("SESSION_OPEN", "mp_session_open", **session)
        with fails(errno.ENETDOWN):
            call.result(timeout=60)
        assert call.seconds > HALF
    user.signal(connection)
    assert owner.wait(event, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
    # What is asked for next is answered.
    user.call("SESSION_OPEN", "mp_session_open", **session)


@pytest.fixture
def copying(fabric, ends):
    """A call that copies memory of its process, and waits for a peer that stands still; the
    process and the queue."""
    owner, back, user, there = ends
    owner.segment(7, PAGE, back)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 7)
    queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=there, entries=1).handle
    copies = sharing.copy_list(user, (user.memory(PAGE), 0, PAGE))
    start = {"handle": queue, "connection": connection, **copies}
    with frozen(fabric.hosts[1], fabric.rp):
        call = user.later("QUEUE_START", "mp_queue_start", **start)
        state = lambda: user.call("QUEUE", "mp_queue", handle=queue).state
        until(lambda: state() != MP.QUEUE_IDLE)
        assert not call.returned()
        yield user, queue, call


def asleep(user):
    """Wait until all that a process was told before has begun, and ended or fallen asleep."""
    user.read(user.buffer, 1)
    user.until_asleep()
    user.read(user.buffer, 1)


def test_a_queue_is_closed_when_the_call_that_copies_has_ended(copying):
    user, queue, call = copying
    closing = user.later("CLOSE", "mp_handle", handle=queue)
    asleep(user)
    assert not closing.returned()
    assert not call.returned()
    closing.result()
    call.result()


@pytest.mark.parametrize("name", ["CLOSE", "QUEUE_ABORT"])
def test_a_signal_ends_a_wait_for_the_end_of_copies(copying, name):
    """The call that copies may wait for something that does not come, as for a page."""
    user, queue, call = copying
    tasks = lambda: set(user.guest.run(f"ls /proc/{user.pid}/task").out.split())
    before = tasks()
    ending = user.later(name, "mp_handle", handle=queue)
    asleep(user)
    [thread] = tasks() - before
    assert not ending.returned()
    user.guest.run(["python3", "-c", _SIGNAL, str(user.pid), thread])
    with fails(errno.EINTR):
        ending.result(timeout=2)
    assert not call.returned()
    call.result()
    user.call("CLOSE", "mp_handle", handle=queue)
    with fails(errno.ENOENT):
        user.call("QUEUE", "mp_queue", handle=queue)


def test_what_was_asked_for_ends_with_the_link(fabric, ends):
    """As many connections as a user may ask for at a time: the calls are told, and the places are
    free when the link is back."""
    owner, back, user, there = ends
    fields = {"interface": there, "object": MP.OBJECT_EVENT, "number": NUMBER}
    here = fabric.hosts[1]
    for _ in range(2):
        here.freeze()
        try:
            ask = lambda: user.later("CONNECT", "mp_connect", deadline=sharing.FOREVER, **fields)
            # One more waits for a place.
            calls = [ask() for _ in range(ASKED + 1)]
            asleep(user)
            assert not any(call.returned() for call in calls)
            fabric.unplug(fabric.rp)
            for call in calls:
                with fails(errno.ENETDOWN):
                    call.result()
        finally:
            here.thaw()
            fabric.plug(fabric.rp)
        user.wait_until_up(there)
        owner.wait_until_up(back)
    event = owner.offer(back, MP.OBJECT_EVENT, NUMBER)
    connection = user.connect(there, MP.OBJECT_EVENT, NUMBER)
    user.signal(connection)
    assert owner.wait(event, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL


def asked(fabric, guest, peer, before=""):
    """Ask a peer by netlink for all that may be open at a time, and then the own kernel: the answers
    in the order in which they come."""
    program = f"{before} {shell.directory(guest, 64)}/netlink_order"
    answers = guest.run(f"{program} {peer} {QUESTIONS}", check=not before)
    return [json.loads(line) for line in answers.out.splitlines()]


def test_questions_to_a_peer_that_stands_still_hold_up_no_other_request(fabric):
    """IDT-PEER-3: neither on their own socket nor anywhere, as no request lasts until a peer has
    answered. What a program has asked that is killed makes room for others."""
    here, there = fabric.hosts
    peer = peer_id(there)
    with frozen(there, here):
        first, *others = asked(fabric, here, peer)
        assert asked(fabric, here, peer, "timeout -s KILL 0.1") == []
        again, *later = asked(fabric, here, peer)
    own = QUESTIONS + 1
    assert [(answer["request"], answer["errno"]) for answer in (first, again)] == [(own, 0)] * 2
    for answers in (others, later):
        assert [answer["errno"] for answer in answers] == [errno.ETIMEDOUT] * QUESTIONS
        assert {answer["request"] for answer in answers} == set(range(1, own))
