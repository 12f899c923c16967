# SPDX-License-Identifier: GPL-2.0-only
"""Bridges that lose interrupts or answer with all ones: it costs time, nothing else."""

import contextlib
import time

import pytest
from ntbrig import stack

from frames import TRANSPORT, Receivers, peer_id, send, wait_for_everyone, wait_until_received

# Without this, rings are watched and few interrupts are needed.
NO_BUSY_POLL = "timeout_ms=2000 busy_poll_us=0"


@pytest.fixture(scope="module")
def pair(boot):
    return boot(hosts=2).hosts


@contextlib.contextmanager
def loaded(guests, modules, faults):
    parameters = {"ntb_hw_ivshmem": faults, "pximc_ntb": NO_BUSY_POLL}
    stack.load(*guests, modules=modules, parameters=parameters)
    try:
        wait_for_everyone(*guests, timeout=40)
        yield
    finally:
        stack.unload(*guests, modules=modules)


@pytest.mark.parametrize(
    "faults",
    (
        "lose_doorbells=1",
        "lose_doorbells=3",
        "dead_reads=7",
        "lose_doorbells=5 dead_reads=7",
    ),
)
def test_links_come_up_and_frames_arrive(pair, faults):
    with loaded(pair, TRANSPORT, faults):
        for sender, receiver in (pair, pair[::-1]):
            with Receivers(receiver):
                sent = send(sender, peer_id(receiver), 300, 30000)
                seen = wait_until_received(receiver, 300, timeout=30)
            assert (sent["sent_failed"], seen["received"], seen["corrupt"]) == (0, 300, 0)


def test_a_lost_interrupt_does_not_silence_its_doorbell(pair):
    rp, ep1 = pair
    with loaded(pair, stack.MODULES, "lose_doorbells=25"):
        stack.configure(*pair)
        stack.wait_for_carrier(*pair)
        rp.run(f"ping -q -c 1 -w 10 {stack.address(ep1)}", timeout=20)
        start = time.monotonic()
        out = rp.run(f"ping -q -c 500 -i 0.002 -W 5 {stack.address(ep1)}", timeout=120).out
        # Every answer by the heartbeat, which looks twenty times a second, would take 50 s.
        assert time.monotonic() - start < 20
        assert " 0% packet loss" in out
