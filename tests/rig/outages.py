# SPDX-License-Identifier: GPL-2.0-only
"""Three hosts, of which the second one is lost to the others and comes back."""

import pytest
from frames import wait_for_everyone
from ntbrig import stack
from pximc import MODULES
from shell import until

STAYS, GOES, THIRD = range(3)


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3)
    stack.load(*fabric.hosts, modules=MODULES)
    wait_for_everyone(*fabric.hosts)
    return fabric


def reaches(fabric):
    """Whether the first host has two peers."""
    return len(fabric.rp.run("ls /sys/kernel/mp/peers").out.split()) == 2


def unplugged(fabric):
    """Wait until it is noticed that the host is not within reach."""
    until(lambda: not reaches(fabric))


def unplug(fabric, goes):
    fabric.unplug(fabric.hosts[GOES])
    unplugged(fabric)


def plug(fabric):
    fabric.plug(fabric.hosts[GOES])
    wait_for_everyone(*fabric.hosts)


def kill_host(fabric, goes):
    fabric.hosts[GOES].kill()
    unplugged(fabric)


def boot_host(configure):
    """What boots the host again; `configure` is called with all hosts then."""

    def boot(fabric):
        guest = fabric.hosts[GOES]
        guest.boot()
        stack.load(guest, modules=MODULES)
        wait_for_everyone(*fabric.hosts)
        configure(fabric.hosts)

    return boot


def in_a_row(boot):
    """Boot three hosts in a row, of which the outer ones have no bridge in common, for a fixture. The
    first is the middle."""
    fabric = boot(hosts=3, topology="star")
    stack.load(*fabric.hosts, modules=MODULES)
    wait_for_everyone(*fabric.hosts)
    yield fabric
    boot.end(fabric)


@pytest.fixture
def row(boot):
    yield from in_a_row(boot)
