// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Servers whose owner answers each request, and names: with the server on either host, within one
//! host, and with everything that may cross an answer.

mod common;
#[path = "common/hosts.rs"]
mod hosts;

use hosts::{logical, pages, Site, Two, ARBITER, ASKER};
use mp_proto::pairing::terms::{Connection, Name, Params};
use mp_proto::pairing::{Event, Host, Mode, Outcome, Refusal};

fn server() -> Params {
    Params {
        hold: true,
        ..logical(Connection::Server, pages(1, 2), pages(1, 2))
    }
}

fn client() -> Params {
    logical(Connection::Client, pages(1, 2), pages(1, 2))
}

/// A server and a client on the two hosts, the request at hand.
fn held(server_at: usize, server: &Params) -> (Two, u32, u32) {
    let mut two = Two::new([4, 4]);
    let server = two.request(server_at, server).expect("taken");
    let client = two.request(1 - server_at, &client()).expect("taken");
    assert_eq!(
        two.sites[server_at].desk.sessions[&server].at_hand,
        Some(client)
    );
    assert!(two.sites[1 - server_at].desk.sessions[&client].held);
    (two, server, client)
}

fn refusal(site: &Site) -> Option<Option<u32>> {
    let mut log = site.desk.log.iter().rev();
    log.find_map(|event| match event {
        Event::Refused { reason, .. } => Some(*reason),
        _ => None,
    })
}

fn is_open(site: &Site, session: u32) -> bool {
    site.desk.sessions.get(&session).is_some_and(|s| !s.closed)
}

#[test]
fn nobody_is_paired_before_the_owner_accepts() {
    for at in [ARBITER, ASKER] {
        let (mut two, server, client) = held(at, &server());
        assert!(two.sites[at].pair(server).is_none());
        assert!(two.sites[1 - at].pair(client).is_none());
        assert!(two.sites[at].accept(server));
        assert!(
            !two.sites[at].accept(server),
            "it is under way, or there is none"
        );
        two.settle();
        let pair = two.sites[at].pair(server).expect("paired");
        assert_eq!(pair.partner, client);
        assert_eq!(two.sites[1 - at].outcome(client), Some(Outcome::Paired));
        assert!(!two.sites[at].reject(server, 1));
    }
}

#[test]
fn a_rejection_has_its_reason_and_the_server_waits_on() {
    for at in [ARBITER, ASKER] {
        let (mut two, server, _) = held(at, &server());
        assert!(two.sites[at].reject(server, 77));
        two.settle();
        assert_eq!(refusal(&two.sites[1 - at]), Some(Some(77)));
        let next = two.request(1 - at, &client()).expect("taken");
        assert!(two.sites[at].accept(server));
        two.settle();
        assert!(two.sites[1 - at].pair(next).is_some());
    }
}

#[test]
fn the_next_server_takes_the_next_request_and_then_nobody() {
    for at in [ARBITER, ASKER] {
        let (mut two, _, _) = held(at, &server());
        let second = two.request(at, &server()).expect("taken");
        let client_of_second = two.request(1 - at, &client()).expect("taken");
        let asked = &two.sites[at].desk.sessions[&second];
        assert_eq!(asked.at_hand, Some(client_of_second));
        assert_eq!(two.outcome(1 - at, &client()), Outcome::NoPairing);
    }
}

#[test]
fn a_server_that_takes_one_request_is_closed_with_it() {
    for at in [ARBITER, ASKER] {
        for withdraws in [false, true] {
            let once = Params {
                once: true,
                ..server()
            };
            let (mut two, server, client) = held(at, &once);
            match withdraws {
                true => two.close(1 - at, client),
                false => assert!(two.sites[at].reject(server, 1)),
            }
            two.settle();
            let spent = Event::Spent { session: server };
            assert!(two.sites[at].desk.log.contains(&spent));
            assert_eq!(two.sites[1 - at].windows(), []);
            assert!(two.sites.iter().all(|site| site.desk.sessions.is_empty()));
        }
    }
}

#[test]
fn without_the_space_the_request_stays() {
    for at in [ARBITER, ASKER] {
        for full in [ARBITER, ASKER] {
            let (mut two, server, client) = held(at, &server());
            let taken = two.sites[full].desk.take(4).expect("free");
            assert!(two.sites[at].accept(server));
            two.settle();
            let unable = Event::Unable { session: server };
            assert!(two.sites[at].desk.log.contains(&unable));
            two.sites[full].desk.free(taken);
            two.sites[full].memory_freed();
            assert!(two.sites[at].accept(server));
            two.settle();
            assert!(two.sites[1 - at].pair(client).is_some());
        }
    }
}

/// What happens on either side while the other one does something.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Accept,
    Reject,
    CloseServer,
    CloseClient,
}

fn act(two: &mut Two, at: usize, (server, client): (u32, u32), deed: Deed) {
    let (here, there) = (
        is_open(&two.sites[at], server),
        is_open(&two.sites[1 - at], client),
    );
    match deed {
        Deed::Accept if here => {
            two.sites[at].accept(server);
        }
        Deed::Reject if here => {
            two.sites[at].reject(server, 5);
        }
        Deed::CloseServer if here => two.sites[at].close(server),
        Deed::CloseClient if there => two.sites[1 - at].close(client),
        _ => {}
    }
}

/// Two deeds with any number of steps of messages between them: both hosts agree in the end, and
/// when all is closed, nothing is left.
#[test]
fn an_answer_may_cross_anything() {
    use Deed::{Accept, CloseClient, CloseServer, Reject};
    let deeds = [Accept, Reject, CloseServer, CloseClient];
    for at in [ARBITER, ASKER] {
        for once in [false, true] {
            for first in deeds {
                for second in deeds {
                    for start in 0..4 {
                        for delay in 0..20 {
                            let params = Params { once, ..server() };
                            let (mut two, server, client) = held(at, &params);
                            act(&mut two, at, (server, client), first);
                            for step in start..start + delay {
                                match step % 4 {
                                    0 => two.push(ASKER),
                                    1 => two.deliver(ASKER),
                                    2 => two.push(ARBITER),
                                    _ => two.deliver(ARBITER),
                                };
                                two.check();
                            }
                            act(&mut two, at, (server, client), second);
                            two.settle();
                            let there = two.sites[1 - at].desk.sessions.get(&client);
                            let waits =
                                there.is_some_and(|s| s.held && s.pair.is_none() && !s.closed);
                            let asked = !two.sites[at].asked().is_empty();
                            assert_eq!(waits, asked, "both know, or none");
                            for at in [ARBITER, ASKER] {
                                for session in two.sites[at].open() {
                                    two.close(at, session);
                                }
                            }
                            for site in &two.sites {
                                assert!(site.desk.sessions.is_empty());
                                assert!(site.desk.known.is_empty());
                                assert_eq!(site.desk.arena.free_bytes(), site.desk.arena.size());
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn within_one_host_it_is_the_same() {
    let mut site = Site::new(Mode::Loopback, 8, 8);
    let server_session = site.request(&server()).expect("taken");
    let first = site.request(&client()).expect("taken");
    assert!(site.reject(server_session, 9));
    assert_eq!(refusal(&site), Some(Some(9)));
    let second = site.request(&client()).expect("taken");
    assert_eq!(first, second, "its number is free again");
    site.close(second);
    assert_eq!(site.asked(), []);
    let third = site.request(&client()).expect("taken");
    assert!(site.accept(server_session));
    assert_eq!(site.pair(third).expect("paired").partner, server_session);
    let other = site.request(&server()).expect("taken");
    let fourth = site.request(&client()).expect("taken");
    site.close(other);
    assert_eq!(refusal(&site), Some(None));
    assert!(!is_open(&site, fourth));
}

#[test]
fn names_join_only_those_that_they_mean() {
    let named = |params: Params, name: &[u8], own| Params {
        name: Name::new(name, own).expect("short"),
        hold: false,
        ..params
    };
    for at in [ARBITER, ASKER] {
        let mut two = Two::new([16, 16]);
        let posted = two.request(at, &named(server(), b"a\0", 0)).expect("taken");
        for other in [&b""[..], b"a", b"a\0\0", b"\0a"] {
            let params = named(client(), other, 0);
            assert_eq!(two.outcome(1 - at, &params), Outcome::NoPairing);
        }
        let params = named(client(), b"a\0", 0);
        assert_eq!(two.outcome(1 - at, &params), Outcome::Paired);
        assert!(two.sites[at].pair(posted).is_some());
        let peer = logical(Connection::Peer, pages(1, 1), pages(1, 1));
        let left = two
            .request(at, &named(peer, b"leftright", 4))
            .expect("taken");
        for (name, own) in [(&b"leftright"[..], 0), (b"leftright", 4), (b"rightleft", 4)] {
            assert_eq!(
                two.outcome(1 - at, &named(peer, name, own)),
                Outcome::Posted
            );
        }
        assert!(two.sites[at].pair(left).is_none());
        let right = named(peer, b"rightleft", 5);
        assert_eq!(two.outcome(1 - at, &right), Outcome::Paired);
        assert!(two.sites[at].pair(left).is_some());
    }
}

#[test]
fn beside_the_first_release_there_is_nothing_new() {
    for at in [ARBITER, ASKER] {
        let mut two = Two::of_first_release([4, 4]);
        let named = Params {
            name: Name::new(b"name", 0).expect("short"),
            ..client()
        };
        assert_eq!(two.request(at, &server()), Err(Refusal::Unsupported));
        assert_eq!(two.request(at, &named), Err(Refusal::Unsupported));
        let plain = Params {
            hold: false,
            ..server()
        };
        assert_eq!(two.outcome(at, &plain), Outcome::Posted);
        assert_eq!(two.outcome(1 - at, &client()), Outcome::Paired);
    }
}
