# SPDX-License-Identifier: GPL-2.0-only
"""SMC-D sockets of two hosts over the window between them."""

import pytest
import smc
from ntbrig import stack

MIB = 1 << 20


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    smc.bring_up(*fabric.hosts)
    return fabric


def test_each_host_has_one_device(fabric):
    names = set()
    for guest in fabric.hosts:
        assert guest.run("ls /sys/class/dibs").out.split() == ["lo", "mp"]
        assert guest.read("/sys/class/dibs/mp/fabric_id").strip() == "0xff4d"
        names.add(guest.read("/sys/class/dibs/mp/gid").strip())
        assert smc.counters(guest)["partners"] == 1
    assert len(names) == 2


def test_an_unprivileged_user_may_ask_for_devices(fabric):
    """The kernel takes the device's parent for a PCI device."""
    for guest in fabric.hosts:
        count, *ids = map(int, smc.device_as_nobody(guest))
        root = "/sys/bus/pci/devices/0000:00:00.0"
        expected = [int(guest.read(f"{root}/{name}"), 16) for name in ("vendor", "device")]
        assert (count, ids) == (1, expected)


def check_connection(server, client):
    before = [smc.counters(guest) for guest in (client, server)]
    called, listened = smc.talk(server, client, MIB)
    assert called["sent"] == listened["received"]
    assert listened["sent"] == called["received"]
    # Neither has fallen back to TCP.
    assert called["modes"] == listened["modes"] == [smc.SMC_D]
    after = [smc.counters(guest) for guest in (client, server)]
    moved = [
        {name: now[name] - then[name] for name in now}
        for now, then in zip(after, before, strict=True)
    ]
    for guest, other in (moved, reversed(moved)):
        assert guest["sent_bytes"] == MIB + 1
        assert guest["received_bytes"] >= other["sent_bytes"]
        assert guest["sent_signals"] > 0
        assert guest["received_signals"] > 0
        for name in ("refused_moves", "refused_frames", "unknown_buffers", "lost_messages"):
            assert guest[name] == 0, name


def test_a_connection_goes_through_the_window(fabric):
    check_connection(fabric.hosts[0], fabric.hosts[1])
    # In the other direction, by what the first one has left.
    check_connection(fabric.hosts[1], fabric.hosts[0])


def test_a_module_goes_and_comes_back(fabric):
    """The partner's buffers end with it, and all memory is given back."""
    staying, going = fabric.hosts
    assert smc.counters(staying)["buffers"] > 0
    for _ in range(3):
        stack.unload(going, modules=smc.DIBS)
        assert going.run("ls /sys/class/dibs").out.split() == ["lo"]
        smc.wait_for_partners(staying, count=0)
        smc.wait_for_no_buffers(staying)
        stack.load(going, modules=smc.DIBS)
        smc.wait_for_partners(staying, going)
        check_connection(staying, going)


def test_nothing_is_left_behind(fabric):
    stack.unload(*fabric.hosts, modules=smc.DIBS)
    for guest in fabric.hosts:
        assert guest.run("ls /sys/class/dibs").out.split() == ["lo"]
