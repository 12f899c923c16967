# SPDX-License-Identifier: GPL-2.0-only
"""Debian's libfabric and its programs, unchanged, over the provider of userlib/libfabric-ffi, between
two hosts."""

import ipaddress
import re
import time

import pytest
from ntbrig import stack
from ntbrig.settings import tool
from tracing import system_calls

USER = ("mp_func_user",)
LIBRARY = "libmpfab-fi.so"
# Sizes of messages: inline, of slots, longer than all memory of a connection.
SIZES = (1, 8, 64, 256, 1024, 4096, 65536, 1 << 20)
# Rounds for each size.
ROUNDS = 20


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    # The programs' first contact is over TCP.
    stack.bring_up(*fabric.hosts)
    stack.load(*fabric.hosts, modules=USER)
    return fabric


@pytest.fixture(scope="module")
def env():
    return {"FI_PROVIDER_PATH": str(tool(LIBRARY).parent)}


def test_fi_info_tells_what_the_provider_can_do(fabric, env):
    here = fabric.hosts[0]
    said = here.run("fi_info -p mpfab -v", env=env).out
    for line in (
        "caps: [ FI_MSG, FI_RECV, FI_SEND, FI_LOCAL_COMM, FI_REMOTE_COMM ]",
        "type: FI_EP_MSG",
        "addr_format: FI_SOCKADDR_IN",
        "threading: FI_THREAD_SAFE",
        "mr_mode: [  ]",
    ):
        assert line in said
    own = re.search(r"src_addr: fi_sockaddr_in://([0-9.]+):0", said)
    assert int(ipaddress.ip_address(own[1])) == 0xF0000000 | stack.numbers(fabric.hosts)[0]


def pingpong(server, client, env, words):
    """Run Debian's `fi_pingpong` on both; what the client prints."""
    command = f"fi_pingpong -p mpfab {words}"
    listening = server.spawn(command, 120, env)
    # It listens as soon as it can be connected to.
    stack.wait_until("ss -ltn | grep -q ':47592'", server)
    calling = client.spawn(f"{command} {stack.address(server)}", 120, env)
    said = calling.wait().check().out
    listening.wait().check()
    return said


@pytest.mark.parametrize("turned", [False, True])
def test_fi_pingpong_exchanges_messages_of_all_sizes(fabric, env, turned):
    server, client = reversed(fabric.hosts) if turned else fabric.hosts
    for size in SIZES:
        said = pingpong(server, client, env, f"-e msg -c -I {ROUNDS} -S {size}")
        # Bytes, sent, acknowledged, in total.
        assert len(said.splitlines()) == 2, said
        assert re.search(rf"={ROUNDS}\b|\b{ROUNDS}\b", said), said


@pytest.fixture
def running(fabric, env):
    """Two programs that exchange messages for longer than any test takes."""
    server, client = fabric.hosts
    command = "fi_pingpong -p mpfab -e msg -I 100000000 -S 64"
    listening = server.spawn(command, 120, env)
    stack.wait_until("ss -ltn | grep -q ':47592'", server)
    calling = client.spawn(f"{command} {stack.address(server)}", 120, env)
    # They take processor time only once both look.
    for guest in fabric.hosts:
        guest.run("for _ in {1..200}; do grep -qs mp_fabric /proc/$(pgrep -x fi_pingpong)/maps && break;"
                  " sleep 0.1; done; sleep 1")
    yield listening, calling
    for guest in fabric.hosts:
        guest.run("pkill -9 -x fi_pingpong || true")
    listening.wait()
    calling.wait()


def test_programs_that_look_make_no_system_calls(fabric, running):
    with system_calls("fi_pingpong", *fabric.hosts) as count:
        time.sleep(2)
        calls = count()
    # None was ever seen; a thread that begins to sleep or ends would make more.
    assert max(calls) < 5, calls


@pytest.mark.parametrize("killed", [0, 1])
def test_a_program_whose_partner_is_killed_ends(fabric, env, running, killed):
    """With an error, instead of waiting for ever; and the next ones work."""
    fabric.hosts[killed].run("pkill -9 -x fi_pingpong")
    left = running[1 - killed].wait()
    assert left.rc != 0 and not left.timed_out, left
    server, client = fabric.hosts
    assert pingpong(server, client, env, "-e msg -c -I 5 -S 64")
