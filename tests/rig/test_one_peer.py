# SPDX-License-Identifier: GPL-2.0-only
"""Segments in memory that one peer alone reaches, whatever others do."""

import errno

import pytest
import sharing
from frames import TEST, peer_id, wait_for_everyone
from ntbrig import stack
from pximc import MODULES
from sharing import MP, fails
from shell import until

PAGE = 0x1000
LENGTH = 4 * PAGE


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3)
    stack.load(*fabric.hosts, modules=MODULES)
    wait_for_everyone(*fabric.hosts)
    return fabric


def interface_to(process, guest):
    """The interface that leads to that host."""
    for one in process.interfaces():
        told = process.call("INTERFACE", "mp_interface", id=one)
        if told.peer == peer_id(guest):
            process.wait_until_up(one)
            return one
    raise AssertionError(f"no interface leads to {guest}")


def make(process, number, length=LENGTH, interface=0, flags=0):
    fields = {"id": number, "length": length, "flags": flags, "interface": interface}
    return process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle


def for_one(process, number, interface, length=LENGTH, flags=0):
    return make(process, number, length, interface, MP.SEGMENT_ONE_PEER | flags)


def free_bytes(process, interface):
    return process.call("INTERFACE", "mp_interface", id=interface).local_free


def test_a_peer_that_stores_everywhere_does_not_reach_what_is_for_another_one(fabric):
    """It reaches what is for all, also if that is private or published for another peer."""
    host, friend, liar = fabric.hosts
    with sharing.Process(host) as owner, sharing.Process(friend) as user:
        back = interface_to(owner, friend)
        there = interface_to(user, host)
        own = owner.interface(loopback=True)
        kept = {
            "for a peer": for_one(owner, 860, back),
            "private, for a peer": for_one(owner, 0, back, flags=MP.SEGMENT_PRIVATE),
            "for this host": for_one(owner, 861, own),
        }
        reached = {
            "for all": make(owner, 862),
            "private": make(owner, 0, flags=MP.SEGMENT_PRIVATE),
        }
        owner.at("PREPARE", kept["for a peer"], back)
        owner.at("PUBLISH", kept["for a peer"], back)
        remote = user.map_connection(user.connect(there, MP.OBJECT_SEGMENT, 860))
        user.write(remote, b"from the friend!")
        seen = {name: owner.map_segment(handle) for name, handle in (kept | reached).items()}
        assert owner.read(seen["for a peer"], 16) == b"from the friend!"
        stack.load(liar, modules=TEST, parameters={"mp_func_test": f"dst={peer_id(host)} scribble=1"})
        assert owner.read(seen["for a peer"], 16) == b"from the friend!"
        for name in reached:
            for page in range(0, LENGTH, PAGE):
                assert owner.read(seen[name] + page, 8) == b"\1" + bytes(7), name
        owner.write(seen["for a peer"], bytes(16))
        for name in kept:
            for page in range(0, LENGTH, PAGE):
                assert owner.read(seen[name] + page, PAGE) == bytes(PAGE), name
        stack.unload(liar, modules=TEST)


def test_it_is_for_one_interface(fabric):
    host, friend, other = fabric.hosts
    with sharing.Process(host) as owner, sharing.Process(other) as user:
        here, back = interface_to(owner, friend), interface_to(owner, other)
        for fields, error in (
            ({"flags": MP.SEGMENT_ONE_PEER | MP.SEGMENT_EMPTY, "interface": here}, errno.EINVAL),
            ({"interface": here}, errno.EINVAL),
            ({"flags": MP.SEGMENT_ONE_PEER, "interface": 0x7FFFFFF0}, errno.ENODEV),
            ({"flags": MP.SEGMENT_ONE_PEER, "interface": here, "length": 1 << 40}, errno.ENOSPC),
        ):
            with fails(error):
                make(owner, 863, **{"length": LENGTH, **fields})
        segment = for_one(owner, 863, here)
        with fails(errno.ENOSPC):
            owner.at("PREPARE", segment, back)
        owner.at("PREPARE", segment, here)
        owner.at("PUBLISH", segment, here)
        # By copies of this host's kernel, which checks them, others reach it if they shall.
        owner.at("PREPARE", segment, back, MP.PUBLISH_PLACED)
        with fails(errno.ENOSPC):
            owner.at("PUBLISH", segment, back)
        owner.at("PUBLISH", segment, back, MP.PUBLISH_PLACED)
        there = interface_to(user, host)
        with fails(errno.ENOSPC):
            user.connect(there, MP.OBJECT_SEGMENT, 863)
        user.close(user.connect(there, MP.OBJECT_SEGMENT, 863, MP.CONNECT_PLACED))
        own = owner.interface(loopback=True)
        owner.at("PREPARE", segment, own)
        owner.at("PUBLISH", segment, own)
        seen = owner.map_segment(segment)
        near = owner.map_connection(owner.connect(own, MP.OBJECT_SEGMENT, 863))
        owner.write(near, b"near")
        assert owner.read(seen, 4) == b"near"


def test_its_memory_is_that_of_sessions(fabric):
    """It counts there, and is free when the peer has let go."""
    host, friend, _ = fabric.hosts
    with sharing.Process(host) as owner, sharing.Process(friend) as user:
        here, there = interface_to(owner, friend), interface_to(user, host)
        before = free_bytes(owner, here)
        segment = for_one(owner, 864, here, length=64 * PAGE)
        assert free_bytes(owner, here) == before - 64 * PAGE
        owner.at("PREPARE", segment, here)
        owner.at("PUBLISH", segment, here)
        connection = user.connect(there, MP.OBJECT_SEGMENT, 864)
        remote = user.map_connection(connection)
        user.write(remote, b"x")
        with fails(errno.EBUSY):
            owner.remove(segment)
        owner.remove(segment, MP.REMOVE_FORCE)
        assert user.read(remote, 1) == b"\xff"
        until(lambda: free_bytes(owner, here) == before)
        again = for_one(owner, 864, here, length=64 * PAGE)
        assert owner.read(owner.map_segment(again), PAGE) == bytes(PAGE)


def test_it_goes_with_its_interface(fabric):
    """While the link is down none is made; what there is stays, and goes with the bridge."""
    host, friend, _ = fabric.hosts
    with sharing.Process(host) as owner, sharing.Process(friend) as user:
        here, there = interface_to(owner, friend), interface_to(user, host)
        segment = for_one(owner, 865, here)
        seen = owner.map_segment(segment)
        owner.write(seen, b"stays")
        owner.at("PREPARE", segment, here)
        owner.at("PUBLISH", segment, here)
        fabric.unplug(friend)
        owner.wait_until_up(here, up=False)
        with fails(errno.ENETDOWN):
            for_one(owner, 866, here)
        assert owner.read(seen, 5) == b"stays"
        fabric.plug(friend)
        owner.wait_until_up(here)
        user.wait_until_up(there)
        remote = user.map_connection(user.connect(there, MP.OBJECT_SEGMENT, 865))
        assert user.read(remote, 5) == b"stays"
        bridge = host.run("ls /sys/bus/ntb/devices").out.split()[0]
        host.run(f"echo {bridge} > /sys/bus/ntb/drivers/pximc_ntb/unbind")
        assert owner.read(seen, 5) == b"\xff" * 5
        owner.close(segment)
