// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the sharing engines of two hosts tell each other: 32 bytes, little-endian. Behind a
//! message that asks for an object by its name comes the name.
//!
//! Codecs only: a decoded message holds whatever the peer wrote, and the engine checks it.

use crate::name::{Name, NAME_MAX};
use crate::sharing::placed::Totals;
use crate::sharing::requests::Request;
use crate::sharing::{Grant, Object, Rights, Want, Why};
use crate::wire::{get_u32, get_u64, put_u32, put_u64, Bytes};

/// A message between sharing engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The writer's process would like to be connected, to what has that name unless it is none.
    Connect(Want, Name),
    /// The writer had that connection before the link was lost, to what has that token.
    Resume(Want, u32),
    /// The writer has resumed all that it had.
    Resumed,
    /// The writer's process has left; so many messages has it sent altogether, if both services
    /// have [`MESSAGES`](crate::fabric::MESSAGES).
    Leave(u32),
    /// The writer's process does not reach the memory of a connection that was ended.
    Gone,
    /// The reader's connection is there.
    Connected(Grant),
    /// It is not.
    Refused(Why),
    /// The owner asks the reader's process to leave.
    Withdrawn,
    /// The owner has ended the reader's connection.
    Ended,
    /// Are you there?
    Ask,
    /// Yes, and all that was stored before the question is.
    Answer,
    /// The reader's connection: so many messages have been taken altogether.
    Taken(u32),
    /// The reader's connection: so many pieces that it has written have been dealt with.
    Placed(Totals),
    /// The writer's connection: its process would like to read that piece.
    Fetch(Request),
}

impl What {
    /// Whether it answers that a process would like to be connected, or was.
    pub fn is_answer(&self) -> bool {
        matches!(self, What::Connected(_) | What::Refused(_))
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The connection, by the number of the host whose process has it; or the question's number.
    pub connection: u32,
    /// The message itself.
    pub what: What,
}

/// Size of a message on the wire, in bytes.
pub const SIZE: usize = 32;

/// Size of one with the longest name.
pub const SIZE_NAMED: usize = SIZE + NAME_MAX;

const CONNECT: u32 = 1;
const RESUME: u32 = 2;
const RESUMED: u32 = 3;
const LEAVE: u32 = 4;
const GONE: u32 = 5;
const CONNECTED: u32 = 6;
const REFUSED: u32 = 7;
const WITHDRAWN: u32 = 8;
const ENDED: u32 = 9;
const ASK: u32 = 10;
const ANSWER: u32 = 11;
const TAKEN: u32 = 12;
const PLACED: u32 = 13;
const FETCH: u32 = 14;

/// In the first word: it must be an event that counts.
const COUNTED: u32 = 1 << 16;
/// In the first word: a segment that is granted to one partner.
const GRANTED: u32 = 1 << 18;
/// In the first word: a name follows, which stands for the number.
const NAMED: u32 = 1 << 19;

/// Rights, as a word has them in which no bit means all.
const READ: u32 = 1;
const WRITE: u32 = 2;

/// In the first word: no window has to lead to the segment.
const UNWINDOWED: u32 = 1 << 17;

impl Message {
    /// The bytes on the wire.
    pub fn encode(&self) -> Bytes<SIZE_NAMED> {
        let mut b = [0; SIZE];
        let mut behind = Name::NONE;
        let kind = match self.what {
            What::Connect(want, name) => {
                behind = name;
                let named = u32::from(!name.is_none()) * NAMED;
                CONNECT | named | put_want(&mut b, &want)
            }
            What::Resume(want, token) => {
                put_u32(&mut b, 12, token);
                RESUME | put_want(&mut b, &want)
            }
            What::Resumed => RESUMED,
            What::Leave(sent) => {
                put_u32(&mut b, 8, sent);
                LEAVE
            }
            What::Gone => GONE,
            What::Connected(grant) => {
                put_u32(&mut b, 8, rights_to_word(grant.rights));
                put_u32(&mut b, 12, grant.token);
                put_u64(&mut b, 16, grant.off);
                put_u64(&mut b, 24, grant.len);
                CONNECTED
            }
            What::Refused(why) => {
                let why = match why {
                    Why::NotFound | Why::Down => 1,
                    Why::Refused => 2,
                    Why::Unreachable => 3,
                };
                put_u32(&mut b, 8, why);
                REFUSED
            }
            What::Withdrawn => WITHDRAWN,
            What::Ended => ENDED,
            What::Ask => ASK,
            What::Answer => ANSWER,
            What::Taken(total) => {
                put_u32(&mut b, 8, total);
                TAKEN
            }
            What::Placed(totals) => {
                put_u32(&mut b, 8, totals.done);
                put_u32(&mut b, 12, totals.failed);
                put_u32(&mut b, 16, totals.missed);
                put_u32(&mut b, 20, totals.refused);
                PLACED
            }
            What::Fetch(request) => {
                put_u32(&mut b, 8, request.number);
                put_u32(&mut b, 12, request.len);
                put_u64(&mut b, 16, request.at);
                FETCH
            }
        };
        put_u32(&mut b, 0, kind);
        put_u32(&mut b, 4, self.connection);
        Bytes::new(&b, behind.bytes())
    }

    /// The message in `b`; `None` if it is none. Only the form is checked.
    pub fn decode(b: &[u8]) -> Option<Message> {
        let (b, behind) = b.split_first_chunk::<SIZE>()?;
        let word = get_u32(b, 0);
        let name = match (word & 0xff, word & NAMED, behind) {
            (CONNECT, NAMED, [_, ..]) => Name::new(behind)?,
            (CONNECT, NAMED, []) => return None,
            (_, _, []) => Name::NONE,
            _ => return None,
        };
        let what = match word & 0xff {
            CONNECT => {
                let want = get_want(b, word)?;
                let has_one = name.is_none() || want.number == 0 && want.session == 0;
                What::Connect(want, has_one.then_some(name)?)
            }
            RESUME => What::Resume(get_want(b, word)?, get_u32(b, 12)),
            RESUMED => What::Resumed,
            LEAVE => What::Leave(get_u32(b, 8)),
            GONE => What::Gone,
            CONNECTED => What::Connected(Grant {
                token: get_u32(b, 12),
                off: get_u64(b, 16),
                len: get_u64(b, 24),
                rights: rights_from_word(get_u32(b, 8))?,
            }),
            REFUSED => What::Refused(match get_u32(b, 8) {
                1 => Why::NotFound,
                2 => Why::Refused,
                3 => Why::Unreachable,
                _ => return None,
            }),
            WITHDRAWN => What::Withdrawn,
            ENDED => What::Ended,
            ASK => What::Ask,
            ANSWER => What::Answer,
            TAKEN => What::Taken(get_u32(b, 8)),
            PLACED => What::Placed(Totals {
                done: get_u32(b, 8),
                failed: get_u32(b, 12),
                missed: get_u32(b, 16),
                refused: get_u32(b, 20),
            }),
            FETCH => What::Fetch(Request {
                number: get_u32(b, 8),
                len: get_u32(b, 12),
                at: get_u64(b, 16),
            }),
            _ => return None,
        };
        Some(Message {
            connection: get_u32(b, 4),
            what,
        })
    }
}

/// What is wanted: its number in place, and its part of the first word.
fn put_want(b: &mut [u8; SIZE], want: &Want) -> u32 {
    put_u32(b, 8, want.number);
    put_u32(b, 16, want.session);
    let object = match want.object {
        Object::Segment => 1,
        Object::Event => 2,
        Object::Port => 3,
    };
    let counted = u32::from(want.counted) * COUNTED;
    let unwindowed = u32::from(want.placed) * UNWINDOWED;
    let granted = u32::from(want.session != 0) * GRANTED;
    (object << 8) | counted | unwindowed | granted
}

fn get_want(b: &[u8; SIZE], word: u32) -> Option<Want> {
    let object = match word >> 8 & 0xff {
        1 => Object::Segment,
        2 => Object::Event,
        3 => Object::Port,
        _ => return None,
    };
    let session = match word & GRANTED {
        0 => 0,
        _ => get_u32(b, 16),
    };
    let is_granted = word & GRANTED != 0;
    if is_granted && (session == 0 || object != Object::Segment) {
        return None;
    }
    Some(Want {
        object,
        number: get_u32(b, 8),
        counted: word & COUNTED != 0,
        placed: word & UNWINDOWED != 0,
        session,
    })
}

fn rights_to_word(rights: Rights) -> u32 {
    match rights {
        Rights::ALL => 0,
        _ => (u32::from(rights.read) * READ) | (u32::from(rights.write) * WRITE),
    }
}

fn rights_from_word(word: u32) -> Option<Rights> {
    match word {
        0 => Some(Rights::ALL),
        READ => Some(Rights {
            read: true,
            write: false,
        }),
        WRITE => Some(Rights {
            read: false,
            write: true,
        }),
        _ => None,
    }
}
