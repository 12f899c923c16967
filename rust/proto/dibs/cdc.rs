// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The record by which a host's SMC-D reports on a connection: where it has produced to in the
//! partner's buffer, and where it has consumed to in its own.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0 | type, 0xfe |
//! | 8..16 | producer cursor: wraps (16 bits), count (32 bits), two bytes of zeros |
//! | 16..24 | consumer cursor, likewise, but for its last two bytes: flags of the producer, and of the connection |
//!
//! Numbers are in the order of the hosts' processors, which is the same on both. SMC uses the cursors of
//! its partner as they are: the count is an index into the buffer, and their difference the number of
//! bytes to read. It trusts the other kernel, as on a mainframe. Here a record is checked first, and says
//! which bytes of the landing place are [new](check).

use super::{Range, HEAD};

/// A record.
pub type Record = [u8; HEAD as usize];

/// Type of all records.
const TYPE: u8 = 0xfe;

/// No buffer of a partner is longer.
const MAX_CONSUMED: u32 = 16 << 20;

/// Offset of the word with the producer cursor.
pub const PRODUCER_AT: usize = 8;
/// Offset of the word with the consumer cursor and the flags.
pub const CONSUMER_AT: usize = 16;

/// Which byte of that word has the flags of the connection.
const STATE: usize = 7;
/// The partner has ended the connection before all data was received (`peer_conn_abort`).
const ABORT: u8 = 1 << 5;
/// Offset of those flags in a record.
const STATE_AT: usize = CONSUMER_AT + STATE;

/// Why a record is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Another type.
    Type,
    /// The producer's count is outside of the buffer.
    Outside,
    /// The producer has produced nothing that is behind what it had, or more than fits.
    Producer,
    /// Likewise, when nothing of the connection has been received yet: the record is of one that used the
    /// buffer before, and was still under way. See also [`Lives`].
    Late,
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

/// The flags by which the sender of a record has ended the connection, or its half. They stay set.
fn ended(record: &Record) -> u8 {
    record[STATE_AT]
}

/// Whether the sender of `old` may have sent `new` on the same connection, after that. One that has ended
/// in the very same way as the connection before is another one.
pub fn continues(old: &Record, new: &Record) -> bool {
    let leads = |at| Cursor::of(word(old, at)).leads_to(Cursor::of(word(new, at)));
    let is_again = ended(new) != 0 && old == new;
    leads(PRODUCER_AT) && leads(CONSUMER_AT) && ended(old) & !ended(new) == 0 && !is_again
}

/// Which connections a buffer has had, as its owner knows.
///
/// The client uses a buffer for one connection after the other, by the same token. When the last record of
/// a connection arrives, its owner may be done with it: the buffer is zero then, and the record would be
/// the first one of the next connection. So the sender counts connections, as far as it can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lives {
    last: Option<u16>,
}

impl Lives {
    /// None yet.
    pub const NONE: Lives = Lives { last: None };

    /// Whether a record of connection `life` is too late, when the first word of the buffer is `first`. One
    /// that does not end its connection is not: better a byte too much than one too few, if the sender has
    /// not noticed that a connection is another one.
    pub fn is_late(&self, life: u16, record: &Record, first: u64) -> bool {
        first == 0 && self.last == Some(life) && ended(record) != 0
    }

    /// A record of that connection has been received.
    pub fn received(&mut self, life: u16) {
        self.last = Some(life);
    }
}

/// The word with the consumer cursor after which SMC ends the connection with an error.
pub fn aborted(consumer: u64) -> u64 {
    let mut bytes = consumer.to_ne_bytes();
    bytes[STATE] |= ABORT;
    u64::from_ne_bytes(bytes)
}

/// Check a record that is for a buffer of `len` bytes, in which the word of the producer cursor is
/// `producer` now. The client sets that to zero when it uses the buffer for another connection. The result
/// is what has been produced, in order: up to the end of the buffer, and from its start.
///
/// # Errors
///
/// See [`Refused`].
pub fn check(record: &Record, producer: u64, len: u32) -> Result<[Option<Range>; 2], Refused> {
    if record[0] != TYPE {
        return Err(Refused::Type);
    }
    let room = len.saturating_sub(HEAD);
    let new = Cursor::of(word(record, PRODUCER_AT));
    if new.count >= room {
        return Err(Refused::Outside);
    }
    let old = Cursor::of(producer);
    if !old.leads_to(new) {
        return Err(match producer {
            0 => Refused::Late,
            _ => Refused::Producer,
        });
    }
    if Cursor::of(word(record, CONSUMER_AT)).count >= MAX_CONSUMED {
        return Err(Refused::Consumer);
    }
    let range = |from: u32, to: u32| Range::new(HEAD + from, to.saturating_sub(from));
    Ok(match new.wraps == old.wraps {
        true => [range(old.count, new.count), None],
        false => [range(old.count, room), range(0, new.count)],
    })
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
        check(&record(new, (0, 0)), cursor(old.0, old.1), LEN).map(drop)
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
        assert_eq!(producer((0, 1), (2, 0)), Err(Refused::Producer));
        assert_eq!(producer((1, 0), (0, 5)), Err(Refused::Producer));
    }

    /// The client has set the buffer to zero meanwhile. What could be a start is taken for one.
    #[test]
    fn a_record_of_the_connection_before_is_late() {
        assert_eq!(producer((0, 0), (1, 1)), Err(Refused::Late));
        assert_eq!(producer((0, 0), (2, 0)), Err(Refused::Late));
        assert_eq!(producer((0, 0), (u16::MAX, ROOM - 1)), Err(Refused::Late));
        assert_eq!(producer((0, 0), (1, 0)), Ok(()));
    }

    #[test]
    fn a_record_says_what_is_new() {
        let new = |old: (u16, u32), new| {
            let record = record(new, (0, 0));
            let ranges = check(&record, cursor(old.0, old.1), LEN).unwrap();
            ranges.map(|range| range.map(|r| (r.start(), r.len())))
        };
        assert_eq!(new((0, 7), (0, 7)), [None, None]);
        assert_eq!(new((0, 7), (0, 9)), [Some((HEAD + 7, 2)), None]);
        assert_eq!(new((0, 0), (1, 0)), [Some((HEAD, ROOM)), None]);
        let wrapped = [Some((LEN - 1, 1)), Some((HEAD, 3))];
        assert_eq!(new((4, ROOM - 1), (5, 3)), wrapped);
    }

    /// A record with these flags of the connection.
    fn ending(produced: u32, consumed: u32, flags: u8) -> Record {
        let mut record = record((0, produced), (0, consumed));
        record[STATE_AT] = flags;
        record
    }

    #[test]
    fn connections_are_told_from_each_other() {
        const CLOSED: u8 = 1 << 6;
        const DONE: u8 = 1 << 7;
        let old = ending(5, 3, 0);
        for same in [ending(5, 3, 0), ending(6, 3, 0), ending(5, 4, CLOSED)] {
            assert!(continues(&old, &same));
        }
        let old = ending(5, 3, DONE);
        for same in [ending(5, 4, DONE), ending(5, 3, DONE | CLOSED)] {
            assert!(continues(&old, &same));
        }
        // Flags and cursors never go back, and nobody ends twice.
        for other in [
            (9, 9, 0),
            (4, 3, DONE),
            (5, 2, DONE),
            (5, 3, CLOSED),
            (5, 3, DONE),
        ] {
            assert!(
                !continues(&old, &ending(other.0, other.1, other.2)),
                "{other:?}"
            );
        }
    }

    #[test]
    fn the_end_of_a_connection_is_not_that_of_the_next() {
        let (end, start) = (ending(5, 3, ABORT), ending(5, 3, 0));
        let mut lives = Lives::NONE;
        assert!(!lives.is_late(0, &end, 0));
        lives.received(0);
        // The client has it still.
        assert!(!lives.is_late(0, &end, words(&start)[0]));
        assert!(lives.is_late(0, &end, 0));
        assert!(!lives.is_late(1, &end, 0));
        assert!(!lives.is_late(0, &start, 0));
    }

    /// `smcd_cdc_msg_to_host` of the kernel: little-endian bitfields, the last byte of the consumer's word.
    #[test]
    fn a_connection_is_aborted_by_a_flag() {
        let old = u64::from_le_bytes([1, 0, 2, 0, 0, 0, 0x80, 0x40]);
        let new = u64::from_le_bytes([1, 0, 2, 0, 0, 0, 0x80, 0x60]);
        assert_eq!(aborted(old.to_le()), new.to_le());
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
        let consumed = |count| check(&record((0, 0), (0, count)), 0, LEN).map(drop);
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
                let new = check(&record, old, LEN);
                let len = |range: &Option<Range>| range.map_or(0, |r| u64::from(r.len()));
                let sum = new.map(|ranges| ranges.iter().map(len).sum::<u64>());
                prop_assert_eq!(sum, Ok(sent - told));
                old = words(&record)[1];
                told = sent;
                read += u64::from(consume).min(told - read);
            }
        }

        /// What is accepted is inside, and no more than a buffer ahead.
        #[test]
        fn what_is_accepted_is_inside(record: Record, old_wraps: u16, old_count in 0..ROOM) {
            let mut record = record;
            record[0] = TYPE;
            let old = cursor(old_wraps, old_count);
            if let Ok(ranges) = check(&record, old, LEN) {
                prop_assert!(ranges.iter().flatten().all(|range| range.is_inside(LEN)));
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
