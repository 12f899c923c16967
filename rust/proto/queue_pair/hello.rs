// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a side announces before anything else: the layout's versions and its own window.

use super::{Broken, Layout, SUPPORT};
use crate::memory::{Inbound, OutOfBounds, Outbound};
use crate::version::{Support, Terms};

/// Bits 31..0 of the first word of a Hello ("MPQP").
pub const MAGIC: u32 = 0x5051_504d;
/// Bytes of a Hello.
pub const HELLO_SIZE: usize = 128;
/// Words behind the first one that have content.
const WORDS: usize = 8;

/// A Hello, in words of 8 bytes at the start of the partner's window. Areas are those of the
/// writer's own window.
///
/// | word | bits 63..32 | bits 31..0 |
/// |---|---|---|
/// | 0 | announcement of versions ([`Support::encode`]) | magic |
/// | 1 | bytes of the window | |
/// | 2 | lines of the ring | offset of the ring |
/// | 3 | entries of the free ring | offset of the free ring |
/// | 4 | offset of the slots | |
/// | 5 | number of slots | bytes of each |
/// | 6 | offset of the buffers | |
/// | 7 | bytes of the buffers | |
/// | 8 | zero | streams that the reader may send on |
/// | 9 to 15 | zero, not looked at | |
///
/// Word 0 is stored last, behind a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// What the writer speaks.
    pub support: Support,
    /// The writer's window.
    pub layout: Layout,
}

fn two(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Hello {
    /// The Hello of this source for a window.
    pub fn new(layout: Layout) -> Hello {
        Hello {
            support: SUPPORT,
            layout,
        }
    }

    /// The words 1 to 8.
    fn words(&self) -> [u64; WORDS] {
        let l = &self.layout;
        [
            l.len,
            two(l.lines, l.lines_off),
            two(l.free, l.free_off),
            l.slots_off,
            two(l.slots, l.slot_size),
            l.buffers_off,
            l.buffers_len,
            u64::from(l.streams),
        ]
    }

    /// Tell the partner, once.
    ///
    /// # Errors
    /// [`OutOfBounds`] when its window is too small.
    pub fn tell(&self, out: &(impl Outbound + ?Sized)) -> Result<(), OutOfBounds> {
        let mut at = 8;
        for word in self.words() {
            out.store_u64(at, word)?;
            at += 8;
        }
        out.wmb();
        out.store_u64(0, two(self.support.encode(), MAGIC))?;
        out.mb();
        Ok(())
    }

    /// What the partner has told, and what the two sides agree on; nothing as long as it has not.
    /// `size` is how much of its window this side reaches.
    ///
    /// # Errors
    /// [`Broken::Magic`], [`Broken::Version`], [`Broken::Layout`].
    pub fn look(
        inb: &(impl Inbound + ?Sized),
        size: u64,
    ) -> Result<Option<(Hello, Terms)>, Broken> {
        let first = inb.load_u64(0)?;
        if first == 0 {
            return Ok(None);
        }
        if first as u32 != MAGIC {
            return Err(Broken::Magic);
        }
        inb.rmb();
        let announced = (first >> 32) as u32;
        let support = Some(announced).filter(|word| *word != 0);
        let support = support.and_then(|word| Support::decode(word, SUPPORT));
        let support = support.ok_or(Broken::Version)?;
        let terms = SUPPORT.agree(support).ok_or(Broken::Version)?;
        let mut words = [0; WORDS];
        let mut at = 8;
        for word in &mut words {
            *word = inb.load_u64(at)?;
            at += 8;
        }
        let [len, lines, free, slots_off, slots, buffers_off, buffers_len, streams] = words;
        let layout = Layout {
            len,
            lines_off: lines as u32,
            lines: (lines >> 32) as u32,
            free_off: free as u32,
            free: (free >> 32) as u32,
            slots_off,
            slot_size: slots as u32,
            slots: (slots >> 32) as u32,
            buffers_off,
            buffers_len,
            streams: u32::try_from(streams).map_err(|_| Broken::Layout)?,
        };
        layout.check(size).map_err(|_| Broken::Layout)?;
        Ok(Some((Hello { support, layout }, terms)))
    }
}
