# SPDX-License-Identifier: GPL-2.0
"""What a rig is made of: sizes, files, and where they come from."""

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

# Every time limit is multiplied by this: for kernels that check everything, and
# for machines that are busy.
PATIENCE = float(os.environ.get("RIG_PATIENCE") or (4 if os.environ.get("DEBUG") == "1" else 1))


def host_names(hosts):
    """The names of a set's hosts, by port: the root processor is port 0."""
    return ["rp"] + [f"ep{n}" for n in range(1, hosts)]


def _kernel_dir():
    if named := os.environ.get("KDIR"):
        return Path(named)
    command = [CHECKOUT / "scripts/kernel.sh", "--print-dir"]
    if os.environ.get("DEBUG") == "1":
        command.append("--debug")
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=PRINT_DIR_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", None) or error
        raise RigError(f"no kernel to boot: {str(detail).strip()}") from error
    return Path(found.stdout.strip())


def _programs_dir():
    if named := os.environ.get("RIG_PROGRAMS"):
        return Path(named)
    return CHECKOUT / "build/target" / STATIC_TARGET / "release"


@dataclass(frozen=True)
class Settings:
    """Defaults fit two cores and the rig's kernel; all sizes are in bytes."""

    hosts: int = 3
    ram: int = 512 * MIB
    area_base: int = 256 * MIB
    area_size: int = 64 * MIB
    vectors: int = 8
    plain_slot_base: int = 16
    cpus: int = 0  # per guest; 0 chooses by the number of hosts and cores
    boot_timeout: float = 120.0
    kernel_options: str = field(default_factory=lambda: os.environ.get("RIG_KERNEL_OPTIONS", ""))
    accel: str = field(default_factory=lambda: os.environ.get("RIG_ACCEL", "tcg"))
    kernel_dir: Path = field(default_factory=_kernel_dir)
    programs: Path = field(default_factory=_programs_dir)

    def __post_init__(self):
        if not 2 <= self.hosts <= 8:
            raise RigError(f"a rig has 2 to 8 hosts, not {self.hosts}")
        if self.ram & (self.ram - 1) or not 256 * MIB <= self.ram <= 2048 * MIB:
            raise RigError("a guest's RAM is a power of two from 256 MiB to 2 GiB")
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
