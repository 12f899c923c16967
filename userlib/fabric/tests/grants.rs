// SPDX-License-Identifier: MIT OR Apache-2.0

//! Grants to one partner, and memory that is no whole pages, on two hosts in one process.

mod common;

use common::End;
use mp_fabric::{Deadline, Error, Filling, Goal, Map, Removal, Rights, Segment, Session};
use mp_testing::{FakeDevice, Host, World};
use rustix::io::Errno;

const PROTOCOL: u32 = 0xF111_D061;

impl End {
    fn segment(&self) -> Segment<FakeDevice> {
        let segment = self.fabric.create_segment_for(self.interface, None, 4096);
        let segment = segment.unwrap();
        segment.prepare(self.interface).unwrap();
        segment
    }
}

fn pair(a: &End, b: &End, protocol: u32) -> [Session<FakeDevice>; 2] {
    let server = a.fabric.server(a.interface, protocol).local(1..=4096);
    let server = server.open().unwrap();
    let client = b.fabric.client(b.interface, protocol).remote(1..=4096);
    [server, client.open().unwrap()]
}

fn goal(grant: u32, session: &Session<FakeDevice>) -> Goal {
    Goal::Granted {
        grant,
        session: session.handle(),
    }
}

#[test]
fn a_private_segment_of_no_interface_is_granted_for_copies() {
    let world = World::new(1, 1 << 20);
    let (a, b) = (End::new(&world, Host::A), End::new(&world, Host::B));
    let [near, _far] = pair(&a, &b, PROTOCOL);
    let segment = a.fabric.create_segment(None, 4096).unwrap();
    segment.prepare(a.interface).unwrap();
    let refused = segment.grant(&near, Rights::READ | Rights::WRITE);
    assert!(matches!(refused, Err(Error::NoSpace(_))), "{refused:?}");
    segment.grant(&near, Rights::READ).unwrap();
}

#[test]
fn a_grant_lets_one_partner_in_and_ends_alone() {
    let world = World::new(1, 1 << 20);
    let (a, b) = (End::new(&world, Host::A), End::new(&world, Host::B));
    let [near, far] = pair(&a, &b, PROTOCOL);
    let [_other_near, other_far] = pair(&a, &b, PROTOCOL + 1);
    let segment = a.segment();
    let grant = segment.grant(&near, Rights::READ | Rights::WRITE).unwrap();
    let reader = segment.grant(&near, Rights::READ).unwrap();
    let connect = |grant, session| {
        let goal = goal(grant, session);
        b.fabric.connect(b.interface, goal, Deadline::NEVER)
    };
    let refused = connect(grant.handle(), &other_far);
    assert!(matches!(refused.unwrap_err(), Error::NoPartner(_)));
    let connection = connect(grant.handle(), &far).unwrap();
    let read = connect(reader.handle(), &far).unwrap();
    assert_eq!(
        connection.info().unwrap().rights,
        Rights::READ | Rights::WRITE
    );
    assert_eq!(read.info().unwrap().rights, Rights::READ);
    let busy = grant.remove(Removal::Unused);
    assert_eq!(busy, Err(Error::System(Errno::BUSY)));
    grant.remove(Removal::Force).unwrap();
    let state = |connection: &mp_fabric::Connection<FakeDevice>| connection.info().unwrap().state;
    assert!(state(&connection).contains(mp_fabric::ConnectionState::LOST));
    assert!(!state(&read).contains(mp_fabric::ConnectionState::LOST));
    assert!(matches!(
        connect(grant.handle(), &far).unwrap_err(),
        Error::NotFound(_)
    ));
}

#[test]
fn memory_that_is_no_whole_pages_or_only_read_is_shown_to_nobody() {
    let world = World::new(1, 1 << 20);
    let (a, b) = (End::new(&world, Host::A), End::new(&world, Host::B));
    let [near, _far] = pair(&a, &b, PROTOCOL);
    let map = Map::allocate(8192).unwrap();
    let memory = map.memory();
    assert!(memory.part(8190, 3).is_none());
    let part = memory.part(3, 70).unwrap();
    for (id, filling) in [(1, Filling::Own(part)), (2, Filling::ReadOnly(memory))] {
        let segment = a.fabric.create_empty_segment(Some((id, 0)), 8192).unwrap();
        segment.fill(filling).unwrap();
        segment.prepare(a.interface).unwrap();
        let refused = segment.publish(a.interface);
        assert!(matches!(refused, Err(Error::NotSupported(_))));
        let refused = segment.grant(&near, Rights::WRITE);
        assert!(matches!(refused.unwrap_err(), Error::NotSupported(_)));
        segment.grant(&near, Rights::READ).unwrap();
        // By copies it is written unless it is only to be read.
        let written = segment.grant_placed(&near, Rights::WRITE);
        assert_eq!(written.is_ok(), id == 1);
    }
}
