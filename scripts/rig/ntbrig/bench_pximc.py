# SPDX-License-Identifier: GPL-2.0-only
"""Processes that share memory by PXImc: what is measured, and against what.

The fabric is loaded with everything that it has, so TCP over `ntb0` can be measured
next to the processes.
"""

import json

from . import bench_contenders as contenders
from . import bench_metrics as metrics
from . import bench_report as report
from . import stack
from .bench_metrics import Metric, Sample
from .settings import MIB, programs_dir

# Whose samples they are, those of what is compared with them included.
NAME = "pximc"
CONTENDER = contenders.Ours(stack.USER)

WRITE = Metric("pximc_window_write", "MB/s", None, target=0.95)
WINDOW = Metric("pximc_window_latency", "us", None, better="lower")
EVENT = Metric("pximc_event_latency", "us", None, better="lower")
PAIRING = Metric("pximc_pairing_rate", "1/s", None)
DOORBELL = Metric("doorbell", "us", None, better="lower")
SWITCH = Metric("context_switch", "us", None, better="lower")
CONNECT = Metric("tcp_connect", "1/s", metrics.tcp_connect)
MEASURED = (WRITE, WINDOW, EVENT, PAIRING, DOORBELL, SWITCH, CONNECT)

# An event may cost as many times what the doorbell costs on its way, and has to
# switch to the process that waits.
_MOST_DOORBELLS = 1.3

_WINDOW = 2 * MIB
_GRACE = 60.0


class PingPong:
    """`pxi_pingpong` between processes of two guests."""

    def __init__(self, guests, seconds):
        self._client, self._server = guests
        self._limit = seconds + _GRACE
        self._program = programs_dir() / "examples/pxi_pingpong"

    def measure(self, kind, option, count, *more):
        """What the client tells of one kind of measurement."""
        common = ("--size", _WINDOW)
        server = self._server.spawn([self._program, "server", *common], timeout=self._limit)
        try:
            argv = [self._program, "client", "--json", "--only", kind, option, count, *more, *common]
            return json.loads(self._client.run(argv, timeout=self._limit).out)
        finally:
            server.kill()
            server.wait()


def measure(interface, seconds):
    """All samples that need the fabric, by the metrics' names. Rates are measured for
    about `seconds`, round trips for a fraction of that."""
    pingpong = PingPong(interface.guests, seconds)
    # As many bytes as `ntb_perf`, from four places of the source.
    written = pingpong.measure("writing", "--writes", 256 * MIB // _WINDOW // 4)["write_mb_s"]
    polled = pingpong.measure("polling", "--rounds", 50_000 * seconds)["polling_us"]
    events = pingpong.measure("events", "--rounds", 3_000 * seconds)["event_us"]
    paired = pingpong.measure("pairing", "--pairings", 200 * seconds)["pairings_s"]
    return {
        WRITE.name: Sample(written["best"], {"worst": written["worst"]}),
        WINDOW.name: Sample(polled["median"] / 2, {}),
        EVENT.name: Sample(events["median"] / 2, {}),
        PAIRING.name: Sample(paired, {}),
        CONNECT.name: metrics.tcp_connect(interface, seconds),
        SWITCH.name: metrics.context_switch(interface.guests[0], interface.program, 1),
    }


def _half_round_trips(rates):
    """One way in microseconds, of round trips per second."""
    return [Sample(0.5e6 / rate.value, {}) if rate and rate.value else None for rate in rates]


def _allowed(doorbells, switches):
    """What an event may take."""
    notes = lambda bell, switch: {"doorbell": bell.value, "context_switch": switch.value}
    return [
        Sample(_MOST_DOORBELLS * bell.value + switch.value, notes(bell, switch))
        if bell and switch
        else None
        for bell, switch in zip(doorbells, switches)
    ]


def compare(samples, tcp_rr):
    """All results but those against `ntb_perf`; `tcp_rr` are the samples of requests and
    responses over interfaces, by name."""
    of = lambda metric: samples.get(("", NAME, metric.name), [])
    row = lambda metric, kind, theirs, name, target=None: report.result(
        f"{metric.name}_vs_{kind}", metric, of(metric), theirs, name, target
    )
    doorbells = of(DOORBELL)
    allowed = _allowed(doorbells, of(SWITCH))
    limit = f"{_MOST_DOORBELLS} x half a round trip of ntb_pingpong, and a context switch"
    yield row(EVENT, "allowed", allowed, limit, 1.0)
    yield row(EVENT, "doorbell", doorbells, "ntb_pingpong, half a round trip")
    for metric in (EVENT, WINDOW):
        for name, rates in tcp_rr.items():
            kind = name.split()[0]
            baseline = f"TCP over {name}, half a round trip"
            yield row(metric, kind, _half_round_trips(rates), baseline)
    yield row(PAIRING, "tcp", of(CONNECT), "TCP over ntb0, connections")
