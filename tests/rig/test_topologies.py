# SPDX-License-Identifier: GPL-2.0-only
"""Hosts that are not all at one bridge: the root processor forwards between them.

Each topology has the same hosts, with the same ids, and the same Ethernet.
"""

import itertools
import os
import time

import pytest
from ntbrig import stack

from ether import ethtool_stats, ping, stream
from frames import (
    BROADCAST,
    LOWER,
    TEST,
    Receivers,
    counters,
    peer_id,
    send,
    wait_for_everyone,
    wait_for_peers,
    wait_until_received,
)

LONG = os.environ.get("LONG") == "1"
TOPOLOGIES = [
    pytest.param(("star", 3), id="star"),
    pytest.param(("mesh", 3), id="mesh", marks=pytest.mark.long),
    pytest.param(("mixed", 4), id="mixed"),
]


def service(guest, name):
    return guest.read(f"/sys/kernel/mp/{name}").strip()


def dropped(guest):
    names = ("bad_header", "no_route", "stale", "overrun", "forwarding")
    return {name: n for name in names if (n := int(service(guest, f"dropped_{name}")))}


def route(guest, other):
    return guest.read(f"/sys/kernel/mp/peers/{peer_id(other):08x}/route").strip()


def share_a_bridge(fabric, a, b):
    return any({a.port, b.port} <= set(board.hosts) for board in fabric.settings.boards)


@pytest.fixture(scope="module", params=TOPOLOGIES)
def fabric(request, boot):
    topology, hosts = request.param
    fabric = boot(hosts=hosts, topology=topology)
    stack.bring_up(*fabric.hosts)
    wait_for_everyone(*fabric.hosts)
    yield fabric
    boot.end(fabric)


def endpoints(fabric):
    return fabric.hosts[1:]


def test_every_host_knows_all_others_under_ids_of_the_root_processor(fabric):
    """IDT-ID-5, IDT-PEER-13"""
    ids = [peer_id(guest) for guest in fabric.hosts]
    assert ids[0] == 0 and len(set(ids)) == len(ids)
    assert sorted(ids) == [index << 8 for index in range(len(ids))]
    for guest, own in zip(fabric.hosts, ids):
        peers = guest.run("ls /sys/kernel/mp/peers").out.split()
        assert sorted(int(peer, 16) for peer in peers) == sorted(set(ids) - {own})


def test_hosts_at_one_bridge_reach_each_other_directly_and_the_others_by_the_root(fabric):
    """IDT-MSG-7"""
    for guest, other in itertools.permutations(fabric.hosts, 2):
        direct = share_a_bridge(fabric, guest, other)
        assert route(guest, other) == ("direct" if direct else "via 00000000")


def test_a_host_that_comes_is_told_the_address_of_every_other(fabric):
    """IDT-ETH-2: also of those that it reaches by the root processor."""
    last = fabric.hosts[-1]
    stack.unload(last)
    # What it is told before it listens is lost.
    stack.load(last, modules=(*LOWER, "mp_func_ether", "pximc_ntb"))
    stack.configure(last)
    wait_for_everyone(*fabric.hosts)
    others = len(fabric.hosts) - 1
    stack.wait_until(f"ethtool -S ntb0 | grep -q 'rx_announced: {others}$'", last, timeout=10)


def test_every_pair_pings(fabric):
    """IDT-ETH-1, IDT-ETH-2"""
    for guest, other in itertools.permutations(fabric.hosts, 2):
        ping(guest, stack.address(other))


def test_streams_between_endpoints_arrive_whole(fabric):
    """IDT-MSG-7"""
    first, *_, last = endpoints(fabric)
    mib = 16 if LONG else 4
    stream(first, last, mib)
    stream(last, first, mib)
    assert dropped(fabric.rp) == {}


@pytest.mark.parametrize("priority", (0, 1))
def test_frames_between_endpoints_arrive_once_in_order_and_intact(fabric, priority):
    """IDT-MSG-7, IDT-ID-6"""
    first, *_, last = endpoints(fabric)
    with Receivers(last):
        sent = send(first, peer_id(last), count=2000, size=3000, priority=priority)
        assert (sent["sent_ok"], sent["sent_failed"]) == (2000, 0)
        seen = wait_until_received(last, 2000)
        assert (seen["received"], seen["corrupt"] + seen["repeated"]) == (2000, 0)


def test_a_broadcast_of_an_endpoint_reaches_every_other_host_once(fabric):
    """IDT-MSG-3"""
    first, others = endpoints(fabric)[0], [g for g in fabric.hosts if g is not endpoints(fabric)[0]]
    with Receivers(*others):
        assert send(first, BROADCAST, count=100, size=500)["sent_failed"] == 0
        for guest in others:
            seen = wait_until_received(guest, 100)
            assert (seen["received"], seen["corrupt"] + seen["repeated"]) == (100, 0)
    assert dropped(fabric.rp) == {}


def test_an_endpoint_that_dies_is_missed_and_found_again_by_all(fabric):
    """IDT-PEER-13, IDT-ETH-4"""
    first, *_, last = endpoints(fabric)
    others = [guest for guest in fabric.hosts if guest is not last]
    last.kill()
    wait_for_peers(fabric.rp, len(others) - 1)
    wait_for_peers(first, len(others) - 1)
    ping(first, stack.address(fabric.rp))
    last.start()
    last.wait_ready()
    stack.bring_up(last)
    wait_for_everyone(*fabric.hosts)
    ping(first, stack.address(last))
    stream(last, first, mib=4)


@pytest.mark.parametrize(
    "order",
    [(2, 0, 1)] + [pytest.param(o, marks=pytest.mark.long) for o in ((0, 1, 2), (1, 2, 0))],
    ids=str,
)
def test_hosts_may_come_in_any_order(fabric, order):
    """IDT-ID-5, IDT-PEER-13"""
    hosts = fabric.hosts[:3]
    ids = [peer_id(guest) for guest in fabric.hosts]
    stack.unload(*hosts)
    for number in order:
        stack.load(hosts[number])
        stack.configure(hosts[number])
    wait_for_everyone(*fabric.hosts)
    assert [peer_id(guest) for guest in fabric.hosts] == ids
    for guest, other in itertools.combinations(fabric.hosts, 2):
        ping(guest, stack.address(other))


def test_without_the_root_processor_only_neighbours_are_left(fabric):
    """IDT-PEER-13"""
    stack.unload(fabric.rp, modules=stack.MODULES)
    for guest in endpoints(fabric):
        neighbours = sum(
            share_a_bridge(fabric, guest, other)
            for other in endpoints(fabric)
            if other is not guest
        )
        wait_for_peers(guest, neighbours)
    stack.bring_up(fabric.rp)
    wait_for_everyone(*fabric.hosts)
    for guest, other in itertools.permutations(fabric.hosts, 2):
        ping(guest, stack.address(other))


@pytest.fixture
def patient(boot):
    """A star of hosts that nobody takes for dead when they stand still."""
    fabric = boot(hosts=4, topology="star")
    stack.bring_up(*fabric.hosts, parameters={"pximc_ntb": "timeout_ms=60000"})
    wait_for_everyone(*fabric.hosts)
    yield fabric
    boot.end(fabric)


def test_a_receiver_that_stands_still_stops_nobody_elses_frames(patient):
    """IDT-MSG-7: what waits for it does not stand in the way of others."""
    rp, first, frozen, last = patient.hosts
    # Its own clock shows how long it has stood still.
    frozen.run("sysctl -e -w kernel.watchdog=0")
    for other in (rp, last):
        ping(first, stack.address(other))
    count = 5000
    order = f"dst={peer_id(frozen)} count={count} size=8000"
    with Receivers(frozen):
        frozen.freeze()
        try:
            stack.load(first, modules=TEST, parameters={"mp_func_test": order})
            for other in (rp, last):
                ping(first, stack.address(other))
            stream(first, last, mib=1)
            assert counters(first)["done"] == 0
        finally:
            frozen.thaw()
        seen = wait_until_received(frozen, count, timeout=60)
        assert (seen["received"], seen["corrupt"] + seen["repeated"]) == (count, 0)
        stack.unload(first, modules=TEST)
    assert dropped(rp) == {}


@pytest.fixture(
    params=(
        pytest.param(("star", 4), id="star"),
        pytest.param(("switch", 3), id="switch", marks=pytest.mark.long),
    )
)
def stalled(boot, request):
    """A fabric with a host that stands still. What another endpoint sends it has no room any more."""
    topology, hosts = request.param
    fabric = boot(hosts=hosts, topology=topology)
    parameters = {"pximc_ntb": "timeout_ms=60000", "mp_func_ether": "flood_wait_ms=50"}
    stack.bring_up(*fabric.hosts, parameters=parameters)
    wait_for_everyone(*fabric.hosts)
    first, *_, frozen = fabric.hosts if topology == "switch" else endpoints(fabric)
    # Its own clock shows how long it has stood still.
    frozen.run("sysctl -e -w kernel.watchdog=0")
    for other in fabric.hosts:
        if other is not first:
            ping(first, stack.address(other))
    order = f"dst={peer_id(frozen)} count=5000 size=8000"
    frozen.freeze()
    try:
        stack.load(first, modules=TEST, parameters={"mp_func_test": order})
        sent = -1
        while sent != (sent := counters(first)["sent_ok"]):
            time.sleep(0.5)
        assert counters(first)["done"] == 0
        yield fabric, first, frozen
    finally:
        frozen.thaw()
    boot.end(fabric)


def test_a_receiver_that_stands_still_stops_nobody_elses_broadcasts(stalled):
    """IDT-MSG-7, IDT-ETH-2: others find each other's addresses by packets to all hosts."""
    fabric, first, frozen = stalled
    awake = [guest for guest in fabric.hosts if guest not in (first, frozen)]
    for _ in range(2):
        first.run("ip neigh flush dev ntb0")
        for other in awake:
            ping(first, stack.address(other))
    assert ethtool_stats(first)["tx_flood_dropped"] > 0
    for other in awake:
        other.run("ip neigh flush dev ntb0")
        ping(other, stack.address(first))
    frozen.thaw()
    first.run("ip neigh flush dev ntb0")
    ping(first, stack.address(frozen))


@pytest.fixture(params=("switch", "mesh"))
def bare(boot, request):
    """Three hosts without modules."""
    fabric = boot(hosts=3, topology=request.param)
    yield fabric
    boot.end(fabric)


def test_a_second_root_processor_is_an_error_on_both(bare):
    """IDT-ID-2: no fabric has two."""
    first, second, endpoint = bare.hosts
    bottom = stack.MODULES[:-1]
    stack.load(first, second, modules=bottom, parameters={"pximc_ntb": "timeout_ms=2000 role=1"})
    stack.wait_until("dmesg | grep -q 'is a root processor like this host'", first, second)
    stack.load(endpoint, modules=bottom, parameters={"pximc_ntb": "timeout_ms=2000 role=2"})
    wait_for_peers(endpoint, 1)
    stack.wait_until("dmesg | grep -q 'is a second root processor'", endpoint)
    peers = [guest.run("ls /sys/kernel/mp/peers").out.split() for guest in (first, second)]
    obeyed = peers.index([f"{peer_id(endpoint):08x}"])
    assert peers[1 - obeyed] == []
    refused = (first, second)[1 - obeyed]
    stack.wait_until("dmesg | grep -q 'obeys another root processor'", refused)
