# SPDX-License-Identifier: GPL-2.0-only
"""Commands of tests/modules/mp_local_test.c."""

DIRECTORY = "/sys/kernel/mp_local_test"


def command(guest, words):
    """What came of a command, as numbers; none for an address that is not found."""
    out = guest.run(f"echo '{words}' > {DIRECTORY}/command; cat {DIRECTORY}/result").out
    return None if out.strip() == "none" else [int(word, 0) for word in out.split()]


def find_outbound(guest):
    """The peer's memory, in the largest BAR there is."""
    lines = guest.run("cat /sys/bus/pci/devices/*/resource").out.splitlines()
    bars = [tuple(int(word, 16) for word in line.split()[:2]) for line in lines]
    start, end = max(bars, key=lambda bar: bar[1] - bar[0])
    return command(guest, f"out {start:#x} {end:#x} 0x10000")
