# SPDX-License-Identifier: GPL-2.0-only
"""A segment is filled from a dma-buf, and peers reach it by a window.

The scenarios of one host are in `tests/uapi/dma_buf_register.c`; `tests/modules/mp_dmabuf_test.c` is
the driver that exports. The bridges have three windows, of which the third can be led to any page.
"""

import errno
import re

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import CHECKOUT, PATIENCE, programs_dir
from pximc import MODULES
from sharing import MP, fails

PAGE = 0x1000
LENGTH = 4 * PAGE
RIGHTS = MP.GRANT_READ | MP.GRANT_WRITE
PROGRAM = programs_dir() / "uapi/dma_buf_register"
SOURCE = (CHECKOUT / "tests/uapi/dma_buf_register.c").read_text()
SCENARIOS = re.findall(r'^\t\{ "(\w+)", \w+ \},$', SOURCE, re.MULTILINE)


def booted(boot, personality):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters={"ntb_hw_ivshmem": personality})
    fabric.rp.run(f"insmod {stack.modules_dir()}/mp_dmabuf_test.ko")
    return fabric


@pytest.fixture(scope="module")
def fabric(boot):
    return booted(boot, "personality=amd")


def exported(process, segment):
    fields = {"handle": segment, "rights": RIGHTS}
    return process.call("SEGMENT_DMABUF", "mp_segment_dmabuf", **fields).fd


def empty(process, number, room):
    fields = {"id": number, "length": room, "flags": MP.SEGMENT_EMPTY}
    return process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle


def fill(process, handle, buffer, start, length):
    fields = {"handle": handle, "fd": buffer, "address": start, "length": length}
    fields["flags"] = MP.REGISTER_DMABUF
    process.call("SEGMENT_REGISTER", "mp_segment_register", **fields)


def test_a_peer_reaches_a_part_of_a_dma_buf(fabric):
    """Also after the link was down, and until it lets go, whatever the owner has closed."""
    with sharing.pair(fabric) as (owner, back, user, there):
        memory = owner.segment(830, LENGTH, back)
        seen = owner.map_segment(memory)
        segment = empty(owner, 831, LENGTH)
        fill(owner, segment, exported(owner, memory), PAGE, 2 * PAGE)
        owner.at("PREPARE", segment, back)
        owner.at("PUBLISH", segment, back)
        connection = user.connect(there, MP.OBJECT_SEGMENT, 831)
        told = user.call("CONNECTION", "mp_connection", handle=connection)
        assert told.length == 2 * PAGE
        remote = user.map_connection(connection)
        user.write(remote, b"first")
        user.write(remote + 2 * PAGE - 4, b"last")
        assert owner.read(seen + PAGE, 5) == b"first"
        assert owner.read(seen + 3 * PAGE - 4, 4) == b"last"
        assert owner.read(seen, PAGE) == bytes(PAGE)
        assert owner.read(seen + 3 * PAGE, PAGE) == bytes(PAGE)
        user.close(connection)
        fabric.unplug(fabric.hosts[1])
        owner.wait_until_up(back, up=False)
        fabric.plug(fabric.hosts[1])
        owner.wait_until_up(back)
        user.wait_until_up(there)
        connection = user.connect(there, MP.OBJECT_SEGMENT, 831)
        user.write(user.map_connection(connection), b"again")
        assert owner.read(seen + PAGE, 5) == b"again"
        owner.remove(segment, MP.REMOVE_FORCE)
        with fails(errno.ENOENT):
            owner.at("PREPARE", segment, back)


def test_memory_that_is_no_run_is_not_reached(fabric):
    with sharing.pair(fabric) as (owner, back, _, _):
        own = empty(owner, 832, 16 * PAGE)
        fields = {"handle": own, "address": owner.memory(16 * PAGE), "length": 16 * PAGE}
        owner.call("SEGMENT_REGISTER", "mp_segment_register", **fields)
        segment = empty(owner, 833, 16 * PAGE)
        fill(owner, segment, exported(owner, own), 0, 16 * PAGE)
        with fails(errno.EOPNOTSUPP):
            owner.at("PREPARE", segment, back)
        one = empty(owner, 834, PAGE)
        fill(owner, one, exported(owner, own), 7 * PAGE, PAGE)
        owner.at("PREPARE", one, back)
        owner.at("PUBLISH", one, back)


def test_a_peer_that_leads_the_window_is_shown_none(boot):
    fabric = booted(boot, "personality=idt mw_count=3")
    with sharing.pair(fabric) as (owner, back, _, _):
        segment = empty(owner, 835, PAGE)
        fill(owner, segment, exported(owner, owner.segment(836, PAGE, back)), 0, PAGE)
        with fails(errno.EOPNOTSUPP):
            owner.at("PREPARE", segment, back)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_segment_is_filled_from_a_dma_buf(fabric, scenario):
    fabric.rp.run([PROGRAM, scenario], timeout=60 * PATIENCE)


def test_what_a_bridge_reaches_ends_before_it_goes(fabric):
    """The driver has it mapped for no device that has none."""
    guest = fabric.rp
    with sharing.pair(fabric) as (_, _, owner, back):
        segment = empty(owner, 837, PAGE)
        fill(owner, segment, exported(owner, owner.segment(838, PAGE, back)), 0, PAGE)
        owner.at("PREPARE", segment, back)
        owner.at("PUBLISH", segment, back)
        assert attached(guest) == 1
        bridge = guest.run("ls /sys/bus/ntb/devices").out.split()[0]
        guest.run(f"echo {bridge} > /sys/bus/ntb/drivers/pximc_ntb/unbind")
        assert attached(guest) == 0


def attached(guest):
    """For how many devices all dma-bufs are, as the kernel tells."""
    guest.run("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
    told = guest.run("cat /sys/kernel/debug/dma_buf/bufinfo").out
    return sum(int(count) for count in re.findall(r"Total (\d+) devices attached", told))
