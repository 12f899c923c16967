# SPDX-License-Identifier: GPL-2.0-only
"""Message frame service and NTB transport, driven by the test function service."""

import pytest
from ntbrig import stack

from frames import (
    BROADCAST,
    SELF,
    TEST,
    TRANSPORT,
    Receivers,
    counters,
    peer_counter,
    peer_id,
    send,
    wait_for_everyone,
    wait_for_peers,
    wait_until_received,
)

pytestmark = pytest.mark.everywhere


@pytest.fixture(scope="module")
def fabric(boot):
    """Three hosts whose links are up."""
    fabric = boot(hosts=3)
    stack.load(*fabric.hosts, modules=TRANSPORT)
    wait_for_everyone(*fabric.hosts)
    return fabric


def test_the_rp_has_id_zero_and_gives_each_ep_an_id_of_its_own(fabric):
    """IDT-ID-2, IDT-ID-5"""
    assert [peer_id(guest) for guest in fabric.hosts] == [0, 0x100, 0x200]


def test_every_host_lists_all_others_with_id_index_type_and_state(fabric):
    """IDT-ID-5, IDT-PEER-2, IDT-PEER-4"""
    for guest in fabric.hosts:
        others = [peer_id(other) for other in fabric.hosts if other is not guest]
        listed = guest.run("ls /sys/kernel/mp/peers").out.split()
        assert [int(name, 16) for name in listed] == others
        for name in listed:
            directory = f"/sys/kernel/mp/peers/{name}"
            assert guest.run(f"cat {directory}/type").out.strip() == "ntb"
            assert guest.run(f"cat {directory}/state").out.strip() == "connected"
            assert int(guest.run(f"cat {directory}/index").out) == int(name, 16) >> 8


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 65536, 131072])
def test_frames_to_a_peer_arrive_once_in_order_and_intact(fabric, size):
    """IDT-FRAG-1, IDT-FRM-9, IDT-FN-2, IDT-MSG-2, IDT-MSG-4, IDT-MSG-6"""
    count = 50 if size > 60000 else 500
    for sender, receiver in ((fabric.rp, fabric.eps[0]), (fabric.eps[1], fabric.eps[0])):
        with Receivers(receiver):
            sent = send(sender, peer_id(receiver), count, size)
            seen = wait_until_received(receiver, count)
        assert (sent["sent_ok"], sent["sent_failed"]) == (count, 0)
        assert (seen["received"], seen["corrupt"], seen["repeated"]) == (count, 0, 0)


def test_priority_frames_take_the_control_ring_and_arrive_intact(fabric):
    """IDT-ID-6: each of them once and in order."""
    with Receivers(fabric.rp):
        sent = send(fabric.eps[0], 0, 300, 1000, priority=1)
        seen = wait_until_received(fabric.rp, 300)
    assert sent["sent_failed"] == 0
    assert (seen["received"], seen["corrupt"], seen["repeated"]) == (300, 0, 0)


def test_a_broadcast_reaches_every_other_host_once_and_is_completed_once(fabric):
    """IDT-ID-4, IDT-MSG-3"""
    count = 40
    with Receivers(*fabric.eps):
        sent = send(fabric.rp, BROADCAST, count, 700)
        seen = [wait_until_received(guest, count) for guest in fabric.eps]
    assert (sent["sent_ok"], sent["sent_failed"]) == (count, 0)
    for receiver in seen:
        assert (receiver["received"], receiver["corrupt"], receiver["repeated"]) == (count, 0, 0)


@pytest.mark.parametrize("size", [0, 100, 70000])
def test_frames_to_self_are_delivered_locally(fabric, size):
    """IDT-ID-3, IDT-PEER-11"""
    own = send(fabric.rp, SELF, 100, size)
    assert own["sent_ok"] == 100
    assert (own["received"], own["corrupt"], own["repeated"]) == (100, 0, 0)


def test_a_frame_to_nobody_fails_in_its_destructor(fabric):
    """IDT-FRM-4"""
    sent = send(fabric.rp, 0x7700, 10, 100)
    assert (sent["sent_ok"], sent["sent_failed"]) == (0, 10)


def test_a_frame_for_an_unknown_function_is_dropped_and_counted(fabric):
    """IDT-FN-4: and nobody is told."""
    receiver = fabric.eps[0]
    counter = "/sys/kernel/mp/dropped_unknown_function"
    before = int(receiver.read(counter))
    errors = peer_counter(receiver, 0, "rx_errors")
    answers = peer_counter(fabric.rp, peer_id(receiver), "rx_frames")
    sent = send(fabric.rp, peer_id(receiver), 25, 100)
    assert sent["sent_ok"] == 25
    stack.wait_until(stack.holds(counter, f"-ge {before + 25}"), receiver)
    assert int(receiver.read(counter)) == before + 25
    assert peer_counter(receiver, 0, "rx_errors") == errors + 25
    assert peer_counter(fabric.rp, peer_id(receiver), "rx_frames") == answers


def test_both_sides_count_the_same_frames_and_data_bytes(fabric):
    """IDT-PEER-1, IDT-PEER-4"""
    sender, receiver = fabric.rp, fabric.eps[0]

    def totals():
        there, here = peer_id(receiver), peer_id(sender)
        return [
            peer_counter(host, peer, f"{way}_{what}")
            for host, peer, way in ((sender, there, "tx"), (receiver, here, "rx"))
            for what in ("frames", "bytes")
        ]

    with Receivers(receiver):
        before = totals()
        send(sender, peer_id(receiver), 77, 1234)
        wait_until_received(receiver, 77)
        grown = [after - old for old, after in zip(before, totals())]
    assert grown == [77, 77 * 1234] * 2


def test_a_function_learns_of_the_peers_that_are_there_when_it_registers(fabric):
    """IDT-PEER-12"""
    guest = fabric.eps[1]
    with Receivers(guest):
        assert counters(guest)["peers_added"] == 2


def test_functions_come_and_go_while_frames_fly(fabric):
    """IDT-FN-3, IDT-FN-5"""
    sender, receiver = fabric.rp, fabric.eps[0]
    # More than it can send meanwhile; unloading it ends that.
    order = f"dst={peer_id(receiver)} count=100000000 size=2000"
    stack.load(sender, modules=TEST, parameters={"mp_func_test": order})
    try:
        for _ in range(5):
            with Receivers(receiver):
                assert wait_until_received(receiver, 1)["corrupt"] == 0
    finally:
        stack.unload(sender, modules=TEST)


def test_a_killed_peer_is_missed_by_the_others_and_found_again(fabric):
    """IDT-PEER-12, IDT-FRM-9"""
    victim, survivor = fabric.eps[1], fabric.eps[0]
    gone = peer_id(victim)
    # In a mesh the way over the root processor may outlive the direct one, and come before it.
    detours = 1 if fabric.settings.topology == "mesh" else 0
    with Receivers(survivor):
        victim.kill()
        wait_for_everyone(fabric.rp, survivor, timeout=5)
        assert 1 <= counters(survivor)["peers_removed"] <= 1 + detours
        assert send(fabric.rp, gone, 5, 100)["sent_failed"] == 5
        assert send(fabric.rp, peer_id(survivor), 5, 100)["sent_ok"] == 5
        victim.boot()
        stack.load(victim, modules=TRANSPORT)
        wait_for_everyone(*fabric.hosts)
        seen = counters(survivor)
        assert 1 <= seen["peers_removed"] <= 1 + 2 * detours
        assert seen["peers_added"] == 2 + seen["peers_removed"]
    assert peer_id(victim) == gone


@pytest.mark.parametrize("order", ["rp-last", "ep-last"])
def test_the_transport_may_be_loaded_in_any_order(fabric, order):
    hosts = fabric.hosts if order == "ep-last" else fabric.hosts[::-1]
    stack.unload(*fabric.hosts, modules=("pximc_ntb",))
    for guest in hosts:
        stack.load(guest, modules=("pximc_ntb",))
    wait_for_everyone(*hosts)


def test_unloading_the_transport_under_traffic_harms_nobody(fabric):
    """IDT-TR-4"""
    sender, receiver, third = fabric.hosts
    # Where the third is at a bridge of its own, the sender is its way to everybody.
    left = {receiver: 1, sender: 0 if fabric.settings.topology in ("star", "mixed") else 1}
    order = f"dst={peer_id(receiver)} count=100000000 size=3000"
    with Receivers(receiver):
        stack.load(sender, modules=TEST, parameters={"mp_func_test": order})
        wait_until_received(receiver, 100)
        for host in (receiver, sender):
            stack.unload(host, modules=("pximc_ntb",))
            wait_for_peers(third, left[host], timeout=5)
            stack.load(host, modules=("pximc_ntb",))
            wait_for_everyone(*fabric.hosts)
        stack.unload(sender, modules=TEST)
        assert counters(receiver)["corrupt"] == 0
