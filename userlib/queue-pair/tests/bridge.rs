// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pairs behind a model of a bridge: stores leave in pieces and in any order between fences, and
//! arrive late and word by word.

mod common;

use common::{both, bridged, soon, Halves, Patience};
use mp_fabric::vm_memory::VolatileMemory;
use mp_queue_pair::{
    Broken, Data, Error, Head, Opened, Opening, Outgoing, Piece, Place, QueuePair, Room, Shape,
    INLINE_MAX,
};
use mp_testing::{Bridge, BridgeDevice, Lines, World};
use std::{
    collections::VecDeque,
    panic,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

const WINDOW: u64 = 0x8000;
/// Short rings, and slots that are used again at once.
const SHAPE: Shape = Shape {
    lines: 8,
    slots: 3,
    slot_size: 512,
    streams: 2,
    partner_slots: 8,
};

/// Processors without a store of 64 bytes and with one; what the last one does is not promised.
const LINES: [Lines; 3] = [Lines::InWords, Lines::InOneWrite, Lines::Whole];

type Side = Halves<BridgeDevice>;

/// Numbers that a seed determines.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) as usize % n
    }
}

/// Both ends, opened without waiting, by one thread.
fn sides(world: &World, bridge: &Bridge) -> [Side; 2] {
    let (a, b) = bridged(world, bridge, WINDOW);
    let look = |mut opening: Opening<BridgeDevice>| loop {
        opening = match opening.look().expect("honest") {
            Opened::Ready(tx, rx) => return (tx, rx),
            Opened::NotYet(opening) => opening,
        };
        bridge.step();
    };
    let [a, b] = [a, b].map(|session| Opening::new(session, &SHAPE).expect("fits"));
    [look(a), look(b)]
}

fn data(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n ^ (number * 5)) as u8).collect()
}

/// One thread plays both sides; the other end of each direction.
fn play(seed: u64, lines: Lines) {
    let world = World::new(1, 1 << 20);
    let bridge = Bridge::still(seed).with_lines(lines);
    let mut numbers = Numbers(seed);
    let mut sides = sides(&world, &bridge);
    let mut expected: [VecDeque<(usize, usize, u16)>; 2] = Default::default();
    let mut held = [Vec::new(), Vec::new()];
    let mut next = 0;
    let mut numbers_sent = [0, 0];
    let mut room = Room::default();
    let mut receive =
        |side: &mut Side, expected: &mut VecDeque<(usize, usize, u16)>, held: &mut Vec<_>| {
            let message = side.1.receive(&mut room).expect("honest");
            let Some(message) = message else { return };
            let (number, len, stream) = expected.pop_front().expect("it was sent");
            let mut got = vec![0; message.data.len()];
            message.data.read(&mut got).expect("inside");
            assert_eq!((message.head.stream, got.len()), (stream, len));
            assert!(got == data(number, len), "torn, stale or out of order");
            side.1.acknowledge(message.number);
            if let Data::Held(slot) = message.data {
                held.push(slot);
            }
        };
    for _ in 0..400 {
        let me = numbers.below(2);
        let side = &mut sides[me];
        match numbers.below(8) {
            0 | 1 => {
                let len = match numbers.below(3) {
                    0 => numbers.below(INLINE_MAX + 1),
                    1 => numbers.below(41),
                    _ => INLINE_MAX + numbers.below(512 - INLINE_MAX + 1),
                };
                let stream = numbers.below(2) as u16;
                let bytes = data(next, len);
                let pieces = [
                    Piece::from(&bytes[..len / 2]),
                    Piece::from(&bytes[len / 2..]),
                ];
                let head = Head {
                    stream,
                    ..Head::default()
                };
                let mut message = Outgoing::new(head, &[], &pieces);
                if let Some(number) = side.0.put(&mut message).expect("honest") {
                    expected[1 - me].push_back((next, len, stream));
                    numbers_sent[me] = number;
                    next += 1;
                }
            }
            2 | 3 => receive(side, &mut expected[me], &mut held[me]),
            4 => side.0.publish().expect("honest"),
            5 => side.1.publish().expect("honest"),
            6 if !held[me].is_empty() => {
                let slot = numbers.below(held[me].len());
                let slot = held[me].swap_remove(slot);
                let stream = numbers.below(2) as u16;
                side.1.give(slot, stream).expect("its own");
            }
            _ => bridge.step(),
        }
    }
    for me in [0, 1] {
        sides[me].0.close(me as u16).expect("there");
    }
    bridge.arrive();
    for me in [0, 1] {
        while !expected[me].is_empty() {
            receive(&mut sides[me], &mut expected[me], &mut held[me]);
            bridge.arrive();
        }
        let reason = 1 - me as u16;
        let closed = Error::Closed { reason };
        assert_eq!(
            sides[me].1.receive(&mut Room::default()).unwrap_err(),
            closed
        );
        sides[me].1.publish().expect("honest");
    }
    bridge.arrive();
    for (side, sent) in sides.iter_mut().zip(numbers_sent) {
        // What was published with less than its whole is still on its way.
        let acknowledged = side.0.acknowledged().expect("honest");
        assert!(acknowledged <= sent, "{acknowledged} of {sent}");
    }
}

#[test]
fn messages_arrive_whole_once_and_in_order_and_the_end_behind_them() {
    for (seed, lines) in (0..400).flat_map(|seed| LINES.map(|lines| (seed, lines))) {
        if let Err(cause) = panic::catch_unwind(|| play(seed, lines)) {
            eprintln!("seed {seed}, lines {lines:?}");
            panic::resume_unwind(cause);
        }
    }
}

/// A word that is stored behind a fence is there in one piece, and behind what was written before.
#[test]
fn a_word_tells_of_what_was_written_in_place() {
    for seed in 0..200 {
        let world = World::new(1, 1 << 20);
        let bridge = Bridge::still(seed);
        let [mut a, b] = sides(&world, &bridge);
        let area = |off, len| b.1.area(Place { key: 0, off, len }).expect("inside");
        let (place, told) = (area(64, 700), area(1024, 8));
        for round in 0..20_usize {
            let bytes = data(round, 700);
            a.0.write(64, &[Piece::from(&bytes[..])]).expect("inside");
            a.0.fence();
            let number = (round as u64 + 1).wrapping_mul(0x0101_0101_0101_0101);
            a.0.store(1024, number).expect("inside");
            let before = (round as u64).wrapping_mul(0x0101_0101_0101_0101);
            loop {
                let memory = told.volatile().expect("there");
                let word = memory.get_atomic_ref::<AtomicU64>(0).expect("aligned");
                let found = u64::from_le(word.load(Ordering::Acquire));
                if found == number {
                    break;
                }
                assert_eq!(found, before, "seed {seed}: torn");
                bridge.step();
            }
            let mut got = vec![0; 700];
            let memory = place.volatile().expect("there");
            memory.copy_to(&mut got[..]);
            assert!(got == bytes, "seed {seed}: stale");
        }
        let most = a.0.partner().buffers_len;
        for off in [4, most - 4, most, u64::MAX - 7] {
            let most = most as usize;
            assert_eq!(a.0.store(off, 1), Err(Error::TooLong { most }), "{off}");
        }
    }
}

/// A placed message arrives behind its data, also those that nobody is told of.
#[test]
fn placed_data_are_there_when_a_line_tells_of_them() {
    for (seed, lines) in (0..200).flat_map(|seed| LINES.map(|lines| (seed, lines))) {
        let world = World::new(1, 1 << 20);
        let bridge = Bridge::still(seed).with_lines(lines);
        let [mut a, mut b] = sides(&world, &bridge);
        let mut room = Room::default();
        for round in 0..20_usize {
            let bytes = data(round, 700);
            a.0.write(64, &[Piece::from(&bytes[..])]).expect("inside");
            let place = Place {
                key: 1,
                off: 64,
                len: 700,
            };
            let told =
                a.0.put_placed(&Head::default(), place, b"")
                    .expect("honest");
            assert!(told.is_some());
            a.0.publish().expect("honest");
            let message = loop {
                if let Some(message) = b.1.receive(&mut room).expect("honest") {
                    break message;
                }
                bridge.step();
            };
            let mut got = vec![0; 700];
            message.data.read(&mut got).expect("inside");
            assert!(got == bytes, "seed {seed}, lines {lines:?}: torn or stale");
            b.1.publish().expect("honest");
            bridge.arrive();
        }
    }
}

/// Whatever was on its way, the partner finds the end.
#[test]
fn a_broken_end_arrives_in_the_middle_of_messages() {
    for seed in 0..100 {
        let world = World::new(1, 1 << 20);
        let bridge = Bridge::still(seed);
        let [mut a, mut b] = sides(&world, &bridge);
        let bytes = [1; 100];
        for _ in 0..3 {
            let pieces = [Piece::from(&bytes[..])];
            let mut message = Outgoing::new(Head::default(), &[], &pieces);
            a.0.put(&mut message).expect("honest");
        }
        a.1.abort(400);
        let mut room = Room::default();
        let end = (0..1000).find_map(|_| {
            bridge.step();
            b.1.receive(&mut room).err()
        });
        assert_eq!(
            end,
            Some(Error::Broken(Broken::Partner(400))),
            "seed {seed}"
        );
    }
}

/// Both directions at once, a thread for each half, and slots that are used again at once.
#[test]
fn the_halves_of_two_threads_work_behind_a_bridge() {
    for (seed, lines) in (0..10).flat_map(|seed| LINES.map(|lines| (seed, lines))) {
        let world = World::new(1, 1 << 20);
        let bridge = Bridge::new(seed).with_lines(lines);
        let (a, b) = both(bridged(&world, &bridge, WINDOW), SHAPE);
        let length = |n: usize| n * 37 % 900;
        let threads: Vec<_> = [a, b]
            .into_iter()
            .flat_map(|(mut tx, mut rx)| {
                let sender = thread::spawn(move || {
                    let patience = Patience::new();
                    for n in 0..200 {
                        let bytes = data(n, length(n));
                        let pieces = [Piece::from(&bytes[..])];
                        let mut message = Outgoing::new(Head::default(), &[], &pieces);
                        while tx.put(&mut message).unwrap().is_none() {
                            tx.publish().unwrap();
                            patience.wait();
                        }
                        tx.publish().unwrap();
                    }
                    tx
                });
                let receiver = thread::spawn(move || {
                    let patience = Patience::new();
                    let mut room = Room::default();
                    for n in 0..200 {
                        let mut got = Vec::new();
                        loop {
                            let Some(message) = rx.receive(&mut room).unwrap() else {
                                patience.wait();
                                continue;
                            };
                            let at = got.len();
                            got.resize(at + message.data.len(), 0);
                            message.data.read(&mut got[at..]).unwrap();
                            if let Data::Held(held) = message.data {
                                rx.give(held, 0).unwrap();
                            }
                            rx.publish().unwrap();
                            if !message.head.more {
                                break;
                            }
                        }
                        assert!(got == data(n, length(n)), "message {n}");
                    }
                    drop(rx);
                });
                [
                    thread::spawn(move || drop(sender.join().unwrap())),
                    receiver,
                ]
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_pair_that_sleeps_works_behind_a_bridge() {
    let world = World::new(1, 1 << 20);
    let bridge = Bridge::new(3);
    let (a, b) = bridged(&world, &bridge, WINDOW);
    let other = thread::spawn(move || {
        let mut b = QueuePair::open(b, &SHAPE, soon()).unwrap();
        let mut room = [0; 512];
        loop {
            match b.receive(&mut room, soon()) {
                Ok(got) => b.send(&got.head, &room[..got.len], soon()).unwrap(),
                Err(Error::Closed { reason: 3 }) => return,
                Err(error) => panic!("{error}"),
            }
        }
    });
    let mut a = QueuePair::open(a, &SHAPE, soon()).unwrap();
    let mut room = [0; 512];
    for n in 0..100 {
        let bytes = data(n, n * 5);
        a.send(&Head::default(), &bytes, soon()).unwrap();
        let got = a.receive(&mut room, soon()).unwrap();
        assert!(room[..got.len] == bytes[..], "message {n}");
    }
    a.close(3).unwrap();
    other.join().unwrap();
}
