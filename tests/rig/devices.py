# SPDX-License-Identifier: GPL-2.0-only
"""Devices of guests other than the bridge, driven by tests.

The engine, QEMU's `edu`, copies between the bus and memory of its own; the instrument
has memory that others may reach. Both belong to the rig: `boot(engine=True,
instrument=BYTES, iommu=True)`.
"""

from ntbrig import qemu
from ntbrig.settings import programs_dir

ENGINE, INSTRUMENT = qemu.ENGINE, qemu.INSTRUMENT


def function(place):
    """The bus, device and function as PXImc takes them."""
    _, bus, rest = place.split(":")
    device, number = rest.split(".")
    return int(bus, 16), int(device, 16), int(number, 16)


class Device:
    """A device of a guest by its place on the bus."""

    def __init__(self, guest, place):
        self.guest = guest
        self.place = place
        self.function = function(place)
        self._path = f"/sys/bus/pci/devices/{place}"

    def _do(self, *order):
        words = [programs_dir() / "engine_shell", self.place.removeprefix("0000:"), *order]
        return self.guest.run(words).out.strip()

    def memory(self, size):
        """The first bytes of its memory."""
        return bytes.fromhex(self._do("memory", size))

    def bar(self, number):
        """Physical address and size of a BAR."""
        line = self.guest.read(f"{self._path}/resource").splitlines()[number]
        start, end, _ = (int(word, 16) for word in line.split())
        return start, end - start + 1

    def _set_type(self, kind):
        self.guest.run(f"echo {kind} > {self._path}/iommu_group/type")

    def translate(self):
        """From now on the device reaches what it is let to, and nothing else."""
        self._set_type("DMA")

    def pass_through(self):
        """From now on the device reaches everything."""
        self._set_type("identity")

    @property
    def group(self):
        """Number of its group of the IOMMU."""
        return int(self.guest.run(f"basename $(readlink {self._path}/iommu_group)").out)


class Engine(Device):
    """Its own memory stays as it is whether or not anything else is reached."""

    def __init__(self, guest):
        super().__init__(guest, ENGINE)

    def load(self, data):
        self._do("load", data.hex())

    def unload(self, size):
        return bytes.fromhex(self._do("unload", size))

    def store(self, address, size):
        """Let it write to the bus, wherever that leads."""
        self._do("store", hex(address), size)

    def fetch(self, address, size):
        self._do("fetch", hex(address), size)
