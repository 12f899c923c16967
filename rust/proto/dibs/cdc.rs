// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The record by which a host's SMC-D reports on a connection: where it has produced to in the
//! partner's buffer, and where it has consumed to in its own.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0 | type, 0xfe |
//! | 8..16 | producer cursor: wraps (16 bits), count (32 bits), two bytes of flags |
//! | 16..24 | consumer cursor, likewise |
//!
//! Numbers are in the order of the hosts' processors, which is the same on both. SMC uses the cursors of
//! its partner as they are: the count is an index into the buffer, and their difference the number of
//! bytes to read. It trusts the other kernel, as on a mainframe. Here a record is checked first.

use super::HEAD;

/// A record.
pub type Record = [u8; HEAD as usize];

/// Type of all records.
const TYPE: u8 = 0xfe;

/// No buffer of a partner is longer.
const MAX_CONSUMED: u32 = 16 << 20;

/// Offset of the word with the producer cursor.
pub const PRODUCER_AT: usize = 8;
const CONSUMER_AT: usize = 16;

/// Why a record is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Another type.
    Type,
    /// The producer's count is outside of the buffer.
    Outside,
    /// The producer has produced nothing that is behind what it had, or more than fits.
    Producer,
    /// The consumer's count is outside of any buffer.
    Consumer,
}

/// A cursor without its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    wraps: u16,
    count: u32,
}

impl Cursor {
    fn of(word: u64) -> Cursor {
        let b = word.to_ne_bytes();
        Cursor {
            wraps: u16::from_ne_bytes([b[0], b[1]]),
            count: u32::from_ne_bytes([b[2], b[3], b[4], b[5]]),
        }
    }

    /// Whether `new` is at most `room` bytes ahead in a buffer of `room` bytes.
    fn leads_to(self, new: Cursor) -> bool {
        match new.wraps.wrapping_sub(self.wraps) {
            0 => new.count >= self.count,
            1 => new.count <= self.count,
            _ => false,
        }
    }
}

fn word(record: &Record, at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&record[at..at + 8]);
    u64::from_ne_bytes(bytes)
}

/// The words of a record, in the order of the buffer.
pub fn words(record: &Record) -> [u64; 4] {
    [0, 8, 16, 24].map(|at| word(record, at))
}

/// Check a record that is for a buffer of `len` bytes, in which the word of the producer cursor is
/// `producer` now. The client sets that to zero when it uses the buffer for another connection.
///
/// # Errors
///
/// See [`Refused`].
pub fn check(record: &Record, producer: u64, len: u32) -> Result<(), Refused> {
    if record[0] != TYPE {
        return Err(Refused::Type);
    }
    let room = len.saturating_sub(HEAD);
    let new = Cursor::of(word(record, PRODUCER_AT));
    if new.count >= room {
        return Err(Refused::Outside);
    }
    if !Cursor::of(producer).leads_to(new) {
        return Err(Refused::Producer);
    }
    if Cursor::of(word(record, CONSUMER_AT)).count >= MAX_CONSUMED {
        return Err(Refused::Consumer);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: u32 = 0x1_0000;
    const ROOM: u32 = LEN - HEAD;

    fn cursor(wraps: u16, count: u32) -> u64 {
        let [a, b] = wraps.to_ne_bytes();
        let [c, d, e, f] = count.to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, e, f, 0, 0])
    }

    /// What an honest partner sends.
    pub(crate) fn record(produced: (u16, u32), consumed: (u16, u32)) -> Record {
        let mut record = [0; HEAD as usize];
        record[0] = TYPE;
        record[8..16].copy_from_slice(&cursor(produced.0, produced.1).to_ne_bytes());
        record[16..24].copy_from_slice(&cursor(consumed.0, consumed.1).to_ne_bytes());
        record
    }

    fn producer(old: (u16, u32), new: (u16, u32)) -> Result<(), Refused> {
        check(&record(new, (0, 0)), cursor(old.0, old.1), LEN)
    }

    #[test]
    fn a_producer_gets_ahead_by_a_buffer_at_most() {
        assert_eq!(producer((0, 0), (0, 0)), Ok(()));
        assert_eq!(producer((0, 0), (0, ROOM - 1)), Ok(()));
        assert_eq!(producer((0, 0), (1, 0)), Ok(()));
        assert_eq!(producer((0, 7), (1, 7)), Ok(()));
        assert_eq!(producer((u16::MAX, 7), (0, 6)), Ok(()));
        assert_eq!(producer((0, 7), (1, 8)), Err(Refused::Producer));
        assert_eq!(producer((0, 7), (0, 6)), Err(Refused::Producer));
        assert_eq!(producer((0, 0), (2, 0)), Err(Refused::Producer));
        assert_eq!(producer((1, 0), (0, 5)), Err(Refused::Producer));
    }

    /// SMC reads the byte in front of the producer's cursor when it is urgent.
    #[test]
    fn a_count_outside_of_the_buffer_is_refused() {
        for count in [ROOM, ROOM + 1, LEN, 1 << 31, u32::MAX] {
            assert_eq!(producer((0, 0), (0, count)), Err(Refused::Outside));
            assert_eq!(producer((0, 0), (1, count)), Err(Refused::Outside));
        }
    }

    #[test]
    fn a_consumer_is_inside_of_a_buffer() {
        let consumed = |count| check(&record((0, 0), (0, count)), 0, LEN);
        assert_eq!(consumed(MAX_CONSUMED - 1), Ok(()));
        assert_eq!(consumed(MAX_CONSUMED), Err(Refused::Consumer));
        assert_eq!(consumed(u32::MAX), Err(Refused::Consumer));
    }

    #[test]
    fn other_types_are_refused() {
        let mut other = record((0, 0), (0, 0));
        other[0] = 0;
        assert_eq!(check(&other, 0, LEN), Err(Refused::Type));
    }

    #[test]
    fn words_are_those_of_the_buffer() {
        let record = record((1, 2), (3, 4));
        let words = words(&record);
        assert_eq!(words[1], cursor(1, 2));
        assert_eq!(words[2], cursor(3, 4));
        let bytes: std::vec::Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert_eq!(bytes, record);
    }

    proptest! {
        /// As SMC counts: a partner that respects its flow control is never refused, and one record in
        /// place of several is as good.
        #[test]
        fn an_honest_producer_is_never_refused(steps in proptest::collection::vec((0..=ROOM, 0..=ROOM, any::<bool>()), 1..200)) {
            let (mut sent, mut read, mut old) = (0u64, 0u64, 0u64);
            let mut told = 0u64;
            for (produce, consume, skip) in steps {
                sent += u64::from(produce).min(read + u64::from(ROOM) - sent);
                if skip {
                    continue;
                }
                let now = ((sent / u64::from(ROOM)) as u16, (sent % u64::from(ROOM)) as u32);
                let record = record(now, (0, 0));
                prop_assert_eq!(check(&record, old, LEN), Ok(()));
                old = words(&record)[1];
                told = told.max(sent);
                read += u64::from(consume).min(told - read);
            }
        }

        /// What is accepted is inside, and no more than a buffer ahead.
        #[test]
        fn what_is_accepted_is_inside(record: Record, old_wraps: u16, old_count in 0..ROOM) {
            let mut record = record;
            record[0] = TYPE;
            let old = cursor(old_wraps, old_count);
            if check(&record, old, LEN).is_ok() {
                let new = Cursor::of(words(&record)[1]);
                prop_assert!(new.count < ROOM);
                let ahead = match new.wraps == old_wraps {
                    true => i64::from(new.count) - i64::from(old_count),
                    false => i64::from(ROOM - old_count) + i64::from(new.count),
                };
                prop_assert!((0..=i64::from(ROOM)).contains(&ahead));
            }
        }
    }
}
