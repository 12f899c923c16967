# SPDX-License-Identifier: GPL-2.0-only
"""What a rig is made of: sizes, files, and where they come from."""

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
MIB = 1 << 20
STATIC_TARGET = "x86_64-unknown-linux-gnu"
PRINT_DIR_TIMEOUT = 60


class RigError(Exception):
    """Something the rig needs is missing or did not happen; says what to do."""


def flavour():
    """Which kernel is asked for, with the modules for it: `rig`, `debug`, `races` or `stock`."""
    if os.environ.get("KERNEL") == "stock":
        return "stock"
    asked = (name for name in ("debug", "races") if os.environ.get(name.upper()) == "1")
    return next(asked, "rig")


# Every time limit is multiplied by this: for kernels that check everything, and
# for machines that are busy.
PATIENCE = float(os.environ.get("RIG_PATIENCE") or (4 if flavour() in ("debug", "races") else 1))


# Guests see the host's files, but have these for themselves.
_GUESTS_OWN = ("/dev", "/run", "/tmp")


def seen_by_guests(path):
    """The same path, if guests see what is there."""
    for own in _GUESTS_OWN:
        if path.is_relative_to(own):
            raise RigError(f"guests have a {own} of their own: {path} has to be elsewhere")
    return path


def host_names(hosts):
    """The names of a set's hosts, by port: the root processor is port 0."""
    return ["rp"] + [f"ep{n}" for n in range(1, hosts)]


@dataclass(frozen=True)
class Board:
    """An NTB between some of the hosts, with an ivshmem server of its own."""

    number: int
    hosts: tuple  # by port
    plain_slot_base: int  # PCI device number of the RAM of port 0
    area_base: int  # guest-physical, of the windows' slots
    area_size: int

    def port(self, host):
        return self.hosts.index(host)


def _star(hosts):
    return [(0, other) for other in range(1, hosts)]


def _mesh(hosts):
    return [(a, b) for a in range(hosts) for b in range(a + 1, hosts)]


# Which hosts are at which NTB, by port; the root processor is host 0.
TOPOLOGIES = {
    # One bridge with a port for each host.
    "switch": lambda hosts: [tuple(range(hosts))],
    # A two-port bridge from the root processor to each endpoint.
    "star": _star,
    # A two-port bridge between each two hosts.
    "mesh": _mesh,
    # The last endpoint has a bridge of its own to the root processor.
    "mixed": lambda hosts: [tuple(range(hosts - 1)), (0, hosts - 1)],
}
_MOST_BRIDGES_OF_A_HOST = 3
_MOST_PORTS = 12
_AREA_STEP = 4 * MIB


def _kernel_dir():
    if named := os.environ.get("KDIR"):
        return seen_by_guests(Path(named))
    return built_kernel(flavour())


@functools.cache
def built_kernel(kind):
    """Where the kernel of that flavour is."""
    script = "stock.sh" if kind == "stock" else "kernel.sh"
    command = [CHECKOUT / "scripts" / script, "--print-dir"]
    if kind in ("debug", "races"):
        command.append(f"--{kind}")
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=PRINT_DIR_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", None) or error
        raise RigError(f"no kernel to boot: {str(detail).strip()}") from error
    return seen_by_guests(Path(found.stdout.strip()))


def programs_dir():
    if named := os.environ.get("RIG_PROGRAMS"):
        return seen_by_guests(Path(named))
    return seen_by_guests(CHECKOUT / "build/target" / STATIC_TARGET / "release")


def programs32_dir():
    """The programs and libraries of 32 bits, which are there if a compiler for them is."""
    if named := os.environ.get("PROGRAMS32"):
        return Path(named)
    return CHECKOUT / "build/target/rust32/i686-unknown-linux-gnu/release"


def stage_dir():
    """Where `make examples` has installed the libraries, with the examples below `bin`."""
    return Path(os.environ.get("STAGE") or CHECKOUT / "build/stage")


def tool(name):
    """A program in Rust, as it is installed."""
    return programs_dir() / name


def example(name):
    """An example in C."""
    return stage_dir() / "bin" / name


@dataclass(frozen=True)
class Settings:
    """Defaults fit two cores and the rig's kernel; all sizes are in bytes."""

    hosts: int = 3
    topology: str = field(default_factory=lambda: os.environ.get("RIG_TOPOLOGY", "switch"))
    ram: int = 512 * MIB
    area_base: int = 256 * MIB
    area_size: int = 64 * MIB
    vectors: int = 8
    plain_slot_base: int = 16
    # Devices beside the bridge, in each guest. One that masters the bus: QEMU's edu.
    engine: bool = False
    # One with memory of so many bytes, which peers may reach; 0: none.
    instrument: int = 0
    # What translates for them.
    iommu: bool = False
    # Guests see what changes in the checkout, and read its files each time.
    live: bool = False
    cpus: int = 0  # per guest; 0 chooses by the number of hosts and cores
    boot_timeout: float = 120.0
    kernel_options: str = field(default_factory=lambda: os.environ.get("RIG_KERNEL_OPTIONS", ""))
    accel: str = field(default_factory=lambda: os.environ.get("RIG_ACCEL", "tcg"))
    kernel_dir: Path = field(default_factory=_kernel_dir)
    programs: Path = field(default_factory=programs_dir)

    def __post_init__(self):
        if not 2 <= self.hosts <= 8:
            raise RigError(f"a rig has 2 to 8 hosts, not {self.hosts}")
        if self.topology not in TOPOLOGIES:
            raise RigError(f"a topology is one of {', '.join(TOPOLOGIES)}, not {self.topology}")
        bridges = TOPOLOGIES[self.topology](self.hosts)
        if sum(0 in bridge for bridge in bridges) > _MOST_BRIDGES_OF_A_HOST or (
            sum(len(bridge) for bridge in bridges) > _MOST_PORTS
        ):
            raise RigError(f"{self.hosts} hosts are too many for the topology {self.topology}")
        if self.ram & (self.ram - 1) or not 256 * MIB <= self.ram <= 2048 * MIB:
            raise RigError("a guest's RAM is a power of two from 256 MiB to 2 GiB")
        if self.instrument and (
            self.instrument & (self.instrument - 1) or not 4096 <= self.instrument <= 16 * MIB
        ):
            raise RigError("an instrument's memory is a power of two from 4 KiB to 16 MiB")
        if self.area_base + self.area_size > self.ram:
            raise RigError("the area for memory windows lies outside of the guests' RAM")
        if self.accel not in ("tcg", "kvm"):
            raise RigError(f"RIG_ACCEL is tcg or kvm, not {self.accel!r}")
        for path, way_out in (
            (self.kernel_image, "run `make kernel`, or set KDIR to a built kernel"),
            (self.server, "run `make rig`"),
            (self.guest_init, "run `make rig`"),
        ):
            if not path.exists():
                raise RigError(f"{path} is missing: {way_out}")
        if not shutil.which("qemu-system-x86_64"):
            raise RigError("qemu-system-x86_64 is missing: run scripts/setup.sh")

    @property
    def boards(self):
        """The NTBs, each with a part of the area and of the PCI device numbers."""
        bridges = TOPOLOGIES[self.topology](self.hosts)
        part = self.area_size // len(bridges) // _AREA_STEP * _AREA_STEP
        boards, slot = [], self.plain_slot_base
        for number, hosts in enumerate(bridges):
            base = self.area_base + number * part
            boards.append(Board(number, hosts, slot, base, part))
            slot += len(hosts)
        return boards

    @property
    def kernel_image(self):
        return self.kernel_dir / "arch/x86/boot/bzImage"

    @property
    def modules_dir(self):
        """The kernel's installed modules, if it has been installed."""
        path = self.kernel_dir / "modroot/lib/modules"
        return path if path.is_dir() else None

    @property
    def server(self):
        return self.programs / "ivshmem-server"

    @property
    def guest_init(self):
        return self.programs / "guest-init"

    @property
    def guest_cpus(self):
        if self.cpus:
            return self.cpus
        return 2 if 2 * self.hosts <= (os.cpu_count() or 1) else 1
