# SPDX-License-Identifier: GPL-2.0-only
"""Programs of the first version of the character device run on the modules of this source.

They are `tests/uapi-v1`, built against the headers beside them, for 64 bits and for 32, and end with
an error if anything is not as they have known it. `tests/test_uapi_header.py` compares the headers.
"""

import pytest
from frames import wait_for_everyone, wait_for_peers
from ntbrig.settings import CHECKOUT, PATIENCE, programs32_dir, programs_dir
from outages import in_a_row
from test_routed import id_of

PROGRAMS = {64: programs_dir() / "uapi-v1", 32: programs32_dir() / "uapi-v1"}
SOURCES = sorted(source.stem for source in (CHECKOUT / "tests/uapi-v1").glob("*.c"))
# It needs three hosts.
ROUTED = "stores"
NETLINK = "netlink"


@pytest.fixture(scope="module")
def fabric(boot):
    yield from in_a_row(boot)


@pytest.mark.parametrize("bits", PROGRAMS)
@pytest.mark.parametrize("name", [name for name in SOURCES if name != ROUTED])
def test_a_program_of_version_1_runs(fabric, name, bits):
    fabric.hosts[1].run([PROGRAMS[bits] / name], timeout=60 * PATIENCE)


@pytest.mark.parametrize("bits", PROGRAMS)
def test_a_program_of_version_1_stores_where_no_window_leads(fabric, bits):
    server, client = fabric.hosts[1:]
    program = PROGRAMS[bits] / ROUTED
    waits = server.spawn([program, "server", id_of(server)], timeout=60 * PATIENCE)
    client.run([program, "client", id_of(client)], timeout=60 * PATIENCE)
    waits.wait().check()


@pytest.mark.parametrize("bits", PROGRAMS)
def test_a_program_of_version_1_hears_of_peers(fabric, bits):
    middle, host, other = fabric.hosts
    listens = host.spawn([PROGRAMS[bits] / NETLINK, "events"], timeout=60 * PATIENCE)
    listens.wait_for_output("listens", timeout=20 * PATIENCE)
    fabric.unplug(other)
    wait_for_peers(middle, 1)
    fabric.plug(other)
    wait_for_everyone(*fabric.hosts)
    listens.wait().check()


@pytest.mark.parametrize("bits", PROGRAMS)
def test_each_call_has_its_structure_in_all_sizes(fabric, bits):
    """Shorter than today, longer with zeroes, longer with something else: for every call."""
    told = fabric.hosts[1].run([PROGRAMS[bits] / "sizes"], timeout=60 * PATIENCE)
    header = (CHECKOUT / "tests/uapi-v1/linux/mp_fabric.h").read_text()
    assert told.out.split() == [str(header.count("= _IO(")), "calls"]
