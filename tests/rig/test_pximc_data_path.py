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
# So long does a measurement take, of which a second is looked at. To ask a busy guest takes
# time as well: seconds on a kernel that checks.
SECONDS = 4 * PATIENCE
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


def busy_calls(fabric, kind, option, count):
    """Play; the system calls of a second in the middle of it, by host, and what the
    client tells in the end."""
    rp, ep = fabric.hosts
    with serving(ep):
        client = rp.spawn(arguments(kind, option, count), timeout=120)
        while not client.pid or ticks(rp, client.pid) < UNDER_WAY:
            assert not client.ended(), client.wait()
        with system_calls(NAME, rp, ep) as calls:
            before = ticks(rp, client.pid)
            rp.run("sleep 1")
            found = calls()
            # It has been at it all the time, and has not come to the end.
            assert ticks(rp, client.pid) - before >= BUSY
            assert not client.ended()
        return found, json.loads(client.wait().check().out)


def measured(fabric, kind, option, count):
    """What a short play tells."""
    rp, ep = fabric.hosts
    with serving(ep):
        return json.loads(rp.run(arguments(kind, option, count), timeout=60).out)


def test_looking_at_memory_takes_no_system_call(fabric):
    short = measured(fabric, "polling", "--rounds", 20_000)
    rounds = SECONDS * 1e6 / short["polling_us"]["median"]
    calls, out = busy_calls(fabric, "polling", "--rounds", rounds)
    assert calls == [0, 0]
    assert out["polling_us"]["median"] > 0


def test_writing_memory_takes_no_system_call(fabric):
    short = measured(fabric, "writing", "--writes", 5)
    # As long from each place of the source: an event follows the last write from each.
    writes = SECONDS * short["write_mb_s"]["best"] * 1e6 / short["size"]
    calls, out = busy_calls(fabric, "writing", "--writes", writes)
    assert calls == [0, 0]
    assert out["write_mb_s"]["best"] > 0


def test_system_calls_are_counted_where_there_are_some(fabric):
    """An event is asserted and waited for, on both sides."""
    with system_calls(NAME, *fabric.hosts) as calls:
        measured(fabric, "events", "--rounds", 500)
        assert min(calls()) >= 1000
