# SPDX-License-Identifier: GPL-2.0-only
"""Mutants break the code on purpose; those that do not fit it any more would show nothing."""

import subprocess

import pytest
from ntbrig.settings import CHECKOUT

MUTANTS = sorted((CHECKOUT / "rust/proto/mutants").glob("*.patch"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda path: path.stem)
def test_a_mutant_fits_the_code(mutant):
    """Where it is does not matter, all its lines do."""
    applied = subprocess.run(
        ["patch", "--dry-run", "--force", "--fuzz=0", "-p1", "-i", mutant],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert applied.returncode == 0, applied.stdout


def test_mutants_are_there():
    assert len(MUTANTS) > 100
