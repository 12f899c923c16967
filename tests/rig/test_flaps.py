# SPDX-License-Identifier: GPL-2.0-only
"""Cables that are taken out and put in again, under traffic."""

import os
import random
import threading
import time

import pytest
from ntbrig import stack

from ether import ping, stream
from frames import wait_for_everyone, wait_for_peers
from memory import grown, lasting

pytestmark = pytest.mark.alone

FLAPS = 500 if os.environ.get("LONG") == "1" else 5
# Seconds without a cable, and with it at least and at most: never the same, or else TCP, which
# asks once a second, could find each outage one after the other.
OUT, IN = 0.1, (0.5, 2.0)
# Bytes of memory by which a host may differ at rest.
SLACK = 4 << 20
# Links are away for a quarter of the time. What TCP sends again after longer and longer pauses
# could meet six outages in a row, and 20 seconds would have passed; with pauses of a second,
# and neighbours that are asked for in every one of them for as long, a stream that stands still
# for so long is stuck.
RETRIES = (
    "sysctl -w net.ipv4.tcp_rto_max_ms=1000"
    " net.ipv4.neigh.ntb0.retrans_time_ms=100 net.ipv4.neigh.ntb0.mcast_solicit=200"
)


@pytest.fixture(scope="module", params=(pytest.param("switch", marks=pytest.mark.long), "star"))
def fabric(request, boot):
    fabric = boot(hosts=3, topology=request.param)
    stack.bring_up(*fabric.hosts)
    wait_for_everyone(*fabric.hosts)
    for guest in fabric.hosts:
        guest.run(RETRIES)
    yield fabric
    boot.end(fabric)


def test_a_host_without_cable_is_missed_and_found_again(fabric):
    rp, first, last = fabric.hosts
    fabric.unplug(last)
    wait_for_peers(rp, 1)
    wait_for_peers(last, 0)
    ping(first, stack.address(rp))
    fabric.plug(last)
    wait_for_everyone(*fabric.hosts)
    ping(last, stack.address(first))


class Streams(threading.Thread):
    """Verified streams from each host to the next, one after the other."""

    def __init__(self, hosts):
        super().__init__(daemon=True)
        self.pairs = list(zip(hosts, hosts[1:] + hosts[:1]))
        self.rounds = 0
        self.error = None
        self.stopped = threading.Event()

    def run(self):
        try:
            while not self.stopped.is_set():
                for source, sink in self.pairs:
                    stream(source, sink, mib=8, timeout=300)
                self.rounds += 1
        except BaseException as error:
            self.error = error

    def __exit__(self, *_):
        self.stopped.set()
        self.join(300)
        assert not self.is_alive()

    def __enter__(self):
        self.start()
        return self


@pytest.mark.timeout(60 + 4 * FLAPS)
def test_streams_survive_cables_that_flap_and_no_memory_is_lost(fabric):
    dice = random.Random(FLAPS)
    before = [lasting(guest) for guest in fabric.hosts]
    with Streams(fabric.hosts) as streams:
        for _ in range(FLAPS):
            guest = dice.choice(fabric.hosts)
            fabric.unplug(guest)
            time.sleep(OUT)
            fabric.plug(guest)
            time.sleep(dice.uniform(*IN))
            assert streams.error is None
    assert streams.error is None and streams.rounds > 0
    wait_for_everyone(*fabric.hosts)
    for guest, used in zip(fabric.hosts, before):
        more = grown(guest, used)
        assert max(more.values()) < SLACK, f"{guest.name} has lost {more}"
