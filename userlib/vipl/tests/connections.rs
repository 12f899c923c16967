// SPDX-License-Identifier: MIT OR Apache-2.0

//! How VIs find each other, and how they part.

mod common;

use common::{briefly, flushed, good, soon, Pair, Side, TestVi};
use mp_testing::{seeded_bridge, Host, World};
use std::{
    thread,
    time::{Duration, Instant},
};
use vipl::{
    deadline, Deadline, Descriptor, Error, HostAddress, Level, NetAddress, Remote,
    RemoteViAttributes, State, Status, ViAttributes,
};

fn state(vi: &TestVi) -> State {
    vi.query().unwrap().state
}

/// Ask until somebody waits.
fn ask(pair: &Pair, vi: &TestVi, remote: &[u8]) -> Result<RemoteViAttributes, Error> {
    let local = pair.b.address(b"local");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match vi.connect_request(&local, &pair.a.address(remote), soon()) {
            Err(Error::NoMatch) if Instant::now() < until => thread::yield_now(),
            other => return other,
        }
    }
}

/// VI-CONN-2, VI-CONN-12, VI-CONN-13, VI-CONN-16, VI-CONN-18, VI-CONN-22, VI-STATE-4: both learn what
/// the other one has, the server also its address.
#[test]
fn a_client_and_a_server_learn_of_each_other() {
    let pair = Pair::new();
    let server = pair.a.vi(Level::ReliableDelivery);
    let own = ViAttributes {
        rdma_write: false,
        ..pair.b.attributes(Level::ReliableDelivery)
    };
    let client = pair.b.nic.create_vi(&own, None, None, 0).unwrap();
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&pair, &client, b"here"));
        let here = pair.a.address(b"here");
        let request = pair.a.nic.connect_wait(&here, soon()).unwrap();
        assert_eq!(request.address(), &pair.b.address(b"local"));
        assert_eq!(*request.attributes(), RemoteViAttributes::from(&own));
        assert_eq!(state(&client), State::ConnectPending);
        let busy = client.connect_request(&pair.b.address(b""), &here, soon());
        assert_eq!(busy, Err(Error::InvalidState));
        assert_eq!(request.accept(&server), Ok(()));
        assert_eq!(request.accept(&server), Err(Error::InvalidParameter));
        assert_eq!(request.reject(), Err(Error::InvalidParameter));
        let theirs = pair.a.attributes(Level::ReliableDelivery);
        let learned = asked.join().unwrap();
        assert_eq!(learned, Ok(RemoteViAttributes::from(&theirs)));
    });
    assert_eq!(
        (state(&server), state(&client)),
        (State::Connected, State::Connected)
    );
}

/// VI-CONN-1, VI-CONN-19, VI-ADDR-4: discriminators are compared by length and bytes, and nobody
/// is kept waiting by one who does not wait.
#[test]
fn only_the_same_discriminator_matches() {
    let pair = Pair::new();
    let vi = pair.b.vi(Level::Unreliable);
    let names: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"b", &[7; 16]];
    for wanted in names {
        let begun = Instant::now();
        let local = pair.b.address(b"a");
        let asked = vi.connect_request(&local, &pair.a.address(wanted), soon());
        assert_eq!(asked, Err(Error::NoMatch));
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    for waited in names {
        thread::scope(|scope| {
            let (pair, own) = (&pair, pair.a.address(waited));
            let waits = scope.spawn(move || pair.a.nic.connect_wait(&own, soon()));
            thread::sleep(Duration::from_millis(50));
            for wanted in names.into_iter().filter(|name| *name != waited) {
                let local = pair.b.address(waited);
                let asked = vi.connect_request(&local, &pair.a.address(wanted), soon());
                assert_eq!(asked, Err(Error::NoMatch), "{waited:?} {wanted:?}");
            }
            let asked = scope.spawn(|| ask(pair, &vi, waited));
            waits.join().unwrap().unwrap().reject().unwrap();
            assert_eq!(asked.join().unwrap(), Err(Error::Reject));
        });
    }
}

/// Far more than a call takes that does not wait.
const LATE: Duration = Duration::from_secs(5);

/// Whether a call of 150 ms has taken these and not much more.
fn as_told(begun: Instant) -> bool {
    let whole = Duration::from_millis(150);
    (whole..whole + LATE).contains(&begun.elapsed())
}

/// VI-CONN-3, VI-GEN-2, VI-GEN-3, VI-CONN-20, VI-CONN-11, VI-CONN-15, VI-CONN-23: how long calls wait.
#[test]
fn calls_wait_as_long_as_they_are_told() {
    let pair = Pair::new();
    let here = pair.a.address(b"here");
    let begun = Instant::now();
    let none = pair.a.nic.connect_wait(&here, deadline(0));
    assert_eq!(none.unwrap_err(), Error::Timeout);
    assert!(begun.elapsed() < LATE);
    let begun = Instant::now();
    let none = pair.a.nic.connect_wait(&here, deadline(150));
    assert_eq!(none.unwrap_err(), Error::Timeout);
    assert!(as_told(begun));
    let (vi, server) = (
        pair.b.vi(Level::ReliableDelivery),
        pair.a.vi(Level::ReliableDelivery),
    );
    let (kept, _) = pair.b.receive(&vi, 4);
    let local = pair.b.address(b"");
    for accept in [true, false] {
        thread::scope(|scope| {
            let waits = scope.spawn(|| pair.a.nic.connect_wait(&here, soon()).unwrap());
            let begun = loop {
                let begun = Instant::now();
                match vi.connect_request(&local, &here, deadline(150)) {
                    Err(Error::NoMatch) => thread::yield_now(),
                    Err(Error::Timeout) => break begun,
                    other => panic!("{other:?}"),
                }
            };
            assert!(as_told(begun));
            let request = waits.join().unwrap();
            if accept {
                assert_eq!(request.accept(&server), Err(Error::Timeout));
                assert_eq!(request.accept(&server), Err(Error::InvalidParameter));
            } else {
                assert_eq!(request.reject(), Ok(()));
            }
        });
        assert_eq!((state(&vi), state(&server)), (State::Idle, State::Idle));
    }
    pair.connect(&server, &vi);
    pair.a.send(&server, b"kept");
    assert_eq!(vi.recv_wait(soon()).unwrap().descriptor, kept);
}

/// VI-GEN-2, VI-GEN-3, VI-WQ-7, VI-CQ-6, VI-PEER-1: waits for completions and peers as well. That of a
/// peer counts from the request.
#[test]
fn waits_in_vain_are_as_long_as_they_are_told() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableReception);
    let cq = pair.a.nic.create_cq(4, 0).unwrap();
    pair.a.receive(&a, 8);
    let alone = pair.a.vi(Level::ReliableDelivery);
    let waits: [&dyn Fn(Deadline) -> Option<Error>; 2] =
        [&|until| a.recv_wait(until).err(), &|until| {
            cq.wait(until).err()
        }];
    for wait in waits {
        let begun = Instant::now();
        assert_eq!(wait(deadline(0)), Some(Error::Timeout));
        assert!(begun.elapsed() < LATE);
        let begun = Instant::now();
        assert_eq!(wait(deadline(150)), Some(Error::Timeout));
        assert!(as_told(begun));
    }
    let begun = Instant::now();
    let (own, other) = (pair.a.address(b""), pair.b.address(b"m"));
    alone.peer_request(&own, &other, deadline(600)).unwrap();
    thread::sleep(Duration::from_millis(500));
    let waited = Instant::now();
    assert_eq!(alone.peer_wait(), Err(Error::Timeout));
    assert!(begun.elapsed() >= Duration::from_millis(600));
    // One that began in the wait would take 600.
    assert!(
        waited.elapsed() < Duration::from_millis(500),
        "{:?}",
        waited.elapsed()
    );
    b.disconnect().unwrap();
}

/// VI-CONN-8 to VI-CONN-10, VI-CONN-21, SC-11: an acceptance that fails can be tried again, and the
/// client learns nothing of it.
#[test]
fn a_request_survives_an_acceptance_that_fails() {
    let pair = Pair::new();
    let (server, client) = (
        pair.a.vi(Level::Unreliable),
        pair.b.vi(Level::ReliableDelivery),
    );
    let (c, d) = pair.connected(Level::ReliableDelivery);
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&pair, &client, b"x"));
        let request = pair
            .a
            .nic
            .connect_wait(&pair.a.address(b"x"), soon())
            .unwrap();
        assert_eq!(request.accept(&server), Err(Error::InvalidReliabilityLevel));
        let size = ViAttributes {
            max_transfer_size: 5,
            ..pair.a.attributes(Level::ReliableDelivery)
        };
        server.set_attributes(&size).unwrap();
        assert_eq!(request.accept(&server), Err(Error::InvalidMtu));
        assert_eq!(request.accept(&c), Err(Error::InvalidState));
        assert_eq!(request.accept(&d), Err(Error::InvalidParameter));
        assert_eq!((state(&server), state(&c)), (State::Idle, State::Connected));
        let good = pair.a.attributes(Level::ReliableDelivery);
        server.set_attributes(&good).unwrap();
        assert_eq!(request.accept(&server), Ok(()));
        assert!(asked.join().unwrap().is_ok());
        assert_eq!(server.set_attributes(&good), Err(Error::InvalidState));
    });
}

/// VI-CONN-14, VI-CONN-24: a client hears of a server that has gone without an answer, as of one
/// that has rejected it.
#[test]
fn a_client_hears_of_a_server_that_will_not_answer() {
    let pair = Pair::new();
    let client = pair.b.vi(Level::ReliableReception);
    let (local, here) = (pair.b.address(b""), pair.a.address(b"x"));
    for close in [false, true] {
        let other = common::nic(&pair.world, &pair.bridge, Host::A);
        thread::scope(|scope| {
            let waits = scope.spawn(|| other.connect_wait(&here, soon()).unwrap());
            thread::sleep(Duration::from_millis(50));
            let asked = scope.spawn(|| {
                let never = vipl::Deadline::NEVER;
                client.connect_request(&local, &here, never)
            });
            let request = waits.join().unwrap();
            if close {
                assert_eq!(other.close(), Ok(()));
                assert_eq!(request.reject(), Err(Error::InvalidParameter));
                assert_eq!(asked.join().unwrap(), Err(Error::NoMatch));
            } else {
                assert_eq!(request.reject(), Ok(()));
                assert_eq!(asked.join().unwrap(), Err(Error::Reject));
            }
        });
        assert_eq!(state(&client), State::Idle);
    }
}

/// VI-NIC-8: closing a NIC ends all calls that wait.
#[test]
fn closing_a_nic_ends_calls_that_wait() {
    let pair = Pair::new();
    let never = vipl::Deadline::NEVER;
    let (a, _b) = pair.connected(Level::ReliableDelivery);
    pair.a.receive(&a, 4);
    let (c, d) = (pair.a.vi(Level::Unreliable), pair.a.vi(Level::Unreliable));
    let cq = pair.a.nic.create_cq(4, 0).unwrap();
    c.peer_request(&pair.a.address(b""), &pair.b.address(b"p"), never)
        .unwrap();
    thread::scope(|scope| {
        let other = common::nic(&pair.world, &pair.bridge, Host::B);
        let held = scope.spawn(move || {
            let here = NetAddress::new(other.attributes().unwrap().local_address, b"w");
            let request = other.connect_wait(&here, soon()).unwrap();
            (other, request)
        });
        thread::sleep(Duration::from_millis(50));
        let waits = [
            scope.spawn(|| a.recv_wait(never).map(|_| ())),
            scope.spawn(|| cq.wait(never).map(|_| ())),
            scope.spawn(|| c.peer_wait().map(|_| ())),
            scope.spawn(|| {
                let here = pair.a.address(b"z");
                pair.a.nic.connect_wait(&here, never).map(|_| ())
            }),
            scope.spawn(|| {
                let (own, there) = (pair.a.address(b""), pair.b.address(b"w"));
                d.connect_request(&own, &there, never).map(|_| ())
            }),
        ];
        let held = held.join().unwrap();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(pair.a.nic.close(), Ok(()));
        for wait in waits {
            assert_eq!(wait.join().unwrap(), Err(Error::InvalidParameter));
        }
        drop(held);
    });
    assert_eq!(pair.a.nic.close(), Err(Error::InvalidParameter));
    assert_eq!(a.send_done(), Err(Error::InvalidParameter));
    assert_eq!(pair.a.nic.create_ptag(), Err(Error::InvalidParameter));
}

/// VI-ADDR-2, VI-ADDR-3, VI-CONN-26, VI-GEN-3: addresses that are none.
#[test]
fn addresses_are_looked_at_first() {
    let pair = Pair::new();
    let vi = pair.a.vi(Level::Unreliable);
    let good = pair.a.address(b"x");
    let mut bad = vec![pair.b.address(b"x"), pair.a.address(&[0; 17])];
    for len in [0, 3, 5] {
        bad.push(NetAddress {
            host: vec![0; len],
            discriminator: vec![],
        });
    }
    let invalid = Error::InvalidParameter;
    for local in &bad {
        assert_eq!(
            pair.a.nic.connect_wait(local, briefly()).unwrap_err(),
            invalid
        );
        assert_eq!(vi.connect_request(local, &good, soon()), Err(invalid));
        assert_eq!(vi.peer_request(local, &good, soon()), Err(invalid));
    }
    for remote in &bad[1..] {
        assert_eq!(vi.connect_request(&good, remote, soon()), Err(invalid));
        assert_eq!(vi.peer_request(&good, remote, soon()), Err(invalid));
    }
    assert_eq!(vi.connect_request(&good, &good, deadline(0)), Err(invalid));
    assert_eq!(vi.peer_request(&good, &good, deadline(0)), Err(invalid));
    assert_eq!(state(&vi), State::Idle);
}

/// VI-NR-1, VI-NR-3, VI-NR-4, VI-STATE-6: a host that is not reachable.
#[test]
fn a_host_that_is_not_reachable_is_told() {
    let pair = Pair::new();
    pair.world.set_up(0, false);
    let nowhere = NetAddress::new(HostAddress::of(77), b"x");
    for level in Level::ALL {
        for remote in [&pair.a.address(b"x"), &nowhere] {
            let vi = pair.b.vi(level);
            let (receive, _) = pair.b.receive(&vi, 4);
            let local = pair.b.address(b"");
            let asked = vi.connect_request(&local, remote, soon());
            assert_eq!(asked, Err(Error::NotReachable));
            if level == Level::Unreliable {
                assert_eq!(state(&vi), State::Idle);
                assert_eq!(vi.recv_done(), Err(Error::NotDone));
            } else {
                assert_eq!(state(&vi), State::Error);
                assert_eq!(vi.recv_done(), Ok(flushed(receive, Status::OP_RECEIVE)));
            }
            assert_eq!((vi.disconnect(), state(&vi)), (Ok(()), State::Idle));
        }
    }
}

/// VI-STATE-9, VI-EM-11: a program that never sleeps learns that the link is down, which nothing in
/// the window tells.
#[test]
fn who_only_looks_learns_that_the_link_is_down() {
    let pair = Pair::new();
    let (a, _b) = pair.connected(Level::ReliableDelivery);
    let (receive, _) = pair.a.receive(&a, 4);
    // It does look.
    assert_eq!(a.recv_done(), Err(Error::NotDone));
    pair.world.set_up(0, false);
    let until = soon();
    let done = loop {
        match a.recv_done() {
            Err(Error::NotDone) => std::hint::spin_loop(),
            other => break other.unwrap(),
        }
        assert!(
            until.remaining().is_none_or(|left| !left.is_zero()),
            "nobody tells"
        );
    };
    assert_eq!(done.descriptor, receive);
    assert!(done.status.is_error(), "{done:?}");
    assert_eq!(state(&a), State::Error);
}

/// VI-POST-2, VI-RDMA-7: a program that asks for completions where nothing is posted moves messages
/// as well.
#[test]
fn who_looks_at_an_empty_queue_moves_messages() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableReception);
    let target = pair.b.room(64);
    let remote = Remote {
        address: pair.b.at(target) as u64,
        handle: pair.b.handle.0,
    };
    let descriptor = pair.a.post(&a, Descriptor::write(remote), b"to memory");
    let until = soon();
    let done = loop {
        assert_eq!(b.recv_done(), Err(Error::Descriptor));
        match a.send_done() {
            Err(Error::NotDone) => {}
            other => break other.unwrap(),
        }
        assert!(
            until.remaining().is_none_or(|left| !left.is_zero()),
            "nothing moves"
        );
    };
    assert_eq!(done, good(descriptor, Status::OP_RDMA_WRITE, 9));
    assert_eq!(pair.b.bytes(target, 9), b"to memory");
}

/// VI-PEER-1, VI-PEER-2, VI-PEER-5, VI-PEER-7, VI-PEER-9, VI-PEER-10, SC-10: peers meet, whoever is
/// first; what came of it is told once.
#[test]
fn peers_meet_whoever_is_first() {
    let pair = Pair::new();
    for first in [true, false] {
        let (a, b) = (
            pair.a.vi(Level::ReliableDelivery),
            pair.b.vi(Level::ReliableDelivery),
        );
        let (ours, theirs) = (pair.a.address(b"own"), pair.b.address(b"other"));
        let (to_b, to_a) = (pair.b.address(b"meet"), pair.a.address(b"meet"));
        assert_eq!(a.peer_done(), Err(Error::InvalidState));
        if first {
            a.peer_request(&ours, &to_b, soon()).unwrap();
            thread::sleep(Duration::from_millis(50));
            assert_eq!(a.peer_done(), Err(Error::NotDone));
            assert_eq!(state(&a), State::ConnectPending);
        }
        b.peer_request(&theirs, &to_a, soon()).unwrap();
        if !first {
            a.peer_request(&ours, &to_b, soon()).unwrap();
        }
        let met = RemoteViAttributes::from(&pair.b.attributes(Level::ReliableDelivery));
        assert_eq!(a.peer_wait(), Ok(met));
        assert_eq!(a.peer_wait(), Err(Error::InvalidState));
        loop {
            match b.peer_done() {
                Err(Error::NotDone) => thread::yield_now(),
                other => break assert_eq!(other, Ok(met)),
            }
        }
        assert_eq!((state(&a), state(&b)), (State::Connected, State::Connected));
        pair.b.receive(&b, 4);
        pair.a.send(&a, b"data");
        assert!(b.recv_wait(soon()).is_ok());
        a.disconnect().unwrap();
    }
}

/// VI-PEER-4, VI-PEER-8, VI-PEER-11: peers that do not fit, and one that is alone.
#[test]
fn peers_that_do_not_fit_are_both_told() {
    let pair = Pair::new();
    let (a, b) = (
        pair.a.vi(Level::ReliableDelivery),
        pair.b.vi(Level::ReliableDelivery),
    );
    let (kept, _) = pair.a.receive(&a, 4);
    let request = |until| {
        let own = pair.a.address(b"");
        a.peer_request(&own, &pair.b.address(b"m"), until).unwrap();
        b.peer_request(&pair.b.address(b""), &pair.a.address(b"m"), soon())
            .unwrap();
        (a.peer_wait(), b.peer_wait())
    };
    let good = pair.b.attributes(Level::ReliableDelivery);
    for (attributes, error) in [
        (
            ViAttributes {
                max_transfer_size: 1,
                ..good
            },
            Error::InvalidMtu,
        ),
        (
            pair.b.attributes(Level::Unreliable),
            Error::InvalidReliabilityLevel,
        ),
    ] {
        b.set_attributes(&attributes).unwrap();
        assert_eq!(request(soon()), (Err(error), Err(error)));
        assert_eq!((state(&a), state(&b)), (State::Idle, State::Idle));
    }
    let begun = Instant::now();
    a.peer_request(&pair.a.address(b""), &pair.b.address(b"m"), deadline(100))
        .unwrap();
    assert_eq!(a.peer_wait(), Err(Error::Timeout));
    assert!(begun.elapsed() >= Duration::from_millis(100));
    assert_eq!(a.peer_done(), Err(Error::InvalidState));
    b.set_attributes(&good).unwrap();
    let (met, other) = request(soon());
    assert!(met.is_ok() && other.is_ok());
    pair.b.send(&b, b"kept");
    assert_eq!(a.recv_wait(soon()).unwrap().descriptor, kept);
}

/// VI-ADDR-5: the two models never match each other.
#[test]
fn the_two_models_do_not_match() {
    let pair = Pair::new();
    let (a, b) = (pair.a.vi(Level::Unreliable), pair.b.vi(Level::Unreliable));
    a.peer_request(&pair.a.address(b"x"), &pair.b.address(b"x"), deadline(400))
        .unwrap();
    thread::sleep(Duration::from_millis(50));
    let local = pair.b.address(b"x");
    let asked = b.connect_request(&local, &pair.a.address(b"x"), soon());
    assert_eq!(asked, Err(Error::NoMatch));
    assert_eq!(a.peer_wait(), Err(Error::Timeout));
}

/// VI-DISC-9, VI-STATE-7: a disconnect ends attempts, and what waits for them.
#[test]
fn a_disconnect_ends_an_attempt() {
    let pair = Pair::new();
    let (a, b) = (pair.a.vi(Level::Unreliable), pair.b.vi(Level::Unreliable));
    let (receive, _) = pair.b.receive(&b, 4);
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&pair, &b, b"x"));
        let request = pair
            .a
            .nic
            .connect_wait(&pair.a.address(b"x"), soon())
            .unwrap();
        assert_eq!(b.disconnect(), Ok(()));
        assert_eq!(asked.join().unwrap(), Err(Error::InvalidState));
        assert_eq!(request.accept(&a), Err(Error::Timeout));
    });
    assert_eq!(state(&b), State::Idle);
    assert_eq!(b.recv_done(), Ok(flushed(receive, Status::OP_RECEIVE)));
    b.peer_request(&pair.b.address(b""), &pair.a.address(b"p"), soon())
        .unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| b.peer_wait());
        thread::sleep(Duration::from_millis(50));
        assert_eq!(b.disconnect(), Ok(()));
        assert_eq!(waits.join().unwrap(), Err(Error::InvalidState));
    });
    // Nobody waits there any more.
    a.peer_request(&pair.a.address(b""), &pair.b.address(b"p"), deadline(80))
        .unwrap();
    assert_eq!(a.peer_wait(), Err(Error::Timeout));
}

/// VI-STATE-21, SC-4: a VI is connected again and again.
#[test]
fn a_vi_is_connected_again_and_again() {
    let pair = Pair::new();
    let (a, b) = (
        pair.a.vi(Level::ReliableReception),
        pair.b.vi(Level::ReliableReception),
    );
    for round in 0..50 {
        pair.connect(&a, &b);
        pair.b.receive(&b, 8);
        pair.a.send(&a, &[round; 8]);
        assert!(!b.recv_wait(soon()).unwrap().status.is_error());
        assert!(!a.send_wait(soon()).unwrap().status.is_error());
        let (first, second) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        first.disconnect().unwrap();
        while state(second) != State::Error {
            thread::yield_now();
        }
        let own = if round % 2 == 0 { &pair.b } else { &pair.a };
        let again = second.connect_request(&own.address(b""), &pair.a.address(b""), soon());
        assert_eq!(again, Err(Error::InvalidState));
        second.disconnect().unwrap();
    }
    assert_eq!((a.destroy(), b.destroy()), (Ok(()), Ok(())));
    assert_eq!(a.query(), Err(Error::InvalidParameter));
}

/// VI-CONN-4, VI-CONN-5, VI-CONN-25: one wait takes one request, and many clients ask at once.
#[test]
fn each_wait_takes_one_of_many_clients() {
    let pair = Pair::new();
    let clients = 12;
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let vi = pair.b.vi(Level::Unreliable);
                assert!(ask(&pair, &vi, b"many").is_ok());
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..clients / 2 {
                    let vi = pair.a.vi(Level::Unreliable);
                    let here = pair.a.address(b"many");
                    let request = pair.a.nic.connect_wait(&here, soon()).unwrap();
                    request.accept(&vi).unwrap();
                }
            });
        }
    });
}

/// VI-CONN-12: the server's call succeeds whenever the client's has, also if the client disconnects
/// at once; a thousand times.
#[test]
fn a_client_that_leaves_at_once_was_connected() {
    let pair = Pair::new();
    let (server, client) = (
        pair.a.vi(Level::ReliableDelivery),
        pair.b.vi(Level::ReliableDelivery),
    );
    for n in 0..1_000 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let here = pair.a.address(b"here");
                let request = pair.a.nic.connect_wait(&here, soon()).unwrap();
                assert_eq!(request.accept(&server), Ok(()), "{n}");
            });
            ask(&pair, &client, b"here").unwrap();
            client.disconnect().unwrap();
        });
        server.disconnect().unwrap();
    }
}

/// VI-PEER-2: where two links lead to a host, peers meet whichever of them the other one sees, and
/// although one is lost meanwhile.
#[test]
fn peers_meet_on_a_link_that_both_have() {
    for (first, lost) in [
        (Host::A, true),
        (Host::B, true),
        (Host::A, false),
        (Host::B, false),
    ] {
        let world = World::new(2, 8 << 20);
        let bridge = seeded_bridge();
        let sides = [Host::A, Host::B].map(|host| Side::new(&world, &bridge, host));
        let vis = [0, 1].map(|n| sides[n].vi(Level::ReliableDelivery));
        let addresses = [0, 1].map(|n| sides[n].address(b"meet"));
        let ask = |n: usize| {
            let (own, other) = (&addresses[n], &addresses[1 - n]);
            vis[n].peer_request(own, other, soon()).unwrap();
        };
        let early = first as usize;
        // Long enough for it to have posted.
        let posted = || thread::sleep(Duration::from_millis(50));
        match lost {
            true => {
                ask(early);
                posted();
                world.set_up(0, false);
            }
            false => {
                world.set_up(0, false);
                ask(early);
                posted();
                world.set_up(0, true);
            }
        }
        ask(1 - early);
        for vi in &vis {
            assert!(vi.peer_wait().is_ok(), "{first:?} {lost}");
        }
        let receive = sides[1].receive(&vis[1], 4).0;
        sides[0].send(&vis[0], b"four");
        assert_eq!(vis[1].recv_wait(soon()).unwrap().descriptor, receive);
    }
}

/// All of them with other chances of the bridge.
#[test]
fn with_other_seeds() {
    mp_testing::with_other_seeds("with_other_seeds", &[]);
}
