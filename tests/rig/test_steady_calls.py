# SPDX-License-Identifier: GPL-2.0-only
"""System calls of all threads of both processes while data move steadily and both look.

The program's own threads make none. A library with a service thread sees after a nap whether its
program still looks: that is two calls at most for each of the longest naps, of which there are not
quite eight in a second. Programs are those that measure: a message in each direction, one after the
other.
"""

from concurrent.futures import ThreadPoolExecutor

import pximc
import pytest
from ntbrig import stack, vipl
from ntbrig.settings import PATIENCE, programs_dir
from tracing import calls_of_threads

pytestmark = pytest.mark.alone

# Calls of a library's threads in a second, for longest naps of 128 ms.
NAPS = 16
# What a process has computed once it has left its beginning behind, in hundredths of a second.
UNDER_WAY = 20 * PATIENCE
# Rounds of a measurement that nobody waits for.
FOREVER = 1_000_000_000
# A busy machine may keep one of the processes from looking: another second is looked at then.
SECONDS = 10


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=pximc.MODULES)
    return fabric


def ticks(guest, pid):
    """What a process has computed in its own code, in hundredths of a second."""
    return int(guest.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[11])


def is_steady(calls):
    """Whether in a second the program's thread has made no call, and those of libraries few."""
    own, others = calls
    return own == 0 and sum(others.values()) <= NAPS


def look(guests, processes):
    """Calls of both processes in the first steady second; in the last one looked at, if none is."""
    for _ in range(SECONDS):
        before = [ticks(guest, run.pid) for guest, run in zip(guests, processes)]
        with ThreadPoolExecutor() as both:
            pids = [run.pid for run in processes]
            found = list(both.map(calls_of_threads, guests, pids))
        print(found)
        after = [ticks(guest, run.pid) for guest, run in zip(guests, processes)]
        assert not any(run.ended() for run in processes)
        # Both have been at it.
        assert all(late - early >= 10 for early, late in zip(before, after))
        if all(map(is_steady, found)):
            break
    return found


def steady_calls(fabric, server, client, env):
    a, b = fabric.hosts
    timeout = 120 * PATIENCE
    serving = b.spawn(server, timeout=timeout, env=env)
    asking = a.spawn(client, timeout=timeout, env=env)
    try:
        while not asking.pid or ticks(a, asking.pid) < UNDER_WAY:
            assert not asking.ended(), asking.wait()
        # Until the naps are the longest ones.
        a.run("sleep 1")
        return look((a, b), (asking, serving))
    finally:
        for process in (asking, serving):
            process.kill()
            process.wait()


def check(found):
    for calls in found:
        assert is_steady(calls), found


def test_a_queue_pair_takes_no_call(fabric):
    program = programs_dir() / "examples" / "qp_pingpong"
    both = ("--patience", int(30 * PATIENCE))
    client = [program, "client", "--messages", 0, "--rounds", FOREVER // 100, *both]
    found = steady_calls(fabric, [program, "server", *both], client, {})
    assert found == [(0, {})] * 2


@pytest.mark.parametrize("way", [(), ("--cq",)], ids=["queues", "completion queue"])
def test_a_virtual_interface_takes_few_calls_of_its_library_alone(fabric, way):
    vipl.configure(fabric.hosts)
    program = vipl.tool("vi_perf")
    words = ("--only", "latency", "--operations", "send", "--sizes", 8, "--rounds", FOREVER)
    client = [program, "client", fabric.hosts[1].name, *words, *way]
    check(steady_calls(fabric, [program, "server", *way], client, vipl.ENV))
