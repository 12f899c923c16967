# SPDX-License-Identifier: GPL-2.0-only
"""What a guest's interface says of itself, and traffic over it."""

import json
import textwrap
from contextlib import contextmanager

from ntbrig import stack


def link(guest, interface="ntb0"):
    return json.loads(guest.run(f"ip -j -d -s link show {interface}").out)[0]


def traffic(guest, interface="ntb0"):
    return link(guest, interface)["stats64"]


def ethtool_stats(guest):
    lines = guest.run("ethtool -S ntb0").out.splitlines()[1:]
    return {name.strip(): int(value) for name, value in (line.split(":") for line in lines)}


def lost(guest):
    """Packets that an interface has dropped or found wrong."""
    counters = traffic(guest)
    return {
        (way, what): counters[way][what]
        for way in ("rx", "tx")
        for what in ("errors", "dropped")
        if counters[way][what]
    }


@contextmanager
def nothing_lost(*guests):
    """Demand that interfaces which have been down lose nothing meanwhile: one that goes down
    drops what the kernel is just sending, such as reports of its groups."""
    before = [lost(guest) for guest in guests]
    yield
    assert [lost(guest) for guest in guests] == before


def ping(guest, address, options=""):
    """Wait for an answer, within ten seconds."""
    return guest.run(f"ping -q -c 1 -w 10 {options} {address}", timeout=20)


def python(guest, program, timeout=60, **kwargs):
    """Start a Python program in a guest."""
    return guest.spawn(["/usr/bin/python3", "-c", textwrap.dedent(program)], timeout, **kwargs)


# Gives up when nothing has come for 20 seconds.
SINK = """
    import hashlib, socket
    server = socket.create_server(("::", 5005), family=socket.AF_INET6, dualstack_ipv6=True)
    print("ready", flush=True)
    connection, _ = server.accept()
    connection.settimeout(20)
    digest = hashlib.sha256()
    while data := connection.recv(1 << 20):
        digest.update(data)
    print(digest.hexdigest())
"""

# Stays until the other end has everything.
SOURCE = """
    import hashlib, os, socket
    block = os.urandom(1 << 20)
    digest = hashlib.sha256()
    connection = socket.create_connection(({address!r}, 5005), 20)
    connection.settimeout(None)
    for n in range({mib}):
        block = block[n + 1:] + block[:n + 1]
        connection.sendall(block)
        digest.update(block)
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    print(digest.hexdigest())
"""


def stream(source, sink, mib=16, address=None, timeout=60):
    """Send data over TCP and compare its checksum at both ends."""
    receiver = python(sink, SINK, timeout)
    receiver.wait_for_output("ready")
    program = SOURCE.format(address=address or stack.address(sink), mib=mib)
    sent = python(source, program, timeout).wait()
    received = receiver.wait()
    assert sent.check().out.split()[-1] == received.check().out.split()[-1]
