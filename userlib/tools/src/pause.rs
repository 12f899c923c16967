// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pauses between messages, so that each finds a host on which nothing happens.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Longest pause, in microseconds.
pub const PAUSE_MAX: u64 = 1_000_000;

/// Pause for so many microseconds, [`PAUSE_MAX`] at most, or not at all; how long it was.
pub fn pause(micros: u64) -> Duration {
    match micros.min(PAUSE_MAX) {
        0 => Duration::ZERO,
        micros => {
            let start = Instant::now();
            thread::sleep(Duration::from_micros(micros));
            start.elapsed()
        }
    }
}
