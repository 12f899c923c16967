// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The record ring over plain memory: rules, random traffic, and a peer that writes anything.

mod common;

use std::collections::VecDeque;

use common::rings::PLACE;
use common::Ram;
use mp_proto::memory::{Inbound, OutOfBounds, Outbound};
use mp_proto::ring::{
    passed, record_cap, units_for, Armed, Consumer, Corrupt, NextError, Place, Producer,
    Reassembly, Record, ReserveError, Ringing, Split, SplitError, Step, MAX_DATA, MAX_HDR,
    MAX_RING, MIN_RING,
};
use mp_proto::wire::{BlockHdr, Tag, TaggedIndex};
use proptest::prelude::*;

const BOTH: [Ringing; 2] = [Ringing::Edge, Ringing::Level];

fn tags() -> (Tag, Tag) {
    (Tag::new(11, 22), Tag::new(22, 11))
}

/// Both ends of a ring and the two memories.
struct Pair {
    tx: Producer<8>,
    rx: Consumer<8>,
    /// The producer's memory.
    p: Ram,
    /// The consumer's memory.
    c: Ram,
}

impl Pair {
    fn new() -> Pair {
        Pair::of(Ringing::Level)
    }

    fn of(ringing: Ringing) -> Pair {
        let (tx, rx) = tags();
        Pair {
            tx: Producer::new(PLACE, tx, rx, ringing).expect("good place"),
            rx: Consumer::new(PLACE, rx, tx, ringing).expect("good place"),
            p: Ram::new(4096),
            c: Ram::new(4096 + PLACE.size as usize),
        }
    }

    /// Reserve and write a record with `data` behind 16 bytes of headers, and commit it.
    fn put(&mut self, data: &[u8]) -> Result<(), ReserveError> {
        let len = 32 + data.len() as u32;
        let slot = self.tx.reserve(&self.p, len)?;
        let hdr = BlockHdr {
            buffer_len: len,
            hdr_len: 16,
            len: data.len() as u32,
            mark: 0,
        };
        slot.write(&self.c, 0, &slot.header(&hdr)).expect("inside");
        slot.write(&self.c, 32, data).expect("inside");
        self.tx.commit(slot);
        Ok(())
    }

    fn publish(&mut self) -> bool {
        self.tx.publish(&self.c, &self.p).expect("inside")
    }

    fn get(&mut self) -> Option<(Record, Vec<u8>)> {
        let rec = self.rx.next(&self.c).expect("honest")?;
        let mut data = vec![0; rec.data_len as usize];
        rec.parts.read(&self.c, 16, &mut data).expect("inside");
        Some((rec, data))
    }

    fn give_back(&mut self) -> bool {
        self.rx.publish_cons(&self.p, &self.c).expect("inside")
    }

    /// Whether the consumer has a reason not to sleep.
    fn arm_data(&mut self) -> bool {
        self.rx.arm_data(&self.p, &self.c).expect("honest") == Armed::Ready
    }

    fn arm_space(&mut self, bytes: u32) -> Armed {
        self.tx.arm_space(&self.c, &self.p, bytes).expect("honest")
    }

    /// Fill the ring with its two largest records and publish them.
    fn fill(&mut self) {
        let data = vec![7; record_cap(PLACE.size) as usize - 32];
        self.put(&data).expect("space");
        self.put(&data).expect("space");
        self.publish();
    }
}

/// design 4.5
#[test]
fn records_arrive_in_order_and_intact() {
    let mut r = Pair::new();
    for n in 0..500u32 {
        let data = vec![n as u8; (n * 7 % 300) as usize];
        r.put(&data).expect("space");
        r.publish();
        let (rec, got) = r.get().expect("published");
        assert_eq!(got, data);
        assert!(r.rx.release(rec.token));
        r.give_back();
    }
    assert!(r.get().is_none());
}

/// design 4.5: one index update covers a batch
#[test]
fn nothing_is_seen_before_it_is_published() {
    let mut r = Pair::new();
    r.put(b"one").expect("space");
    r.put(b"two").expect("space");
    assert!(r.get().is_none());
    r.publish();
    assert_eq!(r.get().expect("published").1, b"one");
    assert_eq!(r.get().expect("published").1, b"two");
}

/// design 4.5: many small frames in a small window
#[test]
fn a_small_frame_takes_one_cache_line() {
    let mut r = Pair::new();
    let mut count = 0;
    while count < 8 && r.put(&[0; 32]).is_ok() {
        r.publish();
        count += 1;
    }
    assert_eq!(r.tx.units() - r.tx.free_units(), count);
    assert_eq!(units_for(64), 1);
    assert_eq!(units_for(65), 2);
    assert_eq!(units_for(u32::MAX), 1 << 26);
}

/// design 4.5: a record wraps as two runs, its header never
#[test]
fn a_record_that_wraps_comes_as_two_parts() {
    let mut r = Pair::new();
    r.put(&vec![1; 4000]).expect("space");
    r.publish();
    let (rec, _) = r.get().expect("published");
    r.rx.release(rec.token);
    r.give_back();
    r.put(&vec![1; 3000]).expect("space");
    let data: Vec<u8> = (0..2000u32).map(|i| i as u8).collect();
    r.put(&data).expect("space");
    r.publish();
    r.get().expect("published");
    let (rec, got) = r.get().expect("published");
    assert!(rec.parts.second.len > 0);
    assert_eq!(rec.parts.second.off, PLACE.data);
    assert_eq!(rec.parts.len(), 16 + 2000);
    assert_eq!(got, data);
    let (head, tail) = rec.parts.split_at(16);
    assert_eq!((head.len(), tail.len()), (16, 2000));
    assert_eq!(rec.parts.window(0, 2017), Err(OutOfBounds));
    assert_eq!(rec.parts.window(usize::MAX, 2), Err(OutOfBounds));
}

/// design 4.8: a slow receiver stops its sender
#[test]
fn a_full_ring_refuses_and_recovers_when_space_comes_back() {
    let mut r = Pair::new();
    r.fill();
    assert_eq!(r.put(b"x"), Err(ReserveError::Full));
    let (rec, _) = r.get().expect("published");
    r.rx.release(rec.token);
    assert_eq!(r.put(b"x"), Err(ReserveError::Full));
    r.give_back();
    assert_eq!(r.put(b"x"), Ok(()));
    assert_eq!(r.tx.reserve(&r.p, 15), Err(ReserveError::Length));
    let over = r.tx.record_cap() + 1;
    assert_eq!(r.tx.reserve(&r.p, over), Err(ReserveError::Length));
}

/// design 4.5: records held by upper layers do not block reading
#[test]
fn records_released_out_of_order_are_given_back_in_order() {
    let mut r = Pair::new();
    for n in 0..3 {
        r.put(&[n; 100]).expect("space");
    }
    r.publish();
    let held: Vec<u32> = (0..3).map(|_| r.get().expect("there").0.token).collect();
    assert!(r.rx.release(held[2]));
    assert!(r.rx.release(held[1]));
    assert_eq!(r.rx.unpublished_units(), 0);
    assert!(!r.rx.release(held[1]), "released twice");
    assert!(r.rx.release(held[0]));
    assert_eq!(r.rx.unpublished_units(), 9);
    assert!(!r.rx.release(held[0]));
    r.give_back();
    assert_eq!(r.tx.refresh(&r.p), Ok(r.tx.units()));
}

/// design 4.10: asynchronous copies complete in any order
#[test]
fn records_committed_out_of_order_are_published_in_order() {
    let mut r = Pair::new();
    let a = r.tx.reserve(&r.p, 64).expect("space");
    let b = r.tx.reserve(&r.p, 64).expect("space");
    let hdr = BlockHdr {
        buffer_len: 64,
        hdr_len: 16,
        len: 32,
        mark: 0,
    };
    b.write(&r.c, 0, &b.header(&hdr)).expect("inside");
    r.tx.commit(b);
    assert!(!r.publish());
    assert!(r.get().is_none());
    a.write(&r.c, 0, &a.header(&hdr)).expect("inside");
    r.tx.commit(a);
    assert!(r.publish());
    assert!(r.get().is_some() && r.get().is_some());
}

/// design 4.10
#[test]
fn only_the_newest_record_can_be_cancelled() {
    let mut r = Pair::new();
    let a = r.tx.reserve(&r.p, 640).expect("space");
    let b = r.tx.reserve(&r.p, 64).expect("space");
    let a = r.tx.cancel(a).expect_err("a younger one exists");
    r.tx.cancel(b).expect("the newest");
    r.tx.cancel(a).expect("the newest now");
    assert_eq!(r.tx.free_units(), r.tx.units());
    r.put(b"next").expect("space");
    r.publish();
    assert_eq!(r.get().expect("published").1, b"next");
}

/// design 4.5
#[test]
fn no_more_records_are_held_than_can_be_tracked() {
    let mut r = Pair::new();
    for n in 0..9 {
        r.put(&[n]).expect("space");
        r.publish();
    }
    for _ in 0..8 {
        r.get().expect("published");
    }
    assert_eq!(r.rx.next(&r.c), Err(NextError::TooManyHeld));
    let slots: Vec<_> = (0..8).map(|_| r.tx.reserve(&r.p, 64)).collect();
    assert!(slots.iter().all(Result::is_ok));
    assert_eq!(r.tx.reserve(&r.p, 64), Err(ReserveError::TooManyHeld));
}

/// IDT-FN-2
#[test]
fn a_record_may_be_kept_while_half_of_the_ring_is_free_behind_it() {
    let mut r = Pair::new();
    for _ in 0..8 {
        r.put(b"x").expect("space");
    }
    r.publish();
    let (kept, _) = r.get().expect("published");
    assert!(r.rx.may_keep());
    for count in 2..=8 {
        let (rec, _) = r.get().expect("published");
        assert_eq!(r.rx.may_keep(), count <= 4, "{count} of 8 places");
        assert!(r.rx.release(rec.token));
    }
    assert!(
        r.rx.is_full(),
        "those that passed wait for the one that is kept"
    );
    assert!(r.rx.release_at(Consumer::<8>::place_of(kept.token)));
    assert!(!r.rx.release_at(Consumer::<8>::place_of(kept.token)));
    assert!(!r.rx.is_full());
    assert_eq!((r.rx.unpublished_units(), r.rx.held_units()), (8, 0));

    let mut r = Pair::new();
    for _ in 0..3 {
        r.put(&[0; 2048 - 32]).expect("space");
    }
    r.publish();
    for kept in [true, true, false] {
        r.get().expect("published");
        assert_eq!(r.rx.may_keep(), kept);
    }
}

/// design 4.5
#[test]
fn a_place_names_the_record_that_is_held_there_on_every_lap() {
    let mut r = Pair::new();
    for lap in 0..20 {
        for n in 0..2u32 {
            r.put(&[n as u8]).expect("space");
        }
        r.publish();
        let (first, _) = r.get().expect("published");
        let (second, _) = r.get().expect("published");
        assert!(r.rx.release_at(Consumer::<8>::place_of(second.token)));
        assert_eq!(r.rx.unpublished_units(), 0, "lap {lap}");
        assert!(r.rx.release_at(Consumer::<8>::place_of(first.token)));
        assert_eq!(r.rx.unpublished_units(), 2);
        r.give_back();
    }
}

/// design 4.7
#[test]
fn a_polling_consumer_is_not_rung_and_a_sleeping_one_is_rung_once() {
    for ringing in BOTH {
        let mut r = Pair::of(ringing);
        r.put(b"first").expect("space");
        assert!(r.publish(), "a consumer that never spoke is rung");
        r.get().expect("published");
        assert!(!r.arm_data());
        r.put(b"second").expect("space");
        assert!(r.publish(), "armed");
        r.put(b"third").expect("space");
        assert!(!r.publish(), "it polls since the last doorbell");
        assert!(r.arm_data(), "data arrived before it slept");
    }
}

/// design 4.7
#[test]
fn a_producer_is_rung_when_its_record_fits_and_not_before() {
    for ringing in BOTH {
        let mut r = Pair::of(ringing);
        for _ in 0..4 {
            r.put(&vec![0; 2048 - 32]).expect("space");
        }
        r.publish();
        assert_eq!(r.arm_space(4096), Armed::Asleep);
        let mut rung = Vec::new();
        for _ in 0..4 {
            let (rec, _) = r.get().expect("published");
            r.rx.release(rec.token);
            rung.push(r.give_back());
        }
        assert_eq!(rung, [false, true, false, false]);
        assert_eq!(r.arm_space(4096), Armed::Ready);
    }
}

/// design 4.7
#[test]
fn event_indices_work_across_the_wrap() {
    assert!(passed(5, 6, 5));
    assert!(!passed(5, 5, 4));
    assert!(!passed(5, 9, 6));
    assert!(passed(u32::MAX, 3, u32::MAX - 3));
    assert!(!passed(3, 3, u32::MAX));
}

/// design 4.7, 8
#[test]
fn an_event_index_that_comes_late_is_rung_for_once_by_the_next_publication() {
    for ringing in BOTH {
        let mut r = Pair::of(ringing);
        assert!(!r.arm_data());
        let late = r.p.word(PLACE.want_data);
        r.p.set_word(PLACE.want_data, 0);
        r.rx.mute(&r.p).expect("inside");
        r.put(b"crosses").expect("space");
        assert!(!r.publish());
        r.p.set_word(PLACE.want_data, late);
        let rung = [b"one", b"two"].map(|data| {
            r.put(data).expect("space");
            r.publish()
        });
        assert_eq!(rung, [ringing == Ringing::Level, false]);
    }
}

/// design 4.7: neither an event index of long ago, nor one that is the same a lap later
#[test]
fn a_consumer_is_rung_after_a_lap_of_the_whole_range() {
    let (tx, rx) = tags();
    let size = MAX_RING;
    let place = Place { size, ..PLACE };
    let step = record_cap(size) / 64;
    for ringing in BOTH {
        let mut p = Producer::<8>::new(place, tx, rx, ringing).expect("good place");
        let (own, to) = (Ram::new(4096), Ram::new(4096));
        let word = |index| TaggedIndex { tag: rx, index }.word();
        let mut publish = |given_back: u32| {
            own.set_word(PLACE.cons, word(given_back));
            let slot = p.reserve(&own, record_cap(size)).expect("space");
            p.commit(slot);
            p.publish(&to, &own).expect("inside")
        };
        own.set_word(PLACE.want_data, word(0));
        assert!(publish(0));
        let mut index = step;
        let mut bells = 0;
        while index != 0 {
            bells += u32::from(publish(index));
            index = index.wrapping_add(step);
        }
        // The consumer polls all the time, then sleeps where it did before.
        assert!(bells <= 1, "{bells} doorbells");
        assert!(publish(0), "nobody rings");
    }
}

/// design 4.7
#[test]
fn a_side_is_overdue_that_sleeps_although_the_index_has_moved() {
    let mut r = Pair::new();
    r.put(b"x").expect("space");
    r.publish();
    assert!(!r.rx.is_overdue(&r.c), "it has not gone to sleep yet");
    r.get().expect("published");
    assert!(!r.arm_data());
    assert!(!r.rx.is_overdue(&r.c));
    r.put(b"y").expect("space");
    r.publish();
    assert!(r.rx.is_overdue(&r.c));
    r.rx.mute(&r.p).expect("inside");
    assert!(!r.rx.is_overdue(&r.c), "it watches");

    let mut r = Pair::new();
    r.fill();
    assert_eq!(r.arm_space(4096), Armed::Asleep);
    assert_eq!(r.arm_space(4096), Armed::StillAsleep);
    assert!(!r.tx.is_overdue(&r.p));
    let (rec, _) = r.get().expect("published");
    r.rx.release(rec.token);
    assert!(r.give_back(), "it is rung");
    assert!(r.tx.is_overdue(&r.p));
    assert_eq!(r.arm_space(4096), Armed::Ready);
    assert!(!r.tx.is_overdue(&r.p));
}

/// design 4.7: an event that has come is not awaited any more
#[test]
fn a_producer_that_nothing_can_wake_is_not_overdue() {
    let mut r = Pair::new();
    r.fill();
    assert_eq!(r.arm_space(4096), Armed::Asleep);
    while let Some((rec, _)) = r.get() {
        r.rx.release(rec.token);
    }
    r.give_back();
    let slot = r.tx.reserve(&r.p, 4096).expect("space");
    assert_eq!(r.arm_space(PLACE.size), Armed::StillAsleep);
    assert!(!r.tx.is_overdue(&r.p), "it has published nothing");
    r.tx.commit(slot);
}

/// design 4.7: what is reserved and not published cannot be given back
#[test]
fn a_producer_that_nothing_can_wake_writes_no_event_index() {
    let mut r = Pair::new();
    let slot = r.tx.reserve(&r.p, 4096).expect("space");
    assert_eq!(r.arm_space(PLACE.size), Armed::StillAsleep);
    assert_eq!(r.c.word(PLACE.want_space), 0);
    r.tx.commit(slot);
    r.publish();
    assert_eq!(r.arm_space(PLACE.size), Armed::Asleep);
}

/// design 4.2
#[test]
fn words_of_an_older_epoch_count_as_never_written() {
    let mut r = Pair::new();
    let old = TaggedIndex {
        tag: Tag::new(9, 9),
        index: 40,
    };
    for off in [PLACE.prod, PLACE.want_space] {
        r.c.set_word(off, old.word());
    }
    for off in [PLACE.cons, PLACE.want_data] {
        r.p.set_word(off, old.word());
    }
    assert!(r.get().is_none());
    assert_eq!(r.tx.refresh(&r.p), Ok(r.tx.units()));
    r.put(b"x").expect("space");
    assert!(r.publish());
}

/// design 4.2
#[test]
fn bytes_of_an_older_epoch_are_not_taken_for_a_record() {
    let mut old = Pair::new();
    old.put(b"old").expect("space");
    old.publish();
    let (tx, rx) = (Tag::new(33, 44), Tag::new(44, 33));
    let mut fresh = Consumer::<8>::new(PLACE, rx, tx, Ringing::Level).expect("good place");
    let word = TaggedIndex { tag: tx, index: 1 };
    old.c.set_word(PLACE.prod, word.word());
    let mark = NextError::Corrupt(Corrupt::Mark);
    assert_eq!(fresh.next(&old.c), Err(mark));
}

#[test]
fn what_a_consumer_has_to_give_back_is_known_without_taking_it() {
    let (p_tag, _) = tags();
    let mut r = Pair::new();
    assert_eq!(r.rx.unread_units(&r.c), 0);
    r.put(b"one").expect("space");
    r.put(b"two").expect("space");
    r.publish();
    assert_eq!(r.rx.unread_units(&r.c), 2);
    let (record, _) = r.get().expect("published");
    r.rx.release(record.token);
    assert_eq!(r.rx.unread_units(&r.c), 2, "not given back yet");
    r.give_back();
    assert_eq!(r.rx.unread_units(&r.c), 1);
    let lie = TaggedIndex {
        tag: p_tag,
        index: 5_000,
    };
    r.c.set_word(PLACE.prod, lie.word());
    assert_eq!(r.rx.unread_units(&r.c), r.rx.units());
}

/// design 2, never 5
#[test]
fn impossible_indices_are_corrupt() {
    let (p_tag, c_tag) = tags();
    let index = |tag, index| TaggedIndex { tag, index }.word();
    let mut r = Pair::new();
    r.c.set_word(PLACE.prod, index(p_tag, r.rx.units() + 1));
    let prod = NextError::Corrupt(Corrupt::ProducerIndex);
    assert_eq!(r.rx.next(&r.c), Err(prod));
    let mut r = Pair::new();
    r.put(b"x").expect("space");
    r.publish();
    r.get().expect("published");
    r.c.set_word(PLACE.prod, index(p_tag, 0));
    assert_eq!(r.rx.next(&r.c), Err(prod));
    let mut r = Pair::new();
    r.p.set_word(PLACE.cons, index(c_tag, 1));
    assert_eq!(r.tx.refresh(&r.p), Err(Corrupt::ConsumerIndex));
    r.fill();
    assert_eq!(r.tx.refresh(&r.p), Ok(1));
    r.p.set_word(PLACE.cons, index(c_tag, 0));
    assert_eq!(r.tx.refresh(&r.p), Err(Corrupt::ConsumerIndex), "went back");
}

/// design 2, never 5
#[test]
fn an_index_word_that_loses_its_tag_is_corrupt() {
    let (_, c_tag) = tags();
    for destroyed in [0, !0] {
        let mut r = Pair::new();
        r.put(b"x").expect("space");
        r.publish();
        r.get().expect("published");
        r.c.set_word(PLACE.prod, destroyed);
        let prod = NextError::Corrupt(Corrupt::ProducerIndex);
        assert_eq!(r.rx.next(&r.c), Err(prod));
        let mut r = Pair::new();
        r.fill();
        let index = 1;
        r.p.set_word(PLACE.cons, TaggedIndex { tag: c_tag, index }.word());
        assert_eq!(r.tx.refresh(&r.p), Ok(1));
        r.p.set_word(PLACE.cons, destroyed);
        assert_eq!(r.tx.refresh(&r.p), Err(Corrupt::ConsumerIndex));
    }
}

/// design 4.7
#[test]
fn a_muted_producer_does_not_ring_until_it_is_armed_again() {
    for ringing in BOTH {
        let mut r = Pair::of(ringing);
        assert!(!r.arm_data());
        r.rx.mute(&r.p).expect("inside");
        assert!(!r.rx.is_ready(&r.c));
        r.put(b"x").expect("space");
        assert!(!r.publish(), "rings although it is muted");
        assert!(r.rx.is_ready(&r.c));
        assert!(r.arm_data(), "a record is there");
        r.get().expect("published");
        assert!(!r.arm_data());
        r.put(b"y").expect("space");
        assert!(r.publish(), "does not ring although it is armed");
    }
}

/// design 4.3: what was lost before anyone saw it comes back
#[test]
fn indices_lost_before_the_first_look_come_back_when_repeated() {
    for lost in [0, !0] {
        let mut r = Pair::new();
        r.fill();
        r.c.set_word(PLACE.prod, lost);
        assert!(r.get().is_none(), "nothing is known to be there");
        r.tx.repeat(&r.c).expect("inside");
        while let Some((rec, _)) = r.get() {
            r.rx.release(rec.token);
        }
        r.give_back();
        r.p.set_word(PLACE.cons, lost);
        assert_eq!(r.tx.refresh(&r.p), Ok(0), "nothing is known to be free");
        r.rx.repeat(&r.p).expect("inside");
        assert_eq!(r.tx.refresh(&r.p), Ok(r.tx.units()));
        assert!(!r.arm_data());
        r.p.set_word(PLACE.want_data, lost);
        r.rx.repeat(&r.p).expect("inside");
        r.fill();
        assert_eq!(r.arm_space(4096), Armed::Asleep);
        r.c.set_word(PLACE.want_space, lost);
        r.tx.repeat(&r.c).expect("inside");
        r.put(b"x").expect_err("full");
        let (rec, _) = r.get().expect("published");
        r.rx.release(rec.token);
        assert!(r.give_back());
    }
}

/// Publish one block with these lengths, as a lying producer with a right mark would.
fn block(buffer_len: u32, hdr_len: u32, len: u32) -> Result<Option<Record>, NextError> {
    block_in(256, buffer_len, hdr_len, len)
}

/// The same where so many bytes are published.
fn block_in(
    published: u32,
    buffer_len: u32,
    hdr_len: u32,
    len: u32,
) -> Result<Option<Record>, NextError> {
    let mut r = Pair::new();
    let first = published.min(r.tx.record_cap());
    let slot = r.tx.reserve(&r.p, first).expect("space");
    let hdr = BlockHdr {
        buffer_len,
        hdr_len,
        len,
        mark: 0,
    };
    slot.write(&r.c, 0, &slot.header(&hdr)).expect("inside");
    r.tx.commit(slot);
    if published > first {
        let rest = r.tx.reserve(&r.p, published - first).expect("space");
        r.tx.commit(rest);
    }
    r.publish();
    r.rx.next(&r.c)
}

/// A producer takes no more than half of the ring for a block, so no more is taken from it.
#[test]
fn a_block_is_at_most_half_of_the_ring() {
    let cap = Pair::new().tx.record_cap();
    let all = 2 * cap;
    assert!(matches!(block_in(all, cap, 16, cap - 32), Ok(Some(_))));
    let corrupt = Err(NextError::Corrupt(Corrupt::BlockLength));
    assert_eq!(block_in(all, cap + 1, 16, cap - 31), corrupt);
    assert_eq!(block_in(all, all, 16, all - 32), corrupt);
}

/// IDT-EP-4
#[test]
fn block_lengths_are_checked_against_the_ring_and_each_other() {
    let corrupt = |c| Err(NextError::Corrupt(c));
    assert!(matches!(block(256, 16, 224), Ok(Some(_))));
    assert_eq!(block(15, 16, 0), corrupt(Corrupt::BlockLength));
    assert_eq!(block(257, 16, 225), corrupt(Corrupt::BlockLength));
    assert_eq!(block(u32::MAX, 16, 16), corrupt(Corrupt::BlockLength));
    assert_eq!(block(256, 15, 225), corrupt(Corrupt::HeaderLength));
    assert_eq!(block(256, 241, 0), corrupt(Corrupt::HeaderLength));
    assert_eq!(block(256, u32::MAX, 0), corrupt(Corrupt::HeaderLength));
    assert_eq!(block(256, MAX_HDR + 1, 0), corrupt(Corrupt::HeaderLength));
    assert_eq!(block(256, 16, 223), corrupt(Corrupt::DataLength));
    assert_eq!(block(256, 16, MAX_DATA + 1), corrupt(Corrupt::DataLength));
    assert_eq!(block(16, 0, 5), corrupt(Corrupt::DataLength));
    assert_eq!(block(16, 0, 0), corrupt(Corrupt::DataLength));
}

fn record(hdr_len: u32, len: u32, data_len: u32) -> Record {
    Record {
        hdr: BlockHdr {
            buffer_len: 16 + hdr_len + data_len,
            hdr_len,
            len,
            mark: 0,
        },
        parts: Default::default(),
        data_len,
        token: 0,
    }
}

/// IDT-EP-4
#[test]
fn continuations_must_continue_what_was_begun() {
    let mut a = Reassembly::new();
    assert_eq!(a.accept(&record(0, 10, 10)), Err(Corrupt::Sequence));
    let step = a.accept(&record(16, 100, 60)).expect("begins");
    assert_eq!(
        step,
        Step {
            first: true,
            last: false,
            total: 100,
            data_off: 0
        }
    );
    assert!(a.is_open());
    assert_eq!(a.accept(&record(16, 10, 10)), Err(Corrupt::Sequence));
    assert_eq!(a.accept(&record(0, 41, 41)), Err(Corrupt::Sequence));
    let step = a.accept(&record(0, 40, 40)).expect("continues");
    assert_eq!((step.first, step.last, step.data_off), (false, true, 60));
    assert!(!a.is_open());
    let step = a.accept(&record(16, 0, 0)).expect("a frame without data");
    assert!(step.first && step.last);
}

/// design 4.5
#[test]
fn a_place_that_cannot_be_is_refused() {
    let (tx, rx) = tags();
    let bad =
        |p: Place| Producer::<8>::new(p, tx, rx, Ringing::Level).is_err() && p.check().is_err();
    assert!(bad(Place {
        size: MIN_RING / 2,
        ..PLACE
    }));
    assert!(bad(Place {
        size: MAX_RING * 2,
        ..PLACE
    }));
    assert!(bad(Place {
        size: 5000,
        ..PLACE
    }));
    assert!(bad(Place { data: 32, ..PLACE }));
    assert!(bad(Place { cons: 4, ..PLACE }));
    assert!(bad(Place {
        data: usize::MAX - 63,
        ..PLACE
    }));
}

/// design 2, never 5
#[test]
fn a_ring_outside_its_memory_is_an_error_and_no_access() {
    let (tx, rx) = tags();
    let far = Place {
        data: 1 << 30,
        ..PLACE
    };
    let mut p = Producer::<8>::new(far, tx, rx, Ringing::Level).expect("the place alone is fine");
    let (a, b) = (Ram::new(4096), Ram::new(4096));
    let slot = p.reserve(&a, 64).expect("space");
    assert_eq!(slot.write(&b, 0, &[0; 64]), Err(OutOfBounds));
    p.commit(slot);
    assert_eq!(p.publish(&b, &a), Ok(true));
    let mut c = Consumer::<8>::new(far, rx, tx, Ringing::Level).expect("the place alone is fine");
    assert_eq!(c.next(&b), Err(NextError::Corrupt(Corrupt::Memory)));
    let none = Ram::new(0);
    assert_eq!(c.publish_cons(&none, &none), Ok(false));
    assert_eq!(c.arm_data(&none, &none), Err(Corrupt::Memory));
    assert_eq!(p.refresh(&none), Err(Corrupt::Memory));
}

/// Cut a frame into records and put them together again.
fn survives_the_split(hdr: u32, data: u32, cap: u32) -> Result<(), TestCaseError> {
    let split = Split::new(hdr, data, cap).expect("fits");
    let units = split.units();
    let (mut sum, mut seen) = (0, 0);
    let mut a = Reassembly::new();
    let chunks: Vec<_> = split.collect();
    for (n, c) in chunks.iter().enumerate() {
        prop_assert!(c.hdr.buffer_len <= cap);
        prop_assert_eq!(c.hdr.buffer_len, 16 + c.hdr.hdr_len + c.data_len);
        prop_assert_eq!(c.hdr.hdr_len, if n == 0 { hdr } else { 0 });
        let step = a
            .accept(&record(c.hdr.hdr_len, c.hdr.len, c.data_len))
            .expect("honest");
        prop_assert_eq!((step.first, step.last), (n == 0, n + 1 == chunks.len()));
        prop_assert_eq!((step.data_off, step.total), (seen, data));
        prop_assert_eq!(c.data_off, seen);
        seen += c.data_len;
        sum += units_for(c.hdr.buffer_len);
    }
    prop_assert_eq!((seen, sum), (data, units));
    Ok(())
}

/// design 4.5, IDT-EP-2: a byte more, or less, than full records, which chance hardly finds
#[test]
fn a_frame_that_ends_beside_the_end_of_a_record_survives_the_split() {
    let cap = record_cap(1 << 12);
    for hdr in [16, 199] {
        for more in 0..3 {
            let full = cap - 16 - hdr + more * (cap - 16);
            for data in full - 2..=full + 2 {
                survives_the_split(hdr, data, cap).expect("whole");
            }
        }
    }
}

proptest! {
    /// design 4.5, IDT-EP-2
    #[test]
    fn any_frame_survives_the_split(hdr in 16u32..200, data in 0u32..100_000, shift in 12u32..17) {
        survives_the_split(hdr, data, record_cap(1 << shift))?;
    }

    /// IDT-EP-2
    #[test]
    fn a_frame_that_no_ring_can_carry_is_refused(hdr: u32, data: u32, cap in 0u32..1 << 20) {
        match Split::new(hdr, data, cap) {
            Ok(_) => prop_assert!((16..=MAX_HDR).contains(&hdr) && data <= MAX_DATA && hdr + 16 < cap),
            Err(SplitError::Data) => prop_assert!(data > MAX_DATA),
            Err(SplitError::Header) => {
                prop_assert!(!(16..=MAX_HDR).contains(&hdr) || hdr + 16 >= cap)
            }
        }
    }

    /// design 4.5: the ring is a queue, whatever the order of its users' calls
    #[test]
    fn the_ring_behaves_like_a_queue(
        events in prop::collection::vec((0u8..7, 0usize..4000), 0..300),
    ) {
        let mut r = Pair::new();
        let mut written: VecDeque<Vec<u8>> = VecDeque::new();
        let mut published = 0;
        let mut held = Vec::new();
        for (n, (what, len)) in events.into_iter().enumerate() {
            match what {
                0..3 => {
                    let data: Vec<u8> = (0..len).map(|i| (i * 3 + n) as u8).collect();
                    if r.put(&data).is_ok() {
                        written.push_back(data);
                    }
                }
                3 => {
                    r.publish();
                    published = written.len();
                }
                4 => if let Ok(Some(rec)) = r.rx.next(&r.c) {
                    let mut data = vec![0; rec.data_len as usize];
                    rec.parts.read(&r.c, 16, &mut data).expect("inside");
                    prop_assert!(published > 0, "more came out than was published");
                    prop_assert_eq!(Some(data), written.pop_front());
                    published -= 1;
                    held.push(rec.token);
                },
                5 => if !held.is_empty() {
                    let token = held.swap_remove(len % held.len());
                    prop_assert!(r.rx.release(token));
                },
                _ => {
                    r.give_back();
                }
            }
        }
        for token in held {
            prop_assert!(r.rx.release(token));
        }
        r.publish();
        while let Some((rec, data)) = r.get() {
            prop_assert_eq!(Some(data), written.pop_front());
            prop_assert!(r.rx.release(rec.token));
        }
        prop_assert!(written.is_empty());
        r.give_back();
        prop_assert_eq!(r.tx.refresh(&r.p), Ok(r.tx.units()));
    }

    /// design 4.7: whoever sleeps with work to do has been rung
    #[test]
    fn no_side_sleeps_on_work_unrung(
        events in prop::collection::vec((0u8..5, 0usize..4000), 0..300),
        level: bool,
    ) {
        let mut r = Pair::of(BOTH[usize::from(level)]);
        let (mut consumer_sleeps, mut producer_sleeps) = (false, None);
        for (what, len) in events {
            match what {
                0 | 1 => if producer_sleeps.is_none() {
                    let full = r.put(&vec![0; len]) == Err(ReserveError::Full);
                    if r.publish() {
                        consumer_sleeps = false;
                    }
                    let need = 32 + len as u32;
                    if full && r.arm_space(need) != Armed::Ready {
                        producer_sleeps = Some(need);
                    }
                },
                2 | 3 => if !consumer_sleeps {
                    if let Ok(Some(rec)) = r.rx.next(&r.c) {
                        r.rx.release(rec.token);
                    }
                    if r.give_back() {
                        producer_sleeps = None;
                    }
                },
                _ => if !consumer_sleeps {
                    consumer_sleeps = !r.arm_data();
                },
            }
            let free = r.tx.refresh(&r.p).expect("honest");
            if let Some(need) = producer_sleeps {
                prop_assert!(free < units_for(need), "space, and nobody rang the producer");
            }
            if consumer_sleeps {
                prop_assert_eq!(r.rx.next(&r.c), Ok(None), "data, and nobody rang the consumer");
            }
        }
    }

    /// design 2, never 5: random bytes everywhere a peer can write
    #[test]
    fn a_consumer_survives_a_peer_that_writes_anything(
        words in prop::collection::vec((0usize..1536, any::<u64>(), 0u32..200), 0..200),
        tagged: bool,
    ) {
        let mut r = Pair::new();
        let (p_tag, _) = tags();
        for (at, word, small) in words {
            r.c.set_word(at * 8, word);
            if tagged {
                let index = TaggedIndex { tag: p_tag, index: small };
                r.c.set_word(PLACE.prod, index.word());
            }
            match r.rx.next(&r.c) {
                Ok(Some(rec)) => {
                    let mut body = vec![0; rec.parts.len()];
                    rec.parts.read(&r.c, 0, &mut body).expect("inside");
                    r.rx.release(rec.token);
                }
                Ok(None) => {}
                Err(_) => break,
            }
            r.give_back();
            if r.rx.arm_data(&r.p, &r.c).is_err() {
                break;
            }
        }
    }

    /// design 2, never 5: a producer that lies about every length but knows the marks
    #[test]
    fn a_consumer_never_leaves_the_ring_whatever_a_header_says(
        start in 0u32..128, len: [u32; 3], small: bool,
    ) {
        let mut r = Pair::new();
        for _ in 0..start {
            r.put(&[0; 32]).expect("space");
            r.publish();
            let (rec, _) = r.get().expect("published");
            r.rx.release(rec.token);
            r.give_back();
        }
        let cut = |x: u32| if small { x % 5000 } else { x };
        let slot = r.tx.reserve(&r.p, 4096).expect("space");
        let hdr = BlockHdr { buffer_len: cut(len[0]), hdr_len: cut(len[1]), len: cut(len[2]), mark: 0 };
        slot.write(&r.c, 0, &slot.header(&hdr)).expect("inside");
        r.tx.commit(slot);
        r.publish();
        if let Ok(Some(rec)) = r.rx.next(&r.c) {
            let ring = PLACE.data..PLACE.data + PLACE.size as usize;
            for part in [rec.parts.first, rec.parts.second] {
                prop_assert!(part.off >= ring.start && part.off + part.len <= ring.end);
            }
            prop_assert!(rec.parts.len() <= 4096 - 16);
            prop_assert_eq!(rec.parts.len() as u32, rec.hdr.hdr_len + rec.data_len);
        }
    }

    /// design 2, never 5
    #[test]
    fn a_producer_survives_a_peer_that_writes_anything(
        words in prop::collection::vec((any::<u64>(), 0u32..300, 0u32..4097), 0..200),
    ) {
        let mut r = Pair::new();
        let (_, c_tag) = tags();
        for (word, small, len) in words {
            r.p.set_word(PLACE.want_data, word);
            let index = TaggedIndex { tag: c_tag, index: small };
            r.p.set_word(PLACE.cons, if small < 150 { index.word() } else { word });
            match r.tx.reserve(&r.p, len) {
                Ok(slot) => {
                    let ring = PLACE.data..PLACE.data + PLACE.size as usize;
                    for part in [slot.parts.first, slot.parts.second] {
                        prop_assert!(part.off >= ring.start && part.off + part.len <= ring.end);
                    }
                    r.tx.commit(slot);
                }
                Err(ReserveError::Corrupt(_)) => break,
                Err(_) => {}
            }
            r.publish();
            if r.tx.arm_space(&r.c, &r.p, len).is_err() {
                break;
            }
            prop_assert!(r.tx.free_units() <= r.tx.units());
        }
    }
}

/// design 4.6: payload, flush, index, full barrier, the peer's wish
#[test]
fn publishing_keeps_the_order_payload_flush_index_barrier_wish() {
    use std::cell::RefCell;

    struct Log<'a> {
        ram: &'a Ram,
        log: &'a RefCell<Vec<&'static str>>,
    }
    impl Inbound for Log<'_> {
        fn size(&self) -> usize {
            Inbound::size(self.ram)
        }
        fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
            self.log.borrow_mut().push("load");
            self.ram.load_u64(off)
        }
        fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
            self.log.borrow_mut().push("read");
            self.ram.read(off, buf)
        }
        fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds> {
            self.ram.zero(off, len)
        }
        fn rmb(&self) {
            self.log.borrow_mut().push("rmb");
        }
    }
    impl Outbound for Log<'_> {
        fn size(&self) -> usize {
            Outbound::size(self.ram)
        }
        fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
            self.log.borrow_mut().push("store");
            self.ram.store_u64(off, val)
        }
        fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
            self.log.borrow_mut().push("write");
            Outbound::write(self.ram, off, buf)
        }
        fn wmb(&self) {
            self.log.borrow_mut().push("wmb");
        }
        fn release(&self) {
            self.log.borrow_mut().push("release");
        }
        fn mb(&self) {
            self.log.borrow_mut().push("mb");
        }
    }

    let mut r = Pair::new();
    let log = RefCell::new(Vec::new());
    let p = Log {
        ram: &r.p,
        log: &log,
    };
    let c = Log {
        ram: &r.c,
        log: &log,
    };
    let slot = r.tx.reserve(&p, 64).expect("space");
    let hdr = BlockHdr {
        buffer_len: 64,
        hdr_len: 16,
        len: 32,
        mark: 0,
    };
    slot.write(&c, 0, &slot.header(&hdr)).expect("inside");
    r.tx.commit(slot);
    r.tx.publish(&c, &p).expect("inside");
    assert_eq!(log.take(), ["write", "wmb", "store", "mb", "load"]);
    let rec = r.rx.next(&c).expect("honest").expect("published");
    assert_eq!(log.take(), ["load", "rmb", "read"]);
    r.rx.release(rec.token);
    r.rx.publish_cons(&p, &c).expect("inside");
    assert_eq!(log.take(), ["release", "store", "mb", "load"]);
    r.rx.arm_data(&p, &c).expect("honest");
    assert_eq!(log.take(), ["store", "mb", "load"], "there is nothing new");
    let slot = r.tx.reserve(&r.p, 64).expect("space");
    slot.write(&r.c, 0, &slot.header(&hdr)).expect("inside");
    r.tx.commit(slot);
    r.tx.publish(&r.c, &r.p).expect("inside");
    r.rx.arm_data(&p, &c).expect("honest");
    assert_eq!(log.take(), ["load", "rmb"]);
    r.rx.mute(&p).expect("inside");
    assert_eq!(log.take(), ["store", "wmb"]);
}
