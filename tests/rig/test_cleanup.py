# SPDX-License-Identifier: GPL-2.0-only
"""However a run ends, no guest, no server and no memory file is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ntbrig.settings import CHECKOUT

_RIG = CHECKOUT / "scripts/rig/rig"


def processes_with(text):
    """Ids of processes whose command line contains the text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass
    return found


def parent(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("PPid:"):
            return int(line.split()[1])
    return None


class Running:
    """`rig up --bare` in a process of its own."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, _RIG, "up", "--bare", "--hosts", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Whoever runs the tests in the background has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self.warden = self._wait(self._find_warden)
        self.directory = Path(Path(f"/proc/{self.warden}/cmdline").read_text().split("\0")[-2])
        self._wait(lambda: len(self.guests()) == 2)

    def _wait(self, condition):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(0.02)
        self.process.kill()
        raise AssertionError("it did not start: " + self.process.stdout.read())

    def _find_warden(self):
        """The process that is parent of this run's guests, once it has started."""
        for pid in processes_with("ntbrig.warden"):
            try:
                if parent(pid) == self.process.pid:
                    return pid
            except OSError:
                pass  # another run's, which has just ended
        return None

    def guests(self):
        return processes_with(f"{self.directory}/ram")

    def wait_until_up(self):
        for line in self.process.stdout:
            if "are up" in line:
                return
        raise AssertionError("it did not boot")

    def end(self):
        """End it, whatever it waits for: its warden ends the rest."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def assert_nothing_is_left(self):
        self.process.wait(30)
        deadline = time.monotonic() + 15
        while self.directory.exists() or processes_with(str(self.directory)):
            assert time.monotonic() < deadline, processes_with(str(self.directory))
            time.sleep(0.05)


@pytest.fixture
def start():
    """Start sets. They end with the test, however that ends."""
    started = []

    def running():
        started.append(Running())
        return started[-1]

    yield running
    for each in started:
        each.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_to_a_running_set_leaves_nothing(start, number):
    running = start()
    running.wait_until_up()
    running.process.send_signal(number)
    running.assert_nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_while_booting_leaves_nothing(start, number):
    running = start()
    running.process.send_signal(number)
    running.assert_nothing_is_left()


def test_guests_die_with_the_warden_and_the_next_run_removes_its_files(start):
    running = start()
    running.wait_until_up()
    os.kill(running.warden, signal.SIGKILL)
    deadline = time.monotonic() + 15
    while running.guests():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.process.send_signal(signal.SIGINT)
    running.process.wait(30)
    following = start()
    following.process.send_signal(signal.SIGINT)
    following.assert_nothing_is_left()
    assert not running.directory.exists()
