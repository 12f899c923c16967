# SPDX-License-Identifier: GPL-2.0-only
"""The conformance ledgers."""

import subprocess

from ntbrig.settings import CHECKOUT

CHECK = CHECKOUT / "scripts/conformance.py"


def test_every_rule_is_mapped_and_every_named_test_exists():
    result = subprocess.run([CHECK], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
