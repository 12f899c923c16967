# SPDX-License-Identifier: GPL-2.0-only
"""Control groups of a guest, and what the kernel has for their processes."""

from contextlib import contextmanager

import sharing
from shell import until

ROOT = "/sys/fs/cgroup"


def limit_by(controller, guest):
    """Let groups be limited by that; whether the guest's kernel has it."""
    has = controller in guest.read(f"{ROOT}/cgroup.controllers").split()
    if has:
        guest.run(f"echo +{controller} > {ROOT}/cgroup.subtree_control")
    return has


def all_have_of(guest, region):
    """Bytes that the processes of all groups have, and those of groups that have gone."""
    return _of(guest.read(f"{ROOT}/dmem.current"), region)


def _of(text, key):
    return int(dict(line.split() for line in text.splitlines()).get(key, 0))


class Group:
    """A control group of a guest, in which a process starts."""

    def __init__(self, guest, name):
        self.guest, self.path = guest, f"{ROOT}/{name}"
        guest.run(f"mkdir {self.path}")

    def how(self):
        """The words before those of a command that is to start in it."""
        enter = f'echo $$ > {self.path}/cgroup.procs && exec "$@"'
        return ["sh", "-c", enter, "sh"]

    def process(self):
        return sharing.Process(self.guest, how=self.how())

    def take_all_of(self, other):
        """The processes of another group are this one's."""
        for process in other.read("cgroup.procs").split():
            self.guest.run(f"echo {process} > {self.path}/cgroup.procs")

    def read(self, name):
        return self.guest.read(f"{self.path}/{name}")

    def charged(self):
        """Bytes that the kernel has for it."""
        return _of(self.read("memory.stat"), "kernel")

    def has_of(self, region):
        """Bytes of memory that peers reach."""
        return _of(self.read("dmem.current"), region)

    def limit(self, region, most):
        self.guest.run(f"echo {region} {most} > {self.path}/dmem.max")

    def killed(self):
        return _of(self.read("memory.events"), "oom_kill")

    def remove(self):
        """Its processes end before."""
        self.guest.run(f"echo 1 > {self.path}/cgroup.kill")
        until(lambda: self.guest.run(f"rmdir {self.path}", check=False).rc == 0)


@contextmanager
def group(guest, name, most=None):
    """A group that is there inside, with so many bytes."""
    of = Group(guest, name)
    try:
        if most:
            guest.run(f"echo {most} > {of.path}/memory.max")
        yield of
    finally:
        if guest.run(f"[ -d {of.path} ]", check=False).rc == 0:
            of.remove()
