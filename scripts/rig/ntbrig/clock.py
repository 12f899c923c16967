# SPDX-License-Identifier: GPL-2.0-only
"""How fast the processor's time stamp counter is, which emulated guests have as theirs.

A guest that has to find that out while the machine is busy with others may be wrong by far, and
then all its clocks and timeouts are.
"""

import ctypes
import functools
import mmap
import platform
import time

# Seconds between two looks at both clocks, and how often one is repeated.
_BETWEEN = 0.05
_LOOKS = 5

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
_READ = bytes.fromhex("0f31 48c1e220 4809d0 c3")


@functools.cache
def tsc_khz():
    """Its frequency in kHz; None where it cannot be read."""
    if platform.machine() != "x86_64":
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(_READ)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    ns, ticks = _look(read)
    time.sleep(_BETWEEN)
    later_ns, later_ticks = _look(read)
    return round((later_ticks - ticks) * 1_000_000 / (later_ns - ns))


def _look(read):
    """Both clocks at the same time: of several looks the one that took least."""
    looks = []
    for _ in range(_LOOKS):
        begin = time.monotonic_ns()
        ticks = read()
        end = time.monotonic_ns()
        looks.append((end - begin, (begin + end) // 2, ticks))
    return min(looks)[1:]
