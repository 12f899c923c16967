# SPDX-License-Identifier: GPL-2.0-only
"""Links between the documents lead to files and headings that are there."""

import re

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
