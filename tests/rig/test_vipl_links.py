# SPDX-License-Identifier: GPL-2.0-only
"""VIs and their links: what fails when one is lost or its bridge is unloaded, and which hosts are found."""

import time

import pytest
from frames import wait_for_everyone
from ntbrig import stack
from ntbrig import vipl as programs
from ntbrig.settings import PATIENCE
from outages import GOES, STAYS, THIRD, fabric, plug
from pximc import MODULES
from vipl import (
    ERRORS, LEVELS, RD, RECV, RESOURCES, RR, SEND, STATUS, UD, Ends, all_ends, connect, ends, fails,
    says, stopped,
)  # fmt: skip
from vipl_ways import FLUSHED, LOST, Bystander

WRITE, READ = 1, 2


@pytest.mark.parametrize("level", LEVELS)
def test_what_waits_for_a_partner_fails_with_the_link(fabric, ends, level):
    """VI-EM-11, VI-EM-13, VI-STS-6, VI-STS-9, VI-STATE-10, VI-STATE-11, VI-STATE-20, VI-REL-4,
    VI-REL-9, VI-REL-10, SC-16: reads, and the oldest send that was not acknowledged, with
    TRANSPORT; all others are flushed."""
    stays, goes = ends.side(STAYS, level), ends.side(GOES, level)
    connect(stays, goes)
    for _ in range(5):
        goes.receive(0, 0x10000)
    last = stays.receive()
    with stopped(goes.program):
        reads = []
        if level != UD:
            for _ in range(2):
                piece = [stays.part(0, 64)]
                reads.append(stays.post(SEND, piece, control=READ, remote=goes.part(0, 0)))
        sends = [stays.send(b"never")]
        long = [stays.post(SEND, [stays.part(0, 0x10000)]) for _ in range(4)]
        begun = time.monotonic()
        fabric.unplug(fabric.hosts[GOES])
        try:
            stays.told(1)
            # A heartbeat that is missing is noticed after less than a second.
            assert time.monotonic() - begun < 5 * PATIENCE
            done = [stays.wait(SEND) for _ in reads + sends + long]
            assert [each.descriptor for each in done] == reads + sends + long
            errors = [each.errors for each in done]
            assert errors[: len(reads)] == [{"TRANSPORT"}] * len(reads)
            rest = errors[len(reads) :]
            if level == RR:
                assert rest == [{"TRANSPORT"}] + [FLUSHED] * 4
            else:
                # What is on its way is complete; the one that waits for room is not.
                assert rest[0] == set() and rest[-1] == FLUSHED
                assert all(each in (set(), FLUSHED) for each in rest)
            assert (stays.wait(RECV).descriptor, stays.told(1)) == (last, LOST)
            assert stays.state() == "ERROR"
            stays.send(b"later")
            assert stays.wait(SEND).errors == FLUSHED
        finally:
            plug(fabric)
    goes.until_state("ERROR")
    assert goes.told(1) == LOST
    stays.end_connection()
    goes.end_connection()
    connect(goes, stays)
    says(stays, goes, b"back again")


@pytest.mark.parametrize("level", (RD, RR))
def test_a_write_that_the_link_cuts_is_told(fabric, ends, level):
    """VI-ERR-12, VI-ERR-18, VI-STATE-10: without immediate data it has no descriptor there that
    could say so."""
    stays, goes = ends.side(STAYS, level, size=1 << 17), ends.side(GOES, level, size=1 << 17)
    connect(stays, goes)
    try:
        with stopped(goes.program):
            piece = [stays.part(0, 0x20000)]
            stays.post(SEND, piece, control=WRITE, remote=goes.part(0, 0))
            fabric.unplug(fabric.hosts[GOES])
            stays.told(1)
        assert goes.told(2) == ["RDMA_TRANSPORT", *LOST]
    finally:
        plug(fabric)
    code = [ERRORS.index("RDMA_TRANSPORT")]
    vi = [goes.nic, goes.vi, 0, 0, STATUS.OP_REMOTE_RDMA_WRITE, RESOURCES.index("VI"), *code]
    assert goes.reports()[0][:7] == vi
    assert goes.state() == "ERROR"


def test_a_bridge_that_is_unloaded_ends_connections(fabric, ends):
    """VI-EM-11, VI-ERR-15, VI-NR-4, VI-SMI-4, VI-SMI-5: of the host where that is done, and of its
    peers, at each level."""
    pairs = [(ends.side(STAYS, level), ends.side(GOES, level)) for level in LEVELS]
    for pair in pairs:
        connect(*pair)
    bystander = Bystander(ends)
    all_sides = [side for pair in pairs for side in pair]
    for side in all_sides:
        side.receive()
    stays, goes = pairs[0]
    guest = fabric.hosts[GOES]
    third = bystander.there.host
    assert stays.program.neighbours(stays.nic) == {goes.host, third}
    stack.unload(guest, modules=("pximc_ntb",))
    try:
        for side in all_sides:
            assert (side.wait(RECV).errors, side.told(1)) == (FLUSHED, LOST)
            side.disconnect()
            assert side.state() == "IDLE"
        assert stays.program.neighbours(stays.nic) == {third}
        bystander.goes_on()
    finally:
        stack.load(guest, modules=("pximc_ntb",))
        wait_for_everyone(*fabric.hosts)
    connect(goes, stays)
    says(stays, goes, b"back again")


# --- hosts in a row


@pytest.fixture
def row(boot):
    """Three hosts in a row, of which the last one has no modules yet."""
    fabric = boot(hosts=3, topology="star")
    stack.load(*fabric.hosts[:-1], modules=MODULES)
    yield fabric
    boot.end(fabric)


def test_hosts_are_found_up_to_so_many_links_away(row):
    """VI-SMI-2, VI-SMI-4, VI-SMI-5: of three hosts in a row the outer ones are no neighbours of each
    other, and two links away.
    """
    stack.load(row.hosts[-1], modules=MODULES)
    wait_for_everyone(*row.hosts)
    ends = Ends(row.hosts, programs.configure(row.hosts))
    try:
        ends.start()
        middle, *outer = (ends.side(host) for host in (STAYS, GOES, THIRD))
        with fails("ERROR_RESOURCE"):
            middle.program.neighbours(middle.nic, room=1)
        for room in (2, 4):
            found = middle.program.neighbours(middle.nic, room=room)
            assert found == {side.host for side in outer}
        for side in outer:
            assert side.program.neighbours(side.nic) == {middle.host}
            assert side.program.neighbours(side.nic, hops=0) == set()
        hosts = {side.host for side in (middle, *outer)}
        for side in (middle, *outer):
            with fails("ERROR_RESOURCE"):
                side.program.neighbours(side.nic, hops=2, room=1)
            for hops in (2, 3, (1 << 64) - 1):
                assert side.program.neighbours(side.nic, hops=hops) == hosts - {side.host}
    finally:
        ends.end()
