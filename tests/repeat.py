# SPDX-License-Identifier: GPL-2.0-only
"""Repeats a test, once, whose guests the machine has lost.

Lost is a guest whose QEMU ended with another status than 0 although neither the rig nor the guest
had it end, and a set whose first boot came to no end. Nothing else is forgiven: not wrong data, not
a wait that ran out, not what a kernel complained of or has lost, before the repetition or at its
beginning, when all guests of the module are ended.

What failed at first is kept in a directory for each repetition, beside the report: `text`, and the
consoles. `scripts/test.sh` counts those directories.
"""

import itertools
import shutil
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

# The last `boot` and the module that it is for.
_BOOTER = pytest.StashKey()
# What the phases of a test have raised.
_ERRORS = pytest.StashKey()

_WITHOUT_REPORT = Path(__file__).resolve().parents[1] / "build/results/pytest.repeated"


def watch(request, booter):
    """Ask this `boot` about guests when a test of its module has failed: its `losses`, and whether
    kernels had `complaints` or `leaks`."""
    request.config.stash[_BOOTER] = request.node.nodeid, booter


def directory(config):
    """Where what was repeated is kept."""
    report = config.option.xmlpath
    return Path(report).with_suffix(".repeated") if report else _WITHOUT_REPORT


def pytest_sessionstart(session):
    # Processes of xdist have the directory of the one that has started them.
    if not hasattr(session.config, "workerinput"):
        shutil.rmtree(directory(session.config), ignore_errors=True)


def pytest_runtest_makereport(item, call):
    if call.excinfo:
        item.stash.setdefault(_ERRORS, []).append(call.excinfo.value)


def pytest_runtest_protocol(item, nextitem):
    where = {"nodeid": item.nodeid, "location": item.location}
    item.ihook.pytest_runtest_logstart(**where)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    booter = _booter(item)
    if booter and _may_be_repeated(item, reports) and (losses := booter.losses()):
        _keep(item, booter, [*losses, *(each.longreprtext for each in reports if each.failed)])
        if _all_end_well(item, booter):
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(**where)
    return True


def _booter(item):
    """The `boot` of a test that uses one, or None."""
    module, booter = item.config.stash.get(_BOOTER, (None, None))
    return booter if "boot" in item.fixturenames and item.nodeid.startswith(f"{module}::") else None


def _may_be_repeated(item, reports):
    """Whether a test has failed, and nothing says that it may not."""
    errors = item.stash.get(_ERRORS, [])
    is_final = any(isinstance(error, pytest.fail.Exception) for error in errors)
    return any(report.failed for report in reports) and not is_final


def _keep(item, booter, texts):
    root = directory(item.config)
    root.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        try:
            (root / str(number)).mkdir()
            break
        except FileExistsError:
            pass
    text = "\n".join([f"repeated: {item.nodeid}", *texts])
    (root / str(number) / "text").write_text(f"{text}\n")
    booter.keep_consoles(root / str(number))


def _all_end_well(item, booter):
    """End all that fixtures have made. Whether no kernel had anything to say then."""
    try:
        item.session._setupstate.teardown_exact(None)
    except pytest.fail.Exception:
        return False
    except Exception:
        # What fixtures ask of a guest that is lost fails, and is no verdict.
        pass
    return not booter.complaints and not booter.leaks


def pytest_terminal_summary(terminalreporter, config):
    for text in sorted(directory(config).glob("*/text")):
        told = text.read_text().splitlines()
        terminalreporter.section(told[0], sep="-")
        for line in told[1:]:
            terminalreporter.write_line(line)
