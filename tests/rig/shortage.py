# SPDX-License-Identifier: GPL-2.0-only
"""Hosts that are short of memory: `tests/modules/mp_guard_test.c` keeps it from all that is written
in Rust."""

import itertools
from contextlib import contextmanager

from ntbrig import stack

# Most pieces of memory that one message takes.
PIECES = 100


@contextmanager
def guard(guest, **parameters):
    words = " ".join(f"{name}={value}" for name, value in parameters.items())
    guest.run(f"insmod {stack.modules_dir()}/mp_guard_test.ko {words}")
    try:
        yield lambda name, on: guest.run(
            f"echo {on:d} > /sys/module/mp_guard_test/parameters/{name}"
        )
    finally:
        guest.run("rmmod mp_guard_test")


@contextmanager
def short(guest, sleepers=False, spared=0):
    """Inside, there is no memory on a host for who cannot wait for it, with `sleepers` for nobody,
    once so many pieces were had."""
    with guard(guest, largest=1, sleepers=int(sleepers), spared=spared):
        yield


def refused(guest):
    """How many pieces of memory were not had since the shortage has begun."""
    return int(guest.read("/sys/module/mp_guard_test/parameters/refused"))


def running_out(guest):
    """Make shortages for everybody, until one refuses nothing: the first from the first piece of
    memory on, each of the others from one piece later. Each is a context, in which something is
    done."""
    is_over = False

    @contextmanager
    def after(spared):
        nonlocal is_over
        with short(guest, sleepers=True, spared=spared):
            yield
            is_over = refused(guest) == 0

    for spared in itertools.count():
        assert spared < PIECES, f"{guest}: there is no end"
        yield after(spared)
        if is_over:
            # It would be a poor test of what takes no memory.
            assert spared, f"{guest}: nothing was refused"
            return
