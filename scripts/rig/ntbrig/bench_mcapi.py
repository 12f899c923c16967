# SPDX-License-Identifier: GPL-2.0-only
"""Scalars, packets and messages of MCAPI between nodes of two hosts: what is measured, and against
what windows give by themselves, one after the other in the same guests. Two nodes of one host, with two
processors, are measured in guests of their own: against a cache line that two threads look at, and
against two pipes, for nodes that sleep."""

import json
import time

from . import bench_contenders as contenders
from . import bench_report as report
from . import calls, stack
from .mcapi import configure, measured, playing
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
# In one host: nodes that look, and nodes that sleep, and what they are compared with.
LOCAL = Metric("mcapi_local_latency", "us", None, target=2.0, better="lower")
ASLEEP = Metric("mcapi_local_blocking_latency", "us", None, target=1.0, better="lower")
CACHE_LINE = Metric("cache_line_latency", "us", None, better="lower")
PIPES = Metric("pipes_latency", "us", None, better="lower")
# All threads of both programs, those of the library included, and what was moved meanwhile.
CALLS = Metric("mcapi_system_calls", "calls", None, target=1.0, better="lower")
MOVED = Metric("moved_packets", "hundreds", None)
MEASURED = (
    *(SCALAR, PACKET, MESSAGE, PACKETS, MESSAGES, WORD, LINE, STREAM),
    *(LOCAL, ASLEEP, CACHE_LINE, PIPES, CALLS, MOVED),
)

# Bytes of what counts for latency, and of what counts for its bytes.
_WORD, _LINE, _LONG = 8, 64, 64 << 10
_GRACE = 60.0
# Milliseconds between two round trips of nodes that sleep by then.
_PAUSE = 20


def _measured(guests, seconds, *words):
    """What `mcapi_perf` tells of one kind and size."""
    return measured(guests, seconds + _GRACE, *words)


def _calls(guests, seconds, latency):
    """Samples of the system calls of both programs and of hundreds of packets in so long a part of a
    game, by the metrics' names. A packet takes this latency."""
    with playing(guests, 5 * seconds + _GRACE, "packets", _LINE):
        # Naps of the library's threads grow to what they are.
        time.sleep(1)
        made = sum(thread.calls for thread in calls.watch(guests, "mcapi_perf", seconds))
    return {
        CALLS.name: Sample(made, {}),
        MOVED.name: Sample(seconds * 1e4 / latency, {}),
    }


def measure(interface, seconds):
    """All samples, by the metrics' names. Each is measured for a part of `seconds`."""
    guests = interface.guests
    configure(guests)
    rounds, copies = 5_000 * seconds, 500 * seconds
    word = window(guests, seconds, "--size", _WORD, "--rounds", rounds)
    scalar = _measured(guests, seconds, "scalars", _WORD, rounds)
    line = window(guests, seconds, "--size", _LINE, "--rounds", rounds)
    packet = _measured(guests, seconds, "packets", _LINE, rounds)
    message = _measured(guests, seconds, "messages", _LINE, rounds)
    made = _calls(guests, seconds, packet["median"])
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
        **made,
    }


def _half(guest, program, *words):
    """Half of a round trip of `net-bench`, in microseconds."""
    seconds = words[1]
    out = json.loads(guest.run([program, *words], timeout=seconds + _GRACE).out)
    return out["seconds"] * 1e6 / out["transactions"] / 2


def measure_local(guest, program, seconds):
    """Samples of two nodes of a host with two processors, by the metrics' names."""
    guests = guest, guest
    rounds, sleeps = 5_000 * seconds, 20 * seconds
    line = _half(guest, program, "line", seconds)
    local = _measured(guests, seconds, "scalars", _WORD, rounds)
    pipes = _half(guest, program, "pipe", seconds, _PAUSE / 1000)
    asleep = _measured(guests, seconds + 10, "scalars", _WORD, sleeps, "--pause", _PAUSE)
    return {
        CACHE_LINE.name: Sample(line, {}),
        LOCAL.name: Sample(local["median"], {}),
        PIPES.name: Sample(pipes, {}),
        ASLEEP.name: Sample(asleep["median"], {}),
    }


# What each is compared with.
_AGAINST = (
    *((SCALAR, WORD), (PACKET, LINE), (MESSAGE, LINE)),
    *((PACKETS, STREAM), (MESSAGES, STREAM)),
)
# The same within a host, with the baseline's name and what it is.
_WITHIN = (
    (LOCAL, CACHE_LINE, "line", "two threads on a cache line"),
    (ASLEEP, PIPES, "pipes", "two pipes"),
)


def compare(samples):
    """All results."""
    of = lambda metric: samples.get(("", NAME, metric.name), [])
    for metric, other in _AGAINST:
        name = f"{metric.name}_vs_window"
        yield report.result(name, metric, of(metric), of(other), "window", metric.target)
    name = f"{CALLS.name}_vs_packets"
    yield report.result(name, CALLS, of(CALLS), of(MOVED), "hundreds of packets", CALLS.target)
    for metric, other, name, what in _WITHIN:
        name = f"{metric.name}_vs_{name}"
        yield report.result(name, metric, of(metric), of(other), what, metric.target)
