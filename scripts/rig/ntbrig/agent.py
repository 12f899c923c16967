# SPDX-License-Identifier: GPL-2.0-only
"""Talks to the agent in a guest; `guest-init`'s `protocol.rs` is the other end."""

import base64
import itertools
import json
import signal
import socket
import threading
from dataclasses import dataclass

from .settings import PATIENCE

_LONGEST_OUTPUT = 64 << 20
# Beyond a command's own time limit, which the guest enforces: how long until
# the guest itself counts as hung.
_GRACE = 20.0


class GuestGone(Exception):
    """The guest ended, or its agent does not answer."""


class CommandFailed(Exception):
    """A command that had to succeed did not."""


@dataclass(frozen=True)
class Result:
    """How a command ended. `rc` is negative when a signal ended it."""

    command: str
    rc: int
    out: str
    err: str
    timed_out: bool = False

    def __str__(self):
        end = "ran out of time" if self.timed_out else f"ended with {self.rc}"
        parts = [f"`{self.command}` {end}"]
        parts += [text.rstrip() for text in (self.out, self.err) if text.strip()]
        return "\n".join(parts)

    def check(self):
        if self.rc != 0:
            raise CommandFailed(str(self))
        return self


class Process:
    """A command running in a guest. Its time limits grow with `PATIENCE`.

    As a context manager it is killed at the end, if it has not ended by itself.
    """

    def __init__(self, agent, number, command, limit, on_output=None):
        self._agent = agent
        self._number = number
        self._command = command
        self._limit = limit
        self._on_output = on_output
        self._out = bytearray()
        self._err = bytearray()
        self._changed = threading.Condition()
        self._end = None
        self._failure = None
        self.pid = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.wait()

    def handle(self, event):
        """Called by the agent's reader for every event of this command."""
        kind = event["event"]
        if kind in ("out", "err"):
            self._store(kind, base64.b64decode(event["data"]))
        with self._changed:
            if kind == "started":
                self.pid = event["pid"]
            elif kind == "exit":
                self._end = event
            elif kind == "failed":
                self._failure = CommandFailed(f"`{self._command}`: {event['message']}")
            self._changed.notify_all()

    def _store(self, kind, data):
        if self._on_output:
            self._on_output(data)
            return
        with self._changed:
            (self._out if kind == "out" else self._err).extend(data)
            if len(self._out) + len(self._err) <= _LONGEST_OUTPUT:
                return
            self._failure = CommandFailed(f"`{self._command}` writes without end")
        self.kill()

    def lose(self, reason):
        with self._changed:
            if self._end is None:
                self._failure = GuestGone(f"`{self._command}`: {reason}")
            self._changed.notify_all()

    def written(self):
        """How many bytes it has written to standard output so far."""
        with self._changed:
            return len(self._out)

    def said(self, start=0):
        """What it has written to standard output so far, from a byte on."""
        with self._changed:
            return self._out[start:].decode(errors="replace")

    @property
    def output(self):
        """What it has written to standard output so far."""
        return self.said()

    def ended(self):
        with self._changed:
            return self._end is not None or self._failure is not None

    def wait_for_output(self, text, timeout=20.0, start=0):
        """Wait until `text` has appeared on standard output, from a byte on."""
        wanted = text.encode()
        is_there = lambda: self._out.find(wanted, start) >= 0
        with self._changed:
            seen = lambda: is_there() or self._end or self._failure
            self._changed.wait_for(seen, timeout * PATIENCE)
            if is_there():
                return
        raise CommandFailed(f"`{self._command}` did not say {text!r}: {self.output!r}")

    def wait(self, timeout=None):
        """Wait for the end: at most `timeout`, or its own limit and a bit."""
        if timeout is None:
            timeout = self._limit + _GRACE
        timeout = min(timeout * PATIENCE, threading.TIMEOUT_MAX)
        with self._changed:
            self._changed.wait_for(lambda: self._end or self._failure, timeout)
            if self._failure:
                raise self._failure
            if not self._end:
                raise GuestGone(f"`{self._command}`: no answer in {timeout:.0f} s")
            code, number = self._end["code"], self._end["signal"]
            return Result(
                command=self._command,
                rc=code if code is not None else -(number or 0),
                out=self._out.decode(errors="replace"),
                err=self._err.decode(errors="replace"),
                timed_out=self._end["timed_out"],
            )

    def kill(self, number=signal.SIGKILL):
        """Send a signal to the command and its children."""
        self._agent.send(op="kill", id=self._number, signal=int(number))

    def write(self, data):
        """Feed its standard input; no data at all closes it."""
        self._agent.send(op="input", id=self._number, data=base64.b64encode(data).decode())

    def resize(self, rows, columns):
        self._agent.send(op="resize", id=self._number, rows=rows, columns=columns)


class Agent:
    """A connection to one boot of one guest."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._processes = {}
        self._numbers = itertools.count(1)
        self._ready = False
        self._lost = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        reason = "the guest ended"
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    self._dispatch(line)
        except (OSError, ValueError) as error:
            reason = f"the guest's agent: {error}"
        with self._changed:
            self._lost = reason
            processes = list(self._processes.values())
            self._changed.notify_all()
        for process in processes:
            process.lose(reason)

    def _dispatch(self, line):
        event = json.loads(line)
        if event["event"] == "ready":
            self._note_ready()
            return
        with self._changed:
            process = self._processes.get(event.get("id"))
            if event["event"] in ("exit", "failed"):
                self._processes.pop(event.get("id"), None)
        if process:
            process.handle(event)

    def _note_ready(self):
        """The agent has begun. If it was there before, it has died: what it had started is told to
        nobody any more. What it had not read may be for the new one."""
        with self._changed:
            had_begun, self._ready = self._ready, True
            started = {number: each for number, each in self._processes.items() if each.pid}
            for number in started if had_begun else ():
                del self._processes[number]
            self._changed.notify_all()
        if had_begun:
            for process in started.values():
                process.lose("the guest's agent died, and has begun again")

    def wait_ready(self, timeout):
        """Whether the agent came up in time; False too if the guest ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._lost, timeout)
            return self._ready and not self._lost

    def is_lost(self):
        with self._changed:
            return self._lost is not None

    def send(self, **request):
        with self._sending:
            try:
                self._socket.sendall(json.dumps(request).encode() + b"\n")
            except OSError as error:
                raise GuestGone(f"the guest's agent: {error}") from error

    def _register(self, command, limit, on_output=None):
        with self._changed:
            if self._lost:
                raise GuestGone(self._lost)
            number = next(self._numbers)
            process = Process(self, number, command, limit, on_output)
            self._processes[number] = process
        return number, process

    def spawn(self, argv, shown, limit, env=None, stdin=False, terminal=None, on_output=None):
        """Start a program; `terminal` is (rows, columns) to give it one."""
        number, process = self._register(shown, limit, on_output)
        request = {"op": "exec", "id": number, "argv": argv, "env": env or {}, "input": stdin}
        if limit is not None:
            request["timeout_ms"] = int(limit * PATIENCE * 1000)
        if terminal:
            request["terminal"] = {"rows": terminal[0], "columns": terminal[1]}
        self.send(**request)
        return process

    def read(self, path, timeout):
        """A file's contents."""
        number, process = self._register(f"read {path}", timeout)
        self.send(op="read", id=number, path=str(path))
        return process.wait(timeout).out

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()
