# SPDX-License-Identifier: GPL-2.0-only
"""The rules of SISCI whose effect is on another host: one program or more on each of two hosts or
three, each test for what belongs together. What a rule says of both sides is asserted on both."""

import re
import struct
import time
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import local
import pytest
import sisci
from ntbrig import stack
from ntbrig.settings import PATIENCE
from shell import INTACT, until
from sisci import (
    FOREVER,
    NODES,
    ONES,
    PAGE,
    SCI,
    Callback,
    Program,
    error_number,
    fails,
    pair,
)

MIB = 1 << 20
# Node ids of the hosts, and one that is configured where no link leads to.
USER, OWNER, THIRD = NODES
NOWHERE, UNKNOWN = 16, 20
# Nobody's peer id.
NO_PEER = 7777
# Of a number that is given out.
ANY = 0


@pytest.fixture(scope="module")
def fabric(boot):
    """Three hosts, the first of them with a bridge to each other one. Links outlive that a host
    stands still: then it is silent, not gone."""
    fabric = boot(hosts=3, topology="star")
    sisci.load(*fabric.hosts, parameters={"pximc_ntb": "timeout_ms=60000"})
    configure(fabric)
    for guest in fabric.hosts:
        guest.run("sysctl -e -w kernel.watchdog=0")
    return fabric


def configure(fabric, *extra):
    sisci.configure(*fabric.hosts, extra=[f"node {NOWHERE} peer {NO_PEER}", *extra])


@pytest.fixture
def ends(fabric):
    """An exporter and an importer, on two hosts."""
    with pair(fabric) as (owner, user, node):
        assert node == OWNER
        yield owner, user


@contextmanager
def unplugged(fabric, user):
    """Inside, no link leads to the exporter's host."""
    fabric.unplug(fabric.hosts[1])
    try:
        until(lambda: not user.reaches(OWNER))
        yield
    finally:
        fabric.plug(fabric.hosts[1])


@contextmanager
def frozen(fabric, user):
    """Inside, the exporter's host does nothing."""
    guest = fabric.hosts[1]
    guest.freeze()
    try:
        until(lambda: not user.reaches(OWNER))
        yield
    finally:
        guest.thaw()


@contextmanager
def within(seconds):
    """What is inside does not take longer, whether it fails or not."""
    start = time.monotonic()
    try:
        yield
    finally:
        assert time.monotonic() - start < seconds * PATIENCE


class Held(NamedTuple):
    """A segment, a connection, and a map of each: by their handles and addresses."""

    segment: int
    local_map: int
    local: int
    connection: int
    map: int
    remote: int


def hold(ends, number, size=PAGE):
    owner, user = ends
    segment = owner.segment(number, size)
    local_map, local = owner.map_local(segment, size)
    connection = user.connect(OWNER, number)
    mapped, remote = user.map_remote(connection, size)
    assert owner.local_event(segment) == ("CONNECT", USER, 0)
    return Held(segment, local_map, local, connection, mapped, remote)


def arrives(ends, held, seed, size=PAGE):
    """What the importer stores is what the exporter finds."""
    owner, user = ends
    user.fill(held.remote, size, seed)
    until(lambda: owner.check(held.local, size, seed) == INTACT, 5)


def succeeds(function, *arguments):
    """Whether it is no longer busy."""
    try:
        function(*arguments)
    except sisci.SisciError as error:
        assert error.name == "BUSY"
        return False
    return True


# --- local segments


def test_a_segment_is_found_in_one_of_its_states_only(ends):
    """SI-CRSEG-1, SI-PREP-1, SI-PREP-3, SI-AVAIL-1, SI-AVAIL-3, SI-UNAVAIL-1, SI-UNAVAIL-2,
    SI-LSM-1, SI-LSM-2, SI-RMSEG-1, SI-CONSEG-1, SI-CONSEG-6, SI-CRSEG-10: another host connects
    when it is available; who is connected stays so. It leaves each state when it is removed."""
    owner, user = ends

    def nobody_connects():
        with fails("NO_SUCH_SEGMENT") as failed, within(1):
            user.connect(OWNER, 1)
        assert failed.value.outs.segment == 0

    nobody_connects()
    segment = owner.SCICreateSegment(owner.sd, 1, 5001, None, 0)
    _, local = owner.map_local(segment, 5001)
    with fails("SEGMENT_NOT_PREPARED"):
        owner.SCISetSegmentAvailable(segment, 0, 0)
    nobody_connects()
    for _ in range(2):
        owner.SCIPrepareSegment(segment, 0, 0)
    with fails("ILLEGAL_OPERATION"):
        owner.SCISetSegmentUnavailable(segment, 0, 0)
    nobody_connects()
    for _ in range(2):
        owner.SCISetSegmentAvailable(segment, 0, 0)
    connection = user.connect(OWNER, 1)
    _, remote = user.map_remote(connection, 5001)
    assert user.same(remote, 5001, 0) == INTACT
    owner.SCISetSegmentUnavailable(segment, 0, 0)
    with fails("ILLEGAL_OPERATION"):
        owner.SCISetSegmentUnavailable(segment, 0, 0)
    nobody_connects()
    user.fill(remote, 5001, 1)
    until(lambda: owner.check(local, 5001, 1) == INTACT, 5)
    owner.SCISetSegmentAvailable(segment, 0, 0)
    user.connect(OWNER, 1)
    for number, steps in ((2, 0), (3, 1), (4, 2)):
        segment = owner.SCICreateSegment(owner.sd, number, PAGE, None, 0)
        if steps > 0:
            owner.SCIPrepareSegment(segment, 0, 0)
        if steps > 1:
            owner.SCISetSegmentAvailable(segment, 0, 0)
        owner.SCIRemoveSegment(segment, 0)
        with fails("ILLEGAL_PARAMETER"):
            owner.SCIPrepareSegment(segment, 0, 0)
        with fails("NO_SUCH_SEGMENT"):
            user.connect(OWNER, number)


def test_a_segment_has_a_state_at_each_adapter(fabric):
    """SI-LSM-3, SI-AVAIL-2, SI-NTB-21, SI-GEN-7, SI-CRDMA-1, SI-SDMA-8: it is
    found over the one where it is available, and by its id and memory it is the same at both."""
    host = fabric.rp
    bridges = host.run("ls /sys/bus/pci/drivers/ntb_hw_ivshmem | grep :").out.split()
    configure(fabric, *(f"adapter {n} {place}" for n, place in enumerate(bridges)))
    try:
        with ExitStack() as programs:
            owner, *users = (programs.enter_context(Program(guest)) for guest in fabric.hosts)
            for user in users:
                sisci.wait_until_reached(user, USER)
            # Which of the others each adapter leads to.
            found = [
                [node for node in NODES[1:] if reached(owner, adapter, node)] for adapter in (0, 1)
            ]
            assert sorted(found) == [[OWNER], [THIRD]]
            if found[0] == [THIRD]:
                users.reverse()
            segment = owner.SCICreateSegment(owner.sd, 7, PAGE, None, 0)
            _, local = owner.map_local(segment)
            owner.SCIPrepareSegment(segment, 1, 0)
            with fails("SEGMENT_NOT_PREPARED"):
                owner.SCISetSegmentAvailable(segment, 0, 0)
            owner.SCISetSegmentAvailable(segment, 1, 0)
            with fails("NO_SUCH_SEGMENT"):
                users[0].connect(USER, 7)
            _, remote = users[1].map_remote(users[1].connect(USER, 7))
            assert owner.local_event(segment)[::2] == ("CONNECT", 1)
            users[1].write(remote, b"over one")
            owner.SCIPrepareSegment(segment, 0, 0)
            owner.SCISetSegmentAvailable(segment, 0, 0)
            _, remote = users[0].map_remote(users[0].connect(USER, 7))
            assert owner.local_event(segment)[::2] == ("CONNECT", 0)
            assert users[0].read(remote, 8) == owner.read(local, 8) == b"over one"
            owner.SCISetSegmentUnavailable(segment, 1, 0)
            with fails("NO_SUCH_SEGMENT"):
                users[1].connect(USER, 7)
            users[0].connect(USER, 7)
            with fails("NO_SUCH_ADAPTERNO"):
                owner.SCIPrepareSegment(segment, 2, 0)
            # A queue copies from and to what is at its adapter.
            node, other = OWNER if users[0].guest is fabric.hosts[1] else THIRD, users[0]
            target = other.segment(8)
            to = owner.SCIConnectSegment(owner.sd, node, 8, 0, None, FOREVER, 0)
            owner.map_remote(to)
            source = owner.SCICreateSegment(owner.sd, 9, PAGE, None, 0)
            owner.SCIPrepareSegment(source, 1, 0)
            queues = [owner.SCICreateDMAQueue(owner.sd, n, 1, 0) for n in (0, 1)]
            for queue, error in zip(queues, ("SEGMENT_NOT_PREPARED", "SEGMENT_NOT_CONNECTED")):
                with fails(error):
                    owner.SCIStartDmaTransfer(queue, source, to, 0, 8, 0, None, 0)
            owner.SCIPrepareSegment(source, 0, 0)
            owner.write(owner.map_local(source)[1], b"by a copy")
            owner.SCIStartDmaTransfer(queues[0], source, to, 0, 9, 0, None, 0)
            assert sisci.DMA[owner.SCIWaitForDMAQueue(queues[0], FOREVER, 0)] == "DONE"
            assert other.read(other.map_local(target)[1], 9) == b"by a copy"
    finally:
        configure(fabric)


def test_a_host_without_the_driver_does_not_answer(fabric):
    """SI-PROBE-1, SI-PROBE-2: as one whose link is down."""
    host = fabric.hosts[2]
    with Program(fabric.rp) as user:
        sisci.wait_until_reached(user, THIRD)
        stack.unload(host, modules=("mp_func_user",))
        try:
            with fails("NO_LINK_ACCESS") as failed, within(1):
                user.SCIProbeNode(user.sd, 0, THIRD, 0)
            assert failed.value.value == 0
        finally:
            stack.load(host, modules=("mp_func_user",))
        sisci.wait_until_reached(user, THIRD)


def reached(program, adapter, node):
    """Whether a node answers at an adapter."""
    try:
        return program.SCIProbeNode(program.sd, adapter, node, 0) == 1
    except sisci.SisciError as error:
        assert error.name in ("NO_REMOTE_LINK_ACCESS", "NO_SUCH_NODEID")
        return False


def test_ids_are_unique_on_a_host(ends):
    """SI-CRSEG-2, SI-CRSEG-3, SI-CRSEG-5, SI-LSEGID-1, SI-RSEGID-1, SI-SHSEG-2: another host
    connects to the one segment that has the id, whichever process has it."""
    owner, user = ends
    with Program(owner.guest) as other:
        first = owner.SCICreateSegment(owner.sd, 10, PAGE, None, 0)
        with fails("SEGMENTID_USED"):
            other.SCICreateSegment(other.sd, 10, PAGE, None, 0)
        # Another host has ids of its own.
        user.SCICreateSegment(user.sd, 10, PAGE, None, 0)
        owner.SCIRemoveSegment(first, 0)
        segment = other.segment(10)
        other.write(other.map_local(segment)[1], b"the other one")
        _, remote = user.map_remote(user.connect(OWNER, 10))
        assert user.read(remote, 13) == b"the other one"
        # No id is that of a private one.
        private = [
            owner.SCICreateSegment(owner.sd, number, PAGE, None, SCI.FLAG_PRIVATE)
            for number in (10, 10, 11)
        ]
        owner.SCIPrepareSegment(private[2], 0, 0)
        with fails("ILLEGAL_OPERATION"):
            owner.SCIShareSegment(private[2], 0)
        with fails("ILLEGAL_OPERATION"):
            owner.SCISetSegmentAvailable(private[2], 0, 0)
        with fails("NO_SUCH_SEGMENT"):
            user.connect(OWNER, 11)
    # One that is free is found, and told.
    for expected in (100, 101):
        segment = owner.SCICreateSegment(owner.sd, 100, PAGE, None, SCI.FLAG_AUTO_ID)
        assert owner.SCIGetLocalSegmentId(segment) == expected
        owner.SCIPrepareSegment(segment, 0, 0)
        owner.SCISetSegmentAvailable(segment, 0, 0)
        owner.write(owner.map_local(segment)[1], bytes([expected]))
        connection = user.connect(OWNER, expected)
        assert user.SCIGetRemoteSegmentId(connection) == expected
        assert user.read(user.map_remote(connection)[1], 1) == bytes([expected])
    with Program(owner.guest) as other:
        made = other.repeat(
            130, "SCICreateSegment", other.sd, 100, PAGE, None, SCI.FLAG_AUTO_ID
        )
        assert (made.done, made.error) == (127, "SEGMENTID_USED")


def test_holders_of_a_segment_are_equal(ends):
    """SI-ATTSEG-1, SI-ATTSEG-2, SI-ATTSEG-3, SI-ATTSEG-4, SI-ATTSEG-5, SI-SHSEG-1, SI-SHSEG-2,
    SI-RMSEG-2, SI-RMSEG-5, SI-RMSEG-6: what each does counts for another host, and what that does
    each is told."""
    owner, user = ends
    with Program(owner.guest) as other:

        def attach(number):
            return other.SCIAttachLocalSegment(other.sd, number, None, 0)

        segment = owner.SCICreateSegment(owner.sd, 20, 5001, None, 0)
        with fails("NO_SUCH_SEGMENT"):
            attach(21)
        with fails("ACCESS"):
            attach(20)
        for _ in range(2):
            owner.SCIShareSegment(segment, 0)
        attached, second = attach(20), attach(20)
        assert (attached.size, second.size) == (5001, 5001)
        # It is prepared and made available by one of them, for all.
        other.SCIPrepareSegment(attached.segment, 0, 0)
        owner.SCISetSegmentAvailable(segment, 0, 0)
        connection = user.connect(OWNER, 20)
        _, remote = user.map_remote(connection, 5001)
        for program, one in (
            (owner, segment),
            (other, attached.segment),
            (other, second.segment),
        ):
            assert program.local_event(one) == ("CONNECT", USER, 0)
            with fails("TIMEOUT"):
                program.local_event(one, 0)
        other.SCISetSegmentUnavailable(second.segment, 0, 0)
        with fails("NO_SUCH_SEGMENT"):
            user.connect(OWNER, 20)
        # Who goes disturbs nobody; the last one has to wait.
        other.SCIRemoveSegment(second.segment, 0)
        owner.SCIRemoveSegment(segment, 0)
        shared_map, shared = other.map_local(attached.segment, 5001)
        user.fill(remote, 5001, 2)
        until(lambda: other.check(shared, 5001, 2) == INTACT, 5)
        with fails("BUSY"):
            other.SCIRemoveSegment(attached.segment, 0)
        other.SCIUnmapSegment(shared_map, 0)
        with fails("BUSY"):
            other.SCIRemoveSegment(attached.segment, 0)
        user.end()
        assert other.local_event(attached.segment) == ("DISCONNECT", USER, 0)
        other.SCIRemoveSegment(attached.segment, 0)
        with fails("NO_SUCH_SEGMENT"):
            attach(20)


# --- connections and their events


def test_a_connection_knows_its_segment_and_its_owner_knows_of_it(ends):
    """SI-CONSEG-1, SI-CONSEG-2, SI-CONSEG-7, SI-CONSEG-8, SI-CONSEG-10, SI-RSIZE-1, SI-RSEGID-1,
    SI-RNODE-1, SI-LSIZE-1, SI-RSM-1, SI-EVT-1, SI-EVT-2, SI-WLSEG-1, SI-WLSEG-3, SI-WLSEG-4,
    SI-DISSEG-1, SI-DISSEG-2, SI-RMSEG-2, SI-GEN-12, SI-GEN-14: each of several."""
    owner, user = ends
    segment = owner.segment(30, 5001)
    assert owner.SCIGetLocalSegmentSize(segment) == 5001
    with fails("TIMEOUT"):
        owner.local_event(segment, 200)
    waiting = owner.later.SCIWaitForLocalSegmentEvent(segment, FOREVER, 0)
    first = user.connect(OWNER, 30)
    told = waiting.result()
    assert (told.value, told.sourcenodeId, told.localAdapterNo) == (SCI.CB_CONNECT, USER, 0)
    assert user.SCIGetRemoteSegmentSize(first) == 5001
    assert user.SCIGetRemoteSegmentId(first) == 30
    assert user.SCIGetRemoteSegmentNodeId(first) == OWNER
    assert user.SCIGetRemoteSegmentNodeId(0) == user.SCIGetRemoteSegmentSize(0) == 0
    # It says nothing of its own beginning.
    with fails("TIMEOUT"):
        user.remote_event(first, 0)
    # It can be mapped at once, and be copied to.
    mapped, remote = user.map_remote(first, 5001)
    source = user.SCICreateSegment(user.sd, 31, PAGE, None, SCI.FLAG_PRIVATE)
    user.SCIPrepareSegment(source, 0, 0)
    source_map, from_here = user.map_local(source)
    user.fill(from_here, PAGE, 3)
    queue = user.queue()
    user.SCIStartDmaTransfer(queue, source, first, 0, PAGE, 900, None, 0)
    assert sisci.DMA[user.SCIWaitForDMAQueue(queue, FOREVER, 0)] == "DONE"
    local_map, local = owner.map_local(segment, 5001)
    assert owner.check(local + 900, PAGE, 3) == INTACT
    owner.SCIUnmapSegment(local_map, 0)
    # Each has its own events, and keeps the segment.
    second = user.connect(OWNER, 30)
    with Program(user.guest) as other:
        third = other.connect(OWNER, 30)
        with fails("BUSY"):
            user.SCIDisconnectSegment(first, 0)
        user.SCIUnmapSegment(mapped, 0)
        user.SCIDisconnectSegment(first, 0)
        with fails("ILLEGAL_PARAMETER"):
            user.SCIDisconnectSegment(first, 0)
        assert other.SCIGetRemoteSegmentSize(third) == 5001
    user.SCIDisconnectSegment(second, 0)
    # They have waited for somebody to take them, in their order.
    reasons = [owner.local_event(segment)[0] for _ in range(5)]
    assert reasons == ["CONNECT", "CONNECT", "DISCONNECT", "DISCONNECT", "DISCONNECT"]
    with fails("TIMEOUT"):
        owner.local_event(segment, 0)
    fourth = user.connect(OWNER, 30)
    with fails("BUSY"):
        owner.SCIRemoveSegment(segment, 0)
    assert owner.local_event(segment) == ("CONNECT", USER, 0)
    user.SCIDisconnectSegment(fourth, 0)
    assert owner.local_event(segment) == ("DISCONNECT", USER, 0)
    owner.SCIRemoveSegment(segment, 0)
    for node, error in (
        (OWNER, "NO_SUCH_SEGMENT"),
        (NOWHERE, "NO_REMOTE_LINK_ACCESS"),
        (UNKNOWN, "NO_SUCH_NODEID"),
        (0, "ILLEGAL_NODEID"),
        (253, "ILLEGAL_NODEID"),
    ):
        with fails(error), within(1):
            user.connect(node, 30)


def test_a_node_connects_to_itself_as_to_another_one(ends):
    """SI-CONSEG-3, SI-NTB-22, SI-MAPR-8, SI-QUERY-8, SI-RNODE-1, SI-CONINT-4, SI-EVT-1: the same
    functions and events, told apart by the node; what is stored is seen on both hosts."""
    owner, user = ends
    held = hold(ends, 35)
    own = owner.connect(OWNER, 35)
    assert owner.SCIGetRemoteSegmentNodeId(own) == OWNER
    assert owner.local_event(held.segment) == ("CONNECT", OWNER, 0)
    own_map, at = owner.map_remote(own)
    arrives(ends, held, 4)
    assert owner.check(at, PAGE, 4) == INTACT
    owner.fill(at, PAGE, 5)
    until(lambda: user.check(held.remote, PAGE, 5) == INTACT)
    target = SCI.Q_MAP_MAPPED_TO_LOCAL_TARGET
    assert [owner.about(SCI.Q_MAP, one, target) for one in (held.local_map, own_map)] == [1, 1]
    assert user.about(SCI.Q_MAP, held.map, target) == 0
    interrupt = owner.interrupt_of(35, SCI.FLAG_COUNTING_INT)
    for program in (owner, user):
        program.SCITriggerInterrupt(program.connect_interrupt(OWNER, 35), 0)
    for _ in range(2):
        owner.SCIWaitForInterrupt(interrupt, 10000, 0)
    owner.SCIUnmapSegment(own_map, 0)
    owner.SCIDisconnectSegment(own, 0)
    assert owner.local_event(held.segment) == ("DISCONNECT", OWNER, 0)


def test_callbacks_take_the_events_that_waits_would(ends):
    """SI-CRSEG-7, SI-WLSEG-2, SI-WRSEG-2, SI-GEN-16, SI-GEN-17, SI-GEN-19, SI-EVT-1, SI-EVT-2,
    SI-EVT-3, SI-EVT-9: of the owner and of the importer, until they do not want to go on."""
    owner, user = ends
    told, once, never = Callback(), Callback(cancel=True), Callback()
    segment = owner.segment(40, callback=told)
    other = owner.segment(41, callback=once)
    # Without the flag there is none.
    third = owner.SCICreateSegment(owner.sd, 42, PAGE, never, 0)
    with fails("ILLEGAL_PARAMETER"):
        owner.SCICreateSegment(owner.sd, 43, PAGE, None, SCI.FLAG_USE_CALLBACK)
    owner.SCIPrepareSegment(third, 0, 0)
    owner.SCISetSegmentAvailable(third, 0, 0)
    for _ in range(3):
        user.SCIDisconnectSegment(user.connect(OWNER, 40), 0)
    expected = [(reason, USER, 0, 0) for reason in (SCI.CB_CONNECT, SCI.CB_DISCONNECT)] * 3
    assert told.wait(6) == expected
    with fails("ILLEGAL_OPERATION"):
        owner.local_event(segment, 0)
    for number in (41, 42):
        user.SCIDisconnectSegment(user.connect(OWNER, number), 0)
    assert once.wait(1) == [(SCI.CB_CONNECT, USER, 0, 0)]
    # From then on the events are for waits.
    assert until(lambda: event_without_callback(owner, other)) == ("DISCONNECT", USER, 0)
    assert [owner.local_event(third)[0] for _ in range(2)] == ["CONNECT", "DISCONNECT"]
    assert (len(once.calls()), never.calls()) == (1, [])
    # The importer's.
    heard = Callback()
    connection = user.connect(OWNER, 40, heard)
    with fails("ILLEGAL_OPERATION"):
        user.remote_event(connection, 0)
    owner.SCISetSegmentUnavailable(segment, 0, SCI.FLAG_NOTIFY)
    heard.wait(1)
    owner.SCIRemoveSegment(segment, SCI.FLAG_FORCE_REMOVE)
    assert heard.wait(2) == [(SCI.CB_DISCONNECT, 0), (SCI.CB_LOST, error_number("NOT_CONNECTED"))]
    assert told.wait(7)[6:] == [(SCI.CB_CONNECT, USER, 0, 0)]


def event_without_callback(program, segment):
    """The next event; none as long as a callback takes them."""
    try:
        return program.local_event(segment)
    except sisci.SisciError as error:
        assert error.name == "ILLEGAL_OPERATION"
        return None


def test_an_importer_is_asked_to_leave_or_put_out(ends):
    """SI-UNAVAIL-1, SI-UNAVAIL-3, SI-UNAVAIL-4, SI-RMSEG-4, SI-WRSEG-1, SI-WRSEG-3, SI-WRSEG-4,
    SI-RSM-3, SI-RSM-5, SI-RSM-6, SI-RSM-7, SI-DISSEG-1, SI-DISSEG-3, SI-EVT-3, SI-EVT-6, SI-EVT-9,
    SI-SEQ-7, SI-STSEQ-4, SI-CKSEQ-4, SI-CRSEQ-3, SI-MAPR-9, SI-MAPR-10, SI-UNMAP-3, SI-MEMWR-4:
    what it is told, and what it can still do."""
    owner, user = ends
    held = hold(ends, 45)
    waiting = user.later.SCIWaitForRemoteSegmentEvent(held.connection, FOREVER, 0)
    owner.SCISetSegmentUnavailable(held.segment, 0, SCI.FLAG_NOTIFY)
    asked = waiting.result()
    assert (asked.value, asked.status) == (SCI.CB_DISCONNECT, 0)
    with fails("TIMEOUT"), within(2):
        user.remote_event(held.connection, 100)
    # Nothing else has changed: it stores, maps and copies.
    arrives(ends, held, 1)
    again, _ = user.map_remote(held.connection)
    user.SCIUnmapSegment(again, 0)
    sequence = user.sequence(held.map)
    assert (user.start(sequence), user.look(sequence)) == ("OK", "OK")
    owner.SCISetSegmentAvailable(held.segment, 0, 0)
    unasked = user.connect(OWNER, 45)
    owner.SCISetSegmentUnavailable(held.segment, 0, SCI.FLAG_FORCE_DISCONNECT)
    # No connection is left: only the map keeps the segment.
    owner.SCIUnmapSegment(held.local_map, 0)
    owner.SCIRemoveSegment(held.segment, 0)
    # Who was asked before is not asked again.
    assert user.remote_event(unasked) == ("DISCONNECT", "OK")
    for one in (unasked, held.connection):
        assert user.remote_event(one) == ("LOST", "NOT_CONNECTED")
        with fails("TIMEOUT"):
            user.remote_event(one, 0)
    # That is final.
    assert user.look(sequence) == "NOT_RETRIABLE"
    for one in (sequence, user.sequence(held.map)):
        with fails("NOT_CONNECTED") as failed:
            user.SCIStartSequence(one, 0)
        assert sisci.SEQUENCE[failed.value.value] == "PENDING"
        user.SCIRemoveSequence(one, 0)
    with fails("NOT_CONNECTED"):
        user.map_remote(held.connection)
    owner.segment(45, 2 * PAGE)
    assert user.same(held.remote, PAGE, ONES) == INTACT
    data = user.allocate(PAGE)
    user.SCIMemWrite(data, held.remote, PAGE, 0)
    with fails("NOT_CONNECTED"):
        user.map_remote(held.connection)
    assert user.SCIGetRemoteSegmentId(held.connection) == 45
    waiting = user.later.SCIWaitForRemoteSegmentEvent(held.connection, FOREVER, 0)
    user.until_asleep()
    with fails("BUSY"):
        user.SCIDisconnectSegment(held.connection, 0)
    user.SCIUnmapSegment(held.map, 0)
    user.SCIDisconnectSegment(held.connection, 0)
    with fails("CANCELLED"):
        waiting.result()
    # The new segment of the same id is a new one.
    assert user.SCIGetRemoteSegmentSize(user.connect(OWNER, 45)) == 2 * PAGE


def test_removal_by_force_needs_nobody_elses_consent(ends):
    """SI-RMSEG-3, SI-RMSEG-4, SI-EVT-3, SI-EVT-6, SI-EVT-11, SI-GEN-21: the importer has been told,
    its stores go nowhere, who waits for events of the segment goes on, and no callback runs any
    more."""
    owner, user = ends
    held = hold(ends, 46)
    with fails("BUSY"):
        owner.SCIRemoveSegment(held.segment, SCI.FLAG_FORCE_REMOVE)
    owner.SCIUnmapSegment(held.local_map, 0)
    with fails("BUSY"):
        owner.SCIRemoveSegment(held.segment, 0)
    arrives_nowhere = user.later.storm(held.remote, PAGE, 0x5A, 300)
    waiting = owner.later.SCIWaitForLocalSegmentEvent(held.segment, FOREVER, 0)
    owner.until_asleep()
    owner.SCIRemoveSegment(held.segment, SCI.FLAG_FORCE_REMOVE)
    with fails("CANCELLED"):
        waiting.result()
    taken = [owner.map_local(owner.segment(number))[1] for number in range(460, 470)]
    arrives_nowhere.result()
    assert all(owner.same(address, PAGE, 0) == INTACT for address in taken)
    events = [user.remote_event(held.connection) for _ in range(2)]
    assert events == [("DISCONNECT", "OK"), ("LOST", "NOT_CONNECTED")]
    for number in range(471, 476):
        told = Callback()
        segment = owner.segment(number, callback=told)
        coming = user.later.cycle(user.sd, OWNER, number, 100_000)
        told.wait(10)
        owner.SCIRemoveSegment(segment, SCI.FLAG_FORCE_REMOVE)
        # What it had written before was read with the answer.
        before = len(told.calls())
        assert sisci.error_name(coming.result().error) == "NO_SUCH_SEGMENT"
        assert len(told.calls()) == before


def test_a_program_need_not_wait_for_its_connection(ends):
    """SI-CONSEG-4, SI-RSM-1, SI-RSM-8, SI-RSIZE-1, SI-EVT-9: the outcome is an event."""
    owner, user = ends
    segment = owner.segment(47, 5001)
    later = SCI.FLAG_ASYNCHRONOUS_CONNECT

    def begin(number, callback=None):
        flags = later | (SCI.FLAG_USE_CALLBACK if callback else 0)
        return user.SCIConnectSegment(user.sd, OWNER, number, 0, callback, FOREVER, flags)

    connection = begin(47)
    assert user.remote_event(connection) == ("OPERATIONAL", "OK")
    assert owner.local_event(segment) == ("CONNECT", USER, 0)
    assert user.SCIGetRemoteSegmentSize(connection) == 5001
    user.map_remote(connection, 5001)
    missing = begin(48)
    assert user.remote_event(missing) == ("LOST", "NO_SUCH_SEGMENT")
    assert user.SCIGetRemoteSegmentSize(missing) == 0
    with fails("NOT_CONNECTED"):
        user.map_remote(missing)
    user.SCIDisconnectSegment(missing, 0)
    told = Callback()
    begin(47, told)
    told.wait(1)
    assert owner.local_event(segment) == ("CONNECT", USER, 0)
    owner.SCISetSegmentUnavailable(segment, 0, SCI.FLAG_NOTIFY)
    assert told.wait(2) == [(SCI.CB_OPERATIONAL, 0), (SCI.CB_DISCONNECT, 0)]


# --- an outage


def test_connections_live_through_an_outage_in_each_state(fabric, ends):
    """SI-RSM-2, SI-RSM-3, SI-RSM-4, SI-RSM-6, SI-RSM-7, SI-LSM-4, SI-EVT-4, SI-EVT-5, SI-EVT-9,
    SI-DISSEG-1, SI-DISSEG-4, SI-WRSEG-4, SI-UNAVAIL-5, SI-MAPR-3, SI-SDMA-8, SI-CONSEG-8,
    SI-GEN-27: both sides are told of it and of its end, and of what either has wished meanwhile;
    what either has made meanwhile is found afterwards."""
    owner, user = ends
    all_held = [hold(ends, number) for number in range(50, 56)]
    kept, asked, late, left, asked_and_left, forced = all_held
    source = user.SCICreateSegment(user.sd, 59, PAGE, None, SCI.FLAG_PRIVATE)
    user.SCIPrepareSegment(source, 0, 0)
    queue = user.queue()
    for one in (asked, asked_and_left):
        owner.SCISetSegmentUnavailable(one.segment, 0, SCI.FLAG_NOTIFY)
        assert user.remote_event(one.connection) == ("DISCONNECT", "OK")
    with unplugged(fabric, user):
        for one in all_held:
            assert user.remote_event(one.connection) == ("NOT_OPERATIONAL", "NO_LINK_ACCESS")
            assert owner.local_event(one.segment) == ("NOT_OPERATIONAL", USER, 0)
        for one in (kept, asked):
            with fails("NOT_CONNECTED"):
                user.map_remote(one.connection)
            with fails("SEGMENT_NOT_CONNECTED"):
                user.SCIStartDmaTransfer(queue, source, one.connection, 0, 8, 0, None, 0)
        with fails("NO_LINK_ACCESS"), within(1):
            user.connect(OWNER, 50)
        owner.SCISetSegmentUnavailable(late.segment, 0, SCI.FLAG_NOTIFY)
        for one in (left, asked_and_left):
            user.SCIUnmapSegment(one.map, 0)
            user.SCIDisconnectSegment(one.connection, 0)
        made = owner.segment(58)
        owner.SCIShareSegment(made, 0)
        owner.write(owner.map_local(made)[1], b"made meanwhile")
        interrupt = owner.interrupt_of(58)
        owner.queue()
        assert owner.SCIGetLocalNodeId(0, 0) == OWNER
        with within(2):
            owner.SCISetSegmentUnavailable(forced.segment, 0, SCI.FLAG_FORCE_DISCONNECT)
        owner.SCIUnmapSegment(forced.local_map, 0)
        owner.SCIRemoveSegment(forced.segment, 0)
    for one in (kept, asked):
        assert user.remote_event(one.connection) == ("OPERATIONAL", "OK")
        assert owner.local_event(one.segment) == ("OPERATIONAL", USER, 0)
        arrives(ends, one, 6)
        user.SCIUnmapSegment(user.map_remote(one.connection)[0], 0)
        user.SCIStartDmaTransfer(queue, source, one.connection, 0, 8, 0, None, 0)
        assert sisci.DMA[user.SCIWaitForDMAQueue(queue, 10000, 0)] == "DONE"
        until(lambda: owner.read(one.local, 8) == bytes(8), 5)
    told = {user.remote_event(late.connection) for _ in range(2)}
    assert told == {("DISCONNECT", "OK"), ("OPERATIONAL", "OK")}
    arrives(ends, late, 7)
    # Nobody could ask who was put out meanwhile.
    assert user.remote_event(forced.connection) == ("LOST", "NOT_CONNECTED")
    with fails("SEGMENT_NOT_CONNECTED"):
        user.SCIStartDmaTransfer(queue, source, forced.connection, 0, 8, 0, None, 0)
    _, remote = user.map_remote(user.connect(OWNER, 58))
    assert user.read(remote, 14) == b"made meanwhile"
    user.SCITriggerInterrupt(user.connect_interrupt(OWNER, 58), 0)
    owner.SCIWaitForInterrupt(interrupt, 10000, 0)
    # The exporter learns of who has left in between, and is rid of it.
    for one in (left, asked_and_left):
        assert owner.local_event(one.segment) == ("DISCONNECT", USER, 0)
        owner.SCIUnmapSegment(one.local_map, 0)
        until(lambda: succeeds(owner.SCIRemoveSegment, one.segment, 0))
    # Nobody has made anything available again.
    user.SCIDisconnectSegment(user.connect(OWNER, 50), 0)
    for one in (kept, asked, late):
        user.SCIUnmapSegment(one.map, 0)
        user.SCIDisconnectSegment(one.connection, 0)
        told = []
        while not told or told[-1] != "DISCONNECT":
            told.append(owner.local_event(one.segment)[0])
        owner.SCIUnmapSegment(one.local_map, 0)
        owner.SCIRemoveSegment(one.segment, 0)


def test_transfers_in_an_outage_are_told_to_be_lost(fabric, ends):
    """SI-STSEQ-1, SI-STSEQ-2, SI-STSEQ-3, SI-CKSEQ-2, SI-CKSEQ-3, SI-CKSEQ-5, SI-CKSEQ-7, SI-SEQ-2,
    SI-SEQ-4, SI-SEQ-5, SI-SEQ-6, SI-STBAR-2, SI-MEMWR-4, SI-MEMCPY-3, SI-MEMCPY-7, SI-CRSEQ-1,
    SI-MAPR-1: nothing arrives as long as it lasts, and everything does that is said to."""
    owner, user = ends
    held = hold(ends, 60)
    one, other = user.sequence(held.map), user.sequence(held.map)
    with fails("ILLEGAL_OPERATION") as early:
        user.look(one)
    assert sisci.SEQUENCE[early.value.value] == "PENDING"
    assert (user.start(one), user.start(other)) == ("OK", "OK")
    user.fill(held.remote, PAGE, 1)
    for _ in range(20):
        assert user.look(one) == "OK"
    assert owner.check(held.local, PAGE, 1) == INTACT
    data = user.allocate(2 * PAGE)
    user.fill(data, PAGE, 2)
    checked, read = SCI.FLAG_ERROR_CHECK, SCI.FLAG_BLOCK_READ
    with unplugged(fabric, user), within(20):
        assert user.look(one) == "PENDING"
        assert user.start(one) == "PENDING"
        with fails("ILLEGAL_OPERATION"):
            user.look(one)
        user.SCIStoreBarrier(other, 0)
        user.SCIMemCpy(0, data + PAGE, held.map, 0, PAGE, read)
        assert user.same(data + PAGE, PAGE, ONES) == INTACT
        user.SCIMemWrite(data, held.remote, PAGE, 0)
        user.SCIMemCpy(0, data, held.map, 0, PAGE, 0)
        with fails("TRANSFER_FAILED"):
            user.SCIMemCpy(one, data, held.map, 0, PAGE, checked)
        assert owner.check(held.local, PAGE, 1) == INTACT
    assert [user.remote_event(held.connection)[0] for _ in range(2)] == [
        "NOT_OPERATIONAL",
        "OPERATIONAL",
    ]
    # The other one has not looked meanwhile: something of its was lost, once.
    assert [user.look(other) for _ in range(2)] == ["RETRIABLE", "OK"]
    assert owner.check(held.local, PAGE, 1) == INTACT
    with fails("ILLEGAL_OPERATION"):
        user.look(one)
    user.SCIMemCpy(one, data, held.map, 0, PAGE, checked)
    assert owner.check(held.local, PAGE, 2) == INTACT
    assert (user.start(one), user.look(one)) == ("OK", "OK")


def test_interrupts_wait_for_the_end_of_an_outage(fabric, ends):
    """SI-TRINT-3, SI-TRDINT-3, SI-ISM-2, SI-ISM-3, SI-DISINT-1, SI-DISDINT-1, SI-RMINT-3,
    SI-PROBE-1, SI-PROBE-2, SI-QUERY-3, SI-GEN-26, SI-CONINT-1, SI-CONINT-3: what has been waited
    for before arrives after it."""
    owner, user = ends
    numbers = (65, 66)
    plain, other = (owner.interrupt_of(number) for number in numbers)
    to, to_other = (user.connect_interrupt(OWNER, number) for number in numbers)
    queue = owner.data_interrupt_of(65)
    out = user.connect_data_interrupt(OWNER, 65)
    user.SCITriggerInterrupt(to, 0)
    owner.SCIWaitForInterrupt(plain, 10000, 0)
    waiting = owner.later.SCIWaitForInterrupt(plain, FOREVER, 0)
    assert links_of(ends) == [1, 1]
    with unplugged(fabric, user), within(20):
        assert links_of(ends) == [0, 0]
        with fails("NO_LINK_ACCESS"):
            user.SCITriggerInterrupt(to, 0)
        # Of messages under way nobody knows the fate: their connection ends with the link.
        with fails("NOT_CONNECTED"):
            user.send(out, b"a message")
        for connect in (user.connect_interrupt, user.connect_data_interrupt):
            with fails("NO_LINK_ACCESS"), within(1):
                connect(OWNER, 65)
        with fails("NO_LINK_ACCESS") as failed:
            user.SCIProbeNode(user.sd, 0, OWNER, 0)
        assert failed.value.value == 0
        assert user.SCIProbeNode(user.sd, 0, USER, 0) == 1
        user.SCIDisconnectInterrupt(to_other, 0)
        user.SCIDisconnectDataInterrupt(out, 0)
        assert not waiting.returned()
    until(lambda: links_of(ends) == [1, 1])
    assert not waiting.returned()
    until(lambda: triggers(user, to))
    waiting.result()
    with fails("TIMEOUT"):
        owner.receive(queue, 0)
    # Who has left meanwhile is in nobody's way.
    until(lambda: succeeds(owner.SCIRemoveInterrupt, other, 0))
    until(lambda: succeeds(owner.SCIRemoveDataInterrupt, queue, 0))


def links_of(programs):
    """Whether the link of each is up: 0 or 1."""
    return [program.about_adapter(SCI.Q_ADAPTER_LINK_OPERATIONAL) for program in programs]


def triggers(program, interrupt):
    try:
        program.SCITriggerInterrupt(interrupt, 0)
        return True
    except sisci.SisciError as error:
        assert error.name == "NO_LINK_ACCESS"
        return False


def test_nobody_waits_long_for_a_host_that_stands_still(fabric, ends):
    """SI-CONSEG-4, SI-CONSEG-5, SI-CONSEG-8, SI-CONINT-1, SI-CONINT-3, SI-CONDINT-1, SI-GEN-26,
    SI-PROBE-2, SI-STBAR-2, SI-CKSEQ-8, SI-DISSEG-1, SI-RSM-5, SI-RSM-6, SI-RSM-7, SI-RSM-8,
    SI-EVT-9: calls that need an answer say that there is none, within the caller's limit or a
    second; what has arrived before is still there afterwards."""
    owner, user = ends
    held = hold(ends, 68)
    sequence = user.sequence(held.map)
    interrupt = owner.interrupt_of(68, SCI.FLAG_COUNTING_INT)
    to = user.connect_interrupt(OWNER, 68)
    queue = owner.data_interrupt_of(68)
    out = user.connect_data_interrupt(OWNER, 68)
    assert user.start(sequence) == "OK"
    connects = (
        lambda limit: user.connect(OWNER, 68, timeout=limit),
        lambda limit: user.SCIConnectInterrupt(user.sd, OWNER, 0, 68, limit, 0),
        lambda limit: user.SCIConnectDataInterrupt(user.sd, OWNER, 0, 68, limit, 0),
    )
    with frozen(fabric, user):
        for connect in connects:
            with fails("TIMEOUT"), within(0.9):
                connect(200)
            with fails("NODE_NOT_RESPONDING"), within(3):
                connect(FOREVER)
        with fails("NO_REMOTE_LINK_ACCESS"), within(3):
            user.SCIProbeNode(user.sd, 0, OWNER, 0)
        # Of a connection that is on its way there is nothing but its name.
        slow, given_up = (
            user.SCIConnectSegment(
                user.sd, OWNER, 68, 0, None, 500, SCI.FLAG_ASYNCHRONOUS_CONNECT
            )
            for _ in range(2)
        )
        assert user.SCIGetRemoteSegmentId(slow) == 68
        assert user.SCIGetRemoteSegmentSize(slow) == 0
        with fails("NOT_CONNECTED"):
            user.map_remote(slow)
        with within(2):
            user.SCIDisconnectSegment(given_up, 0)
        assert user.remote_event(slow) == ("LOST", "TIMEOUT")
        user.SCIDisconnectSegment(slow, 0)
        with within(5):
            user.fill(held.remote, PAGE, 8)
            user.SCIStoreBarrier(sequence, 0)
            assert user.look(sequence) == "OK"
            user.SCITriggerInterrupt(to, 0)
            user.send(out, b"early")
            user.segment(69)
    sisci.wait_until_reached(user, OWNER)
    assert owner.check(held.local, PAGE, 8) == INTACT
    for connect in connects:
        connect(20000)
    owner.SCIWaitForInterrupt(interrupt, 10000, 0)
    assert owner.receive(queue) == b"early"


# --- interrupts


def waits(program, interrupt, timeout=0):
    """Whether there is one to take."""
    try:
        program.SCIWaitForInterrupt(interrupt, timeout, 0)
        return True
    except sisci.SisciError as error:
        assert error.name == "TIMEOUT"
        return False


def test_numbers_of_interrupts_lead_to_one_receiver(ends):
    """SI-CRINT-1, SI-CRINT-2, SI-CRINT-6, SI-RMINT-1, SI-WINT-1, SI-CONINT-1, SI-CONINT-3,
    SI-CONDINT-1, SI-TRINT-1, SI-CRDINT-1, SI-RMDINT-1: at once, until it is removed, of this kind
    and host."""
    owner, user = ends
    made = owner.SCICreateInterrupt(owner.sd, 0, None, 0, interruptNo=ANY)
    with Program(owner.guest) as other:
        second = other.SCICreateInterrupt(other.sd, 0, None, 0, interruptNo=made.interruptNo)
        assert made.interruptNo != second.interruptNo
        with fails("SEGMENTID_USED"):
            other.interrupt_of(made.interruptNo)
        to = user.connect_interrupt(OWNER, second.interruptNo)
        waiting = other.later.SCIWaitForInterrupt(second.interrupt, FOREVER, 0)
        user.SCITriggerInterrupt(to, 0)
        waiting.result()
        assert not waits(owner, made.interrupt) and not waits(other, second.interrupt)
        with fails("SEGMENTID_USED"):
            other.interrupt_of(made.interruptNo)
    # The same number of another kind, and of another host.
    here, there = user.interrupt_of(70), owner.interrupt_of(70)
    queue = owner.data_interrupt_of(70)
    user.send(user.connect_data_interrupt(OWNER, 70), b"only this")
    assert owner.receive(queue) == b"only this"
    to = user.connect_interrupt(OWNER, 70)
    user.SCITriggerInterrupt(to, 0)
    assert waits(owner, there, 10000) and not waits(user, here)
    # What was triggered before somebody waits stays.
    user.SCITriggerInterrupt(to, 0)
    until(lambda: waits(owner, there))
    start = time.monotonic()
    with fails("TIMEOUT"):
        owner.SCIWaitForInterrupt(there, 200, 0)
    assert time.monotonic() - start >= 0.2
    for connect in (user.connect_interrupt, user.connect_data_interrupt):
        for node, error in (
            (OWNER, "NO_SUCH_SEGMENT"),
            (UNKNOWN, "NO_SUCH_NODEID"),
            (NOWHERE, "NO_REMOTE_LINK_ACCESS"),
            (0, "ILLEGAL_NODEID"),
        ):
            with fails(error) as failed, within(1):
                connect(node, 71)
            assert failed.value.outs.interrupt == 0
    for make, connect, remove in (
        (owner.interrupt_of, user.connect_interrupt, owner.SCIRemoveInterrupt),
        (owner.data_interrupt_of, user.connect_data_interrupt, owner.SCIRemoveDataInterrupt),
    ):
        for _ in range(2):
            interrupt = make(71)
            remove(interrupt, 0)
            with fails("ILLEGAL_PARAMETER"):
                remove(interrupt, 0)
            with fails("NO_SUCH_SEGMENT"):
                connect(OWNER, 71)


def test_all_that_share_a_number_are_notified(ends):
    """SI-CRINT-3, SI-CRDINT-2, SI-CRINT-2: processes of one host, if each of them shares; each
    message is there for each of them."""
    owner, user = ends
    shared = SCI.FLAG_SHARED_INT
    with Program(owner.guest) as second, Program(owner.guest) as third:
        programs = (owner, second, third)
        told = Callback()
        plain = [owner.interrupt_of(75, shared), second.interrupt_of(75, shared)]
        third.interrupt_of(75, shared, told)
        queues = [program.data_interrupt_of(75, shared) for program in programs]
        for make in (second.interrupt_of, second.data_interrupt_of):
            with fails("SEGMENTID_USED"):
                make(75)
        owner.interrupt_of(76)
        with fails("SEGMENTID_USED"):
            second.interrupt_of(76, shared)
        to = user.connect_interrupt(OWNER, 75)
        out = user.connect_data_interrupt(OWNER, 75)
        for round_ in range(1, 4):
            user.SCITriggerInterrupt(to, 0)
            for program, interrupt in zip(programs, plain):
                assert waits(program, interrupt, 10000)
            told.wait(round_)
            user.send(out, bytes([round_]) * 100)
        for program, queue in zip(programs, queues):
            received = [program.receive(queue) for _ in range(3)]
            assert received == [bytes([round_]) * 100 for round_ in range(1, 4)]
        assert len(told.calls()) == 3
        # One that goes is no loss for the others.
        third.end()
        user.SCITriggerInterrupt(to, 0)
        user.send(out, b"for two")
        for program, interrupt, queue in zip(programs, plain, queues):
            assert waits(program, interrupt, 10000)
            assert program.receive(queue) == b"for two"


def test_triggers_are_counted_or_become_one(ends):
    """SI-CRINT-4, SI-CRINT-5, SI-WINT-1, SI-WINT-2, SI-WINT-3, SI-CONINT-2, SI-CONINT-3, SI-ISM-1,
    SI-TRINT-1, SI-GEN-16: as was asked for when it was made."""
    owner, user = ends
    counting = SCI.FLAG_COUNTING_INT
    many = 500
    plain, counted = owner.interrupt_of(80), owner.interrupt_of(81, counting)
    with fails("CONNECTION_REFUSED"):
        user.connect_interrupt(OWNER, 80, counting)
    to = user.connect_interrupt(OWNER, 80)
    to_counted = user.connect_interrupt(OWNER, 81, counting)
    assert user.repeat(many, "SCITriggerInterrupt", to, 0).done == many
    assert user.repeat(many, "SCITriggerInterrupt", to_counted, 0).done == many
    # The last of them comes at some time after the first one.
    first = owner.repeat(many + 1, "SCIWaitForInterrupt", counted, 2000, 0)
    assert (first.done, first.error) == (many, "TIMEOUT")
    taken = owner.repeat(many, "SCIWaitForInterrupt", plain, 500, 0)
    assert taken.error == "TIMEOUT" and 1 <= taken.done < many
    for _ in range(5):
        user.SCITriggerInterrupt(to, 0)
        assert waits(owner, plain, 10000)
    # One of those that wait has each.
    waiting = [owner.later.SCIWaitForInterrupt(counted, 20000, 0) for _ in range(3)]
    for number in range(1, 4):
        user.SCITriggerInterrupt(to_counted, 0)
        until(lambda: sum(one.returned() for one in waiting) == number)
    assert not waits(owner, counted, 50)
    for one in waiting:
        one.result()
    # Callbacks.
    told, all_told = Callback(), Callback()
    with_callback = owner.interrupt_of(82, callback=told)
    owner.interrupt_of(83, counting, all_told)
    with fails("ILLEGAL_OPERATION"):
        owner.SCIWaitForInterrupt(with_callback, 0, 0)
    for number, callback in ((82, told), (83, all_told)):
        to = user.connect_interrupt(OWNER, number)
        assert user.repeat(many, "SCITriggerInterrupt", to, 0).done == many
        before = len(callback.wait(1))
        callback.wait(many if number == 83 else 1)
        user.SCITriggerInterrupt(to, 0)
        callback.wait(many + 1 if number == 83 else before + 1)
    assert len(all_told.calls()) == many + 1
    assert all(call == (0,) for call in told.calls() + all_told.calls())


class Plain:
    """What a program does with interrupts."""

    def __init__(self, program):
        self.make, self.connect = program.interrupt_of, program.connect_interrupt
        self.remove = program.SCIRemoveInterrupt
        self.disconnect = program.SCIDisconnectInterrupt
        self._program = program

    def trigger(self, to):
        self._program.SCITriggerInterrupt(to, 0)

    def wait(self, interrupt):
        self._program.SCIWaitForInterrupt(interrupt, 10000, 0)

    def wait_later(self, interrupt):
        return self._program.later.SCIWaitForInterrupt(interrupt, FOREVER, 0)


class WithMessages:
    """The same with those that have messages."""

    def __init__(self, program):
        self.make, self.connect = program.data_interrupt_of, program.connect_data_interrupt
        self.remove = program.SCIRemoveDataInterrupt
        self.disconnect = program.SCIDisconnectDataInterrupt
        self._program = program

    def trigger(self, to):
        self._program.send(to, b"a message")

    def wait(self, interrupt):
        assert self._program.receive(interrupt) == b"a message"

    def wait_later(self, interrupt):
        room, later = self._program.allocate(PAGE), self._program.later
        return later.SCIWaitForDataInterrupt(interrupt, room, FOREVER, 0, length=PAGE)


@pytest.mark.parametrize("kind", (Plain, WithMessages))
def test_an_interrupt_stays_until_nobody_is_connected(ends, kind):
    """SI-RMINT-2, SI-RMINT-3, SI-RMINT-4, SI-RMDINT-1, SI-WDINT-3, SI-DISINT-1, SI-DISDINT-1,
    SI-ISM-1, SI-TRINT-3, SI-TRDINT-3, SI-GEN-12: nobody new connects meanwhile, and who waits
    then goes on."""
    owner, user = map(kind, ends)
    interrupt = owner.make(90)
    to = user.connect(OWNER, 90)
    with fails("BUSY"):
        owner.remove(interrupt, 0)
    with fails("CONNECTION_REFUSED"):
        user.connect(OWNER, 90)
    # It still works.
    user.trigger(to)
    owner.wait(interrupt)
    waiting = owner.wait_later(interrupt)
    ends[0].until_asleep()
    user.disconnect(to, 0)
    with fails("ILLEGAL_PARAMETER"):
        user.trigger(to)
    until(lambda: succeeds(owner.remove, interrupt, 0))
    with fails("CANCELLED"):
        waiting.result()
    # The end of a process is no different.
    with Program(ends[1].guest) as program:
        sisci.wait_until_reached(program, OWNER)
        interrupt = owner.make(90)
        kind(program).connect(OWNER, 90)
        with fails("BUSY"):
            owner.remove(interrupt, 0)
    until(lambda: succeeds(owner.remove, interrupt, 0))
    # Of an owner that has ended a trigger tells.
    with Program(ends[0].guest) as program:
        kind(program).make(91)
        to = user.connect(OWNER, 91)
    until(lambda: refused(user.trigger, to) == "NOT_CONNECTED")
    user.disconnect(to, 0)


def refused(function, *arguments):
    """What a function says, None if nothing."""
    try:
        function(*arguments)
    except sisci.SisciError as error:
        return error.name
    return None


def test_messages_arrive_whole_and_in_order(ends):
    """SI-CRDINT-1, SI-CRDINT-2, SI-WDINT-1, SI-WDINT-2, SI-WDINT-3, SI-TRDINT-1, SI-TRDINT-2,
    SI-DISDINT-1, SI-RMDINT-1, SI-GEN-16: those of a sender that has disconnected as well."""
    owner, user = ends
    queue = owner.data_interrupt_of(95)
    out = user.connect_data_interrupt(OWNER, 95)
    with fails("TIMEOUT"):
        owner.receive(queue, 100)
    waiting = owner.later.SCIWaitForDataInterrupt(queue, owner.allocate(64), FOREVER, 0, length=64)
    user.send(out, b"waited for")
    assert waiting.result() == 10
    messages = [bytes([n]) * size for n, size in enumerate((1, 100, SCI.DATA_INTERRUPT_MAX, 0, 7))]
    for message in messages:
        user.send(out, message)
    with fails("OUT_OF_RANGE"):
        user.send(out, bytes(SCI.DATA_INTERRUPT_MAX + 1))
    user.SCIDisconnectDataInterrupt(out, 0)
    assert owner.receive(queue) == messages[0]
    # One for which there is no room stays.
    for room in (0, 99):
        with fails("OUT_OF_RANGE") as failed:
            owner.receive(queue, room=room)
        assert failed.value.outs.length == 100
    assert [owner.receive(queue) for _ in messages[1:]] == messages[1:]
    with fails("TIMEOUT"):
        owner.receive(queue, 0)
    # What nobody has taken goes with the interrupt.
    out = user.connect_data_interrupt(OWNER, 95)
    user.send(out, b"too late")
    user.SCIDisconnectDataInterrupt(out, 0)
    until(lambda: succeeds(owner.SCIRemoveDataInterrupt, queue, 0))
    told = Callback()
    queue = owner.data_interrupt_of(95, callback=told)
    with fails("ILLEGAL_OPERATION"):
        owner.receive(queue, 0)
    out = user.connect_data_interrupt(OWNER, 95)
    for message in messages:
        user.send(out, message)
    told.wait(len(messages))
    heard = [(call[0], call[1] if len(call) > 1 else b"") for call in told.calls()]
    assert heard == [(0, message) for message in messages]


def test_a_signal_ends_each_wait_and_nothing_else(ends):
    """SI-GEN-15, SI-WDINT-3: what comes from the other host afterwards is there."""
    owner, user = ends
    segment, plain = owner.segment(97), owner.interrupt_of(97)
    queue, room = owner.data_interrupt_of(97), owner.allocate(PAGE)
    connection = user.connect(OWNER, 97)
    assert owner.local_event(segment)[0] == "CONNECT"
    for program, begin in (
        (owner, lambda: owner.later.SCIWaitForLocalSegmentEvent(segment, FOREVER, 0)),
        (user, lambda: user.later.SCIWaitForRemoteSegmentEvent(connection, FOREVER, 0)),
        (owner, lambda: owner.later.SCIWaitForInterrupt(plain, FOREVER, 0)),
        (owner, lambda: owner.later.SCIWaitForDataInterrupt(queue, room, FOREVER, 0, length=PAGE)),
    ):
        waiting = begin()
        program.until_asleep()
        # Another thread may have it.
        until(lambda: program.interrupt(3) or waiting.returned())
        with fails("CANCELLED"):
            waiting.result()
    user.SCITriggerInterrupt(user.connect_interrupt(OWNER, 97), 0)
    assert waits(owner, plain, 10000)
    user.send(user.connect_data_interrupt(OWNER, 97), b"as ever")
    assert owner.receive(queue) == b"as ever"
    owner.SCISetSegmentUnavailable(segment, 0, SCI.FLAG_NOTIFY)
    assert user.remote_event(connection) == ("DISCONNECT", "OK")
    user.SCIDisconnectSegment(connection, 0)
    assert owner.local_event(segment)[0] == "DISCONNECT"


# --- maps and copies


def test_a_map_is_any_part_of_a_segment(ends):
    """SI-MAPL-1, SI-MAPL-2, SI-MAPL-3, SI-MAPL-4, SI-MAPL-5, SI-MAPL-6, SI-MAPR-1, SI-MAPR-2,
    SI-MAPR-4, SI-MAPR-6, SI-MAPR-7, SI-MAPPTR-1, SI-UNMAP-1, SI-UNMAP-2, SI-RMSEQ-1, SI-GEN-12:
    what is stored at one end is at the same offset at the other one."""
    owner, user = ends
    size = 2 * PAGE + 100
    held = hold(ends, 130, size)
    fixed, read_only = SCI.FLAG_FIXED_MAP_ADDR, SCI.FLAG_READONLY_MAP
    for function, segment in (
        (owner.SCIMapLocalSegment, held.segment),
        (user.SCIMapRemoteSegment, held.connection),
    ):
        for offset, length, error in (
            (0, size + 1, "OUT_OF_RANGE"),
            (size, 1, "OUT_OF_RANGE"),
            (1, (1 << 64) - 1, "OUT_OF_RANGE"),
            (0, 0, "SIZE_ALIGNMENT"),
        ):
            with fails(error) as failed:
                function(segment, offset, length, 0, 0)
            assert failed.value.outs.map == 0
    offset = PAGE + 33
    part, there = user.map_remote(held.connection, size - offset, offset, SCI.FLAG_SHARED_MAP)
    own, here = owner.map_local(held.segment, size - offset, offset)
    assert user.SCIGetMapPointer(part) == there and owner.SCIGetMapPointer(own) == here
    assert user.SCIGetMapPointer(0) == 0
    user.fill(there, size - offset, 1)
    until(lambda: owner.check(here, size - offset, 1) == INTACT, 5)
    assert owner.check(held.local + offset, size - offset, 1) == INTACT
    assert owner.same(held.local, offset, 0) == INTACT
    owner.write(here, b"and back")
    until(lambda: user.read(held.remote + offset, 8) == b"and back", 5)
    # At an address that is free, and beside one that is taken.
    user.SCIUnmapSegment(part, 0)
    assert user.touch(there, 1) != 0
    at = there - there % PAGE
    part = user.SCIMapRemoteSegment(held.connection, 0, PAGE, at, fixed)
    assert part.value == at
    user.write(at, b"the first one")
    beside = user.SCIMapRemoteSegment(held.connection, PAGE, PAGE, at, fixed)
    assert beside.value != at and user.read(at, 13) == b"the first one"
    until(lambda: owner.read(held.local, 13) == b"the first one", 5)
    with fails("OFFSET_ALIGNMENT"):
        user.SCIMapRemoteSegment(held.connection, 0, PAGE, at + 1, fixed)
    # One for reading.
    for program, view in (
        (owner, owner.SCIMapLocalSegment(held.segment, 0, PAGE, 0, read_only)),
        (user, user.SCIMapRemoteSegment(held.connection, 0, PAGE, 0, read_only)),
    ):
        assert program.read(view.value, 13) == b"the first one"
        assert program.store(view.value, b"x") != 0
        assert owner.read(held.local, 13) == b"the first one"
    sequences = [user.sequence(part.map) for _ in range(2)]
    for sequence in sequences:
        with fails("BUSY"):
            user.SCIUnmapSegment(part.map, 0)
        user.SCIRemoveSequence(sequence, 0)
    user.SCIUnmapSegment(part.map, 0)
    with fails("ILLEGAL_PARAMETER"):
        user.SCIUnmapSegment(part.map, 0)


def test_copies_of_any_size_go_both_ways(ends):
    """SI-MEMWR-1, SI-MEMWR-2, SI-MEMWR-3, SI-MEMCPY-1, SI-MEMCPY-2, SI-MEMCPY-3, SI-MEMCPY-4,
    SI-MEMCPY-5, SI-MEMCPY-6, SI-FLUSH-1: and nothing beside them is touched."""
    owner, user = ends
    size = 2 * PAGE
    held = hold(ends, 135, size)
    data, back = user.allocate(size), user.allocate(size)
    user.fill(data, size, 1)
    sequence, checked = user.sequence(held.map), SCI.FLAG_ERROR_CHECK
    read, read_only = SCI.FLAG_BLOCK_READ, SCI.FLAG_READONLY_MAP
    for at, length in ((0, 1), (1, 7), (3, 64), (63, 130), (5, PAGE), (PAGE - 1, PAGE)):
        content = user.read(data + at, length)
        for copy in (
            lambda: user.SCIMemWrite(data + at, held.remote + at, length, 0),
            lambda: user.SCIMemCpy(sequence, data + at, held.map, at, length, checked),
        ):
            owner.write(held.local, bytes(size // 2))
            owner.write(held.local + size // 2, bytes(size // 2))
            copy()
            # The source is free again.
            user.write(data + at, bytes(length))
            until(lambda: owner.read(held.local + at, length) == content, 5)
            user.write(data + at, content)
            assert owner.same(held.local, at, 0) == INTACT
            assert owner.same(held.local + at + length, size - at - length, 0) == INTACT
        user.SCIMemCpy(sequence, back + at, held.map, at, length, read | checked)
        assert user.read(back + at, length) == content
    part, _ = user.map_remote(held.connection, 100, 50)
    for sequence_, flags, error in (
        (0, checked, "ILLEGAL_PARAMETER"),
        (sequence, checked, "ILLEGAL_PARAMETER"),
        (0, 0, None),
    ):
        assert refused(user.SCIMemCpy, sequence_, data, part, 0, 100, flags) == error
    until(lambda: owner.check(held.local + 50, 100, 1) == INTACT, 5)
    with fails("OUT_OF_RANGE"):
        user.SCIMemCpy(0, data, part, 1, 100, 0)
    view = user.SCIMapRemoteSegment(held.connection, 0, size, 0, read_only)
    owner.write(held.local, b"as it was")
    with fails("ILLEGAL_OPERATION"):
        user.SCIMemCpy(0, data, view.map, 0, 9, 0)
    user.SCIMemCpy(0, back, view.map, 0, 9, read)
    assert user.read(back, 9) == owner.read(held.local, 9) == b"as it was"
    # A copy to a map of this host is one as well, which the other one sees.
    owner.SCIMemCpy(0, held.local + 200, held.local_map, 0, 50, 0)
    until(lambda: user.read(held.remote, 50) == owner.read(held.local + 200, 50), 5)
    for address, to in ((0, held.remote), (data, 0)):
        with fails("ILLEGAL_PARAMETER"):
            user.SCIMemWrite(address, to, 8, 0)
    with fails("FLAG_NOT_IMPLEMENTED"):
        user.SCIMemWrite(data, held.remote, 8, SCI.FLAG_WRITE_BACK_CACHE_MAP)
    user.write(held.remote, b"flushed")
    user.SCIFlush(0, 0)
    until(lambda: owner.read(held.local, 7) == b"flushed", 5)


def test_a_library_that_is_terminated_leaves_nothing(fabric):
    """SI-TERM-1: no thread, no descriptor, and no memory that grows from one time to the next."""
    with Program(fabric.rp) as program:

        def left():
            status = program.guest.read(f"/proc/{program.pid}/status")
            values = dict(line.split(":", 1) for line in status.splitlines())
            names = program.guest.run(f"ls /proc/{program.pid}/fd").out.split()
            return int(values["Threads"]), len(names), int(values["RssAnon"].split()[0])

        def cycle(look=lambda: None):
            # The reactor's thread runs as long as there is a callback.
            callback = sisci.Callback()
            number = program.SCICreateInterrupt(
                program.sd, 0, callback, SCI.FLAG_USE_CALLBACK
            ).interrupt
            busy = look()
            program.SCIRemoveInterrupt(number, 0)
            program.SCIClose(program.sd, 0)
            program.SCITerminate()
            idle = look()
            program.SCIInitialize(0)
            program.sd = program.SCIOpen(0)
            return busy, idle

        for _ in range(3):
            cycle()
        (threads, names, _), first = cycle(left)
        assert first[0] < threads and first[1] < names
        for _ in range(15):
            cycle()
        _, last = cycle(left)
        assert last[:2] == first[:2]
        # KiB
        assert last[2] - first[2] < 64


# --- DMA


class Transfers:
    """A queue of the importer, a segment of it that is copied from, and one of the exporter."""

    size = 2 * MIB

    def __init__(self, ends, number):
        self.owner, self.user = ends
        self.held = hold(ends, number, self.size)
        user = self.user
        self.source = user.SCICreateSegment(user.sd, number, self.size, None, 0)
        self.source_map, self.bytes = user.map_local(self.source, self.size)
        self.queue = user.queue()
        self._vector = user.allocate(2 * PAGE)

    def one(self, local, size, remote, callback=None, flags=0, source=None):
        flags |= SCI.FLAG_USE_CALLBACK if callback else 0
        source = source or self.source
        self.user.SCIStartDmaTransfer(
            self.queue, source, self.held.connection, local, size, remote, callback, flags
        )

    def vector(self, *entries, callback=None, flags=0):
        """Entries are size, local and remote offset."""
        words = [struct.pack("<4I", *(*entry, 0)[:4]) for entry in entries]
        self.user.write(self._vector, b"".join(words))
        self.start(len(entries), callback, flags)

    def start(self, length, callback=None, flags=0, vector=None):
        flags |= SCI.FLAG_USE_CALLBACK if callback else 0
        vector = self._vector if vector is None else vector
        self.user.SCIStartDmaTransferVec(
            self.queue, self.source, self.held.connection, length, vector, callback, flags
        )

    def long(self, callback=None):
        """One that takes some time: everything, over and over."""
        self.vector(*[(self.size, 0, 0)] * 256, callback=callback)
        assert self.state() == "POSTED"

    def state(self):
        return self.user.dma_state(self.queue)

    def wait(self, timeout=FOREVER):
        return sisci.DMA[self.user.SCIWaitForDMAQueue(self.queue, timeout, 0)]

    def abort(self):
        self.user.SCIAbortDMAQueue(self.queue, 0)

    def remove(self):
        self.user.SCIRemoveDMAQueue(self.queue, 0)

    def found(self, at, length):
        return self.owner.read(self.held.local + at, length)


def test_a_queue_goes_through_its_states(ends):
    """SI-CRDMA-1, SI-RMDMA-1, SI-SDMA-1, SI-SDMA-3, SI-SDMA-4, SI-SDMA-8, SI-SDMA-9, SI-PREP-2,
    SI-DMAST-1, SI-WDMA-1, SI-WDMA-2, SI-WDMA-4, SI-ABDMA-1, SI-ABDMA-2, SI-ABDMA-3, SI-DSM-1,
    SI-DSM-2, SI-DSM-3, SI-DSM-4, SI-DSM-6: what the other host has then is what each state says."""
    owner, user = ends
    t = Transfers(ends, 140)
    for refused_ in (t.wait, t.abort):
        with fails("ILLEGAL_OPERATION"):
            refused_()
        assert t.state() == "IDLE"
    with fails("SEGMENT_NOT_PREPARED"):
        t.one(0, 8, 0)
    user.SCIPrepareSegment(t.source, 0, SCI.FLAG_DMA_SOURCE_ONLY)
    assert t.state() == "IDLE"
    user.fill(t.bytes, t.size, 1)
    t.one(100, 5000, 200)
    assert t.wait() == "DONE"
    assert t.found(200, 5000) == user.read(t.bytes + 100, 5000)
    assert owner.same(t.held.local, 200, 0) == INTACT
    assert owner.same(t.held.local + 5200, t.size - 5200, 0) == INTACT
    t.abort()
    assert (t.state(), t.wait(0)) == ("DONE", "DONE")
    # What cannot be changes nothing, here or there.
    before = t.found(0, 6000)
    for local, size, remote, error in (
        (1, t.size, 0, "OUT_OF_RANGE"),
        (0, t.size, 1, "OUT_OF_RANGE"),
        ((1 << 64) - 1, 2, 0, "OUT_OF_RANGE"),
        (0, 0, 0, "SIZE_ALIGNMENT"),
    ):
        with fails(error):
            t.one(local, size, remote)
        assert t.state() == "DONE"
    other = user.SCICreateSegment(user.sd, 141, PAGE, None, 0)
    with fails("SEGMENT_NOT_PREPARED"):
        t.one(0, 8, 0, source=other)
    assert (t.state(), t.found(0, 6000)) == ("DONE", before)
    # One that is under way.
    t.long()
    for refused_ in (lambda: t.one(0, 8, 0), t.remove):
        with fails("ILLEGAL_OPERATION"):
            refused_()
    with fails("TIMEOUT"):
        t.wait(0)
    assert t.state() == "POSTED"
    t.abort()
    assert t.state() == "ABORTED"
    owner.fill(t.held.local, t.size, 2)
    t.abort()
    assert (t.state(), t.wait(0)) == ("ABORTED", "ABORTED")
    assert owner.check(t.held.local, t.size, 2) == INTACT
    # From there it starts again, and comes to an end.
    t.long()
    assert t.wait() == "DONE"
    user.SCIRemoveDMAQueue(user.queue(), 0)
    assert owner.check(t.held.local, t.size, 1) == INTACT
    user.SCIUnmapSegment(t.held.map, 0)
    with fails("ILLEGAL_OPERATION"):
        t.one(0, 8, 0)
    assert t.state() == "DONE"
    t.remove()
    with fails("ILLEGAL_PARAMETER"):
        t.wait(0)


def test_a_vector_is_copied_in_its_order(ends):
    """SI-SDMAV-1, SI-SDMAV-2, SI-SDMAV-3, SI-SDMAV-4, SI-SDMA-9: each piece to its place, the
    later ones last; one that cannot be stops all."""
    owner, user = ends
    t = Transfers(ends, 145)
    user.SCIPrepareSegment(t.source, 0, 0)
    user.fill(t.bytes, t.size, 3)
    wait = SCI.FLAG_DMA_WAIT
    t.vector((100, 0, 500), (1, 7, 99), (50, 1000, 550), flags=wait)
    assert t.state() == "DONE"
    assert t.found(500, 50) == user.read(t.bytes, 50)
    assert t.found(550, 50) == user.read(t.bytes + 1000, 50)
    assert t.found(99, 1) == user.read(t.bytes + 7, 1)
    for count in (0, 257):
        with fails("MAX_ENTRIES"):
            t.start(count)
    with fails("ILLEGAL_PARAMETER"):
        t.start(2, vector=0)
    before = t.found(0, 1000)
    with fails("ILLEGAL_FLAG"):
        t.vector((8, 0, 0, 1))
    with fails("OUT_OF_RANGE"):
        t.vector((8, 0, 0), (8, t.size, 0))
    assert (t.state(), t.found(0, 1000)) == ("DONE", before)
    # It fails while it is waited for.
    vector = user.allocate(2 * PAGE)
    user.write(vector, struct.pack("<4I", t.size, 0, 0, 0) * 256)
    waiting = user.later.SCIStartDmaTransferVec(
        t.queue, t.source, t.held.connection, 256, vector, None, wait
    )
    until(lambda: t.state() == "POSTED")
    owner.SCISetSegmentUnavailable(t.held.segment, 0, SCI.FLAG_FORCE_DISCONNECT)
    with fails("TRANSFER_FAILED"):
        waiting.result()
    assert t.state() == "ERROR"


def test_the_end_of_a_transfer_is_told_once(ends):
    """SI-SDMA-5, SI-SDMA-10, SI-WDMA-3, SI-ABDMA-3, SI-DSM-1, SI-DSM-3, SI-RMDMA-1, SI-UNMAP-2,
    SI-GEN-12, SI-GEN-16: by a callback, good or bad; its segments and the map stay until then."""
    owner, user = ends
    t = Transfers(ends, 150)
    user.SCIPrepareSegment(t.source, 0, 0)
    user.fill(t.bytes, t.size, 4)
    done, aborted, failed = Callback(), Callback(), Callback()
    t.one(0, PAGE, PAGE, callback=done)
    assert done.wait(1) == [(0,)]
    assert owner.read(t.held.local + PAGE, PAGE) == user.read(t.bytes, PAGE)
    t.long(callback=aborted)
    with fails("ILLEGAL_OPERATION"):
        t.wait(0)
    user.SCIUnmapSegment(t.source_map, 0)
    with fails("BUSY"):
        user.SCIRemoveSegment(t.source, 0)
    t.abort()
    assert aborted.wait(1) == [(error_number("CANCELLED"),)]
    t.remove()
    t.queue = user.queue()
    t.long(callback=failed)
    with fails("BUSY"):
        user.SCIUnmapSegment(t.held.map, 0)
    with fails("BUSY"):
        user.SCIDisconnectSegment(t.held.connection, 0)
    owner.SCISetSegmentUnavailable(t.held.segment, 0, SCI.FLAG_FORCE_DISCONNECT)
    assert failed.wait(1) == [(error_number("TRANSFER_FAILED"),)]
    assert t.state() == "ERROR"
    until(lambda: refused(t.wait, 0) is None)
    t.abort()
    assert (t.state(), t.wait(0)) == ("ERROR", "ERROR")
    owner.fill(t.held.local, t.size, 5)
    t.remove()
    user.SCIUnmapSegment(t.held.map, 0)
    user.SCIDisconnectSegment(t.held.connection, 0)
    user.SCIRemoveSegment(t.source, 0)
    assert owner.check(t.held.local, t.size, 5) == INTACT
    assert [len(callback.calls()) for callback in (done, aborted, failed)] == [1, 1, 1]


# --- questions


def test_nodes_know_themselves_and_who_is_there(ends):
    """SI-LNODE-1, SI-NIDNAME-1, SI-NIDNAME-2, SI-NINFNAME-1, SI-PROBE-1, SI-QUERY-1, SI-QUERY-3,
    SI-GEN-7, SI-GEN-8: the names of both hosts lead to the nodes that answer to them."""
    for program, node in zip(ends, (OWNER, USER)):
        assert program.SCIGetLocalNodeId(0, 0) == node
        assert program.about_adapter(SCI.Q_ADAPTER_NODEID) == node
        for adapter, error in ((1, "NO_SUCH_ADAPTERNO"), (4, "ILLEGAL_ADAPTERNO")):
            with fails(error):
                program.SCIGetLocalNodeId(adapter, 0)
        for guest, expected in zip((ends[1].guest, ends[0].guest), (USER, OWNER)):
            found = nodes_of(program, guest.name)
            assert found[0] == expected and not any(found[1:])
            assert program.SCIProbeNode(program.sd, 0, found[0], 0) == 1
        assert not any(nodes_of(program, "nobody"))
        for other, error in (
            (NOWHERE, "NO_REMOTE_LINK_ACCESS"),
            (UNKNOWN, "NO_SUCH_NODEID"),
            (0, "ILLEGAL_NODEID"),
            (252, "ILLEGAL_NODEID"),
        ):
            with fails(error) as failed:
                program.SCIProbeNode(program.sd, 0, other, 0)
            assert failed.value.value == 0


def nodes_of(program, name):
    """The node ids that a name has."""
    memory = program.allocate(PAGE)
    program.SCIGetNodeIdByAdapterName(f"text={name}", memory, 0)
    return struct.unpack("<4I", program.read(memory, 16))


# --- the end of a bridge


def test_a_bridge_that_fails_is_told_to_all_at_its_adapter(fabric):
    """SI-EVT-8, SI-EVT-9, SI-RSM-5, SI-CONSEG-8: to each segment once, and nobody connects over
    it any more; the other adapter goes on. The last test here: the bridge stays away."""
    host = fabric.rp
    places = host.run("ls /sys/bus/pci/drivers/ntb_hw_ivshmem | grep :").out.split()
    configure(fabric, *(f"adapter {n} {place}" for n, place in enumerate(places)))
    bus, device, function = (int(word, 16) for word in re.split("[:.]", places[1])[1:])
    stack.load(host, modules=("mp_local_test",))
    with ExitStack() as programs:
        at, *others = (programs.enter_context(Program(guest)) for guest in fabric.hosts)
        sisci.wait_until_reached(others[0], USER)
        sisci.wait_until_reached(others[1], USER)
        there = OWNER if reached(at, 1, OWNER) else THIRD
        partner, bystander = others if there == OWNER else others[::-1]
        at.adapter = 1
        told, alone, apart, heard = (Callback() for _ in range(4))
        at.segment(160, callback=told)
        at.segment(161, callback=alone)
        at.SCICreateSegment(at.sd, 162, PAGE, apart, SCI.FLAG_USE_CALLBACK)
        partner.connect(USER, 160)
        told.wait(1)
        partner.segment(163)
        connection = at.connect(there, 163, heard)
        local.command(host, f"channel {bus} {device << 3 | function} 3")
        for callback in (told, heard):
            until(lambda: "LOST" in callback.reasons())
        # The link goes down before or after.
        down = (SCI.CB_NOT_OPERATIONAL, error_number("NO_LINK_ACCESS"))
        fatal = (SCI.CB_FATAL, error_number("SYSTEM"))
        lost = (SCI.CB_LOST, error_number("NOT_CONNECTED"))
        assert [call for call in heard.calls() if call != down] == [fatal, lost]
        reasons = [reason for reason in told.reasons() if reason != "NOT_OPERATIONAL"]
        assert reasons == ["CONNECT", "FATAL", "LOST"]
        assert (alone.reasons(), apart.calls()) == (["FATAL"], [])
        with fails("NOT_CONNECTED"):
            at.map_remote(connection)
        with fails("NO_LINK_ACCESS"):
            at.connect(there, 163)
        at.adapter = 0
        at.segment(164)
        bystander.map_remote(bystander.connect(USER, 164))
    stack.unload(host, modules=("mp_local_test",))
