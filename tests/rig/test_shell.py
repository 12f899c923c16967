# SPDX-License-Identifier: GPL-2.0-only
"""How programs in guests are told what to do, and how their answers are found, without guests."""

import json
from base64 import b64encode
from types import SimpleNamespace

import pytest
from ntbrig.agent import Process
from shell import Program, no_failure, pid_of


class Scripted(Process):
    """A process that answers as it is told, and keeps what it is sent."""

    def __init__(self):
        super().__init__(None, 1, "program", limit=1)
        self.sent = []
        # What it says when it is sent a command with a tag: tags and answers.
        self.answers = {}

    def write(self, data):
        self.sent.append(data.decode().split())
        for tag, answer in self.answers.get(self.sent[-1][0], ()):
            self.say(tag, **answer)

    def say(self, tag, **answer):
        line = json.dumps({"tag": tag, "us": 2_000_000, **answer}) + "\n"
        self.handle({"event": "out", "data": b64encode(line.encode())})


@pytest.fixture
def process():
    return Scripted()


@pytest.fixture
def program(process, tmp_path):
    """A program that has been asked who it is, with the tag 1."""
    (tmp_path / "program").touch()
    release = SimpleNamespace(programs=tmp_path)
    return Program(SimpleNamespace(release=release, spawn=lambda *_, **__: process), "program")


def test_answers_of_two_commands_are_kept_apart(program, process):
    one, other = (program.command("&", pid_of, "identify") for _ in "12")
    process.say(3, pid=30)
    assert (one.returned(), other.returned()) == (False, True)
    assert other.result() == 30
    process.say(2, pid=20)
    assert (one.result(), other.result()) == (20, 30)


def test_an_answer_is_looked_for_from_the_command_on(program, process):
    process.say(2, pid=10)
    begun = program.command("", pid_of, "identify")
    assert not begun.returned()
    process.say(2, pid=20)
    assert begun.result() == 20


def test_half_an_answer_is_none(program, process):
    begun = program.command("", pid_of, "identify")
    process.handle({"event": "out", "data": b64encode(b'{"tag": 2, "us": 5, ')})
    assert not begun.returned()
    process.handle({"event": "out", "data": b64encode(b'"pid": 20}\n')})
    assert begun.result() == 20


def test_what_is_written_ahead_is_sent_at_once_and_looked_at_with_the_next_answer(program, process):
    program.write_ahead(0x100, b"\1")
    program.write_ahead(0x200, b"\2")
    begun = program.command("", pid_of, "identify")
    assert process.sent[1:] == [
        ["2", "write", "256", "01"],
        ["3", "write", "512", "02"],
        ["4", "identify"],
    ]
    process.say(2, fault=0)
    process.say(3, fault=11)
    process.say(4, pid=20)
    with pytest.raises(AssertionError, match="the memory is not there"):
        begun.result()
    # The next one has nothing to do with it.
    begun = program.command("", pid_of, "identify")
    process.say(5, pid=20)
    assert begun.result() == 20


def test_what_a_command_writes_is_read_without_waiting_for_the_command(program, process):
    begun = program.command("", no_failure, "function")
    process.answers = {"3": ((2, {"failed": 0}), (3, {"fault": 0, "bytes": "0102"}))}
    assert program.written_by(begun, 0x100, 2) == b"\1\2"
    assert process.sent[1:] == [["2", "function"], ["3", "read", "256", "2"]]
    assert program.seconds == 2


def test_what_a_command_that_fails_writes_is_not_told(program, process):
    begun = program.command("", no_failure, "function")
    process.answers = {"3": ((2, {"failed": 1}), (3, {"fault": 0, "bytes": "0102"}))}
    with pytest.raises(AssertionError):
        program.written_by(begun, 0x100, 2)
    assert program.seconds == 2
