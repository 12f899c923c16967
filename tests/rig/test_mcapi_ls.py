# SPDX-License-Identifier: GPL-2.0-only
"""`mcapi_ls` tells of all nodes, endpoints and channels of three hosts, wherever it runs: of two domains,
both kinds of channels, and each state that an end has."""

import json

import pytest
from mcapi import (
    PACKETS, RECEIVE, SCALARS, SEND, all_nodes, nodes, stopped,
)  # fmt: skip
from ntbrig import mcapi as programs
from ntbrig import stack
from outages import fabric
from shell import until

LS = programs.tool("mcapi_ls")
OTHER_DOMAIN = 5


@pytest.fixture
def numbers(fabric, nodes):
    """The hosts' numbers; the third one has a second domain meanwhile."""
    numbers = programs.configure(fabric.hosts)
    line = f"domain {OTHER_DOMAIN}  {numbers[2]:#x}"
    stack.everywhere(fabric.hosts, f"echo '{line}' >> {programs.CONFIG}")
    yield numbers
    programs.configure(fabric.hosts)


def listed(guest, *options):
    """What the tool tells, by domain and node."""
    lines = guest.run([LS, "--json", *options], env=programs.ENV).out.splitlines()
    found = [json.loads(line) for line in lines]
    by_node = {(each.pop("domain"), each.pop("node")): each for each in found}
    assert len(by_node) == len(found)
    return by_node


def rows(guest, *options):
    """The table, without its head."""
    lines = guest.run([LS, *options], env=programs.ENV).out.splitlines()
    assert lines[0].split() == ["domain", "node", "host", "port", "type", "channel"]
    return sorted(line.split() for line in lines[1:])


def connected(kind, sender, out, receiver, into):
    """Connect two endpoints, which are given with their nodes."""
    sender.connect(kind, out, into).wait()


def opened(kind, sender, out, receiver, into):
    """The handles of both ends of a new channel."""
    connected(kind, sender, out, receiver, into)
    requests = sender.open(kind, SEND, out), receiver.open(kind, RECEIVE, into)
    return [request.opened() for request in requests]


def end(port, kind, state=(), partner=None):
    return {"port": port, "type": kind, "state": list(state), "partner": partner}


def as_row(domain, node, host, told):
    """What the table says of an endpoint."""
    words = [str(domain), str(node), hex(host), str(told["port"]), told["type"]]
    if told["partner"]:
        there = ",".join(map(str, told["partner"]))
        words += ["to" if "send" in told["state"] else "from", f"<{there}>"]
    hidden = ("connected", "send", "receive")
    return words + [state for state in told["state"] if state not in hidden]


def test_all_nodes_and_channels_are_listed_from_each_host(fabric, nodes, numbers):
    one, other, third = nodes.on(0), nodes.on(1), nodes.program(2)
    third.initialize(nodes.number(), domain=OTHER_DOMAIN)
    at = {node: [node.endpoint(port) for port in range(1, 6)] for node in (one, other, third)}
    opened(PACKETS, one, at[one][0], other, at[other][0])
    opened(SCALARS, other, at[other][1], third, at[third][1])
    connected(PACKETS, third, at[third][2], one, at[one][2])
    one.open(PACKETS, RECEIVE, at[one][2])
    send, receive = opened(PACKETS, other, at[other][3], one, at[one][3])
    one.close(PACKETS, RECEIVE, receive)
    until(lambda: "CLOSE_PENDING" in one.flags(at[one][3]))
    alone = third.open(SCALARS, SEND, at[third][4])
    a, b, c = (0, one.number), (0, other.number), (OTHER_DOMAIN, third.number)
    out, into = ("connected", "send"), ("connected", "receive")
    expected = {
        a: [
            end(1, "packet", (*out, "open"), [*b, 1]),
            end(2, "message"),
            end(3, "packet", (*into, "opening"), [*c, 3]),
            end(4, "packet", (*into, "closing"), [*b, 4]),
            end(5, "message"),
        ],
        b: [
            end(1, "packet", (*into, "open"), [*a, 1]),
            end(2, "scalar", (*out, "open"), [*c, 2]),
            end(3, "message"),
            end(4, "packet", (*out, "open"), [*a, 4]),
            end(5, "message"),
        ],
        c: [
            end(1, "message"),
            end(2, "scalar", (*into, "open"), [*b, 2]),
            end(3, "packet", out, [*a, 3]),
            end(4, "message"),
            end(5, "message", ("opening",)),
        ],
    }
    hosts = dict(zip((a, b, c), numbers))
    whole = {node: {"host": hosts[node], "endpoints": ends} for node, ends in expected.items()}
    for guest in fabric.hosts:
        assert listed(guest) == whole
        assert listed(guest, "--domain", OTHER_DOMAIN) == {c: whole[c]}
    table = [as_row(*node, hosts[node], told) for node, ends in expected.items() for told in ends]
    assert rows(fabric.hosts[1], "--node", 77) == sorted(table)
    alone.cancel()


def test_nodes_without_endpoints_and_those_that_do_not_tell_are_listed(fabric, nodes, numbers):
    one, other = nodes.on(0), nodes.on(1)
    with stopped(other):
        told = listed(fabric.hosts[2])
        table = rows(fabric.hosts[2])
    assert told == {
        (0, one.number): {"host": numbers[0], "endpoints": []},
        (0, other.number): {"host": numbers[1], "endpoints": None},
    }
    assert table == [
        ["0", str(one.number), hex(numbers[0]), "-", "-"],
        ["0", str(other.number), hex(numbers[1]), "?", "does", "not", "tell"],
    ]
