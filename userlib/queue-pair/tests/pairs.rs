// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queue pairs of two hosts in one process.

mod common;

use common::{sessions, soon, Pair};
use mp_fabric::{Deadline, Error as FabricError};
use mp_queue_pair::{Broken, Error, Head, QueuePair, Shape, INLINE_MAX};
use mp_testing::World;
use std::{
    thread,
    time::{Duration, Instant},
};

const WINDOW: u64 = 0x1_0000;

fn pairs_of(shape: Shape) -> (World, Pair, Pair) {
    let world = World::new(1, 1 << 20);
    let (a, b) = sessions(&world, WINDOW);
    let other = thread::spawn(move || QueuePair::open(b, &shape, soon()).unwrap());
    let a = QueuePair::open(a, &shape, soon()).unwrap();
    (world, a, other.join().unwrap())
}

fn pairs() -> (World, Pair, Pair) {
    pairs_of(Shape::default())
}

#[test]
fn messages_of_all_lengths_arrive_with_their_head() {
    let (_world, mut a, mut b) = pairs();
    let mut room = vec![0; a.message_max()];
    assert_eq!(room.len(), 4096);
    assert_eq!(b.try_receive(&mut room), Ok(None));
    for len in (0..INLINE_MAX + 100).chain([4095, 4096]) {
        let data: Vec<u8> = (0..len).map(|n| (n * 3 + len) as u8).collect();
        let head = Head {
            kind: len as u8,
            immediate: Some(len as u32),
            ..Head::default()
        };
        assert_eq!(a.try_send(&head, &data), Ok(true));
        let received = b.try_receive(&mut room).unwrap().unwrap();
        assert_eq!((received.head, &room[..received.len]), (head, &data[..]));
    }
    let most = 4096;
    assert_eq!(
        a.try_send(&Head::default(), &[0; 4097]),
        Err(Error::TooLong { most })
    );
    let stream = Head {
        stream: 1,
        ..Head::default()
    };
    assert_eq!(a.try_send(&stream, b""), Err(Error::Stream));
}

#[test]
fn a_message_that_is_longer_than_the_room_is_lost_and_its_slot_is_not() {
    let (_world, mut a, mut b) = pairs();
    for _ in 0..20 {
        assert_eq!(a.try_send(&Head::default(), &[1; 1000]), Ok(true));
        let received = b.try_receive(&mut [0; 999]);
        assert_eq!(received, Err(Error::TooLong { most: 999 }));
    }
}

#[test]
fn both_sides_sleep_and_wake_each_other_in_both_directions() {
    let (_world, mut a, mut b) = pairs();
    let other = thread::spawn(move || {
        let mut room = [0; 4096];
        loop {
            match b.receive(&mut room, soon()) {
                Ok(got) => b.send(&got.head, &room[..got.len], soon()).unwrap(),
                Err(Error::Closed { reason: 3 }) => return,
                Err(error) => panic!("{error}"),
            }
        }
    });
    let mut room = [0; 4096];
    for n in 0..300usize {
        if n % 50 == 0 {
            thread::sleep(Duration::from_millis(30));
        }
        let data = vec![n as u8; n * 10];
        a.send(&Head::default(), &data, soon()).unwrap();
        let got = a.receive(&mut room, soon()).unwrap();
        assert_eq!(&room[..got.len], &data[..]);
    }
    a.close(3).unwrap();
    assert_eq!(a.try_send(&Head::default(), b""), Err(Error::Ended));
    other.join().unwrap();
}

/// More than ring and slots hold: the sender sleeps until the receiver has made room.
#[test]
fn a_sender_waits_for_lines_and_slots() {
    let (_world, mut a, mut b) = pairs_of(Shape {
        lines: 8,
        slots: 2,
        ..Shape::default()
    });
    let sender = thread::spawn(move || {
        for n in 0..400usize {
            let data = vec![n as u8; if n % 3 == 0 { 500 } else { n % 200 }];
            a.send(&Head::default(), &data, soon()).unwrap();
        }
        a
    });
    let mut room = [0; 4096];
    for n in 0..400usize {
        if n % 100 == 0 {
            thread::sleep(Duration::from_millis(40));
        }
        let got = b.receive(&mut room, soon()).unwrap();
        let data = vec![n as u8; if n % 3 == 0 { 500 } else { n % 200 }];
        assert_eq!(&room[..got.len], &data[..], "message {n}");
    }
    drop(sender.join().unwrap());
}

/// Each side sleeps for each message, or looks for as long as it takes.
#[test]
fn a_side_looks_as_long_as_it_is_told_to() {
    let (world, mut a, mut b) = pairs();
    let asleep = |world: &World| {
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end {
            if world.waiting() > 0 {
                return true;
            }
            thread::yield_now();
        }
        false
    };
    for (looks, sleeps) in [(0, true), (1, true), (u32::MAX, false)] {
        b.set_looks(looks);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| b.receive(&mut [0; 8], soon()).unwrap().len);
            assert_eq!(asleep(&world), sleeps, "{looks}");
            a.send(&Head::default(), &[7; 8], soon()).unwrap();
            assert_eq!(receiver.join().unwrap(), 8);
        });
    }
}

#[test]
fn sides_that_sleep_at_once_wake_each_other_for_each_message() {
    let (_world, mut a, mut b) = pairs();
    a.set_looks(1);
    b.set_looks(1);
    let other = thread::spawn(move || {
        for _ in 0..500 {
            let len = b.receive(&mut [0; 64], soon()).unwrap().len;
            b.send(&Head::default(), &[1; 64][..len], soon()).unwrap();
        }
        b
    });
    for n in 0..500 {
        a.send(&Head::default(), &[0; 64][..n % 64], soon())
            .unwrap();
        assert_eq!(a.receive(&mut [0; 64], soon()).unwrap().len, n % 64);
    }
    drop(other.join().unwrap());
}

#[test]
fn a_wait_ends_in_time_and_with_the_partner() {
    let (world, mut a, b) = pairs();
    let mut room = [0; 64];
    let late = Deadline::after(Duration::from_millis(30));
    let timed_out = Err(Error::Fabric(FabricError::TimedOut));
    assert_eq!(a.receive(&mut room, late), timed_out);
    drop(b);
    let gone = Err(Error::Fabric(FabricError::PartnerGone));
    assert_eq!(a.receive(&mut room, soon()), gone);
    drop(world);
}

/// The partner may have looked, and gone, before it is woken.
#[test]
fn a_partner_that_has_gone_can_be_told_the_end() {
    let (_world, mut a, b) = pairs();
    drop(b);
    assert_eq!(a.close(0), Ok(()));
}

#[test]
fn messages_of_a_partner_that_has_gone_are_received() {
    let (_world, mut a, mut b) = pairs_of(Shape {
        lines: 8,
        ..Shape::default()
    });
    for n in 0..8 {
        b.send(&Head::default(), &[n], soon()).unwrap();
    }
    // It sleeps until there is room, and gives up.
    let late = Deadline::after(Duration::from_millis(30));
    assert!(b.send(&Head::default(), &[8], late).is_err());
    drop(b);
    let mut room = [0; 64];
    for n in 0..8 {
        assert_eq!(a.receive(&mut room, soon()).map(|got| got.len), Ok(1));
        assert_eq!(room[0], n);
    }
    let gone = Err(Error::Fabric(FabricError::PartnerGone));
    assert_eq!(a.receive(&mut room, soon()), gone);
}

#[test]
fn a_partner_that_writes_nonsense_ends_the_pair_and_is_told() {
    let world = World::new(1, 1 << 20);
    let (a, b) = sessions(&world, WINDOW);
    let shape = Shape::default();
    let scribbler = b.map_remote().unwrap().unwrap();
    let other = thread::spawn(move || QueuePair::open(b, &shape, soon()).unwrap());
    let mut a = QueuePair::open(a, &shape, soon()).unwrap();
    let mut b = other.join().unwrap();
    // The first line of the ring, behind header and free ring.
    use mp_fabric::vm_memory::Bytes;
    let line = 512 + 64;
    scribbler.volatile().write_slice(&[0x77; 64], line).unwrap();
    let mut room = [0; 64];
    let broken = Err(Error::Broken(Broken::Line));
    assert_eq!(a.try_receive(&mut room), broken);
    assert_eq!(a.try_receive(&mut room), broken);
    let told = Broken::Partner(Broken::Line.reason());
    assert_eq!(b.try_receive(&mut room), Err(Error::Broken(told)));
}

#[test]
fn a_pair_that_does_not_fit_into_its_windows_is_refused() {
    let world = World::new(1, 1 << 20);
    let (a, _b) = sessions(&world, WINDOW);
    let shape = Shape {
        slots: 64,
        ..Shape::default()
    };
    assert_eq!(
        QueuePair::open(a, &shape, soon()).unwrap_err(),
        Error::Layout
    );
}
