# SPDX-License-Identifier: GPL-2.0-only
"""Processes on two endpoints of a star, which have no bridge in common: the root processor forwards
what they send each other, with the same calls as between neighbours.

Nothing is mapped of the other's memory. What a process stores there is sent, and is there before
whatever is sent after it.
"""

import errno
import json
import struct
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import sharing
from frames import peer_id, resets, wait_for_everyone, wait_for_peers
from liar import DistantLiar
from ntbrig import stack
from ntbrig import vipl as programs
from ntbrig.settings import PATIENCE, programs_dir
from outages import in_a_row
from pximc import MODULES
from sharing import FOREVER, MP, PAST, fails
from test_acceptance import Party
from tracing import events, trace

PAGE = 0x1000
# The user service, as tracepoints name it.
USER = "0x55534552"
DIRECTORY = "/sys/kernel/mp/interfaces"
# Bytes of `struct mp_copy`.
COPY = 24


@pytest.fixture(scope="module")
def fabric(boot):
    yield from in_a_row(boot)


def id_of(guest):
    """The number of the host's interface to the host that it has no bridge to."""
    kinds = guest.run(f"cd {DIRECTORY}; grep -H . */kind").out.split()
    (found,) = [line.split("/")[0] for line in kinds if line.endswith(":routed")]
    return int(found, 16)


def party(process):
    return Party(process, id_of(process.guest))


@contextmanager
def parties(one, other):
    """Two parties that the root processor forwards between."""
    with sharing.Process(one) as server, sharing.Process(other) as client:
        yield SimpleNamespace(server=party(server), client=party(client))


@pytest.fixture(params=("downward", "upward"))
def ends(request, fabric):
    """The server on either of the two: their engines differ."""
    hosts = fabric.hosts[1:]
    if request.param == "upward":
        hosts = hosts[::-1]
    with parties(*hosts) as found:
        yield found


def paired(ends, **fields):
    """Two handles of a pair with a window in each direction."""
    sizes = {"local_min": 2 * PAGE, "local_max": 2 * PAGE, "remote_max": 2 * PAGE, **fields}
    server = ends.server.server(flags=0, **sizes)
    client = ends.client.client(flags=0, **sizes)
    ends.server.wait(server, MP.EVENT_PAIRED)
    return server, client


def store(party, handle, *stores, **fields):
    """Store bytes at offsets in the remote window."""
    at, copies = party.room + COPY * len(stores), b""
    for offset, data in stores:
        copies += struct.pack("=QQQ", at, offset, len(data))
        party.process.write(at, data)
        at += len(data)
    party.process.write(party.room, copies)
    given = {"handle": handle, "stores": party.room, "count": len(stores), **fields}
    party.process.call("SESSION_STORE", "mp_session_store", **given)


def window(party, handle):
    """Where the local window is mapped."""
    info = party.process.call("SESSION", "mp_session", handle=handle)
    return party.process.map(info.local_offset, info.local_size)


# --- interfaces


def test_an_interface_leads_to_each_host_behind_another(fabric):
    for guest, other in (fabric.hosts[1:], fabric.hosts[:0:-1]):
        with sharing.Process(guest) as process:
            number = id_of(guest)
            process.wait_until_up(number)
            info = process.call("INTERFACE", "mp_interface", id=number)
        assert info.flags == MP.INTERFACE_UP | MP.INTERFACE_ROUTED
        assert info.peer == peer_id(other)
        told = guest.run(f"cd {DIRECTORY}/{number:08x}; cat kind peer state").out.split()
        assert told == ["routed", f"{peer_id(other):08x}", "up"]
    kinds = fabric.rp.run(f"cat {DIRECTORY}/*/kind").out.split()
    assert sorted(kinds) == ["bridge", "bridge", "loopback"]


def test_interfaces_without_windows_are_listed_last(fabric):
    """Programs that do not know of them take the first one that is up."""
    with sharing.Process(fabric.hosts[1]) as process:
        listed = process.interfaces()
        flags = [process.call("INTERFACE", "mp_interface", id=n).flags for n in listed]
    assert [bool(f & MP.INTERFACE_ROUTED) for f in flags] == (len(listed) - 1) * [False] + [True]


# --- sessions


def test_a_request_is_answered_and_a_pair_signals(ends):
    handle = ends.server.server(b"name", b"posted")
    client = ends.client.client(b"name", b"asks")
    asks = ends.server.request(handle)
    assert asks.bytes == b"asks"
    ends.server.accept(handle, asks.request, b"welcome")
    assert ends.client.wait(client, MP.EVENT_PAIRED | MP.EVENT_REFUSED) == MP.EVENT_PAIRED
    assert ends.client.partner(client).bytes == b"welcome"
    store(ends.client, client, (0, b"through"))
    ends.client.process.signal(client)
    ends.server.wait(handle, MP.EVENT_SIGNAL)
    assert ends.server.process.read(window(ends.server, handle), 7) == b"through"


def test_a_request_is_rejected_or_withdrawn(ends):
    handle = ends.server.server()
    client = ends.client.client()
    ends.server.reject(handle, ends.server.request(handle).request, 77, b"no")
    assert ends.client.wait(client, MP.EVENT_PAIRED | MP.EVENT_REFUSED) == MP.EVENT_REFUSED
    refused = ends.client.partner(client)
    assert (refused.state, refused.reason, refused.bytes) == (MP.PARTNER_REJECTED, 77, b"no")
    client = ends.client.client()
    request = ends.server.request(handle).request
    ends.client.process.close(client)
    with fails(errno.ECONNRESET):
        ends.server.accept(handle, request)


def test_a_remote_window_is_not_mapped_and_a_local_one_is(ends):
    server, client = paired(ends)
    info = ends.client.process.call("SESSION", "mp_session", handle=client)
    assert (info.remote_size, info.remote_offset) == (2 * PAGE, 0)
    with fails(errno.ENOENT):
        ends.client.process.map(0, PAGE)
    assert info.local_offset
    with fails(errno.EOPNOTSUPP):
        ends.client.process.call("SESSION_ADDRESS", "mp_session_address", handle=client)
    ends.client.process.close(client)
    ends.server.wait(server, MP.EVENT_CLOSED)


def test_stores_are_made_in_their_order_before_what_follows(ends):
    """Of many stores to one word the last one stays; none is behind the signal."""
    server, client = paired(ends)
    there = window(ends.server, server)
    for turn in range(20):
        words = [(64, struct.pack("=Q", turn << 32 | n)) for n in range(50)]
        store(ends.client, client, (128, bytes([turn]) * 3000), *words)
        ends.client.process.signal(client)
        ends.server.wait(server, MP.EVENT_SIGNAL)
        assert ends.server.process.read(there + 64, 8) == words[-1][1]
        assert ends.server.process.read(there + 128, 3000) == bytes([turn]) * 3000


def test_what_follows_a_store_takes_the_same_lane(ends):
    """Signals, and questions with their answers: ahead of data they would tell of what is not there."""
    server, client = paired(ends)
    guest = ends.server.process.guest
    trace(guest, "echo > trace && echo 1 > events/mp/mp_frame_receive/enable")
    try:
        for turn in range(8):
            store(ends.client, client, (0, bytes([turn]) * 3000))
            ends.client.process.signal(client)
            ends.server.wait(server, MP.EVENT_SIGNAL)
        here = {"target": ends.client.interface, "flags": MP.WAIT_INTERFACE}
        ends.client.process.call("BARRIER", "mp_barrier", deadline=FOREVER, **here)
    finally:
        trace(guest, "echo 0 > events/mp/mp_frame_receive/enable")
    frames = [f for f in events(guest, "mp_frame_receive") if f["func"] == USER]
    assert {(f["queue"], f["priority"]) for f in frames} == {("0", "0")}
    # A signal has no data.
    lengths = [int(f["len"]) for f in frames]
    assert lengths[:16] == 8 * [lengths[0], 0] and lengths[0] > 3000 and len(lengths) == 17


def test_what_cannot_be_stored_is_refused_as_a_whole(ends):
    server, client = paired(ends)
    there = window(ends.server, server)
    size = 2 * PAGE
    refused = [
        (errno.ERANGE, [(0, b"first"), (size - 1, b"beyond")], {}),
        (errno.ERANGE, [(0, b"first"), ((1 << 64) - 1, b"beyond")], {}),
        (errno.EINVAL, [(0, b"first")], {"count": 0}),
        (errno.EINVAL, [(0, b"first")], {"count": MP.STORES_MAX + 1}),
        (errno.EINVAL, [(0, b"first")], {"flags": 1}),
        (errno.EFAULT, [(0, b"first")], {"stores": 8}),
    ]
    for number, stores, fields in refused:
        with fails(number):
            store(ends.client, client, *stores, **fields)
    with fails(errno.ENOENT):
        store(ends.client, 1 << 30, (0, b"first"))
    ends.client.process.signal(client)
    ends.server.wait(server, MP.EVENT_SIGNAL)
    assert ends.server.process.scan(there, size) == 0
    waits = ends.client.peer(b"nobody", 6)
    with fails(errno.ENOTCONN):
        store(ends.client, waits, (0, b"first"))
    ends.server.process.close(server)
    ends.client.wait(client, MP.EVENT_CLOSED)
    with fails(errno.ECONNRESET):
        store(ends.client, client, (0, b"late"))


def test_a_window_that_can_be_mapped_is_not_stored_into(fabric):
    with sharing.Process(fabric.rp) as process:
        one = Party(process, process.interface(loopback=True))
        both = SimpleNamespace(server=one, client=one)
        _, client = paired(both)
        with fails(errno.EOPNOTSUPP):
            store(one, client, (0, b"first"))


def test_memory_of_a_pair_comes_back_without_what_was_in_it(ends):
    for _ in range(3):
        server, client = paired(ends)
        there = window(ends.server, server)
        assert ends.server.process.scan(there, 2 * PAGE) == 0
        store(ends.client, client, (0, b"\xff" * 4000))
        ends.client.process.signal(client)
        ends.server.wait(server, MP.EVENT_SIGNAL)
        ends.server.process.unmap(there, 2 * PAGE)
        ends.client.process.close(client)
        ends.server.process.close(server)


# --- what is offered


def test_events_ports_and_placed_segments_work_as_between_neighbours(ends):
    owner, user = ends.server.process, ends.client.process
    here, there = ends.server.interface, ends.client.interface
    event = owner.offer(here, MP.OBJECT_EVENT, 5)
    user.signal(user.connect(there, MP.OBJECT_EVENT, 5))
    assert owner.wait(event, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL
    port = owner.offer(here, MP.OBJECT_PORT, 6)
    to_port = user.connect(there, MP.OBJECT_PORT, 6)
    for n in range(3 * sharing.EACH):
        user.send(to_port, bytes([n % 251]) * 100)
        assert owner.receive(port) == bytes([n % 251]) * 100
    _, memory = owner.segment_of_own_memory(7, 16 * PAGE, here, MP.PUBLISH_PLACED)
    segment = user.connect(there, MP.OBJECT_SEGMENT, 7, MP.CONNECT_PLACED)
    queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=there, entries=4).handle
    source = user.memory(16 * PAGE)
    user.write(source, b"placed" * 1000)
    copies = sharing.copy_list(user, (source, PAGE, 6000))
    user.call("QUEUE_START", "mp_queue_start", handle=queue, connection=segment, **copies)
    user.wait(queue, MP.EVENT_DONE)
    assert user.call("QUEUE", "mp_queue", handle=queue).state == MP.QUEUE_DONE
    assert owner.read(memory + PAGE, 6000) == b"placed" * 1000


def test_no_window_leads_to_a_segment(ends):
    owner, user = ends.server.process, ends.client.process
    segment = owner.call("SEGMENT_CREATE", "mp_segment_create", id=8, length=PAGE).handle
    with fails(errno.ENOSPC):
        owner.at("PREPARE", segment, ends.server.interface)
    for what in ("PREPARE", "PUBLISH"):
        owner.at(what, segment, ends.server.interface, MP.PUBLISH_PLACED)
    with fails(errno.ENOSPC):
        user.connect(ends.client.interface, MP.OBJECT_SEGMENT, 8)
    user.connect(ends.client.interface, MP.OBJECT_SEGMENT, 8, MP.CONNECT_PLACED)


# --- queue pairs, and what is on them


def command(guest, role, *options):
    program = programs_dir() / "examples" / "qp_pingpong"
    common = ("--interface", id_of(guest), "--patience", int(30 * PATIENCE))
    return [program, role, *common, *options]


def played(server, client, *options, both=()):
    """What a client tells, with a server on the other host."""
    runs = server.spawn(command(server, "server", *both), timeout=240)
    try:
        run = client.run(command(client, "client", "--json", *both, *options), 120 * PATIENCE)
        return json.loads(run.out)
    finally:
        runs.kill()
        runs.wait()


@pytest.mark.parametrize("how", [("--sleep",), ("--sleep", "--at-once")], ids=str)
def test_messages_of_queue_pairs_come_back_as_they_were_sent(fabric, how):
    _, one, other = fabric.hosts
    for server, client in ((one, other), (other, one)):
        out = played(server, client, "--messages", 1000, "--rounds", 200, both=how)
        assert (out["messages"], out["rounds"]) == (1000, 200)
        half = out["round_us"]["median"] / 2
        print(f"{out['size']} bytes take {half:.0f} us by way of the root processor")


def test_a_long_stream_is_limited_by_the_receiver(fabric):
    _, one, other = fabric.hosts
    both = ("--sleep", "--window", 1 << 20, "--slot-size", 1 << 16)
    words = ("--messages", 0, "--rounds", 20, "--size", 1 << 16, "--stream", 200)
    found = played(one, other, *words, both=both)
    print(f"{found['mb_s']:.1f} MB/s by way of the root processor")
    assert found["messages_s"] > 0


def test_virtual_interfaces_connect_hosts_behind_another(fabric):
    """Neighbours are one link away; addresses lead to all hosts."""
    _, here, there = fabric.hosts
    numbers = programs.configure(fabric.hosts)
    messages = 50
    server = there.spawn([programs.example("vipl_echo_server"), 1], timeout=240)
    try:
        server.wait_for_output("ready")
        client = [programs.example("vipl_echo_client"), hex(numbers[2]), messages, "delivery"]
        told = here.run(client, 120 * PATIENCE, env=programs.ENV)
        assert told.out == f"{messages} messages, 0 wrong\n"
    finally:
        server.kill()
        server.wait()


# --- losses


def until_up_again(*ends):
    for end in ends:
        end.process.wait_until_up(end.interface, timeout=60)


def works(ends):
    server, client = paired(ends)
    store(ends.client, client, (8, b"works"))
    ends.client.process.signal(client)
    ends.server.wait(server, MP.EVENT_SIGNAL)
    assert ends.server.process.read(window(ends.server, server) + 8, 5) == b"works"


def test_without_the_root_processor_the_link_is_down_and_comes_back(fabric):
    rp, one, other = fabric.hosts
    with parties(one, other) as ends:
        server, client = paired(ends)
        waits = ends.server.server(b"waits")
        stack.unload(rp, modules=MODULES)
        for end, handle in ((ends.server, server), (ends.client, client)):
            assert end.wait(handle, MP.EVENT_DOWN) == MP.EVENT_DOWN
            end.process.wait_until_up(end.interface, up=False)
        with fails(errno.ENETDOWN):
            store(ends.client, client, (0, b"lost"))
        stack.load(rp, modules=MODULES)
        wait_for_everyone(*fabric.hosts)
        until_up_again(ends.server, ends.client)
        # A pair is over; who waits, waits on.
        ends.server.wait(server, MP.EVENT_CLOSED)
        asks = ends.client.client(b"waits")
        ends.server.accept(waits, ends.server.request(waits).request)
        ends.client.wait(asks, MP.EVENT_PAIRED)
        works(ends)


def test_a_service_that_is_loaded_anew_is_found_again(fabric):
    _, one, other = fabric.hosts
    with sharing.Process(one) as process:
        end = party(process)
        waits = end.server(b"waits")
        stack.unload(other, modules=MODULES[-1:])
        process.wait_until_up(end.interface, up=False)
        stack.load(other, modules=MODULES[-1:])
        with sharing.Process(other) as asks:
            both = SimpleNamespace(server=end, client=party(asks))
            until_up_again(both.server, both.client)
            client = both.client.client(b"waits")
            end.accept(waits, end.request(waits).request)
            both.client.wait(client, MP.EVENT_PAIRED)
            works(both)


def test_an_endpoint_that_dies_is_missed_and_found_again(fabric):
    rp, one, other = fabric.hosts
    with sharing.Process(one) as process:
        end = party(process)
        with sharing.Process(other) as dies:
            both = SimpleNamespace(server=end, client=party(dies))
            server, _ = paired(both)
            other.kill()
        end.wait(server, MP.EVENT_DOWN)
        with fails(errno.ENETDOWN):
            process.signal(server)
        wait_for_peers(rp, 1)
        other.start()
        other.wait_ready()
        stack.load(other, modules=MODULES)
        wait_for_everyone(*fabric.hosts)
        with sharing.Process(other) as back:
            both = SimpleNamespace(server=end, client=party(back))
            until_up_again(both.server, both.client)
            works(both)


# --- what goes wrong on the way


@contextmanager
def lied_to(fabric):
    """A process, its interface to a host behind the root processor, and the liar there."""
    _, victim, host = fabric.hosts
    stack.unload(host, modules=MODULES)
    try:
        with DistantLiar(host, victim) as liar, sharing.Process(victim) as process:
            liar.greet()
            number = id_of(victim)
            process.wait_until_up(number)
            yield process, number, liar
    finally:
        stack.load(host, modules=MODULES)
        wait_for_everyone(*fabric.hosts)


def ends_of(guest, number):
    return int(guest.run(f"cat {DIRECTORY}/{number:08x}/resets").out)


def outside(liar):
    liar.store((1 << 24, b"x" * 8, 8))


def beyond_the_frame(liar):
    liar.store((0, b"x" * 8, 4096))


def no_record(liar):
    liar.store((0, b"", 0))


def one_is_missing(liar):
    liar.number += 1
    liar.store((0, b"x" * 8, 8))


def twice(liar):
    liar.store()
    liar.number -= 1
    liar.store()


LIES = (outside, beyond_the_frame, no_record, one_is_missing, twice)


def test_what_cannot_be_or_is_missing_ends_the_way_and_no_other(fabric):
    rp, victim, _ = fabric.hosts
    others = resets(victim, rp)
    with lied_to(fabric) as (process, number, liar):
        for lie in LIES:
            before = ends_of(victim, number)
            liar.store()
            liar.flush()
            time.sleep(0.2)
            assert ends_of(victim, number) == before
            lie(liar)
            liar.flush()
            process.wait_until_up(number, up=False)
            assert ends_of(victim, number) == before + 1, lie.__name__
            # It may begin anew, on another way.
            liar.number = 0
            wait_for_everyone(*fabric.hosts)
            liar.greet()
            process.wait_until_up(number)
    assert resets(victim, rp) == others


def test_who_parks_waits_for_the_way_no_longer_than_to_the_deadline(patient):
    """The way takes nothing; a store of an arm word waits as long as the caller lets it."""
    _, one, frozen = patient.hosts
    # Its own clock shows how long it has stood still.
    frozen.run("sysctl -e -w kernel.watchdog=0")
    with parties(one, frozen) as ends:
        server, _ = paired(ends)
        process = ends.server.process
        frozen.freeze()
        try:
            source, entries = process.memory(2 * PAGE), process.memory(PAGE)
            process.write(source, struct.pack("=QQQ", source + PAGE, 0, PAGE) * 100)
            # More than the way has room for, also behind large frames.
            process.write(source + 101 * COPY, struct.pack("=QQQ", source + PAGE, 0, 8))
            large = {"handle": server, "stores": source, "count": 100}
            small = {**large, "stores": source + 101 * COPY, "count": 1}
            store = ("SESSION_STORE", "mp_session_store")
            stores = [
                process.repeat_later(20, *store, **large),
                process.repeat_later(5000, *store, **small),
            ]
            time.sleep(2)
            process.write(entries, struct.pack("=IIQQQQ", server, 0, 0, 0, 64, 1) * 4)
            begun = float(one.run("cut -d' ' -f1 /proc/uptime").out)
            deadline = int((begun + 1) * 10**9)
            with fails(errno.ETIMEDOUT):
                fields = {"entries": entries, "count": 4, "deadline": deadline}
                process.call("PARK", "mp_park", **fields)
            # Not five seconds for each word.
            assert float(one.run("cut -d' ' -f1 /proc/uptime").out) - begun < 4
        finally:
            frozen.thaw()
        assert all(call.result() for call in stores)


@pytest.fixture
def patient(boot):
    """A star of hosts that nobody takes for dead when they stand still."""
    fabric = boot(hosts=3, topology="star")
    stack.load(*fabric.hosts, modules=MODULES, parameters={"pximc_ntb": "timeout_ms=60000"})
    wait_for_everyone(*fabric.hosts)
    yield fabric
    boot.end(fabric)


def test_a_host_that_does_not_answer_a_request_costs_that_session_only(patient):
    """It stands still behind another one; what it has agreed to goes on when it does."""
    _, one, frozen = patient.hosts
    # Its own clock shows how long it has stood still.
    frozen.run("sysctl -e -w kernel.watchdog=0")
    with parties(one, frozen) as ends:
        server, client = paired(ends)
        frozen.freeze()
        try:
            with fails(errno.ENETDOWN):
                ends.server.server(flags=0)
            with fails(errno.ETIMEDOUT):
                ends.server.process.wait(server, MP.EVENT_DOWN, PAST)
        finally:
            frozen.thaw()
        store(ends.client, client, (8, b"still"))
        ends.client.process.signal(client)
        ends.server.wait(server, MP.EVENT_SIGNAL)
        assert ends.server.process.read(window(ends.server, server) + 8, 5) == b"still"
        works(ends)
