// SPDX-License-Identifier: GPL-2.0-only

//! What a test of the host makes of the result of a KUnit case.

use core::fmt::Debug;

/// A result of a case.
pub trait Outcome {
    /// Panic if it is a failure.
    fn check(self);
}

impl Outcome for () {
    fn check(self) {}
}

impl<E: Debug> Outcome for Result<(), E> {
    fn check(self) {
        if let Err(e) = self {
            panic!("the case has ended with {e:?}");
        }
    }
}

/// Panic if the result of a case is a failure.
pub fn check(outcome: impl Outcome) {
    outcome.check();
}
