# SPDX-License-Identifier: GPL-2.0-only
"""Scalars, packets and messages of MCAPI between nodes of two hosts: what is measured, and against
what windows give by themselves, one after the other in the same guests."""

import json

from . import bench_contenders as contenders
from . import bench_report as report
from . import mcapi, stack
from .bench_metrics import Metric, Sample
from .bench_vi import window

# Whose samples they are, those of what is compared with them included.
NAME = "mcapi"
CONTENDER = contenders.Ours(stack.USER)

SCALAR = Metric("mcapi_scalar_latency", "us", None, target=2.0, better="lower")
PACKET = Metric("mcapi_packet_latency", "us", None, target=2.0, better="lower")
MESSAGE = Metric("mcapi_message_latency", "us", None, target=2.5, better="lower")
PACKETS = Metric("mcapi_packet_bandwidth", "MB/s", None, target=0.85)
MESSAGES = Metric("mcapi_message_bandwidth", "MB/s", None)
# Of windows, with messages of eight bytes, of 64 bytes, and one after the other.
WORD = Metric("raw_word_latency", "us", None, better="lower")
LINE = Metric("raw_line_latency", "us", None, better="lower")
STREAM = Metric("raw_stream_bandwidth", "MB/s", None)
MEASURED = (SCALAR, PACKET, MESSAGE, PACKETS, MESSAGES, WORD, LINE, STREAM)

# Bytes of what counts for latency, and of what counts for its bytes.
_WORD, _LINE, _LONG = 8, 64, 64 << 10
_SERVER, _CLIENT = 1, 2
_GRACE = 60.0


def _measured(guests, seconds, kind, size, rounds):
    """What `mcapi_perf` tells of one kind and size."""
    here, there = guests
    program, timeout = mcapi.example("mcapi_perf"), seconds + _GRACE
    serving = there.spawn([program, "server", _SERVER], timeout=timeout, env=mcapi.ENV)
    try:
        words = ("--kind", kind, "--sizes", size, "--rounds", rounds, "--json")
        client = [program, "client", _CLIENT, _SERVER, *words]
        return json.loads(here.run(client, timeout=timeout, env=mcapi.ENV).out)
    finally:
        serving.kill()
        serving.wait()


def measure(interface, seconds):
    """All samples, by the metrics' names. Each is measured for a part of `seconds`."""
    guests = interface.guests
    mcapi.configure(guests)
    rounds, copies = 5_000 * seconds, 500 * seconds
    word = window(guests, seconds, "--size", _WORD, "--rounds", rounds)
    scalar = _measured(guests, seconds, "scalars", _WORD, rounds)
    line = window(guests, seconds, "--size", _LINE, "--rounds", rounds)
    packet = _measured(guests, seconds, "packets", _LINE, rounds)
    message = _measured(guests, seconds, "messages", _LINE, rounds)
    stream = window(guests, seconds, "--size", _LONG, "--stream", copies)
    packets = _measured(guests, seconds, "packets", _LONG, copies)
    messages = _measured(guests, seconds, "messages", _LONG, copies)
    return {
        WORD.name: Sample(word["one_way_us"], {}),
        SCALAR.name: Sample(scalar["median"], {}),
        LINE.name: Sample(line["one_way_us"], {}),
        PACKET.name: Sample(packet["median"], {}),
        MESSAGE.name: Sample(message["median"], {}),
        STREAM.name: Sample(stream["mb_s"], {}),
        PACKETS.name: Sample(packets["mb_s"], {}),
        MESSAGES.name: Sample(messages["mb_s"], {}),
    }


# What each is compared with.
_AGAINST = (
    *((SCALAR, WORD), (PACKET, LINE), (MESSAGE, LINE)),
    *((PACKETS, STREAM), (MESSAGES, STREAM)),
)


def compare(samples):
    """All results."""
    of = lambda metric: samples.get(("", NAME, metric.name), [])
    for metric, other in _AGAINST:
        name = f"{metric.name}_vs_window"
        yield report.result(name, metric, of(metric), of(other), "window", metric.target)
