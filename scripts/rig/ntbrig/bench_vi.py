# SPDX-License-Identifier: GPL-2.0-only
"""Messages and remote writes between processes: what is measured, and against what windows give by
themselves.

They are those of VI, by programs on its library, and those of the queue pairs that it is built on.
All of it is measured one after the other, in the same guests. Sends of VI between two endpoints of a
star, whose root processor forwards them, are measured in guests of their own, against TCP between
the same two.
"""

import json

from . import bench_contenders as contenders
from . import bench_metrics as metrics
from . import bench_report as report
from . import sisci, stack
from . import vipl as virtual
from .agent import CommandFailed
from .bench_metrics import Metric, Sample
from .bench_pximc import PingPong
from .settings import MIB, programs_dir

# Whose samples they are, those of what is compared with them included.
NAME = "vi"
CONTENDER = contenders.Ours(stack.USER)

LATENCY = Metric("vi_send_latency", "us", None, target=1.5, better="lower")
BANDWIDTH = Metric("vi_send_bandwidth", "MB/s", None, target=0.9)
WRITE = Metric("vi_rdma_write_latency", "us", None, target=1.15, better="lower")
WRITES = Metric("vi_rdma_write_bandwidth", "MB/s", None, target=0.9)
MESSAGES = Metric("vi_messages_8b", "1/s", None)
BLOCKING = Metric("vi_blocking_latency", "us", None, target=1.3, better="lower")
QP_LATENCY = Metric("qp_latency", "us", None, better="lower")
QP_BANDWIDTH = Metric("qp_bandwidth", "MB/s", None)
QP_WRITE = Metric("qp_write_latency", "us", None, better="lower")
QP_WRITES = Metric("qp_write_bandwidth", "MB/s", None)
QP_MESSAGES = Metric("qp_messages_8b", "1/s", None)
QP_BLOCKING = Metric("qp_blocking_latency", "us", None, target=1.3, better="lower")
WINDOW = Metric("raw_message_latency", "us", None, better="lower")
STORES = Metric("raw_store_latency", "us", None, better="lower")
STREAM = Metric("raw_message_bandwidth", "MB/s", None)
RATE = Metric("raw_messages_8b", "1/s", None)
EVENT = Metric("raw_signal_latency", "us", None, better="lower")
TCP = Metric("tcp_one_way", "us", None, better="lower")
TCP_STREAM = Metric("tcp_bytes", "MB/s", None)
TCP_MESSAGES = Metric("tcp_messages_8b", "1/s", None)
STAR = Metric("vi_star_latency", "us", None, better="lower")
STAR_BYTES = Metric("vi_star_bandwidth", "MB/s", None)
STAR_TCP = Metric("tcp_star_one_way", "us", None, better="lower")
STAR_TCP_STREAM = Metric("tcp_star_bytes", "MB/s", None)
MEASURED = (
    *(LATENCY, BANDWIDTH, WRITE, WRITES, MESSAGES, BLOCKING),
    *(QP_LATENCY, QP_BANDWIDTH, QP_WRITE, QP_WRITES, QP_MESSAGES, QP_BLOCKING),
    *(WINDOW, STORES, STREAM, RATE, EVENT, TCP, TCP_STREAM, TCP_MESSAGES),
    *(STAR, STAR_BYTES, STAR_TCP, STAR_TCP_STREAM),
)

# Microseconds between messages to a process that sleeps: it looks for less before it does. As many
# between signals, so that a guest on which nothing happens is woken by both.
_PAUSE = 20_000
# Round trips with pauses, in a second.
_SLEEPS = 50
# Bytes of a message that counts for its latency, and of one that counts for its bytes.
_SHORT, _LONG = 8, 64 << 10
_NODES = (4, 8)
_GRACE = 60.0


def _told(guests, seconds, server, client):
    """What a client tells in JSON, with a server on the other guest."""
    here, there = guests
    serving = there.spawn(server, timeout=seconds + _GRACE)
    try:
        return json.loads(here.run(client, timeout=seconds + _GRACE).out)
    finally:
        serving.kill()
        serving.wait()


def window(guests, seconds, *options):
    """What windows of a session give without any library, by `examples/window`."""
    program = programs_dir() / "window"
    return _told(guests, seconds, [program, "server"], [program, "client", *options])


def _messages(guests, seconds, *options, both=()):
    program = programs_dir() / "examples/qp_pingpong"
    client = [program, "client", "--json", "--messages", 0, *both, *options]
    return _told(guests, seconds, [program, "server", *both], client)


def _operations(guests, seconds, operation, kind, size, rounds, *options):
    """What `vi_perf` measures of an operation of VI."""
    here, there = guests
    virtual.configure(guests)
    program = virtual.tool("vi_perf")
    words = ("--only", kind, "--operations", operation, "--sizes", size)
    words += ("--rounds", rounds, "--json", *options)
    timeout = seconds + _GRACE
    serving = there.spawn(
        [program, "server", "--once", *options], timeout=timeout, env=virtual.ENV
    )
    try:
        client = [program, "client", there.name, *words]
        return json.loads(here.run(client, timeout=timeout, env=virtual.ENV).out)
    finally:
        serving.kill()
        serving.wait()


def _scipp(guests, seconds, rounds):
    nodes = dict(zip(_NODES, guests))
    sisci.configure(nodes)
    words = ("--sizes", _SHORT, "--rounds", rounds)
    lines = sisci.play(sisci.tool("scipp"), nodes, *words, timeout=seconds + _GRACE)
    if not lines:
        raise CommandFailed("scipp has told nothing")
    return lines[-1]["median"]


def measure(interface, seconds):
    """All samples, by the metrics' names. Each is measured for a part of `seconds`."""
    guests = interface.guests
    rounds = 50_000 * seconds
    short, copies = 100_000 * seconds, 2_000 * seconds
    raw = window(guests, seconds, "--size", _SHORT, "--rounds", rounds, "--stream", short)
    words = ("--size", _SHORT, "--rounds", rounds, "--stream", short)
    messages = _messages(guests, seconds, *words)
    words = ("--size", _SHORT, "--rounds", rounds)
    written = _messages(guests, seconds, *words, both=("--writes",))
    stored = _scipp(guests, seconds, rounds)
    stream = window(guests, seconds, "--size", _LONG, "--stream", copies)
    words = ("--size", _LONG, "--rounds", 0, "--stream", copies)
    both = ("--window", MIB, "--slot-size", _LONG)
    bulk = _messages(guests, seconds, *words, both=both)
    both = ("--writes", "--window", MIB)
    placed = _messages(guests, seconds, *words, both=both)
    sleeps, pauses = ("--rounds", _SLEEPS * seconds), ("--pause", _PAUSE)
    event = PingPong(guests, seconds).measure("events", *sleeps, *pauses)["event_us"]
    words = ("--size", _SHORT, *sleeps)
    asleep = _messages(guests, seconds, *words, both=("--sleep", "--at-once", *pauses))
    one_way = lambda found: Sample(found["round_us"]["median"] / 2, {})
    return {
        WINDOW.name: Sample(raw["one_way_us"], {}),
        RATE.name: Sample(raw["messages_s"], {}),
        QP_LATENCY.name: one_way(messages),
        QP_MESSAGES.name: Sample(messages["messages_s"], {}),
        STORES.name: Sample(stored, {}),
        STREAM.name: Sample(stream["mb_s"], {}),
        QP_BANDWIDTH.name: Sample(bulk["mb_s"], {}),
        QP_WRITE.name: one_way(written),
        QP_WRITES.name: Sample(placed["mb_s"], {}),
        EVENT.name: Sample(event["median"] / 2, {}),
        QP_BLOCKING.name: one_way(asleep),
        **_interfaces(guests, seconds),
        **_tcp(interface, seconds, TCP, TCP_STREAM),
        TCP_MESSAGES.name: metrics.tcp_messages(interface, seconds, _SHORT),
    }


def _interfaces(guests, seconds):
    """Samples of VI, by the names of their metrics."""
    perf = lambda *words: _operations(guests, seconds, *words)
    rounds, sleeps, copies = 5_000 * seconds, _SLEEPS * seconds, 2_000 * seconds
    asleep = ("--wait", "--pause", _PAUSE)
    small = perf("send", "bandwidth", _SHORT, 4 * rounds)
    return {
        LATENCY.name: Sample(perf("send", "latency", _SHORT, rounds)["median"], {}),
        WRITE.name: Sample(perf("write", "latency", _SHORT, rounds)["median"], {}),
        BANDWIDTH.name: Sample(perf("send", "bandwidth", _LONG, copies)["mb_s"], {}),
        WRITES.name: Sample(perf("write", "bandwidth", _LONG, copies)["mb_s"], {}),
        MESSAGES.name: Sample(small["mb_s"] * 1e6 / _SHORT, {}),
        BLOCKING.name: Sample(perf("send", "latency", _SHORT, sleeps, *asleep)["median"], {}),
    }


def _tcp(interface, seconds, latency, stream):
    """Samples of TCP, by the names of both metrics."""
    request = metrics.tcp_rr(interface, seconds)
    moved = metrics.tcp_stream(interface, seconds)
    return {
        latency.name: Sample(0.5e6 / request.value, {}),
        stream.name: Sample(moved.value / 8, {}),
    }


def measure_star(interface, seconds):
    """Samples of two endpoints of a star, by the metrics' names."""
    guests = interface.guests
    latency = _operations(guests, seconds, "send", "latency", _SHORT, 200 * seconds)
    bandwidth = _operations(guests, seconds, "send", "bandwidth", _LONG, 50 * seconds)
    return {
        STAR.name: Sample(latency["median"], {}),
        STAR_BYTES.name: Sample(bandwidth["mb_s"], {}),
        **_tcp(interface, seconds, STAR_TCP, STAR_TCP_STREAM),
    }


def _faster(*columns):
    """Of each round the shorter time; nothing if one of them is missing."""
    return [
        min(samples, key=lambda sample: sample.value) if all(samples) else None
        for samples in zip(*columns)
    ]


def compare(samples):
    """All results."""
    of = lambda metric: samples.get(("", NAME, metric.name), [])
    row = lambda metric, kind, theirs, name, target=None: report.result(
        f"{metric.name}_vs_{kind}", metric, of(metric), theirs, name, target
    )
    stores = _faster(of(WINDOW), of(STORES))
    for metric in (LATENCY, WRITE, QP_LATENCY, QP_WRITE):
        yield row(metric, "window", stores, "window or scipp", metric.target)
    for metric in (BANDWIDTH, WRITES, QP_BANDWIDTH, QP_WRITES):
        yield row(metric, "window", of(STREAM), "window", metric.target)
    for metric in (MESSAGES, QP_MESSAGES):
        yield row(metric, "window", of(RATE), "window")
    for metric in (BLOCKING, QP_BLOCKING):
        yield row(metric, "event", of(EVENT), "pxi_pingpong, events", metric.target)
    for metric in (LATENCY, WRITE, BLOCKING):
        yield row(metric, "ntb0", of(TCP), "TCP over ntb0, half a round trip")
    for metric in (BANDWIDTH, WRITES):
        yield row(metric, "ntb0", of(TCP_STREAM), "TCP over ntb0")
    yield row(MESSAGES, "ntb0", of(TCP_MESSAGES), "TCP over ntb0, a call for each message")
    yield row(STAR, "ntb0", of(STAR_TCP), "TCP over ntb0 of the star, half a round trip")
    yield row(STAR_BYTES, "ntb0", of(STAR_TCP_STREAM), "TCP over ntb0 of the star")
