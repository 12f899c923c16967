// SPDX-License-Identifier: GPL-2.0-only
//! Numbers that look random and follow from a seed.

use std::cell::Cell;

/// A sequence of numbers (splitmix64).
#[derive(Debug)]
pub struct Dice(Cell<u64>);

impl Dice {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    /// The next number.
    pub fn roll(&self) -> u64 {
        let s = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(s);
        let z = (s ^ (s >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; zero if there is none.
    pub fn below(&self, n: u64) -> u64 {
        self.roll() % n.max(1)
    }

    /// Whether something that happens once in `n` times happens now.
    pub fn once_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn one_of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// So many bytes.
    pub fn bytes(&self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll() as u8).collect()
    }
}
