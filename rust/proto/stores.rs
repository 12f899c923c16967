// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Stores of processes that are sent, as no window leads to the memory of the peer: the data of a
//! frame with [`Header::Stores`](crate::fabric::Header::Stores).
//!
//! It has one record behind the other, each of a head ([`Record`]), the bytes to be stored, and
//! zeros up to a multiple of 8. The receiver makes the stores in that order, and nothing else: as
//! through a window, the place is an offset in the arena that the receiver has for the sender,
//! and all of that is the sender's to write.

use crate::wire::{get_u32, get_u64, put_u32, put_u64};

/// Bytes that records are multiples of.
const UNIT: usize = 8;

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Where in the arena the first byte goes.
    pub off: u64,
    /// Bytes that are stored.
    pub len: u32,
}

impl Record {
    /// Bytes of a head.
    pub const SIZE: usize = 16;

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut b = [0; Self::SIZE];
        put_u64(&mut b, 0, self.off);
        put_u32(&mut b, 8, self.len);
        b
    }

    /// The head in `b`; `None` if it is none.
    pub fn decode(b: &[u8; Self::SIZE]) -> Option<Record> {
        let record = Record {
            off: get_u64(b, 0),
            len: get_u32(b, 8),
        };
        (get_u32(b, 12) == 0 && record.len != 0).then_some(record)
    }

    /// Zeros behind its bytes.
    pub fn padding(&self) -> usize {
        (self.len as usize).wrapping_neg() % UNIT
    }

    /// Bytes of all of it.
    pub fn size(&self) -> usize {
        (Self::SIZE + self.padding()).saturating_add(self.len as usize)
    }
}

/// How many of `len` bytes go into a record that is to take at most `room` bytes; the others go
/// into the next frame. All of them if they have room, else a multiple of 8, which may be none.
pub fn part(room: usize, len: u64) -> u32 {
    let most = room.saturating_sub(Record::SIZE) / UNIT * UNIT;
    len.min(most as u64).min(1 << 31) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// design 2, never 5
        #[test]
        fn heads_survive_the_wire(b: [u8; Record::SIZE]) {
            let mut b = b;
            b[12..].fill(0);
            match Record::decode(&b) {
                Some(record) => prop_assert_eq!(record.encode(), b),
                None => prop_assert_eq!(&b[8..12], &[0; 4]),
            }
            b[15] = 1;
            prop_assert_eq!(Record::decode(&b), None);
        }

        #[test]
        fn parts_fill_frames_and_lose_no_byte(room in 24usize..5000, len in 1u64..20_000, off in 0u64..64) {
            let (mut at, end) = (off, off + len);
            while at < end {
                let record = Record { off: at, len: part(room, end - at) };
                prop_assert!(record.len != 0 && record.size() <= room);
                prop_assert!(record.size() % UNIT == 0);
                at += u64::from(record.len);
                // What follows begins as this one did: a word is never divided.
                prop_assert!(at == end || (at - off) % (UNIT as u64) == 0);
            }
            prop_assert_eq!(at, end);
        }

        #[test]
        fn without_room_for_a_word_nothing_goes_into_a_frame(room in 0usize..24, len: u64) {
            prop_assert_eq!(part(room, len), 0);
        }
    }
}
