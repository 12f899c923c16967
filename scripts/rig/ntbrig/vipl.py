# SPDX-License-Identifier: GPL-2.0-only
"""Programs of virtual interfaces in guests: the names of hosts, and how they are run."""

from . import stack
from .settings import example, tool  # noqa: F401

CONFIG = "/run/vipl.conf"
ENV = {"VIPL_CONF": CONFIG}


def configure(guests):
    """Tell guests the names of all of them; their numbers."""
    numbers = stack.numbers(guests)
    lines = [f"{number:#x} {guest.name}" for number, guest in zip(numbers, guests)]
    for guest in guests:
        guest.run("printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + f" > {CONFIG}")
    return numbers
