# SPDX-License-Identifier: GPL-2.0-only
"""What `make bench` runs: the fabric against the kernel's own NTB clients.

Absolute figures mean little under emulation and on a shared machine. So all
contenders take turns in the same guests over the same emulated NTB, round after
round, and what counts is the median of the rounds' ratios.
"""

import functools
import itertools
import time
from dataclasses import dataclass

from . import bench_contenders as contenders
from . import bench_mcapi as mcapi
from . import bench_metrics as metrics
from . import bench_ports as ports
from . import bench_pximc as pximc
from . import bench_report as report
from . import bench_sisci as sisci
from . import bench_smc as smc
from . import bench_vi as vi
from .agent import CommandFailed, GuestGone
from .bench_format import number
from .bench_metrics import Metric
from .fabric import Fabric
from .settings import CHECKOUT, MIB, RigError, stage_dir

RESULTS = CHECKOUT / "build/results"
_LOGS = CHECKOUT / "build/logs/bench"

# No new round begins after this many seconds.
_TIME_FOR_ROUNDS = 20 * 60
# A turn that fails is taken once more, in guests that were started anew.
_ATTEMPTS = 2


NETWORK = (
    Metric("tcp_stream_mtu1500", "Mbit/s", metrics.tcp_stream, target=1.7),
    Metric("tcp_rr", "1/s", metrics.tcp_rr, target=1.0),
    Metric("tcp_rr_busypoll", "1/s", metrics.tcp_rr_busypoll, target=1.5),
    Metric("udp_64b_received", "1/s", metrics.udp_64b, target=1.25, most_lost=5.0),
    Metric("ping_flood_avg", "ms", metrics.ping_flood, better="lower"),
    Metric("tcp_stream_mtumax", "Mbit/s", metrics.tcp_stream, mtu=None, target=1.2),
)
WRITE = Metric("window_write_1mib", "MB/s", None, target=0.95)

# Sizes of the windows, by the suffix of the results.
MAIN_WINDOW = 4 * MIB
WINDOWS = {"": MAIN_WINDOW, "_win1m": MIB}
# What the smaller windows may cost us.
OWN_TARGET = 0.9

OURS = contenders.Ours()
DEFAULT = contenders.Mainline()
# Mainline's best settings, by metric; how they were found: Documentation/benchmark.md.
_SMALL_SLOTS = contenders.Mainline("transport_mtu=2048")
TUNED = {metric.name: _SMALL_SLOTS for metric in NETWORK}
TUNED["tcp_stream_mtumax"] = DEFAULT

# What can be measured by itself.
PARTS = ("ethernet", "writes", "ports", "pximc", "sisci", "vi", "mcapi", "smc")
# Those that stores through a window are measured for.
_OF_WRITES = {"writes", "pximc", "sisci"}

# Options of ntb_perf, by the suffix of the results.
PERF = {"default": "", "tuned": "chunk_order=20"}


@dataclass(frozen=True)
class Turn:
    """Measurements of one contender in one go, all at the same MTU."""

    contender: object
    metrics: tuple

    @property
    def mtu(self):
        return self.metrics[0].mtu or self.contender.largest_mtu

    def __str__(self):
        return f"{self.contender.name}, MTU {self.mtu}"


def turns_of(contender, its):
    """The turns in which a contender is measured by these metrics."""
    by_mtu = {}
    for metric in its:
        by_mtu.setdefault(metric.mtu, []).append(metric)
    return [Turn(contender, tuple(group)) for group in by_mtu.values()]


def turns():
    """All turns of one round over one size of windows."""
    found = turns_of(OURS, NETWORK) + turns_of(DEFAULT, NETWORK)
    for contender in dict.fromkeys(TUNED.values()):
        if contender is not DEFAULT:
            found += turns_of(contender, [m for m in NETWORK if TUNED[m.name] is contender])
    return found


class Bench:
    """Takes samples: `samples[window suffix, contender's name, metric's name]`
    is a list with one `Sample`, or `None`, for each round."""

    def __init__(self, fabric, program, seconds, only=PARTS):
        self.only = only
        self.fabric = fabric
        self.program = program
        self.seconds = seconds
        self.samples = {}
        self.troubles = []

    def round(self, number):
        """Measure everything that is wanted once."""
        for suffix, window in WINDOWS.items():
            if "ethernet" in self.only:
                self._ethernet(suffix, window, number)
            # What stores of processes are compared with has windows of one size.
            if "writes" in self.only or window == MAIN_WINDOW and _OF_WRITES & set(self.only):
                what = f"window writes, windows of {window // MIB} MiB"
                taken = self.attempt(what, lambda w=window: self._writes(w))
                for name in (OURS.name, *PERF):
                    self._note(suffix, name, WRITE, number, taken, key=name)
        for library, what, beside in self._libraries():
            if library.NAME in self.only:
                processes = functools.partial(self._processes, library)
                self._parts([(what, processes), *beside], library.NAME, library.MEASURED, number)

    def _libraries(self):
        """Each library, and what its processes are measured beside."""
        over = "TCP over mainline's Ethernet"
        mainline = lambda library: (over, functools.partial(self._mainline, library))
        return (
            (ports, "ports", [mainline(ports)]),
            (pximc, "PXImc", [("doorbells", self._doorbells)]),
            (sisci, "SISCI", [("SISCI with an engine", self._copies)]),
            (vi, "VI", [("VI on a star", self._forwarded)]),
            (mcapi, "MCAPI", [("MCAPI in one host", self._within)]),
            (smc, "SMC", [mainline(smc)]),
        )

    def _ethernet(self, suffix, window, number):
        order = turns()
        shift = number % len(order)
        for turn in order[shift:] + order[:shift]:
            what = f"{turn}, windows of {window // MIB} MiB"
            taken = self.attempt(what, lambda t=turn, w=window: self.network(t, w))
            for metric in turn.metrics:
                self._note(suffix, turn.contender.name, metric, number, taken)

    def _parts(self, parts, name, measured, number):
        """The processes, and what they are compared with, in turn."""
        taken = {}
        for what, action in parts if number % 2 == 0 else reversed(parts):
            what = f"{what}, windows of {MAIN_WINDOW // MIB} MiB"
            taken |= self.attempt(what, action) or {}
        for metric in measured:
            self._note("", name, metric, number, taken)

    def _note(self, suffix, contender, metric, number, taken, key=None):
        column = self.samples.setdefault((suffix, contender, metric.name), [])
        column += [None] * (number - len(column))
        column.append((taken or {}).get(key or metric.name))

    def attempt(self, what, action):
        """Run a turn; what it gave, or `None` if it failed each time."""
        for attempt in range(1, _ATTEMPTS + 1):
            print(f"  {what} ", end="", flush=True)
            start = time.monotonic()
            try:
                taken = action()
                complaints = _complaints(self.fabric)
                if not complaints:
                    print(f"({time.monotonic() - start:.0f} s)", flush=True)
                    return taken
                error = "; ".join(complaints)
            except (CommandFailed, GuestGone, ValueError, KeyError) as caught:
                error = " ".join(str(caught).split())
            print(f"failed: {error}", flush=True)
            self.troubles.append(f"{what}, attempt {attempt}: {error}")
            self._restart()
        return None

    def _restart(self):
        for guest in self.fabric.hosts:
            guest.kill()
        for guest in self.fabric.hosts:
            guest.boot()
            guest.forget_reports()

    def network(self, turn, window):
        guests = self.fabric.hosts
        taken = {}
        network = turn.contender.network(guests, self.program, turn.mtu)
        with contenders.hardware(guests, window), network as interface:
            for metric in turn.metrics:
                taken[metric.name] = metric.measure(interface, self.seconds)
                print(".", end="", flush=True)
        return taken

    def _processes(self, library):
        """What processes do that use a library."""
        guests = self.fabric.hosts
        network = library.CONTENDER.network(guests, self.program, 1500)
        with contenders.hardware(guests, MAIN_WINDOW), network as interface:
            return library.measure(interface, self.seconds)

    def _mainline(self, library):
        """What processes have by the kernel's own Ethernet over NTB."""
        guests = self.fabric.hosts
        network = TUNED["tcp_rr"].network(guests, self.program, 1500)
        with contenders.hardware(guests, MAIN_WINDOW), network as interface:
            return library.measure_mainline(interface, self.seconds)

    def _doorbells(self):
        guests = self.fabric.hosts
        with contenders.hardware(guests, MAIN_WINDOW):
            return {pximc.DOORBELL.name: metrics.doorbell(guests, self.seconds)}

    def _copies(self):
        guests = self.fabric.hosts
        network = sisci.COPIES.network(guests, self.program, 1500)
        with contenders.hardware(guests, MAIN_WINDOW), contenders.engine(guests[0]):
            with network as interface:
                return sisci.measure_copies(interface, self.seconds)

    def _forwarded(self):
        """Two endpoints of a star, in guests of their own."""
        with Fabric(hosts=3, topology="star", logs=_LOGS / "star") as fabric:
            rp, *ends = fabric.hosts
            guests = [*ends, rp]
            network = vi.CONTENDER.network(guests, self.program, 1500)
            with contenders.hardware(guests, MAIN_WINDOW), network as interface:
                taken = vi.measure_star(interface, self.seconds)
            if complaints := _complaints(fabric):
                raise ValueError("; ".join(complaints))
            return taken

    def _within(self):
        """Two nodes of a host with two processors, in guests of their own."""
        with Fabric(hosts=2, cpus=2, logs=_LOGS / "within") as fabric:
            guests = fabric.hosts
            network = mcapi.CONTENDER.network(guests, self.program, 1500)
            with contenders.hardware(guests, MAIN_WINDOW), network:
                mcapi.configure(guests)
                taken = mcapi.measure_local(guests[0], self.program, self.seconds)
            if complaints := _complaints(fabric):
                raise ValueError("; ".join(complaints))
            return taken

    def _writes(self, window):
        guests = self.fabric.hosts
        with contenders.hardware(guests, window):
            taken = {name: metrics.perf_write(guests, words) for name, words in PERF.items()}
            taken[OURS.name] = metrics.bench_write(guests)
        return taken


def _complaints(fabric):
    """What the kernels of a fabric have reported since the last time."""
    found = [f"{g.name}: {line}" for g in fabric.hosts for line in g.kernel_reports()]
    for guest in fabric.hosts:
        guest.forget_reports()
    return found


def _check(fabric):
    """Where `net-bench` is, once everything needed is known to be there."""
    if fabric.settings.modules_dir is None:
        raise RigError("the kernel's own modules are missing: run `make kernel`")
    program = fabric.settings.programs / "net-bench"
    for needed, way_out in (
        (program, "make rig"),
        (fabric.settings.programs / "examples/pxi_pingpong", "make userlib"),
        (fabric.settings.programs / "examples/messages", "make userlib"),
        (fabric.settings.programs / "scipp", "make userlib"),
        (fabric.settings.programs / "vi_perf", "make userlib"),
        (fabric.settings.programs / "window", "make programs"),
        (fabric.settings.programs / "libmpsmc.so", "make userlib"),
        (stage_dir() / "bin/mcapi_perf", "make examples"),
    ):
        if not needed.exists():
            raise RigError(f"{needed} is missing: run `{way_out}`")
    return program


def run(rounds, seconds, only=PARTS):
    """Whether everything could be measured; prints the table, writes the files."""
    if unknown := set(only) - set(PARTS):
        raise RigError(f"ONLY is some of {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    if rounds < 1 or seconds < 1:
        raise RigError("ROUNDS and SECONDS are at least 1")
    start = time.monotonic()
    with Fabric(hosts=2, logs=_LOGS) as fabric:
        bench = Bench(fabric, _check(fabric), seconds, tuple(only))
        for index in range(rounds):
            if index and time.monotonic() - start > _TIME_FOR_ROUNDS:
                print(f"out of time: {index} of {rounds} rounds were run")
                break
            print(f"round {index + 1} of {rounds}", flush=True)
            bench.round(index)
    results = [found for found in compare(bench.samples) if part_of(found["name"]) in only]
    report.write(results, RESULTS)
    report.table(results, time.monotonic() - start)
    for trouble in bench.troubles:
        print(f"trouble: {trouble}")
    print(f"{RESULTS / 'bench.json'}, {RESULTS / 'bench.svg'}")
    return all(found["ratio"] is not None for found in results)


def explore(seconds, candidates):
    """Try settings of mainline and print what becomes of each metric."""
    with Fabric(hosts=2, logs=_LOGS) as fabric:
        bench = Bench(fabric, _check(fabric), seconds)
        for (suffix, window), words in itertools.product(WINDOWS.items(), candidates):
            for turn in turns_of(contenders.Mainline(words), NETWORK):
                what = f"{turn}, windows of {window // MIB} MiB"
                taken = bench.attempt(what, lambda t=turn, w=window: bench.network(t, w)) or {}
                for name, sample in taken.items():
                    notes = " ".join(f"{k} {number(v)}" for k, v in sample.notes.items())
                    print(f"    {name + suffix:28} {number(sample.value):>10} {notes}")
    return not bench.troubles


def part_of(name):
    """Which part a result belongs to."""
    if name.startswith(WRITE.name):
        return "writes"
    return next((part for part in PARTS if name.startswith(f"{part}_")), "ethernet")


def compare(samples):
    """All results, as dictionaries ready for the JSON file."""
    for suffix in WINDOWS:
        for metric, kind in itertools.product(NETWORK, ("tuned", "default")):
            other = (TUNED[metric.name] if kind == "tuned" else DEFAULT).name
            yield report.result(
                f"{metric.name}_vs_{kind}{suffix}",
                metric,
                samples.get((suffix, OURS.name, metric.name), []),
                samples.get((suffix, other, metric.name), []),
                other,
                metric.target if (kind, suffix) == ("tuned", "") else None,
            )
        for kind in PERF:
            yield _against_perf(samples, WRITE, OURS.name, kind, suffix)
    for metric in (*NETWORK, WRITE):
        yield report.result(
            f"{metric.name}_vs_own_win1m",
            metric,
            samples.get(("_win1m", OURS.name, metric.name), []),
            samples.get(("", OURS.name, metric.name), []),
            f"{OURS.name}, windows of 4 MiB",
            OWN_TARGET if metric.better == "higher" else 1 / OWN_TARGET,
        )
    for kind in PERF:
        yield _against_perf(samples, pximc.WRITE, pximc.NAME, kind, "")
        yield _against_perf(samples, sisci.WRITE, sisci.NAME, kind, "")
    yield from ports.compare(samples)
    others = (OURS, TUNED["tcp_rr"])
    yield from pximc.compare(
        samples, {other.name: samples.get(("", other.name, "tcp_rr"), []) for other in others}
    )
    yield from sisci.compare(samples)
    yield from vi.compare(samples)
    yield from mcapi.compare(samples)
    yield from smc.compare(samples)


def _against_perf(samples, metric, name, kind, suffix):
    words = PERF[kind]
    return report.result(
        f"{metric.name}_vs_{kind}{suffix}",
        metric,
        samples.get((suffix, name, metric.name), []),
        samples.get((suffix, kind, WRITE.name), []),
        f"ntb_perf ({words})" if words else "ntb_perf",
        metric.target if (kind, suffix) == ("tuned", "") else None,
    )
