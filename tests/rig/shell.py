# SPDX-License-Identifier: GPL-2.0-only
"""Programs in guests that do what tests tell them: `tests/programs/*_shell.c`.

`Program` is a process that runs one; what all of them can do is in `Caller`, and
`tests/programs/common/shell.h` says how they are told.
"""

import functools
import itertools
import json
import time
from typing import NamedTuple

from ntbrig import CommandFailed, GuestGone, RigError
from ntbrig.settings import PATIENCE, programs32_dir, programs_dir


class Wrong(NamedTuple):
    """How many bytes are not as expected, and where the first is."""

    wrong: int
    first: int


# All bytes are as expected.
INTACT = Wrong(0, 0)


def _fault(answer):
    return answer["fault"]


def _no_fault(answer):
    assert answer["fault"] == 0, "the memory is not there"
    return answer


def _nothing(answer):
    _no_fault(answer)


def _wrong(answer):
    _no_fault(answer)
    return Wrong(answer["wrong"], answer["first"])


def _first(answer):
    return _no_fault(answer)["first"]


def bytes_of(answer):
    return bytes.fromhex(_no_fault(answer)["bytes"])


def address(answer):
    assert answer["address"], "there is no memory"
    return answer["address"]


def no_failure(answer):
    assert answer["failed"] == 0


def pid_of(answer):
    return answer["pid"]


def word_of(data):
    """Bytes as programs take them."""
    return data.hex() or "-"


class Caller:
    """What every program can do, run in one of its ways: memory, by its address there."""

    def __init__(self, order):
        self._order = order

    def fill(self, address, length, seed):
        """Write a pattern."""
        return self._order(_nothing, "fill", address, length, seed)

    def check(self, address, length, seed):
        """Compare with a pattern."""
        return self._order(_wrong, "check", address, length, seed)

    def same(self, address, length, byte):
        """Compare all bytes with one."""
        return self._order(_wrong, "same", address, length, byte)

    def touch(self, address, length):
        """Read. The signal that has ended it, or 0."""
        return self._order(_fault, "same", address, length, 0)

    def store(self, address, data):
        """Write. The signal that has ended it, or 0."""
        return self._order(_fault, "write", address, word_of(data))

    def write(self, address, data):
        return self._order(_nothing, "write", address, word_of(data))

    def read(self, address, length):
        return self._order(bytes_of, "read", address, length)

    def find(self, address, length, data):
        """Where bytes lie in memory; None if they do not."""
        at = self._order(_first, "find", address, length, word_of(data))
        return address + at if at < length else None

    def storm(self, address, length, byte, milliseconds):
        """Store a byte everywhere, again and again."""
        return self._order(_nothing, "storm", address, length, byte, milliseconds)

    def allocate(self, length):
        """The address of new memory, all zero."""
        return self._order(address, "allocate", length)

    def allocate_runs(self, length):
        """As `allocate`, in huge pages, if the guest has them."""
        return self._order(address, "runs", length)

    def protect(self, address, length):
        """Let everybody who reads or writes there end the program."""
        return self._order(no_failure, "protect", address, length)

    def unmap(self, address, length):
        return self._order(no_failure, "unmap", address, length)

    def renew(self, address, length):
        """Map other memory at the same addresses, all zero."""
        return self._order(no_failure, "renew", address, length)


class Call:
    """A command that a program runs, or has run."""

    def __init__(self, process, begin, tag, decode, before=()):
        """`begin` is what the program had written before the command, and `before` are the commands
        whose answers are looked at together with this one's."""
        self._process = process
        self._begin = begin
        self._start = f'{{"tag": {tag}, '
        self._decode = decode
        self._before = before
        # How long it took, by the guest's own clock.
        self.seconds = None

    def _answer(self):
        """The answer, once all of it is there."""
        output = self._process.said(self._begin)
        start = output.find(self._start)
        end = output.find("\n", start)
        return json.loads(output[start:end]) if 0 <= start < end else None

    def returned(self):
        return self._answer() is not None

    def result(self, timeout=30.0):
        for call in self._before:
            call.result(timeout)
        self._before = ()
        self._process.wait_for_output(self._start, timeout, self._begin)
        while not (answer := self._answer()):
            time.sleep(0.001)
        if "complaint" in answer:
            raise CommandFailed(f"the program does not understand: {answer['complaint']}")
        self.seconds = answer["us"] / 1e6
        return self._decode(answer)


def directory(guest, bits=64):
    """Where a guest's programs and libraries are, for processes of so many bits."""
    if guest.release:
        return guest.release.programs
    return programs_dir() if bits == 64 else programs32_dir()


class Program(Caller):
    """A process in a guest. Its methods wait for the answer."""

    def __init__(self, guest, name, bits=64, how=(), env=None):
        """`how` is a command that starts the program."""
        super().__init__(self._run)
        program = directory(guest, bits) / name
        if not program.exists():
            raise RigError(f"{program} is missing: run `make programs`")
        self.guest = guest
        self.process = guest.spawn([*how, program], env=env, stdin=True)
        # Of the last command.
        self.seconds = None
        self._tags = itertools.count(1)
        # Of which nobody has looked at the answers.
        self._ahead = []
        self._identity = self.command("", pid_of, "identify")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def command(self, how, decode, *words):
        """Begin a command: `how` may be `&`, in a thread, or `fork`, in a child."""
        tag = next(self._tags)
        line = " ".join(str(word) for word in (tag, how, *words) if word != "")
        before, self._ahead = self._ahead, []
        begin = self.process.written()
        self.process.write((line + "\n").encode())
        return Call(self.process, begin, tag, decode, before)

    def write_ahead(self, address, data):
        """Write what only the program's next commands need: the answer is looked at with that of the
        next one. A program runs its commands in order."""
        before, self._ahead = self._ahead, []
        call = self.command("", _nothing, "write", address, word_of(data))
        self._ahead = [*before, call]

    def written_by(self, call, address, length):
        """What a command that has begun writes into memory, once it has succeeded."""
        data = self.command("", bytes_of, "read", address, length)
        self.finish(call)
        return data.result()

    def _run(self, decode, *words):
        return self.finish(self.command("", decode, *words))

    def finish(self, call):
        """The answer to a command that has begun, as the last one."""
        try:
            return call.result()
        finally:
            self.seconds = call.seconds

    @functools.cached_property
    def pid(self):
        return self._identity.result()

    def until_asleep(self):
        """Wait until none of its threads has anything to do."""
        states = f"cut -d' ' -f3 /proc/{self.pid}/task/*/stat"
        until(lambda: set(self.guest.run(states).out.split()) <= {"S", "D"})

    # --- its end

    def exit(self, status=0):
        """End without even what is done at exits."""
        self.command("", _nothing, "exit", status)
        assert self.process.wait(20).rc == status

    def become(self, program, argument):
        """Become another program, which answers nothing."""
        self.command("", _nothing, "exec", program, argument)
        until(lambda: self.guest.read(f"/proc/{self.pid}/comm").strip() == program.split("/")[-1])

    def kill(self):
        """Do not wait until it has gone."""
        try:
            if not self.process.ended():
                self.process.kill()
        except (GuestGone, CommandFailed):
            pass  # with its host

    def reap(self):
        try:
            self.process.wait(20)
        except (GuestGone, CommandFailed):
            pass  # with its host

    def end(self):
        """Kill it, and wait until it has gone."""
        end(self)


def end(*programs):
    """Kill programs, all at the same time."""
    for program in programs:
        program.kill()
    for program in programs:
        program.reap()


def until(condition, timeout=20.0):
    """Wait until a function returns something."""
    deadline = time.monotonic() + timeout * PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.02)
    return found
