# SPDX-License-Identifier: GPL-2.0-only
"""Memory that peers reach counts for the control group of the process that it was made for, as long as
somebody has it or a peer may reach it: the kernel's device memory controller has it in regions."""

import errno
from contextlib import contextmanager

import groups
import pytest
import sharing
from groups import group
from liar import CLOSE, Liar
from ntbrig import stack
from ntbrig.settings import PATIENCE, programs_dir
from pximc import MODULES
from sharing import MP, fails
from shell import until
from test_lost_peers import paired

HANDOVER = programs_dir() / "uapi/handover"
PAGE = 0x1000
# A segment, and what a group may have.
SEGMENT, SHARE = 16 * PAGE, 24 * PAGE
NUMBER = 1
LIMITS = {"mp_func_user": "user_memory=50"}
KINDS = ("all", "private", "one peer")


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters=LIMITS)
    return fabric


@pytest.fixture(scope="module")
def host(fabric):
    """The one that is looked at."""
    host = fabric.hosts[1]
    if not groups.limit_by("dmem", host):
        pytest.skip("this kernel has no device memory controller")
    return host


@pytest.fixture(scope="module")
def regions(host):
    """What the kernel calls the memory that segments for all, private segments and those for one peer are
    cut from."""
    with sharing.Process(host) as process:
        process.wait_until_up(process.interface())
    lines = host.read(f"{groups.ROOT}/dmem.capacity").splitlines()
    names = [line.split()[0] for line in lines if line.startswith("mp/")]
    (arena,) = [name for name in names if name not in ("mp/commons", "mp/loopback")]
    return {"all": "mp/commons", "private": "mp/loopback", "one peer": arena}


def fields_of(kind, process, number):
    match kind:
        case "private":
            return {"length": SEGMENT, "flags": MP.SEGMENT_PRIVATE}
        case "one peer":
            only = {"flags": MP.SEGMENT_ONE_PEER, "interface": process.interface()}
            return {"length": SEGMENT, "id": number} | only
        case _:
            return {"length": SEGMENT, "id": number}


def segment(process, kind="all", number=NUMBER):
    """A segment of that kind."""
    fields = fields_of(kind, process, number)
    return process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle


def server(process, interface, **limits):
    """A session that waits for a client."""
    fields = {"interface": interface, "role": MP.ROLE_SERVER, "location": MP.LOCATION_LOGICAL}
    return process.call("SESSION_OPEN", "mp_session_open", **fields, **limits).handle


@contextmanager
def standing_still(fabric, process):
    """Inside, the peer does nothing, and its link has ended."""
    peer = fabric.rp
    interface = process.interface()
    peer.freeze()
    try:
        process.wait_until_up(interface, up=False)
        yield
    finally:
        peer.thaw()
        process.wait_until_up(interface)


# --- segments


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_has_so_much_memory_for_segments(host, regions, kind):
    """Other groups have theirs, and what was closed can be had again."""
    region = regions[kind]
    with group(host, "segments") as of, of.process() as process:
        of.limit(region, SHARE)
        first = segment(process, kind)
        assert of.has_of(region) == SEGMENT
        with fails(errno.EDQUOT):
            segment(process, kind, NUMBER + 1)
        assert of.has_of(region) == SEGMENT
        with sharing.Process(host) as other:
            segment(other, kind, NUMBER + 2)
            assert of.has_of(region) == SEGMENT
        process.remove(first)
        assert of.has_of(region) == 0
        segment(process, kind)


def test_a_segment_is_charged_as_long_as_anybody_has_it(host, regions):
    """To the group that has made it, also when its maker has ended."""
    region = regions["all"]
    with group(host, "maker") as of, sharing.Process(host) as other:
        with of.process() as maker:
            made = segment(maker)
            maker.call("SEGMENT_SHARE", "mp_handle", handle=made)
            attached = other.call("SEGMENT_ATTACH", "mp_segment_attach", id=NUMBER).handle
        assert of.has_of(region) == SEGMENT
        other.remove(attached)
        until(lambda: of.has_of(region) == 0)


def test_a_segment_is_charged_as_long_as_there_is_a_descriptor(host, regions):
    """Which is all that is left."""
    region = regions["all"]
    with group(host, "descriptor") as of:
        with host.spawn([*of.how(), HANDOVER, "keep"], timeout=60 * PATIENCE) as keeper:
            keeper.wait_for_output("kept", timeout=20 * PATIENCE)
            assert of.has_of(region) == PAGE
        until(lambda: of.has_of(region) == 0)


def test_a_process_that_leaves_its_group_has_what_it_has_at_the_cost_of_that(host, regions):
    region = regions["all"]
    with group(host, "before") as of, group(host, "after") as other:
        with of.process() as process:
            first = segment(process)
            other.take_all_of(of)
            segment(process, number=NUMBER + 1)
            assert (of.has_of(region), other.has_of(region)) == (SEGMENT, SEGMENT)
            process.remove(first)
            assert (of.has_of(region), other.has_of(region)) == (0, SEGMENT)


def test_a_segment_in_quarantine_is_charged_to_a_group_that_has_gone(fabric, host, regions):
    """To those that it was in. It is free when the peer has let go: with its next epoch."""
    region = regions["all"]
    before = groups.all_have_of(host, region)
    with sharing.pair(fabric) as (watcher, back, user, there):
        with group(host, "gone") as of:
            with of.process() as owner:
                made = owner.segment(NUMBER, SEGMENT, back)
                user.map_connection(user.connect(there, MP.OBJECT_SEGMENT, NUMBER))
                with standing_still(fabric, watcher):
                    owner.remove(made, MP.REMOVE_FORCE)
                    assert of.has_of(region) == SEGMENT
                    owner.exit()
                    of.remove()
                    assert groups.all_have_of(host, region) == before + SEGMENT
        until(lambda: groups.all_have_of(host, region) == before)


# --- windows of sessions


@pytest.mark.parametrize("kind", ["one peer", "private"], ids=["a peer", "this host"])
def test_a_group_has_so_much_memory_for_sessions(host, regions, kind):
    """A window is made smaller where it may be."""
    region = regions[kind]
    with group(host, "sessions") as of, of.process() as process:
        of.limit(region, SHARE)
        there = process.interface(loopback=kind == "private")
        with fails(errno.EDQUOT):
            server(process, there, local_min=SHARE + PAGE, local_max=SHARE + PAGE)
        assert of.has_of(region) == 0
        handle = server(process, there, local_min=PAGE, local_max=MP.SIZE_MAX)
        assert SHARE // 2 <= of.has_of(region) <= SHARE
        process.close(handle)
        until(lambda: of.has_of(region) == 0)


def test_a_session_of_a_group_without_memory_has_no_window_where_it_needs_none(host, regions):
    with group(host, "none") as of, of.process() as process:
        of.limit(regions["one peer"], 0)
        there = process.interface()
        with fails(errno.EDQUOT):
            server(process, there, local_min=PAGE, local_max=PAGE)
        server(process, there, local_max=PAGE, remote_min=PAGE, remote_max=PAGE)


def test_what_a_group_may_not_have_is_left_to_its_user(host, regions):
    with (
        group(host, "little") as of,
        of.process() as process,
        sharing.Process(host) as other,
    ):
        of.limit(regions["one peer"], SHARE)
        there = process.interface()
        server(process, there, local_min=PAGE, local_max=MP.SIZE_MAX)
        total = other.call("INTERFACE", "mp_interface", id=there).local_total
        server(other, there, local_min=total * 3 // 8, local_max=total * 3 // 8)


def test_a_window_in_quarantine_is_charged(fabric, host, regions):
    """Also when the session has been closed, and was one of an epoch that is over."""
    region = regions["one peer"]
    limits = {"local_min": SEGMENT, "local_max": SEGMENT}
    with sharing.pair(fabric) as (watcher, back, user, there):
        with group(host, "quarantine") as of, of.process() as owner:
            near = server(owner, back, **limits)
            client = {"role": MP.ROLE_CLIENT, "location": MP.LOCATION_LOGICAL, "interface": there}
            client |= {"remote_min": SEGMENT, "remote_max": SEGMENT}
            user.call("SESSION_OPEN", "mp_session_open", **client)
            owner.wait(near, MP.EVENT_PAIRED)
            with standing_still(fabric, watcher):
                owner.close(near)
                assert of.has_of(region) == SEGMENT
            until(lambda: of.has_of(region) == 0)


# --- modules that go


@pytest.fixture
def peer(fabric, host):
    """A liar, which says nothing of what it has let go of."""
    stack.unload(fabric.rp, modules=MODULES)
    with Liar(fabric.rp, host) as liar:
        liar.greet()
        yield liar
    stack.load(fabric.rp, modules=MODULES, parameters=LIMITS)


@contextmanager
def in_quarantine(host, peer, region):
    """Inside, a window that a group's session has had is the peer's alone; the group, and what it is
    charged for."""
    with group(host, "lost") as of:
        with of.process() as process:
            of.limit(region, SHARE)
            paired(process, peer)
            charged = of.has_of(region)
            assert charged >= SHARE // 2
        peer.hear_of_session(CLOSE)
        assert of.has_of(region) == charged
        yield of, charged


def test_a_window_in_quarantine_is_charged_when_the_service_begins_anew(host, regions, peer):
    """Until the peer's service has heard of that."""
    region = regions["one peer"]
    with in_quarantine(host, peer, region) as (of, charged):
        stack.unload(host, modules=("mp_func_user",))
        assert of.has_of(region) == charged
        stack.load(host, modules=("mp_func_user",), parameters=LIMITS)
        assert of.has_of(region) == charged
        peer.greet()
        until(lambda: of.has_of(region) == 0)


def test_all_modules_may_go_while_memory_is_charged(host, regions, peer):
    """Which goes with its region, and so does what limited it."""
    region = regions["one peer"]
    with in_quarantine(host, peer, region) as (of, _):
        stack.unload(host, modules=MODULES)
        assert region not in of.read("dmem.current")
        stack.load(host, modules=MODULES, parameters=LIMITS)
        until(lambda: f"{region} max" in of.read("dmem.max").splitlines())
        assert groups.all_have_of(host, region) == 0
