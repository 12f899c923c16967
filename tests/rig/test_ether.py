# SPDX-License-Identifier: GPL-2.0-only
"""The virtual Ethernet: what a user expects of `ntb0`."""

import os
import time
from contextlib import contextmanager

import pytest
from ntbrig import stack
from ntbrig.settings import flavour

from ether import ethtool_stats, link, nothing_lost, ping, python, stream, traffic
from frames import wait_for_everyone
from shortage import guard

pytestmark = pytest.mark.everywhere

# Long tests move more.
LONG = os.environ.get("LONG") == "1"

BOTTOM = stack.MODULES[:-1]
ETHER = ("mp_func_ether",)


@pytest.fixture(scope="module")
def fabric(boot):
    """Three hosts whose interfaces have carrier and know each other."""
    fabric = boot(hosts=3)
    stack.bring_up(*fabric.hosts)
    wait_for_everyone(*fabric.hosts)
    return fabric


# --- one broadcast domain


def test_one_interface_per_host_reaches_every_other(fabric):
    """IDT-ETH-1"""
    for guest in fabric.hosts:
        assert guest.run("ls -d /sys/class/net/ntb*").out.split() == ["/sys/class/net/ntb0"]
        for other in fabric.hosts:
            if other is not guest:
                ping(guest, stack.address(other))


SPY = """
    import os, socket
    spy = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    spy.bind(("ntb0", 3))
    spy.setsockopt(263, 1, bytes.fromhex("{index:08x}")[::-1] + bytes([1, 0, 0, 0]) + bytes(8))
    spy.settimeout(0.1)
    open("/tmp/spy.ready", "w").close()
    seen = 0
    while not os.path.exists("/tmp/spy.stop"):
        try:
            while True:
                seen += spy.recv(2000)[12:18] == bytes.fromhex("88b5") + b"mark"
        except TimeoutError:
            pass
    print(seen)
"""

MARK = """
    import socket
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind(("ntb0", 0))
    to = bytes.fromhex({to!r}.replace(":", ""))
    own = bytes.fromhex(open("/sys/class/net/ntb0/address").read().replace(":", ""))
    for _ in range(5):
        s.send(to + own + bytes.fromhex("88b5") + b"mark".ljust(46, b"."))
"""


def seen_by(fabric, sender, to):
    """Which other hosts see five frames from `sender` to the address `to`."""
    others = [guest for guest in fabric.hosts if guest is not sender]
    for guest in others:
        guest.run("rm -f /tmp/spy.*")
    spies = [python(g, SPY.format(index=link(g)["ifindex"])) for g in others]
    stack.wait_until("[ -e /tmp/spy.ready ]", *others)
    python(sender, MARK.format(to=to)).wait().check()
    time.sleep(0.5)
    for guest in others:
        guest.run("touch /tmp/spy.stop")
    seen = [int(spy.wait().check().out.split()[-1]) for spy in spies]
    assert all(count in (0, 5) for count in seen), seen
    return [guest.name for guest, count in zip(others, seen, strict=True) if count]


def test_unicast_goes_to_the_owner_alone(fabric):
    """IDT-ETH-2"""
    rp, ep1, ep2 = fabric.hosts
    assert seen_by(fabric, rp, link(ep2)["address"]) == ["ep2"]
    assert seen_by(fabric, ep1, link(rp)["address"]) == ["rp"]


def test_group_and_unknown_addresses_go_to_all(fabric):
    """IDT-ETH-2"""
    assert seen_by(fabric, fabric.rp, "ff:ff:ff:ff:ff:ff") == ["ep1", "ep2"]
    assert seen_by(fabric, fabric.hosts[1], "01:00:5e:00:00:77") == ["rp", "ep2"]
    assert seen_by(fabric, fabric.rp, "02:00:00:00:be:ef") == ["ep1", "ep2"]


def test_address_is_made_of_the_host_id_and_can_be_changed(fabric):
    ep1 = fabric.hosts[1]
    number = int(ep1.run("cat /sys/kernel/mp/self").out, 16)
    own = f"02:4d:50:00:{number >> 8:02x}:{number & 255:02x}"
    assert link(ep1)["address"] == own
    ep1.run("ip link set ntb0 address 02:11:22:33:44:55")
    try:
        assert seen_by(fabric, fabric.rp, "02:11:22:33:44:55") == ["ep1"]
        fabric.rp.run("ip neigh flush dev ntb0")
        ping(fabric.rp, stack.address(ep1))
    finally:
        ep1.run(f"ip link set ntb0 address {own}")
        for guest in fabric.hosts:
            guest.run("ip neigh flush dev ntb0")


def test_a_bridge_learns_stations_behind_a_host(fabric):
    """IDT-ETH-2, IDT-ETH-3"""
    rp, ep1, _ = fabric.hosts
    ep1.run(
        """
        set -e
        ip netns add station
        ip link add inner type veth peer name outer
        ip link set inner netns station
        ip -n station addr add 10.77.0.99/24 dev inner
        ip -n station link set inner up
        ip link add br0 type bridge
        ip link set br0 up
        ip link set outer master br0 up
        ip link set ntb0 master br0
        """
    )
    try:
        ping(rp, "10.77.0.99", "-c 3")
        behind = ep1.run("ip netns exec station cat /sys/class/net/inner/address").out.strip()
        assert seen_by(fabric, rp, behind) == ["ep1"]
        assert ethtool_stats(rp)["fdb_learned"] >= 3
    finally:
        ep1.run("ip link del br0; ip netns del station")
    ping(rp, stack.address(ep1))


# --- an interface like others


def test_down_and_up(fabric):
    """IDT-ETH-3"""
    rp, ep1, _ = fabric.hosts
    for _ in range(3):
        ep1.run("ifconfig ntb0 down")
        assert "UP" not in link(ep1)["flags"]
        ep1.run("ifconfig ntb0 up")
        ping(rp, stack.address(ep1))
        ping(ep1, stack.address(rp))


def test_capture(fabric):
    """IDT-ETH-3"""
    rp, ep1, _ = fabric.hosts
    capture = ep1.spawn("tcpdump -n -i ntb0 -c 4 icmp", 40)
    time.sleep(2)
    ping(rp, stack.address(ep1), "-c 3")
    out = capture.wait().check().out
    assert f"{stack.address(rp)} > {stack.address(ep1)}: ICMP echo request" in out


def test_namespaces(fabric):
    rp, ep1, _ = fabric.hosts
    address = stack.address(ep1)
    ep1.run(
        "ip netns add other && ip link set ntb0 netns other"
        f" && ip -n other addr add {address}/24 dev ntb0 && ip -n other link set ntb0 up"
    )
    ping(rp, address)
    # A namespace that ends gives the interface back.
    ep1.run("ip netns del other")
    stack.wait_until("[ -e /sys/class/net/ntb0 ]", ep1)
    stack.configure(ep1)
    ping(rp, address)


def test_mtu_from_68_to_65535(fabric):
    rp, ep1, _ = fabric.hosts
    for mtu in (67, 65536):
        refused = rp.run(f"ip link set ntb0 mtu {mtu}", check=False)
        assert refused.rc != 0
        assert "mtu" in refused.err
    with nothing_lost(rp, ep1):
        for mtu in (68, 576, 9000, 65535):
            for guest in (rp, ep1):
                guest.run(f"ip link set ntb0 mtu {mtu}")
            ping(rp, stack.address(ep1), f"-M do -s {mtu - 28}")
            assert rp.run(
                f"ping -q -c 1 -w 2 -M do -s {mtu - 27} {stack.address(ep1)}", check=False
            ).rc
        stream(rp, ep1, mib=16 if LONG else 4)
        for guest in (rp, ep1):
            guest.run("ip link set ntb0 mtu 1500; ip addr show dev ntb0")


def test_vlan_tags_cross(fabric):
    rp, ep1, _ = fabric.hosts
    for offload in ("on", "off"):
        for number, guest in enumerate((rp, ep1), 1):
            guest.run(f"ethtool -K ntb0 tx-vlan-offload {offload}")
            guest.run(
                "ip link add link ntb0 name tagged type vlan id 5 && ip link set tagged up"
                f" && ip addr add 10.78.0.{number}/24 dev tagged"
            )
        ping(rp, "10.78.0.2", "-s 1472 -M do")
        stream(rp, ep1, mib=4, address="10.78.0.2")
        for guest in (rp, ep1):
            guest.run("ip link del tagged; ethtool -K ntb0 tx-vlan-offload on")


def test_ethtool(fabric):
    rp = fabric.rp
    assert "driver: mp_func_ether" in rp.run("ethtool -i ntb0").out
    assert "Link detected: yes" in rp.run("ethtool ntb0").out
    rp.run("ethtool -L ntb0 combined 1 && ethtool -C ntb0 tx-frames 4")
    assert "tx-frames: 4 " in " ".join(rp.run("ethtool -c ntb0").out.split())
    assert rp.run("ethtool -l ntb0").out.split()[-1] == "1"
    ping(rp, stack.address(fabric.hosts[1]))
    rp.run("ethtool -L ntb0 combined 4 && ethtool -C ntb0 tx-frames 16")
    for wrong in ("-L ntb0 combined 0", "-L ntb0 combined 5", "-C ntb0 tx-frames 0"):
        assert rp.run(f"ethtool {wrong}", check=False).rc != 0
    features = rp.run("ethtool -k ntb0").out
    for feature in (
        "tcp-segmentation-offload",
        "generic-receive-offload",
        "scatter-gather",
        "tx-checksumming",
        "rx-checksumming",
        "tx-udp-segmentation",
    ):
        assert f"{feature}: on" in features


# --- offloads


def average_packet(guest, before, way):
    after = traffic(guest)[way]
    return (after["bytes"] - before[way]["bytes"]) / (after["packets"] - before[way]["packets"])


@contextmanager
def large_segments(guest):
    """TCP of a guest makes large segments, though it would make small ones on a slow way."""
    least = "/proc/sys/net/ipv4/tcp_min_tso_segs"
    saved = guest.read(least).strip()
    guest.run(f"echo 32 > {least}")
    try:
        yield
    finally:
        guest.run(f"echo {saved} > {least}")


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_large_segments_cross_whole(fabric, family):
    rp, ep1, _ = fabric.hosts
    address = None
    if family == "ipv6":
        for number, guest in enumerate((rp, ep1), 1):
            guest.run(f"ip addr replace fd77::{number}/64 dev ntb0 nodad")
        address = "fd77::2"
    before = traffic(ep1)
    with nothing_lost(rp, ep1), large_segments(rp):
        stream(rp, ep1, mib=32, address=address)
    assert average_packet(ep1, before, "rx") > 8000


@pytest.mark.parametrize("off", ["tso", "tx", "sg", "gso", "rx", "gro"])
def test_data_is_intact_without_an_offload(fabric, off):
    rp, ep1, _ = fabric.hosts
    saved = rp.run("ethtool -k ntb0").out
    with nothing_lost(rp, ep1):
        for guest in (rp, ep1):
            guest.run(f"ethtool -K ntb0 {off} off")
        stream(rp, ep1, mib=4)
        stream(ep1, rp, mib=4)
        for guest in (rp, ep1):
            guest.run("ethtool -K ntb0 rx on tx on sg on tso on gso on gro on")
            guest.run("ethtool -K ntb0 tx-udp-segmentation on tx-tcp-mangleid-segmentation off")
        assert rp.run("ethtool -k ntb0").out == saved


def test_udp_segments_cross_whole_and_arrive_as_datagrams(fabric):
    rp, ep1, _ = fabric.hosts
    receiver = python(
        ep1,
        """
        import socket
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("", 5006))
        s.settimeout(15)
        print("ready", flush=True)
        print([s.recv(2000) == bytes([n]) * 1000 for n in range(20)])
        """,
    )
    stack.wait_until("ss -lun | grep -q :5006", ep1, timeout=20)
    before = traffic(ep1)["rx"]["packets"]
    python(
        rp,
        f"""
        import socket
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_UDP, 103, 1000)
        s.sendto(b"".join(bytes([n]) * 1000 for n in range(20)), ("{stack.address(ep1)}", 5006))
        """,
    ).wait().check()
    assert receiver.wait().check().out.split("\n")[1] == str([True] * 20)
    assert traffic(ep1)["rx"]["packets"] - before < 10


def test_socket_busy_polling_reaches_the_transport(fabric):
    rp, ep1, _ = fabric.hosts

    def busy_polled():
        names, values = rp.run("grep ^TcpExt: /proc/net/netstat").out.splitlines()
        return int(dict(zip(names.split(), values.split(), strict=True))["BusyPollRxPackets"])

    before = busy_polled()
    echo = python(
        ep1,
        """
        import socket
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("", 5007))
        s.settimeout(20)
        while True:
            data, who = s.recvfrom(100)
            s.sendto(data, who)
            if data == b"end":
                break
        """,
    )
    stack.wait_until("ss -lun | grep -q :5007", ep1, timeout=20)
    python(
        rp,
        f"""
        import socket, struct
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, 46, 20000)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 20, 0))
        for message in [b"x"] * 200 + [b"end"]:
            s.sendto(message, ("{stack.address(ep1)}", 5007))
            s.recv(100)
        """,
    ).wait().check()
    echo.wait().check()
    assert busy_polled() - before > 50


# --- pressure, and going wrong


def test_a_fast_sender_loses_nothing(fabric):
    rp, ep1, _ = fabric.hosts
    server = ep1.spawn("iperf3 -s -1", 60)
    stack.wait_until("ss -ltn | grep -q :5201", ep1, timeout=20)
    with nothing_lost(rp, ep1):
        rp.run(f"iperf3 -c {stack.address(ep1)} -t 4 -P 4", timeout=60)
        server.wait().check()
    counters = ethtool_stats(rp)
    assert counters["tx_ring_full"] + counters["tx_byte_limit"] > 0
    for name in ("tx_no_peer", "tx_no_memory", "tx_given_up", "rx_malformed"):
        assert counters[name] == 0


def test_broadcasts_wait_for_room_and_arrive_once(fabric):
    rp = fabric.rp
    before = [traffic(guest)["rx"]["packets"] for guest in fabric.hosts[1:]]
    sent = traffic(rp)["tx"]["packets"]
    with nothing_lost(rp):
        python(
            rp,
            """
            import socket
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            s.bind(("ntb0", 0))
            own = bytes.fromhex(open("/sys/class/net/ntb0/address").read().replace(":", ""))
            frame = b"\\xff" * 6 + own + bytes.fromhex("88b5") + bytes(1400)
            for _ in range(20000):
                while True:
                    try:
                        s.send(frame)
                        break
                    except OSError:
                        pass
            """,
        ).wait().check()
        time.sleep(1)
        sent = traffic(rp)["tx"]["packets"] - sent
        assert sent >= 20000
        for guest, count in zip(fabric.hosts[1:], before, strict=True):
            assert 0 <= traffic(guest)["rx"]["packets"] - count - 20000 < 50


# Counts what has come and, when asked, tells what had come a while ago and what just now.
EARLY_AND_LATE = """
    import socket, time
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("0.0.0.0", 5008))
    s.settimeout(30)
    came = []
    while True:
        data, who = s.recvfrom(1000)
        now = time.monotonic()
        if data[:1] != b"?":
            came.append(now)
            continue
        early = sum(now - at > 0.4 for at in came)
        s.sendto(f"{early} {len(came) - early}".encode(), who)
        came = []
        if data == b"?end":
            break
"""

# Has the stack cut packets into four, one right behind the other, while there is memory for less
# and less of them. Prints what the other host had received at once, later, and what was not sent.
IN_FOUR = """
    import re, socket, struct, subprocess, time
    def unsent():
        stats = subprocess.run(["ethtool", "-S", "ntb0"], capture_output=True, text=True).stdout
        return int(re.search(r"tx_no_memory: (\\d+)", stats)[1])
    def guard(**parameters):
        for name, value in parameters.items():
            with open(f"/sys/module/mp_guard_test/parameters/{{name}}", "w") as file:
                file.write(str(value))
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.connect(({address!r}, 5008))
    s.send(b"?")
    s.recv(100)
    for spared in range(5, -1, -1):
        before = unsent()
        guard(spared=spared, largest=1)
        s.sendmsg([bytes(4 * 100)], [(socket.SOL_UDP, 103, struct.pack("H", 100))])
        guard(largest=0)
        time.sleep(0.8)
        s.send(b"?" if spared else b"?end")
        print("round", s.recv(100).decode(), unsent() - before)
"""


def test_a_packet_that_there_is_no_memory_for_holds_up_none_before_it(fabric):
    rp, ep1 = fabric.hosts[:2]
    ping(rp, stack.address(ep1))
    receiver = python(ep1, EARLY_AND_LATE)
    stack.wait_until("ss -lun | grep -q :5008", ep1, timeout=20)
    rp.run("ethtool -K ntb0 tx-udp-segmentation off")
    try:
        with guard(rp, largest=0):
            out = python(rp, IN_FOUR.format(address=stack.address(ep1))).wait().check().out
    finally:
        rp.run("ethtool -K ntb0 tx-udp-segmentation on")
    receiver.wait().check()
    rounds = [tuple(map(int, line.split()[1:])) for line in out.splitlines()]
    assert [late for _, late, _ in rounds] == [0] * len(rounds), rounds
    assert [early + unsent for early, _, unsent in rounds] == [4] * len(rounds), rounds
    # Some went, the others did not.
    assert any(early and unsent for early, _, unsent in rounds), rounds


def test_traffic_goes_on_beside_busy_programs(fabric):
    rp, ep1 = fabric.hosts[:2]
    busy = [guest.spawn("while :; do :; done", 120) for guest in (rp, ep1)]
    try:
        ping(rp, stack.address(ep1), "-c 50 -i 0.02")
        mib = 16 if LONG else 2
        stream(rp, ep1, mib)
        stream(ep1, rp, mib)
    finally:
        for program in busy:
            program.kill()


def watching(guest):
    """Clock ticks that the threads which watch the rings have used, by thread."""
    ticks = {}
    for line in guest.run("grep -hs '(mp_busy_poll)' /proc/[0-9]*/stat").out.splitlines():
        fields = line.split()
        ticks[fields[0]] = int(fields[13]) + int(fields[14])
    return ticks


@pytest.mark.skipif(
    flavour() != "rig", reason="a kernel that checks answers later than rings are watched"
)
def test_rings_are_watched_during_traffic_only(fabric):
    rp, ep1 = fabric.hosts[:2]
    before = watching(rp)
    assert len(before) >= 2
    rp.run(f"ping -q -f -c 4000 {stack.address(ep1)}", timeout=60)
    after = watching(rp)
    assert sum(after.values()) > sum(before.values())
    time.sleep(1)
    quiet = watching(rp)
    time.sleep(2)
    assert watching(rp) == quiet


def reload(guest):
    stack.unload(guest, modules=ETHER)
    stack.load(guest, modules=ETHER)
    stack.configure(guest)


def unload_under_traffic(guest, other, rounds):
    address, back = stack.address(guest), stack.address(other)
    for _ in range(rounds):
        flood = other.spawn(f"timeout 20 ping -q -f {address}", 40)
        return_flood = guest.spawn(f"timeout 20 ping -q -f {back}", 40)
        time.sleep(0.5)
        reload(guest)
        stack.wait_for_carrier(guest)
        ping(other, address)
        other.run("pkill -x ping", check=False)
        guest.run("pkill -x ping", check=False)
        flood.wait()
        return_flood.wait()


def test_a_host_that_leaves_and_returns_needs_nothing_from_others(fabric):
    """IDT-ETH-4"""
    unload_under_traffic(fabric.hosts[2], fabric.rp, 2)
    ping(fabric.rp, stack.address(fabric.hosts[1]))


@pytest.mark.long
def test_reload_under_traffic_twenty_times(fabric):
    """IDT-ETH-4, IDT-FN-5"""
    unload_under_traffic(fabric.hosts[1], fabric.rp, 20)


def test_carrier_follows_the_peers(fabric):
    ep2 = fabric.hosts[2]
    stack.unload(ep2, modules=("pximc_ntb", "mp_func_ether"))
    stack.load(ep2, modules=ETHER)
    stack.configure(ep2)
    assert "LOWER_UP" not in link(ep2)["flags"]
    stack.load(ep2, modules=("pximc_ntb",))
    stack.wait_for_carrier(ep2)
    ping(fabric.rp, stack.address(ep2))
    number = int(ep2.run("cat /sys/kernel/mp/self").out, 16)
    assert link(ep2)["address"] == f"02:4d:50:00:{number >> 8:02x}:{number & 255:02x}"


@pytest.mark.parametrize(
    "parameter", ["peers=0", "peers=65", "queues=0", "queues=9", "flood_wait_ms=0"]
)
def test_a_wrong_parameter_is_explained(fabric, parameter):
    ep2 = fabric.hosts[2]
    stack.unload(ep2, modules=ETHER)
    try:
        refused = ep2.run(f"insmod {stack.modules_dir()}/mp_func_ether.ko {parameter}", check=False)
        assert refused.rc != 0
        assert f"{parameter} is out of range" in ep2.run("dmesg | tail -3").out
        assert not ep2.run("ls -d /sys/class/net/ntb*", check=False).out
    finally:
        stack.load(ep2, modules=ETHER)
        stack.configure(ep2)
        stack.wait_for_carrier(ep2)


def test_a_peer_beyond_the_table_is_explained(fabric):
    ep2 = fabric.hosts[2]
    stack.unload(ep2, modules=ETHER)
    stack.load(ep2, modules=ETHER, parameters={"mp_func_ether": "peers=1"})
    try:
        stack.configure(ep2)
        stack.wait_for_carrier(ep2)
        ping(ep2, stack.address(fabric.rp))
        assert "load the module with peers=2 or more" in ep2.run("dmesg | tail -5").out
    finally:
        reload(ep2)
        stack.wait_for_carrier(ep2)


@pytest.mark.skipif(flavour() != "debug", reason="needs the debug kernel's fault injection")
def test_receiving_survives_a_shortage_of_memory(fabric):
    rp, ep1, _ = fabric.hosts
    ep1.run(
        """
        mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
        for f in failslab fail_page_alloc; do
            cd /sys/kernel/debug/$f
            echo 5 > probability; echo -1 > times; echo 0 > verbose
            [ -e ignore-gfp-wait ] && echo Y > ignore-gfp-wait
            [ -e min-order ] && echo 0 > min-order
        done; true
        """
    )
    try:
        rp.run(f"ping -q -f -w 5 -s 30000 {stack.address(ep1)}", check=False, timeout=30)
    finally:
        ep1.run(
            "for f in failslab fail_page_alloc; do"
            " echo 0 > /sys/kernel/debug/$f/probability; done"
        )
    assert ethtool_stats(ep1)["rx_no_memory"] > 0
    ping(rp, stack.address(ep1), "-s 30000")
