# SPDX-License-Identifier: GPL-2.0-only
"""When a call that takes memory back has returned, nobody stores into it any more: the kernel of
the other host has said so, whatever its processes do.

Words of the kernels take long to the other host: what is told without an answer is told late.
"""

import errno
import time
from contextlib import contextmanager

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import PATIENCE
from pximc import MODULES
from sharing import MP, fails
from shell import INTACT

pytestmark = pytest.mark.alone

LENGTH = 0x1000
NUMBER = 51
POSTED_US = 200_000
STORED, OWN = 0xA5, 0x3C
# So long does the other process store at least; also while its host stands still.
STORM_MS = int(8000 * PATIENCE)
# Of a page each: what a queue does for seconds.
COPIES = 128
LONG_STORM_MS = int(60_000 * PATIENCE)


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(
        *fabric.hosts,
        modules=MODULES,
        parameters={
            "mp_kernel": f"posted_us={POSTED_US}",
            "ntb_hw_ivshmem": "personality=amd",
            "pximc_ntb": "timeout_ms=5000",
        },
    )
    return fabric


@pytest.fixture
def ends(fabric):
    with sharing.pair(fabric) as both:
        yield both


def storming(owner, memory, user, there, milliseconds=STORM_MS):
    """Let a process store into a segment, again and again, in a thread, which is under way."""
    remote = user.map_connection(user.connect(there, MP.OBJECT_SEGMENT, NUMBER))
    storm = user.command("&", lambda _: None, "storm", remote, LENGTH, STORED, milliseconds)
    end = time.monotonic() + 20 * PATIENCE
    while owner.same(memory, LENGTH, STORED) != INTACT:
        assert time.monotonic() < end, "nobody stores"
    return storm


def assert_intact(owner, memory):
    """What was put there stays, for longer than words are on their way."""
    end = time.monotonic() + 5 * POSTED_US / 1e6
    while time.monotonic() < end:
        assert owner.same(memory, LENGTH, OWN) == INTACT


def ending(owner, segment):
    return owner.call("SEGMENT", "mp_segment", handle=segment).ending


def wait_until_proven(owner, segment):
    end = time.monotonic() + 20 * PATIENCE
    while ending(owner, segment):
        assert time.monotonic() < end, "the next epoch has begun, or has not"


@contextmanager
def standing_still(guest):
    """A host of which all processors stand still, in the middle of a store."""
    guest.freeze()
    try:
        yield
    finally:
        guest.thaw()


def take_back(owner, segment, interface, how):
    if how == "withdraw":
        owner.at("WITHDRAW", segment, interface, MP.WITHDRAW_FORCE)
    elif how == "remove":
        owner.remove(segment, MP.REMOVE_FORCE)
    else:
        owner.close(segment)


def test_nobody_stores_after_a_segment_was_withdrawn_by_force(ends):
    owner, back, user, there = ends
    segment = owner.segment(NUMBER, LENGTH, back)
    memory = owner.map_segment(segment)
    storm = storming(owner, memory, user, there)
    take_back(owner, segment, back, "withdraw")
    owner.write(memory, bytes([OWN]) * LENGTH)
    assert_intact(owner, memory)
    assert not storm.returned()


@pytest.mark.parametrize("how", ["withdraw", "remove", "close"])
def test_what_is_on_its_way_in_frames_is_not_stored_after_that(ends, how):
    """Copies that the owner's kernel makes for a process of the other host."""
    owner, back, user, there = ends
    segment, memory = owner.segment_of_own_memory(NUMBER, LENGTH, back, MP.PUBLISH_PLACED)
    connection = user.connect(there, MP.OBJECT_SEGMENT, NUMBER, MP.CONNECT_PLACED)
    source = user.segment(NUMBER + 1, LENGTH, there)
    user.write(user.map_segment(source), bytes([STORED]) * LENGTH)
    fields = {"interface": there, "entries": COPIES}
    queue = user.call("QUEUE_CREATE", "mp_queue_create", **fields).handle
    fields = {"handle": queue, "segment": source, "connection": connection}
    fields |= sharing.copy_list(user, *[(0, 0, LENGTH)] * COPIES)
    user.call("QUEUE_START", "mp_queue_start", **fields)
    end = time.monotonic() + 20 * PATIENCE
    while owner.same(memory, LENGTH, STORED) != INTACT:
        assert time.monotonic() < end, "nobody stores"
    take_back(owner, segment, back, how)
    owner.write(memory, bytes([OWN]) * LENGTH)
    assert_intact(owner, memory)
    assert user.wait(queue, MP.EVENT_DONE) == MP.EVENT_DONE
    assert user.call("QUEUE", "mp_queue", handle=queue).state == MP.QUEUE_ERROR


def test_what_is_on_its_way_to_a_copy_that_was_aborted_is_not_stored(ends):
    """Pieces that the other host has sent, and those that it was asked for."""
    owner, back, user, there = ends
    _, memory = owner.segment_of_own_memory(NUMBER, LENGTH, back, MP.PUBLISH_PLACED)
    owner.write(memory, bytes([STORED]) * LENGTH)
    connection = user.connect(there, MP.OBJECT_SEGMENT, NUMBER, MP.CONNECT_PLACED)
    target = user.segment(NUMBER + 1, LENGTH, there)
    local = user.map_segment(target)
    fields = {"interface": there, "entries": COPIES}
    queue = user.call("QUEUE_CREATE", "mp_queue_create", **fields).handle
    fields = {"handle": queue, "segment": target, "connection": connection}
    fields |= {"flags": MP.QUEUE_READ, **sharing.copy_list(user, *[(0, 0, LENGTH)] * COPIES)}
    user.call("QUEUE_START", "mp_queue_start", **fields)
    end = time.monotonic() + 20 * PATIENCE
    while user.same(local, LENGTH, STORED) != INTACT:
        assert time.monotonic() < end, "nothing is read"
    user.call("QUEUE_ABORT", "mp_handle", handle=queue)
    user.write(local, bytes([OWN]) * LENGTH)
    assert_intact(user, local)
    assert user.call("QUEUE", "mp_queue", handle=queue).state == MP.QUEUE_ABORTED


@pytest.mark.parametrize("how", ["remove", "close"])
def test_nobody_stores_into_pages_of_a_process_whose_segment_has_ended(ends, how):
    """The memory is the process's own, and stays."""
    owner, back, user, there = ends
    segment, memory = owner.segment_of_own_memory(NUMBER, LENGTH, back)
    storm = storming(owner, memory, user, there)
    take_back(owner, segment, back, how)
    owner.write(memory, bytes([OWN]) * LENGTH)
    assert_intact(owner, memory)
    assert not storm.returned()


def test_a_process_that_is_stopped_stores_nothing_when_it_goes_on(ends):
    """Its kernel takes the mapping away without it."""
    owner, back, user, there = ends
    segment = owner.segment(NUMBER, LENGTH, back)
    memory = owner.map_segment(segment)
    storm = storming(owner, memory, user, there)
    user.guest.run(f"kill -STOP {user.pid}")
    take_back(owner, segment, back, "withdraw")
    owner.write(memory, bytes([OWN]) * LENGTH)
    user.guest.run(f"kill -CONT {user.pid}")
    assert_intact(owner, memory)
    assert not storm.returned()


def test_a_host_that_stands_still_is_not_said_to_store_nothing(ends):
    """It goes on where it was: what its process has mapped leads there until its kernel knows."""
    owner, back, user, there = ends
    segment = owner.segment(NUMBER, LENGTH, back)
    memory = owner.map_segment(segment)
    storm = storming(owner, memory, user, there, LONG_STORM_MS)
    with standing_still(user.guest):
        with fails(errno.EINPROGRESS):
            take_back(owner, segment, back, "withdraw")
        assert owner.call("SEGMENT", "mp_segment", handle=segment).connections == 0
        assert ending(owner, segment) == 1
        # There is no peer to ask.
        with fails(errno.EINPROGRESS):
            take_back(owner, segment, back, "withdraw")
    wait_until_proven(owner, segment)
    with fails(errno.ENXIO):
        take_back(owner, segment, back, "withdraw")
    owner.write(memory, bytes([OWN]) * LENGTH)
    assert_intact(owner, memory)
    assert not storm.returned()


def test_pages_of_a_process_stay_pinned_while_a_host_stands_still(ends):
    owner, back, user, there = ends
    before = sharing.pinned(owner.guest)
    segment, memory = owner.segment_of_own_memory(NUMBER, LENGTH, back)
    storm = storming(owner, memory, user, there, LONG_STORM_MS)
    with standing_still(user.guest):
        with fails(errno.EINPROGRESS):
            owner.remove(segment, MP.REMOVE_FORCE)
        with fails(errno.ENOENT):
            owner.remove(segment)
        assert sharing.pinned(owner.guest) == before + 1
    sharing.wait_until_unpinned(owner.guest, before)
    owner.write(memory, bytes([OWN]) * LENGTH)
    assert_intact(owner, memory)
    assert not storm.returned()


def test_a_link_that_is_down_is_no_proof(fabric, ends):
    owner, back, user, there = ends
    segment = owner.segment(NUMBER, LENGTH, back)
    user.connect(there, MP.OBJECT_SEGMENT, NUMBER)
    fabric.unplug(owner.guest)
    owner.wait_until_up(back, up=False)
    with fails(errno.EINPROGRESS):
        take_back(owner, segment, back, "withdraw")
    assert ending(owner, segment) == 1
    fabric.plug(owner.guest)
    wait_until_proven(owner, segment)
