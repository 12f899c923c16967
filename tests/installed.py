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


def exports(library, version):
    """The names that a library exports, all of them with this version."""
    symbols = run("nm", "-D", "--defined-only", "-j", library).stdout.split()
    # The version is a symbol itself.
    names = [symbol.split("@@") for symbol in symbols if symbol != version]
    assert {of for _, of in names} == {version}
    return [name for name, _ in names]


def shown(page):
    """A manual page as it is read."""
    told = run("man", "--warnings", "-l", page, env=os.environ | {"MANWIDTH": "100"})
    assert told.stderr == ""
    return told.stdout
