// SPDX-License-Identifier: MIT OR Apache-2.0

//! Seeds of bridges: a test has one, and the tests of a file run again with others.

use crate::{Bridge, Lines};
use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

/// Names the seed of all bridges of a run.
const VARIABLE: &str = "BRIDGE_SEED";
/// That of a run that names none.
const USUAL: u64 = 7;
/// How lines go in a run; as words if it does not say.
const LINES_VARIABLE: &str = "BRIDGE_LINES";
/// What says that they go in one write.
const IN_ONE_WRITE: &str = "one-write";
/// What says that they go as words.
const IN_WORDS: &str = "words";
/// Others that each run of [`with_other_seeds`] tries, beside a new one.
const OTHERS: [(u64, &str); 2] = [(1, IN_WORDS), (2, IN_ONE_WRITE)];
/// Tests that run at the same time: they wait more than they work.
const AT_ONCE: usize = 4;

/// The seed of a test's bridge: what `BRIDGE_SEED` says.
///
/// # Panics
/// It is no number.
pub fn bridge_seed() -> u64 {
    match env::var(VARIABLE) {
        Ok(text) => text.parse().expect("BRIDGE_SEED is a number"),
        Err(_) => USUAL,
    }
}

/// A test's bridge, with its [seed](bridge_seed), over which lines go as `BRIDGE_LINES` says: `words`,
/// or `one-write`.
///
/// # Panics
/// It says something else.
pub fn seeded_bridge() -> Bridge {
    let lines = match env::var(LINES_VARIABLE).as_deref() {
        Ok(IN_WORDS) | Err(_) => Lines::InWords,
        Ok(IN_ONE_WRITE) => Lines::InOneWrite,
        Ok(other) => panic!("{LINES_VARIABLE} is {other}"),
    };
    Bridge::new(bridge_seed()).with_lines(lines)
}

/// For a test of this name: run the other ones of the same file again, each in a process of its own,
/// with other seeds, of which one is new, and with one of them with lines in one write; but for those whose names have a part of `but`. Does nothing
/// where the run has a seed.
///
/// # Panics
/// If one fails; what it has printed, and the seed, are printed.
pub fn with_other_seeds(own: &str, but: &[&str]) {
    if env::var_os(VARIABLE).is_some() {
        return;
    }
    let program = env::current_exe().expect("the test is a file");
    let tests = tests_of(&program);
    let is_meant = |test: &String| test != own && !but.iter().any(|part| test.contains(part));
    let tests: Vec<_> = tests.into_iter().filter(is_meant).collect();
    assert!(!tests.is_empty(), "there are no tests");
    let new = SystemTime::now().duration_since(UNIX_EPOCH);
    let new = new.map_or(0, |now| now.as_nanos() as u64);
    println!("{VARIABLE}: {OTHERS:?} and {new}, {} tests", tests.len());
    let runs = OTHERS.into_iter().chain([(new, IN_WORDS)]);
    let runs = runs.flat_map(|seed| tests.iter().map(move |test| (seed, test)));
    let runs = Mutex::new(runs);
    let next = || runs.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((seed, test)) = next() {
                    run(&program, test, seed);
                }
            });
        }
    });
}

/// Names of all tests of a file.
fn tests_of(program: &Path) -> Vec<String> {
    let mut command = Command::new(program);
    let output = command.args(["--list", "--format", "terse"]).output();
    let output = output.expect("the tests can be listed");
    let told = String::from_utf8_lossy(&output.stdout);
    let names = told.lines().filter_map(|line| line.strip_suffix(": test"));
    names.map(String::from).collect()
}

fn run(program: &Path, test: &str, (seed, lines): (u64, &str)) {
    let mut command = Command::new(program);
    let command = command.args(["--exact", test, "--nocapture"]);
    let command = command.env(VARIABLE, seed.to_string());
    let command = command.env(LINES_VARIABLE, lines);
    let output = command.stdin(Stdio::null()).output();
    let output = output.expect("the test can be started");
    let [told, complained] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{test}, with {VARIABLE}={seed} {LINES_VARIABLE}={lines}, which give it the same chances: \
         {}\n{told}{complained}",
        output.status
    );
}
