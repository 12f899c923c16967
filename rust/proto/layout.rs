// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! How the inbound memory of one peer is divided: status page, control ring, data rings, arena
//! (design 4.4).
//!
//! The owner of the memory plans it and announces the plan in its [`Hello`](crate::link::Hello);
//! the peer checks the plan against the window through which it reaches that memory. The status
//! page is the same for everybody:
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0x000 | 128 | the peer's Hello |
//! | 0x100 | 8 | the peer's heartbeat |
//! | 0x200 + 128 r | 64 | ring r, owner receives: `prod`, `want_space` |
//! | 0x240 + 128 r | 64 | ring r, owner sends: `cons`, `want_data` |
//! | 0x700 + 16 e | 16 | where the peer's exposed window e leads: address, length |
//!
//! Ring 0 is the control ring, rings 1 to [`MAX_QUEUES`] are data rings. The two words of a line
//! have the same writer and the same reader.

use crate::reach::MAX_EXPOSED;
use crate::ring::{Place, MAX_RING, MIN_RING};

/// Bytes of the status page.
pub const STATUS_LEN: usize = 4096;
/// Offset of the peer's Hello in the status page.
pub const HELLO_OFF: usize = 0;
/// Offset of the peer's heartbeat word in the status page.
pub const BEAT_OFF: usize = 0x100;
/// Offset of the first ring's control words in the status page.
const WORDS_OFF: usize = 0x200;
/// Control words of one ring: a line for either direction.
const WORDS_LEN: usize = 128;
/// Offset of the first exposed window's words in the status page.
const TARGETS_OFF: usize = 0x700;
/// Words of one exposed window.
const TARGET_LEN: usize = 16;

/// Most data rings.
pub const MAX_QUEUES: u32 = 8;
/// Most rings, the control ring included.
pub const MAX_RINGS: u32 = MAX_QUEUES + 1;
/// Number of the control ring.
pub const CONTROL_RING: u32 = 0;

/// Smallest inbound memory in bytes.
pub const MIN_LEN: u64 = 64 << 10;
/// Largest inbound memory in bytes (1 TiB).
pub const MAX_LEN: u64 = 1 << 40;
/// Granule of the inbound memory and the arena in bytes.
pub const PAGE: u64 = 4096;

const MAX_DATA_RING: u64 = 4 << 20;
const MAX_CONTROL_RING: u64 = 64 << 10;
/// A further data ring is worth it only if each keeps this much.
const GOOD_DATA_RING: u64 = 256 << 10;
/// Up to this length the rings may take three quarters of the memory, above it one half.
const SMALL_LEN: u64 = 1 << 20;

/// Offsets of a ring's control words in the status page of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// The side receives over this ring: units published by the peer.
    pub prod: usize,
    /// The side receives over this ring: the peer's event index.
    pub want_space: usize,
    /// The side sends over this ring: units given back by the peer.
    pub cons: usize,
    /// The side sends over this ring: the peer's event index.
    pub want_data: usize,
}

/// Where the control words of ring `ring` lie; `None` for a ring that cannot be.
pub const fn words(ring: u32) -> Option<Words> {
    if ring >= MAX_RINGS {
        return None;
    }
    let at = WORDS_OFF + WORDS_LEN * ring as usize;
    Some(Words {
        prod: at,
        want_space: at + 8,
        cons: at + 64,
        want_data: at + 72,
    })
}

/// Where the words of the peer's exposed window `window`, counted from zero, lie in the status
/// page: address, then length; `None` for a window that cannot be. See [`crate::target`].
pub const fn target(window: u32) -> Option<usize> {
    if window >= MAX_EXPOSED {
        return None;
    }
    Some(TARGETS_OFF + TARGET_LEN * window as usize)
}

/// The inbound memory is too small for a status page and two rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSmall;

/// What is wrong with a layout that a peer announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadLayout {
    /// The memory is smaller than [`MIN_LEN`], larger than the window or not whole pages.
    Length,
    /// A ring's size is not a power of two in range, or its place is not aligned.
    Ring,
    /// No data ring, or more than [`MAX_QUEUES`].
    Queues,
    /// Two areas overlap, or one lies outside the memory.
    Overlap,
}

/// The division of an inbound memory; all offsets in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Length of the whole memory.
    pub len: u64,
    /// Start of the control ring.
    pub control_off: u64,
    /// Bytes of the control ring.
    pub control_size: u32,
    /// Bytes of each data ring.
    pub data_size: u32,
    /// Start of the first data ring; the others follow without gaps.
    pub data_off: u64,
    /// Number of data rings.
    pub queues: u32,
    /// Start of the arena.
    pub arena_off: u64,
    /// Bytes of the arena, may be zero.
    pub arena_len: u64,
}

impl Layout {
    /// Divide `len` bytes, with `wanted` data rings if they keep a useful size.
    ///
    /// # Errors
    /// [`TooSmall`] below [`MIN_LEN`].
    pub fn plan(len: u64, wanted: u32) -> Result<Layout, TooSmall> {
        if len < MIN_LEN {
            return Err(TooSmall);
        }
        let len = len.min(MAX_LEN) & !(PAGE - 1);
        let control = floor_pow2(len / 16).clamp(PAGE, MAX_CONTROL_RING);
        let rings = if len <= SMALL_LEN {
            len / 4 * 3
        } else {
            len / 2
        };
        let budget = rings - STATUS_LEN as u64 - control;
        let mut queues = u64::from(wanted.clamp(1, MAX_QUEUES));
        while queues > 1 && floor_pow2(budget / queues) < GOOD_DATA_RING {
            queues -= 1;
        }
        let data = floor_pow2(budget / queues).min(MAX_DATA_RING);
        let control_off = STATUS_LEN as u64;
        let data_off = control_off + control;
        let arena_off = data_off + queues * data;
        Ok(Layout {
            len,
            control_off,
            control_size: u32::try_from(control).map_err(|_| TooSmall)?,
            data_size: u32::try_from(data).map_err(|_| TooSmall)?,
            data_off,
            queues: u32::try_from(queues).map_err(|_| TooSmall)?,
            arena_off,
            arena_len: len - arena_off,
        })
    }

    /// Check a layout that a peer announced for memory that is reached through a window of
    /// `window` bytes.
    ///
    /// # Errors
    /// See [`BadLayout`].
    pub fn validate(&self, window: u64) -> Result<(), BadLayout> {
        let whole = self.len % PAGE == 0 && self.len <= MAX_LEN;
        if !whole || self.len < MIN_LEN || self.len > window {
            return Err(BadLayout::Length);
        }
        if !good_ring(self.control_size, self.control_off)
            || !good_ring(self.data_size, self.data_off)
        {
            return Err(BadLayout::Ring);
        }
        if !(1..=MAX_QUEUES).contains(&self.queues) {
            return Err(BadLayout::Queues);
        }
        let areas = [
            (0, STATUS_LEN as u64),
            (self.control_off, u64::from(self.control_size)),
            (
                self.data_off,
                u64::from(self.data_size) * u64::from(self.queues),
            ),
            (self.arena_off, self.arena_len),
        ];
        let arena_pages = (self.arena_off | self.arena_len) % PAGE == 0;
        if !arena_pages || !disjoint_inside(&areas, self.len) {
            return Err(BadLayout::Overlap);
        }
        Ok(())
    }

    /// Where ring `ring` lies, for both its ends: the memory of this layout is the consumer's.
    /// `None` when there is no such ring.
    pub fn ring(&self, ring: u32) -> Option<Place> {
        let words = words(ring)?;
        let (off, size) = if ring == CONTROL_RING {
            (self.control_off, self.control_size)
        } else if ring <= self.queues {
            let skip = u64::from(ring - 1) * u64::from(self.data_size);
            (self.data_off.checked_add(skip)?, self.data_size)
        } else {
            return None;
        };
        Some(Place {
            data: usize::try_from(off).ok()?,
            size,
            prod: words.prod,
            want_space: words.want_space,
            cons: words.cons,
            want_data: words.want_data,
        })
    }
}

/// The largest power of two that is at most `x`, and 1 for 0.
const fn floor_pow2(x: u64) -> u64 {
    match x.checked_ilog2() {
        Some(n) => 1 << n,
        None => 1,
    }
}

fn good_ring(size: u32, off: u64) -> bool {
    size.is_power_of_two() && (MIN_RING..=MAX_RING).contains(&size) && off % 64 == 0
}

/// Whether all areas, given as offset and length, lie inside `len` bytes and none meets another.
fn disjoint_inside(areas: &[(u64, u64)], len: u64) -> bool {
    areas.iter().enumerate().all(|(i, &(off, size))| {
        let Some(end) = off.checked_add(size) else {
            return false;
        };
        let apart = areas.iter().skip(i + 1).all(|&(o, s)| {
            o.checked_add(s).is_some_and(|e| e <= off) || o >= end || s == 0 || size == 0
        });
        end <= len && apart
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// design 4.4
    #[test]
    fn the_smallest_window_holds_one_data_ring_of_32_kib() {
        let l = Layout::plan(MIN_LEN, 8).expect("64 KiB is enough");
        assert_eq!((l.queues, l.data_size, l.control_size), (1, 32 << 10, 4096));
        assert_eq!(Layout::plan(MIN_LEN - 1, 1), Err(TooSmall));
    }

    /// design 4.4
    #[test]
    fn one_good_ring_is_preferred_over_several_tiny_ones() {
        let l = Layout::plan(1 << 20, 4).expect("fits");
        assert_eq!((l.queues, l.data_size), (2, 256 << 10));
        let l = Layout::plan(4 << 20, 4).expect("fits");
        assert_eq!((l.queues, l.data_size), (4, 256 << 10));
        let l = Layout::plan(1 << 30, 8).expect("fits");
        assert_eq!((l.queues, l.data_size), (8, 4 << 20));
    }

    /// design 4.4
    #[test]
    fn words_of_all_rings_and_windows_fit_into_the_status_page() {
        let last = words(MAX_RINGS - 1).expect("exists");
        assert!(last.want_data + 8 <= STATUS_LEN);
        assert_eq!(words(MAX_RINGS), None);
        assert!(last.want_data + 8 <= TARGETS_OFF);
        let last = target(MAX_EXPOSED - 1).expect("exists");
        assert!(last + TARGET_LEN <= STATUS_LEN);
        assert_eq!(target(MAX_EXPOSED), None);
    }

    /// design 2, never 5
    #[test]
    fn overlapping_areas_are_refused() {
        let good = Layout::plan(1 << 20, 2).expect("fits");
        assert_eq!(good.validate(1 << 20), Ok(()));
        assert_eq!(good.validate((1 << 20) - 1), Err(BadLayout::Length));
        let on_status = Layout {
            control_off: 0,
            ..good
        };
        assert_eq!(on_status.validate(1 << 20), Err(BadLayout::Overlap));
        let on_rings = Layout {
            arena_off: good.data_off,
            ..good
        };
        assert_eq!(on_rings.validate(1 << 20), Err(BadLayout::Overlap));
        let beyond = Layout {
            arena_len: u64::MAX - 4095,
            ..good
        };
        assert_eq!(beyond.validate(1 << 20), Err(BadLayout::Overlap));
        let odd = Layout {
            data_size: 5000,
            ..good
        };
        assert_eq!(odd.validate(1 << 20), Err(BadLayout::Ring));
        let none = Layout { queues: 0, ..good };
        assert_eq!(none.validate(1 << 20), Err(BadLayout::Queues));
    }

    proptest! {
        /// design 4.4
        #[test]
        fn every_plan_passes_the_peers_check(len in MIN_LEN..1u64 << 42, wanted: u32) {
            let l = Layout::plan(len, wanted).expect("large enough");
            prop_assert_eq!(l.validate(len), Ok(()));
            let share = if len <= SMALL_LEN { l.len / 4 * 3 } else { l.len / 2 };
            prop_assert!(l.arena_off <= share);
            for r in 0..=l.queues {
                prop_assert!(l.ring(r).expect("exists").check().is_ok());
            }
            prop_assert_eq!(l.ring(l.queues + 1), None);
        }

        /// design 2, never 5
        #[test]
        fn a_layout_that_passes_the_check_has_usable_rings(
            v in prop::array::uniform8(prop_oneof![
                any::<u64>(), 0u64..1 << 21, (6u32..32).prop_map(|n| 1u64 << n)
            ]),
            window in MIN_LEN..1 << 22,
        ) {
            let l = Layout {
                len: v[0], control_off: v[1], control_size: v[2] as u32, data_size: v[3] as u32,
                data_off: v[4], queues: v[5] as u32, arena_off: v[6], arena_len: v[7],
            };
            if l.validate(window).is_ok() {
                for r in 0..=l.queues {
                    let p = l.ring(r).expect("exists");
                    prop_assert!(p.check().is_ok());
                    prop_assert!((p.data as u64 + u64::from(p.size)) <= window);
                }
            }
        }
    }
}
