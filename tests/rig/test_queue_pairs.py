# SPDX-License-Identifier: GPL-2.0-only
"""Queue pairs between processes of two hosts: messages arrive as they were sent, and need the
kernel to sleep and to wake, not to move data. And what is measured beside them: windows alone.

Both processes are `qp_pingpong`: the server returns each message, the client compares what comes
back. The kernel's own tracepoint counts their system calls.
"""

import json

import pximc
import pytest
from ntbrig import stack
from ntbrig.settings import PATIENCE, programs_dir
from tracing import system_calls

pytestmark = pytest.mark.alone

NAME = "qp_pingpong"
# So long does a measurement take, of which a second is looked at. To ask a busy guest takes
# time as well: seconds on a kernel that checks.
SECONDS = 4 * PATIENCE
# What a process has computed once it has left its beginning behind, and what it
# computes in a second at least if it does not sleep; hundredths of a second.
UNDER_WAY = 20 * PATIENCE
BUSY = 20


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=pximc.MODULES)
    return fabric


def command(role, *options):
    return [programs_dir() / "examples" / NAME, role, "--patience", int(30 * PATIENCE), *options]


def serving(guest, *options):
    return guest.spawn(command("server", *options), timeout=240)


def played(server, client, *options, both=()):
    """What a client tells, with a server on the other host."""
    with serving(server, *both):
        run = client.run(command("client", "--json", *both, *options), timeout=120 * PATIENCE)
        return json.loads(run.out)


def ticks(guest, pid):
    """What a process has computed in its own code, in hundredths of a second."""
    return int(guest.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[11])


def test_messages_of_all_lengths_come_back_as_they_were_sent(fabric):
    """Each host is server once; several messages are under way at the same time."""
    rp, ep = fabric.hosts
    for server, client in ((rp, ep), (ep, rp)):
        out = played(server, client, "--messages", 20_000, "--rounds", 1000)
        assert (out["messages"], out["rounds"]) == (20_000, 1000)
        assert out["bytes"] > 20_000 * 100


def test_messages_take_no_system_call_while_both_look(fabric):
    rp, ep = fabric.hosts
    short = played(ep, rp, "--messages", 100, "--rounds", 20_000)
    latency = short["round_us"]["median"]
    print(f"a round trip of {short['size']} bytes takes {latency:.2f} us")
    rounds = max(1, int(SECONDS * 1e6 / latency))
    with serving(ep):
        options = ("--json", "--messages", 100, "--rounds", rounds)
        client = rp.spawn(command("client", *options), timeout=240)
        while not client.pid or ticks(rp, client.pid) < UNDER_WAY:
            assert not client.ended(), client.wait()
        with system_calls(NAME, rp, ep) as calls:
            before = ticks(rp, client.pid)
            rp.run("sleep 1")
            found = calls()
            # It has been at it all the time, and has not come to the end.
            assert ticks(rp, client.pid) - before >= BUSY
            assert not client.ended()
        assert found == [0, 0]
        assert json.loads(client.wait().check().out)["rounds"] == rounds


def test_processes_that_sleep_wake_each_other(fabric):
    """Both sleep whenever there is nothing; the tracepoint counts where there is something."""
    rp, ep = fabric.hosts
    with system_calls(NAME, rp, ep) as calls:
        options = ("--messages", 2000, "--rounds", 500)
        out = played(ep, rp, *options, both=("--sleep",))
        assert min(calls()) > 0
    assert (out["messages"], out["rounds"]) == (2000, 500)


def test_processes_can_sleep_at_once_for_each_message(fabric):
    """Of each round each side makes a call to sleep, at least."""
    rp, ep = fabric.hosts
    rounds = 500
    with system_calls(NAME, rp, ep) as calls:
        options = ("--messages", 0, "--rounds", rounds)
        out = played(ep, rp, *options, both=("--sleep", "--at-once"))
        assert min(calls()) >= rounds
    assert out["rounds"] == rounds


@pytest.mark.parametrize("size", [8, 1 << 16])
def test_messages_one_after_the_other_reach_a_server_that_returns_only_the_last(fabric, size):
    a, b = fabric.hosts
    both = ("--window", 1 << 20, "--slot-size", 1 << 16)
    words = ("--messages", 0, "--rounds", 100, "--size", size, "--stream", 300)
    found = played(b, a, *words, both=both)
    assert found["messages_s"] > 0
    assert found["mb_s"] == pytest.approx(found["messages_s"] * size / 1e6)


@pytest.mark.parametrize("size", [8, 40, 1 << 16])
def test_windows_carry_messages_without_any_library(fabric, size):
    a, b = fabric.hosts
    program = programs_dir() / "window"
    server = b.spawn([program, "server"], timeout=240)
    try:
        words = ("client", "--size", size, "--rounds", 200, "--stream", 300)
        found = json.loads(a.run([program, *words], timeout=120 * PATIENCE).out)
        # It has heard that the client is done.
        server.wait().check()
    finally:
        server.kill()
    assert (found["size"], found["rounds"], found["stream"]) == (size, 200, 300)
    assert found["one_way_us"] > 0 and found["messages_s"] > 0
