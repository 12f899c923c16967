# SPDX-License-Identifier: GPL-2.0-only
"""Wrong input to the transport: one message that names it, nothing half loaded."""

import pytest
from ntbrig import stack

from frames import TRANSPORT, wait_for_everyone

BELOW = TRANSPORT[:-1]
RANGES = {
    "role=3": "0..2",
    "memory_kib=63": "64..1048576",
    "queues=9": "0..8",
    "busy_poll_us=10001": "0..10000",
    "heartbeat_ms=0": "1..10000",
    "timeout_ms=149": "150..60000",
    "dma=2": "0..1",
    "dma_threshold=63": "64..131072",
}


@pytest.fixture(scope="module")
def pair(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=BELOW)
    return fabric.hosts


def loaded(guest):
    return [line.split()[0] for line in guest.run("cat /proc/modules").out.splitlines()]


def insmod(guest, parameters=""):
    guest.run("dmesg -C")
    path = stack.modules_dir() / "pximc_ntb.ko"
    return guest.run(f"insmod {path} {parameters}", check=False)


@pytest.mark.parametrize("parameter, limits", RANGES.items())
def test_a_parameter_out_of_range_is_named_with_its_range(pair, parameter, limits):
    guest = pair[0]
    assert insmod(guest, parameter).rc != 0
    assert f"parameter {parameter} is not in {limits}" in guest.run("dmesg").out
    assert "pximc_ntb" not in loaded(guest)
    assert guest.run("ls /sys/kernel/mp/peers").out == ""


def test_after_refusals_it_loads_as_ever(pair):
    stack.load(*pair, modules=TRANSPORT[-1:])
    wait_for_everyone(*pair)
    stack.unload(*pair, modules=TRANSPORT[-1:])


def test_without_a_device_it_says_so_and_waits_for_one(pair):
    guest = pair[0]
    stack.unload(guest, modules=("ntb_hw_ivshmem",))
    assert insmod(guest).rc == 0
    assert "no NTB device is free" in guest.run("dmesg").out
    stack.load(guest, modules=("ntb_hw_ivshmem",))
    stack.load(pair[1], modules=TRANSPORT[-1:])
    wait_for_everyone(*pair)
    stack.unload(*pair, modules=TRANSPORT[-1:])


def test_a_device_that_another_client_has_is_left_to_it(pair):
    guest = pair[0]
    guest.run("modprobe ntb_tool")
    assert insmod(guest).rc == 0
    assert "no NTB device is free" in guest.run("dmesg").out
    assert guest.run("readlink /sys/bus/ntb/devices/*/driver").out.strip().endswith("ntb_tool")
    guest.run("rmmod pximc_ntb && rmmod ntb_tool")
