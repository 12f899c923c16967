# SPDX-License-Identifier: GPL-2.0-only
"""Words of segments that the kernel of their host compares and exchanges, whatever its process does."""

import errno
import struct

import pytest
import sharing
from copies import NUMBER, copied, ends, fabric, far, offered, placed, prepared, queue_of
from ntbrig.settings import MIB
from sharing import MP, fails

PAGE = 0x1000
WORD = 8
# Exchanges by a kernel while a process does the same.
MANY = 2000


def word(process, address):
    (value,) = struct.unpack("=Q", process.read(address, WORD))
    return value


def of_fabric(owner, back):
    """A segment of the fabric's memory, which has a window, and where its process has it."""
    segment = owner.segment(NUMBER, PAGE, back)
    return segment, owner.map_segment(segment)


def with_window(user, there):
    return user.connect(there, MP.OBJECT_SEGMENT, NUMBER)


@pytest.mark.parametrize(
    ("make", "reach"), ((offered, placed), (of_fabric, with_window)), ids=("own memory", "window")
)
def test_a_word_is_exchanged_if_it_is_as_expected(ends, make, reach):
    owner, back, user, there = ends
    _, memory = make(owner, back)
    connection = reach(user, there)
    top = (1 << 64) - 1
    at = PAGE - WORD
    assert user.exchange(connection, at, 0, top)
    assert word(owner, memory + at) == top
    assert not user.exchange(connection, at, 0, 7)
    assert not user.exchange(connection, at, top - 1, 7)
    assert word(owner, memory + at) == top
    assert user.exchange(connection, at, top, 7)
    # What is beside it stays.
    assert owner.read(memory + at - WORD, 2 * WORD) == bytes(WORD) + struct.pack("=Q", 7)
    # Its owner's stores count as others do.
    owner.write(memory + at, struct.pack("=Q", 9))
    assert not user.exchange(connection, at, 7, 8)
    assert user.exchange(connection, at, 9, 8)


def test_kernel_and_process_exchange_one_word_and_nothing_is_lost(ends):
    """The owner's process alternates between two values. What the kernel does for others is to
    exchange one of them for itself, which would undo that if it took two steps."""
    owner, back, user, there = ends
    _, memory = offered(owner, back)
    same = {"expected": 0, "desired": 0, "deadline": sharing.FOREVER}
    with sharing.Process(user.guest) as other:
        alternating = owner.alternate(memory)
        asking = [
            process.repeat_later(MANY, "EXCHANGE", "mp_exchange", connection=placed(process, there), **same)
            for process in (user, other)
        ]
        assert [call.result(timeout=120) for call in asking] == [MANY, MANY]
        assert not alternating.returned()
        owner.write(memory + WORD, b"ends")
        assert alternating.result() == 0


def test_a_word_is_exchanged_once_however_many_ask(far):
    owner, back, user, there = far
    _, memory = offered(owner, back)
    connection = placed(user, there)
    fields = {"connection": connection, "offset": 0, "deadline": sharing.FOREVER}
    for n in range(20):
        # They take turns on one connection.
        asked = [
            user.later("EXCHANGE", "mp_exchange", expected=n, desired=n + 1, **fields)
            for _ in range(4)
        ]
        assert sum(call.result().exchanged for call in asked) == 1
    assert word(owner, memory) == 20


def test_it_is_done_while_the_owner_is_stopped(far):
    """And copies go on beside it, into what the word is to guard."""
    owner, back, user, there = far
    _, memory = offered(owner, back)
    connection = placed(user, there)
    queue = queue_of(user, there)
    own, local = prepared(user, there, PAGE, 62)
    user.fill(local, PAGE, 5)
    owner.guest.run(f"kill -STOP {owner.pid}")
    try:
        assert user.exchange(connection, 0, 0, 1)
        copied(user, queue, own, connection, (0, PAGE, PAGE))
        assert user.exchange(connection, 0, 1, 2)
        assert not user.exchange(connection, 0, 1, 3)
    finally:
        owner.guest.run(f"kill -CONT {owner.pid}")
    assert word(owner, memory) == 2
    assert owner.check(memory + PAGE, PAGE, 5) == sharing.shell.INTACT


def test_what_cannot_be_exchanged_is_refused(ends):
    owner, back, user, there = ends
    segment, memory = offered(owner, back)
    connection = placed(user, there)
    before = owner.read(memory, PAGE)
    for at, error in (
        (4, errno.EINVAL),
        (MIB, errno.ERANGE),
        (MIB - 4, errno.EINVAL),
        ((1 << 64) - WORD, errno.ERANGE),
    ):
        with fails(error):
            user.exchange(connection, at, 0, 1)
    with fails(errno.EINVAL):
        user.call("EXCHANGE", "mp_exchange", connection=connection, reserved=1)
    with fails(errno.ENOENT):
        user.exchange(connection + 1000, 0, 0, 1)
    owner.offer(back, MP.OBJECT_EVENT, NUMBER)
    event = user.connect(there, MP.OBJECT_EVENT, NUMBER)
    with fails(errno.EINVAL):
        user.exchange(event, 0, 0, 1)
    assert owner.read(memory, PAGE) == before
    owner.remove(segment, MP.REMOVE_FORCE)
    with fails(errno.ECONNRESET):
        user.exchange(connection, 0, 0, 1)


def at_an_odd_place(owner, back, flags=0):
    """A segment over memory that begins inside of a page, and of a word; where it begins."""
    memory = owner.memory(2 * PAGE)
    fields = {"id": NUMBER, "length": PAGE, "flags": MP.SEGMENT_EMPTY}
    segment = owner.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
    fields = {"handle": segment, "address": memory + 4, "length": PAGE, "flags": flags}
    owner.call("SEGMENT_REGISTER", "mp_segment_register", **fields)
    for what in ("PREPARE", "PUBLISH"):
        owner.at(what, segment, back, MP.PUBLISH_PLACED)
    return memory + 4


def test_a_word_that_is_none_in_the_owners_memory_is_not_exchanged(ends, request):
    owner, back, user, there = ends
    memory = at_an_odd_place(owner, back)
    before = owner.read(memory, 2 * WORD)
    is_here = "same" in request.node.name
    connection = placed(user, there)
    with fails(errno.EIO):
        user.exchange(connection, 0, 0, 1)
    assert owner.read(memory, 2 * WORD) == before
    # Other copies on the same connection do not fail by that.
    own, local = prepared(user, there, PAGE, 62)
    copied(user, queue_of(user, there), own, connection, (0, 0, PAGE))
    assert is_here or not user.read(local, 1).strip(b"\0")


def test_memory_that_is_only_read_is_not_exchanged(ends):
    owner, back, user, there = ends
    at_an_odd_place(owner, back, MP.REGISTER_READ_ONLY)
    connection = placed(user, there)
    with fails(errno.EACCES):
        user.exchange(connection, 0, 0, 1)


def test_without_a_link_nothing_is_exchanged(fabric, far):
    owner, back, user, there = far
    _, memory = offered(owner, back)
    connection = placed(user, there)
    fabric.unplug(fabric.hosts[1])
    try:
        assert user.notice(connection) == MP.NOTICE_DOWN
        with fails(errno.ENETDOWN):
            user.exchange(connection, 0, 0, 1)
    finally:
        fabric.plug(fabric.hosts[1])
    assert user.notice(connection) == MP.NOTICE_UP
    assert user.exchange(connection, 0, 0, 1)
    assert word(owner, memory) == 1


def test_who_cannot_be_told_exchanges_nothing(far):
    """The structure is where the process may only read."""
    owner, back, user, there = far
    _, memory = offered(owner, back)
    connection = placed(user, there)
    form, _ = sharing.STRUCTURES["mp_exchange"]
    own = user.segment(62, PAGE)
    info = user.call("SEGMENT", "mp_segment", handle=own)
    call = struct.pack(form, struct.calcsize(form), connection, 0, 0, 1, sharing.FOREVER, 0, 0)
    user.write(user.map(info.offset, PAGE), call)
    with fails(errno.EFAULT):
        user.later_at("EXCHANGE", user.map(info.offset, PAGE, "ro")).result()
    assert word(owner, memory) == 0
