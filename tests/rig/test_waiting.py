# SPDX-License-Identifier: GPL-2.0-only
"""Processes that wait in calls of the device: signals end those calls that may be made again, and a
waiting process can be stopped and frozen."""

import errno

import pytest
import sharing
from ntbrig import stack
from pximc import MODULES
from sharing import FOREVER, MP, PAST, fails
from shell import until

PAGE = 4096
PROTOCOL = 0xF1110009
WORD, ARM = 256, 512
GROUP = "/sys/fs/cgroup/waiting"


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    return fabric


class Waits:
    """A process that begins to wait, and what ends that: (call of it, how that is ended)."""

    def __init__(self, owner, user, here, deadline=FOREVER):
        self.owner, self.user, self.here, self.deadline = owner, user, here, deadline

    def _offered(self, kind):
        """What the owner offers, and the user's connection to it."""
        return self.owner.offer(self.here, kind, 1), self.user.connect(self.here, kind, 1)

    def wait(self):
        event, to = self._offered(MP.OBJECT_EVENT)
        fields = {"target": event, "mask": MP.EVENT_SIGNAL, "deadline": self.deadline}
        return self.owner.later("WAIT", "mp_wait", **fields), lambda: self.user.signal(to)

    def notice(self):
        segment = self.owner.segment(2, PAGE, self.here)
        call = self.owner.later("NOTICE", "mp_notice", handle=segment, deadline=self.deadline)
        return call, lambda: self.user.connect(self.here, MP.OBJECT_SEGMENT, 2)

    def receive(self):
        port, to = self._offered(MP.OBJECT_PORT)
        fields = {"handle": port, "data": self.owner.buffer, "length": 64, "deadline": self.deadline}
        return self.owner.later("RECEIVE", "mp_message", **fields), lambda: self.user.send(to, b"x")

    def send(self):
        """The one who sends is the one who waits."""
        port, to = self._offered(MP.OBJECT_PORT)
        self.owner, self.user = self.user, self.owner
        message = {"handle": to, "data": self.owner.buffer, "length": 64}
        until(lambda: self.owner.repeat(1000, "SEND", "mp_message", deadline=PAST, **message) == 0)
        call = self.owner.later("SEND", "mp_message", deadline=self.deadline, **message)
        return call, lambda: self.user.receive(port)

    def park(self):
        fields = {"location": 1, "protocol": PROTOCOL, "local_max": PAGE, "remote_max": PAGE}
        for process, role in ((self.user, 1), (self.owner, 2)):
            opened = process.call(
                "SESSION_OPEN", "mp_session_open", role=role, interface=self.here, **fields
            )
            process.session = opened.handle
        self.user.wait(self.user.session, MP.EVENT_PAIRED)
        entry = {"handle": self.owner.session, "word": WORD, "arm": ARM, "arm_value": 5}
        data, _ = self.owner._structure("mp_park_entry", entry)
        self.owner.write(self.owner.buffer, bytes.fromhex(data))
        entries = {"entries": self.owner.buffer, "count": 1, "deadline": self.deadline}
        call = self.owner.later("PARK", "mp_park", **entries)
        return call, lambda: self.user.signal(self.user.session)

    def records(self):
        event, to = self._offered(MP.OBJECT_EVENT)
        self.owner.call("WATCH", "mp_watch", target=event, mask=MP.EVENT_SIGNAL)
        return self.owner.read_events(64), lambda: self.user.signal(to)


CALLS = ("wait", "notice", "receive", "send", "park", "records")


@pytest.fixture(params=CALLS)
def waiting(request, fabric):
    """A process that waits, its call, and what ends that."""
    with sharing.Process(fabric.rp) as owner, sharing.Process(fabric.rp) as user:
        here = owner.interface(loopback=True)
        owner.wait_until_up(here)
        waits = Waits(owner, user, here)
        call, finish = getattr(waits, request.param)()
        # The program has begun with it.
        waits.owner.read(waits.owner.buffer, 1)
        waits.owner.until_asleep()
        assert not call.returned()
        yield waits.owner, call, finish


def test_a_signal_ends_a_wait_that_may_be_made_again(fabric, waiting):
    process, call, _ = waiting
    fabric.rp.run(f"kill -USR1 {process.pid}")
    with fails(errno.EINTR):
        call.result()


def test_a_wait_goes_on_behind_a_handler_that_says_so(fabric, waiting):
    process, call, finish = waiting
    handled = lambda: fabric.rp.read(f"/proc/{process.pid}/status")
    for _ in range(3):
        fabric.rp.run(f"kill -USR2 {process.pid}")
        until(lambda: "ShdPnd:\t0000000000000000" in handled())
        process.until_asleep()
    assert not call.returned()
    finish()
    call.result()


def test_a_process_that_waits_is_stopped_at_once(fabric, waiting):
    process, call, finish = waiting
    states = f"cut -d' ' -f3 /proc/{process.pid}/task/*/stat"
    fabric.rp.run(f"kill -STOP {process.pid}")
    until(lambda: set(fabric.rp.run(states).out.split()) == {"T"}, timeout=5)
    fabric.rp.run(f"kill -CONT {process.pid}")
    process.until_asleep()
    assert not call.returned()
    finish()
    call.result()


# --- time namespaces

# How far the clock there is ahead, in seconds.
AHEAD = 36_000
# The same of one that is behind; it cannot be by more than the host is up.
BEHIND = -3
WITH_DEADLINES = tuple(call for call in CALLS if call != "records")


def uptime(guest):
    return float(guest.read("/proc/uptime").split()[0])


def waits_elsewhen(fabric, call, ahead):
    """Begin a wait of a process whose clock is ahead, with a deadline by that clock, which is so
    many seconds from now; its call, and when that is by the clock of the host."""
    how = ("unshare", "--time", "--monotonic", str(ahead))
    until(lambda: uptime(fabric.rp) > -ahead)
    process = lambda: sharing.Process(fabric.rp, how=how)
    with process() as owner, process() as user:
        here = owner.interface(loopback=True)
        owner.wait_until_up(here)

        def begin(seconds):
            at = uptime(fabric.rp) + seconds
            waits = Waits(owner, user, here, int((at + ahead) * 1e9))
            return getattr(waits, call)()[0], at

        yield begin


@pytest.fixture(params=WITH_DEADLINES)
def waits_ahead(request, fabric):
    yield from waits_elsewhen(fabric, request.param, AHEAD)


@pytest.fixture(params=WITH_DEADLINES)
def waits_behind(request, fabric):
    yield from waits_elsewhen(fabric, request.param, BEHIND)


def test_a_deadline_is_one_of_a_clock_that_is_behind(fabric, waits_behind):
    """The clock of the host has passed it when the call begins."""
    call, at = waits_behind(1)
    with fails(errno.ETIMEDOUT):
        call.result()
    assert uptime(fabric.rp) >= at


def test_a_deadline_is_one_of_the_clock_of_its_process(fabric, waits_ahead):
    call, at = waits_ahead(1)
    with fails(errno.ETIMEDOUT):
        call.result()
    assert uptime(fabric.rp) >= at


def test_a_deadline_that_has_passed_on_the_clock_of_its_process_has_passed(waits_ahead):
    """Though the clock of the host has not come there yet."""
    call, _ = waits_ahead(-AHEAD // 2)
    with fails(errno.ETIMEDOUT):
        call.result()


# --- the freezer


def test_a_process_that_waits_is_frozen_with_its_cgroup(fabric, waiting):
    process, call, finish = waiting
    guest = fabric.rp
    guest.run(f"mkdir -p {GROUP} && echo {process.pid} > {GROUP}/cgroup.procs")
    try:
        guest.run(f"echo 1 > {GROUP}/cgroup.freeze")
        until(lambda: "frozen 1" in guest.read(f"{GROUP}/cgroup.events"), timeout=5)
    finally:
        guest.run(f"echo 0 > {GROUP}/cgroup.freeze")
    process.until_asleep()
    assert not call.returned()
    finish()
    call.result()
