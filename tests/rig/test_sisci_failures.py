# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of everything that programs of SISCI hold when one side goes away, in each way
to go: who is left is told once and for the right reason, stores go nowhere, names can be used
again, and nobody else notices."""

from contextlib import ExitStack
from typing import NamedTuple, Optional

import pytest
import sisci
from frames import wait_for_everyone
from ntbrig import stack
from pximc import MODULES
from shell import INTACT, until
from sisci import NODES, ONES, PAGE, SCI, Callback, Program, fails

MIB = 1 << 20
ROOT, EXPORTER, IMPORTER = range(3)
# Ids of what is held.
MAPPED, CONNECTED, PLAIN, MESSAGES, COPIED, SOURCE, LATER = range(200, 207)


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3)
    sisci.load(*fabric.hosts)
    return fabric


# --- those who have nothing to do with it


class Bystanders:
    """A program on the root processor that exports, and one on each other host that imports."""

    def __init__(self, fabric):
        self._fabric = fabric
        self._programs = ExitStack()
        self._owner = self._programs.enter_context(Program(fabric.hosts[ROOT]))
        _, self._local = self._owner.map_local(self._owner.segment(300, 4 * PAGE), 4 * PAGE)
        self._importers = {}
        self._rounds = 0

    def renew(self, host):
        """A new one on a host that has been away."""
        program = self._programs.enter_context(Program(self._fabric.hosts[host]))
        sisci.wait_until_reached(program, NODES[ROOT])
        told = Callback()
        connection = program.connect(NODES[ROOT], 300, told)
        mapped, remote = program.map_remote(connection, PAGE, host * PAGE)
        sequence = program.sequence(mapped)
        assert program.start(sequence) == "OK"
        self._importers[host] = program, told, remote, sequence

    def go_on(self, host):
        """The one on a host still stores, and has noticed nothing."""
        program, told, remote, sequence = self._importers[host]
        self._rounds += 1
        program.fill(remote, PAGE, self._rounds)
        assert program.look(sequence) == "OK"
        assert self._owner.check(self._local + host * PAGE, PAGE, self._rounds) == INTACT
        assert told.calls() == []

    def close(self):
        self._programs.close()


@pytest.fixture(scope="module")
def bystanders(fabric):
    found = Bystanders(fabric)
    for host in (EXPORTER, IMPORTER):
        found.renew(host)
    yield found
    found.close()


# --- what is held


class Scene:
    """An exporter and an importer, on two hosts or on one."""

    def __init__(self, fabric, same=False):
        self.fabric = fabric
        self.there = EXPORTER
        self.here = EXPORTER if same else IMPORTER
        self.node = NODES[EXPORTER]
        self._programs = ExitStack()
        self.owner = self.program(self.there)
        self.user = self.program(self.here)

    def program(self, host):
        program = self._programs.enter_context(Program(self.fabric.hosts[host]))
        sisci.wait_until_reached(program, NODES[EXPORTER], NODES[self.here])
        return program

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._programs.close()


class Segment:
    """A segment that is connected to, with callbacks on both sides."""

    number = CONNECTED
    size = PAGE

    def __init__(self, scene):
        self.scene, self.user = scene, scene.user
        self.owners, self.users = Callback(), Callback()
        self.segment = scene.owner.segment(self.number, self.size, self.owners)
        self.connection = scene.user.connect(scene.node, self.number, self.users)
        assert self.reasons(self.owners, 1) == ["CONNECT"]

    @staticmethod
    def reasons(callback, count):
        callback.wait(count)
        return callback.reasons()

    def during_outage(self):
        pass

    def check(self, way):
        """Both sides have been told what has happened, and nothing else."""
        if way.owner is not None:
            wanted = ["CONNECT", *way.owner]
            assert self.reasons(self.owners, len(wanted)) == wanted
        if way.user is not None:
            assert self.reasons(self.users, len(way.user)) == list(way.user)
            told = [sisci.error_name(status) for _, status in self.users.calls()]
            assert told == [_STATUS[reason] for reason in way.user]

    def close(self, way):
        if way.user is not None:
            self.user.SCIDisconnectSegment(self.connection, 0)
        if way.owner is not None and way.segment_stays:
            until(lambda: not_busy(self.scene.owner.SCIRemoveSegment, self.segment))

    def again(self, owner, user):
        """The id can be used again, and the memory has nobody else's traces."""
        segment = owner.segment(self.number, PAGE)
        _, local = owner.map_local(segment)
        assert owner.same(local, PAGE, 0) == INTACT
        connection = user.connect(self.scene.node, self.number)
        mapped, remote = user.map_remote(connection)
        sequence = user.sequence(mapped)
        assert user.start(sequence) == "OK"
        user.fill(remote, PAGE, 9)
        assert user.look(sequence) == "OK"
        assert owner.check(local, PAGE, 9) == INTACT


_STATUS = {
    "DISCONNECT": "OK",
    "NOT_OPERATIONAL": "NO_LINK_ACCESS",
    "OPERATIONAL": "OK",
    "LOST": "NOT_CONNECTED",
}


class Mapped(Segment):
    """The segment is mapped by the importer, which has begun a sequence."""

    number = MAPPED

    def __init__(self, scene):
        super().__init__(scene)
        self.map, self.remote = self.user.map_remote(self.connection)
        self.sequence = self.user.sequence(self.map)
        assert self.user.start(self.sequence) == "OK"
        self.user.fill(self.remote, PAGE, 5)
        assert self.user.look(self.sequence) == "OK"

    def during_outage(self):
        assert self.user.same(self.remote, PAGE, ONES) == INTACT
        assert self.user.look(self.sequence) == "PENDING"

    def check(self, way):
        super().check(way)
        if way.user is None:
            return
        if way.valid:
            user = self.user
            until(lambda: user.start(self.sequence) == "OK")
            user.fill(self.remote, PAGE, 6)
            assert user.look(self.sequence) == "OK"
            _, local = self.scene.owner.map_local(self.segment)
            assert self.scene.owner.check(local, PAGE, 6) == INTACT
            return
        assert self.user.look(self.sequence) == "NOT_RETRIABLE" or way.outage
        with fails("NOT_CONNECTED"):
            self.user.SCIStartSequence(self.sequence, 0)
        with fails("NOT_CONNECTED"):
            self.user.map_remote(self.connection)
        # Reads are ones, and stores are nobody's business, while memory is given out again.
        owner = self.scene.owner if way.owner is not None else self.scene.program(self.scene.there)
        _, theirs = owner.map_local(owner.segment(LATER, 16 * PAGE), 16 * PAGE)
        owner.fill(theirs, 16 * PAGE, 8)
        assert self.user.same(self.remote, PAGE, ONES) == INTACT
        # What a program stores there it may find again itself.
        self.user.storm(self.remote, PAGE, 0x77, 100)
        assert owner.check(theirs, 16 * PAGE, 8) == INTACT

    def close(self, way):
        if way.user is not None:
            self.user.SCIRemoveSequence(self.sequence, 0)
            self.user.SCIUnmapSegment(self.map, 0)
        # The exporter's own map of what is valid goes with the program.
        if not (way.valid and way.owner is not None):
            super().close(way)


class Copied(Segment):
    """A queue of the importer is busy with the segment."""

    number = COPIED
    size = MIB

    def __init__(self, scene):
        super().__init__(scene)
        user = self.user
        self.map, _ = user.map_remote(self.connection)
        self.source = user.SCICreateSegment(user.sd, SOURCE, self.size, None, 0)
        user.SCIPrepareSegment(self.source, 0, 0)
        self.queue = user.queue()
        self.busy = user.later.churn(self.queue, self.source, self.connection, self.size)
        until(lambda: user.dma_state(self.queue) == "POSTED")

    def check(self, way):
        super().check(way)
        if way.user is None:
            return
        user = self.user
        if way.valid and not way.outage:
            assert not self.busy.returned()
            until(self.aborted)
        # It fails under way, or is not even started.
        wanted = ("CANCELLED",) if way.valid and not way.outage else _FAILED
        assert sisci.error_name(self.busy.result().error) in wanted
        assert user.dma_state(self.queue) != "POSTED"

    def aborted(self):
        """Abort one of the transfers; whether it was one that was under way."""
        self.user.SCIAbortDMAQueue(self.queue, 0)
        return self.busy.returned()

    def close(self, way):
        if way.user is not None:
            self.user.SCIRemoveDMAQueue(self.queue, 0)
            self.user.SCIUnmapSegment(self.map, 0)
            self.user.SCIRemoveSegment(self.source, 0)
        super().close(way)


_FAILED = ("TRANSFER_FAILED", "SEGMENT_NOT_CONNECTED")


class Plain:
    """An interrupt, which a callback takes."""

    def __init__(self, scene):
        self.scene, self.user = scene, scene.user
        self.told = Callback()
        self.interrupt = self.make(scene.owner)
        self.remote = self.connect(scene.user)
        self.trigger()
        self.told.wait(1)

    def make(self, owner):
        return owner.interrupt_of(PLAIN, SCI.FLAG_COUNTING_INT, self.told)

    def connect(self, user):
        return user.connect_interrupt(self.scene.node, PLAIN)

    def trigger(self):
        self.user.SCITriggerInterrupt(self.remote, 0)

    def disconnect(self):
        self.user.SCIDisconnectInterrupt(self.remote, 0)

    def remove(self):
        return self.scene.owner.SCIRemoveInterrupt

    error_in_outage = "NO_LINK_ACCESS"

    def stays(self, way):
        """Whether the connection is good in the end."""
        return way.interrupts_stay

    def during_outage(self):
        with fails(self.error_in_outage):
            self.trigger()

    def check(self, way):
        if way.user is None:
            return
        if self.stays(way):
            until(self.triggers)
            self.told.wait(2)
        else:
            until(lambda: self.error() == "NOT_CONNECTED")
        assert len(self.told.calls()) == (2 if self.stays(way) else 1)

    def triggers(self):
        return self.error() is None

    def error(self):
        try:
            self.trigger()
        except sisci.SisciError as error:
            assert error.name in ("NO_LINK_ACCESS", "NOT_CONNECTED")
            return error.name
        return None

    def close(self, way):
        if way.user is not None:
            self.disconnect()
        if way.owner is not None:
            until(lambda: not_busy(self.remove(), self.interrupt))

    def again(self, owner, user):
        self.told, self.user = Callback(), user
        self.make(owner)
        self.remote = self.connect(user)
        self.trigger()
        self.told.wait(1)


class Messages(Plain):
    """An interrupt with messages. Nobody knows of those under way what becomes of them in an
    outage: the connection ends with the link."""

    error_in_outage = "NOT_CONNECTED"

    def stays(self, way):
        return way.interrupts_stay and not way.outage

    def make(self, owner):
        return owner.data_interrupt_of(MESSAGES, 0, self.told)

    def connect(self, user):
        return user.connect_data_interrupt(self.scene.node, MESSAGES)

    def trigger(self):
        self.user.send(self.remote, b"a message")

    def disconnect(self):
        self.user.SCIDisconnectDataInterrupt(self.remote, 0)

    def remove(self):
        return self.scene.owner.SCIRemoveDataInterrupt


def not_busy(function, handle):
    try:
        function(handle, 0)
    except sisci.SisciError as error:
        assert error.name == "BUSY"
        return False
    return True


KINDS = {
    "map": (Mapped,),
    "connection": (Segment,),
    "interrupt": (Plain,),
    "messages": (Messages,),
    "transfer": (Copied,),
}
KINDS["everything"] = tuple(kind for (kind,) in KINDS.values())


# --- ways to go


def kill_importer(scene, _):
    scene.user.end()


def kill_exporter(scene, _):
    scene.owner.end()


def notify(scene, held):
    for one in segments(held):
        scene.owner.SCISetSegmentUnavailable(one.segment, 0, SCI.FLAG_NOTIFY)


def force_disconnect(scene, held):
    for one in segments(held):
        scene.owner.SCISetSegmentUnavailable(one.segment, 0, SCI.FLAG_FORCE_DISCONNECT)


def force_remove(scene, held):
    for one in segments(held):
        scene.owner.SCIRemoveSegment(one.segment, SCI.FLAG_FORCE_REMOVE)


def segments(held):
    return [one for one in held if isinstance(one, Segment)]


def unplug_shortly(scene, held):
    exporter = scene.fabric.hosts[EXPORTER]
    scene.fabric.unplug(exporter)
    try:
        until(lambda: not scene.user.reaches(scene.node))
        for one in segments(held):
            one.users.wait(1)
            one.owners.wait(2)
        for one in held:
            one.during_outage()
    finally:
        scene.fabric.plug(exporter)


def unplug(scene, held):
    """For longer than connections wait."""
    exporter = scene.fabric.hosts[EXPORTER]
    scene.fabric.unplug(exporter)
    try:
        until(lambda: not scene.user.reaches(scene.node))
        for one in segments(held):
            one.users.wait(2, 40)
            one.owners.wait(3, 40)
        scene.user.guest.run("sleep 11" if not segments(held) else "true")
    finally:
        scene.fabric.plug(exporter)


def unload(scene, _):
    """The exporter's host loses its link, and gets it back."""
    exporter = scene.fabric.hosts[EXPORTER]
    stack.unload(exporter, modules=("pximc_ntb",))
    stack.load(exporter, modules=("pximc_ntb",))
    wait_for_everyone(*scene.fabric.hosts)


def kill_host(which):
    def kill(scene, _):
        guest = scene.fabric.hosts[which]
        guest.kill()
        guest.boot()
        stack.load(guest, modules=MODULES)
        wait_for_everyone(*scene.fabric.hosts)
        sisci.configure(*scene.fabric.hosts)

    return kill


class Way(NamedTuple):
    """Reasons that the exporter and the importer are told; None if it has gone itself."""

    go: callable
    owner: Optional[tuple] = ()
    user: Optional[tuple] = ()
    # Whether the map is good in the end, interrupts are there, and the exporter has its segment.
    valid: bool = False
    interrupts_stay: bool = False
    segment_stays: bool = True
    # Whether links are down meanwhile, and whose bystander is not to notice.
    outage: bool = False
    untouched: tuple = (EXPORTER, IMPORTER)
    # What has to be started anew.
    renewed: tuple = ()


GONE = ("DISCONNECT", "LOST")
DOWN = ("NOT_OPERATIONAL", "LOST")
BACK = ("NOT_OPERATIONAL", "OPERATIONAL")
WAYS = {
    "importer killed": Way(kill_importer, ("DISCONNECT",), None),
    "exporter killed": Way(kill_exporter, None, GONE),
    "withdrawn": Way(notify, (), ("DISCONNECT",), valid=True, interrupts_stay=True),
    "disconnected by force": Way(force_disconnect, (), GONE, interrupts_stay=True),
    "removed by force": Way(force_remove, (), GONE, interrupts_stay=True, segment_stays=False),
    "short outage": Way(
        unplug_shortly,
        BACK,
        BACK,
        valid=True,
        interrupts_stay=True,
        outage=True,
        untouched=(IMPORTER,),
        renewed=(EXPORTER,),
    ),
    "long outage": Way(
        unplug, DOWN, DOWN, outage=True, untouched=(IMPORTER,), renewed=(EXPORTER,)
    ),
    "bridge unloaded": Way(
        unload, DOWN, DOWN, outage=True, untouched=(IMPORTER,), renewed=(EXPORTER,)
    ),
    "exporter's host killed": Way(
        kill_host(EXPORTER), None, DOWN, outage=True, untouched=(IMPORTER,), renewed=(EXPORTER,)
    ),
    "importer's host killed": Way(
        kill_host(IMPORTER), DOWN, None, outage=True, untouched=(EXPORTER,), renewed=(IMPORTER,)
    ),
}
WITHIN = ("importer killed", "exporter killed", "withdrawn", *list(WAYS)[3:5])


def cases():
    """Each way with everything; with each thing alone in the long suite."""
    for way in WAYS:
        for what in KINDS:
            for same in (False, True):
                if same and (way not in WITHIN or what != "everything"):
                    continue
                marks = () if what == "everything" else pytest.mark.long
                place = "one host" if same else "two hosts"
                yield pytest.param(way, what, same, marks=marks, id=f"{way}-{what}-{place}")


@pytest.mark.parametrize("name, what, same", cases())
def test_who_is_left_is_told_and_nobody_else(fabric, bystanders, name, what, same):
    """SI-EVT-2, SI-EVT-3, SI-EVT-4, SI-EVT-5, SI-EVT-6, SI-EVT-7, SI-EVT-9, SI-NTB-2, SI-NTB-10,
    SI-NTB-18, SI-GEN-13, SI-GEN-28, SI-MAPR-9, SI-MAPR-10, SI-UNMAP-3, SI-ISM-2, SI-RMDMA-2,
    SI-SDMA-10, SI-UNAVAIL-3, SI-UNAVAIL-4, SI-RMSEG-4, SI-RMSEG-6, SI-RMINT-3, SI-RSM-5, SI-RSM-6,
    SI-CKSEQ-4, SI-STSEQ-4, SI-SEQ-7, SI-CONSEG-11, SI-TRINT-3, SI-TRDINT-3: whoever has nothing to
    do with it goes on."""
    way = WAYS[name]
    with Scene(fabric, same) as scene:
        held = [kind(scene) for kind in KINDS[what]]
        way.go(scene, held)
        for one in held:
            one.check(way)
        for host in way.untouched:
            bystanders.go_on(host)
        for one in held:
            one.close(way)
    with Scene(fabric, same) as scene:
        for one in held:
            one.scene = scene
            one.again(scene.owner, scene.user)
    for host in way.renewed:
        bystanders.renew(host)
