# SPDX-License-Identifier: GPL-2.0-only
"""What the kernels of guests see of programs."""

import re
from contextlib import contextmanager
from typing import NamedTuple

from ntbrig import stack

_TRACING = "/sys/kernel/tracing"
_EVENT = f"{_TRACING}/events/raw_syscalls/sys_enter"
_OTHER_PROCESSORS = "/sys/devices/system/cpu/cpu[1-9]*/online"


def _at_rest(command):
    """A command that patches the kernel's code, as enabling an event does, while no other processor runs
    that code. QEMU before 8.1 may keep a translation of what another processor has just changed: the
    kernel then dies of a breakpoint that nobody knows any more."""
    others = f"for other in {_OTHER_PROCESSORS}; do [ ! -e $other ] || echo %d > $other || exit; done"
    return f"({others % 0}; {command}; result=$?; {others % 1}; exit $result)"


def _there(command):
    """A command in the directory of tracing."""
    mount = f"[ -e {_TRACING}/trace ] || mount -t tracefs nodev {_TRACING}"
    return f"{{ {mount}; }} && cd {_TRACING} && {command}"


def trace(guest, command):
    """Run a command in the directory of tracing."""
    return guest.run(_there(command)).out


def _traces(guests, commands):
    """As `trace`, on some hosts at once."""
    begun = [guest.spawn(_there(command), 30) for guest, command in zip(guests, commands)]
    return [process.wait().check().out for process in begun]


def events(guest, event):
    """The fields of all events of that name, in their order."""
    lines = re.findall(rf" {event}: (.*)", trace(guest, "cat trace"))
    return [dict(field.split("=", 1) for field in line.split()) for line in lines]


@contextmanager
def system_calls(name, *guests):
    """Count system calls of the programs of a name; the function that is given tells how
    many there have been on each guest."""
    wanted = f"""echo 'comm == "{name}"' > {_EVENT}/filter"""
    start = f"{wanted} && echo > {_TRACING}/trace && echo 1 > {_EVENT}/enable"
    stack.everywhere(guests, _at_rest(start))
    count = f"grep -vc '^#' {_TRACING}/trace || true"
    try:
        yield lambda: [int(result.out) for result in stack.everywhere(guests, count)]
    finally:
        stop = f"echo 0 > {_EVENT}/enable && echo 0 > {_EVENT}/filter"
        stack.everywhere(guests, _at_rest(f"{stop} && echo > {_TRACING}/trace"))


class SystemCall(NamedTuple):
    # Seconds, by the guest's own clock.
    time: float
    thread: str
    number: int


def _follow(pid):
    """The command that lets all threads of a process be traced, and those that they begin."""
    options = "echo 1 > options/event-fork && echo > set_event_pid"
    # A thread that begins while they are listed is there the second time.
    every = f"for task in /proc/{pid}/task/*; do echo ${{task##*/}}; done >> set_event_pid"
    return _at_rest(f"{options} && {every} && {every}")


@contextmanager
def system_calls_of(*processes):
    """Watch system calls of all threads of processes, also of those that begin meanwhile; each
    process is a guest and a number, on guests of their own. The function that is given ends that, and
    returns a list of `SystemCall` for each process."""
    guests = [guest for guest, _ in processes]
    assert len(set(guests)) == len(guests)
    _traces(guests, [_follow(pid) for _, pid in processes])
    stack.everywhere(guests, _at_rest(f"echo > {_TRACING}/trace && echo 1 > {_EVENT}/enable"))
    try:
        yield lambda: _watched(guests)
    finally:
        stop = f"echo 0 > {_EVENT}/enable && echo > {_TRACING}/set_event_pid"
        stop += f" && echo 0 > {_TRACING}/options/event-fork && echo > {_TRACING}/trace"
        stack.everywhere(guests, _at_rest(stop))


def _watched(guests):
    # Reading takes a while, in which there may be more.
    stack.everywhere(guests, _at_rest(f"echo 0 > {_EVENT}/enable"))
    return [_listed(lines) for lines in _traces(guests, ["cat trace"] * len(guests))]


def _listed(lines):
    """System calls of a trace, of which none were lost."""
    kept, written = re.search(r"entries-in-buffer/entries-written: (\d+)/(\d+)", lines).groups()
    assert kept == written, "the trace has no room for all of them"
    found = re.findall(r"^\s*(.+)-\d+\s.* (\d+\.\d+): sys_enter: NR (-?\d+)", lines, re.M)
    assert len(found) == int(kept), lines
    return [SystemCall(float(at), thread, int(number)) for thread, at, number in found]


def usage(guest, pid):
    """Processor time of all threads in clock ticks, and how often each was set aside."""
    found = []
    for task in guest.run(f"ls /proc/{pid}/task").out.split():
        of_task = f"/proc/{pid}/task/{task}"
        fields = guest.read(f"{of_task}/stat").rsplit(")", 1)[1].split()
        lines = guest.read(f"{of_task}/status").splitlines()
        switches = [line for line in lines if "ctxt_switches" in line]
        assert len(switches) == 2, lines
        found.append((task, fields[11:13], switches))
    return found
