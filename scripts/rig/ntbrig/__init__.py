# SPDX-License-Identifier: GPL-2.0-only
"""The test rig: QEMU guests joined by an emulated PCIe NTB.

    with Fabric(hosts=3) as fabric:
        fabric.rp.run("uname -a")
        server = fabric.hosts[1].spawn("iperf3 -s -1")

Where to find what: `fabric` boots and ends a set of guests, `guest` is one of
them, `agent` talks to the program inside it, `qemu` knows QEMU's options,
`warden` is the parent process of everything that runs, `initramfs` packs the
guests' RAM disk, `reports` finds kernel complaints on a console, `stack` loads
the project's modules, `terminal`, `demo` and `cli` are for people.

Every wait has a limit, and when the `with` block ends - or this process dies,
however it dies - no guest, no server and no file is left behind.
"""

from .agent import CommandFailed, GuestGone, Process, Result
from .fabric import Fabric
from .guest import Guest
from .settings import RigError, Settings

__all__ = [
    "CommandFailed",
    "Fabric",
    "Guest",
    "GuestGone",
    "Process",
    "Result",
    "RigError",
    "Settings",
]
