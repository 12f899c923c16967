// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls that connect, of a library that does not tell of partitions.

mod common;

use common::{soon, Pair, TestVi};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};
use vipl::{Deadline, Error, HostAddress, Level, NetAddress, RemoteViAttributes, State};

/// The link of the hosts.
const LINK: usize = 0;
/// How long calls try.
const BRIEF: Duration = Duration::from_millis(200);

/// Ask a server.
fn ask(pair: &Pair, vi: &TestVi, remote: &NetAddress, deadline: Deadline) -> Asked {
    vi.connect_request(&pair.b.address(b""), remote, deadline)
}

/// Meet a peer.
fn meet(pair: &Pair, vi: &TestVi, remote: &NetAddress, deadline: Deadline) -> Asked {
    vi.peer_request(&pair.b.address(b"b"), remote, deadline)?;
    vi.peer_wait()
}

type Asked = Result<RemoteViAttributes, Error>;
/// A call that connects.
type Call = fn(&Pair, &TestVi, &NetAddress, Deadline) -> Asked;
const CALLS: [Call; 2] = [ask, meet];

fn state(vi: &TestVi) -> State {
    vi.query().unwrap().state
}

/// VI-NR-2, VI-CONN-23, VI-PEER-11: they try as long as they are told to, and leave the VI as it was.
#[test]
fn a_host_that_is_not_reachable_is_asked_until_it_is_too_late() {
    let blind = Pair::blind();
    blind.world.set_up(LINK, false);
    let nowhere = NetAddress::new(HostAddress::of(77), b"x");
    for level in Level::ALL {
        for (remote, call) in [blind.a.address(b"x"), nowhere.clone()].iter().zip(CALLS) {
            let vi = blind.b.vi(level);
            blind.b.receive(&vi, 4);
            let begun = Instant::now();
            let asked = call(&blind, &vi, remote, Deadline::after(BRIEF));
            assert_eq!(asked, Err(Error::Timeout));
            assert!(begun.elapsed() >= BRIEF);
            assert_eq!(state(&vi), State::Idle);
            assert_eq!(vi.recv_done(), Err(Error::NotDone));
        }
    }
}

/// VI-NR-2, VI-DISC-9, VI-NIC-5: who gives up ends that at once.
#[test]
fn who_gives_up_does_not_wait_for_a_link() {
    let blind = Pair::blind();
    blind.world.set_up(LINK, false);
    let remote = blind.a.address(b"x");
    for call in CALLS {
        let vi = blind.b.vi(Level::ReliableDelivery);
        thread::scope(|scope| {
            let asks = scope.spawn(|| call(&blind, &vi, &remote, Deadline::NEVER));
            while state(&vi) != State::ConnectPending {
                thread::yield_now();
            }
            // It sleeps, or is about to.
            thread::sleep(Duration::from_millis(20));
            vi.disconnect().unwrap();
            assert_eq!(asks.join().unwrap(), Err(Error::InvalidState));
        });
        assert_eq!(state(&vi), State::Idle);
    }
}

/// VI-NR-2: a link that comes up, or was lost while somebody asked, leads to the other host.
#[test]
fn a_link_that_comes_up_in_time_is_used() {
    let blind = Pair::blind();
    for is_lost in [false, true] {
        let [server, client] = [&blind.a, &blind.b].map(|side| side.vi(Level::ReliableDelivery));
        let address = blind.a.address(b"x");
        blind.world.set_up(LINK, is_lost);
        // Whether the server has been seen to wait.
        let is_there = AtomicBool::new(!is_lost);
        thread::scope(|scope| {
            let serves = || blind.a.nic.connect_wait(&address, soon()).unwrap();
            let first = is_lost.then(|| scope.spawn(serves));
            let asks = scope.spawn(|| loop {
                match ask(&blind, &client, &address, soon()) {
                    // It does not wait yet.
                    Err(Error::NoMatch) if !is_there.load(Relaxed) => thread::yield_now(),
                    other => return other,
                }
            });
            if let Some(first) = first {
                let request = first.join().unwrap();
                is_there.store(true, Relaxed);
                blind.world.set_up(LINK, false);
                assert_eq!(request.accept(&server), Err(Error::Timeout));
                assert_eq!(state(&server), State::Idle);
            }
            let second = scope.spawn(serves);
            thread::sleep(Duration::from_millis(20));
            assert!(!asks.is_finished(), "it has given up");
            blind.world.set_up(LINK, true);
            second.join().unwrap().accept(&server).unwrap();
            asks.join().unwrap().unwrap();
        });
        assert_eq!([state(&server), state(&client)], [State::Connected; 2]);
    }
}

/// VI-NR-2, VI-CONN-14: a client that is out of reach needs no answer.
#[test]
fn a_client_that_is_out_of_reach_is_rejected_in_silence() {
    let blind = Pair::blind();
    let vi = blind.b.vi(Level::ReliableDelivery);
    let address = blind.a.address(b"x");
    thread::scope(|scope| {
        let asks = scope.spawn(|| loop {
            match ask(&blind, &vi, &address, Deadline::after(10 * BRIEF)) {
                Err(Error::NoMatch) => thread::yield_now(),
                other => return other,
            }
        });
        let request = blind.a.nic.connect_wait(&address, soon()).unwrap();
        blind.world.set_up(LINK, false);
        assert_eq!(request.reject(), Ok(()));
        assert_eq!(request.reject(), Err(Error::InvalidParameter));
        assert_eq!(asks.join().unwrap(), Err(Error::Timeout));
    });
}
