// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pairs between hosts that have no bridge in common: what is stored is sent, by calls.

mod common;

use common::{both, sessions, soon, Halves, Patience};
use mp_fabric::{vm_memory::VolatileMemory, Error as FabricError, RemoteMemory};
use mp_queue_pair::{
    provider::End, Data, Error, Head, Need, Outgoing, Piece, Place, QueuePair, Receiving, Room,
    Sending, Shape, INLINE_MAX,
};
use mp_testing::{FakeDevice, World};
use rustix::io::Errno;
use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Barrier,
    },
    thread,
};

const WINDOW: u64 = 0x1_0000;

fn routed() -> World {
    let world = World::new(1, 1 << 24);
    world.set_routed(true);
    world
}

fn data(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + seed) as u8).collect()
}

#[test]
fn a_window_is_not_mapped_and_takes_what_is_stored() {
    let world = routed();
    let (a, b) = sessions(&world, WINDOW);
    let unmapped = a.map_remote();
    assert!(matches!(unmapped, Err(FabricError::NotSupported(_))));
    let remote = a.remote().unwrap().expect("a window");
    let map = b.map_local().unwrap().expect("memory");
    assert_eq!(remote.size(), WINDOW as usize);
    let (line, long) = ([0x0102_0304_0506_0708; 8], data(3, 0x1_0000 - 256));
    remote.store_line(64, &line).unwrap();
    remote.store(8, 5).unwrap();
    remote.store(8, 6).unwrap();
    remote.flush();
    remote.write(256, &long).unwrap();
    let load = |at| {
        let memory = map.volatile();
        let word: &AtomicU64 = memory.get_atomic_ref(at).unwrap();
        u64::from_le(word.load(Ordering::Relaxed))
    };
    remote.barrier();
    assert_eq!((load(8), load(64), load(120)), (6, line[0], line[7]));
    let mut found = vec![0; long.len()];
    map.volatile()
        .subslice(256, long.len())
        .unwrap()
        .copy_to(&mut found);
    assert!(found == long);
    for outside in [WINDOW as usize, usize::MAX - 7, 4] {
        assert!(remote.store(outside, 1).is_err());
    }
    drop(b);
    // As in a map: nobody sees it.
    remote.store(8, 7).unwrap();
    remote.barrier();
    remote.store(8, 8).unwrap();
}

#[test]
fn messages_of_all_lengths_arrive_while_both_sleep_or_look() {
    let world = routed();
    let (a, b) = sessions(&world, WINDOW);
    let shape = Shape::default();
    let other = thread::spawn(move || {
        let mut pair = QueuePair::open(b, &shape, soon()).unwrap();
        pair.set_looks(1);
        let mut room = [0; 4096];
        loop {
            match pair.receive(&mut room, soon()) {
                Ok(got) => pair.send(&got.head, &room[..got.len], soon()).unwrap(),
                Err(Error::Closed { reason: 3 }) => return,
                Err(error) => panic!("{error}"),
            }
        }
    });
    let mut pair = QueuePair::open(a, &shape, soon()).unwrap();
    let mut room = [0; 4096];
    for len in (0..INLINE_MAX + 20).step_by(3).chain([4095, 4096]) {
        pair.set_looks(if len % 2 == 0 { 1 } else { 1000 });
        let sent = data(len, len);
        let head = Head {
            kind: len as u8,
            ..Head::default()
        };
        pair.send(&head, &sent, soon()).unwrap();
        let got = pair.receive(&mut room, soon()).unwrap();
        assert_eq!((got.head, &room[..got.len]), (head, &sent[..]));
    }
    pair.close(3).unwrap();
    other.join().unwrap();
}

#[test]
fn what_is_written_in_place_arrives_though_nobody_is_told() {
    let world = routed();
    let (mut a, b): (Halves, Halves) = both(sessions(&world, WINDOW), Shape::default());
    let written = data(9, 600);
    a.0.write(40, &[Piece::from(&written[..])]).unwrap();
    let place = Place {
        key: 0,
        off: 40,
        len: 600,
    };
    let area = b.1.area(place).expect("inside");
    let mut found = vec![0; 600];
    assert_eq!(Data::Placed(place, area).read(&mut found), Ok(600));
    assert!(found == written);
}

/// Lines of a few words, one after the other.
fn put(sending: &mut Sending<FakeDevice>, kind: u8) -> Option<u64> {
    let head = Head {
        kind,
        ..Head::default()
    };
    let data = [Piece::from(&b"bytes"[..])];
    sending.put(&mut Outgoing::new(head, &[], &data)).unwrap()
}

fn kinds(receiving: &mut Receiving<FakeDevice>) -> Vec<u8> {
    let mut room = Room::default();
    let next = || Some(receiving.receive(&mut room).unwrap()?.head.kind);
    std::iter::from_fn(next).collect()
}

#[test]
fn what_the_kernel_has_no_memory_for_is_sent_later_and_in_order() {
    let world = routed();
    let (mut a, mut b): (Halves, Halves) = both(sessions(&world, WINDOW), Shape::default());
    world.fail_stores(u32::MAX, Errno::NOMEM);
    assert!(put(&mut a.0, 1).is_some() && put(&mut a.0, 2).is_some());
    a.0.publish().unwrap();
    assert!(a.0.owes_signal());
    // Nothing is put behind what may wait for long, and nobody sleeps on what was not asked for.
    assert_eq!(put(&mut a.0, 3), None);
    let full: Result<_, Error> = Err(FabricError::NoMemory.into());
    assert_eq!(a.0.arm(Need::Lines(1)), full);
    assert_eq!(a.1.arm(), full);
    assert_eq!(kinds(&mut b.1), []);
    world.fail_stores(0, Errno::NOMEM);
    a.0.publish().unwrap();
    assert!(!a.0.owes_signal());
    assert!(put(&mut a.0, 3).is_some());
    a.0.publish().unwrap();
    assert_eq!(kinds(&mut b.1), [1, 2, 3]);
}

#[test]
fn a_partner_that_sleeps_is_woken_once_there_is_memory() {
    let world = routed();
    let (a, b) = sessions(&world, WINDOW);
    let shape = Shape::default();
    let opened = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut pair = QueuePair::open(b, &shape, soon()).unwrap();
            pair.set_looks(1);
            opened.wait();
            pair.receive(&mut [0; 64], soon()).map(|got| got.len)
        });
        let mut pair = QueuePair::open(a, &shape, soon()).unwrap();
        opened.wait();
        // Its own stores do not fail: it has made them when it sleeps.
        let patience = Patience::new();
        while world.waiting() == 0 {
            patience.wait();
        }
        world.fail_stores(u32::MAX, Errno::NOMEM);
        pair.send(&Head::default(), b"kept", soon()).unwrap();
        let again = pair.send(&Head::default(), b"refused", soon());
        assert_eq!(again, Err(FabricError::NoMemory.into()));
        world.fail_stores(0, Errno::NOMEM);
        assert_eq!(pair.try_receive(&mut []), Ok(None));
        pair.send(&Head::default(), b"behind it", soon()).unwrap();
        assert_eq!(other.join().unwrap(), Ok(4));
    });
}

#[test]
fn a_store_that_is_lost_ends_the_pair_as_a_lost_link_does() {
    let world = routed();
    for errno in [Errno::TIMEDOUT, Errno::MSGSIZE, Errno::FAULT] {
        let (mut a, _b): (Halves, Halves) = both(sessions(&world, WINDOW), Shape::default());
        assert!(put(&mut a.0, 1).is_some());
        world.fail_stores(1, errno);
        let lost = a.0.publish().expect_err("a store was lost");
        assert_eq!(End::from(lost), End::Down);
        let mut room = Room::default();
        let other = a.1.receive(&mut room).expect_err("both halves end");
        assert_eq!(End::from(other), End::Down);
        assert!(a.1.has_news());
    }
}

#[test]
fn what_is_kept_is_bounded_by_the_window() {
    let world = routed();
    let (a, _b) = sessions(&world, WINDOW);
    let remote = a.remote().unwrap().expect("a window");
    world.fail_stores(u32::MAX, Errno::NOMEM);
    let refused = (0..1000).find_map(|_| remote.write(0, &[1; 4096]).err());
    assert_eq!(refused, Some(Errno::NOMEM));
}
