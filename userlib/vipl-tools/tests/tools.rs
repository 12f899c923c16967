// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tools, both sides in one process, on the stand-in for the device.

use mp_testing::{built::Scratch, FakeDevice, Host as Side, World};
use std::{fs, thread};
use vipl::{Fabric, Library, Names};
use vipl_tools::{copy, failure::Outcome, perf, Host, Tool};

fn host(world: &World, side: Side) -> Host<FakeDevice> {
    let world = world.clone();
    Host {
        library: Library::new(move || Ok(Fabric::with_device(world.open(side)))),
        names: Names::parse("0 a\n1 b\n").unwrap(),
    }
}

/// What a tool prints on a host.
fn run<T: Tool>(world: &World, side: Side, words: &[&str]) -> Outcome<String> {
    let tool = T::try_parse_from([&["tool"], words].concat()).unwrap();
    let mut out = Vec::new();
    tool.run(&host(world, side), &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn measured(both: &[&str], words: &[&str]) -> String {
    let world = World::new(1, 1 << 26);
    let words_of_server = [&["server", "--once"], both].concat();
    thread::scope(|scope| {
        let server =
            scope.spawn(|| run::<perf::Options>(&world, Side::B, &words_of_server).unwrap());
        let words = [&["client", "b", "--sizes", "8,5000"], both, words].concat();
        let told = run::<perf::Options>(&world, Side::A, &words).unwrap();
        server.join().unwrap();
        told
    })
}

/// Each kind with each operation and size, in each way to wait.
#[test]
fn everything_is_measured_in_every_way() {
    for both in [
        &[][..],
        &["--wait"],
        &["--cq"],
        &["--wait", "--cq", "--level", "reception"],
    ] {
        let told = measured(both, &["--rounds", "16", "--json"]);
        let lines: Vec<serde_json::Value> = told
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2 * 3 * 2 + 1, "{told}");
        for kind in ["latency", "bandwidth"] {
            for operation in ["send", "write", "read"] {
                for bytes in [8, 5000] {
                    let is = |line: &&serde_json::Value| {
                        line["kind"] == kind
                            && line["operation"] == operation
                            && line["bytes"] == bytes
                    };
                    let found: Vec<_> = lines.iter().filter(is).collect();
                    let [line] = found[..] else {
                        panic!("{kind} {operation} {bytes}: {told}");
                    };
                    let name = if kind == "latency" { "median" } else { "mb_s" };
                    assert!(line[name].as_f64().unwrap() > 0.0);
                }
            }
        }
        let connect = lines.last().unwrap();
        assert_eq!(connect["kind"], "connect");
        assert_eq!(connect["rounds"], 2);
        assert!(connect["per_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_table_has_a_line_for_each_result() {
    let words = [
        "--rounds",
        "20",
        "--only",
        "latency",
        "--operations",
        "write",
    ];
    let told = measured(&[], &words);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 3, "{told}");
    assert!(lines[0].starts_with("measured   with"));
    assert!(lines[1].contains("us, least") && lines[1].contains("write"));
}

/// Files of all lengths arrive as they are.
#[test]
fn a_copy_is_the_same_file() {
    let place = Scratch::new();
    for len in [0, 1, 32_767, 32_768, 3_000_000] {
        let bytes: Vec<u8> = (0..len).map(|n| (n / 251 + n % 256) as u8).collect();
        let (from, to) = (place.path("from"), place.path("to"));
        fs::write(&from, &bytes).unwrap();
        let world = World::new(1, 1 << 26);
        let told = format!("{len} bytes\n");
        let to_words = ["receive", to.to_str().unwrap()];
        thread::scope(|scope| {
            let receiver =
                scope.spawn(|| run::<copy::Options>(&world, Side::B, &to_words).unwrap());
            let words = ["send", "b", from.to_str().unwrap()];
            assert_eq!(run::<copy::Options>(&world, Side::A, &words).unwrap(), told);
            assert_eq!(receiver.join().unwrap(), told);
        });
        assert!(fs::read(&to).unwrap() == bytes, "{len}");
    }
}
