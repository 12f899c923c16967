// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The rules of sessions and pairs one by one, between two hosts and within one.

#[path = "common/hosts.rs"]
mod hosts;

use hosts::{
    exposed_at, logical, pages, physical_client, physical_server, Site, Two, ARBITER, ASKER, PAGE,
};
use mp_proto::arena::Arena;
use mp_proto::pairing::message::{Message, Pairing, What, Why};
use mp_proto::pairing::terms::{Connection, Limits, Params, Span};
use mp_proto::pairing::{
    Corrupt, Engine, Event, Far, Host, Mode, Outcome, Own, Refusal, Unknown, SESSIONS,
};
use mp_proto::rows::Row;
use Connection::{Client, Peer, Server};

const ANY: Limits = Limits {
    min: 0,
    max: u64::MAX,
};
const NONE: Limits = Limits { min: 0, max: 0 };

fn len(span: Option<Span>) -> u64 {
    span.map_or(0, |span| span.len)
}

fn one_page(connection: Connection) -> Params {
    logical(connection, pages(1, 1), pages(1, 1))
}

/// Both directions: the host that asks, and the one that has posted.
const BOTH_WAYS: [(usize, usize); 2] = [(ARBITER, ASKER), (ASKER, ARBITER)];

/// PXI-REQLS-6, PXI-REQLC-5, PXI-REQLP-6, PXI-REQPC-4, PXI-GEN-10: what this host lacks, and what
/// no process can map, is known at once.
#[test]
fn a_minimum_that_cannot_be_had_is_refused_at_once() {
    for at in [ARBITER, ASKER] {
        let mut two = Two::new([4, 4]);
        for connection in [Server, Client, Peer] {
            for (local, remote) in [(5, 1), (1, 5), (5, 5)] {
                let p = logical(connection, pages(local, 9), pages(remote, 9));
                assert_eq!(two.request(at, &p), Err(Refusal::Space));
            }
            let mut p = logical(connection, pages(1, 1), pages(1, 1));
            p.address_bits = 12;
            assert_eq!(two.request(at, &p), Err(Refusal::Space));
        }
        let mut p = physical_client(PAGE, PAGE);
        p.address_bits = 12;
        assert_eq!(two.request(at, &p), Err(Refusal::Space));
        two.sites[at].desk.take(2).expect("space");
        let p = logical(Server, pages(3, 4), NONE);
        assert_eq!(two.request(at, &p), Err(Refusal::Space));
    }
}

/// PXI-REQLS-6, PXI-REQLC-5, PXI-REQLP-6: what the other host lacks, it says itself; nothing is
/// listed there.
#[test]
fn a_minimum_that_the_other_host_has_in_use_is_refused_by_it() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        // So that the arbiter knows what the asker has.
        two.sites[there].desk.take(2).expect("space");
        assert_eq!(two.outcome(there, &one_page(Server)), Outcome::Posted);
        for connection in [Server, Client, Peer] {
            let p = logical(connection, NONE, pages(3, 4));
            assert_eq!(
                two.outcome(at, &p),
                Outcome::Space,
                "{connection:?} at {at}"
            );
        }
        assert_eq!(two.sites[there].windows(), []);
        assert_eq!(two.sites[at].open(), []);
    }
}

/// PXI-REQLS-7, PXI-REQPS-6: an identifier is unique on one host; the other has its own.
#[test]
fn an_identifier_in_use_is_refused() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        let mut p = one_page(Server);
        p.uid = 5;
        assert_eq!(two.outcome(at, &p), Outcome::Posted);
        assert_eq!(two.request(at, &p), Err(Refusal::UidConflict));
        let mut q = physical_server(0x1000, PAGE);
        q.uid = 5;
        assert_eq!(two.request(at, &q), Err(Refusal::UidConflict));
        assert_eq!(two.outcome(there, &p), Outcome::Posted);
        // The space comes first.
        p.local = pages(9, 9);
        assert_eq!(two.request(at, &p), Err(Refusal::Space));
    }
}

/// PXI-REQLS-8, PXI-REQPS-7, PXI-FW-2, PXI-FW-3, PXI-FW-8, PXI-REQLS-15
#[test]
fn identifiers_are_given_where_none_is_asked_for() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        let mut named = one_page(Server);
        named.uid = 2;
        let all = [
            named,
            one_page(Server),
            one_page(Server),
            physical_server(0x1000, PAGE),
            one_page(Peer),
        ];
        let mut uids = Vec::new();
        for p in all {
            let session = two.request(at, &p).expect("taken");
            uids.push(two.sites[at].uid(session));
        }
        assert_eq!(uids[0], 2);
        let listed: Vec<_> = two.sites[there].windows().iter().map(|w| w.uid).collect();
        assert_eq!(listed, uids);
        uids.sort_unstable();
        uids.dedup();
        assert_eq!(uids.len(), 5);
        assert!(!uids.contains(&0));
    }
}

/// PXI-REQLS-9 to PXI-REQLS-11, PXI-REQLS-16, PXI-REQPS-8 to PXI-REQPS-10, PXI-REQLP-14 to
/// PXI-REQLP-17, PXI-QW-1, PXI-FW-1: a post is on the other host, with all attributes, before
/// the request has ended.
#[test]
fn a_request_ends_after_its_post_is_listed() {
    for (at, there) in BOTH_WAYS {
        for p in [
            logical(Server, ANY, pages(1, 2)),
            logical(Peer, pages(0, 3), ANY),
            physical_server(0x10_0000, 3 * PAGE),
        ] {
            let mut two = Two::new([4, 4]);
            let session = two.sites[at].request(&p).expect("taken");
            let mut steps = 0;
            while two.sites[at].outcome(session).is_none() {
                for from in [at, there] {
                    two.push(from);
                    two.deliver(from);
                }
                steps += 1;
                assert!(steps < 10);
            }
            assert_eq!(two.sites[at].outcome(session), Some(Outcome::Posted));
            let windows = two.sites[there].windows();
            assert_eq!(windows.len(), 1);
            let w = windows[0];
            assert_eq!((w.session, w.uid), (session, two.sites[at].uid(session)));
            assert_eq!((w.connection, w.location), (p.connection, p.location));
            assert_eq!((w.protocol, w.paired), (p.protocol, false));
            assert_eq!((w.local, w.remote), (p.local, p.remote));
            assert_eq!(two.sites[there].desk.known.len(), 1);
            assert_eq!(two.sites[at].windows(), []);
        }
    }
}

/// PXI-REQLS-16, PXI-PAIR-3: servers do not look for anybody.
#[test]
fn a_server_waits_and_finds_nobody_by_itself() {
    let mut two = Two::new([4, 4]);
    assert_eq!(two.outcome(ARBITER, &one_page(Server)), Outcome::Posted);
    assert_eq!(two.outcome(ASKER, &one_page(Server)), Outcome::Posted);
    assert_eq!(two.outcome(ASKER, &one_page(Peer)), Outcome::Posted);
    assert_eq!(two.sites[ARBITER].pair(1), None);
}

/// PXI-REQLC-6 to PXI-REQLC-10, PXI-REQPC-5 to PXI-REQPC-9, PXI-PAIR-14, PXI-QW-12, PXI-QW-13,
/// PXI-QW-15: the client is paired when its request ends, and both hosts list that.
#[test]
fn a_client_is_paired_within_its_request() {
    for (at, there) in BOTH_WAYS {
        for (server, client, sizes) in [
            (
                logical(Server, pages(1, 3), pages(0, 2)),
                logical(Client, pages(1, 4), pages(2, 4)),
                (2 * PAGE, 3 * PAGE),
            ),
            (
                physical_server(0x10_0000, 100),
                physical_client(50, 200),
                (0, 100),
            ),
        ] {
            let mut two = Two::new([8, 8]);
            let posted = two.request(there, &server).expect("taken");
            let uid = two.sites[there].uid(posted);
            assert!(!two.sites[at].window(uid).expect("listed").paired);
            let session = two.request(at, &client).expect("taken");
            assert_eq!(two.sites[at].outcome(session), Some(Outcome::Paired));
            let pair = two.sites[at].pair(session).expect("paired");
            assert_eq!((len(pair.local), len(pair.remote)), sizes);
            assert_eq!(pair.partner, posted);
            let back = two.sites[there].pair(posted).expect("paired");
            assert_eq!((back.local, back.remote), (pair.remote, pair.local));

            let w = two.sites[at].window(uid).expect("listed");
            assert!(w.paired);
            assert_eq!(w.remote, Limits::exactly(sizes.0));
            assert_eq!(w.local, Limits::exactly(sizes.1));
            // The client has an identifier of its own now, and is listed with it.
            let of_client = two.sites[at].uid(session);
            let w = two.sites[there].window(of_client).expect("listed");
            assert!(w.paired);
            assert_eq!((w.connection, w.session), (Client, session));
            assert_eq!(w.local, Limits::exactly(sizes.0));
            assert_eq!(w.remote, Limits::exactly(sizes.1));

            assert_eq!(two.outcome(at, &client), Outcome::NoPairing);
        }
    }
}

/// PXI-REQPS-11, PXI-REQPC-7, PXI-REQPC-10, PXI-CW-12: the window of a physical pair leads to the
/// server's addresses, also when the server has closed, until the client has; no memory is taken.
#[test]
fn a_physical_window_is_where_the_server_says() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        let server = physical_server(0xf000_0000, 0x10000);
        assert_eq!(two.outcome(there, &server), Outcome::Posted);
        for (min, max) in [(0x10001, 0x20000), (1, 0xffff)] {
            let client = physical_client(min, max);
            assert_eq!(two.outcome(at, &client), Outcome::NoPairing);
        }
        let client = physical_client(0x10000, 0x10000);
        let session = two.request(at, &client).expect("taken");
        let pair = two.sites[at].pair(session).expect("paired");
        let window = pair.remote.expect("exposed");
        assert_eq!((pair.local, window.len), (None, 0x10000));
        let number = exposed_at(window.off).expect("a window of its own");
        let led = |two: &Two| two.sites[there].desk.exposed[number];
        assert_eq!(led(&two), Some((0xf000_0000, 0x10000)));
        for site in &two.sites {
            assert_eq!(site.desk.arena.free_bytes(), 4 * PAGE);
        }
        two.close(there, 1);
        assert!(led(&two).is_some(), "the client reaches it");
        two.close(at, session);
        assert_eq!(led(&two), None);
        assert_eq!(two.sites[there].desk.sessions.len(), 0);
    }
}

/// PXI-REQPC-4, PXI-REQPC-7: who finds all windows of the server's host taken fails, and gets one
/// when it is free.
#[test]
fn physical_pairs_are_as_many_as_windows() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        let client = physical_client(PAGE, PAGE);
        let windows = 3;
        two.sites[there].desk.exposed.truncate(windows);
        let mut taken = Vec::new();
        for _ in 0..windows {
            let server = physical_server(0x1000, PAGE);
            assert_eq!(two.outcome(there, &server), Outcome::Posted);
            taken.push(two.request(at, &client).expect("taken"));
        }
        let server = two.request(there, &physical_server(0x5000, PAGE));
        let server = server.expect("taken");
        assert_eq!(two.outcome(at, &client), Outcome::NoPairing);
        two.close(at, taken[0]);
        let partner = two.sites[there].desk.sessions.iter();
        let mut partner = partner.filter(|(_, s)| s.partner_closed).map(|(n, _)| *n);
        let partner = partner.next().expect("told of the close");
        assert_eq!(two.outcome(at, &client), Outcome::NoPairing);
        two.close(there, partner);
        assert_eq!(two.outcome(at, &client), Outcome::Paired);
        assert!(two.sites[there].pair(server).is_some());
    }
}

/// PXI-REQLC-6, PXI-FW-9: nobody, the wrong kind, protocol, identifier or size, and a server that
/// has a partner.
#[test]
fn a_client_without_a_server_fails_at_once() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        let client = one_page(Client);
        assert_eq!(two.outcome(at, &client), Outcome::NoPairing);
        assert_eq!(two.outcome(there, &one_page(Peer)), Outcome::Posted);
        assert_eq!(two.outcome(at, &client), Outcome::NoPairing);
        let posted = two.request(there, &one_page(Server)).expect("taken");
        let uid = two.sites[there].uid(posted);
        let mut other = client;
        other.protocol += 1;
        assert_eq!(two.outcome(at, &other), Outcome::NoPairing);
        let other = Params {
            uid: uid + 1,
            ..client
        };
        assert_eq!(two.outcome(at, &other), Outcome::NoPairing);
        let other = logical(Client, pages(2, 3), pages(0, 3));
        assert_eq!(two.outcome(at, &other), Outcome::NoPairing);
        let other = physical_client(PAGE, PAGE);
        assert_eq!(two.outcome(at, &other), Outcome::NoPairing);
        assert_eq!(two.outcome(at, &client), Outcome::Paired);
        assert_eq!(two.outcome(at, &client), Outcome::NoPairing);
        let other = Params { uid, ..client };
        assert_eq!(two.outcome(at, &other), Outcome::NoPairing);
    }
}

/// PXI-FW-7, PXI-REQLC-13, PXI-REQPC-11, PXI-PAIR-15
#[test]
fn an_identifier_selects_one_of_several_servers() {
    for (at, there) in BOTH_WAYS {
        for (server, client) in [
            (one_page(Server), one_page(Client)),
            (physical_server(0x1000, PAGE), physical_client(PAGE, PAGE)),
        ] {
            let mut two = Two::new([4, 4]);
            let all: Vec<_> = (0..3)
                .map(|_| two.request(there, &server).expect("taken"))
                .collect();
            let uid = two.sites[there].uid(all[1]);
            let chosen = Params { uid, ..client };
            assert_eq!(two.outcome(at, &chosen), Outcome::Paired);
            let paired = |two: &Two| -> Vec<_> {
                let pairs = all.iter().filter(|s| two.sites[there].pair(**s).is_some());
                pairs.copied().collect()
            };
            assert_eq!(paired(&two), [all[1]]);
            assert_eq!(two.outcome(at, &client), Outcome::Paired);
            assert_eq!(paired(&two).len(), 2);
        }
    }
}

/// PXI-REQLC-13: an identifier asked for is compared with the one assigned, also where the server
/// named none; a client whose identifier is in use on its own host gets another one, and never a
/// conflict.
#[test]
fn a_client_may_name_an_identifier_that_its_own_host_uses() {
    for (at, there) in BOTH_WAYS {
        for (server, client) in [
            (one_page(Server), one_page(Client)),
            (physical_server(0x1000, PAGE), physical_client(PAGE, PAGE)),
        ] {
            let mut two = Two::new([4, 4]);
            let posted = two.request(there, &server).expect("taken");
            let uid = two.sites[there].uid(posted);
            let own = Params {
                uid,
                ..one_page(Server)
            };
            assert_eq!(two.outcome(at, &own), Outcome::Posted);
            let client = Params { uid, ..client };
            let session = two.request(at, &client).expect("taken");
            assert_eq!(two.sites[at].outcome(session), Some(Outcome::Paired));
            assert_ne!(two.sites[at].uid(session), uid);
        }
    }
}

/// PXI-REQLP-7 to PXI-REQLP-12: a peer that finds another is paired at once, even under an
/// identifier that is in use; it is listed, and is not posted.
#[test]
fn a_peer_takes_a_posted_peer() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([8, 8]);
        let p = Params {
            uid: 9,
            ..one_page(Peer)
        };
        assert_eq!(
            two.outcome(
                at,
                &Params {
                    uid: 9,
                    ..one_page(Server)
                }
            ),
            Outcome::Posted
        );
        assert_eq!(two.outcome(there, &p), Outcome::Posted);
        let session = two.request(at, &p).expect("taken");
        assert_eq!(two.sites[at].outcome(session), Some(Outcome::Paired));
        assert_ne!(two.sites[at].uid(session), 9);
        assert!(two.sites[at].window(9).expect("listed").paired);
        let w = two.sites[there].window(two.sites[at].uid(session));
        assert_eq!(w.map(|w| (w.connection, w.paired)), Some((Peer, true)));
        assert_eq!(two.sites[at].desk.arena.extents().count(), 1);
    }
}

/// PXI-REQLP-13: only a peer that would be posted can have a conflict, and then nothing is.
#[test]
fn a_peer_without_a_partner_needs_a_free_identifier() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        assert_eq!(
            two.outcome(
                at,
                &Params {
                    uid: 9,
                    ..one_page(Server)
                }
            ),
            Outcome::Posted
        );
        let p = Params {
            uid: 9,
            ..one_page(Peer)
        };
        assert_eq!(two.outcome(at, &p), Outcome::UidConflict);
        assert_eq!(two.sites[there].windows().len(), 1);
        assert_eq!(two.sites[at].open().len(), 1);
        assert_eq!(two.outcome(at, &Params { uid: 8, ..p }), Outcome::Posted);
    }
}

/// PXI-PAIR-12, PXI-REQLS-17: as large as both want, and as there is.
#[test]
fn windows_are_as_large_as_can_be() {
    for (at, there) in BOTH_WAYS {
        for (max, size) in [(2, 2), (4, 4), (5, 4), (u64::MAX, 4)] {
            let mut two = Two::new([4, 4]);
            let server = logical(Server, ANY, ANY);
            assert_eq!(two.outcome(there, &server), Outcome::Posted);
            let client = logical(Client, pages(1, max), pages(0, max));
            let session = two.request(at, &client).expect("taken");
            let pair = two.sites[at].pair(session).expect("paired");
            assert_eq!(len(pair.local), size * PAGE);
            assert_eq!(len(pair.remote), size * PAGE);
        }
    }
}

/// PXI-PAIR-6: less than the minimum does not pair; PXI-PAIR-13, PXI-REQLC-8: what a pair has is
/// nobody else's.
#[test]
fn a_pair_needs_its_minimum_from_what_is_left() {
    for (at, there) in BOTH_WAYS {
        for scarce in [at, there] {
            let mut two = Two::new([4, 4]);
            let server = logical(Server, pages(1, 4), pages(1, 4));
            for _ in 0..3 {
                assert_eq!(two.outcome(there, &server), Outcome::Posted);
            }
            let three = pages(3, 3);
            let client = match scarce == at {
                true => logical(Client, three, pages(1, 1)),
                false => logical(Client, pages(1, 1), three),
            };
            assert_eq!(two.outcome(at, &client), Outcome::Paired);
            let ended = two.request(at, &client);
            let refused = ended == Err(Refusal::Space);
            assert!(
                refused || two.sites[at].outcome(ended.expect("taken")) == Some(Outcome::Space)
            );
            assert_eq!(two.outcome(at, &one_page(Client)), Outcome::Paired);
            assert_eq!(two.sites[scarce].desk.largest(), 0);
        }
    }
}

/// PXI-PAIR-7: with nothing left on both hosts there is no pair; with some on one, there is.
#[test]
fn one_of_two_windows_must_be_there() {
    for (at, there) in BOTH_WAYS {
        for (here_left, there_left) in [(0, 0), (1, 0), (0, 1)] {
            let mut two = Two::new([4, 4]);
            assert_eq!(
                two.outcome(there, &logical(Server, ANY, ANY)),
                Outcome::Posted
            );
            two.sites[at].desk.take(4 - here_left).expect("space");
            two.sites[there].desk.take(4 - there_left).expect("space");
            let session = two.request(at, &logical(Client, ANY, ANY)).expect("taken");
            let pair = two.sites[at].pair(session);
            let sizes = pair.map(|p| (len(p.local), len(p.remote)));
            let expected = (here_left * PAGE, there_left * PAGE);
            assert_eq!(sizes, (expected != (0, 0)).then_some(expected));
        }
    }
}

/// PXI-PAIR-1, PXI-PAIR-6: posted peers that space keeps apart become a pair when it comes back,
/// on whichever host and whoever gives it back.
#[test]
fn posted_peers_pair_when_space_comes_back() {
    for (at, there) in BOTH_WAYS {
        for scarce in [at, there] {
            let mut two = Two::new([4, 4]);
            assert_eq!(two.outcome(there, &one_page(Peer)), Outcome::Posted);
            let off = two.sites[scarce].desk.take(4).expect("space");
            // Needs nothing of the host that is full, and yet a byte of it.
            let mut p = one_page(Peer);
            p.local.min = 0;
            p.remote.min = 0;
            assert_eq!(two.outcome(at, &p), Outcome::Posted);
            assert_eq!(two.sites[at].pair(1), None);
            two.sites[scarce].desk.free(off);
            two.sites[scarce].memory_freed();
            two.settle();
            assert!(two.sites[at].pair(1).is_some());
            assert!(two.sites[there].pair(1).is_some());
        }
    }
}

/// PXI-PAIR-1, PXI-CW-8: the same when the space was another pair's.
#[test]
fn posted_peers_pair_when_another_pair_is_closed() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([1, 1]);
        assert_eq!(two.outcome(there, &one_page(Server)), Outcome::Posted);
        let mut p = one_page(Peer);
        assert_eq!(two.outcome(there, &p), Outcome::Posted);
        assert_eq!(two.outcome(at, &one_page(Client)), Outcome::Paired);
        p.local.min = 0;
        p.remote.min = 0;
        let session = two.request(at, &p).expect("taken");
        two.close(at, 1);
        assert_eq!(two.sites[at].pair(session), None);
        two.close(there, 1);
        assert!(two.sites[at].pair(session).is_some());
    }
}

/// PXI-PAIR-1: the same where not the bytes are scarce, but the places in the table of extents.
#[test]
fn posted_peers_pair_when_an_extent_comes_back() {
    for scarce in [ARBITER, ASKER] {
        let mut two = Two::new([8, 8]);
        let desk = &mut two.sites[scarce].desk;
        desk.arena = Arena::new(8 * PAGE, vec![None; 2]);
        let off = desk.take(1).expect("space");
        desk.take(1).expect("space");
        assert_eq!(two.outcome(ASKER, &one_page(Peer)), Outcome::Posted);
        assert_eq!(two.outcome(ARBITER, &one_page(Peer)), Outcome::Posted);
        let desk = &mut two.sites[scarce].desk;
        let before = desk.largest();
        desk.free(off);
        assert_eq!(desk.largest(), before);
        two.sites[scarce].memory_freed();
        two.settle();
        assert!(two.sites[ARBITER].pair(1).is_some());
    }
}

/// PXI-PAIR-1, PXI-CW-7: the asker's memory, reserved for a client that is closed before it knows,
/// comes back, and serves those who were turned away meanwhile.
#[test]
fn what_was_reserved_in_vain_comes_back() {
    let mut two = Two::new([4, 4]);
    let server = logical(Server, pages(4, 4), NONE);
    assert_eq!(two.outcome(ASKER, &server), Outcome::Posted);
    let peer = logical(Peer, pages(3, 3), pages(1, 1));
    assert_eq!(two.outcome(ASKER, &peer), Outcome::Posted);
    let off = two.sites[ARBITER].desk.take(4).expect("space");
    let peer = logical(Peer, pages(0, 1), pages(3, 3));
    let posted = two.request(ARBITER, &peer).expect("taken");
    assert_eq!(two.sites[ARBITER].pair(posted), None);

    let client = logical(Client, NONE, pages(4, 4));
    let client = two.sites[ARBITER].request(&client).expect("taken");
    assert!(two.push(ARBITER) && two.deliver(ARBITER));
    assert_eq!(two.sites[ASKER].desk.largest(), 0);
    two.sites[ARBITER].desk.free(off);
    two.sites[ARBITER].memory_freed();
    two.sites[ARBITER].close(client);
    two.settle();
    assert!(two.sites[ARBITER].pair(posted).is_some());
}

/// PXI-PAIR-11: two clients, one of each turn, and one server.
#[test]
fn one_server_has_one_client() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        assert_eq!(two.outcome(there, &one_page(Server)), Outcome::Posted);
        let first = two.sites[at].request(&one_page(Client)).expect("taken");
        let second = two.sites[at].request(&one_page(Client)).expect("taken");
        two.settle();
        assert_eq!(two.sites[at].outcome(first), Some(Outcome::Paired));
        assert_eq!(two.sites[at].outcome(second), Some(Outcome::NoPairing));
        // Nor another one after the first has gone.
        two.close(at, first);
        assert_eq!(two.outcome(at, &one_page(Client)), Outcome::NoPairing);
        assert_eq!(two.outcome(at, &one_page(Peer)), Outcome::Posted);
    }
}

/// PXI-PAIR-11, PXI-PAIR-15: requests are served in their order.
#[test]
fn who_asks_first_is_served_first() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        for _ in 0..3 {
            assert_eq!(two.outcome(there, &one_page(Server)), Outcome::Posted);
        }
        let mut request = || two.sites[at].request(&one_page(Client)).expect("taken");
        let clients = [request(), request(), request(), request(), request()];
        two.settle();
        let paired = clients.map(|c| two.sites[at].outcome(c) == Some(Outcome::Paired));
        assert_eq!(paired, [true, true, true, false, false]);
    }
}

/// PXI-FW-4, PXI-CW-7: a post that is closed is gone for the other host, and nobody's partner.
#[test]
fn a_closed_post_is_revoked() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        let session = two.request(there, &one_page(Server)).expect("taken");
        let uid = two.sites[there].uid(session);
        two.close(there, session);
        assert_eq!(two.sites[at].windows(), []);
        assert_eq!(two.sites[at].desk.known.len(), 0);
        let client = Params {
            uid,
            ..one_page(Client)
        };
        assert_eq!(two.outcome(at, &client), Outcome::NoPairing);
        let log = &two.sites[there].desk.log;
        assert!(log.contains(&Event::Released { session }));
    }
}

/// PXI-CW-4, PXI-CW-6, PXI-CW-8, PXI-CW-9, PXI-CW-11: whoever closes first does not wait; the
/// memory of both is free, and identifier and number with it, once both have closed.
#[test]
fn memory_is_free_after_both_have_closed() {
    for (at, there) in BOTH_WAYS {
        for first in [at, there] {
            let mut two = Two::new([4, 4]);
            let all = logical(Server, pages(1, 4), pages(1, 4));
            let server = Params { uid: 7, ..all };
            assert_eq!(two.outcome(there, &server), Outcome::Posted);
            let client = logical(Client, pages(1, 4), pages(1, 4));
            assert_eq!(two.outcome(at, &client), Outcome::Paired);

            two.close(first, 1);
            let second = 1 - first;
            let closed = Event::PartnerClosed { session: 1 };
            assert!(two.sites[second].desk.log.contains(&closed));
            assert_eq!(two.sites[second].windows(), []);
            assert_eq!(two.sites[first].windows().len(), 1);
            for site in &mut two.sites {
                assert_eq!(site.desk.largest(), 0);
                assert!(!site.desk.log.contains(&Event::Released { session: 1 }));
            }
            assert_eq!(two.request(there, &server), Err(Refusal::Space));

            two.close(second, 1);
            for site in &two.sites {
                assert_eq!(site.desk.largest(), 4 * PAGE);
                assert!(site.desk.log.contains(&Event::Released { session: 1 }));
                assert_eq!(site.windows(), []);
            }
            assert_eq!(two.outcome(there, &server), Outcome::Posted);
            assert_eq!(two.outcome(at, &client), Outcome::Paired);
        }
    }
}

/// PXI-CW-11, PXI-REQLS-7: an identifier is in use until both have closed.
#[test]
fn an_identifier_is_free_after_both_have_closed() {
    for (at, there) in BOTH_WAYS {
        let mut two = Two::new([4, 4]);
        let server = Params {
            uid: 7,
            ..one_page(Server)
        };
        assert_eq!(two.outcome(there, &server), Outcome::Posted);
        assert_eq!(two.outcome(at, &one_page(Client)), Outcome::Paired);
        two.close(there, 1);
        assert_eq!(two.request(there, &server), Err(Refusal::UidConflict));
        two.close(at, 1);
        assert_eq!(two.outcome(there, &server), Outcome::Posted);
    }
}

/// PXI-CW-5, PXI-SES-5, PXI-SES-6: what is not open cannot be closed.
#[test]
fn a_session_is_closed_once() {
    let mut two = Two::new([4, 4]);
    for at in [ARBITER, ASKER] {
        let site = &mut two.sites[at];
        assert_eq!(site.engine.close(0, &mut site.desk), Err(Unknown));
        assert_eq!(site.engine.close(1, &mut site.desk), Err(Unknown));
        assert_eq!(site.request_as(0, &one_page(Server)), Err(Refusal::Number));
        let session = two.request(at, &one_page(Server)).expect("taken");
        let site = &mut two.sites[at];
        let again = site.request_as(session, &one_page(Server));
        assert_eq!(again, Err(Refusal::Number));
        site.close(session);
        assert_eq!(site.engine.close(session, &mut site.desk), Err(Unknown));
        // The other host has not answered: the number is still in use.
        let again = site.request_as(session, &one_page(Server));
        assert_eq!(again, Err(Refusal::Number));
        two.settle();
        assert_eq!(
            two.sites[at].request_as(session, &one_page(Server)),
            Ok(session)
        );
        two.settle();
        two.close(at, session);
    }
}

/// PXI-SES-6, PXI-REQLC-6: a number that is used anew while the asker still answers for its former
/// session.
#[test]
fn a_new_session_is_not_taken_for_a_former_one_of_its_number() {
    let mut two = Two::new([4, 4]);
    assert_eq!(two.outcome(ASKER, &one_page(Server)), Outcome::Posted);
    let first = two.sites[ARBITER].request(&one_page(Client));
    two.sites[ARBITER].close(first.expect("taken"));
    let second = two.sites[ARBITER].request(&one_page(Client));
    assert_eq!(first, second);
    two.settle();
    let outcome = two.sites[ARBITER].outcome(1);
    assert_eq!(outcome, Some(Outcome::Paired));
}

/// Nobody hears of a request that is closed before it was told.
#[test]
fn a_request_closed_at_once_is_never_told() {
    for connection in [Server, Client, Peer] {
        let mut two = Two::new([4, 4]);
        let session = two.sites[ASKER]
            .request(&one_page(connection))
            .expect("taken");
        two.sites[ASKER].close(session);
        assert!(!two.push(ASKER));
        assert!(two.sites[ASKER].desk.sessions.is_empty());
    }
}

/// PXI-REQLS-6: as many sessions as there are places, and then no more until one is free.
#[test]
fn a_full_table_refuses() {
    for at in [ARBITER, ASKER] {
        let mut two = Two::new([4, 4]);
        for _ in 0..24 {
            assert_eq!(two.outcome(at, &one_page(Server)), Outcome::Posted);
        }
        assert_eq!(two.request(at, &one_page(Server)), Err(Refusal::Space));
        two.close(at, 5);
        assert_eq!(two.outcome(at, &one_page(Server)), Outcome::Posted);
    }
}

#[test]
fn the_other_hosts_sessions_need_all_their_places() {
    let with = |mode, far| {
        let (own, far): (Vec<Row<Own>>, Vec<Row<Far>>) = (vec![Row::FREE; 1], vec![Row::FREE; far]);
        Engine::new(mode, PAGE, true, own, far).is_some()
    };
    assert!(with(Mode::Arbiter, SESSIONS) && with(Mode::Asker, SESSIONS));
    assert!(!with(Mode::Arbiter, SESSIONS - 1) && !with(Mode::Asker, SESSIONS - 1));
    assert!(with(Mode::Loopback, 0));
}

/// PXI-WIE-10: messages wait as long as nobody polls, and none is lost.
#[test]
fn no_message_is_lost_while_the_link_is_full() {
    let mut two = Two::new([64, 64]);
    for at in [ARBITER, ASKER] {
        for n in 0..10 {
            let connection = if n % 2 == 0 { Server } else { Peer };
            two.sites[at].request(&one_page(connection)).expect("taken");
        }
    }
    for session in [1, 2, 3] {
        two.sites[ASKER].close(session);
    }
    two.settle();
    for site in &two.sites {
        let pairs = site
            .desk
            .sessions
            .values()
            .filter(|s| s.pair.is_some())
            .count();
        // Of the asker's five peers, one was closed.
        assert_eq!(pairs, 4);
        assert!(site.desk.sessions.values().all(|s| s.outcome.is_some()));
    }
}

/// PXI-VM-1, PXI-REQLC-6, PXI-REQLP-7, PXI-REQLP-13, PXI-CW-8: a host that is its own peer.
#[test]
fn a_host_pairs_with_itself() {
    let mut site = Site::new(Mode::Loopback, 8, 8);
    let outcome = |site: &mut Site, p: &Params| {
        let session = site.request(p).expect("taken");
        (session, site.outcome(session).expect("ended at once"))
    };
    assert_eq!(outcome(&mut site, &one_page(Client)).1, Outcome::NoPairing);
    let server = logical(Server, pages(1, 2), pages(1, 2));
    let (server, posted) = outcome(&mut site, &server);
    assert_eq!(posted, Outcome::Posted);
    let client = logical(Client, pages(1, 9), pages(1, 9));
    let (client, paired) = outcome(&mut site, &client);
    assert_eq!(paired, Outcome::Paired);
    let (x, y) = (
        site.pair(server).expect("paired"),
        site.pair(client).expect("paired"),
    );
    assert_eq!((x.partner, y.partner), (client, server));
    assert_eq!((x.local, x.remote), (y.remote, y.local));
    assert_eq!((len(x.local), len(x.remote)), (2 * PAGE, 2 * PAGE));
    assert!(site.windows().iter().all(|w| w.paired));
    assert_eq!(site.windows().len(), 2);

    site.close(client);
    assert!(site
        .desk
        .log
        .contains(&Event::PartnerClosed { session: server }));
    assert_eq!(site.desk.arena.free_bytes(), 4 * PAGE);
    site.close(server);
    assert_eq!(site.desk.arena.free_bytes(), 8 * PAGE);
    assert_eq!(site.windows(), []);

    let peer = Params {
        uid: 3,
        ..one_page(Peer)
    };
    assert_eq!(outcome(&mut site, &peer).1, Outcome::Posted);
    assert_eq!(outcome(&mut site, &peer).1, Outcome::Paired);
    assert_eq!(outcome(&mut site, &peer).1, Outcome::UidConflict);
    let site = &mut site;
    let message = Message {
        free: 0,
        what: What::Freed,
    };
    assert_eq!(site.receive(&message), Err(Corrupt));
    assert_eq!(site.engine.poll(&mut site.desk), None);
}

/// PXI-PAIR-6, PXI-PAIR-7: one arena has to have room for both minimums, wherever there is room.
#[test]
fn in_loopback_both_minimums_find_their_place() {
    for swap in [false, true] {
        // Two free runs, of five and of four pages.
        let mut site = Site::new(Mode::Loopback, 10, 10);
        let first = site.desk.take(5).expect("space");
        site.desk.take(1).expect("space");
        site.desk.free(first);
        let (a, b) = match swap {
            false => (pages(5, 5), pages(4, 9)),
            true => (pages(4, 9), pages(5, 5)),
        };
        site.request(&logical(Server, a, b)).expect("taken");
        let client = site.request(&logical(Client, b, a)).expect("taken");
        let pair = site.pair(client).expect("paired");
        assert_eq!(len(pair.local) + len(pair.remote), 9 * PAGE);
        assert_eq!(site.desk.largest(), 0);
    }
}

/// Memory is zeroed each time that it is cut: windows of one size are cut once.
#[test]
fn in_loopback_windows_of_one_size_are_cut_once() {
    let mut site = Site::new(Mode::Loopback, 8, 8);
    let of_one_size = |c| logical(c, pages(2, 2), pages(2, 2));
    site.request(&of_one_size(Server)).expect("taken");
    let client = site.request(&of_one_size(Client)).expect("taken");
    site.pair(client).expect("paired");
    assert_eq!(site.desk.life.values().max(), Some(&2));
}

/// PXI-PAIR-1: in loopback, too, space that comes back joins posted peers.
#[test]
fn in_loopback_posted_peers_pair_when_space_comes_back() {
    let mut site = Site::new(Mode::Loopback, 2, 2);
    let p = logical(Peer, pages(0, 1), pages(0, 1));
    let x = site
        .request(&logical(Peer, pages(1, 1), pages(1, 1)))
        .expect("taken");
    let off = site.desk.take(2).expect("space");
    let y = site.request(&p).expect("taken");
    assert_eq!(site.pair(y), None);
    site.desk.free(off);
    site.memory_freed();
    assert_eq!(site.pair(y).map(|pair| pair.partner), Some(x));
}

/// PXI-CW-5: the other host closes a session once.
#[test]
fn a_second_close_is_corrupt() {
    let mut two = Two::new([4, 4]);
    two.request(ASKER, &one_page(Server)).expect("taken");
    let close = Message {
        free: 0,
        what: What::Close(1),
    };
    assert_eq!(two.sites[ARBITER].receive(&close), Ok(()));
    assert_eq!(two.sites[ARBITER].receive(&close), Err(Corrupt));
}

/// Messages that cannot be, at a moment when a genuine one could; the engine is as it was.
#[test]
fn what_cannot_be_is_corrupt() {
    let span = |off, pages| {
        Some(Span {
            off,
            len: pages * PAGE,
        })
    };
    let post = |session, params, uid| What::Post(session, params, uid);
    let server = one_page(Server);
    let pairing = Pairing {
        session: 1,
        partner: 7,
        uid: 1,
        answered: false,
        unposted: true,
        theirs: span(0, 1),
        yours: span(0, 1),
    };
    // To the asker, whose session 1, a server, is reserved.
    let to_asker = [
        post(0, server, 1),
        post(7, server, 0),
        post(7, Params { uid: 2, ..server }, 1),
        post(7, one_page(Client), 1),
        post(7, logical(Server, NONE, NONE), 1),
        What::Request(7, one_page(Client)),
        What::Reserved(1, None),
        What::Freed,
        What::Posted(1),
        What::Posted(2),
        What::Refused(1, Why::NoPairing),
        What::Refused(1, Why::Space),
        What::Reserve(2, pages(1, 1)),
        What::Reserve(1, pages(0, 1)),
        What::Reserve(1, pages(1, 2)),
        What::Release(2),
        What::Closed(1),
        What::Paired(Pairing {
            session: 2,
            ..pairing
        }),
        What::Paired(Pairing {
            partner: 0,
            ..pairing
        }),
        What::Paired(Pairing { uid: 0, ..pairing }),
        What::Paired(Pairing {
            unposted: false,
            ..pairing
        }),
        What::Paired(Pairing {
            theirs: None,
            ..pairing
        }),
        What::Paired(Pairing {
            theirs: span(4 * PAGE, 1),
            ..pairing
        }),
        What::Paired(Pairing {
            theirs: span(1, 1),
            ..pairing
        }),
        What::Paired(Pairing {
            theirs: span(0, 2),
            ..pairing
        }),
        What::Paired(Pairing {
            yours: span(PAGE, 1),
            ..pairing
        }),
        What::Paired(Pairing {
            yours: None,
            ..pairing
        }),
    ];
    for what in to_asker {
        let mut two = Two::new([4, 4]);
        two.request(ASKER, &server).expect("taken");
        two.sites[ARBITER]
            .request(&one_page(Client))
            .expect("taken");
        while two.sites[ASKER].desk.arena.extents().count() == 0 {
            assert!(two.push(ARBITER) && two.deliver(ARBITER));
        }
        assert!(two.push(ASKER));
        let message = Message { free: 0, what };
        assert_eq!(two.sites[ASKER].receive(&message), Err(Corrupt), "{what:?}");
        two.settle();
        assert!(two.sites[ARBITER].pair(1).is_some());
    }
    // To the arbiter, which waits for the window of session 1.
    let to_arbiter = [
        What::Reserve(1, pages(1, 1)),
        What::Paired(pairing),
        What::Release(1),
        What::Request(1, one_page(Client)),
        What::Request(7, server),
        post(1, server, 3),
        post(7, server, 1),
        What::Posted(1),
        What::Refused(1, Why::NoPairing),
        What::Closed(1),
        What::Reserved(2, None),
        What::Reserved(1, Some((2, span(0, 1)))),
        What::Reserved(1, Some((1, None))),
        What::Reserved(1, Some((1, span(4 * PAGE, 1)))),
        What::Reserved(1, Some((1, span(8, 1)))),
        What::Reserved(1, Some((1, span(0, 2)))),
    ];
    for what in to_arbiter {
        let mut two = Two::new([4, 4]);
        two.request(ASKER, &server).expect("taken");
        two.sites[ARBITER]
            .request(&one_page(Client))
            .expect("taken");
        assert!(two.push(ARBITER));
        let message = Message { free: 0, what };
        assert_eq!(
            two.sites[ARBITER].receive(&message),
            Err(Corrupt),
            "{what:?}"
        );
        two.settle();
        assert!(two.sites[ARBITER].pair(1).is_some());
    }
}
