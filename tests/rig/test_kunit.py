# SPDX-License-Identifier: GPL-2.0-only
"""The KUnit suites of `mp_kunit`, run in a guest."""

import os
import re

import pytest
from ntbrig import stack
from ntbrig.settings import CHECKOUT

from ether import python
from shortage import refused, running_out

MODULES = ("mp_kernel", "mp_transport", "mp_kunit")
# By suite: the source, and what its cases look like there.
SUITES = {
    "mp_transport": ("rust/mp_kunit/frames.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_bytes": ("rust/mp_kunit/bytes.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_fifo": ("rust/mp_kunit/fifo.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_forward": ("rust/mp_kunit/forward.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_kept": ("rust/mp_kunit/kept.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_napi": ("rust/mp_kunit/napi.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_user": ("rust/mp_kunit/user.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_windows": ("rust/mp_kunit/windows.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_memory": ("rust/mp_kunit/memory.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_interface": ("rust/mp_kunit/interface.rs", r"#\[test\]\s+fn (\w+)\("),
    "mp_capi": ("rust/mp_kunit/capi.c", r"KUNIT_CASE\((\w+)\)"),
}

# Of suites that are run beside the virtual Ethernet.
REACHED = "packets_reach_the_others_when_a_peer_never_has_room"
TOLD = "a_peer_of_any_index_is_told_the_address_of_the_interface"

# Of a suite of its own, which is run without memory.
SHORT = "a_frame_that_there_is_no_memory_for_is_null"


def cases():
    """The suites' cases as the sources have them."""
    sources = SUITES.values()
    found = [case for path, look in sources for case in re.findall(look, read(path))]
    return [case for case in found if case != SHORT]


def read(path):
    return (CHECKOUT / path).read_text()


@pytest.fixture(scope="module")
def guest(boot):
    options = f"{os.environ.get('RIG_KERNEL_OPTIONS', '')} kunit.enable=1"
    guest = boot(hosts=2, cpus=2, kernel_options=options.strip()).rp
    stack.load(guest, modules=MODULES)
    return guest


def ran(guest, name):
    """What each case of a suite comes to, the words before its name in KTAP, and the whole."""
    suite = f"/sys/kernel/debug/kunit/{name}"
    out = guest.run(f"echo 1 > {suite}/run && cat {suite}/results").out
    lines = re.findall(r"^ +(ok|not ok) \d+ (\w+)", out, re.MULTILINE)
    return {name: words for words, name in lines}, out


@pytest.fixture(scope="module")
def results(guest):
    outcomes, log = {}, ""
    for name in SUITES:
        of_suite, out = ran(guest, name)
        outcomes |= of_suite
        log += out
    yield outcomes, log
    # A case that fails keeps what it had, and with it the modules.
    if "not ok" not in (*outcomes.values(), *ran(guest, "mp_capi_short")[0].values()):
        stack.unload(guest, modules=MODULES)


@pytest.mark.parametrize("case", cases())
def test_a_case_passes(results, case):
    outcomes, log = results
    assert outcomes.get(case) == "ok", log


def test_a_frame_that_there_is_no_memory_for_is_null(guest, results):
    """IDT-FRM-2: whichever piece of memory is refused."""
    for short in running_out(guest):
        with short:
            outcomes, log = ran(guest, "mp_capi_short")
            is_short = refused(guest) > 0
        assert outcomes == {SHORT: "ok"}, log
        # It is skipped where there is memory.
        assert ("# SKIP" in log) is not is_short, log


def test_every_peer_that_there_may_be_has_a_way_in_the_ethernet(guest, results):
    """IDT-ETH-1: also the seventeenth host, and the last one. Those beyond the sixteenth have one
    transmit queue, as each takes memory."""
    stack.load(guest, modules=("mp_func_ether",))
    try:
        queues = guest.run("ls -d /sys/class/net/ntb0/queues/tx-*").out.split()
        assert len(queues) == 1 + 16 * 4 + 48
        outcomes, log = ran(guest, "mp_ether")
        assert outcomes == {TOLD: "ok"}, log
        assert not guest.run("dmesg | grep 'load the module with peers='", check=False).out
    finally:
        stack.unload(guest, modules=("mp_func_ether",))


TO_ALL = """
    import socket, time
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind(("ntb0", 0))
    while True:
        try:
            s.send(b"\\xff" * 6 + bytes(6) + bytes.fromhex("88b5") + bytes(46))
        except OSError:
            pass
        time.sleep(0.02)
"""


def test_a_peer_that_never_has_room_keeps_no_packet_to_all_from_others(guest, results):
    """IDT-ETH-2: such as a host behind the root processor that does not say it is ready."""
    parameters = {"mp_func_ether": "flood_wait_ms=50"}
    stack.load(guest, modules=("mp_func_ether",), parameters=parameters)
    try:
        guest.run("ip link set ntb0 up")
        sender = python(guest, TO_ALL)
        try:
            outcomes, log = ran(guest, "mp_ether_to_all")
        finally:
            sender.kill()
        assert outcomes == {REACHED: "ok"}, log
    finally:
        stack.unload(guest, modules=("mp_func_ether",))
