# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites of `mp_kunit`, run in a guest."""

import os
import re

import pytest
from ntbrig import stack
from ntbrig.settings import CHECKOUT

MODULES = ("mp_kernel", "mp_transport", "mp_kunit")
SOURCES = (CHECKOUT / "rust/mp_kunit.rs", CHECKOUT / "rust/mp_kunit/forward.rs")
SUITES = "/sys/kernel/debug/kunit/mp_*"


def cases():
    """The suites' cases as the sources have them."""
    sources = "".join(source.read_text() for source in SOURCES)
    return re.findall(r"#\[test\]\s+fn (\w+)\(", sources)


@pytest.fixture(scope="module")
def results(boot):
    """What each case came to: the words before its name in KTAP."""
    options = f"{os.environ.get('RIG_KERNEL_OPTIONS', '')} kunit.enable=1"
    guest = boot(hosts=2, kernel_options=options.strip()).rp
    stack.load(guest, modules=MODULES)
    each = "echo 1 > $suite/run && cat $suite/results"
    out = guest.run(f"for suite in {SUITES}; do {each}; done").out
    stack.unload(guest, modules=MODULES)
    lines = re.findall(r"^ +(ok|not ok) \d+ (\w+)", out, re.MULTILINE)
    return {name: words for words, name in lines}, out


@pytest.mark.parametrize("case", cases())
def test_a_case_passes(results, case):
    outcomes, log = results
    assert outcomes.get(case) == "ok", log
