# SPDX-License-Identifier: GPL-2.0-only
"""The person's side of a terminal in a guest."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import sys
import termios
import tty

from . import share
from .settings import RigError


@contextlib.contextmanager
def _raw_input():
    """Every key goes to the guest, Ctrl-C included."""
    if not sys.stdin.isatty():
        yield
        return
    saved = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, saved)


@contextlib.contextmanager
def _resize_signal():
    """A file descriptor that becomes readable when the window changes."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def notify(*_):
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"\0")

    previous = signal.signal(signal.SIGWINCH, notify)
    try:
        yield reader
    finally:
        signal.signal(signal.SIGWINCH, previous)
        os.close(reader)
        os.close(writer)


def _size():
    columns, rows = shutil.get_terminal_size()
    return rows, columns


class _Session:
    def __init__(self, client):
        self.client = client
        self.pending = b""
        self.status = None

    def send(self, **message):
        # If the other end has gone, what it said last tells why.
        with contextlib.suppress(BrokenPipeError):
            self.client.sendall(json.dumps(message).encode() + b"\n")

    def take_output(self):
        """Show what has arrived; False at the end."""
        data = self.client.recv(1 << 16)
        if not data:
            raise RigError("the set of hosts has ended")
        *lines, self.pending = (self.pending + data).split(b"\n")
        return all(self.show(json.loads(line)) for line in lines)

    def show(self, message):
        if "out" in message:
            os.write(1, base64.b64decode(message["out"]))
            return True
        if "error" in message:
            raise RigError(message["error"])
        self.status = message["exit"]
        return False

    def take_input(self):
        """Send what was typed; False when there will be no more."""
        data = os.read(0, 4096)
        # The end of a file is typed as Ctrl-D.
        self.send(input=base64.b64encode(data or b"\x04").decode())
        return bool(data)

    def run(self):
        inputs = [self.client, 0]
        with _raw_input(), _resize_signal() as resized:
            while True:
                ready, _, _ = select.select([*inputs, resized], [], [])
                if resized in ready:
                    os.read(resized, 64)
                    self.send(resize=_size())
                if 0 in ready and not self.take_input():
                    inputs.remove(0)
                if self.client in ready and not self.take_output():
                    return self.status


def open_shell(path, host, argv=None):
    """Run a shell (or a program) in a host until it ends; its exit status."""
    client = share.connect(path)
    if client is None:
        raise RigError("the set of hosts has ended")
    with client:
        session = _Session(client)
        rows, columns = _size()
        term = os.environ.get("TERM", "vt100")
        session.send(host=host, argv=argv, rows=rows, columns=columns, term=term)
        return session.run()


def menu(path):
    """Let the person go from host to host."""
    names = share.hosts(path)
    choices = "  ".join(f"{number}) {name}" for number, name in enumerate(names, 1))
    while True:
        try:
            answer = input(f"\n{choices}  q) quit > ").strip()
        except EOFError:
            return
        if answer in ("q", "quit"):
            return
        if answer.isdigit() and 1 <= int(answer) <= len(names):
            answer = names[int(answer) - 1]
        if answer in names:
            open_shell(path, answer)
