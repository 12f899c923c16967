# SPDX-License-Identifier: GPL-2.0-only
"""ntbctl and tracepoints on the hosts of a star.

The endpoints reach each other over the root processor.
"""

import json
import time
from collections import defaultdict

import pytest
from ntbrig import stack

from ether import ping
from frames import (
    TEST,
    Receivers,
    peer_id,
    send,
    wait_for_everyone,
    wait_for_peers,
    wait_until_received,
)
from tracing import events, trace

pytestmark = pytest.mark.everywhere

# Of mp_func_test.
FUNC = "0x54534554"
STATS = ("tx_frames", "tx_bytes", "tx_errors", "rx_frames", "rx_bytes", "rx_errors")


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3, topology="star")
    stack.bring_up(*fabric.hosts)
    wait_for_everyone(*fabric.hosts)
    return fabric


@pytest.fixture(scope="module")
def ntbctl(fabric):
    """Run ntbctl in a guest."""
    program = fabric.settings.programs / "ntbctl"

    def run(guest, words, check=True):
        return guest.run(f"{program} {words}", check=check)

    run.program = program
    return run


@pytest.fixture(scope="module")
def shown(ntbctl):
    """What ntbctl prints for programs."""
    return lambda guest, words: json.loads(ntbctl(guest, f"--json {words}").out)


def name(guest):
    return f"{peer_id(guest):08x}"


def table(text):
    """The tables in a text, each a list of rows by column."""
    tables = []
    for part in text.split("\n\n"):
        header, *rows = part.splitlines()
        # A route has a blank in it.
        cells = [row.replace("via ", "via_").split() for row in rows]
        tables.append([dict(zip(header.split(), row)) for row in cells])
    return tables


def counters(guest):
    """All files of a host below /sys/kernel/mp: its own, its peers' and its links', by name."""
    command = "cd /sys/kernel/mp && grep -H '' $(find . -maxdepth 4 -type f)"
    found = defaultdict(dict)
    for line in guest.run(command).out.splitlines():
        path, value = line.removeprefix("./").split(":", 1)
        place, _, name = path.rpartition("/")
        found[place.removeprefix("peers/") or "host"][name] = value
    return found


def lies_between(before, shown, after):
    """Whether counters that only grow were read between two readings."""
    assert shown, "there is something to compare"
    for key, value in shown.items():
        assert int(before[key]) <= int(value) <= int(after[key]), key


def sums(guest):
    """A host's statistics over all its peers."""
    found = counters(guest)
    peers = [found[peer] for peer in found if peer != "host" and "/" not in peer]
    return {key: sum(int(peer[key]) for peer in peers) for key in STATS}


def test_alone_it_says_what_it_can_do(fabric, ntbctl):
    alone = ntbctl(fabric.rp, "", check=False)
    assert alone.rc == 1 and "Usage: ntbctl" in alone.err
    for command in ("peers", "links", "interfaces", "stats", "ping", "topology", "monitor"):
        assert command in alone.err
        assert "Usage: ntbctl" in ntbctl(fabric.rp, f"{command} --help").out
    wrong = ntbctl(fabric.rp, "peer", check=False)
    assert wrong.rc == 1 and "peers" in wrong.err


def test_peers_are_those_in_sysfs(fabric, ntbctl, shown):
    """IDT-PEER-2, IDT-PEER-4"""
    columns = ("id", "index", "type", "state", "route", "queues", "max_frame")
    for guest in fabric.hosts:
        expected = []
        for peer in guest.run("ls /sys/kernel/mp/peers").out.split():
            files = counters(guest)[peer]
            expected.append({column: files[column] for column in columns})
        assert len(expected) == 2
        as_text = [{k: str(v) for k, v in peer.items()} for peer in shown(guest, "peers")]
        assert sorted(as_text, key=lambda peer: peer["id"]) == expected
        [rows] = table(ntbctl(guest, "peers").out)
        assert [list(row.values()) for row in rows] == [
            [peer[column].replace("via ", "via_") for column in columns] for peer in as_text
        ]


def test_links_have_the_same_epochs_and_rings_at_both_ends(fabric, ntbctl, shown):
    rp, *endpoints = fabric.hosts
    links = {link["peer"]: link for link in shown(rp, "links")}
    assert sorted(links) == sorted(name(guest) for guest in endpoints)
    assert len({link["bridge"] for link in links.values()}) == 2
    for guest in endpoints:
        # The other endpoint is reached over the root processor, without a link.
        [theirs], ours = shown(guest, "links"), links[name(guest)]
        assert theirs["peer"] == name(rp)
        assert (theirs["epoch"], theirs["peer_epoch"]) == (ours["peer_epoch"], ours["epoch"])
        assert theirs["version"] == ours["version"] == 2
        assert (theirs["inbound"], theirs["outbound"]) == (ours["outbound"], ours["inbound"])
        for here, there in zip(ours["rings"], theirs["rings"], strict=True):
            assert here["ring"] == there["ring"]
            assert here["tx_size"] == there["rx_size"] >= 4096
            assert here["tx_used"] <= here["tx_size"]
            assert here["rx_used"] <= here["rx_size"]
        queues = int(counters(guest)[name(rp)]["queues"])
        assert [ring["ring"] for ring in ours["rings"]] == list(range(queues + 1))
    links_table, rings_table = table(ntbctl(rp, "links").out)
    assert {row["PEER"]: row["EPOCH"] for row in links_table} == {
        peer: link["epoch"] for peer, link in links.items()
    }
    assert len(rings_table) == sum(len(link["rings"]) for link in links.values())


def test_counters_agree_with_sysfs(fabric, ntbctl, shown):
    """IDT-PEER-1, IDT-PEER-4"""
    rp, first, second = fabric.hosts
    ping(first, stack.address(second))
    for guest in fabric.hosts:
        before = counters(guest)
        stats = shown(guest, "stats")
        tables = table(ntbctl(guest, "stats").out)
        after = counters(guest)
        assert stats["host"] == before["host"]["self"]
        lies_between(before["host"], stats["counters"], after["host"])
        for peer in stats["peers"]:
            lies_between(before[peer["peer"]], {key: peer[key] for key in STATS}, after[peer["peer"]])
            if link := peer["link"]:
                lies_between(before[f"{peer['peer']}/link"], link, after[f"{peer['peer']}/link"])
        linked = [peer["peer"] for peer in stats["peers"] if peer["link"]]
        assert linked == [row["LINK"] for row in tables[1]]
        for row in tables[0]:
            in_columns = {key: row[key.upper().replace("_", "-")] for key in STATS}
            lies_between(before[row["PEER"]], in_columns, after[row["PEER"]])
        assert tables[2][0]["HOST"] == stats["host"]
    assert shown(rp, "stats")["counters"]["forwarded"] > 0


def test_a_watch_shows_counters_again_and_again(fabric, ntbctl):
    lines = ntbctl(fabric.rp, "--json stats --watch 0.1 --count 3").out.splitlines()
    assert [len(json.loads(line)["peers"]) for line in lines] == [2, 2, 2]
    first, second = table(ntbctl(fabric.rp, "stats --watch 0.1 --count 2").out)
    assert "TX-FRAMES" in first[0] and "TX-FRAMES/S" in second[0]


def test_a_peer_tells_of_itself_what_it_says_at_home(fabric, ntbctl, shown):
    """IDT-PEER-3"""
    rp, first, second = fabric.hosts
    for asking, asked in ((rp, first), (first, rp), (first, second)):
        before = sums(asked)
        stats = shown(asking, f"stats --remote {name(asked)}")
        [[row]] = table(ntbctl(asking, f"stats --remote {name(asked)}").out)
        after = sums(asked)
        assert stats.pop("peer") == row.pop("HOST") == name(asked)
        lies_between(before, stats, after)
        lies_between(stats, {key: row[key.upper().replace("_", "-")] for key in STATS}, after)


def test_a_ping_is_answered(fabric, ntbctl, shown):
    """IDT-PEER-3"""
    rp, first, second = fabric.hosts
    for asking, asked in ((rp, first), (first, rp), (first, second)):
        seen = shown(asking, f"ping {name(asked)} -c 3 -i 0.01")
        assert (seen["peer"], seen["asked"], seen["answered"]) == (name(asked), 3, 3)
        assert 0 < seen["min_ns"] <= seen["mean_ns"] <= seen["max_ns"] < 1_000_000_000
        assert sorted(seen["round_trip_ns"])[0] == seen["min_ns"]
    lines = ntbctl(first, "ping rp -c 2 -i 0.01").out.splitlines()
    assert [line.split(" after ")[0] for line in lines[:2]] == [
        "00000000: answer 1",
        "00000000: answer 2",
    ]
    assert lines[2].startswith("2 asked, 2 answered; least ")


def test_pings_that_cannot_be_answered_fail_cleanly(fabric, ntbctl):
    """IDT-PEER-3"""
    rp, first, second = fabric.hosts
    for words, why in (
        ("ping 708", "ntbctl: ping 00000708: there is no such peer"),
        ("ping rp", "that is this host itself"),
        ("stats --remote 708", "`ntbctl peers` lists those that are there"),
    ):
        refused = ntbctl(rp, words, check=False)
        assert refused.rc == 2 and why in refused.err, refused
    second.freeze()
    try:
        start = time.monotonic()
        direct = ntbctl(rp, f"ping {name_of_frozen(second)} -c 1 -W 0.3", check=False)
        assert time.monotonic() - start < 15
    finally:
        second.thaw()
    assert direct.rc == 1 and "no answer 1 in 0.3 s" in direct.out, direct
    wait_for_everyone(*fabric.hosts)


def name_of_frozen(guest):
    """The name of a host that cannot be asked for it."""
    return f"{guest.port << 8:08x}"


def test_the_topology_is_a_star(fabric, ntbctl, shown):
    rp, first, second = fabric.hosts
    seen = shown(rp, "topology")
    assert (seen["host"], seen["role"]) == (name(rp), "root processor")
    peers = sorted(bridge["peers"] for bridge in seen["bridges"])
    assert peers == sorted([[name(first)], [name(second)]])
    assert seen["forwarded"] == []
    seen = shown(first, "topology")
    assert (seen["host"], seen["role"]) == (name(first), "endpoint")
    assert seen["bridges"] == [{"bridge": 0, "peers": [name(rp)], "type": "ntb"}]
    assert seen["forwarded"] == [{"hop": name(rp), "peers": [name(second)]}]
    assert ntbctl(first, "topology").out.splitlines() == [
        f"{name(first)}  this host, endpoint",
        "  ntb bridge 0",
        f"    {name(rp)}  connected",
        f"      {name(second)}  connected",
    ]


def test_without_privilege_one_may_look_and_not_send(fabric, ntbctl):
    guest = fabric.rp
    guest.run(f"install -m 755 {ntbctl.program} /tmp/ntbctl")
    nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups /tmp/ntbctl"
    for words in ("peers", "links", "stats", "topology"):
        assert name(fabric.hosts[1]) in guest.run(f"{nobody} {words}").out
    for words in ("ping", "stats --remote"):
        refused = guest.run(f"{nobody} {words} {name(fabric.hosts[1])}", check=False)
        assert refused.rc == 2 and "CAP_NET_ADMIN" in refused.err, refused


def test_a_monitor_sees_a_peer_leave_and_return(fabric, ntbctl):
    """IDT-PEER-12, IDT-PEER-13"""
    rp, first, second = fabric.hosts
    gone = name(second)
    watched = [
        (guest, guest.spawn(f"{ntbctl.program} --json monitor", timeout=60)) for guest in (rp, first)
    ]
    as_text = rp.spawn(f"{ntbctl.program} monitor", timeout=60)
    for guest, monitor in watched:
        monitor.wait_for_output(f'"id":"{gone}"')
    as_text.wait_for_output(f"{gone} present, index 2, ntb, direct\n")
    stack.unload(second)
    as_text.wait_for_output(f"{gone} left, index 2, ntb, direct\n")
    wait_for_peers(first, 1)
    stack.bring_up(second)
    as_text.wait_for_output(f"{gone} arrived, index 2, ntb, direct\n")
    wait_for_everyone(*fabric.hosts)
    for guest, monitor in watched:
        monitor.wait_for_output('"arrived"')
        events = [json.loads(line) for line in monitor.output.splitlines()]
        seen = [event["event"] for event in events if event["id"] == gone]
        assert seen == ["present", "left", "arrived"]
        route = "direct" if guest is rp else f"via {name(rp)}"
        assert {event["route"] for event in events if event["id"] == gone} == {route}
        monitor.kill()
    as_text.kill()


@pytest.fixture
def tracing(fabric):
    for guest in fabric.hosts:
        trace(guest, "echo > trace && echo 1 > events/mp/enable")
    yield
    for guest in fabric.hosts:
        trace(guest, "echo 0 > events/mp/enable")


def frames(guest, event):
    return [fields for fields in events(guest, event) if fields["func"] == FUNC]


@pytest.mark.parametrize("priority", (0, 1))
def test_tracepoints_tell_of_frames_at_both_ends(fabric, tracing, priority):
    rp, first, second = fabric.hosts
    with Receivers(second):
        assert send(first, peer_id(second), count=10, size=1234, priority=priority)["sent_ok"] == 10
        wait_until_received(second, 10)
    expected = {
        "src": name(first),
        "dst": name(second),
        "func": FUNC,
        "len": "1234",
        "queue": "0",
        "priority": str(priority),
    }
    assert frames(first, "mp_frame_send") == [expected] * 10
    assert frames(second, "mp_frame_receive") == [expected] * 10
    assert frames(rp, "mp_frame_send") == frames(rp, "mp_frame_receive") == []


def test_tracepoints_tell_of_full_rings(fabric, tracing):
    rp, first, _ = fabric.hosts
    order = f"dst={peer_id(first)} count=2000 size=8000"
    with Receivers(first):
        first.freeze()
        try:
            stack.load(rp, modules=TEST, parameters={"mp_func_test": order})
            trace(rp, "until grep -q mp_ring_full: trace; do sleep 0.02; done")
        finally:
            first.thaw()
        assert wait_until_received(first, 2000, timeout=30)["received"] == 2000
        stack.unload(rp, modules=TEST)
    met = frames(rp, "mp_ring_full")
    assert {(e["src"], e["dst"], e["len"]) for e in met} == {(name(rp), name(first), "8000")}


def test_tracepoints_tell_of_links(fabric, tracing, shown):
    rp, _, second = fabric.hosts
    [bridge] = [link["bridge"] for link in shown(rp, "links") if link["peer"] == name(second)]
    stack.unload(second)
    wait_for_peers(rp, 1)
    stack.bring_up(second)
    wait_for_everyone(*fabric.hosts)
    seen = [e for e in events(rp, "mp_link_state") if e["bridge"] == str(bridge)]
    assert [(e["port"], e["up"]) for e in seen] == [("0", "0"), ("0", "1")]
    # Its farewell and the news that its bridge is down may overtake each other.
    assert seen[0]["reason"] in ("peer_left", "ntb_link")
    assert seen[1]["reason"] == "up"


def test_without_the_modules_it_says_so(fabric, ntbctl):
    """Nothing that a program has done keeps the modules from being unloaded."""
    rp = fabric.rp
    stack.unload(rp)
    refused = ntbctl(rp, "peers", check=False)
    assert refused.rc == 2 and "mp_transport is not loaded" in refused.err, refused
    stack.bring_up(rp)
    wait_for_everyone(*fabric.hosts)
