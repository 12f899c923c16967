# SPDX-License-Identifier: GPL-2.0-only
"""Messages to ports take the data rings: what they leave to others, and their order to all that
does not go with them.

A host that stands still takes in both rings at once afterwards, whatever came first.
"""

import errno
import json
import random
import time
from contextlib import ExitStack

import pytest
import sharing
from frames import frozen
from ntbrig import stack
from ntbrig.settings import PATIENCE
from sharing import EACH, FOREVER, MP, PAST, pair, patient
from shell import until

USER = "mp_func_user"
NUMBER = 78
LONGEST = 4096
# More messages than a ring has room for.
FULL = 16
# Bytes in the control ring of what hosts tell each other now and then.
LITTLE = 1024
# Processes that send without end, and how many messages each.
SENDERS = 4
MANY = 1_000_000
SECONDS = 5
ROUNDS = 40
# Messages of a connection that leaves.
SHARE = EACH // 4


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = patient(boot)
    for guest in fabric.hosts:
        guest.run("chmod 666 /dev/mp_fabric")
    return fabric


@pytest.fixture
def ends(fabric):
    """A process that offers, one that uses, and the interfaces between them."""
    with pair(fabric) as both:
        yield both


def used(fabric):
    """Bytes in the rings from the root processor to the other host that this has not consumed, the
    control ring's first."""
    program = fabric.settings.programs / "ntbctl"
    [link] = json.loads(fabric.rp.run(f"{program} --json links").out)
    return [ring["tx_used"] for ring in link["rings"]]


def send(process, connection):
    """How many messages a connection takes at once."""
    fields = {"handle": connection, "data": process.buffer, "length": LONGEST, "deadline": PAST}
    return process.repeat(EACH, "SEND", "mp_message", **fields)


def received(owner, port, count):
    return [owner.receive(port) for _ in range(count)]


def test_messages_of_processes_leave_the_control_ring_as_it_is(fabric, ends):
    """However many wait for a host that stands still."""
    owner, back, _, there = ends
    port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
    with sharing.Process(fabric.rp, user=4711) as flood:
        connections = [flood.connect(there, MP.OBJECT_PORT, NUMBER) for _ in range(FULL)]
        with frozen(fabric.hosts[1], fabric.rp):
            before = used(fabric)
            sent = sum(send(flood, to) for to in connections)
            after = used(fabric)
        assert after[0] - before[0] <= LITTLE
        assert after[1] - before[1] > LITTLE
        assert len(received(owner, port, sent)) == sent


def test_who_sends_without_end_holds_up_no_signal(fabric, ends):
    """Processes of a user, to a process that takes all that comes."""
    owner, back, user, there = ends
    port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
    event = owner.offer(back, MP.OBJECT_EVENT, NUMBER)
    signal = user.connect(there, MP.OBJECT_EVENT, NUMBER)
    before, _ = used(fabric)[:2]
    with ExitStack() as stay:
        calls = []
        for _ in range(SENDERS):
            process = stay.enter_context(sharing.Process(fabric.rp, user=4711))
            to = process.connect(there, MP.OBJECT_PORT, NUMBER)
            fields = {"handle": to, "data": process.buffer, "length": LONGEST, "deadline": FOREVER}
            calls.append(process.repeat_later(MANY, "SEND", "mp_message", **fields))
            stay.callback(process.kill)
        fields = {"handle": port, "data": owner.memory(LONGEST), "length": LONGEST}
        calls.append(owner.repeat_later(MANY, "RECEIVE", "mp_message", deadline=FOREVER, **fields))
        longest = most = 0
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            begun = time.monotonic()
            user.signal(signal)
            assert owner.wait(event, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
            longest = max(longest, time.monotonic() - begun)
            most = max(most, used(fabric)[0])
        assert not any(call.returned() for call in calls)
    assert longest < PATIENCE
    assert most - before <= LITTLE


def send_all(user, connections):
    """So many messages of each, which then leaves."""
    for number, connection in enumerate(connections):
        for n in range(SHARE):
            user.send(connection, bytes([number, n]))
        user.close(connection)


def check_all(owner, port, connections):
    """All of them arrive."""
    got = received(owner, port, SHARE * len(connections))
    for number, _ in enumerate(connections):
        assert [data[1] for data in got if data[0] == number] == list(range(SHARE))
    until(lambda: is_removed(owner, port))


def is_removed(owner, port):
    """Whether a port can be removed, as nobody is connected to it any more."""
    try:
        owner.remove(port)
    except OSError as e:
        assert e.errno == errno.EBUSY
        return False
    return True


def test_what_was_sent_before_its_sender_has_left_is_with_the_port(fabric, ends):
    """SI-TRDINT-3: in order, though the end goes ahead of it."""
    owner, back, user, there = ends
    port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
    connections = [user.connect(there, MP.OBJECT_PORT, NUMBER) for _ in range(4)]
    with frozen(fabric.hosts[1], fabric.rp):
        send_all(user, connections)
    check_all(owner, port, connections)


def test_what_was_sent_before_the_service_has_left_is_with_the_port(fabric, ends):
    """Although the goodbye goes ahead of it, and the hello of the next service."""
    owner, back, _, there = ends
    port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
    with sharing.Process(fabric.rp) as sender:
        connections = [sender.connect(there, MP.OBJECT_PORT, NUMBER) for _ in range(4)]
        ends[2].end()
        with frozen(fabric.hosts[1], fabric.rp):
            send_all(sender, connections)
            sender.end()
            stack.unload(fabric.rp, modules=(USER,))
            stack.load(fabric.rp, modules=(USER,))
            fabric.rp.run("chmod 666 /dev/mp_fabric")
    check_all(owner, port, connections)
    owner.wait_until_up(back)


def test_connections_come_and_go_with_their_messages(fabric, ends):
    """At random: each message once, in the order of its connection."""
    owner, back, user, there = ends
    dice = random.Random(24)
    port = owner.offer(back, MP.OBJECT_PORT, NUMBER)
    connections = {}
    sent, got = [0] * ROUNDS, [0] * ROUNDS
    for number in range(ROUNDS):
        connections[number] = user.connect(there, MP.OBJECT_PORT, NUMBER)
        for some in dice.choices(list(connections), k=dice.randrange(16)):
            user.send(connections[some], bytes([some, sent[some]]))
            sent[some] += 1
        while len(connections) > dice.randrange(4):
            user.close(connections.pop(dice.choice(list(connections))))
        left = sum(sent) - sum(got)
        is_last = number == ROUNDS - 1
        for some, n in received(owner, port, left if is_last else dice.randrange(left + 1)):
            assert n == got[some]
            got[some] += 1
    assert got == sent
    for connection in connections.values():
        user.close(connection)
    until(lambda: is_removed(owner, port))
