# SPDX-License-Identifier: GPL-2.0-only
"""What a link waits for that does not come up: in sysfs and by `ntbctl` at any time, in the log once.

The peer is the kernel's `ntb_tool`, which does by hand as much of the way up as a test says.
"""

import contextlib
import json
import re
import time

import pytest
from ntbrig import stack
from ntbrig.settings import PATIENCE

from frames import TRANSPORT
from mainline import Tool, client, driver

NTB = ("pximc_ntb",)
# What a mail begins with: see rust/proto/mailbox.rs.
MAGIC, VERSION = 0xB7, 1
WORDS = 4
PAGES = 256
WINDOW = PAGES << 12


@pytest.fixture(scope="module")
def pair(boot):
    return boot(hosts=2).hosts


@pytest.fixture(scope="module")
def ntbctl(boot):
    program = boot(hosts=2).settings.programs / "ntbctl"
    return lambda guest, words: guest.run(f"{program} {words}").out


def waits_for(guest):
    """What the only link over a bridge waits for, as sysfs has it."""
    return guest.run("cat /sys/kernel/mp/interfaces/8*/waits_for").out.strip()


def wait_until_waits_for(guest, what, timeout=10):
    condition = f'[ "$(cat /sys/kernel/mp/interfaces/8*/waits_for)" = {what} ]'
    try:
        stack.wait_until(condition, guest, timeout=timeout)
    except Exception as error:
        raise AssertionError(f"{guest} waits for {waits_for(guest)}, not for {what}") from error


def told(guest):
    """What the log has of links that do not come up, since the modules were loaded."""
    return re.findall(r"peer 0: (no (?:link|doorbell)) for (\d+) s: (.*)", guest.run("dmesg").out)


@contextlib.contextmanager
def loaded(guest, **parameters):
    guest.run("dmesg -C")
    stack.load(guest, modules=TRANSPORT, parameters=parameters)
    try:
        yield
    finally:
        stack.unload(guest, modules=TRANSPORT)


@contextlib.contextmanager
def by_hand(guest):
    """`ntb_tool` in a guest, its link enabled, its memory exposed to the peer's first window."""
    with driver(guest), client(guest, module="ntb_tool"):
        tool = Tool(guest)
        tool.enable()
        tool.wait_link(0, up=True)
        tool.expose(0, 0, WINDOW)
        yield tool
        # Unloaded with memory exposed, ntb_tool removes a file below a directory that has gone.
        tool.withdraw(0, 0)


def put_mail(tool, generation=9, echo=0, version=VERSION):
    """Write a mail as the endpoint of a bridge with two ports does, into the root processor's bank."""
    head = MAGIC << 24 | version << 20 | generation
    for word, value in ((1, PAGES), (2, echo), (3, 0), (0, head)):
        tool.write(f"peer0/spad{WORDS + word}", hex(value))


def generation(tool):
    """That of the root processor's mail, in the own bank."""
    return tool.number("spad0") & 0xFFFF


def test_each_step_of_the_way_up_is_told(pair):
    rp, ep = pair
    with loaded(rp):
        wait_until_waits_for(rp, "ntb_link")
        with by_hand(ep) as tool:
            wait_until_waits_for(rp, "mailbox")
            put_mail(tool, version=VERSION + 1)
            wait_until_waits_for(rp, "version")
            put_mail(tool)
            wait_until_waits_for(rp, "answer")
            put_mail(tool, echo=generation(tool))
            wait_until_waits_for(rp, "hello")
        wait_until_waits_for(rp, "ntb_link")


def test_the_log_has_it_once_and_ntbctl_always(pair, ntbctl):
    rp, ep = pair
    with loaded(rp):
        time.sleep(3 * PATIENCE)
        assert told(rp) == [], "not before five seconds"
        stack.wait_until("dmesg | grep -q 'no link for'", rp, timeout=10)
        started = time.monotonic()
        [interface] = [
            entry for entry in json.loads(ntbctl(rp, "--json interfaces")) if entry["waits_for"]
        ]
        assert (interface["waits_for"], interface["peer"]) == ("ntb_link", None)
        assert interface["waits_ms"] >= 5000
        table = ntbctl(rp, "links").split("\n\n")[-1].splitlines()
        assert table[0].split()[:5] == ["INTERFACE", "BRIDGE", "PORT", "SECONDS", "WAITS-FOR"]
        assert table[1].split()[0] == interface["id"]
        assert "the bridge has no link: cable, power and driver of the peer" in table[1]
        # Long enough for a second line, if there were one.
        time.sleep(max(0, 6 - (time.monotonic() - started)))
        [(what, seconds, why)] = told(rp)
        assert (what, seconds) == ("no link", "5") and why.startswith("the bridge has no link")

        with loaded(ep):
            stack.wait_for_peers(rp, ep, condition="= 1")
            for guest in pair:
                wait_until_waits_for(guest, "none")
            assert "WAITS-FOR" not in ntbctl(rp, "links")
            entries = json.loads(ntbctl(rp, "--json interfaces"))
            assert all(entry["waits_for"] is None for entry in entries)
            assert sorted(entry["kind"] for entry in entries) == ["bridge", "loopback"]


@pytest.mark.parametrize(
    "roles,what",
    (((2, 2), "identity"), ((1, 1), "other_root")),
    ids=("no-root", "two-roots"),
)
def test_hosts_whose_roles_do_not_fit_are_told(pair, roles, what):
    with contextlib.ExitStack() as hosts:
        for guest, role in zip(pair, roles):
            hosts.enter_context(loaded(guest, pximc_ntb=f"role={role}"))
        for guest in pair:
            wait_until_waits_for(guest, what, timeout=20)


def test_a_doorbell_that_never_comes_is_told(pair):
    lost = {"ntb_hw_ivshmem": "lose_doorbells=1", "pximc_ntb": "timeout_ms=2000"}
    with contextlib.ExitStack() as hosts:
        for guest in pair:
            hosts.enter_context(loaded(guest, **lost))
        stack.wait_for_peers(*pair, condition="= 1", timeout=40)
        for guest in pair:
            wait_until_waits_for(guest, "doorbell")
            stack.wait_until("dmesg | grep -q 'no doorbell for'", guest, timeout=15)
