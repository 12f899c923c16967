# SPDX-License-Identifier: GPL-2.0-only
"""Devices that reach remote windows, and windows that are devices' memory.

Each host has an engine, which masters the bus. On some hosts nothing stands between it
and the bridge, whose windows the receiver or the sender leads to devices; on others an
IOMMU does.
"""

from contextlib import contextmanager

import pytest
from ntbrig import stack
from ntbrig.settings import MIB

import pximc
from devices import ENGINE, INSTRUMENT, Engine
from pximc import OK, PXIMC, UP, Status
from pximc_sessions import NONE, USUAL, close, pair, windows
from scenarios import LANGUAGES, finish, play, start

READ, WRITE = PXIMC.DEVICE_ACCESS_READ, PXIMC.DEVICE_ACCESS_WRITE
CLEAR = PXIMC.DEVICE_ACCESS_CLEAR_ALL
# A place where there is nothing.
ABSENT = (0, 0x0C, 0)
SOME = bytes(range(1, 129))
OTHER = bytes(range(128, 0, -1))

# A program that manages a device itself. Its group is the argument.
_MANAGER = """
import fcntl, os, struct, sys
container = os.open("/dev/vfio/vfio", os.O_RDWR)
group = os.open("/dev/vfio/" + sys.argv[1], os.O_RDWR)
fcntl.ioctl(group, 0x3B68, struct.pack("i", container))
print("managed", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", params=("generic", "idt"))
def plain(boot, request):
    # As large as a window, so that any bridge can lead one there.
    fabric = boot(hosts=2, engine=True, instrument=4 * MIB)
    target = {"ntb_hw_ivshmem": f"personality={request.param} mw_count=4 target={INSTRUMENT}"}
    stack.load(*fabric.hosts, modules=pximc.MODULES, parameters=target)
    pximc.wait_until_up(*fabric.hosts)
    return fabric


@pytest.fixture(scope="module")
def translated(boot):
    fabric = boot(hosts=2, engine=True, iommu=True)
    pximc.load(*fabric.hosts)
    return fabric


@pytest.fixture
def systems(plain):
    with pximc.Process(plain.rp) as s0, pximc.Process(plain.eps[0]) as s1:
        yield s0, s1


@pytest.fixture
def guarded(translated):
    """The two systems, and an engine of the first that holds SOME and reaches nothing."""
    engine = Engine(translated.rp)
    engine.pass_through()
    engine.load(SOME)
    engine.translate()
    with pximc.Process(translated.rp) as s0, pximc.Process(translated.eps[0]) as s1:
        yield s0, s1, engine


def pair_to_remote(s0, s1):
    """The first system's remote window is the other's local one."""
    sessions = pair(s0, s1, NONE, USUAL)
    (remote, _), (_, local) = windows((s0, s1), sessions)
    assert remote.size == local.size
    return sessions, local


def address_of(system, session):
    found = system.get_physical_address(session)
    assert found.status == OK and found.address % 4096 == 0
    return found.address


def arrives(engine, address, local, offset):
    """Whether what the engine writes at an offset is there."""
    local.write(offset, bytes(len(SOME)))
    engine.store(address + offset, len(SOME))
    found = local.read(offset, len(SOME))
    assert found in (SOME, bytes(len(SOME)))
    return found == SOME


def test_a_device_writes_to_a_remote_process(systems):
    """PXI-GPA-2, PXI-GPA-4, PXI-EDA-1, PXI-EDA-3, PXI-EDA-6, PXI-EDA-8: a device that is
    given the address of a remote window writes to exactly the bytes of the window, and
    reads them."""
    s0, s1 = systems
    engine = Engine(s0.guest)
    sessions, local = pair_to_remote(s0, s1)
    address = address_of(s0, sessions[0])
    assert s1.get_physical_address(sessions[1]) == (Status.NO_WINDOW, None)
    for where in (engine.function, ABSENT):
        assert s0.enable_device_access(sessions[0], READ | WRITE, *where) == OK
    engine.load(SOME)
    for offset in (0, 0x345, local.size - len(SOME)):
        assert arrives(engine, address, local, offset)
    local.write(0x200, OTHER)
    engine.fetch(address + 0x200, len(OTHER))
    assert engine.unload(len(OTHER)) == OTHER
    close(systems, sessions)


def test_behind_an_iommu_a_device_has_the_access_that_it_was_given(guarded):
    """PXI-EDA-1, PXI-EDA-2, PXI-EDA-3, PXI-EDA-9: no device has access by default; READ
    and WRITE are given one after the other and add up; CLEAR_ALL takes both back."""
    s0, s1, engine = guarded
    sessions, local = pair_to_remote(s0, s1)
    address = address_of(s0, sessions[0])
    allow = lambda mode: s0.enable_device_access(sessions[0], mode, *engine.function)

    assert not arrives(engine, address, local, 0)
    assert allow(CLEAR) == OK
    assert not arrives(engine, address, local, 0)
    assert allow(WRITE) == OK
    assert arrives(engine, address, local, 0x100)
    assert arrives(engine, address, local, local.size - len(SOME))

    local.write(0x400, OTHER)
    engine.fetch(address + 0x400, len(OTHER))
    engine.store(address + 0x800, len(OTHER))
    assert local.read(0x800, len(OTHER)) != OTHER
    assert allow(READ) == OK
    engine.fetch(address + 0x400, len(OTHER))
    engine.store(address + 0x800, len(OTHER))
    assert local.read(0x800, len(OTHER)) == OTHER

    assert allow(CLEAR) == OK
    local.write(0x800, SOME)
    engine.store(address + 0x800, len(SOME))
    assert local.read(0x800, len(SOME)) == SOME
    close((s0, s1), sessions)


def test_access_is_of_one_device_and_one_window(guarded):
    """PXI-EDA-6, PXI-EDA-8, PXI-EDA-9, PXI-GPA-4: what one device is given or loses is no
    other's, and one session's window is not the next one's."""
    s0, s1, engine = guarded
    first, one = pair_to_remote(s0, s1)
    second, two = pair_to_remote(s0, s1)
    addresses = [address_of(s0, session) for session in (first[0], second[0])]
    assert s0.enable_device_access(first[0], WRITE, *ABSENT) == OK
    assert not arrives(engine, addresses[0], one, 0)
    assert s0.enable_device_access(first[0], WRITE, *engine.function) == OK
    assert s0.enable_device_access(first[0], CLEAR, *ABSENT) == OK
    assert arrives(engine, addresses[0], one, 0)
    assert not arrives(engine, addresses[1], two, 0)
    assert s0.enable_device_access(second[0], WRITE, *engine.function) == OK
    assert s0.enable_device_access(first[0], CLEAR, *engine.function) == OK
    assert not arrives(engine, addresses[0], one, 0)
    assert arrives(engine, addresses[1], two, 0)
    for sessions in (first, second):
        close((s0, s1), sessions)


@pytest.mark.parametrize("end", ["close", "process", "link"])
def test_access_ends_with_the_window(guarded, translated, end):
    """PXI-EDA-7, PXI-CW-2: access is cleared when the session closes; also when its process
    ends, and when the link is lost while the session is still open."""
    s0, s1, engine = guarded
    with pximc.Process(translated.rp) as other:
        sessions, local = pair_to_remote(other, s1)
        address = address_of(other, sessions[0])
        assert other.enable_device_access(sessions[0], WRITE, *engine.function) == OK
        assert arrives(engine, address, local, 0)
        if end == "close":
            close((other, s1), sessions)
        elif end == "process":
            other.die()
            assert s1.close_window(sessions[1]) == OK
        else:
            translated.unplug(s1.guest)
            s0.wait_for_state(pximc.DOWN)
            translated.plug(s1.guest)
            for system in (s0, s1):
                system.wait_for_state(UP)
            # The half with the access stays open.
            assert s1.close_window(sessions[1]) == OK
        again, local = pair_to_remote(s0, s1)
        # Memory is given to the first who asks: it is the same.
        assert address_of(s0, again[0]) == address
        assert not arrives(engine, address, local, 0)
        close((s0, s1), again)


@contextmanager
def leading(guest, engine):
    """Inside, the engine has VFIO's driver."""
    driver, place = "/sys/bus/pci/drivers/vfio-pci", engine.place
    guest.run(
        f"echo vfio-pci > /sys/bus/pci/devices/{place}/driver_override"
        f" && echo {place} > {driver}/bind"
    )
    try:
        yield
    finally:
        guest.run(
            f"echo {place} > {driver}/unbind"
            f" && echo > /sys/bus/pci/devices/{place}/driver_override"
        )


@contextmanager
def managed(guest, engine):
    """Inside, a process says what the engine reaches."""
    manager = guest.spawn(["python3", "-c", _MANAGER, engine.group], stdin=True)
    manager.wait_for_output("managed", 20)
    try:
        yield
    finally:
        manager.write(b"")
        manager.wait(20).check()


def test_a_device_that_a_process_manages_is_refused(guarded):
    """PXI-EDA-5: where the access cannot be given, because somebody else says what the
    device reaches, or can do so at any time, PHY_RESOURCE_NOT_AVAILABLE; afterwards it can."""
    s0, s1, engine = guarded
    sessions, local = pair_to_remote(s0, s1)
    address = address_of(s0, sessions[0])
    allow = lambda: s0.enable_device_access(sessions[0], WRITE, *engine.function)
    with leading(s0.guest, engine):
        refused = [allow()]
        with managed(s0.guest, engine):
            refused.append(allow())
        refused.append(allow())
    assert refused == [Status.PHY_RESOURCE_NOT_AVAILABLE] * 3
    assert allow() == OK
    assert arrives(engine, address, local, 0)
    close((s0, s1), sessions)


def test_access_ends_with_the_pair_whoever_has_the_device_then(guarded):
    """PXI-EDA-7: also if a process says at that time what the device reaches, and gives it back
    afterwards."""
    s0, s1, engine = guarded
    sessions, local = pair_to_remote(s0, s1)
    address = address_of(s0, sessions[0])
    assert s0.enable_device_access(sessions[0], WRITE, *engine.function) == OK
    assert arrives(engine, address, local, 0)
    with leading(s0.guest, engine), managed(s0.guest, engine):
        close((s0, s1), sessions)
        again, local = pair_to_remote(s0, s1)
    # It is the same memory.
    assert address_of(s0, again[0]) == address
    assert not arrives(engine, address, local, 0)
    assert s0.enable_device_access(again[0], WRITE, *engine.function) == OK
    assert arrives(engine, address, local, 0)
    close((s0, s1), again)


def test_there_is_room_for_64_devices(systems):
    """PXI-EDA-5, PXI-EDA-7: one device too many is refused until another one is taken off,
    and a new session has all room."""
    s0, s1 = systems
    for _ in range(2):
        sessions, _ = pair_to_remote(s0, s1)
        devices = [(1 + number // 32, number % 32, 0) for number in range(65)]
        allow = lambda device, mode: s0.enable_device_access(sessions[0], mode, *device)
        assert {allow(device, WRITE) for device in devices[:64]} == {OK}
        assert allow(devices[0], READ) == OK
        assert allow(devices[64], WRITE) == Status.PHY_RESOURCE_NOT_AVAILABLE
        assert allow(devices[5], CLEAR) == OK
        assert allow(devices[64], WRITE) == OK
        close(systems, sessions)


# --- the scenarios of the specification, by the programs that show them

TARGET = ("--target", INSTRUMENT.removeprefix("0000:"))
MASTER = ("--engine", ENGINE.removeprefix("0000:"))


@pytest.fixture
def hosts(plain):
    return plain.rp, plain.eps[0]


@LANGUAGES
def test_a_device_writes_to_a_process(hosts, language):
    """PXI-GPA-2, PXI-EDA-8, PXI-WFC-10, PXI-WFC-11: scenario S-5: remote hardware to process;
    a process raises the event for it."""
    play(language, "s5", *hosts, options1=MASTER)


@LANGUAGES
def test_a_process_writes_to_a_device(hosts, language):
    """PXI-REQPS-10, PXI-REQPS-11, PXI-REQPS-13, PXI-REQPC-2, PXI-REQPC-9, PXI-REQPC-10,
    PXI-WFC-8, PXI-WFC-9: scenario S-4: process to remote hardware, all of whose memory it
    reaches at its offsets."""
    play(language, "s4", *hosts, options1=TARGET)


@LANGUAGES
def test_a_device_writes_to_a_device(hosts, language):
    """PXI-REQPS-13, PXI-REQPC-9, PXI-GPA-2, PXI-EDA-8: scenario S-6: hardware to hardware,
    which no processor touches on the way."""
    play(language, "s6", *hosts, TARGET, MASTER)


def test_a_process_and_a_device_write_at_once(hosts):
    """PXI-PAIR-2, PXI-REQPC-7: scenario S-7: S-4 and S-5 over one link, by programs in C
    for the one and the other."""
    s0, s1 = hosts
    finish(
        start(s1, "c", "s4", "s1", *TARGET),
        start(s1, "c", "s5", "s1", *MASTER),
        start(s0, "c", "s4", "s0"),
        start(s0, "c", "s5", "s0"),
    )


def test_one_process_has_both_going(hosts):
    """PXI-PAIR-2, PXI-GEN-3: scenario S-7 in one process on each side."""
    play("rust", "s7", *hosts, options1=(*TARGET, *MASTER))


def test_devices_write_to_each_other(hosts):
    """PXI-PAIR-2, PXI-REQPC-7: scenario S-8: S-6 in both directions at once."""
    both = (*TARGET, *MASTER)
    play("rust", "s8", *hosts, both, both)
