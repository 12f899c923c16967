# SPDX-License-Identifier: GPL-2.0-only
"""Answers of guests that are given again, without guests."""

from base64 import b64encode
from types import SimpleNamespace

import pytest
import replay
from ntbrig import CommandFailed
from ntbrig.agent import Process

# What the agent calls, and only that.
OF_THE_AGENT = ("handle", "lose", "_store")
HERE, THERE = SimpleNamespace(name="rp"), SimpleNamespace(name="ep1")


@pytest.fixture
def tape(monkeypatch):
    """The answers `one`, `two` and an error to the same request, and one of another guest."""
    monkeypatch.setattr(replay, "_current", lambda tape: replay.contextlib.nullcontext())
    tape = replay.Tape()
    answers = iter(("one", "two"))
    with tape.recording():
        assert [tape.ask(THERE, ("run", "ls"), lambda: next(answers)) for _ in "12"] == ["one", "two"]
        with pytest.raises(OSError):
            tape.ask(THERE, ("run", "ls"), lambda: (_ for _ in ()).throw(OSError("gone")))
        tape.ask(HERE, ("run", "ls"), lambda: "mine")
        tape.ask(THERE, ("read", "address 7fab00 of session 98"), lambda: "there")
    return tape


def real():
    return "real"


def test_a_stopped_guest_answers_as_before_and_then_as_at_last(tape):
    with tape.replaying([THERE]):
        assert [tape.ask(THERE, ("run", "ls"), real) for _ in "12"] == ["one", "two"]
        for _ in "12":
            with pytest.raises(OSError, match="gone"):
                tape.ask(THERE, ("run", "ls"), real)
    assert tape.was_asked


def test_guests_that_go_are_asked(tape):
    with tape.replaying([THERE]):
        assert tape.ask(HERE, ("run", "ls"), real) == "real"
    assert not tape.was_asked


def test_each_run_begins_with_the_first_answer(tape):
    for _ in "12":
        with tape.replaying([THERE]):
            assert tape.ask(THERE, ("run", "ls"), real) == "one"


def test_addresses_and_numbers_may_be_others(tape):
    with tape.replaying([THERE]):
        assert tape.ask(THERE, ("read", "address 55aa00 of session 101"), real) == "there"


def test_what_was_not_asked_before_has_no_answer(tape):
    with tape.replaying([THERE]), pytest.raises(replay.NotRecorded, match="ep1: .*uptime"):
        tape.ask(THERE, ("run", "uptime"), real)


def test_a_stopped_guest_starts_nothing_and_others_stop_in_the_end(tape):
    process = SimpleNamespace(ended=lambda: False, kill=lambda: killed.append(1), wait=lambda _: 0)
    killed = []
    with tape.replaying([THERE]):
        assert tape.spawned(HERE, lambda: process) is process
        silent = tape.spawned(THERE, lambda: pytest.fail("it is asked"))
        assert silent.ended() and silent.wait().rc == -9 and silent.output == ""
    assert killed


def test_what_a_stopped_guest_starts_has_all_that_programs_of_a_guest_have():
    """A test misses what a stopped host would have done, and not a method."""
    names = {name for name in vars(Process) if callable(getattr(Process, name))}
    names -= {"__init__", *OF_THE_AGENT}
    assert names <= set(dir(replay._Silent))


def test_what_a_process_says_is_looked_for_from_a_place_on():
    """An answer that was there before is no answer."""
    process = Process(None, 1, "cat", limit=1)
    say = lambda text: process.handle({"event": "out", "data": b64encode(text.encode())})
    say("one\n")
    begin = process.written()
    process.wait_for_output("one", timeout=0)
    with pytest.raises(CommandFailed, match="did not say 'one'"):
        process.wait_for_output("one", timeout=0, start=begin)
    say("two\n")
    process.wait_for_output("two", timeout=0, start=begin)
    assert (process.said(begin), process.output) == ("two\n", "one\ntwo\n")
