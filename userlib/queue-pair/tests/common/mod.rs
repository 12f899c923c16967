// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the tests share: sessions and pairs of two hosts in one process.

#![allow(dead_code)] // each test program uses its part

use mp_fabric::{Deadline, Device, Fabric, InterfaceId, Session};
use mp_queue_pair::{open, QueuePair, Receiving, Sending, Shape};
use mp_testing::{Bridge, BridgeDevice, FakeDevice, Host, World};
use std::{
    thread,
    time::{Duration, Instant},
};

const PROTOCOL: u32 = 0xF111_D005;

pub type Pair = QueuePair<FakeDevice>;
pub type Halves<D = FakeDevice> = (Sending<D>, Receiving<D>);

/// A session of each host, with two windows of that many bytes.
pub fn sessions(world: &World, window: u64) -> (Session<FakeDevice>, Session<FakeDevice>) {
    sessions_of(world, window, |device| device)
}

/// The same, behind a bridge.
pub fn bridged(
    world: &World,
    bridge: &Bridge,
    window: u64,
) -> (Session<BridgeDevice>, Session<BridgeDevice>) {
    sessions_of(world, window, |device| bridge.device(device))
}

fn sessions_of<D: Device>(
    world: &World,
    window: u64,
    device: impl Fn(FakeDevice) -> D,
) -> (Session<D>, Session<D>) {
    let [a, b] = [Host::A, Host::B].map(|host| {
        let fabric = Fabric::with_device(device(world.open(host)));
        (fabric, InterfaceId(world.interface(0, host)))
    });
    let size = window..=window;
    let server = a.0.server(a.1, PROTOCOL).local(size.clone());
    let server = server.remote(size.clone()).open().unwrap();
    let client = b.0.client(b.1, PROTOCOL).local(size.clone());
    (server, client.remote(size).open().unwrap())
}

/// Lets others run, but not for ever: a side whose partner has failed waits in vain.
pub struct Patience(Instant);

impl Patience {
    pub fn new() -> Self {
        Patience(Instant::now() + Duration::from_secs(60))
    }

    pub fn wait(&self) {
        assert!(Instant::now() < self.0, "nothing happens any more");
        thread::yield_now();
    }
}

pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

/// Both ends of a pair, in halves.
pub fn halves(shape: Shape, window: u64) -> (World, Halves, Halves) {
    let world = World::new(1, 1 << 24);
    let (a, b) = both(sessions(&world, window), shape);
    (world, a, b)
}

/// Both ends of a pair over sessions.
pub fn both<D: Device>(sessions: (Session<D>, Session<D>), shape: Shape) -> (Halves<D>, Halves<D>) {
    let (a, b) = sessions;
    let other = thread::spawn(move || open(b, &shape, soon()).unwrap());
    let a = open(a, &shape, soon()).unwrap();
    (a, other.join().unwrap())
}
