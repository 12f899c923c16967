# SPDX-License-Identifier: GPL-2.0-only
"""The single measurements. Each returns one number, in the metric's unit."""

import json
import re
import time
from dataclasses import dataclass
from typing import Callable

from . import bench_contenders as contenders
from . import stack
from .agent import CommandFailed
from .settings import MIB

_PORT = 5010
_GRACE = 30.0
# How long a socket polls the interface before it sleeps, in microseconds.
_BUSY_POLL_US = 1000


@dataclass(frozen=True)
class Metric:
    """Something to measure, and the ratio to mainline that is aimed at."""

    name: str
    unit: str
    measure: Callable | None
    mtu: int | None = 1500  # None: the contender's largest
    target: float | None = None
    better: str = "higher"
    most_lost: float | None = None


@dataclass(frozen=True)
class Sample:
    """What one measurement gave; `notes` are further numbers by name."""

    value: float
    notes: dict


def _iperf(interface, seconds, options="", run=""):
    """What a sender of one connection tells at its end; `run` is put before both commands."""
    sender, receiver = interface.guests
    server = receiver.spawn(f"{run}iperf3 -s -1 --forceflush", timeout=seconds + _GRACE)
    try:
        server.wait_for_output("Server listening")
        command = f"{run}iperf3 -c {interface.peer} -t {seconds} -J {options}"
        return json.loads(sender.run(command, timeout=seconds + _GRACE).out)["end"]
    finally:
        server.kill()


def tcp_stream(interface, seconds, run=""):
    """Throughput of one connection as the receiver saw it, in Mbit/s; `run` is put before both
    commands."""
    end = _iperf(interface, seconds, run=run)
    return Sample(
        end["sum_received"]["bits_per_second"] / 1e6,
        {"retransmits": end["sum_sent"].get("retransmits", 0)},
    )


def tcp_messages(interface, seconds, size):
    """Messages of so many bytes on one connection that have arrived, per second. Each is written
    and read by a call of its own."""
    end = _iperf(interface, seconds, f"-l {size}")
    return Sample(end["sum_received"]["bits_per_second"] / 8 / size, {})


def _net_bench(interface, command, arguments, seconds):
    sender, receiver = interface.guests
    program = interface.program
    target = f"{interface.peer}:{_PORT}"
    server = receiver.spawn(f"{program} serve {target}", timeout=seconds + _GRACE)
    try:
        server.wait_for_output("ready")
        words = f"{program} {command} {target} {seconds} {arguments}"
        return json.loads(sender.run(words, timeout=seconds + _GRACE).out)
    finally:
        server.kill()


def tcp_rr(interface, seconds):
    """The requests and responses of one byte, per second."""
    out = _net_bench(interface, "rr", "", seconds)
    return Sample(out["transactions"] / out["seconds"], {})


def _busy_poll(guests, microseconds):
    words = f"net.core.busy_poll={microseconds} net.core.busy_read={microseconds}"
    stack.everywhere(guests, f"sysctl -qw {words}")


def tcp_rr_busypoll(interface, seconds):
    """The same while sockets poll the interface, if it can be polled."""
    _busy_poll(interface.guests, _BUSY_POLL_US)
    try:
        return tcp_rr(interface, seconds)
    finally:
        _busy_poll(interface.guests, 0)


def tcp_connect(interface, seconds):
    """Connections that were opened and closed by both sides, per second."""
    out = _net_bench(interface, "connect", "", seconds)
    return Sample(out["connections"] / out["seconds"], {})


def context_switch(guest, program, seconds):
    """What a switch to another process costs, in microseconds: half a round trip of a
    byte through two pipes on one CPU."""
    command = f"taskset -c 0 {program} pipe {seconds}"
    out = json.loads(guest.run(command, timeout=seconds + _GRACE).out)
    return Sample(out["seconds"] * 1e6 / out["transactions"] / 2, {})


def doorbell(guests, seconds):
    """Half a round trip of doorbells as `ntb_pingpong` plays without delay, in
    microseconds. It counts the doorbells that have come, one for each round trip."""
    with contenders.ntb_pingpong(guests) as path:
        count = f"cat {path}/count"
        command = f"{count}; echo $EPOCHREALTIME; sleep {seconds}; {count}; echo $EPOCHREALTIME"
        out = guests[0].run(command, timeout=seconds + _GRACE).out
    return Sample(half_round_trip(out), {})


def half_round_trip(told):
    """In microseconds, of two pairs of lines: round trips so far, time in seconds."""
    before, start, after, end = map(float, told.split())
    if after <= before:
        raise CommandFailed(f"ntb_pingpong stands still: {told.split()}")
    return (end - start) * 1e6 / (after - before) / 2


def udp_64b(interface, seconds):
    """Datagrams of 64 bytes that a program received, per second; the sender
    sends as many as it can."""
    out = _net_bench(interface, "udp", "64", seconds)
    lost = 100 * (1 - out["received"] / out["sent"]) if out["sent"] else 0.0
    return Sample(
        out["received"] / out["seconds"],
        {"sent": out["sent"] / out["seconds"], "loss": lost},
    )


def ping_flood(interface, seconds):
    """Average round trip of `ping -f`, in milliseconds."""
    command = f"ping -q -f -w {seconds} {interface.peer}"
    out = interface.guests[0].run(command, timeout=seconds + _GRACE, check=False).out
    average = re.search(r"= [\d.]+/([\d.]+)/", out)
    loss = re.search(r"([\d.]+)% packet loss", out)
    if not average or not loss:
        raise CommandFailed(f"`{command}`: {out}")
    return Sample(float(average[1]), {"loss": float(loss[1])})


def perf_write(guests, parameters, total_order=28):
    """`ntb_perf`'s figure in MB/s."""
    with contenders.ntb_perf(guests, f"{parameters} total_order={total_order}".strip()) as path:
        out = guests[0].run(f"echo 0 > {path}/run && cat {path}/run", timeout=_GRACE).out
    found = re.search(r"copied (\d+) bytes in (\d+) usecs", out)
    if not found:
        raise CommandFailed(f"ntb_perf: {out}")
    return Sample(int(found[1]) / int(found[2]), {})


def bench_write(guests, total=256 * MIB):
    """Our figure in MB/s, at the best offset of the source; the worst one is
    noted."""
    parameters = f"total_mib={total // MIB // 4} offsets=4"
    with contenders.ntb_bench(guests, parameters) as path:
        deadline = time.monotonic() + _GRACE
        while (state := guests[0].read(f"{path}/state").strip()) in ("waiting", "running"):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        if state != "done":
            raise CommandFailed(f"ntb_bench: {state}")
        lines = guests[0].read(f"{path}/results").splitlines()
    rates = [int(size) * 1e3 / int(ns) for _, size, ns in (line.split() for line in lines)]
    return Sample(max(rates), {"worst": min(rates), "rates": rates})
