// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Direct memory buffers: messages, tables and records that a peer has made.

use mp_proto::dibs::cdc::{self, PRODUCER_AT};
use mp_proto::dibs::{Grant, Message, Move, Moved, Outbox, Pending, Slot, Slots, Token, HEAD};
use mp_proto::wire::PeerId;

use crate::input::Input;

const REACHED: u64 = 1 << 20;
const LEN: u32 = 1 << 16;

/// Messages are refused or survive being written again, and what they say stays in bounds.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    table(&mut input);
    let mut owner = Slots::new(vec![Slot::Free; 4]);
    let lent = owner.lend(PeerId(1), 4, 0, input.u64());
    let mut producer = 0;
    while !input.is_empty() {
        let len = usize::from(input.byte());
        let bytes = input.take(len);
        let Ok(message) = Message::decode(bytes) else {
            continue;
        };
        assert_eq!(message.encode().bytes(), bytes);
        match message {
            Message::Moved(moved) if owner.lent(moved.token).is_some() => {
                producer = received(&moved, producer);
            }
            Message::Hello(hello) if hello.is_reached(REACHED) => assert!(hello.table < REACHED),
            Message::Gone(token) => assert!(!owner.let_go(token), "nothing was taken back"),
            _ => {}
        }
    }
    assert!(lent.is_some_and(|token| owner.lent(token) == Some(0)));
}

/// A table of the input's words never leads out of what is reached.
fn table(input: &mut Input<'_>) {
    let words = [input.u64(), input.u64(), input.u64()];
    let load = |at: u64| words.get(at as usize / 8).copied();
    let token = Token::from_raw(words[2]);
    let Ok(grant) = Grant::find(token, 1, REACHED, load) else {
        return;
    };
    let mut outbox = Outbox::new(vec![Pending::NONE; 1]);
    let (offset, size) = (input.u32(), input.u32());
    if let Ok(Move::Data(at)) = grant.classify(false, offset, size) {
        assert!(at >= words[0] + u64::from(HEAD));
        assert!(at + u64::from(size) <= words[0] + words[1]);
    }
    outbox.signal(token, 0, [0; HEAD as usize]);
    assert!(outbox.peek().is_some());
    outbox.pop();
    assert_eq!(outbox.peek(), None);
}

/// The word of the producer's cursor afterwards.
fn received(moved: &Moved, producer: u64) -> u64 {
    let Ok(ranges) = cdc::check(&moved.record, producer, LEN) else {
        return producer;
    };
    for range in ranges.iter().flatten() {
        assert!(range.start() >= HEAD && range.is_inside(LEN));
    }
    cdc::words(&moved.record)[PRODUCER_AT / 8]
}
