# SPDX-License-Identifier: GPL-2.0-only
"""Segments in memory that one peer alone reaches, whatever others do."""

import errno
from contextlib import contextmanager

import pytest
import sharing
from copies import copied as copied_by
from copies import prepared, queue_of
from frames import TEST, peer_id, wait_for_everyone
from ntbrig import stack
from pximc import MODULES
from sharing import MP, fails
from shell import INTACT, until

PAGE = 0x1000
LENGTH = 4 * PAGE


@pytest.fixture(scope="module")
def fabric(boot):
    """Boot three hosts, whose bridges have windows that can be led to memory of a process."""
    fabric = boot(hosts=3)
    parameters = {"ntb_hw_ivshmem": "personality=amd"}
    stack.load(*fabric.hosts, modules=MODULES, parameters=parameters)
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


def pair(server, back, client, there):
    """A session of the two; both handles."""
    fields = {"location": 1, "protocol": 860, "flags": MP.SESSION_NO_WINDOWS}
    ends = [
        process.call("SESSION_OPEN", "mp_session_open", role=role, interface=at, **fields).handle
        for process, role, at in ((server, MP.ROLE_SERVER, back), (client, MP.ROLE_CLIENT, there))
    ]
    server.wait(ends[0], MP.EVENT_PAIRED)
    return ends


def grant(owner, segment, session, flags=0):
    rights = MP.GRANT_READ | MP.GRANT_WRITE
    fields = {"segment": segment, "session": session, "rights": rights, "flags": flags}
    return owner.call("SEGMENT_GRANT", "mp_segment_grant", **fields).handle


def connect(user, there, number, session, flags=0):
    fields = {"interface": there, "object": MP.OBJECT_SEGMENT, "number": number}
    fields |= {"flags": flags | MP.CONNECT_GRANTED, "session": session}
    return user.call("CONNECT", "mp_connect", deadline=sharing.FOREVER, **fields).handle


@pytest.fixture
def friends(fabric):
    """A process of a host, with its interface to another one, and a process there, with that back."""
    host, friend, _ = fabric.hosts
    with sharing.Process(host) as owner, sharing.Process(friend) as user:
        yield owner, interface_to(owner, friend), user, interface_to(user, host)


@contextmanager
def scribbling(liar, host):
    """Once a host has stored to all pages of another one's arena and commons that its windows lead
    to, and to the first four pages of what it is exposed."""
    parameters = {"mp_func_test": f"dst={peer_id(host)} scribble=1"}
    stack.load(liar, modules=TEST, parameters=parameters)
    try:
        yield
    finally:
        stack.unload(liar, modules=TEST)


def assert_zero(owner, memory):
    for name, (start, length) in memory.items():
        for page in range(start, start + length, PAGE):
            assert owner.read(page, PAGE) == bytes(PAGE), name


def test_a_peer_that_stores_everywhere_does_not_reach_what_is_for_another_one(fabric, friends):
    """Nor what is private. It reaches what is for all, and what it was exposed itself."""
    host, _, liar = fabric.hosts
    owner, back, user, there = friends
    own = owner.interface(loopback=True)
    near, far = pair(owner, back, user, there)
    kept = {
        "for a peer": for_one(owner, 860, back),
        "private, for a peer": for_one(owner, 0, back, flags=MP.SEGMENT_PRIVATE),
        "granted to a peer": for_one(owner, 0, back, flags=MP.SEGMENT_PRIVATE),
        "for this host": for_one(owner, 861, own),
        "private": make(owner, 0, flags=MP.SEGMENT_PRIVATE),
        "private, granted for copies": make(owner, 0, flags=MP.SEGMENT_PRIVATE),
    }
    everybodys = make(owner, 862)
    for name in kept:
        owner.at("PREPARE", kept[name], own if name == "for this host" else back)
    owner.at("PUBLISH", kept["for a peer"], back)
    places = [user.map_connection(user.connect(there, MP.OBJECT_SEGMENT, 860))]
    granted = connect(user, there, grant(owner, kept["granted to a peer"], near), far)
    places.append(user.map_connection(granted))
    copied = grant(owner, kept["private, granted for copies"], near, MP.PUBLISH_PLACED)
    connect(user, there, copied, far, MP.CONNECT_PLACED)
    memory = {name: (owner.map_segment(handle), LENGTH) for name, handle in kept.items()}
    _, exposed = owner.segment_of_own_memory(863, PAGE, back)
    places.append(user.map_connection(user.connect(there, MP.OBJECT_SEGMENT, 863)))
    memory["exposed to a peer"] = exposed, PAGE
    reached = ("for a peer", "granted to a peer", "exposed to a peer")
    for place in places:
        user.write(place, b"from the friend!")
    with sharing.Process(liar) as stranger:
        its = interface_to(owner, liar)
        _, shown = owner.segment_of_own_memory(864, PAGE, its)
        stranger.connect(interface_to(stranger, host), MP.OBJECT_SEGMENT, 864)
        seen = owner.map_segment(everybodys)
        with scribbling(liar, host):
            # The bridge's window ends where the page does that is exposed to that peer.
            assert "stored to 1 pages that were exposed" in liar.run("dmesg").out
            for page in (shown, *range(seen, seen + LENGTH, PAGE)):
                assert owner.read(page, 8) == b"\1" + bytes(7)
            for name in reached:
                assert owner.read(memory[name][0], 16) == b"from the friend!", name
                owner.write(memory[name][0], bytes(16))
            assert_zero(owner, memory)


def test_what_is_private_is_granted_for_copies(friends):
    """Without an interface no window leads to it; with one, that of the peer there."""
    owner, back, user, there = friends
    near, far = pair(owner, back, user, there)
    segment = make(owner, 0, flags=MP.SEGMENT_PRIVATE)
    owner.at("PREPARE", segment, back)
    with fails(errno.ENOSPC):
        grant(owner, segment, near)
    number = grant(owner, segment, near, MP.PUBLISH_PLACED)
    with fails(errno.ENOSPC):
        connect(user, there, number, far)
    connection = connect(user, there, number, far, MP.CONNECT_PLACED)
    queue = queue_of(user, there)
    source, memory = prepared(user, there, LENGTH, 867)
    user.fill(memory, LENGTH, 5)
    copied_by(user, queue, source, connection, (0, 0, LENGTH))
    assert owner.check(owner.map_segment(segment), LENGTH, 5) == INTACT
    # What is private is also what is copied.
    target = user.segment(868, LENGTH, there)
    to = owner.connect(back, MP.OBJECT_SEGMENT, 868)
    copied_by(owner, queue_of(owner, back), segment, to, (0, 0, LENGTH))
    assert user.check(user.map_segment(target), LENGTH, 5) == INTACT


def test_what_is_private_counts_as_memory_of_this_host(friends):
    owner, back, _, _ = friends
    own = owner.interface(loopback=True)
    before = [free_bytes(owner, at) for at in (own, back)]
    segment = make(owner, 0, flags=MP.SEGMENT_PRIVATE)
    assert [free_bytes(owner, at) for at in (own, back)] == [before[0] - LENGTH, before[1]]
    owner.close(segment)
    assert free_bytes(owner, own) == before[0]


def test_what_is_granted_is_for_the_partners_host_alone(friends):
    """The grant ends as any, and its memory is free when the partner has let go."""
    owner, back, user, there = friends
    near, far = pair(owner, back, user, there)
    before = free_bytes(owner, back)
    segment = for_one(owner, 0, back, flags=MP.SEGMENT_PRIVATE)
    with fails(errno.ENXIO):
        grant(owner, segment, near)
    owner.at("PREPARE", segment, back)
    number = grant(owner, segment, near)
    remote = user.map_connection(connect(user, there, number, far))
    user.write(remote, b"granted")
    seen = owner.map_segment(segment)
    assert owner.read(seen, 7) == b"granted"
    with fails(errno.EBUSY):
        owner.remove(number)
    owner.remove(number, MP.REMOVE_FORCE)
    user.write(remote, b"too late")
    assert owner.read(seen, 8) == b"granted\0"
    assert free_bytes(owner, back) == before - LENGTH
    owner.remove(segment)
    until(lambda: free_bytes(owner, back) == before)


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
