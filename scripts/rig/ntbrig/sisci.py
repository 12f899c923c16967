# SPDX-License-Identifier: GPL-2.0-only
"""Programs of SISCI in guests: their configuration, and how they are run on two of them."""

import json

from . import settings, stack
from .settings import example  # noqa: F401

CONFIG = "/run/sisci.conf"
_ENV = {"SISCI_CONF": CONFIG}
_TIMEOUT = 120.0
# Tools that are installed by another name than the customary one.
_RENAMED = ("dmabench", "intr_bench", "rpc", "shmem")


def tool(name):
    """A tool in Rust, by its customary name."""
    return settings.tool(f"sci_{name}" if name in _RENAMED else name)


def configure(nodes):
    """Give guests, by the node ids that they are to have, their configuration."""
    peers = stack.numbers(nodes.values())
    lines = [
        f"node {node} peer {peer} name {guest.name}"
        for (node, guest), peer in zip(nodes.items(), peers)
    ]
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
