// SPDX-License-Identifier: MIT OR Apache-2.0

//! How many regions have each page of a process: a page is locked as long as any has it (VI-MEM-3).

use std::{collections::BTreeMap, ops::Range};

/// For addresses from each key up to the next one, how many regions have them. Neighbours differ,
/// and the last one is 0.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<usize, u32>);

impl Counts {
    /// Another region has a range: the parts of it that none had before.
    pub(crate) fn add(&mut self, range: &Range<usize>) -> Vec<Range<usize>> {
        self.change(
            range,
            |count| count.saturating_add(1),
            |before, _| before == 0,
        )
    }

    /// A region that was added has a range no more: the parts of it that none has now.
    pub(crate) fn remove(&mut self, range: &Range<usize>) -> Vec<Range<usize>> {
        self.change(range, |count| count.saturating_sub(1), |_, now| now == 0)
    }

    fn at(&self, address: usize) -> u32 {
        let last = self.0.range(..=address).next_back();
        last.map_or(0, |(_, count)| *count)
    }

    /// Change the counts of a range; its parts whose counts before and now are looked for.
    fn change(
        &mut self,
        range: &Range<usize>,
        next: impl Fn(u32) -> u32,
        wanted: impl Fn(u32, u32) -> bool,
    ) -> Vec<Range<usize>> {
        for border in [range.start, range.end] {
            let count = self.at(border);
            self.0.insert(border, count);
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        let borders: Vec<usize> = self
            .0
            .range(range.start..=range.end)
            .map(|(at, _)| *at)
            .collect();
        for (from, to) in borders.iter().zip(borders.iter().skip(1)) {
            let Some(count) = self.0.get_mut(from) else {
                continue;
            };
            let before = *count;
            *count = next(before);
            if !wanted(before, *count) {
                continue;
            }
            match found.last_mut().filter(|last| last.end == *from) {
                Some(last) => last.end = *to,
                None => found.push(*from..*to),
            }
        }
        for border in borders {
            if self.0.get(&border).copied() == Some(self.before(border)) {
                self.0.remove(&border);
            }
        }
        found
    }

    /// The count in front of an address.
    fn before(&self, address: usize) -> u32 {
        let last = self.0.range(..address).next_back();
        last.map_or(0, |(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn each(found: Vec<Range<usize>>) -> Vec<usize> {
        found.into_iter().flatten().collect()
    }

    /// VI-MEM-3, VI-MEM-11: a range is told of when the first region comes and when the last one
    /// goes.
    #[test]
    fn parts_are_told_when_the_first_comes_and_the_last_goes() {
        let mut counts = Counts::default();
        assert_eq!(each(counts.add(&(2..6))), [2, 3, 4, 5]);
        assert_eq!(each(counts.add(&(4..8))), [6, 7]);
        assert_eq!(counts.add(&(0..9)), [0..2, 8..9]);
        assert_eq!(counts.remove(&(2..6)), []);
        assert_eq!(counts.remove(&(0..9)), [0..4, 8..9]);
        assert_eq!(each(counts.remove(&(4..8))), [4, 5, 6, 7]);
        assert_eq!(counts.0.len(), 0);
    }

    proptest! {
        /// VI-MEM-3: as if each page was counted by itself.
        #[test]
        fn pages_are_counted_each(actions in prop::collection::vec((0..40_usize, 1..12_usize, any::<bool>()), 0..60)) {
            let (mut counts, mut pages, mut there) = (Counts::default(), [0_u32; 64], Vec::new());
            for (start, len, add) in actions {
                if add || there.is_empty() {
                    let range = start..start + len;
                    let new: Vec<_> = range.clone().filter(|page| pages[*page] == 0).collect();
                    range.clone().for_each(|page| pages[page] += 1);
                    prop_assert_eq!(each(counts.add(&range)), new);
                    there.push(range);
                } else {
                    let range: Range<usize> = there.swap_remove(start % there.len());
                    range.clone().for_each(|page| pages[page] -= 1);
                    let free: Vec<_> = range.clone().filter(|page| pages[*page] == 0).collect();
                    prop_assert_eq!(each(counts.remove(&range)), free);
                }
                let counted: Vec<_> = counts.0.values().collect();
                prop_assert!(counted.windows(2).all(|pair| pair[0] != pair[1]));
                prop_assert!(counted.last().is_none_or(|count| **count == 0));
            }
        }
    }
}
