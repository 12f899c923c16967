# SPDX-License-Identifier: GPL-2.0-only
"""Wake-ups over a bridge on which writes take their time: an index and an event index may cross."""

import contextlib

import pytest
from ntbrig import stack

from frames import link_counter, wait_for_everyone

pytestmark = pytest.mark.alone

# Much longer than a processor takes from an interrupt to its poll, as on a bridge.
POSTED_US = 100
# There and back, and what emulated processors on a busy machine add to it.
LOOK_US = 5000
# Small rings fill up often; without lingering each pause is a sleep. With such a heartbeat,
# what it finds has been lost, and is not only late because the machine is busy.
SETTINGS = "timeout_ms=5000 heartbeat_ms=500 busy_poll_us=0 memory_kib=512 queues=1"
# What a sleep that lasts too long costs on average: less with the second look, more without, where
# it is half of a heartbeat.
COST_US = 100_000


@pytest.fixture(scope="module")
def pair(boot):
    return boot(hosts=2).hosts


@contextlib.contextmanager
def loaded(guests, settings):
    parameters = {"mp_kernel": f"posted_us={POSTED_US}", "pximc_ntb": settings}
    stack.load(*guests, parameters=parameters)
    try:
        stack.configure(*guests)
        wait_for_everyone(*guests, timeout=40)
        stack.wait_for_carrier(*guests)
        yield
    finally:
        stack.unload(*guests)


def writes_that_came_late(guests):
    """How many writes were under way for longer than a second look allows for: the machine is busy."""
    log = (guest.run("dmesg | grep 'have reached peers too late' | tail -n 1").out for guest in guests)
    return sum(int(line.split("mp_kernel: ")[1].split()[0]) for line in log)


def wakeups(guests):
    """What the sleeps of both ends have cost."""
    ends = (guests, guests[::-1])
    names = ("crossed_wakeups", "late_wakeups", "wakeup_delay_us")
    return {name: sum(link_counter(*end, name) for end in ends) for name in names}


def cost(guests, traffic):
    """What `traffic` has cost in sleeps that lasted too long."""
    before = wakeups(guests)
    traffic(*guests)
    after = wakeups(guests)
    return {name: after[name] - before[name] for name in after}


def request_response(rp, ep1):
    """Several questions under way, each with an answer, at any distance in time."""
    to = stack.address(ep1)
    flows = " & ".join(f"ping -q -c 800 -i 0.00{n} -s 56 {to}" for n in (2, 3, 4))
    rp.run(f"ping -q -c 1 -w 10 {to} && ({flows} & wait)", timeout=120)


def stream(rp, ep1):
    """As much as the ring takes."""
    server = ep1.spawn("iperf3 -s -1 -p 5300", timeout=60)
    stack.wait_until("ss -ltn | grep -q :5300", ep1)
    rp.run(f"iperf3 -c {stack.address(ep1)} -p 5300 -t 4 -P 2", timeout=60)
    server.wait().check()


TRAFFIC = (request_response, stream)


@pytest.mark.parametrize("traffic", TRAFFIC)
def test_no_sleep_lasts_until_the_heartbeat(pair, traffic):
    with loaded(pair, f"{SETTINGS} recheck_us={LOOK_US}"):
        lost = cost(pair, traffic)
    excused = writes_that_came_late(pair)
    print(f"{traffic.__name__}: {lost}, {excused} writes came late")
    assert lost["late_wakeups"] <= excused, lost
    # What is found late is counted. Of a crossing that is the time since there was nothing to do for
    # the last time, which a heartbeat may have seen after the sleep had begun.
    assert bool(lost["crossed_wakeups"]) <= bool(lost["wakeup_delay_us"]), lost
    # It is the time until the second look, and not much more.
    if not lost["late_wakeups"]:
        assert lost["wakeup_delay_us"] <= lost["crossed_wakeups"] * COST_US, lost


@pytest.mark.parametrize("traffic", TRAFFIC)
def test_with_the_first_wire_version_sleeps_do(pair, traffic):
    """What the test above would find."""
    with loaded(pair, f"{SETTINGS} recheck_us=0 wire_newest=1"):
        lost = cost(pair, traffic)
    print(f"{traffic.__name__}, version 1: {lost}")
    assert lost["wakeup_delay_us"] > lost["late_wakeups"] * COST_US > 0, lost
