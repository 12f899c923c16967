# SPDX-License-Identifier: GPL-2.0-only
"""Where two programs of virtual interfaces run: on two hosts, one on each, or both on the first one.

What is shown between hosts has to hold within one as well: modules that import `all_ends` from
here run all their tests twice. A test that needs two hosts carries the marker `two_hosts`, which
says why.
"""

import pytest
from ntbrig import stack
from ntbrig.vipl import configure
from pximc import MODULES
from vipl import Ends


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    return fabric


@pytest.fixture(scope="module", params=("hosts", "own"))
def all_ends(request, fabric):
    """Two programs, for all tests of a module."""
    ends = Ends(fabric.hosts, configure(fabric.hosts))
    if request.param == "own":
        ends = ends.on_one_host()
    yield ends
    ends.end()
