# SPDX-License-Identifier: GPL-2.0-only
"""Helpers of the tests that run the sample function services.

See samples/mp_sample_c.c and samples/mp_sample_echo.rs for what they count.
"""

import time

SAMPLE = ("mp_sample_c",)
ECHO = ("mp_sample_echo",)
ECHO_ID = 0x4543484F


def values(guest, module):
    """The counters in a module's directory."""
    lines = guest.run(f"cd /sys/kernel/{module} && grep . $(ls -I send)").out.split()
    return {name: int(value) for name, value in (line.split(":") for line in lines)}


def order(dst, count, size, func=None):
    """The shell command that has the C sample send frames."""
    to = "" if func is None else f" {func:#x}"
    return f'echo "{dst:#x} {count} {size}{to}" > /sys/kernel/mp_sample_c/send'


def wait_for(guest, module, timeout=20, **expected):
    """Wait until counters have reached these values; all of them."""

    def short():
        counters = f"/sys/kernel/{module}"
        return any(int(guest.read(f"{counters}/{n}")) < v for n, v in expected.items())

    deadline = time.monotonic() + timeout
    while short() and time.monotonic() < deadline:
        time.sleep(0.02)
    return values(guest, module)
