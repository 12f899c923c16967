# SPDX-License-Identifier: GPL-2.0-only
"""How much memory a host uses for good."""

import re

# Caches keep slabs that are empty, and with KASAN objects that have been freed.
_SHRINK = "cd /sys/kernel/slab && for cache in *; do [ -L $cache ] || echo 1 > $cache/shrink; done"
_KINDS = "SUnreclaim|VmallocUsed|CmaFree"


def lasting(guest):
    """Memory that cannot be had back, in bytes, by kind."""
    text = guest.run(f"{_SHRINK}; grep -E '{_KINDS}' /proc/meminfo").out
    found = {name: int(kib) << 10 for name, kib in re.findall(r"(\w+): +(\d+)", text)}
    return {**found, "CmaFree": -found.get("CmaFree", 0)}


def grown(guest, before):
    """By how many bytes each kind has grown."""
    now = lasting(guest)
    return {kind: now[kind] - before[kind] for kind in before}
