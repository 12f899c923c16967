# SPDX-License-Identifier: GPL-2.0-only
"""Nodes on the outer hosts of a star, whose data the middle host forwards: a third node that connects
them, the latest value of a state, a list of all, and what becomes of them when the middle host dies
or one of them is unplugged."""

import json

from frames import wait_for_everyone
from mcapi import (
    KINDS, PACKETS, RECEIVE, SCALARS, SEND, Nodes, channel, status_of,
)  # fmt: skip
from ntbrig import mcapi as programs
from ntbrig import stack
from outages import row
from pximc import MODULES
from shell import until

MIDDLE, ONE, OTHER = range(3)
LS = programs.tool("mcapi_ls")
SEVERED = {PACKETS: "TRANSMISSION", SCALARS: "GENERAL"}


def carries(ends):
    """Something goes from one end of a channel to the other."""
    if ends.kind == PACKETS:
        ends.sender.send_packet(ends.send, b"packet")
        assert ends.receiver.take_packet(ends.receive) == b"packet"
    else:
        ends.sender.send_scalar(ends.send, 7)
        assert ends.receiver.receive_scalar(ends.receive) == 7


def ends_of(one, other, by):
    """A channel of each kind each way, that a third node has connected."""
    both = ((one, other), (other, one))
    return [channel(kind, *way, by=by) for kind in KINDS for way in both]


def assert_severed(channels):
    """Both ends are told, and can be closed."""
    for ends in channels:
        send = lambda: (
            ends.sender.send_packet(ends.send)
            if ends.kind == PACKETS
            else ends.sender.send_scalar(ends.send, 1)
        )
        receive = lambda: (
            ends.receiver.receive_packet(ends.receive)
            if ends.kind == PACKETS
            else ends.receiver.receive_scalar(ends.receive)
        )
        for use in (send, receive):
            until(lambda: status_of(use) == SEVERED[ends.kind])
        ends.sender.close(ends.kind, SEND, ends.send).wait()
        ends.receiver.close(ends.kind, RECEIVE, ends.receive).wait()


def greets(sender, receiver):
    own, there = sender.endpoint(), receiver.endpoint()
    sender.send(own, there, b"over the middle")
    assert receiver.receive(there) == b"over the middle"


def listed(guest):
    """Domain, node and host of all that a host's tool tells of, and how many endpoints they have."""
    lines = guest.run([LS, "--json"], env=programs.ENV).out.splitlines()
    found = [json.loads(line) for line in lines]
    return {(each["node"], each["host"]): len(each["endpoints"]) for each in found}


def test_nodes_of_a_star_are_connected_by_the_middle_and_listed_everywhere(row):
    """MC-PKTCONN-1, MC-SCLCONN-1, MC-STATE-1"""
    nodes = Nodes(row.hosts)
    try:
        middle, one, other = (nodes.on(host) for host in range(3))
        for ends in ends_of(one, other, middle):
            carries(ends)
        state = channel(SCALARS, one, other, by=middle, buffer_type=1)
        for value in range(1000):
            one.send_scalar(state.send, value)
        until(lambda: other.receive_scalar(state.receive) == 999)
        numbers = stack.numbers(row.hosts)
        expected = {(node.number, number): 5 for node, number in zip((one, other), numbers[1:])}
        expected |= {(middle.number, numbers[MIDDLE]): 0}
        for guest in row.hosts:
            assert listed(guest) == expected
    finally:
        nodes.end()


def test_outer_hosts_are_told_that_the_middle_has_died(row):
    """MC-CHAN-16, MC-MSG-8, MC-INIT-6: of channels and messages between them, and of those that waited;
    when it is back, they find each other again."""
    nodes = Nodes(row.hosts)
    try:
        middle, one, other = (nodes.on(host) for host in range(3))
        channels = ends_of(one, other, middle)
        idle = channel(PACKETS, one, other)
        waits = other.later.call("pktchan_recv", idle.receive, "cell=0", "cell=0")
        get = one.get_i(other.number, 99)
        row.hosts[MIDDLE].kill()
        assert status_of(waits.result) == "TRANSMISSION"
        assert_severed(channels)
        lost = lambda: one.send(one.endpoint(), there, b"nobody forwards it")
        there = other.endpoint()
        until(lambda: status_of(lost) == "TRANSMISSION")
        assert get.test() == (False, 0)
        row.hosts[MIDDLE].boot()
        stack.load(row.hosts[MIDDLE], modules=MODULES)
        wait_for_everyone(*row.hosts)
        programs.configure(row.hosts)
        endpoint = other.endpoint(99)
        get.wait()
        assert get.result() == endpoint
        greets(one, other)
        again = nodes.on(MIDDLE)
        for ends in ends_of(one, other, again):
            carries(ends)
    finally:
        nodes.end()


def test_a_host_of_a_star_that_is_unplugged_is_lost_to_all_others(row):
    """MC-CHAN-16, MC-MSG-8: to the middle and to the other outer host, which go on with each other; it is
    found again."""
    nodes = Nodes(row.hosts)
    try:
        middle, one, other = (nodes.on(host) for host in range(3))
        lost = ends_of(one, other, middle) + ends_of(middle, other, one)
        kept = ends_of(one, middle, one)
        row.unplug(row.hosts[OTHER])
        assert_severed(lost)
        for ends in kept:
            carries(ends)
        greets(one, middle)
        row.plug(row.hosts[OTHER])
        wait_for_everyone(*row.hosts)
        for node in (one, middle):
            greets(node, other)
            for ends in ends_of(node, other, one):
                carries(ends)
    finally:
        nodes.end()
