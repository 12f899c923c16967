# SPDX-License-Identifier: GPL-2.0-only
"""Messages of processes by ports: what is measured, and against what.

TCP does the same job: over `ntb0` in the same guests, and over mainline's Ethernet in turn.
"""

import json

from . import bench_contenders as contenders
from . import bench_metrics as metrics
from . import bench_report as report
from . import stack
from .bench_metrics import Metric, Sample
from .settings import programs_dir

# Whose samples they are, those of what is compared with them included.
NAME = "ports"
CONTENDER = contenders.Ours(stack.USER)

LATENCY = Metric("ports_message_latency", "us", None, better="lower")
RATE = Metric("ports_messages_64b", "1/s", None)
# Of TCP, by whom it is carried.
TCP = Metric("tcp_one_way", "us", None, better="lower")
TCP_RATE = Metric("tcp_messages_64b", "1/s", None)
MAINLINE = Metric("mainline_one_way", "us", None, better="lower")
MAINLINE_RATE = Metric("mainline_messages_64b", "1/s", None)
MEASURED = (LATENCY, RATE, TCP, TCP_RATE, MAINLINE, MAINLINE_RATE)

_SIZE = 64
_GRACE = 60.0


def play(guests, seconds):
    """What `messages` tells, between processes of two guests."""
    player, server = guests
    program = programs_dir() / "examples/messages"
    limit = seconds + _GRACE
    serving = server.spawn([program, "serve"], timeout=limit)
    try:
        serving.wait_for_output("ready")
        words = ["play", 300 * seconds, 3_000 * seconds, _SIZE]
        return json.loads(player.run([program, *words], timeout=limit).out)
    finally:
        serving.kill()
        serving.wait()


def _tcp(interface, seconds, latency, rate):
    """Samples of TCP, by the names of both metrics."""
    requests = metrics.tcp_rr(interface, seconds)
    return {
        latency.name: Sample(0.5e6 / requests.value, {}),
        rate.name: metrics.tcp_messages(interface, seconds, _SIZE),
    }


def measure(interface, seconds):
    """All samples that need the fabric, by the metrics' names."""
    told = play(interface.guests, seconds)
    return {
        LATENCY.name: Sample(told["one_way_us"], {}),
        RATE.name: Sample(told["messages_s"], {}),
        **_tcp(interface, seconds, TCP, TCP_RATE),
    }


def measure_mainline(interface, seconds):
    """Those of mainline's Ethernet."""
    return _tcp(interface, seconds, MAINLINE, MAINLINE_RATE)


def compare(samples):
    """All results."""
    of = lambda metric: samples.get(("", NAME, metric.name), [])
    for metric, kind, other, what in (
        (LATENCY, "ntb0", TCP, "TCP over ntb0, half a round trip"),
        (LATENCY, "mainline", MAINLINE, "TCP over ntb_netdev at its best, half a round trip"),
        (RATE, "ntb0", TCP_RATE, "TCP over ntb0, a call for each message"),
        (RATE, "mainline", MAINLINE_RATE, "TCP over ntb_netdev at its best, a call for each message"),
    ):
        yield report.result(f"{metric.name}_vs_{kind}", metric, of(metric), of(other), what, None)
