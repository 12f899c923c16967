# SPDX-License-Identifier: GPL-2.0-only
"""As many virtual interfaces as a NIC tells, between hosts with windows of 1 MiB, and what becomes of
connections where there is less."""

import time
from contextlib import ExitStack, contextmanager

import pytest
from ntbrig import stack
from ntbrig import vipl as programs
from ntbrig.settings import MIB, PATIENCE
from pximc import MODULES
from vipl import all_ends, ask, connect, ends, fails, memory_left, says

SECONDS = 400
# VIs that a NIC tells.
MOST = 960
# Bytes: less than any window of a connection, and so few that connections share them.
TOO_LITTLE, SHORT = 0x3000, 0x2_0000
CLIENT, SERVER = range(2)


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters={"ntb_hw_ivshmem": f"mw_size={MIB}"})
    programs.configure(fabric.hosts)
    return fabric


def test_all_virtual_interfaces_are_connected_at_once(fabric):
    """VI-LIM-6: each has a message both ways after the last one was connected."""
    client, server = fabric.hosts
    program = programs.tool("vipl_many")
    serving = server.spawn([program, "serve"], env=programs.ENV, timeout=SECONDS)
    try:
        serving.wait_for_output("ready")
        command = [program, "ask", server.name]
        asked = client.run(command, SECONDS, env=programs.ENV)
        served = serving.wait(60).check()
        # As many as both NICs have told.
        assert asked.out == f"{MOST} virtual interfaces\n"
        assert served.out.endswith(asked.out)
    finally:
        serving.kill()


# --- memory that is short


@contextmanager
def left(fabric, short, length):
    """Inside, so many bytes for windows are free at a host."""
    with memory_left(fabric.hosts[short], fabric.hosts[1 - short], length):
        yield


def goes_idle(side):
    assert side.state() == "IDLE"
    assert side.reports() == []


@pytest.mark.parametrize("short", ((SERVER,), (CLIENT,), (SERVER, CLIENT)))
def test_memory_that_is_missing_is_told_to_a_client_and_a_server(fabric, ends, short):
    """VI-CONN-8, VI-GEN-8, VI-STATE-5: a server whose host has none can still answer; otherwise both
    are told, and at once."""
    server, client = ends.pair()
    with ExitStack() as taken:
        for host in short:
            taken.enter_context(left(fabric, host, TOO_LITTLE))
        found, asking = ask(server, client)
        begun = time.monotonic()
        with fails("ERROR_RESOURCE"):
            server.program.accept(found.conn, server.vi)
        goes_idle(server)
        if SERVER in short:
            assert client.state() == "CONNECT_PENDING"
            with fails("ERROR_RESOURCE"):
                server.program.accept(found.conn, server.vi)
            server.program.reject(found.conn)
            with fails("REJECT"):
                asking.result()
        else:
            with fails("ERROR_RESOURCE"):
                asking.result()
        assert time.monotonic() - begun < 4 * PATIENCE
        goes_idle(client)
    connect(server, client)
    says(server, client, b"as if nothing had been")


@pytest.mark.parametrize("short", (SERVER, CLIENT))
def test_memory_that_is_missing_is_told_to_peers(fabric, ends, short):
    """VI-GEN-8, VI-STATE-5, VI-PEER-9: to both, whose host it is that has none."""
    pair = ends.pair()
    with left(fabric, short, TOO_LITTLE):
        for one, other in (pair, pair[::-1]):
            one.program.peer_request(one.vi, (one.host, b""), (other.host, b"peer"))
        for side in pair:
            with fails("ERROR_RESOURCE"):
                side.program.peer_wait(side.vi)
            goes_idle(side)
    connect(*pair)
    says(*pair, b"as if nothing had been")


@pytest.mark.parametrize("short", (SERVER, CLIENT))
def test_connections_share_what_is_short_at_one_host(fabric, ends, short):
    """VI-LIM-6: although the other one has enough, and more than what is free would be needed."""
    server, client = ends.pair()
    with left(fabric, short, SHORT):
        with left(fabric, 1 - short, SHORT):
            connect(server, client)
        pairs = [(server, client)]
        with left(fabric, short, TOO_LITTLE):
            for _ in range(8):
                pairs.append((server.another(), client.another()))
                connect(*pairs[-1])
            for one, other in pairs:
                says(one, other, b"here")
                says(other, one, b"there")
