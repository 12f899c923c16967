# SPDX-License-Identifier: GPL-2.0-only
"""MCAPI between hosts, by programs in C. The development host shows most of the rest, in
`userlib/mcapi` and `userlib/mcapi-ffi`."""

import json
import re
from contextlib import contextmanager

import pytest
from frames import wait_for_everyone
from ntbrig import mcapi as programs
from ntbrig import stack
from ntbrig.settings import programs_dir
from pximc import MODULES

BALANCE = programs.example("mcapi_balance")
BENCH = programs.tool("mcapi_bench")
CALLBACKS = programs.example("mcapi_callbacks")
CONNECT = programs.example("mcapi_connect")
CONTROL = programs.example("mcapi_control")
LS = programs.tool("mcapi_ls")
MANY = programs.example("mcapi_many")
NAMES = programs.example("mcapi_names")
OFFLOAD = programs.example("mcapi_offload")
PERF = programs.example("mcapi_perf")
PIPELINE = programs.example("mcapi_pipeline")
RECOVER = programs.example("mcapi_recover")


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3)
    stack.load(*fabric.hosts, modules=MODULES)
    wait_for_everyone(*fabric.hosts)
    programs.configure(fabric.hosts)
    return fabric


@pytest.fixture(params=("hosts", "own"))
def ends(request, fabric):
    """Where the server and the clients run: on two hosts, or both on one."""
    one, other, _ = fabric.hosts
    return (other, one) if request.param == "hosts" else (one, one)


def start(guest, *command):
    return guest.spawn([*command], env=programs.ENV, timeout=240)


@contextmanager
def started(*commands):
    """Programs that are ready, each on a guest."""
    running = [start(guest, *command) for guest, *command in commands]
    try:
        for process in running:
            process.wait_for_output("ready")
        yield running
    finally:
        for process in running:
            process.kill()


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


def test_functions_are_called_with_what_arrives(ends):
    """MC-WAITANY-1, MC-WAITANY-5, MC-ATTR-6: of endpoints that are subscribed while a thread waits for others,
    and given up; a sender sees how much room there is, and what is urgent is not behind the rest."""
    there, here = ends
    with started((there, CALLBACKS, "server", 12)) as (server,):
        told = start(here, CALLBACKS, "client", 13, 12, 500).wait(180).check().out
        assert re.fullmatch(r"500 sent, waited \d+ times\n", told)
        assert server.wait(60).check().out.endswith("500 bulk, 6 urgent\n")


def test_channels_carry_commands_data_and_results(ends):
    """MC-PKTREL-1: a scalar channel and packet channels both ways; packets are kept where they have
    arrived and released in another order."""
    there, here = ends
    with start(there, OFFLOAD, "worker", 5) as worker:
        worker.wait_for_output("ready")
        client = start(here, OFFLOAD, "client", 6, 5, 50).wait(180).check()
        assert client.out == "50 jobs, 0 wrong\n"
        worker.wait(60).check()


def test_programs_of_1_0_talk_to_each_other(ends):
    """MC-COMPAT-1: messages, packets and scalars there and back, by names, statuses and orders of
    arguments of 1.0, between two hosts and on one."""
    there, here = ends
    program = programs_dir() / "mcapi_version1"
    with started((there, program, "server", 7)) as (server,):
        client = start(here, program, "client", 8, 7, 400).wait(180).check()
        assert client.out == "400 rounds, 0 wrong\n"
        server.wait(60).check()


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


def test_the_tool_measures_all_kinds(ends):
    """A line for each kind and size; the server ends when its client has."""
    there, here = ends
    with start(there, BENCH, "server", "--node", 9, "--once") as server:
        server.wait_for_output("ready")
        words = ("client", 0, 9, "--node", 8, "--rounds", 20, "--sizes", "8,65536", "--json")
        told = start(here, BENCH, *words).wait(180).check().out
        results = [json.loads(line) for line in told.splitlines()]
        sizes = [8, 65536, 8, 65536, 8]
        assert [result["bytes"] for result in results] == sizes
        kinds = [result["kind"] for result in results]
        assert kinds == ["messages"] * 2 + ["packets"] * 2 + ["scalars"]
        assert all(0 < result["min"] <= result["median"] <= result["p99"] for result in results)
        assert all(result["mb_s"] > 0 for result in results)
        server.wait(60).check()


def test_the_tool_measures_several_servers(fabric):
    """Many that send to one, and a pipeline, of servers on all three hosts."""
    numbers = [60 + n for n in range(3)]
    words = [(guest, BENCH, "server", "--node", number)
             for guest, number in zip(fabric.hosts, numbers)]  # fmt: skip
    servers = [f"0:{number}" for number in numbers]
    both = ("--node", 59, "--rounds", 200, "--json")
    with started(*words):
        for kind in ("messages", "packets", "scalars"):
            command = [BENCH, "many", *servers, *both, "--kind", kind]
            told = json.loads(start(fabric.rp, *command).wait(180).check().out)
            assert (told["kind"], told["sources"], told["rounds"]) == (kind, 3, 200)
            assert told["items_s"] > 0 and told["mb_s"] > 0
        command = [BENCH, "pipeline", *servers, *both, "--size", 4096]
        told = json.loads(start(fabric.rp, *command).wait(180).check().out)
        assert (told["stages"], told["bytes"]) == (3, 4096)
        assert 0 < told["min"] <= told["median"] <= told["p99"]
        assert told["mb_s"] > 0


def test_a_node_is_one_process_of_the_fabric(fabric):
    """MC-INIT-6: a second process that wants its number is refused, on whichever host."""
    one, other, _ = fabric.hosts
    with start(other, NAMES, "server", 1) as server:
        server.wait_for_output("ready")
        for guest in (one, other):
            refused = start(guest, NAMES, "server").wait(60)
            assert refused.rc == 1
            assert "FAILED: mcapi_initialize: MCAPI_ERR_NODE_INITFAILED" in refused.err


@pytest.mark.parametrize("order", ((0, 1, 2), (2, 1, 0)), ids=("connector last", "connector first"))
@pytest.mark.parametrize("places", ((0, 1, 2), (0, 0, 0)), ids=("three hosts", "one host"))
def test_a_third_node_connects_two_that_do_not_know_each_other(fabric, places, order):
    """MC-PKTCONN-1, MC-EPGET-1: in whatever order the three are started; all packets come, and then the
    end."""
    words = (("source", 51, 5000), ("sink", 52), ("connector", 53, 51, 52))
    running = {n: start(fabric.hosts[places[n]], CONNECT, *words[n]) for n in order}
    try:
        told = [running[n].wait(120).check().out for n in range(3)]
        assert told == ["", "5000 packets\n", ""]
    finally:
        for process in running.values():
            process.kill()


def recovered(client, packets):
    """How often a client has recovered that has got on with all its packets."""
    told = client.wait(180).check().out
    return int(re.fullmatch(rf"begun\n{packets} packets, recovered (\d+) times\n", told)[1])


def test_a_client_goes_on_with_a_worker_that_was_killed_and_is_back(fabric):
    """MC-INIT-7, MC-CHAN-16, MC-WAIT-4, MC-CANCEL-6: both have their numbers again, and a new channel."""
    here, there, _ = fabric.hosts
    packets = 5_000
    with started((there, RECOVER, "worker", 56)) as (worker,):
        client = start(here, RECOVER, "client", 57, 56, packets)
        try:
            client.wait_for_output("begun")
            worker.kill()
            worker.wait()
            with start(there, RECOVER, "worker", 56) as again:
                assert recovered(client, packets) >= 1
                again.wait(60).check()
        finally:
            client.kill()


def test_a_client_goes_on_with_a_worker_that_stood_still(fabric):
    """MC-GEN-5, MC-FINAL-2, MC-CANCEL-6: no wait of the client is longer than it says, nor is finalizing;
    the worker sees that its client has gone, and serves the next one."""
    here, there, _ = fabric.hosts
    packets = 5_000
    with started((there, RECOVER, "worker", 58)) as (worker,):
        client = start(here, RECOVER, "client", 59, 58, packets)
        try:
            client.wait_for_output("begun")
            there.run(f"kill -STOP {worker.pid}; sleep 4; kill -CONT {worker.pid}")
            assert recovered(client, packets) >= 1
            worker.wait(60).check()
        finally:
            client.kill()


def test_a_control_loop_never_waits_for_samples(fabric):
    """MC-CHAN-2, MC-PKTCONN-1, MC-PKTAVAIL-1: on three hosts; flags come in order, and samples that
    belong together."""
    control, tpu, signal = fabric.hosts
    others = [start(tpu, CONTROL, "tpu", 11), start(signal, CONTROL, "signal", 12)]
    told = start(control, CONTROL, "control", 10, 11, 12, 200).wait(120).check().out
    for process in others:
        process.wait(60).check()
    counts = re.fullmatch(r"(\d+) loops, (\d+) with new samples, (\d+) wrong\n", told)
    loops, fresh, wrong = map(int, counts.groups())
    assert (loops, wrong) == (200, 0)
    assert fresh > 0


def test_packets_go_to_workers_that_are_free(fabric):
    """MC-CHAN-3, MC-SCLAVAIL-1: on all three hosts; each of them gets some."""
    workers = [(guest, BALANCE, "worker", 21 + n) for n, guest in enumerate(fabric.hosts)]
    with started(*workers) as running:
        command = ("balancer", 20, 1000, 21, 22, 23)
        told = start(fabric.rp, BALANCE, *command).wait(120).check().out
        assert told == "1000 packets, 0 workers without work, the sum is right\n"
        for process in running:
            process.wait(60).check()


def test_a_pipeline_has_stages_on_three_hosts(fabric):
    """MC-PKTCONN-1, MC-BUF-6: stages that do not know each other; each changes all bytes where they
    have arrived."""
    stages = [(guest, PIPELINE, "stage", 31 + n) for n, guest in enumerate(fabric.hosts)]
    with started(*stages) as running:
        words = ("source", 30, 31, 32, 33, "--rounds", 100, "--json")
        told = json.loads(start(fabric.rp, PIPELINE, *words).wait(120).check().out)
        assert (told["stages"], told["rounds"]) == (3, 100)
        assert told["us"] > 0 and told["mb_s"] > 0
        for process in running:
            process.wait(60).check()


@pytest.mark.parametrize("kind", ("messages", "packets", "scalars"))
def test_many_send_to_one_and_all_get_their_turn(fabric, kind):
    """MC-MSG-1, MC-CHAN-3: from all three hosts, in the order of each."""
    words = ("sink", 40, 3, "--kind", kind, "--rounds", 2000, "--json")
    with started((fabric.rp, MANY, *words)) as (sink,):
        sources = [start(guest, MANY, "source", 41 + n, 40) for n, guest in enumerate(fabric.hosts)]
        for source in sources:
            source.wait(120).check()
        told = json.loads(sink.wait(60).check().out.splitlines()[-1])
        assert told["sources"] == 3
        assert told["items_s"] > 0 and told["spread"] >= 1


@pytest.mark.parametrize(
    "nodes, endpoints, seconds",
    ((16, 8, 2), (4, 32, 2), pytest.param(16, 32, 60, marks=pytest.mark.long)),
    ids=("nodes", "endpoints", "long"),
)
def test_all_send_to_all_and_nothing_is_lost(fabric, nodes, endpoints, seconds):
    """MC-MSG-1, MC-MSG-4, MC-GEN-8, MC-GEN-9: many nodes on three hosts, with many endpoints each, of which
    each sends to all; every message arrives once, whole, in order and where it was sent to. Of 16 nodes with
    32 endpoints, a message of each to each takes an emulated host more than a minute."""
    program = programs_dir() / "mcapi_all"
    # Nodes take long to find each other, to send what they have to, and to count.
    timeout = seconds + 600
    running = []
    try:
        for node in range(nodes):
            guest = fabric.hosts[node % len(fabric.hosts)]
            words = [program, node, nodes, endpoints, seconds]
            running.append(guest.spawn(words, timeout, env=programs.ENV, stdin=True))
        told = []
        for process in running:
            process.wait_for_output("\n", timeout)
            told.append(json.loads(process.output))
        for process in running:
            process.write(b"\n")
        for process in running:
            process.wait(60).check()
    finally:
        for process in running:
            process.kill()
    assert [each["node"] for each in told] == list(range(nodes))
    assert {each["wrong"] for each in told} == {0}, told
    assert [each["received"] for each in told] == [each["expected"] for each in told]
    assert sum(each["sent"] for each in told) == sum(each["received"] for each in told)
    # Each pair of endpoints has had its messages.
    least, sent = min(each["least"] for each in told), sum(each["sent"] for each in told)
    print(f"{sent} messages, {least} at least from each endpoint to each one")
    assert least >= 1


def test_nodes_and_channels_of_all_hosts_are_listed(fabric):
    """Domains, nodes, endpoints and channels, as a table and as JSON."""
    one, other, third = fabric.hosts
    numbers = stack.numbers(fabric.hosts)
    with start(other, OFFLOAD, "worker", 5) as worker:
        worker.wait_for_output("ready")
        lines = third.run([LS, "--json"], env=programs.ENV).out.splitlines()
        (found,) = [json.loads(line) for line in lines]
        assert (found["domain"], found["node"], found["host"]) == (0, 5, numbers[1])
        assert [end["port"] for end in found["endpoints"]] == [0, 1, 2]
        assert all(end["state"] == ["opening"] for end in found["endpoints"])
        table = one.run([LS], env=programs.ENV).out.splitlines()
        assert [line.split()[:4] for line in table[1:]] == [
            ["0", "5", hex(numbers[1]), str(port)] for port in range(3)
        ]
        worker.kill()
