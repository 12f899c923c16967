#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check that summary lines of functions are imperative.

The summary line is the first line of a function's documentation: of the doc comment in Rust, of
the docstring in Python. "Ring the peer's doorbell." is right; "Rings the peer's doorbell." is
complained of. What begins with a noun, as "Bytes of a record.", says what the function returns,
which is right as well. Documentation of tests says what they prove.

    summaries.py [DIR]

DIR is the checkout to look at, by default the one that this script is in.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

# What a summary may begin with although it ends in an s: words that are no verbs.
NO_VERBS = frozenset(
    """
    Address Addresses Arguments As Attributes Bytes Clients Columns Compilers Connections Contexts
    Conversations Counters Credits Datagrams Devices Doorbells Entries Events Fields Files Fragments
    Greetings Headers Hosts Ids Indices Instructions Its Lanes Less Lines Messages Milliseconds
    Nanoseconds Options Owners Packets Pages Parameters Peers Pieces Processors Ports Results Rounds
    Seconds Sessions Sizes Slots Statistics Status Success This Times Towards Units Unless Us Values
    Vendors Windows Words Zeros
    """.split()
)
# A noun before these, verb or not otherwise: "Names of the functions", "Frames that wait".
AFTER_NOUN = frozenset("are do go of received that".split())

FUNCTION = re.compile(
    r'\s*(pub(\([^)]*\))?\s+)?(default\s+)?(const\s+)?(async\s+)?(unsafe\s+)?(extern\s+"C"\s+)?fn\s'
)
TEST = re.compile(r"\s*#\[(tokio::)?test\b")
WORDS = re.compile(r"([A-Z][a-z]+s)\b[.,;:]?(?:\s+([a-z]+))?(?!')")


def is_third_person(summary):
    """Tell whether a summary begins with a verb in the third person."""
    words = WORDS.match(summary)
    if not words or summary[words.end(1) :].startswith("'"):
        return False
    first, second = words.groups()
    return not (first.endswith("ss") or first in NO_VERBS or second in AFTER_NOUN)


def documented_in_rust(text):
    """Yield the line number and the summary of each function with a doc comment."""
    lines = text.splitlines()
    summary, is_test, depth = None, False, 0
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if bare.startswith("///"):
            if summary is None:
                summary = number, bare[3:].strip()
            continue
        if bare.startswith("#[") or depth > 0:
            is_test = is_test or bool(TEST.match(line))
            depth += bare.count("[") - bare.count("]")
            continue
        if bare.startswith("//"):
            continue
        if summary and not is_test and FUNCTION.match(line):
            yield summary
        summary, is_test, depth = None, False, 0


def documented_in_python(text):
    """Yield the line number and the summary of each function with a docstring."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        doc = ast.get_docstring(node)
        if doc and not node.name.startswith("test_"):
            yield node.body[0].lineno, doc.splitlines()[0]


READERS = {".rs": documented_in_rust, ".py": documented_in_python}


def complaints(checkout, paths):
    """Yield a line for each summary in the third person."""
    for path in paths:
        reader = READERS.get(path.suffix)
        if reader is None or path.name == "bindings.rs":
            continue
        for number, summary in reader((checkout / path).read_text()):
            if is_third_person(summary):
                yield f"{path}:{number}: not imperative: {summary}"


def tracked(checkout):
    """List the files of a checkout, those included that git is not told of yet."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True)
    paths = (Path(name) for name in sorted(set(listed.stdout.split("\0"))) if name)
    return [path for path in paths if (checkout / path).is_file()]


def main():
    """Print complaints; fail if there are any."""
    own = Path(__file__).resolve().parent.parent
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else own
    found = list(complaints(checkout, tracked(checkout)))
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
