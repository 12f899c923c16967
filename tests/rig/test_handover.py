# SPDX-License-Identifier: GPL-2.0-only
"""A process hands a segment or a connection to another one on purpose, by a descriptor.

The scenarios are in `tests/uapi/handover.c`, which runs on one host, with a child of another user
where that matters.
"""

import re

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import CHECKOUT, PATIENCE, programs_dir
from pximc import MODULES
from sharing import MP
from shell import until

PROGRAM = programs_dir() / "uapi/handover"
SOURCE = (CHECKOUT / "tests/uapi/handover.c").read_text()
SCENARIOS = re.findall(r'^\t\{ "(\w+)", \w+ \},$', SOURCE, re.MULTILINE)
PAGE = 0x1000
NUMBER = 720


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    for guest in fabric.hosts:
        guest.run("chmod 666 /dev/mp_fabric")
    return fabric


def test_all_scenarios_are_run():
    functions = re.findall(r"^static void \w+\(void\)$", SOURCE, re.MULTILINE)
    # The one that the next but one test uses.
    assert len(SCENARIOS) == len(functions) - 1


def test_a_program_in_rust_hands_over_what_it_has(fabric):
    """The memory, to be read, by a descriptor; and a dma-buf, of which another segment is made."""
    program = programs_dir() / "examples/handover"
    lines = fabric.rp.run([program], timeout=20 * PATIENCE).out.splitlines()
    assert lines[0].endswith(": from one process to another"), lines
    assert "READ" in lines[0] and "WRITE" not in lines[0]
    assert lines[1].startswith("more: ") and "denied" in lines[1].lower()
    assert lines[2] == "a segment of 4096 bytes over a dma-buf"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_process_hands_over(fabric, scenario):
    fabric.rp.run([PROGRAM, scenario], timeout=60 * PATIENCE)


def test_a_connection_to_another_host_is_handed_over(fabric):
    here, there = fabric.hosts
    with sharing.Process(here) as owner:
        interface = owner.interface()
        owner.wait_until_up(interface)
        segment = owner.segment(NUMBER, PAGE, interface)
        memory = owner.map_segment(segment)
        with sharing.Process(there) as process:
            back = process.interface()
            process.wait_until_up(back)
        there.run([PROGRAM, "peer", back, NUMBER], timeout=60 * PATIENCE)
        assert owner.read(memory, 8) == (0x55).to_bytes(8, "little")
        # The child has gone, and its connection.
        taken = [owner.notice(segment) for _ in range(4)]
        assert taken.count(MP.NOTICE_CONNECTED) == taken.count(MP.NOTICE_DISCONNECTED) == 2


def test_the_module_stays_as_long_as_there_is_a_descriptor(fabric):
    unload = ["rmmod", "mp_func_user"]
    with fabric.rp.spawn([PROGRAM, "keep"], timeout=60 * PATIENCE) as keeper:
        keeper.wait_for_output("kept", timeout=20 * PATIENCE)
        assert "in use" in fabric.rp.run(unload, check=False).err
    until(lambda: fabric.rp.run(unload, check=False).rc == 0)
