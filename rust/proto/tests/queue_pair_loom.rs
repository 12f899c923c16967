// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Queue pairs under a model checker: all interleavings of two threads, and all stale values that
//! the fences do not forbid. Words that a model names are loom's, stored and loaded without any
//! order, so that those of a line become visible in any order; the others are seen at once.
//!
//! Each property has a twin in which something is missing, and which has to fail. The model is that
//! of coherent memory; `rust/proto-sim/tests/queue_pair.rs` has that of a bridge.

#[path = "common/loomed.rs"]
mod loomed;

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::AcqRel;
use loom::sync::Arc;
use loom::thread;

use loomed::{explore, Memory, Missing};
use mp_proto::memory::{Inbound, Outbound};
use mp_proto::queue_pair::{
    Body, Head, Held, Layout, Link, Queue, Receiver, SendError, Sender, Wants, INLINE_MAX,
};

const WINDOW: usize = 2048;
const ARM_DATA: usize = 0x0c0;
const ARM_SPACE: usize = 0x100;
const CREDIT: usize = 0x080;

fn layout() -> Layout {
    let wants = Wants {
        lines: 8,
        free: 8,
        slots: 2,
        slot_size: 64,
        streams: 1,
    };
    Layout::plan(WINDOW as u64, &wants).expect("fits")
}

/// Where a word of a line lies.
fn line(n: usize, word: usize) -> usize {
    layout().lines_off as usize + 64 * n + 8 * word
}

type Tx = Sender<Vec<Link>, Vec<Queue>>;
type Rx = Receiver<Vec<Held>>;

/// A sender, a receiver, the sender's window and the receiver's, with these words of each.
fn ends(missing: Missing, near: &[usize], far: &[usize]) -> (Tx, Rx, Memory, Memory) {
    let (links, queues) = (vec![Link::default(); 2], vec![Queue::default(); 1]);
    let tx = Sender::new(layout(), layout(), links, queues).expect("long enough");
    let rx = Receiver::new(layout(), layout(), vec![Held::default(); 2]).expect("long enough");
    (
        tx,
        rx,
        Memory::new(missing, WINDOW, near),
        Memory::new(missing, WINDOW, far),
    )
}

fn send(tx: &mut Tx, s: &Memory, r: &Memory, n: u64) -> bool {
    let mut data = [n as u8; 40];
    data[39] = !n as u8;
    tx.send(s, r, &Head::default(), &data).expect("room");
    tx.publish(s, r).expect("inside")
}

/// Receive what is there, and check that it is what comes next.
fn drain(rx: &mut Rx, r: &Memory, next: &mut u64) {
    let mut room = [0; INLINE_MAX];
    while let Some(message) = rx.receive(r, &mut room).expect("an honest partner") {
        assert_eq!(message.body, Body::Inline(40));
        let (first, last) = (*next as u8, !*next as u8);
        assert_eq!((room[0], room[39]), (first, last), "a torn line");
        *next += 1;
    }
}

/// The tag of a line's last word is what the reader waits for.
fn tagged(off: usize, word: u64) -> u64 {
    match off == line(0, 7) || off == line(1, 7) {
        true => word & !(0xff << 56) | 1 << 56,
        false => word,
    }
}

fn a_line_is_whole(seen: fn(usize, u64) -> u64) {
    explore(move || {
        let words = [line(0, 0), line(0, 7), line(1, 0), line(1, 7)];
        let (mut tx, mut rx, s, mut r) = ends(Missing::Nothing, &[], &words);
        r.seen = seen;
        let (s1, r1) = (s.clone(), r.clone());
        let sender = thread::spawn(move || {
            send(&mut tx, &s1, &r1, 0);
            send(&mut tx, &s1, &r1, 1);
        });
        let mut next = 0;
        drain(&mut rx, &r, &mut next);
        sender.join().expect("no panic");
        drain(&mut rx, &r, &mut next);
        assert_eq!(next, 2);
    });
}

#[test]
fn a_line_is_received_whole_without_a_fence_among_its_words() {
    a_line_is_whole(|_, word| word);
}

#[test]
#[should_panic(expected = "a torn line")]
fn without_a_tag_in_each_word_the_model_finds_a_torn_line() {
    a_line_is_whole(tagged);
}

/// Two messages through the same slot, which the receiver gives before it has read it if it is
/// `hasty`.
fn a_slot_is_whole(missing: Missing, hasty: bool) {
    explore(move || {
        let at = layout().slot(0).expect("two").off;
        let words = [line(0, 0), line(1, 0), at];
        let entries = [0, 8].map(|n| layout().free_off as usize + n);
        let (mut tx, mut rx, s, r) = ends(missing, &entries, &words);
        rx.give(&s, 0, 0).expect("here");
        let (s1, r1) = (s.clone(), r.clone());
        let mut fill = move |n: u64| {
            let slot = tx.take_slot(&s1, 0).expect("honest");
            let Some(slot) = slot else { return false };
            r1.store_u64(slot.part().off, n).expect("inside");
            let sent = tx.send_slot(&s1, &r1, &Head::default(), slot, 8, b"");
            sent.expect("room");
            tx.publish(&s1, &r1).expect("inside");
            true
        };
        let sender = thread::spawn(move || {
            assert!(fill(1));
            let second = fill(2);
            (fill, second)
        });
        let mut room = [0; INLINE_MAX];
        let mut last = 0;
        let mut look = |rx: &mut Rx| {
            while let Some(message) = rx.receive(&r, &mut room).expect("honest") {
                let Body::Slot { slot, part } = message.body else {
                    panic!("{message:?}");
                };
                if hasty {
                    rx.give(&s, slot, 0).expect("held");
                    thread::yield_now();
                }
                let data = r.load_u64(part.off).expect("inside");
                assert_eq!(data, last + 1, "not the message's own data");
                last = data;
                if !hasty {
                    rx.give(&s, slot, 0).expect("held");
                }
                rx.publish(&r, &s).expect("inside");
            }
        };
        look(&mut rx);
        let (mut fill, second) = sender.join().expect("no panic");
        look(&mut rx);
        if !second {
            assert!(fill(2), "the slot was given");
        }
        look(&mut rx);
        assert_eq!(last, 2);
    });
}

#[test]
fn a_slot_holds_its_own_message_until_it_is_given() {
    a_slot_is_whole(Missing::Nothing, false);
}

#[test]
#[should_panic(expected = "not the message's own data")]
fn without_the_fence_before_the_line_the_model_finds_old_data_in_a_slot() {
    a_slot_is_whole(Missing::Wmb, false);
}

#[test]
#[should_panic(expected = "not the message's own data")]
fn a_slot_that_is_given_before_it_is_read_holds_what_comes_next() {
    a_slot_is_whole(Missing::Nothing, true);
}

/// A signal is only ever swapped: the model lets plain loads see values that others have
/// overwritten.
fn data_signal(missing: Missing) {
    explore(move || {
        let words = [line(0, 0), line(1, 0)];
        let (mut tx, mut rx, s, r) = ends(missing, &[ARM_DATA], &words);
        let signal = Arc::new(AtomicBool::new(false));
        let (s1, r1, signal1) = (s.clone(), r.clone(), signal.clone());
        let sender = thread::spawn(move || {
            for n in 0..2 {
                if send(&mut tx, &s1, &r1, n) {
                    signal1.swap(true, AcqRel);
                }
            }
        });
        let mut next = 0;
        rx.arm_data(&r, &s).expect("inside");
        drain(&mut rx, &r, &mut next);
        let asleep_with = next;
        sender.join().expect("no panic");
        drain(&mut rx, &r, &mut next);
        assert_eq!(next, 2);
        assert!(
            asleep_with == 2 || signal.swap(false, AcqRel),
            "the receiver sleeps, a message is there and nobody signalled"
        );
    });
}

#[test]
fn a_receiver_that_sleeps_is_signalled_for_a_message() {
    data_signal(Missing::Nothing);
}

#[test]
#[should_panic(expected = "nobody signalled")]
fn without_the_full_barrier_the_model_finds_a_lost_signal_for_a_message() {
    data_signal(Missing::Mb);
}

fn space_signal(missing: Missing) {
    explore(move || {
        let (mut tx, mut rx, s, r) = ends(missing, &[CREDIT], &[ARM_SPACE]);
        for n in 0..8 {
            send(&mut tx, &s, &r, n);
        }
        let signal = Arc::new(AtomicBool::new(false));
        let (s1, r1, signal1) = (s.clone(), r.clone(), signal.clone());
        let receiver = thread::spawn(move || {
            let mut next = 0;
            drain(&mut rx, &r1, &mut next);
            if rx.publish(&r1, &s1).expect("inside") {
                signal1.swap(true, AcqRel);
            }
        });
        tx.arm_space(&s, &r).expect("inside");
        let asleep = match tx.send(&s, &r, &Head::default(), b"") {
            Ok(_) => false,
            Err(SendError::Full) => true,
            Err(e) => panic!("{e:?}"),
        };
        receiver.join().expect("no panic");
        assert!(
            !asleep || signal.swap(false, AcqRel),
            "the sender sleeps, lines are free and nobody signalled"
        );
        assert!(tx.room(&s).expect("honest") > 0);
    });
}

#[test]
fn a_sender_that_waits_for_lines_is_signalled() {
    space_signal(Missing::Nothing);
}

#[test]
#[should_panic(expected = "nobody signalled")]
fn without_the_full_barrier_the_model_finds_a_lost_signal_for_lines() {
    space_signal(Missing::Mb);
}
