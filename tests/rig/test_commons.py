# SPDX-License-Identifier: GPL-2.0-only
"""Memory of one host that several others reach at the same place."""

import time

import pytest
from frames import COUNTERS, TEST, TRANSPORT, counters, peer_id, wait_for_everyone, wait_for_peers
from ntbrig import stack
from ntbrig.settings import PATIENCE

# Where a place begins that is not in the arena of a link.
COMMONS = 1 << 48


def share(fabric, parameters=None):
    """Let the first host offer memory, and each other one mark a word of it; return the
    place."""
    stack.load(*fabric.hosts, modules=TRANSPORT, parameters=parameters)
    owner, *users = fabric.hosts
    wait_for_everyone(*fabric.hosts)
    stack.load(owner, modules=TEST, parameters={"mp_func_test": "share=1"})
    place = counters(owner)["share"]
    assert counters(owner)["marks"] == 0
    for word, guest in enumerate(users, 1):
        order = f"dst={peer_id(owner)} mark={place} word={word}"
        stack.load(guest, modules=TEST, parameters={"mp_func_test": order})
    expected = sum(1 << word for word, _ in enumerate(users, 1))
    deadline = time.monotonic() + 5 * PATIENCE
    while (marks := counters(owner)["marks"]) != expected:
        assert time.monotonic() < deadline, f"{marks:#x}, not {expected:#x}"
        time.sleep(0.02)
    assert "shared memory" not in fabric.rp.run("dmesg").out
    return place


def end(fabric):
    stack.unload(*fabric.hosts, modules=(*TRANSPORT, *TEST))


@pytest.fixture(scope="module")
def three(boot):
    return boot(hosts=3)


@pytest.fixture(scope="module")
def two(boot):
    return boot(hosts=2)


@pytest.mark.parametrize("name", ("generic", "intel", "amd", "switchtec", "idt"))
def test_all_peers_reach_one_piece_at_one_place(three, name, monkeypatch):
    """By the second window, whoever programs it."""
    monkeypatch.setenv("RIG_PERSONALITY", name)
    assert share(three) == COMMONS
    end(three)


@pytest.mark.parametrize("parameters", ({}, {"ntb_hw_ivshmem": "mw_count=1"}))
def test_one_window_is_enough_for_two_hosts(two, parameters, monkeypatch):
    """Pieces come from the arena of the only link then; also through 64 KiB."""
    if not parameters:
        monkeypatch.setenv("RIG_PERSONALITY", "tiny")
    assert share(two, parameters) < COMMONS
    end(two)


def test_a_host_may_have_none(two):
    """Then pieces are in the only link's arena as well, and with two links nowhere."""
    none = {"mp_transport": "commons_mib=0"}
    assert share(two, none) < COMMONS
    end(two)


def test_without_commons_several_peers_share_nothing(three):
    stack.load(*three.hosts, modules=TRANSPORT, parameters={"mp_transport": "commons_mib=0"})
    wait_for_peers(three.rp, 2)
    with pytest.raises(Exception, match="[Nn]o space"):
        stack.load(three.rp, modules=TEST, parameters={"mp_func_test": "share=1"})
    assert three.rp.run(f"ls {COUNTERS} 2>/dev/null | wc -l").out.strip() == "0"
    stack.unload(*three.hosts, modules=TRANSPORT)
