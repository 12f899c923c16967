# SPDX-License-Identifier: GPL-2.0-only
"""MCAPI between processes of two hosts: messages, packet channels and scalar channels.

Both processes are `mcapi_pingpong`: the server returns what it gets, the client compares what comes
back.
"""

import json

import pximc
import pytest
from frames import wait_for_everyone
from ntbrig import stack
from ntbrig.settings import PATIENCE, programs_dir

KINDS = ("messages", "packets", "scalars")
ROUNDS = 100


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=pximc.MODULES)
    # A host without a link has no number, and is of no domain.
    wait_for_everyone(*fabric.hosts)
    return fabric


def command(role, *options):
    return [programs_dir() / "examples" / "mcapi_pingpong", role, *options]


def serving(guest, kind):
    return guest.spawn(command("server", kind), timeout=240)


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
