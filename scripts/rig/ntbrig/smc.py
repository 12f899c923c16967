# SPDX-License-Identifier: GPL-2.0-only
"""SMC in guests: what tests and the benchmark share."""

from . import stack
from .settings import programs_dir

MODULES = ("mp_dibs",)
COUNTERS = "/sys/kernel/mp_dibs"


def ntbctl(guest, words, check=True):
    """Run ntbctl in a guest."""
    return guest.run(f"{programs_dir()}/ntbctl {words}", check=check)


def preloaded(words):
    """The command as `mp_smc_run` has it run."""
    return f"env LD_PRELOAD={programs_dir()}/libmpsmc.so {words}"


def wait_for_partners(*guests, count=1):
    """Wait until each of them reaches so many hosts through windows."""
    stack.wait_until(stack.holds(f"{COUNTERS}/partners", f"= {count}"), *guests)
