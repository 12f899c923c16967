# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own NTB clients run on the emulated NTB, unmodified."""

import itertools
import json
import re
import time

import mainline
import pytest
from mainline import DEBUGFS, DEVICE, RemoteShell, Tool, client, driver, eventually
from ntbrig import stack

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def generic():
    """Everything the NTB core knows of, whatever the other tests run on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIG_PERSONALITY", "generic")
        yield


@pytest.fixture(scope="module")
def two(boot):
    return boot(hosts=2)


@pytest.fixture(scope="module")
def three(boot):
    return boot(hosts=3)


@pytest.fixture
def pair(two):
    with driver(*two.hosts):
        yield two.hosts


@pytest.fixture
def tools(pair):
    with mainline.tools(pair) as both:
        yield both


# --- ports and links


def test_ports_are_numbered_by_the_order_of_the_hosts(three):
    with driver(*three.hosts), client(*three.hosts, module="ntb_tool"):
        for guest in three.hosts:
            tool = Tool(guest)
            assert tool.number("port") == guest.port
            peers = [tool.number(f"peer{pidx}/port") for pidx in range(2)]
            assert peers == [port for port in range(3) if port != guest.port]


def test_a_link_is_up_while_both_sides_have_enabled_it(pair):
    with client(*pair, module="ntb_tool"):
        one, other = map(Tool, pair)
        assert not one.link(0)
        one.write("link", "Y")
        assert not one.link(0) and not other.link(0)
        other.write("link", "Y")
        for tool in (one, other):
            tool.wait_link(0, up=True)
        one.write("link", "N")
        for tool in (one, other):
            tool.wait_link(0, up=False)


def test_each_pair_of_three_hosts_has_its_own_link(three):
    rp, ep1, ep2 = three.hosts
    with driver(*three.hosts), client(*three.hosts, module="ntb_tool"):
        tools = [Tool(guest) for guest in three.hosts]
        for tool in tools[:2]:
            tool.write("link", "Y")
        tools[0].wait_link(0, up=True)
        assert not tools[0].link(1)
        tools[2].write("link", "Y")
        for tool, pidx in itertools.product(tools, range(2)):
            tool.wait_link(pidx, up=True)


# --- registers


def test_doorbells_are_seen_cleared_and_reported(tools):
    one, other = tools
    valid = one.number("db_valid_mask")
    assert valid == (1 << 32) - 1
    other.write("db_mask", f"s {valid:#x}")
    other.write("db", f"c {valid:#x}")
    one.write("peer_db", "s 0x5")
    assert other.number("db") == 5
    assert one.number("peer_db") == 5
    other.write("db", "c 0x1")
    assert other.number("db") == 4
    # Unmasking a doorbell that is set raises the event for which this waits.
    waiting = other.guest.spawn(f"echo 0x4 > {other.path}/db_event", timeout=10)
    other.write("db_mask", f"c {valid:#x}")
    waiting.wait().check()
    assert other.guest.run(f"echo 'c 0x100000000' > {other.path}/db", check=False).rc != 0


def test_every_doorbell_raises_its_event(tools):
    one, other = tools
    for bit in (0, 1, 6, 7, 8, 31):
        waiting = other.guest.spawn(f"echo {1 << bit:#x} > {other.path}/db_event", timeout=10)
        one.write("peer_db", f"s {1 << bit:#x}")
        waiting.wait().check()
        other.write("db", f"c {1 << bit:#x}")


def test_scratchpads_carry_words_to_the_peer(tools):
    one, other = tools
    for sidx in (0, 13, 31):
        one.write(f"peer0/spad{sidx}", hex(0xCAFE0000 + sidx))
        assert other.number(f"spad{sidx}") == 0xCAFE0000 + sidx
        assert one.number(f"peer0/spad{sidx}") == 0xCAFE0000 + sidx
    assert one.number("spad0") != 0xCAFE0000


def test_a_message_to_a_full_register_is_refused_until_it_is_cleared(tools):
    one, other = tools
    inbits, outbits = one.number("msg_inbits"), one.number("msg_outbits")
    for tool in tools:
        tool.write("msg_sts", f"c {inbits | outbits:#x}")
    one.write("peer0/msg2", "0x1234")
    assert other.read("msg2").split("<-")[0] == "0x00001234"
    assert other.number("msg_sts") == 4 << 16
    one.write("peer0/msg2", "0x5678")
    assert one.number("msg_sts") == 4
    assert other.read("msg2").split("<-")[0] == "0x00001234"
    other.write("msg_sts", f"c {inbits:#x}")
    one.write("msg_sts", f"c {outbits:#x}")
    one.write("peer0/msg2", "0x5678")
    assert one.number("msg_sts") == 0
    assert other.read("msg2").split("<-")[0] == "0x00005678"


def test_messages_of_two_senders_are_shown_one_after_the_other(three):
    with driver(*three.hosts), mainline.tools(three.hosts) as (rp, ep1, ep2):
        ep1.write("peer0/msg0", "0x11")
        ep2.write("peer0/msg0", "0x22")
        assert rp.read("msg0") == "0x00000011<-0"
        rp.write("msg_sts", "c 0xf0000")
        assert rp.read("msg0") == "0x00000022<-1"
        rp.write("msg_sts", "c 0xf0000")
        assert rp.number("msg_sts") == 0


# --- memory windows


@pytest.mark.parametrize("widx", range(2))
def test_what_is_written_to_a_window_is_in_the_peers_memory(tools, widx):
    for one, other in (tools, tools[::-1]):
        address, size = one.expose(0, widx, 4 * MIB)
        assert size == 4 * MIB
        other.reach(0, widx, address, size)
        try:
            other.guest.run(
                f"head -c {size} /dev/urandom > /tmp/sent"
                f" && dd if=/tmp/sent of={other.path}/peer0/peer_mw{widx} bs=64k status=none"
            )
            sent = other.guest.run("md5sum < /tmp/sent").out
            assert one.guest.run(f"md5sum < {one.path}/peer0/mw{widx}").out == sent
            one.guest.run(f"dd if=/dev/zero of={one.path}/peer0/mw{widx} bs=4k count=1 status=none")
            seen = other.guest.run(f"head -c 4096 {other.path}/peer0/peer_mw{widx} | tr -d '\\0'")
            assert seen.out == ""
        finally:
            other.reach(0, widx, address, 0)
            one.withdraw(0, widx)


def test_windows_are_set_up_in_any_order_and_again(tools):
    one, _ = tools
    first = {widx: one.expose(0, widx, 64 << 10)[0] for widx in (1, 0)}
    assert first == {0: 256 * MIB, 1: 260 * MIB}
    one.withdraw(0, 0)
    assert one.expose(0, 0, 4 * MIB)[0] == first[0]
    for widx in range(2):
        one.withdraw(0, widx)


def test_each_peer_of_three_hosts_writes_to_a_window_of_its_own(three):
    with driver(*three.hosts), mainline.tools(three.hosts) as tools:
        for sender, owner in itertools.permutations(range(3), 2):
            # The sender's window for a peer has that peer's index.
            widx = owner if owner < sender else owner - 1
            pidx = sender if sender < owner else sender - 1
            address, size = tools[owner].expose(pidx, widx, 64 << 10)
            tools[sender].reach(widx, widx, address, size)
            text = f"from {sender} to {owner}"
            tools[sender].guest.run(
                f"printf '{text}' > {tools[sender].path}/peer{widx}/peer_mw{widx}"
            )
            seen = tools[owner].guest.run(
                f"head -c {len(text)} {tools[owner].path}/peer{pidx}/mw{widx}"
            )
            tools[sender].reach(widx, widx, address, 0)
            tools[owner].withdraw(pidx, widx)
            assert seen.out == text


# --- the other clients


@pytest.mark.parametrize("hosts", (2, 3, pytest.param(8, marks=pytest.mark.long)))
def test_pingpong_counts_up_everywhere(boot, two, three, hosts):
    guests = ({2: two, 3: three}.get(hosts) or boot(hosts=hosts)).hosts

    def counts():
        files = f"{DEBUGFS}/ntb_pingpong/{DEVICE}/count"
        return [int(guest.read(files)) for guest in guests]

    with driver(*guests), client(*guests, module="ntb_pingpong", parameters="delay_ms=20"):
        before = counts()
        assert eventually(lambda: all(n > b + 20 for b, n in zip(before, counts())))


@pytest.mark.parametrize(
    "parameters", ("", "mw_size=65536", "mw_count=4 mw_size=1048576 db_count=62 spad_count=256")
)
def test_perf_writes_in_both_directions(two, parameters):
    with driver(*two.hosts, parameters=parameters):
        with client(*two.hosts, module="ntb_perf", parameters="total_order=24"):
            for guest in two.hosts:
                run = f"{DEBUGFS}/ntb_perf/{DEVICE}/run"
                out = guest.run(f"echo 0 > {run} && cat {run}", timeout=60).out
                assert re.search(r"0: copied 16777216 bytes in \d+ usecs", out), out


class Network:
    """`ntb_netdev` on two guests."""

    def __init__(self, guests, mtu=None):
        """The size is set before the interfaces are up. A change later takes each side's queue down
        and up again. If both do so one soon after the other, `ntb_transport` may clear what one side
        knows of the other's ring when that is in use again: both are up then, and one of them sends
        nothing any more."""
        self.guests = guests
        size = f"mtu {mtu}" if mtu else ""
        for guest in guests:
            guest.run(
                f"ip address replace 10.9.0.{guest.port + 1}/24 dev eth0"
                f" && ip link set eth0 {size} up && ip -o link show eth0"
            )
        carrier = "cat /sys/class/net/eth0/carrier"
        for guest in guests:
            assert eventually(lambda: guest.run(carrier, check=False).out.strip() == "1", 30)
        assert eventually(self.ping, 30)

    def ping(self, options="-c 1 -W 1"):
        return self.guests[0].run(f"ping {options} 10.9.0.2", check=False).rc == 0

    def stream(self, seconds):
        """Bytes that arrived."""
        server = self.guests[1].spawn("iperf3 -s -1 --forceflush", timeout=seconds + 60)
        server.wait_for_output("Server listening")
        command = f"iperf3 -J -t {seconds} -c 10.9.0.2"
        out = self.guests[0].run(command, timeout=seconds + 60).out
        server.wait()
        return json.loads(out)["end"]["sum_received"]["bytes"]


# 65,536 bytes of a transport frame without its header and Ethernet's.
@pytest.fixture(params=(1500, 65510))
def mtu(request):
    return request.param


@pytest.fixture
def network(pair, mtu):
    with client(*pair, module="ntb_netdev"):
        yield Network(pair, mtu)


def test_netdev_pings_and_streams(network, mtu):
    assert network.ping(f"-c 5 -i 0.2 -W 2 -M do -s {mtu - 28}")
    assert network.stream(2) > MIB


@pytest.mark.long
def test_netdev_streams_for_a_minute(network):
    assert network.stream(60) > 60 * MIB


# The script writes addresses in hexadecimal where the ntb_tool of recent kernels
# wants decimal ones.
_ECHO = r"""
echo() {
	if [[ $* =~ ^(0x[0-9a-f]+):([0-9]+)$ ]]; then
		builtin echo "$((BASH_REMATCH[1])):${BASH_REMATCH[2]}"
	else
		builtin echo "$@"
	fi
}
"""


# The script looks at each doorbell and each scratchpad from both sides.
@pytest.mark.parametrize(
    "registers", ("db_count=8 spad_count=8", pytest.param("", marks=pytest.mark.long))
)
def test_the_kernels_selftest_passes_between_two_guests(two, registers):
    local, remote = two.hosts
    script = two.settings.kernel_dir / "source/tools/testing/selftests/ntb/ntb_test.sh"
    # A message-signalled interrupt cannot go through a window onto RAM.
    no_msi = "echo 'install ntb_msi_test /bin/false' > /etc/modprobe.d/no-ntb-msi.conf"
    stack.everywhere(two.hosts, f"{no_msi}\ncat > /run/echo.bash <<'END'\n{_ECHO}\nEND")
    with driver(*two.hosts, parameters=f"mw_size=65536 {registers}"):
        with RemoteShell(local, remote, "/run/echo.bash") as shell:
            result = local.run(
                ["bash", script, "-r", "peer", "-p", 24, DEVICE, DEVICE],
                timeout=500,
                check=False,
                env={"BASH_ENV": shell.definition},
            )
        for guest in two.hosts:
            guest.run("modprobe -ra ntb_tool ntb_pingpong ntb_perf", check=False)
    assert result.rc == 0, result
    for part in ("db", "spad", "msg", "mw0", "mw1", "ping pong", "perf"):
        assert re.search(rf"Running [a-z ]*{part}", result.out), result
    assert "Unsupported" not in result.out


# --- coming and going


def test_a_killed_host_goes_down_at_the_others_and_comes_back(three):
    rp, ep1, ep2 = three.hosts
    with driver(*three.hosts), mainline.tools(three.hosts) as tools:
        ep1.kill()
        tools[0].wait_link(0, up=False)
        tools[2].wait_link(1, up=False)
        assert tools[0].link(1) and tools[2].link(0)
        ep1.boot()
        stack.load(ep1, modules=mainline.DRIVER)
        ep1.run("modprobe ntb_tool")
        tools[1].write("link", "Y")
        tools[0].wait_link(0, up=True)
        tools[2].wait_link(1, up=True)


def test_pingpong_goes_on_after_a_reboot_of_one_host(two):
    rp, ep1 = two.hosts
    count = f"{DEBUGFS}/ntb_pingpong/{DEVICE}/count"
    with driver(*two.hosts), client(*two.hosts, module="ntb_pingpong", parameters="delay_ms=20"):
        assert eventually(lambda: int(rp.read(count)) > 5)
        ep1.reboot()
        stack.load(ep1, modules=mainline.DRIVER)
        ep1.run("modprobe ntb_pingpong delay_ms=20")
        before = int(rp.read(count))
        assert eventually(lambda: int(rp.read(count)) > before + 5)
        assert eventually(lambda: int(ep1.read(count)) > 5)


@pytest.mark.parametrize("module", ("ntb_tool", "ntb_pingpong", "ntb_perf", "ntb_netdev"))
def test_the_driver_is_unloaded_and_loaded_again_under_a_client(two, module):
    with driver(*two.hosts), client(*two.hosts, module=module):
        for guest in two.hosts:
            guest.run("rmmod ntb_hw_ivshmem")
            assert guest.run("ls /sys/bus/ntb/devices").out == ""
            stack.load(guest, modules=("ntb_hw_ivshmem",))
            assert guest.run("ls /sys/bus/ntb/devices").out.strip() == DEVICE


def test_pingpong_goes_on_after_the_driver_was_loaded_again(two):
    count = f"{DEBUGFS}/ntb_pingpong/{DEVICE}/count"
    with driver(*two.hosts), client(*two.hosts, module="ntb_pingpong", parameters="delay_ms=20"):
        for guest in two.hosts:
            guest.run("rmmod ntb_hw_ivshmem")
            stack.load(guest, modules=("ntb_hw_ivshmem",))
            before = [int(guest.read(count)) for guest in two.hosts]
            assert eventually(
                lambda: all(int(g.read(count)) > b + 3 for g, b in zip(two.hosts, before))
            )


# Among the long ones: now and then the kernel's ntb_transport finds no link after the
# tests before, and this one only sees that.
@pytest.mark.long
def test_an_absence_too_short_to_see_is_noticed(two):
    rp, ep1 = two.hosts
    with driver(*two.hosts), client(*two.hosts, module="ntb_netdev"):
        assert Network(two.hosts).ping("-c 1 -W 20")
        cleanups = rp.run("dmesg").out.count("Link Cleanup")
        rp.freeze()
        try:
            ep1.run("modprobe -r ntb_netdev ntb_transport && rmmod ntb_hw_ivshmem")
            stack.load(ep1, modules=("ntb_hw_ivshmem",))
            ep1.run("modprobe ntb_netdev")
        finally:
            rp.thaw()
        assert Network(two.hosts).ping("-c 1 -W 20")
        assert rp.run("dmesg").out.count("Link Cleanup") > cleanups


# Prints the state of port 1 in the register memory.
_STATE = """
import mmap, struct
with open("/sys/bus/pci/devices/0000:00:1c.0/resource2", "r+b") as bar:
    memory = mmap.mmap(bar.fileno(), 1 << 20)
print(struct.unpack_from("<I", memory, 0x1000 + 0x8000)[0])
"""
ABSENT, PRESENT = 0, 1


@pytest.mark.parametrize("leave, state", (("poweroff", ABSENT), ("kill", PRESENT)))
def test_a_host_that_shuts_down_says_goodbye_and_a_killed_one_does_not(two, leave, state):
    rp, ep1 = two.hosts
    show = ["python3", "-S", "-c", _STATE]
    with driver(*two.hosts):
        assert int(rp.run(show).out) == PRESENT
        with two.server_frozen():
            getattr(ep1, leave)()
            assert int(rp.run(show).out) == state
        assert eventually(lambda: int(rp.run(show).out) == ABSENT)
        ep1.boot()
        stack.load(ep1, modules=mainline.DRIVER)


# --- parameters


@pytest.mark.parametrize(
    "parameter, words",
    (
        ("mw_count=0", "mw_count=0 is not from 1 to 4"),
        ("mw_count=5", "mw_count=5 is not from 1 to 4"),
        ("mw_size=100000", "mw_size=100000 is not a power of two"),
        ("mw_size=32768", "mw_size=32768 is not a power of two from 65536"),
        ("db_count=63", "db_count=63 is not from 8 to 62"),
        ("spad_count=257", "spad_count=257 is not from 0 to 256"),
        ("personality=nosuch", "personality=nosuch is none of generic, intel, amd, switchtec,"),
    ),
)
def test_a_wrong_parameter_is_refused_with_its_name(two, parameter, words):
    guest = two.rp
    directory = mainline.stack.modules_dir()
    guest.run(f"insmod {directory}/mp_kernel.ko")
    try:
        result = guest.run(f"insmod {directory}/ntb_hw_ivshmem.ko {parameter}", check=False)
        assert result.rc != 0
        assert words in guest.run("dmesg | tail -1").out
    finally:
        guest.run("rmmod mp_kernel")
        guest.forget_reports()


def test_windows_that_do_not_fit_the_area_are_refused(two):
    guest = two.rp
    with driver(guest, parameters="mw_size=67108864"):
        assert guest.run("ls /sys/bus/ntb/devices").out == ""
        assert "do not fit" in guest.run("dmesg | tail -3").out
    guest.forget_reports()


def test_hosts_with_other_parameters_get_no_link_but_a_message(two):
    rp, ep1 = two.hosts
    with driver(rp), driver(ep1, parameters="mw_size=1048576"):
        with client(*two.hosts, module="ntb_tool"):
            for guest in two.hosts:
                Tool(guest).write("link", "Y")
            assert eventually(lambda: "other parameters" in rp.run("dmesg | tail -5").out)
            assert not Tool(rp).link(0) and not Tool(ep1).link(0)
    for guest in two.hosts:
        guest.forget_reports()


def test_without_scratchpads_clients_use_messages(two):
    with driver(*two.hosts, parameters="spad_count=0"):
        with client(*two.hosts, module="ntb_tool"):
            assert two.rp.run(f"ls {DEBUGFS}/ntb_tool/{DEVICE}/spad0", check=False).rc != 0
        with client(*two.hosts, module="ntb_pingpong", parameters="delay_ms=20"):
            count = f"{DEBUGFS}/ntb_pingpong/{DEVICE}/count"
            time.sleep(0.5)
            assert eventually(lambda: int(two.rp.read(count)) > 5)
