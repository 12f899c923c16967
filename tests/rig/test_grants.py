# SPDX-License-Identifier: GPL-2.0-only
"""A segment that is granted to one partner: nobody else connects to it, the partner does with it
what it was granted, and a grant ends without the others.

The bridges have windows that can be led to memory of a process.
"""

import errno
from contextlib import contextmanager

import pytest
import sharing
from ntbrig import stack
from pximc import MODULES
from sharing import MP, fails

PAGE = 0x1000
NUMBER = 61
PROTOCOL = 0xF1110061
SERVER, CLIENT = 1, 2
BOTH = MP.GRANT_READ | MP.GRANT_WRITE


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    parameters = {"ntb_hw_ivshmem": "personality=amd"}
    stack.load(*fabric.hosts, modules=MODULES, parameters=parameters)
    return fabric


@pytest.fixture(params=("another host", "the same host"))
def ends(request, fabric):
    with sharing.pair(fabric, request.param == "the same host") as both:
        yield both


def open_session(process, interface, role, protocol):
    fields = {"role": role, "location": 1, "protocol": protocol, "flags": MP.SESSION_NO_WINDOWS}
    return process.call("SESSION_OPEN", "mp_session_open", interface=interface, **fields).handle


def paired(owner, back, user, there, protocol=PROTOCOL):
    """The two ends of a session."""
    ends = open_session(owner, back, SERVER, protocol), open_session(user, there, CLIENT, protocol)
    owner.wait(ends[0], MP.EVENT_PAIRED)
    return ends


# Memory that the partner's host alone has a window to.
PAIRWISE = MP.SEGMENT_PRIVATE | MP.SEGMENT_ONE_PEER


def prepared(owner, back, flags=PAIRWISE):
    """A segment that nobody may connect to."""
    fields = {"id": 0 if flags else NUMBER, "length": PAGE, "flags": flags}
    fields["interface"] = back if flags else 0
    segment = owner.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
    owner.at("PREPARE", segment, back)
    return segment


def grant(owner, segment, session, rights=BOTH, flags=0):
    fields = {"segment": segment, "session": session, "rights": rights, "flags": flags}
    return owner.call("SEGMENT_GRANT", "mp_segment_grant", **fields).handle


def connect(user, there, number, session, flags=0):
    fields = {"interface": there, "object": MP.OBJECT_SEGMENT, "number": number}
    flags |= MP.CONNECT_GRANTED
    fields |= {"flags": flags, "session": session, "deadline": sharing.FOREVER}
    return user.call("CONNECT", "mp_connect", **fields).handle


def info(user, connection):
    return user.call("CONNECTION", "mp_connection", handle=connection)


@contextmanager
def stranger(user):
    """Another process at the partner's host."""
    with sharing.Process(user.guest) as other:
        yield other


def test_the_partner_connects_and_nobody_else_does(ends):
    owner, back, user, there = ends
    near, far = paired(owner, back, user, there)
    segment = prepared(owner, back)
    memory = owner.map_segment(segment)
    number = grant(owner, segment, near)
    with stranger(user) as other:
        # It has a session with the same process, and it is not that one.
        _, its_own = paired(owner, back, other, there, PROTOCOL + 1)
        with fails(errno.ECONNREFUSED):
            connect(other, there, number, its_own)
        with fails(errno.ENOENT):
            connect(other, there, number, far)
        with fails(errno.ENOENT):
            other.connect(there, MP.OBJECT_SEGMENT, number)
    with fails(errno.ENOENT):
        connect(user, there, number + 1000, far)
    connection = connect(user, there, number, far)
    assert info(user, connection).rights == BOTH
    user.write(user.map_connection(connection), b"for one")
    assert owner.read(memory, 7) == b"for one"
    assert owner.notice(segment) == MP.NOTICE_CONNECTED


def test_a_partner_that_may_read_has_nothing_to_store_into(ends):
    """Copies that the owner's kernel makes for it are all that it has."""
    owner, back, user, there = ends
    near, far = paired(owner, back, user, there)
    segment = prepared(owner, back)
    number = grant(owner, segment, near, MP.GRANT_READ)
    connection = connect(user, there, number, far)
    told = info(user, connection)
    assert (told.rights, told.length, told.offset) == (MP.GRANT_READ, PAGE, 0)
    assert told.state == MP.CONNECTION_OPERATIONAL
    with pytest.raises(OSError):
        user.map(told.offset, PAGE)
    queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=there, entries=1).handle
    room = user.memory(PAGE)
    fields = {"handle": queue, "connection": connection}
    fields |= sharing.copy_list(user, (room, 0, 10))
    with fails(errno.EACCES):
        user.call("QUEUE_START", "mp_queue_start", **fields)
    owner.write(owner.map_segment(segment), b"to be read")
    reading = {"flags": MP.QUEUE_READ | MP.QUEUE_PINNED}
    user.call("QUEUE_START", "mp_queue_start", **fields, **reading)
    assert user.wait(queue, MP.EVENT_DONE) == MP.EVENT_DONE
    assert user.call("QUEUE", "mp_queue", handle=queue).state == MP.QUEUE_DONE
    assert user.read(room, 10) == b"to be read"


def test_a_partner_that_may_write_reads_nothing(ends):
    owner, back, user, there = ends
    near, far = paired(owner, back, user, there)
    connection = connect(user, there, grant(owner, prepared(owner, back), near, MP.GRANT_WRITE), far)
    queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=there, entries=1).handle
    fields = {"handle": queue, "connection": connection}
    fields |= {"flags": MP.QUEUE_READ | MP.QUEUE_PINNED}
    with fails(errno.EACCES):
        copies = sharing.copy_list(user, (user.memory(PAGE), 0, 8))
        user.call("QUEUE_START", "mp_queue_start", **fields, **copies)


def test_a_grant_ends_without_the_others(ends):
    owner, back, user, there = ends
    segment = prepared(owner, back, flags=0)
    owner.at("PUBLISH", segment, back)
    memory = owner.map_segment(segment)
    with stranger(user) as other:
        sessions = [paired(owner, back, p, there, PROTOCOL + n) for n, p in enumerate((user, other))]
        grants = [grant(owner, segment, near) for near, _ in sessions]
        ended = connect(user, there, grants[0], sessions[0][1])
        left = connect(other, there, grants[1], sessions[1][1])
        public = user.connect(there, MP.OBJECT_SEGMENT, NUMBER)
        places = [user.map_connection(ended), other.map_connection(left)]
        with fails(errno.EBUSY):
            owner.remove(grants[0])
        owner.remove(grants[0], MP.REMOVE_FORCE)
        assert user.state(ended) & MP.CONNECTION_LOST
        with fails(errno.ENOENT):
            connect(user, there, grants[0], sessions[0][1])
        user.write(places[0], b"too late")
        other.write(places[1] + 16, b"still")
        user.write(user.map_connection(public) + 32, b"public")
        assert owner.read(memory, 8) == bytes(8)
        assert owner.read(memory + 16, 5) == b"still"
        assert owner.read(memory + 32, 6) == b"public"
        assert owner.call("SEGMENT", "mp_segment", handle=segment).connections == 2
        with fails(errno.EBUSY):
            owner.remove(segment)
        owner.remove(segment, MP.REMOVE_FORCE)
        assert other.state(left) & MP.CONNECTION_LOST


def test_a_partner_that_has_parted_is_refused(ends):
    owner, back, user, there = ends
    near, far = paired(owner, back, user, there)
    segment = prepared(owner, back)
    memory = owner.map_segment(segment)
    number = grant(owner, segment, near)
    before = user.map_connection(connect(user, there, number, far))
    owner.close(near)
    assert user.wait(far, MP.EVENT_CLOSED) == MP.EVENT_CLOSED
    with fails(errno.ECONNRESET):
        connect(user, there, number, far)
    # What was made before is there until the grant ends.
    user.write(before, b"until")
    assert owner.read(memory, 5) == b"until"
    owner.close(number)
    user.write(before, b"after")
    assert owner.read(memory, 5) == b"until"


def test_what_no_window_may_show_is_granted_to_be_read_only(ends):
    owner, back, user, there = ends
    near, far = paired(owner, back, user, there)
    segment, _ = odd_memory(owner, back)
    with fails(errno.EOPNOTSUPP):
        grant(owner, segment, near)
    connection = connect(user, there, grant(owner, segment, near, MP.GRANT_READ), far)
    assert (info(user, connection).length, info(user, connection).offset) == (70, 0)


def odd_memory(owner, back, flags=0):
    """A segment over memory of its process that is no whole pages, and where that is."""
    fields = {"id": NUMBER, "length": PAGE, "flags": MP.SEGMENT_EMPTY}
    segment = owner.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
    memory = owner.memory(PAGE) + 3
    fields = {"handle": segment, "address": memory, "length": 70, "flags": flags}
    owner.call("SEGMENT_REGISTER", "mp_segment_register", **fields)
    owner.at("PREPARE", segment, back)
    return segment, memory


def test_what_no_window_may_show_is_granted_to_be_written_by_copies(ends):
    owner, back, user, there = ends
    near, far = paired(owner, back, user, there)
    segment, memory = odd_memory(owner, back)
    number = grant(owner, segment, near, BOTH, MP.PUBLISH_PLACED)
    # A window is what the partner cannot have.
    with fails(errno.ENOSPC):
        connect(user, there, number, far)
    connection = connect(user, there, number, far, MP.CONNECT_PLACED)
    told = info(user, connection)
    assert (told.rights, told.length, told.offset) == (BOTH, 70, 0)
    queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=there, entries=1).handle
    room = user.memory(PAGE)
    user.write(room, b"by a copy")
    fields = {"handle": queue, "connection": connection}
    user.call("QUEUE_START", "mp_queue_start", **fields, **sharing.copy_list(user, (room, 61, 9)))
    assert user.wait(queue, MP.EVENT_DONE) == MP.EVENT_DONE
    assert owner.read(memory + 60, 11) == b"\0by a copy\0"


def test_nothing_is_granted_that_the_kernel_does_not_copy(ends):
    owner, back, user, there = ends
    near, far = paired(owner, back, user, there)
    segment, _ = odd_memory(owner, back, MP.REGISTER_READ_ONLY)
    for rights in (MP.GRANT_WRITE, BOTH):
        for flags in (0, MP.PUBLISH_PLACED):
            with fails(errno.EOPNOTSUPP):
                grant(owner, segment, near, rights, flags)
    with fails(errno.EINVAL):
        grant(owner, segment, near, MP.GRANT_READ, 2)
    number = grant(owner, segment, near, MP.GRANT_READ, MP.PUBLISH_PLACED)
    connection = connect(user, there, number, far, MP.CONNECT_PLACED)
    assert info(user, connection).rights == MP.GRANT_READ


def test_senseless_grants_are_refused(ends):
    owner, back, user, there = ends
    segment = prepared(owner, back)
    alone = open_session(owner, back, SERVER, PROTOCOL)
    for rights in (0, 4):
        with fails(errno.EINVAL):
            grant(owner, segment, alone, rights)
    fields = {"id": 0, "length": PAGE, "flags": MP.SEGMENT_PRIVATE}
    unprepared = owner.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
    with fails(errno.ENXIO):
        grant(owner, unprepared, alone)
    with fails(errno.ENOTCONN):
        grant(owner, segment, alone)
    with fails(errno.ENOENT):
        grant(owner, alone, alone)
    with fails(errno.ENOENT):
        grant(owner, segment, segment)
    with fails(errno.EINVAL):
        connect(user, there, NUMBER, 0)
    with fails(errno.EINVAL):
        fields = {"interface": there, "object": MP.OBJECT_SEGMENT, "number": 1, "session": 1}
        user.call("CONNECT", "mp_connect", **fields)


def test_a_granted_connection_outlives_an_outage(fabric):
    with sharing.pair(fabric) as (owner, back, user, there):
        near, far = paired(owner, back, user, there)
        segment = prepared(owner, back)
        memory = owner.map_segment(segment)
        number = grant(owner, segment, near)
        connection = connect(user, there, number, far)
        place = user.map_connection(connection)
        fabric.unplug(owner.guest)
        assert user.notice(connection) == MP.NOTICE_DOWN
        fabric.plug(owner.guest)
        assert user.notice(connection) == MP.NOTICE_UP
        user.write(place, b"again")
        assert owner.read(memory, 5) == b"again"
        # The session did not.
        with fails(errno.ECONNRESET):
            connect(user, there, number, far)
        owner.remove(number, MP.REMOVE_FORCE)
        assert user.state(connection) & MP.CONNECTION_LOST
