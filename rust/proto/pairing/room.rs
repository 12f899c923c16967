// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Whether there is the space for a pair, found out before anything is cut: cutting clears memory,
//! and a session may have many candidates that space keeps apart.

use crate::layout::PAGE;
use crate::pairing::terms::{Limits, Params, Terms};

/// The free space of a turn.
pub(super) struct Room {
    /// The two longest free runs of this host, the longest first; bytes.
    pub runs: [u64; 2],
    /// The longest one of the peer; `None` if that is to be asked.
    pub there: Option<u64>,
}

impl Room {
    /// Whether there may be the windows of a pair of an own session and one of the peer's, on
    /// terms that are seen from the own one.
    pub(super) fn has_own_of(&self, own: &Params, terms: &Terms) -> bool {
        if !own.is_backed() {
            return true;
        }
        let here = terms.local.min <= self.longest();
        let needs = needs_there(own, terms.local.max.min(self.longest()), terms.remote);
        here && needs.is_some_and(|needs| self.there.is_none_or(|there| needs <= there))
    }

    /// Whether there are both windows of a pair of two own sessions, on the terms of one of them.
    pub(super) fn has_both_of(&self, own: &Params, terms: &Terms) -> bool {
        if !own.is_backed() {
            return true;
        }
        let [longest, second] = self.runs;
        let pages = |limits: Limits| limits.min.checked_next_multiple_of(PAGE);
        let (Some(x), Some(y)) = (pages(terms.local), pages(terms.remote)) else {
            return false;
        };
        let (more, less) = (x.max(y), x.min(y));
        let in_one = more.checked_add(less).is_some_and(|sum| sum <= longest);
        let one_is_there = own.bare || longest != 0;
        more <= longest && (less <= second || in_one) && one_is_there
    }

    fn longest(&self) -> u64 {
        self.runs[0]
    }
}

/// The fewest bytes of the other window if the own one has so many: one of the two has to be there
/// (PXI-PAIR-7). `None` if that is more than it may have.
pub(super) fn needs_there(own: &Params, here: u64, remote: Limits) -> Option<u64> {
    let needs = match here == 0 && own.is_backed() && !own.bare {
        true => remote.min.max(1),
        false => remote.min,
    };
    (needs <= remote.max).then_some(needs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use crate::pairing::terms::{Connection, Location, Name};
    use proptest::prelude::*;
    use std::{vec, vec::Vec};

    const OWN: Params = Params {
        connection: Connection::Client,
        location: Location::Logical,
        protocol: 0,
        uid: 0,
        local: Limits::exactly(PAGE),
        remote: Limits::exactly(PAGE),
        address: 0,
        address_bits: 64,
        name: Name::NONE,
        hold: false,
        once: false,
        bare: false,
    };

    proptest! {
        /// PXI-PAIR-6, PXI-PAIR-7: exactly what can be cut, the larger one first.
        #[test]
        fn there_are_both_windows_if_both_can_be_cut(
            lens in prop::collection::vec(1u64..5 * PAGE, 0..16),
            freed in any::<u16>(),
            x in 0u64..9 * PAGE,
            y in 0u64..9 * PAGE,
        ) {
            let mut arena = Arena::new(24 * PAGE, vec![None; 32]);
            let cut: Vec<_> = lens.iter().filter_map(|len| arena.alloc(*len).ok()).collect();
            for (n, extent) in cut.iter().enumerate() {
                if freed >> n & 1 != 0 {
                    arena.free(extent.off).expect("just cut");
                }
            }
            let runs = arena.runs();
            prop_assert_eq!(runs[0], arena.largest());
            let room = Room { runs, there: None };
            let terms = Terms { local: Limits::exactly(x), remote: Limits::exactly(y) };
            let can_be = [x.max(y), x.min(y)].iter().all(|len| {
                *len == 0 || arena.alloc(*len).is_ok()
            });
            prop_assert_eq!(room.has_both_of(&OWN, &terms), can_be && runs[0] != 0);
        }
    }

    /// PXI-PAIR-7: without an own window, the other one has to be there.
    #[test]
    fn one_of_the_two_windows_is_needed() {
        let some = Limits { min: 0, max: PAGE };
        assert_eq!(needs_there(&OWN, PAGE, some), Some(0));
        assert_eq!(needs_there(&OWN, 0, some), Some(1));
        assert_eq!(needs_there(&OWN, 0, Limits::default()), None);
        let bare = Params { bare: true, ..OWN };
        assert_eq!(needs_there(&bare, 0, Limits::default()), Some(0));
    }
}
