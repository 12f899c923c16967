// SPDX-License-Identifier: GPL-2.0-only

//! What real bridges do now and then, and shared memory never: on demand, for
//! tests of the clients above.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// A fault that strikes every so many times.
pub(crate) struct Fault {
    every: u32,
    times: Atomic<u32>,
}

impl Fault {
    /// `every` may be zero: never.
    pub(crate) fn new(every: u32) -> Self {
        Self {
            every,
            times: Atomic::new(0),
        }
    }

    /// Whether it strikes this time.
    #[inline]
    pub(crate) fn strikes(&self) -> bool {
        let time = self.times.fetch_add(1, Relaxed).wrapping_add(1);
        time.checked_rem(self.every) == Some(0)
    }
}
