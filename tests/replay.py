# SPDX-License-Identifier: GPL-2.0-only
"""Answers of guests: recorded while they go, and given once more while they are stopped.

All that a test learns from a guest goes through the methods that are wrapped here: commands
and files, processes, and calls of the programs of `shell`. A request is known by its words
without numbers: addresses, process ids and sessions differ from one run to the next. Requests with the same words get their answers in the order in which they got
them when they were recorded, and the last one from then on.
"""

import contextlib
import itertools
import re
import threading

from ntbrig.agent import CommandFailed, GuestGone, Process, Result
from ntbrig.guest import Guest

_NUMBER = re.compile(r"\b(?:0x[0-9a-f]+|\d+|[0-9a-f]{3,})\b")


class NotRecorded(Exception):
    """A guest that is stopped is asked for what it was not asked for while it went."""


class _Silent:
    """What a guest that is stopped has started: nothing."""

    pid = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @property
    def output(self):
        return self.said()

    def written(self):
        return 0

    def said(self, start=0):
        return ""

    def write(self, data):
        pass

    def resize(self, rows, columns):
        pass

    def kill(self, number=None):
        pass

    def ended(self):
        return True

    def wait(self, timeout=None):
        return Result("", -9, "", "")

    def wait_for_output(self, text, timeout=None, start=0):
        raise CommandFailed(f"it does not say {text!r}")


class Tape:
    """The answers of all guests in one run of a test."""

    def __init__(self):
        self._answers = {}
        self._positions = {}
        # Guests whose answers come from here; none while it records.
        self._stopped = None
        # Whether a guest that is stopped has been asked.
        self.was_asked = False
        # What guests that go have been told to run meanwhile.
        self._started = []
        # Whether a thread is inside of a request, which may consist of others.
        self._inside = threading.local()

    def of(self, guest):
        """Whether a guest's answers come from here."""
        return self._stopped is not None and guest in self._stopped

    def ask(self, guest, request, real):
        """The answer to a request: `real()`, or what it was."""
        key = guest.name, _NUMBER.sub("#", repr(request))
        if self._stopped is None:
            return self._record(key, real)
        if guest not in self._stopped:
            return real()
        self.was_asked = True
        if key not in self._answers:
            raise NotRecorded(f"{guest.name}: {request}")
        answers = self._answers[key]
        position = self._positions.get(key, 0)
        self._positions[key] = position + 1
        answer, error = answers[min(position, len(answers) - 1)]
        if error:
            raise error
        return answer

    def _record(self, key, real):
        if getattr(self._inside, "request", False):
            return real()
        answers = self._answers.setdefault(key, [])
        self._inside.request = True
        try:
            answer = real()
        except Exception as error:
            answers.append((None, error))
            raise
        finally:
            self._inside.request = False
        answers.append((answer, None))
        return answer

    @contextlib.contextmanager
    def recording(self):
        with _current(self):
            yield

    @contextlib.contextmanager
    def replaying(self, stopped):
        """Inside, the guests `stopped` are asked nothing. What was started ends with it."""
        self._stopped, self._positions = stopped, {}
        try:
            with _current(self):
                yield
        finally:
            for process in self._started:
                _end(process)
            self._started = []

    def spawned(self, guest, start):
        """What a guest starts; nothing if it is stopped."""
        if self.of(guest):
            return _Silent()
        process = start()
        if self._stopped is not None:
            self._started.append(process)
        return process


def _end(process):
    """Kill what still runs."""
    with contextlib.suppress(CommandFailed, GuestGone):
        if not process.ended():
            process.kill()
            process.wait(20)


_tape = None


@contextlib.contextmanager
def _current(tape):
    """Inside, what guests are asked goes through this tape."""
    import sisci

    global _tape
    # The same callbacks have the same cookies in each run.
    sisci.Callback._cookies = itertools.count(1 << 20)
    _tape = tape
    try:
        yield
    finally:
        _tape = None


def _wrap(owner, name, request):
    """Let a method's answers go through the tape. `request(self, ...)` tells whom it asks for
    what."""
    real = getattr(owner, name)

    def method(self, *arguments, **given):
        call = lambda: real(self, *arguments, **given)
        guest, *words = request(self, *arguments, **given)
        return _tape.ask(guest, (name, *words), call) if _tape and guest else call()

    setattr(owner, name, method)


def _wrap_spawn():
    real = Guest.spawn

    def spawn(self, command, *arguments, **given):
        start = lambda: real(self, command, *arguments, **given)
        process = _tape.spawned(self, start) if _tape else start()
        process.asks = self, str(command)
        return process

    Guest.spawn = spawn


def _wrap_process(kind):
    """All that is learnt from a process in a guest."""
    asks = lambda self, *_, **__: getattr(self, "asks", (None,))
    # All that was said is kept each time: who asks once more, or once less, gets the same in the end.
    kind.said_in_all = kind.said
    for name in ("wait", "wait_for_output", "ended", "written", "said_in_all"):
        _wrap(kind, name, asks)

    def said(self, start=0):
        return self.said_in_all().encode()[start:].decode(errors="replace")

    kind.said = said


def _wrap_calls():
    """Answers of the programs of `shell`, as they are before they are understood."""
    import shell

    command, result = shell.Program.command, shell.Call.result

    def tagged(self, how, decode, *words):
        call = command(self, how, decode, *words)
        call.asks = self.guest, how, *words
        return call

    def answered(self, timeout=30.0):
        decode, answers = self._decode, []
        self._decode = answers.append
        real = lambda: (result(self, timeout), self.seconds, answers[0])[1:]
        guest, *words = self.asks
        try:
            self.seconds, answer = (
                _tape.ask(guest, ("result", *words), real) if _tape else real()
            )
        finally:
            self._decode = decode
        return decode(answer)

    shell.Program.command = tagged
    shell.Call.result = answered
    _wrap(shell.Call, "returned", lambda self: self.asks)


def install():
    """Let all answers of guests go through the tape that is there, if one is."""
    _wrap(Guest, "run", lambda self, command, *_, **__: (self, str(command)))
    _wrap(Guest, "read", lambda self, path, *_, **__: (self, str(path)))
    _wrap_spawn()
    for kind in (Process, _Silent):
        _wrap_process(kind)
    _wrap_calls()
