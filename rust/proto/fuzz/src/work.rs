// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! An end of a connection with work queues.

use mp_proto::work::{Errors, Fault, Kind, Level, Operation, QueueKind, Remote, Work, HEADER_MAX};

use crate::input::Input;

#[allow(dead_code)] // tests look at more of it
#[path = "../../tests/work/net.rs"]
mod net;

use net::{connected, Message, Posted, Side, Spoiled, MOST};

/// Most requests that a program posts.
const POSTS: usize = 60;

/// An end whose partner says anything: each request comes back once and in order.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let level = Level::ALL[usize::from(input.byte()) % Level::ALL.len()];
    let [mut side, _] = connected(level);
    let mut posts = 0;
    while !input.is_empty() {
        match input.byte() % 8 {
            n @ 0..=3 if posts < POSTS => {
                posts += 1;
                post(&mut side, n, &mut input);
            }
            4 => side.link.room = input.byte().into(),
            5 => side.take(),
            _ => hear(&mut side, &mut input),
        }
        side.progress();
    }
    side.disconnect();
    side.take();
    assert_eq!(side.taken, side.posted);
}

fn post(side: &mut Side, which: u8, input: &mut Input<'_>) {
    let len = usize::from(input.byte() % 40);
    let flags = input.byte();
    let at = Remote {
        address: 0,
        handle: 0,
    };
    let (kind, operation) = match which {
        0 => (QueueKind::Receive, Operation::Send),
        1 => (QueueKind::Send, Operation::Send),
        2 => (QueueKind::Send, Operation::Write(at)),
        _ => (QueueKind::Send, Operation::Read(at)),
    };
    let work = Work {
        operation,
        immediate: (flags & 1 != 0).then_some(7),
        fence: flags & 2 != 0,
        total: len as u32,
    };
    let segment = side.program.room(len);
    if flags & 0x30 == 0x30 {
        side.program.closed.push(segment.clone());
    }
    let posted = Posted {
        work: match flags & 0xc0 {
            0xc0 => Err(Errors::FORMAT),
            _ => Ok(work),
        },
        segments: vec![segment],
    };
    let spoiled = match flags & 0x0c {
        0x0c => Some(Spoiled::Altered),
        0x08 => Some(Spoiled::Untold),
        _ => None,
    };
    let id = side.program.requests.len();
    side.program.spoiled.extend(spoiled.map(|how| (id, how)));
    side.post(kind, posted);
}

fn hear(side: &mut Side, input: &mut Input<'_>) {
    let (kind, flags) = (input.byte(), input.byte());
    let Some(kind) = Kind::of(kind % 10 + 1) else {
        return;
    };
    let mut header = [0; HEADER_MAX];
    let bytes = input.take(kind.header());
    header[..bytes.len()].copy_from_slice(bytes);
    let mut way = side.link.inward.borrow_mut();
    way.frames.push_back(Message {
        kind,
        immediate: (flags & 1 != 0).then_some(9),
        header,
        bytes: input.take(usize::from(flags >> 4) % (MOST + 1)).to_vec(),
        fault: match flags >> 1 & 7 {
            5 => Some(Fault::Corrupt),
            6 => Some(Fault::Gap { missing: 1 }),
            7 => Some(Fault::Again),
            _ => None,
        },
    });
    way.arrive(1);
}
