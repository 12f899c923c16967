# SPDX-License-Identifier: GPL-2.0-only
"""Memory that the kernel has for a process counts for the control group of that: what it asks for,
what others send to it, and what it has of the memory that peers reach."""

import errno

from contextlib import contextmanager

import pytest
import sharing
from ntbrig import CommandFailed, stack
from ntbrig.settings import MIB
from pximc import MODULES
from sharing import EACH, MP, PAST, fails, fill
from shell import until

GROUPS = "/sys/fs/cgroup"
NUMBER = 91
PAGE = 0x1000
# Status words and the page that shows what is gone; each has some more.
CONTEXT = 5 * PAGE
CONTEXTS = 256
# More than `MOST` altogether.
MANY_CONTEXTS = 1000
CONNECTIONS, LENGTH = 64, 256
# Segments over the same memory: each has a list of its pages.
LISTS, PINNED, POINTER = 64, 8 * MIB, 8
# How much of what is there is charged at least, and of what was there at most.
CHARGED, LEFT = 0.9, 0.25
# What a group may have, and a program needs some of.
MOST = 12 * MIB
# Of memory that peers reach: a segment, and what a group may have.
SEGMENT, SHARE = 16 * PAGE, 24 * PAGE


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    for guest in fabric.hosts:
        guest.run(f"echo +memory > {GROUPS}/cgroup.subtree_control")
        if has_regions(guest):
            guest.run(f"echo +dmem > {GROUPS}/cgroup.subtree_control")
    return fabric


def has_regions(guest):
    return "dmem" in guest.read(f"{GROUPS}/cgroup.controllers").split()


class Group:
    """A control group of a guest, in which a process starts."""

    def __init__(self, guest, name):
        self.guest, self.path = guest, f"{GROUPS}/{name}"
        guest.run(f"mkdir {self.path}")

    def process(self):
        enter = f'echo $$ > {self.path}/cgroup.procs && exec "$@"'
        return sharing.Process(self.guest, how=["sh", "-c", enter, "sh"])

    def read(self, name):
        return self.guest.read(f"{self.path}/{name}")

    def charged(self):
        """Bytes that the kernel has for it."""
        lines = self.read("memory.stat").splitlines()
        return int(dict(line.split() for line in lines)["kernel"])

    def has_of(self, region):
        """Bytes of memory that peers reach."""
        lines = self.read("dmem.current").splitlines()
        return int(dict(line.split() for line in lines).get(region, 0))

    def limit(self, region, most):
        self.guest.run(f"echo {region} {most} > {self.path}/dmem.max")

    def killed(self):
        lines = self.read("memory.events").splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])


@contextmanager
def group(guest, name, most=None):
    """A group that is there inside, with so many bytes."""
    of = Group(guest, name)
    try:
        if most:
            guest.run(f"echo {most} > {of.path}/memory.max")
        yield of
    finally:
        guest.run(f"echo 1 > {of.path}/cgroup.kill")
        until(lambda: guest.run(f"rmdir {of.path}", check=False).rc == 0)


def test_what_a_process_opens_counts_for_its_group(fabric):
    with group(fabric.rp, "opens") as of, of.process() as process:
        before = of.charged()
        assert process.open(CONTEXTS) == CONTEXTS
        assert of.charged() - before >= CHARGED * CONTEXTS * CONTEXT


def test_lists_of_pages_count_for_the_group_as_long_as_they_are_there(fabric):
    with group(fabric.rp, "registers") as of, of.process() as process:
        memory = process.memory(PINNED)
        fields = {"length": PINNED, "flags": MP.SEGMENT_EMPTY}
        make = lambda n: process.call("SEGMENT_CREATE", "mp_segment_create", id=1 + n, **fields)
        segments = [make(n).handle for n in range(LISTS)]
        before = of.charged()
        for segment in segments:
            registered = {"handle": segment, "address": memory, "length": PINNED}
            process.call("SEGMENT_REGISTER", "mp_segment_register", **registered)
        lists = LISTS * PINNED // PAGE * POINTER
        assert of.charged() - before >= CHARGED * lists
        for segment in segments:
            process.close(segment)
        until(lambda: of.charged() - before <= LEFT * lists)


def test_messages_that_nobody_takes_count_for_the_group_of_their_port(fabric):
    """Until they are taken."""
    with group(fabric.hosts[1], "receives") as of, of.process() as owner:
        with sharing.Process(fabric.rp) as user:
            there, back = user.interface(), owner.interface()
            user.wait_until_up(there)
            port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
            connections = [user.connect(there, MP.OBJECT_PORT, NUMBER) for _ in range(CONNECTIONS)]
            before = of.charged()
            for connection in connections:
                fill(user, connection)
            count = CONNECTIONS * EACH
            # The last ones may be on their way, and the kernel's counts come a little later.
            until(lambda: of.charged() - before >= CHARGED * count * LENGTH)
            waiting = of.charged() - before
            fields = {"handle": port, "data": owner.buffer, "length": LENGTH, "deadline": PAST}
            received = 0
            while received < count:
                received += until(lambda: owner.repeat(count, "RECEIVE", "mp_message", **fields))
            until(lambda: of.charged() - before <= LEFT * waiting)


def test_a_process_has_no_more_of_the_kernel_than_its_group(fabric):
    """It is ended inside of it, and others go on."""
    with sharing.Process(fabric.rp) as other, group(fabric.rp, "small", MOST) as of:
        process = of.process()
        with pytest.raises(CommandFailed):
            opened = process.command("&", lambda answer: answer["done"], "open", MANY_CONTEXTS)
            pytest.fail(f"{opened.result()} are there")
        assert of.killed() == 1
        here = other.interface(loopback=True)
        event = other.offer(here, MP.OBJECT_EVENT, NUMBER)
        other.signal(other.connect(here, MP.OBJECT_EVENT, NUMBER))
        assert other.wait(event, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
        assert other.open(CONTEXTS) == CONTEXTS


@pytest.fixture(scope="module")
def regions(fabric):
    """What the kernel calls the memory that segments for all, private segments and those for one peer are
    cut from."""
    guest = fabric.rp
    if not has_regions(guest):
        pytest.skip("this kernel has no device memory controller")
    with sharing.Process(guest) as process:
        process.wait_until_up(process.interface())
    lines = guest.read(f"{GROUPS}/dmem.capacity").splitlines()
    names = [line.split()[0] for line in lines if line.startswith("mp/")]
    (arena,) = [name for name in names if name not in ("mp/commons", "mp/loopback")]
    return {"all": "mp/commons", "private": "mp/loopback", "one peer": arena}


def fields_of(kind, process, number=1):
    """A segment of that kind."""
    match kind:
        case "private":
            return {"length": SEGMENT, "flags": MP.SEGMENT_PRIVATE}
        case "one peer":
            only = {"flags": MP.SEGMENT_ONE_PEER, "interface": process.interface()}
            return {"length": SEGMENT, "id": number} | only
        case _:
            return {"length": SEGMENT, "id": number}


def segment(process, kind, number=1):
    fields = fields_of(kind, process, number)
    return process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle


KINDS = ("all", "private", "one peer")


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_has_so_much_memory_for_segments(fabric, regions, kind):
    """Other groups have theirs, and what was closed can be had again."""
    region = regions[kind]
    with group(fabric.rp, "segments") as of, of.process() as process:
        of.limit(region, SHARE)
        first = segment(process, kind)
        assert of.has_of(region) == SEGMENT
        with fails(errno.EDQUOT):
            segment(process, kind, number=2)
        assert of.has_of(region) == SEGMENT
        with sharing.Process(fabric.rp) as other:
            segment(other, kind, number=3)
            assert of.has_of(region) == SEGMENT
        process.remove(first)
        assert of.has_of(region) == 0
        segment(process, kind)


def test_a_segment_is_charged_as_long_as_anybody_has_it(fabric, regions):
    """To the group that has made it, also when its maker has ended."""
    region = regions["all"]
    with group(fabric.rp, "maker") as of, sharing.Process(fabric.rp) as other:
        with of.process() as maker:
            made = segment(maker, "all")
            maker.call("SEGMENT_SHARE", "mp_handle", handle=made)
            attached = other.call("SEGMENT_ATTACH", "mp_segment_attach", id=1).handle
        assert of.has_of(region) == SEGMENT
        other.remove(attached)
        until(lambda: of.has_of(region) == 0)


def test_a_group_has_so_much_memory_for_sessions(fabric, regions):
    """A window is made smaller where it may be."""
    region = regions["one peer"]
    with group(fabric.rp, "sessions") as of, of.process() as process:
        of.limit(region, SHARE)
        there = process.interface()

        def opened(**limits):
            fields = {"interface": there, "role": MP.ROLE_SERVER, "location": MP.LOCATION_LOGICAL}
            return process.call("SESSION_OPEN", "mp_session_open", **fields, **limits).handle

        with fails(errno.EDQUOT):
            opened(local_min=SHARE + PAGE, local_max=SHARE + PAGE)
        assert of.has_of(region) == 0
        handle = opened(local_min=PAGE, local_max=MP.SIZE_MAX)
        assert SHARE // 2 <= of.has_of(region) <= SHARE
        process.close(handle)
        until(lambda: of.has_of(region) == 0)
