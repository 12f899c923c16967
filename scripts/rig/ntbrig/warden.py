# SPDX-License-Identifier: GPL-2.0-only
"""Parent of every process of a rig, so that none of them outlives it.

Runs as a process of its own (`python3 -m ntbrig.warden DIR`), out of reach of
the terminal's Ctrl-C, and takes orders over the socket on its standard input.
When that socket closes - the rig has ended, been killed or crashed - it kills
all its children and removes the run's directory. When it is killed itself, the
kernel kills its children, and the next rig finds the directory's lock free.

Orders and answers are JSON lines:
    {"spawn": argv, "log": path} -> {"pid": n}  or  {"error": text}
    {"signal": n, "pid": n}      -> no answer
    a child's end                -> {"exited": pid, "status": returncode}
"""

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_LAST_WAIT = 10.0

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Warden:
    def __init__(self, orders, directory):
        self.orders = orders
        self.directory = directory
        self.children = {}

    def answer(self, **message):
        try:
            self.orders.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the reader has gone, which the next recv tells

    def spawn(self, argv, log):
        try:
            with open(log, "ab") as output:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self.directory,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
        except OSError as error:
            self.answer(error=f"{argv[0]}: {error}")
            return
        self.children[child.pid] = child
        self.answer(pid=child.pid)

    def signal(self, pid, number):
        child = self.children.get(pid)
        if child and child.poll() is None:
            child.send_signal(number)

    def obey(self, line):
        order = json.loads(line)
        if "spawn" in order:
            self.spawn(order["spawn"], order["log"])
        elif "signal" in order:
            self.signal(order["pid"], order["signal"])

    def bury(self):
        for pid, child in list(self.children.items()):
            if child.poll() is not None:
                del self.children[pid]
                self.answer(exited=pid, status=child.returncode)

    def run(self, wakeup):
        pending = b""
        while True:
            ready, _, _ = select.select([self.orders, wakeup], [], [])
            if wakeup in ready:
                wakeup.recv(4096)
                self.bury()
            if self.orders in ready:
                data = self.orders.recv(1 << 16)
                if not data:
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self.obey(line)

    def end(self):
        for child in self.children.values():
            child.kill()
        deadline = time.monotonic() + _LAST_WAIT
        for child in self.children.values():
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass  # in the kernel's hands; the kill is pending
        shutil.rmtree(self.directory, ignore_errors=True)


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    wakeup, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    warden = Warden(socket.socket(fileno=os.dup(0)), sys.argv[1])
    try:
        warden.run(wakeup)
    finally:
        warden.end()


if __name__ == "__main__":
    main()
