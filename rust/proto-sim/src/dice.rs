// SPDX-License-Identifier: GPL-2.0-only

//! Random numbers that a seed determines.

use std::cell::Cell;
use std::rc::Rc;

use mp_bridge_model::Chance;
use mp_proto::link::Rng;

/// A generator (splitmix64); clones share the state.
#[derive(Clone, Debug)]
pub struct Dice(Rc<Cell<u64>>);

impl Dice {
    /// The generator with that seed. Each `stream` of a seed is one of its own.
    pub fn new(seed: u64, stream: u64) -> Dice {
        let dice = Dice(Rc::new(Cell::new(seed)));
        let salt = dice.roll();
        dice.0
            .set(salt ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.roll();
        dice
    }

    /// The next number.
    pub fn roll(&self) -> u64 {
        let s = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(s);
        let mut z = s;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&self, n: u64) -> u64 {
        self.roll() % n.max(1)
    }

    /// A place below `n`.
    pub fn pick(&self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// True once in `n` times; never for zero.
    pub fn once_in(&self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }

    /// One of these.
    pub fn one_of<T: Copy>(&self, all: &[T]) -> T {
        all[self.pick(all.len())]
    }
}

impl Rng for Dice {
    fn next_u64(&mut self) -> u64 {
        self.roll()
    }
}

impl Chance for Dice {
    fn below(&self, n: u64) -> u64 {
        Dice::below(self, n)
    }
}
