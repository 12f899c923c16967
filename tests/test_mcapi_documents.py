# SPDX-License-Identifier: GPL-2.0-only
"""What MCAPI leaves to an implementation, and Documentation/mcapi.md and the manual say of it."""

import functools
import importlib.util
import re

import pytest
from installed import run, shown
from ntbrig.settings import CHECKOUT

DOCUMENT = (CHECKOUT / "Documentation/mcapi.md").read_text()
MANUAL = CHECKOUT / "userlib/mcapi-ffi/man/mcapi.3"
HEADERS = CHECKOUT / "userlib/include"
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


def constants(pattern, header="mcapi.h"):
    """What a pattern finds in a header."""
    return re.findall(pattern, (HEADERS / header).read_text(), re.M)


@functools.cache
def manual():
    """The manual as it is read."""
    return shown(MANUAL)


def page():
    """The same, without its lines."""
    return " ".join(manual().split())


def test_the_manual_has_each_attribute():
    """With its number, its type and its default, which is what the library begins with."""
    (listed,) = constants(r"(?s)enum mcapi_endp_attribute_numbers \{(.*?)\tMCAPI_ENDP_ATTR_END")
    names = re.findall(r"MCAPI_ENDP_ATTR_(\w+)", listed)
    types = set(constants(r"\bmcapi_endp_attr_(\w+)_t;"))
    assert len(names) == 12 and {name.lower() for name in names} == types
    for number, name in enumerate(names):
        assert f"MCAPI_ENDP_ATTR_{name} ({number}, mcapi_endp_attr_{name.lower()}_t" in page(), name
    values = constants(r"\bMCAPI_ENDP_ATTR_(?:TYPE|STATUS|\w+_MEMORY|\w+_BUFFER|\w+_LIMIT)(?:_\w+)?\b")
    assert len(values) > 20
    assert [value for value in values if value not in page()] == []
    rust = (CHECKOUT / "userlib/mcapi/src/attributes.rs").read_text()
    defaults = rust.partition("impl Default for Settings")[2].partition("\n}\n")[0]
    for field, name, value in (
        ("send_buffers: 64", "NUM_SEND_BUFFERS", "64"),
        ("timeout: u32::MAX", "TIMEOUT", "for ever"),
        ("max_payload: MESSAGE_MAX", "MAX_PAYLOAD_SIZE", "65536"),
        ("priorities: PRIORITIES", "NUM_PRIORITIES", "8"),
        ("priority: 0", "PRIORITY", "0"),
    ):
        assert field in defaults
        head = re.search(rf"MCAPI_ENDP_ATTR_{name} \(\d+, \w+, default ([^)]+)\)", page())
        assert head and head[1] == value, name


def test_the_manual_has_each_status_and_limit():
    """Each status with a meaning of its own, and the limits that a program may run into."""
    (listed,) = constants(r"(?s)enum mcapi_status_codes \{(.*?)\tMCAPI_STATUSCODE_END")
    names = re.findall(r"\bMCAPI_\w+", listed)
    assert len(names) == 43
    section = manual().partition("What each status means")[2].partition("PROGRAMS OF MCAPI 1.0")[0]
    heads = re.findall(r"^ +(MCAPI_\w+)(?: |$)", section, re.M)
    assert [name for name in heads if name in names] == names
    limits = manual().partition("\n   Limits")[2].partition("\n   Statuses")[0]
    defined = dict(constants(r"^#define (MCAPI_M\w+) (\w+)$", "mcapi_impl_spec.h"))
    for name in defined.keys() - {"MCAPI_MIN_PRORITY", "MCAPI_MIN_PORT"}:
        value = defined.get(defined[name], defined[name])
        assert name in limits, name
        assert re.search(rf"\b{int(value, 0)}\b", limits), name
    for most in ("256 endpoints", "4096 requests", "32 buffers of 4096 bytes", "2 to 16", "256 of a channel"):
        assert most in limits
    also = manual().partition("SEE ALSO")[2]
    for other in ("mcapi_bench(1)", "mcapi_ls(1)", "mcapi.conf(5)"):
        assert other in also


def test_the_examples_in_the_header_compile(tmp_path):
    """MC-INIT-10: the header has an example of what a program passes to mcapi_initialize(), and one of what
    it is told."""
    examples = constants(r"^ \*\t(.*;)$", "mcapi_impl_spec.h")
    passed, asked = examples[:-1], examples[-1:]
    assert passed[0].startswith("mcapi_param_t parameters = {MCAPI_PARAM_MAGIC, sizeof(mcapi_param_t)")
    assert "info.impl_info->host" in asked[0]
    program = tmp_path / "example.c"
    call = "mcapi_initialize(0, 1, MCAPI_NULL, &parameters, &info, &status);"
    declared = ("mcapi_status_t status;", "mcapi_info_t info;", *passed)
    lines = ("int main(void)", "{", *declared, call, *asked, "return 0;", "}", "")
    program.write_text("\n".join(("#include <mcapi.h>", "#include <stdio.h>", *lines)))
    words = ("gcc", "-Wall", "-Wextra", "-Werror", "-I", HEADERS, "-c", program, "-o", tmp_path / "example.o")
    run(*words)
