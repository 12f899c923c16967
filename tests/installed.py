# SPDX-License-Identifier: GPL-2.0-only
"""Libraries where they are installed: what the tests of all of them need."""

import os
import subprocess

from ntbrig.settings import CHECKOUT, STATIC_TARGET


def run(*command, **settings):
    """Run a command, which has to succeed."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, **settings)
    assert result.returncode == 0, result.stderr
    return result


def built():
    """Where `make userlib` has put what it has built."""
    target = os.environ.get("CARGO_TARGET_DIR") or CHECKOUT / "build/target"
    return os.environ.get("RIG_PROGRAMS") or f"{target}/{STATIC_TARGET}/release"


def install(script, below, prefix):
    """Install by a script of `scripts/` below a directory; where that is."""
    env = os.environ | {"DESTDIR": str(below), "PREFIX": prefix, "RIG_PROGRAMS": str(built())}
    run(CHECKOUT / "scripts" / script, env=env)
    return below / prefix.lstrip("/")


def shown(page):
    """A manual page as it is read."""
    told = run("man", "--warnings", "-l", page, env=os.environ | {"MANWIDTH": "100"})
    assert told.stderr == ""
    return told.stdout
