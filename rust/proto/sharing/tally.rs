// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Triggers of an event (SI-CRINT-4, SI-CRINT-5, SI-NTB-12). The sender tells how often it has
//! triggered altogether, since it connected and modulo 2^32; what it tells may be merged, repeated
//! and delayed, and no trigger is lost or counted twice.

/// What one sender has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heard(u32);

impl Heard {
    /// The sender tells its total: how many triggers are new. A total that went back, as a later
    /// one has told before, brings none.
    pub fn total(&mut self, total: u32) -> u32 {
        let new = total.wrapping_sub(self.0);
        if new > u32::MAX / 2 {
            return 0;
        }
        self.0 = total;
        new
    }
}

/// Triggers that wait to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    counts: bool,
    pending: u64,
}

impl Pending {
    /// None; whether each counts, or all that wait are one.
    pub fn new(counts: bool) -> Pending {
        Pending { counts, pending: 0 }
    }

    /// So many are new.
    pub fn add(&mut self, new: u32) {
        self.pending = match self.counts {
            true => self.pending.saturating_add(new.into()),
            false => self.pending.max(u64::from(new != 0)),
        };
    }

    /// Take one; `false` if there is none.
    pub fn take(&mut self) -> bool {
        let is_there = self.pending != 0;
        self.pending = self.pending.saturating_sub(1);
        is_there
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.pending != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// SI-CRINT-5, SI-NTB-12
        #[test]
        fn every_trigger_is_taken_once_however_totals_travel(
            start in any::<u32>(),
            steps in prop::collection::vec((0u8..4, 0u32..5), 0..200),
        ) {
            let (mut heard, mut pending) = (Heard(start), Pending::new(true));
            let (mut sent, mut taken) = (start, 0u64);
            let mut old = start;
            for (what, n) in steps {
                match what {
                    0 => sent = sent.wrapping_add(n),
                    1 => pending.add(heard.total(sent)),
                    // Something that was told before comes once more.
                    2 => { pending.add(heard.total(old)); old = heard.0; }
                    _ => taken += u64::from(pending.take()),
                }
            }
            pending.add(heard.total(sent));
            while pending.take() {
                taken += 1;
            }
            prop_assert_eq!(taken, u64::from(sent.wrapping_sub(start)));
        }

        /// SI-CRINT-4, SI-WINT-3
        #[test]
        fn a_flag_is_there_after_the_last_trigger(
            steps in prop::collection::vec(any::<bool>(), 0..50),
        ) {
            let mut flag = Pending::new(false);
            let mut is_set = false;
            for trigger in steps {
                if trigger {
                    flag.add(1);
                    is_set = true;
                } else {
                    prop_assert_eq!(flag.take(), is_set);
                    is_set = false;
                }
                prop_assert_eq!(flag.is_there(), is_set);
            }
        }
    }
}
