// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables by small keys that are looked into for each message: nodes, ports, lanes, addresses.
//!
//! The hash is one multiplication for each word of a key, by a number that nobody else knows: other
//! nodes, which name ports and lanes, cannot choose keys that collide.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
};

/// A table.
pub(crate) type Table<K, V> = HashMap<K, V, Multiply>;

/// Makes the hashes of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Multiply(u64);

impl Default for Multiply {
    fn default() -> Self {
        // Odd, so that no bit of a key is lost.
        Multiply(secret() | 1)
    }
}

#[cfg(not(test))]
fn secret() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
fn secret() -> u64 {
    let random = || RandomState::new().hash_one(0);
    SECRET.get().unwrap_or_else(random)
}

#[cfg(test)]
thread_local! {
    /// What a test that has to be repeated puts in the place of chance.
    pub(crate) static SECRET: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

impl BuildHasher for Multiply {
    type Hasher = Multiplied;

    fn build_hasher(&self) -> Multiplied {
        Multiplied {
            factor: self.0,
            hash: 0,
        }
    }
}

/// The hash of what was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Multiplied {
    factor: u64,
    hash: u64,
}

impl Multiplied {
    fn word(&mut self, word: u64) {
        let mixed = (self.hash ^ word).wrapping_mul(self.factor);
        self.hash = mixed ^ mixed >> 32;
    }
}

impl Hasher for Multiplied {
    fn finish(&self) -> u64 {
        // Tables take the upper bits as well.
        self.hash.wrapping_mul(self.factor)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.word((*byte).into()));
    }

    fn write_u16(&mut self, word: u16) {
        self.word(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.word(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.word(word as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Lane;
    use std::collections::HashSet;

    /// Keys that are near each other do not share places, in the lower bits of their hashes or the
    /// upper ones.
    #[test]
    fn near_keys_are_apart() {
        let table = Multiply::default();
        let lanes = (0..8).flat_map(|level| (0..512).map(move |port| Lane { level, port }));
        let hashes: Vec<_> = lanes.map(|lane| table.hash_one(lane)).collect();
        let distinct = |part: &dyn Fn(u64) -> u64| {
            let parts: HashSet<_> = hashes.iter().map(|hash| part(*hash)).collect();
            parts.len()
        };
        assert_eq!(distinct(&|hash| hash), hashes.len());
        assert!(distinct(&|hash| hash & 0xfff) > 1024);
        assert_eq!(distinct(&|hash| hash >> 57), 128);
    }
}
