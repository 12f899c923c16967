# SPDX-License-Identifier: GPL-2.0-only
"""Each call of the character device has a page in `Documentation/uapi/calls`, which is right.

Structures are those of the header, word for word (`MP_PAGES=write` writes them anew), examples
compile, and errors are those that the storm of random calls lets each call have.
"""

import os
import re
import subprocess

import pytest
from ntbrig.settings import CHECKOUT

HEADER = (CHECKOUT / "uapi/linux/mp_fabric.h").read_text()
README = (CHECKOUT / "Documentation/uapi/README.md").read_text()
FORMS = (CHECKOUT / "userlib/fabric-storm/src/forms.rs").read_text()
DIRECTORY = CHECKOUT / "Documentation/uapi/calls"
CALLS = dict(re.findall(r"(MP_IOC_\w+) = _IO\(.*?/\* (struct mp_\w+) \*/", HEADER))
PAGES = {path.stem: path for path in sorted(DIRECTORY.glob("*.md"))}
SECTIONS = ["Structure", "Effect", "Errors", "Privileges", "Limits", "Example", "See also"]
# Those that any call has that takes addresses, waits, or needs memory.
GENERAL = {"EINVAL", "EFAULT", "E2BIG", "EINTR", "ENOMEM"}
# What was only handed over.
HANDED = {"EACCES"}
# Those that the storm does not come to: without offsets for mmap(), or without any memory, or with
# a segment that was handed over.
RARE = {
    "MP_IOC_SEGMENT_SHARE": HANDED,
    "MP_IOC_SEGMENT_PREPARE": HANDED,
    "MP_IOC_SEGMENT_PUBLISH": HANDED,
    "MP_IOC_SEGMENT_WITHDRAW": HANDED,
    "MP_IOC_SEGMENT_REGISTER": HANDED,
    "MP_IOC_SEGMENT_GRANT": HANDED,
    "MP_IOC_NOTICE": HANDED,
    "MP_IOC_SESSION": {"ENOSPC"},
    "MP_IOC_SEGMENT": {"ENOSPC"},
    "MP_IOC_CONNECTION": {"ENOSPC"},
    "MP_IOC_SESSION_STORE": {"ENOBUFS"},
}
STRUCTURE = re.compile(r"```c\n(struct mp_\w+) \{.*?^\};\n```", re.DOTALL | re.MULTILINE)


def name_of(call):
    return call.removeprefix("MP_IOC_").lower().replace("_", "-")


def text_of(call):
    path = PAGES.get(name_of(call))
    assert path, f"{call} has no page"
    return path.read_text()


def sections(text):
    """What is below each heading of a page."""
    found = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], (body.strip() for body in found[1::2])))


def defined(structure):
    """How the header defines a structure."""
    found = re.search(rf"^{structure} \{{.*?^\}};$", HEADER, re.DOTALL | re.MULTILINE)
    assert found, f"{structure} is not in the header"
    return found[0]


def errors(text):
    return re.findall(r"^\| `(E\w+)` \| \S", sections(text)["Errors"], re.MULTILINE)


def errors_of_storm(call):
    form = re.search(rf"\b{call} mp_\w+ \d+ \w+ &\[[^\]]*\],\s*&\[([^\]]*)\]", FORMS)
    assert form, f"the storm does not make {call}"
    return set(re.findall(r"E\w+", form[1]))


def test_every_call_has_a_page_and_every_page_a_call():
    assert len(CALLS) >= 40
    assert set(PAGES) == {name_of(call) for call in CALLS}


def test_the_list_of_calls_has_each_with_its_first_sentence():
    listed = re.findall(r"^\| \[(MP_IOC_\w+)\]\(calls/([\w-]+)\.md\) \| (.*) \|$", README, re.MULTILINE)
    assert [call for call, _, _ in listed] == list(CALLS)
    for call, page, summary in listed:
        assert page == name_of(call)
        assert text_of(call).split("\n\n")[2] == summary, call


@pytest.mark.parametrize("call", CALLS)
def test_a_page_has_all_its_sections(call):
    text = text_of(call)
    assert re.findall(r"^# (\w+)$", text, re.MULTILINE) == [call]
    found = sections(text)
    assert list(found) == SECTIONS
    assert all(found.values()), [name for name, body in found.items() if not body]


@pytest.mark.parametrize("call", CALLS)
def test_structures_are_those_of_the_header(call):
    text = text_of(call)
    fresh = STRUCTURE.sub(lambda found: f"```c\n{defined(found[1])}\n```", text)
    if os.environ.get("MP_PAGES") == "write":
        PAGES[name_of(call)].write_text(fresh)
        text = fresh
    shown = STRUCTURE.findall(sections(text)["Structure"])
    assert shown[0] == CALLS[call]
    assert text == fresh


@pytest.mark.parametrize("call", CALLS)
def test_errors_are_those_that_the_call_may_have(call):
    told = set(errors(text_of(call)))
    may_be = errors_of_storm(call)
    assert may_be <= told
    assert told <= may_be | GENERAL | RARE.get(call, set())


@pytest.mark.parametrize("call", CALLS)
def test_what_a_page_names_is_in_the_header(call):
    names = set(re.findall(r"\bMP_\w+\b", text_of(call)))
    defined_names = set(re.findall(r"\bMP_\w+\b", HEADER))
    assert names <= defined_names


@pytest.mark.parametrize("call", CALLS)
def test_the_example_compiles_and_makes_the_call(call, tmp_path):
    (example,) = re.findall(r"```c\n(.*?)```", sections(text_of(call))["Example"], re.DOTALL)
    assert re.search(rf"ioctl\(fabric, {call}, &", example)
    source = tmp_path / "example.c"
    source.write_text(example)
    words = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{CHECKOUT / 'uapi'}"]
    built = subprocess.run(
        [*words, "-c", "-o", tmp_path / "example.o", source],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
