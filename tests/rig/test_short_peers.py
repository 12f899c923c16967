# SPDX-License-Identifier: GPL-2.0-only
"""A host that is short of memory, and a peer whose user service is another one: what that peer can
reach counts until it has let go, what it asks for waits, and it has its time to answer."""

import errno
import struct
import time

import pytest
import sharing
from copies import ended, queue_of, start
from frames import TRANSPORT, resets, wait_for_everyone
from liar import (
    CLOSE,
    CLOSED,
    CONNECT,
    CONNECTED,
    ENDED,
    FETCH,
    GONE,
    PAIRED,
    POST,
    POSTED,
    REFUSED,
    RESERVE,
    RESERVED,
    RESUME,
    RESUMED,
    SEGMENT,
    UNPOSTED,
    UNWINDOWED,
    Liar,
)
from ntbrig import stack
from ntbrig.settings import PATIENCE
from sharing import FOREVER, MP, fails
from shell import until
from shortage import refused, running_out, short
from test_acceptance import Party

PAGE = 0x1000
NUMBER = 91
# Of a session, a connection and an identifier of the liar.
THEIRS, MINE, UID = 0x4321, 0x1234, 7
# Seconds in which a message is dealt with that finds memory.
SOON = 0.4


@pytest.fixture(scope="module")
def fabric(boot):
    """The liar is at the root processor, where pairs are decided on."""
    fabric = boot(hosts=2)
    liar, victim = fabric.hosts
    stack.load(victim, liar, modules=TRANSPORT)
    wait_for_everyone(*fabric.hosts)
    # What half of the memory is for, is soon no more.
    parameters = {"mp_func_user": "user_memory=50"}
    stack.load(victim, modules=("mp_func_user",), parameters=parameters)
    stack.unload(liar, modules=TRANSPORT)
    return fabric


@pytest.fixture
def scene(fabric):
    """A process of the victim, with its interface to the liar, and the liar."""
    liar, victim = fabric.hosts
    with Liar(liar, victim) as peer:
        peer.greet()
        with sharing.Process(victim) as process:
            yield Party(process, process.interface()), peer


# --- what the peer can reach


def asked_for(party, **fields):
    """A server is asked for, in a thread."""
    return party.later(MP.ROLE_SERVER, local_min=PAGE, **fields)


def posted(party, peer):
    """A session that has all memory that its user may have, and its number."""
    asking = asked_for(party, local_max=MP.SIZE_MAX)
    number, _ = peer.hear_of_session(POST)
    peer.say_of(number, POSTED)
    return asking.result().handle, number


def reserved(peer, number):
    """Where a page of memory is that the session has given the liar."""
    peer.say_of(number, RESERVE, bytes(8), struct.pack("<2Q", PAGE, PAGE))
    session, rest = peer.hear_of_session(RESERVED)
    place, length = struct.unpack_from("<2Q", rest, 8)
    assert (session, length) == (number, PAGE)
    return place


def assert_spent(party):
    """Its user has no memory left."""
    with fails(errno.EDQUOT):
        asked_for(party, local_max=PAGE).result()


def assert_free_again(party, peer):
    posted(party, peer)


def test_what_is_reserved_for_a_pair_counts_until_the_peer_has_let_go(scene):
    """The session is closed before it has a partner, which the peer may have given it meanwhile."""
    party, peer = scene
    handle, number = posted(party, peer)
    reserved(peer, number)
    party.process.close(handle)
    assert peer.hear_of_session(CLOSE)[0] == number
    assert_spent(party)
    peer.say_of(number, CLOSED)
    assert_free_again(party, peer)


def test_a_window_counts_until_the_partner_is_closed_also_without_memory(fabric, scene):
    party, peer = scene
    _, victim = fabric.hosts
    handle, number = posted(party, peer)
    place = reserved(peer, number)
    words = struct.pack("<2I4Q", THEIRS, UID, 0, 0, place, PAGE)
    peer.say_of(number, PAIRED | UNPOSTED, words)
    party.wait(handle, MP.EVENT_PAIRED)
    with short(victim):
        party.process.close(handle)
    assert peer.hear_of_session(CLOSE)[0] == number
    assert_spent(party)
    peer.say_of(THEIRS, CLOSE)
    assert_free_again(party, peer)


def free_bytes(party):
    return party.process.call("INTERFACE", "mp_interface", id=party.interface).local_free


def test_a_segment_for_the_peer_counts_beside_windows_until_the_peer_has_let_go(fabric, scene):
    """Both are cut of one memory. What the peer has let go of is there for windows at once."""
    party, peer = scene
    process, at = party.process, {"interface": party.interface, "length": PAGE}
    private = {"flags": MP.SEGMENT_ONE_PEER | MP.SEGMENT_PRIVATE}
    make = lambda: process.call("SEGMENT_CREATE", "mp_segment_create", **at, **private)
    before = free_bytes(party)
    with sharing.Process(fabric.hosts[1]) as first:
        fields = {"flags": MP.SEGMENT_ONE_PEER, "id": NUMBER}
        segment = first.call("SEGMENT_CREATE", "mp_segment_create", **at, **fields).handle
        for what in ("PREPARE", "PUBLISH"):
            first.at(what, segment, party.interface)
        peer.say(CONNECT | SEGMENT, MINE, struct.pack("<I", NUMBER))
        peer.hear(CONNECTED)
        handle, _ = posted(party, peer)
        with fails(errno.EDQUOT):
            make()
    peer.hear(ENDED)
    # Its process has ended, and the peer may still store there.
    with fails(errno.EDQUOT):
        make()
    assert_spent(party)
    assert free_bytes(party) == before - PAGE
    peer.say(GONE, MINE)
    peer.flush()
    until(lambda: free_bytes(party) == before)
    posted(party, peer)
    with fails(errno.EDQUOT):
        make()
    process.close(handle)
    make()


# --- what the peer asks for


def test_who_resumes_at_a_host_that_runs_out_of_memory_waits(fabric, scene):
    """Whatever piece of memory is the first one that is not there: the connection stays."""
    party, peer = scene
    _, victim = fabric.hosts
    party.process.segment_of_own_memory(NUMBER, PAGE, party.interface, MP.PUBLISH_PLACED)
    want = SEGMENT | UNWINDOWED
    peer.say(CONNECT | want, MINE, struct.pack("<I", NUMBER))
    _, _, rest = peer.hear(CONNECTED)
    token = struct.unpack_from("<I", rest, 4)[0]
    for shortage in running_out(victim):
        # It has forgotten the other service, but not its connection.
        peer.greet()
        with shortage:
            peer.say(RESUME | want, MINE, struct.pack("<2I", NUMBER, token))
            peer.say(RESUMED, 0)
            peer.flush()
            time.sleep(SOON)
        kind, number, _ = peer.hear(CONNECTED, REFUSED)
        assert (kind, number) == (CONNECTED, MINE)


# --- how long it may take


def test_a_peer_has_its_time_for_an_answer_when_it_could_be_asked(fabric, scene):
    """Its ten seconds begin when the shortage ends that has kept the request back."""
    party, peer = scene
    liar, victim = fabric.hosts
    before = resets(victim, liar)
    with short(victim):
        asking = asked_for(party, local_max=PAGE)
        time.sleep(8)
        assert refused(victim)
    number, _ = peer.hear_of_session(POST)
    time.sleep(4)
    assert not asking.returned()
    peer.say_of(number, POSTED)
    asking.result()
    assert resets(victim, liar) == before


def test_a_copy_is_given_up_with_its_link_and_not_for_want_of_memory(fabric, scene):
    """A shortage of something else puts that off: what is under way might be stored later."""
    party, peer = scene
    process, interface = party.process, party.interface
    liar, victim = fabric.hosts
    fields = {"id": 92, "length": PAGE}
    target = process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
    process.at("PREPARE", target, interface, MP.PUBLISH_PLACED)
    connections = []
    for kind, flags, length in (
        (MP.OBJECT_SEGMENT, MP.CONNECT_PLACED, PAGE),
        (MP.OBJECT_EVENT, 0, 0),
    ):
        fields = {"interface": interface, "object": kind, "number": NUMBER, "flags": flags}
        asking = process.later("CONNECT", "mp_connect", deadline=FOREVER, **fields)
        peer.accept(length)
        connections.append(asking.result().handle)
    source, event = connections
    queue = queue_of(process, interface)
    before = resets(victim, liar)
    start(process, queue, target, source, (0, 0, PAGE), flags=MP.QUEUE_READ)
    peer.hear(FETCH)
    time.sleep(3)
    with short(victim):
        process.signal(event)
        # The five seconds are over meanwhile.
        time.sleep(4)
        assert refused(victim)
        assert process.call("QUEUE", "mp_queue", handle=queue).state == MP.QUEUE_POSTED
        assert resets(victim, liar) == before
    assert ended(process, queue) == MP.QUEUE_ERROR
    # The interface says whose it is once it is up again.
    end = time.monotonic() + 10 * PATIENCE
    while resets(victim, liar) <= before:
        assert time.monotonic() < end, "the link was not reset"
        time.sleep(0.1)
