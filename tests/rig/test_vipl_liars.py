# SPDX-License-Identifier: GPL-2.0-only
"""Partners of VIs that write what they like into the memory that they reach: their own connections end, and
nothing else does."""

import random
import re
import time

import pytest
from outages import GOES, STAYS, fabric
from shell import until
from vipl import LEVELS, PAGE, RECV, SEND, ViplError, all_ends, connect, ends, says
from vipl_ways import LOST, Bystander, end, little_memory

# What windows are mapped from.
DEVICE = "/dev/mp_fabric"


def outbound(liar, victim):
    """The window of a program into the memory of its partner's host: its address and length."""
    marker = bytes(range(250, 255)) * 200
    liar.receive(0, len(marker))
    victim.send(marker)
    assert (liar.wait(RECV).errors, victim.wait(SEND).errors) == (set(), set())
    spans = windows(liar.program)
    # The marker has arrived in the other one, perhaps in several pieces.
    (span,) = [span for span in spans if marker[:30] not in memory(liar.program, *span)]
    return span


def windows(program):
    """Windows of a program: the address and length of each, and where its device has it."""
    maps = program.guest.read(f"/proc/{program.pid}/maps")
    found = re.findall(rf"^(\w+)-(\w+) rw-s (\w+) .*{DEVICE}", maps, re.M)
    spans = [[int(word, 16) for word in words] for words in found]
    return {(begin, end - begin): offset for begin, end, offset in spans}


def memory(program, begin, length):
    return b"".join(program.read(begin + at, PAGE) for at in range(0, length, PAGE))


# So long the longer ones of the tests below go on.
MINUTE = pytest.param(60, marks=pytest.mark.long)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seconds", (0, MINUTE))
def test_a_partner_that_scribbles_ends_its_own_connection_and_nothing_else(ends, level, seconds):
    """VI-EM-10, VI-MEM-7, VI-DESC-18: over all that it can reach of another host, by stores that no
    library has looked at; on one connection after the other, for so long."""
    bystander = Bystander(ends)
    stays, liar = ends.side(STAYS, level), ends.side(GOES, level)
    stays.program.fill(stays.data, 0x8000, 1)
    chance = random.Random(level)
    end = time.monotonic() + seconds
    while True:
        connect(stays, liar)
        begin, length = outbound(liar, stays)
        posted = [stays.receive(0x10000 + 64 * n) for n in range(4)]
        # A queue on which nothing is: it looks all the same.
        scribble(liar, begin, length, stays, chance, lambda: stays.program.count(stays.vi, SEND))
        assert stays.told(1)[-1:] == LOST
        done = stays.drain(RECV)
        assert [each.descriptor for each in done] == posted
        assert stays.program.check(stays.data, 0x8000, 1).wrong == 0
        bystander.goes_on()
        stays.end_connection()
        liar.end_connection()
        if time.monotonic() > end:
            break
    connect(stays, liar)
    says(liar, stays, b"the truth")


@pytest.mark.parametrize("seconds", (3, MINUTE))
def test_a_partner_that_scribbles_over_an_ended_connection_harms_nobody(ends, seconds):
    """VI-EM-10, VI-MEM-7: by a mapping that its library knows nothing of, from before the end on, and
    while both, and others, have new connections and give their memory back."""
    bystander = Bystander(ends)
    stays, liar = ends.side(STAYS), ends.side(GOES)
    connect(stays, liar)
    span = outbound(liar, stays)
    offset = windows(liar.program)[span]
    mapped = liar.program.map_path(DEVICE, offset, span[1])
    storm = liar.program.later.storm(mapped, span[1], 0xA5, 1000 * seconds)
    # Nobody has rung: it looks by itself.
    until(lambda: stays.done(SEND) is None and stays.state() == "ERROR")
    assert stays.told(1)[-1:] == LOST
    rounds = 0
    while True:
        over = storm.returned()
        stays.end_connection()
        liar.end_connection()
        connect(stays, liar)
        for one, other in ((stays, liar), (liar, stays)):
            says(one, other, bytes(rounds + n & 0xFF for n in range(64)))
        bystander.goes_on()
        rounds += 1
        if over:
            break
    # It has gone on all the time.
    storm.result()
    assert rounds > 2 and len(stays.reports()) == 1
    liar.program.unmap(mapped, span[1])


@pytest.mark.parametrize("seconds", (0, MINUTE))
def test_a_partner_that_scribbles_over_a_trunk_ends_its_connections_and_nothing_else(
    fabric, ends, seconds
):
    """VI-EM-10, VI-MEM-7, VI-LIM-6: all connections of the two NIC handles, which have nothing else;
    not those of another handle of the same program."""
    chance = random.Random(1)
    end = time.monotonic() + seconds
    with little_memory(fabric):
        bystander = Bystander(ends)
        stays, liar = ends.side(STAYS), ends.side(GOES)
        here, there = stays.another(), ends.side(GOES)
        pairs = [(stays.another(), liar.another()) for _ in range(3)]
        kept = stays.data + 0x1000
        stays.program.fill(kept, 0x8000, 1)
        while True:
            for pair in pairs:
                connect(*pair)
            span = outbound(pairs[0][1], pairs[0][0])
            connect(here, there)
            posted = [own.receive(0x10000 + 64 * n) for n, (own, _) in enumerate(pairs)]
            done = []
            first, scribbles = pairs[0]
            scribble(scribbles, *span, first, chance, lambda: done.extend(briefly(first)))
            for (own, _), at in zip(pairs, posted):
                assert own.told(1)[-1:] == LOST
                done.extend(own.drain(RECV))
                assert own.state() == "ERROR"
            assert [each.descriptor for each in done] == posted
            assert all(each.errors for each in done)
            says(there, here, b"another trunk")
            says(here, there, b"and back")
            bystander.goes_on()
            assert (here.reports(), there.reports()) == ([], [])
            assert stays.program.check(kept, 0x8000, 1).wrong == 0
            for side in (*(side for pair in pairs for side in pair), here, there):
                side.end_connection()
            if time.monotonic() > end:
                break
            # Its trunk ends with it: the next one has other windows.
            there.program.close_nic(there.nic)
            there = ends.side(GOES)
        connect(*pairs[0])
        says(*pairs[0], b"the truth")


def briefly(side):
    """What comes for a side in a moment."""
    try:
        return [side.wait(RECV, 5)]
    except ViplError as error:
        assert error.name == "TIMEOUT"
        return []


def scribble(liar, begin, length, stays, chance, look):
    """Store what comes, until the other side has had enough of it, which looks in this way."""
    for _ in range(20):
        for at in range(0, length, PAGE):
            liar.program.write(begin + at, chance.randbytes(PAGE))
        # Nobody has rung: it looks by itself.
        look()
        if stays.state() == "ERROR":
            return
    pytest.fail(f"the other side is still {stays.state()}")
