# SPDX-License-Identifier: GPL-2.0-only
"""Programs of MCAPI in guests: the configuration, and how they are run."""

import json
from contextlib import contextmanager

from . import stack
from .agent import CommandFailed
from .settings import example, tool  # noqa: F401

CONFIG = "/run/mcapi.conf"
ENV = {"MCAPI_CONFIG": CONFIG}
# Rounds that nobody waits for.
_ENDLESS = 10_000_000


def configure(guests):
    """Put domain 0 on all guests; their numbers."""
    numbers = stack.numbers(guests)
    hosts = " ".join(f"{number:#x}" for number in numbers)
    for guest in guests:
        guest.run(f"echo 'domain 0  {hosts}' > {CONFIG}")
    return numbers


def measured(guests, timeout, kind, size, rounds, *options):
    """What `mcapi_perf` tells of one kind and size, between two guests or in one."""
    words = ("--rounds", rounds, "--json", *options)
    with _server_and_client(guests, timeout, kind, size, *words) as client:
        return json.loads(client.wait().check().out)


@contextmanager
def playing(guests, timeout, kind, size):
    """Inside, a server and a client of `mcapi_perf` send something there and back, and compare it."""
    with _server_and_client(guests, timeout, kind, size, "--rounds", _ENDLESS) as client:
        # The head of a table that will not come.
        client.wait_for_output("median")
        yield
        if client.ended():
            raise CommandFailed(f"the client of mcapi_perf has ended: {client.wait()}")


@contextmanager
def _server_and_client(guests, timeout, kind, size, *options):
    """Both are killed in the end; the client."""
    here, there = guests
    program = example("mcapi_perf")
    words = ("--kind", kind, "--sizes", size, *options)
    with there.spawn([program, "server", 1], timeout=timeout, env=ENV):
        client = [program, "client", 2, 1, *words]
        with here.spawn(client, timeout=timeout, env=ENV) as client:
            yield client
