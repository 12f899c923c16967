// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tools, both sides in one process, on the stand-in for the device.

use mp_testing::{built::Scratch, FakeDevice, Host as Side, World};
use std::{
    fs, io, thread,
    time::{Duration, Instant},
};
use vipl::{Fabric, Library, Names};
use vipl_tools::{
    copy,
    failure::{Failure, Outcome},
    perf, Host, Tool,
};

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

/// A side that pauses tells for how long, and the other one does not count it.
#[test]
fn pauses_are_made_and_do_not_count() {
    const PAUSE: Duration = Duration::from_millis(8);
    let both = ["--wait", "--pause", "8000"];
    let words = [
        "--only",
        "latency",
        "--operations",
        "send,write",
        "--rounds",
        "5",
        "--json",
    ];
    let start = Instant::now();
    let told = measured(&both, &words);
    // Two operations of two sizes, each with the rounds before it is measured.
    assert!(start.elapsed() >= 2 * PAUSE * 4 * 5);
    assert_eq!(told.lines().count(), 4, "{told}");
    for line in told.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let median = line["median"].as_f64().unwrap();
        assert!(
            median > 0.0 && median < PAUSE.as_micros() as f64 / 2.0,
            "{told}"
        );
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

/// The plot is XML, with a chart for each kind, and in it each operation with all sizes.
#[test]
fn a_plot_has_each_series() {
    const SVG: &str = "http://www.w3.org/2000/svg";
    let place = Scratch::new();
    let path = place.path("perf.svg");
    let words = ["--rounds", "16", "--plot", path.to_str().unwrap()];
    let told = measured(&[], &words);
    assert_eq!(told.lines().count(), 1 + 2 * 3 * (3 + 1) + 1, "{told}");
    let text = fs::read_to_string(&path).unwrap();
    let document = roxmltree::Document::parse(&text).unwrap();
    assert!(document.root_element().has_tag_name((SVG, "svg")));
    let named = |name: &'static str| {
        let nodes = document.descendants();
        nodes.filter(move |node| node.has_tag_name((SVG, name)))
    };
    let texts: Vec<&str> = named("text")
        .filter_map(|n| n.text())
        .map(str::trim)
        .collect();
    for (word, times) in [
        ("Latency, median", 1),
        ("Bandwidth", 1),
        ("us", 1),
        ("MB/s", 1),
        ("bytes", 2),
        ("send", 2),
        ("write", 2),
        ("read", 2),
    ] {
        let found = texts.iter().filter(|text| **text == word).count();
        assert_eq!(found, times, "{word}: {texts:?}");
    }
    let colours = ["#0072B2", "#D55E00", "#009E73"];
    for colour in colours {
        let points = named("circle").filter(|node| node.attribute("fill") == Some(colour));
        assert_eq!(points.count(), 2 * 2, "{colour}");
    }
}

/// A host without a name is told by the word that was looked for, with what would help.
#[test]
fn a_host_that_is_not_known_is_named() {
    let world = World::new(1, 1 << 26);
    let client = run::<perf::Options>(&world, Side::A, &["client", "nobody"]);
    let sender = run::<copy::Options>(&world, Side::A, &["send", "nobody", "/dev/null"]);
    for ended in [client, sender] {
        let text = ended.unwrap_err().to_string();
        assert!(text.starts_with("no host `nobody`: "), "{text}");
        assert!(
            text.contains("vipl.conf(5)") && text.contains("`ntbctl peers`"),
            "{text}"
        );
    }
}

/// A file that cannot be written is a failure before anything is measured.
#[test]
fn a_plot_that_cannot_be_written_is_told_at_once() {
    let world = World::new(1, 1 << 26);
    let words = ["client", "b", "--plot", "/nowhere/perf.svg"];
    let ended = run::<perf::Options>(&world, Side::A, &words);
    let is_missing = |failure: &Failure| match failure {
        Failure::Io(error) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    };
    assert!(ended.as_ref().is_err_and(is_missing), "{ended:?}");
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
            let words = ["send", "b", from.to_str().unwrap(), "--json"];
            let sent = run::<copy::Options>(&world, Side::A, &words).unwrap();
            assert_eq!(sent, format!("{{\"bytes\":{len}}}\n"));
            assert_eq!(receiver.join().unwrap(), told);
        });
        assert!(fs::read(&to).unwrap() == bytes, "{len}");
    }
}
