# SPDX-License-Identifier: GPL-2.0-only
"""A host that is short of memory: who asks for something is told, what arrives waits or ends what it
is about, and no link ends."""

import errno
import time

import pytest
from ntbrig import stack
from ntbrig.settings import PATIENCE
from frames import no_link_ends
from pximc import MODULES
from sharing import FOREVER, MP, fails, pair
from shortage import refused, running_out, short
from test_acceptance import Party

PAGE = 0x1000
NUMBER = 90
# Requests of each kind that a host without memory is sent.
REQUESTS = 16
# Connections that end without memory.
CONNECTIONS = 200
# Seconds without memory.
A_WHILE = 1.5
# Seconds in which a request is answered that finds memory.
SOON = 0.4
OBJECTS = (MP.OBJECT_SEGMENT, MP.OBJECT_EVENT, MP.OBJECT_PORT)


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    return fabric


@pytest.fixture(params=("to the endpoint", "to the root processor"))
def ends(fabric, request):
    """A process that offers, one that uses, and the interfaces between them: the pairing engines of
    the two hosts differ."""
    with pair(fabric) as (one, back, other, there):
        ends = (one, back, other, there)
        yield ends if request.param == "to the endpoint" else ends[2:] + ends[:2]


def connect_later(user, interface, kind):
    fields = {"interface": interface, "object": kind, "number": NUMBER, "deadline": FOREVER}
    return user.later("CONNECT", "mp_connect", **fields)


def test_who_finds_no_memory_is_told_and_what_is_there_goes_on(fabric, ends):
    owner, back, user, there = ends
    owner.segment(NUMBER, PAGE, back)
    event = owner.offer(back, MP.OBJECT_EVENT, NUMBER)
    segment = user.connect(there, MP.OBJECT_SEGMENT, NUMBER)
    trigger = user.connect(there, MP.OBJECT_EVENT, NUMBER)
    serves, asks = Party(owner, back), Party(user, there)
    server = serves.server(b"here", flags=0)
    with no_link_ends(*fabric.hosts):
        with short(user.guest, sleepers=True):
            for kind in (MP.OBJECT_SEGMENT, MP.OBJECT_EVENT):
                with fails(errno.ENOMEM):
                    user.connect(there, kind, NUMBER)
            with fails(errno.ENOMEM):
                asks.client(b"here", flags=0)
            # What is closed needs nothing.
            user.close(segment)
        user.signal(trigger)
        assert owner.wait(event, MP.EVENT_SIGNAL) & MP.EVENT_SIGNAL
        user.connect(there, MP.OBJECT_SEGMENT, NUMBER)
        asks.client(b"here", flags=0)
        assert owner.wait(server, MP.EVENT_PAIRED) & MP.EVENT_PAIRED


@pytest.mark.parametrize("sleepers", (False, True))
def test_what_arrives_without_memory_waits_for_it(fabric, ends, sleepers):
    owner, back, user, there = ends
    owner.segment(NUMBER, PAGE, back)
    owner.offer(back, MP.OBJECT_EVENT, NUMBER)
    serves = Party(owner, back)
    servers = [serves.server(b"s%d" % n, b"data" * 200, flags=0) for n in range(REQUESTS)]
    # Each has a place for its name and data: all are under way together.
    parties = [Party(user, there) for _ in range(REQUESTS)]
    with no_link_ends(*fabric.hosts):
        with short(owner.guest, sleepers):
            waiting = [
                connect_later(user, there, kind)
                for kind in (MP.OBJECT_SEGMENT, MP.OBJECT_EVENT)
                for _ in range(REQUESTS)
            ]
            waiting += [
                asks.later(MP.ROLE_CLIENT, b"s%d" % n, b"asks" * 200, remote_max=PAGE)
                for n, asks in enumerate(parties)
            ]
            time.sleep(A_WHILE)
            # There was none for any of them, nor for an answer.
            assert refused(owner.guest) >= len(waiting)
            assert not any(request.returned() for request in waiting)
        for request in waiting:
            request.result()
        for server in servers:
            assert owner.wait(server, MP.EVENT_PAIRED) & MP.EVENT_PAIRED


def test_what_may_wait_for_memory_is_dealt_with_while_others_find_none(fabric, ends):
    """Connections need ever more room for what is to be said of them, which is had in time; only
    the answers wait."""
    owner, back, user, there = ends
    segment = owner.segment(NUMBER, PAGE, back)
    with no_link_ends(*fabric.hosts):
        with short(owner.guest):
            many = range(2 * REQUESTS)
            waiting = [connect_later(user, there, MP.OBJECT_SEGMENT) for _ in many]
            for _ in many:
                told = owner.later("NOTICE", "mp_notice", handle=segment, deadline=FOREVER)
                assert told.result(timeout=5 * PATIENCE).notice == MP.NOTICE_CONNECTED
            assert not any(request.returned() for request in waiting)
        for request in waiting:
            request.result()


@pytest.mark.parametrize("kind", OBJECTS, ids=("segment", "event", "port"))
def test_who_asks_a_host_that_runs_out_of_memory_waits(fabric, ends, kind):
    """Whatever piece of memory is the first one that is not there: nobody is refused."""
    owner, back, user, there = ends
    if kind == MP.OBJECT_SEGMENT:
        owner.segment(NUMBER, PAGE, back)
    else:
        owner.offer(back, kind, NUMBER)
    with no_link_ends(*fabric.hosts):
        for shortage in running_out(owner.guest):
            with shortage:
                request = connect_later(user, there, kind)
                end = time.monotonic() + SOON * PATIENCE
                while not request.returned() and time.monotonic() < end:
                    time.sleep(0.01)
            user.close(request.result().handle)


def test_what_an_owner_without_memory_ends_has_ended(fabric, ends):
    owner, back, user, there = ends
    segment = owner.segment(NUMBER, PAGE, back)
    connections = [
        user.connect(there, MP.OBJECT_SEGMENT, NUMBER) for _ in range(CONNECTIONS)
    ]
    other = owner.segment(NUMBER + 1, PAGE, back)
    stays = user.connect(there, MP.OBJECT_SEGMENT, NUMBER + 1)
    with no_link_ends(*fabric.hosts):
        with short(owner.guest, sleepers=True):
            fields = {"handle": segment, "flags": MP.REMOVE_FORCE}
            ended = owner.later("REMOVE", "mp_remove", **fields)
            time.sleep(A_WHILE)
            assert refused(owner.guest) and not ended.returned()
        ended.result()
        for connection in connections:
            told = [user.notice(connection) for _ in range(2)]
            assert told == [MP.NOTICE_DISCONNECTED, MP.NOTICE_LOST]
        assert user.state(stays) == MP.CONNECTION_OPERATIONAL
    owner.remove(other, MP.REMOVE_FORCE)
