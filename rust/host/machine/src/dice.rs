// SPDX-License-Identifier: GPL-2.0-only

//! Random numbers from a seed.

/// A sequence of numbers that looks random and depends on the seed alone (SplitMix64).
pub struct Dice(u64);

/// How often something happens: so many times of so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Odds(pub u32, pub u32);

impl Odds {
    /// It does not happen.
    pub const NEVER: Self = Self(0, 1);
    /// It always happens.
    pub const ALWAYS: Self = Self(1, 1);
}

impl Dice {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// Whether what has these odds happens now. What never or always happens takes no number.
    pub fn chance(&mut self, Odds(times, of): Odds) -> bool {
        match times {
            0 => false,
            _ if times >= of => true,
            _ => self.below(of.into()) < times.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_odds_are_kept() {
        let rolls = |seed| {
            let mut dice = Dice::new(seed);
            [(); 8].map(|()| dice.roll())
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        let mut dice = Dice::new(1);
        let hits = (0..10_000).filter(|_| dice.chance(Odds(1, 4))).count();
        assert!((2300..2700).contains(&hits), "{hits}");
        assert!(!dice.chance(Odds::NEVER) && dice.chance(Odds::ALWAYS));
    }
}
