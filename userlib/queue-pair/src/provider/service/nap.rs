// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long whoever serves sleeps while links are left to the program.

use super::{NAP_MAX, NAP_MIN};
use std::time::Duration;

/// How long the thread sleeps while links are left to the program.
#[derive(Debug)]
pub(super) struct Nap {
    long: Duration,
    /// The last one was long.
    was_long: bool,
}

impl Nap {
    pub(super) fn new() -> Self {
        Nap {
            long: NAP_MIN,
            was_long: false,
        }
    }

    /// How long the next one is: a short one behind a long one, if the program may not look any more
    /// although it should.
    pub(super) fn next(&mut self, doubtful: bool) -> Duration {
        self.was_long = !(self.was_long && doubtful);
        match self.was_long {
            true => self.long,
            false => NAP_MIN,
        }
    }

    /// Whether all links were looked at in the last one, and whether it has lasted as long as it
    /// should.
    pub(super) fn note(&mut self, all_watched: bool, undisturbed: bool) {
        match all_watched {
            true if self.was_long && undisturbed => self.long = NAP_MAX.min(2 * self.long),
            true => {}
            false => *self = Nap::new(),
        }
    }
}
