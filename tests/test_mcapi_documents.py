# SPDX-License-Identifier: GPL-2.0-only
"""What MCAPI leaves to an implementation, and Documentation/mcapi.md and the manual say of it."""

import importlib.util
import re

import pytest
from installed import shown
from ntbrig.settings import CHECKOUT

DOCUMENT = (CHECKOUT / "Documentation/mcapi.md").read_text()
MANUAL = CHECKOUT / "userlib/mcapi-ffi/man/mcapi.3"
CRATES = ("mcapi", "mcapi-ffi")

# Statuses that an implementation uses as it likes, and the names that they have in Rust.
STATUSES = {
    "GENERAL": "General",
    "TRANSMISSION": "Transmission",
    "TIMEOUT": "Timeout",
    "MEM_LIMIT": "MemoryLimit",
}
HEADING = "## Where GENERAL and optional statuses are used"


def conformance():
    """The script that checks ledgers."""
    path = CHECKOUT / "scripts/conformance.py"
    specification = importlib.util.spec_from_file_location("conformance", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def uses():
    """The documented uses of a status: of each the status, the case, modules and tests."""
    section = DOCUMENT.partition(HEADING)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([A-Z_]+) \| (.+?) \| (.+?) \| (.+?) \|$", section, re.M)
    for status, case, modules, tests in rows:
        yield status, case, set(re.findall(r"`([\w/]+)`", modules)), tests


def modules_with(name):
    """Modules of the libraries that use an error, but for tests and documentation."""
    for crate in CRATES:
        sources = CHECKOUT / f"userlib/{crate}/src"
        for path in sources.rglob("*.rs"):
            module = str(path.relative_to(sources)).removesuffix(".rs")
            code = re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", path.read_text(), flags=re.M)[0]
            lines = (line for line in code.splitlines() if not line.lstrip().startswith("//"))
            # Its name and its number are in `error`.
            if "tests" not in module.split("/") and module != "error":
                if any(re.search(rf"\bError::{name}\b", line) for line in lines):
                    yield module


def test_each_use_of_a_status_that_may_be_used_is_documented():
    """MC-GEN-16: of each use the document says when it is, which modules have it, and the tests that
    show it; no other module uses the status."""
    checkout = conformance().Checkout(CHECKOUT)
    found = list(uses())
    assert {status for status, *_ in found} == STATUSES.keys()
    for status, name in STATUSES.items():
        documented = set().union(*(modules for of, _, modules, _ in found if of == status))
        assert set(modules_with(name)) == documented, status
    for _, case, _, tests in found:
        named = conformance().PROOF.findall(tests)
        assert named, case
        for path, test in named:
            assert checkout.is_test(path, test), f"{path}::{test}"
    assert "message to a connected endpoint" in DOCUMENT.replace("\n", " ")


@pytest.mark.parametrize(
    "said, in_manual",
    (
        # MC-INIT-9
        ("a process is at most one node (MC-INIT-9)", "it is one node at a time"),
        # MC-FINAL-7
        ("which is all that it does beyond the specification (MC-FINAL-7)", "ends the two threads"),
        # MC-ATTR-8
        ("It cannot be set (MC-ATTR-8)", "MCAPI_ENDP_ATTR_NUM_RECV_BUFFERS can only be asked for"),
    ),
)
def test_what_an_implementation_decides_is_documented(said, in_manual):
    """MC-INIT-9, MC-FINAL-7, MC-ATTR-8: in the document for maintainers, and in the manual."""
    assert said in " ".join(DOCUMENT.split())
    assert in_manual in " ".join(shown(MANUAL).split())
