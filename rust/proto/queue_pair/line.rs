// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The codec of lines: 56 bytes of content in eight words that each carry a tag.

use super::Broken;

/// Content bytes of a line.
pub(crate) const CONTENT: usize = 56;
/// Content bytes of the first line of a message before those that depend on the operation.
pub(crate) const HEAD: usize = 16;
/// Most bytes of the layer above beside data in a slot.
pub const EXTRA_MAX: usize = CONTENT - HEAD;
/// Most bytes of the layer above beside data in an advertised buffer.
pub const PLACED_EXTRA_MAX: usize = EXTRA_MAX - PLACE;
/// Most data bytes of an inline message: five lines.
pub const INLINE_MAX: usize = EXTRA_MAX + 4 * CONTENT;
/// Bytes that say where something was placed.
pub(crate) const PLACE: usize = 12;
/// Content bits of a word.
const BITS: u64 = (1 << 56) - 1;

/// Content with room behind it, so that each word can be taken from eight bytes.
pub(crate) type Content = [u8; 64];

/// Whether the message has immediate data.
const IMMEDIATE: u8 = 1;
/// Whether another part follows.
const MORE: u8 = 2;

/// How the data of a message travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// In lines.
    Inline = 1,
    /// In a receive slot.
    Slot = 2,
    /// In an advertised buffer.
    Placed = 3,
    /// There is none: a buffer is advertised.
    Advertise = 4,
}

/// What every message has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The stream, below the number that the reader has announced.
    pub stream: u16,
    /// Of the layer above.
    pub kind: u8,
    /// Whether more parts of the message follow on the stream.
    pub more: bool,
    /// Immediate data.
    pub immediate: Option<u32>,
}

/// The first 16 bytes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) head: Head,
    pub(crate) operation: Operation,
    pub(crate) slot: u16,
    pub(crate) len: u32,
}

impl First {
    #[inline]
    pub(crate) fn encode(&self) -> [u8; HEAD] {
        let h = &self.head;
        let flags = if h.immediate.is_some() { IMMEDIATE } else { 0 };
        let flags = flags | if h.more { MORE } else { 0 };
        let low = self.operation as u64
            | u64::from(flags) << 8
            | u64::from(h.kind) << 16
            | u64::from(h.stream) << 32
            | u64::from(self.slot) << 48;
        let high = u64::from(self.len) | u64::from(h.immediate.unwrap_or(0)) << 32;
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }

    #[inline]
    pub(crate) fn decode(bytes: &[u8; HEAD]) -> Result<First, Broken> {
        let words = u128::from_le_bytes(*bytes);
        let (low, high) = (words as u64, (words >> 64) as u64);
        let [operation, flags, kind, zero, ..] = low.to_le_bytes();
        let operation = match operation {
            1 => Operation::Inline,
            2 => Operation::Slot,
            3 => Operation::Placed,
            4 => Operation::Advertise,
            _ => return Err(Broken::Operation),
        };
        let immediate = (high >> 32) as u32;
        let slot = (low >> 48) as u16;
        let has = flags & IMMEDIATE != 0;
        if zero != 0
            || flags & !(IMMEDIATE | MORE) != 0
            || (!has && immediate != 0)
            || (slot != 0 && operation != Operation::Slot)
        {
            return Err(Broken::Operation);
        }
        Ok(First {
            head: Head {
                stream: (low >> 32) as u16,
                kind,
                more: flags & MORE != 0,
                immediate: has.then_some(immediate),
            },
            operation,
            slot,
            len: high as u32,
        })
    }
}

/// Lines of an inline message of `len` bytes.
#[inline]
pub fn lines_for(len: usize) -> u32 {
    1 + len.saturating_sub(EXTRA_MAX).div_ceil(CONTENT) as u32
}

/// The words of a line.
#[inline]
pub(crate) fn pack(content: &Content, tag: u8) -> [u64; 8] {
    let mut line = [0; 8];
    let tag = u64::from(tag) << 56;
    for (n, word) in line.iter_mut().enumerate() {
        let bytes = content.get(7 * n..).and_then(|b| b.first_chunk());
        let bits = bytes.map_or(0, |b| u64::from_le_bytes(*b));
        *word = tag | bits & BITS;
    }
    line
}

/// Put the content of word `n` of a line where it belongs, and zero behind it.
#[inline]
pub(crate) fn unpack(content: &mut Content, n: usize, word: u64) {
    let room = content.get_mut(7 * n..);
    if let Some(room) = room.and_then(|b| b.first_chunk_mut()) {
        *room = (word & BITS).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forty_bytes_are_one_line_and_an_eager_message_five() {
        assert_eq!((EXTRA_MAX, PLACED_EXTRA_MAX, INLINE_MAX), (40, 28, 264));
        let lens = [0, 1, 40, 41, 96, 97, INLINE_MAX];
        assert_eq!(lens.map(lines_for), [1, 1, 1, 2, 2, 3, 5]);
    }

    proptest! {
        #[test]
        fn content_survives_the_words(bytes: [u8; 32], more: [u8; 24], tag in 1u8..255) {
            let mut content = [0; 64];
            content[..32].copy_from_slice(&bytes);
            content[32..CONTENT].copy_from_slice(&more);
            let line = pack(&content, tag);
            let mut back = [0xa5; 64];
            for (n, word) in line.into_iter().enumerate() {
                prop_assert_eq!((word >> 56) as u8, tag);
                unpack(&mut back, n, word);
            }
            prop_assert_eq!(&back[..CONTENT], &content[..CONTENT]);
        }

        /// design 2, never 5
        #[test]
        fn a_head_survives_the_wire_and_other_bytes_are_none(bytes: [u8; HEAD], op in 1u8..5) {
            let mut near = bytes;
            near[0] = op;
            near[1] &= 3;
            near[3] = 0;
            for bytes in [bytes, near] {
                if let Ok(first) = First::decode(&bytes) {
                    prop_assert_eq!(first.encode(), bytes);
                }
            }
        }
    }
}
