# SPDX-License-Identifier: GPL-2.0-only
"""A host that is short of memory: who asks for something is told, what arrives waits or ends what it
is about, and no link ends. `mp_guard_test` keeps memory from all that is written in Rust."""

import errno
import time
from contextlib import contextmanager

import pytest
from ntbrig import stack
from frames import no_link_ends
from pximc import MODULES
from sharing import MP, fails, pair
from test_acceptance import Party
from test_sharing_memory import guard

PAGE = 0x1000
NUMBER = 90
# Requests of each kind that a host without memory is sent.
REQUESTS = 24
# Connections that end without memory.
CONNECTIONS = 200
# Seconds without memory.
A_WHILE = 1.5


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


@contextmanager
def short(guest, sleepers=False):
    """Inside, there is no memory on a host for who cannot wait for it; with `sleepers` for nobody."""
    with guard(guest, largest=1, sleepers=int(sleepers)):
        yield


def connect_later(user, interface, kind):
    fields = {"interface": interface, "object": kind, "number": NUMBER, "deadline": (1 << 64) - 1}
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
    serves, asks = Party(owner, back), Party(user, there)
    servers = [serves.server(b"s%d" % n, b"data" * 200, flags=0) for n in range(REQUESTS)]
    with no_link_ends(*fabric.hosts):
        with short(owner.guest, sleepers):
            waiting = [
                connect_later(user, there, kind)
                for kind in (MP.OBJECT_SEGMENT, MP.OBJECT_EVENT)
                for _ in range(REQUESTS)
            ]
            data = b"asks" * 200
            for n in range(REQUESTS):
                waiting.append(asks.later(MP.ROLE_CLIENT, b"s%d" % n, data, remote_max=PAGE))
                # The names and data of all requests are in one place.
                time.sleep(0.05)
            time.sleep(A_WHILE)
        for request in waiting:
            request.result()
        for server in servers:
            assert owner.wait(server, MP.EVENT_PAIRED) & MP.EVENT_PAIRED


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
        ended.result()
        for connection in connections:
            told = [user.notice(connection) for _ in range(2)]
            assert told == [MP.NOTICE_DISCONNECTED, MP.NOTICE_LOST]
        assert user.state(stays) == MP.CONNECTION_OPERATIONAL
    owner.remove(other, MP.REMOVE_FORCE)
