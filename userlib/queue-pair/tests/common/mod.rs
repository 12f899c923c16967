// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the tests share: sessions and pairs of two hosts in one process.

#![allow(dead_code)] // each test program uses its part

use mp_fabric::{Deadline, Fabric, InterfaceId, Session};
use mp_queue_pair::{open, QueuePair, Receiving, Sending, Shape};
use mp_testing::{FakeDevice, Host, World};
use std::{thread, time::Duration};

const PROTOCOL: u32 = 0xF111_D005;

pub type Pair = QueuePair<FakeDevice>;
pub type Halves = (Sending<FakeDevice>, Receiving<FakeDevice>);

/// A session of each host, with two windows of that many bytes.
pub fn sessions(world: &World, window: u64) -> (Session<FakeDevice>, Session<FakeDevice>) {
    let [a, b] = [Host::A, Host::B].map(|host| {
        let fabric = Fabric::with_device(world.open(host));
        (fabric, InterfaceId(world.interface(0, host)))
    });
    let size = window..=window;
    let server = a.0.server(a.1, PROTOCOL).local(size.clone());
    let server = server.remote(size.clone()).open().unwrap();
    let client = b.0.client(b.1, PROTOCOL).local(size.clone());
    (server, client.remote(size).open().unwrap())
}

pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

/// Both ends of a pair, in halves.
pub fn halves(shape: Shape, window: u64) -> (World, Halves, Halves) {
    let world = World::new(1, 1 << 24);
    let (a, b) = sessions(&world, window);
    let other = thread::spawn(move || open(b, &shape, soon()).unwrap());
    let a = open(a, &shape, soon()).unwrap();
    (world, a, other.join().unwrap())
}
