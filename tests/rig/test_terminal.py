# SPDX-License-Identifier: GPL-2.0-only
"""Terminals in a running set behave like terminals."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

import pytest
from ntbrig.settings import CHECKOUT

_RIG = CHECKOUT / "scripts/rig/rig"


class Person:
    """Someone at a terminal in front of `rig shell`."""

    def __init__(self, *arguments):
        self.keyboard, screen = pty.openpty()
        self.resize(30, 100)
        self.process = subprocess.Popen(
            [sys.executable, _RIG, "shell", "--bare", "--hosts", "2", *arguments],
            stdin=screen,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(screen)
        self.seen = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.keyboard, text.encode())

    def see(self, text, timeout=40):
        """Wait until the text appears, and forget everything up to it."""
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self.seen!r}"
            if select.select([self.keyboard], [], [], left)[0]:
                try:
                    self.seen += os.read(self.keyboard, 4096).decode(errors="replace")
                except OSError as error:
                    raise AssertionError(f"no {text!r} in {self.seen!r}") from error
        self.seen = self.seen.partition(text)[2]

    def leave(self):
        status = self.process.wait(30)
        os.close(self.keyboard)
        return status


@pytest.fixture
def person():
    person = Person("rp")
    person.see("root@rp:/#")
    yield person
    if person.process.poll() is None:
        person.process.terminate()
        person.process.wait(30)


def test_a_shell_has_a_terminal_of_the_right_size(person):
    person.type("tty; stty size\n")
    person.see("/dev/pts/0")
    person.see("30 100")
    person.resize(40, 120)
    time.sleep(0.5)
    person.type("stty size\n")
    person.see("40 120")
    person.type("exit 5\n")
    assert person.leave() == 5


def test_keys_reach_the_guest_not_the_rig(person):
    person.type("sleep 1000\n")
    person.see("sleep 1000")
    time.sleep(0.5)
    person.type("\x03")
    person.see("^C")
    person.type("sleep 1000\n")
    person.see("sleep 1000")
    time.sleep(0.5)
    person.type("\x1a")
    person.see("Stopped")
    person.type("kill %1; exit 0\n")
    person.see("exit")
    person.type("exit 0\n")
    assert person.leave() == 0


def test_a_full_screen_program_works(person):
    person.type("top -d 1\n")
    person.see("load average")
    person.see("COMMAND")
    person.type("q")
    person.see("root@rp:/#")
    person.type("exit 0\n")
    assert person.leave() == 0


def test_what_is_built_again_is_found(person):
    with tempfile.NamedTemporaryFile("w", dir=CHECKOUT / "build") as built:
        for text in ("at first", "then, and longer"):
            built.truncate(0)
            built.seek(0)
            print(text, file=built, flush=True)
            person.type(f"cat {built.name}\n")
            person.see(text)
    person.type("exit 0\n")
    assert person.leave() == 0


def test_others_attach_to_the_running_set(person):
    command = [sys.executable, _RIG, "run", "ep1"]
    ran = subprocess.run(
        [*command, "hostname"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "ep1")
    absent = subprocess.run(
        [*command[:-1], "ep9", "hostname"], capture_output=True, text=True, timeout=60
    )
    assert absent.returncode == 1 and "no host ep9; there are rp, ep1" in absent.stderr
    person.type("exit 0\n")
    assert person.leave() == 0


def test_without_a_host_a_menu_leads_from_one_to_another():
    person = Person()
    person.see("1) rp  2) ep1  q) quit >")
    person.type("2\n")
    person.see("root@ep1:/#")
    person.type("exit\n")
    person.see("q) quit >")
    person.type("rp\n")
    person.see("root@rp:/#")
    person.type("exit\n")
    person.see("q) quit >")
    person.type("q\n")
    assert person.leave() == 0
