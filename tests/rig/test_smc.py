# SPDX-License-Identifier: GPL-2.0-only
"""SMC-D sockets of two hosts over the window between them."""

import json
import struct

import pytest
import sharing
import smc
from frames import peer_id
from ntbrig import stack
from ntbrig.settings import programs_dir
from sharing import MP
from shell import until

MIB = 1 << 20
PAGE = 0x1000

LIAR = ("mp_frame_test",)
USER = ("mp_func_user",)
DIBS_ID = 0x44494253


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


def test_ntbctl_shows_what_goes_through_the_window(fabric):
    server, client = fabric.hosts
    programs = smc.asleep(server, client)
    ports = {}
    for guest in fabric.hosts:
        state = smc.shown(guest, "smc")
        assert state["identities"] == [smc.EID]
        devices = {device["name"]: (device["fabric"], device["gid"]) for device in state["devices"]}
        gid = guest.read("/sys/class/dibs/mp/gid").strip()
        assert devices["mp"] == ("0xff4d", gid)
        groups = [group for group in state["groups"] if group["connections"]]
        assert [(group["identity"], group["connections"]) for group in groups] == [(smc.EID, 1)]
        told = [each for each in smc.shown(guest, "smc connections") if each["state"] == "open"]
        (connection,) = told
        # The kernel does not tell addresses of sockets of the protocol.
        ports[guest] = connection["local"], connection["peer"]
        assert (connection["carrier"], connection["why"]) == ("window", None)
        # People see the same.
        assert smc.EID in smc.ntbctl(guest, "smc").out
        assert " window " in smc.ntbctl(guest, "smc connections").out
    assert ports[server] == tuple(reversed(ports[client]))
    assert ports[server][0] == "*:5006"
    assert smc.how_many_go_on(programs) == 2


def test_programs_that_nobody_changed_go_through_the_window(fabric):
    server, client = fabric.hosts
    before = smc.counters(client)["sent_bytes"]
    serving = server.spawn(smc.preloaded("iperf3 -s -1 --forceflush"), 60)
    serving.wait_for_output("listening")
    calling = client.spawn(smc.preloaded(f"iperf3 -c {stack.address(server)} -t 3 -J"), 60)

    def carriers(guest):
        return [each["carrier"] for each in smc.shown(guest, "smc connections")]

    # One to say what is measured, and one that is.
    until(lambda: carriers(client).count("window") == 2)
    assert set(carriers(server)) == {"window"}
    received = json.loads(calling.wait().check().out)["end"]["sum_received"]["bytes"]
    serving.wait().check()
    assert smc.counters(client)["sent_bytes"] - before >= received > MIB


def test_programs_are_as_before_without_smc_at_the_other_end(fabric):
    """The server is of TCP: SMC finds that out."""
    server, client = fabric.hosts
    serving = server.spawn("iperf3 -s -1 --forceflush", 60)
    serving.wait_for_output("listening")
    command = smc.preloaded(f"iperf3 -c {stack.address(server)} -t 1 -J")
    sent = json.loads(client.run(command, timeout=60).out)["end"]["sum_sent"]["bytes"]
    serving.wait().check()
    assert sent > MIB


def test_ntbctl_tells_why_a_connection_goes_over_tcp(fabric):
    server, client = fabric.hosts
    smc.ntbctl(client, f"smc forget {smc.EID}")
    try:
        assert "identity: none" in smc.ntbctl(client, "smc").out
        programs = smc.asleep(server, client)
        for guest in fabric.hosts:
            told = [each for each in smc.shown(guest, "smc connections") if each["state"] == "open"]
            (connection,) = told
            assert connection["carrier"] == "tcp"
            counted = smc.shown(guest, "smc")["fallbacks"]
            assert connection["why"] in [each["reason"] for each in counted]
            assert connection["why"] in smc.ntbctl(guest, "smc").out
        assert smc.how_many_go_on(programs) == 2
    finally:
        smc.run_unit(client)
    assert smc.shown(client, "smc")["identities"] == [smc.EID]
    check_connection(server, client)


def test_ntbctl_sets_identities_for_the_privileged_alone(fabric):
    guest = fabric.hosts[0]
    refused = smc.ntbctl(guest, "smc identify mpfab", check=False)
    assert refused.rc == 1 and "A to Z" in refused.err
    nobody = f"setpriv --reuid=65534 --regid=65534 --clear-groups {programs_dir()}/ntbctl"
    refused = guest.run(f"{nobody} smc identify OTHER", check=False)
    assert refused.rc == 2 and "CAP_NET_ADMIN" in refused.err
    assert guest.run(f"{nobody} smc").out.startswith(f"identity: {smc.EID}\n")
    # What is there already is no error; there is room for four.
    smc.run_unit(guest)
    for name in ("A", "B", "C"):
        smc.ntbctl(guest, f"smc identify {name}")
    refused = smc.ntbctl(guest, "smc identify D", check=False)
    assert refused.rc == 2
    for name in ("A", "B", "C"):
        smc.ntbctl(guest, f"smc forget {name}")
    assert smc.shown(guest, "smc")["identities"] == [smc.EID]


def test_an_unprivileged_user_may_ask_for_devices(fabric):
    """The kernel takes the device's parent for a PCI device."""
    for guest in fabric.hosts:
        count, *ids = map(int, smc.device_as_nobody(guest))
        root = "/sys/bus/pci/devices/0000:00:00.0"
        expected = [int(guest.read(f"{root}/{name}"), 16) for name in ("vendor", "device")]
        assert (count, ids) == (1, expected)


def test_an_unprivileged_user_is_told_no_address(fabric):
    """While there are connections, of which it may ask for all that the kernel tells."""
    programs = smc.asleep(*fabric.hosts)
    for guest in fabric.hosts:
        answers, addresses = smc.all_as_nobody(guest, 1)
        # The connection, the system, the device, the link group, the statistics and the identity.
        assert answers >= 5
        assert addresses == "[]"
    assert smc.how_many_go_on(programs) == 2


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


def record(wraps=0, count=0, consumed=0, kind=0xFE, state=0):
    """What SMC says of its cursors, and of the connection's state."""
    produced = struct.pack("<HIH", wraps, count, 0)
    return bytes([kind]) + bytes(7) + produced + struct.pack("<HIBB", 0, consumed, 0, state) + bytes(8)


def moved(token, said, life=0):
    """A message as in rust/proto/dibs/message.rs."""
    return struct.pack("<BBBBHHQ", 2, 2, 0, 0, 0, life, token) + said


LIES = {
    "count behind the buffer": lambda token: moved(token, record(count=4 * MIB)),
    "count without bounds": lambda token: moved(token, record(count=0xFFFFFFFF)),
    "more than a buffer": lambda token: moved(token, record(wraps=2)),
    "consumer without bounds": lambda token: moved(token, record(consumed=0xFFFFFFFF)),
    "no record": lambda token: moved(token, record(kind=0)),
}


@pytest.fixture
def lie(fabric):
    """Send messages to the first host in the second one's name, by a function."""
    honest, liar = fabric.hosts
    stack.load(liar, modules=LIAR, parameters={"mp_frame_test": f"func=2 to={DIBS_ID}"})
    peer = peer_id(honest)

    def send(message):
        line = f"{peer:#x} 1 {len(message)} - {message.hex()}"
        liar.run(f"echo '{line}' > /sys/kernel/mp_frame_test/send")

    yield send
    stack.unload(liar, modules=LIAR)


def wait_for_counter(guest, name, value):
    stack.wait_until(stack.holds(f"{smc.COUNTERS}/{name}", f"= {value}"), guest)


@pytest.mark.parametrize("what", LIES)
def test_a_record_that_cannot_be_costs_its_connection(fabric, lie, what):
    """SMC uses cursors as they are: a wrong one is an index into the kernel's memory."""
    honest, liar = fabric.hosts
    bystanders = smc.asleep(honest, liar)
    processes, token = smc.hold(honest, liar)
    before = smc.counters(honest)
    lie(LIES[what](token))
    ends = [smc.how_it_ended(process) for process in processes]
    assert all(end in ("ECONNRESET", "ECONNABORTED", "ENOTCONN", "0") for end in ends), ends
    after = smc.counters(honest)
    assert after["refused_frames"] == before["refused_frames"] + 1
    assert after["late_frames"] - before["late_frames"] in (0, 1)
    assert after["received_bytes"] == before["received_bytes"]
    assert smc.how_many_go_on(bystanders) == 2
    check_connection(honest, liar)


def test_nobody_sends_by_a_token_that_was_not_given(fabric, lie):
    honest, liar = fabric.hosts
    processes, token = smc.hold(honest, liar)
    before = smc.counters(honest)
    for number, wrong in enumerate((token ^ 1, token ^ 1 << 36, token ^ 1 << 48, 0), 1):
        lie(moved(wrong, record(count=1)))
        wait_for_counter(honest, "unknown_buffers", before["unknown_buffers"] + number)
    after = smc.counters(honest)
    assert after["received_signals"] == before["received_signals"]
    # The connection has not noticed; the programs end it.
    for process in processes:
        process.kill()
        process.wait()


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


@pytest.fixture
def users(fabric):
    """The other service that shares memory is there as well."""
    stack.load(*fabric.hosts, modules=USER)
    yield
    stack.unload(*fabric.hosts, modules=USER)


def test_a_connection_goes_on_while_the_user_service_is_loaded_anew(fabric, users):
    """At one host and at the other. All that it has had is given back in the end."""
    rounds = smc.Rounds(*fabric.hosts)
    for guest in fabric.hosts:
        stack.unload(guest, modules=USER)
        rounds.go_on()
        stack.load(guest, modules=USER)
        rounds.go_on()
    assert rounds.end() == [smc.SMC_D]
    check_connection(*fabric.hosts)


def test_a_users_connection_goes_on_while_direct_buffers_are_loaded_anew(fabric, users):
    """At one host and at the other."""
    with sharing.pair(fabric) as (owner, back, user, there):
        segment = owner.segment(7, PAGE, back)
        local = owner.map_segment(segment)
        connection = user.connect(there, MP.OBJECT_SEGMENT, 7)
        remote = user.map_connection(connection)

        def check_stores(text):
            user.write(remote, text)
            user.call("BARRIER", "mp_barrier", target=connection, deadline=sharing.FOREVER)
            assert owner.read(local, len(text)) == text

        for guest in fabric.hosts:
            stack.unload(guest, modules=smc.DIBS)
            check_stores(b"without")
            stack.load(guest, modules=smc.DIBS)
            smc.wait_for_partners(*fabric.hosts)
            check_stores(b"beside it")
        assert user.state(connection) == MP.CONNECTION_OPERATIONAL
        user.close(connection)
        told = lambda: owner.call("SEGMENT", "mp_segment", handle=segment)
        until(lambda: told().connections == 0)
        owner.remove(segment)
    check_connection(*fabric.hosts)


def test_nothing_is_left_behind(fabric):
    stack.unload(*fabric.hosts, modules=smc.DIBS)
    for guest in fabric.hosts:
        assert guest.run("ls /sys/class/dibs").out.split() == ["lo"]


def test_words_may_be_late(boot):
    """A token never arrives before its entry, nor a record before the data that it tells of."""
    fabric = boot(hosts=2)
    smc.bring_up(*fabric.hosts, parameters={"mp_kernel": "posted_us=500"})
    check_connection(*fabric.hosts)
