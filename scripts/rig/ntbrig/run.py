# SPDX-License-Identifier: GPL-2.0-only
"""One run of the rig: its directory, its warden, its processes."""

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from .settings import RigError

_PREFIX = "pximc-rig-"
_SHARED_MEMORY = Path("/dev/shm")
_ANSWER_TIMEOUT = 20.0


def _base_directory(needed):
    """Where RAM files live: in memory if there is room, else on disk."""
    for base in (_SHARED_MEMORY, Path(tempfile.gettempdir())):
        if base.is_dir() and os.access(base, os.W_OK) and shutil.disk_usage(base).free > needed:
            return base
    raise RigError(
        f"neither {_SHARED_MEMORY} nor {tempfile.gettempdir()} has"
        f" {needed >> 20} MiB free for the guests' memory"
    )


def _lock(directory):
    """The directory's lock as an open file, or None if someone holds it."""
    try:
        lock = open(directory / "lock", "ab")
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def remove_stale(base):
    """Remove directories of runs whose warden is dead."""
    for directory in base.glob(f"{_PREFIX}*"):
        if lock := _lock(directory):
            shutil.rmtree(directory, ignore_errors=True)
            lock.close()


def _create_directory(base):
    # Nobody looks for it by this name until it is locked.
    hidden = Path(tempfile.mkdtemp(prefix=".new-", dir=base))
    lock = _lock(hidden)
    directory = base / f"{_PREFIX}{hidden.name.removeprefix('.new-')}"
    hidden.rename(directory)
    return directory, lock


class Run:
    """Processes started here end with this object, or with this program."""

    def __init__(self, memory_needed):
        base = _base_directory(memory_needed)
        remove_stale(base)
        self.directory, lock = _create_directory(base)
        self._changed = threading.Condition()
        self._order = threading.Lock()
        self._started = []
        self._statuses = {}
        self._closed = False
        self._socket, theirs = socket.socketpair()
        try:
            self._warden = subprocess.Popen(
                [sys.executable, "-m", "ntbrig.warden", str(self.directory)],
                stdin=theirs,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
                pass_fds=[lock.fileno()],
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        finally:
            theirs.close()
            lock.close()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with self._socket.makefile("rb") as lines:
            try:
                for line in lines:
                    self._note(json.loads(line))
            except OSError:
                pass
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _note(self, message):
        with self._changed:
            if "exited" in message:
                self._statuses[message["exited"]] = message["status"]
            else:
                self._started.append(message)
            self._changed.notify_all()

    def _send(self, **order):
        try:
            self._socket.sendall(json.dumps(order).encode() + b"\n")
        except OSError as error:
            raise RigError(f"the rig's warden has gone: {error}") from error

    def spawn(self, argv, log):
        """Start a program; its output is appended to the file `log`."""
        with self._order:
            self._send(spawn=[str(word) for word in argv], log=str(log))
            with self._changed:
                arrived = lambda: self._started or self._closed
                if not self._changed.wait_for(arrived, _ANSWER_TIMEOUT) or not self._started:
                    raise RigError("the rig's warden does not answer")
                answer = self._started.pop()
        if "error" in answer:
            raise RigError(f"cannot start {answer['error']}")
        return answer["pid"]

    def signal(self, pid, number):
        self._send(signal=int(number), pid=pid)

    def has_ended(self, pid):
        with self._changed:
            return self._closed or pid in self._statuses

    def status(self, pid):
        """The exit status of a process that has ended; negative for a signal."""
        with self._changed:
            return self._statuses.get(pid)

    def wait(self, pid, timeout):
        """Whether the process ended in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or pid in self._statuses, timeout)

    def close(self):
        """End all processes and remove the directory."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        try:
            self._warden.wait(_ANSWER_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._warden.kill()
            self._warden.wait()
            shutil.rmtree(self.directory, ignore_errors=True)
        self._socket.close()
