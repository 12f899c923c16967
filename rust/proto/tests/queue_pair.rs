// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Queue pairs over plain memory: rules, any interleaving of both sides, and a partner that writes
//! anything.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

use common::Ram;
use mp_proto::memory::{Inbound, OutOfBounds, Outbound};
use mp_proto::queue_pair::{
    tell_end, Body, Broken, End, GiveError, Head, Hello, Layout, Link, Message, Need, Park, Queue,
    Receiver, SendError, Sender, Stop, Wants, EXTRA_MAX, HELLO_SIZE, INLINE_MAX, PLACED_EXTRA_MAX,
};
use mp_proto::ring::{Place, Producer, Ringing};
use mp_proto::wire::{BlockHdr, Tag};
use proptest::prelude::*;

const WINDOW: usize = 8192;
const WANTS: Wants = Wants {
    lines: 8,
    free: 8,
    slots: 6,
    slot_size: 128,
    streams: 3,
};
const CREDIT: usize = 0x080;
const ARM_DATA: usize = 0x0c0;
const ARM_SPACE: usize = 0x100;
const END: usize = 0x140;

type Tx = Sender<Vec<Link>, Vec<Queue>>;
type Rx = Receiver<Vec<mp_proto::queue_pair::Held>>;

/// One end: its window, and what it uses of the pair.
struct Side {
    own: Ram,
    tx: Tx,
    rx: Rx,
    room: [u8; INLINE_MAX],
}

fn layout() -> Layout {
    Layout::plan(WINDOW as u64, &WANTS).expect("fits")
}

fn sides() -> (Side, Side) {
    let (a, b) = (Ram::new(WINDOW), Ram::new(WINDOW));
    Hello::new(layout()).tell(&a).expect("inside");
    Hello::new(layout()).tell(&b).expect("inside");
    let side = |own: Ram| {
        let (hello, terms) = Hello::look(&own, WINDOW as u64)
            .expect("a good Hello")
            .expect("there");
        assert_eq!((terms.version, terms.features), (1, 0));
        let peer = hello.layout;
        let (links, queues) = (vec![Link::default(); 8], vec![Queue::default(); 3]);
        Side {
            own,
            tx: Sender::new(layout(), peer, links, queues).expect("long enough"),
            rx: Receiver::new(layout(), peer, vec![Default::default(); 8]).expect("long enough"),
            room: [0; INLINE_MAX],
        }
    };
    (side(a), side(b))
}

fn on(stream: u16) -> Head {
    Head {
        stream,
        ..Head::default()
    }
}

impl Side {
    fn check(&self) {
        self.tx.invariants().expect("a sender");
        self.rx.invariants().expect("a receiver");
    }

    fn receive(&mut self) -> Result<Option<Message>, Stop> {
        let result = self.rx.receive(&self.own, &mut self.room);
        self.check();
        result
    }

    /// The next message, which is there, and its bytes.
    fn get(&mut self) -> (Message, Vec<u8>) {
        let message = self.receive().expect("an honest partner").expect("there");
        let data = match message.body {
            Body::Inline(len) => self.room[..len].to_vec(),
            Body::Slot { part, .. } | Body::Placed { part, .. } => {
                let mut data = vec![0; part.len];
                self.own.read(part.off, &mut data).expect("inside");
                data
            }
            Body::Advertised { .. } => Vec::new(),
        };
        (message, data)
    }

    fn send(&mut self, to: &Side, head: Head, data: &[u8]) -> Result<u64, SendError> {
        let sent = self.tx.send(&self.own, &to.own, &head, data);
        self.check();
        sent
    }

    fn send_slot(&mut self, to: &Side, stream: u16, data: &[u8], extra: &[u8]) -> Option<u64> {
        let slot = self.tx.take_slot(&self.own, stream).expect("honest")?;
        to.own.write(slot.part().off, data).expect("inside");
        let len = data.len() as u32;
        let sent = self
            .tx
            .send_slot(&self.own, &to.own, &on(stream), slot, len, extra);
        self.check();
        match sent {
            Ok(sent) => Some(sent),
            Err((slot, why)) => {
                assert_eq!(why, SendError::Full);
                self.tx.put_back(slot);
                self.check();
                None
            }
        }
    }

    fn give(&mut self, to: &Side, slot: u32, stream: u16) -> Result<(), GiveError> {
        let given = self.rx.give(&to.own, slot, stream);
        self.check();
        given
    }

    fn publish(&mut self, to: &Side) -> bool {
        let sent = self.tx.publish(&self.own, &to.own).expect("inside");
        let took = self.rx.publish(&self.own, &to.own).expect("inside");
        sent || took
    }
}

#[test]
fn messages_of_all_inline_lengths_arrive_in_order_and_intact() {
    let (mut a, mut b) = sides();
    for n in 0..4 * (INLINE_MAX + 1) {
        let data: Vec<u8> = (0..n % (INLINE_MAX + 1))
            .map(|i| (i * 7 + n) as u8)
            .collect();
        let head = Head {
            stream: n as u16 % 3,
            kind: n as u8,
            more: n % 2 == 0,
            immediate: (n % 3 == 0).then_some(n as u32),
        };
        let sent = a.send(&b, head, &data).expect("room");
        a.publish(&b);
        let (message, got) = b.get();
        assert_eq!((message.head, message.number), (head, sent));
        assert_eq!((message.body, &got), (Body::Inline(data.len()), &data));
        b.publish(&a);
    }
    assert_eq!(b.receive(), Ok(None));
    let long = [0; INLINE_MAX + 1];
    assert_eq!(a.send(&b, on(0), &long), Err(SendError::Length));
    assert_eq!(a.send(&b, on(3), &[]), Err(SendError::Stream));
}

/// A line may become visible word by word, in any order.
#[test]
fn a_line_is_taken_when_all_its_words_are_there_and_not_before() {
    let (mut a, mut b) = sides();
    let lines = layout().lines_off as usize;
    for lap in 0..520usize {
        let data = [lap as u8; 96];
        a.send(&b, on(0), &data).expect("room");
        a.publish(&b);
        // Four of the eight lines of a lap are in use at the same time.
        let first = lines + lap * 2 % 8 * 64;
        let missing = first + (lap * 5 % 16) * 8;
        let word = b.own.word(missing);
        let before = if lap < 4 {
            0
        } else {
            // As the lap before left it, with other content.
            let tag = word >> 56;
            let tag = if tag == 1 { 254 } else { tag - 1 };
            tag << 56 | 0x00ff_ffff_ffff_ffff
        };
        b.own.set_word(missing, before);
        assert_eq!(b.receive(), Ok(None), "word {missing:#x} of lap {lap}");
        b.own.set_word(missing, word);
        assert_eq!(b.get().1, data);
        b.publish(&a);
    }
}

#[test]
fn a_full_ring_takes_nothing_until_credit_comes() {
    let (mut a, mut b) = sides();
    for n in 0..8u8 {
        a.send(&b, on(0), &[n]).expect("room");
    }
    assert_eq!(a.send(&b, on(0), &[8]), Err(SendError::Full));
    a.publish(&b);
    assert_eq!(b.get().1, [0]);
    b.publish(&a);
    // Less than a quarter of the ring: no credit yet.
    assert_eq!(a.send(&b, on(0), &[8]), Err(SendError::Full));
    assert_eq!(b.get().1, [1]);
    b.publish(&a);
    assert_eq!(a.tx.room(&a.own), Ok(2));
    a.send(&b, on(0), &[8]).expect("room");
    assert_eq!(a.send(&b, on(0), &[0; 41]), Err(SendError::Full));
    // Whatever is taken, the longest message finds room in the end.
    while b.receive().expect("honest").is_some() {}
    b.publish(&a);
    a.send(&b, on(0), &[0; INLINE_MAX]).expect("room");
}

#[test]
fn slots_come_back_in_any_order_and_to_any_stream() {
    let (mut a, mut b) = sides();
    assert_eq!(b.rx.slots(), 6);
    assert_eq!(a.send_slot(&b, 1, b"nothing given", b""), None);
    for slot in 0..6 {
        b.give(&a, slot, 1).expect("here");
    }
    b.publish(&a);
    let mut held = Vec::new();
    for n in 0..6u8 {
        a.send_slot(&b, 1, &[n; 128], &[n; EXTRA_MAX])
            .expect("a slot");
        a.publish(&b);
        let (message, data) = b.get();
        let Body::Slot { slot, .. } = message.body else {
            panic!("{message:?}");
        };
        assert_eq!((data, &b.room[..EXTRA_MAX]), (vec![n; 128], &[n; 40][..]));
        held.push(slot);
        b.publish(&a);
    }
    assert_eq!(held, [0, 1, 2, 3, 4, 5], "oldest first");
    assert_eq!(a.send_slot(&b, 1, b"all are held", b""), None);
    b.give(&a, 4, 2).expect("held");
    assert_eq!(b.give(&a, 4, 2), Err(GiveError::Slot), "given twice");
    assert_eq!(b.give(&a, 6, 2), Err(GiveError::Slot), "no such slot");
    assert_eq!(b.give(&a, 0, 3), Err(GiveError::Stream));
    b.give(&a, 1, 1).expect("held");
    b.publish(&a);
    assert!(a.send_slot(&b, 0, b"", b"").is_none());
    a.send_slot(&b, 2, b"two", b"").expect("slot 4");
    a.send_slot(&b, 1, b"one", b"").expect("slot 1");
    a.publish(&b);
    let of = |m: Message| match m.body {
        Body::Slot { slot, .. } => (m.head.stream, slot),
        _ => panic!("{m:?}"),
    };
    assert_eq!(of(b.get().0), (2, 4));
    assert_eq!(of(b.get().0), (1, 1));
}

/// Copies by an engine end in any order; what is not used goes back.
#[test]
fn slots_can_be_filled_side_by_side_and_sent_as_they_are_ready() {
    let (mut a, mut b) = sides();
    (0..4).for_each(|slot| b.give(&a, slot, 0).expect("here"));
    let mut taken: Vec<_> = (0..4)
        .map(|_| a.tx.take_slot(&a.own, 0).expect("honest").expect("given"))
        .collect();
    assert_eq!(a.tx.take_slot(&a.own, 0), Ok(None));
    a.check();
    let last = taken.pop().expect("four");
    let first = taken.remove(0);
    for slot in [last, first] {
        b.own.write(slot.part().off, b"data").expect("inside");
        let sent = a.tx.send_slot(&a.own, &b.own, &on(0), slot, 4, b"");
        sent.expect("room");
    }
    taken.into_iter().for_each(|slot| a.tx.put_back(slot));
    a.check();
    let slots: Vec<_> = (0..2).map(|_| b.get().0.body).collect();
    assert!(matches!(slots[0], Body::Slot { slot: 3, .. }));
    assert!(matches!(slots[1], Body::Slot { slot: 0, .. }));
    assert!(a.tx.take_slot(&a.own, 0).expect("honest").is_some());
    let slot =
        a.tx.take_slot(&a.own, 0)
            .expect("honest")
            .expect("put back");
    let (slot, why) =
        a.tx.send_slot(&a.own, &b.own, &on(1), slot, 0, b"")
            .unwrap_err();
    assert_eq!(why, SendError::Stream);
    let (_, why) =
        a.tx.send_slot(&a.own, &b.own, &on(0), slot, 129, b"")
            .unwrap_err();
    assert_eq!(why, SendError::Length);
}

#[test]
fn data_is_written_in_place_into_advertised_buffers() {
    let (mut a, mut b) = sides();
    let all = layout().buffers_len;
    b.tx.advertise(&b.own, &a.own, &on(2), 77, 64, 1000)
        .expect("room");
    b.publish(&a);
    let (message, _) = a.get();
    let (key, off, len) = (77, 64, 1000);
    assert_eq!(message.body, Body::Advertised { key, off, len });
    let part = a.tx.peer().buffer(off + 10, 4).expect("inside");
    b.own.write(part.off, b"here").expect("inside");
    let extra = [9; PLACED_EXTRA_MAX];
    a.tx.send_placed(&a.own, &b.own, &on(2), 77, 74, 4, &extra)
        .expect("room");
    a.publish(&b);
    let (message, data) = b.get();
    assert_eq!(message.body, Body::Placed { key, off: 74, part });
    assert_eq!((&data[..], &b.room[..28]), (&b"here"[..], &extra[..]));
    let sent = a.tx.send_placed(&a.own, &b.own, &on(2), 77, all, 1, b"");
    assert_eq!(sent, Err(SendError::Length));
    let told = b.tx.advertise(&b.own, &a.own, &on(2), 1, all - 1, 2);
    assert_eq!(told, Err(SendError::Length));
}

#[test]
fn acknowledgements_are_told_at_once_and_never_exceed_what_was_received() {
    let (mut a, mut b) = sides();
    let first = a.send(&b, on(0), b"one").expect("room");
    let second = a.send(&b, on(0), &[0; 50]).expect("room");
    assert_eq!((first, second), (1, 3));
    a.publish(&b);
    let (message, _) = b.get();
    b.rx.acknowledge(message.number + 1);
    b.publish(&a);
    assert_eq!(a.tx.acknowledged(&a.own), Ok(0));
    b.rx.acknowledge(message.number);
    b.publish(&a);
    assert_eq!(a.tx.acknowledged(&a.own), Ok(1));
    let (message, _) = b.get();
    b.rx.acknowledge(message.number);
    b.rx.acknowledge(1);
    b.publish(&a);
    assert_eq!(a.tx.acknowledged(&a.own), Ok(3));
}

#[test]
fn a_side_that_sleeps_is_signalled_once() {
    let (mut a, mut b) = sides();
    a.send(&b, on(0), b"").expect("room");
    assert!(!a.publish(&b), "nobody sleeps");
    assert!(!b.rx.arm_data(&b.own, &a.own).expect("inside"));
    assert!(!a.publish(&b), "there is nothing new");
    a.send(&b, on(0), b"").expect("room");
    assert!(a.publish(&b));
    a.send(&b, on(0), b"").expect("room");
    assert!(!a.publish(&b), "it has been signalled");
    // The same of space.
    while a.send(&b, on(0), b"").is_ok() {}
    assert!(!a.tx.arm_space(&a.own, &b.own).expect("inside"));
    assert_eq!(a.tx.room(&a.own), Ok(0));
    b.get();
    assert!(!b.publish(&a), "nothing was told");
    b.get();
    assert!(b.publish(&a));
    b.give(&a, 0, 0).expect("here");
    assert!(!b.publish(&a), "it has been signalled");
    assert!(!a.tx.arm_space(&a.own, &b.own).expect("inside"));
    b.give(&a, 1, 0).expect("here");
    assert!(b.publish(&a));
}

/// What was taken before a receiver sleeps is told, or both would wait.
#[test]
fn a_receiver_that_sleeps_has_told_all_its_credit() {
    let (mut a, mut b) = sides();
    while a.send(&b, on(0), b"").is_ok() {}
    a.tx.arm_space(&a.own, &b.own).expect("inside");
    b.get();
    assert!(b.rx.arm_data(&b.own, &a.own).expect("inside"), "signal");
    assert_eq!(a.tx.room(&a.own), Ok(1));
}

/// What a kernel compares while a receiver sleeps has to change with whatever makes the message
/// whole: any of its words may be the last one.
#[test]
fn a_receiver_sleeps_on_a_word_that_its_message_lacks() {
    let (mut a, mut b) = sides();
    let lines = layout().lines_off as usize;
    for round in 0..30usize {
        let first = round * 2;
        a.send(&b, on(0), &[round as u8; 96]).expect("room");
        a.publish(&b);
        let there: Vec<_> = (0..16)
            .map(|n| lines + (first * 64 + n * 8) % (8 * 64))
            .map(|at| (at, b.own.word(at)))
            .collect();
        // Lacks all words, then one after the other.
        let old = match (first / 8) as u64 {
            0 => 0,
            lap => lap << 56,
        };
        there.iter().for_each(|(at, _)| b.own.set_word(*at, old));
        b.rx.arm_data(&b.own, &a.own).expect("inside");
        let (skip, mut left) = (round * 5 % 16, there.clone());
        left.rotate_left(skip);
        while let Some((at, word)) = left.pop() {
            let park = b.rx.park(&b.own).expect("honest").expect("not whole");
            let lacking = [left.as_slice(), &[(at, word)]].concat();
            assert!(lacking.iter().any(|(at, _)| *at == park.word), "{park:?}");
            assert_eq!(park.value, b.own.word(park.word));
            assert_eq!((park.arm, park.arm_value), (ARM_DATA, round as u64 + 1));
            b.own.set_word(at, word);
        }
        assert_eq!(b.rx.park(&b.own), Ok(None), "it is whole");
        b.get();
        b.publish(&a);
    }
}

#[test]
fn a_sender_sleeps_on_the_word_that_brings_what_it_needs() {
    let (mut a, mut b) = sides();
    while a.send(&b, on(0), b"").is_ok() {}
    a.tx.arm_space(&a.own, &b.own).expect("inside");
    let park = |word| Park {
        word,
        value: 0,
        arm: ARM_SPACE,
        arm_value: 1,
    };
    let lines = a.tx.park(&a.own, Need::Lines(2));
    assert_eq!(lines, Ok(Some(park(CREDIT))));
    let slot = a.tx.park(&a.own, Need::Slot(2));
    assert_eq!(slot, Ok(Some(park(layout().free_off as usize))));
    (0..2).for_each(|_| drop(b.get()));
    b.give(&a, 3, 2).expect("here");
    b.publish(&a);
    assert_eq!(a.tx.park(&a.own, Need::Lines(2)), Ok(None));
    assert_eq!(a.tx.park(&a.own, Need::Slot(2)), Ok(None));
    // A slot of another stream is none.
    let slot = a.tx.park(&a.own, Need::Slot(1));
    assert_eq!(
        slot.map(|p| p.map(|p| p.word)),
        Ok(Some(layout().free_off as usize + 8))
    );
    assert_eq!(a.tx.park(&a.own, Need::Slot(3)), Err(SendError::Stream));
    let room = a.tx.park(&a.own, Need::Lines(3)).expect("honest");
    assert_eq!(room.map(|p| (p.word, p.value)), Some((CREDIT, 2 << 32)));
}

#[test]
fn a_sender_counts_the_slots_of_a_stream() {
    let (mut a, mut b) = sides();
    for (slot, stream) in [(0, 1), (1, 1), (2, 0)] {
        b.give(&a, slot, stream).expect("here");
    }
    assert_eq!(
        [0, 1, 2].map(|s| a.tx.slots(&a.own, s)),
        [Ok(1), Ok(2), Ok(0)]
    );
    assert_eq!(a.tx.slots(&a.own, 3), Err(SendError::Stream));
    let slot = a.tx.take_slot(&a.own, 1).expect("honest").expect("two");
    assert_eq!(a.tx.slots(&a.own, 1), Ok(1));
    a.tx.put_back(slot);
    assert_eq!(a.tx.slots(&a.own, 1), Ok(2));
    a.check();
}

/// A side that only sends does not look at lines.
#[test]
fn a_sender_that_looks_for_room_finds_a_broken_end() {
    let (mut a, b) = sides();
    let reason = Broken::Line.reason();
    tell_end(&a.own, End::Broken { reason }).expect("inside");
    let told = Broken::Partner(reason);
    assert_eq!(a.tx.room(&a.own), Err(told));
    assert_eq!(a.send(&b, on(0), b""), Err(SendError::Broken(told)));
    // An orderly one leaves it room.
    let (mut a, mut b) = sides();
    b.tx.close(&a.own, 0).expect("inside");
    assert_eq!(a.tx.room(&a.own), Ok(8));
    a.send(&b, on(0), b"").expect("room");
}

#[test]
fn what_was_sent_before_an_orderly_close_is_received() {
    let (mut a, mut b) = sides();
    a.send(&b, on(0), b"last").expect("room");
    a.tx.close(&b.own, 7).expect("inside");
    assert_eq!(a.send(&b, on(0), b""), Err(SendError::Closed));
    assert_eq!(b.get().1, b"last");
    assert_eq!(b.receive(), Err(Stop::Closed { reason: 7 }));
    // The other direction goes on until it is closed as well.
    b.send(&a, on(0), b"answer").expect("room");
    assert_eq!(a.get().1, b"answer");
}

#[test]
fn a_broken_end_is_told_with_its_reason() {
    let (mut a, mut b) = sides();
    a.send(&b, on(0), b"lost").expect("room");
    b.get();
    let reason = Broken::Credit.reason();
    tell_end(&b.own, End::Broken { reason }).expect("inside");
    let stop = Err(Stop::Broken(Broken::Partner(reason)));
    assert_eq!(b.receive(), stop);
    assert_eq!(b.receive(), stop, "for ever");
    assert_eq!(
        b.give(&a, 0, 0),
        Err(GiveError::Broken(Broken::Partner(reason)))
    );
}

/// Each thing that a partner cannot have written ends the pair with its name.
#[test]
fn impossible_values_end_the_pair_by_name() {
    let lines = layout().lines_off as usize;
    let with = |content: [u8; 16]| {
        // The first line of lap 0, its content from byte 0 on.
        let mut bytes = [0; 64];
        bytes[..16].copy_from_slice(&content);
        (0..8)
            .map(|n| {
                let word = u64::from_le_bytes(bytes[7 * n..7 * n + 8].try_into().expect("eight"));
                word & ((1 << 56) - 1) | 1 << 56
            })
            .collect::<Vec<u64>>()
    };
    let head = |op, flags, zero, stream, slot, len: u32| {
        let [l0, l1, l2, l3] = len.to_le_bytes();
        with([
            op, flags, 0, zero, stream, 0, slot, 0, l0, l1, l2, l3, 0, 0, 0, 0,
        ])
    };
    let lies = [
        (head(0, 0, 0, 0, 0, 0), Broken::Operation),
        (head(5, 0, 0, 0, 0, 0), Broken::Operation),
        (head(1, 4, 0, 0, 0, 0), Broken::Operation),
        (head(1, 0, 1, 0, 0, 0), Broken::Operation),
        (head(1, 0, 0, 0, 1, 0), Broken::Operation),
        (head(1, 0, 0, 3, 0, 0), Broken::Stream),
        (head(1, 0, 0, 0, 0, 265), Broken::Length),
        (head(2, 0, 0, 0, 6, 0), Broken::Slot),
        (head(2, 0, 0, 0, 1, 0), Broken::Slot),
        (head(2, 0, 0, 1, 0, 0), Broken::Slot),
        (head(2, 0, 0, 0, 0, 129), Broken::Length),
        (head(3, 0, 0, 0, 0, 8192), Broken::Length),
        (head(4, 0, 0, 0, 0, 8192), Broken::Length),
        (vec![u64::MAX; 8], Broken::Line),
        (vec![2 << 56], Broken::Line),
    ];
    for (words, broken) in lies {
        let (a, mut b) = sides();
        b.give(&a, 0, 0).expect("here");
        for (n, word) in words.iter().enumerate() {
            b.own.set_word(lines + 8 * n, *word);
        }
        assert_eq!(b.receive(), Err(Stop::Broken(broken)), "{words:x?}");
        assert_eq!(b.receive(), Err(Stop::Broken(broken)), "for ever");
    }
    for (word, broken) in [
        (u64::MAX, Broken::Credit),
        (3 << 32, Broken::Credit),
        (2 << 32 | 3, Broken::Credit),
    ] {
        let (mut a, b) = sides();
        a.send(&b, on(0), &[0; 41]).expect("room");
        a.own.set_word(CREDIT, word);
        assert_eq!(a.tx.room(&a.own), Err(broken));
        assert_eq!(a.send(&b, on(0), b""), Err(SendError::Broken(broken)));
    }
    for (word, broken) in [
        (u64::MAX, Broken::Free),
        (3 << 56, Broken::Free),
        (1 << 56 | 1 << 48, Broken::FreeSlot),
        (1 << 56 | 6, Broken::FreeSlot),
        (1 << 56 | 3 << 32, Broken::Stream),
    ] {
        let (mut a, _) = sides();
        a.own.set_word(layout().free_off as usize, word);
        assert_eq!(a.tx.take_slot(&a.own, 0), Err(SendError::Broken(broken)));
    }
    // The same slot twice.
    let (mut a, _) = sides();
    a.own.set_word(layout().free_off as usize, 1 << 56 | 5);
    a.own.set_word(layout().free_off as usize + 8, 1 << 56 | 5);
    let twice = Err(SendError::Broken(Broken::FreeSlot));
    assert_eq!(a.tx.take_slot(&a.own, 0), twice);
    for word in [u64::MAX, 1, 3 << 56, 1 << 56 | 9, 1 << 56 | 0xffff_ffff] {
        let (_, mut b) = sides();
        b.own.set_word(END, word);
        assert_eq!(b.receive(), Err(Stop::Broken(Broken::End)), "{word:x}");
    }
}

#[test]
fn a_hello_is_believed_only_if_it_can_be() {
    let ram = Ram::new(WINDOW);
    let size = WINDOW as u64;
    assert_eq!(Hello::look(&ram, size), Ok(None));
    ram.set_word(0, u64::MAX);
    assert_eq!(Hello::look(&ram, size), Err(Broken::Magic));
    Hello::new(layout()).tell(&ram).expect("inside");
    assert_eq!(Hello::look(&ram, size / 2), Err(Broken::Layout));
    let first = ram.word(0);
    for announced in [0, 0x0202, 0x0102] {
        ram.set_word(0, first & 0xffff_ffff | announced << 32);
        assert_eq!(
            Hello::look(&ram, size),
            Err(Broken::Version),
            "{announced:x}"
        );
    }
    // A partner that speaks more is understood.
    ram.set_word(0, first & 0xffff_ffff | 0xffff_0301 << 32);
    let (hello, terms) = Hello::look(&ram, size).expect("good").expect("there");
    assert_eq!(
        (hello.layout, terms.version, terms.features),
        (layout(), 1, 0)
    );
    ram.set_word(0, first);
    for word in 1..=8 {
        let was = ram.word(8 * word);
        ram.set_word(8 * word, u64::MAX);
        assert_eq!(Hello::look(&ram, size), Err(Broken::Layout), "word {word}");
        ram.set_word(8 * word, was);
    }
}

/// What one of two sides does next.
#[derive(Debug, Clone)]
enum Step {
    Send(u16, usize),
    Slot(u16, usize),
    Place(u64, u32),
    Receive,
    Give(usize, u16),
    Acknowledge,
    Publish,
    ArmData,
    ArmSpace,
}

fn step() -> impl Strategy<Value = (bool, Step)> {
    let what = prop_oneof![
        3 => (0u16..3, 0..=INLINE_MAX).prop_map(|(s, n)| Step::Send(s, n)),
        3 => (0u16..3, 0usize..=128).prop_map(|(s, n)| Step::Slot(s, n)),
        1 => (0u64..4000, 0u32..64).prop_map(|(o, n)| Step::Place(o, n)),
        6 => Just(Step::Receive),
        2 => (any::<usize>(), 0u16..3).prop_map(|(n, s)| Step::Give(n, s)),
        1 => Just(Step::Acknowledge),
        3 => Just(Step::Publish),
        1 => Just(Step::ArmData),
        1 => Just(Step::ArmSpace),
    ];
    (any::<bool>(), what)
}

/// What a side knows of its direction: messages under way, slots that it holds.
#[derive(Default)]
struct Book {
    sent: VecDeque<(u64, u16, Vec<u8>)>,
    held: Vec<u32>,
    last: u64,
}

fn play(steps: Vec<(bool, Step)>) {
    let (a, b) = sides();
    let mut sides = [a, b];
    // The second book's messages go from the first side to the second one.
    let mut books = [Book::default(), Book::default()];
    books
        .iter_mut()
        .for_each(|book| book.held = (0..6).collect());
    for (n, (second, step)) in steps.into_iter().enumerate() {
        let (me, it) = if second { (1, 0) } else { (0, 1) };
        let [first, last] = &mut sides;
        let (side, peer) = if second { (last, first) } else { (first, last) };
        let data = |len: usize| (0..len).map(|i| (i ^ n) as u8).collect::<Vec<_>>();
        match step {
            Step::Send(stream, len) => match side.send(peer, on(stream), &data(len)) {
                Ok(number) => books[it].sent.push_back((number, stream, data(len))),
                Err(why) => assert_eq!(why, SendError::Full),
            },
            Step::Slot(stream, len) => {
                if let Some(number) = side.send_slot(peer, stream, &data(len), b"") {
                    books[it].sent.push_back((number, stream, data(len)));
                }
            }
            Step::Place(off, len) => {
                let sent = side
                    .tx
                    .send_placed(&side.own, &peer.own, &on(0), 5, off, len, b"");
                let part = side.tx.peer().buffer(off, len);
                match (sent, part) {
                    (Ok(number), Some(_)) => {
                        books[it].sent.push_back((number, 0, Vec::new()));
                    }
                    (Err(SendError::Full), _) | (Err(SendError::Length), None) => {}
                    other => panic!("{other:?}"),
                }
            }
            Step::Receive => {
                let expected = books[me].sent.pop_front();
                let Some((number, stream, data)) = expected else {
                    assert_eq!(side.receive(), Ok(None));
                    continue;
                };
                let (message, got) = side.get();
                assert_eq!((message.number, message.head.stream), (number, stream));
                match message.body {
                    Body::Placed { key: 5, .. } => {}
                    Body::Slot { slot, .. } => {
                        assert!(!books[me].held.contains(&slot), "a slot was reused");
                        books[me].held.push(slot);
                        assert_eq!(got, data);
                    }
                    _ => assert_eq!(got, data),
                }
                books[me].last = number;
            }
            Step::Give(which, stream) => {
                if !books[me].held.is_empty() {
                    let which = which % books[me].held.len();
                    let slot = books[me].held.swap_remove(which);
                    side.give(peer, slot, stream).expect("held");
                }
            }
            Step::Acknowledge => {
                side.rx.acknowledge(books[me].last);
                side.rx.publish(&side.own, &peer.own).expect("inside");
                let told = peer.tx.acknowledged(&peer.own);
                assert_eq!(told, Ok(books[me].last));
            }
            Step::Publish => drop(side.publish(peer)),
            Step::ArmData => drop(side.rx.arm_data(&side.own, &peer.own).expect("inside")),
            Step::ArmSpace => drop(side.tx.arm_space(&side.own, &peer.own).expect("inside")),
        }
        side.check();
        peer.check();
    }
}

proptest! {
    #[test]
    fn any_interleaving_delivers_every_message_once_in_order(
        steps in prop::collection::vec(step(), 0..400),
    ) {
        play(steps);
    }

    /// design 2, never 5
    #[test]
    fn whatever_a_partner_writes_nothing_panics_and_no_part_lies_outside(
        writes in prop::collection::vec((0usize..WINDOW / 8, any::<u64>(), any::<bool>()), 0..200),
        steps in prop::collection::vec(step(), 0..100),
    ) {
        let (mut a, b) = sides();
        let mut writes = writes.into_iter();
        let mut held: Vec<u32> = (0..6).collect();
        let mut order = steps.into_iter();
        loop {
            let step = order.next();
            let Some((at, value, near)) = writes.next() else { break };
            // Often something that is nearly right: the tags of the first laps, small numbers.
            let value = if near { value & 0x0001_0007_0000_0207 } else { value };
            let value = if near { value & !(0xff << 56) | 1 << 56 } else { value };
            // The Hello is read once, at the beginning.
            if at * 8 >= HELLO_SIZE {
                a.own.set_word(at * 8, value);
            }
            match step.map(|s| s.1) {
                Some(Step::Send(stream, len)) => drop(a.send(&b, on(stream), &vec![1; len])),
                Some(Step::Slot(stream, _)) => {
                    if let Ok(Some(slot)) = a.tx.take_slot(&a.own, stream) {
                        let part = slot.part();
                        prop_assert!(part.off + part.len <= WINDOW);
                        a.tx.put_back(slot);
                    }
                }
                Some(Step::Give(n, stream)) if !held.is_empty() => {
                    let slot = held.swap_remove(n % held.len());
                    let _ = a.give(&b, slot, stream);
                }
                Some(Step::ArmData) => drop(a.rx.arm_data(&a.own, &b.own)),
                Some(Step::ArmSpace) => drop(a.tx.arm_space(&a.own, &b.own)),
                Some(Step::Publish) => {
                    let _ = (a.tx.publish(&a.own, &b.own), a.rx.publish(&a.own, &b.own));
                }
                _ => if let Ok(Some(message)) = a.receive() {
                    match message.body {
                        Body::Inline(len) => prop_assert!(len <= INLINE_MAX),
                        Body::Slot { slot, part } => {
                            prop_assert!(!held.contains(&slot));
                            held.push(slot);
                            prop_assert!(part.off + part.len <= WINDOW);
                        }
                        Body::Placed { part, .. } => {
                            prop_assert!(part.off + part.len <= WINDOW);
                        }
                        Body::Advertised { off, len, .. } => {
                            prop_assert!(off + u64::from(len) <= layout().buffers_len);
                        }
                    }
                }
            }
            a.check();
        }
    }
}

#[test]
fn an_arm_word_of_the_partner_never_asks_twice() {
    let (mut a, b) = sides();
    a.own.set_word(ARM_DATA, u64::MAX);
    a.send(&b, on(0), b"").expect("room");
    assert!(a.publish(&b));
    a.send(&b, on(0), b"").expect("room");
    assert!(!a.publish(&b));
}

/// What crosses: lines that a fence pushes out, and fences.
struct Counted {
    ram: Ram,
    open: RefCell<BTreeSet<usize>>,
    lines: Cell<usize>,
    fences: Cell<usize>,
}

impl Counted {
    fn new(ram: Ram) -> Counted {
        Counted {
            ram,
            open: RefCell::default(),
            lines: Cell::new(0),
            fences: Cell::new(0),
        }
    }

    fn fence(&self) {
        self.lines.set(self.lines.get() + self.open.take().len());
        self.fences.set(self.fences.get() + 1);
    }

    /// Lines and fences since the last time.
    fn take(&self) -> (usize, usize) {
        assert!(
            self.open.borrow().is_empty(),
            "something stays in the processor"
        );
        (self.lines.take(), self.fences.take())
    }
}

impl Outbound for Counted {
    fn size(&self) -> usize {
        Outbound::size(&self.ram)
    }
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        self.write(off, &val.to_le_bytes())
    }
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        let lines = off / 64..(off + buf.len()).div_ceil(64);
        self.open.borrow_mut().extend(lines);
        self.ram.write(off, buf)
    }
    fn wmb(&self) {
        self.fence();
    }
    fn release(&self) {}
    fn mb(&self) {
        self.fence();
    }
}

/// The numbers of `Documentation/queue-pairs.md`: lines and fences for one message.
#[test]
fn a_short_message_crosses_in_one_line_with_one_fence() {
    let (mut a, mut b) = sides();
    let (there, back) = (Counted::new(b.own.clone()), Counted::new(a.own.clone()));
    let mut send = |data: &[u8]| {
        a.tx.send(&a.own, &there, &on(0), data).expect("room");
        a.tx.publish(&a.own, &there).expect("inside");
        assert!(b.rx.receive(&b.own, &mut b.room).expect("honest").is_some());
        b.rx.publish(&b.own, &back).expect("inside");
        there.take()
    };
    assert_eq!(
        [0, 40, 41, 264].map(|n| send(&[0; 264][..n])),
        [(1, 1), (1, 1), (2, 1), (5, 1)]
    );
    // Credit for nine lines so far: one word each time that a quarter of the ring was taken.
    assert_eq!(back.take(), (3, 3));
    // A slot: its lines, a fence, the line that tells of it, a fence.
    b.rx.give(&back, 0, 0).expect("here");
    b.rx.publish(&b.own, &back).expect("inside");
    assert_eq!(back.take(), (1, 1));
    let slot = a.tx.take_slot(&a.own, 0).expect("honest").expect("given");
    there.write(slot.part().off, &[1; 128]).expect("inside");
    a.tx.send_slot(&a.own, &there, &on(0), slot, 128, b"")
        .expect("room");
    a.tx.publish(&a.own, &there).expect("inside");
    assert_eq!(there.take(), (3, 2));
}

/// The designs that the document compares with.
#[test]
fn an_index_or_a_valid_word_behind_a_fence_costs_a_line_and_a_fence_more() {
    let (tx, rx) = (Tag::new(1, 2), Tag::new(2, 1));
    let place = Place {
        data: 4096,
        size: 4096,
        prod: 0,
        want_space: 8,
        cons: 64,
        want_data: 72,
    };
    let mut ring = Producer::<4>::new(place, tx, rx, Ringing::Level).expect("good place");
    let (own, there) = (Ram::new(4096), Counted::new(Ram::new(WINDOW)));
    let hdr = BlockHdr {
        buffer_len: 64,
        hdr_len: 16,
        len: 32,
        mark: 0,
    };
    let slot = ring.reserve(&own, 64).expect("room");
    slot.write(&there, 0, &slot.header(&hdr)).expect("inside");
    slot.write(&there, 16, &[0; 48]).expect("inside");
    ring.commit(slot);
    ring.publish(&there, &own).expect("inside");
    assert_eq!(there.take(), (2, 2), "records and an index");

    there.write(8, &[0; 56]).expect("inside");
    there.wmb();
    there.store_u64(0, 1).expect("inside");
    there.mb();
    assert_eq!(there.take(), (2, 2), "a cell whose valid word comes last");
}

const DOC: &str = include_str!("../../../Documentation/queue-pairs.md");

/// The bytes in the windows, pinned: a change here is a change of the layout and needs a new
/// version.
#[test]
fn the_documented_examples_are_what_is_written() {
    let (mut a, b) = sides();
    let head = Head {
        stream: 1,
        kind: 9,
        more: false,
        immediate: Some(0x1234_5678),
    };
    a.send(&b, head, b"hello").expect("room");
    let doc: String = DOC.split_whitespace().collect();
    for (off, len) in [(layout().lines_off as usize, 64), (0, 72)] {
        let mut bytes = vec![0; len];
        b.own.read(off, &mut bytes).expect("inside");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(
            doc.contains(&hex),
            "Documentation/queue-pairs.md lacks: {hex}"
        );
    }
}
