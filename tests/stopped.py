# SPDX-License-Identifier: GPL-2.0-only
"""Whether tests notice that the other hosts stand still: with RIG_STOPPED=1.

A row of a conformance ledger whose state is `hosts` says that a rule's effect is seen on
another host. Each test with guests that such rows name is run twice here, one right
after the other:

* `going`: as usual. It has to pass.
* `stopped`: from the first line of its body on, all hosts of its sets but the first one
  are stopped. It has to fail, or it shows nothing of them. It fails if it takes longer than
  before, and a little more.

A test whose first half fails is not run stopped, and sets of guests that a stopped one has
left in another state are not used again: so nothing but standing still makes it fail. Of a
test with parameters the first ones are taken.
"""

import contextlib
import signal
import subprocess
import sys
import time

import pytest
from ntbrig import CommandFailed, GuestGone
from ntbrig.settings import CHECKOUT, PATIENCE

_LIST = CHECKOUT / "scripts/conformance.py"

# Seconds: what a stopped test has besides the time that it took; how long its own end may
# take when the others go again; and until hosts are as before.
_MORE = 2.0
_END = 30.0
_BACK = 10.0

# The modules of a guest, and its peers.
_STATE = "cut -d' ' -f1 /proc/modules | sort; ls /sys/kernel/mp/peers 2>/dev/null; true"
_took = {}
_left = set()


class OthersStopped(Exception):
    """The test waits for something that does not happen while the other hosts are stopped."""


def pytest_collection_modifyitems(config, items):
    """Leaves those that rows of the state `hosts` name, with their first parameters."""
    command = [sys.executable, _LIST, "--hosts"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    names = set(listed.stdout.split())
    twins = {}
    chosen = {True: [], False: []}
    for item in items:
        name = f"{item.path.relative_to(CHECKOUT)}::{item.originalname}"
        first = twins.setdefault(name, _twin(item)) == _twin(item)
        chosen[name in names and first].append(item)
    config.hook.pytest_deselected(items=chosen[False])
    items[:] = chosen[True]


# The last, so that the two halves of a test with parameters stand side by side.
@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc):
    if "boot" in metafunc.fixturenames:
        metafunc.fixturenames.append("others")
        metafunc.parametrize("others", ("going", "stopped"))


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    callspec = getattr(pyfuncitem, "callspec", None)
    others = callspec.params.get("others") if callspec else None
    if others == "going":
        begin = time.monotonic()
        outcome = yield
        if outcome.excinfo is None:
            _took[_twin(pyfuncitem)] = time.monotonic() - begin
        return
    if others is None:
        yield
        return
    if _twin(pyfuncitem) not in _took:
        pytest.skip("it fails, or is skipped, while the others are going")
    limit = _took.pop(_twin(pyfuncitem)) + _MORE * PATIENCE
    with _stopped(pyfuncitem, limit):
        outcome = yield
    if outcome.excinfo is None:
        pytest.fail("it passes while the other hosts are stopped", pytrace=False)
    error = outcome.excinfo[1]
    if isinstance(error, (Exception, pytest.fail.Exception)):
        pyfuncitem.add_report_section("call", "stopped", f"{type(error).__name__}: {error}")
        outcome.force_result(True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item):
    """Lets the next test boot guests of its own."""
    if item.nodeid in _left:
        item.session._setupstate.teardown_exact(None)


def _twin(item):
    """What both halves of a test have in common."""
    callspec = getattr(item, "callspec", None)
    parameters = [(k, v) for k, v in callspec.params.items() if k != "others"] if callspec else []
    return str(item.path), item.originalname, repr(sorted(parameters, key=str))


@contextlib.contextmanager
def _stopped(item, limit):
    """Inside, all hosts but the first of each set are stopped, for `limit` seconds at most."""
    fabrics = item.funcargs["boot"].fabrics
    hosts = [guest for fabric in fabrics for guest in fabric.hosts if guest.is_running()]
    others = [guest for fabric in fabrics for guest in fabric.eps if guest.is_running()]
    before = {guest: guest.run(_STATE).out for guest in hosts}

    failures = []

    def fail(why):
        """What has failed already is given the time to end properly, once."""
        for guest in others:
            guest.let_go()
        signal.setitimer(signal.ITIMER_REAL, _END)
        failures.append(why)
        if sys.exc_info()[1] is None or len(failures) > 1:
            raise OthersStopped(why)

    late = lambda *_: fail(f"not within {limit:.1f} s")
    asked = lambda guest: fail(f"{guest.name} is asked and does not answer")
    handler = signal.signal(signal.SIGALRM, late)
    timer, _ = signal.setitimer(signal.ITIMER_REAL, limit)
    begin = time.monotonic()
    try:
        for guest in others:
            guest.hold(asked)
        yield
    finally:
        for guest in others:
            guest.let_go()
        signal.signal(signal.SIGALRM, handler)
        left = timer - (time.monotonic() - begin)
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.1) if timer else 0)
        if not _are_back(before):
            _left.add(item.nodeid)


def _are_back(before):
    """Whether all hosts have come to the modules and the peers that they had."""
    end = time.monotonic() + _BACK * PATIENCE
    try:
        for guest, state in before.items():
            while guest.run(_STATE).out != state:
                if time.monotonic() > end:
                    return False
                time.sleep(0.1)
    except (CommandFailed, GuestGone):
        return False
    return True
