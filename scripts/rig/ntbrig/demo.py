# SPDX-License-Identifier: GPL-2.0-only
"""What `make demo` shows: hosts that ping each other and stream TCP, and processes
that share memory."""

import itertools
import json
import re
import time

from . import mcapi as multicore
from . import sisci as tools
from . import stack
from . import vipl as virtual
from .agent import CommandFailed, GuestGone
from .fabric import Fabric
from .settings import programs_dir, stage_dir

_STREAM_SECONDS = 3
# The first packet may wait for address resolution and for a peer's peer.
_SETTLE_SECONDS = 10


class Demo:
    """Runs every part, notes what failed, and goes on."""

    def __init__(self, hosts, logs):
        self.hosts = hosts
        self.logs = logs
        self.rows = []
        self.processes = []
        self.failures = []

    def run(self):
        """Whether everything worked."""
        start = time.monotonic()
        with Fabric(hosts=self.hosts, logs=self.logs) as fabric:
            booted = max(guest.boot_seconds for guest in fabric.hosts)
            title(f"{self.hosts} hosts are up after {booted:.1f} s")
            self.attempt("modules", lambda: self.bring_up(fabric))
            if not self.failures:
                for one, other in itertools.combinations(fabric.hosts, 2):
                    self.pair(one, other)
                one, other = fabric.hosts[:2]
                self.attempt("user services", lambda: load_user_services(one, other))
                for what, action in PROCESSES.items():
                    self.processes.append(self.attempt(what, lambda a=action: a(one, other)))
                for guest in fabric.hosts:
                    self.attempt(f"statistics of {guest.name}", lambda g=guest: show_state(g))
            self.kernel_reports(fabric)
        self.table(time.monotonic() - start)
        return not self.failures

    def attempt(self, what, action):
        try:
            return action()
        except (CommandFailed, GuestGone) as error:
            self.failures.append(what)
            print(f"FAILED {what}: {error}")
            return None

    def bring_up(self, fabric):
        stack.bring_up(*fabric.hosts)
        title(f"modules loaded, {stack.INTERFACE} is up")
        for guest in fabric.hosts:
            show = "ifconfig" if guest.port % 2 else "ip address show dev"
            say(guest, f"{show} {stack.INTERFACE}")

    def pair(self, one, other):
        name = f"{one.name} - {other.name}"
        title(name)
        latency = self.attempt(f"ping {name}", lambda: ping(one, other))
        there = self.attempt(f"TCP {one.name} to {other.name}", lambda: stream(one, other))
        back = self.attempt(f"TCP {other.name} to {one.name}", lambda: stream(other, one))
        self.rows.append((name, latency, there, back))

    def kernel_reports(self, fabric):
        for guest in fabric.hosts:
            for line in guest.kernel_reports():
                self.failures.append(f"kernel of {guest.name}")
                print(f"FAILED kernel of {guest.name}: {line}")

    def table(self, seconds):
        title("summary")
        print(f"  {'hosts':12} {'ping, ms':>10} {'TCP there, Mbit/s':>18} {'TCP back, Mbit/s':>18}")
        for name, *values in self.rows:
            shown = ["failed" if value is None else f"{value:.2f}" for value in values]
            print(f"  {name:12} {shown[0]:>10} {shown[1]:>18} {shown[2]:>18}")
        if told := [line for line in self.processes if line]:
            print("\n  " + "\n  ".join(told))
        if self.failures:
            print(f"\nFAILED: {', '.join(dict.fromkeys(self.failures))}")
        else:
            print(f"\nAll parts worked, in {seconds:.0f} s. Consoles: {self.logs}")


def title(text):
    print(f"\n== {text}", flush=True)


def say(guest, command):
    print(f"{guest.name}# {command}")
    print(guest.run(command).out.rstrip(), flush=True)


def ping(one, other):
    """The average round trip in milliseconds."""
    target = stack.address(other)
    one.run(f"ping -c 1 -w {_SETTLE_SECONDS} {target}")
    result = one.run(f"ping -c 5 -i 0.2 -w 5 {target}")
    lines = result.out.strip().splitlines()
    print(f"{one.name}# ping {target}")
    print("\n".join(lines[-3:]), flush=True)
    found = re.search(r"= [\d.]+/([\d.]+)/", lines[-1])
    lost = re.search(r"(\d+)% packet loss", result.out)
    if not found or not lost or lost[1] != "0":
        raise CommandFailed(str(result))
    return float(found[1])


def stream(sender, receiver):
    """TCP throughput in Mbit/s, as the receiver saw it."""
    target = stack.address(receiver)
    server = receiver.spawn("iperf3 -s -1 --forceflush", timeout=60)
    try:
        server.wait_for_output("Server listening")
        command = f"iperf3 -c {target} -t {_STREAM_SECONDS} -J"
        client = sender.run(command, timeout=_STREAM_SECONDS + 30)
        rate = json.loads(client.out)["end"]["sum_received"]["bits_per_second"] / 1e6
    finally:
        server.kill()
    print(f"{sender.name}# iperf3 -c {target} -t {_STREAM_SECONDS}   {rate:.0f} Mbit/s", flush=True)
    if rate <= 0:
        raise CommandFailed(f"no data from {sender.name} to {receiver.name}")
    return rate


def load_user_services(*guests):
    """Load what processes need."""
    stack.load(*guests, modules=(stack.USER,))


def pximc(client, server):
    """Run the scenarios in C and the measuring program between two hosts."""
    title(f"PXImc: processes of {client.name} and {server.name}")
    env = {"PXIMC_LIBRARY_PATH": str(stage_dir() / "opt/pximc/lib64")}
    for scenario in sorted((stage_dir() / "bin").glob("s[1-3]*_*")):
        partner = server.spawn([scenario, "s1"], timeout=60, env=env)
        client.run([scenario, "s0"], timeout=60, env=env)
        partner.wait().check()
        print(f"{client.name}# {scenario.name} s0   {server.name}# {scenario.name} s1   both fine")
    program = programs_dir() / "examples/pxi_pingpong"
    partner = server.spawn([program, "server"], timeout=120)
    try:
        seen = json.loads(client.run([program, "client", "--json"], timeout=60).out)
    finally:
        partner.kill()
    return (
        f"PXImc: event and answer {seen['event_us']['median']:.0f} us, "
        f"polled memory {seen['polling_us']['median']:.2f} us, "
        f"writing {seen['write_mb_s']['best']:.0f} MB/s"
    )


def sisci(client, server):
    """Run two of the tools between two hosts."""
    title(f"SISCI: processes of {client.name} and {server.name}")
    nodes = {4: client, 8: server}
    tools.configure(nodes)
    stores = ("--sizes", "4", "--rounds", "2000")
    writes = ("--sizes", "65536", "--rounds", "200", "--only", "write")
    (store,) = tools.play(tools.tool("scipp"), nodes, *stores)
    print(f"{client.name}# scipp client 8 {' '.join(stores)}   {server.name}# scipp server 4 ...")
    (write,) = tools.play(tools.tool("scibench"), nodes, *writes)
    print(f"{client.name}# scibench client 8 {' '.join(writes)}   {server.name}# ...")
    return (
        f"SISCI: a store is seen after {store['median']:.2f} us (scipp), "
        f"writing {write['mb_s']:.0f} MB/s (scibench)"
    )


def vi(client, server):
    """Measure messages of virtual interfaces between two hosts."""
    title(f"VI: processes of {client.name} and {server.name}")
    virtual.configure((server, client))
    program = virtual.tool("vi_perf")
    words = ("--only", "latency,bandwidth", "--operations", "send", "--sizes", "8,65536")
    partner = server.spawn([program, "server", "--once"], timeout=120, env=virtual.ENV)
    try:
        command = [program, "client", server.name, "--json", *words, "--rounds", "500"]
        told = client.run(command, timeout=60, env=virtual.ENV).out
    finally:
        partner.kill()
    print(f"{client.name}# vi_perf client {server.name} ...   {server.name}# vi_perf server")
    seen = {(line["kind"], line["bytes"]): line for line in map(json.loads, told.splitlines())}
    return (
        f"VI: a message arrives after {seen['latency', 8]['median']:.2f} us, "
        f"sending 64 KiB at a time {seen['bandwidth', 65536]['mb_s']:.0f} MB/s (vi_perf)"
    )


def mcapi(client, server):
    """Measure what nodes of two hosts send each other, of each kind."""
    title(f"MCAPI: processes of {client.name} and {server.name}")
    multicore.configure((server, client))
    program = multicore.example("mcapi_perf")
    told = {}
    for kind, sizes in (("scalars", "8"), ("packets", "64,65536"), ("messages", "64")):
        partner = server.spawn([program, "server", 1], timeout=120, env=multicore.ENV)
        try:
            words = ("--kind", kind, "--sizes", sizes, "--rounds", 500, "--json")
            run = client.run([program, "client", 2, 1, *words], timeout=60, env=multicore.ENV)
        finally:
            partner.kill()
        print(f"{client.name}# mcapi_perf client 2 1 --kind {kind} ...   "
              f"{server.name}# mcapi_perf server 1")
        told |= {(kind, line["bytes"]): line for line in map(json.loads, run.out.splitlines())}
    return (
        f"MCAPI: a scalar arrives after {told['scalars', 8]['median']:.2f} us, "
        f"a packet after {told['packets', 64]['median']:.2f} us, "
        f"a message after {told['messages', 64]['median']:.2f} us, "
        f"sending 64 KiB at a time {told['packets', 65536]['mb_s']:.0f} MB/s (mcapi_perf)"
    )


# What processes do, by the library that they use.
PROCESSES = {"PXImc": pximc, "SISCI": sisci, "VI": vi, "MCAPI": mcapi}


def show_state(guest):
    title(f"{guest.name}: peers and statistics")
    say(guest, "cd /sys/kernel/mp/peers; grep . */type */state */[rt]x_{frames,bytes}")
    say(guest, f"ip -s link show {stack.INTERFACE}")
    say(guest, f"ethtool -S {stack.INTERFACE}")
