# SPDX-License-Identifier: GPL-2.0-only
"""Helpers of the tests that send frames with the test function service.

`mp_func_test` sends frames with a known pattern and checks those it receives;
see rust/mp_func_test.rs for what it counts.
"""

import time
from contextlib import contextmanager

from ntbrig import stack
from ntbrig.settings import PATIENCE

SELF = 0x80000000
BROADCAST = 0xFFFFFFFF
COUNTERS = "/sys/kernel/mp_func_test"
LOWER = ("mp_kernel", "ntb_hw_ivshmem", "mp_transport")
TRANSPORT = (*LOWER, "pximc_ntb")
TEST = ("mp_func_test",)


def wait_for_peers(guest, count, timeout=20):
    stack.wait_for_peers(guest, condition=f"= {count}", timeout=timeout)


def wait_for_everyone(*guests, timeout=20):
    """Wait until all these hosts know each other."""
    stack.wait_for_peers(*guests, condition=f"= {len(guests) - 1}", timeout=timeout)


def peer_id(guest):
    return int(guest.read("/sys/kernel/mp/self"), 16)


def counters(guest):
    lines = guest.run(f"grep . {COUNTERS}/*").out.split()
    pairs = (line.rsplit("/", 1)[1].split(":") for line in lines)
    return {name: int(value) for name, value in pairs}


def peer_counter(guest, peer, name):
    return int(guest.read(f"/sys/kernel/mp/peers/{peer:08x}/{name}"))


def link_counter(guest, peer, name):
    """A counter of the link from one guest to another."""
    return peer_counter(guest, peer_id(peer), f"link/{name}")


def resets(guest, peer):
    """How often a host has ended an epoch because of what that peer wrote."""
    number = f"{peer_id(peer):08x}"
    found = guest.run(
        f"cd /sys/kernel/mp/interfaces; for i in *; do "
        f'[ "$(cat $i/peer)" = {number} ] && cat $i/resets; done; true'
    ).out
    return int(found or 0)


@contextmanager
def no_link_ends(*guests):
    """Inside, no link of these hosts is reset, or comes up anew."""

    def told():
        look = "cat /sys/kernel/mp/interfaces/*/resets; dmesg | grep -c 'is up'"
        return [guest.run(look).out for guest in guests]

    before = told()
    yield
    assert told() == before


@contextmanager
def frozen(guest, *others):
    """Inside, a guest stands still; no link is down or starts over because of that."""
    with no_link_ends(guest, *others):
        guest.freeze()
        try:
            yield
        finally:
            guest.thaw()


class Receivers:
    """Loads the test service on hosts, and unloads it in the end."""

    def __init__(self, *guests):
        self.guests = guests

    def __enter__(self):
        stack.load(*self.guests, modules=TEST)

    def __exit__(self, *_):
        stack.unload(*self.guests, modules=TEST)


def send(guest, dst, count, size, priority=0, timeout=60):
    """Send frames and return what the sender counted in the end."""
    order = f"dst={dst} count={count} size={size} priority={priority}"
    stack.load(guest, modules=TEST, parameters={"mp_func_test": order})
    try:
        stack.wait_until(stack.holds(f"{COUNTERS}/done", "= 1"), guest, timeout=timeout)
        return counters(guest)
    finally:
        stack.unload(guest, modules=TEST)


def wait_until_received(guest, count, timeout=10):
    """Wait until so many frames have arrived, which they must; what the guest has counted."""
    deadline = time.monotonic() + timeout * PATIENCE
    while int(guest.read(f"{COUNTERS}/received")) < count:
        assert time.monotonic() < deadline, f"{guest.name}: {counters(guest)}, not {count}"
        time.sleep(0.02)
    return counters(guest)
