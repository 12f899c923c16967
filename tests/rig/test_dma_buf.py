# SPDX-License-Identifier: GPL-2.0-only
"""A segment is exported as a dma-buf: processes map it, and drivers of devices use it.

The scenarios are in `tests/uapi/dma_buf.c`; `tests/modules/mp_dmabuf_test.c` is the driver.
"""

import re

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import CHECKOUT, PATIENCE, programs_dir
from outages import in_a_row
from pximc import MODULES
from sharing import MP, fails

PROGRAM = programs_dir() / "uapi/dma_buf"
SOURCE = (CHECKOUT / "tests/uapi/dma_buf.c").read_text()
SCENARIOS = re.findall(r'^\t\{ "(\w+)", \w+ \},$', SOURCE, re.MULTILINE)
FEATURE = MP.FEATURE_DMABUF


@pytest.fixture(scope="module")
def fabric(boot):
    for fabric in in_a_row(boot):
        fabric.rp.run(f"insmod {stack.modules_dir()}/mp_dmabuf_test.ko")
        yield fabric


def test_the_kernel_says_that_it_has_them(fabric):
    with sharing.Process(fabric.rp) as process:
        assert process.call("INFO", "mp_info").features & FEATURE


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_segment_is_a_dma_buf(fabric, scenario):
    fabric.rp.run([PROGRAM, scenario], timeout=60 * PATIENCE)
