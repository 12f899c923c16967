# SPDX-License-Identifier: GPL-2.0-only
"""The stack of a kernel's thread is 16 KiB, of which the kernel's own code needs a part: no function of a
module takes more of it than the kernel lets those in C take (CONFIG_FRAME_WARN)."""

import re
import subprocess

import pytest
from ntbrig import stack
from ntbrig.settings import flavour

pytestmark = pytest.mark.skipif(
    flavour() not in ("rig", "stock"), reason="checks of that kernel lie on the stack as well"
)

# Bytes.
MOST = 2048
PRODUCT = (*stack.MODULES, stack.USER, "mp_dibs")

_FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
_TAKEN = re.compile(r"\bsub +\$0x([0-9a-f]+),%rsp$")


def frames(code):
    """What each function takes at a time, by the disassembly of its module."""
    found, function = {}, None
    for line in code.splitlines():
        if match := _FUNCTION.match(line):
            function = match[1]
        elif match := _TAKEN.search(line):
            found[function] = max(found.get(function, 0), int(match[1], 16))
    return found


def test_frames_are_found():
    """The largest of each function."""
    code = "0 <a>:\n 0:\tsub    $0x18,%rsp\n 4:\tsub    $0x900,%rsp\n9 <b>:\n 9:\tadd    $0x18,%rsp\n"
    assert frames(code) == {"a": 0x900}


@pytest.mark.parametrize("module", PRODUCT)
def test_no_function_takes_more_than_two_kibibytes(module):
    path = stack.modules_dir() / f"{module}.ko"
    if not path.exists():
        pytest.skip("not built for this kernel")
    command = ["objdump", "-d", "--no-show-raw-insn", path]
    code = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = frames(code)
    assert found, "no function takes anything: this is not how frames are made here"
    assert {name: size for name, size in found.items() if size > MOST} == {}
