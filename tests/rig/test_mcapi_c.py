# SPDX-License-Identifier: GPL-2.0-only
"""MCAPI between hosts, by programs in C. The development host shows most of the rest, in
`userlib/mcapi` and `userlib/mcapi-ffi`."""

import json

import pytest
from ntbrig import mcapi as programs
from ntbrig import stack
from pximc import MODULES

NAMES = programs.example("mcapi_names")
OFFLOAD = programs.example("mcapi_offload")
PERF = programs.example("mcapi_perf")


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    programs.configure(fabric.hosts)
    return fabric


@pytest.fixture(params=("hosts", "own"))
def ends(request, fabric):
    """Where the server and the clients run: on two hosts, or both on one."""
    one, other = fabric.hosts
    return (other, one) if request.param == "hosts" else (one, one)


def start(guest, *command):
    return guest.spawn([*command], env=programs.ENV, timeout=240)


def test_handles_in_messages_are_usable_at_once(ends):
    """MC-MSG-12: clients that know nobody but a name server find each other there, and send
    messages to handles that they were told. One of them is where the server is."""
    there, here = ends
    with start(there, NAMES, "server", 2) as server:
        server.wait_for_output("ready")
        clients = [
            start(here, NAMES, "client", 1, "anna", "bert"),
            start(there, NAMES, "client", 2, "bert", "anna"),
        ]
        told = [client.wait(120).check().out for client in clients]
        assert told == ["anna was greeted by bert\n", "bert was greeted by anna\n"]
        assert server.wait(60).check().out.endswith("2 names\n")


def test_channels_carry_commands_data_and_results(ends):
    """MC-PKTREL-1: a scalar channel and packet channels both ways; packets are kept where they have
    arrived and released in another order."""
    there, here = ends
    with start(there, OFFLOAD, "worker", 5) as worker:
        worker.wait_for_output("ready")
        client = start(here, OFFLOAD, "client", 6, 5, 50).wait(180).check()
        assert client.out == "50 jobs, 0 wrong\n"
        worker.wait(60).check()


@pytest.mark.parametrize("kind", ("messages", "packets", "scalars"))
def test_data_of_all_sizes_comes_back_and_is_counted(ends, kind):
    """MC-GEN-11: also without bytes, and of the largest size."""
    there, here = ends
    with start(there, PERF, "server", 3) as server:
        server.wait_for_output("ready")
        sizes = [8] if kind == "scalars" else [0, 8, 4096, 65536]
        words = ["--kind", kind, "--rounds", 20, "--json", "--sizes", ",".join(map(str, sizes))]
        told = start(here, PERF, "client", 4, 3, *words).wait(180).check().out
        results = [json.loads(line) for line in told.splitlines()]
        assert [result["bytes"] for result in results] == sizes
        assert all(0 < result["min"] <= result["median"] <= result["p99"] for result in results)
        server.wait(60).check()


def test_a_node_is_one_process_of_the_fabric(fabric):
    """MC-INIT-6: a second process that wants its number is refused, on whichever host."""
    one, other = fabric.hosts
    with start(other, NAMES, "server", 1) as server:
        server.wait_for_output("ready")
        for guest in (one, other):
            refused = start(guest, NAMES, "server").wait(60)
            assert refused.rc == 1
            assert "FAILED: mcapi_initialize: MCAPI_ERR_NODE_INITFAILED" in refused.err
