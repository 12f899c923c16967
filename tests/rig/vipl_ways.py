# SPDX-License-Identifier: GPL-2.0-only
"""How one side of a VI's connection goes away, and what is looked at around it: another client of who is
left, memory of connections that is their own or shared, and that everything is as before."""

from contextlib import ExitStack, contextmanager, nullcontext
from typing import NamedTuple

import pytest
from ntbrig import vipl as programs
from outages import GOES, STAYS, THIRD, boot_host, fabric, kill_host, plug, unplug
from shell import until
from vipl import RR, all_ends, connect, ends, memory_left, says

FLUSHED = {"DESC_FLUSHED"}
LOST = ["CONN_LOST"]
# Bytes for windows that connections share.
LITTLE = 0x2_0000


class Bystander:
    """A connection of the first and the third host, which notices nothing."""

    def __init__(self, ends):
        self.here, self.there = ends.side(STAYS), ends.side(THIRD)
        connect(self.here, self.there)

    def goes_on(self):
        says(self.there, self.here, b"still here")
        says(self.here, self.there, b"and there")
        assert (self.here.reports(), self.there.reports()) == ([], [])


class Way(NamedTuple):
    """How the second host's program goes, what brings it back, whether hosts are cut off, and what
    is left of it to be ended."""

    go: callable
    back: callable = lambda fabric: None
    cut: bool = False
    bury: callable = lambda goes: None
    # It does not go: it only answers nothing, until it is buried.
    stops: bool = False


def kill(fabric, goes):
    goes.program.end()


def end(fabric, goes):
    goes.program.exit(3)


def close(fabric, goes):
    goes.program.close_nic(goes.nic)


def become_another(fabric, goes):
    goes.program.become("/bin/sleep", 600)


def fork(fabric, goes):
    """Leave a child behind, which has what its parent had open, and which runs on."""
    program = goes.program
    program.command("&", lambda answer: None, "fork", "storm", goes.data, 64, 1, 600_000)
    children = f"grep -lE '^PPid:\\s+{program.pid}$' /proc/[0-9]*/status || true"
    found = until(lambda: program.guest.run(children).out.split())
    goes.children = [path.split("/")[2] for path in found]
    program.guest.run(["kill", "-9", program.pid])


def kill_children(goes):
    goes.program.guest.run(["kill", "-9", *goes.children])
    goes.program.reap()


def stop(fabric, goes):
    goes.program.guest.run(f"kill -STOP {goes.program.pid}")


def go_on(goes):
    goes.program.guest.run(f"kill -CONT {goes.program.pid}")


WAYS = {
    "stopped": Way(stop, bury=go_on, stops=True),
    "killed": Way(kill),
    "exited": Way(end),
    "closed": Way(close),
    "forks": Way(fork, bury=kill_children),
    "execs": Way(become_another, bury=lambda goes: goes.program.end()),
    "unplugged": Way(unplug, plug, cut=True),
    "host killed": Way(kill_host, boot_host(programs.configure), cut=True),
}


@contextmanager
def little_memory(fabric):
    """Inside, all new connections of the first host share memory with the other ones to the same."""
    stays, goes, third = fabric.hosts
    with ExitStack() as taken:
        for other in (goes, third):
            for both in ((stays, other), (other, stays)):
                taken.enter_context(memory_left(*both, LITTLE))
        yield


@pytest.fixture(params=("own memory", "lanes"))
def memory_of_connections(request, fabric):
    with little_memory(fabric) if request.param == "lanes" else nullcontext():
        yield request.param


def as_before(ends, stays, serves=True):
    """Connect the one that is left, as server or as client, to a new one on the other host."""
    stays.end_connection()
    ends.start()
    again = ends.side(GOES, RR)
    connect(*((stays, again) if serves else (again, stays)))
    says(again, stays, b"as before")
