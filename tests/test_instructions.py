# SPDX-License-Identifier: GPL-2.0-only
"""What messages of queue pairs, operations of VIs, messages, packets and scalars of MCAPI, and calls
through the Dispatcher of PXImc take: instructions, as callgrind counts them.

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
EXAMPLES = programs_dir() / "examples"
# Each row of the tables: the program that does it, and the arguments before the number of times.
ROWS = {
    **{
        f"{size} bytes, sent and received": ("qp_instructions", str(size))
        for size in (8, 40, 1024, 65536)
    },
    **{
        f"VI: {name} of {size} bytes": ("vi_instructions", name.split()[-1], str(size))
        for name in ("send", "RDMA write", "RDMA read")
        for size in (8, 65536)
    },
    **{
        f"VI: send of {size} bytes on Reliable Reception": (
            "vi_instructions",
            "received-send",
            str(size),
        )
        for size in (8, 65536)
    },
    "VI: send of 8 bytes by completion queues": ("vi_instructions", "queued-send", "8"),
    **{
        f"VI: checked send of {size} bytes": ("vi_instructions", "checked-send", str(size))
        for size in (8, 65536)
    },
    "VI: look for a receive that is not complete": ("vi_instructions", "look", "8"),
    "VI: look for an entry of a completion queue of 16 VIs": ("vi_instructions", "queued-look", "16"),
    **{
        f"MCAPI: {kind} of {size} bytes": ("mcapi_instructions", kind, str(size))
        for kind, sizes in (("message", (8, 65536)), ("packet", (64, 65536)), ("scalar", (8,)))
        for size in sizes
    },
}
# A program in C calls the Dispatcher, or a vendor's library without it.
DISPATCHED = "PXImc: the Dispatcher's part of a call"
VENDOR = CHECKOUT / "userlib/pximc-dispatcher/tests/c/vendor.c"
# What a row may take more than the table says.
MOST = 1.05
# Of each row, the difference between two runs: what the first operations take is not counted.
FEW, MANY = 100, 600
# The C library's copies of any processor, so that the count is the same on all of them, and no
# other variable of who runs the test.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX512VL,-ERMS,-FSRM",
}
ROW = re.compile(r"^\| (.+) \| (\d+) \|$", re.MULTILINE)


def collected(function, command, folder, variables=None):
    """Instructions of a program's `function`: how long two programs take to find each other depends
    on their threads."""
    profile, of_main = folder / "profile", folder / "profile-01"
    of_main.unlink(missing_ok=True)
    tool = (
        "--tool=callgrind",
        # One thread runs at a time: each gets its turn, also on a machine that is busy.
        "--fair-sched=yes",
        "--separate-threads=yes",
        f"--toggle-collect={function}",
        f"--callgrind-out-file={profile}",
    )
    run = subprocess.run(
        ["valgrind", *tool, *command],
        capture_output=True,
        text=True,
        timeout=300,
        env=ENVIRONMENT | (variables or {}),
    )
    assert run.returncode == 0, run.stderr
    return int(re.search(r"^totals: (\d+)", of_main.read_text(), re.MULTILINE)[1])


def of_one(count):
    """Instructions of one operation, where `count` counts those of so many."""
    return round((count(MANY) - count(FEW)) / (MANY - FEW))


def instructions(row, folder):
    """Instructions of one message or operation."""
    program, *arguments = ROWS[row]
    command = (EXAMPLES / program, *arguments)
    return of_one(
        lambda times: collected(f"{program}::operations", (*command, str(times)), folder)
    )


@pytest.fixture
def vendor(tmp_path):
    """A vendor's library that does nothing, and where the Dispatcher finds it."""
    (tmp_path / "vendors").mkdir()
    library = tmp_path / "vendors/libvendor.so"
    options = ("-shared", "-fPIC", "-O1", "-pthread", '-DVENDOR="A"', "-DCOUNTED")
    include = CHECKOUT / "userlib/include"
    subprocess.run(["cc", *options, "-I", include, "-o", library, VENDOR], check=True, timeout=60)
    return library, {"PXIMC_LIBRARY_PATH": str(library.parent), "A_INTERFACES": "1"}


def noted():
    """The tables, by row."""
    rows = ROW.findall(PAGE.read_text())
    return {row: int(count) for row, count in rows if row in (*ROWS, DISPATCHED)}


def check(row, found):
    """Against the table, or write it."""
    print(f"{row}: {found} instructions")
    if os.environ.get("MP_INSTRUCTIONS") == "write":
        text = re.sub(
            rf"^\| {re.escape(row)} \|.*$",
            f"| {row} | {found} |",
            PAGE.read_text(),
            flags=re.MULTILINE,
        )
        PAGE.write_text(text)
    assert found <= noted()[row] * MOST


def test_the_tables_have_each_row():
    assert list(noted()) == [*ROWS, DISPATCHED]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_takes_no_more_instructions_than_the_table_says(row, tmp_path):
    check(row, instructions(row, tmp_path))


def test_the_dispatcher_adds_no_more_instructions_than_the_table_says(vendor, tmp_path):
    """PXI-GEN-15: what a call takes, without what the vendor's function takes of it."""
    library, variables = vendor
    program = programs_dir() / "pximc_calls"

    def of_call(first):
        """By the library that is loaded first."""
        more = variables | {"LD_PRELOAD": str(first)}

        def count(times):
            command = (program, str(times))
            return collected("operations", command, tmp_path, more)

        return of_one(count)

    dispatched, alone = of_call(programs_dir() / "libpximc64.so"), of_call(library)
    # Else both would be the same library.
    assert dispatched > alone
    check(DISPATCHED, dispatched - alone)
