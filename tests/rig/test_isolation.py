# SPDX-License-Identifier: GPL-2.0-only
"""No process reads or writes what it was not granted, and none takes what all others need:
handles and offsets that are guessed, contexts in the wrong hands, memory that had another
owner, and quotas of contexts and users."""

import errno
import select
import struct

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import MIB, programs_dir
from pximc import MODULES
from sharing import MP, PAST, fails

PAGE = 0x1000
DEVICE = "/dev/mp_fabric"
# A user without privilege, and its group.
NOBODY = 65534
# Small quotas, so that a test gets there soon.
SESSIONS, USER_SESSIONS = 12, 18
OBJECTS, USER_OBJECTS = 40, 60
USER_SEGMENTS, USER_CONNECTIONS, USER_CONTEXTS = 16, 20, 10
USER_MEMORY = 50
QUOTAS = (
    f"sessions={SESSIONS} user_sessions={USER_SESSIONS}"
    f" objects={OBJECTS} user_objects={USER_OBJECTS}"
    f" user_segments={USER_SEGMENTS} user_connections={USER_CONNECTIONS}"
    f" user_contexts={USER_CONTEXTS} user_memory={USER_MEMORY}"
)
# Starts a program as a user in a user namespace that another user has made, which has so many
# users beginning with one.
ENTER = """
import ctypes, os, sys
owner, first, user, group = map(int, sys.argv[1:5])
me, (made, tell) = os.getpid(), os.pipe()
if not os.fork():
    os.close(tell)
    if os.read(made, 1):
        for kind, outer in ("uid", first), ("gid", first):
            with open(f"/proc/{me}/{kind}_map", "w") as map_of_users:
                map_of_users.write(f"0 {outer} 1000")
    os._exit(0)
os.setgroups([group])
os.setresgid(group, group, group)
os.setresuid(owner, owner, owner)
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):
    raise OSError(ctypes.get_errno(), "unshare")
os.write(tell, b"x")
os.wait()
os.setresuid(user, user, user)
os.execvp(sys.argv[5], sys.argv[5:])
"""
# Bytes that those may lock whose memory is pinned.
MEMLOCK = 16 * PAGE
# A user without privilege, who has made namespaces, and those of whom they are.
MAKER, MEMBERS = 4712, 100_000
# Structures whose flags the kernel tells, and what the handles of the others name.
TOLD_FLAGS = ("mp_interface", "mp_segment")
HANDLE_OF = {
    "mp_connection": "connection",
    "mp_notice": "segment",
    "mp_queue_start": "queue",
    "mp_remove": "segment",
    "mp_segment_register": "segment",
    "mp_segment_interface": "segment",
    "mp_session_access": "session",
    "mp_session_answer": "session",
    "mp_session_partner": "session",
    "mp_session_store": "session",
}
# Handles that are tried one by one, and then so many others all over their space.
DENSE, SPARSE, STEP = 4096, 8192, 524287


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters={"mp_func_user": QUOTAS})
    for guest in fabric.hosts:
        guest.run(f"chgrp {NOBODY} {DEVICE} && chmod 660 {DEVICE}")
    return fabric


def interfaces(process):
    """Those to this host, and to the other one, when they are up."""
    found = [process.interface(loopback=is_same) for is_same in (True, False)]
    for interface in found:
        process.wait_until_up(interface)
    return found


@pytest.fixture
def owner(fabric):
    with sharing.Process(fabric.rp) as process:
        yield process


@pytest.fixture
def stranger(fabric):
    with sharing.Process(fabric.rp, user=NOBODY) as process:
        yield process


def event(process, interface, number):
    return process.offer(interface, MP.OBJECT_EVENT, number)


def session(process, interface, **fields):
    """Post a window, as a server if nothing else is said."""
    known = {"role": 1, "location": 1, "protocol": 7, "local_max": PAGE}
    fields = {"interface": interface, **known, **fields}
    return process.call("SESSION_OPEN", "mp_session_open", **fields)


def one_of_each(process):
    """An object of each kind, and where memory of them is mapped."""
    here, _ = interfaces(process)
    segment = process.segment(3, 2 * PAGE, here)
    port = process.offer(here, MP.OBJECT_PORT, 3)
    handles = {
        "segment": segment,
        "event": event(process, here, 3),
        "port": port,
        "connection": process.connect(here, MP.OBJECT_SEGMENT, 3),
        "to port": process.connect(here, MP.OBJECT_PORT, 3),
        "queue": process.call(
            "QUEUE_CREATE", "mp_queue_create", interface=here, entries=4
        ).handle,
        "session": session(process, here).handle,
    }
    offsets = [
        process.call("SEGMENT", "mp_segment", handle=segment).offset,
        process.call("CONNECTION", "mp_connection", handle=handles["connection"]).offset,
    ]
    return handles, offsets


# Calls that name an object, for all that a stranger may try.
CALLS = (
    ("SESSION", "mp_session"),
    ("SEGMENT", "mp_segment"),
    ("CONNECTION", "mp_connection"),
    ("QUEUE", "mp_queue"),
    ("QUEUE_ABORT", "mp_handle"),
    ("SIGNAL", "mp_handle"),
    ("SEGMENT_SHARE", "mp_handle"),
    ("NOTICE", "mp_notice"),
    ("SEND", "mp_message"),
    ("RECEIVE", "mp_message"),
    ("REMOVE", "mp_remove"),
    ("CLOSE", "mp_handle"),
)


def test_handles_that_are_guessed_are_nobodys(owner, stranger):
    """Neither those of processes that are there, nor any other."""
    handles, _ = one_of_each(owner)
    assert max(handles.values()) < DENSE
    for name, kind in CALLS:
        assert stranger.guess(0, DENSE, 1, name, kind) == 0, name
    for name, kind in (("CLOSE", "mp_handle"), ("SEGMENT", "mp_segment")):
        assert stranger.guess(DENSE, SPARSE, STEP, name, kind) == 0, name
    # Nothing has happened to them.
    state = owner.state(handles["connection"])
    assert state == MP.CONNECTION_OPERATIONAL
    assert owner.call("SESSION", "mp_session", handle=handles["session"]).events == 0
    for handle in handles.values():
        owner.close(handle)


def test_the_same_user_in_another_context_is_a_stranger_as_well(fabric, owner):
    handles, _ = one_of_each(owner)
    with sharing.Process(fabric.rp) as other:
        for name, kind in CALLS:
            assert other.guess(0, DENSE, 1, name, kind) == 0, name
    assert owner.state(handles["connection"]) == MP.CONNECTION_OPERATIONAL


def test_memory_that_others_write_holds_no_instructions(owner):
    """Neither that of a segment, nor what is reached by a connection, nor a status word."""
    _, offsets = one_of_each(owner)
    info = owner.call("INFO", "mp_info")
    for offset in (*offsets, info.status_offset):
        with fails(errno.EACCES):
            owner.map(offset, PAGE, "rx")
        with fails(errno.EACCES):
            owner.execute(owner.map(offset, PAGE, "ro"), PAGE)


def reserved_fields():
    """Of each call: its structure, and the fields that are zero or have bits that are."""
    for name, kind in sharing.calls():
        _, none = sharing.STRUCTURES[kind]
        for field in none:
            if field.startswith("reserved") or field == "id_more":
                yield name, kind, field, 1
            if field == "flags" and kind not in TOLD_FLAGS:
                yield name, kind, field, 1 << 31


@pytest.mark.parametrize("name, kind, field, value", reserved_fields())
def test_reserved_fields_are_zero(owner, name, kind, field, value):
    """Those of all calls, whatever else they say; of elements: see `mp_park_entry`."""
    handles, _ = one_of_each(owner)
    handle = handles.get(HANDLE_OF.get(kind), 0)
    _, none = sharing.STRUCTURES[kind]
    known = {"handle": handle, "target": handles["event"], "length": PAGE, "mask": 8, "entries": 1}
    known |= {"interface": interfaces(owner)[0], "role": 1, "location": 1, "local_max": PAGE}
    if field == "id_more":
        known["flags"] = MP.SEGMENT_PRIVATE
    fields = {key: of for key, of in known.items() if key in none and key != field}
    with fails(errno.EINVAL):
        owner.call(name, kind, **fields, **{field: value})


def test_elements_may_be_longer_than_the_kernel_knows(owner):
    """What it does not know of them is zero; shorter than in the first version they never are."""
    handles, _ = one_of_each(owner)

    def start(size, *words):
        owner.write(owner.buffer, struct.pack(f"={len(words)}Q", *words))
        fields = {"handle": handles["queue"], "segment": handles["segment"], "count": 2}
        places = {"connection": handles["connection"], "copies": owner.buffer, "copy_size": size}
        owner.call("QUEUE_START", "mp_queue_start", **fields, **places)
        owner.wait(handles["queue"], MP.EVENT_DONE)

    start(0, 0, 0, 8, 8, 8, 8)
    start(24, 0, 0, 8, 8, 8, 8)
    start(32, 0, 0, 8, 0, 8, 8, 8, 0)
    for size, words, error in (
        (32, (0, 0, 8, 0, 8, 8, 8, 1), errno.E2BIG),
        (PAGE + 8, (0, 0, 8), errno.E2BIG),
        (16, (0, 0, 8, 0), errno.EINVAL),
    ):
        with fails(error):
            start(size, *words)

    def watch(size):
        fields = {"target": handles["event"], "mask": MP.EVENT_SIGNAL}
        owner.call("WATCH", "mp_watch", **fields, record_size=size)

    for size, error in ((15, errno.EINVAL), (PAGE + 1, errno.E2BIG)):
        with fails(error):
            watch(size)
    watch(24)
    watch(24)
    with fails(errno.EINVAL):
        watch(0)


def test_a_user_outside_of_the_group_is_told_of_it(fabric):
    """By every program that uses the libraries, without being asked to tell more."""
    user = "setpriv --reuid=4711 --regid=4711 --clear-groups"
    refused = fabric.rp.run(f"{user} {programs_dir()}/sci_query", check=False)
    assert refused.rc == 1
    assert "it takes membership of the group mp" in refused.err


def test_a_reader_without_room_for_a_record_does_not_wait_for_ever(fabric):
    """Also if another thread names the size of records while it sleeps."""
    with sharing.Process(fabric.rp) as owner:
        handles, _ = one_of_each(owner)
        trigger = owner.connect(interfaces(owner)[0], MP.OBJECT_EVENT, 3)
        reading = owner.read_events(16)
        owner.until_asleep()
        fields = {"target": handles["event"], "mask": MP.EVENT_SIGNAL}
        owner.call("WATCH", "mp_watch", **fields, record_size=32)
        owner.call("SIGNAL", "mp_handle", handle=trigger)
        with fails(errno.EINVAL):
            reading.result()
        assert owner.read_events(32).result() == 32


def test_offsets_that_are_guessed_lead_nowhere(owner, stranger):
    """A context maps what is its own: here, nothing but its status words."""
    _, offsets = one_of_each(owner)
    for offset in offsets:
        with fails(errno.ENOENT):
            stranger.map(offset, PAGE)
    own = stranger.call("INFO", "mp_info")
    pages = own.status_length // PAGE
    last = max(*offsets, own.status_offset + own.status_length) // PAGE
    assert stranger.guess_pages(0, last + 256) == pages
    with fails(errno.EACCES):
        stranger.map(own.status_offset, PAGE)


@pytest.mark.parametrize("how", ["child", "pass"])
def test_a_context_is_of_no_use_to_another_process(owner, how):
    """VI-POST-11: not to a child, and not to one that has got the file over a socket."""
    handles, _ = one_of_each(owner)
    for name, kind in (("INFO", "mp_info"), *CALLS):
        handle = {} if kind == "mp_info" else {"handle": handles["segment"]}
        assert owner.elsewhere(how, name, kind, **handle) == errno.EACCES, name
    assert owner.call("SEGMENT", "mp_segment", handle=handles["segment"]).length == 2 * PAGE


@pytest.mark.parametrize("events", [select.POLLIN, select.POLLRDNORM])
def test_there_is_something_to_read_by_both_of_its_names(owner, events):
    here, _ = interfaces(owner)
    handle = event(owner, here, 9)
    to = owner.connect(here, MP.OBJECT_EVENT, 9)
    assert owner.polled(events) == 0
    owner.call("WATCH", "mp_watch", target=handle, mask=MP.EVENT_SIGNAL)
    owner.signal(to)
    assert owner.polled(events) == events


def test_a_child_does_not_learn_when_there_are_events(owner):
    here, _ = interfaces(owner)
    event(owner, here, 9)
    to = owner.connect(here, MP.OBJECT_EVENT, 9)
    assert owner.polled_by_child() == select.POLLERR
    owner.signal(to)
    assert owner.polled_by_child() == select.POLLERR


def test_a_segment_that_is_shared_is_so_for_its_user_only(fabric, owner, stranger):
    """SI-ATTSEG-1, SI-SHSEG-1"""
    segment = owner.call("SEGMENT_CREATE", "mp_segment_create", id=5, length=PAGE).handle
    with sharing.Process(fabric.rp) as other:
        with fails(errno.EPERM):
            other.call("SEGMENT_ATTACH", "mp_segment_attach", id=5)
        owner.call("SEGMENT_SHARE", "mp_handle", handle=segment)
        with fails(errno.EPERM):
            stranger.call("SEGMENT_ATTACH", "mp_segment_attach", id=5)
        attached = other.call("SEGMENT_ATTACH", "mp_segment_attach", id=5).handle
        local, same = owner.map_segment(segment), other.map_segment(attached)
        owner.write(local, b"for both")
        assert other.read(same, 8) == b"for both"


@pytest.mark.parametrize("kind", [MP.OBJECT_EVENT, MP.OBJECT_PORT])
def test_what_is_shared_is_so_by_one_user_only(fabric, owner, stranger, kind):
    """A stranger neither gets what others are sent, nor stops who sends it by not taking it."""
    here, _ = interfaces(owner)
    first = owner.offer(here, kind, 6, MP.OFFER_SHARED)
    with fails(errno.EADDRINUSE):
        stranger.offer(here, kind, 6, MP.OFFER_SHARED)
    with sharing.Process(fabric.rp) as other:
        second = other.offer(here, kind, 6, MP.OFFER_SHARED)
        to = owner.connect(here, kind, 6)
        if kind == MP.OBJECT_PORT:
            owner.send(to, b"for us")
            assert [owner.receive(first), other.receive(second)] == [b"for us"] * 2
        else:
            owner.signal(to)
            assert other.wait(second, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL


def test_physical_addresses_are_for_the_privileged(stranger):
    """A session over them needs CAP_SYS_RAWIO."""
    here, there = interfaces(stranger)
    for interface in (here, there):
        fields = {"location": 2, "local_min": PAGE, "address": 1 << 20}
        with fails(errno.EPERM):
            session(stranger, interface, **fields)


def test_memory_of_one_who_has_gone_is_zero_and_out_of_reach(fabric, stranger):
    """What was written to it is not there any more, and who could write to it cannot."""
    far, near = fabric.hosts[1], fabric.rp
    with sharing.Process(far) as reader, sharing.Process(near) as owner:
        _, there = interfaces(reader)
        _, back = interfaces(owner)
        free = owner.call("INTERFACE", "mp_interface", id=back).local_free
        length = min(free // 4, 4 * MIB) & -PAGE
        segment = owner.segment(9, length, back)
        local = owner.map_segment(segment)
        for at in range(0, length, length // 8):
            owner.write(local + at, b"secret!!")
        connection = reader.connect(there, MP.OBJECT_SEGMENT, 9)
        remote = reader.map_connection(connection)
        assert owner.scan(local, length) == 8
        owner.end()
        while reader.notice(connection) != MP.NOTICE_LOST:
            pass
        # As much as there may be of it, by many.
        mine = []
        for _ in range(USER_SEGMENTS):
            try:
                mine.append(stranger.segment(0, length // 4))
            except OSError as error:
                assert error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EADDRINUSE)
                break
            mapped = stranger.map_segment(mine[-1])
            assert stranger.scan(mapped, length // 4) == 0
            reader.write(remote, b"too late")
            assert stranger.scan(mapped, length // 4) == 0
        assert mine


# --- quotas


def counted(process, most, name, kind, **fields):
    """How many objects can be made, of at most so many, before there is a quota."""
    done = process.repeat(most + 1, name, kind, **fields)
    with fails(errno.EDQUOT):
        process.call(name, kind, **fields)
    return done


def test_a_context_and_a_user_have_so_many_objects(fabric, owner, stranger):
    here, _ = interfaces(stranger)
    any_event = {"interface": here, "object": MP.OBJECT_EVENT, "flags": MP.OFFER_ANY}
    assert counted(stranger, OBJECTS, "OFFER", "mp_offer", **any_event) == OBJECTS
    with sharing.Process(fabric.rp, user=NOBODY) as other:
        rest = USER_OBJECTS - OBJECTS
        assert counted(other, USER_OBJECTS, "OFFER", "mp_offer", **any_event) == rest
    # That is the user's own affair.
    for number in range(OBJECTS):
        event(owner, here, number)
    # With one who ends, what it had comes back.
    with sharing.Process(fabric.rp, user=NOBODY) as other:
        assert counted(other, USER_OBJECTS, "OFFER", "mp_offer", **any_event) == rest


def sessions_of(process, interface):
    """How many sessions can be opened before there is a quota."""
    for number in range(USER_SESSIONS + 1):
        try:
            session(process, interface, local_max=1)
        except OSError as error:
            assert error.errno == errno.EDQUOT
            return number
    return None


def test_a_process_is_told_all_quotas_and_limits(owner):
    told = owner.call("INFO", "mp_info")
    assert (told.sessions_max, told.user_sessions_max) == (SESSIONS, USER_SESSIONS)
    assert (told.objects_max, told.user_objects_max) == (OBJECTS, USER_OBJECTS)
    assert told.user_segments_max == USER_SEGMENTS
    assert told.user_connections_max == USER_CONNECTIONS
    assert told.user_contexts_max == USER_CONTEXTS
    assert told.user_memory_max == USER_MEMORY
    limits = ("message", "queue_entries", "park_entries", "stores", "stores_bytes")
    for limit in limits:
        assert getattr(told, f"{limit}_max") == getattr(MP, f"{limit.upper()}_MAX")
    here, _ = interfaces(owner)
    port = owner.offer(here, MP.OBJECT_PORT, 8)
    to = owner.connect(here, MP.OBJECT_PORT, 8)
    message = {"handle": to, "data": owner.buffer, "length": 1, "deadline": PAST}
    assert owner.repeat(1000, "SEND", "mp_message", **message) == told.messages_max
    owner.remove(port, MP.REMOVE_FORCE)


def test_a_user_has_so_many_sessions(fabric, owner, stranger):
    here, _ = interfaces(stranger)
    assert sessions_of(stranger, here) == SESSIONS
    with sharing.Process(fabric.rp, user=NOBODY) as other:
        assert sessions_of(other, here) == USER_SESSIONS - SESSIONS
    session(owner, here)


def test_a_session_has_its_place_until_its_partner_is_closed(fabric, owner, stranger):
    """Whoever closes one half of each pair has the places of both, of which others need some."""
    with sharing.Process(fabric.rp, user=NOBODY) as other:
        here, _ = interfaces(other)
        places, halves = 0, []
        for process in (stranger, other) * 2 * USER_SESSIONS:
            try:
                both = [session(process, here, role=3, remote_max=PAGE).handle for _ in range(2)]
            except OSError as error:
                assert error.errno == errno.EDQUOT
                break
            places += 2
            process.wait(both[0], MP.EVENT_PAIRED)
            process.close(both[0])
            halves.append((process, both[1]))
        # Some of those that are closed have places beyond the sessions that may be open.
        assert USER_SESSIONS <= places <= USER_SESSIONS + USER_SESSIONS // 4
        session(owner, here)
        for process, half in halves:
            process.close(half)
        assert sessions_of(stranger, here) > 0


def member(fabric, maker, first, user, memlock=PAGE):
    """A process of that user in a namespace of its own, which may lock so many bytes."""
    how = ["prlimit", f"--memlock={memlock}:{memlock}", "python3", "-c", ENTER]
    how += map(str, (maker, first, user, NOBODY))
    return sharing.Process(fabric.rp, how=how)


def test_a_user_has_no_more_by_namespaces(fabric, owner):
    """However many users there are in it, and in further ones: they have together what the user
    has who has made it."""
    with (
        member(fabric, MAKER, MEMBERS, 1) as one,
        member(fabric, MAKER, MEMBERS, 2) as other,
        member(fabric, MAKER, MEMBERS + 1000, 1) as third,
    ):
        here, _ = interfaces(one)
        assert sessions_of(one, here) == SESSIONS
        assert sessions_of(other, here) == USER_SESSIONS - SESSIONS
        assert sessions_of(third, here) == 0
        # That is nobody else's affair.
        session(owner, here)


def test_a_namespace_of_root_has_what_a_user_has(fabric, owner):
    """A container takes nothing of its host's root, nor of another container."""
    with member(fabric, 0, MEMBERS, 1) as one, member(fabric, 0, MEMBERS + 1000, 1) as other:
        here, _ = interfaces(one)
        assert sessions_of(one, here) == sessions_of(other, here) == SESSIONS
        assert sessions_of(owner, here) == SESSIONS


def test_a_user_pins_no_more_by_namespaces(fabric, owner):
    """What members of a namespace pin counts together, for the user who has made it."""
    with (
        member(fabric, MAKER, MEMBERS, 1, MEMLOCK) as one,
        member(fabric, MAKER, MEMBERS, 2, MEMLOCK) as other,
        member(fabric, MAKER, MEMBERS + 1000, 1, MEMLOCK) as third,
    ):
        first = filled(one, MEMLOCK - PAGE)
        filled(other, PAGE)
        for process in (one, other, third):
            with fails(errno.EDQUOT):
                filled(process, PAGE)
        one.remove(first)
        filled(third, MEMLOCK - PAGE)
        # That is nobody else's affair.
        filled(owner, MEMLOCK)


def filled(process, length):
    """A segment of memory of the process, which is pinned."""
    fields = {"flags": MP.SEGMENT_PRIVATE | MP.SEGMENT_EMPTY, "length": length}
    segment = process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
    fill = {"handle": segment, "address": process.memory(length), "length": length}
    try:
        process.call("SEGMENT_REGISTER", "mp_segment_register", **fill)
    except OSError:
        process.remove(segment)
        raise
    return segment


def test_a_user_has_so_many_segments_connections_and_queues(owner, stranger):
    here, _ = interfaces(stranger)
    event(owner, here, 1)
    to_event = {"interface": here, "object": MP.OBJECT_EVENT, "number": 1}
    to_event["deadline"] = sharing.FOREVER
    done = counted(stranger, OBJECTS, "CONNECT", "mp_connect", **to_event)
    assert done == USER_CONNECTIONS
    private = {"flags": MP.SEGMENT_PRIVATE, "length": PAGE}
    done = counted(stranger, OBJECTS, "SEGMENT_CREATE", "mp_segment_create", **private)
    assert done == USER_SEGMENTS
    rest = OBJECTS - USER_CONNECTIONS - USER_SEGMENTS
    queue = {"interface": here, "entries": 1}
    assert counted(stranger, OBJECTS, "QUEUE_CREATE", "mp_queue_create", **queue) == rest
    # Others have theirs.
    owner.connect(here, MP.OBJECT_EVENT, 1)
    owner.segment(1, PAGE, here)
    owner.call("SEGMENT_CREATE", "mp_segment_create", **private)


def test_a_user_has_so_many_contexts(fabric, owner, stranger):
    # It has one.
    assert stranger.open(USER_CONTEXTS + 3) == USER_CONTEXTS - 1
    assert owner.open(3) == 3
    stranger.end()
    with sharing.Process(fabric.rp, user=NOBODY) as other:
        assert other.open(USER_CONTEXTS) == USER_CONTEXTS - 1


def test_a_user_has_so_much_memory(owner, stranger):
    """A segment counts with its length, a session with the most that it may have."""
    here, _ = interfaces(stranger)
    total = stranger.call("INTERFACE", "mp_interface", id=here).local_total
    half = total * USER_MEMORY // 100
    windows = {"local_max": MP.SIZE_MAX, "remote_max": 1, "role": 3}
    pair = [session(stranger, here, **windows).handle, None]
    pair[1] = session(owner, here, local_max=1, remote_max=MP.SIZE_MAX, role=3).handle
    taken = stranger.call("SESSION", "mp_session", handle=pair[0]).local_size
    assert half - PAGE < taken <= half
    # There is nothing left for it; but for others there is.
    with fails(errno.EDQUOT):
        session(stranger, here, local_min=PAGE)
    others = [session(owner, here, local_min=PAGE, remote_max=PAGE, role=3) for _ in range(2)]
    assert owner.call("SESSION", "mp_session", handle=others[0].handle).local_size == PAGE
    stranger.close(pair[0])
    # Its partner may still reach it.
    with fails(errno.EDQUOT):
        session(stranger, here, local_min=PAGE)
    owner.close(pair[1])
    # What has come back can be had again.
    session(stranger, here, local_min=PAGE)


def test_a_user_has_so_much_memory_for_segments(owner, stranger):
    here, _ = interfaces(stranger)
    with fails(errno.EDQUOT):
        stranger.call("SEGMENT_CREATE", "mp_segment_create", id=40, length=MP.SIZE_MAX)
    # Pieces of which half of all is a few.
    free = owner.call("INTERFACE", "mp_interface", id=here).local_total
    private = {"flags": MP.SEGMENT_PRIVATE, "length": free // 8}
    done = counted(stranger, USER_SEGMENTS, "SEGMENT_CREATE", "mp_segment_create", **private)
    assert 0 < done < USER_SEGMENTS
    owner.call("SEGMENT_CREATE", "mp_segment_create", **private)


def test_memory_that_others_are_attached_to_counts_for_who_has_made_it(fabric, stranger):
    """Also when it has closed its own use; until the last one is closed."""
    here, _ = interfaces(stranger)
    free = stranger.call("INTERFACE", "mp_interface", id=here).local_total
    more = {"id": 100, "id_more": 1000, "length": free // 32}
    make = ("SEGMENT_CREATE", "mp_segment_create")
    with sharing.Process(fabric.rp, user=NOBODY) as first:
        most = counted(first, USER_SEGMENTS, *make, **more)
    assert 1 < most < USER_SEGMENTS - 1
    with sharing.Process(fabric.rp, user=NOBODY) as other:
        shared = stranger.call(*make, id=41, length=free // 32).handle
        stranger.call("SEGMENT_SHARE", "mp_handle", handle=shared)
        attached = other.call("SEGMENT_ATTACH", "mp_segment_attach", id=41).handle
        stranger.remove(shared)
        assert counted(stranger, USER_SEGMENTS, *make, **more) == most - 1
        other.remove(attached)
        assert counted(stranger, USER_SEGMENTS, *make, **more) == 1


def test_who_fills_a_port_holds_up_itself_only(owner, stranger):
    here, _ = interfaces(stranger)
    ports = [process.offer(here, MP.OBJECT_PORT, n) for n, process in enumerate((owner, stranger))]
    crowded = stranger.connect(here, MP.OBJECT_PORT, 1)
    sent = {"handle": crowded, "data": stranger.buffer, "length": 4096, "deadline": PAST}
    assert 0 < stranger.repeat(1 << 16, "SEND", "mp_message", **sent) < 1 << 16
    with fails(errno.ETIMEDOUT):
        stranger.call("SEND", "mp_message", **sent)
    free = owner.connect(here, MP.OBJECT_PORT, 0)
    owner.send(free, b"at once")
    assert owner.receive(ports[0]) == b"at once"


def test_who_rings_all_the_time_holds_up_nobody(fabric, stranger):
    """Doorbells are shared by all: signals of others arrive all the same."""
    with sharing.Process(fabric.hosts[1]) as far, sharing.Process(fabric.rp) as near:
        _, back = interfaces(far)
        _, there = interfaces(near)
        noisy, quiet = event(far, back, 20), event(far, back, 21)
        noise = stranger.connect(there, MP.OBJECT_EVENT, 20)
        to = near.connect(there, MP.OBJECT_EVENT, 21)
        ringing = stranger.repeat_later(20_000, "SIGNAL", "mp_handle", handle=noise)
        for _ in range(20):
            near.signal(to)
            assert far.wait(quiet, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
        assert ringing.result() == 20_000
        assert far.wait(noisy, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
