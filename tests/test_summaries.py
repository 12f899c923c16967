# SPDX-License-Identifier: GPL-2.0-only
"""Summary lines of functions, and what checks them."""

import subprocess

import pytest

from ntbrig.settings import CHECKOUT

CHECK = CHECKOUT / "scripts/summaries.py"


def _check(*arguments):
    result = subprocess.run([CHECK, *arguments], capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    return result


@pytest.fixture
def check(tmp_path):
    """Make a checkout of one file; `check` returns the complaints about it."""
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)

    def run(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        result = _check(tmp_path)
        assert result.returncode == (1 if result.stdout else 0)
        return result.stdout.splitlines()

    return run


def test_the_summaries_of_the_tree_are_imperative():
    result = _check()
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize(
    "documented",
    (
        "/// Rings the peer's doorbell.\nfn ring() {}",
        "/// Rings.\n///\n/// # Errors\n/// None.\n#[inline]\npub(crate) unsafe fn ring() {}",
        "impl A {\n    /// Rings, at once.\n    #[cfg(all(\n        a,\n    ))]\n    fn ring() {}\n}",
        "/// Names the link.\nfn name() {}",
    ),
)
def test_a_function_in_the_third_person_is_complained_of(check, documented):
    (complaint,) = check("it.rs", documented)
    assert complaint.startswith(("it.rs:1: not imperative: ", "it.rs:2: not imperative: "))


@pytest.mark.parametrize(
    "documented",
    (
        "/// Ring the peer's doorbell.\nfn ring() {}",
        "/// Bytes of a record.\nfn bytes() {}",
        "/// Names of the functions.\nfn names() {}",
        "/// Pass it on.\nfn pass() {}",
        "/// This host's port.\nfn port() {}",
        "/// Rings, of which one is used.\nstruct Rings;",
        "/// Rings.\nmod rings {}\nfn ring() {}",
        "/// Rings ring.\n#[test]\nfn rings_ring() {}",
        "// Rings.\nfn ring() {}",
    ),
)
def test_what_is_no_verb_or_no_function_may_end_in_an_s(check, documented):
    assert check("it.rs", documented) == []


def test_docstrings_are_looked_at_except_those_of_tests(check):
    text = 'def ring():\n    """Rings."""\n\ndef test_it():\n    """Rings."""\n'
    assert check("it.py", text) == ["it.py:2: not imperative: Rings."]
