// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Pauses between the lives of what starts over: the shorter they are, the longer the pauses.

/// The first pause and the longest one, in nanoseconds.
const FIRST: u64 = 20_000_000;
const LONGEST: u64 = 1_000_000_000;

/// A life that lasts so many nanoseconds is followed by a first pause again.
const STABLE: u64 = 5_000_000_000;

/// A pause, which is over at first; see the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pause {
    /// When it is over, and a life begins.
    until: u64,
    length: u64,
}

impl Pause {
    /// A life has ended.
    pub fn begin(&mut self, now: u64) {
        self.length = match now.saturating_sub(self.until) {
            STABLE.. => FIRST,
            _ => (2 * self.length).clamp(FIRST, LONGEST),
        };
        self.until = now.saturating_add(self.length);
    }

    /// When it is over, unless it is already.
    pub fn end(&self, now: u64) -> Option<u64> {
        (now < self.until).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_life_of_its_own_length_has_a_pause_of_its_own() {
        let mut pause = Pause::default();
        assert_eq!(pause.end(0), None);
        pause.begin(STABLE);
        assert_eq!(pause.end(STABLE), Some(STABLE + FIRST));
        assert_eq!(pause.end(STABLE + FIRST), None);
        let mut now = STABLE + FIRST;
        for length in [2 * FIRST, 4 * FIRST, 8 * FIRST] {
            pause.begin(now);
            assert_eq!(pause.end(now), Some(now + length));
            now += length;
        }
        pause.begin(now + STABLE);
        assert_eq!(pause.end(now + STABLE), Some(now + STABLE + FIRST));
    }

    proptest! {
        /// Lives are never more frequent than the pauses let them be, whoever ends them and when.
        #[test]
        fn pauses_are_bounded_and_lives_are_few(lives in prop::collection::vec(0..2 * STABLE, 1..50)) {
            let mut pause = Pause::default();
            let mut now = STABLE;
            let mut short = 0u32;
            for life in lives {
                now += life;
                pause.begin(now);
                let end = pause.end(now).expect("it has begun");
                prop_assert!((FIRST..=LONGEST).contains(&(end - now)));
                short = if life < STABLE { short + 1 } else { 0 };
                prop_assert!(short < 8 || end - now == LONGEST);
                now = end;
            }
        }
    }
}
