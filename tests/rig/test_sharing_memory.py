# SPDX-License-Identifier: GPL-2.0-only
"""Segments over memory of a process, and over physical memory; copies from pinned memory.

The bridges have three windows, of which the third can be led to any page.
"""

import errno
import re
import time
from contextlib import contextmanager

import pytest
import sharing
from devices import INSTRUMENT, Device
from ntbrig import stack
from ntbrig.settings import MIB, PATIENCE
from pximc import MODULES
from sharing import MP, fails
from shell import until
from shortage import guard

PAGE = 0x1000
# Memory that the kernel leaves alone, and what it uses.
ADDRESS, SIZE = 384 * MIB, MIB
SYSTEM_RAM = 16 * MIB
# What firmware says to be its tables, and to be memory that keeps its content.
TABLES, PERSISTENT = 386 * MIB, 388 * MIB
# Addresses that processors have, at which nothing is; and that they do not have. Page tables
# have no room for the upper bits of the last one.
NOTHING, BEYOND, ALIAS = 1 << 39, 1 << 48, 1 << 52 | SYSTEM_RAM
# Root without the privileges that go beyond limits.
MEMLOCK = 16 * PAGE
# A list of the pages of so much memory has more than 2 GiB.
HUGE = 1 << 42
UNPRIVILEGED = (
    "prlimit",
    f"--memlock={MEMLOCK}:{MEMLOCK}",
    "setpriv",
    "--bounding-set=-ipc_lock,-sys_rawio",
)

# The first word of a page of a file that is mapped.
_WORD = """
import mmap, os, sys
path, at = sys.argv[1], int(sys.argv[2])
memory = mmap.mmap(os.open(path, os.O_RDWR), 4096, offset=at)
print(memory[:4].hex())
"""


@pytest.fixture(scope="module")
def fabric(boot):
    kinds = {"$": ADDRESS, "#": TABLES, "!": PERSISTENT}
    options = " ".join(f"memmap={SIZE // MIB}M{kind}{at // MIB}M" for kind, at in kinds.items())
    fabric = boot(hosts=2, kernel_options=options, instrument=MIB)
    parameters = {"ntb_hw_ivshmem": "personality=amd"}
    stack.load(*fabric.hosts, modules=MODULES, parameters=parameters)
    for guest in fabric.hosts:
        # So small a machine has none otherwise.
        guest.run("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
    return fabric


@contextmanager
def pair(fabric, same=False, how=()):
    here = fabric.rp if same else fabric.hosts[1]
    with sharing.Process(here, how=how) as owner, sharing.Process(fabric.rp) as user:
        there, back = user.interface(loopback=same), owner.interface(loopback=same)
        user.wait_until_up(there)
        owner.wait_until_up(back)
        yield owner, back, user, there


@pytest.fixture(params=("another host", "the same host"))
def ends(request, fabric):
    with pair(fabric, request.param == "the same host") as both:
        yield both


def empty(process, number, room, flags=0):
    fields = {"id": number, "length": room, "flags": MP.SEGMENT_EMPTY | flags}
    return process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle


def fill(process, handle, address, length, flags=0):
    fields = {"handle": handle, "address": address, "length": length, "flags": flags}
    process.call("SEGMENT_REGISTER", "mp_segment_register", **fields)


def show(process, handle, interface):
    process.at("PREPARE", handle, interface)
    process.at("PUBLISH", handle, interface)


@pytest.mark.parametrize("length", [PAGE, 2 * MIB])
def test_memory_of_a_process_is_a_segment_for_others(ends, length):
    """SI-REGMEM-6, SI-CRSEG-4"""
    owner, back, user, there = ends
    memory = owner.memory(length)
    before = sharing.pinned(owner.guest)
    segment = empty(owner, 31, length)
    with fails(errno.ENXIO):
        owner.at("PREPARE", segment, back)
    fill(owner, segment, memory, length)
    assert sharing.pinned(owner.guest) - before == length // PAGE
    show(owner, segment, back)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 31)
    remote = user.map_connection(connection)
    for at in (0, length - 16):
        user.write(remote + at, b"from the other one"[:16])
        assert owner.read(memory + at, 16) == b"from the other o"
    # A second handle's mapping shows the same, also when the owner's is gone.
    shown = owner.map_segment(segment)
    owner.write(memory, b"here")
    assert owner.read(shown, 4) == b"here"
    owner.unmap(memory, length)
    user.write(remote, b"gone")
    assert owner.read(shown, 4) == b"gone"
    again = user.connect(there, MP.OBJECT_SEGMENT, 31)
    user.close(again)
    with fails(errno.EBUSY):
        owner.remove(segment)
    user.close(connection)
    while owner.notice(segment) != MP.NOTICE_DISCONNECTED:
        pass
    while owner.notice(segment) != MP.NOTICE_DISCONNECTED:
        pass
    owner.remove(segment)
    sharing.wait_until_unpinned(owner.guest, before)


def test_a_peer_that_leads_the_window_is_shown_no_pages(boot):
    """SI-REGMEM-5: they might be somebody else's when it writes there."""
    fabric = boot(hosts=2)
    parameters = {"ntb_hw_ivshmem": "personality=idt mw_count=3"}
    stack.load(*fabric.hosts, modules=MODULES, parameters=parameters)
    with pair(fabric) as (owner, back, _, _):
        segment = empty(owner, 31, PAGE)
        fill(owner, segment, owner.memory(PAGE), PAGE)
        owner.at("PREPARE", segment, back)
        with fails(errno.EOPNOTSUPP):
            owner.at("PUBLISH", segment, back)
        show(owner, segment, owner.interface(loopback=True))


def test_pages_that_are_no_run_are_for_this_host_only(fabric):
    """SI-REGMEM-5"""
    length = 16 * PAGE
    with pair(fabric) as (owner, back, user, there), sharing.Process(owner.guest) as friend:
        memory = owner.memory(length)
        segment = empty(owner, 32, length)
        fill(owner, segment, memory, length)
        owner.at("PREPARE", segment, back)
        with fails(errno.EOPNOTSUPP):
            owner.at("PUBLISH", segment, back)
        show(owner, segment, owner.interface(loopback=True))
        connection = friend.connect(friend.interface(loopback=True), MP.OBJECT_SEGMENT, 32)
        remote = friend.map_connection(connection)
        friend.write(remote + 9 * PAGE - 3, b"across")
        assert owner.read(memory + 9 * PAGE - 3, 6) == b"across"
        # It can be copied from.
        target = user.segment(33, length, there)
        where = user.map_segment(target)
        connection = owner.connect(back, MP.OBJECT_SEGMENT, 33)
        queue = owner.call("QUEUE_CREATE", "mp_queue_create", interface=back, entries=1).handle
        start(owner, queue, segment, connection, (PAGE, 0, length - PAGE))
        assert owner.wait(queue, MP.EVENT_DONE) == MP.EVENT_DONE
        assert user.read(where + 8 * PAGE - 3, 6) == b"across"


def start(process, queue, segment, connection, *copies, flags=0):
    fields = {"handle": queue, "segment": segment, "connection": connection, "flags": flags}
    fields |= sharing.copy_list(process, *copies)
    process.call("QUEUE_START", "mp_queue_start", **fields)


def test_memory_that_a_process_has_not_is_not_provided_for(fabric):
    """The kernel's list of such pages would be longer than any may be, about which it complains."""
    with sharing.Process(fabric.rp) as owner:
        segment = empty(owner, 38, HUGE)
        with fails(errno.EFAULT):
            fill(owner, segment, owner.memory(PAGE), HUGE)


def test_a_segment_is_filled_once_with_whole_pages_of_its_process(fabric):
    """SI-REGMEM-1, SI-REGMEM-2, SI-REGMEM-3, SI-REGMEM-4"""
    with sharing.Process(fabric.rp) as owner:
        memory = owner.memory(4 * PAGE)
        full = owner.segment(34, PAGE)
        with fails(errno.EEXIST):
            fill(owner, full, memory, PAGE)
        segment = empty(owner, 35, 2 * PAGE)
        with fails(errno.EADDRINUSE):
            empty(owner, 35, PAGE)
        with fails(errno.ERANGE):
            fill(owner, segment, memory, 3 * PAGE)
        with fails(errno.EINVAL):
            fill(owner, segment, memory, 0)
        physical = MP.REGISTER_PHYSICAL
        for flags in (physical | MP.REGISTER_READ_ONLY, physical | MP.REGISTER_BAR, 16):
            with fails(errno.EINVAL):
                fill(owner, segment, memory, PAGE, flags)
        for address, length in ((ADDRESS + 8, PAGE), (ADDRESS, PAGE + 8)):
            with fails(errno.EINVAL):
                fill(owner, segment, address, length, MP.REGISTER_PHYSICAL)
        owner.unmap(memory + PAGE, PAGE)
        before = sharing.pinned(owner.guest)
        with fails(errno.EFAULT):
            fill(owner, segment, memory, 2 * PAGE)
        assert sharing.pinned(owner.guest) == before
        assert owner.call("SEGMENT", "mp_segment", handle=segment).length == 0
        fill(owner, segment, memory + 2 * PAGE, 2 * PAGE)
        with fails(errno.EEXIST):
            fill(owner, segment, memory + 2 * PAGE, PAGE)
        with fails(errno.ERANGE):
            fill(owner, segment, memory, 3 * PAGE)
        info = owner.call("SEGMENT", "mp_segment", handle=segment)
        assert (info.length, info.flags) == (2 * PAGE, MP.SEGMENT_EMPTY)


def shown_to_nobody(owner, segment, back):
    """A segment is prepared, and neither published nor mapped."""
    for interface in (back, owner.interface(loopback=True)):
        owner.at("PREPARE", segment, interface)
        with fails(errno.EOPNOTSUPP):
            owner.at("PUBLISH", segment, interface)
    assert owner.call("SEGMENT", "mp_segment", handle=segment).offset == 0


def copied(owner, back, user, there, segment, length):
    """All of a segment, as a queue copies it to the other host."""
    target = user.segment(52, length, there)
    where = user.map_segment(target)
    connection = owner.connect(back, MP.OBJECT_SEGMENT, 52)
    queue = owner.call("QUEUE_CREATE", "mp_queue_create", interface=back, entries=1).handle
    start(owner, queue, segment, connection, (0, 0, length))
    assert owner.wait(queue, MP.EVENT_DONE) == MP.EVENT_DONE
    assert owner.call("QUEUE", "mp_queue", handle=queue).state == MP.QUEUE_DONE
    data = user.read(where, length)
    user.remove(target, MP.REMOVE_FORCE)
    return data


@pytest.mark.parametrize("at, length", [(5, 8), (PAGE - 3, 6), (0, PAGE + 1), (7, 2 * PAGE)])
def test_memory_that_is_no_whole_pages_is_copied_and_never_shown(ends, at, length):
    """Beside it there is something else of the process."""
    owner, back, user, there = ends
    memory = owner.memory(4 * PAGE)
    owner.write(memory + at, bytes(1 + n % 255 for n in range(length)))
    before = sharing.pinned(owner.guest)
    segment = empty(owner, 51, length)
    fill(owner, segment, memory + at, length)
    assert sharing.pinned(owner.guest) - before == (at + length + PAGE - 1) // PAGE
    assert owner.call("SEGMENT", "mp_segment", handle=segment).length == length
    shown_to_nobody(owner, segment, back)
    assert copied(owner, back, user, there, segment, length) == owner.read(memory + at, length)
    owner.remove(segment)
    sharing.wait_until_unpinned(owner.guest, before)


def test_memory_that_is_only_read_is_copied_and_never_shown(ends):
    owner, back, user, there = ends
    read_only, program = owner.memory(PAGE), owner.program(PAGE)
    owner.write(read_only, b"never written")
    owner.execute(read_only, PAGE)
    for number, memory in ((53, read_only), (54, program)):
        segment = empty(owner, number, PAGE)
        with fails(errno.EFAULT):
            fill(owner, segment, memory, PAGE)
        fill(owner, segment, memory, PAGE, MP.REGISTER_READ_ONLY)
        shown_to_nobody(owner, segment, back)
        with pytest.raises(OSError):
            owner.map_segment(segment)
        seen = copied(owner, back, user, there, segment, PAGE)
        assert seen == owner.read(memory, PAGE)


def test_who_may_not_pin_so_much_or_name_addresses_is_told_so(fabric):
    """SI-REGMEM-7, SI-APHYS-2, SI-NTB-17"""
    with sharing.Process(fabric.rp, how=UNPRIVILEGED) as owner:
        memory = owner.memory(2 * MEMLOCK)
        segments = [empty(owner, number, 2 * MEMLOCK) for number in (36, 37, 38)]
        with fails(errno.EDQUOT):
            fill(owner, segments[0], memory, MEMLOCK + PAGE)
        fill(owner, segments[0], memory, MEMLOCK - PAGE)
        with fails(errno.EDQUOT):
            fill(owner, segments[1], memory, 2 * PAGE)
        owner.remove(segments[0])
        fill(owner, segments[1], memory, MEMLOCK)
        with fails(errno.EPERM):
            fill(owner, segments[2], ADDRESS, PAGE, MP.REGISTER_PHYSICAL)


def test_a_process_is_shown_with_what_it_has_pinned(fabric):
    """Beside the limit of its user: in its status, as other drivers do."""
    with sharing.Process(fabric.rp) as owner:
        # Processes that end meanwhile have no status.
        lines = lambda: fabric.rp.run("grep -h VmPin /proc/[0-9]*/status", check=False).out
        kib = lambda: sum(int(line.split()[1]) for line in lines().splitlines())
        before = kib()
        segment = empty(owner, 41, 2 * PAGE)
        fill(owner, segment, owner.memory(2 * PAGE), 2 * PAGE)
        assert kib() - before == 2 * PAGE >> 10
        owner.remove(segment)
        assert kib() == before


def test_pages_stay_pinned_until_nobody_reaches_them(fabric):
    """SI-REGMEM-7, SI-NTB-5, SI-NTB-9"""
    before = sharing.pinned(fabric.hosts[1])
    with pair(fabric) as (owner, back, user, there):
        memory = owner.memory(PAGE)
        segment = empty(owner, 39, PAGE)
        fill(owner, segment, memory, PAGE)
        show(owner, segment, back)
        connection = user.connect(there, MP.OBJECT_SEGMENT, 39)
        remote = user.map_connection(connection)
        user.write(remote, b"while it lives")
        owner.end()
        assert user.notice(connection) == MP.NOTICE_DISCONNECTED
        assert user.notice(connection) == MP.NOTICE_LOST
        assert user.read(remote, 8) == b"\xff" * 8
        sharing.wait_until_unpinned(fabric.hosts[1], before)


def test_a_connection_to_memory_of_a_process_outlives_an_outage(fabric):
    """SI-EVT-5, SI-REGMEM-6"""
    with pair(fabric) as (owner, back, user, there):
        memory = owner.memory(PAGE)
        segment = empty(owner, 40, PAGE)
        fill(owner, segment, memory, PAGE)
        show(owner, segment, back)
        connection = user.connect(there, MP.OBJECT_SEGMENT, 40)
        remote = user.map_connection(connection)
        fabric.unplug(fabric.hosts[1])
        assert user.notice(connection) == MP.NOTICE_DOWN
        fabric.plug(fabric.hosts[1])
        assert user.notice(connection) == MP.NOTICE_UP
        user.write(remote, b"again")
        assert owner.read(memory, 5) == b"again"


def test_physical_memory_is_a_segment_for_others(ends):
    """SI-APHYS-1, SI-APHYS-2, SI-APHYS-4"""
    owner, back, user, there = ends
    segment = empty(owner, 41, SIZE)
    with fails(errno.EOPNOTSUPP):
        fill(owner, segment, SYSTEM_RAM, PAGE, MP.REGISTER_PHYSICAL)
    with fails(errno.ERANGE):
        fill(owner, segment, ADDRESS, 2 * SIZE, MP.REGISTER_PHYSICAL)
    fill(owner, segment, ADDRESS, SIZE, MP.REGISTER_PHYSICAL)
    with fails(errno.EEXIST):
        fill(owner, segment, ADDRESS, SIZE, MP.REGISTER_PHYSICAL)
    show(owner, segment, back)
    local = owner.map_segment(segment)
    owner.write(local + SIZE - 8, bytes(8))
    connection = user.connect(there, MP.OBJECT_SEGMENT, 41)
    user.write(user.map_connection(connection) + SIZE - 8, b"physical")
    assert owner.read(local + SIZE - 8, 8) == b"physical"
    with fails(errno.EBUSY):
        owner.remove(segment)
    owner.remove(segment, MP.REMOVE_FORCE)
    assert user.notice(connection) == MP.NOTICE_DISCONNECTED


def test_physical_memory_is_not_copied(ends):
    """Each call that would copy it fails."""
    owner, back, user, there = ends
    far, near = empty(owner, 46, SIZE), empty(user, 47, SIZE)
    for process, segment in ((owner, far), (user, near)):
        fill(process, segment, ADDRESS, SIZE, MP.REGISTER_PHYSICAL)
    owner.at("PREPARE", far, back, MP.PUBLISH_PLACED)
    with fails(errno.EOPNOTSUPP):
        owner.at("PUBLISH", far, back, MP.PUBLISH_PLACED)
    owner.at("PUBLISH", far, back)
    with fails(errno.ENOSPC):
        user.connect(there, MP.OBJECT_SEGMENT, 46, MP.CONNECT_PLACED)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 46)
    told = user.call("CONNECTION", "mp_connection", handle=connection)
    assert told.rights == MP.GRANT_WRITE
    queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=there, entries=1).handle
    pinned = MP.QUEUE_PINNED | MP.QUEUE_READ
    with fails(errno.EACCES):
        start(user, queue, 0, connection, (user.memory(PAGE), 0, 8), flags=pinned)
    user.at("PREPARE", near, there)
    for flags in (0, MP.QUEUE_READ):
        with fails(errno.EOPNOTSUPP):
            start(user, queue, near, connection, (0, 0, 8), flags=flags)


@pytest.mark.parametrize(
    "address",
    [SYSTEM_RAM, TABLES, PERSISTENT, NOTHING, BEYOND, ALIAS, ADDRESS + SIZE - PAGE, -2 * PAGE],
)
def test_only_memory_of_devices_is_named_by_its_address(fabric, address):
    """SI-APHYS-2: neither the kernel's own, nor firmware's, nor what is nowhere."""
    with pair(fabric) as (owner, back, _, _):
        segment = empty(owner, 43, SIZE)
        address %= 1 << 64
        with fails(errno.EOPNOTSUPP):
            fill(owner, segment, address, 2 * PAGE, MP.REGISTER_PHYSICAL)
        for interface in (back, owner.interface(loopback=True)):
            with fails(errno.EOPNOTSUPP):
                physical_server(owner, interface, address, 2 * PAGE)


def physical_server(process, interface, address, length):
    sizes = {"local_min": length, "local_max": length}
    fields = {"role": 1, "location": 2, "protocol": 7, "address": address, **sizes}
    return process.call("SESSION_OPEN", "mp_session_open", interface=interface, **fields).handle


@pytest.mark.parametrize("exclusive", [1, 0])
def test_what_a_driver_has_requested_is_not_named(fabric, exclusive):
    """For itself alone or not, on a kernel without CONFIG_IO_STRICT_DEVMEM."""
    requested = {"start": ADDRESS, "length": PAGE, "exclusive": exclusive}
    with pair(fabric) as (owner, _, _, _), guard(owner.guest, **requested):
        segment = empty(owner, 44, SIZE)
        with fails(errno.EOPNOTSUPP):
            fill(owner, segment, ADDRESS, SIZE, MP.REGISTER_PHYSICAL)
        fill(owner, segment, ADDRESS + PAGE, SIZE - PAGE, MP.REGISTER_PHYSICAL)


def is_requested(guest, address, length):
    """Whether a driver gets memory there."""
    got = guest.run(
        f"insmod {stack.modules_dir()}/mp_guard_test.ko start={address} length={length}"
        " && rmmod mp_guard_test",
        check=False,
    )
    return got.rc == 0


def test_no_driver_gets_what_is_named_as_long_as_it_is(fabric):
    """A segment that names a part of it meanwhile keeps all of it claimed, and a session does until it
    is closed."""
    with pair(fabric) as (owner, back, _, _):
        guest = owner.guest
        whole, part = empty(owner, 48, SIZE), empty(owner, 49, SIZE)
        fill(owner, whole, ADDRESS, 4 * PAGE, MP.REGISTER_PHYSICAL)
        fill(owner, part, ADDRESS + 3 * PAGE, 3 * PAGE, MP.REGISTER_PHYSICAL)
        for page in (0, 3, 5):
            assert not is_requested(guest, ADDRESS + page * PAGE, PAGE)
        assert is_requested(guest, ADDRESS + 6 * PAGE, PAGE)
        owner.close(whole)
        for page in (0, 3, 5):
            assert not is_requested(guest, ADDRESS + page * PAGE, PAGE)
        owner.close(part)
        assert is_requested(guest, ADDRESS, SIZE)
        session = physical_server(owner, back, ADDRESS, PAGE)
        assert not is_requested(guest, ADDRESS, PAGE)
        owner.close(session)
        assert is_requested(guest, ADDRESS, PAGE)


def test_what_a_process_has_named_is_claimed_until_no_peer_reaches_it(ends, fabric):
    """However it ends."""
    owner, back, user, there = ends
    segment = empty(owner, 50, SIZE)
    fill(owner, segment, ADDRESS, SIZE, MP.REGISTER_PHYSICAL)
    show(owner, segment, back)
    connection = user.connect(there, MP.OBJECT_SEGMENT, 50)
    user.map_connection(connection)
    guest = owner.guest
    assert not is_requested(guest, ADDRESS, SIZE)
    guest.run(f"kill -9 {owner.pid}")
    end = time.monotonic() + 10 * PATIENCE
    while not is_requested(guest, ADDRESS, SIZE):
        assert time.monotonic() < end, "it stays claimed"
        time.sleep(0.1)


def driven(guest):
    """Memory of PCI functions that have a driver: each with a BAR, and where that is."""
    found = []
    for path in guest.run("ls -d /sys/bus/pci/drivers/*/0000:*").out.split():
        for number, line in enumerate(guest.read(f"{path}/resource").splitlines()[:6]):
            start, last, flags = (int(word, 16) for word in line.split())
            if flags & 0x200 and last - start >= PAGE - 1:
                found.append((path.rsplit("/", 1)[1], number, start))
    return found


def bar(name, number):
    domain, bus, device, function = (int(n, 16) for n in re.split("[:.]", name))
    fields = {"pci_domain": domain, "pci_bus": bus, "pci_devfn": device << 3 | function}
    return {**fields, "pci_bar": number}


def test_memory_of_a_function_is_named_by_its_bar(fabric):
    """SI-APHYS-2"""
    with pair(fabric) as (owner, _, _, _):
        name, number = INSTRUMENT, 2
        start, length = Device(owner.guest, name).bar(number)
        owner.guest.run(f"echo 1 > /sys/bus/pci/devices/{name}/enable")
        segment = empty(owner, 51, 2 * length)
        fields = {"handle": segment, "flags": MP.REGISTER_BAR, **bar(name, number)}

        def by_bar(**changes):
            owner.call("SEGMENT_REGISTER", "mp_segment_register", **{**fields, **changes})

        for changes, error in (
            ({"address": 1, "length": PAGE}, errno.EINVAL),
            ({"length": 0}, errno.EINVAL),
            ({"length": PAGE, "flags": 0}, errno.EINVAL),
            ({"length": PAGE, "flags": MP.REGISTER_BAR | MP.REGISTER_READ_ONLY}, errno.EINVAL),
            ({"length": length + PAGE}, errno.ERANGE),
            ({"address": length, "length": PAGE}, errno.ERANGE),
            ({"length": PAGE, "pci_bar": 6}, errno.ENODEV),
        ):
            with fails(error):
                by_bar(**changes)
        by_bar(length=length)
        assert not is_requested(owner.guest, start, PAGE)
        owner.write(owner.map_segment(segment), b"word")
        memory = f"/sys/bus/pci/devices/{name}/resource{number}"
        assert b"word" == bytes.fromhex(owner.guest.run(f"python3 -c '{_WORD}' {memory} 0").out)
        owner.close(segment)


def test_a_domain_of_more_than_16_bits_is_another_one(fabric):
    """A function is not found by the low half of its domain alone, which there is."""
    with pair(fabric, same=True) as (owner, back, _, _):
        owner.guest.run(f"echo 1 > /sys/bus/pci/devices/{INSTRUMENT}/enable")
        place = bar(INSTRUMENT, 2)
        segment = empty(owner, 53, PAGE)
        register = {"handle": segment, "flags": MP.REGISTER_BAR, "length": PAGE, **place}
        serve = {"interface": back, "role": 1, "location": MP.LOCATION_BAR, "protocol": 8}
        serve |= {"local_min": PAGE, "local_max": PAGE, **place}
        for high in (1, 0x7FFF, 0x8000, 0xFFFF):
            with fails(errno.ENODEV):
                fields = {**register, "pci_domain_high": high}
                owner.call("SEGMENT_REGISTER", "mp_segment_register", **fields)
            with fails(errno.ENODEV):
                fields = {**serve, "pci_domain_high": high}
                owner.call("SESSION_OPEN", "mp_session_open", **fields)
        owner.call("SEGMENT_REGISTER", "mp_segment_register", **register)
        owner.close(segment)


def test_a_session_names_memory_of_a_function_by_its_bar(fabric):
    """It is one to physical addresses then."""
    with pair(fabric, same=True) as (owner, back, user, there):
        name, number = INSTRUMENT, 2
        start, length = Device(owner.guest, name).bar(number)
        owner.guest.run(f"echo 1 > /sys/bus/pci/devices/{name}/enable")
        sizes = {"local_min": PAGE, "local_max": PAGE}
        fields = {"interface": back, "role": 1, "location": MP.LOCATION_BAR, "protocol": 8, **sizes}
        fields |= bar(name, number)

        def opened(**changes):
            return owner.call("SESSION_OPEN", "mp_session_open", **{**fields, **changes}).handle

        for changes, error in (
            ({"address": 1}, errno.EINVAL),
            ({"role": 2}, errno.EINVAL),
            ({"location": 1}, errno.EINVAL),
            ({"address": length}, errno.ERANGE),
            ({"pci_bar": 6}, errno.ENODEV),
        ):
            with fails(error):
                opened(**changes)
        session = opened(address=PAGE)
        assert is_requested(owner.guest, start, PAGE)
        assert not is_requested(owner.guest, start + PAGE, PAGE)
        fields = {"role": 2, "location": 2, "protocol": 8, "remote_min": 1, "remote_max": PAGE}
        client = user.call("SESSION_OPEN", "mp_session_open", interface=there, **fields).handle
        place = user.call("SESSION", "mp_session", handle=client)
        user.write(user.map(place.remote_offset, PAGE), b"here")
        memory = f"/sys/bus/pci/devices/{name}/resource{number}"
        seen = lambda: owner.guest.run(f"python3 -c '{_WORD}' {memory} {PAGE}").out
        until(lambda: bytes.fromhex(seen()) == b"here")
        user.close(client)
        owner.close(session)
        assert is_requested(owner.guest, start + PAGE, PAGE)


def test_memory_of_a_function_with_a_driver_is_not_named(fabric):
    """Neither by its BAR nor by its address, although the driver has not requested it."""
    with pair(fabric) as (owner, back, _, _):
        found = driven(owner.guest)
        assert found
        for name, number, start in found:
            segment = empty(owner, 52, PAGE)
            fields = {"handle": segment, "flags": MP.REGISTER_BAR, "length": PAGE, **bar(name, number)}
            with fails(errno.EOPNOTSUPP):
                fill(owner, segment, start, PAGE, MP.REGISTER_PHYSICAL)
            with fails(errno.EOPNOTSUPP):
                owner.call("SEGMENT_REGISTER", "mp_segment_register", **fields)
            with fails(errno.EOPNOTSUPP):
                physical_server(owner, owner.interface(loopback=True), start, PAGE)
            owner.close(segment)


def test_a_kernel_that_is_locked_down_takes_no_physical_addresses(fabric):
    with pair(fabric) as (owner, back, _, _), guard(owner.guest) as lock:
        segment = empty(owner, 45, SIZE)
        session = physical_server(owner, owner.interface(loopback=True), ADDRESS, PAGE)
        access = {"handle": session, "mode": MP.ACCESS_READ}
        lock("memory_locked", True)
        with fails(errno.EPERM):
            fill(owner, segment, ADDRESS, SIZE, MP.REGISTER_PHYSICAL)
        with fails(errno.EPERM):
            physical_server(owner, back, ADDRESS, PAGE)
        with fails(errno.EPERM):
            owner.call("ADDRESS", "mp_address", handle=segment, length=1)
        with fails(errno.EPERM):
            owner.call("SESSION_ADDRESS", "mp_session_address", handle=session)
        with fails(errno.ENOTCONN):
            owner.call("SESSION_ACCESS", "mp_session_access", **access)
        lock("memory_locked", False)
        lock("devices_locked", True)
        with fails(errno.EPERM):
            owner.call("SESSION_ACCESS", "mp_session_access", **access)
        fill(owner, segment, ADDRESS, SIZE, MP.REGISTER_PHYSICAL)


def test_pinned_memory_is_copied_in_the_background(ends):
    """SI-SDMAM-1, SI-SDMAM-2, SI-SDMAM-3"""
    owner, back, user, there = ends
    length = 64 * PAGE
    local = owner.map_segment(owner.segment(42, length, back))
    connection = user.connect(there, MP.OBJECT_SEGMENT, 42)
    memory = user.memory(length)
    for at in range(0, length, 8 * PAGE):
        user.write(memory + at + 5, b"%08x" % at)
    queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=there, entries=4).handle
    before = sharing.pinned(user.guest)
    copies = ((memory + 5, 0, 8), (memory, 0, 0), (memory + 5, 1, length - 5))
    start(user, queue, 0, connection, *copies, flags=MP.QUEUE_PINNED)
    assert user.wait(queue, MP.EVENT_DONE) == MP.EVENT_DONE
    assert user.call("QUEUE", "mp_queue", handle=queue).state == MP.QUEUE_DONE
    for at in range(0, length, 8 * PAGE):
        assert owner.read(local + at + 1, 8) == b"%08x" % at
    sharing.wait_until_unpinned(user.guest, before)
    user.unmap(memory + PAGE, PAGE)
    with fails(errno.EFAULT):
        start(user, queue, 0, connection, (memory, 0, length), flags=MP.QUEUE_PINNED)
    with fails(errno.EINVAL):
        source = user.segment(43, PAGE, there)
        start(user, queue, source, connection, (0, 0, 1), flags=MP.QUEUE_PINNED)
