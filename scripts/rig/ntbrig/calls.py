# SPDX-License-Identifier: GPL-2.0-only
"""System calls of all threads of programs, by the kernel's own tracepoint, for a while."""

import re
from typing import NamedTuple

from . import stack
from .agent import CommandFailed

_GRACE = 30.0
_LINE = re.compile(r"^.*-(\d+)\s+\[\d+\].* sys_enter: ", re.M)

# Threads are listed before and after, and so is what programs have computed. Other programs take as long
# as these leave them: little is started.
_WATCH = """
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
cd /sys/kernel/tracing && event=events/raw_syscalls/sys_enter && pids=$(pidof {name}) || exit 1
threads() {{
	for pid in $pids; do
		for thread in /proc/$pid/task/*; do
			read -ra stat < $thread/stat && echo "$1 $pid ${{thread##*/}} ${{stat[13]}}"
		done
	done
}}
filter=
for thread in $(for pid in $pids; do echo /proc/$pid/task/*; done); do
	filter+="|| common_pid == ${{thread##*/}} "
done
echo "${{filter#|| }}" > $event/filter && echo > trace
start=${{EPOCHREALTIME/./}}
threads before
echo 1 > $event/enable; sleep {seconds}; echo 0 > $event/enable
threads after
echo took $((${{EPOCHREALTIME/./}} - start))
grep -v '^#' trace
echo 0 > $event/filter; echo > trace
"""


class Thread(NamedTuple):
    """What a thread has done: how much of the time it computed in its own code, and how many system
    calls it made."""

    guest: str
    pid: int
    tid: int
    busy: float
    calls: int

    @property
    def is_main(self):
        return self.pid == self.tid


def _threads(guest, out):
    seconds = int(re.search(r"^took (\d+)$", out, re.M)[1]) / 1e6
    ticks = {"before": {}, "after": {}}
    for when, *words in re.findall(r"^(before|after) (\d+) (\d+) (\d+)$", out, re.M):
        pid, tid, count = map(int, words)
        ticks[when][pid, tid] = count
    before, after = ticks["before"], ticks["after"]
    if not before or before.keys() != after.keys():
        raise CommandFailed("a thread has begun or ended while system calls were counted")
    calls = [int(tid) for tid in _LINE.findall(out)]
    for (pid, tid), count in before.items():
        busy = (after[pid, tid] - count) / 100 / seconds
        yield Thread(guest.name, pid, tid, busy, calls.count(tid))


def watch(guests, name, seconds):
    """Look at the programs of a name for so long; all their threads, of all guests."""
    command = _WATCH.format(name=name, seconds=seconds)
    results = stack.everywhere(guests, command, seconds + _GRACE)
    told = zip(guests, results)
    return [thread for guest, result in told for thread in _threads(guest, result.out)]
