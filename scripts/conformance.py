#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checks the conformance ledgers.

For each `Documentation/conformance/SPEC.ids`, a list of rule ids, the ledger
`SPEC.md` beside it has a table row per id:

    | id | state | proof or reason |

`tested` rows name at least one test as `path::name`, which must exist; `open`
and `n/a` rows give a reason. Every id has exactly one row, and no row has an
unknown id. With `--complete`, `open` rows are errors as well.
"""

import argparse
import re
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
LEDGERS = CHECKOUT / "Documentation/conformance"
ROW = re.compile(r"^\|\s*([A-Z]+(?:-[A-Z0-9]+)+)\s*\|\s*(\S+)\s*\|\s*(.*?)\s*\|$")
PROOF = re.compile(r"`([^`\s]+)::(\w+)`")
STATES = ("tested", "open", "n/a")


def test_exists(path, name):
    """Whether the file defines a test function of that name."""
    try:
        text = (CHECKOUT / path).read_text()
    except OSError:
        return False
    return re.search(rf"\b(?:fn|def|void) {name}\b", text) is not None


def row_errors(rule, state, rest, complete):
    """What is wrong with one row."""
    if state not in STATES:
        yield f"{rule}: state {state!r} is none of {', '.join(STATES)}"
    elif state == "tested":
        proofs = PROOF.findall(rest)
        if not proofs:
            yield f"{rule}: tested, but no test is named"
        for path, name in proofs:
            if not test_exists(path, name):
                yield f"{rule}: there is no test {path}::{name}"
    elif not rest:
        yield f"{rule}: {state} without a reason"
    elif state == "open" and complete:
        yield f"{rule}: open: {rest}"


def ledger_errors(ids_file, complete):
    """What is wrong with one ledger."""
    ids = ids_file.read_text().split()
    ledger = ids_file.with_suffix(".md")
    if not ledger.exists():
        yield f"{ledger.name} is missing"
        return
    rows = [m.groups() for m in map(ROW.match, ledger.read_text().splitlines()) if m]
    seen = [rule for rule, _, _ in rows]
    for rule in ids:
        if seen.count(rule) != 1:
            yield f"{rule}: {seen.count(rule)} rows instead of one"
    for rule, state, rest in rows:
        if rule not in ids:
            yield f"{rule}: not an id of {ids_file.name}"
        yield from row_errors(rule, state, rest, complete)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--complete", action="store_true", help="open rows are errors")
    complete = parser.parse_args().complete
    errors = 0
    for ids_file in sorted(LEDGERS.glob("*.ids")):
        for error in ledger_errors(ids_file, complete):
            print(f"{ids_file.stem}: {error}", file=sys.stderr)
            errors += 1
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
