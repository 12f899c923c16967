# SPDX-License-Identifier: GPL-2.0-only
"""What one process has the kernel do, or does not do itself, holds up no other user, and ends no
link: copies in the background, and messages that nobody takes."""

import time
from contextlib import contextmanager

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import MIB, PATIENCE
from frames import no_link_ends
from pximc import MODULES
from sharing import EACH, FOREVER, MP, PAST, copy_list, fill, pair
from shortage import guard
from test_isolation import DEVICE, NOBODY, interfaces

# Some of the 1024 that a work queue of the kernel runs at a time on a processor.
QUEUES = 256
# More of them than a user has running at a time.
LONG_ONES = 6
# Copies of one start, and the bytes of each.
COPIES, LENGTH = 256, 2 * MIB
# Work of the kernel that runs, or waits for something, whatever processes have it do.
WORKERS = 32
NUMBER = 78
# Connections of a port.
CONNECTIONS = 256
# The largest piece of memory on a host whose memory is in small ones, two pages.
PIECE = 8192

# Threads with tables of descriptors of their own, and the places of each.
TABLES, PLACES = 16, 1 << 17
# Descriptors that are closed, and how much longer one of the device may take than of another file.
CLOSES, LONGER = 64, 20


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    for guest in fabric.hosts:
        guest.run(f"chgrp {NOBODY} {DEVICE} && chmod 660 {DEVICE}")
    return fabric


@contextmanager
def on_one_processor(fabric, user=None):
    """A process of that user that runs on the first processor."""
    how = ["taskset", "-c", "0"]
    if user is not None:
        how += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    with sharing.Process(fabric.rp, how=how) as process:
        yield process


def prepared(process, interface, number, length):
    """A segment, and a connection to it."""
    segment = process.segment(number, length, interface)
    return segment, process.connect(interface, MP.OBJECT_SEGMENT, number)


def queues(process, interface, count):
    """So many queues, by the handle of the first."""
    fields = {"interface": interface, "entries": COPIES}
    first = process.call("QUEUE_CREATE", "mp_queue_create", **fields).handle
    assert process.repeat(count - 1, "QUEUE_CREATE", "mp_queue_create", **fields) == count - 1
    return first


def start(process, first, count, pair_of, *copies):
    segment, connection = pair_of
    fields = {"segment": segment, "connection": connection, **copy_list(process, *copies)}
    return process.guess(first, count, 1, "QUEUE_START", "mp_queue_start", **fields)


def busy_workers(guest):
    """How many threads of work queues run, or wait for something other than work."""
    states = guest.run("ps -eo stat=,comm= | grep -c '^[DR].*kworker' || true").out
    return int(states)


def test_who_starts_hundreds_of_copies_holds_up_no_other_user(fabric):
    """Nor anything that the kernel does in the background: it has few threads more for that."""
    with on_one_processor(fabric, NOBODY) as flood, on_one_processor(fabric) as other:
        here, _ = interfaces(flood)
        own = prepared(other, here, 8, LENGTH)
        queue = queues(other, here, 1)
        pair_of = prepared(flood, here, 9, LENGTH)
        first = queues(flood, here, QUEUES)
        assert start(flood, first, QUEUES, pair_of, *[(0, 0, LENGTH)] * COPIES) == QUEUES
        time.sleep(1)
        begun = time.monotonic()
        for _ in range(3):
            start(other, queue, 1, own, (0, 0, LENGTH))
            other.wait(queue, MP.EVENT_DONE)
        assert time.monotonic() - begun < 5 * PATIENCE
        assert busy_workers(fabric.rp) < WORKERS
        # The last one that was started has not been forgotten.
        state = flood.call("QUEUE", "mp_queue", handle=first + QUEUES - 1).state
        assert state == MP.QUEUE_POSTED


def test_long_copies_leave_turns_to_other_queues_of_their_user(fabric):
    """However many of them there are."""
    with sharing.Process(fabric.rp) as process:
        here, _ = interfaces(process)
        to = prepared(process, here, 9, LENGTH)
        many = range(LONG_ONES)
        long_ones = [queues(process, here, 1) for _ in many]
        short = queues(process, here, 1)
        lists = dict.fromkeys(long_ones, COPIES) | {short: 1}
        fields = dict(zip(("segment", "connection"), to)) | copy_list(process, *[(0, 0, LENGTH)] * COPIES)
        # The process makes all calls without a pause, however busy the test itself is kept.
        begun = [
            process.begin("QUEUE_START", "mp_queue_start", **fields | {"handle": queue, "count": count})
            for queue, count in lists.items()
        ]
        wanted = {"target": short, "mask": MP.EVENT_DONE, "deadline": FOREVER}
        done = process.begin("WAIT", "mp_wait", **wanted)
        looks = [process.begin("QUEUE", "mp_queue", handle=queue) for queue in long_ones]
        for call in begun:
            call.result()
        assert done.result().events == MP.EVENT_DONE
        assert [look.result().state for look in looks] == [MP.QUEUE_POSTED for _ in many]


def test_a_port_that_nobody_reads_needs_no_large_memory(fabric):
    """All that its connections may send waits there, and no link ends for want of a piece of
    memory that is as large."""
    with pair(fabric) as (owner, back, user, there):
        port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
        connections = [user.connect(there, MP.OBJECT_PORT, NUMBER) for _ in range(CONNECTIONS)]
        with guard(owner.guest, largest=PIECE), no_link_ends(*fabric.hosts):
            for connection in connections:
                fill(user, connection)
            fields = {"handle": port, "data": owner.buffer, "length": 256, "deadline": PAST}
            received = 0
            while received < CONNECTIONS * EACH:
                received += owner.repeat(CONNECTIONS * EACH, "RECEIVE", "mp_message", **fields)
            assert received == CONNECTIONS * EACH


def test_a_message_without_memory_ends_its_connection_and_no_link(fabric):
    """Its sender is told."""
    with pair(fabric) as (owner, back, user, there):
        port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
        doomed, other = (user.connect(there, MP.OBJECT_PORT, NUMBER) for _ in range(2))
        for connection in (doomed, other):
            user.send(connection, b"there is memory")
            assert owner.receive(port) == b"there is memory"
        with no_link_ends(*fabric.hosts):
            with guard(owner.guest, largest=PIECE // 4):
                user.send(doomed, bytes(PIECE // 2))
                told = [user.notice(doomed) for _ in range(2)]
            assert told == [MP.NOTICE_DISCONNECTED, MP.NOTICE_LOST]
            user.send(other, b"at once")
            assert owner.receive(port) == b"at once"
            # There is a place for another one.
            again = user.connect(there, MP.OBJECT_PORT, NUMBER)
            user.send(again, b"again")
            assert owner.receive(port) == b"again"


def test_a_close_looks_at_no_table_of_others_and_at_no_place_that_is_empty(fabric):
    """Of however many there are: it takes about as long as that of any file."""
    with sharing.Process(fabric.rp) as process:
        assert process.crowd(TABLES, PLACES) == TABLES
        of_device, of_null = (
            min(process.copies(CLOSES, path) for _ in range(3)) for path in (DEVICE, "/dev/null")
        )
    assert of_device < LONGER * max(of_null, CLOSES)


def test_a_context_ends_with_the_last_descriptor_of_its_table(fabric):
    """Not with another one before, although a child has it as well, and areas are mapped."""
    with pair(fabric) as (owner, back, user, there):
        owner.map_segment(owner.segment(7, MIB, back))
        port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
        connection = user.connect(there, MP.OBJECT_PORT, NUMBER)
        child = owner.linger()
        owner.move()
        user.send(connection, b"by another descriptor")
        assert owner.receive(port) == b"by another descriptor"
        owner.leave()
        assert user.notice(connection) == MP.NOTICE_DISCONNECTED
        fabric.hosts[1].run(f"kill -9 {child}")
