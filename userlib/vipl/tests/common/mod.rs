// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two hosts in one process, each with a NIC, and endpoints on them. Between them is a model of a
//! bridge: what they store in each other's memory leaves in pieces and arrives late.

#![allow(dead_code)] // each test file uses a part

use mp_testing::{seeded_bridge, Bridge, BridgeDevice, Host, World};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use vipl::{
    Completion, Deadline, Descriptor, Fabric, Level, Library, Map, MemAttributes, MemHandle,
    NetAddress, Nic, Ptag, RemoteViAttributes, Status, Vi, ViAttributes,
};
use vm_memory::Bytes;

/// The device that everything is on.
pub type Device = BridgeDevice;

pub type TestNic = Nic<Device>;
pub type TestVi = Vi<Device>;

/// Long enough for everything that comes.
pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

/// Long enough to see that nothing comes.
pub fn briefly() -> Deadline {
    Deadline::after(Duration::from_millis(60))
}

pub fn nic(world: &World, bridge: &Bridge, host: Host) -> TestNic {
    library(world, bridge, host).open_nic("VINIC").unwrap()
}

/// A library that opens one NIC.
pub fn library(world: &World, bridge: &Bridge, host: Host) -> Library<Device> {
    let device = bridge.device(world.open(host));
    let device = std::sync::Mutex::new(Some(device));
    Library::new(move || {
        let device = device.lock().unwrap().take();
        Ok(Fabric::with_device(device.unwrap()))
    })
}

/// A host's program: a NIC, a tag, and registered memory.
pub struct Side {
    pub nic: TestNic,
    pub tag: Ptag,
    pub map: Map,
    pub handle: MemHandle,
    used: AtomicUsize,
}

/// Bytes of the memory.
pub const MEMORY: usize = 64 << 20;

impl Side {
    pub fn new(world: &World, bridge: &Bridge, host: Host) -> Self {
        Self::of(nic(world, bridge, host))
    }

    /// A program that has opened a NIC.
    pub fn of(nic: TestNic) -> Self {
        let tag = nic.create_ptag().unwrap();
        let map = Map::allocate(MEMORY).unwrap();
        let attributes = MemAttributes {
            ptag: tag,
            rdma_write: true,
            rdma_read: true,
        };
        let handle = nic.register(map.memory(), &attributes).unwrap();
        Side {
            nic,
            tag,
            map,
            handle,
            used: AtomicUsize::new(0),
        }
    }

    pub fn attributes(&self, level: Level) -> ViAttributes {
        ViAttributes {
            level,
            max_transfer_size: 1 << 20,
            ptag: self.tag,
            rdma_write: true,
            rdma_read: level != Level::Unreliable,
        }
    }

    pub fn vi(&self, level: Level) -> TestVi {
        let attributes = self.attributes(level);
        self.nic.create_vi(&attributes, None, None, 7).unwrap()
    }

    pub fn address(&self, discriminator: &[u8]) -> NetAddress {
        NetAddress::new(self.nic.attributes().unwrap().local_address, discriminator)
    }

    /// An offset of so many bytes that nobody uses, at a multiple of 64.
    pub fn room(&self, len: usize) -> usize {
        self.used
            .fetch_add(len.next_multiple_of(64), Ordering::Relaxed)
    }

    pub fn at(&self, offset: usize) -> usize {
        self.map.memory().start() + offset
    }

    /// Some bytes in the memory.
    pub fn data(&self, bytes: &[u8]) -> usize {
        let offset = self.room(bytes.len());
        self.map.volatile().write_slice(bytes, offset).unwrap();
        offset
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.map.volatile().read_slice(&mut bytes, offset).unwrap();
        bytes
    }

    /// A descriptor in the memory: its address.
    pub fn descriptor(&self, descriptor: &Descriptor) -> usize {
        self.at(self.data(&descriptor.encode()))
    }

    /// A descriptor with one piece of memory.
    pub fn one(&self, descriptor: Descriptor, offset: usize, len: usize) -> usize {
        let descriptor = descriptor.segment(self.at(offset), self.handle, len as u32);
        self.descriptor(&descriptor)
    }

    /// Post a receive; where it is, and where its bytes go.
    pub fn receive(&self, vi: &TestVi, len: usize) -> (usize, usize) {
        let room = self.room(len);
        let descriptor = self.one(Descriptor::new(), room, len);
        vi.post_recv(descriptor, self.handle).unwrap();
        (descriptor, room)
    }

    /// Post a send.
    pub fn send(&self, vi: &TestVi, bytes: &[u8]) -> usize {
        self.post(vi, Descriptor::new(), bytes)
    }

    /// Post an operation with bytes.
    pub fn post(&self, vi: &TestVi, descriptor: Descriptor, bytes: &[u8]) -> usize {
        let data = self.data(bytes);
        let descriptor = self.one(descriptor, data, bytes.len());
        vi.post_send(descriptor, self.handle).unwrap();
        descriptor
    }
}

/// Two programs on two hosts.
pub struct Pair {
    pub world: World,
    pub bridge: Bridge,
    pub a: Side,
    pub b: Side,
}

/// Bytes for windows that are enough for connections of their own, and too few.
pub const ENOUGH: u64 = 8 << 20;
pub const SHORT: u64 = 0x2_0000;

impl Pair {
    pub fn new() -> Self {
        Self::of(ENOUGH, [false; 2])
    }

    /// The sides ask for checks, or do not.
    pub fn with_checks(checks: [bool; 2]) -> Self {
        Self::of(ENOUGH, checks)
    }

    /// With so many bytes for windows on each host.
    pub fn with_windows(bytes: u64) -> Self {
        Self::of(bytes, [false; 2])
    }

    pub fn of(bytes: u64, checks: [bool; 2]) -> Self {
        Self::set(bytes, |library, host| library.checks(checks[host as usize]))
    }

    /// Whose libraries do not tell of partitions.
    pub fn blind() -> Self {
        Self::set(ENOUGH, |library, _| library.partitions(false))
    }

    fn set(bytes: u64, set: impl Fn(Library<Device>, Host) -> Library<Device>) -> Self {
        let world = World::new(1, bytes);
        let bridge = seeded_bridge();
        let side = |host| {
            let library = set(library(&world, &bridge, host), host);
            Side::of(library.open_nic("VINIC").unwrap())
        };
        Pair {
            a: side(Host::A),
            b: side(Host::B),
            world,
            bridge,
        }
    }

    /// A connection of new VIs; the server is on host A.
    pub fn connected(&self, level: Level) -> (TestVi, TestVi) {
        let (a, b) = (self.a.vi(level), self.b.vi(level));
        self.connect(&a, &b);
        (a, b)
    }

    pub fn connect(&self, server: &TestVi, client: &TestVi) -> RemoteViAttributes {
        let server_address = self.a.address(b"server");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let request = self.a.nic.connect_wait(&server_address, soon()).unwrap();
                request.accept(server).unwrap();
            });
            loop {
                let local = self.b.address(b"client");
                match client.connect_request(&local, &server_address, soon()) {
                    // It does not wait yet.
                    Err(vipl::Error::NoMatch) => std::thread::yield_now(),
                    other => return other.unwrap(),
                }
            }
        })
    }
}

/// A completion without an error.
pub fn good(descriptor: usize, operation: Status, length: usize) -> Completion {
    Completion {
        descriptor,
        status: Status::DONE.with(operation),
        length: length as u32,
        immediate: None,
    }
}

pub fn flushed(descriptor: usize, operation: Status) -> Completion {
    Completion {
        status: Status::DONE.with(Status::FLUSHED_ERROR).with(operation),
        ..good(descriptor, operation, 0)
    }
}
