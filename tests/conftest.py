# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures shared by all tests that need guests.

`boot` boots sets of guests that live until the end of the test module. After
each test, the consoles of all guests are searched for kernel complaints; after
each module, kernels that can are asked for lost memory. What a kernel says
stands: a test that fails otherwise may be repeated (scripts/test.sh), a
complaint is never taken back.
"""

import itertools
import os
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / "scripts/rig"))

from ntbrig import Fabric, stack  # noqa: E402

_LOGS = CHECKOUT / "build/logs"

# The modules that take longest, longest first: begun last, they would run on their own in the end.
LONGEST = (
    "vipl_failures", "ntb_mainline", "vipl_errors", "vipl", "mcapi_rules", "topologies", "ether",
    "acceptance", "vipl_partners", "vipl_connections", "vipl_scenarios", "vipl_transfers",
    "routed", "personalities", "mcapi_c", "mcapi_failures", "vipl_many", "sisci_hosts",
)  # fmt: skip

# Characters: traces of the first few pieces.
_LEAKS_SHOWN = 12_000


def pytest_addoption(parser):
    parser.addoption(
        "--company", choices=("alone", "together"),
        help="only tests that need the machine for themselves, or only the others",
    )  # fmt: skip


def pytest_configure(config):
    if os.environ.get("RIG_STOPPED") == "1":
        import stopped

        config.pluginmanager.register(stopped)


def _place(item):
    """Where a test's module stands among those that take longest, or behind them."""
    name = item.path.stem.removeprefix("test_")
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_collection_modifyitems(config, items):
    items.sort(key=_place)
    if company := config.getoption("company"):
        chosen = {True: [], False: []}
        for item in items:
            fits = bool(item.get_closest_marker("alone")) == (company == "alone")
            chosen[fits].append(item)
        config.hook.pytest_deselected(items=chosen[False])
        items[:] = chosen[True]
    if os.environ.get("LONG") == "1":
        return
    skip = pytest.mark.skip(reason="long test: set LONG=1")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)


def _files(stats):
    """Seconds and tests of each file, the slowest first."""
    seconds, tests = Counter(), Counter()
    for report in itertools.chain.from_iterable(stats.values()):
        if isinstance(report, pytest.TestReport):
            name = report.nodeid.partition("::")[0]
            seconds[name] += report.duration
            tests[name] += report.when == "call"
    return [f"{took:7.1f} s {tests[name]:4} tests  {name}" for name, took in seconds.most_common()]


def pytest_terminal_summary(terminalreporter, config):
    """Show which files took longest, and why a test was repeated, also when it passed then. Both are
    kept beside the report."""
    files = _files(terminalreporter.stats)
    terminalreporter.section("slowest files", sep="-")
    for line in files[:10]:
        terminalreporter.write_line(line)
    if config.option.xmlpath:
        Path(config.option.xmlpath).with_suffix(".files").write_text("\n".join(files) + "\n")
    repeated = terminalreporter.stats.get("rerun", [])
    for report in repeated:
        terminalreporter.section(f"repeated: {report.nodeid}", sep="-")
        terminalreporter.write_line(report.longreprtext)
    if config.option.xmlpath:
        kept = (f"repeated: {report.nodeid}\n{report.longreprtext}\n" for report in repeated)
        Path(config.option.xmlpath).with_suffix(".repeated").write_text("".join(kept))


class Booter:
    """Boots fabrics, and ends them."""

    def __init__(self, stack, logs):
        self._stack = stack
        self._logs = logs
        self.fabrics = []
        self.complaints = []
        self.leaks = []

    def __call__(self, hosts=2, **settings):
        """Boot a set of guests; arguments as for `Fabric`."""
        if hosts == 2 and "RIG_TOPOLOGY" in os.environ and "topology" not in settings:
            pytest.skip("there is one way to connect two hosts")
        if hosts > stack.most_hosts():
            # One of its bridges cannot join them all; one for each endpoint can.
            settings.setdefault("topology", "star")
            if settings["topology"] != "star":
                pytest.skip(f"{stack.personality()} is for {stack.most_hosts()} hosts")
        logs = self._logs / str(len(self.fabrics))
        fabric = self._stack.enter_context(Fabric(hosts=hosts, logs=logs, **settings))
        self.fabrics.append(fabric)
        return fabric

    def take_reports(self):
        """What all kernels have complained about since the last call."""
        found = []
        for guest in (guest for fabric in self.fabrics for guest in fabric.hosts):
            found += [f"{guest.name}: {line}" for line in guest.kernel_reports()]
            guest.forget_reports()
        self.complaints += found
        return found

    def end(self, fabric):
        """End one of them, after a last look at what its kernels have lost or complained of."""
        for guest in fabric.hosts:
            if guest.is_running() and (leaks := guest.leaks()):
                self.leaks.append(f"{guest.name} has lost memory:\n{leaks[:_LEAKS_SHOWN]}")
        self.take_reports()
        fabric.close()

    def end_all(self):
        for fabric in self.fabrics:
            self.end(fabric)


@pytest.fixture(scope="module")
def boot(request):
    with ExitStack() as stack:
        booter = Booter(stack, _LOGS / request.module.__name__)
        yield booter
        booter.end_all()
        if booter.leaks:
            pytest.fail("\n".join(booter.leaks))
        if booter.complaints:
            pytest.fail("kernels complained:\n" + "\n".join(booter.complaints))


@pytest.fixture(autouse=True)
def no_kernel_complaints(request):
    """Fail a test that makes a guest's kernel complain."""
    booter = request.getfixturevalue("boot") if "boot" in request.fixturenames else None
    yield
    if booter and (found := booter.take_reports()):
        pytest.fail("kernels complained:\n" + "\n".join(found))
