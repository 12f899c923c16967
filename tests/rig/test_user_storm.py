# SPDX-License-Identifier: GPL-2.0-only
"""Random calls of the character device on two hosts at once, by processes of which some
are killed, and some have no privilege: every answer is one that `uapi/linux/mp_fabric.h`
allows, nobody hangs, and nothing is left. `userlib/fabric-storm` makes the calls and judges
the answers."""

import re
from contextlib import contextmanager

import pytest
from ntbrig import RigError, stack
from ntbrig.settings import MIB, PATIENCE, programs_dir

import pximc
import sharing

DEVICE = "/dev/mp_fabric"
WORKERS = 4
# Runs of a test, each with seeds of its own, in which each kind of call has to succeed once.
RUNS = 5
# Every call of the device, and those of the C library that are counted as well.
CALLS = set(re.findall(r"MP_IOC_(\w+) = _IO", sharing.TEXT))
NAMES = CALLS | {"mmap", "munmap", "read", "poll", "open", "receive"}
# Addresses that the kernel leaves alone, for windows to physical memory.
SPARE, SPARE_SIZE = 384 * MIB, 4 * MIB
# A user without privilege, and its group.
NOBODY = 65534


@pytest.fixture(scope="module")
def fabric(boot):
    spare = f"memmap={SPARE_SIZE // MIB}M${SPARE // MIB}M"
    return boot(hosts=2, kernel_options=spare)


def assert_nothing_is_left(guest):
    assert guest.run("pgrep fabric_storm", check=False).out == ""
    # Who opens the device now finds it as it was.
    with pximc.Process(guest) as process:
        process.wait_for_windows()


@contextmanager
def loaded(guests, **more):
    """All modules, with windows that can be led to physical memory."""
    parameters = {"ntb_hw_ivshmem": "mw_count=4", **more}
    stack.load(*guests, modules=pximc.MODULES, parameters=parameters)
    try:
        pximc.wait_until_up(*guests)
        for guest in guests:
            guest.run(f"chgrp {NOBODY} {DEVICE} && chmod 660 {DEVICE}")
        yield
        for guest in guests:
            assert_nothing_is_left(guest)
    finally:
        # Those who called belong to no failed test that is repeated.
        stack.everywhere(guests, "pkill -9 fabric_storm; true")
        stack.unload(*guests, modules=pximc.MODULES)


def program():
    path = programs_dir() / "fabric_storm"
    if not path.exists():
        raise RigError(f"{path} is missing: run `make userlib`")
    return path


def run(fabric, seed, calls, more=""):
    """Run the program on all hosts; how often each kind of call has succeeded there."""
    storms = []
    for number, guest in enumerate(fabric.hosts):
        options = f"--seed {seed + number} --calls {calls} --workers {WORKERS}"
        options += f" --spare {SPARE} {more}"
        storms.append(guest.spawn(f"{program()} {options}"))
    outputs = []
    for storm in storms:
        ended = storm.wait(120 * PATIENCE + calls / 20)
        assert ended.rc == 0, ended.out
        outputs.append(ended.out)
    found = [re.findall(r"^(\w+): (\d+) succeeded", out, re.M) for out in outputs]
    return [{name: int(count) for name, count in counts} for counts in found], outputs


FAULTS = "/sys/kernel/debug"


def can_fail(guest):
    """Let allocations and copies fail that a thread asks for, without a word of the kernel;
    whether the kernel can do that."""
    if guest.run(f"test -d {FAULTS}/failslab", check=False).rc != 0:
        return False
    guest.run(
        f"for kind in failslab fail_page_alloc fail_usercopy; do"
        f" echo 0 > {FAULTS}/$kind/verbose; done;"
        f" echo N > {FAULTS}/failslab/ignore-gfp-wait;"
        f" echo N > {FAULTS}/fail_page_alloc/ignore-gfp-wait"
    )
    fail_allocations(guest, True)
    return True


def fail_allocations(guest, which):
    """Count all allocations among those that fail, or none."""
    cache_filter, order = ("N", 0) if which else ("Y", 20)
    guest.run(
        f"echo {cache_filter} > {FAULTS}/failslab/cache-filter;"
        f" echo {order} > {FAULTS}/fail_page_alloc/min-order"
    )


@pytest.mark.parametrize(
    ("seed", "calls"),
    (
        (5, 2000),
        pytest.param(7, 2000, marks=pytest.mark.long),
        pytest.param(1000, 250_000, marks=pytest.mark.long),
    ),
)
def test_every_answer_to_random_calls_is_one_that_may_be(fabric, seed, calls):
    # There need be no devices for which a window has an address, few fill a segment, and few
    # sessions have a partner and both windows to park on. No host is behind another one, so that
    # stores would have to be sent.
    rare = {"SESSION_ADDRESS", "SESSION_ACCESS", "SEGMENT_REGISTER", "PARK", "SESSION_STORE"}
    if calls < 10_000:
        # Requests that wait for an answer are seldom there when one is given, nor are segments
        # that are prepared where a session has a partner.
        rare |= {"SESSION_ANSWER", "SEGMENT_GRANT"}
    never = NAMES
    with loaded(fabric.hosts):
        for number in range(RUNS):
            seeds = seed + number * len(fabric.hosts)
            succeeded, outputs = run(fabric, seeds, calls, f"--nobody {NOBODY}")
            for counts, output in zip(succeeded, outputs):
                assert counts.keys() == NAMES, output
                never = never - {name for name, count in counts.items() if count}
            if never <= rare:
                break
    assert never <= rare, outputs


@pytest.mark.parametrize("calls", (700, pytest.param(25_000, marks=pytest.mark.long)))
def test_calls_that_find_no_memory_leave_everything_in_order(fabric, calls):
    if not all([can_fail(guest) for guest in fabric.hosts]):
        pytest.skip("this kernel's allocations do not fail")
    with loaded(fabric.hosts):
        run(fabric, 7, calls, "--faults 1")
        pximc.wait_until_up(*fabric.hosts)


def test_a_copy_that_fails_changes_nothing(fabric):
    rp = fabric.rp
    if not can_fail(rp):
        pytest.skip("this kernel's copies do not fail")
    # With few objects it is soon seen whether one that nobody can name stays.
    with loaded(fabric.hosts, mp_func_user="objects=64"):
        fail_allocations(rp, False)
        try:
            rp.run(f"{program()} --copies 1", timeout=120 * PATIENCE)
        finally:
            fail_allocations(rp, True)
