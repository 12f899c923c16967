# SPDX-License-Identifier: GPL-2.0-only
"""The shared register memory, as guests see it before any driver is loaded."""

import struct
import time

import pytest
from ntbrig.settings import MIB

_WORD = """
import mmap, struct, sys
with open("/sys/bus/pci/devices/0000:00:1c.0/resource2", "r+b") as bar:
    memory = mmap.mmap(bar.fileno(), 1 << 20)
offset = int(sys.argv[1])
if len(sys.argv) > 2:
    memory[offset:offset + 4] = struct.pack("<I", int(sys.argv[2]))
else:
    print(memory[offset:offset + 64].hex())
"""


def read(guest, offset):
    """64 bytes of the shared memory as 16 words."""
    out = guest.run(["python3", "-S", "-c", _WORD, offset]).out
    return struct.unpack("<16I", bytes.fromhex(out.strip()))


def write(guest, offset, value):
    guest.run(["python3", "-S", "-c", _WORD, offset, value])


def state_offset(port):
    return 0x1000 + port * 0x8000


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3)
    for guest in fabric.hosts:
        devices = "/sys/bus/pci/devices/0000:00:1c.0"
        guest.run(f"echo 1 > {devices}/enable")
    return fabric


def test_every_guest_reads_the_same_header(fabric):
    for guest in fabric.hosts:
        words = read(guest, 0)
        assert words[:4] == (0x4942544E, 1, 3, 0x8000)
        assert words[4:10] == (512 * MIB, 0, 256 * MIB, 0, 64 * MIB, 0)
        assert words[10:12] == (16, 8)


def test_port_blocks_start_as_zero(fabric):
    for port in range(3):
        assert read(fabric.rp, state_offset(port)) == (0,) * 16


def test_a_killed_guest_loses_its_state_and_returns_as_the_same_port(fabric):
    guest = fabric["ep1"]
    write(guest, state_offset(1), 7)
    write(fabric["ep2"], state_offset(2), 9)
    assert read(fabric.rp, state_offset(1))[:2] == (7, 0)
    guest.kill()
    time.sleep(0.2)
    assert read(fabric.rp, state_offset(1))[:2] == (0, 1)
    assert read(fabric.rp, state_offset(2))[:2] == (9, 0)
    guest.boot()
    ivposition = "import mmap; f = open('/sys/bus/pci/devices/0000:00:1c.0/resource0', 'r+b'); "
    ivposition += "print(memoryview(mmap.mmap(f.fileno(), 256)).cast('I')[2])"
    guest.run("echo 1 > /sys/bus/pci/devices/0000:00:1c.0/enable")
    assert guest.run(["python3", "-S", "-c", ivposition]).out.strip() == "1"
