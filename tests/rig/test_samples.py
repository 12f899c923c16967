# SPDX-License-Identifier: GPL-2.0-only
"""The C interface, by the guide's worked example: samples/mp_sample_c.c on all hosts,
and samples/mp_sample_echo.rs that answers it."""

import contextlib

import pytest
from ntbrig import stack

from frames import BROADCAST, SELF, TRANSPORT, peer_id, wait_for_everyone, wait_for_peers
from samples import ECHO, ECHO_ID, SAMPLE, flooding, order, values, wait_for

pytestmark = pytest.mark.everywhere

RP = 0
C = "mp_sample_c"


@pytest.fixture(scope="module")
def fabric(boot):
    """Three hosts whose links are up."""
    fabric = boot(hosts=3)
    stack.load(*fabric.hosts, modules=TRANSPORT)
    wait_for_everyone(*fabric.hosts)
    return fabric


@contextlib.contextmanager
def loaded(*guests, modules=SAMPLE):
    stack.load(*guests, modules=modules)
    try:
        yield
    finally:
        stack.unload(*guests, modules=modules)


def assert_nothing_is_lost(*guests):
    for guest in guests:
        seen = values(guest, C)
        assert (seen["buffers"], seen["corrupt"], seen["repeated"]) == (0, 0, 0), guest.name


def test_one_frame_to_the_rp_and_one_to_all(fabric):
    """IDT-FRM-9, IDT-MSG-3: the worked example itself."""
    rp, ep1, ep2 = fabric.hosts
    with loaded(*fabric.hosts):
        ep1.run(order(RP, 1, 1000))
        ep1.run(order(BROADCAST, 1, 1000))
        assert wait_for(rp, C, received=2)["received"] == 2
        assert wait_for(ep2, C, received=1)["received"] == 1
        sent = wait_for(ep1, C, rp_success=1, success=1)
        assert (sent["rp_success"], sent["rp_fail"]) == (1, 0)
        assert (sent["success"], sent["fail"]) == (1, 0)
        assert sent["received"] == 0
        assert_nothing_is_lost(*fabric.hosts)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, 65536])
def test_header_and_both_fragments_arrive_intact_and_once(fabric, size):
    """IDT-FRAG-1, IDT-MSG-6"""
    rp, ep1, _ = fabric.hosts
    count = 200
    with loaded(rp, ep1):
        rp.run(order(peer_id(ep1), count, size), timeout=30)
        assert wait_for(ep1, C, received=count)["received"] == count
        assert wait_for(rp, C, success=count)["success"] == count
        assert_nothing_is_lost(rp, ep1)


def test_a_broadcast_reaches_all_others_and_is_counted_once(fabric):
    """IDT-MSG-3"""
    # As many at once as the smallest ring holds: a copy that meets a full one has failed.
    count, at_once = 100, 10
    with loaded(*fabric.hosts):
        for sent in range(at_once, count + 1, at_once):
            fabric.rp.run(order(BROADCAST, at_once, 500), timeout=30)
            for guest in fabric.eps:
                assert wait_for(guest, C, received=sent)["received"] == sent
        sent = wait_for(fabric.rp, C, success=count)
        assert (sent["success"], sent["fail"], sent["received"]) == (count, 0, 0)
        assert_nothing_is_lost(*fabric.hosts)


def test_frames_to_self_are_delivered_locally(fabric):
    with loaded(fabric.rp):
        fabric.rp.run(order(SELF, 50, 3000))
        seen = wait_for(fabric.rp, C, received=50, success=50)
        assert (seen["received"], seen["success"], seen["fail"]) == (50, 50, 0)
        assert_nothing_is_lost(fabric.rp)


def test_a_frame_to_nobody_fails_in_its_destructor(fabric):
    with loaded(fabric.rp):
        fabric.rp.run(order(0x7700, 10, 100))
        seen = values(fabric.rp, C)
        assert (seen["success"], seen["fail"], seen["buffers"]) == (0, 10, 0)


def test_peers_are_announced_to_a_function_in_c(fabric):
    """IDT-PEER-12"""
    with loaded(fabric.rp):
        assert values(fabric.rp, C)["peers"] == 2
        stack.unload(fabric.eps[0], modules=("pximc_ntb",))
        wait_for_peers(fabric.rp, 1)
        assert values(fabric.rp, C)["peers"] == 1
        stack.load(fabric.eps[0], modules=("pximc_ntb",))
        wait_for_peers(fabric.rp, 2)
        assert values(fabric.rp, C)["peers"] == 2
        wait_for_everyone(*fabric.hosts)


@pytest.mark.parametrize("size", [0, 100, 20000])
def test_a_function_in_rust_answers_one_in_c(fabric, size):
    """IDT-FN-5"""
    rp, ep1, _ = fabric.hosts
    count = 50
    with loaded(rp), loaded(ep1, modules=ECHO):
        rp.run(order(peer_id(ep1), count, size, ECHO_ID), timeout=30)
        assert wait_for(rp, C, received=count)["received"] == count
        seen = wait_for(ep1, "mp_sample_echo", answered=count)
        assert (seen["answered"], seen["failed"], seen["refused"]) == (count, 0, 0)
        assert_nothing_is_lost(rp)


def test_a_killed_peer_costs_frames_and_nothing_else(fabric):
    """IDT-FRM-9: counters add up to the number of frames, and no buffer is lost."""
    rp, ep1, ep2 = fabric.hosts
    gone = peer_id(ep2)
    with loaded(rp, ep1):
        with contextlib.ExitStack() as victim:
            stack.load(ep2, modules=SAMPLE)
            flood = rp.spawn(order(gone, 100000, 5000), 120)
            wait_for(ep2, C, received=100)
            ep2.kill()
            victim.callback(ep2.boot)
            wait_for_everyone(rp, ep1, timeout=5)
            flood.wait().check()
            seen = values(rp, C)
            assert seen["success"] + seen["fail"] == 100000
            assert seen["fail"] > 0
            rp.run(order(gone, 5, 100))
            rp.run(order(BROADCAST, 5, 100))
            assert wait_for(ep1, C, received=5)["received"] == 5
            again = wait_for(rp, C, success=seen["success"] + 5)
            assert again["success"] == seen["success"] + 5
            assert again["fail"] == seen["fail"] + 5
            assert_nothing_is_lost(rp, ep1)
        stack.load(ep2, modules=TRANSPORT)
        wait_for_everyone(*fabric.hosts)
        with loaded(ep2):
            rp.run(order(gone, 5, 100))
            assert wait_for(ep2, C, received=5)["received"] == 5
            assert_nothing_is_lost(*fabric.hosts)


def test_samples_come_and_go_while_frames_fly(fabric):
    """IDT-FN-5"""
    rp, ep1, ep2 = fabric.hosts
    to = peer_id(ep1)
    with loaded(rp, ep2):
        with flooding(rp, to, 1000, 3000), flooding(ep2, to, 1000, 3000):
            for _ in range(3):
                with loaded(ep1):
                    seen = wait_for(ep1, C, received=50)
                    assert (seen["corrupt"], seen["repeated"]) == (0, 0)
                with loaded(ep1, modules=ECHO):
                    pass
        assert_nothing_is_lost(rp, ep2)


def test_a_sample_may_go_while_its_frames_are_under_way(fabric):
    rp, ep1, _ = fabric.hosts
    with loaded(ep1):
        for _ in range(5):
            with loaded(rp):
                rp.run(order(peer_id(ep1), 100, 60000), timeout=30)
                rp.run(order(SELF, 50, 60000), timeout=30)
        assert_nothing_is_lost(ep1)


def test_the_transport_may_go_while_a_function_in_c_receives(fabric):
    """IDT-TR-4"""
    rp, ep1, _ = fabric.hosts
    with loaded(rp, ep1):
        for _ in range(3):
            flood = rp.spawn(order(peer_id(ep1), 50000, 2000), 120)
            for host in (ep1, rp):
                stack.unload(host, modules=("pximc_ntb",))
                stack.load(host, modules=("pximc_ntb",))
                wait_for_everyone(*fabric.hosts)
            flood.wait().check()
        assert_nothing_is_lost(rp, ep1)
