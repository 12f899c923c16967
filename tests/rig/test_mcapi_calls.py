# SPDX-License-Identifier: GPL-2.0-only
"""Nodes that have a processor each, on two hosts or on one: data move without system calls while both
look, and a great many of them; nodes that have nothing to do look for 10 ms and then sleep.

A thread that finds nothing for 10 ms sleeps. To do so, to be woken, and to wake the other one take some
twenty calls together, and the library's thread looks after the node meanwhile. On a machine that has more
to do than it has processors, either node is held up again and again for longer than that, and the other
one sleeps. So a game has calls in proportion to the time that it takes, and not to what it moves:
thousands of items pass in the time of a few sleeps.
"""

import time

import pytest
from frames import wait_for_everyone
from mcapi import PACKETS, SCALARS, Moved, all_nodes, channel, nodes
from ntbrig import stack
from pximc import MODULES
from tracing import system_calls_of

pytestmark = pytest.mark.alone

# What moves, and the bytes of an item of those that have different sizes.
KINDS = {"messages": (64,), "packets": (64,), "scalars": ()}
CHANNELS = {"packets": PACKETS, "scalars": SCALARS}
# Items of a game, and games at most: one that was not held up too often counts.
COUNT, GAMES = 20_000, 5
# So many items move for each call of the threads that send and receive, at least, and for each call of
# all threads of either program. A call for each item would be one, or less.
ITEMS_PER_CALL, ITEMS_PER_CALL_OF_ALL = 10, 4
# The thread that carries a program's commands out, which are its sends and receives here.
MAIN = "mcapi_shell"
# Waits one after the other, how often they are measured at most, seconds between them, and seconds that
# a thread looks in each.
WAITS, TIMES, PAUSE, LOOK = 10, 5, 0.2, 0.01


@pytest.fixture(scope="module")
def fabric(boot):
    """Each node has a processor of its own, also where both are in one host."""
    fabric = boot(hosts=2, cpus=2)
    stack.load(*fabric.hosts, modules=MODULES)
    wait_for_everyone(*fabric.hosts)
    return fabric


def by_main(calls):
    return sum(call.thread == MAIN for call in calls)


class Way:
    """A way for items from a node to another one, or to one of the same host."""

    def __init__(self, kind, sender, receiver):
        self.kind, self.sender, self.receiver = kind, sender, receiver
        if kind == "messages":
            self.into = receiver.endpoint()
            self.out = sender.endpoint(), self.into, 1
        else:
            ends = channel(CHANNELS[kind], sender, receiver)
            self.out, self.into = (ends.send,), ends.receive

    def put(self, caller, count):
        return caller.put(self.kind, *self.out, 0, count, *KINDS[self.kind])

    def take(self, caller, count):
        return caller.take(self.kind, self.into, 0, count, *KINDS[self.kind])

    def play(self, count):
        """Move so many, by the main threads of both nodes."""
        sent, taken = self.put(self.sender.begun, count), self.take(self.receiver.begun, count)
        assert sent.result(300) == taken.result(300) == Moved(count, 0, "SUCCESS")

    def calls(self, *sides):
        """System calls of each of these nodes in a game: of its main thread, and of all its threads."""
        with system_calls_of(*((node.guest, node.pid) for node in sides)) as watched:
            self.play(COUNT)
            found = watched()
        return [(by_main(calls), len(calls)) for calls in found]


def is_quiet(calls):
    return all(
        own * ITEMS_PER_CALL <= COUNT and every * ITEMS_PER_CALL_OF_ALL <= COUNT
        for own, every in calls
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", (1, 0), ids=("hosts", "own"))
def test_data_take_no_system_call_while_both_look(nodes, kind, place):
    way = Way(kind, nodes.on(0), nodes.on(place))
    # A guest counts for one program at a time.
    sides = ((way.sender, way.receiver),) if place else ((way.sender,), (way.receiver,))
    games = []
    while not (games and is_quiet(games[-1])):
        assert len(games) < GAMES, games
        games.append([count for side in sides for count in way.calls(*side)])
    print(f"{COUNT} {kind}, calls of the main threads and of all: {games[-1]}")


@pytest.mark.parametrize("kind, count", (("packets", 100_000), ("scalars", 1_000_000)))
@pytest.mark.parametrize("place", (1, 0), ids=("hosts", "own"))
def test_nothing_of_very_many_is_lost(nodes, kind, count, place):
    """MC-CHAN-3: each comes once, as it was sent, and in order."""
    Way(kind, nodes.on(0), nodes.on(place)).play(count)


def test_calls_of_nodes_that_sleep_are_counted(nodes):
    """A node that waits makes some for each item, and so does one that wakes it."""
    way = Way("packets", nodes.on(0), nodes.on(1))
    sides = way.sender, way.receiver
    with system_calls_of(*((node.guest, node.pid) for node in sides)) as watched:
        for _ in range(5):
            taken = way.take(way.receiver.begun, 1)
            time.sleep(PAUSE)
            way.put(way.sender, 1)
            taken.result()
        found = watched()
    for calls in found:
        assert by_main(calls) >= 5 * 2


def seconds_computed(node):
    """What all threads of a program have computed, by the kernel's account."""
    fields = node.guest.read(f"/proc/{node.pid}/stat").rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / 100


def computed_for_each_wait(way):
    """Seconds that a program computes for an item that it has to wait for."""
    before = seconds_computed(way.receiver)
    for _ in range(WAITS):
        taken = way.take(way.receiver.begun, 1)
        time.sleep(PAUSE)
        way.put(way.sender, 1)
        assert taken.result() == Moved(1, 0, "SUCCESS")
    return (seconds_computed(way.receiver) - before) / WAITS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", (1, 0), ids=("hosts", "own"))
def test_nodes_that_wait_look_for_a_while_and_sleep(nodes, kind, place):
    """Not much longer than for 10 ms, whatever they wait for; no thread of the library looks in their place."""
    way = Way(kind, nodes.on(0), nodes.on(place))
    way.put(way.sender, 1)
    way.take(way.receiver, 1)
    # Sleeping, being woken and taking the item are computed as well; what held the guest up counts, too.
    found = []
    while not (found and found[-1] < 4 * LOOK):
        assert len(found) < TIMES, found
        found.append(computed_for_each_wait(way))
    print(f"{kind}: {1000 * found[-1]:.1f} ms for each wait")
