# SPDX-License-Identifier: GPL-2.0-only
"""Examples of MCAPI in C: each has a manual page that says what its usage says, and the use cases of
the digest have their programs. What they do is shown in `tests/rig/test_mcapi_c.py`."""

import re
import subprocess

import pytest
from installed import shown
from ntbrig.mcapi import example
from ntbrig.settings import CHECKOUT

PLACE = CHECKOUT / "examples/mcapi"
README = (PLACE / "README.md").read_text()
NAMES = sorted(path.stem for path in PLACE.glob("mcapi_*.c"))
# The digest has so many use cases, and this one has no program.
USE_CASES, NO_PROGRAM = 10, 8


def usage(name):
    """What a program tells that was started without any argument."""
    run = subprocess.run([example(name)], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (2, "")
    # By whatever path it was called.
    return run.stderr.replace(str(example(name)), name)


def options(name):
    """What a program takes, by its source."""
    return re.findall(r'^\t\t\{ "(\w+)", (?:required|no)_argument', (PLACE / f"{name}.c").read_text(), re.M)


def test_all_programs_are_built_and_have_a_page():
    assert len(NAMES) == 10
    assert sorted(page.stem for page in PLACE.glob("*.1")) == NAMES
    programs = re.search(r"^programs := ((?:.*\\\n)*.*)$", (PLACE / "Makefile").read_text(), re.M)[1]
    assert programs.replace("\\", "").split() == NAMES
    assert sorted(re.findall(r"^\| \[`(\w+)`\]\(\1\.1\) ", README, re.M)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_program_says_what_its_usage_says(name):
    """It renders without a complaint, and has each option, each argument and each role."""
    page, told = shown(PLACE / f"{name}.1"), usage(name)
    synopsis, _, rest = page.partition("DESCRIPTION")
    words = set(re.findall(r"--\w+|\b[A-Z]{2,}\b|\b[a-z]+(?= [A-Z])", told.partition("usage:")[2]))
    named = set(re.findall(r"--\w+|\w+", synopsis))
    assert words and words <= named, words - named
    flags = {f"--{option}" for option in options(name)}
    assert flags == {word for word in words if word.startswith("--")}
    described = rest.partition("OPTIONS")[2].partition("OUTPUT")[0]
    for word in words:
        if word.startswith("--") or word.isupper() and word not in ("N", "MS"):
            assert re.search(rf"^ +{word}\b", described, re.M), word


def test_use_cases_have_programs():
    rows = re.findall(r"^\| TS-(\d+): .* \| (?:`(\w+)`|none: .*) \|$", README, re.M)
    assert [int(number) for number, _ in rows] == list(range(1, USE_CASES + 1))
    assert all(program in NAMES for number, program in rows if int(number) != NO_PROGRAM)
