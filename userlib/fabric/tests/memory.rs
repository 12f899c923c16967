// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that peers and devices are given, and maps that are only read.

use mp_fabric::{
    Copy, Deadline, Error, EventMask, Fabric, Filling, Goal, InterfaceId, Map, QueueState, ReadOnly,
};
use mp_testing::{Host, World, LOOPBACK};
use rustix::io::Errno;
use vm_memory::{Bytes, VolatileSlice};

const LOOP: InterfaceId = InterfaceId(LOOPBACK);

fn piece(local: u64, remote: u64, len: u64) -> Copy {
    Copy { local, remote, len }
}

#[test]
fn a_map_that_is_only_read_shows_what_is_written() {
    let fabric = Fabric::with_device(World::new(0, 0).open(Host::A));
    let segment = fabric.create_segment(Some((7, 0)), 4096).unwrap();
    let written: Map = segment.map(0, 4096, 0).unwrap();
    let map: Map<ReadOnly> = segment.map(0, 4096, 0).unwrap();
    written.volatile().write_slice(b"shown", 4091).unwrap();
    let mut read = [0; 5];
    map.read(4091, VolatileSlice::from(&mut read[..])).unwrap();
    assert_eq!(&read, b"shown");
    assert_eq!(
        map.read(4092, VolatileSlice::from(&mut read[..])),
        Err(Errno::RANGE)
    );
    let word = u64::from_ne_bytes(*b"\0\0\0shown");
    assert_eq!(map.read_back(4095), Some(word));
    assert_eq!(map.read_back(4088), Some(word));
    assert_eq!(map.read_back(4096), None);
}

#[test]
fn memory_for_one_peer_is_prepared_for_that_one() {
    let world = World::new(2, 1 << 20);
    let fabric = Fabric::with_device(world.open(Host::A));
    let [first, second] = [0, 1].map(|link| InterfaceId(world.interface(link, Host::A)));
    let none = fabric.create_segment_for(InterfaceId(0x999), None, 4096);
    assert!(matches!(none, Err(Error::NoInterface(_))));
    let segment = fabric
        .create_segment_for(first, Some((7, 0)), 4096)
        .unwrap();
    assert!(matches!(segment.prepare(second), Err(Error::NoSpace(_))));
    segment.prepare_placed(second).unwrap();
    for at in [first, LOOP] {
        segment.prepare(at).unwrap();
        segment.publish(at).unwrap();
    }
}

#[test]
fn memory_of_the_process_is_copied_from_and_nothing_beyond_it() {
    let fabric = Fabric::with_device(World::new(0, 0).open(Host::A));
    let segment = fabric.create_segment(Some((7, 0)), 4096).unwrap();
    segment.prepare(LOOP).unwrap();
    segment.publish(LOOP).unwrap();
    let connection = fabric.connect(LOOP, Goal::Segment(7.into()), Deadline::PAST);
    let connection = connection.unwrap();
    let memory = Map::allocate(8192).unwrap();
    memory.volatile().write_slice(b"copied", 5000).unwrap();
    let queue = fabric.create_queue(LOOP, 4).unwrap();
    let start = |copy| queue.start_from_memory(memory.memory(), &connection, &[copy]);
    for beyond in [
        piece(8191, 0, 2),
        piece(8193, 0, 0),
        piece(u64::MAX, 0, 2),
        piece(u64::MAX - memory.as_ptr() as u64, 0, 1),
    ] {
        assert_eq!(start(beyond), Err(Error::System(Errno::RANGE)));
    }
    assert_eq!(queue.info().unwrap().state, QueueState::Idle);
    start(piece(5000, 100, 6)).unwrap();
    queue.wait(EventMask::DONE, Deadline::NEVER).unwrap();
    let map: Map = segment.map(0, 4096, 0).unwrap();
    let mut copied = [0; 6];
    map.volatile().read_slice(&mut copied, 100).unwrap();
    assert_eq!(&copied, b"copied");
}

#[test]
fn a_segment_is_filled_with_memory_of_the_process() {
    let fabric = Fabric::with_device(World::new(0, 0).open(Host::A));
    let segment = fabric.create_empty_segment(Some((7, 0)), 8192).unwrap();
    let memory = Map::allocate(4096).unwrap();
    segment.fill(Filling::Own(memory.memory())).unwrap();
    assert_eq!(segment.len(), 4096);
    let again = segment.fill(Filling::Own(memory.memory()));
    assert_eq!(again, Err(Error::System(Errno::EXIST)));
}
