# SPDX-License-Identifier: GPL-2.0-only
"""Programs that nobody changed, over SMC: iperf3 and sockperf, against TCP."""

import re

from . import bench_contenders as contenders
from . import bench_metrics as metrics
from . import bench_report as report
from . import smc
from .bench_metrics import Metric, Sample

# Whose samples they are, those of what is compared with them included.
NAME = "smc"
CONTENDER = contenders.Ours(*smc.MODULES)

STREAM = Metric("smc_stream", "Mbit/s", None)
RATE = Metric("smc_rr", "1/s", None)
# Of TCP, by whom it is carried.
TCP = Metric("tcp_stream", "Mbit/s", None)
TCP_RATE = Metric("tcp_rr", "1/s", None)
TUNED = Metric("tuned_stream", "Mbit/s", None)
TUNED_RATE = Metric("tuned_rr", "1/s", None)
MEASURED = (STREAM, RATE, TCP, TCP_RATE, TUNED, TUNED_RATE)

_PORT = 5011
_GRACE = 30.0
# What sockperf tells of half a round trip, in microseconds.
_LATENCY = re.compile(r"avg-latency=([\d.]+)")


def round_trips(out):
    """Round trips per second, by what sockperf tells."""
    return 1e6 / (2 * float(_LATENCY.search(out)[1]))


def _sockperf(interface, seconds, run):
    """Messages of 14 bytes, the smallest, there and back, one after the other."""
    sender, receiver = interface.guests
    where = f"--tcp -i {interface.peer} -p {_PORT}"
    server = receiver.spawn(f"{run}sockperf server {where}", timeout=seconds + _GRACE)
    try:
        server.wait_for_output("to block on socket")
        command = f"{run}sockperf ping-pong {where} -t {seconds}"
        return Sample(round_trips(sender.run(command, timeout=seconds + _GRACE).out), {})
    finally:
        server.kill()
        server.wait()


def _both(interface, seconds, stream, rate, run=""):
    return {
        stream.name: metrics.tcp_stream(interface, seconds, run),
        rate.name: _sockperf(interface, seconds, run),
    }


def _sent(guest):
    return int(guest.read(f"{smc.COUNTERS}/sent_bytes"))


def measure(interface, seconds):
    """All samples that need the fabric, by the metrics' names."""
    guests = interface.guests
    for guest in guests:
        smc.ntbctl(guest, "smc identify")
    smc.wait_for_partners(*guests)
    taken = _both(interface, seconds, TCP, TCP_RATE)
    before = _sent(guests[0])
    for metric, action in (
        (STREAM, lambda: metrics.tcp_stream(interface, seconds, smc.preloaded(""))),
        (RATE, lambda: _sockperf(interface, seconds, smc.preloaded(""))),
    ):
        taken[metric.name] = action()
        after = _sent(guests[0])
        if after - before < 1000:
            raise ValueError(f"{metric.name} did not go through the window")
        before = after
    return taken


def measure_mainline(interface, seconds):
    """Those of mainline's Ethernet."""
    return _both(interface, seconds, TUNED, TUNED_RATE)


def compare(samples):
    """All results."""
    of = lambda metric: samples.get(("", NAME, metric.name), [])
    for metric, kind, other, what, target in (
        (STREAM, "tcp", TCP, "TCP over ntb0", 1.5),
        (STREAM, "tuned", TUNED, "TCP over ntb_netdev at its best", 3.0),
        (RATE, "tcp", TCP_RATE, "TCP over ntb0", 1.4),
        (RATE, "tuned", TUNED_RATE, "TCP over ntb_netdev at its best", None),
    ):
        yield report.result(f"{metric.name}_vs_{kind}", metric, of(metric), of(other), what, target)
