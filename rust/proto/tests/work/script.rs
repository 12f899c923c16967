// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! An end whose partner is a script: it says what a test likes.

use crate::net::{connected, Message, Side};
use mp_proto::work::{Errors, Header, Kind, Level, Operation, Outcome, Work, HEADER_MAX};

/// The header of a kind that has none.
pub const NONE: Header = [0; HEADER_MAX];

pub fn work(operation: Operation, immediate: Option<u32>, fence: bool, total: usize) -> Work {
    Work {
        operation,
        immediate,
        fence,
        total: total as u32,
    }
}

pub fn outcome(errors: Errors, written: bool, length: usize, immediate: Option<u32>) -> Outcome {
    Outcome {
        errors,
        written,
        length: length as u32,
        immediate,
    }
}

pub fn flushed() -> Outcome {
    outcome(Errors::FLUSHED, false, 0, None)
}

/// One end, and what its partner says to it.
pub fn alone(level: Level) -> Side {
    let [side, _] = connected(level);
    side
}

/// Let a message arrive.
pub fn hear(side: &mut Side, kind: Kind, immediate: Option<u32>, header: Header, bytes: &[u8]) {
    let message = Message {
        kind,
        immediate,
        header,
        bytes: bytes.to_vec(),
        fault: None,
    };
    arrive(side, message);
}

pub fn arrive(side: &mut Side, message: Message) {
    let mut way = side.link.inward.borrow_mut();
    way.frames.push_back(message);
    way.arrive(1);
}

/// One of so many bytes.
pub fn message(kind: Kind, header: Header, len: usize) -> Message {
    Message {
        kind,
        immediate: None,
        header,
        bytes: vec![1; len],
        fault: None,
    }
}
