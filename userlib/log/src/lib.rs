// SPDX-License-Identifier: MIT OR Apache-2.0

//! Diagnostics of the libraries: events of the crate `tracing`, on standard error, if the
//! environment asks for them.
//!
//! Each library calls [`init`] before it does anything else. Without the variable nothing is
//! printed but what has to reach somebody ([`last_resort`]), and a program in Rust that has a
//! subscriber of its own keeps it.

use std::{
    env, fmt,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};
use tracing::level_filters::LevelFilter;

/// How much is printed: `error`, `warn`, `info`, `debug`, `trace`, or `off` as without it.
pub const VARIABLE: &str = "MP_LOG";

/// The environment asks for silence.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Print events from now on, if the environment asks for them.
pub fn init() {
    // No lock: a process may be forked at any time.
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Ordering::Acquire) || DONE.swap(true, Ordering::AcqRel) {
        return;
    }
    let Some(value) = env::var_os(VARIABLE) else {
        return;
    };
    let Some(level) = value
        .to_str()
        .and_then(|level| level.parse::<LevelFilter>().ok())
    else {
        let known = "off, error, warn, info, debug, trace";
        let _ = writeln!(
            Stderr,
            "{VARIABLE}={}: none of {known}",
            value.to_string_lossy()
        );
        return;
    };
    if level == LevelFilter::OFF {
        SILENT.store(true, Ordering::Release);
        return;
    }
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(|| Stderr)
        .finish();
    // One that is there already is the program's.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Print one line if events are printed nowhere, unless the environment asks for silence
/// (`MP_LOG=off`): for what a program has to be told and has not asked for.
pub fn last_resort(line: fmt::Arguments<'_>) {
    if !tracing::dispatcher::has_been_set() && !SILENT.load(Ordering::Acquire) {
        let _ = Stderr.write_all(format!("{line}\n").as_bytes());
    }
}

/// Standard error, without a lock that a thread of a forked process could have held.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(rustix::stdio::stderr(), data)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
