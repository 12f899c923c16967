# SPDX-License-Identifier: GPL-2.0-only
"""Processes that share memory need the kernel to sleep and to wake, not to move data.

The kernel's own tracepoint counts their system calls, while `pxi_pingpong` plays.
"""

import json
from contextlib import contextmanager

import pximc
import pytest
from ntbrig.settings import PATIENCE, programs_dir
from tracing import system_calls

pytestmark = pytest.mark.alone

NAME = "pxi_pingpong"
# More round trips or writes than a client comes to the end of.
ENDLESS = 1 << 40
# What a process has computed once it has left its beginning behind, and what it
# computes in a second at least if it does not sleep; hundredths of a second.
UNDER_WAY = 20 * PATIENCE
BUSY = 20


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    pximc.load(*fabric.hosts)
    return fabric


@contextmanager
def serving(guest):
    server = guest.spawn([programs_dir() / "examples" / NAME, "server"], timeout=120)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def arguments(kind, option, count):
    program = programs_dir() / "examples" / NAME
    return [program, "client", "--json", "--only", kind, option, max(1, int(count))]


def ticks(guest, pid):
    """What a process has computed in its own code, in hundredths of a second."""
    return int(guest.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[11])


def busy_calls(fabric, kind, option):
    """The system calls of a second in the middle of a play without end, by host."""
    rp, ep = fabric.hosts
    with serving(ep), rp.spawn(arguments(kind, option, ENDLESS), timeout=120) as client:
        while not client.pid or ticks(rp, client.pid) < UNDER_WAY:
            assert not client.ended(), client.wait()
        with system_calls(NAME, rp, ep) as calls:
            before = ticks(rp, client.pid)
            rp.run("sleep 1")
            found = calls()
            # It has been at it all the time.
            assert ticks(rp, client.pid) - before >= BUSY
            assert not client.ended()
        return found


def measured(fabric, kind, option, count):
    """What a short play tells."""
    rp, ep = fabric.hosts
    with serving(ep):
        return json.loads(rp.run(arguments(kind, option, count), timeout=60).out)


def test_looking_at_memory_takes_no_system_call(fabric):
    assert measured(fabric, "polling", "--rounds", 20_000)["polling_us"]["median"] > 0
    assert busy_calls(fabric, "polling", "--rounds") == [0, 0]


def test_writing_memory_takes_no_system_call(fabric):
    assert measured(fabric, "writing", "--writes", 5)["write_mb_s"]["best"] > 0
    assert busy_calls(fabric, "writing", "--writes") == [0, 0]


def test_system_calls_are_counted_where_there_are_some(fabric):
    """An event is asserted and waited for, on both sides."""
    with system_calls(NAME, *fabric.hosts) as calls:
        measured(fabric, "events", "--rounds", 500)
        assert min(calls()) >= 1000
