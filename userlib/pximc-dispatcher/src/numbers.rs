// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers that are handed out to the program, for interfaces or for sessions.
//!
//! A vendor's own number is kept if no other vendor has ever used it; then a program sees the
//! same number in every run. Otherwise the Dispatcher makes up a new one. What was used is never
//! forgotten while the process lives: it is kept as ranges, for vendors count.

use std::collections::BTreeMap;

/// The first number that the Dispatcher makes up: far from where vendors begin to count.
const FIRST_NEW: u32 = 0x8000_0000;

/// Whom a number belongs to, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A vendor has used it by itself.
    Vendor(usize),
    /// It was made up.
    Dispatcher,
}

/// Consecutive numbers of one owner; the first one is the key.
#[derive(Clone, Copy, Debug)]
struct Range {
    last: u32,
    owner: Owner,
}

/// Which numbers were used, and by whom.
#[derive(Debug)]
pub struct Numbers {
    used: BTreeMap<u32, Range>,
    /// Where to look for the next new number; none is left after the last one.
    next: Option<u32>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            used: BTreeMap::new(),
            next: Some(FIRST_NEW),
        }
    }
}

impl Numbers {
    /// A number for what the vendor calls `wanted`: that one if possible and not `taken` by
    /// something that still lives, or else a new one. None if all are used up.
    pub fn assign(&mut self, vendor: usize, wanted: u32, taken: bool) -> Option<u32> {
        let owner = Owner::Vendor(vendor);
        let free = self.owner(wanted).is_none_or(|was| was == owner);
        if wanted != 0 && !taken && free {
            self.record(wanted, owner);
            Some(wanted)
        } else {
            self.make_up()
        }
    }

    /// Numbers of which no new one can be made up.
    #[cfg(test)]
    pub fn used_up() -> Numbers {
        Numbers {
            next: None,
            ..Numbers::default()
        }
    }

    /// A number that nobody has used.
    fn make_up(&mut self) -> Option<u32> {
        let mut number = self.next?;
        while let Some(range) = self.range(number) {
            self.next = range.last.checked_add(1);
            number = self.next?;
        }
        self.record(number, Owner::Dispatcher);
        self.next = number.checked_add(1);
        Some(number)
    }

    fn range(&self, number: u32) -> Option<Range> {
        let (_, range) = self.used.range(..=number).next_back()?;
        (number <= range.last).then_some(*range)
    }

    fn owner(&self, number: u32) -> Option<Owner> {
        self.range(number).map(|range| range.owner)
    }

    /// Enter a number that has no owner, or has this one already, and joins it with its
    /// neighbours.
    fn record(&mut self, number: u32, owner: Owner) {
        if self.owner(number).is_some() {
            return;
        }
        let (mut first, mut last) = (number, number);
        if let Some((&start, before)) = self.used.range(..number).next_back() {
            if before.owner == owner && before.last.checked_add(1) == Some(number) {
                first = start;
            }
        }
        let after = number.checked_add(1).and_then(|start| {
            let range = self.used.get(&start)?;
            (range.owner == owner).then_some((start, range.last))
        });
        if let Some((start, end)) = after {
            self.used.remove(&start);
            last = end;
        }
        self.used.insert(first, Range { last, owner });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    use proptest::prelude::*;

    #[test]
    fn a_vendors_number_is_kept_and_kept_from_others() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.assign(0, 5, false), Some(5));
        assert_eq!(numbers.assign(1, 5, false), Some(FIRST_NEW));
        assert_eq!(numbers.assign(0, 5, false), Some(5));
        assert_eq!(numbers.assign(0, 5, true), Some(FIRST_NEW + 1));
    }

    #[test]
    fn zero_is_never_handed_out() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.assign(0, 0, false), Some(FIRST_NEW));
    }

    #[test]
    fn a_vendor_that_counts_costs_one_range() {
        let mut numbers = Numbers::default();
        for number in (1..=1000).chain(2001..=3000).chain(1001..=2000) {
            assert_eq!(numbers.assign(3, number, false), Some(number));
        }
        assert_eq!(numbers.used.len(), 1);
    }

    #[test]
    fn new_numbers_pass_over_those_that_vendors_use() {
        let mut numbers = Numbers::default();
        for number in FIRST_NEW..FIRST_NEW + 4 {
            assert_eq!(numbers.assign(0, number, false), Some(number));
        }
        assert_eq!(numbers.assign(1, FIRST_NEW, false), Some(FIRST_NEW + 4));
    }

    #[test]
    fn when_all_numbers_are_used_up_there_is_none() {
        let mut numbers = Numbers {
            next: Some(u32::MAX),
            ..Numbers::default()
        };
        assert_eq!(numbers.assign(0, 0, false), Some(u32::MAX));
        assert_eq!(numbers.assign(0, 0, false), None);
        assert_eq!(numbers.assign(0, 7, false), Some(7));
    }

    proptest! {
        /// Against a list of all numbers and their owners.
        #[test]
        fn no_number_ever_changes_its_owner(
            wishes in prop::collection::vec((0usize..3, 0u32..20, any::<bool>()), 1..200),
        ) {
            let mut numbers = Numbers::default();
            let mut owners: HashMap<u32, Owner> = HashMap::new();
            for (vendor, low, high) in wishes {
                let wanted = if high { FIRST_NEW + low } else { low };
                let number = numbers.assign(vendor, wanted, false).expect("plenty are left");
                let owner = Owner::Vendor(vendor);
                if number == wanted {
                    prop_assert!(owners.get(&number).is_none_or(|was| *was == owner));
                    owners.insert(number, owner);
                } else {
                    prop_assert!(!owners.contains_key(&number));
                    prop_assert!(wanted == 0 || owners.get(&wanted).is_some_and(|was| *was != owner));
                    owners.insert(number, Owner::Dispatcher);
                }
                prop_assert_ne!(number, 0);
            }
            for (number, owner) in owners {
                prop_assert_eq!(numbers.owner(number), Some(owner));
            }
        }
    }
}
