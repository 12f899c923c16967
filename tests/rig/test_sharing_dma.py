# SPDX-License-Identifier: GPL-2.0-only
"""Queues copy by a DMA engine, and by the processor whatever the engine does not.

The engine is `dma_test`, in the host that copies; see rust/dma_test.rs for what it can do
wrong.
"""

import contextlib
import errno
import time

import pytest
import local
import sharing
from ntbrig import stack
from sharing import MP

from frames import LOWER

PAGE = 0x1000
LENGTH = 256 * PAGE
UPPER = ("pximc_ntb", "mp_func_user")


@pytest.fixture(scope="module")
def fabric(boot):
    """Two hosts, all but the transport loaded."""
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=LOWER)
    return fabric


class Ends:
    """A process that copies from a segment, and one whose segment it copies to."""

    def __init__(self, user, owner):
        self.user, self.owner = user, owner
        self.there, back = user.interface(), owner.interface()
        user.wait_until_up(self.there)
        owner.wait_until_up(back)
        self.segment = owner.segment(1, LENGTH, back)
        self.local = owner.map_segment(self.segment)
        self.source = user.segment(2, LENGTH, self.there)
        self.memory = user.map_segment(self.source)
        self.connection = user.connect(self.there, MP.OBJECT_SEGMENT, 1)
        create = {"interface": self.there, "entries": 256}
        self.queue = user.call("QUEUE_CREATE", "mp_queue_create", **create).handle

    def start(self, *copies, source=None, **fields):
        fields |= sharing.copy_list(self.user, *copies)
        source = self.source if source is None else source
        fields |= {"handle": self.queue, "segment": source, "connection": self.connection}
        self.user.call("QUEUE_START", "mp_queue_start", **fields)

    def state(self):
        return self.user.call("QUEUE", "mp_queue", handle=self.queue).state

    def final(self):
        self.user.wait(self.queue, MP.EVENT_DONE)
        return self.state()

    def abort(self):
        self.user.call("QUEUE_ABORT", "mp_handle", handle=self.queue)

    def paint(self, colour):
        """Give every fourth page of the source a content of its own."""
        for at in range(0, LENGTH, 4 * PAGE):
            self.user.write(self.memory + at, self._of(colour, at))

    def is_painted(self, colour):
        """Whether the peer has these pages."""
        pages = range(0, LENGTH, 4 * PAGE)
        return all(self.owner.read(self.local + at, 8) == self._of(colour, at) for at in pages)

    @staticmethod
    def _of(colour, at):
        return bytes([colour, at >> 12 & 0xFF]) * 4


@contextlib.contextmanager
def ends(fabric, faults=""):
    """An engine in the first host, and processes of both."""
    sender = fabric.rp
    stack.load(sender, modules=("dma_test",), parameters={"dma_test": faults})
    try:
        parameters = {"pximc_ntb": "timeout_ms=2000"}
        stack.load(*fabric.hosts, modules=UPPER, parameters=parameters)
        with sharing.Process(sender) as user, sharing.Process(fabric.hosts[1]) as owner:
            yield Ends(user, owner)
    finally:
        stack.unload(*fabric.hosts, modules=UPPER)
        stack.unload(sender, modules=("dma_test",))


def copied(fabric):
    return int(fabric.rp.run("cat /sys/kernel/dma_test/copied").out)


ALL = (0, 0, LENGTH)


def test_the_engine_copies_what_a_queue_is_told_to(fabric):
    """SI-SDMA-1, SI-SDMA-2, SI-SDMA-9, SI-SDMAV-1, SI-NTB-16"""
    with ends(fabric) as both:
        for colour in range(1, 4):
            both.paint(colour)
            both.start(ALL)
            assert both.final() == MP.QUEUE_DONE
            # At once.
            assert both.is_painted(colour)
        assert copied(fabric) > 0
        # Too little for the engine, at odd places, and in order where they overlap.
        before = copied(fabric)
        both.user.write(both.memory, b"one two three")
        both.start((0, PAGE + 1, 3), (4, PAGE + 2, 3), (8, PAGE + 5, 5))
        assert both.final() == MP.QUEUE_DONE
        assert both.owner.read(both.local + PAGE + 1, 9) == b"otwothree"
        assert copied(fabric) == before


@pytest.mark.parametrize(
    "faults",
    ["fail_every=3", "fail_every=2 garbage=1", "refuse_every=2", "reorder=1 delay_us=300", "reclaim=1"],
)
def test_what_the_engine_does_wrong_is_put_right(fabric, faults):
    """SI-SDMA-9"""
    with ends(fabric, faults) as both:
        for colour in range(1, 4):
            both.paint(colour)
            # The last one wins, whoever copies it.
            both.start((PAGE, 0, LENGTH - PAGE), (0, 0, LENGTH // 2), ALL)
            assert both.final() == MP.QUEUE_DONE
            assert both.is_painted(colour)


def test_nothing_is_written_after_an_abort(fabric):
    """SI-ABDMA-1, SI-ABDMA-2, SI-ABDMA-3"""
    with ends(fabric, "delay_us=20000") as both:
        both.start(*[ALL] * 256)
        both.abort()
        assert both.state() == MP.QUEUE_ABORTED
        both.paint(9)
        seen = [both.owner.read(both.local + at, 8) for at in range(0, LENGTH, 16 * PAGE)]
        time.sleep(0.2)
        assert seen == [both.owner.read(both.local + at, 8) for at in range(0, LENGTH, 16 * PAGE)]
        assert not both.is_painted(9)


def test_an_engine_that_stops_reporting_is_given_up(fabric):
    """SI-ABDMA-3, SI-SDMA-9"""
    with ends(fabric, "stall_every=2") as both:
        both.paint(1)
        both.start(ALL)
        assert both.final() == MP.QUEUE_DONE
        assert both.is_painted(1)
        assert "the DMA engine does not finish" in fabric.rp.run("dmesg").out
        both.paint(2)
        both.start(ALL)
        assert both.final() == MP.QUEUE_DONE
        assert both.is_painted(2)


@pytest.mark.parametrize("how", ["withdrawn", "unloaded", "killed"])
def test_nothing_is_written_once_the_peer_is_gone(fabric, how):
    """SI-SDMA-10, SI-RMDMA-2, SI-NTB-10"""
    with ends(fabric, "delay_us=5000") as both:
        both.paint(1)
        both.start(*[ALL] * 256)
        if how == "killed":
            both.user.end()
        elif how == "withdrawn":
            both.owner.remove(both.segment, MP.REMOVE_FORCE)
            # Its memory is somebody else's now.
            again = both.owner.map_segment(both.owner.segment(3, LENGTH))
            assert both.final() == MP.QUEUE_ERROR
            time.sleep(0.1)
            assert both.owner.read(again, 4096) == bytes(4096)
        else:
            stack.unload(fabric.hosts[1], modules=("pximc_ntb",))
            assert both.final() == MP.QUEUE_ERROR
            stack.load(fabric.hosts[1], modules=("pximc_ntb",))


def test_a_bridge_that_fails_is_told_to_all_that_was_there(fabric):
    """SI-EVT-8"""
    stack.load(fabric.rp, modules=("mp_local_test",))
    try:
        with ends(fabric) as both:
            bridge = both.user.call("INTERFACE", "mp_interface", id=both.there)
            place = f"{bridge.pci_bus} {bridge.pci_devfn}"
            local.command(fabric.rp, f"channel {place} 3")
            assert both.user.notice(both.source) == MP.NOTICE_FATAL
            seen = []
            while not seen or seen[-1] != MP.NOTICE_LOST:
                seen.append(both.user.notice(both.connection))
            assert [notice for notice in seen if notice != MP.NOTICE_DOWN] == [
                MP.NOTICE_FATAL,
                MP.NOTICE_LOST,
            ]
            with pytest.raises(OSError) as refused:
                both.user.connect(both.there, MP.OBJECT_SEGMENT, 1)
            assert refused.value.errno == errno.ENETDOWN
            # It stays away, whatever the bridge does, until it is taken into use anew.
            local.command(fabric.rp, f"channel {place} 1")
            time.sleep(1)
            both.user.wait_until_up(both.there, up=False)
            # One is enough.
            with pytest.raises(OSError) as none:
                both.user.notice(both.source, 0)
            assert none.value.errno == errno.ETIMEDOUT
    finally:
        stack.unload(fabric.rp, modules=("mp_local_test",))
