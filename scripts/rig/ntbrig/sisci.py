# SPDX-License-Identifier: GPL-2.0-only
"""Programs of SISCI in guests: their configuration, and how they are run on two of them."""

import json

from .settings import example, tool  # noqa: F401

CONFIG = "/run/sisci.conf"
_ENV = {"SISCI_CONF": CONFIG}
_TIMEOUT = 120.0
_LINK_SECONDS = 30.0


def configure(nodes):
    """Give guests, by the node ids that they are to have, their configuration."""
    # A host has its id as soon as it has a peer.
    count = f'[ "$(ls /sys/kernel/mp/peers | wc -l)" -ge {len(nodes) - 1} ]'
    for guest in nodes.values():
        guest.run(f"until {count}; do sleep 0.05; done", timeout=_LINK_SECONDS)
    lines = []
    for node, guest in nodes.items():
        peer = int(guest.read("/sys/kernel/mp/self"), 16)
        lines.append(f"node {node} peer {peer} name {guest.name}")
    for guest in nodes.values():
        guest.run("printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + f" > {CONFIG}")


def run(guest, program, *words, timeout=_TIMEOUT):
    """Run a program on one guest."""
    return guest.run([program, *map(str, words)], timeout, env=_ENV, check=False)


def both(program, nodes, *words, timeout=_TIMEOUT, server=None):
    """Run a program on two guests, the first one's as client and the other one's as server,
    which may be of another language; what both tell, a value for each line."""
    (first, one), (second, other) = nodes.items()
    words = ["--json", *map(str, words)]
    command = [server or program, "server", str(first), *words]
    started = other.spawn(command, timeout=timeout, env=_ENV)
    try:
        client = one.run([program, "client", str(second), *words], timeout, env=_ENV)
        ended = started.wait(timeout).check()
    finally:
        started.kill()
    return tuple([json.loads(line) for line in told.out.splitlines()] for told in (client, ended))


def play(program, nodes, *words, timeout=_TIMEOUT):
    """The same; what the client tells."""
    return both(program, nodes, *words, timeout=timeout)[0]
