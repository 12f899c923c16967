# SPDX-License-Identifier: GPL-2.0-only
"""SISCI between hosts: its programs, one of them on each host: the tools that are installed, which
are in Rust, and the same as examples in C."""

import json

import pytest
from ntbrig import sisci, stack
from pximc import MODULES

NODES = (4, 8)


@pytest.fixture(scope="module")
def hosts(boot):
    """Two hosts, which know each other as nodes 4 and 8."""
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    sisci.configure(dict(zip(NODES, fabric.hosts)))
    return fabric.hosts


@pytest.fixture(params=["c", "rust"])
def program(request):
    """Where a program is: the example in C, or the tool in Rust."""
    return sisci.example if request.param == "c" else sisci.tool


@pytest.fixture
def play(hosts, program):
    """Run a program on both hosts; what the client tells."""

    def run(name, *words):
        return sisci.play(program(name), dict(zip(NODES, hosts)), *words)

    return run


def test_nodes_find_each_other(hosts, program):
    """SI-PROBE-1, SI-LNODE-1, SI-QUERY-1"""
    for host, node in zip(hosts, NODES):
        told = sisci.run(host, program("sci_query"), "--json", *NODES, 12)
        told = json.loads(told.check().out)
        assert told["node"] == node
        assert told["links"] == 1
        assert told["link_operational"] == 1
        assert told["dma"] == 1
        assert told["nodes"] == {"4": True, "8": True, "12": False}


def test_a_probe_tells_why_a_node_does_not_answer(hosts, program):
    """SI-PROBE-1"""
    told = sisci.run(hosts[0], program("sci_probe"), "--json", 8, 12, 300)
    assert told.rc == 1
    found, unknown, illegal = map(json.loads, told.out.splitlines())
    assert (found["node"], found["answers"], found["us"] > 0) == (8, True, True)
    assert unknown == {"node": 12, "answers": False, "error": "no such node"}
    assert illegal == {"node": 300, "answers": False, "error": "illegal node id"}
    assert sisci.run(hosts[0], program("sci_probe"), 8).rc == 0


def test_stores_go_to_and_fro(play):
    """SI-CONSEG-1, SI-MAPR-1, SI-MAPL-1, SI-FLUSH-1, SI-SEQ-4, SI-RMSEG-2: messages of each side
    arrive at the other one in order, without a system call, and nothing is busy at the end."""
    told = play("scipp", "--rounds", 200, "--sizes", "4,2000")
    assert [(line["name"], line["bytes"]) for line in told] == [("scipp", 4), ("scipp", 2000)]
    assert all(0 < line["min"] <= line["median"] <= line["p99"] for line in told)


def test_interrupts_go_to_and_fro(play):
    """SI-CRINT-1, SI-CRINT-2, SI-WINT-1, SI-TRINT-1, SI-RMINT-2"""
    (line,) = play("intr_bench", "--rounds", 100)
    assert (line["name"], line["rounds"]) == ("intr_bench", 100)
    assert 0 < line["min"] <= line["median"] <= line["p99"]


def test_copies_arrive(play):
    """SI-MEMWR-1, SI-MEMCPY-1, SI-STBAR-1, SI-CKSEQ-1, SI-WDINT-1: what was written by the
    processor is there when the other node hears of it, and can be read from there."""
    told = play("scibench", "--rounds", 5, "--sizes", "100,20000")
    names = ["write", "barrier", "memcpy", "read"]
    assert [line["name"] for line in told] == names * 2
    assert [line["bytes"] for line in told] == [100] * 4 + [20000] * 4
    assert all(line["mb_s"] > 0 for line in told)


def test_copies_by_dma_arrive(play):
    """SI-SDMA-2, SI-SDMA-9, SI-SDMAM-1, SI-SDMAV-1: in one piece, in many, many at once, and from
    memory of the program; what the other node has is looked at when the queue says that it is done."""
    told = play("dmabench", "--rounds", 5, "--sizes", "5,70000", "--pieces", 7)
    assert [line["name"] for line in told] == ["dma", "vector", "series", "memory"] * 2
    assert all(line["mb_s"] > 0 for line in told)


def test_calls_have_answers(play):
    """SI-CRDINT-1, SI-WDINT-1, SI-TRDINT-1"""
    told = play("rpc", "--rounds", 50, "--sizes", "1,4088")
    assert [(line["name"], line["bytes"]) for line in told] == [("rpc", 1), ("rpc", 4088)]


def test_callbacks_tell_the_life_of_a_segment(hosts, program):
    """SI-EVT-1, SI-EVT-2, SI-EVT-3: of the owner, and of who is connected."""
    client, server = sisci.both(program("shmem"), dict(zip(NODES, hosts)))
    at_server = ["created", "prepared", "available", "connected", "greeted", "unavailable"]
    assert [line["event"] for line in server] == [*at_server, "disconnected", "removed"]
    assert [line["node"] for line in server] == [0, 0, 0, 4, 4, 0, 4, 0]
    at_client = ["connected", "mapped", "written", "unavailable", "disconnected"]
    assert [line["event"] for line in client] == at_client
    assert [line["node"] for line in client] == [8, 0, 0, 8, 0]


def test_a_node_that_is_not_there_is_waited_for_only_so_long(hosts, program):
    told = sisci.run(hosts[0], program("intr_bench"), "client", 8, "--patience", 100)
    assert told.rc == 1
    assert told.err.startswith("FAILED: SCIConnectInterrupt: no such segment")


SHORT = {
    "scipp": ("--rounds", 20, "--sizes", 8),
    "intr_bench": ("--rounds", 20),
    "scibench": ("--rounds", 2, "--sizes", 64),
    "dmabench": ("--rounds", 2, "--sizes", 64),
    "rpc": ("--rounds", 5, "--sizes", 8),
    "shmem": (),
}


@pytest.mark.parametrize("name", SHORT)
def test_c_and_rust_understand_each_other_and_tell_the_same(hosts, name):
    """A client of one language with a server of the other one: the same results by name."""
    nodes = dict(zip(NODES, hosts))
    told = [
        sisci.both(client(name), nodes, *SHORT[name], server=server(name))
        for client, server in ((sisci.tool, sisci.example), (sisci.example, sisci.tool))
    ]
    rust, c = ([list(map(set, lines)) for lines in sides] for sides in told)
    assert rust == c
    assert rust[0]


def test_queries_tell_the_same_in_c_and_rust(hosts):
    """SI-QUERY-1, SI-QUERY-4"""
    told = [
        json.loads(sisci.run(hosts[0], program("sci_query"), "--json", *NODES).check().out)
        for program in (sisci.tool, sisci.example)
    ]
    assert told[0] == told[1]
