# SPDX-License-Identifier: GPL-2.0-only
"""What messages of queue pairs take: instructions, as callgrind counts them.

A count does not depend on the machine's load. It depends on the compiler: after a change that is
meant, and with a new one, `MP_INSTRUCTIONS=write` before pytest writes the table of
`Documentation/queue-pairs.md` anew.
"""

import os
import re
import subprocess

import pytest
from ntbrig.settings import CHECKOUT, programs_dir

PAGE = CHECKOUT / "Documentation/queue-pairs.md"
PROGRAM = programs_dir() / "examples/qp_instructions"
# What a message may take more than the table says.
MOST = 1.05
# Of each size, the difference between two runs: what the beginning takes is not counted.
FEW, MANY = 100, 600
# The C library's copies of any processor, so that the count is the same on all of them.
ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX512VL,-ERMS,-FSRM"}
ROW = re.compile(r"^\| (\d+) bytes, sent and received \| (\d+) \|$", re.MULTILINE)


def collected(size, messages):
    """Instructions of a whole run."""
    command = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    run = subprocess.run(
        [*command, PROGRAM, str(size), str(messages)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | ENVIRONMENT,
    )
    assert run.returncode == 0, run.stderr
    return int(re.search(r"Collected : (\d+)", run.stderr)[1])


def instructions(size):
    """Instructions of one message."""
    return round((collected(size, MANY) - collected(size, FEW)) / (MANY - FEW))


def noted():
    """The table, by size."""
    return {int(size): int(count) for size, count in ROW.findall(PAGE.read_text())}


def test_the_table_has_each_size():
    assert list(noted()) == [8, 40, 1024, 65536]


@pytest.mark.parametrize("size", noted())
def test_a_message_takes_no_more_instructions_than_the_table_says(size):
    found = instructions(size)
    print(f"{size} bytes: {found} instructions")
    if os.environ.get("MP_INSTRUCTIONS") == "write":
        row = f"| {size} bytes, sent and received | {found} |"
        text = re.sub(rf"^\| {size} bytes, sent.*$", row, PAGE.read_text(), flags=re.MULTILINE)
        PAGE.write_text(text)
    assert found <= noted()[size] * MOST
