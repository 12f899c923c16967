# SPDX-License-Identifier: GPL-2.0-only
"""The headers for programs differ from those of version 1, which `tests/uapi-v1` keeps, only by what
was added.

A compiler says what names and structures are: each name of version 1 has its value, each structure
its fields, at their offsets and of their types, and what is new is behind them.
"""

import re
import subprocess

import pytest
from ntbrig.settings import CHECKOUT

KEPT = CHECKOUT / "tests/uapi-v1"
NOW = CHECKOUT / "uapi"
HEADERS = ("mp_fabric.h", "mp_netlink.h")
# Of fields, as numbers.
TYPES = ", ".join(
    f"{kind}: {number}"
    for number, kind in enumerate(
        ("default", "char *", "unsigned char", "unsigned short", "unsigned int", "int",
         "unsigned long", "unsigned long long")
    )
)  # fmt: skip
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def code(text):
    return COMMENT.sub("", text)


def enumerators(text):
    for body in re.findall(r"enum \{(.*?)\};", text, re.DOTALL):
        yield from re.findall(r"^\s*(MP_\w+)", body, re.MULTILINE)


def structures(text):
    """Each structure with its fields."""
    for name, body in re.findall(r"struct (mp_\w+) \{(.*?)\n\};", text, re.DOTALL):
        yield name, re.findall(r"(\w+)(?:\[\d+\])?;", body)


def constants(text):
    """Names of numbers, and those of texts."""
    found = re.findall(r"^#define (MP_\w+)[ \t]+(\S.*)$", text, re.MULTILINE)
    texts = [name for name, value in found if value.startswith('"')]
    numbers = [name for name, _ in found if name not in texts]
    return numbers + list(enumerators(text)), texts


def macros(text):
    """Read macros with arguments, as they are written."""
    found = re.findall(r"^#define (MP_\w+\([^)]*\)) (.*)$", text, re.MULTILINE)
    return {name: " ".join(value.split()) for name, value in found}


def questions(text):
    """Expressions that say what there is, by what they are of."""
    numbers, _ = constants(text)
    for name in numbers:
        yield name, f"(unsigned long long)({name})"
    for name, fields in structures(text):
        yield f"struct {name}", f"sizeof(struct {name})"
        for field in fields:
            of = f"((struct {name} *)0)->{field}"
            yield f"{name}.{field} at", f"offsetof(struct {name}, {field})"
            yield f"{name}.{field} bytes", f"sizeof({of})"
            yield f"{name}.{field} type", f"_Generic({of}, {TYPES})"


def answers(asked, header, directory, where):
    """What a compiler makes of expressions, with a header. A name that is not there has none."""
    lines = [
        "#include <stddef.h>", "#include <stdio.h>", f"#include <linux/{header}>", "int main(void) {",
    ]  # fmt: skip
    for name, expression in asked:
        lines.append(f'printf("%s=%llu\\n", "{name}", (unsigned long long)({expression}));')
    source = directory / "asks.c"
    source.write_text("\n".join([*lines, "return 0; }", ""]))
    program = directory / "asks"
    command = ["cc", "-w", f"-I{where}", "-o", program, source]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if built.returncode:
        missing = re.findall(r"error: .*", built.stderr)
        return None, sorted(set(missing))
    said = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    return dict(line.split("=") for line in said.stdout.splitlines()), []


def differences(header, directory, now=NOW):
    """What a program of version 1 does not find as it was."""
    was = code((KEPT / "linux" / header).read_text())
    text = code((now / "linux" / header).read_text())
    asked = list(questions(was))
    before, missing = answers(asked, header, directory, KEPT)
    assert before, missing
    after, missing = answers(asked, header, directory, now)
    if missing:
        return missing
    wrong = []
    for name, value in before.items():
        grown = name.startswith("struct ") and int(after[name]) > int(value)
        if after[name] != value and not grown:
            wrong.append(f"{name}: {value} is {after[name]}")
    wrong += inserted(was, text)
    now_macros, now_texts = macros(text), dict(re.findall(r'#define (MP_\w+)\s+(".*")', text))
    for name, value in {**macros(was), **dict(re.findall(r'#define (MP_\w+)\s+(".*")', was))}.items():
        if {**now_macros, **now_texts}.get(name) != value:
            wrong.append(f"{name}: is not {value}")
    return wrong


def inserted(was, text):
    """Fields that are new and not behind those of version 1."""
    present = dict(structures(text))
    return [
        f"{name}: not first what it had"
        for name, fields in structures(was)
        if present.get(name, [])[: len(fields)] != fields
    ]


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_has_all_that_version_1_has(header, tmp_path):
    assert differences(header, tmp_path) == []


def changed(directory, header, old, new):
    """A directory with that header, in which something is another one."""
    text = (KEPT / "linux" / header).read_text()
    assert text.count(old) == 1, old
    (directory / "linux").mkdir()
    (directory / "linux" / header).write_text(text.replace(old, new))
    return directory


@pytest.mark.parametrize(
    ("header", "old", "new", "found"),
    (
        ("mp_fabric.h", "#define MP_WAIT_ONE\t\t0x2", "#define MP_WAIT_ONE\t\t0x4", "MP_WAIT_ONE: 2 is 4"),
        ("mp_fabric.h", "MP_QUEUE_DONE = 2", "MP_QUEUE_DONE = 7", "MP_QUEUE_DONE: 2 is 7"),
        ("mp_fabric.h", "__s32 eventfd;", "__u32 eventfd;", "mp_eventfd.eventfd type: 5 is 4"),
        ("mp_fabric.h", "__s32 eventfd;", "__s32 fd;", "eventfd"),
        ("mp_fabric.h", "char name[32];", "char name[16];", "mp_interface.name bytes: 32 is 16"),
        ("mp_fabric.h", "((__u32)((word) >> 32))", "((__u32)((word) >> 16))", "MP_STATUS_COUNT(word)"),
        ("mp_fabric.h", 'DEVICE "mp_fabric"', 'DEVICE "fabric"', "MP_FABRIC_DEVICE"),
        ("mp_netlink.h", "\tMP_STATE_LEAVING,", "\tMP_STATE_NEW,\n\tMP_STATE_LEAVING,", "MP_STATE_LEAVING: 1 is 2"),
        (
            "mp_fabric.h",
            "\t__s32 eventfd;\n\t__u32 reserved;\n",
            "\t__s32 eventfd;\n\t__u32 fresh;\n\t__u32 reserved;\n",
            "mp_eventfd: not first what it had",
        ),
    ),
)  # fmt: skip
def test_what_would_break_a_program_is_found(header, old, new, found, tmp_path):
    now = changed(tmp_path, header, old, new)
    wrong = differences(header, tmp_path, now)
    assert any(found in line for line in wrong), wrong


def test_what_is_added_is_no_difference(tmp_path):
    old = "\t__s32 eventfd;\n\t__u32 reserved;\n"
    now = changed(tmp_path, "mp_fabric.h", old, old + "\t__aligned_u64 fresh;\n")
    assert differences("mp_fabric.h", tmp_path, now) == []


def test_programs_of_version_1_use_every_call_and_structure():
    text = (KEPT / "linux/mp_fabric.h").read_text()
    sources = "\n".join(code(source.read_text()) for source in sorted(KEPT.glob("*.[ch]")))
    sizes = code((KEPT / "sizes.c").read_text())
    calls = re.findall(r"MP_IOC_(\w+) = _IO", text)
    assert len(calls) >= 40
    programs = [code(path.read_text()) for path in KEPT.glob("*.[ch]") if path.name != "sizes.c"]
    for call in calls:
        # With its sizes, and for what it is for.
        assert f"FORM({call}," in sizes, call
        assert any(re.search(rf"\bMP_IOC_{call}\b", program) for program in programs), call
    for name, _ in structures(text):
        assert re.search(rf"\b(struct |, ){name}\b", sources), name


def test_a_program_of_version_1_uses_all_of_netlink():
    source = code((KEPT / "netlink.c").read_text())
    names = re.findall(r"^\t(MP_\w+)", code((KEPT / "linux/mp_netlink.h").read_text()), re.MULTILINE)
    names = [name for name in names if not name.endswith("UNSPEC")]
    assert len(names) >= 40
    assert [name for name in names if not re.search(rf"\b{name}\b", source)] == []
