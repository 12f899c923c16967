# SPDX-License-Identifier: GPL-2.0-only
"""The emulated NTB with the limits of real parts, and what runs on each.

Clients of the kernel that a part does not carry, and why:

| personality | client | why |
|---|---|---|
| idt | ntb_perf | sets the translation of another window than it writes to |
| idt | ntb_netdev | ntb_transport wants the receiver to set the translation |
| tiny | ntb_perf | needs six scratchpads or message registers |
| tiny | ntb_netdev | ntb_transport needs six scratchpads |
"""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from ether import lost, stream
from frames import wait_for_everyone
from mainline import DEBUGFS, DEVICE, client, driver, eventually, tools
from ntbrig import stack

KIB = 1 << 10
MIB = 1 << 20
PAGE = 4 * KIB
UPPER = stack.MODULES[2:]


@dataclass(frozen=True)
class Window:
    """Limits of an inbound window, in bytes."""

    size: int
    addr_align: int
    size_align: int = 1


@dataclass(frozen=True)
class Part:
    """What two hosts joined by a part see of it."""

    windows: tuple
    spads: int
    doorbells: int
    messages: int = 0
    ports: tuple = (0, 1)
    # Clients that do not run on it, and what they say.
    refuses: dict = field(default_factory=dict)


def aligned(size, count=1):
    """Windows whose memory must be aligned to their size."""
    return (Window(size, size),) * count


PARTS = {
    "intel": Part(aligned(4 * MIB, 2), spads=16, doorbells=32),
    "amd": Part((Window(4 * MIB, PAGE),) * 3, spads=8, doorbells=15),
    "switchtec": Part(
        (Window(2 * MIB, PAGE, PAGE),) * 2 + (Window(64 * KIB, 64 * KIB, 64 * KIB),) * 2,
        spads=128,
        doorbells=28,
        ports=(0, 0),
    ),
    "epf": Part((Window(MIB, PAGE),) * 2, spads=128, doorbells=6, ports=(0, 0)),
    "idt": Part(
        (Window(4 * MIB, 4), Window(256 * KIB, 4, 256 * KIB)),
        spads=0,
        doorbells=32,
        messages=4,
        refuses={
            "ntb_perf": "Failed to set outbuf translation",
            "ntb_netdev": "Inbound MW based NTB API is required",
        },
    ),
    "tiny": Part(
        aligned(64 * KIB),
        spads=4,
        doorbells=2,
        refuses={
            "ntb_perf": "Command services unsupported",
            "ntb_netdev": "probe with driver ntb_transport failed",
        },
    ),
}


@pytest.fixture(scope="module")
def two(boot):
    return boot(hosts=2)


@pytest.fixture(scope="module")
def three(boot):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RIG_PERSONALITY", raising=False)
        return boot(hosts=3)


# What this has another one has as well, but for numbers.
ALIKE = ("epf",)


def part(name):
    return pytest.param(name, marks=pytest.mark.long if name in ALIKE else ())


@pytest.fixture(scope="module", params=map(part, PARTS))
def pair(request, two):
    """Two hosts on a part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIG_PERSONALITY", request.param)
        with driver(*two.hosts):
            yield request.param, two.hosts


def shown(tool):
    """What the core shows of a device."""
    listing = tool.guest.run(f"cd {tool.path} && cat peer0/mw_trans* && ls . peer0").out
    found = {name: [] for name in ("Size Max", "Alignment", "Size Alignment")}
    for line in listing.replace("[p]", "").splitlines():
        name, _, value = line.partition("\t")
        if name.strip() in found:
            found[name.strip()].append(int(value, 16))
    files = Counter(line.rstrip("0123456789") for line in listing.splitlines())
    return Part(
        tuple(Window(*values) for values in zip(*found.values(), strict=True)),
        spads=files["spad"] // 2,
        doorbells=tool.number("db_valid_mask").bit_length(),
        messages=files["msg"] // 2,
    ), files["peer_mw_trans"]


def test_the_core_shows_what_the_part_has(pair):
    name, guests = pair
    part = PARTS[name]
    with tools(guests) as both:
        for tool in both:
            seen, outbound = shown(tool)
            assert seen == replace(part, ports=seen.ports, refuses={})
            assert outbound == len(part.windows)
        assert tuple(tool.number("port") for tool in both) == part.ports
        check_doorbells(name, *both)
        check_windows(part, *both)


def check_doorbells(name, one, other):
    """Those of an epf are interrupts of their own, an idt's are shared by all ports."""
    for tool in (one, other):
        tool.write("db", "c 0x3")
    one.write("peer_db", "s 0x3")
    assert other.number("db") == (1 if name == "epf" else 3)
    assert one.number("db") == (3 if name == "idt" else 0)
    for tool in (one, other):
        tool.write("db", "c 0x3")


def check_windows(part, one, other):
    """What is written to a window of full size is at the start of the peer's buffer."""
    for widx, window in enumerate(part.windows):
        address, size = other.expose(0, widx, window.size)
        assert size == window.size
        one.reach(0, widx, address, size)
        one.guest.run(f"printf window{widx} > {one.path}/peer0/peer_mw{widx}")
        seen = other.guest.run(f"head -c 7 {other.path}/peer0/mw{widx}").out
        one.reach(0, widx, address, 0)
        other.withdraw(0, widx)
        assert seen == f"window{widx}"


def test_a_translation_to_elsewhere_is_explained(pair):
    name, (guest, other) = pair
    if name != "idt":
        pytest.skip("the receiver sets the translation")
    with tools((guest, other)) as (tool, _):
        wrong = f"echo {512 * MIB}:{4 * MIB} > {tool.path}/peer0/peer_mw_trans0"
        assert guest.run(wrong, check=False).rc != 0
        assert "needs up to 0x400000 bytes at 0x10000000" in guest.run("dmesg | tail -3").out
    guest.forget_reports()


def test_pingpong_counts_up(pair):
    files = f"{DEBUGFS}/ntb_pingpong/{DEVICE}/count"
    with client(*pair[1], module="ntb_pingpong", parameters="delay_ms=20"):
        assert eventually(lambda: all(int(guest.read(files)) > 10 for guest in pair[1]))


def test_perf_writes(pair):
    name, guests = pair
    if "ntb_perf" in PARTS[name].refuses:
        pytest.skip("does not run on it")
    with client(*guests, module="ntb_perf", parameters="total_order=22"):
        run = f"{DEBUGFS}/ntb_perf/{DEVICE}/run"
        out = guests[0].run(f"echo 0 > {run} && cat {run}", timeout=60).out
        assert "0: copied 4194304 bytes in " in out, out


def test_netdev_pings(pair):
    name, guests = pair
    if "ntb_netdev" in PARTS[name].refuses:
        pytest.skip("does not run on it")
    with client(*guests, module="ntb_netdev"):
        for guest in guests:
            guest.run(f"ip addr add 10.9.0.{guest.port + 1}/24 dev eth0 && ip link set eth0 up")
        guests[0].run("ping -q -c 1 -w 20 10.9.0.2", timeout=30)


@pytest.mark.parametrize("module", ("ntb_perf", "ntb_netdev"))
def test_clients_that_need_more_say_so(pair, module):
    name, guests = pair
    words = PARTS[name].refuses.get(module)
    if not words:
        pytest.skip("runs on it")
    for guest in guests:
        guest.run(f"dmesg -C; modprobe {module}", check=False)
    try:
        # Where a message is not taken at once, ntb_perf sleeps for up to two seconds before the next try.
        said = lambda: any(words in guest.run("dmesg").out for guest in guests)
        assert eventually(said, timeout=60)
        assert guests[0].run("ls -d /sys/class/net/eth0", check=False).out == ""
    finally:
        for guest in guests:
            guest.run(f"modprobe -r {module}; modprobe -r ntb_transport", check=False)


def use(guests):
    """Send packets from each host to all others, and data between two."""
    for guest in guests:
        others = [stack.address(other) for other in guests if other is not guest]
        guest.run(" && ".join(f"ping -q -c 1 -w 10 -s 20000 {other}" for other in others))
    stream(guests[-1], guests[0], mib=4)


def come_up(guests):
    stack.load(*guests, modules=UPPER)
    stack.configure(*guests)
    stack.wait_for_carrier(*guests)


def test_ports_of_one_number_need_roles(pair):
    name, (guest, _) = pair
    if PARTS[name].ports != (0, 0):
        pytest.skip("the ports have numbers of their own")
    transport = stack.modules_dir() / "pximc_ntb.ko"
    stack.load(guest, modules=("mp_transport",))
    guest.run(f"insmod {transport}")
    assert "load with role=1 on one host, role=2 on the other" in guest.run("dmesg | tail -3").out
    stack.unload(guest, modules=("mp_transport", "pximc_ntb"))
    guest.forget_reports()


def test_an_error_of_the_secondary_side_keeps_nobody_out(pair):
    """AMD's driver reports one for enabling the link, and for disabling it."""
    name, guests = pair
    if name != "amd":
        pytest.skip("enabling the link reports no error")
    for guest in guests:
        guest.run("dmesg -C")
    come_up(guests)
    stack.unload(*guests, modules=UPPER)
    words = "the bridge's driver reports error -22 for"
    told = [guest.run(f"dmesg | grep -c \"{words}\"", check=False).out.strip() for guest in guests]
    assert told == ["0", "2"]


def test_the_fabric_runs_and_comes_back(pair):
    _, guests = pair
    come_up(guests)
    use(guests)
    assert {guest.name: lost(guest) for guest in guests} == {guest.name: {} for guest in guests}
    stack.unload(guests[1], modules=UPPER)
    come_up(guests[1:])
    use(guests)
    stack.unload(*guests, modules=UPPER)


@pytest.mark.parametrize("name", ("switchtec", pytest.param("idt", marks=pytest.mark.long)))
def test_the_fabric_joins_three_hosts(boot, three, name, monkeypatch):
    monkeypatch.setenv("RIG_PERSONALITY", name)
    stack.bring_up(*three.hosts)
    wait_for_everyone(*three.hosts)
    use(three.hosts)
    stack.unload(three.hosts[1])
    stack.bring_up(three.hosts[1])
    wait_for_everyone(*three.hosts)
    use(three.hosts)
    stack.unload(*three.hosts)
