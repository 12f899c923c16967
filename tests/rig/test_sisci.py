# SPDX-License-Identifier: GPL-2.0
"""The library of SISCI between hosts: its examples in C, one of them on each host."""

import json

import pytest
from frames import peer_id
from ntbrig import stack
from ntbrig.demo import stage
from pximc import MODULES

CONFIG = "/run/sisci.conf"
NODES = (4, 8)


@pytest.fixture(scope="module")
def hosts(boot):
    """Two hosts, which know each other as nodes 4 and 8."""
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    lines = [
        f"node {node} peer {peer_id(host)} name {host.name}"
        for node, host in zip(NODES, fabric.hosts)
    ]
    for host in fabric.hosts:
        host.run("printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + f" > {CONFIG}")
    return fabric.hosts


def command(program, *words):
    return [stage() / "bin" / program, *map(str, words)]


def play(hosts, program, *words):
    """Runs a program on both hosts; what the client tells."""
    env = {"SISCI_CONF": CONFIG}
    server = hosts[1].spawn(command(program, "server", NODES[0], *words), env=env)
    client = hosts[0].run(command(program, "client", NODES[1], "--json", *words), 120, env=env)
    server.wait(60).check()
    return [json.loads(line) for line in client.out.splitlines()]


def test_nodes_find_each_other(hosts):
    """SI-PROBE-1, SI-LNODE-1, SI-QUERY-1"""
    env = {"SISCI_CONF": CONFIG}
    for host, node in zip(hosts, NODES):
        told = json.loads(host.run(command("sci_query", "--json", 0, *NODES, 12), env=env).out)
        assert told["node"] == node
        assert told["links"] == 1
        assert told["link_operational"] == 1
        assert told["nodes"] == {"4": True, "8": True, "12": False}


def test_stores_go_to_and_fro(hosts):
    """SI-CONSEG-1, SI-MAPR-1, SI-MAPL-1, SI-FLUSH-1, SI-SEQ-4, SI-RMSEG-2: numbers of each side
    arrive at the other one in order, without a system call, and nothing is busy at the end."""
    told = play(hosts, "scipp", "--rounds", 200)
    assert [line["rounds"] for line in told] == [200]


def test_interrupts_go_to_and_fro(hosts):
    """SI-CRINT-1, SI-CRINT-2, SI-WINT-1, SI-TRINT-1, SI-RMINT-2"""
    told = play(hosts, "intr_bench", "--rounds", 100)
    assert [line["rounds"] for line in told] == [100]


def test_copies_arrive(hosts):
    """SI-MEMCPY-1, SI-CKSEQ-1, SI-SDMA-2, SI-SDMA-9, SI-WDINT-1: what was written by the processor
    and by DMA is there when the other node hears of it."""
    told = play(hosts, "scibench", "--rounds", 5, "--size", 20000)
    assert [line["name"] for line in told] == ["memcpy", "dma"]
