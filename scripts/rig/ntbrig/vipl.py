# SPDX-License-Identifier: GPL-2.0-only
"""Programs of virtual interfaces in guests: the names of hosts, and how they are run."""

from .settings import programs_dir, stage_dir

CONFIG = "/run/vipl.conf"
ENV = {"VIPL_CONF": CONFIG}
_LINK_SECONDS = 30.0


def configure(guests):
    """Tell guests the names of all of them; their numbers."""
    # A host has its number as soon as it has a peer.
    count = f'[ "$(ls /sys/kernel/mp/peers | wc -l)" -ge {len(guests) - 1} ]'
    for guest in guests:
        guest.run(f"until {count}; do sleep 0.05; done", timeout=_LINK_SECONDS)
    numbers = [int(guest.read("/sys/kernel/mp/self"), 16) for guest in guests]
    lines = [f"{number:#x} {guest.name}" for number, guest in zip(numbers, guests)]
    for guest in guests:
        guest.run("printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + f" > {CONFIG}")
    return numbers


def tool(name):
    """A program in Rust, as it is installed."""
    return programs_dir() / name


def example(name):
    """An example in C."""
    return stage_dir() / "bin" / name
