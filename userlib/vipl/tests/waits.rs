// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads that wait for partners sleep until there is something to look for.

mod common;

use common::{soon, Device, Pair, TestVi};
use mp_testing::{Host, World};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::{fs, thread, time::Duration};
use vipl::{Deadline, Error, Level, NetAddress, Server, State};

/// The link of a pair.
const LINK: usize = 0;

/// Whether a server would sleep; it has to look then only if something happens.
fn sleeps(server: &Server<Device>) -> bool {
    let (_, fds) = server.nap();
    let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    poll(&mut fds, Some(&Timespec::default())) == Ok(0)
}

/// Let a server look until it would sleep.
fn settle(server: &mut Server<Device>) {
    for _ in 0..10 {
        assert!(server.look().is_none());
        if sleeps(server) {
            return;
        }
    }
    panic!("it never sleeps");
}

fn ask(pair: &Pair, vi: &TestVi, server: &NetAddress) -> Result<(), Error> {
    let local = pair.b.address(b"client");
    let short = Deadline::after(Duration::from_secs(2));
    vi.connect_request(&local, server, short).map(|_| ())
}

/// VI-CONN-1: servers wait on links that come up later or are new, and sleep until then. Each of
/// several is woken.
#[test]
fn servers_sleep_until_there_is_a_link() {
    let pair = Pair::new();
    type Change = fn(&World);
    let changes: [[Change; 2]; 2] = [
        [
            |world| world.set_up(LINK, false),
            |world| world.set_up(LINK, true),
        ],
        [
            |world| world.remove(LINK, Host::A),
            |world| world.add(LINK, Host::A),
        ],
    ];
    for [takes, gives] in changes {
        takes(&pair.world);
        let addresses = [&b"one"[..], b"two"].map(|name| pair.a.address(name));
        let mut servers = addresses
            .clone()
            .map(|address| pair.a.nic.serve(&address, Deadline::NEVER).unwrap());
        servers.iter_mut().for_each(settle);
        // Those that have looked last have not woken the others.
        servers.iter_mut().for_each(settle);
        for server in &servers {
            assert!(sleeps(server));
            assert_eq!(server.nap().0, None, "something has to wake it");
        }
        gives(&pair.world);
        for (server, address) in servers.iter_mut().zip(&addresses) {
            assert!(!sleeps(server), "nothing has woken it");
            settle(server);
            let vi = pair.b.vi(Level::ReliableDelivery);
            thread::scope(|scope| {
                let asks = scope.spawn(|| ask(&pair, &vi, address));
                while !asks.is_finished() && sleeps(server) {
                    thread::yield_now();
                }
                let request = server.look().unwrap().unwrap();
                request.reject().unwrap();
                assert_eq!(asks.join().unwrap(), Err(Error::Reject));
            });
        }
    }
}

/// A kernel that tells of no new link: a server looks for them now and then.
#[test]
fn servers_look_for_new_links_where_nothing_tells() {
    let pair = Pair::new();
    pair.world.set_tells_arrivals(false);
    let address = pair.a.address(b"x");
    let mut server = pair.a.nic.serve(&address, soon()).unwrap();
    settle(&mut server);
    let most = Duration::from_millis(100);
    assert!(server.nap().0.is_some_and(|nap| nap <= most));
}

/// VI-NIC-5, VI-CONN-4: a server is woken when its NIC is closed, and its deadline ends its sleep.
#[test]
fn a_server_that_sleeps_is_woken_by_its_end() {
    let pair = Pair::new();
    let address = pair.a.address(b"x");
    let mut server = pair.a.nic.serve(&address, soon()).unwrap();
    settle(&mut server);
    assert!(server.nap().0.is_some());
    pair.a.nic.close().unwrap();
    assert!(!sleeps(&server));
    let looked = server.look().map(|found| found.err());
    assert_eq!(looked, Some(Some(Error::InvalidParameter)));
}

/// How many threads of this process wait for peers.
fn waiting_for_peers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "vipl-peer").count()
}

fn until(what: &str, check: impl Fn() -> bool) {
    let end = soon();
    while !check() {
        let left = end.remaining().unwrap_or_default();
        assert!(!left.is_zero(), "not in time: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// VI-DISC-9, VI-PEER-10: what waits for a peer ends with the request, whoever ends that.
#[test]
fn nobody_waits_for_a_peer_that_was_given_up() {
    let pair = Pair::new();
    let vi = pair.a.vi(Level::ReliableDelivery);
    let (local, remote) = (pair.a.address(b""), pair.b.address(b"peer"));
    let ends: [&dyn Fn(); 2] = [&|| vi.disconnect().unwrap(), &|| {
        pair.a.nic.close().unwrap()
    }];
    for end in ends {
        vi.peer_request(&local, &remote, Deadline::NEVER).unwrap();
        until("a thread that waits", || waiting_for_peers() == 1);
        assert_eq!(vi.query().unwrap().state, State::ConnectPending);
        end();
        until("its end", || waiting_for_peers() == 0);
    }
}
