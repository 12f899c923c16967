// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections that share memory, where there is too little for each to have its own.

mod common;

use common::{briefly, flushed, good, soon, Device, Pair, Side, TestVi, SHORT};
use mp_fabric::{InterfaceId, PartnerState, Session};
use mp_queue_pair::{
    open,
    provider::{shape, Inbox, Outbox},
    Head, Outgoing,
};
use mp_testing::Host;
use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
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
    // Documentation/virtual-interfaces.md.
    assert!(pair.world.free(0, Host::A) >= (1 << 20) - (800 << 10));
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

/// Windows that leave so many bytes to a host, and take none of the other one's.
fn leave(pair: &Pair, host: Host, bytes: u64) -> [Session<Device>; 2] {
    let size = pair.world.free(0, host) - bytes;
    let [server, client] = [Host::A, Host::B].map(|end| {
        let fabric = Fabric::with_device(pair.bridge.device(pair.world.open(end)));
        let interface = InterfaceId(pair.world.interface(0, end));
        let request = match end {
            Host::A => fabric.server(interface, 1),
            Host::B => fabric.client(interface, 1),
        };
        let request = match end == host {
            true => request.local(size..=size),
            false => request.remote(size..=size),
        };
        request.open().unwrap()
    });
    assert_eq!(pair.world.free(0, host), bytes);
    [server, client]
}

/// Less than any window of a connection.
const TOO_LITTLE: u64 = 0x3000;

/// VI-CONN-8, VI-GEN-8: without memory for a connection, a server and a peer are told so at once, and
/// the client waits for the server's next answer.
#[test]
fn memory_that_is_missing_altogether_is_told() {
    let pair = Pair::with_windows(TOO_LITTLE);
    let [server, client] = [&pair.a, &pair.b].map(|side| side.vi(Level::ReliableDelivery));
    let (here, there) = (pair.b.address(b""), pair.a.address(b"short"));
    let begun = Instant::now();
    thread::scope(|scope| {
        let waits = scope.spawn(|| pair.a.nic.connect_wait(&there, soon()).unwrap());
        let asked = scope.spawn(|| loop {
            match client.connect_request(&here, &there, soon()) {
                Err(Error::NoMatch) => thread::yield_now(),
                other => return other,
            }
        });
        let request = waits.join().unwrap();
        for _ in 0..2 {
            assert_eq!(request.accept(&server), Err(Error::Resource));
            assert_eq!(state(&server), State::Idle);
        }
        assert_eq!(state(&client), State::ConnectPending);
        request.reject().unwrap();
        assert_eq!(asked.join().unwrap(), Err(Error::Reject));
    });
    let both = [(&server, &pair.a, &pair.b), (&client, &pair.b, &pair.a)];
    for (vi, own, other) in both {
        let (own, other) = (own.address(b"peer"), other.address(b"peer"));
        vi.peer_request(&own, &other, soon()).unwrap();
    }
    for (vi, ..) in both {
        assert_eq!(vi.peer_wait(), Err(Error::Resource));
        assert_eq!(state(vi), State::Idle);
    }
    assert!(begun.elapsed() < Duration::from_secs(4));
}

/// VI-LIM-6: connections share memory that is short at either host, also if it is not at the one that
/// asks; in either model.
#[test]
fn memory_that_is_short_at_one_host_is_shared() {
    for short in [Host::A, Host::B] {
        let pair = Pair::new();
        let both = [Host::A, Host::B].map(|host| leave(&pair, host, SHORT));
        let first = pair.connected(Level::ReliableDelivery);
        drop(both);
        let _taken = leave(&pair, short, TOO_LITTLE);
        let free = [Host::A, Host::B].map(|host| pair.world.free(0, host));
        let second = pair.connected(Level::ReliableDelivery);
        let third = [&pair.a, &pair.b].map(|side| side.vi(Level::ReliableDelivery));
        let addresses = [&pair.a, &pair.b].map(|side| side.address(b"peer"));
        for (own, vi) in third.iter().enumerate() {
            let (own, other) = (&addresses[own], &addresses[1 - own]);
            vi.peer_request(own, other, soon()).unwrap();
        }
        for vi in &third {
            vi.peer_wait().unwrap();
        }
        for (a, b) in [
            (&first.0, &first.1),
            (&second.0, &second.1),
            (&third[0], &third[1]),
        ] {
            says((&pair.a, a), (&pair.b, b), b"shared");
            says((&pair.b, b), (&pair.a, a), b"both ways");
        }
        assert_eq!(
            free,
            [Host::A, Host::B].map(|host| pair.world.free(0, host))
        );
    }
}

/// VI-LIM-6: a client that asks while its server begins to wait takes no windows of its own.
#[test]
fn a_client_that_races_with_its_server_shares_memory() {
    for n in 0..20 {
        let pair = short();
        let _connected = pair.connected(Level::Unreliable);
        let another = pair.connected(Level::Unreliable);
        let free = pair.world.free(0, Host::A);
        says((&pair.a, &another.0), (&pair.b, &another.1), b"x");
        assert!(free >= SHORT - 0x4000, "{n}: {free:#x}");
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
            // What waits until the partner is ready does not leave with a disconnect.
            let sent = leaves.1.send_wait(soon());
            assert_eq!(sent, Ok(good(send, Status::OP_SEND, 3)));
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

/// VI-NIC-5: a trunk takes memory as long as both NICs are there, and no longer.
#[test]
fn a_trunk_ends_with_the_partner() {
    let windows = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("memfd:")).count()
    };
    let pair = short();
    let before = windows();
    let vis: Vec<_> = (0..4).map(|_| pair.a.vi(Level::ReliableDelivery)).collect();
    for vi in &vis {
        let other = Side::new(&pair.world, &pair.bridge, Host::B);
        let (here, there) = (other.address(b"client"), pair.a.address(b"server"));
        let client = other.vi(Level::ReliableDelivery);
        thread::scope(|scope| {
            scope.spawn(|| {
                let request = pair.a.nic.connect_wait(&there, soon()).unwrap();
                request.accept(vi).unwrap();
            });
            while client.connect_request(&here, &there, soon()) == Err(Error::NoMatch) {
                thread::yield_now();
            }
        });
        says((&other, &client), (&pair.a, vi), b"hello");
        assert!(windows() > before);
        other.nic.close().unwrap();
        drop((client, other));
        until("the end", || state(vi) == State::Error);
        until("no windows", || windows() == before);
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

/// VI-LIM-6: a client whose memory is short takes no windows, not even those of a server that it
/// finds with these alone because it has only begun to wait.
#[test]
fn a_client_in_short_memory_asks_for_no_windows() {
    let pair = short();
    let interface = InterfaceId(pair.world.interface(0, Host::B));
    let fabric = Fabric::with_device(pair.bridge.device(pair.world.open(Host::B)));
    let name = [&pair.b.address(b"").host[..], b"begins"].concat();
    let size = 0x4000..=0x8000;
    let server = fabric.server(interface, 0x5649_4131).name(&name);
    let server = server.hold().local(size.clone()).remote(size);
    let server = server.open().unwrap();
    let client = pair.a.vi(Level::Unreliable);
    let (here, there) = (pair.a.address(b""), pair.b.address(b"begins"));
    assert_eq!(
        client.connect_request(&here, &there, soon()),
        Err(Error::NoMatch)
    );
    let asks = server.partner().map(|partner| partner.state);
    assert!(!matches!(asks, Ok(PartnerState::Request(_))));
    assert_eq!(
        client.connect_request(&here, &there, Deadline::PAST),
        Err(Error::InvalidParameter)
    );
}

/// A partner that does what it likes on a trunk, and on two lanes of it.
struct Liar {
    outbox: Outbox<Device>,
    inbox: Inbox<Device>,
    sessions: Vec<Session<Device>>,
    /// The numbers of the lanes at the other side.
    lanes: Vec<u32>,
}

const KIND_SEND: u8 = 1;
const READY: u8 = 11;
const END: u8 = 12;

impl Liar {
    /// Connect VIs of host A to it.
    fn connect(pair: &Pair, vis: &[TestVi]) -> Self {
        let interface = InterfaceId(pair.world.interface(0, Host::B));
        let fabric = Fabric::with_device(pair.bridge.device(pair.world.open(Host::B)));
        let name = [&pair.b.address(b"").host[..], b"liar"].concat();
        let (here, there) = (pair.a.address(b""), pair.b.address(b"liar"));
        let (mut sessions, mut lanes, mut trunk) = (Vec::new(), Vec::new(), None);
        for (n, vi) in vis.iter().enumerate() {
            let server = fabric.server(interface, 0x5649_4131).name(&name);
            let server = server.hold().bare().open().unwrap();
            thread::scope(|scope| {
                let asked = scope.spawn(|| vi.connect_request(&here, &there, soon()).unwrap());
                until("a request", || {
                    let asks = server.partner().map(|partner| partner.state);
                    matches!(asks, Ok(PartnerState::Request(_)))
                });
                let partner = server.partner().unwrap();
                let (nic, rest) = partner.data.split_at(8);
                let (lane, attributes) = rest.split_at(4);
                lanes.push(u32::from_le_bytes(lane.try_into().unwrap()));
                let own = [7; 8];
                let meeting = [&own[..], &(n as u32).to_le_bytes()].concat();
                let answer = [&attributes[..16], &meeting].concat();
                let PartnerState::Request(id) = partner.state else {
                    unreachable!()
                };
                server.accept(id, &answer, soon()).unwrap();
                if trunk.is_none() {
                    let name = [&own[..], nic].concat();
                    let peer = fabric.peer(interface, 0x5649_5431).name(&name).own_name(8);
                    let size = 0x4000..=0x4000;
                    let session = peer.local(size.clone()).remote(size).open().unwrap();
                    trunk = Some(open(session, &shape(0x4000, 1), soon()).unwrap());
                }
                asked.join().unwrap();
            });
            sessions.push(server);
        }
        let (sending, receiving) = trunk.unwrap();
        Liar {
            outbox: Outbox::new(sending),
            inbox: Inbox::new(receiving),
            sessions,
            lanes,
        }
    }

    fn tell(&mut self, kind: u8, lane: u32, bytes: &[u8]) {
        let head = Head {
            kind,
            ..Head::default()
        };
        let extra = [&lane.to_le_bytes(), bytes].concat();
        let put = self.outbox.put(&mut Outgoing::new(head, &extra, &[]));
        assert!(put.unwrap());
        self.outbox.flush().unwrap();
    }
}

impl Liar {
    /// What it is told of the end of one of its lanes: reason, and messages that have taken effect.
    fn end_of(&mut self, lane: u32) -> (u32, u64) {
        let extra = |head: &Head| match head.kind {
            READY => Some(8),
            END => Some(20),
            KIND_SEND => Some(4),
            // An acknowledgement.
            9 => Some(8),
            _ => None,
        };
        for _ in 0..1000 {
            if let Some(lent) = self.inbox.receive(extra).unwrap() {
                let word =
                    |at: usize| u32::from_le_bytes(lent.extra[at..at + 4].try_into().unwrap());
                if (lent.head.kind, word(0)) == (END, lane) {
                    assert_eq!(word(4), self.lanes[lane as usize]);
                    return (word(8), u64::from(word(12)) | u64::from(word(16)) << 32);
                }
            } else {
                thread::sleep(Duration::from_millis(10));
            }
        }
        panic!("no end");
    }
}

/// VI-REL-3, VI-DISC-2: an end says why, and how much has taken effect; both ways.
#[test]
fn a_lane_tells_its_end() {
    let pair = short();
    let vis = [(); 4].map(|()| pair.a.vi(Level::ReliableReception));
    let mut liar = Liar::connect(&pair, &vis);
    let lanes = liar.lanes.clone();
    for (own, lane) in (0_u32..).zip(&lanes) {
        liar.tell(READY, *lane, &own.to_le_bytes());
    }
    for _ in 0..3 {
        pair.a.receive(&vis[0], 8);
        liar.tell(KIND_SEND, lanes[0], b"");
        assert!(!vis[0].recv_wait(soon()).unwrap().status.is_error());
    }
    vis[0].disconnect().unwrap();
    assert_eq!(liar.end_of(0), (1, 3));
    // Its process has gone, as far as this connection is concerned.
    drop(liar.sessions.remove(1));
    assert_eq!(liar.end_of(1), (0, 0));
    assert_eq!(state(&vis[1]), State::Error);
    let sends = [(); 2].map(|()| pair.a.send(&vis[2], b""));
    let effective = [2, 1_u32].map(u32::to_le_bytes).concat();
    let effective = [&effective[..], &1_u64.to_le_bytes()].concat();
    liar.tell(END, lanes[2], &effective);
    assert_eq!(
        vis[2].send_wait(soon()),
        Ok(good(sends[0], Status::OP_SEND, 0))
    );
    assert_eq!(
        vis[2].send_wait(soon()),
        Ok(flushed(sends[1], Status::OP_SEND))
    );
    // More than was sent: nobody knows what has taken effect.
    pair.a.send(&vis[3], b"");
    let effective = [3, 1_u32].map(u32::to_le_bytes).concat();
    let effective = [&effective[..], &2_u64.to_le_bytes()].concat();
    liar.tell(END, lanes[3], &effective);
    let sent = vis[3].send_wait(soon()).unwrap();
    assert_ne!(sent.status.masked(Status::TRANSPORT_ERROR).0, 0);
    until("the end", || state(&vis[3]) == State::Error);
}

/// Send until there is no room for more.
fn fill(pair: &Pair, vi: &TestVi) {
    for _ in 0..300 {
        pair.a.send(vi, b"");
    }
    until("no room", || {
        while vi.send_done().is_ok() {}
        thread::sleep(Duration::from_millis(5));
        matches!(vi.send_done(), Err(Error::NotDone))
    });
}

/// VI-NIC-5, VI-DISC-4, VI-NTFY-11: a partner that makes no room to be told of the ends holds up a NIC
/// that is closed for a moment only; no handler begins meanwhile.
#[test]
fn a_nic_that_is_closed_does_not_wait_long_for_room() {
    let pair = short();
    let vis = [(); 2].map(|()| pair.a.vi(Level::Unreliable));
    let mut liar = Liar::connect(&pair, &vis);
    let lanes = liar.lanes.clone();
    for (own, lane) in (0_u32..).zip(&lanes) {
        liar.tell(READY, *lane, &own.to_le_bytes());
    }
    fill(&pair, &vis[0]);
    let (tell, told) = mpsc::channel();
    for n in 0..2 {
        pair.a.receive(&vis[1], 8);
        let tell = tell.clone();
        let handler = move |vi: &TestVi, _| {
            tell.send(n).unwrap();
            until("the end", || vi.query().is_err());
        };
        vis[1].recv_notify(Box::new(handler)).unwrap();
        liar.tell(KIND_SEND, lanes[1], b"");
    }
    // Two of them have their descriptors, and one runs.
    until("both messages", || vis[1].query().unwrap().recv_empty);
    assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(0));
    let begun = Instant::now();
    pair.a.nic.close().unwrap();
    let held = begun.elapsed();
    assert!((Duration::from_millis(100)..Duration::from_secs(5)).contains(&held));
    assert_eq!(told.try_iter().count(), 0);
}

/// VI-PEER-2: of two peers that have posted both kinds of session, the one without windows counts,
/// whichever comes first.
#[test]
fn peers_that_may_share_do_not_take_windows() {
    let pair = short();
    let vi = pair.a.vi(Level::ReliableDelivery);
    let (here, there) = (pair.a.address(b"peer"), pair.b.address(b"peer"));
    vi.peer_request(&here, &there, soon()).unwrap();
    let interface = InterfaceId(pair.world.interface(0, Host::B));
    let fabric = Fabric::with_device(pair.bridge.device(pair.world.open(Host::B)));
    let [mine, theirs] = [&there, &here].map(|address| [&address.host[..], b"peer"].concat());
    let name = [&mine[..], &theirs].concat();
    let peer = || {
        let peer = fabric.peer(interface, 0x5649_4131).name(&name);
        peer.own_name(mine.len() as u32)
    };
    let attributes = [&b"VIA1\x02\x03\0\0"[..], &(1_u64 << 20).to_le_bytes()].concat();
    let says = [&attributes[..], &[1]].concat();
    let size = 0x4000..=0x8000;
    let windows = peer().data(&says).local(size.clone()).remote(size);
    let windows = windows.open().unwrap();
    windows.wait(mp_fabric::EventMask::PAIRED, soon()).unwrap();
    // What it says of itself; then it waits.
    assert_eq!(windows.partner().unwrap().data.get(16), Some(&1));
    thread::sleep(Duration::from_millis(200));
    let meeting = [&[7; 8][..], &5_u32.to_le_bytes()].concat();
    let says = [&attributes[..], &meeting].concat();
    let bare = peer().data(&says);
    let bare = bare.bare().open().unwrap();
    bare.wait(mp_fabric::EventMask::PAIRED, soon()).unwrap();
    let nic = bare.partner().unwrap().data[16..24].to_vec();
    let trunk = [&[7; 8][..], &nic].concat();
    let trunk = fabric.peer(interface, 0x5649_5431).name(&trunk).own_name(8);
    let size = 0x4000..=0x4000;
    let trunk = trunk.local(size.clone()).remote(size).open().unwrap();
    let _trunk = open(trunk, &shape(0x4000, 1), soon()).unwrap();
    assert!(vi.peer_wait().is_ok());
}

/// The end of the first lane, for no reason that there is.
const WRONG_END: [u8; 16] = [0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0];

/// A lane begins when its own partner is ready, and no other one.
#[test]
fn a_lane_waits_for_its_own_partner() {
    let pair = short();
    let vis = [pair.a.vi(Level::Unreliable)];
    let mut liar = Liar::connect(&pair, &vis);
    let lane = liar.lanes[0];
    liar.tell(READY, lane, &9_u32.to_le_bytes());
    pair.a.send(&vis[0], b"");
    assert_eq!(vis[0].send_wait(briefly()), Err(Error::Timeout));
    liar.tell(READY, lane, &0_u32.to_le_bytes());
    assert!(!vis[0].send_wait(soon()).unwrap().status.is_error());
}

/// VI-EM-10: what cannot be on a trunk ends all its connections; what cannot be on a lane ends that
/// connection alone, and words about lanes that there are not end nothing.
#[test]
fn a_trunk_that_lies_ends_all_its_connections_and_a_lane_itself() {
    let words: [(u8, bool, &[u8], [bool; 2]); 8] = [
        (KIND_SEND, true, b"", [false, false]),
        (KIND_SEND, false, b"", [false, false]),
        (READY, false, &[0; 4], [false, false]),
        (END, false, &[0; 16], [false, false]),
        // Of a lane that the connection is not on.
        (END, true, &[1; 16], [false, false]),
        // More of a message that was not begun.
        (4, true, b"", [true, false]),
        (END, true, &WRONG_END, [true, false]),
        (99, true, b"", [true, true]),
    ];
    for (kind, own, bytes, ends) in words {
        let pair = short();
        let vis = [(); 2].map(|()| pair.a.vi(Level::ReliableDelivery));
        let mut liar = Liar::connect(&pair, &vis);
        let lanes = liar.lanes.clone();
        for (own, lane) in (0_u32..).zip(&lanes) {
            liar.tell(READY, *lane, &own.to_le_bytes());
        }
        let receives = [0, 1].map(|n| pair.a.receive(&vis[n], 8).0);
        let lane = if own { lanes[0] } else { 0xFFFF_0000 };
        liar.tell(kind, lane, bytes);
        if !ends[1] {
            liar.tell(KIND_SEND, lanes[1], b"");
            let done = good(receives[1], Status::OP_RECEIVE, 0);
            assert_eq!(vis[1].recv_wait(soon()), Ok(done));
        }
        if ends.contains(&true) {
            until("an end", || {
                [0, 1].map(|n| state(&vis[n]) == State::Error) == ends
            });
        }
        assert_eq!([0, 1].map(|n| state(&vis[n]) == State::Error), ends);
        drop(liar.sessions);
    }
}

/// A lane with much to send gives others a turn.
#[test]
fn a_flood_leaves_room_for_others() {
    let pair = short();
    let [flood, other] = [(); 2].map(|()| pair.connected(Level::ReliableReception));
    let over = std::sync::atomic::AtomicBool::new(false);
    let is_over = || over.load(std::sync::atomic::Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            let data = pair.a.room(100_000);
            for _ in 0..500 {
                let descriptor = pair.a.one(Descriptor::new(), data, 100_000);
                pair.b.receive(&flood.1, 100_000);
                flood.0.post_send(descriptor, pair.a.handle).unwrap();
                flood.0.send_wait(soon()).unwrap();
                flood.1.recv_wait(soon()).unwrap();
                if is_over() {
                    break;
                }
            }
        });
        for n in 0..40 {
            says((&pair.a, &other.0), (&pair.b, &other.1), &[n; 30_000]);
        }
        over.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert_eq!(state(&flood.0), State::Connected);
}

/// All of them with other chances of the bridge; those that take long, once.
#[test]
fn with_other_seeds() {
    mp_testing::with_other_seeds(
        "with_other_seeds",
        &["as_many_connections_as_vis", "a_client_that_races"],
    );
}
