// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tools on a stand-in for the device: two hosts in one process, nodes 4 and 8.

use clap::{CommandFactory, Parser};
use mp_fabric::Fabric;
use mp_testing::{FakeDevice, Host, World};
use serde_json::Value;
use sisci::{Config, Library};
use sisci_tools::{
    dmabench, failure::Outcome, intr_bench, output::Output, rpc, sci_probe, sci_query, scibench,
    scipp, shmem, Tool,
};
use std::thread;

const CONFIG: &str = "node 4 peer 0\nnode 8 peer 1\nnode 12 peer 7\n";

fn library(world: &World, host: Host) -> Library<FakeDevice> {
    let world = world.clone();
    let open = move || Ok(Fabric::with_device(world.open(host)));
    Library::new(Config::parse(CONFIG).unwrap(), open)
}

/// What a tool prints on a host, and how it ends.
fn run<T: Tool>(world: &World, host: Host, words: &str) -> (Vec<Value>, Outcome) {
    let words = format!("tool --json {words}");
    let tool = T::try_parse_from(words.split_whitespace()).unwrap();
    let mut bytes = Vec::new();
    let end = tool.run(
        &library(world, host),
        &mut Output::new(tool.json(), &mut bytes),
    );
    let text = String::from_utf8(bytes).unwrap();
    let values = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (values.collect(), end)
}

/// What client and server print.
fn play<T: Tool>(words: &str) -> (Vec<Value>, Vec<Value>) {
    let world = World::new(1, 1 << 20);
    thread::scope(|scope| {
        let server = scope.spawn(|| run::<T>(&world, Host::B, &format!("server 4 {words}")));
        let (told, end) = run::<T>(&world, Host::A, &format!("client 8 {words}"));
        end.unwrap();
        let (answered, end) = server.join().unwrap();
        end.unwrap();
        (told, answered)
    })
}

fn names(lines: &[Value]) -> Vec<(&str, u64)> {
    let name = |line: &Value| line["bytes"].as_u64();
    lines
        .iter()
        .map(|line| (line["name"].as_str().unwrap(), name(line).unwrap()))
        .collect()
}

#[test]
fn messages_go_to_and_fro() {
    let (told, answered) = play::<scipp::Options>("--rounds 120 --sizes 4,8,1000");
    assert_eq!(names(&told), [("scipp", 4), ("scipp", 8), ("scipp", 1000)]);
    assert!(answered.is_empty());
    for line in told {
        assert_eq!(line["rounds"], 120);
        let time = |name: &str| line[name].as_f64().unwrap();
        assert!(0.0 < time("min") && time("min") <= time("median"));
        assert!(time("median") <= time("p99"));
    }
}

#[test]
fn interrupts_go_to_and_fro() {
    let (told, answered) = play::<intr_bench::Options>("--rounds 20");
    assert_eq!(names(&told), [("intr_bench", 0)]);
    assert!(answered.is_empty());
}

#[test]
fn copies_are_looked_at() {
    let (told, _) = play::<scibench::Options>("--rounds 2 --sizes 10,5000");
    let kinds = ["write", "barrier", "memcpy", "read"];
    let expected: Vec<_> = [10, 5000]
        .into_iter()
        .flat_map(|size| kinds.map(|kind| (kind, size)))
        .collect();
    assert_eq!(names(&told), expected);
    assert!(told.iter().all(|line| line["mb_s"].as_f64() > Some(0.0)));
}

#[test]
fn one_kind_of_copies_will_do() {
    let (told, _) = play::<scibench::Options>("--rounds 2 --sizes 64 --only read,write");
    assert_eq!(names(&told), [("write", 64), ("read", 64)]);
}

#[test]
fn copies_by_dma_are_looked_at() {
    let (told, _) = play::<dmabench::Options>("--rounds 2 --sizes 3,70000 --pieces 5");
    let kinds = ["dma", "vector", "series", "memory"];
    let expected: Vec<_> = [3, 70000]
        .into_iter()
        .flat_map(|size| kinds.map(|kind| (kind, size)))
        .collect();
    assert_eq!(names(&told), expected);
}

#[test]
fn calls_have_the_right_answers() {
    let (told, _) = play::<rpc::Options>("--rounds 10 --sizes 1,4088");
    assert_eq!(names(&told), [("rpc", 1), ("rpc", 4088)]);
}

#[test]
fn both_sides_hear_of_the_life_of_a_segment() {
    let (client, server) = play::<shmem::Options>("");
    let events = |lines: &[Value]| -> Vec<(String, u64)> {
        let event = |line: &Value| line["event"].as_str().unwrap().to_string();
        let node = |line: &Value| line["node"].as_u64().unwrap();
        lines.iter().map(|line| (event(line), node(line))).collect()
    };
    let expected = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
        let own = |(event, node): &(&str, u64)| (event.to_string(), *node);
        all.iter().map(own).collect()
    };
    assert_eq!(
        events(&server),
        expected(&[
            ("created", 0),
            ("prepared", 0),
            ("available", 0),
            ("connected", 4),
            ("greeted", 4),
            ("unavailable", 0),
            ("disconnected", 4),
            ("removed", 0),
        ])
    );
    assert_eq!(
        events(&client),
        expected(&[
            ("connected", 8),
            ("mapped", 0),
            ("written", 0),
            ("unavailable", 8),
            ("disconnected", 0),
        ])
    );
}

#[test]
fn a_probe_tells_why_a_node_does_not_answer() {
    let world = World::new(1, 1 << 20);
    let (told, end) = run::<sci_probe::Options>(&world, Host::A, "8 12 300");
    assert_eq!(end.unwrap_err().to_string(), "a node does not answer");
    assert_eq!(
        (&told[0]["node"], &told[0]["answers"]),
        (&8.into(), &true.into())
    );
    assert!(told[0]["us"].as_f64() > Some(0.0));
    assert_eq!(told[2]["error"], "illegal node id");
    assert_eq!((&told[1]["answers"], told.len()), (&false.into(), 3));
    assert!(run::<sci_probe::Options>(&world, Host::A, "8 4").1.is_ok());
}

#[test]
fn a_query_tells_of_the_adapter_and_of_nodes() {
    let world = World::new(1, 1 << 20);
    let (told, end) = run::<sci_query::Options>(&world, Host::B, "4 12");
    end.unwrap();
    let [told] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(told["vendor"], "pximc-ntb");
    for (name, value) in [("node", 8), ("configured", 1), ("links", 1), ("dma", 1)] {
        assert_eq!(told[name], value, "{name}");
    }
    assert_eq!(told["nodes"].to_string(), r#"{"12":false,"4":true}"#);
}

#[test]
fn an_adapter_that_is_not_there_is_an_error() {
    let world = World::new(1, 1 << 20);
    let (_, end) = run::<sci_query::Options>(&world, Host::A, "--adapter 3");
    assert_eq!(
        end.unwrap_err().to_string(),
        "SCIQuery: no such adapter (0x40000909); adapters have the numbers of the configuration, \
        see sisci.conf(5); `ntbctl links` lists the bridges"
    );
}

#[test]
fn a_node_that_does_not_come_is_waited_for_only_so_long() {
    let world = World::new(1, 1 << 20);
    let words = "client 8 --patience 50";
    for (function, number, end) in [
        (
            "SCIConnectSegment",
            4097,
            run::<scipp::Options>(&world, Host::A, words).1,
        ),
        (
            "SCIConnectInterrupt",
            4097,
            run::<intr_bench::Options>(&world, Host::A, words).1,
        ),
        (
            "SCIConnectDataInterrupt",
            4097,
            run::<rpc::Options>(&world, Host::A, words).1,
        ),
    ] {
        let expected = format!(
            "{function}: no such segment or interrupt (0x4000090C): number {number} of node 8, \
            at adapter 0; is the other side running there?"
        );
        assert_eq!(end.unwrap_err().to_string(), expected);
    }
    for (node, help) in [
        (12, "`ntbctl peers` lists the hosts that are reached"),
        (16, "no line of the configuration has that node"),
    ] {
        let words = format!("client {node} --patience 50");
        let told = run::<scipp::Options>(&world, Host::A, &words)
            .1
            .unwrap_err()
            .to_string();
        assert!(
            told.contains(&format!(" of node {node}, at adapter 0; {help}")),
            "{told}"
        );
    }
    let (_, end) = run::<shmem::Options>(&world, Host::B, "server 4 --patience 50");
    assert_eq!(
        end.unwrap_err().to_string(),
        "the other node has fallen silent"
    );
}

#[test]
fn a_client_with_larger_sizes_than_the_server_is_refused() {
    let world = World::new(1, 1 << 20);
    thread::scope(|scope| {
        let words = "server 4 --sizes 64 --patience 500";
        let server = scope.spawn(|| run::<scibench::Options>(&world, Host::B, words).1);
        let (_, end) = run::<scibench::Options>(&world, Host::A, "client 8 --sizes 65");
        let expected = "SCIMapRemoteSegment: outside of the legal range (0x4000090B)";
        assert_eq!(end.unwrap_err().to_string(), expected);
        let expected = "SCIWaitForDataInterrupt: timed out (0x4000090A)";
        assert_eq!(server.join().unwrap().unwrap_err().to_string(), expected);
    });
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    for words in [
        "tool client 8 --sizes 6",
        "tool client 8 --sizes 0",
        "tool client 8 --sizes 4,x",
        "tool client 8 --rounds 0",
        "tool guest 8",
        "tool client",
    ] {
        let words = words.split_whitespace();
        assert!(
            scipp::Options::try_parse_from(words.clone()).is_err(),
            "{words:?}"
        );
    }
    let pieces = "tool client 8 --pieces 257".split_whitespace();
    assert!(dmabench::Options::try_parse_from(pieces).is_err());
}

/// Whatever can be said on the command line is explained.
#[test]
fn manual_pages_name_every_option() {
    fn check<T: CommandFactory>(page: &str) {
        let (command, page) = (T::command(), page.replace('\\', ""));
        command.clone().debug_assert();
        assert!(page.contains(&format!(".SH NAME\n{} - ", command.get_name())));
        for argument in command.get_arguments() {
            let name = match argument.get_long() {
                Some(long) => format!("--{long}"),
                None => argument
                    .get_id()
                    .as_str()
                    .trim_end_matches('s')
                    .to_uppercase(),
            };
            let known = page.contains(&name) || page.contains(&name.to_lowercase());
            assert!(name == "ROLE" || known, "{} {name}", command.get_name());
            let values = argument.get_possible_values();
            for value in values
                .iter()
                .filter(|_| argument.get_action().takes_values())
            {
                assert!(
                    page.contains(value.get_name()),
                    "{} {name}",
                    value.get_name()
                );
            }
        }
    }
    check::<dmabench::Options>(include_str!("../man/sci_dmabench.1"));
    check::<intr_bench::Options>(include_str!("../man/sci_intr_bench.1"));
    check::<rpc::Options>(include_str!("../man/sci_rpc.1"));
    check::<sci_probe::Options>(include_str!("../man/sci_probe.1"));
    check::<sci_query::Options>(include_str!("../man/sci_query.1"));
    check::<scibench::Options>(include_str!("../man/scibench.1"));
    check::<scipp::Options>(include_str!("../man/scipp.1"));
    check::<shmem::Options>(include_str!("../man/sci_shmem.1"));
}
