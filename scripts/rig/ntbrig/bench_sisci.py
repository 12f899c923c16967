# SPDX-License-Identifier: GPL-2.0-only
"""SISCI between processes: what is measured, and against what the fabric does below.

The tools are those that are installed. A latency and what it is compared with are
measured one after the other, in the same guests.
"""

from . import bench_contenders as contenders
from . import bench_report as report
from . import sisci, stack
from .agent import CommandFailed
from .bench_metrics import Metric, Sample
from .bench_pximc import PingPong
from .settings import MIB

# Whose samples they are, those of what is compared with them included.
NAME = "sisci"
CONTENDER = contenders.Ours(stack.USER)
# With what measures the engine.
COPIES = contenders.Ours(stack.USER, "mp_local_test")

WRITE = Metric("sisci_window_write", "MB/s", None, target=0.95)
STORE = Metric("sisci_store_latency", "us", None, target=1.1, better="lower")
INTERRUPT = Metric("sisci_interrupt", "us", None, target=1.3, better="lower")
DMA = Metric("sisci_dma", "MB/s", None, target=0.9)
SINGLE = Metric("sisci_dma_single", "MB/s", None)
WINDOW = Metric("raw_window_latency", "us", None, better="lower")
EVENT = Metric("raw_event_latency", "us", None, better="lower")
ENGINE = Metric("raw_engine", "MB/s", None)
MEASURED = (WRITE, STORE, INTERRUPT, DMA, SINGLE, WINDOW, EVENT, ENGINE)

# By node id.
_NODES = (4, 8)
_SIZE = MIB
_GRACE = 60.0
# How the engine is given each copy.
_PIECES = 4
# Copies by one start of a queue.
_SERIES = 16
# In the peer's memory, behind its rings and before its end.
_OFFSET = 2 * MIB
_LOCAL_TEST = "/sys/kernel/mp_local_test"


def _play(guests, seconds, tool, *words):
    """The last line that a tool's client tells."""
    nodes = dict(zip(_NODES, guests))
    sisci.configure(nodes)
    lines = sisci.play(sisci.tool(tool), nodes, *words, timeout=seconds + _GRACE)
    if not lines:
        raise CommandFailed(f"{tool} has told nothing")
    return lines[-1]


def measure(interface, seconds):
    """All samples that need no engine, by the metrics' names. Times are measured for a
    part of `seconds`."""
    guests = interface.guests
    pingpong = PingPong(guests, seconds)
    stores, triggers = 50_000 * seconds, 3_000 * seconds
    polled = pingpong.measure("polling", "--rounds", stores)["polling_us"]
    store = _play(guests, seconds, "scipp", "--sizes", 4, "--rounds", stores)
    event = pingpong.measure("events", "--rounds", triggers)["event_us"]
    interrupt = _play(guests, seconds, "intr_bench", "--rounds", triggers)
    # As many bytes as `ntb_perf`, from four places of the source.
    rounds = 256 * MIB // _SIZE // 4
    words = ("--only", "write", "--sizes", _SIZE, "--rounds", rounds)
    written = _play(guests, seconds, "scibench", *words)
    return {
        WINDOW.name: Sample(polled["median"] / 2, {}),
        STORE.name: Sample(store["median"], {}),
        EVENT.name: Sample(event["median"] / 2, {}),
        INTERRUPT.name: Sample(interrupt["median"], {}),
        WRITE.name: Sample(written["mb_s"], {}),
    }


def measure_copies(interface, seconds):
    """Copy by a queue, and by the engine below it."""
    rounds = _SERIES * 10 * seconds

    def queue(kind, rounds):
        words = ("--only", kind, "--sizes", _SIZE, "--pieces", _SERIES, "--rounds", rounds)
        return Sample(_play(interface.guests, seconds, "dmabench", *words)["mb_s"], {})

    return {
        DMA.name: queue("series", rounds // _SERIES),
        SINGLE.name: queue("dma", rounds // 2),
        ENGINE.name: Sample(_engine_rate(interface.guests[0], rounds), {}),
    }


def _engine_rate(guest, rounds):
    """What `mp_dma_start` copies, in MB/s."""
    bars = guest.run("cat /sys/bus/pci/devices/*/resource").out.splitlines()
    ranges = [tuple(int(word, 16) for word in line.split()[:2]) for line in bars]
    start, end = max(ranges, key=lambda bar: bar[1] - bar[0])
    piece = _SIZE // _PIECES
    for words in (
        f"out {start:#x} {end:#x} 0x10000",
        f"rate {_OFFSET} {piece} {_PIECES} {rounds}",
    ):
        guest.run(f"echo '{words}' > {_LOCAL_TEST}/command", timeout=_GRACE)
        told = guest.read(f"{_LOCAL_TEST}/result").split()
    return engine_rate(told, piece * _PIECES, rounds)


def engine_rate(told, size, rounds):
    """MB/s, of what the module tells: status, copies that have ended, nanoseconds."""
    status, ended, nanoseconds = map(int, told)
    if status or ended != rounds or nanoseconds <= 0:
        raise CommandFailed(f"mp_dma_start: status {status} after {ended} of {rounds} copies")
    return size * rounds * 1e3 / nanoseconds


def compare(samples):
    """All results but those against `ntb_perf`."""
    of = lambda metric: samples.get(("", NAME, metric.name), [])
    for metric, kind, other, name in (
        (STORE, "window", WINDOW, "pxi_pingpong, polling"),
        (INTERRUPT, "event", EVENT, "pxi_pingpong, events"),
        (DMA, "engine", ENGINE, "mp_dma_start"),
        (SINGLE, "engine", ENGINE, "mp_dma_start"),
    ):
        yield report.result(
            f"{metric.name}_vs_{kind}", metric, of(metric), of(other), name, metric.target
        )
