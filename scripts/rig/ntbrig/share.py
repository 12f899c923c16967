# SPDX-License-Identifier: GPL-2.0-only
"""Lets other programs on this machine open terminals in a running set.

The program that booted the guests listens on `share.sock` in the run's
directory. A client sends one JSON line that names the host and the terminal's
size, then lines with input or new sizes; it gets lines with output and at last
the exit status.
"""

import base64
import json
import os
import socket
import tempfile
import threading
from pathlib import Path

from .agent import CommandFailed, GuestGone

_NAME = "share.sock"
# Without the host's start-up files: they may do much, and emulation is slow.
_SHELL = ["bash", "--norc", "-i"]
_PROMPT = r"\u@\h:\w# "


class Share:
    """Serves terminals of a fabric until it is closed."""

    def __init__(self, fabric):
        self._fabric = fabric
        self._open = 0
        self._changed = threading.Condition()
        self.path = fabric.directory / _NAME
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def wait_until_unused(self):
        """Wait until the last terminal has been closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._open == 0)

    @property
    def terminals(self):
        with self._changed:
            return self._open

    def _count(self, change):
        with self._changed:
            self._open += change
            self._changed.notify_all()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        self._count(1)
        try:
            with client, client.makefile("rb") as lines:
                Terminal(self._fabric, client, json.loads(lines.readline())).run(lines)
        except (OSError, ValueError, KeyError):
            pass  # a client that vanished or never was one
        finally:
            self._count(-1)


class Terminal:
    """One client's terminal in one guest."""

    def __init__(self, fabric, client, request):
        self._client = client
        self._sending = threading.Lock()
        self._names = [guest.name for guest in fabric.hosts]
        self._fabric = fabric
        self._request = request

    def _answer(self, **message):
        with self._sending:
            self._client.sendall(json.dumps(message).encode() + b"\n")

    def _output(self, data):
        try:
            self._answer(out=base64.b64encode(data).decode())
        except OSError:
            pass  # the client has gone; its input ends as well

    def run(self, lines):
        if self._request.get("list"):
            self._answer(hosts=self._names)
            return
        try:
            guest = self._fabric[self._request["host"]]
            process = guest.terminal(
                self._request.get("argv") or _SHELL,
                (self._request["rows"], self._request["columns"]),
                self._output,
                {"TERM": self._request.get("term", "vt100"), "PS1": _PROMPT},
            )
        except (KeyError, GuestGone) as error:
            self._answer(error=str(error.args[0]))
            return
        threading.Thread(target=self._report_end, args=(process,), daemon=True).start()
        try:
            for line in lines:
                self._feed(process, json.loads(line))
        except GuestGone:
            return
        finally:
            if not process.ended():
                process.kill()

    def _feed(self, process, message):
        if "input" in message:
            process.write(base64.b64decode(message["input"]))
        elif "resize" in message:
            process.resize(*message["resize"])

    def _report_end(self, process):
        try:
            # A person may stay for as long as they like.
            status = process.wait(timeout=threading.TIMEOUT_MAX).rc
            self._answer(exit=status)
        except (GuestGone, CommandFailed) as error:
            self._answer(error=str(error))
        except OSError:
            pass


def connect(path):
    """A connection to a share, or None if nobody listens there."""
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(str(path))
    except OSError:
        client.close()
        return None
    return client


def find():
    """The share of a running set, newest first, or None."""
    bases = {Path("/dev/shm"), Path(tempfile.gettempdir())}
    found = [path for base in bases for path in base.glob(f"pximc-rig-*/{_NAME}")]
    for path in sorted(found, key=os.path.getmtime, reverse=True):
        if client := connect(path):
            client.close()
            return path
    return None


def hosts(path):
    """The names of the hosts behind a share."""
    with connect(path) as client:
        client.sendall(b'{"list": true}\n')
        return json.loads(client.makefile("rb").readline())["hosts"]
