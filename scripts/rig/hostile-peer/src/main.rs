// SPDX-License-Identifier: GPL-2.0-only
//! A peer that lies, while the real one goes on talking.
//!
//! ```text
//! hostile-peer --ram FILE --at OFFSET --len BYTES --server SOCKET
//!              --victim PORT --liar PORT [--queues N] [--vectors N] [--seconds S] [--seed N]
//! ```
//!
//! It does what the guest at the port `liar` could do to the guest at the port
//! `victim`, and nothing else: writes into the memory that the victim has for it, which
//! lies at OFFSET of the file of the victim's RAM, into the registers that a peer
//! writes, and rings doorbells, at any time and as often as it likes. [`lies`] says how
//! it lies. Everything comes from the seed, which it prints first; in the end it prints how
//! often it told each kind of lie, as one line of JSON.
//!
//! It never reads or writes anything outside of these.

#![forbid(unsafe_code)]

mod dice;
mod lies;
mod victim;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dice::Dice;
use lexopt::prelude::*;
use lies::Liar;
use victim::{Ports, Victim};

const USAGE: &str = "usage: hostile-peer --ram FILE --at OFFSET --len BYTES --server SOCKET \
--victim PORT --liar PORT [--queues N] [--vectors N] [--seconds S] [--seed N]";

/// Most lies at a time.
const BURST: u64 = 24;
/// Longest pause between bursts, in microseconds: most epochs end in the meantime, some
/// begin.
const PAUSE_US: u64 = 40_000;

struct Options {
    victim: Victim,
    time: Duration,
    seed: u64,
}

fn number(text: OsString) -> Result<u64, String> {
    let text = text.to_string_lossy().into_owned();
    text.parse().map_err(|e| format!("{text}: {e}"))
}

fn options() -> Result<Options, Box<dyn Error>> {
    let (mut ram, mut server) = (None, None);
    let (mut at, mut len) = (None, None);
    let (mut owner, mut liar, mut queues, mut vectors) = (None, None, 1, 8);
    let mut time = Duration::from_secs(10);
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let mut words = lexopt::Parser::from_env();
    while let Some(word) = words.next()? {
        match word {
            Long("ram") => ram = Some(PathBuf::from(words.value()?)),
            Long("server") => server = Some(PathBuf::from(words.value()?)),
            Long("at") => at = Some(number(words.value()?)?),
            Long("len") => len = Some(number(words.value()?)?),
            Long("victim") => owner = Some(number(words.value()?)?),
            Long("liar") => liar = Some(number(words.value()?)?),
            Long("queues") => queues = number(words.value()?)?,
            Long("vectors") => vectors = number(words.value()?)?,
            Long("seconds") => time = Duration::from_secs_f64(words.value()?.parse()?),
            Long("seed") => seed = number(words.value()?)?,
            other => return Err(other.unexpected().into()),
        }
    }
    let ports = Ports {
        victim: owner.ok_or("--victim is missing")?,
        liar: liar.ok_or("--liar is missing")?,
        vectors,
    };
    let victim = Victim::open(
        &ram.ok_or("--ram is missing")?,
        at.ok_or("--at is missing")?,
        len.ok_or("--len is missing")?,
        u32::try_from(queues)?,
        &server.ok_or("--server is missing")?,
        ports,
    )?;
    Ok(Options { victim, time, seed })
}

fn run(options: Options) -> std::io::Result<()> {
    println!("seed {}", options.seed);
    let dice = Dice::new(options.seed);
    let mut liar = Liar::new(options.victim, &dice);
    let start = Instant::now();
    while start.elapsed() < options.time {
        for _ in 0..=dice.below(BURST) {
            liar.lie()?;
        }
        std::thread::sleep(Duration::from_micros(dice.below(PAUSE_US)));
    }
    println!("{}", liar.summary());
    Ok(())
}

fn main() -> ExitCode {
    match options().and_then(|options| run(options).map_err(Into::into)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hostile-peer: {error}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}
