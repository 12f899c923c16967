# SPDX-License-Identifier: GPL-2.0-only
"""Segments, events and ports that processes offer to others, on both hosts of a pair
and within one host."""

import errno
import time
from contextlib import contextmanager

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import PATIENCE
from pximc import MODULES
from sharing import EACH, MP, PAST, fails, fill, pair

pytestmark = pytest.mark.everywhere

PAGE = 0x1000
ONES = b"\xff" * 8
PLACES = ("another host", "the same host")


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    return fabric


@pytest.fixture(params=PLACES)
def ends(request, fabric):
    """A process that offers, one that uses, and the interfaces between them."""
    with pair(fabric, request.param == "the same host") as both:
        yield both


def fits(process, interface, length):
    """Whether the peer there reaches a segment of so many bytes."""
    handle = None
    try:
        made = process.call("SEGMENT_CREATE", "mp_segment_create", id=24, length=length)
        handle = made.handle
        process.at("PREPARE", handle, interface)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    finally:
        if handle is not None:
            process.remove(handle)
    return True


def reach(process, interface, most):
    """Bytes of a segment that the peer there reaches: `most`, halved until they fit in."""
    lengths = (most >> n for n in range(most.bit_length()))
    return next(length for length in lengths if fits(process, interface, length))


def test_stores_of_a_user_are_seen_by_the_owner(ends):
    """SI-CRSEG-10, SI-CONSEG-2, SI-CONSEG-3, SI-EVT-1, SI-EVT-2, SI-MAPR-1, SI-RSIZE-1"""
    owner, back, user, there = ends
    segment = owner.segment(7, 2 * PAGE + 12, back)
    local = owner.map_segment(segment)
    assert owner.read(local, 64) == bytes(64)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 7)
    assert owner.notice(segment) == MP.NOTICE_CONNECTED
    assert user.call("CONNECTION", "mp_connection", handle=connection).length == 2 * PAGE + 12
    remote = user.map_connection(connection)
    user.write(remote + PAGE, b"over there")
    user.call("BARRIER", "mp_barrier", target=connection, deadline=sharing.FOREVER)
    assert owner.read(local + PAGE, 10) == b"over there"
    with fails(errno.EBUSY):
        owner.remove(segment)
    user.close(connection)
    assert owner.notice(segment) == MP.NOTICE_DISCONNECTED
    owner.remove(segment)


def test_only_what_is_published_is_found(ends):
    """SI-CONSEG-6, SI-CONSEG-7, SI-AVAIL-2, SI-UNAVAIL-1, SI-UNAVAIL-2, SI-CRSEG-2"""
    owner, back, user, there = ends
    made = owner.call("SEGMENT_CREATE", "mp_segment_create", id=8, length=PAGE)
    with fails(errno.EADDRINUSE):
        owner.call("SEGMENT_CREATE", "mp_segment_create", id=8, length=PAGE)
    more = owner.call("SEGMENT_CREATE", "mp_segment_create", id=8, id_more=128, length=PAGE)
    assert more.id == 9
    with fails(errno.ENXIO):
        owner.at("PUBLISH", made.handle, back)
    for what in ("PREPARE", "PREPARE"):
        owner.at(what, made.handle, back)
        with fails(errno.ENOENT):
            user.connect(there, MP.OBJECT_SEGMENT, 8)
    owner.at("PUBLISH", made.handle, back)
    kept = user.connect(there, MP.OBJECT_SEGMENT, 8)
    owner.at("WITHDRAW", made.handle, back)
    with fails(errno.ENXIO):
        owner.at("WITHDRAW", made.handle, back)
    with fails(errno.ENOENT):
        user.connect(there, MP.OBJECT_SEGMENT, 8)
    assert user.state(kept) == MP.CONNECTION_OPERATIONAL


def test_who_is_put_out_sees_ones_and_the_owner_is_free(ends):
    """SI-UNAVAIL-3, SI-UNAVAIL-4, SI-MAPR-9, SI-RMSEG-4, SI-EVT-3, SI-EVT-6"""
    owner, back, user, there = ends
    segment = owner.segment(10, PAGE, back)
    local = owner.map_segment(segment)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 10)
    remote = user.map_connection(connection)
    owner.at("WITHDRAW", segment, back, MP.WITHDRAW_NOTIFY)
    assert user.notice(connection) == MP.NOTICE_DISCONNECTED
    user.write(remote, b"still in")
    user.call("BARRIER", "mp_barrier", target=connection, deadline=sharing.FOREVER)
    assert owner.read(local, 8) == b"still in"
    owner.remove(segment, MP.REMOVE_FORCE)
    assert user.notice(connection) == MP.NOTICE_LOST
    assert user.state(connection) & MP.CONNECTION_LOST
    assert user.read(remote, 8) == ONES
    user.write(remote, b"vanishes")
    with fails(errno.ECONNRESET):
        user.call("BARRIER", "mp_barrier", target=connection, deadline=sharing.FOREVER)
    user.close(connection)


def test_the_end_of_a_process_is_told_to_the_other_side(ends, fabric):
    """SI-CONSEG-11, SI-EVT-2, SI-EVT-3, SI-GEN-13"""
    owner, back, user, there = ends
    segment = owner.segment(11, PAGE, back)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 11)
    assert owner.notice(segment) == MP.NOTICE_CONNECTED
    with sharing.Process(user.guest) as other:
        other.connect(there, MP.OBJECT_SEGMENT, 11)
        assert owner.notice(segment) == MP.NOTICE_CONNECTED
        other.end()
        assert owner.notice(segment) == MP.NOTICE_DISCONNECTED
    owner.end()
    assert user.notice(connection) == MP.NOTICE_DISCONNECTED
    assert user.notice(connection) == MP.NOTICE_LOST


def test_who_waits_for_a_notice_of_what_is_removed_goes_on(ends):
    """SI-RMSEG-3, SI-DISSEG-3"""
    owner, back, _, _ = ends
    segment = owner.segment(12, PAGE, back)
    waiting = owner.later("NOTICE", "mp_notice", handle=segment, deadline=sharing.FOREVER)
    time.sleep(0.1)
    assert not waiting.returned()
    owner.remove(segment)
    with fails(errno.ENOENT):
        waiting.result()


def test_a_shared_segment_lives_until_its_last_user_has_left(ends):
    """SI-SHSEG-1, SI-ATTSEG-1, SI-ATTSEG-2, SI-ATTSEG-3, SI-ATTSEG-5, SI-RMSEG-5"""
    owner, back, user, there = ends
    segment = owner.segment(13, PAGE, back)
    with sharing.Process(owner.guest) as other:
        with fails(errno.EPERM):
            other.call("SEGMENT_ATTACH", "mp_segment_attach", id=13)
        with fails(errno.ENOENT):
            other.call("SEGMENT_ATTACH", "mp_segment_attach", id=14)
        owner.call("SEGMENT_SHARE", "mp_handle", handle=segment)
        attached = other.call("SEGMENT_ATTACH", "mp_segment_attach", id=13)
        assert attached.length == PAGE
        connection = user.connect(there, MP.OBJECT_SEGMENT, 13)
        assert other.notice(attached.handle) == MP.NOTICE_CONNECTED
        assert owner.notice(segment) == MP.NOTICE_CONNECTED
        owner.remove(segment)
        remote = user.map_connection(connection)
        user.write(remote, b"for both")
        user.call("BARRIER", "mp_barrier", target=connection, deadline=sharing.FOREVER)
        assert other.read(other.map_segment(attached.handle), 8) == b"for both"
        with fails(errno.EBUSY):
            other.remove(attached.handle)


def test_a_counting_event_tells_of_every_trigger_and_a_flag_of_the_last(ends):
    """SI-CRINT-2, SI-CRINT-4, SI-CRINT-5, SI-WINT-1, SI-WINT-3, SI-CONINT-3, SI-TRINT-1"""
    owner, back, user, there = ends
    counting = owner.offer(back, MP.OBJECT_EVENT, 1, MP.OFFER_COUNTED)
    with fails(errno.EADDRINUSE):
        owner.offer(back, MP.OBJECT_EVENT, 1, MP.OFFER_COUNTED)
    flag = owner.offer(back, MP.OBJECT_EVENT, 2)
    with fails(errno.ENOENT):
        user.connect(there, MP.OBJECT_EVENT, 3)
    with fails(errno.ECONNREFUSED):
        user.connect(there, MP.OBJECT_EVENT, 2, MP.CONNECT_COUNTED)
    to = user.connect(there, MP.OBJECT_EVENT, 1, MP.CONNECT_COUNTED)
    assert user.repeat(1000, "SIGNAL", "mp_handle", handle=to) == 1000
    user.call("BARRIER", "mp_barrier", target=to, deadline=sharing.FOREVER)
    fields = {"target": counting, "mask": MP.EVENT_SIGNAL, "deadline": PAST}
    assert owner.repeat(2000, "WAIT", "mp_wait", **fields) == 1000
    with fails(errno.ETIMEDOUT):
        owner.wait(counting, MP.EVENT_SIGNAL, PAST)
    to = user.connect(there, MP.OBJECT_EVENT, 2)
    waiting = owner.later(
        "WAIT", "mp_wait", target=flag, mask=MP.EVENT_SIGNAL, deadline=sharing.FOREVER
    )
    assert user.repeat(100, "SIGNAL", "mp_handle", handle=to) == 100
    assert waiting.result().events == MP.EVENT_SIGNAL


def test_processes_that_share_a_number_get_everything_each(ends):
    """SI-CRINT-3, SI-CRDINT-2"""
    owner, back, user, there = ends
    shared = MP.OFFER_SHARED
    with sharing.Process(owner.guest) as other:
        for kind, number in ((MP.OBJECT_EVENT, 5), (MP.OBJECT_PORT, 5)):
            first = owner.offer(back, kind, number, shared)
            with fails(errno.EADDRINUSE):
                other.offer(back, kind, number)
            second = other.offer(back, kind, number, shared)
            to = user.connect(there, kind, number)
            if kind == MP.OBJECT_PORT:
                user.send(to, b"to all")
                assert owner.receive(first) == b"to all"
                assert other.receive(second) == b"to all"
            else:
                user.signal(to)
                assert owner.wait(first, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
                assert other.wait(second, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL


def test_an_event_that_is_used_is_busy_and_closing(ends):
    """SI-RMINT-2, SI-RMINT-3, SI-TRINT-3, SI-DISINT-1"""
    owner, back, user, there = ends
    event = owner.offer(back, MP.OBJECT_EVENT, 6)
    to = user.connect(there, MP.OBJECT_EVENT, 6)
    with fails(errno.EBUSY):
        owner.remove(event)
    with fails(errno.ECONNREFUSED):
        user.connect(there, MP.OBJECT_EVENT, 6)
    user.signal(to)
    assert owner.wait(event, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
    owner.close(event)
    assert user.wait(to, MP.EVENT_CLOSED) == MP.EVENT_CLOSED
    with fails(errno.ECONNRESET):
        user.signal(to)
    user.close(to)


def test_messages_arrive_in_order_and_wait_for_a_slow_receiver(ends):
    """SI-CRDINT-2, SI-WDINT-1, SI-WDINT-2, SI-TRDINT-1, SI-TRDINT-2, SI-TRDINT-3"""
    owner, back, user, there = ends
    port = owner.offer(back, MP.OBJECT_PORT, 1)
    to = user.connect(there, MP.OBJECT_PORT, 1)
    user.send(to, b"")
    user.send(to, bytes(range(256)) * 16)
    with fails(errno.EMSGSIZE):
        user.send(to, bytes(4097))
    assert owner.receive(port) == b""
    with fails(errno.EMSGSIZE):
        owner.receive(port, room=16)
    assert owner.receive(port) == bytes(range(256)) * 16
    with fails(errno.ETIMEDOUT):
        owner.receive(port, deadline=PAST)
    sent = 0
    with fails(errno.ETIMEDOUT):
        for sent in range(100):
            user.send(to, bytes([sent]), PAST)
    assert sent == 64
    fields = {"handle": to, "data": user.buffer, "length": 1, "deadline": sharing.FOREVER}
    waiting = user.later("SEND", "mp_message", **fields)
    assert [owner.receive(port) for _ in range(64)] == [bytes([n]) for n in range(64)]
    waiting.result()
    assert len(owner.receive(port)) == 1


def test_a_port_takes_all_that_its_connections_may_send(fabric):
    """SI-TRDINT-3, SI-CONDINT-1"""
    with pair(fabric) as (owner, back, user, there):
        port = owner.offer(back, MP.OBJECT_PORT, 77)
        connections = [user.connect(there, MP.OBJECT_PORT, 77) for _ in range(256)]
        with fails(errno.ECONNREFUSED):
            user.connect(there, MP.OBJECT_PORT, 77)
        message = {"length": 256, "deadline": PAST}
        for connection in connections:
            fill(user, connection)
            fields = {"handle": connection, "data": user.buffer, **message}
            assert user.repeat(1, "SEND", "mp_message", **fields) == 0
        fields = {"handle": port, "data": owner.buffer, **message}
        received, end = 0, time.monotonic() + 20 * PATIENCE
        while received < 256 * EACH and time.monotonic() < end:
            received += owner.repeat(256 * EACH, "RECEIVE", "mp_message", **fields)
        assert received == 256 * EACH
        for connection in (connections[0], connections[-1]):
            assert user.state(connection) == MP.CONNECTION_OPERATIONAL
            user.send(connection, b"one more")
            assert owner.receive(port) == b"one more"


def test_numbers_are_given_out_and_handles_are_only_good_for_their_kind(ends):
    """SI-CRINT-1, SI-GEN-4"""
    owner, back, user, there = ends
    fields = {"interface": back, "object": MP.OBJECT_EVENT, "flags": MP.OFFER_ANY}
    first = owner.call("OFFER", "mp_offer", **fields)
    second = owner.call("OFFER", "mp_offer", **fields)
    assert first.number != second.number
    to = user.connect(there, MP.OBJECT_EVENT, second.number)
    with fails(errno.ENOENT):
        owner.call("CONNECTION", "mp_connection", handle=first.handle)
    with fails(errno.EINVAL):
        user.remove(to)
    with fails(errno.EINVAL):
        user.send(to, b"no")
    with fails(errno.EINVAL):
        owner.notice(first.handle, PAST)
    with fails(errno.EINVAL):
        owner.wait(first.handle, MP.EVENT_PAIRED, PAST)


def test_a_status_word_tells_of_a_connection_and_cannot_be_written(ends):
    """SI-SEQ-10"""
    owner, back, user, there = ends
    segment = owner.segment(15, PAGE, back)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 15)
    info = user.call("INFO", "mp_info")
    with fails(errno.EACCES):
        user.map(info.status_offset, info.status_length)
    words = user.map(info.status_offset, info.status_length, "ro")
    at = words + user.call("CONNECTION", "mp_connection", handle=connection).status
    word = lambda: int.from_bytes(user.read(at, 8), "little")
    assert word() == MP.CONNECTION_OPERATIONAL
    owner.close(segment)
    assert user.wait(connection, MP.EVENT_CLOSED) == MP.EVENT_CLOSED
    assert word() == 1 << 32 | MP.CONNECTION_WITHDRAWN | MP.CONNECTION_LOST
    user.close(connection)
    assert word() == 0


def test_a_connection_outlives_a_short_outage(fabric):
    """SI-EVT-4, SI-EVT-5, SI-RSM-2, SI-TRINT-3"""
    with pair(fabric) as (owner, back, user, there):
        segment = owner.segment(16, PAGE, back)
        event, _ = offer_by_name(owner, back, MP.OBJECT_EVENT, b"long", MP.OFFER_COUNTED, 16)
        local = owner.map_segment(segment)
        connection = user.connect(there, MP.OBJECT_SEGMENT, 16)
        to = user.connect(there, MP.OBJECT_EVENT, 0, name=b"long")
        remote = user.map_connection(connection)
        user.write(remote, b"before")
        fabric.unplug(fabric.hosts[1])
        assert user.notice(connection) == MP.NOTICE_DOWN
        # Each connection is told for itself.
        user.wait(to, MP.EVENT_DOWN)
        with fails(errno.ENETDOWN):
            user.signal(to)
        assert user.read(remote, 8) == ONES
        fabric.plug(fabric.hosts[1])
        assert user.notice(connection) == MP.NOTICE_UP
        user.write(remote, b"behind")
        user.wait_until_up(there)
        user.call("BARRIER", "mp_barrier", target=connection, deadline=sharing.FOREVER)
        assert owner.read(local, 6) == b"behind"
        while user.state(to) != MP.CONNECTION_OPERATIONAL:
            time.sleep(0.01)
        user.signal(to)
        assert owner.wait(event, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
        # What the owner has missed of the outage is nothing.
        assert owner.notice(segment) == MP.NOTICE_CONNECTED
        with fails(errno.ETIMEDOUT):
            owner.notice(segment, PAST)


def test_a_connection_is_given_up_when_the_link_stays_away(fabric):
    """SI-EVT-6, SI-EVT-7, SI-MAPR-10, SI-DISSEG-4"""
    with pair(fabric) as (owner, back, user, there):
        segment = owner.segment(23, PAGE, back)
        connection = user.connect(there, MP.OBJECT_SEGMENT, 23)
        remote = user.map_connection(connection)
        assert owner.notice(segment) == MP.NOTICE_CONNECTED
        fabric.unplug(fabric.hosts[1])
        try:
            for process, handle in ((owner, segment), (user, connection)):
                assert process.notice(handle) == MP.NOTICE_DOWN
                assert process.notice(handle) == MP.NOTICE_LOST
        finally:
            fabric.plug(fabric.hosts[1])
        user.wait_until_up(there)
        assert user.state(connection) == MP.CONNECTION_LOST
        assert user.read(remote, 8) == ONES
        again = user.connect(there, MP.OBJECT_SEGMENT, 23)
        user.close(connection)
        user.close(again)
        assert owner.notice(segment) == MP.NOTICE_CONNECTED
        assert owner.notice(segment) == MP.NOTICE_DISCONNECTED
        owner.remove(segment)


@contextmanager
def service(fabric, parameters):
    """The service of all hosts with parameters of its own."""
    stack.unload(*fabric.hosts, modules=(stack.USER,))
    try:
        stack.load(*fabric.hosts, modules=(stack.USER,), parameters={stack.USER: parameters})
        yield
        stack.unload(*fabric.hosts, modules=(stack.USER,))
    finally:
        stack.load(*fabric.hosts, modules=(stack.USER,))


@pytest.mark.parametrize("seconds", [1, 3])
def test_a_connection_waits_for_the_link_as_long_as_it_is_told_to(fabric, seconds):
    """SI-EVT-6, SI-NTB-15"""
    with service(fabric, f"reconnect_timeout_ms={seconds * 1000}"):
        with pair(fabric) as (owner, back, user, there):
            owner.segment(24, PAGE, back)
            connection = user.connect(there, MP.OBJECT_SEGMENT, 24)
            start = time.monotonic()
            fabric.unplug(fabric.hosts[1])
            try:
                assert user.notice(connection) == MP.NOTICE_DOWN
                down = time.monotonic()
                assert user.notice(connection) == MP.NOTICE_LOST
                lost = time.monotonic()
            finally:
                fabric.plug(fabric.hosts[1])
            # By what the bridge tells of its link, and not by two seconds without a heartbeat.
            assert down - start < 1 * PATIENCE
            assert 0.8 * seconds < lost - down < 1.2 * seconds * PATIENCE
            user.wait_until_up(there)


def start(process, queue, segment, connection, *copies):
    fields = {"handle": queue, "segment": segment, "connection": connection}
    process.call("QUEUE_START", "mp_queue_start", **fields, **sharing.copy_list(process, *copies))


def queue_state(process, queue):
    return process.call("QUEUE", "mp_queue", handle=queue).state


def test_a_queue_copies_all_of_its_list_to_the_peer(ends):
    """SI-SDMA-1, SI-SDMA-2, SI-SDMA-3, SI-SDMA-9, SI-SDMAV-1, SI-DSM-1, SI-DSM-2, SI-DSM-3"""
    owner, back, user, there = ends
    # Source and destination may be of the same memory.
    length = reach(owner, back, 128 * PAGE) // 2
    first, second = length // 8 + 3, length // 8 * 5
    segment = owner.segment(17, length, back)
    local = owner.map_segment(segment)
    source = user.call("SEGMENT_CREATE", "mp_segment_create", id=18, length=length // 2).handle
    data = bytes(range(256)) * 4
    for at in (0, first):
        user.write(user.map_segment(source) + at, data)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 17)
    queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=there, entries=2).handle
    assert queue_state(user, queue) == MP.QUEUE_IDLE
    with fails(errno.ENXIO):
        user.call("QUEUE_ABORT", "mp_handle", handle=queue)
    copies = ((0, 5, 1024), (first, second, length // 4))
    with fails(errno.ENXIO):
        start(user, queue, source, connection, *copies)
    user.at("PREPARE", source, there)
    with fails(errno.EINVAL):
        start(user, queue, source, connection, *copies, *copies)
    with fails(errno.ERANGE):
        start(user, queue, source, connection, (0, length - PAGE, PAGE + 1))
    start(user, queue, source, connection, *copies)
    assert user.wait(queue, MP.EVENT_DONE) == MP.EVENT_DONE
    assert queue_state(user, queue) == MP.QUEUE_DONE
    assert owner.read(local + 5, 1024) == data
    assert owner.read(local + second, 1024) == data
    user.call("QUEUE_ABORT", "mp_handle", handle=queue)
    assert queue_state(user, queue) == MP.QUEUE_DONE
    user.remove(source)
    # From its own memory, in the call.
    user.write(user.buffer + PAGE, b"of its own")
    start(user, queue, 0, connection, (user.buffer + PAGE, 100, 10))
    assert queue_state(user, queue) == MP.QUEUE_DONE
    assert owner.read(local + 100, 10) == b"of its own"


def test_a_queue_fails_with_its_connection_and_can_be_aborted(ends):
    """SI-SDMA-4, SI-SDMA-10, SI-ABDMA-1, SI-ABDMA-3, SI-RMDMA-2, SI-DSM-5"""
    owner, back, user, there = ends
    length = reach(owner, back, 512 * PAGE)
    if length < 64 * PAGE:
        pytest.skip("copies of so little are over before they can be aborted")
    segment = owner.segment(19, length, back)
    source = user.segment(20, length, there)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 19)
    queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=there, entries=256).handle
    copies = [(0, 0, length)] * 256
    start(user, queue, source, connection, *copies)
    with fails(errno.EBUSY):
        start(user, queue, source, connection, (0, 0, 1))
    with fails(errno.EBUSY):
        user.remove(source)
    user.call("QUEUE_ABORT", "mp_handle", handle=queue)
    assert queue_state(user, queue) == MP.QUEUE_ABORTED
    start(user, queue, source, connection, *copies)
    owner.close(segment)
    assert user.wait(queue, MP.EVENT_DONE) == MP.EVENT_DONE
    assert queue_state(user, queue) == MP.QUEUE_ERROR
    with fails(errno.ECONNRESET):
        start(user, queue, source, connection, *copies)
    user.close(queue)


def test_memory_of_a_segment_is_had_again_once_it_is_let_go(ends):
    """SI-NTB-10, SI-RMSEG-6, SI-CRSEG-6"""
    owner, back, user, there = ends
    length = reach(owner, back, 1 << 20)
    for _ in range(40):
        segment = owner.segment(21, length, back)
        user.connect(there, MP.OBJECT_SEGMENT, 21)
        owner.remove(segment, MP.REMOVE_FORCE)
        user.call(
            "BARRIER",
            "mp_barrier",
            flags=MP.WAIT_INTERFACE,
            target=there,
            deadline=sharing.FOREVER,
        )
    with fails(errno.ENOSPC):
        owner.call("SEGMENT_CREATE", "mp_segment_create", id=22, length=1 << 40)


# Names, of which some begin as others do. Zero is a byte like all others.
LONGEST = bytes(range(64))
NAMES = (b"jobs", b"job", b"jobs\0", b"\0", b"\0\0", LONGEST, LONGEST[:63])
# What is close to them, and has nobody.
STRANGERS = (b"Jobs", b"jobs\0\0", b"jo", b"\0" * 3, LONGEST[1:], LONGEST[:62], bytes([1, *LONGEST[1:]]))
KINDS = (MP.OBJECT_SEGMENT, MP.OBJECT_EVENT, MP.OBJECT_PORT)


def offer_by_name(owner, back, kind, name, flags=MP.OFFER_ANY, number=0):
    """Offer something under a name. Its handle, and its number."""
    if kind == MP.OBJECT_SEGMENT:
        fields = {"id": 100 + number, "id_more": 100, "length": PAGE, **owner.named(name)}
        made = owner.call("SEGMENT_CREATE", "mp_segment_create", **fields)
        for what in ("PREPARE", "PUBLISH"):
            owner.at(what, made.handle, back)
        return made.handle, made.id
    fields = {"interface": back, "object": kind, "flags": flags, "number": number}
    made = owner.call("OFFER", "mp_offer", **fields, **owner.named(name))
    return made.handle, made.number


def leads_to(owner, handle, user, connection, kind):
    """It is this object to which a connection was made."""
    if kind == MP.OBJECT_SEGMENT:
        assert owner.notice(handle) == MP.NOTICE_CONNECTED
    elif kind == MP.OBJECT_EVENT:
        user.signal(connection)
        assert owner.wait(handle, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
    else:
        user.send(connection, b"hello")
        assert owner.receive(handle) == b"hello"


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_is_found_if_all_its_bytes_are_equal(ends, kind):
    """By another host and by this one; a segment, an event and a port may have the same name."""
    owner, back, user, there = ends
    offered = {name: offer_by_name(owner, back, kind, name) for name in NAMES}
    for name, (handle, number) in offered.items():
        connection = user.connect(there, kind, 0, name=name)
        told = user.call("CONNECTION", "mp_connection", handle=connection)
        assert (told.object, told.number) == (kind, 0)
        leads_to(owner, handle, user, connection, kind)
        user.close(connection)
        user.close(user.connect(there, kind, number))
    for name in STRANGERS:
        with fails(errno.ENOENT):
            user.connect(there, kind, 0, name=name)
    for other in KINDS:
        if other != kind:
            with fails(errno.ENOENT):
                user.connect(there, other, 0, name=b"jobs")
    for handle, _ in offered.values():
        owner.remove(handle, MP.REMOVE_FORCE)
    for name in NAMES:
        with fails(errno.ENOENT):
            user.connect(there, kind, 0, name=name)


def test_what_a_name_leads_to_has_to_be_as_it_is_wanted(ends):
    """And each kind of object has names of its own."""
    owner, back, user, there = ends
    offered = {kind: offer_by_name(owner, back, kind, b"jobs")[0] for kind in KINDS}
    for kind, handle in offered.items():
        connection = user.connect(there, kind, 0, name=b"jobs")
        leads_to(owner, handle, user, connection, kind)
    with fails(errno.ECONNREFUSED):
        user.connect(there, MP.OBJECT_EVENT, 0, MP.CONNECT_COUNTED, name=b"jobs")
    placed = user.connect(there, MP.OBJECT_SEGMENT, 0, MP.CONNECT_PLACED, name=b"jobs")
    assert user.state(placed) & MP.CONNECTION_PLACED
    owner.at("WITHDRAW", offered[MP.OBJECT_SEGMENT], back)
    with fails(errno.ENOENT):
        user.connect(there, MP.OBJECT_SEGMENT, 0, name=b"jobs")


def test_a_name_is_given_once_unless_all_share_it(ends):
    owner, back, user, there = ends
    offer = lambda flags, name=b"jobs", number=0: offer_by_name(
        owner, back, MP.OBJECT_PORT, name, flags, number
    )
    shared = MP.OFFER_ANY | MP.OFFER_SHARED
    first, number = offer(shared)
    second, same = offer(shared)
    assert number == same
    for refused in (
        {"flags": MP.OFFER_ANY},
        {"flags": MP.OFFER_SHARED, "number": number + 1},
        {"flags": MP.OFFER_SHARED, "number": number, "name": b""},
        {"flags": MP.OFFER_SHARED, "number": number, "name": b"others"},
    ):
        with fails(errno.EADDRINUSE):
            offer(**refused)
    third, _ = offer(MP.OFFER_SHARED, number=number)
    connection = user.connect(there, MP.OBJECT_PORT, 0, name=b"jobs")
    user.send(connection, b"for all")
    for port in (first, second, third):
        assert owner.receive(port) == b"for all"
        owner.remove(port, MP.REMOVE_FORCE)
    # It is free now, and so is the number.
    assert offer(0, number=number)[1] == number
    segment, _ = offer_by_name(owner, back, MP.OBJECT_SEGMENT, b"jobs")
    for name, more in ((b"jobs", 1), (b"job", 0)):
        fields = {"id": 100, "id_more": more, "length": PAGE, **owner.named(name)}
        with fails(errno.EADDRINUSE):
            owner.call("SEGMENT_CREATE", "mp_segment_create", **fields)
    owner.remove(segment)


def test_names_that_cannot_be_are_refused(ends):
    owner, back, user, there = ends
    long = {"name": owner.buffer, "name_size": 65}
    owner.write(owner.buffer, bytes(65))
    port = {"interface": back, "object": MP.OBJECT_PORT, "flags": MP.OFFER_ANY}
    segment = {"id": 40, "length": PAGE}
    for call, kind, fields in (
        ("OFFER", "mp_offer", {**port, **long}),
        ("OFFER", "mp_offer", {**port, "reserved": 1}),
        ("SEGMENT_CREATE", "mp_segment_create", {**segment, **long}),
        ("SEGMENT_CREATE", "mp_segment_create", {**segment, "interface": 1}),
        (
            "SEGMENT_CREATE",
            "mp_segment_create",
            {"flags": MP.SEGMENT_PRIVATE, "length": PAGE, **long, "name_size": 1},
        ),
    ):
        with fails(errno.EINVAL):
            owner.call(call, kind, **fields)
    with fails(errno.EFAULT):
        owner.call("OFFER", "mp_offer", **port, name=1 << 46, name_size=1)
    to_port = {"interface": there, "object": MP.OBJECT_PORT, "deadline": PAST}
    user.write(user.buffer, bytes(65))
    for fields in (
        {"name": user.buffer, "name_size": 65},
        {"name": user.buffer, "name_size": 1, "number": 1},
        {"reserved2": 1},
        {
            "name": user.buffer,
            "name_size": 1,
            "object": MP.OBJECT_SEGMENT,
            "flags": MP.CONNECT_GRANTED,
            "session": 1,
        },
    ):
        with fails(errno.EINVAL):
            user.call("CONNECT", "mp_connect", **{**to_port, **fields})
    with fails(errno.EFAULT):
        user.call("CONNECT", "mp_connect", **to_port, name=1 << 46, name_size=64)
    # Nothing was made by that.
    offer_by_name(owner, back, MP.OBJECT_PORT, bytes(64))
    user.connect(there, MP.OBJECT_PORT, 0, name=bytes(64))
