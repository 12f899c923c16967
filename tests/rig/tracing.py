# SPDX-License-Identifier: GPL-2.0-only
"""What the kernels of guests see of programs."""

import re
from collections import Counter
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


# Calls by which a program gets memory, and what it does with that.
_MEMORY = {9, 10, 11, 12, 25, 28}


def calls_of_threads(guest, pid):
    """System calls in a second of all threads that a process has, whatever their names: how many its
    first thread has made, and how many the others, by their names. Calls for memory do not count:
    what a program measures has to be kept somewhere."""
    threads = guest.run(f"ls /proc/{pid}/task").out.split()
    wanted = " || ".join(f"common_pid == {thread}" for thread in threads)
    names = {
        thread: guest.read(f"/proc/{pid}/task/{thread}/comm").strip() for thread in threads
    }
    # A busy guest takes longer for what is around that than for the second itself.
    second = "echo begins > trace_marker; sleep 1; echo ends > trace_marker"
    start = f"echo '{wanted}' > {_EVENT}/filter && echo > trace && echo 1 > {_EVENT}/enable"
    stop = f"echo 0 > {_EVENT}/enable; echo 0 > {_EVENT}/filter"
    told = trace(guest, f"{start}; {second}; {stop}; cat trace; echo > trace")
    within = re.search(r"(\d+\.\d+): tracing_mark_write: begins(.*?)(\d+\.\d+): "
                       r"tracing_mark_write: ends", told, re.S)
    took = float(within[3]) - float(within[1])
    calls = re.findall(r"-(\d+) .* NR (\d+) \(", within[2])
    made = Counter(thread for thread, number in calls if int(number) not in _MEMORY)
    others = {name: made[thread] / took for thread, name in names.items() if thread != str(pid)}
    return made[str(pid)] / took, others
