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
