# SPDX-License-Identifier: GPL-2.0-only
"""What SISCI promises between hosts, and within one: two and three programs in C."""

import os
import re
import struct
import time
from contextlib import ExitStack, contextmanager

import pytest
import sharing
import sisci
from frames import peer_id, wait_for_everyone
from ntbrig import stack
from ntbrig.settings import PATIENCE, programs32_dir, programs_dir
from pximc import MODULES
from sharing import MP
from shell import INTACT, until
from sisci import FOREVER, NODES, ONES, PAGE, SCI, Callback, Program, fails, pair
from tracing import system_calls

PLACES = ("another host", "the same host")
LONG = os.environ.get("LONG") == "1"
# A user may have 4096 of what nobody has taken.
MANY = 4_000 if LONG else 400
# Different states that an observer has to have seen.
STATES = 200
MIB = 1 << 20
# Seconds without a sign of life after which a host is taken for dead: what is set by default.
TIMEOUT = 0.6
LINK = ("ntb_hw_ivshmem", "pximc_ntb")


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3)
    sisci.load(*fabric.hosts)
    return fabric


@pytest.fixture(params=PLACES)
def ends(request, fabric):
    with pair(fabric, request.param == "the same host") as both:
        yield both


@contextmanager
def unplugged(fabric, guest):
    fabric.unplug(guest)
    try:
        yield
    finally:
        fabric.plug(guest)


def connected(ends, number, size=PAGE):
    """A segment, and a connection that is mapped: by their handles and addresses."""
    owner, user, node = ends
    segment = owner.segment(number, size)
    _, local = owner.map_local(segment, size)
    connection = user.connect(node, number)
    mapped, remote = user.map_remote(connection, size)
    assert owner.local_event(segment)[0] == "CONNECT"
    return segment, local, connection, mapped, remote


# --- the end of an importer


def test_a_killed_importer_lets_go_of_everything(ends):
    """SI-CONSEG-11, SI-GEN-13, SI-EVT-2, SI-RMSEG-6: in each state that it may be in."""
    owner, user, node = ends
    told = Callback()
    segment = owner.segment(100, callback=told)
    plain = owner.interrupt_of(100)
    message = owner.data_interrupt_of(100)
    connections = [user.connect(node, 100) for _ in range(3)]
    user.sequence(user.map_remote(connections[0])[0])
    user.connect_interrupt(node, 100)
    user.send(user.connect_data_interrupt(node, 100), b"last words")
    told.wait(3)
    # It exports as well.
    user.segment(101)
    with fails("BUSY"):
        owner.SCIRemoveSegment(segment, 0)
    for remove, interrupt in (
        (owner.SCIRemoveInterrupt, plain),
        (owner.SCIRemoveDataInterrupt, message),
    ):
        with fails("BUSY"):
            remove(interrupt, 0)
    user.end()
    told.wait(6)
    assert told.reasons() == ["CONNECT"] * 3 + ["DISCONNECT"] * 3
    until(lambda: succeeds(owner.SCIRemoveInterrupt, plain))
    until(lambda: succeeds(owner.SCIRemoveDataInterrupt, message))
    owner.SCIRemoveSegment(segment, 0)
    # All names can be used again.
    owner.SCIRemoveSegment(owner.segment(100), 0)
    owner.SCIRemoveInterrupt(owner.interrupt_of(100), 0)
    with Program(user.guest) as other:
        other.SCIRemoveSegment(other.segment(101), 0)


def succeeds(function, handle):
    try:
        function(handle, 0)
    except sisci.SisciError as error:
        assert error.name == "BUSY"
        return False
    return True


def test_a_killed_importer_stores_no_more(ends):
    """SI-RMDMA-2: what it had copied in the background ends with it."""
    owner, user, node = ends
    segment, local, connection, _, _ = connected(ends, 102, 2 * MIB)
    source = user.SCICreateSegment(user.sd, 103, 2 * MIB, None, 0)
    user.SCIPrepareSegment(source, 0, 0)
    _, bytes_of_source = user.map_local(source, 2 * MIB)
    user.fill(bytes_of_source, 2 * MIB, 1)
    queue = user.queue()
    vector = user.allocate(PAGE)
    entry = b"".join(n.to_bytes(4, "little") for n in (2 * MIB, 0, 0, 0))
    user.write(vector, entry * 256)
    user.SCIStartDmaTransferVec(queue, source, connection, 256, vector, None, 0)
    assert user.dma_state(queue) == "POSTED"
    user.end()
    assert owner.local_event(segment)[0] == "DISCONNECT"
    # Whatever was written is the pattern's beginning or nothing; from now on it stays.
    owner.fill(local, 2 * MIB, 2)
    with Program(user.guest) as other:
        sisci.wait_until_reached(other, node)
        assert owner.check(local, 2 * MIB, 2) == INTACT
    assert owner.check(local, 2 * MIB, 2) == INTACT


# --- revocation


def test_who_is_put_out_stores_into_scrap(ends):
    """SI-MAPR-9, SI-UNAVAIL-4, SI-UNAVAIL-5, SI-NTB-7, SI-NTB-10, SI-SEQ-7: nobody else's
    memory is reached by a map of what has been revoked, and by no later one."""
    owner, user, node = ends
    segment, _, connection, mapped, remote = connected(ends, 104)
    sequence = user.sequence(mapped)
    assert user.start(sequence) == "OK"
    # What a program has stored itself it may find again.
    storing = user.later.storm(remote, PAGE // 2, 0x5A, 600)
    owner.SCISetSegmentUnavailable(segment, 0, SCI.FLAG_FORCE_DISCONNECT)
    assert [user.remote_event(connection)[0] for _ in range(2)] == ["DISCONNECT", "LOST"]
    # From here on the memory may be another's: of the same id, and of many others.
    with fails("BUSY"):  # its own map
        owner.SCIRemoveSegment(segment, 0)
    again = [owner.segment(number) for number in range(1040, 1072)]
    mapped_again = [owner.map_local(one)[1] for one in again]
    storing.result()
    assert all(owner.same(address, PAGE, 0) == INTACT for address in mapped_again)
    assert user.same(remote + PAGE // 2, PAGE // 2, ONES) == INTACT
    assert user.look(sequence) == "NOT_RETRIABLE"
    with fails("NOT_CONNECTED"):
        user.SCIStartSequence(sequence, 0)
    with fails("NOT_CONNECTED"):
        user.map_remote(connection)
    owner.SCISetSegmentAvailable(segment, 0, 0)
    with fails("NOT_CONNECTED"):
        user.map_remote(connection)
    with fails("BUSY"):
        user.SCIDisconnectSegment(connection, 0)
    user.SCIRemoveSequence(sequence, 0)
    user.SCIUnmapSegment(mapped, 0)
    user.SCIDisconnectSegment(connection, 0)
    assert user.connect(node, 104)


def test_memory_stays_until_its_last_user_is_gone(ends):
    """SI-NTB-9, SI-ATTSEG-3, SI-RMSEG-5: its creator may go first."""
    owner, user, node = ends
    segment, local, connection, _, remote = connected(ends, 105)
    owner.write(local, b"from the creator")
    owner.SCIShareSegment(segment, 0)
    with Program(owner.guest) as other:
        attached = other.SCIAttachLocalSegment(other.sd, 105, None, 0)
        assert attached.size == PAGE
        _, shared = other.map_local(attached.segment)
        owner.end()
        assert other.read(shared, 16) == b"from the creator"
        user.write(remote, b"to the survivors")
        sequence = user.sequence(user.map_remote(connection)[0])
        assert (user.start(sequence), user.look(sequence)) == ("OK", "OK")
        assert other.read(shared, 16) == b"to the survivors"
        with fails("SEGMENTID_USED"):
            other.SCICreateSegment(other.sd, 105, PAGE, None, 0)
    assert [user.remote_event(connection)[0] for _ in range(2)] == ["DISCONNECT", "LOST"]
    with Program(user.guest if node == NODES[0] else owner.guest) as third:
        fresh = third.segment(105)
        assert third.same(third.map_local(fresh)[1], PAGE, 0) == INTACT


# --- what has arrived when


def word(process, address):
    return int.from_bytes(process.read(address, 8), "little")


@contextmanager
def announced(user, sequence, data, flag, count=0, barrier=False):
    """A thread of `user` announces numbers, so many and until the end of this."""
    enough = user.allocate(8)
    working = user.later.announce(sequence, data, flag, count, enough, barrier)
    try:
        yield working
    finally:
        user.write(enough, b"\1" * 8)


@pytest.mark.parametrize("barrier", (False, True), ids=("check", "barrier"))
def test_what_is_announced_has_arrived(ends, barrier):
    """SI-SEQ-8, SI-SEQ-9, SI-CKSEQ-1, SI-CKSEQ-6, SI-STBAR-1: what was stored over one map is
    there before what is stored over another one, after a check or a barrier."""
    owner, user, node = ends
    _, data, _, mapped, remote = connected(ends, 106)
    _, flag, _, _, remote_flag = connected(ends, 107)
    count = 10_000_000 if LONG else 50_000
    sequence = user.sequence(mapped)
    with announced(user, sequence, remote, remote_flag, count, barrier) as working:
        looking = owner.later.observe(data, flag, count, STATES, count)
        seen = looking.result(count / 1000 + 30)
    done = working.result(60)
    assert done.done >= seen.seen >= count and done.error == 0
    assert seen.changes >= STATES
    assert seen.stale == 0
    assert {word(owner, data), word(owner, flag)} == {done.done}


def test_a_copy_arrives_without_a_flush(ends):
    """SI-MEMWR-3"""
    owner, user, node = ends
    size = 64 * PAGE
    _, local, _, _, remote = connected(ends, 108, size)
    source = user.allocate(size)
    for seed in range(1, 6):
        user.fill(source, size, seed)
        user.SCIMemWrite(source, remote, size, 0)
        until(lambda: owner.check(local, size, seed) == INTACT, 5)


def test_data_are_there_when_the_interrupt_is(ends):
    """SI-TRINT-2"""
    owner, user, node = ends
    _, local, _, _, remote = connected(ends, 109)
    here, there = user.interrupt_of(110), owner.interrupt_of(109)
    to = user.connect_interrupt(node, 109)
    back = owner.connect_interrupt(NODES[0], 110)
    collecting = owner.later.collect(there, back, local, 300)
    assert user.post(to, here, remote, 300).done == 300
    collected = collecting.result()
    assert (collected.done, collected.stale) == (300, 0)


def test_a_check_that_skips_the_barrier_reads_nothing(ends):
    """SI-CKSEQ-6, SI-SEQ-3, SI-SEQ-11: a map that cannot be read is no trouble then; with the
    barrier it ends the program. What is this host's own is never read."""
    owner, user, node = ends
    _, _, _, mapped, remote = connected(ends, 111)
    sequence = user.sequence(mapped)
    assert user.start(sequence) == "OK"
    user.protect(remote, PAGE)
    assert user.look(sequence, SCI.FLAG_NO_STORE_BARRIER) == "OK"
    skipped = SCI.FLAG_NO_STORE_BARRIER | SCI.FLAG_NO_FLUSH
    assert user.look(sequence, skipped) == "OK"
    if node == NODES[0]:
        assert user.look(sequence) == "OK"
    else:
        user.later.SCICheckSequence(sequence, 0)
        assert user.process.wait(20).rc == -11


def test_transfers_make_no_system_call(fabric):
    """SI-SEQ-10, SI-MAPR-1: neither stores nor checks do, as long as nothing happens."""
    with pair(fabric) as ends:
        owner, user, node = ends
        _, _, _, mapped, remote = connected(ends, 112)
        _, flag, _, _, remote_flag = connected(ends, 113)
        with announced(user, user.sequence(mapped), remote, remote_flag) as working:
            until(lambda: word(owner, flag) > 0, 20)
            with system_calls("sisci_shell", user.guest) as calls:
                start = word(owner, flag)
                user.guest.run("sleep 1")
                (made,) = calls()
                # It has been at it all the time.
                assert start < word(owner, flag)
                assert not working.returned()
                assert made == 0
        done = working.result(60)
        assert done.error == 0 and done.done == word(owner, flag)


def test_a_check_on_a_dead_link_returns_at_once(fabric):
    """SI-CKSEQ-8, SI-SEQ-6, SI-SEQ-5: and a copy with a check fails at once."""
    with pair(fabric) as ends:
        _, user, _ = ends
        _, _, connection, mapped, remote = connected(ends, 114)
        sequence = user.sequence(mapped)
        assert user.start(sequence) == "OK"
        with unplugged(fabric, fabric.hosts[1]):
            assert user.remote_event(connection) == ("NOT_OPERATIONAL", "NO_LINK_ACCESS")
            assert user.look(sequence) == "PENDING"
            assert user.seconds < 0.1 * PATIENCE
            assert user.start(sequence) == "PENDING"
            data = user.allocate(PAGE)
            with fails("TRANSFER_FAILED"):
                user.SCIMemCpy(sequence, data, mapped, 0, PAGE, SCI.FLAG_ERROR_CHECK)
            assert user.same(remote, PAGE, ONES) == INTACT
        assert user.remote_event(connection) == ("OPERATIONAL", "OK")
        assert (user.start(sequence), user.look(sequence)) == ("OK", "OK")


def test_a_client_lives_through_outages(fabric):
    """SI-SEQ-1, SI-EVT-5: every block is where it belongs, whatever happens to the cable."""
    with pair(fabric) as ends:
        owner, user, _ = ends
        block, rounds, outages = PAGE, 1_000, 3
        segment, local, _, mapped, remote = connected(ends, 115, 16 * block)
        sequence = user.sequence(mapped)
        working = user.later.transfer(sequence, remote, block, rounds, outages, 60_000)
        while not working.returned():
            fabric.unplug(fabric.hosts[1])
            until(lambda: not user.reaches(NODES[1]))
            fabric.plug(fabric.hosts[1])
            sisci.wait_until_reached(user, NODES[1])
        done = working.result(90)
        assert done.broken == 0
        assert done.done >= rounds and done.outages >= outages
        assert done.repeats + done.pendings >= outages
        for slot in range(16):
            last = done.done - 16 + slot
            assert owner.check(local + (last % 16) * block, block, last) == INTACT


def test_a_customary_program_runs_as_it_is(fabric):
    """SI-CONSEG-6, SI-SEQ-1, SI-RMSEG-2, SI-RMINT-2: on both hosts, whichever comes first."""
    program = programs_dir() / "sisci_customary"
    env = {"SISCI_CONF": sisci.CONFIG}
    sides = [
        (fabric.hosts[here].spawn([program, str(NODES[1 - here])], 60, env=env), NODES[1 - here])
        for here in (1, 0)
    ]
    for side, other in sides:
        out = side.wait().check().out
        assert f"node {other} has been here\n" in out
        assert out.startswith(f"reason {SCI.CB_CONNECT} node {other} adapter 0 error 0x0\n")


# --- waits


def test_a_wait_for_a_transfer_may_end_early(ends):
    """SI-WDMA-4: after a signal or the time the transfer goes on, and can be waited for."""
    owner, user, node = ends
    size = 2 * MIB
    _, local, connection, _, _ = connected(ends, 116, size)
    source = user.SCICreateSegment(user.sd, 117, size, None, 0)
    user.SCIPrepareSegment(source, 0, 0)
    user.fill(user.map_local(source, size)[1], size, 3)
    queue = user.queue()
    vector = user.allocate(PAGE)
    entry = b"".join(n.to_bytes(4, "little") for n in (size, 0, 0, 0))
    user.write(vector, entry * 256)
    user.SCIStartDmaTransferVec(queue, source, connection, 256, vector, None, 0)
    waiting = user.later.SCIWaitForDMAQueue(queue, FOREVER, 0)
    # It may not wait yet when the first one comes.
    until(lambda: user.interrupt(3) or waiting.returned())
    with fails("CANCELLED"):
        waiting.result()
    with fails("TIMEOUT"):
        user.SCIWaitForDMAQueue(queue, 0, 0)
    assert sisci.DMA[user.SCIWaitForDMAQueue(queue, FOREVER, 0)] == "DONE"
    assert owner.check(local, size, 3) == INTACT
    user.fill(user.map_local(source, size)[1], size, 4)
    user.SCIStartDmaTransfer(queue, source, connection, 0, size, 0, None, 0)
    assert sisci.DMA[user.SCIWaitForDMAQueue(queue, FOREVER, 0)] == "DONE"
    assert owner.check(local, size, 4) == INTACT


def test_no_event_is_lost_that_nobody_takes(ends):
    """SI-EVT-10: connections come and go, and their events are there in order afterwards."""
    owner, user, node = ends
    segment = owner.segment(118)
    cycled = user.later.cycle(user.sd, node, 118, MANY).result(MANY / 20 + 30)
    assert (cycled.done, cycled.error) == (MANY, 0)
    taken = owner.later.drain(segment, 2 * MANY).result(MANY / 20 + 30)
    assert (taken.taken, taken.disorder, taken.error) == (2 * MANY, 0, 0)
    with fails("TIMEOUT"):
        owner.local_event(segment, 0)


def test_a_callback_runs_on_a_thread_or_there_is_no_object(fabric):
    """SI-GEN-18: a program that may have no more threads."""
    with Program(fabric.rp) as program:
        pid = program.pid
        status = program.guest.read(f"/proc/{pid}/status")
        (used,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmSize")]
        program.guest.run(f"prlimit --pid {pid} --as={(int(used) + 1024) * 1024}")
        with fails("SYSTEM") as failed:
            program.segment(119, callback=Callback())
        assert failed.value.errno != 0
        with fails("SYSTEM"):
            program.interrupt_of(119, callback=Callback())
        # Neither is there.
        program.SCIRemoveSegment(program.segment(119), 0)
        program.SCIRemoveInterrupt(program.interrupt_of(119), 0)


# --- interrupts and messages


def test_many_interrupts_share_the_doorbells(fabric):
    """SI-NTB-11: each of them reaches its own receiver."""
    with ExitStack() as programs:
        owner, user, node = programs.enter_context(pair(fabric))
        # A program has a limited number of objects, and an adapter several interfaces.
        owners = [owner]
        for _ in range(1 if LONG else 0):
            owners.append(programs.enter_context(Program(owner.guest)))
        numbers = range(2000, 2000 + 250 * len(owners))
        told = {number: Callback() for number in numbers}
        for number in numbers:
            of = owners[number % len(owners)]
            of.interrupt_of(number, SCI.FLAG_COUNTING_INT, told[number])
        to = {number: user.connect_interrupt(node, number) for number in numbers}
        for number in numbers:
            user.repeat(1 + number % 3, "SCITriggerInterrupt", to[number], 0)
        for number in numbers:
            told[number].wait(1 + number % 3)
        assert all(len(told[number].calls()) == 1 + number % 3 for number in numbers)


def test_a_full_queue_of_messages_says_so_and_loses_nothing(ends):
    """SI-NTB-14, SI-TRDINT-3"""
    owner, user, node = ends
    queue = owner.data_interrupt_of(120)
    to = user.connect_data_interrupt(node, 120)
    sent = 0
    with fails("NOSPC"):
        while sent < 5000:
            user.send(to, sent.to_bytes(4, "little") * 256)
            sent += 1
    assert sent >= SCI.DATA_INTERRUPT_QUEUE
    for n in range(sent):
        assert owner.receive(queue) == n.to_bytes(4, "little") * 256
    with fails("TIMEOUT"):
        owner.receive(queue, 0)
    user.send(to, b"room again")
    assert owner.receive(queue) == b"room again"


def test_a_message_reaches_all_hosts(fabric):
    """SI-CONDINT-2, SI-NTB-23, SI-CRDINT-2: three of them, the sender's own among them."""
    with Program(fabric.hosts[0]) as a, Program(fabric.hosts[1]) as b, Program(
        fabric.hosts[2]
    ) as c:
        for program in (a, b, c):
            sisci.wait_until_reached(program, *NODES)
        queues = [program.data_interrupt_of(121) for program in (a, b, c)]
        to = b.connect_data_interrupt(SCI.DIS_BROADCAST_NODEID_GROUP_ALL, 121, SCI.FLAG_BROADCAST)
        b.send(to, b"to whom it may concern")
        for program, queue in zip((a, b, c), queues):
            assert program.receive(queue) == b"to whom it may concern"
        # One of them is gone: the others have it all the same.
        c.end()
        until(lambda: gone(b, to))
        for program, queue in zip((a, b), queues):
            until(lambda: program.receive(queue) == b"the last one")
        b.SCIDisconnectDataInterrupt(to, 0)


def gone(program, to):
    """Whether a receiver is known to be missing."""
    try:
        program.send(to, b"in between")
        return False
    except sisci.SisciError as error:
        assert error.name == "NOT_CONNECTED"
        with fails("NOT_CONNECTED"):
            program.send(to, b"the last one")
        return True


# --- what a program maps, and how much


def test_what_is_mapped_is_not_inherited_and_does_not_grow(fabric):
    """SI-NTB-8, SI-NTB-13, SI-NTB-24: a program has its windows, its status and nothing else
    of the device."""
    with pair(fabric) as ends:
        _, user, _ = ends
        _, _, connection, mapped, remote = connected(ends, 122)
        sequence = user.sequence(mapped)
        assert user.start(sequence) == "OK"
        areas = device_areas(user)
        writable = [area for area in areas if "w" in area.access]
        assert [(area.start, area.size) for area in writable] == [(remote, PAGE)]
        # The status words, which are for reading alone.
        (status,) = [area for area in areas if "w" not in area.access]
        assert "x" not in status.access
        for area in areas:
            assert {"dc", "de"} <= area.flags
        user.SCIMapRemoteSegment(connection, 0, PAGE, 0, 0)
        assert len(device_areas(user)) == len(areas) + 1


def peers_memory(guest):
    """First and last addresses of what leads to the memory of other hosts."""
    bars = guest.run("cat /sys/bus/pci/devices/*/resource").out.splitlines()
    bars = [[int(word, 16) for word in line.split()[:2]] for line in bars]
    largest = max(end - start for start, end in bars)
    return [(start, end) for start, end in bars if end - start == largest]


def own_memory(guest):
    """First and last addresses of what the host has itself."""
    lines = re.findall(r"^(\w+)-(\w+) : System RAM$", guest.read("/proc/iomem"), re.M)
    return [(int(start, 16), int(end, 16)) for start, end in lines]


def is_inside(ranges, address):
    return any(start <= address <= end for start, end in ranges)


UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


def test_privileged_programs_are_told_where_a_map_is(fabric):
    """SI-MAPPA-1, SI-MAPPA-2, SI-QUERY-6, SI-QUERY-7, SI-QUERY-8, SI-QUERY-9, SI-QUERY-10,
    SI-QUERY-11: in memory of this host, or in the window to that of the other one; 0 without
    privilege, of no map, and of what leads to nobody."""
    of_map = (SCI.Q_MAP_PHYS_ADDR, SCI.Q_MAP_IOADDR)
    with pair(fabric) as ends:
        owner, user, node = ends
        owner.segment(126, 2 * PAGE)
        connection = user.connect(node, 126)

        def base(program=user, segment=connection):
            return program.about(SCI.Q_REMOTE_SEGMENT, segment, SCI.Q_REMOTE_SEGMENT_IOADDR)

        with fails("ILLEGAL_OPERATION"):
            base()
        mapped, _ = user.map_remote(connection, 2 * PAGE)
        segment = user.segment(127, 2 * PAGE)

        def about_segment(subcommand):
            return user.about(SCI.Q_LOCAL_SEGMENT, segment, subcommand)

        local, _ = user.map_local(segment, PAGE, PAGE)
        own = user.SCIGetMapPhysAddr(local)
        assert is_inside(own_memory(user.guest), own)
        assert user.about(SCI.Q_MAP, local, SCI.Q_MAP_PHYS_ADDR) == own
        assert about_segment(SCI.Q_LOCAL_SEGMENT_PHYS_ADDR) == own - PAGE
        assert about_segment(SCI.Q_LOCAL_SEGMENT_VIRTUAL_KERNEL_ADDR) == 0
        far = user.SCIGetMapPhysAddr(mapped)
        assert is_inside(peers_memory(user.guest), far)
        assert base() == far
        part, _ = user.map_remote(connection, 16, PAGE + 32)
        assert user.SCIGetMapPhysAddr(part) == far + PAGE + 32
        for subcommand in of_map:
            assert user.about(SCI.Q_MAP, part, subcommand) == far + PAGE + 32
        assert user.SCIGetMapPhysAddr(0) == 0
        with Program(user.guest, how=UNPRIVILEGED) as other:
            theirs = other.connect(node, 126)
            view, _ = other.map_remote(theirs, PAGE)
            assert other.SCIGetMapPhysAddr(view) == base(other, theirs) == 0
            for subcommand in of_map:
                assert other.about(SCI.Q_MAP, view, subcommand) == 0
        owner.end()
        until(lambda: user.SCIGetMapPhysAddr(mapped) == 0)
        assert base() == user.about(SCI.Q_MAP, mapped, SCI.Q_MAP_IOADDR) == 0


def test_a_window_combines_stores(fabric):
    """SI-NTB-8: as the processor has been told, for all maps of the same place."""
    with pair(fabric) as ends:
        connected(ends, 125)
        guest = ends[1].guest
        windows = peers_memory(guest)
        guest.run("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
        told = guest.read("/sys/kernel/debug/x86/pat_memtype_list")
        found = re.findall(r"\[mem 0x(\w+)-0x\w+\] (\S+)", told)
        inside = {kind for at, kind in found if is_inside(windows, int(at, 16))}
        assert inside == {"write-combining"}


class Area:
    def __init__(self, head, flags):
        self.start, end = (int(word, 16) for word in head.split()[0].split("-"))
        self.size = end - self.start
        self.access = head.split()[1]
        self.flags = set(flags.split()[1:])


def device_areas(program):
    text = program.guest.read(f"/proc/{program.pid}/smaps")
    found, head = [], ""
    for line in text.splitlines():
        if line.split()[0].count("-") == 1 and not line.startswith("Vm"):
            head = line
        elif line.startswith("VmFlags") and "/dev/mp_fabric" in head:
            found.append(Area(head, line))
    return found


def test_offsets_that_nobody_was_given_cannot_be_mapped(fabric):
    """SI-NTB-7, SI-NTB-13, SI-NTB-24: what others have mapped, and what has been closed."""
    with sharing.Process(fabric.rp) as process, sharing.Process(fabric.rp) as other:
        loopback = process.interface(loopback=True)
        segment = process.segment(123, PAGE, loopback)
        connection = process.connect(loopback, MP.OBJECT_SEGMENT, 123)
        offset = process.call("CONNECTION", "mp_connection", handle=connection).offset
        assert process.map(offset, PAGE)
        for stranger in range(0, 1 << 20, 64 * PAGE):
            with pytest.raises(OSError):
                other.map(stranger, PAGE)
        with pytest.raises(OSError):
            other.map(offset, PAGE)
        process.close(connection)
        with pytest.raises(OSError):
            process.map(offset, PAGE)
        again = process.connect(loopback, MP.OBJECT_SEGMENT, 123)
        with pytest.raises(OSError):
            process.map(offset, PAGE)
        process.close(again)
        process.remove(segment)


def test_programs_of_32_and_of_64_bits_share_memory(fabric):
    """SI-NTB-19: the calls and structures of the device are the same for both."""
    if not (programs32_dir() / "share_shell").exists():
        pytest.skip("there are no programs of 32 bits")
    with sharing.Process(fabric.rp, bits=32) as owner, sharing.Process(fabric.rp) as user:
        loopback = owner.interface(loopback=True)
        segment = owner.segment(125, 2 * PAGE, loopback)
        event = owner.offer(loopback, MP.OBJECT_EVENT, 125, MP.OFFER_COUNTED)
        local = owner.map_segment(segment)
        connection = user.connect(loopback, MP.OBJECT_SEGMENT, 125)
        remote = user.map_connection(connection)
        user.write(remote + PAGE, b"as wide as it is")
        user.signal(user.connect(loopback, MP.OBJECT_EVENT, 125))
        assert owner.wait(event, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
        assert owner.read(local + PAGE, 16) == b"as wide as it is"
        assert owner.notice(segment) == MP.NOTICE_CONNECTED


def test_a_program_ends_although_its_peer_is_dead(fabric):
    """SI-NTB-15, SI-NTB-18, SI-GEN-13: with everything that it has, and nobody who answers. It has
    been told of that when no sign of life has come for the time that is set."""
    with pair(fabric) as ends:
        owner, user, node = ends
        connection = connected(ends, 126)[2]
        user.segment(127)
        user.connect_interrupt(node, owner_interrupt(owner, 126))
        hung = fabric.hosts[1]
        start = time.monotonic()
        hung.freeze()
        try:
            assert user.remote_event(connection) == ("NOT_OPERATIONAL", "NO_LINK_ACCESS")
            assert 0.8 * TIMEOUT < time.monotonic() - start < TIMEOUT + 4 * PATIENCE
            start = time.monotonic()
            user.end()
            assert time.monotonic() - start < 5 * PATIENCE
            with Program(fabric.hosts[0]) as other:
                other.SCIRemoveSegment(other.segment(127), 0)
        finally:
            hung.thaw()
        sisci.wait_until_reached(owner, NODES[0])


def owner_interrupt(owner, number):
    owner.interrupt_of(number)
    return number


def test_an_adapter_may_go_and_come_back(fabric):
    """SI-LSM-5, SI-NTB-21: a segment is available at another one as before, and has to be
    prepared again at this one."""
    host = fabric.hosts[2]
    (place,) = host.run("ls /sys/bus/pci/drivers/ntb_hw_ivshmem | grep :").out.split()
    sisci.configure(*fabric.hosts, extra=[f"adapter 1 {place}"])
    try:
        with Program(host, adapter=1) as owner:
            told = Callback()
            segment = owner.segment(128, callback=told)
            with sharing.Process(fabric.hosts[0]) as importer:
                there = link_to(importer, peer_id(host))
                importer.connect(there, MP.OBJECT_SEGMENT, 128)
                told.wait(1)
                stack.unload(host, modules=LINK)
                told.wait(3)
            try:
                assert told.reasons() == ["CONNECT", "NOT_OPERATIONAL", "LOST"]
                with fails("NO_SUCH_ADAPTERNO"):
                    owner.SCISetSegmentAvailable(segment, 1, 0)
            finally:
                stack.load(host, modules=LINK)
            until(lambda: adapter_is_there(owner, segment))
            owner.SCIPrepareSegment(segment, 1, 0)
            owner.SCISetSegmentAvailable(segment, 1, 0)
            owner.SCIRemoveSegment(segment, 0)
    finally:
        sisci.configure(*fabric.hosts)
        wait_for_everyone(*fabric.hosts)


def adapter_is_there(owner, segment):
    """Whether it is; it does not know the segment."""
    with pytest.raises(sisci.SisciError) as raised:
        owner.SCISetSegmentAvailable(segment, 1, 0)
    assert raised.value.name in ("NO_SUCH_ADAPTERNO", "SEGMENT_NOT_PREPARED")
    return raised.value.name == "SEGMENT_NOT_PREPARED"


def link_to(process, peer):
    """The interface of a process that leads to a host."""
    found = process.call("INTERFACES", "mp_interfaces", capacity=16, ids=process.buffer)
    ids = struct.unpack(f"={found.count}I", process.read(process.buffer, 4 * found.count))
    infos = [(number, process.call("INTERFACE", "mp_interface", id=number)) for number in ids]
    (there,) = [number for number, info in infos if info.peer == peer and info.flags & 1]
    return there


def test_the_largest_segment_that_fits_is_found(fabric):
    """SI-NTB-20, SI-CRSEG-6, SI-PREP-3, SI-GEN-5: a page more has no room."""
    with Program(fabric.hosts[1]) as owner:

        def fits(pages):
            try:
                segment = owner.SCICreateSegment(owner.sd, 124, pages * PAGE, None, 0)
            except sisci.SisciError as error:
                assert error.name in ("NOSPC", "HW_NOSPC")
                return False
            try:
                owner.SCIPrepareSegment(segment, 0, 0)
                return True
            except sisci.SisciError as error:
                assert error.name == "HW_NOSPC"
                return False
            finally:
                owner.SCIRemoveSegment(segment, 0)

        low, high = 1, 1 << 20
        assert fits(low) and not fits(high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        size = low * PAGE
        owner.segment(124, size)
        with Program(fabric.hosts[0]) as user:
            sisci.wait_until_reached(user, NODES[1])
            _, remote = user.map_remote(user.connect(NODES[1], 124), PAGE, size - PAGE)
            user.fill(remote, PAGE, 4)
            assert user.check(remote, PAGE, 4) == INTACT


def test_no_trigger_is_lost_with_its_doorbell(fabric):
    """SI-NTB-12: bridges that lose interrupts cost time. The last test here: it takes all
    modules away."""
    stack.unload(*fabric.hosts, modules=MODULES)
    sisci.load(*fabric.hosts, parameters={"ntb_hw_ivshmem": "lose_doorbells=3"})
    with pair(fabric) as (owner, user, node):
        interrupt = owner.interrupt_of(129, SCI.FLAG_COUNTING_INT)
        to = user.connect_interrupt(node, 129, SCI.FLAG_COUNTING_INT)
        queue = owner.data_interrupt_of(129)
        out = user.connect_data_interrupt(node, 129)
        assert user.repeat(300, "SCITriggerInterrupt", to, 0).done == 300
        for n in range(40):
            user.send(out, n.to_bytes(4, "little"))
        for n in range(40):
            assert owner.receive(queue) == n.to_bytes(4, "little")
        until(lambda: owner.repeat(1000, "SCIWaitForInterrupt", interrupt, 2000, 0).done == 300)
        with fails("TIMEOUT"):
            owner.receive(queue, 0)
