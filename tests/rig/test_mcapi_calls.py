# SPDX-License-Identifier: GPL-2.0-only
"""Data of MCAPI move without system calls while both nodes look, between two hosts and within one.

The programs are `mcapi_perf`; the kernel's own tracepoint counts what all threads of both call. Those
that send and receive call nothing. Those of the library look now and then whether the others still
do (Documentation/queue-pairs.md, the service thread)."""

from contextlib import contextmanager

import pytest
from frames import wait_for_everyone
from ntbrig import mcapi as programs
from ntbrig import calls, stack
from pximc import MODULES

pytestmark = pytest.mark.alone

KINDS = {"messages": 64, "packets": 64, "scalars": 8}
PERF = "mcapi_perf"
# More than it plays: it is ended when it was looked at.
ROUNDS = 10_000_000
# So long are programs looked at, in seconds, and so often at most.
LOOK, LOOKS = 0.1, 60
# Share of the time that a thread computes at least that does not sleep. The machine runs other things.
AWAKE = 0.3
# System calls of the library's threads of both programs in a second, at most. Messages are tens of thousands.
NAPS = 500


@pytest.fixture(scope="module")
def hosts(boot):
    """Each node has a processor of its own, also where both are in one host."""
    hosts = boot(hosts=2, cpus=2).hosts
    stack.load(*hosts, modules=MODULES)
    wait_for_everyone(*hosts)
    programs.configure(hosts)
    return hosts


@pytest.fixture(params=("hosts", "own"))
def guests(request, hosts):
    """Where the client and the server run."""
    one, other = hosts
    return (one, other) if request.param == "hosts" else (one, one)


@contextmanager
def playing(guests, kind, *options):
    """A server and a client that send something there and back, and compare it."""
    here, there = guests
    command = [programs.example(PERF), "client", 2, 1, "--kind", kind, "--sizes", KINDS[kind]]
    with there.spawn([command[0], "server", 1], timeout=240, env=programs.ENV) as server:
        server.wait_for_output("ready")
        words = [*command, "--rounds", ROUNDS, *options]
        with here.spawn(words, timeout=240, env=programs.ENV) as client:
            # It has begun to measure.
            client.wait_for_output("median")
            yield
            assert not (client.ended() or server.ended())


def look(guests):
    """The main threads of both programs, and those of the library, that were looked at for a while."""
    found = calls.watch(dict.fromkeys(guests), PERF, LOOK)
    mains = [thread for thread in found if thread.is_main]
    assert len(mains) == 2
    return mains, [thread for thread in found if not thread.is_main]


def is_quiet(mains):
    """Whether both were at it all the time, and called nothing. One that was held up makes the other one
    sleep after 10 ms."""
    return all(thread.busy > AWAKE and not thread.calls for thread in mains)


@pytest.mark.parametrize("kind", KINDS)
def test_data_take_no_system_call_while_both_look(guests, kind):
    looks = []
    with playing(guests, kind):
        while len(looks) < LOOKS and not (looks and is_quiet(looks[-1][0])):
            looks.append(look(guests))
    mains, others = looks[-1]
    made = sum(thread.calls for thread in others)
    print(f"{kind}: after {len(looks)} looks {made} calls of the library's threads in {LOOK} s")
    assert is_quiet(mains), looks
    assert others and made < NAPS * LOOK


def test_calls_of_nodes_that_sleep_are_counted(guests):
    """Of each round trip the client makes one to pause, and both make one to sleep."""
    with playing(guests, "packets", "--pause", 20):
        mains, _ = look(guests)
    assert not is_quiet(mains)
    assert all(thread.calls >= 2 for thread in mains)


def test_nodes_that_have_nothing_to_do_sleep_soon(guests):
    """They look for 10 ms of each 200, and the library's threads do not look in their place."""
    with playing(guests, "packets", "--pause", 200):
        found = calls.watch(dict.fromkeys(guests), PERF, 2)
    busy = {}
    for thread in found:
        busy[thread.pid, thread.guest] = busy.get((thread.pid, thread.guest), 0) + thread.busy
    assert len(busy) == 2
    assert max(busy.values()) < 0.25, found
