# SPDX-License-Identifier: GPL-2.0-only
"""Programs of the first version of the character device run on the modules of this source.

They are `tests/uapi-v1`, built against the headers beside them, and end with an error if anything
is not as they have known it. `tests/test_uapi_header.py` compares the headers.
"""

import pytest
from ntbrig.settings import CHECKOUT, PATIENCE, programs_dir
from outages import in_a_row
from test_routed import id_of

PROGRAMS = programs_dir() / "uapi-v1"
SOURCES = sorted(source.stem for source in (CHECKOUT / "tests/uapi-v1").glob("*.c"))
# It needs three hosts.
ROUTED = "stores"


@pytest.fixture(scope="module")
def fabric(boot):
    yield from in_a_row(boot)


@pytest.mark.parametrize("name", [name for name in SOURCES if name != ROUTED])
def test_a_program_of_version_1_runs(fabric, name):
    fabric.hosts[1].run([PROGRAMS / name], timeout=60 * PATIENCE)


def test_a_program_of_version_1_stores_where_no_window_leads(fabric):
    server, client = fabric.hosts[1:]
    waits = server.spawn([PROGRAMS / ROUTED, "server", id_of(server)], timeout=60 * PATIENCE)
    client.run([PROGRAMS / ROUTED, "client", id_of(client)], timeout=60 * PATIENCE)
    waits.wait().check()


def test_each_call_has_its_structure_in_all_sizes(fabric):
    """Shorter than today, longer with zeroes, longer with something else: for every call."""
    told = fabric.hosts[1].run([PROGRAMS / "sizes"], timeout=60 * PATIENCE)
    header = (CHECKOUT / "tests/uapi-v1/linux/mp_fabric.h").read_text()
    assert told.out.split() == [str(header.count("= _IO(")), "calls"]
