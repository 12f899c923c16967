// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The frames of the function, little-endian, all of it in the data:
//!
//! | bytes | Hello | Moved | Release, Gone | Event | Bye, Left |
//! |---|---|---|---|---|---|
//! | 0 | version | version | version | version | version |
//! | 1 | kind 1 | kind 2 | kind 3, 4 | kind 5 | kind 6, 7 |
//! | 2 | 1: answer | 0 | 0 | 0 | 0 |
//! | 3 | order of bytes | 0 | 0 | 0 | 0 |
//! | 4..6 | entries | signal | 0 | code | 0 |
//! | 6..8 | 0 | connection | 0 | code | 0 |
//! | 8..16 | place of the table | token | token | information | 0 |
//! | 16.. | name (16 bytes) | record (32 bytes) | | | |
//!
//! The record is that of the client, in the order of bytes of the processor: hosts of different orders do
//! not talk.

use super::cdc::Record;
use super::{Entry, Gid, Token, HEAD, MAX_SLOTS};
use crate::layout::PAGE;
use crate::reach::{Place, ARENA};

/// Version of the messages. Another one is refused.
pub const VERSION: u8 = 2;

/// Bytes of the part that all have.
const FRONT: usize = 16;

/// Most bytes of a message.
pub const MAX_SIZE: usize = FRONT + HEAD as usize;

/// The processor's order of bytes.
const ORDER: u8 = if cfg!(target_endian = "big") { 2 } else { 1 };

/// What a host says of its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Whether the peer is to say the same of its device.
    pub answer: bool,
    /// Entries of the table for the peer's buffers.
    pub slots: u16,
    /// Where it is in the arena that the peer reaches.
    pub table: u64,
    /// Name of the device.
    pub gid: Gid,
}

/// Data has been stored into the landing place of a buffer, and the client is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The buffer.
    pub token: Token,
    /// Which signal of it.
    pub signal: u16,
    /// Which one it is of the connections that have used the buffer, modulo 2^16.
    pub life: u16,
    /// What belongs to the head of the buffer. It says what has been stored.
    pub record: Record,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// What the sender's device is.
    Hello(Hello),
    /// Data has arrived.
    Moved(Moved),
    /// The sender has taken back a buffer: the entry is empty.
    Release(Token),
    /// The answer: nothing is stored there any more.
    Gone(Token),
    /// An event from the client to that of the peer.
    Event {
        /// Its code.
        code: u32,
        /// What the clients know of it.
        info: u64,
    },
    /// The sender's device goes: all its buffers are taken back, and those of the peer are written no
    /// more.
    Bye,
    /// The answer: nothing of the device is written any more.
    Left,
}

/// Why a message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Not the length that it should have.
    Length,
    /// Another version.
    Version(u8),
    /// No such kind.
    Kind,
    /// A field that has no such value.
    Field,
}

/// A message as it crosses.
pub struct Encoded {
    bytes: [u8; MAX_SIZE],
    len: usize,
}

impl Encoded {
    fn new(kind: u8) -> Self {
        let mut bytes = [0; MAX_SIZE];
        bytes[0] = VERSION;
        bytes[1] = kind;
        Self { bytes, len: FRONT }
    }

    fn word(mut self, word: u64) -> Self {
        self.bytes[8..16].copy_from_slice(&word.to_le_bytes());
        self
    }

    /// Add bytes, which fit by [`MAX_SIZE`].
    fn append(&mut self, more: &[u8]) {
        let end = self.len + more.len();
        self.bytes[self.len..end].copy_from_slice(more);
        self.len = end;
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Message {
    /// The bytes on the wire.
    pub fn encode(&self) -> Encoded {
        match self {
            Message::Hello(hello) => hello.encode(),
            Message::Moved(moved) => moved.encode(),
            Message::Release(token) => Encoded::new(3).word(token.raw()),
            Message::Gone(token) => Encoded::new(4).word(token.raw()),
            Message::Event { code, info } => {
                let mut event = Encoded::new(5).word(*info);
                event.bytes[4..8].copy_from_slice(&code.to_le_bytes());
                event
            }
            Message::Bye => Encoded::new(6),
            Message::Left => Encoded::new(7),
        }
    }

    /// The message in `bytes`, checked.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
        let (front, rest) = bytes
            .split_first_chunk::<FRONT>()
            .ok_or(Malformed::Length)?;
        if front[0] != VERSION {
            return Err(Malformed::Version(front[0]));
        }
        let word = u64::from_le_bytes([
            front[8], front[9], front[10], front[11], front[12], front[13], front[14], front[15],
        ]);
        let message = match front[1] {
            1 => return Hello::decode(front, word, rest).map(Message::Hello),
            2 => return Moved::decode(front, word, rest).map(Message::Moved),
            3 => Message::Release(Token::from_raw(word)),
            4 => Message::Gone(Token::from_raw(word)),
            5 => Message::Event {
                code: u32::from_le_bytes([front[4], front[5], front[6], front[7]]),
                info: word,
            },
            6 => Message::Bye,
            7 => Message::Left,
            _ => return Err(Malformed::Kind),
        };
        // What is reserved is zero.
        match rest.is_empty() && message.encode().bytes() == front {
            true => Ok(message),
            false => Err(Malformed::Field),
        }
    }
}

impl Hello {
    fn encode(&self) -> Encoded {
        let mut hello = Encoded::new(1).word(self.table);
        hello.bytes[2] = u8::from(self.answer);
        hello.bytes[3] = ORDER;
        hello.bytes[4..6].copy_from_slice(&self.slots.to_le_bytes());
        hello.append(&self.gid.0);
        hello
    }

    fn decode(front: &[u8; FRONT], table: u64, rest: &[u8]) -> Result<Hello, Malformed> {
        let gid = Gid(rest.try_into().map_err(|_| Malformed::Length)?);
        let slots = u16::from_le_bytes([front[4], front[5]]);
        let valid = front[2] <= 1
            && front[3] == ORDER
            && front[6..8] == [0; 2]
            && (1..=MAX_SLOTS).contains(&usize::from(slots))
            && gid.is_valid();
        let hello = Hello {
            answer: front[2] == 1,
            slots,
            table,
            gid,
        };
        valid.then_some(hello).ok_or(Malformed::Field)
    }

    /// Whether the table is in the arena of its owner, of which so many bytes are reached.
    pub fn is_reached(&self, reached: u64) -> bool {
        let Place { window, off } = Place::decode(self.table);
        let end = off.checked_add(u64::from(self.slots) * Entry::SIZE);
        window == ARENA && off % PAGE == 0 && end.is_some_and(|end| end <= reached)
    }
}

impl Moved {
    fn encode(&self) -> Encoded {
        let mut moved = Encoded::new(2).word(self.token.raw());
        moved.bytes[4..6].copy_from_slice(&self.signal.to_le_bytes());
        moved.bytes[6..8].copy_from_slice(&self.life.to_le_bytes());
        moved.append(&self.record);
        moved
    }

    fn decode(front: &[u8; FRONT], token: u64, rest: &[u8]) -> Result<Moved, Malformed> {
        let record = rest.try_into().map_err(|_| Malformed::Length)?;
        if front[2..4] != [0; 2] {
            return Err(Malformed::Field);
        }
        Ok(Moved {
            token: Token::from_raw(token),
            signal: u16::from_le_bytes([front[4], front[5]]),
            life: u16::from_le_bytes([front[6], front[7]]),
            record,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dibs::cdc;
    use crate::wire::PeerId;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn token() -> Token {
        Token::new(PeerId(0x0102), 0x034, 5).unwrap()
    }

    fn hello() -> Hello {
        Hello {
            answer: true,
            slots: 128,
            table: 0x3000,
            gid: Gid::new(PeerId(0x0304), [1, 2]).unwrap(),
        }
    }

    fn moved() -> Moved {
        Moved {
            token: token(),
            signal: 7,
            life: 9,
            record: cdc::tests::record((1, 2), (3, 4)),
        }
    }

    fn all() -> Vec<Message> {
        std::vec![
            Message::Hello(hello()),
            Message::Release(token()),
            Message::Gone(token()),
            Message::Event {
                code: 0x80,
                info: 9
            },
            Message::Bye,
            Message::Left,
            Message::Moved(moved()),
        ]
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for message in all() {
            let encoded = message.encode();
            assert_eq!(Message::decode(encoded.bytes()), Ok(message));
        }
    }

    #[test]
    fn hello_has_the_documented_layout() {
        let mut want = std::vec![2, 1, 1, ORDER, 128, 0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0];
        want.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4, 3]);
        assert_eq!(Message::Hello(hello()).encode().bytes(), want);
    }

    #[test]
    fn moved_has_the_documented_layout() {
        let mut want = std::vec![2, 2, 0, 0, 7, 0, 9, 0];
        want.extend(token().raw().to_le_bytes());
        want.extend(cdc::tests::record((1, 2), (3, 4)));
        assert_eq!(Message::Moved(moved()).encode().bytes(), want);
    }

    #[test]
    fn lengths_are_exact() {
        for message in all() {
            let mut bytes = message.encode().bytes().to_vec();
            bytes.push(0);
            assert!(Message::decode(&bytes).is_err(), "{message:?}");
            bytes.truncate(bytes.len() - 2);
            assert!(Message::decode(&bytes).is_err(), "{message:?}");
        }
        assert_eq!(Message::decode(&[]), Err(Malformed::Length));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Message::Bye.encode().bytes().to_vec();
        bytes[0] = 1;
        assert_eq!(Message::decode(&bytes), Err(Malformed::Version(1)));
    }

    #[test]
    fn the_table_is_in_what_is_reached() {
        let at = |table, slots| {
            Hello {
                table,
                slots,
                ..hello()
            }
            .is_reached(0x4000)
        };
        assert!(at(0x3000, 128));
        assert!(!at(0x3000, 129));
        assert!(!at(0x4000, 1));
        assert!(!at(0x3008, 1));
        assert!(!at(1 << 48, 1));
        assert!(!at(!0xfff, 128));
    }

    proptest! {
        /// design 2, never 5: what is accepted could have been sent.
        #[test]
        fn any_bytes_are_refused_or_consistent(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(message) = Message::decode(&bytes) {
                let again = message.encode();
                prop_assert_eq!(again.bytes(), bytes);
            }
        }

        /// As above, near valid messages.
        #[test]
        fn a_changed_byte_is_refused_or_consistent(which in 0usize..16, at in 0usize..80, with: u8) {
            let all = all();
            let mut bytes = all[which % all.len()].encode().bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = with;
            if let Ok(message) = Message::decode(&bytes) {
                let again = message.encode();
                prop_assert_eq!(again.bytes(), bytes);
            }
        }
    }
}
