# SPDX-License-Identifier: GPL-2.0-only
"""Hosts with two processors: two queues for each peer, polls side by side."""

import json

import pytest
from ntbrig import stack

from ether import lost
from frames import peer_id


@pytest.fixture(scope="module")
def pair(boot):
    guests = boot(hosts=2, cpus=2).hosts
    stack.bring_up(*guests)
    return guests


def test_each_processor_has_a_ring_of_its_own(pair):
    for guest, other in (pair, pair[::-1]):
        assert guest.read(f"/sys/kernel/mp/peers/{peer_id(other):08x}/queues").strip() == "2"
        assert len(guest.run("pgrep -x mp_busy_poll").out.split()) == 2


def test_parallel_streams_in_both_directions(pair):
    rp, ep1 = pair
    server = ep1.spawn("iperf3 -s -1 --forceflush", timeout=60)
    server.wait_for_output("Server listening")
    out = rp.run(f"iperf3 -J -P 4 --bidir -t 3 -c {stack.address(ep1)}", timeout=60).out
    server.wait()
    for stream in json.loads(out)["end"]["streams"]:
        assert stream["receiver"]["bytes"] > 0
    assert lost(rp) == lost(ep1) == {}


def test_both_queues_carry_many_flows(pair):
    rp, ep1 = pair
    clients = [
        rp.spawn(f"ping -q -c 300 -i 0.005 -W 5 {stack.address(ep1)}", timeout=60)
        for _ in range(4)
    ]
    for client in clients:
        assert " 0% packet loss" in client.wait().check().out


def test_modules_are_unloaded_under_traffic(pair):
    rp, ep1 = pair
    for _ in range(3):
        flood = rp.spawn(f"timeout 20 ping -q -f {stack.address(ep1)}", timeout=40)
        stack.unload(ep1)
        stack.load(ep1)
        stack.configure(ep1)
        rp.run("pkill -x ping", check=False)
        flood.wait()
        stack.wait_for_carrier(rp, ep1)
        # A search for the address that began while the host was away may fail yet.
        stack.wait_until(f"ping -q -c 1 -W 5 {stack.address(ep1)} > /dev/null", rp, timeout=20)
