# SPDX-License-Identifier: GPL-2.0-only
"""Placed transfers: memory of a process to which no window leads is written and read by the kernel
of its host, in frames of the data rings.
"""

import errno
import time

import pytest
from copies import (
    NUMBER,
    copied,
    ended,
    ends,
    fabric,
    far,
    offered,
    placed,
    prepared,
    queue_of,
    start,
)
from ntbrig.settings import MIB, PATIENCE
from sharing import MP, fails
from shell import INTACT

KIB, PAGE = 1 << 10, 0x1000
LENGTH = MIB
OPERATIONAL = MP.CONNECTION_PLACED | MP.CONNECTION_OPERATIONAL
# So often is a list copied that is to be disturbed: it takes seconds.
OFTEN = 256


def test_memory_that_no_window_reaches_is_written_and_read(ends):
    owner, back, user, there = ends
    length = 256 * KIB
    _, memory = offered(owner, back, length)
    connection = placed(user, there)
    assert user.state(connection) == OPERATIONAL
    info = user.call("CONNECTION", "mp_connection", handle=connection)
    assert (info.length, info.offset) == (length, 0)
    with fails(errno.EOPNOTSUPP):
        fields = {"handle": connection, "offset": 0, "length": length}
        user.call("ADDRESS", "mp_address", **fields)
    queue = queue_of(user, there)
    source, local = prepared(user, there, length, 62)
    user.fill(local, length, 5)
    copied(user, queue, source, connection, (0, 0, length))
    assert owner.check(memory, length, 5) == INTACT
    # To odd places, from memory of the process, in the call and behind it.
    user.write(user.buffer + PAGE, b"of its own")
    for flags in (0, MP.QUEUE_PINNED):
        at = 3 * PAGE - 4 + flags
        copied(user, queue, 0, connection, (user.buffer + PAGE, at, 10), flags=flags)
        assert owner.read(memory + at, 10) == b"of its own"
    # And back.
    owner.fill(memory, length, 6)
    copied(user, queue, source, connection, (0, 0, length), flags=MP.QUEUE_READ)
    assert user.check(local, length, 6) == INTACT
    owner.write(memory + 5 * PAGE - 3, b"answer")
    pinned = MP.QUEUE_READ | MP.QUEUE_PINNED
    copied(user, queue, 0, connection, (user.buffer + PAGE, 5 * PAGE - 3, 6), flags=pinned)
    assert user.read(user.buffer + PAGE, 6) == b"answer"
    # What is beyond either segment, and what would arrive when the call has returned.
    for copy in ((0, length - 1, 2), (length - 1, 0, 2)):
        with fails(errno.ERANGE):
            start(user, queue, source, connection, copy, flags=MP.QUEUE_READ)
    with fails(errno.EINVAL):
        copy = (user.buffer + PAGE, 0, 6)
        start(user, queue, 0, connection, copy, flags=MP.QUEUE_READ)
    user.close(queue)
    user.close(connection)


def test_such_memory_is_shown_and_used_only_where_both_say_so(far):
    owner, back, user, there = far
    segment, _ = offered(owner, back)
    owner.at("WITHDRAW", segment, back)
    with fails(errno.ENOENT):
        placed(user, there)
    # It is in no run that a window could lead to.
    with pytest.raises(OSError) as raised:
        owner.at("PUBLISH", segment, back)
    assert raised.value.errno in (errno.EOPNOTSUPP, errno.ENOSPC)
    owner.at("PUBLISH", segment, back, MP.PUBLISH_PLACED)
    # A window is asked for once it is needed, whatever was published before.
    with pytest.raises(OSError) as raised:
        owner.at("PUBLISH", segment, back)
    assert raised.value.errno in (errno.EOPNOTSUPP, errno.ENOSPC)
    owner.at("PUBLISH", segment, back, MP.PUBLISH_PLACED)
    with fails(errno.ENOSPC):
        user.connect(there, MP.OBJECT_SEGMENT, NUMBER)
    with fails(errno.EINVAL):
        user.connect(there, MP.OBJECT_EVENT, NUMBER, MP.CONNECT_PLACED)
    placed(user, there)
    assert owner.notice(segment) == MP.NOTICE_CONNECTED


def test_a_segment_with_a_window_is_read_as_well(ends):
    """SI-SDMA-2"""
    owner, back, user, there = ends
    length = 4 * PAGE
    segment = owner.segment(NUMBER, length, back)
    local = owner.map_segment(segment)
    owner.fill(local, length, 9)
    connection = user.connect(there, MP.OBJECT_SEGMENT, NUMBER)
    target, mapped = prepared(user, there, length, 62)
    queue = queue_of(user, there)
    copied(user, queue, target, connection, (0, 0, length), flags=MP.QUEUE_READ)
    assert user.check(mapped, length, 9) == INTACT


def test_a_window_that_was_asked_for_is_not_asked_for_again(ends):
    owner, back, user, there = ends
    segment = owner.segment(NUMBER, PAGE, back)
    user.connect(there, MP.OBJECT_SEGMENT, NUMBER)
    for flags in (0, MP.PUBLISH_PLACED, 0):
        owner.at("PUBLISH", segment, back, flags)
    user.connect(there, MP.OBJECT_SEGMENT, NUMBER)


def test_memory_that_is_only_read_is_not_copied_into(ends):
    owner, back, user, there = ends
    segments = []
    for process, interface, number in ((owner, back, NUMBER), (user, there, 62)):
        fields = {"id": number, "length": PAGE, "flags": MP.SEGMENT_EMPTY}
        segment = process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
        memory = process.memory(PAGE)
        fields = {"handle": segment, "address": memory, "length": PAGE, "flags": MP.REGISTER_READ_ONLY}
        process.call("SEGMENT_REGISTER", "mp_segment_register", **fields)
        for what in ("PREPARE", "PUBLISH"):
            process.at(what, segment, interface, MP.PUBLISH_PLACED)
        segments.append(segment)
    connection = placed(user, there)
    told = user.call("CONNECTION", "mp_connection", handle=connection)
    assert told.rights == MP.GRANT_READ
    queue = queue_of(user, there)
    for flags in (0, MP.QUEUE_READ):
        with fails(errno.EACCES):
            start(user, queue, segments[1], connection, (0, 0, 8), flags=flags)
    own, _ = prepared(user, there, PAGE, 63)
    copied(user, queue, own, connection, (0, 0, 8), flags=MP.QUEUE_READ)
    # Without that, a window would lead there.
    with fails(errno.ENOSPC):
        user.connect(there, MP.OBJECT_SEGMENT, NUMBER)


def test_many_copies_go_on_at_the_same_time(far):
    """Of both directions, more than what the link may have under way."""
    owner, back, user, there = far
    length = 128 * KIB
    work = []
    for n in range(20):
        _, memory = offered(owner, back, length, NUMBER + n)
        own, local = prepared(user, there, length, 100 + n)
        reads = n % 2
        (owner.fill(memory, length, n) if reads else user.fill(local, length, n))
        connection = placed(user, there, NUMBER + n)
        queue = queue_of(user, there)
        work.append((reads, memory, local, queue, own, connection))
    for reads, _, _, queue, own, connection in work:
        start(user, queue, own, connection, (0, 0, length), flags=reads * MP.QUEUE_READ)
    for n, (reads, memory, local, queue, _, _) in enumerate(work):
        assert ended(user, queue) == MP.QUEUE_DONE
        process, at = (user, local) if reads else (owner, memory)
        assert process.check(at, length, n) == INTACT


@pytest.fixture(params=("writes", "reads"))
def under_way(request, far):
    """A copy that takes long, and has begun."""
    owner, back, user, there = far
    flags = MP.QUEUE_READ if request.param == "reads" else 0
    segment, memory = offered(owner, back)
    own, local = prepared(user, there, LENGTH, 62)
    (owner if flags else user).fill(memory if flags else local, LENGTH, 7)
    connection = placed(user, there)
    assert owner.notice(segment) == MP.NOTICE_CONNECTED
    queue = queue_of(user, there)
    start(user, queue, own, connection, *[(0, 0, LENGTH)] * OFTEN, flags=flags)
    process, at = (user, local) if flags else (owner, memory)
    end = time.monotonic() + 20 * PATIENCE
    while process.check(at, 64 * KIB, 7) != INTACT:
        assert time.monotonic() < end, "nothing is copied"
    return segment, memory, connection, queue, local, flags


def assert_nothing_is_stored(process, memory):
    process.fill(memory, LENGTH, 99)
    time.sleep(0.3)
    assert process.check(memory, LENGTH, 99) == INTACT


def test_a_copy_that_is_aborted_stores_nothing_more(far, under_way):
    owner, _, user, _ = far
    _, memory, _, queue, local, flags = under_way
    user.call("QUEUE_ABORT", "mp_handle", handle=queue)
    assert user.call("QUEUE", "mp_queue", handle=queue).state == MP.QUEUE_ABORTED
    if flags:
        assert_nothing_is_stored(user, local)
    else:
        # What was sent before arrives.
        time.sleep(0.3)
        assert_nothing_is_stored(owner, memory)


@pytest.mark.parametrize("how", ("withdraw", "remove", "kill"))
def test_a_copy_ends_when_the_owner_takes_the_memory_back(far, under_way, how):
    owner, back, user, _ = far
    segment, memory, connection, queue, _, _ = under_way
    if how == "withdraw":
        owner.at("WITHDRAW", segment, back, MP.WITHDRAW_FORCE)
        assert_nothing_is_stored(owner, memory)
    elif how == "remove":
        owner.remove(segment, MP.REMOVE_FORCE)
        assert_nothing_is_stored(owner, memory)
    else:
        owner.kill()
    assert ended(user, queue) == MP.QUEUE_ERROR
    assert user.state(connection) & MP.CONNECTION_LOST


def test_a_copy_ends_with_its_connection(far, under_way):
    owner, _, user, _ = far
    segment, memory, connection, queue, local, flags = under_way
    user.close(connection)
    assert ended(user, queue) == MP.QUEUE_ERROR
    assert owner.notice(segment) == MP.NOTICE_DISCONNECTED
    assert_nothing_is_stored(*((user, local) if flags else (owner, memory)))


def test_the_end_of_the_process_that_copies_leaves_nothing(far, under_way):
    owner, _, user, _ = far
    segment, memory, _, _, _, _ = under_way
    user.kill()
    assert owner.notice(segment) == MP.NOTICE_DISCONNECTED
    assert_nothing_is_stored(owner, memory)
    owner.remove(segment)


def test_a_copy_ends_with_the_link_and_the_connection_is_there_again(fabric, far, under_way):
    owner, _, user, there = far
    _, memory, connection, queue, local, flags = under_way
    fabric.unplug(fabric.hosts[1])
    try:
        assert ended(user, queue) == MP.QUEUE_ERROR
        # What is written fails as soon as the link takes nothing; this is told next.
        assert user.notice(connection) == MP.NOTICE_DOWN
        assert user.state(connection) == MP.CONNECTION_PLACED
    finally:
        fabric.plug(fabric.hosts[1])
    assert user.notice(connection) == MP.NOTICE_UP
    user.wait_until_up(there)
    own = user.call("SEGMENT_CREATE", "mp_segment_create", id=63, length=LENGTH).handle
    user.at("PREPARE", own, there, MP.PUBLISH_PLACED)
    mapped = user.map_segment(own)
    (owner if flags else user).fill(memory if flags else mapped, LENGTH, 8)
    copied(user, queue, own, connection, (0, 0, LENGTH), flags=flags)
    process, at = (user, mapped) if flags else (owner, memory)
    assert process.check(at, LENGTH, 8) == INTACT


def test_how_fast_it_is(far):
    """Tells the rates; that of a window is beside them."""
    owner, back, user, there = far
    times = 16
    _, memory = offered(owner, back)
    owner.segment(NUMBER + 1, LENGTH, back)
    own, _ = prepared(user, there, LENGTH, 62)
    queue = queue_of(user, there)
    by_frames = placed(user, there)
    by_window = user.connect(there, MP.OBJECT_SEGMENT, NUMBER + 1)
    owner.fill(memory, LENGTH, 1)
    kinds = {
        "window": (by_window, 0),
        "placed, writes": (by_frames, 0),
        "placed, reads": (by_frames, MP.QUEUE_READ),
    }
    for name, (connection, flags) in kinds.items():
        begin = time.monotonic()
        copied(user, queue, own, connection, *[(0, 0, LENGTH)] * times, flags=flags)
        rate = times * LENGTH / MIB / (time.monotonic() - begin)
        print(f"{name}: {rate:.0f} MiB/s")
        assert rate > 0.5
