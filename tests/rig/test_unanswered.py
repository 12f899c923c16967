# SPDX-License-Identifier: GPL-2.0-only
"""A peer that does not answer whom it is asked for: calls that wait for their turn to ask it are
woken when that has come, and by nothing that others ask."""

import errno
import struct
from contextlib import ExitStack

import pytest
import sharing
from frames import TRANSPORT, wait_for_everyone
from liar import CONNECT, CONNECTED, RESUME, Liar
from ntbrig import stack
from sharing import FOREVER, MP, PAST, fails

# Connections that a user asks for at a time, of a quarter of all.
ASKED, USERS = 64, 4
FIRST_USER = 4711
# Calls that wait, and answers that are nothing to them.
WAITING, ANSWERS = 8, 12
# What each user asks for.
NUMBER = 70


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    liar, victim = fabric.hosts
    stack.load(victim, liar, modules=TRANSPORT)
    wait_for_everyone(*fabric.hosts)
    stack.load(victim, modules=("mp_func_user",))
    victim.run("chmod 666 /dev/mp_fabric")
    stack.unload(liar, modules=TRANSPORT)
    return fabric


@pytest.fixture
def peer(fabric):
    liar, victim = fabric.hosts
    with Liar(liar, victim) as peer:
        peer.greet()
        yield peer


@pytest.fixture
def users(fabric):
    """Processes of users, one more than can ask at a time; each with the number that it asks for."""
    with ExitStack() as processes:
        yield [
            (processes.enter_context(sharing.Process(fabric.hosts[1], user=FIRST_USER + n)), NUMBER + n)
            for n in range(USERS + 1)
        ]


def wanted(process, number, deadline=FOREVER):
    fields = {"interface": process.interface(), "object": MP.OBJECT_EVENT, "number": number}
    return {"deadline": deadline, **fields}


def ask_for_all(process, number):
    """Ask for as many as a user may, and do not wait for the answers."""
    fields = wanted(process, number, PAST)
    process.wait_until_up(fields["interface"])
    assert process.guess(0, ASKED, 0, "CONNECT", "mp_connect", **fields) == ASKED
    with fails(errno.ETIMEDOUT):
        process.call("CONNECT", "mp_connect", **fields)


def asking(process, number, count=1):
    """Start calls in threads, and return when they wait."""
    fields = wanted(process, number)
    calls = [process.later("CONNECT", "mp_connect", **fields) for _ in range(count)]
    process.read(process.buffer, 1)
    process.until_asleep()
    return calls


def next_asked(peer, number):
    """The next connection to that number that the peer is asked for."""
    while True:
        _, connection, rest = peer.hear(CONNECT)
        if struct.unpack_from("<I", rest) == (number,):
            return connection


def answer(peer, *connections):
    for connection in connections:
        peer.say(CONNECTED, connection, struct.pack("<IIQQ", 0, 1, 0, 0))
    peer.flush()


def sleeps(process):
    """How often threads of a process have gone to sleep."""
    look = f"grep -h ^voluntary_ctxt /proc/{process.pid}/task/*/status"
    return [int(line.split()[1]) for line in process.guest.run(look).out.splitlines()]


def test_what_is_answered_to_one_user_wakes_no_call_of_another(peer, users):
    (flood, its), (other, number), *_ = users
    ask_for_all(flood, its)
    asked = [next_asked(peer, its) for _ in range(ASKED)]
    calls = asking(flood, its, WAITING)
    before = sleeps(flood)
    for _ in range(ANSWERS):
        [call] = asking(other, number)
        answer(peer, next_asked(peer, number))
        other.close(call.result().handle)
    assert sleeps(flood) == before
    # Each answer to its own is the turn of one.
    for connection in asked[:WAITING]:
        answer(peer, connection)
        answer(peer, next_asked(peer, its))
    for call in calls:
        call.result()
    assert sum(sleeps(flood)) - sum(before) < 8 * WAITING


def test_where_all_users_have_asked_for_too_many_each_answer_is_the_turn_of_one(peer, users):
    *flood, (last, number) = users
    asked = []
    for process, its in flood:
        ask_for_all(process, its)
        asked += [next_asked(peer, its) for _ in range(ASKED)]
    calls = asking(last, number, WAITING)
    assert not any(call.returned() for call in calls)
    for connection in asked[:WAITING]:
        answer(peer, connection)
        answer(peer, next_asked(peer, number))
    for call in calls:
        call.result()


def test_a_call_that_does_not_wait_any_more_takes_no_turn(peer, users):
    """The process is killed before its turn has come, or as it comes."""
    (flood, its), *_ = users
    ask_for_all(flood, its)
    asked = [next_asked(peer, its) for _ in range(ASKED)]
    with sharing.Process(flood.guest, user=FIRST_USER) as killed:
        asking(killed, its, WAITING)
        [call] = asking(flood, its)
        killed.kill()
        for connection in asked[:WAITING]:
            answer(peer, connection)
    answer(peer, next_asked(peer, its))
    call.result()


def test_an_answer_to_what_was_resumed_is_a_turn_as_well(fabric, users):
    """The peer comes back and does not answer what goes on: that is nobody's share, but takes all
    places."""
    *connected, (last, number) = users
    with Liar(*fabric.hosts) as peer:
        peer.greet()
        for process, its in connected:
            process.wait_until_up(process.interface())
            calls = asking(process, its, ASKED)
            answer(peer, *(next_asked(peer, its) for _ in calls))
            for call in calls:
                call.result()
    with Liar(*fabric.hosts) as peer:
        peer.greet()
        resumed = [peer.hear(RESUME)[1] for _ in range(USERS * ASKED)]
        last.wait_until_up(last.interface())
        [call] = asking(last, number)
        assert not call.returned()
        answer(peer, *resumed)
        answer(peer, next_asked(peer, number))
        call.result()
