// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The division of a window, which its owner plans and the partner checks.

use crate::memory::Part;

/// Bytes of a line, and the alignment of everything behind the header.
pub const LINE: u32 = 64;
/// Bytes of the header: Hello and control words.
pub const HEADER_SIZE: usize = 512;
/// Least lines of a ring. The longest inline message takes five, and a receiver keeps less than
/// a quarter to itself.
pub const MIN_LINES: u32 = 8;
/// Most lines of a ring.
pub const MAX_LINES: u32 = 1 << 20;
/// Most slots: their number has 16 bits in a line.
const MAX_SLOTS: u32 = 1 << 16;
/// Most streams: their number has 16 bits in a line.
const MAX_STREAMS: u32 = 1 << 16;

/// The window cannot be divided like that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLayout;

/// What an owner would like to have in its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    /// Lines of the ring, a power of two from [`MIN_LINES`] to [`MAX_LINES`].
    pub lines: u32,
    /// Entries of the free ring, a power of two: at least the partner's slots. Zero if this side
    /// fills no slots.
    pub free: u32,
    /// Receive slots, at most 65536.
    pub slots: u32,
    /// Bytes of a slot, a multiple of 64.
    pub slot_size: u32,
    /// Streams that the partner may send on, 1 to 65536.
    pub streams: u32,
}

/// How a window is divided. All offsets are multiples of 64 bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the window.
    pub len: u64,
    /// The line ring.
    pub lines_off: u32,
    /// Its lines.
    pub lines: u32,
    /// The free ring.
    pub free_off: u32,
    /// Its entries, or zero.
    pub free: u32,
    /// The receive slots.
    pub slots_off: u64,
    /// Bytes of each.
    pub slot_size: u32,
    /// Their number.
    pub slots: u32,
    /// The area of advertised buffers.
    pub buffers_off: u64,
    /// Its bytes.
    pub buffers_len: u64,
    /// Streams that the partner may send on.
    pub streams: u32,
}

fn power_of_two_in(n: u32, min: u32, max: u32) -> bool {
    n.is_power_of_two() && min <= n && n <= max
}

fn up(n: u64) -> Option<u64> {
    n.checked_next_multiple_of(u64::from(LINE))
}

impl Layout {
    /// Divide a window of `len` bytes: what is left behind ring and slots is for buffers.
    ///
    /// # Errors
    /// [`BadLayout`] when it does not fit.
    pub fn plan(len: u64, wants: &Wants) -> Result<Layout, BadLayout> {
        let layout = Self::divide(len, wants).ok_or(BadLayout)?;
        layout.check(len)?;
        Ok(layout)
    }

    fn divide(len: u64, wants: &Wants) -> Option<Layout> {
        let free_off = HEADER_SIZE as u64;
        let lines_off = up(free_off.checked_add(u64::from(wants.free) * 8)?)?;
        let slots_off = lines_off.checked_add(u64::from(wants.lines) * u64::from(LINE))?;
        let slots = u64::from(wants.slots).checked_mul(u64::from(wants.slot_size))?;
        let buffers_off = slots_off.checked_add(slots)?;
        Some(Layout {
            len,
            lines_off: lines_off.try_into().ok()?,
            lines: wants.lines,
            free_off: free_off.try_into().ok()?,
            free: wants.free,
            slots_off,
            slot_size: wants.slot_size,
            slots: wants.slots,
            buffers_off,
            buffers_len: len.checked_sub(buffers_off)?,
            streams: wants.streams,
        })
    }

    /// Whether this is a division of a window of `size` bytes.
    ///
    /// # Errors
    /// [`BadLayout`].
    pub fn check(&self, size: u64) -> Result<(), BadLayout> {
        let slots = u64::from(self.slots).checked_mul(u64::from(self.slot_size));
        let areas = [
            (
                u64::from(self.lines_off),
                u64::from(self.lines) * u64::from(LINE),
            ),
            (u64::from(self.free_off), u64::from(self.free) * 8),
            (self.slots_off, slots.ok_or(BadLayout)?),
            (self.buffers_off, self.buffers_len),
        ];
        let inside = |(off, len): &(u64, u64)| {
            *len == 0
                || (*off >= HEADER_SIZE as u64
                    && off % u64::from(LINE) == 0
                    && off.checked_add(*len).is_some_and(|end| end <= self.len))
        };
        let apart = areas.iter().enumerate().all(|(n, a)| {
            let mut others = areas.iter().skip(n + 1);
            others.all(|b| {
                a.1 == 0
                    || b.1 == 0
                    || a.0.saturating_add(a.1) <= b.0
                    || b.0.saturating_add(b.1) <= a.0
            })
        });
        let fits = self.len == size
            && usize::try_from(size).is_ok()
            && power_of_two_in(self.lines, MIN_LINES, MAX_LINES)
            && (self.free == 0 || power_of_two_in(self.free, 8, MAX_SLOTS))
            && self.slots <= MAX_SLOTS
            && self.slot_size % LINE == 0
            && (self.slots == 0 || self.slot_size != 0)
            && (1..=MAX_STREAMS).contains(&self.streams)
            && areas.iter().all(inside)
            && apart;
        fits.then_some(()).ok_or(BadLayout)
    }

    /// Where line `at` of the ring lies.
    #[inline]
    pub(crate) fn line(&self, at: u32) -> usize {
        self.lines_off as usize + at as usize * LINE as usize
    }

    /// Where entry `at` of the free ring lies.
    #[inline]
    pub(crate) fn free_entry(&self, at: u32) -> usize {
        self.free_off as usize + at as usize * 8
    }

    /// The bytes of a slot; `None` if there is none with that number.
    pub fn slot(&self, slot: u32) -> Option<Part> {
        (slot < self.slots).then(|| Part {
            off: (self.slots_off + u64::from(slot) * u64::from(self.slot_size)) as usize,
            len: self.slot_size as usize,
        })
    }

    /// `len` bytes from `off` on in the area of advertised buffers; `None` if they do not lie
    /// there.
    pub fn buffer(&self, off: u64, len: u32) -> Option<Part> {
        let end = off.checked_add(u64::from(len))?;
        (end <= self.buffers_len).then(|| Part {
            off: (self.buffers_off + off) as usize,
            len: len as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTS: Wants = Wants {
        lines: 16,
        free: 8,
        slots: 4,
        slot_size: 256,
        streams: 3,
    };

    #[test]
    fn a_page_is_enough_for_a_small_pair() {
        let layout = Layout::plan(4096, &WANTS).expect("fits");
        assert_eq!((layout.free_off, layout.lines_off), (512, 576));
        assert_eq!((layout.slots_off, layout.buffers_off), (1600, 2624));
        assert_eq!(layout.buffers_len, 4096 - 2624);
        assert_eq!(layout.slot(3).map(|p| (p.off, p.len)), Some((2368, 256)));
        assert_eq!(layout.slot(4), None);
        assert_eq!(layout.buffer(1472, 0).map(|p| p.len), Some(0));
        assert_eq!(layout.buffer(1472, 1), None);
        assert_eq!(layout.buffer(u64::MAX, 1), None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let bad = [
            Wants { lines: 4, ..WANTS },
            Wants { lines: 24, ..WANTS },
            Wants { free: 12, ..WANTS },
            Wants {
                slot_size: 100,
                ..WANTS
            },
            Wants {
                slot_size: 0,
                ..WANTS
            },
            Wants {
                slots: 65_537,
                ..WANTS
            },
            Wants {
                streams: 0,
                ..WANTS
            },
            Wants {
                streams: 65_537,
                ..WANTS
            },
            Wants { slots: 10, ..WANTS },
        ];
        for wants in bad {
            assert_eq!(Layout::plan(4096, &wants), Err(BadLayout), "{wants:?}");
        }
        let good = Layout::plan(4096, &WANTS).expect("fits");
        let bad = [
            Layout { len: 8192, ..good },
            Layout {
                lines_off: 0,
                ..good
            },
            Layout {
                lines_off: 577,
                ..good
            },
            Layout {
                slots_off: 1024,
                ..good
            },
            Layout {
                slots_off: u64::MAX - 63,
                ..good
            },
            Layout {
                buffers_len: good.buffers_len + 1,
                ..good
            },
            Layout { slots: 5, ..good },
        ];
        for layout in bad {
            assert_eq!(layout.check(4096), Err(BadLayout), "{layout:?}");
        }
    }
}
