#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check the conformance ledgers.

For each `Documentation/conformance/SPEC.ids`, a list of rule ids, one a line, the ledger
`SPEC.md` beside it has a table row for each id:

    | id | state | proof or reason |

| state   | meaning                                             | the last column has            |
|---------|-----------------------------------------------------|--------------------------------|
| hosts   | the effect is asserted on another guest, and the    | tests, one of them in          |
|         | test fails when that guest is stopped               | tests/rig with several guests  |
| unit    | shown within one host: on the development host, on  | tests                          |
|         | the stand-in, or in one guest                       |                                |
| part    | shown in part                                       | tests, then `missing:` and     |
|         |                                                     | what is missing                |
| refused | the call answers that it is not there               | tests that show the answer     |
| n/a     | cannot apply to a fabric of NTBs on Linux, or asks  | the reason                     |
|         | something of programs only                          |                                |
| open    | nothing shows it yet                                | `missing:` and what has to be  |
|         |                                                     | shown; no test                 |

A rule whose line in the list ends with ‡ is one between two hosts: its row is `hosts`, or `part`.
The line of each `hosts` row ends with it, so that such a row cannot become `unit` unnoticed.
Where the specification leaves the choice between it and another rule, it may be `n/a` and name that
one, whose row is `hosts`, behind `instead:`.

A test is named as `path::name` and has to be a test: a function `test_*` of
pytest, a `#[test]` function of Rust, or a `KUNIT_CASE`. A test in Python and
the rows of its rules name each other: the docstring of a test that a row names
has the row's id, and a row names each test whose docstring has its id.

The tests that Documentation/trust.md names in that way have to be tests as well. Its promises are
a ledger of their own: each has a number once, and its last column names a test in that way, or a
program of the checkout behind `script:`. A file or directory alone says nothing of what in it shows
the promise, and is an error; so is the name of a test without its file. What nothing shows may
stand behind `missing:`.

The line `Rows: hosts 1, unit 2, part 0, refused 0, n/a 0.` of a ledger counts
them, and ends with `open 3` while there are open ones. `--write` brings it up to
date, and marks the rules of new `hosts` rows. `--closed` complains of open rows. `--hosts` prints the tests with guests that
`hosts` rows name, as arguments for pytest. `--noticed` reads the reports of runs of them
with hosts that stand still (tests/stopped.py), and fails for rows without a test that has
missed something then. Where tests can do no more than ask the other hosts, the row says why
behind `asked:`; a row that says so and whose test has missed something fails as well.
`--ran` reads the reports of a run, JUnit's and what nextest or Cargo printed: each test that a
promise names is in them, none failed, and of each promise that names tests at least one passed.
Those that the run skipped are printed.
"""

import argparse
import ast
import functools
import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

LEDGERS = "Documentation/conformance"
TRUST = "Documentation/trust.md"
STATES = ("hosts", "unit", "part", "refused", "n/a", "open")

# What tests do while hosts stand still, the better first.
NOTICED = ("missed", "asked")

ID = re.compile(r"\b[A-Z]+(?:-[A-Z0-9]+)*-[0-9]+\b")
ROW = re.compile(r"^\|\s*([A-Z]+(?:-[A-Z0-9]+)+)\s*\|\s*(\S+)\s*\|\s*(.*?)\s*\|$")
PROOF = re.compile(r"`([^`\s]+)::(\w+)`")
MISSING = re.compile(r"missing: *\S")
ASKED = re.compile(r"asked: *\S")
INSTEAD = re.compile(r"instead: *(\S+?)\b(?![-0-9A-Z])")

# The promises of `TRUST`: their section, what its rows quote, and the programs among that.
PROMISES = re.compile(r"^## Promises\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`]+)`")
SCRIPT = re.compile(r"script: *`([^`\s]+)`")
SOURCES = (".c", ".py", ".rs", ".sh")

# What a run's logs say of a test in Rust: as nextest prints it, and as Cargo does, which names the
# file of the tests that follow.
NEXTEST = re.compile(r"^ *([A-Z]+) +\[ *[\d.]+s\] +(?:\([ \d/]+\) +)?(\S+) (\S+)$")
CARGO_FILE = re.compile(r"^ +Running (?:unittests )?(\S+\.rs) ")
CARGO = re.compile(r"^test (\S+) \.\.\. (ok|FAILED|ignored)")

# How a test ended, the worse first.
ENDS = ("failed", "passed", "skipped")

# Behind the id of a rule between two hosts, and the states that its row may have.
BETWEEN_HOSTS = " ‡"
STATES_BETWEEN_HOSTS = ("hosts", "part")
COUNTS = re.compile(r"^Rows: .*$", re.MULTILINE)

# What may stand between the attribute of a test in Rust and its name.
RUST_TEST = r"^\s*#\[test\]\n(?:\s*(?:#\[.*\]|//.*)\n)*\s*fn {name}\b"
KUNIT_CASE = r"^\s*KUNIT_CASE\({name}\)"


def functions(tree):
    """The functions of a Python file, by their names."""
    nodes = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: node for node in ast.walk(tree) if isinstance(node, nodes)}


def imported_fixtures(tree, folder):
    """The fixtures that a file imports by their names from modules beside it."""
    found = {}
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not (folder / f"{node.module}.py").is_file():
            continue
        there = functions(ast.parse((folder / f"{node.module}.py").read_text()))
        for name in (alias.name for alias in node.names):
            decorators = there[name].decorator_list if name in there else ()
            if any(ast.unparse(each).startswith("pytest.fixture") for each in decorators):
                found[name] = there[name]
    return found


class PythonTests:
    """The tests of one file for pytest."""

    def __init__(self, path):
        tree = ast.parse(path.read_text())
        self.functions = {**imported_fixtures(tree, path.parent), **functions(tree)}

    def __iter__(self):
        return (name for name in self.functions if name.startswith("test_"))

    def rules(self, name):
        """The ids in a test's docstring."""
        return set(ID.findall(ast.get_docstring(self.functions[name]) or ""))

    def has_other_guests(self, name):
        """Whether a test, or a fixture or function that it uses, boots several guests, and
        does not keep the first of them only."""
        seen, left = set(), {name}
        while left:
            function = self.functions[left.pop()]
            seen.add(function.name)
            used = {argument.arg for argument in function.args.args}
            nodes = list(ast.walk(function))
            alone = {n.value for n in nodes if isinstance(n, ast.Attribute) and n.attr == "rp"}
            for node in nodes:
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    used.add(node.func.id)
                    if node.func.id == "boot" and node not in alone:
                        return True
                elif isinstance(node, ast.Constant):
                    # The name of a fixture in `pytest.mark.usefixtures`.
                    used.add(node.value)
            left |= {each for each in used - seen if each in self.functions}
        return False


class Checkout:
    """The ledgers and the tests of a checkout."""

    def __init__(self, root):
        self.root = root

    @functools.lru_cache(maxsize=None)
    def text(self, path):
        try:
            return (self.root / path).read_text()
        except OSError:
            return ""

    @functools.lru_cache(maxsize=None)
    def python(self, path):
        return PythonTests(self.root / path)

    @property
    def python_tests(self):
        """Each test for pytest, as path and name."""
        for path in sorted((self.root / "tests").rglob("test_*.py")):
            relative = str(path.relative_to(self.root))
            for name in self.python(relative):
                yield relative, name

    def is_test(self, path, name):
        """Whether the file has a test of that name."""
        if path.endswith(".py"):
            is_named = Path(path).name.startswith("test_") and (self.root / path).exists()
            return is_named and name in set(self.python(path))
        pattern = KUNIT_CASE if path.endswith(".c") else RUST_TEST
        text = self.text(path)
        return re.search(pattern.format(name=name), text, re.MULTILINE) is not None

    def has_other_guests(self, path, name):
        return path.startswith("tests/rig/") and self.python(path).has_other_guests(name)


class Ledger:
    """One specification's ids and rows."""

    def __init__(self, checkout, ids_file):
        self.checkout = checkout
        self.name = ids_file.stem
        self.list = ids_file
        self.path = ids_file.with_suffix(".md")
        lines = list(filter(None, ids_file.read_text().splitlines()))
        self.ids = [line.removesuffix(BETWEEN_HOSTS) for line in lines]
        self.between_hosts = {
            line.removesuffix(BETWEEN_HOSTS) for line in lines if line.endswith(BETWEEN_HOSTS)
        }
        self.text = self.path.read_text() if self.path.exists() else ""
        self.rows = [m.groups() for m in map(ROW.match, self.text.splitlines()) if m]

    @property
    def counts(self):
        counted = Counter(state for _, state, _ in self.rows)
        states = [state for state in STATES if state != "open" or counted[state]]
        return f"Rows: {', '.join(f'{state} {counted[state]}' for state in states)}."

    def errors(self):
        """What is wrong with it."""
        seen = Counter(rule for rule, _, _ in self.rows)
        for rule in self.ids:
            if seen[rule] != 1:
                yield f"{rule}: {seen[rule]} rows instead of one"
        for rule, state, rest in self.rows:
            if rule not in self.ids:
                yield f"{rule}: not an id of {self.name}.ids"
            yield from self._row_errors(rule, state, rest)
        yield from self._errors_between_hosts()
        yield from self._claim_errors()
        if COUNTS.findall(self.text) != [self.counts]:
            yield f"the line that counts rows has to be: {self.counts}"

    def _row_errors(self, rule, state, rest):
        proofs = PROOF.findall(rest)
        if state not in STATES:
            yield f"{rule}: state {state!r} is none of {', '.join(STATES)}"
        elif state == "n/a":
            if not rest:
                yield f"{rule}: n/a without a reason"
        elif state == "open":
            if proofs:
                yield f"{rule}: open, but a test is named"
        elif not proofs:
            yield f"{rule}: {state}, but no test is named"
        for path, name in proofs:
            if not self.checkout.is_test(path, name):
                yield f"{rule}: {path}::{name} is no test"
            elif path.endswith(".py"):
                if rule not in self.checkout.python(path).rules(name):
                    yield f"{rule}: the docstring of {path}::{name} does not have the id"
        if state in ("part", "open") and not MISSING.search(rest):
            yield f"{rule}: {state}, but it does not say what is `missing:`"
        if state == "hosts" and not any(
            self.checkout.is_test(*proof) and self.checkout.has_other_guests(*proof)
            for proof in proofs
        ):
            yield f"{rule}: hosts, but no test with several guests is named"

    def _errors_between_hosts(self):
        """Which rules between two hosts rows show within one, or not at all."""
        states = {rule: state for rule, state, _ in self.rows}
        for rule in self.unmarked:
            yield f"{rule}: hosts, but its line of {self.name}.ids does not end with{BETWEEN_HOSTS}"
        for rule, state, rest in self.rows:
            if rule not in self.between_hosts or state in STATES_BETWEEN_HOSTS:
                continue
            other = INSTEAD.search(rest)
            if state != "n/a" or not other or states.get(other[1]) != "hosts":
                yield f"{rule}: {state}, but it is a rule between two hosts"

    def _claim_errors(self):
        """What tests claim without their rows' knowledge."""
        named = {rule: PROOF.findall(rest) for rule, _, rest in self.rows}
        for path, name in self.checkout.python_tests:
            for rule in sorted(self.checkout.python(path).rules(name)):
                if rule in named and (path, name) not in named[rule]:
                    yield f"{rule}: the row does not name {path}::{name}"

    def open_rules(self):
        """The rules that nothing shows yet."""
        return [rule for rule, state, _ in self.rows if state == "open"]

    @property
    def unmarked(self):
        """Rules that other hosts show, and that the list does not have as rules between hosts."""
        shown = {rule for rule, state, _ in self.rows if state == "hosts"}
        return [rule for rule in self.ids if rule in shown - self.between_hosts]

    def write(self):
        self.path.write_text(COUNTS.sub(self.counts, self.text, count=1))
        marked = self.between_hosts | set(self.unmarked)
        lines = (rule + BETWEEN_HOSTS * (rule in marked) for rule in self.ids)
        self.list.write_text("".join(f"{line}\n" for line in lines))

    def tests_with_other_guests(self):
        """The tests that `hosts` rows name and that are run with guests."""
        for _, state, rest in self.rows:
            if state == "hosts":
                for path, name in PROOF.findall(rest):
                    if path.startswith("tests/rig/"):
                        yield f"{path}::{name}"

    def noticed(self, found):
        """How each `hosts` row's tests were found to notice that hosts stand still, the best of
        them, and what the row says of it."""
        for rule, state, rest in self.rows:
            if state == "hosts":
                known = {found.get(f"{path}::{name}") for path, name in PROOF.findall(rest)}
                says = "asked" if ASKED.search(rest) else "missed"
                yield rule, next((how for how in NOTICED if how in known), None), says


class Promises:
    """The rows of what `TRUST` promises."""

    def __init__(self, checkout):
        self.checkout = checkout
        section = PROMISES.search(checkout.text(TRUST))
        table = [line for line in (section[1] if section else "").splitlines() if line[:1] == "|"]
        # Below the head of the table.
        self.rows = [self._cells(line) for line in table[2:]]

    @staticmethod
    def _cells(line):
        number, _, rest = line.strip().strip("|").partition("|")
        promise, _, proofs = rest.rpartition("|")
        return number.strip(), promise.strip(), proofs.strip()

    def errors(self):
        """What is wrong with them, but for names of tests that are none: see `unknown_proofs`."""
        if not self.rows:
            yield f"{TRUST}: there are no promises"
        yield from self._number_errors()
        for number, promise, proofs in self.rows:
            for error in self._row_errors(promise, proofs):
                yield f"{TRUST}: promise {number}: {error}"

    def _number_errors(self):
        seen = Counter(number for number, _, _ in self.rows)
        for number in filter(lambda number: not number.isdecimal(), seen):
            yield f"{TRUST}: {number!r} is not the number of a promise"
        numbers = [int(number) for number in seen if number.isdecimal()]
        for number in range(1, max(numbers, default=0) + 1):
            if seen[str(number)] != 1:
                yield f"{TRUST}: promise {number}: {seen[str(number)]} rows instead of one"

    def _row_errors(self, promise, proofs):
        scripts = SCRIPT.findall(proofs)
        if not promise:
            yield "nothing is promised"
        if not scripts and not PROOF.search(proofs):
            yield "no test is named"
        for path in scripts:
            if not (self.checkout.root / path).is_file():
                yield f"there is no {path}"
        for quoted in QUOTED.findall(proofs):
            if PROOF.fullmatch(f"`{quoted}`") or quoted in scripts:
                continue
            if "::" in quoted:
                yield f"{quoted} names no test by its file and name"
            elif "/" in quoted or Path(quoted).suffix in SOURCES:
                yield f"{quoted} is named without a test in it"

    def not_run(self, ends):
        """The rows whose tests were not run, by how tests ended."""
        for number, _, proofs in self.rows:
            named = PROOF.findall(proofs)
            how = {f"{path}::{name}": end_of(ends, path, name) for path, name in named}
            for test, end in how.items():
                if end not in ("passed", "skipped"):
                    yield f"promise {number}: {test}: {end or 'not in the reports'}"
            if named and "passed" not in how.values():
                yield f"promise {number}: none of its tests has passed"

    def skipped(self, ends):
        """The tests that they name and that a run has skipped."""
        named = {proof for _, _, proofs in self.rows for proof in PROOF.findall(proofs)}
        return sorted(f"{p}::{name}" for p, name in named if end_of(ends, p, name) == "skipped")


def end_of(ends, path, name):
    """How a test ended, or None."""
    return ends.get((path, name) if path.endswith(".py") else (rust_program(path), name))


def rust_program(path):
    """What tells tests of a file from those of the same name in others: the file, where it is a
    program of its own; its crate's tests otherwise."""
    return Path(path).stem if Path(path).parent.name == "tests" else ""


def read_ends(reports):
    """How each test ended, by the reports of a run: the worst of its cases."""
    found = {}
    for report in reports:
        read = read_cases if report.suffix == ".xml" else read_log
        for test, end in read(report):
            found[test] = min(end, found.get(test, end), key=ENDS.index)
    return found


def read_cases(report):
    """The cases of pytest in a report of JUnit."""
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None
        end = "failed" if wrong else "skipped" if skipped else "passed"
        yield (case_path(case), case.get("name").partition("[")[0]), end


def case_path(case):
    """The file of a case of pytest."""
    return f"tests/{case.get('classname').replace('.', '/')}.py"


def read_log(report):
    """The tests in what nextest or Cargo printed."""
    program = ""
    for line in report.read_text(errors="replace").splitlines():
        if match := NEXTEST.match(line):
            # Unit tests of a program are those of its crate.
            binary = match[2].partition("::")[2]
            end = "passed" if match[1] in ("PASS", "LEAK") else "failed"
            yield ("" if binary.startswith("bin/") else binary, test_name(match[3])), end
        elif match := CARGO_FILE.match(line):
            program = rust_program(match[1])
        elif match := CARGO.match(line):
            end = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}[match[2]]
            yield (program, test_name(match[1])), end


def test_name(path):
    """The last word of a test's path in its crate."""
    return path.rpartition("::")[2]


def check_ran(promises, reports):
    """Print which promises' tests a run has not shown. Whether it has shown all."""
    ends = read_ends(reports)
    wrong = list(promises.not_run(ends))
    for line in wrong:
        print(line)
    if skipped := promises.skipped(ends):
        print(f"skipped in this run: {' '.join(skipped)}")
    return not wrong


def read_noticed(reports):
    """How tests have noticed that hosts stand still, by the reports of runs: one of `NOTICED`."""
    found = {}
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            test = f"{case_path(case)}::{case.get('name')}"
            for each in case.iter("property"):
                if each.get("name") == "noticed":
                    found[test.partition("[")[0]] = each.get("value").partition(",")[0]
    return found


def check_noticed(ledgers, reports):
    """Print what the rows that other hosts show rest on. Whether it is what they say."""
    found = read_noticed(reports)
    rows = [row for ledger in ledgers for row in ledger.noticed(found)]
    counted = Counter(how for _, how, _ in rows)
    print(f"{len(rows)} rows of the state `hosts`.", end=" ")
    print(f"A host misses what a stopped one would have done: {counted['missed']}.", end=" ")
    print(f"Stopped hosts are asked, and nothing is missed: {counted['asked']}.")
    wrong = {
        "asked only, and the row does not say why": ("asked", "missed"),
        "more than asked, as the row says": ("missed", "asked"),
        "no test has noticed": (None, None),
    }
    for what, (known, says) in wrong.items():
        named = [rule for rule, how, row in rows if how == known and says in (row, None)]
        if named:
            print(f"{what}: {' '.join(named)}")
    return all(how == says for _, how, says in rows)


def unknown_claims(checkout, ledgers):
    """Ids in docstrings of tests that no specification has."""
    known = {rule for ledger in ledgers for rule in ledger.ids}
    specifications = {specification(rule) for rule in known}
    for path, name in checkout.python_tests:
        for rule in sorted(checkout.python(path).rules(name) - known):
            if specification(rule) in specifications:
                yield f"{path}::{name}: there is no rule {rule}"


def unknown_proofs(checkout):
    """What Documentation/trust.md names as a test and is none."""
    for path, name in PROOF.findall(checkout.text(TRUST)):
        if not checkout.is_test(path, name):
            yield f"{TRUST}: {path}::{name} is no test"


def specification(rule):
    return rule.partition("-")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--checkout", type=Path, default=Path(__file__).resolve().parents[1],
        help="what to check, by default the checkout that has this script",
    )  # fmt: skip
    parser.add_argument("--write", action="store_true", help="bring the counts up to date")
    parser.add_argument("--closed", action="store_true", help="complain of open rows")
    parser.add_argument(
        "--hosts", action="store_true", help="print the tests with guests of `hosts` rows"
    )
    parser.add_argument(
        "--noticed", nargs="+", type=Path, metavar="XML",
        help="check that tests of all `hosts` rows have noticed that hosts stand still",
    )  # fmt: skip
    parser.add_argument(
        "--ran", nargs="+", type=Path, metavar="REPORT",
        help=f"check that a run has had the tests of all promises of {TRUST}",
    )  # fmt: skip
    options = parser.parse_args()
    checkout = Checkout(options.checkout)
    files = sorted((checkout.root / LEDGERS).glob("*.ids"))
    ledgers = [Ledger(checkout, ids_file) for ids_file in files]
    if options.hosts:
        print(*sorted({test for each in ledgers for test in each.tests_with_other_guests()}))
        return
    if options.noticed:
        sys.exit(0 if check_noticed(ledgers, options.noticed) else 1)
    promises = Promises(checkout)
    if options.ran:
        sys.exit(0 if check_ran(promises, options.ran) else 1)
    if options.write:
        for ledger in ledgers:
            ledger.write()
        ledgers = [Ledger(checkout, ids_file) for ids_file in files]
    errors = [f"{ledger.name}: {error}" for ledger in ledgers for error in ledger.errors()]
    errors += unknown_claims(checkout, ledgers)
    errors += [*unknown_proofs(checkout), *promises.errors()]
    if options.closed:
        errors += [f"{each.name}: {rule}: open" for each in ledgers for rule in each.open_rules()]
    for error in errors:
        print(error, file=sys.stderr)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
