# SPDX-License-Identifier: GPL-2.0-only
"""The scenarios of PXImc between processes of two hosts, by the programs that show users
how it is done. Those with devices are in `test_pximc_devices.py`."""

import pytest

import pximc
from scenarios import LANGUAGES, finish, play, start

pytestmark = pytest.mark.everywhere

# Who ends the connection: options of the two languages.
_ENDS = {
    "s0": {"c": (), "rust": ()},
    "s1": {"c": ("--variant", "server"), "rust": ("--end", "s1")},
    "exit": {"c": ("--variant", "exit"), "rust": ("--end", "exit")},
}


@pytest.fixture(scope="module")
def hosts(boot):
    fabric = boot(hosts=2)
    pximc.load(*fabric.hosts)
    return fabric.rp, fabric.eps[0]


@LANGUAGES
@pytest.mark.parametrize("turned", [False, True])
def test_a_client_connects_to_a_server(hosts, language, turned):
    """PXI-REQLS-16, PXI-REQLC-6, PXI-WFC-2, PXI-WFC-3, PXI-WFC-4, PXI-WFC-5, PXI-QW-1,
    PXI-PRO-3: scenario S-1, in either direction."""
    s0, s1 = reversed(hosts) if turned else hosts
    play(language, "s1", s0, s1)


@LANGUAGES
@pytest.mark.parametrize("first", ["s0", "s1", "none"])
def test_two_peers_connect(hosts, language, first):
    """PXI-PAIR-1, PXI-REQLP-17: scenario S-1b; whoever comes first waits."""
    roles = ["s1", "s0"] if first == "s1" else ["s0", "s1"]
    sides = []
    for role, host in zip(roles, hosts):
        sides.append(start(host, language, "s1b", role))
        if first != "none" and len(sides) == 1:
            sides[0].wait_for_output("is up")
    finish(*sides)


@LANGUAGES
def test_events(hosts, language):
    """PXI-AE-1, PXI-AE-5, PXI-WSE-9, PXI-WSE-10: scenario S-2: an event that somebody waits
    for, one that nobody waits for, and three that are told as one."""
    play(language, "s2", *hosts)


@LANGUAGES
@pytest.mark.parametrize("end", _ENDS)
def test_the_end_of_a_connection(hosts, language, end):
    """PXI-AE-6, PXI-WSE-2, PXI-CW-4, PXI-CW-9, PXI-CW-10: scenario S-3 and its variants: S0 closes, S1 does, the process of
    S0 ends without closing."""
    options = _ENDS[end][language]
    play(language, "s3", *hosts, options, options, s0_dies=end == "exit")
