# SPDX-License-Identifier: GPL-2.0-only
"""The local ends of links in sysfs, with and without a host at the far end."""

import errno

import pytest
from ntbrig import stack

import sharing
from frames import TRANSPORT, peer_id, wait_for_peers
from sharing import MP

pytestmark = pytest.mark.everywhere

DIRECTORY = "/sys/kernel/mp/interfaces"
LOOPBACK = "00000001"
NTB = ("pximc_ntb",)


@pytest.fixture(scope="module")
def pair(boot):
    """Two hosts, all but the transport loaded."""
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=TRANSPORT[:-1])
    return fabric.hosts


def interfaces(guest):
    """All interfaces but the loopback: their files by id."""
    found = {}
    for line in guest.run(f"cd {DIRECTORY} && grep -H '' */*").out.splitlines():
        path, value = line.split(":", 1)
        name, file = path.split("/")
        found.setdefault(name, {})[file] = value
    loopback = found.pop(LOOPBACK)
    assert (loopback["name"], loopback["state"]) == ("loopback", "up")
    return found


def wait_until(guest, name, state):
    """Wait until an interface is up, and waits for nothing, or is down for lack of a link."""
    stack.wait_until(stack.holds(f"{DIRECTORY}/{name}/state", f"= {state}"), guest)
    waits_for = {"up": "none", "down": "ntb_link"}[state]
    stack.wait_until(stack.holds(f"{DIRECTORY}/{name}/waits_for", f"= {waits_for}"), guest)


def test_an_interface_is_there_with_or_without_a_host_at_the_far_end(pair):
    one, other = pair
    assert interfaces(one) == {}
    stack.load(one, modules=NTB)
    (name,) = interfaces(one)
    wait_until(one, name, "down")
    alone = interfaces(one)[name]
    assert (alone["state"], alone["peer"], alone["waits_for"]) == ("down", "none", "ntb_link")
    where = f"/sys/bus/pci/devices/{alone['location']}"
    for file in ("vendor", "device", "subsystem_vendor", "subsystem_device"):
        assert int(one.run(f"cat {where}/{file}").out, 16) == int(alone[file], 16)

    stack.load(other, modules=NTB)
    wait_for_peers(one, 1)
    wait_until(one, name, "up")
    assert interfaces(one) == {
        name: alone | {"state": "up", "peer": f"{peer_id(other):08x}", "waits_for": "none"},
    }
    stack.unload(other, modules=NTB)
    wait_until(one, name, "down")
    assert interfaces(one) == {name: alone}
    stack.unload(one, modules=NTB)
    assert interfaces(one) == {}


def test_an_id_stays_the_same_and_is_used_once(boot):
    one = boot(hosts=3).hosts[0]
    stack.load(one, modules=TRANSPORT[:-1])
    listed = []
    for _ in range(2):
        stack.load(one, modules=NTB)
        listed.append(sorted(interfaces(one)))
        stack.unload(one, modules=NTB)
    assert listed[0] == listed[1]
    assert len(listed[0]) == 2
    assert "00000000" not in listed[0]


def test_a_process_hears_of_an_interface_that_is_new(boot):
    """Its first wait finds that there may be some. An interface that has come back is new; one that
    has gone is not."""
    one = boot(hosts=2).hosts[0]
    stack.load(one, modules=[*TRANSPORT[:-1], "mp_func_user"])
    with sharing.Process(one) as process:
        anything = {"flags": MP.WAIT_INTERFACE, "target": MP.INTERFACE_ANY, "mask": MP.EVENT_STATE}
        hears = lambda deadline=sharing.PAST: process.call(
            "WAIT", "mp_wait", **anything, deadline=deadline
        ).events
        assert hears() == MP.EVENT_STATE
        for _ in range(2):
            with sharing.fails(errno.ETIMEDOUT):
                hears()
            waiting = process.later("WAIT", "mp_wait", **anything, deadline=sharing.FOREVER)
            assert not waiting.returned()
            stack.load(one, modules=NTB)
            assert waiting.result().events == MP.EVENT_STATE
            stack.unload(one, modules=NTB)
        for mask in (MP.EVENT_WINDOWS, MP.EVENT_STATE | MP.EVENT_WINDOWS):
            with sharing.fails(errno.EINVAL):
                process.call("WAIT", "mp_wait", **{**anything, "mask": mask}, deadline=sharing.PAST)
