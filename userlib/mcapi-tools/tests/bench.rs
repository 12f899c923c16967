// SPDX-License-Identifier: MIT OR Apache-2.0

//! What `mcapi_bench` measures between nodes on two hosts.

use clap::Parser;
use mcapi::{Fabric, Topology};
use mcapi_tools::{bench::Options, failure::Outcome, Tool};
use mp_testing::{Host, World};
use serde_json::Value;
use std::thread;

fn run(world: &World, host: Host, words: &[&str], out: &mut Vec<u8>) -> Outcome {
    let options = Options::parse_from(["mcapi_bench"].iter().chain(words));
    let fabric = Fabric::with_device(world.open(host));
    options.run(fabric, Topology::default(), out)
}

fn world() -> World {
    let world = World::new(1, 8 << 20);
    world.set_loopback(8 << 20);
    world
}

/// A line for each kind and size; the server ends when the client has.
#[test]
fn all_kinds_are_measured_by_size() {
    let world = world();
    thread::scope(|scope| {
        scope.spawn(|| {
            let words = ["server", "--node", "1", "--once"];
            run(&world, Host::B, &words, &mut Vec::new()).unwrap();
        });
        let words = ["client", "1", "1", "--rounds", "20", "--sizes", "0,8,65536"];
        let mut out = Vec::new();
        let words = [&words[..], &["--json"]].concat();
        run(&world, Host::A, &words, &mut out).unwrap();
        let lines = String::from_utf8(out).unwrap();
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let measured: Vec<_> = lines
            .iter()
            .map(|line| {
                (
                    line["kind"].as_str().unwrap(),
                    line["bytes"].as_u64().unwrap(),
                )
            })
            .collect();
        let sizes = |kind| [0, 8, 65536].map(|size| (kind, size));
        let expected = [sizes("messages"), sizes("packets")].concat();
        assert_eq!(measured, [expected, vec![("scalars", 8)]].concat());
        for (line, (_, bytes)) in lines.iter().zip(measured) {
            let [min, median, p99] =
                ["min", "median", "p99"].map(|name| line[name].as_f64().unwrap());
            assert!(0.0 < min && min <= median && median <= p99);
            assert_eq!(line["mb_s"].as_f64().unwrap() > 0.0, bytes > 0);
        }
    });
}

/// What a tool prints with servers on both hosts, of which each serves once.
fn told(words: &[&str]) -> Value {
    let world = world();
    thread::scope(|scope| {
        for (host, node) in [(Host::A, "2"), (Host::B, "3"), (Host::B, "4")] {
            let (world, words) = (&world, ["server", "--node", node, "--once"]);
            scope.spawn(move || run(world, host, &words, &mut Vec::new()).unwrap());
        }
        let mut out = Vec::new();
        let words = [words, &["0:2", "1:3", "1:4", "--node", "1", "--json"]].concat();
        run(&world, Host::A, &words, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    })
}

/// All that several servers send arrives, of each kind.
#[test]
fn many_send_to_one() {
    for (kind, bytes) in [("messages", 100), ("packets", 100), ("scalars", 8)] {
        let words = ["many", "--kind", kind, "--size", "100", "--rounds", "50"];
        let told = told(&words);
        assert_eq!((&told["kind"], &told["sources"]), (&kind.into(), &3.into()));
        assert_eq!(
            (&told["bytes"], &told["rounds"]),
            (&bytes.into(), &50.into())
        );
        assert!(told["items_s"].as_f64().unwrap() > 0.0 && told["mb_s"].as_f64().unwrap() > 0.0);
    }
}

/// Packets come back through all stages, alone and one behind the other.
#[test]
fn packets_pass_all_stages_of_a_pipeline() {
    let told = told(&["pipeline", "--size", "5000", "--rounds", "50"]);
    assert_eq!((&told["stages"], &told["bytes"]), (&3.into(), &5000.into()));
    let [min, median, p99] = ["min", "median", "p99"].map(|name| told[name].as_f64().unwrap());
    assert!(0.0 < min && min <= median && median <= p99);
    assert!(told["mb_s"].as_f64().unwrap() > 0.0);
}
