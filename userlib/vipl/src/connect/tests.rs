// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the partners of a connection hear when it ends early.

use super::*;
use crate::{
    check::Checked,
    link::{Lane, Link, Numbers},
    state::State,
    trunk::Trunk,
    vi::Vi,
    Level, Library, Nic, ViAttributes,
};
use mp_fabric::Fabric;
use mp_testing::{FakeDevice, Host, World};
use std::thread;

type TestVi = Vi<FakeDevice>;

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

fn until(what: &str, check: impl Fn() -> bool) {
    let end = soon();
    while !check() {
        let left = end.remaining().unwrap_or_default();
        assert!(!left.is_zero(), "not in time: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn nic(world: &World, host: Host) -> Nic<FakeDevice> {
    let world = world.clone();
    let library = Library::new(move || Ok(Fabric::with_device(world.open(host))));
    library.open_nic("VINIC").unwrap()
}

fn vi(nic: &Nic<FakeDevice>) -> TestVi {
    let attributes = ViAttributes {
        level: Level::ReliableDelivery,
        max_transfer_size: 4096,
        ptag: nic.create_ptag().unwrap(),
        rdma_write: false,
        rdma_read: false,
    };
    nic.create_vi(&attributes, None, None, 0).unwrap()
}

fn address(nic: &Nic<FakeDevice>) -> NetAddress {
    NetAddress::new(nic.attributes().unwrap().local_address, b"x")
}

/// Two NIC handles and a connection that has a lane of a trunk.
fn connected(world: &World) -> [(Nic<FakeDevice>, TestVi, Arc<Trunk<FakeDevice>>); 2] {
    let nics = [Host::A, Host::B].map(|host| nic(world, host));
    let [server, client] = [0, 1].map(|n| vi(&nics[n]));
    let [there, here] = [0, 1].map(|n| address(&nics[n]));
    thread::scope(|scope| {
        scope.spawn(|| {
            let request = nics[0].connect_wait(&there, soon()).unwrap();
            request.accept(&server).unwrap();
        });
        let interface = InterfaceId(world.interface(0, Host::B));
        let fabric = &nics[1].shared().fabric;
        // It waits without windows first.
        until("a server", || {
            !fabric.windows(interface).unwrap().is_empty()
        });
        client.connect_request(&here, &there, soon()).unwrap();
    });
    let [a, b] = nics;
    [(a, server), (b, client)].map(|(nic, vi)| {
        let trunks = &nic.shared().trunks;
        let trunk = (0..100).find_map(|number| trunks.get(number));
        (nic, vi, trunk.unwrap())
    })
}

fn state(vi: &TestVi) -> State {
    vi.query().unwrap().state
}

/// VI-EM-9: a connection whose trunk ends while it is made ends with it.
#[test]
fn a_lane_that_comes_too_late_hears_of_the_end() {
    let world = World::new(1, 0x2_0000);
    let [(nic, first, trunk), (other, ..)] = connected(&world);
    trunk.close(Deadline::PAST);
    assert_eq!(state(&first), State::Error);
    let late = vi(&nic);
    let (serial, _) = late.0.begin(|_| Ok(())).unwrap();
    let peer = |nic: &Nic<FakeDevice>, host, name: &[u8]| {
        let interface = InterfaceId(world.interface(0, host));
        let peer = nic.shared().fabric.peer(interface, PROTOCOL).name(name);
        peer.own_name(1).bare().open().unwrap()
    };
    let session = Arc::new(peer(&nic, Host::A, b"ab"));
    let _partner = peer(&other, Host::B, b"ba");
    session.wait(EventMask::PAIRED, soon()).unwrap();
    let numbers = Numbers {
        own: serial.lane,
        partner: 1,
    };
    let lane = Checked::new(Lane::new(trunk, session, numbers), false, numbers);
    late.0.connected(serial, Link::Shared(lane)).unwrap();
    until("the end", || state(&late) == State::Error);
}

/// VI-NIC-5: whoever closes a trunk waits for another thread that ends its lanes.
#[test]
fn lanes_have_ended_when_a_trunk_is_closed() {
    let [(_nic, vi, trunk), (_other, _, partner)] = connected(&World::new(1, 0x2_0000));
    let trunk = &trunk;
    thread::scope(|scope| {
        let second = vi.0.with(|_| {
            // It cannot be told meanwhile.
            scope.spawn(|| trunk.close(Deadline::PAST));
            until("the end of the trunk", || partner.has_gone());
            thread::sleep(Duration::from_millis(50));
            let second = scope.spawn(|| trunk.close(Deadline::PAST));
            thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished());
            Ok(second)
        });
        second.unwrap().join().unwrap();
        assert_eq!(state(&vi), State::Error);
    });
}

/// The partner can see that a trunk is over before a program here hears of it, and connects
/// again.
#[test]
fn the_partner_hears_of_the_end_of_a_trunk_before_its_lanes() {
    let [(_nic, vi, trunk), (_other, _, partner)] = connected(&World::new(1, 0x2_0000));
    thread::scope(|scope| {
        let hears = vi.0.with(|core| {
            // It cannot be told meanwhile.
            scope.spawn(|| trunk.close(Deadline::PAST));
            until("the end of the trunk", || partner.has_gone());
            Ok(core.engine.state())
        });
        assert_eq!(hears, Ok(State::Connected));
    });
    until("the end", || state(&vi) == State::Error);
}
