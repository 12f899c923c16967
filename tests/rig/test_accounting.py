# SPDX-License-Identifier: GPL-2.0-only
"""Memory that the kernel has for a process counts for the control group of that: what it asks for,
and what others send to it."""

import groups
import pytest
import sharing
from groups import group
from ntbrig import CommandFailed, stack
from ntbrig.settings import MIB
from pximc import MODULES
from sharing import EACH, MP, PAST, fill
from shell import until

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


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    for guest in fabric.hosts:
        groups.limit_by("memory", guest)
    return fabric


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
