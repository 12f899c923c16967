// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections that share memory, where there is too little for each to have its own.

mod common;

use common::{flushed, good, soon, Pair, Side, TestVi, SHORT};
use mp_testing::Host;
use std::{sync::mpsc, thread, time::Duration};
use vipl::{
    Deadline, Descriptor, Error, ErrorCode, Fabric, Level, QueueKind, Remote, State, Status,
};

fn short() -> Pair {
    Pair::with_windows(SHORT)
}

/// Send from one VI to another; what was received.
fn says(from: (&Side, &TestVi), to: (&Side, &TestVi), bytes: &[u8]) {
    let (receive, room) = to.0.receive(to.1, bytes.len());
    let send = from.0.send(from.1, bytes);
    assert_eq!(
        to.1.recv_wait(soon()),
        Ok(good(receive, Status::OP_RECEIVE, bytes.len()))
    );
    assert_eq!(
        from.1.send_wait(soon()),
        Ok(good(send, Status::OP_SEND, bytes.len()))
    );
    assert!(to.0.bytes(room, bytes.len()) == bytes);
}

/// VI-LIM-6: all connections of two programs take what one takes, at each level, whatever they do.
#[test]
fn connections_share_what_is_short() {
    for level in Level::ALL {
        let pair = short();
        let vis: Vec<_> = (0..12).map(|_| pair.connected(level)).collect();
        let free = pair.world.free(0, Host::A);
        assert!(free >= SHORT - 0x8000);
        for (n, (a, b)) in vis.iter().enumerate() {
            for len in [0, 1, 40, 100, 4096, 70_000] {
                let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + n) as u8).collect();
                says((&pair.a, a), (&pair.b, b), &bytes);
                says((&pair.b, b), (&pair.a, a), &bytes);
            }
            let target = pair.b.room(9000);
            let remote = Remote {
                address: pair.b.at(target) as u64,
                handle: pair.b.handle.0,
            };
            let bytes = vec![n as u8 + 1; 9000];
            let (receive, _) = pair.b.receive(b, 0);
            let write = Descriptor::write(remote).immediate(n as u32);
            let write = pair.a.post(a, write, &bytes);
            let told = b.recv_wait(soon()).unwrap();
            assert_eq!((told.descriptor, told.immediate), (receive, Some(n as u32)));
            assert_eq!(
                a.send_wait(soon()),
                Ok(good(write, Status::OP_RDMA_WRITE, 9000))
            );
            assert!(pair.b.bytes(target, 9000) == bytes);
            if level != Level::Unreliable {
                let to = pair.a.room(9000);
                let read = pair.a.one(Descriptor::read(remote), to, 9000);
                a.post_send(read, pair.a.handle).unwrap();
                let read = good(read, Status::OP_RDMA_READ, 9000);
                assert_eq!(a.send_wait(soon()), Ok(read));
                assert!(pair.a.bytes(to, 9000) == bytes);
            }
        }
        assert_eq!(pair.world.free(0, Host::A), free);
    }
}

fn until(what: &str, check: impl Fn() -> bool) {
    for _ in 0..3000 {
        if check() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("not in time: {what}");
}

fn state(vi: &TestVi) -> State {
    vi.query().unwrap().state
}

/// VI-LIM-6: as many VIs as there may be, in windows of 1 MiB, with data on all of them.
#[test]
fn as_many_connections_as_vis_share_a_mebibyte() {
    let pair = Pair::with_windows(1 << 20);
    let count = pair.a.nic.attributes().unwrap().max_vi;
    let cq = pair.b.nic.create_cq(4 * count, 0).unwrap();
    let attributes = pair.b.attributes(Level::ReliableDelivery);
    let vis: Vec<_> = (0..count)
        .map(|n| {
            let a = pair.a.vi(Level::ReliableDelivery);
            let b = pair
                .b
                .nic
                .create_vi(&attributes, None, Some(&cq), n)
                .unwrap();
            pair.connect(&a, &b);
            (a, b)
        })
        .collect();
    assert!(pair.world.free(0, Host::A) >= 0x2_0000);
    let mut rooms = Vec::new();
    for (a, b) in &vis {
        rooms.push([pair.b.receive(b, 100), pair.b.receive(b, 5000)]);
        pair.a.send(a, &b.token().to_le_bytes());
        pair.a.send(a, &vec![b.token() as u8; 5000]);
    }
    let mut seen = vec![0; count as usize];
    for _ in 0..2 * count {
        let (vi, kind) = cq.wait(soon()).unwrap();
        assert_eq!(kind, QueueKind::Receive);
        let n = vi.token() as usize;
        let done = vi.recv_done().unwrap();
        let (receive, room) = rooms[n][seen[n]];
        let len = [8, 5000][seen[n]];
        assert_eq!(done, good(receive, Status::OP_RECEIVE, len));
        match seen[n] {
            0 => assert_eq!(pair.b.bytes(room, 8), (n as u64).to_le_bytes()),
            _ => assert!(pair.b.bytes(room, 5000) == vec![n as u8; 5000]),
        }
        seen[n] += 1;
    }
    for (a, _) in &vis {
        for _ in 0..2 {
            assert!(!a.send_wait(soon()).unwrap().status.is_error());
        }
    }
}

/// VI-DISC-1, VI-STATE-9, VI-EM-9: the end of one connection is that of no other, at whichever
/// side; what was sent before arrives. The VI connects again.
#[test]
fn a_connection_ends_alone() {
    for level in Level::ALL {
        let pair = short();
        let [one, other] = [(); 2].map(|()| pair.connected(level));
        for round in 0..3 {
            let (leaves, stays) = match round % 2 {
                0 => ((&pair.a, &one.0), (&pair.b, &one.1)),
                _ => ((&pair.b, &one.1), (&pair.a, &one.0)),
            };
            let (receive, _) = stays.0.receive(stays.1, 5);
            let (waits, _) = stays.0.receive(stays.1, 5);
            let send = leaves.0.send(leaves.1, b"bye");
            if level == Level::ReliableReception {
                assert_eq!(
                    leaves.1.send_wait(soon()),
                    Ok(good(send, Status::OP_SEND, 3))
                );
            }
            leaves.1.disconnect().unwrap();
            assert_eq!(
                stays.1.recv_wait(soon()),
                Ok(good(receive, Status::OP_RECEIVE, 3))
            );
            assert_eq!(
                stays.1.recv_wait(soon()),
                Ok(flushed(waits, Status::OP_RECEIVE))
            );
            until("the end", || state(stays.1) == State::Error);
            says((&pair.a, &other.0), (&pair.b, &other.1), b"goes on");
            says((&pair.b, &other.1), (&pair.a, &other.0), b"goes on");
            while leaves.1.send_done().is_ok() {}
            stays.1.disconnect().unwrap();
            pair.connect(&one.0, &one.1);
            says((&pair.a, &one.0), (&pair.b, &one.1), b"again");
        }
    }
}

/// VI-REL-3, VI-REL-7: an end says what has taken effect.
#[test]
fn an_end_tells_what_has_taken_effect() {
    let pair = short();
    let (a, b) = pair.connected(Level::ReliableReception);
    let receive = pair.b.receive(&b, 8).0;
    let send = pair.a.send(&a, b"good");
    assert_eq!(
        b.recv_wait(soon()),
        Ok(good(receive, Status::OP_RECEIVE, 4))
    );
    b.disconnect().unwrap();
    assert_eq!(a.send_wait(soon()), Ok(good(send, Status::OP_SEND, 4)));
    until("the end", || state(&a) == State::Error);
}

/// VI-EM-3, VI-ERR-6: a message without a receive descriptor is an error of its VI, and of no other.
#[test]
fn a_message_that_nobody_waits_for_stops_nobody_else() {
    for level in Level::ALL {
        let pair = short();
        let vis = [(); 3].map(|()| pair.connected(level));
        for _ in 0..200 {
            pair.a.send(&vis[0].0, &[1; 3000]);
            says((&pair.a, &vis[1].0), (&pair.b, &vis[1].1), b"through");
        }
        let ends = level != Level::Unreliable;
        until("its end", || (state(&vis[0].1) == State::Error) == ends);
        says((&pair.b, &vis[2].1), (&pair.a, &vis[2].0), &[5; 20_000]);
        assert_eq!(state(&vis[1].0), State::Connected);
    }
}

/// VI-EM-9, VI-NIC-5: a partner that closes its NIC, and a link that is lost, end all connections.
#[test]
fn the_end_of_a_partner_is_that_of_all_its_connections() {
    for down in [false, true] {
        let pair = short();
        let (tell, told) = mpsc::channel();
        let handler = move |_: &vipl::Nic<_>, event: &vipl::ErrorEvent<_>| {
            tell.send((event.code, event.vi.clone())).unwrap();
        };
        pair.a
            .nic
            .set_error_handler(Some(Box::new(handler)))
            .unwrap();
        let vis = [(); 5].map(|()| pair.connected(Level::ReliableDelivery));
        let receives = [0, 1, 2, 3, 4].map(|n| pair.a.receive(&vis[n].0, 8).0);
        match down {
            true => pair.world.set_up(0, false),
            false => pair.b.nic.close().unwrap(),
        }
        for (n, (a, _)) in vis.iter().enumerate() {
            let done = flushed(receives[n], Status::OP_RECEIVE);
            assert_eq!(a.recv_wait(soon()), Ok(done));
            assert_eq!(state(a), State::Error);
        }
        let mut lost = Vec::new();
        for _ in &vis {
            let (code, vi) = told.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!(code, ErrorCode::ConnLost);
            lost.push(vi.unwrap());
        }
        assert!(vis.iter().all(|(a, _)| lost.contains(a)));
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
    }
}

/// VI-POST-2: messages move while no thread of either program looks, and threads that sleep wake.
#[test]
fn threads_that_sleep_wake_each_other() {
    let pair = short();
    let vis = [(); 4].map(|()| pair.connected(Level::ReliableReception));
    thread::scope(|scope| {
        for (a, b) in &vis {
            let pair = &pair;
            scope.spawn(move || {
                let rooms: Vec<_> = (0..30).map(|_| pair.b.receive(b, 8).1).collect();
                for (n, room) in (0_u64..).zip(rooms) {
                    assert!(!b.recv_wait(soon()).unwrap().status.is_error());
                    assert_eq!(pair.b.bytes(room, 8), n.to_le_bytes());
                    thread::sleep(Duration::from_millis(n % 3 * 10));
                }
            });
            scope.spawn(move || {
                until("a receive", || !b.query().unwrap().recv_empty);
                thread::sleep(Duration::from_millis(50));
                for n in 0..30_u64 {
                    pair.a.send(a, &n.to_le_bytes());
                    assert!(!a.send_wait(soon()).unwrap().status.is_error());
                    thread::sleep(Duration::from_millis(n % 5 * 7));
                }
            });
        }
    });
}

/// VI-PEER-1 to VI-PEER-6, VI-ADDR-6: peers share memory, too, also on their own host.
#[test]
fn peers_share_what_is_short() {
    for own in [false, true] {
        let pair = short();
        pair.world.set_loopback(SHORT);
        let other = if own { &pair.a } else { &pair.b };
        let (link, host) = if own { (1, Host::A) } else { (0, Host::A) };
        let mut free = None;
        for n in 0..6 {
            let level = Level::ReliableDelivery;
            let (one, two) = (pair.a.vi(level), other.vi(level));
            let meet = |side: &Side| side.address(&[n]);
            one.peer_request(&meet(&pair.a), &meet(other), soon())
                .unwrap();
            two.peer_request(&meet(other), &meet(&pair.a), soon())
                .unwrap();
            assert!(one.peer_wait().is_ok() && two.peer_wait().is_ok());
            says((&pair.a, &one), (other, &two), &[n; 6000]);
            says((other, &two), (&pair.a, &one), &[n; 60]);
            let left = pair.world.free(link, host);
            assert_eq!(*free.get_or_insert(left), left);
        }
    }
}

/// A library that shares no memory is found with windows, as long as there is memory.
#[test]
fn a_library_that_shares_nothing_gets_windows() {
    let pair = short();
    let interface = mp_fabric::InterfaceId(pair.world.interface(0, Host::B));
    let fabric = Fabric::with_device(pair.bridge.device(pair.world.open(Host::B)));
    let name = [&pair.b.address(b"").host[..], b"old"].concat();
    let size = 0x4000..=0x8000;
    let server = fabric.server(interface, 0x5649_4131).name(&name);
    let server = server
        .hold()
        .local(size.clone())
        .remote(size)
        .open()
        .unwrap();
    let client = pair.a.vi(Level::Unreliable);
    let (here, there) = (pair.a.address(b""), pair.b.address(b"old"));
    thread::scope(|scope| {
        let asked = scope.spawn(|| client.connect_request(&here, &there, soon()));
        until("a request", || {
            let asks = server.partner().map(|partner| partner.state);
            matches!(asks, Ok(mp_fabric::PartnerState::Request(_)))
        });
        let partner = server.partner().unwrap();
        assert_eq!(&partner.data[..4], b"VIA1");
        let mp_fabric::PartnerState::Request(id) = partner.state else {
            unreachable!()
        };
        server.reject(id, 1, &[]).unwrap();
        assert_eq!(asked.join().unwrap(), Err(Error::Reject));
    });
    assert_eq!(
        client.connect_request(&here, &pair.b.address(b"nobody"), soon()),
        Err(Error::NoMatch)
    );
    assert_eq!(
        client.connect_request(&here, &there, Deadline::PAST),
        Err(Error::InvalidParameter)
    );
}
