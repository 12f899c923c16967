# SPDX-License-Identifier: GPL-2.0-only
"""One guest: started, used, killed, started again."""

import shlex
import signal
import time
from contextlib import suppress
from pathlib import Path

from . import qemu, reports
from .agent import Agent, GuestGone
from .settings import PATIENCE, RigError

_POLL = 0.01
_POWEROFF_TIMEOUT = 20.0
_LEAKS_TIMEOUT = 180.0
_FREEZE_TIMEOUT = 20.0
# What is younger than five seconds is not reported, and a pointer may be
# missed once: it must be missed twice.
_FIND_LEAKS = """
file=/sys/kernel/debug/kmemleak
[ -e $file ] || exit 0
sleep 5
echo scan > $file && echo scan > $file && cat $file
"""
_FORGET_LEAKS = f"{_FIND_LEAKS.strip()} > /dev/null && echo clear > $file"


class Guest:
    """A host of the fabric, whose port number is `port` and name is `name`."""

    def __init__(self, settings, run, port, name, logs):
        self._settings = settings
        self._run = run
        self._directory = run.directory
        self._pid = None
        self._agent = None
        self._marked = 0
        self._held = False
        self._started_at = 0.0
        self.port = port
        self.name = name
        self.boot_seconds = None
        # What its modules and programs are of; None: this checkout.
        self.release = None
        self.console_path = logs / f"{name}.console"
        self._output_path = logs / f"{name}.qemu"

    def __repr__(self):
        return f"<guest {self.name}>"

    # --- life

    def start(self):
        """Start QEMU and return at once; `wait_ready` is to follow."""
        if self._agent and self._agent.is_lost():
            # It is ending: its agent has gone before the rest.
            self._await_end(_POWEROFF_TIMEOUT)
        if self.is_running():
            raise RigError(f"{self.name} is running")
        self._close_agent()
        qemu.agent_socket(self._directory, self.port).unlink(missing_ok=True)
        argv = qemu.command(
            self._settings, self._directory, self.port, self.name, self.console_path
        )
        self._started_at = time.monotonic()
        self._pid = self._run.spawn(argv, self._output_path)

    def wait_ready(self, timeout=None):
        """Wait until the guest takes commands."""
        timeout = (timeout or self._settings.boot_timeout) * PATIENCE
        deadline = self._started_at + timeout
        while self._agent is None:
            try:
                self._agent = Agent(qemu.agent_socket(self._directory, self.port))
            except OSError:
                if self._run.has_ended(self._pid) or time.monotonic() > deadline:
                    raise self._failed_boot(timeout) from None
                time.sleep(_POLL)
        if not self._agent.wait_ready(max(0.0, deadline - time.monotonic())):
            raise self._failed_boot(timeout)
        self.boot_seconds = time.monotonic() - self._started_at

    def _failed_boot(self, timeout):
        how = "ended" if self._run.has_ended(self._pid) else f"was not ready in {timeout:.0f} s"
        told = [self._output_path.read_text(errors="replace")] if self._output_path.exists() else []
        told.append("\n".join(self.console().splitlines()[-30:]))
        return RigError("\n".join([f"{self.name} {how} at boot", *told]))

    def boot(self, timeout=None):
        """Start the guest and wait until it takes commands."""
        self.start()
        self.wait_ready(timeout)

    def is_running(self):
        return self._pid is not None and not self._run.has_ended(self._pid)

    def kill(self):
        """End the guest as a power failure would."""
        if self._pid is not None:
            self._run.signal(self._pid, signal.SIGKILL)
            self._await_end(_POWEROFF_TIMEOUT)

    def poweroff(self):
        """End the guest by its own doing."""
        self._connection().send(op="poweroff")
        self._await_end(_POWEROFF_TIMEOUT)

    def reboot(self, timeout=None):
        """Let the guest's kernel restart the machine and wait for it."""
        self._connection().send(op="restart")
        self._await_end(_POWEROFF_TIMEOUT)
        self.boot(timeout)

    def freeze(self):
        """Stop all its CPUs at once: a hung host whose link stays up. They stand still when this
        returns."""
        self._run.signal(self._pid, signal.SIGSTOP)
        deadline = time.monotonic() + _FREEZE_TIMEOUT * PATIENCE
        while not self.stands_still():
            if time.monotonic() > deadline:
                raise RigError(f"{self.name} does not stand still")
            time.sleep(_POLL)

    def stands_still(self):
        """Whether it is there, and none of its threads runs, or will."""
        states = set()
        for stat in Path(f"/proc/{self._pid}/task").glob("*/stat"):
            # A thread may end meanwhile. The name before the state may have blanks.
            with suppress(FileNotFoundError, ProcessLookupError):
                states.add(stat.read_text().rpartition(")")[2].split()[0])
        return "T" in states and states <= {"T", "Z", "X"}

    def thaw(self):
        if not self._held:
            self._run.signal(self._pid, signal.SIGCONT)

    def hold(self):
        """Stop it as `freeze` does; `thaw` has no effect until `let_go`."""
        self._held = True
        self.freeze()

    def let_go(self):
        self._held = False
        if self.is_running():
            self.thaw()

    def _await_end(self, timeout):
        timeout *= PATIENCE
        if not self._run.wait(self._pid, timeout):
            raise RigError(f"{self.name} did not end in {timeout:.0f} s")
        self._close_agent()

    def _close_agent(self):
        if self._agent:
            self._agent.close()
            self._agent = None

    # --- commands

    def _connection(self):
        if self._agent is None or self._agent.is_lost():
            raise GuestGone(f"{self.name} is not running")
        return self._agent

    def spawn(self, command, timeout=3600.0, env=None, stdin=False):
        """Start a command and return it, a `Process`.

        A string is run by bash, a list of words as it is. When `timeout`
        seconds have passed, the command and its children are killed.
        """
        argv = ["bash", "-c", command] if isinstance(command, str) else list(map(str, command))
        shown = command if isinstance(command, str) else shlex.join(argv)
        return self._connection().spawn(argv, f"{self.name}: {shown}", timeout, env, stdin)

    def run(self, command, timeout=30.0, check=True, env=None):
        """Run a command to its end. Returns a `Result`."""
        result = self.spawn(command, timeout, env).wait()
        return result.check() if check else result

    def read(self, path, timeout=20.0):
        """A file's contents as text."""
        return self._connection().read(path, timeout)

    def terminal(self, argv, size, on_output, env):
        """Start a program on a terminal of `size` (rows, columns)."""
        shown = f"{self.name}: {shlex.join(argv)}"
        return self._connection().spawn(
            argv, shown, None, env=env, stdin=True, terminal=size, on_output=on_output
        )

    # --- console

    def console(self):
        """All that the guest's kernel has said since it was first started."""
        try:
            return self.console_path.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def kernel_reports(self):
        """What the kernel has complained about since `forget_reports`."""
        return reports.find(self.console()[self._marked :])

    def leaks(self):
        """What kmemleak has found, on a kernel that has it."""
        return self.run(_FIND_LEAKS, _LEAKS_TIMEOUT).out

    def forget_leaks(self):
        """Leave what has been lost until now out of later `leaks`."""
        self.run(_FORGET_LEAKS, _LEAKS_TIMEOUT)

    def forget_reports(self):
        self._marked = len(self.console())
