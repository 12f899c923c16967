# SPDX-License-Identifier: GPL-2.0-only
"""System calls of VIs, of all threads of a program and its library, between two hosts: a program that
waits makes none and takes no processor time; one that looks makes none, and its service thread only
those of its naps; one that is woken makes few for each wait. The numbers are those of
Documentation/queue-pairs.md."""

import time
from collections import Counter
from contextlib import contextmanager
from statistics import median

import pytest
from frames import wait_for_everyone
from ntbrig import stack
from ntbrig import vipl as programs
from ntbrig.settings import PATIENCE
from pximc import MODULES
from tracing import system_calls_of, usage
from vipl import (
    FOREVER, RD, RECV, all_ends, connect, ends, says,
)  # fmt: skip

pytestmark = pytest.mark.alone

# What has happened before is over after so many seconds, and for so long it stays quiet.
SETTLED, QUIET = 0.5 * PATIENCE, 3


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    return fabric


# --- programs that wait


def receive_wait(here, there):
    connect(there, here)
    at = here.receive()
    waiting = here.waits(RECV)

    def end():
        there.send(b"now")
        assert waiting.result()[0].descriptor == at

    return end


def queue_wait(here, there):
    connect(there, here)
    here.receive()
    program = here.program
    out = program.allocate(64)
    waiting = program.later.call("VipCQWait", here.cqs["recv_cq"], FOREVER, out, out + 8)

    def end():
        there.send(b"now")
        waiting.result()
        assert int.from_bytes(program.read(out, 8), "little") == here.vi

    return end


def connect_wait(here, there):
    waiting = here.program.wait_client(here.nic, here.host, b"waits", FOREVER)

    def end():
        asking = there.program.request_later(there.vi, (there.host, b""), (here.host, b"waits"))
        here.program.accept(waiting.result().conn, here.vi)
        asking.result()

    return end


def peer_wait(here, there):
    program = here.program
    program.peer_request(here.vi, (here.host, b""), (there.host, b"peer"), FOREVER)
    waiting = program.later.call("VipConnectPeerWait", here.vi, program.allocate(64))

    def end():
        there.program.peer_request(there.vi, (there.host, b""), (here.host, b"peer"))
        assert there.program.peer_wait(there.vi) == here.attributes._replace(ptag=0)
        waiting.result()

    return end


def notify(here, there):
    connect(there, here)
    here.receive()
    handler = here.program.handler("queue")
    here.program.notify("VipRecvNotify", here.vi, handler)

    def end():
        assert handler.calls() == []
        there.send(b"now")
        handler.wait(1)

    return end


def no_wait(here, there):
    connect(there, here)
    here.receive()

    def end():
        there.send(b"now")
        assert here.wait(RECV).errors == set()

    return end


WAITS = (receive_wait, queue_wait, connect_wait, peer_wait, notify, no_wait)


def sides(ends, wait):
    """A side that waits, and its partner, of which other VIs may be connected."""
    options = {"recv_cq": 64} if wait is queue_wait else {}
    return ends.side(0, RD, **options), ends.side(1, RD)


@pytest.mark.parametrize(
    "waits", [*((wait,) for wait in WAITS), WAITS], ids=[*(wait.__name__ for wait in WAITS), "all"]
)
def test_a_program_that_waits_takes_no_processor_time_and_makes_no_system_call(ends, waits):
    """VI-CQ-8, VI-WQ-7, VI-CONN-1, VI-PEER-8, VI-NTFY-1: some seconds long, neither does its
    partner's; then it is woken."""
    begun = [wait(*sides(ends, wait)) for wait in waits]
    both = [(ends.guests[n], ends.program(n).pid) for n in (0, 1)]
    ends.program(0).until_asleep()
    time.sleep(SETTLED)
    before = [usage(*side) for side in both]
    with system_calls_of(*both) as calls:
        time.sleep(QUIET)
        found = calls()
        after = [usage(*side) for side in both]
    assert found == [[], []]
    assert after == before
    for end in begun:
        end()


def test_a_server_that_sleeps_hears_of_a_bridge_that_is_new(fabric, ends):
    """VI-CONN-1: its host had no link when it began to wait."""
    here, there = ends.side(0), ends.side(1)
    guest = ends.guests[0]
    stack.unload(guest, modules=("pximc_ntb",))
    try:
        end = connect_wait(here, there)
        here.program.until_asleep()
    finally:
        stack.load(guest, modules=("pximc_ntb",))
        wait_for_everyone(*fabric.hosts)
    time.sleep(SETTLED)
    end()
    says(there, here, b"found")


# --- programs that look


# What a client has computed once it is under way, and what it computes in a second at least that
# looks all the time; hundredths of a second.
UNDER_WAY, BUSY = 20 * PATIENCE, 20


def ticks(guest, pid):
    """What a process has computed in its own code, in hundredths of a second."""
    return int(guest.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[11])


@contextmanager
def measuring(hosts, *words, both=()):
    """Two programs that measure, the client on the first host; both as they are counted."""
    here, there = hosts
    program = programs.tool("vi_perf")
    patience = ("--patience", int(60_000 * PATIENCE))
    server = there.spawn([program, "server", *both, *patience], env=programs.ENV, timeout=240)
    client = None
    try:
        # More rounds than there is time for.
        command = [program, "client", there.name, *both, *patience, "--rounds", 4_000_000, *words]
        client = here.spawn(command, env=programs.ENV, timeout=240)
        while not client.pid or not server.pid or ticks(here, client.pid) < UNDER_WAY:
            assert not client.ended(), client.wait()
            time.sleep(0.05)
        yield (here, client.pid), (there, server.pid)
        assert not client.ended()
    finally:
        for process in filter(None, (client, server)):
            process.kill()
            process.wait()


# The thread of the program.
OWN = "vi_perf"


def watched(processes, seconds):
    """System calls of processes in so many seconds."""
    with system_calls_of(*processes) as calls:
        time.sleep(seconds)
        return calls()


def quietest(calls, seconds):
    """The system calls of the stretch of so many seconds, beginning with one of them, that has the
    fewest of the program and then of its library; None if all of it is shorter."""
    of_program = lambda stretch: (sum(call.thread == OWN for call in stretch), len(stretch))
    last = calls[-1].time if calls else 0
    stretches = (
        [call for call in calls[n:] if call.time <= first.time + seconds]
        for n, first in enumerate(calls)
        if first.time + seconds <= last
    )
    return min(stretches, key=of_program, default=None)


# Calls in a second of the service thread, for its naps: one of 128 ms and one of 1 ms take a call
# each. A program that looks makes none.
NAPS = 16
# A program that the machine has held up for longer than a nap is taken for one that has stopped: that
# takes up to so many calls of a side, and is over within two seconds, in which it may be held up again.
# Calls that belong to messages would be in each stretch, and far more: some thousands of messages are
# sent in a second.
HELD_UP = 200
# Stretches of two seconds: in most of them it is held up once at most, and there is a second without
# such calls. There are as many as that takes, from the first number to the second one.
TRIES, SECONDS = 3, 20

KINDS = {8: "latency", 1 << 16: "bandwidth"}
LOOKING = (
    ("send", 8, ()),
    ("send", 1 << 16, ("--cq",)),
    ("write", 8, ("--cq",)),
    ("write", 1 << 16, ()),
    ("read", 8, ()),
    ("read", 1 << 16, ("--cq",)),
)


@pytest.mark.parametrize(("operation", "size", "both"), LOOKING)
def test_data_move_without_system_calls_but_those_of_naps(fabric, operation, size, both):
    """Of both programs, and of their libraries."""
    programs.configure(fabric.hosts)
    words = ("--only", KINDS[size], "--operations", operation, "--sizes", size)
    # Each host is the client's in one half of them.
    hosts = fabric.hosts[:: -1 if both else 1]
    seen, quiet = [], 0
    with measuring(hosts, *words, both=both) as processes:
        while len(seen) < TRIES or 2 * quiet <= len(seen):
            assert len(seen) < SECONDS, f"too few seconds without other calls: {seen}"
            before = ticks(*processes[0])
            of_both = watched(processes, 2)
            # It has moved data all the time.
            assert ticks(*processes[0]) - before >= BUSY
            is_calm = max(map(len, of_both)) <= 2 * NAPS + HELD_UP
            found = [quietest(calls, 1) for calls in of_both]
            seen.append([calls and Counter(call.thread for call in calls) for calls in found])
            is_quiet = all(calls and calls[OWN] == 0 and calls.total() <= NAPS for calls in seen[-1])
            quiet += is_calm and is_quiet


# --- programs that are woken


# The numbers of read() and timerfd_settime(): whoever sleeps reads once what has woken it.
READ, TIMER = 0, 286
# Calls of the thread that waits: of a wait that is woken, with the message that it sends.
MOST_OF_A_WAIT = 7
# And with those of the service thread, which stands by for 8 ms and then needs no timer: of waits
# that take less.
STAND_BY, MOST_OF_BOTH = 0.008, 9


def waits(calls):
    """System calls from one wait that was woken to the next."""
    woken = [n for n, call in enumerate(calls) if (call.thread, call.number) == (OWN, READ)]
    return [calls[begin:end] for begin, end in zip(woken, woken[1:])]


def test_a_wait_that_is_woken_makes_few_system_calls(fabric):
    """Each side sleeps for each message. One that takes so long that the service thread takes over
    has more, and there may be many of those where the machine is busy."""
    programs.configure(fabric.hosts)
    words = ("--only", "latency", "--operations", "send", "--sizes", 8)
    short = [[], []]
    with measuring(fabric.hosts, *words, both=("--wait",)) as processes:
        for _ in range(SECONDS):
            for kept, calls in zip(short, watched(processes, 1)):
                found = waits(calls)
                kept += [each for each in found if each[-1].time - each[0].time < STAND_BY]
            if all(len(kept) > 40 for kept in short):
                break
    for kept in short:
        assert len(kept) > 40
        assert median(sum(call.thread == OWN for call in each) for each in kept) <= MOST_OF_A_WAIT
        assert median(len(each) for each in kept) <= MOST_OF_BOTH
        assert median(sum(call.number == TIMER for call in each) for each in kept) == 0
