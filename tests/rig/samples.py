# SPDX-License-Identifier: GPL-2.0-only
"""Helpers of the tests that run the sample function services.

See samples/mp_sample_c.c and samples/mp_sample_echo.rs for what they count.
"""

import contextlib
import time

from ntbrig.settings import PATIENCE

SAMPLE = ("mp_sample_c",)
ECHO = ("mp_sample_echo",)
ECHO_ID = 0x4543484F
# The file that ends a flood.
_ENOUGH = "/run/enough"


def values(guest, module):
    """The counters in a module's directory."""
    lines = guest.run(f"cd /sys/kernel/{module} && grep . $(ls -I send)").out.split()
    return {name: int(value) for name, value in (line.split(":") for line in lines)}


def order(dst, count, size, func=None):
    """The shell command that has the C sample send frames."""
    to = "" if func is None else f" {func:#x}"
    return f'echo "{dst:#x} {count} {size}{to}" > /sys/kernel/mp_sample_c/send'


@contextlib.contextmanager
def flooding(guest, dst, count, size):
    """Inside, the C sample sends frames without end, so many at a time."""
    guest.run(f"rm -f {_ENOUGH}")
    flood = guest.spawn(f"until [ -e {_ENOUGH} ]; do {order(dst, count, size)} || exit; done", 120)
    try:
        yield
    finally:
        guest.run(f"touch {_ENOUGH}")
        flood.wait().check()


def wait_for(guest, module, timeout=20, **expected):
    """Wait until counters have reached these values, all of them; what all counters are then."""
    counters = f"/sys/kernel/{module}"
    deadline = time.monotonic() + timeout * PATIENCE
    while any(int(guest.read(f"{counters}/{name}")) < least for name, least in expected.items()):
        assert time.monotonic() < deadline, f"{values(guest, module)}, not {expected}"
        time.sleep(0.02)
    return values(guest, module)
