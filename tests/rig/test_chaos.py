# SPDX-License-Identifier: GPL-2.0-only
"""Everything goes wrong at random, while everything is in use: processes are killed, hosts
lose their power, start again or stand still, cables are pulled, modules go, memory runs
short, processors go.

Nothing wrong is ever delivered, whatever was up is up again in bounded time, no kernel
complains, and in the end memory and windows are as they were. A run prints its seed;
`CHAOS_SEED` repeats its order of events, `CHAOS_SECONDS` and `CHAOS_HOSTS` choose how long
and with how many hosts.
"""

import json
import os
import random
import time

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import CHECKOUT, PATIENCE

from chaos import Node, Segments, Sessions
from frames import peer_id, wait_for_everyone
from memory import grown, lasting
from pximc import USER

pytestmark = pytest.mark.alone

LONG = os.environ.get("LONG") == "1"
SECONDS = float(os.environ.get("CHAOS_SECONDS") or (600 if LONG else 30))
HOSTS = int(os.environ.get("CHAOS_HOSTS") or (4 if LONG else 3))
SEED = int(os.environ.get("CHAOS_SEED") or (time.time_ns() if LONG else 1))
MODULES = (*stack.MODULES, USER)
LINK, ETHER = "pximc_ntb", "mp_func_ether"
DEVICE = "/dev/mp_fabric"
# Programs of whoever works.
USERS = ("python3", "pximc_shell", "share_shell")

# Seconds until all hosts know each other again, and until all work has got on.
BACK, ON = 20, 60
# Bytes of memory by which a host may differ at rest.
SLACK = 6 << 20
RESULTS = CHECKOUT / "build/results/chaos.json"


def windows(guest):
    """The longest piece that is free for windows, by interface."""
    with sharing.Process(guest) as process:
        found = process.call("INTERFACES", "mp_interfaces", capacity=16, ids=process.buffer)
        ids = process.read(process.buffer, 4 * found.count)
        ids = [int.from_bytes(ids[n : n + 4], "little") for n in range(0, len(ids), 4)]
        each = (process.call("INTERFACE", "mp_interface", id=number) for number in ids)
        return {one.id: one.local_free for one in each}


# --- what goes wrong; each function begins it and returns what ends it


class Faults:
    """What can happen to a host, and how it is made to be as before."""

    def __init__(self, fabric, dice):
        self.fabric = fabric
        self.dice = dice
        self.kinds = {
            "process": self.process,
            "power": self.power,
            "reboot": self.reboot,
            "cable": self.cable,
            "link module": lambda guest: self.module(guest, LINK),
            "ether module": lambda guest: self.module(guest, ETHER),
            "user module": self.user_module,
            "freeze": self.freeze,
            "memory": self.memory,
            "processor": self.processor,
        }

    def process(self, guest):
        guest.run(f"pkill -9 -x {self.dice.choice(USERS)}", check=False)
        return lambda: None

    def power(self, guest):
        guest.kill()

        def back():
            guest.boot()
            self.load(guest)

        return back

    def reboot(self, guest):
        guest.reboot()
        return lambda: self.load(guest)

    def load(self, guest):
        stack.load(guest, modules=MODULES)
        stack.configure(guest)

    def cable(self, guest):
        self.fabric.unplug(guest)
        return lambda: self.fabric.plug(guest)

    def module(self, guest, name):
        stack.unload(guest, modules=(name,))

        def back():
            stack.load(guest, modules=(name,))
            if name == ETHER:
                stack.configure(guest)

        return back

    def user_module(self, guest):
        # Nobody can open the device while those who have it open end.
        end = "".join(f"pkill -9 -x {name}; " for name in USERS)
        guest.run(
            f"rm {DEVICE}; {end}until rmmod {USER}; do sleep 0.1; done",
            timeout=30 * PATIENCE,
        )
        return lambda: stack.load(guest, modules=(USER,))

    def freeze(self, guest):
        guest.freeze()
        return guest.thaw

    def memory(self, guest):
        # As much as the scratch layer and the kernel give.
        guest.run("head -c 400M /dev/zero > /tmp/pressure; true", timeout=60)
        return lambda: guest.run("rm -f /tmp/pressure")

    def processor(self, guest):
        online = "/sys/devices/system/cpu/cpu1/online"
        if guest.run(f"test -w {online}", check=False).rc != 0:
            return self.cable(guest)
        guest.run(f"echo 0 > {online}")
        return lambda: guest.run(f"echo 1 > {online}")


class Round:
    """One or two hosts to which something happens at the same time."""

    def __init__(self, faults, kinds):
        dice = faults.dice
        hosts = faults.fabric.hosts
        count = 2 if dice.random() < 0.3 else 1
        self.parts = [(guest, next(kinds)) for guest in dice.sample(hosts, count)]
        self.faults = faults
        self.pause = dice.choice((0, 0.3, 1.0, 3.0))

    def __str__(self):
        return ", ".join(f"{kind} of {guest.name}" for guest, kind in self.parts)

    def run(self):
        ends = [self.faults.kinds[kind](guest) for guest, kind in self.parts]
        time.sleep(self.pause)
        for end in ends:
            end()


def resets(guest):
    """How often a link of the host has met what cannot be, by interface; nothing if its modules are
    not there."""
    found = guest.run("cd /sys/kernel/mp/interfaces && grep . */resets", check=False).out
    lines = (line.split("/resets:") for line in found.split())
    return {interface: int(count) for interface, count in lines}


class Watch:
    """All work, and what must be true of it."""

    def __init__(self, fabric):
        self.fabric = fabric
        hosts = fabric.hosts
        interfaces = {}
        for one in hosts:
            lines = one.run("cd /sys/kernel/mp/interfaces; grep . */peer").out.split()
            found = dict(line.split("/peer:") for line in lines)
            by_peer = {peer: int(number, 16) for number, peer in found.items()}
            for other in hosts:
                if other is not one:
                    interfaces[one, other] = by_peer[f"{peer_id(other):08x}"]
        around = list(zip(hosts, hosts[1:] + hosts[:1]))
        self.work = [Node(guest, hosts) for guest in hosts]
        for number, (one, other) in enumerate(around):
            both = interfaces[one, other], interfaces[other, one]
            # In the short run each pair does one of the two.
            if LONG or number % 2 == 0:
                self.work.append(Sessions(one, other, both))
            if LONG or number % 2 == 1:
                self.work.append(Segments(one, other, both, SEED + number))

    def __enter__(self):
        for work in self.work:
            work.start()
        return self

    def __exit__(self, *_):
        for work in self.work:
            work.stopped.set()
        for work in self.work:
            work.join(120 * PATIENCE)

    def assert_all_right(self):
        wrong = [(work.name, work.wrong) for work in self.work if work.wrong]
        assert not wrong, f"CHAOS_SEED={SEED}: delivered: {wrong}"

    def assert_back(self, after):
        """All hosts know each other, and all work gets on."""
        wait_for_everyone(*self.fabric.hosts, timeout=BACK)
        self.assert_honest(after)
        before = [work.done for work in self.work]
        end = time.monotonic() + ON * PATIENCE
        while any(work.done <= was for work, was in zip(self.work, before)):
            self.assert_all_right()
            late = [work for work, was in zip(self.work, before) if work.done <= was]
            assert time.monotonic() < end, f"CHAOS_SEED={SEED}: after {after}: {late}"
            time.sleep(0.05)
        self.assert_all_right()

    def assert_honest(self, after):
        """No host was taken for a liar: all of them are honest, whatever happens to them."""
        for guest in self.fabric.hosts:
            found = resets(guest)
            assert not any(found.values()), f"CHAOS_SEED={SEED}: after {after}: {guest.name}: {found}"


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=HOSTS, **({"cpus": 2} if LONG else {}))
    stack.bring_up(*fabric.hosts)
    stack.load(*fabric.hosts, modules=(USER,))
    wait_for_everyone(*fabric.hosts)
    return fabric


def shuffled(dice, kinds):
    """All kinds again and again, each time in another order."""
    while True:
        some = list(kinds)
        dice.shuffle(some)
        yield from some


@pytest.mark.timeout(900 + 4 * SECONDS)
def test_nothing_wrong_is_delivered_and_everything_comes_back(fabric):
    print(f"CHAOS_SEED={SEED} CHAOS_HOSTS={HOSTS} CHAOS_SECONDS={SECONDS:.0f}")
    dice = random.Random(SEED)
    faults = Faults(fabric, dice)
    kinds = shuffled(dice, faults.kinds)
    rounds = survived = starts = 0
    rest = {guest: windows(guest) for guest in fabric.hosts}
    with Watch(fabric) as watch:
        watch.assert_back("the start")
    watch.assert_all_right()
    # At rest, with all in memory that comes with the first work and stays.
    used = {guest: lasting(guest) for guest in fabric.hosts}
    with Watch(fabric) as watch:
        end = time.monotonic() + SECONDS
        # Each kind comes once at least.
        while time.monotonic() < end or survived < len(faults.kinds):
            one = Round(faults, kinds)
            start = time.monotonic()
            one.run()
            watch.assert_back(one)
            starts += sum(kind in ("power", "reboot") for _, kind in one.parts)
            rounds, survived = rounds + 1, survived + len(one.parts)
            print(f"{one}: back after {time.monotonic() - start:.1f} s")
    watch.assert_all_right()
    for guest in fabric.hosts:
        lost = grown(guest, used[guest])
        assert max(lost.values()) < SLACK, f"CHAOS_SEED={SEED}: {guest.name} has lost {lost}"
        wait_for_windows(guest, rest[guest])
    done = {work.name: work.done for work in watch.work}
    result = {
        "seed": SEED, "seconds": SECONDS, "hosts": HOSTS, "rounds": rounds,
        "faults": survived, "starts": starts, "done": done,
    }  # fmt: skip
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{survived} faults survived, {starts} of them starts of a host; done: {done}")
    assert survived > 0


def wait_for_windows(guest, free, timeout=20):
    """Wait until all memory for windows is free again."""
    end = time.monotonic() + timeout * PATIENCE
    while (now := windows(guest)) != free:
        assert time.monotonic() < end, f"CHAOS_SEED={SEED}: {guest.name}: {now}, not {free}"
        time.sleep(0.2)
