# SPDX-License-Identifier: GPL-2.0-only
"""Links between the documents lead to files and headings that are there, and what the README says
of the libraries' size is so."""

import re
import subprocess

import pytest
from ntbrig.settings import CHECKOUT

PAGES = sorted(
    page
    for where in ("*.md", "Documentation/**/*.md", "examples/**/*.md", "samples/**/*.md")
    for page in CHECKOUT.glob(where)
)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def text(page):
    """What is on a page but code."""
    return CODE.sub("", page.read_text())


def anchors(page):
    """What headings of a page are found by."""
    headings = (heading.strip().lower() for heading in HEADING.findall(text(page)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def dead(page):
    """Links of a page that lead nowhere."""
    for where, anchor in LINK.findall(text(page)):
        if re.match(r"\w+:", where):
            continue
        target = page.parent / where if where else page
        if not target.exists() or anchor and anchor not in anchors(target):
            yield f"{where}#{anchor}" if anchor else where


def test_there_are_pages():
    assert CHECKOUT / "README.md" in PAGES and len(PAGES) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_somewhere(page):
    assert list(dead(page)) == []


# Of PXImc and SISCI, with what only they had once; what moved to crates for all is counted there.
NAMES = ("pximc", "pximc-dispatcher", "pximc-ntb", "sisci", "sisci-ffi")
LIBRARIES = tuple(f"userlib/{name}" for name in NAMES)
BEFORE = (*LIBRARIES, "userlib/forks", "userlib/processes")
NOW = (*LIBRARIES, "userlib/c-abi", "userlib/config", "userlib/log", "userlib/fabric/src/reactor.rs")
GENERATED = ("pximc-dispatcher/src/functions.rs", "bindings.rs")
TESTS = r"/tests(\.rs$|/)"
UNIT_TESTS = "#[cfg(test)]\nmod tests {"


def git(*arguments):
    command = ["git", "-C", CHECKOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def sources(names):
    """The sources in Rust that are neither tests nor generated."""
    of_rust = (name for name in names if "/src/" in name and name.endswith(".rs"))
    return [name for name in of_rust if not re.search(TESTS, name) and not name.endswith(GENERATED)]


def lines(codes):
    """Lines of code: neither blank, nor comments, nor tests."""
    words = (line.strip() for code in codes for line in code.partition(UNIT_TESTS)[0].splitlines())
    return sum(1 for word in words if word and not word.startswith("//"))


def lines_before():
    """Of the libraries in the first release."""
    releases = (CHECKOUT / "scripts/releases").read_text().splitlines()
    commit = next(line.split()[1] for line in releases if line.startswith("v1.0.0 "))
    names = sources(git("ls-tree", "-r", "--name-only", commit, *BEFORE).split())
    return lines(git("show", f"{commit}:{name}") for name in names)


def lines_now():
    """Of the libraries in this checkout."""
    names = sources(git("ls-files", *NOW).split())
    return lines((CHECKOUT / name).read_text() for name in names)


def test_libraries_are_smaller_than_in_the_first_release():
    """By as much as the README says, to a hundred lines."""
    before, now = lines_before(), lines_now()
    print(f"{now} instead of {before}")
    said = re.search(r"([\d,]+) lines\s+instead\s+of\s+([\d,]+)", text(CHECKOUT / "README.md"))
    told = [int(number.replace(",", "")) for number in said.groups()]
    assert told == [pytest.approx(now, abs=100), pytest.approx(before, abs=100)]
    assert now < before
