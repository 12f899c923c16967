# SPDX-License-Identifier: GPL-2.0-only
"""What the kernels of guests see of programs."""

import re
from contextlib import contextmanager

from ntbrig import stack

_TRACING = "/sys/kernel/tracing"
_EVENT = f"{_TRACING}/events/raw_syscalls/sys_enter"


def trace(guest, command):
    """Run a command in the directory of tracing."""
    mount = "mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing"
    return guest.run(f"({mount}) && cd /sys/kernel/tracing && {command}").out


def events(guest, event):
    """The fields of all events of that name, in their order."""
    lines = re.findall(rf" {event}: (.*)", trace(guest, "cat trace"))
    return [dict(field.split("=", 1) for field in line.split()) for line in lines]


@contextmanager
def system_calls(name, *guests):
    """Count system calls of the programs of a name; the function that is given tells how
    many there have been on each guest."""
    wanted = f"""echo 'comm == "{name}"' > {_EVENT}/filter"""
    stack.everywhere(guests, f"{wanted} && echo > {_TRACING}/trace && echo 1 > {_EVENT}/enable")
    count = f"grep -vc '^#' {_TRACING}/trace || true"
    try:
        yield lambda: [int(result.out) for result in stack.everywhere(guests, count)]
    finally:
        stop = f"echo 0 > {_EVENT}/enable && echo 0 > {_EVENT}/filter"
        stack.everywhere(guests, f"{stop} && echo > {_TRACING}/trace")
