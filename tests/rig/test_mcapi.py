# SPDX-License-Identifier: GPL-2.0-only
"""MCAPI between hosts, by programs in C and in Rust. The development host shows most of the rest, in
`userlib/mcapi` and `userlib/mcapi-ffi`."""

import json
from contextlib import contextmanager

import pytest
from ntbrig import mcapi as programs
from ntbrig import stack
from ntbrig.settings import PATIENCE, programs_dir
from pximc import MODULES

NAMES = programs.example("mcapi_names")
PERF = programs.example("mcapi_perf")
KINDS = ("messages", "packets", "scalars")
ROUNDS = 100


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
    server = start(there, NAMES, "server", 2)
    try:
        server.wait_for_output("ready")
        clients = [
            start(here, NAMES, "client", 1, "anna", "bert"),
            start(there, NAMES, "client", 2, "bert", "anna"),
        ]
        told = [client.wait(120).check().out for client in clients]
        assert told == ["anna was greeted by bert\n", "bert was greeted by anna\n"]
        assert server.wait(60).check().out.endswith("2 names\n")
    finally:
        server.kill()


def test_messages_of_all_sizes_come_back_and_are_counted(ends):
    """MC-GEN-11: also without bytes, and of the largest size."""
    there, here = ends
    server = start(there, PERF, "server", 3)
    try:
        server.wait_for_output("ready")
        sizes = [0, 8, 4096, 65536]
        words = ["--rounds", 20, "--json", "--sizes", ",".join(map(str, sizes))]
        told = start(here, PERF, "client", 4, 3, *words).wait(180).check().out
        results = [json.loads(line) for line in told.splitlines()]
        assert [result["bytes"] for result in results] == sizes
        assert all(0 < result["min"] <= result["median"] <= result["p99"] for result in results)
        server.wait(60).check()
    finally:
        server.kill()


def test_a_node_is_one_process_of_the_fabric(fabric):
    """MC-INIT-6: a second process that wants its number is refused, on whichever host."""
    one, other = fabric.hosts
    server = start(other, NAMES, "server", 1)
    try:
        server.wait_for_output("ready")
        for guest in (one, other):
            refused = start(guest, NAMES, "server").wait(60)
            assert refused.rc == 1
            assert "FAILED: mcapi_initialize: MCAPI_ERR_NODE_INITFAILED" in refused.err
    finally:
        server.kill()


# --- in Rust: the server returns what it gets, the client compares what comes back


def command(role, *options):
    return [programs_dir() / "examples" / "mcapi_pingpong", role, *options]


@contextmanager
def serving(guest, kind):
    server = guest.spawn(command("server", kind), timeout=240)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def domain(guest):
    """The number of a host in the fabric, which is that of its domain."""
    return int(guest.read("/sys/kernel/mp/self").strip(), 16)


def played(server, client, kind, *options):
    """What a client tells."""
    number = domain(server)
    run = client.run(
        command("client", kind, "--domain", number, *options), timeout=120 * PATIENCE
    )
    return json.loads(run.out)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_back_as_it_was_sent(fabric, kind):
    """Each host is server once, for one client after another: a channel is connected, opened and
    closed by each of them."""
    rp, ep = fabric.hosts
    for server, client in ((rp, ep), (ep, rp)):
        with serving(server, kind):
            for _ in range(2):
                out = played(server, client, kind, "--rounds", ROUNDS, "--size", 60_000)
                assert (out["rounds"], out["wrong"]) == (ROUNDS, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_that_sleep_are_woken(fabric, kind):
    """Both look for 10 ms and then sleep."""
    rp, ep = fabric.hosts
    with serving(rp, kind):
        out = played(rp, ep, kind, "--rounds", 20, "--pause", 60)
        assert (out["rounds"], out["wrong"]) == (20, 0)
