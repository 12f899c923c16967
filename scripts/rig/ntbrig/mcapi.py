# SPDX-License-Identifier: GPL-2.0-only
"""Programs of MCAPI in guests: the configuration, and how they are run."""

import json

from . import stack
from .settings import example, tool  # noqa: F401

CONFIG = "/run/mcapi.conf"
ENV = {"MCAPI_CONFIG": CONFIG}


def configure(guests):
    """Put domain 0 on all guests; their numbers."""
    numbers = stack.numbers(guests)
    hosts = " ".join(f"{number:#x}" for number in numbers)
    for guest in guests:
        guest.run(f"echo 'domain 0  {hosts}' > {CONFIG}")
    return numbers


def measured(guests, timeout, kind, size, rounds, *options, meanwhile=lambda: None):
    """What `mcapi_perf` tells of one kind and size, between two guests or in one. `meanwhile` is called
    while the client is at it."""
    here, there = guests
    program = example("mcapi_perf")
    serving = there.spawn([program, "server", 1], timeout=timeout, env=ENV)
    try:
        words = ("--kind", kind, "--sizes", size, "--rounds", rounds, "--json", *options)
        client = here.spawn([program, "client", 2, 1, *words], timeout=timeout, env=ENV)
        try:
            meanwhile()
            return json.loads(client.wait().check().out)
        finally:
            client.kill()
    finally:
        serving.kill()
        serving.wait()
