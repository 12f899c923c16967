# SPDX-License-Identifier: GPL-2.0
"""Random calls of the character device on two hosts at once, by processes of which some
are killed: every answer is one that `uapi/linux/mp_fabric.h` allows, nobody hangs, and
nothing is left. `userlib/fabric-storm` makes the calls and judges the answers."""

import re

import pytest
from ntbrig import RigError, stack
from ntbrig.settings import PATIENCE, programs_dir

import pximc

WORKERS = 3
# What makes calls, not counted by the name of a call.
NAMES = 19


@pytest.fixture(scope="module")
def fabric(boot):
    return boot(hosts=2)


def program():
    path = programs_dir() / "fabric_storm"
    if not path.exists():
        raise RigError(f"{path} is missing: run `make userlib`")
    return path


def run(fabric, seed, calls):
    """Runs the program on all hosts; how often each kind of call has succeeded there."""
    storms = []
    for number, guest in enumerate(fabric.hosts):
        options = f"--seed {seed + number} --calls {calls} --workers {WORKERS}"
        storms.append(guest.spawn(f"{program()} {options}"))
    outputs = []
    for storm in storms:
        ended = storm.wait(120 * PATIENCE + calls / 20)
        assert ended.rc == 0, ended.out
        outputs.append(ended.out)
    found = [re.findall(r"^(\w+): (\d+) succeeded", out, re.M) for out in outputs]
    return [{name: int(count) for name, count in counts} for counts in found], outputs


def assert_nothing_is_left(guest):
    assert guest.run("pgrep fabric_storm", check=False).out == ""
    # Who opens the device now finds it as it was.
    with pximc.Process(guest) as process:
        process.wait_for_windows()


@pytest.mark.parametrize(
    ("seed", "calls"),
    ((1, 1500), (3, 1500), pytest.param(1000, 1_000_000, marks=pytest.mark.long)),
)
def test_every_answer_to_random_calls_is_one_that_may_be(fabric, seed, calls):
    pximc.load(*fabric.hosts)
    succeeded, outputs = run(fabric, seed, calls)
    for counts, output in zip(succeeded, outputs):
        assert len(counts) == NAMES, output
        # There are no devices for which a window has an address, nor must there be.
        rare = {"SESSION_ADDRESS", "SESSION_ACCESS"}
        assert all(count for name, count in counts.items() if name not in rare), output
    for guest in fabric.hosts:
        assert_nothing_is_left(guest)
    stack.unload(*fabric.hosts, modules=pximc.MODULES)
