// SPDX-License-Identifier: MIT OR Apache-2.0

//! The limits that a NIC tells are reached, and not exceeded; buffers of any alignment and number.

mod common;

use common::{flushed, good, soon, Pair, Side};
use mp_testing::{seeded_bridge, Host, World};
use vipl::{
    Descriptor, Error, ErrorCode, Level, Map, MemAttributes, Remote, State, Status, ViAttributes,
    DESCRIPTORS_MAX, SEGMENTS_MAX, TRANSFER_MAX,
};
use vm_memory::Bytes;

/// VI-LIM-5, SC-8, VI-DESC-8: the largest transfer arrives intact, and one byte more is an error.
#[test]
fn the_largest_transfer_arrives() {
    let pair = Pair::new();
    let most = TRANSFER_MAX as usize;
    let attributes = |side: &Side| ViAttributes {
        max_transfer_size: most as u64,
        ..side.attributes(Level::Unreliable)
    };
    let [a, b] = [&pair.a, &pair.b].map(|side| {
        let vi = side.nic.create_vi(&attributes(side), None, None, 0);
        vi.unwrap()
    });
    pair.connect(&a, &b);
    let bytes: Vec<u8> = (0..=most).map(|n| (n % 253) as u8).collect();
    let (receive, room) = pair.b.receive(&b, most);
    pair.a.send(&a, &bytes);
    let refused = a.send_wait(soon()).unwrap().status;
    assert_eq!(refused, Status::DONE.with(Status::LENGTH_ERROR));
    let send = pair.a.send(&a, &bytes[..most]);
    assert_eq!(a.send_wait(soon()), Ok(good(send, Status::OP_SEND, most)));
    assert_eq!(
        b.recv_wait(soon()),
        Ok(good(receive, Status::OP_RECEIVE, most))
    );
    assert!(pair.b.bytes(room, most) == bytes[..most]);
}

/// VI-LIM-2, VI-DESC-9, SC-20: 254 segments, 252 with data of a send, a receive, a write and a read.
#[test]
fn descriptors_have_many_segments() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    let pieces = 252;
    let scattered = |side: &Side, descriptor: Descriptor| {
        let base = side.room(pieces * 128 + 64) + 1;
        let places: Vec<_> = (0..pieces)
            .map(|n| (base + 128 * n + n % 64, 1 + n % 7))
            .collect();
        let descriptor = places.iter().fold(descriptor, |descriptor, (at, len)| {
            descriptor.segment(side.at(*at), side.handle, *len as u32)
        });
        (side.descriptor(&descriptor), places)
    };
    let stream = |side: &Side, places: &[(usize, usize)]| -> Vec<u8> {
        places
            .iter()
            .flat_map(|(at, len)| side.bytes(*at, *len))
            .collect()
    };
    let fill = |side: &Side, places: &[(usize, usize)], seed: usize| {
        for (n, (at, len)) in places.iter().enumerate() {
            let bytes: Vec<u8> = (0..*len).map(|i| (n * 5 + i + seed) as u8).collect();
            side.map.volatile().write_slice(&bytes, *at).unwrap();
        }
    };
    let total: usize = (0..pieces).map(|n| 1 + n % 7).sum();
    let (receive, to) = scattered(&pair.b, Descriptor::new());
    b.post_recv(receive, pair.b.handle).unwrap();
    let (send, from) = scattered(&pair.a, Descriptor::new());
    fill(&pair.a, &from, 1);
    a.post_send(send, pair.a.handle).unwrap();
    assert_eq!(
        b.recv_wait(soon()),
        Ok(good(receive, Status::OP_RECEIVE, total))
    );
    assert_eq!(stream(&pair.b, &to), stream(&pair.a, &from));
    assert_eq!(a.send_wait(soon()), Ok(good(send, Status::OP_SEND, total)));
    let remote = pair.b.data(&vec![0; total]);
    let at = Remote {
        address: pair.b.at(remote) as u64,
        handle: pair.b.handle.0,
    };
    let (write, from) = scattered(&pair.a, Descriptor::write(at));
    fill(&pair.a, &from, 2);
    let (read, to) = scattered(&pair.a, Descriptor::read(at));
    for (descriptor, operation) in [(write, Status::OP_RDMA_WRITE), (read, Status::OP_RDMA_READ)] {
        a.post_send(descriptor, pair.a.handle).unwrap();
        assert_eq!(a.send_wait(soon()), Ok(good(descriptor, operation, total)));
    }
    assert_eq!(pair.b.bytes(remote, total), stream(&pair.a, &from));
    assert_eq!(stream(&pair.a, &to), stream(&pair.a, &from));
    let many = (0..=SEGMENTS_MAX).fold(Descriptor::new(), |descriptor, _| {
        descriptor.segment(pair.a.at(0), pair.a.handle, 0)
    });
    a.post_send(pair.a.descriptor(&many), pair.a.handle)
        .unwrap();
    let refused = a.send_wait(soon()).unwrap().status;
    assert_eq!(refused, Status::DONE.with(Status::LENGTH_ERROR));
}

/// VI-DESC-3, VI-DESC-18, VI-MEM-2: buffers of any alignment, with guards around them.
#[test]
fn buffers_have_any_alignment() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableReception);
    for offset in 0..64 {
        for len in [1, 63, 300] {
            let guarded = pair.b.data(&[0xee; 512]);
            let receive = pair.b.one(Descriptor::new(), guarded + 64 + offset, len);
            b.post_recv(receive, pair.b.handle).unwrap();
            let data = pair.a.data(&[0x11; 512]);
            let send = pair.a.one(Descriptor::new(), data + 63 - offset, len);
            a.post_send(send, pair.a.handle).unwrap();
            assert_eq!(
                b.recv_wait(soon()),
                Ok(good(receive, Status::OP_RECEIVE, len))
            );
            assert_eq!(a.send_wait(soon()), Ok(good(send, Status::OP_SEND, len)));
            let mut expected = [0xee; 512];
            expected[64 + offset..64 + offset + len].fill(0x11);
            assert_eq!(pair.b.bytes(guarded, 512), expected);
        }
    }
}

/// VI-POST-9, VI-LIM-6: as many descriptors as the NIC tells; one more is a catastrophe, and all come
/// back.
#[test]
fn a_queue_has_as_many_descriptors_as_the_nic_tells() {
    let pair = Pair::new();
    let most = pair.a.nic.attributes().unwrap().max_descriptors_per_queue as usize;
    assert_eq!(most, DESCRIPTORS_MAX);
    let vi = pair.a.vi(Level::Unreliable);
    let (tell, told) = std::sync::mpsc::channel();
    let handler = move |_: &_, event: &vipl::ErrorEvent<common::Device>| {
        tell.send((event.code, event.descriptor)).unwrap();
    };
    pair.a
        .nic
        .set_error_handler(Some(Box::new(handler)))
        .unwrap();
    let posted: Vec<_> = (0..most).map(|_| pair.a.receive(&vi, 0).0).collect();
    assert_eq!(vi.query().unwrap().state, State::Idle);
    let excess = pair.a.receive(&vi, 0).0;
    assert_eq!(vi.query().unwrap().state, State::Error);
    let soon = std::time::Duration::from_secs(20);
    assert_eq!(
        told.recv_timeout(soon),
        Ok((ErrorCode::ViOverrun, Some(excess)))
    );
    for descriptor in posted.into_iter().chain([excess]) {
        assert_eq!(vi.recv_done(), Ok(flushed(descriptor, Status::OP_RECEIVE)));
    }
}

/// VI-LIM-3, VI-LIM-6, VI-EP-9, VI-PTAG-5, VI-MEM-10: as many VIs and tags as the NIC tells, and no
/// more; more bytes than there are anywhere are refused.
#[test]
fn a_nic_has_as_many_objects_as_it_tells() {
    let world = World::new(1, 1 << 20);
    let nic = common::nic(&world, &seeded_bridge(), Host::A);
    let limits = nic.attributes().unwrap().clone();
    let tags: Vec<_> = (0..limits.max_ptags)
        .map(|_| nic.create_ptag().unwrap())
        .collect();
    assert_eq!(nic.create_ptag(), Err(Error::Resource));
    let attributes = |n: usize| ViAttributes {
        level: Level::ReliableDelivery,
        max_transfer_size: 1,
        ptag: tags[n],
        rdma_write: false,
        rdma_read: false,
    };
    let vis = (0..limits.max_vi as usize).map(|n| nic.create_vi(&attributes(n), None, None, 0));
    let vis: Vec<_> = vis.map(Result::unwrap).collect();
    let more = nic.create_vi(&attributes(0), None, None, 0);
    assert_eq!(more.unwrap_err(), Error::Resource);
    vis[0].destroy().unwrap();
    assert!(nic.create_vi(&attributes(0), None, None, 0).is_ok());
    let map = Map::allocate(4096).unwrap();
    let region = MemAttributes {
        ptag: tags[0],
        rdma_write: false,
        rdma_read: false,
    };
    // No host has so much, whatever its pages are.
    let long = 1 << 46;
    // SAFETY: It is too long to be accepted.
    let memory = unsafe { vipl::ProcessMemory::new(map.memory().start(), long) };
    assert_eq!(nic.register(memory, &region), Err(Error::Resource));
    nic.close().unwrap();
}

/// VI-LIM-6, VI-MEM-3, VI-MEM-10: as many bytes as the NIC tells can be registered, in one region or
/// several, and no page more; that is what the process may lock.
#[test]
fn as_many_bytes_can_be_registered_as_the_nic_tells() {
    use rustix::{
        param::page_size,
        process::{getrlimit, setrlimit, Resource, Rlimit},
        thread::{capabilities, set_capabilities, CapabilitySet},
    };
    let (page, pages) = (page_size(), 300);
    let allow = |bytes: usize| {
        let limit = Rlimit {
            current: Some(bytes as u64),
            ..getrlimit(Resource::Memlock)
        };
        setrlimit(Resource::Memlock, limit).unwrap();
    };
    let run = move || {
        let mut own = capabilities(None).unwrap();
        own.effective.remove(CapabilitySet::IPC_LOCK);
        set_capabilities(None, own).unwrap();
        allow(pages * page + page / 2);
        let nic = common::nic(&World::new(1, 1 << 20), &seeded_bridge(), Host::A);
        let limits = nic.attributes().unwrap().clone();
        let most = limits.max_register_bytes as usize;
        assert_eq!(
            (most, limits.max_register_block_bytes),
            (pages * page, most as u64)
        );
        let map = Map::allocate(most + page).unwrap();
        let attributes = MemAttributes {
            ptag: nic.create_ptag().unwrap(),
            rdma_write: true,
            rdma_read: true,
        };
        let start = map.memory().start();
        let register = |from: usize, to: usize| {
            // SAFETY: It lies in the map.
            let memory = unsafe { vipl::ProcessMemory::new(start + from, to - from) };
            nic.register(memory, &attributes)
        };
        assert_eq!(register(0, most + 1), Err(Error::Resource));
        for cut in [most, most - page, page, 5 * page] {
            let first = register(0, cut).unwrap();
            let second = (cut < most).then(|| register(cut, most).unwrap());
            assert_eq!(register(most, most + 1), Err(Error::Resource));
            nic.deregister(start, first).unwrap();
            if let Some(second) = second {
                nic.deregister(start + cut, second).unwrap();
            }
        }
        // The limit was lowered meanwhile.
        allow((pages - 1) * page);
        assert_eq!(register(0, most), Err(Error::Resource));
        assert!(register(page, most).is_ok());
        nic.close().unwrap();
        0
    };
    // The limit is the process's.
    assert_eq!(mp_testing::child(run), 0);
}

/// VI-RDMA-3, VI-DESC-7, VI-DESC-10, SC-13: writes with immediate data over a real link, at all levels;
/// and messages without data.
#[test]
fn immediate_data_travels_with_sends_and_writes() {
    let pair = Pair::new();
    for level in Level::ALL {
        let (a, b) = pair.connected(level);
        let remote = pair.b.data(&[0; 5000]);
        let at = Remote {
            address: pair.b.at(remote) as u64,
            handle: pair.b.handle.0,
        };
        for len in [0, 5, 5000] {
            let (receive, own) = pair.b.receive(&b, 16);
            let write = Descriptor::write(at).immediate(0x0102_0304);
            pair.a.post(&a, write, &vec![len as u8; len]);
            let got = b.recv_wait(soon()).unwrap();
            let operation = Status::OP_REMOTE_RDMA_WRITE.with(Status::IMMEDIATE);
            assert_eq!(
                (got.descriptor, got.status),
                (receive, Status::DONE.with(operation))
            );
            assert_eq!((got.length, got.immediate), (len as u32, Some(0x0102_0304)));
            assert_eq!(pair.b.bytes(remote, len), vec![len as u8; len]);
            assert_eq!(pair.b.bytes(own, 16), [0; 16]);
            assert!(!a.send_wait(soon()).unwrap().status.is_error());
        }
        for immediate in [None, Some(0), Some(u32::MAX)] {
            pair.b.receive(&b, 0);
            let descriptor = Descriptor::new();
            let descriptor = match immediate {
                None => descriptor,
                Some(data) => descriptor.immediate(data),
            };
            pair.a.post(&a, descriptor, b"");
            let got = b.recv_wait(soon()).unwrap();
            assert_eq!((got.length, got.immediate), (0, immediate));
            a.send_wait(soon()).unwrap();
        }
    }
}
