// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The ring and its two doorbell suppressions under a model checker: all interleavings of two
//! threads, and all stale values that the fences do not forbid.
//!
//! Each property has a twin in which one fence is missing, and which has to fail: it shows that
//! the model would notice.
//!
//! The model is that of coherent memory. A bridge also delays posted writes, which no fence at
//! the sender can wait for; see the doorbell section of `ring`.

#[path = "common/loomed.rs"]
mod loomed;

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::AcqRel;
use loom::sync::Arc;
use loom::thread;

use loomed::{explore, Memory, Missing};
use mp_proto::ring::{record_cap, Armed, Consumer, Place, Producer, ReserveError, Ringing};
use mp_proto::wire::{BlockHdr, Tag};

const RING: u32 = 4096;
const PLACE: Place = Place {
    data: 4096,
    size: RING,
    prod: 0,
    want_space: 8,
    cons: 64,
    want_data: 72,
};

/// Words of each half of the ring that are loom's: the header, and the start of what follows.
const DATA: [usize; 8] = [0, 8, 16, 24, 2048, 2056, 2064, 2072];

/// The memory of one side: its index and its request for a doorbell, and `data` words of the ring.
fn memory(missing: Missing, data: usize) -> Memory {
    let control = [PLACE.prod, PLACE.want_space, PLACE.cons, PLACE.want_data];
    let data = DATA.iter().take(data).map(|at| PLACE.data + at);
    let loomed: Vec<usize> = control.into_iter().chain(data).collect();
    Memory::new(missing, 2 * RING as usize, &loomed)
}

type Ends = (Producer<4>, Consumer<4>, Memory, Memory);

/// Both ends, the producer's memory and the consumer's.
fn ring(missing: Missing, data_words: usize, ringing: Ringing) -> Ends {
    let (tx, rx) = (Tag::new(1, 2), Tag::new(2, 1));
    let producer = Producer::new(PLACE, tx, rx, ringing).expect("good place");
    let consumer = Consumer::new(PLACE, rx, tx, ringing).expect("good place");
    (
        producer,
        consumer,
        memory(missing, 0),
        memory(missing, data_words),
    )
}

/// Send a record that fills half of the ring.
fn send(tx: &mut Producer<4>, own: &Memory, peer: &Memory, seq: u64) -> bool {
    let cap = record_cap(RING);
    let slot = tx.reserve(own, cap).expect("space");
    let hdr = BlockHdr {
        buffer_len: cap,
        hdr_len: 16,
        len: cap - 32,
        mark: 0,
    };
    slot.write(peer, 0, &slot.header(&hdr)).expect("inside");
    slot.write(peer, 16, &seq.to_le_bytes()).expect("inside");
    tx.commit(slot);
    tx.publish(peer, own).expect("inside")
}

/// Receive what is there and check that each record is the next one.
fn drain(rx: &mut Consumer<4>, own: &Memory, next: &mut u64) {
    while let Some(rec) = rx.next(own).expect("an honest peer") {
        let mut seq = [0; 8];
        rec.parts.read(own, 0, &mut seq).expect("inside");
        assert_eq!(u64::from_le_bytes(seq), *next, "stale payload");
        *next += 1;
        assert!(rx.release(rec.token));
    }
}

fn published_is_complete(missing: Missing) {
    explore(move || {
        let (mut tx, mut rx, p, c) = ring(missing, 8, Ringing::Level);
        let (p1, c1) = (p.clone(), c.clone());
        let producer = thread::spawn(move || {
            send(&mut tx, &p1, &c1, 0);
            send(&mut tx, &p1, &c1, 1);
        });
        let mut next = 0;
        drain(&mut rx, &c, &mut next);
        producer.join().expect("no panic");
        drain(&mut rx, &c, &mut next);
        assert_eq!(next, 2);
    });
}

/// design 4.6
#[test]
fn a_published_record_is_complete() {
    published_is_complete(Missing::Nothing);
}

/// design 4.6
#[test]
#[should_panic(expected = "an honest peer: Corrupt(Mark)")]
fn without_the_flush_before_the_index_the_model_finds_an_incomplete_record() {
    published_is_complete(Missing::Wmb);
}

/// A doorbell is only ever swapped: the model lets plain loads see values that others have
/// overwritten.
fn data_doorbell(missing: Missing, ringing: Ringing) {
    explore(move || {
        let (mut tx, mut rx, p, c) = ring(missing, 8, ringing);
        rx.mute(&p).expect("inside");
        assert_eq!(rx.arm_data(&p, &c), Ok(Armed::Asleep));
        let bell = Arc::new(AtomicBool::new(false));
        let (p1, c1, bell1) = (p.clone(), c.clone(), bell.clone());
        let producer = thread::spawn(move || {
            for seq in 0..2 {
                if send(&mut tx, &p1, &c1, seq) {
                    bell1.swap(true, AcqRel);
                }
            }
        });
        let mut next = 0;
        loop {
            bell.swap(false, AcqRel);
            drain(&mut rx, &c, &mut next);
            if rx.arm_data(&p, &c).expect("honest") != Armed::Ready {
                break;
            }
        }
        producer.join().expect("no panic");
        let asleep_with = next;
        drain(&mut rx, &c, &mut next);
        assert_eq!(next, 2);
        assert!(
            asleep_with == 2 || bell.swap(false, AcqRel),
            "the consumer sleeps, data is there and nobody rang"
        );
    });
}

/// design 4.7
#[test]
fn a_consumer_that_sleeps_is_rung_for_new_data() {
    for ringing in [Ringing::Edge, Ringing::Level] {
        data_doorbell(Missing::Nothing, ringing);
    }
}

/// design 4.7
#[test]
#[should_panic(expected = "nobody rang")]
fn without_the_full_barrier_the_model_finds_a_lost_data_doorbell() {
    data_doorbell(Missing::Mb, Ringing::Level);
}

fn space_doorbell(missing: Missing, ringing: Ringing) {
    explore(move || {
        let (mut tx, mut rx, p, c) = ring(missing, 8, ringing);
        send(&mut tx, &p, &c, 0);
        send(&mut tx, &p, &c, 1);
        let bell = Arc::new(AtomicBool::new(false));
        let (p1, c1, bell1) = (p.clone(), c.clone(), bell.clone());
        let consumer = thread::spawn(move || {
            for _ in 0..2 {
                let rec = rx.next(&c1).expect("honest").expect("the ring is full");
                assert!(rx.release(rec.token));
                if rx.publish_cons(&p1, &c1).expect("inside") {
                    bell1.swap(true, AcqRel);
                }
            }
        });
        let cap = record_cap(RING);
        let asleep = match tx.reserve(&p, cap) {
            Ok(slot) => {
                tx.commit(slot);
                false
            }
            Err(ReserveError::Full) => tx.arm_space(&c, &p, cap).expect("honest") != Armed::Ready,
            Err(e) => panic!("{e:?}"),
        };
        consumer.join().expect("no panic");
        assert!(
            !asleep || bell.swap(false, AcqRel),
            "the producer sleeps, space is there and nobody rang"
        );
        assert!(tx.refresh(&p).expect("honest") > 0);
    });
}

/// design 4.7
#[test]
fn a_producer_that_waits_for_space_is_rung() {
    for ringing in [Ringing::Edge, Ringing::Level] {
        space_doorbell(Missing::Nothing, ringing);
    }
}

/// design 4.7
#[test]
#[should_panic(expected = "nobody rang")]
fn without_the_full_barrier_the_model_finds_a_lost_space_doorbell() {
    space_doorbell(Missing::Mb, Ringing::Level);
}
