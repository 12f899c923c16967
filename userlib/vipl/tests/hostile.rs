// SPDX-License-Identifier: MIT OR Apache-2.0

//! Partners that are none of this library, or write what they like: their own connection ends, and
//! nothing else.

mod common;

use common::{soon, Device, Pair, TestVi};
use mp_fabric::{EventMask, Fabric, InterfaceId, PartnerState, Session};
use mp_queue_pair::{Head, QueuePair, Shape};
use mp_testing::Host;
use std::{
    thread,
    time::{Duration, Instant},
};
use vipl::{deadline, Deadline, Error, Level, State, Status};
use vm_memory::Bytes;

/// The protocol of sessions of VIs.
const PROTOCOL: u32 = 0x5649_4131;

/// What a client tells: magic, level, enables, largest transfer, host, discriminator.
fn introduction(level: Level) -> Vec<u8> {
    let mut data = b"VIA1".to_vec();
    data.extend([level.bit() as u8, 3, 0, 0]);
    data.extend((1_u64 << 20).to_le_bytes());
    data.extend([0, 0, 0, 1]);
    data.extend(b"me");
    data
}

struct Hostile {
    fabric: Fabric<Device>,
    interface: InterfaceId,
}

impl Hostile {
    fn new(pair: &Pair) -> Self {
        Hostile {
            fabric: Fabric::with_device(pair.bridge.device(pair.world.open(Host::B))),
            interface: InterfaceId(pair.world.interface(0, Host::B)),
        }
    }

    /// Ask the server on the other host.
    fn ask(&self, name: &[u8], data: &[u8]) -> Session<Device> {
        loop {
            let client = self.fabric.client(self.interface, PROTOCOL);
            let client = client.name(name).data(data).pending();
            match client.local(0x8000..=0x8000).remote(0x8000..=0x8000).open() {
                Ok(session) => return session,
                Err(mp_fabric::Error::NoPartner(_)) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Host 0 and a discriminator.
const NAME: &[u8] = b"\0\0\0\0evil";

/// A connection of a VI with a partner that has a bare queue pair.
fn connected(pair: &Pair, hostile: &Hostile, level: Level) -> (TestVi, QueuePair<Device>) {
    let vi = pair.a.vi(level);
    let partner = thread::scope(|scope| {
        let accepts = scope.spawn(|| {
            let here = pair.a.address(b"evil");
            let request = pair.a.nic.connect_wait(&here, soon()).unwrap();
            request.accept(&vi).unwrap();
        });
        let session = hostile.ask(NAME, &introduction(level));
        let shape = Shape {
            slots: 4,
            ..Shape::default()
        };
        let partner = QueuePair::open(session, &shape, soon()).unwrap();
        accepts.join().unwrap();
        partner
    });
    (vi, partner)
}

fn falls(vi: &TestVi) -> bool {
    for _ in 0..2000 {
        match vi.query().unwrap().state {
            State::Error => return true,
            _ => thread::sleep(Duration::from_millis(1)),
        }
    }
    false
}

/// VI-CONN-2, VI-CONN-4: a client that is none of this library is refused, and the server goes on.
#[test]
fn a_strange_client_is_refused_and_the_next_one_served() {
    let pair = Pair::new();
    let hostile = Hostile::new(&pair);
    let vi = pair.a.vi(Level::ReliableDelivery);
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let here = pair.a.address(b"evil");
            pair.a.nic.connect_wait(&here, soon()).unwrap()
        });
        let good = introduction(Level::ReliableDelivery);
        let mut long = good.clone();
        long.extend([0; 17]);
        for data in [&b""[..], b"VIA1", &good[..19], &long, &[0; 40]] {
            let session = hostile.ask(NAME, data);
            let answer = EventMask::REFUSED | EventMask::PAIRED;
            let refused = session.wait(answer, soon()).unwrap();
            assert!(refused.contains(EventMask::REFUSED), "{data:?}");
            let state = session.partner().unwrap().state;
            assert!(matches!(state, PartnerState::Rejected(2)));
        }
        let session = hostile.ask(NAME, &good);
        let request = waits.join().unwrap();
        assert_eq!(request.address().discriminator, b"me");
        // It has gone before it is answered.
        drop(session);
        assert_eq!(request.accept(&vi), Err(Error::Timeout));
        assert_eq!(vi.query().unwrap().state, State::Idle);
    });
}

/// VI-EM-10: messages that cannot be end their connection, and no other.
#[test]
fn strange_messages_end_their_own_connection() {
    let pair = Pair::new();
    let hostile = Hostile::new(&pair);
    let (a, b) = pair.connected(Level::ReliableDelivery);
    let cases: [(u8, &[u8]); 9] = [
        (0, b""),
        (11, b"x"),
        (255, b""),
        (2, b"abc"),
        (3, &[0; 15]),
        (6, &[0; 3]),
        (4, b"more"),
        (9, &[1, 0, 0, 0]),
        (10, &[0; 7]),
    ];
    for level in Level::ALL {
        for (kind, data) in cases {
            let (vi, mut partner) = connected(&pair, &hostile, level);
            let (receive, _) = pair.a.receive(&vi, 64);
            let head = Head {
                kind,
                ..Head::default()
            };
            // It may have been read, and the session closed, before the partner signals.
            use mp_queue_pair::Error::Fabric;
            let sent = partner.send(&head, data, soon());
            assert!(matches!(
                sent,
                Ok(()) | Err(Fabric(mp_fabric::Error::PartnerGone))
            ));
            assert!(falls(&vi), "{level:?} {kind}");
            let done = vi.recv_done().unwrap();
            assert_eq!(done.descriptor, receive);
            assert!(done.status.is_error());
            vi.disconnect().unwrap();
        }
    }
    pair.b.receive(&b, 4);
    pair.a.send(&a, b"good");
    assert!(!b.recv_wait(soon()).unwrap().status.is_error());
}

/// VI-EM-10, VI-REL-1, VI-MEM-7: a partner that scribbles over the window for a while: the program
/// survives, its memory is as it was, and other connections go on.
#[test]
fn a_partner_that_scribbles_harms_itself_only() {
    let pair = Pair::new();
    let hostile = Hostile::new(&pair);
    let (a, b) = pair.connected(Level::ReliableReception);
    let guard = pair.a.data(&[0x5a; 4096]);
    for round in 0..12_u64 {
        let level = Level::ALL[round as usize % 3];
        let (vi, mut partner) = connected(&pair, &hostile, level);
        pair.a.receive(&vi, 64);
        let head = Head {
            kind: 1,
            ..Head::default()
        };
        partner.send(&head, b"good", soon()).unwrap();
        let got = vi.recv_wait(soon()).unwrap();
        assert_eq!(got.status, Status::DONE.with(Status::OP_RECEIVE));
        for _ in 0..4 {
            pair.a.receive(&vi, 64);
        }
        let map = partner.session().map_remote().unwrap().unwrap();
        let mut random = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = (random >> 32) as usize % (map.len() - 8);
            map.volatile().write_obj(random, at & !7).unwrap();
        }
        partner.session().signal().ok();
        assert!(falls(&vi), "round {round}");
        vi.disconnect().unwrap();
        pair.b.receive(&b, 8);
        pair.a.send(&a, &round.to_le_bytes());
        assert!(!b.recv_wait(soon()).unwrap().status.is_error());
    }
    assert_eq!(pair.a.bytes(guard, 4096), [0x5a; 4096]);
}

/// VI-PEER-8, VI-PEER-9: a peer that goes as soon as it is met: that is told, once.
#[test]
fn a_peer_that_goes_at_once_is_told() {
    let pair = Pair::new();
    let hostile = Hostile::new(&pair);
    let vi = pair.a.vi(Level::ReliableDelivery);
    let (own, there) = (pair.a.address(b""), pair.b.address(b"p"));
    vi.peer_request(&own, &there, soon()).unwrap();
    let peer = hostile.fabric.peer(hostile.interface, PROTOCOL);
    let peer = peer.name(b"\0\0\0\x01p\0\0\0\0p").own_name(5);
    let data = introduction(Level::ReliableDelivery);
    let peer = peer.data(&data).local(0x8000..=0x8000);
    let met = peer.remote(0x8000..=0x8000).open().unwrap();
    met.wait(EventMask::PAIRED, soon()).unwrap();
    drop(met);
    assert_eq!(vi.peer_wait(), Err(Error::Timeout));
    assert_eq!(vi.peer_done(), Err(Error::InvalidState));
    assert_eq!(vi.query().unwrap().state, State::Idle);
}

/// A server that says yes and nothing else, until the function has returned; host 0 asks it.
fn with_mute_server<T>(pair: &Pair, act: impl FnOnce() -> T) -> T {
    let hostile = Hostile::new(pair);
    let server = hostile.fabric.server(hostile.interface, PROTOCOL);
    let server = server.name(b"\0\0\0\x01mute").hold();
    let window = 0x8000..=0x8000;
    let server = server.local(window.clone()).remote(window).open().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let PartnerState::Request(id) = ({
                server.wait(EventMask::REQUEST, soon()).unwrap();
                server.partner().unwrap().state
            }) else {
                panic!("no request");
            };
            let yes = &introduction(Level::ReliableDelivery)[..16];
            server.accept(id, yes, soon()).unwrap();
        });
        act()
    })
}

/// VI-CONN-20: the time of a connect call is over although the server's library does not go on.
#[test]
fn a_connect_call_keeps_its_time_while_libraries_shake_hands() {
    let pair = Pair::new();
    let vi = pair.a.vi(Level::ReliableDelivery);
    let (local, there) = (pair.a.address(b"me"), pair.b.address(b"mute"));
    with_mute_server(&pair, || {
        let begun = Instant::now();
        let asked = vi.connect_request(&local, &there, deadline(300));
        assert_eq!(asked, Err(Error::Timeout));
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    });
    assert_eq!(vi.query().unwrap().state, State::Idle);
}

/// VI-DISC-9, VI-CONN-25: so does a disconnect end it.
#[test]
fn a_disconnect_ends_a_connect_call_while_libraries_shake_hands() {
    let pair = Pair::new();
    let vi = pair.a.vi(Level::ReliableDelivery);
    let (local, there) = (pair.a.address(b"me"), pair.b.address(b"mute"));
    with_mute_server(&pair, || {
        let begun = Instant::now();
        thread::scope(|scope| {
            let asked = scope.spawn(|| vi.connect_request(&local, &there, Deadline::NEVER));
            thread::sleep(Duration::from_millis(300));
            vi.disconnect().unwrap();
            assert_eq!(asked.join().unwrap(), Err(Error::InvalidState));
        });
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    });
    assert_eq!(vi.query().unwrap().state, State::Idle);
}

/// VI-DISC-9, VI-NIC-8, VI-CONN-13: an acceptance whose client has confirmed it and does nothing more
/// is ended by a disconnect and by closing the NIC, and the request is consumed.
#[test]
fn an_acceptance_is_ended_while_libraries_shake_hands() {
    for (closes, told) in [
        (false, Error::InvalidState),
        (true, Error::InvalidParameter),
    ] {
        let pair = Pair::new();
        let hostile = Hostile::new(&pair);
        let vi = pair.a.vi(Level::ReliableDelivery);
        let here = pair.a.address(b"evil");
        thread::scope(|scope| {
            let accepts = scope.spawn(|| {
                let request = pair.a.nic.connect_wait(&here, soon()).unwrap();
                let begun = Instant::now();
                let accepted = request.accept(&vi);
                (request, accepted, begun.elapsed())
            });
            let session = hostile.ask(NAME, &introduction(Level::ReliableDelivery));
            session.wait(EventMask::PAIRED, soon()).unwrap();
            thread::sleep(Duration::from_millis(300));
            assert!(!accepts.is_finished());
            match closes {
                true => pair.a.nic.close().unwrap(),
                false => vi.disconnect().unwrap(),
            }
            let (request, accepted, time) = accepts.join().unwrap();
            assert_eq!(accepted, Err(told));
            // A client has 5 seconds.
            assert!(time < Duration::from_secs(2), "{time:?}");
            assert!(request.is_answered());
            assert_eq!(request.accept(&vi), Err(Error::InvalidParameter));
        });
        if !closes {
            assert_eq!(vi.query().unwrap().state, State::Idle);
        }
    }
}

/// VI-STS-3: a message that says that it is longer than the VI's largest transfer completes its
/// receive, and ends a reliable connection.
#[test]
fn a_message_above_the_largest_transfer_has_no_room() {
    let pair = Pair::new();
    let hostile = Hostile::new(&pair);
    for level in Level::ALL {
        let (vi, mut partner) = connected(&pair, &hostile, level);
        let (receive, room) = pair.a.receive(&vi, 1 << 20);
        let head = Head {
            kind: 2,
            ..Head::default()
        };
        let total = (1_u32 << 20) + 1;
        let message = [&total.to_le_bytes()[..], &[7; 60]].concat();
        // It may have been read, and the session closed, before the partner signals.
        let _ = partner.send(&head, &message, soon());
        let done = vi.recv_wait(soon()).unwrap();
        let status = Status::DONE.with(Status::OP_RECEIVE);
        let status = status.with(Status::LENGTH_ERROR);
        assert_eq!((done.descriptor, done.status), (receive, status));
        assert_eq!(pair.a.bytes(room, 60), [0; 60]);
        let fallen = vi.query().unwrap().state == State::Error;
        assert_eq!(fallen, level != Level::Unreliable);
        vi.disconnect().unwrap();
    }
}

/// VI-THR-6, VI-WQ-6, VI-NIC-8: a send that is never acknowledged: a thread that waits for it holds
/// up no Done, and returns when the NIC is closed.
#[test]
fn a_wait_for_a_send_holds_up_no_done_and_ends_with_the_nic() {
    let pair = Pair::new();
    let hostile = Hostile::new(&pair);
    let (vi, _partner) = connected(&pair, &hostile, Level::ReliableReception);
    pair.a.send(&vi, b"never");
    thread::scope(|scope| {
        let waits = scope.spawn(|| vi.send_wait(Deadline::NEVER));
        thread::sleep(Duration::from_millis(50));
        let times = (0..50).map(|_| {
            let begun = Instant::now();
            assert_eq!(vi.send_done(), Err(Error::NotDone));
            begun.elapsed()
        });
        assert!(times.min().unwrap() < Duration::from_millis(1));
        assert!(!waits.is_finished());
        pair.a.nic.close().unwrap();
        assert_eq!(waits.join().unwrap(), Err(Error::InvalidParameter));
    });
}

/// All of them with other chances of the bridge.
#[test]
fn with_other_seeds() {
    mp_testing::with_other_seeds("with_other_seeds", &[]);
}
