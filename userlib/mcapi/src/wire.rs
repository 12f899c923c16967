// SPDX-License-Identifier: MIT OR Apache-2.0

//! What two nodes tell each other: frames, and the way that they take.
//!
//! | kind | frame | words of 32 bits, little-endian | data |
//! |---|---|---|---|
//! | 1 | ready | version, features (2) | |
//! | 2 | debt | port and level, count | |
//! | 3 | message | port and level, sender's port, bytes altogether | its first bytes |
//! | 4 | more | port and level | its next bytes |
//! | 5 | credit | port and level, count | |
//! | 6 | get | number, port | |
//! | 7 | get withdrawn | number | |
//! | 8 | got | number, status, which endpoint of the port | |
//! | 9 | question | number, subject and attribute, port | |
//! | 10 | told | number, status, value (2) | |
//! | 11 | get taken back | port, which endpoint of the port | |
//! | 12 | connect | number, kind, sending endpoint (2), receiving endpoint (2) | |
//! | 13 | connected | number, status | |
//! | 14 | reserve | number, identifier of the connection (2), port and role, other endpoint (2), payload, priorities and priority | |
//! | 15 | reserved | number, status | |
//! | 16 | channel | port and what has happened, identifier of the connection (2) | |
//!
//! A status is 1 or an [`Error`]'s number, but of none that the caller's own node decides; only a get
//! is answered by REQUEST_CANCELLED.
//!
//! Port and level are 16 bits each of one word, the port below; subject (0: endpoint, 1: node) and
//! attribute, port and role, port and what has happened, priorities and priority likewise. Above the
//! eight bits of the priority are as many of the type of buffers, 0 for queues and 1 for state buffers:
//! to a node that knows of queues only, that is another priority than any that it has. The highest bit of
//! the priorities is the type of memory, 1 for shared: to a node that has local memory only, those are
//! more priorities than any endpoint has. A kind is 0
//! for packets and 1 for scalars; a role has the kind in bit 0, and bit 1 set for a receiving end.
//! What has happened is a [`Say`]. Kinds from 12 on are sent only if both nodes have the feature
//! [`CHANNELS`]. Each frame of a message but the last has [`FRAME`] bytes of data.

mod header;
mod way;

pub(crate) use header::Header;
#[cfg(test)]
pub(crate) use header::WORDS;
#[cfg(test)]
pub(crate) use way::Packed;
pub(crate) use way::{append, copied, End, Loop, Wire};

use crate::{
    attributes::{BufferType, MemoryType},
    channel::Kind,
    connection::{Role, Say},
    Endpoint, Error,
};
use mp_queue_pair::Piece;

/// Bytes of data of a frame, at most: what one receive buffer has.
pub(crate) const FRAME: usize = 4096;

/// Version of what is told.
pub(crate) const VERSION: u32 = 1;

/// A feature: channels.
pub(crate) const CHANNELS: u64 = 1;

/// Features of this node.
pub(crate) const FEATURES: u64 = CHANNELS;

/// Buffers that a message of so many bytes takes.
pub(crate) fn frames(len: usize) -> u32 {
    len.div_ceil(FRAME).max(1) as u32
}

/// A port of a node, and a priority of the messages to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) level: u16,
    pub(crate) port: u16,
}

/// What has to be equal of two endpoints that are connected (MC-CHAN-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) max_payload: u32,
    /// Of 15 bits.
    pub(crate) priorities: u16,
    pub(crate) priority: u8,
    pub(crate) buffers: BufferType,
    pub(crate) memory: MemoryType,
}

/// What a question asks of a port besides attributes: the first one that has an endpoint, from it on,
/// and the other end of the channel.
pub(crate) const NEXT_PORT: u16 = 0x100;
pub(crate) const PARTNER: u16 = 0x101;

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Endpoint { port: u16 },
    Node,
}

/// A frame without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Ready {
        version: u32,
        features: u64,
    },
    Debt {
        lane: Lane,
        count: u32,
    },
    Credit {
        lane: Lane,
        count: u32,
    },
    Get {
        number: u32,
        port: u16,
    },
    Withdrawn {
        number: u32,
    },
    Got {
        number: u32,
        result: Result<u32, Error>,
    },
    Released {
        port: u16,
        life: u32,
    },
    Question {
        number: u32,
        subject: Subject,
        attribute: u16,
    },
    Told {
        number: u32,
        result: Result<u64, Error>,
    },
    Connect {
        number: u32,
        kind: Kind,
        send: Endpoint,
        receive: Endpoint,
    },
    Connected {
        number: u32,
        result: Result<(), Error>,
    },
    /// `partner` is the lower endpoint, of the node that tells this; `port` and `role` are those of
    /// the higher one.
    Reserve {
        number: u32,
        id: u64,
        port: u16,
        role: Role,
        partner: Endpoint,
        terms: Terms,
    },
    Reserved {
        number: u32,
        result: Result<(), Error>,
    },
    Channel {
        port: u16,
        id: u64,
        say: Say,
    },
}

/// A frame; the data of one that has arrived lie where the partner can still change them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frame<'a> {
    Control(Control),
    Message {
        lane: Lane,
        from: u16,
        total: u32,
        data: Piece<'a>,
    },
    More {
        lane: Lane,
        data: Piece<'a>,
    },
}

impl Frame<'_> {
    /// Port and priority, of frames that messages are sent in.
    pub(crate) fn lane(&self) -> Option<Lane> {
        match self {
            Frame::Message { lane, .. } | Frame::More { lane, .. } => Some(*lane),
            Frame::Control(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_a_buffer_for_each_frame() {
        let sizes = [0, 1, FRAME, FRAME + 1, crate::MESSAGE_MAX];
        assert_eq!(sizes.map(frames), [1, 1, 1, 2, 16]);
    }
}
