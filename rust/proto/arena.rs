// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The arena: the part of an inbound memory from which segments are cut, page by page.
//!
//! First fit by address. What lies between two extents is free, so neighbours that are freed
//! become one by themselves. An extent that its owner has given up but that the peer may still
//! reach is *retired*: its pages are not given to anybody until the peer has let go or the epoch
//! has ended (design 4.11).

use crate::layout::PAGE;
use core::ops::DerefMut;

/// Why nothing was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocError {
    /// Zero bytes were asked for.
    Zero,
    /// No free run of pages is long enough.
    NoSpace,
    /// The table of extents is full.
    TooMany,
}

/// Why an extent was not retired or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreeError {
    /// No extent starts there.
    Unknown,
    /// It was retired before.
    Retired,
}

/// A piece of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Byte offset from the start of the arena, whole pages.
    pub off: u64,
    /// Bytes as asked for; the pages behind them belong to the extent as well.
    pub len: u64,
    /// Given up by its owner, still reachable by the peer.
    pub retired: bool,
}

impl Extent {
    /// First byte behind the extent's pages.
    #[inline]
    pub fn end(&self) -> u64 {
        self.off.saturating_add(self.len.next_multiple_of(PAGE))
    }
}

/// An arena whose extents, retired ones included, are kept in a table of the caller's: a boxed
/// slice, a vector or an array behind a reference. Its length bounds their number.
#[derive(Debug)]
pub struct Arena<S> {
    size: u64,
    /// Sorted by offset, without gaps in the table.
    extents: S,
    len: usize,
}

impl<S: DerefMut<Target = [Option<Extent>]>> Arena<S> {
    /// An empty arena of `size` bytes, rounded down to pages. What is in `table` is overwritten.
    pub fn new(size: u64, mut table: S) -> Self {
        table.fill(None);
        Arena {
            size: size & !(PAGE - 1),
            extents: table,
            len: 0,
        }
    }

    /// Size in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes in pages that belong to nobody.
    pub fn free_bytes(&self) -> u64 {
        let used: u64 = self.extents().map(|e| e.end() - e.off).sum();
        self.size.saturating_sub(used)
    }

    /// Bytes of the longest free run of pages: the most that [`Self::alloc`] can cut now, unless
    /// the table is full.
    pub fn largest(&self) -> u64 {
        self.runs()[0]
    }

    /// Bytes of the two longest free runs of pages, the longest first.
    pub fn runs(&self) -> [u64; 2] {
        let ends = self.extents().map(|extent| (extent.off, extent.end()));
        let mut start = 0;
        let mut runs = [0; 2];
        for (off, end) in ends.chain([(self.size, self.size)]) {
            let run = off.saturating_sub(start);
            let [longest, second] = runs;
            runs = [longest.max(run), second.max(run.min(longest))];
            start = end;
        }
        runs
    }

    /// All extents in the order of their offsets.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> + '_ {
        self.extents.iter().flatten()
    }

    /// The extent that starts at `off`.
    pub fn get(&self, off: u64) -> Option<&Extent> {
        self.extents.get(self.position(off).ok()?)?.as_ref()
    }

    /// Cut `len` bytes at the lowest place where they fit.
    ///
    /// # Errors
    /// See [`AllocError`].
    pub fn alloc(&mut self, len: u64) -> Result<Extent, AllocError> {
        if len == 0 {
            return Err(AllocError::Zero);
        }
        if self.len >= self.extents.len() {
            return Err(AllocError::TooMany);
        }
        let need = len.checked_next_multiple_of(PAGE);
        let need = need.ok_or(AllocError::NoSpace)?;
        let (at, off) = self.find(need).ok_or(AllocError::NoSpace)?;
        let extent = Extent {
            off,
            len,
            retired: false,
        };
        let tail = self.extents.get_mut(at..=self.len);
        let tail = tail.ok_or(AllocError::TooMany)?;
        tail.rotate_right(1);
        if let Some(place) = tail.first_mut() {
            *place = Some(extent);
        }
        self.len += 1;
        Ok(extent)
    }

    /// The owner gives the extent at `off` up while the peer may still reach it.
    ///
    /// # Errors
    /// See [`FreeError`].
    pub fn retire(&mut self, off: u64) -> Result<(), FreeError> {
        let at = self.position(off).map_err(|_| FreeError::Unknown)?;
        match self.extents.get_mut(at) {
            Some(Some(e)) if !e.retired => {
                e.retired = true;
                Ok(())
            }
            Some(Some(_)) => Err(FreeError::Retired),
            _ => Err(FreeError::Unknown),
        }
    }

    /// Free the extent at `off`: nobody can reach it any more. Serves owners whose extent was
    /// never granted and peers that let a retired one go.
    ///
    /// # Errors
    /// [`FreeError::Unknown`] when no extent starts there.
    pub fn free(&mut self, off: u64) -> Result<(), FreeError> {
        let at = self.position(off).map_err(|_| FreeError::Unknown)?;
        let tail = self.extents.get_mut(at..self.len);
        let tail = tail.ok_or(FreeError::Unknown)?;
        if let Some(place) = tail.first_mut() {
            *place = None;
        }
        tail.rotate_left(1);
        self.len -= 1;
        Ok(())
    }

    /// The epoch has ended: frees all retired extents, and says how many.
    pub fn end_epoch(&mut self) -> usize {
        let before = self.len;
        let mut len = 0;
        for at in 0..before {
            let taken = self.extents.get_mut(at).and_then(Option::take);
            let living = taken.filter(|e| !e.retired);
            if let (Some(extent), Some(place)) = (living, self.extents.get_mut(len)) {
                *place = Some(extent);
                len += 1;
            }
        }
        self.len = len;
        before - len
    }

    /// The lowest free run of `need` bytes: its place in the table and its offset.
    fn find(&self, need: u64) -> Option<(usize, u64)> {
        let mut start = 0;
        for (at, extent) in self.extents().enumerate() {
            if extent.off - start >= need {
                return Some((at, start));
            }
            start = extent.end();
        }
        (self.size.checked_sub(start)? >= need).then_some((self.len, start))
    }

    fn position(&self, off: u64) -> Result<usize, usize> {
        let known = self.extents.get(..self.len).unwrap_or(&[]);
        known.binary_search_by_key(&Some(off), |e| e.map(|e| e.off))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{vec, vec::Vec};

    /// An arena of `size` bytes for at most `count` extents.
    fn arena(size: u64, count: usize) -> Arena<Vec<Option<Extent>>> {
        Arena::new(size, vec![None; count])
    }

    /// design 4.4
    #[test]
    fn the_lowest_free_place_is_taken() {
        let mut a = arena(16 * PAGE, 8);
        let offs: Vec<_> = (0..4)
            .map(|_| a.alloc(2 * PAGE).expect("space").off)
            .collect();
        assert_eq!(offs, [0, 2 * PAGE, 4 * PAGE, 6 * PAGE]);
        a.free(2 * PAGE).expect("known");
        a.free(4 * PAGE).expect("known");
        assert_eq!(a.alloc(4 * PAGE).expect("neighbours joined").off, 2 * PAGE);
    }

    /// design 4.4
    #[test]
    fn sizes_are_kept_to_the_byte_and_pages_are_not_shared() {
        let mut a = arena(2 * PAGE + 100, 8);
        assert_eq!(a.size(), 2 * PAGE);
        let e = a.alloc(1).expect("space");
        assert_eq!((e.len, e.end()), (1, PAGE));
        assert_eq!(a.get(0), Some(&e));
        assert_eq!(a.alloc(PAGE).expect("space").off, PAGE);
        assert_eq!(a.alloc(1), Err(AllocError::NoSpace));
    }

    /// design 4.11
    #[test]
    fn memory_that_the_peer_can_reach_is_not_reused_before_the_epoch_ends() {
        let mut a = arena(2 * PAGE, 8);
        let x = a.alloc(PAGE).expect("space").off;
        let y = a.alloc(PAGE).expect("space").off;
        a.retire(x).expect("known");
        assert_eq!(a.retire(x), Err(FreeError::Retired));
        assert_eq!(a.alloc(1), Err(AllocError::NoSpace));
        assert_eq!(a.end_epoch(), 1);
        assert_eq!(a.alloc(1).expect("free again").off, x);
        a.retire(y).expect("known");
        a.free(y).expect("the peer has let go");
        assert_eq!(a.end_epoch(), 0);
        assert_eq!(a.free_bytes(), PAGE);
    }

    /// design 4.4
    #[test]
    fn senseless_requests_have_their_own_errors() {
        let mut a = arena(4 * PAGE, 1);
        assert_eq!(a.alloc(0), Err(AllocError::Zero));
        assert_eq!(a.alloc(u64::MAX), Err(AllocError::NoSpace));
        assert_eq!(a.free(0), Err(FreeError::Unknown));
        assert_eq!(a.retire(0), Err(FreeError::Unknown));
        a.alloc(1).expect("space");
        assert_eq!(a.alloc(1), Err(AllocError::TooMany));
    }

    /// design 4.4
    #[test]
    fn the_longest_run_is_what_can_still_be_cut() {
        let mut a = arena(8 * PAGE, 8);
        assert_eq!(a.largest(), 8 * PAGE);
        a.alloc(3 * PAGE).expect("space");
        let middle = a.alloc(1).expect("space").off;
        assert_eq!(a.largest(), 4 * PAGE);
        a.alloc(4 * PAGE).expect("space");
        assert_eq!(a.largest(), 0);
        a.retire(middle).expect("known");
        assert_eq!(a.largest(), 0);
        a.free(middle).expect("known");
        assert_eq!(a.largest(), PAGE);
    }

    proptest! {
        /// design 4.4, 4.11
        #[test]
        fn extents_never_overlap_and_no_page_is_lost(
            events in prop::collection::vec((0u8..4, 1u64..5 * PAGE, any::<prop::sample::Index>()), 0..200),
        ) {
            let mut a = arena(32 * PAGE, 16);
            for (what, len, which) in events {
                let all: Vec<Extent> = a.extents().copied().collect();
                let some = (!all.is_empty()).then(|| all[which.index(all.len())]);
                match (what, some) {
                    (0 | 1, _) => {
                        let got = a.alloc(len);
                        if let Err(AllocError::NoSpace) = got {
                            let mut start = 0;
                            for e in &all {
                                prop_assert!(e.off - start < len);
                                start = e.end();
                            }
                            prop_assert!(a.size() - start < len);
                        }
                    }
                    (2, Some(e)) => prop_assert_eq!(a.retire(e.off).is_ok(), !e.retired),
                    (3, Some(e)) if len % 7 != 0 => prop_assert_eq!(a.free(e.off), Ok(())),
                    (3, _) => {
                        let retired = all.iter().filter(|e| e.retired).count();
                        prop_assert_eq!(a.end_epoch(), retired);
                    }
                    _ => {}
                }
                let now: Vec<Extent> = a.extents().copied().collect();
                for pair in now.windows(2) {
                    prop_assert!(pair[0].end() <= pair[1].off);
                }
                prop_assert!(now.last().is_none_or(|e| e.end() <= a.size()));
                let used: u64 = now.iter().map(|e| e.end() - e.off).sum();
                prop_assert_eq!(a.free_bytes(), a.size() - used);
                let largest = a.largest();
                if now.len() < 16 {
                    prop_assert_eq!(a.alloc(largest + 1), Err(AllocError::NoSpace));
                    if largest > 0 {
                        let cut = a.alloc(largest).expect("the longest run").off;
                        a.free(cut).expect("just cut");
                    }
                }
            }
        }
    }
}
