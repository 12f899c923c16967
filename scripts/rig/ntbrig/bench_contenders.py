# SPDX-License-Identifier: GPL-2.0-only
"""What is measured against each other, and how it gets into the guests.

All contenders are clients of the same NTB device, which takes one at a time:
they are loaded and unloaded in turn, in the same guests.
"""

import contextlib

from . import stack
from .agent import CommandFailed
from .settings import RigError

MIB = 1 << 20
HARDWARE = ("mp_kernel", "ntb_hw_ivshmem")
FABRIC = ("mp_transport", "pximc_ntb", "mp_func_ether")
DEVICE = "0000:00:1c.0"

_LINK_SECONDS = 30


def _insmod(module, parameters=""):
    return f"insmod {stack.modules_dir()}/{module}.ko {parameters}".strip()


@contextlib.contextmanager
def _loaded(guests, load, unload):
    """Run a shell command before, and `unload` of the guests after; on each of
    them that still works if something went wrong."""
    try:
        stack.everywhere(guests, load)
        yield
    except BaseException:
        for guest in guests:
            with contextlib.suppress(Exception):
                unload(guest)
        raise
    unload(*guests)


def _command(text):
    """What runs a shell command in guests, all at once."""
    return lambda *guests: stack.everywhere(guests, text)


@contextlib.contextmanager
def hardware(guests, window):
    """The emulated NTB with windows of so many bytes."""
    for name in (*HARDWARE, "ntb_bench"):
        if not (stack.modules_dir() / f"{name}.ko").exists():
            raise RigError(f"{stack.modules_dir()}/{name}.ko is missing: run `make modules`")
    load = " && ".join(
        [_insmod("mp_kernel"), _insmod("ntb_hw_ivshmem", f"mw_size={window}"), "modprobe ntb"]
    )
    with _loaded(guests, load, _command("rmmod ntb_hw_ivshmem && rmmod mp_kernel")):
        yield


class Interface:
    """A network interface that leads from the first guest to the second.

    `program` is the path of `net-bench`.
    """

    def __init__(self, guests, name, prefix, program):
        self.guests = guests
        self.name = name
        self.program = program
        self._prefix = prefix

    @property
    def peer(self):
        """The second guest's address."""
        return f"{self._prefix}.2"

    def up(self, mtu):
        """Set the interfaces up."""
        for number, guest in enumerate(self.guests, 1):
            guest.run(
                f"ip address replace {self._prefix}.{number}/24 dev {self.name}"
                f" && ip link set {self.name} mtu {mtu} up"
            )

    def reach(self):
        """Wait until the peer answers."""
        command = f"until ping -q -c 1 -W 1 {self.peer} >/dev/null; do sleep 0.1; done"
        result = self.guests[0].run(command, timeout=_LINK_SECONDS, check=False)
        if result.rc != 0:
            raise CommandFailed(f"{self.name} does not reach the peer in {_LINK_SECONDS} s")


class Ours:
    """The fabric's virtual Ethernet, as it comes; with other function services if
    they are named."""

    name = "ntb0"
    largest_mtu = 65535

    def __init__(self, *services):
        self._modules = (*FABRIC, *services)

    @contextlib.contextmanager
    def network(self, guests, program, mtu):
        load = " && ".join(map(_insmod, self._modules))
        unload = " && ".join(f"rmmod {name}" for name in reversed(self._modules))
        with _loaded(guests, load, _command(unload)):
            # Others forward.
            interface = Interface(guests[:2], stack.INTERFACE, "10.77.0", program)
            interface.up(mtu)
            interface.reach()
            yield interface


class Mainline:
    """`ntb_netdev` with parameters of `ntb_transport`.

    One of its bugs has to be lived with: a link that is taken down and up again,
    as by a new MTU, may find the peer's ring full for ever. Hence one MTU for
    each time it is loaded.
    """

    def __init__(self, parameters=""):
        self.parameters = parameters
        self.name = f"ntb_netdev ({parameters})" if parameters else "ntb_netdev"

    @property
    def largest_mtu(self):
        """A transport frame without its header and Ethernet's."""
        words = dict(word.split("=") for word in self.parameters.split())
        return int(words.get("transport_mtu", 65536)) - 26

    @contextlib.contextmanager
    def network(self, guests, program, mtu):
        load = f"modprobe ntb_transport {self.parameters} && modprobe ntb_netdev"
        with _loaded(guests, load, stack.unload_mainline_network):
            interface = Interface(guests, "eth0", "10.9.0", program)
            interface.up(mtu)
            interface.reach()
            yield interface


@contextlib.contextmanager
def ntb_perf(guests, parameters):
    """Mainline's measurement of windows. Gives the directory of its files."""
    with _loaded(guests, f"modprobe ntb_perf {parameters}", _command("rmmod ntb_perf")):
        yield f"/sys/kernel/debug/ntb_perf/{DEVICE}"


@contextlib.contextmanager
def ntb_pingpong(guests):
    """Mainline's game of doorbells, without a pause. Gives the directory of its
    file."""
    with _loaded(guests, "modprobe ntb_pingpong delay_ms=0", _command("rmmod ntb_pingpong")):
        yield f"/sys/kernel/debug/ntb_pingpong/{DEVICE}"


@contextlib.contextmanager
def engine(guest):
    """A DMA engine, that of the tests. It copies as fast as a thread of the kernel does."""
    with _loaded([guest], _insmod("dma_test"), _command("rmmod dma_test")):
        yield


@contextlib.contextmanager
def ntb_bench(guests, parameters):
    """Run ours; the directory of its files."""
    sender, receiver = guests
    unload = _command("rmmod ntb_bench")
    with _loaded([receiver], _insmod("ntb_bench"), unload):
        with _loaded([sender], _insmod("ntb_bench", parameters), unload):
            yield "/sys/kernel/ntb_bench"
