# SPDX-License-Identifier: GPL-2.0-only
"""The conformance ledgers, and what checks them."""

import ast
import re
import subprocess
from types import SimpleNamespace

import pytest

from ntbrig.settings import CHECKOUT

CHECK = CHECKOUT / "scripts/conformance.py"
LEDGERS = "Documentation/conformance"

HELPERS = '''
import pytest

@pytest.fixture(scope="module")
def two(boot):
    return boot(hosts=2)

@pytest.fixture
def both(two):
    return two.hosts

@pytest.fixture
def one(boot):
    return boot(hosts=2).rp
'''
IN_RIG = f'''{HELPERS}
def helper(two):
    """AB-X-1"""

def test_both(both):
    """It crosses. AB-X-1, AB-X-2"""

def test_one(one):
    """AB-X-3"""

@pytest.mark.usefixtures("two")
def test_marked():
    """AB-X-4"""

def test_silent(both):
    pass
'''
IN_RUST = """
fn helper() {}

#[test]
fn plain() {}

/// Words.
#[test]
#[cfg_attr(miri, ignore)]
// Why.
fn annotated() {}

proptest! {
    #[test]
    fn of_any(a: u32) {}
}
"""
IN_C = """
static void a_case(struct kunit *test) {}
static void no_case(struct kunit *test) {}
static struct kunit_case cases[] = {
	KUNIT_CASE(a_case),
"""
RIG = "tests/rig/test_it.py"
RUST = "rust/it.rs"
PROVEN = {
    "AB-X-1": f"hosts | `{RIG}::test_both`",
    "AB-X-2": f"hosts | `{RIG}::test_both`, `{RUST}::plain`",
    "AB-X-3": f"unit | `{RIG}::test_one`, `{RUST}::annotated`",
    "AB-X-4": f"part | `{RIG}::test_marked`; missing: the rest of it",
    "AB-X-5": f"refused | `{RUST}::of_any`, `rust/it.c::a_case`",
    "AB-X-6": "n/a | there are no switches of that kind",
    "AB-X-7": "open | missing: all of it",
}
TRUST = "Documentation/trust.md"
PROMISED = {
    1: f"It holds. | on hosts, `{RIG}::test_both`; with `DEBUG=1`, `{RUST}::plain`; missing: more",
    2: f"So does this. | `{RUST}::plain`",
    3: "It is looked at. | script: `scripts/look.sh`; words in `make lint`",
}
COUNTS = "Rows: hosts 2, unit 1, part 1, refused 1, n/a 1, open 1."


def trust(promised):
    """A document with promises, and another table behind them."""
    rows = "".join(f"| {number} | {row} |\n" for number, row in promised.items())
    head = "| | promise | tested by |\n|---|---|---|\n"
    return f"# Trust\n\n## Promises\n\n{head}{rows}\n## Runs\n\n| 1 | `{RIG}` | long |\n"


@pytest.fixture
def checkout(tmp_path):
    """A small checkout; `check` puts rows into its ledger and returns the complaints."""
    files = {RIG: IN_RIG, RUST: IN_RUST, "rust/it.c": IN_C, "scripts/look.sh": ""}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / LEDGERS).mkdir(parents=True)
    marks = {rule: " ‡" * row.startswith("hosts") for rule, row in PROVEN.items()}
    lines = (f"{rule}{mark}\n" for rule, mark in marks.items())
    (tmp_path / LEDGERS / "it.ids").write_text("".join(lines))
    ledger = tmp_path / LEDGERS / "it.md"
    (tmp_path / TRUST).write_text(trust(PROMISED))

    def run(*arguments):
        command = [CHECK, "--checkout", tmp_path, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def check(rows, counts=COUNTS):
        table = "".join(f"| {rule} | {row} |\n" for rule, row in rows.items())
        ledger.write_text(f"# It\n\n{counts}\n\n| id | state | proof |\n|---|---|---|\n{table}")
        result = run()
        assert (result.returncode == 0) == (result.stderr == "")
        return result.stderr.splitlines()

    return SimpleNamespace(root=tmp_path, ledger=ledger, run=run, check=check)


def test_every_rule_is_mapped_and_every_named_test_exists():
    result = subprocess.run([CHECK], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


def test_every_scenario_of_virtual_interfaces_runs_in_every_place():
    """Those of one file run between hosts with a bridge, between endpoints of a star, and on one."""
    ids = (CHECKOUT / LEDGERS / "via.ids").read_text().split()
    # Those of the digest, and each rule beyond it that is shown between hosts.
    assert ids.count("‡") >= 180
    scenarios = {rule for rule in ids if rule.startswith("SC-")}
    assert len(scenarios) == 20
    tree = ast.parse((CHECKOUT / "tests/rig/test_vipl_scenarios.py").read_text())
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    told = " ".join(ast.get_docstring(test) or "" for test in tests)
    assert scenarios <= set(re.findall(r"\bSC-\d+\b", told))


def test_a_ledger_with_all_states_is_accepted(checkout):
    assert checkout.check(PROVEN) == []


@pytest.mark.parametrize(
    ("rule", "row", "complaint"),
    (
        ("AB-X-5", "tested | `rust/it.rs::plain`", "state 'tested' is none of"),
        ("AB-X-5", "later | nothing yet", "state 'later' is none of"),
        ("AB-X-5", "open | nothing yet", "open, but it does not say what is `missing:`"),
        ("AB-X-5", "open | `rust/it.rs::plain`; missing: more", "open, but a test is named"),
        ("AB-X-5", "refused | it is", "refused, but no test is named"),
        ("AB-X-5", "unit | `rust/it.rs::gone`", "rust/it.rs::gone is no test"),
        ("AB-X-5", "unit | `rust/gone.rs::plain`", "rust/gone.rs::plain is no test"),
        ("AB-X-5", "unit | `tests/rig/test_gone.py::test_it`", "test_it is no test"),
        ("AB-X-5", "unit | `rust/it.rs::helper`", "rust/it.rs::helper is no test"),
        ("AB-X-5", "unit | `rust/it.c::no_case`", "rust/it.c::no_case is no test"),
        ("AB-X-1", f"unit | `{RIG}::helper`, `{RIG}::test_both`", "helper is no test"),
        ("AB-X-5", "part | `rust/it.rs::plain`", "does not say what is `missing:`"),
        ("AB-X-5", "part | `rust/it.rs::plain`; missing:", "does not say what is `missing:`"),
        ("AB-X-5", "part | missing: all of it", "part, but no test is named"),
        ("AB-X-6", "n/a |", "n/a without a reason"),
        ("AB-X-5", "hosts | `rust/it.rs::plain`", "hosts, but no test with several guests"),
        ("AB-X-3", f"hosts | `{RIG}::test_one`", "hosts, but no test with several guests"),
        ("AB-X-5", f"hosts | `{RIG}::test_silent`", "test_silent does not have the id"),
        ("AB-X-2", "unit | `rust/it.rs::plain`", f"the row does not name {RIG}::test_both"),
    ),
)
def test_a_row_that_claims_too_much_is_noticed(checkout, rule, row, complaint):
    """So are one that names something else than a test, and one that does not name a test
    which claims its rule."""
    complaints = checkout.check(PROVEN | {rule: row})
    assert any(line.startswith(f"it: {rule}: ") and complaint in line for line in complaints)


@pytest.mark.parametrize(
    ("rule", "row", "good"),
    (
        ("AB-X-1", PROVEN["AB-X-1"], True),
        ("AB-X-4", PROVEN["AB-X-4"], True),
        ("AB-X-3", PROVEN["AB-X-3"], False),
        ("AB-X-5", PROVEN["AB-X-5"], False),
        ("AB-X-7", PROVEN["AB-X-7"], False),
        ("AB-X-6", PROVEN["AB-X-6"], False),
        ("AB-X-6", "n/a | instead: AB-X-1: either of them", True),
        ("AB-X-6", "n/a | instead: AB-X-3: shown within one host", False),
        ("AB-X-6", "n/a | instead: AB-X-10: there is none", False),
        ("AB-X-3", f"{PROVEN['AB-X-3']}; instead: AB-X-1", False),
    ),
)
def test_a_rule_between_two_hosts_is_shown_by_two(checkout, rule, row, good):
    """Or in part; or the specification leaves the choice between it and a rule that is."""
    ids = checkout.ledger.with_suffix(".ids")
    ids.write_text(re.sub(rf"^{rule}$", f"{rule} ‡", ids.read_text(), flags=re.MULTILINE))
    state = row.partition(" ")[0]
    complaint = f"it: {rule}: {state}, but it is a rule between two hosts"
    assert checkout.check(PROVEN | {rule: row}) == ([] if good else [complaint])


def test_a_fixture_that_a_marker_names_counts(checkout):
    rows = PROVEN | {"AB-X-4": f"hosts | `{RIG}::test_marked`"}
    counts = "Rows: hosts 3, unit 1, part 0, refused 1, n/a 1, open 1."
    unmarked = "it: AB-X-4: hosts, but its line of it.ids does not end with ‡"
    assert checkout.check(rows, counts) == [unmarked]
    assert checkout.run("--write").returncode == 0
    assert checkout.check(rows, counts) == []


def test_each_rule_has_one_row(checkout):
    rows = {rule: row for rule, row in PROVEN.items() if rule != "AB-X-6"}
    assert "it: AB-X-6: 0 rows instead of one" in checkout.check(rows)
    assert "it: AB-X-8: not an id of it.ids" in checkout.check(PROVEN | {"AB-X-8": "n/a | no"})
    twice = PROVEN["AB-X-6"] + " |\n| AB-X-6 | n/a | again"
    assert "it: AB-X-6: 2 rows instead of one" in checkout.check(PROVEN | {"AB-X-6": twice})


def test_a_rule_that_is_not_there_is_not_claimed(checkout):
    test = checkout.root / RIG
    test.write_text(test.read_text() + '\ndef test_more(both):\n    """AB-X-9, RFC-793"""\n')
    assert checkout.check(PROVEN) == [f"{RIG}::test_more: there is no rule AB-X-9"]


def test_trust_names_tests_also_beside_its_promises(checkout):
    more = f"`{RUST}::plain`, `{RUST}::helper`"
    (checkout.root / TRUST).write_text(f"{more}\n{trust(PROMISED)}")
    assert checkout.check(PROVEN) == [f"{TRUST}: {RUST}::helper is no test"]


@pytest.mark.parametrize(
    ("row", "complaint"),
    (
        ("It holds. | nothing yet", "promise 2: no test is named"),
        ("It holds. | missing: all of it", "promise 2: no test is named"),
        (f"It holds. | `{RIG}`", f"promise 2: {RIG} is named without a test in it"),
        ("It holds. | `rust/proto`", "promise 2: rust/proto is named without a test in it"),
        (f"It holds. | `{RUST}::plain`, `it.rs`", "promise 2: it.rs is named without a test in it"),
        (f"It holds. | `{RUST}::plain`, `::annotated`", "promise 2: ::annotated names no test by"),
        (f"It holds. | `{RIG}::test_both[one]`", "promise 2: " f"{RIG}::test_both[one] names no test"),
        (f"It holds. | `{RIG}::test_gone`", f"{RIG}::test_gone is no test"),
        (f"It holds. | `{RIG}::helper`", f"{RIG}::helper is no test"),
        ("It holds. | `scripts/look.sh`", "promise 2: scripts/look.sh is named without a test in it"),
        ("It holds. | script: `scripts/gone.sh`", "promise 2: there is no scripts/gone.sh"),
        (f"| `{RUST}::plain`", "promise 2: nothing is promised"),
    ),
)
def test_a_promise_names_what_shows_it(checkout, row, complaint):
    """A test by its file and name, or a program; a file says nothing of what in it does."""
    (checkout.root / TRUST).write_text(trust(PROMISED | {2: row}))
    complaints = checkout.check(PROVEN)
    assert any(line.startswith(f"{TRUST}: {complaint}") for line in complaints), complaints


def test_each_promise_has_a_number_once(checkout):
    def told(text):
        (checkout.root / TRUST).write_text(text)
        return [line.removeprefix(f"{TRUST}: ") for line in checkout.check(PROVEN)]

    rows = {number: PROMISED[2] for number in (1, 2, 4)}
    assert told(trust(rows)) == ["promise 3: 0 rows instead of one"]
    twice = trust(PROMISED | {3: f"{PROMISED[3]} |\n| 2 | {PROMISED[2]}"})
    assert told(twice) == ["promise 2: 2 rows instead of one"]
    assert told(trust(PROMISED | {"": PROMISED[2]})) == ["'' is not the number of a promise"]
    assert told(trust(PROMISED).replace("## Promises", "## Hopes")) == ["there are no promises"]


NEXTEST = """
        PASS [   0.005s] (1/3) it sound::tests::plain
        SLOW [> 60.000s] (2/3) it::it plain
     Summary [   0.009s] 3 tests run: 3 passed, 0 skipped
"""
CARGO = """
     Running unittests it.rs (target/debug/deps/it-0f)
test sound::tests::plain ... {how}
     Running tests/it.rs (target/debug/deps/it-1f)
test annotated ... ok
"""


def ran(checkout, log, **cases):
    """What is said of a run with those cases of pytest, and this log of Rust's tests."""
    inside = {"passed": "", "failed": "<failure/>", "error": "<error/>", "skipped": "<skipped/>"}
    written = "".join(
        f'<testcase classname="rig.test_it" name="{name}[{number}]">{inside[how]}</testcase>'
        for name, hows in cases.items()
        for number, how in enumerate(hows.split())
    )
    report, text = checkout.root / "report.xml", checkout.root / "cargo.log"
    report.write_text(f"<testsuites><testsuite>{written}</testsuite></testsuites>")
    text.write_text(log)
    result = checkout.run("--ran", report, text)
    return result.returncode, result.stdout


def test_the_tests_of_promises_have_run(checkout):
    """Of each promise at least one, and none has failed; what was skipped is told."""
    both = f"{RIG}::test_both"
    cargo = CARGO.format(how="ok")
    assert ran(checkout, NEXTEST, test_both="passed passed") == (0, "")
    assert ran(checkout, cargo, test_both="passed skipped") == (0, "")
    skipped = f"skipped in this run: {both}\n"
    assert ran(checkout, cargo, test_both="skipped") == (0, skipped)
    for how in ("passed failed", "error passed", "failed skipped"):
        assert ran(checkout, cargo, test_both=how) == (1, f"promise 1: {both}: failed\n")
    assert ran(checkout, cargo, test_one="passed") == (
        1, f"promise 1: {both}: not in the reports\n",
    )  # fmt: skip


def test_a_promise_of_which_nothing_has_passed_is_told(checkout):
    plain = f"{RUST}::plain"
    for how, end in (("FAILED", "failed"), ("ignored", "skipped")):
        status, told = ran(checkout, CARGO.format(how=how), test_both="passed")
        assert status == 1 and "promise 2: none of its tests has passed\n" in told
        assert (f"promise 2: {plain}: failed" in told) == (end == "failed")
    for log in (NEXTEST.replace("PASS", "FAIL"), NEXTEST.replace("PASS", "SIGABRT")):
        status, told = ran(checkout, log, test_both="passed")
        assert status == 1 and f"promise 2: {plain}: failed\n" in told
    # Of that name is another one, in another program.
    other = NEXTEST.replace("it sound::tests::plain", "it::other plain")
    assert f"promise 2: {plain}: not in the reports\n" in ran(checkout, other, test_both="passed")[1]


def test_rows_are_counted(checkout):
    wrong = checkout.check(PROVEN, "Rows: hosts 6, unit 0, part 0, refused 0, n/a 0.")
    assert wrong == [f"it: the line that counts rows has to be: {COUNTS}"]
    assert checkout.run("--write").returncode == 0
    assert COUNTS in checkout.ledger.read_text().splitlines()
    assert checkout.check(PROVEN, "") == [f"it: the line that counts rows has to be: {COUNTS}"]


def test_open_rows_are_told_when_none_may_be(checkout):
    checkout.check(PROVEN)
    result = checkout.run("--closed")
    assert (result.returncode, result.stderr) == (1, "it: AB-X-7: open\n")
    none = PROVEN | {"AB-X-7": "n/a | it was of no use"}
    assert checkout.check(none, "Rows: hosts 2, unit 1, part 1, refused 1, n/a 2.") == []
    assert checkout.run("--closed").returncode == 0


def test_tests_that_need_other_guests_are_listed(checkout):
    checkout.check(PROVEN)
    result = checkout.run("--hosts")
    assert (result.returncode, result.stdout) == (0, f"{RIG}::test_both\n")


def test_fixtures_that_are_imported_are_followed_and_other_functions_are_not(checkout):
    (checkout.root / "tests/rig/beside.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef both(two):\n    return two\n\n"
        "def plain(two):\n    pass\n"
    )
    text = IN_RIG.replace("@pytest.fixture\ndef both(two):\n    return two.hosts\n", "")
    text = text.replace('"""AB-X-3"""', '"""AB-X-3"""\n    plain(one)')
    (checkout.root / RIG).write_text(f"from beside import both, plain\n{text}")
    assert checkout.check(PROVEN) == []
    more = "it: AB-X-3: hosts, but no test with several guests is named"
    assert more in checkout.check({**PROVEN, "AB-X-3": f"hosts | `{RIG}::test_one`"})


def test_rows_of_other_hosts_need_a_test_that_notices_when_they_stand_still(checkout):
    checkout.check(PROVEN)
    report = checkout.root / "report.xml"

    def look(**noticed):
        cases = "".join(
            f'<testcase classname="rig.test_it" name="{name}[going]"/>'
            f'<testcase classname="rig.test_it" name="{name}[stopped]"><properties>'
            f'<property name="noticed" value="{how}"/></properties></testcase>'
            for name, how in noticed.items()
        )
        report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        result = checkout.run("--noticed", report)
        return result.returncode, result.stdout

    status, told = look(test_both="missed, stopped: HostsStopped: not within 2.0 s")
    assert status == 0 and "2 rows" in told and "have done: 2." in told
    status, told = look(test_both="asked")
    assert status == 1 and "asked only, and the row does not say why: AB-X-1 AB-X-2" in told
    status, told = look(test_one="missed, first")
    assert status == 1 and "no test has noticed: AB-X-1 AB-X-2" in told
    why = "; asked: what is looked at is there before"
    checkout.check(PROVEN | {rule: PROVEN[rule] + why for rule in ("AB-X-1", "AB-X-2")})
    status, told = look(test_both="asked")
    assert status == 0 and told.count("\n") == 1
    status, told = look(test_both="missed, first")
    assert status == 1 and "more than asked, as the row says: AB-X-1 AB-X-2" in told
    assert look(test_one="asked")[0] == 1
