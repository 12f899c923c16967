# SPDX-License-Identifier: GPL-2.0-only
"""Programs of MCAPI in guests: the configuration, and how they are run."""

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
