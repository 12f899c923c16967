# SPDX-License-Identifier: GPL-2.0-only
"""What `make demo` runs, and what it says when a part fails."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ntbrig import stack
from ntbrig.settings import CHECKOUT, PATIENCE

_RIG = CHECKOUT / "scripts/rig/rig"


def demo(**environment):
    return subprocess.run(
        [sys.executable, _RIG, "demo", "--hosts", "2"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300 * PATIENCE,
    )


@pytest.fixture
def modules_copy():
    """A copy of the modules at a place that guests see, for tests to spoil."""
    with tempfile.TemporaryDirectory(dir=CHECKOUT / "build") as directory:
        copy = Path(directory) / "modules"
        copy.mkdir()
        for name in stack.MODULES:
            shutil.copy(stack.modules_dir() / f"{name}.ko", copy)
        yield copy


def test_the_demo_pings_and_streams_and_ends_with_a_table():
    result = demo()
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0% packet loss" in result.stdout
    for library in ("PXImc", "SISCI", "VI", "MCAPI"):
        assert any(line.startswith(f"  {library}: ") for line in result.stdout.splitlines())
    assert "All parts worked" in result.stdout.splitlines()[-1]


def test_without_modules_the_demo_says_how_to_build_them(modules_copy):
    (modules_copy / "pximc_ntb.ko").unlink()
    result = demo(MODULES=str(modules_copy))
    assert result.returncode == 1
    assert "pximc_ntb.ko is missing: run `make modules`" in result.stderr


def test_a_part_that_fails_fails_the_demo(modules_copy):
    (modules_copy / "mp_transport.ko").write_bytes(b"not a module")
    result = demo(MODULES=str(modules_copy))
    assert result.returncode == 1
    assert "FAILED modules: " in result.stdout
    assert result.stdout.splitlines()[-1] == "FAILED: modules"
