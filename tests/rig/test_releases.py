# SPDX-License-Identifier: GPL-2.0-only
"""Hosts with modules and programs of the last release beside hosts of this checkout.

Two releases that share a wire version work together, with frames, packets, sessions and
segments; others say on both sides which of them is to be updated.
"""

import errno

import pytest
import sharing
import sisci
from copies import copied, placed, prepared, queue_of, start
from ether import lost, nothing_lost, ping, stream
from frames import TRANSPORT, peer_id, wait_for_everyone
from ntbrig import release, stack
from pximc import OK, Process, wait_until_up
from pximc_sessions import PROTOCOL, USUAL, meet, pair, windows
from sharing import MP, fails
from shell import INTACT, until
from sisci import NODES, PAGE, Program

USER = "mp_func_user"
ETHER = "mp_func_ether"
MODULES = (*TRANSPORT, ETHER, USER)
TALK = 10


def mix(boot, old):
    """Three hosts, of which the one with that number has the last release."""
    fabric = boot(hosts=3)
    fabric.hosts[old].release = release.last(fabric.settings.kernel_dir)
    stack.load(*fabric.hosts, modules=MODULES)
    stack.configure(*fabric.hosts)
    stack.wait_for_carrier(*fabric.hosts)
    wait_for_everyone(*fabric.hosts)
    return fabric


@pytest.fixture(scope="module", params=("root processor", "endpoint"))
def fabric(request, boot):
    """A fabric whose root processor, or one endpoint, is of the last release."""
    fabric = mix(boot, ("root processor", "endpoint").index(request.param))
    yield fabric
    boot.end(fabric)
    boot.fabrics.remove(fabric)


@pytest.fixture
def two(fabric):
    """The host of the last release, and one of this checkout."""
    (old,) = (guest for guest in fabric.hosts if guest.release)
    new = next(guest for guest in fabric.hosts if not guest.release)
    return old, new


def log(guest):
    return guest.run("dmesg").out


def versions(guest):
    """The wire version of each link that a host of this checkout has."""
    lines = log(guest).splitlines()
    return [line.rsplit(" ", 1)[1] for line in lines if "is up, wire version" in line]


def test_each_pair_speaks_the_newest_version_that_both_know(fabric):
    for guest in fabric.hosts:
        if not guest.release:
            # One link to the other host of this checkout, one to that of the last release.
            assert set(versions(guest)) == {"1", "2"}


def test_packets_cross_in_both_directions(two):
    with nothing_lost(*two):
        for source, sink in (two, two[::-1]):
            ping(source, stack.address(sink), "-s 60000")
            stream(source, sink, mib=4)
    assert not any(lost(guest) for guest in two)


def test_sessions_are_made_and_used(two):
    """By programs of each release, with its libraries."""
    wait_until_up(*two)
    with Process(two[0]) as one, Process(two[1]) as other:
        interfaces = dict(zip(two, meet(one, other)))
    for order in (two, two[::-1]):
        client, server = (Process(guest, interfaces[guest]) for guest in order)
        with client, server:
            sessions = pair(client, server)
            ends = windows((client, server), sessions)
            for near, (remote, _) in enumerate(ends):
                remote.fill(7 + near)
                assert ends[1 - near][1].check(7 + near) == INTACT
            waiting = server.later.wait_for_session_event(sessions[1], TALK * 1000)
            assert client.assert_event(sessions[0]) == OK
            assert waiting.result().status == OK


def test_segments_and_interrupts_are_shared(fabric, two):
    """And messages: the data of interrupts."""
    sisci.configure(*fabric.hosts)
    for owning, using in (two, two[::-1]):
        node = NODES[owning.port]
        with Program(owning) as owner, Program(using) as user:
            sisci.wait_until_reached(user, node)
            sisci.wait_until_reached(owner, NODES[using.port])
            segment = owner.segment(5)
            connected = user.connect(node, 5)
            (_, here), (_, there) = owner.map_local(segment), user.map_remote(connected)
            user.fill(there, PAGE, 3)
            assert owner.check(here, PAGE, 3) == INTACT
            interrupt = owner.data_interrupt_of(9)
            user.send(user.connect_data_interrupt(node, 9), b"between releases")
            assert owner.receive(interrupt) == b"between releases"


# The sessions of a link to a host of the last release.
FIRST_SESSIONS = 256


def post(process, interface, **fields):
    sizes = {"local_min": 1, "local_max": 1}
    kind = {"role": MP.ROLE_SERVER, "location": MP.LOCATION_LOGICAL, "protocol": 7}
    fields = {"interface": interface, **kind, **sizes, **fields}
    return process.call("SESSION_OPEN", "mp_session_open", **fields).handle


def towards(here, there):
    """The interface to the other process's host: where the window is seen that it posts."""
    uid = 0x3EE7
    for mine in there.find_interfaces().ids:
        posted = there.request_window_logical_as_server(mine, PROTOCOL, *USUAL, *USUAL, uid).session
        seen = [theirs for theirs in here.interfaces() if sees(here, theirs, uid)]
        assert there.close_window(posted) == OK
        if seen:
            return seen[0]
    raise AssertionError("the two do not reach each other")


def sees(process, interface, uid):
    try:
        return process.call("WINDOW", "mp_window", interface=interface, id=uid)
    except OSError as error:
        assert error.errno == errno.ENOENT
        return None


def test_what_the_last_release_does_not_know_is_refused(two):
    """Beside it, sessions have no names, servers do not answer, and a link has fewer sessions."""
    old, new = two
    wait_until_up(*two)
    with Process(old) as there, sharing.Process(new) as here:
        interface = towards(here, there)
        here.write(here.buffer, b"name")
        for fields in (
            {"name": here.buffer, "name_size": 4},
            {"flags": MP.SESSION_DEFER},
            {"flags": MP.SESSION_DEFER | MP.SESSION_ONCE},
            {"flags": MP.SESSION_NO_WINDOWS, "local_min": 0, "local_max": 0},
        ):
            with fails(errno.EOPNOTSUPP):
                post(here, interface, **fields)
        # What it knows is as before, whatever was refused.
        for _ in range(FIRST_SESSIONS):
            post(here, interface)
        with fails(errno.ENOSPC):
            post(here, interface)


def test_names_that_the_last_release_does_not_know_are_refused(fabric, two):
    """It finds what has a name by its number, and is not asked for anything by a name."""
    old, new = two
    sisci.configure(*fabric.hosts)
    peer = lambda user, interface: user.call("INTERFACE", "mp_interface", id=interface).peer
    with Program(old) as there, sharing.Process(new) as here:
        sisci.wait_until_reached(there, NODES[new.port])
        (interface,) = (n for n in here.interfaces() if peer(here, n) == peer_id(old))
        there.segment(8)
        with fails(errno.EOPNOTSUPP):
            here.connect(interface, MP.OBJECT_SEGMENT, 0, name=b"jobs")
        here.close(here.connect(interface, MP.OBJECT_SEGMENT, 8))
        fields = {"id": 9, "length": PAGE, **here.named(b"jobs")}
        named = here.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
        for what in ("PREPARE", "PUBLISH"):
            here.at(what, named, interface)
        there.map_remote(there.connect(NODES[new.port], 9))
        assert here.notice(named) == MP.NOTICE_CONNECTED


def test_copies_that_the_last_release_does_not_make_are_refused(fabric, two):
    """Placed transfers in either direction, and grants; windows are what there is."""
    old, new = two
    sisci.configure(*fabric.hosts)
    with Program(old) as owner, sharing.Process(new) as user:
        sisci.wait_until_reached(owner, NODES[new.port])
        segment = owner.segment(6)
        _, memory = owner.map_local(segment)
        peer = lambda interface: user.call("INTERFACE", "mp_interface", id=interface).peer
        (there,) = (n for n in user.interfaces() if peer(n) == peer_id(old))
        with fails(errno.EOPNOTSUPP):
            placed(user, there, 6)
        connection = user.connect(there, MP.OBJECT_SEGMENT, 6)
        with fails(errno.EOPNOTSUPP):
            user.exchange(connection, 0, 0, 1)
        own, local = prepared(user, there, PAGE, 7)
        queue = queue_of(user, there)
        with fails(errno.EOPNOTSUPP):
            start(user, queue, own, connection, (0, 0, PAGE), flags=MP.QUEUE_READ)
        with fails(errno.EOPNOTSUPP):
            fields = {"segment": own, "session": post(user, there), "rights": MP.GRANT_READ}
            user.call("SEGMENT_GRANT", "mp_segment_grant", **fields)
        user.fill(local, PAGE, 4)
        copied(user, queue, own, connection, (0, 0, PAGE))
        assert owner.check(memory, PAGE, 4) == INTACT


@pytest.fixture(scope="module")
def apart(boot):
    """Two hosts, without modules."""
    return boot(hosts=2)


def test_hosts_that_share_no_version_say_which_one_is_old(apart):
    new, old = apart.hosts
    stack.load(new, modules=TRANSPORT, parameters={"pximc_ntb": "timeout_ms=2000 wire_oldest=2"})
    stack.load(old, modules=TRANSPORT, parameters={"pximc_ntb": "timeout_ms=2000 wire_newest=1"})
    expected = {
        new: "speaks wire versions 1 to 1, this host 2 to 2: load modules of a newer release on the peer",
        old: "speaks wire versions 2 to 2, this host 1 to 1: load modules of a newer release on this host",
    }
    for guest, words in expected.items():
        until(lambda: words in log(guest))
    # Several attempts later.
    new.run("sleep 5")
    for guest, words in expected.items():
        assert log(guest).count(words) == 1, "it is said once"
        assert not guest.run("ls /sys/kernel/mp/peers").out.strip()
    stack.unload(old, modules=("pximc_ntb",))
    stack.load(old, modules=("pximc_ntb",))
    wait_for_everyone(new, old)
    stack.unload(new, old, modules=TRANSPORT)


@pytest.mark.parametrize("parameters", ("wire_oldest=3", "wire_newest=9", "wire_oldest=2 wire_newest=1"))
def test_versions_that_no_release_has_are_refused(apart, parameters):
    guest = apart.rp
    stack.load(guest, modules=TRANSPORT[:-1])
    path = stack.modules_dir() / "pximc_ntb.ko"
    refused = guest.run(f"insmod {path} {parameters}", check=False)
    stack.unload(guest, modules=TRANSPORT[:-1])
    assert refused.rc != 0 and "Invalid" in refused.err + refused.out
