# SPDX-License-Identifier: GPL-2.0-only
"""Whether tests notice that hosts stand still: with RIG_STOPPED=1.

A row of a conformance ledger whose state is `hosts` says that a rule's effect is seen on
another host. Each test with guests that such rows name is run up to three times here, one
right after the other:

* `going`: as usual. It has to pass. What guests answer is recorded.
* `stopped`: from the first line of its body on, all hosts of its sets but the first one are
  stopped. What the test asks them is answered as it was before (`replay.py`). So it fails only
  if the first host misses what the others would have done, or if it takes longer than before,
  and a little more.
* `first`: if that has not failed, the first host is stopped in place of the others, and its
  answers are those of before. It fails if one of the others misses something.

How a test has noticed that hosts stand still is a property `noticed` in the report for JUnit:

* `missed`: it has failed in one of the two ways.
* `asked`: it has not, but it asks the others. What it looks at may be what hosts did before its
  body, as when their links came up; or it says nothing of them. Its reader has to judge.

A test without that property shows nothing of other hosts. `scripts/conformance.py --noticed`
looks for the rows that have no other.

A test whose first part fails is not run stopped, and sets of guests that a stopped one has
left in another state are not used again: so nothing but standing still makes it fail. Of a
test with parameters the first ones are taken.
"""

import contextlib
import signal
import subprocess
import sys
import time

import pytest
import replay
from ntbrig import CommandFailed, GuestGone, stack
from ntbrig.settings import CHECKOUT, PATIENCE

_LIST = CHECKOUT / "scripts/conformance.py"
_PARTS = ("going", "stopped", "first")

# Seconds: what a stopped test has besides the time that it took; how long its own end may
# take when the others go again; and until hosts are as before.
_MORE = 2.0
_END = 30.0
_BACK = 10.0

# The links are to be up for as long as that: what is missed is what a host would have done, and
# not the host.
_PARAMETERS = {"pximc_ntb": "timeout_ms=6000"}

# The modules of a guest, and its peers.
_STATE = "cut -d' ' -f1 /proc/modules | sort; ls /sys/kernel/mp/peers 2>/dev/null; true"
# Of tests that pass while all go: how long each took, and the answers.
_went = {}
_noticed = set()
# Whether a test that passes while the others are stopped has asked them.
_asked = {}
_left = set()


class HostsStopped(Exception):
    """The test waits for something that does not happen while hosts are stopped."""


def pytest_collection_modifyitems(config, items):
    """Leave those that rows of the state `hosts` name, with their first parameters."""
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


def pytest_collection_finish(session):
    """The helpers of tests can be imported now."""
    if session.items:
        replay.install()
        stack.PARAMETERS.update(_PARAMETERS)


# The last, so that the parts of a test with parameters stand side by side.
@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc):
    if "boot" in metafunc.fixturenames:
        metafunc.fixturenames.append("others")
        metafunc.parametrize("others", _PARTS)


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    callspec = getattr(pyfuncitem, "callspec", None)
    part = callspec.params.get("others") if callspec else None
    twin = _twin(pyfuncitem)
    if part is None:
        yield
        return
    if part == "going":
        tape = replay.Tape()
        begin = time.monotonic()
        with tape.recording():
            outcome = yield
        if outcome.excinfo is None:
            _went[twin] = time.monotonic() - begin, tape
        return
    if twin not in _went:
        pytest.skip("it fails, or is skipped, while all are going")
    if twin in _noticed:
        pytest.skip("it fails while the others are stopped")
    seconds, tape = _went[twin]
    with _stopped(pyfuncitem, part, seconds + _MORE * PATIENCE, tape):
        outcome = yield
    error = outcome.excinfo and outcome.excinfo[1]
    if isinstance(error, (Exception, pytest.fail.Exception)):
        outcome.force_result(True)
        cause = list(_causes(error))[-1]
        # It asks something new: it does otherwise than before, by chance or for a reason.
        if not isinstance(cause, replay.NotRecorded):
            _missed(pyfuncitem, part, cause)
            return
    elif error:
        return
    if part == "stopped":
        _asked[twin] = tape.was_asked
    elif _asked[twin]:
        pyfuncitem.user_properties.append(("noticed", "asked"))


def _missed(item, part, cause):
    """A test has missed something that stopped hosts would have done."""
    _noticed.add(_twin(item))
    told = f"missed, {part}: {type(cause).__name__}: {cause}"
    item.add_report_section("call", "stopped", told)
    item.user_properties.append(("noticed", told[:300]))


def _causes(error):
    """An error, and those that others were raised in the handling of, the first one last."""
    while error:
        yield error
        error = error.__cause__ or error.__context__


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item):
    """Let the next test boot guests of its own."""
    if item.nodeid in _left:
        item.session._setupstate.teardown_exact(None)


def _twin(item):
    """What the parts of a test have in common."""
    callspec = getattr(item, "callspec", None)
    parameters = [(k, v) for k, v in callspec.params.items() if k != "others"] if callspec else []
    return str(item.path), item.originalname, repr(sorted(parameters, key=str))


@contextlib.contextmanager
def _stopped(item, part, limit, tape):
    """Inside, hosts are stopped, for `limit` seconds at most: the first of each set, or all
    others."""
    fabrics = item.funcargs["boot"].fabrics
    hosts = [guest for fabric in fabrics for guest in fabric.hosts if guest.is_running()]
    firsts = [fabric.rp for fabric in fabrics]
    silent = [guest for guest in hosts if (guest in firsts) == (part == "first")]
    before = {guest: guest.run(_STATE).out for guest in hosts}

    failures = []

    def late(*_):
        """What has failed already is given the time to end properly, once."""
        for guest in silent:
            guest.let_go()
        signal.setitimer(signal.ITIMER_REAL, _END)
        failures.append(None)
        if sys.exc_info()[1] is None or len(failures) > 1:
            raise HostsStopped(f"not within {limit:.1f} s")

    handler = signal.signal(signal.SIGALRM, late)
    timer, _ = signal.setitimer(signal.ITIMER_REAL, limit)
    begin = time.monotonic()
    try:
        for guest in silent:
            guest.hold()
        with tape.replaying(silent):
            yield
    finally:
        for guest in silent:
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
