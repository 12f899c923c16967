# SPDX-License-Identifier: GPL-2.0-only
"""Loads the project's modules in guests and gives `ntb0` its address."""

import os
import time
from pathlib import Path

from .agent import CommandFailed
from .settings import CHECKOUT, RigError, flavour

# In the order of loading; each needs those before it.
MODULES = ("mp_kernel", "ntb_hw_ivshmem", "mp_transport", "pximc_ntb", "mp_func_ether")
INTERFACE = "ntb0"
# Loaded besides where processes share memory.
USER = "mp_func_user"

# An emulated guest on a busy machine may stand still for longer than any real
# host, and is not to be taken for a dead one because of that.
PARAMETERS = {"pximc_ntb": "timeout_ms=2000"}

# Nor is it to miss a packet to all hosts.
_FLOOD_WAIT_MS = 5000

# Personalities of the emulated NTB whose two ports have the same number: the
# transport is told which is which. Those that are too small for more hosts.
_ALIKE = ("switchtec", "epf")
_FEW_HOSTS = {"intel": 5, "amd": 3, "epf": 6, "tiny": 2}

_PEERS = "/sys/kernel/mp/peers"
_TIMEOUT = 40.0
_LOAD_TIMEOUT = 30.0
# How long the kernel's ntb_transport may take to notice that its peer has gone.
_TRANSPORT_CLEANUP = 1.0
_CARRIER_TIMEOUT = 20
_WAIT_TIMEOUT = 30.0
# Seconds between two looks at what a guest waits for.
_PAUSE = 0.02


def modules_dir(guest=None):
    """Where modules are: of a guest's release, in `MODULES`, or in the checkout's build."""
    if guest and guest.release:
        return guest.release.modules
    if named := os.environ.get("MODULES"):
        return Path(named)
    series = os.environ.get("KERNEL_SERIES")
    name = f"{flavour()}-{series}" if series else flavour()
    return CHECKOUT / "build/modules" / name


def address(guest):
    """The guest's IPv4 address on the fabric."""
    return f"10.77.0.{guest.port + 1}"


def personality():
    """The emulated NTB's personality: `RIG_PERSONALITY`, or none of a real part."""
    return os.environ.get("RIG_PERSONALITY") or "generic"


def most_hosts():
    """How many hosts the personality is large enough for."""
    return _FEW_HOSTS.get(personality(), 8)


def _parameters(guest, name, given):
    """A module's parameters in one guest, with what the personality and a guest's pauses ask for."""
    if name == "ntb_hw_ivshmem" and "personality=" not in given:
        return f"personality={personality()} {given}".strip()
    if name == "pximc_ntb" and personality() in _ALIKE and "role=" not in given:
        return f"role={2 if guest.port else 1} {given}".strip()
    if name == "mp_func_ether" and "flood_wait_ms=" not in given and not guest.release:
        return f"flood_wait_ms={_FLOOD_WAIT_MS} {given}".strip()
    return given


def _insmod(guest, names, parameters):
    directory = modules_dir(guest)
    for name in names:
        if not (directory / f"{name}.ko").exists():
            raise RigError(f"{directory}/{name}.ko is missing: run `make modules`")
    parameters = PARAMETERS | parameters
    words = [
        f"insmod {directory}/{name}.ko {_parameters(guest, name, parameters.get(name, ''))}".strip()
        for name in names
    ]
    return " && ".join(words)


def everywhere(guests, command, timeout=_TIMEOUT):
    """Run a command in all guests at once; it must succeed in each. Their results."""
    return _finish([guest.spawn(command, timeout) for guest in guests])


def _finish(processes):
    """Wait for processes that all run by now; each must succeed. Their results."""
    return [process.wait().check() for process in processes]


def holds(path, test):
    """The condition of a shell that a file's first line is as `test` of the shell has it."""
    return f'{{ read -r line < {path}; }} 2>/dev/null && [ "$line" {test} ]'


def wait_until(condition, *guests, timeout=_WAIT_TIMEOUT):
    """Wait until the condition of a shell is true in all these guests.

    It is tried again and again. What sleeps in between is the shell, for input that never
    comes: to start a program takes an emulated guest longer than what is waited for.
    """
    loop = f"until {condition}; do read -t {_PAUSE} || :; done"
    _finish([guest.spawn(loop, timeout, stdin=True) for guest in guests])


def load(*guests, modules=MODULES, parameters=None):
    """Load modules in all these guests at once.

    `parameters` maps a module's name to its parameters, as for insmod, and
    takes the place of the rig's own.
    """
    commands = [_insmod(guest, modules, parameters or {}) for guest in guests]
    _finish([guest.spawn(c, _LOAD_TIMEOUT) for guest, c in zip(guests, commands, strict=True)])


def unload(*guests, modules=MODULES):
    """Unload modules, last loaded first."""
    command = " && ".join(f"rmmod {name}" for name in reversed(modules))
    everywhere(guests, command, _LOAD_TIMEOUT)


def unload_mainline_network(*guests):
    """Take the kernel's `ntb_netdev` and `ntb_transport` out of guests.

    One after the other, with a pause: `ntb_transport` frees its windows twice if it
    is unloaded while it still cleans up after the peer's. What it loses is not counted
    as lost: the receive entries of queues that nobody used.
    """
    for number, guest in enumerate(guests):
        if number:
            time.sleep(_TRANSPORT_CLEANUP)
        # The first takes the second along if it has a user, which may be none.
        guest.run("modprobe -r ntb_netdev; modprobe -r ntb_transport", timeout=_LOAD_TIMEOUT)
        guest.forget_leaks()


def configure(*guests):
    """Set the address and the interface up, on some hosts in the old way."""
    _finish([guest.spawn(_configuration(guest), _TIMEOUT) for guest in guests])


def _configuration(guest):
    if guest.port % 2:
        return f"ifconfig {INTERFACE} {address(guest)} netmask 255.255.255.0 up"
    return f"ip addr add {address(guest)}/24 dev {INTERFACE} && ip link set {INTERFACE} up"


def wait_for_carrier(*guests, timeout=_CARRIER_TIMEOUT):
    """Wait until each guest has a peer, and its kernel has heard of it: between carrier and
    that it drops what is sent."""
    try:
        wait_until(holds(f"/sys/class/net/{INTERFACE}/operstate", "= up"), *guests, timeout=timeout)
    except CommandFailed as error:
        raise RigError(f"no carrier in {timeout} s: {error}") from error


def wait_for_peers(*guests, condition, timeout=_CARRIER_TIMEOUT):
    """Wait until the number of each guest's peers meets a condition, as `test` has them."""
    count = f"shopt -s nullglob; set -- {_PEERS}/*; [ $# {condition} ]"
    wait_until(count, *guests, timeout=timeout)


def numbers(guests):
    """The numbers of guests that have links, as the fabric has given them."""
    # A host has its number as soon as it has a peer.
    wait_for_peers(*guests, condition=f"-ge {len(guests) - 1}")
    return [int(guest.read("/sys/kernel/mp/self"), 16) for guest in guests]


def bring_up(*guests, parameters=None):
    """From freshly booted guests to interfaces that have carrier."""
    load(*guests, parameters=parameters)
    configure(*guests)
    wait_for_carrier(*guests)
