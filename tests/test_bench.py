# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark makes of its samples. The samples themselves need guests."""

import json
import re
from types import SimpleNamespace

import pytest
from ntbrig import CommandFailed, bench, bench_plot, bench_pximc, bench_sisci
from ntbrig.bench_metrics import Sample, half_round_trip
from ntbrig.bench_pximc import NAME, PingPong
from ntbrig.settings import RigError

TUNED = "ntb_netdev (transport_mtu=2048)"


def of(*values, **notes):
    """A sample for each round; None where none could be taken."""
    return [value if value is None else Sample(value, notes) for value in values]


@pytest.fixture
def samples():
    """Two rounds of everything that PXImc is compared with."""
    return {
        ("", NAME, "pximc_window_write"): of(900.0, 1000.0, worst=300.0),
        ("", NAME, "pximc_window_latency"): of(0.5, 0.5),
        ("", NAME, "pximc_event_latency"): of(40.0, 60.0),
        ("", NAME, "pximc_pairing_rate"): of(300.0, 500.0),
        ("", NAME, "doorbell"): of(30.0, 40.0),
        ("", NAME, "context_switch"): of(5.0, 8.0),
        ("", NAME, "tcp_connect"): of(600.0, 500.0),
        ("", "ntb0", "tcp_rr"): of(5000.0, 5000.0),
        ("", "ports", "ports_message_latency"): of(50.0, 60.0),
        ("", "ports", "ports_messages_64b"): of(2e4, 3e4),
        ("", "ports", "tcp_one_way"): of(100.0, 100.0),
        ("", "ports", "tcp_messages_64b"): of(2e5, 2e5),
        ("", "ports", "mainline_one_way"): of(200.0, 200.0),
        ("", "ports", "mainline_messages_64b"): of(1e5, 1e5),
        ("", TUNED, "tcp_rr"): of(2500.0, 2500.0),
        ("", "sisci", "sisci_window_write"): of(940.0, 950.0),
        ("", "sisci", "sisci_store_latency"): of(0.55, 0.54),
        ("", "sisci", "sisci_interrupt"): of(60.0, 70.0),
        ("", "sisci", "sisci_dma"): of(900.0, 890.0),
        ("", "sisci", "sisci_dma_single"): of(400.0, 410.0),
        ("", "sisci", "raw_window_latency"): of(0.5, 0.5),
        ("", "sisci", "raw_event_latency"): of(50.0, 50.0),
        ("", "sisci", "raw_engine"): of(1000.0, 1000.0),
        ("", "vi", "vi_send_latency"): of(0.6, 0.8),
        ("", "vi", "vi_send_bandwidth"): of(900.0, 950.0),
        ("", "vi", "vi_rdma_write_latency"): of(0.575, 0.575),
        ("", "vi", "vi_rdma_write_bandwidth"): of(890.0, 890.0),
        ("", "vi", "qp_latency"): of(0.5, 0.5),
        ("", "vi", "qp_bandwidth"): of(950.0, 950.0),
        ("", "vi", "qp_write_latency"): of(1.0, 2.0),
        ("", "vi", "qp_write_bandwidth"): of(400.0, 500.0),
        ("", "vi", "qp_messages_8b"): of(4e6, 4e6),
        ("", "vi", "qp_blocking_latency"): of(25.0, 25.0),
        ("", "vi", "vi_messages_8b"): of(2e6, 3e6),
        ("", "vi", "vi_blocking_latency"): of(60.0, 70.0),
        ("", "vi", "raw_message_latency"): of(0.5, 0.6),
        ("", "vi", "raw_store_latency"): of(0.6, 0.5),
        ("", "vi", "raw_message_bandwidth"): of(1000.0, 1000.0),
        ("", "vi", "raw_messages_8b"): of(4e6, 4e6),
        ("", "vi", "raw_signal_latency"): of(50.0, 50.0),
        ("", "vi", "tcp_one_way"): of(100.0, 100.0),
        ("", "vi", "tcp_bytes"): of(300.0, 300.0),
        ("", "vi", "tcp_messages_8b"): of(2e5, 2e5),
        ("", "vi", "vi_star_latency"): of(400.0, 600.0),
        ("", "vi", "vi_star_bandwidth"): of(30.0, 30.0),
        ("", "vi", "tcp_star_one_way"): of(500.0, 500.0),
        ("", "vi", "tcp_star_bytes"): of(60.0, 60.0),
        ("", "mcapi", "mcapi_scalar_latency"): of(0.9, 1.1),
        ("", "mcapi", "mcapi_packet_latency"): of(1.5, 1.5),
        ("", "mcapi", "mcapi_message_latency"): of(1.5, 1.5),
        ("", "mcapi", "mcapi_packet_bandwidth"): of(850.0, 860.0),
        ("", "mcapi", "mcapi_message_bandwidth"): of(400.0, 400.0),
        ("", "mcapi", "mcapi_local_latency"): of(0.6, 0.6),
        ("", "mcapi", "mcapi_local_blocking_latency"): of(90.0, 110.0),
        ("", "mcapi", "cache_line_latency"): of(0.3, 0.3),
        ("", "mcapi", "pipes_latency"): of(50.0, 50.0),
        ("", "mcapi", "mcapi_system_calls"): of(20, 200),
        ("", "mcapi", "moved_packets"): of(100, 100),
        ("", "mcapi", "raw_word_latency"): of(0.5, 0.5),
        ("", "mcapi", "raw_line_latency"): of(0.6, 0.6),
        ("", "mcapi", "raw_stream_bandwidth"): of(1000.0, 1000.0),
        ("", "default", "window_write_1mib"): of(500.0, 500.0),
        ("", "tuned", "window_write_1mib"): of(1000.0, 1000.0),
    }


def results(samples):
    return {found["name"]: found for found in bench.compare(samples)}


# --- ports


def test_messages_stand_beside_tcp_of_both(samples):
    found = {name: of for name, of in results(samples).items() if name.startswith("ports_")}
    assert found["ports_message_latency_vs_ntb0"]["ratio"] == pytest.approx(0.55)
    assert found["ports_message_latency_vs_mainline"]["ratio"] == pytest.approx(0.275)
    assert found["ports_messages_64b_vs_ntb0"]["ratio"] == pytest.approx(0.125)
    assert found["ports_messages_64b_vs_mainline"]["ratio"] == pytest.approx(0.25)
    assert not any("target" in of for of in found.values())


# --- PXImc


def test_an_event_may_cost_its_doorbell_and_a_context_switch(samples):
    found = results(samples)["pximc_event_latency_vs_allowed"]
    # 40 of 1.3 * 30 + 5, and 60 of 1.3 * 40 + 8.
    assert found["ratio_range"] == pytest.approx([40 / 44, 1.0])
    assert (found["target"], found["met"]) == (1.0, True)
    assert found["baseline_doorbell"] == 35.0
    assert found["baseline_context_switch"] == 6.5


def test_an_event_that_takes_longer_misses_the_target(samples):
    samples["", NAME, "pximc_event_latency"] = of(50.0, 70.0)
    found = results(samples)
    assert not found["pximc_event_latency_vs_allowed"]["met"]
    # What it is worth against the bare doorbell is no target.
    assert "met" not in found["pximc_event_latency_vs_doorbell"]


def test_one_way_is_compared_with_one_way(samples):
    found = results(samples)
    # A request and its response over TCP take 200 and 400 us.
    assert found["pximc_event_latency_vs_ntb0"]["baseline"] == 100.0
    assert found["pximc_event_latency_vs_ntb_netdev"]["baseline"] == 200.0
    assert found["pximc_event_latency_vs_ntb_netdev"]["ratio"] == 0.25
    assert found["pximc_window_latency_vs_ntb0"]["ratio"] == 0.005


def test_stores_of_processes_are_compared_with_both_settings_of_ntb_perf(samples):
    found = results(samples)
    tuned = found["pximc_window_write_vs_tuned"]
    assert (tuned["ratio"], tuned["target"], tuned["met"]) == (0.95, 0.95, True)
    assert tuned["baseline_name"] == "ntb_perf (chunk_order=20)"
    assert tuned["worst"] == 300.0
    assert found["pximc_window_write_vs_default"]["ratio"] == 1.9


def test_sessions_are_compared_with_connections(samples):
    assert results(samples)["pximc_pairing_rate_vs_tcp"]["ratio"] == 0.75


def test_a_round_without_its_baseline_does_not_count(samples):
    samples["", NAME, "doorbell"] = of(None, 40.0)
    found = results(samples)["pximc_event_latency_vs_allowed"]
    assert (found["rounds"], found["ratio"]) == (1, 1.0)
    samples["", NAME, "context_switch"] = of(5.0, None)
    found = results(samples)["pximc_event_latency_vs_allowed"]
    assert (found["rounds"], found["ratio"], found["met"]) == (0, None, False)


def test_the_plot_has_a_row_for_each_comparison(samples):
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", bench_plot.draw(list(bench.compare(samples))))
    for label in (
        "pximc_window_write",
        "event latency vs allowed",
        "window latency vs ntb0",
        "pairing rate vs tcp",
    ):
        assert texts.count(label) == 1, label
    assert "window write vs tuned" not in texts


# --- SISCI


@pytest.mark.parametrize(
    "name,ratio,target,met",
    [
        ("sisci_window_write_vs_tuned", 0.945, 0.95, False),
        ("sisci_store_latency_vs_window", 1.09, 1.1, True),
        ("sisci_interrupt_vs_event", 1.3, 1.3, True),
        ("sisci_dma_vs_engine", 0.895, 0.9, False),
    ],
)
def test_sisci_is_compared_with_what_is_below(samples, name, ratio, target, met):
    found = results(samples)[name]
    assert found["ratio"] == pytest.approx(ratio)
    assert (found["target"], found["met"]) == (target, met)


@pytest.mark.parametrize(
    "name, ratio, target, met",
    [
        # Of each round the faster of the two: 0.5 and 0.5.
        ("vi_send_latency_vs_window", 1.4, 1.5, True),
        ("vi_send_bandwidth_vs_window", 0.925, 0.9, True),
        ("vi_rdma_write_latency_vs_window", 1.15, 1.15, True),
        ("vi_rdma_write_bandwidth_vs_window", 0.89, 0.9, False),
        ("qp_latency_vs_window", 1.0, None, None),
        ("qp_bandwidth_vs_window", 0.95, None, None),
        ("qp_write_latency_vs_window", 3.0, None, None),
        ("qp_write_bandwidth_vs_window", 0.45, None, None),
        ("qp_messages_8b_vs_window", 1.0, None, None),
        ("qp_blocking_latency_vs_event", 0.5, 1.3, True),
        ("vi_blocking_latency_vs_event", 1.3, 1.3, True),
        ("vi_messages_8b_vs_window", 0.625, None, None),
        ("vi_send_latency_vs_ntb0", 0.007, None, None),
        ("vi_rdma_write_latency_vs_ntb0", 0.00575, None, None),
        ("vi_blocking_latency_vs_ntb0", 0.65, None, None),
        ("vi_send_bandwidth_vs_ntb0", 925 / 300, None, None),
        ("vi_rdma_write_bandwidth_vs_ntb0", 890 / 300, None, None),
        ("vi_messages_8b_vs_ntb0", 12.5, None, None),
        ("vi_star_latency_vs_ntb0", 1.0, None, None),
        ("vi_star_bandwidth_vs_ntb0", 0.5, None, None),
    ],
)
def test_messages_are_compared_with_windows_and_with_tcp(samples, name, ratio, target, met):
    found = results(samples)[name]
    assert found["ratio"] == pytest.approx(ratio)
    assert (found.get("target"), found.get("met")) == (target, met)


@pytest.mark.parametrize(
    "name, ratio, target, met",
    [
        ("mcapi_scalar_latency_vs_window", 2.0, 2.0, True),
        ("mcapi_packet_latency_vs_window", 2.5, 2.0, False),
        ("mcapi_message_latency_vs_window", 2.5, 2.5, True),
        ("mcapi_packet_bandwidth_vs_window", 0.855, 0.85, True),
        ("mcapi_message_bandwidth_vs_window", 0.4, None, None),
        ("mcapi_system_calls_vs_packets", 1.1, 1.0, False),
        ("mcapi_local_latency_vs_line", 2.0, 2.0, True),
        ("mcapi_local_blocking_latency_vs_pipes", 2.0, 1.0, False),
    ],
)
def test_what_nodes_send_is_compared_with_windows(samples, name, ratio, target, met):
    found = results(samples)[name]
    assert found["ratio"] == pytest.approx(ratio)
    assert (found.get("target"), found.get("met")) == (target, met)


def test_a_count_of_none_is_drawn(samples):
    samples["", "mcapi", "mcapi_system_calls"] = of(0, 0)
    found = results(samples)["mcapi_system_calls_vs_packets"]
    assert (found["ratio"], found["met"]) == (0, True)
    assert "system calls" in bench_plot.draw([found])
    samples["", "mcapi", "mcapi_system_calls"] = of(0, 30, 30)
    samples["", "mcapi", "moved_packets"] = of(100, 100, 100)
    assert not re.search('="(inf|nan)', bench_plot.draw([*bench.compare(samples)]))


def test_messages_have_no_ratio_where_one_of_the_windows_could_not_be_measured(samples):
    samples["", "vi", "raw_store_latency"] = of(None, None)
    assert results(samples)["vi_send_latency_vs_window"]["ratio"] is None


def test_latencies_of_sisci_that_are_too_long_miss_their_targets(samples):
    samples["", "sisci", "sisci_store_latency"] = of(0.6, 0.6)
    samples["", "sisci", "sisci_interrupt"] = of(70.0, 70.0)
    found = results(samples)
    assert not found["sisci_store_latency_vs_window"]["met"]
    assert not found["sisci_interrupt_vs_event"]["met"]


def test_the_plot_has_a_panel_for_sisci(samples):
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", bench_plot.draw(list(bench.compare(samples))))
    for label in ("sisci_window_write", "store latency vs window", "dma vs engine"):
        assert texts.count(label) == 1, label
    assert "processes by SISCI against what stands behind vs" in texts


def test_the_engines_rate_is_that_of_all_its_copies():
    # 100 copies of a megabyte in a tenth of a second.
    assert bench_sisci.engine_rate(["0", "100", "100000000"], 1e6, 100) == 1000.0


@pytest.mark.parametrize("told", [["-19", "0", "5"], ["0", "99", "100"], ["-5", "100", "100"]])
def test_copies_that_were_not_made_are_no_measurement(told):
    with pytest.raises(CommandFailed, match="mp_dma_start"):
        bench_sisci.engine_rate(told, 1e6, 100)


def test_each_result_belongs_to_a_part(samples):
    parts = {}
    for name in results(samples):
        parts.setdefault(bench.part_of(name), set()).add(name.split("_vs_")[0])
    assert set(parts) == set(bench.PARTS)
    assert parts["writes"] == {"window_write_1mib"}
    assert "tcp_rr" in parts["ethernet"]
    assert "pximc_window_write" in parts["pximc"]
    assert parts["sisci"] == {
        "sisci_window_write", "sisci_store_latency", "sisci_interrupt", "sisci_dma",
        "sisci_dma_single",
    }  # fmt: skip


@pytest.mark.parametrize(
    "only,expected",
    [
        (("sisci",), ["window writes", "SISCI", "SISCI with an engine"]),
        (("pximc",), ["window writes", "PXImc", "doorbells"]),
        (("ports",), ["ports", "TCP over mainline's Ethernet"]),
        (("writes",), ["window writes", "window writes"]),
    ],
)
def test_a_part_is_measured_with_what_it_is_compared_with(only, expected):
    bench_ = bench.Bench(fabric=None, program=None, seconds=1, only=only)
    order = []
    bench_.attempt = lambda what, action: order.append(what.split(",")[0])
    bench_.round(0)
    assert order == expected


def test_a_part_that_is_not_known_is_refused():
    with pytest.raises(RigError, match="not network"):
        bench.run(1, 1, ["sisci", "network"])


# --- both


def test_both_orders_of_turns_give_the_same_metrics():
    taken = {
        bench.Bench._processes: {"pximc_event_latency": Sample(1.0, {})},
        bench.Bench._doorbells: {"doorbell": Sample(2.0, {})},
    }
    bench_ = bench.Bench(fabric=None, program=None, seconds=1)
    order = []

    def attempt(what, action):
        order.append(what.split(",")[0])
        return taken[action.__func__]

    bench_.attempt = attempt
    for number in range(2):
        parts = [("PXImc", bench_._processes), ("doorbells", bench_._doorbells)]
        bench_._parts(parts, NAME, bench_pximc.MEASURED, number)
    assert order == ["PXImc", "doorbells", "doorbells", "PXImc"]
    assert bench_.samples["", NAME, "pximc_event_latency"] == of(1.0, 1.0)
    assert bench_.samples["", NAME, "doorbell"] == of(2.0, 2.0)
    assert bench_.samples["", NAME, "pximc_pairing_rate"] == [None, None]


# --- what programs and files tell


def test_each_doorbell_that_was_counted_is_a_round_trip():
    # 20,000 round trips in two seconds.
    assert half_round_trip("1000\n100.5\n21000\n102.5\n") == pytest.approx(50.0)


def test_a_game_that_stands_still_is_no_measurement():
    with pytest.raises(CommandFailed, match="stands still"):
        half_round_trip("7\n100.0\n7\n103.0\n")


class Guest:
    """Takes down what it is to run."""

    def __init__(self, answer):
        self.commands = []
        self.events = []
        self._answer = answer

    def spawn(self, argv, timeout):
        self.commands.append(list(map(str, argv)))
        note = lambda what: lambda: self.events.append(what)
        return SimpleNamespace(kill=note("killed"), wait=note("waited"))

    def run(self, argv, timeout):
        self.commands.append(list(map(str, argv)))
        if self._answer is None:
            raise CommandFailed("no")
        return SimpleNamespace(out=json.dumps(self._answer))


def test_the_client_is_asked_for_one_kind_and_the_server_is_ended():
    client, server = Guest({"pairings_s": 8.0}), Guest(None)
    out = PingPong((client, server), 3).measure("pairing", "--pairings", 600)
    assert out == {"pairings_s": 8.0}
    (words,) = client.commands
    assert words[1:7] == ["client", "--json", "--only", "pairing", "--pairings", "600"]
    # Both sides of a session ask for the same size.
    assert words[-2:] == server.commands[0][-2:] == ["--size", str(bench_pximc._WINDOW)]
    assert server.events == ["killed", "waited"]


def test_the_server_is_ended_when_the_client_fails():
    server = Guest(None)
    with pytest.raises(CommandFailed):
        PingPong((Guest(None), server), 3).measure("events", "--rounds", 1)
    assert server.events == ["killed", "waited"]
