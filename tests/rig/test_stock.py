# SPDX-License-Identifier: GPL-2.0-only
"""Debian's own kernel, unmodified: the modules that were built for it load, hosts talk by Ethernet and by
a program of each library, and everything is unloaded again. Run by `make test KERNEL=stock`."""

import hashlib

import pytest
from ntbrig import demo, stack
from ntbrig.settings import built_kernel, flavour

pytestmark = pytest.mark.skipif(flavour() != "stock", reason="another kernel: set KERNEL=stock")

# Modules that are not the kernel's own, and none of them signed by it.
TAINT = 1 << 12 | 1 << 13
# What the modules are for, and what they are in the order of loading.
PRODUCT = (*stack.MODULES, stack.USER)


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.bring_up(*fabric.hosts)
    stack.load(*fabric.hosts, modules=(stack.USER,))
    return fabric


def test_the_kernel_is_the_one_that_debian_packages(fabric):
    """Its image is the one among the package's modules, and says so."""
    kernel = built_kernel("stock")
    (packaged,) = (kernel / "modroot/lib/modules").iterdir()
    image = (packaged / "vmlinuz").read_bytes()
    booted = fabric.settings.kernel_image.read_bytes()
    assert hashlib.sha256(booted).digest() == hashlib.sha256(image).digest()
    for guest in fabric.hosts:
        assert guest.run("uname -r").out.strip() == packaged.name


def test_modules_taint_it_as_modules_from_elsewhere_do(fabric):
    for guest in fabric.hosts:
        assert int(guest.read("/proc/sys/kernel/tainted")) == TAINT


def test_hosts_ping_each_other(fabric):
    one, other = fabric.hosts
    for guest, there in ((one, other), (other, one)):
        out = guest.run(f"ping -q -c 20 -i 0.05 -W 5 {stack.address(there)}", timeout=60).out
        assert " 0% packet loss" in out


@pytest.mark.parametrize("library", demo.PROCESSES)
def test_a_program_of_each_library_runs(fabric, library):
    """The same that the demonstration shows; each checks what it has received."""
    demo.PROCESSES[library](*fabric.hosts)


def test_all_modules_are_unloaded(fabric):
    stack.unload(*fabric.hosts, modules=PRODUCT)
    for guest in fabric.hosts:
        loaded = guest.read("/proc/modules")
        assert not any(line.startswith(("mp_", "pximc_", "ntb_hw")) for line in loaded.splitlines())
