// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Two hosts under a seeded scheduler: processes request and close at any time, messages take
//! their time, memory is taken and given back by others. After every step all that
//! [`hosts::Two::check`] knows; in the end, that nothing is left undone and nothing is lost.
//!
//! The model at the end of the file is another way to say which pairs may be: it tries all sizes.

mod common;
#[path = "common/hosts.rs"]
mod hosts;

use common::Dice;
use hosts::{logical, pages, physical_client, physical_server, Site, Two, ARBITER, ASKER, PAGE};
use mp_proto::pairing::message::Message;
use mp_proto::pairing::terms::{Connection, Limits, Location, Name, Params};
use mp_proto::pairing::{Event, Host, Mode, Outcome};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Sizes that often fit, and often do not.
fn some_limits(dice: &Dice) -> Limits {
    let min = dice.below(3);
    match dice.below(4) {
        0 => Limits::default(),
        1 => Limits {
            min: min * PAGE,
            max: u64::MAX,
        },
        _ => pages(min, min + dice.below(6)),
    }
}

fn some_params(dice: &Dice) -> Params {
    let connection = match dice.below(6) {
        0 => Connection::Server,
        1 => Connection::Client,
        _ => Connection::Peer,
    };
    let mut params = match dice.below(8) {
        0 => physical_server(0x1000, PAGE * (1 + dice.below(3))),
        1 => physical_client(PAGE, PAGE * (1 + dice.below(3))),
        _ => logical(connection, some_limits(dice), some_limits(dice)),
    };
    params.uid = match dice.below(4) {
        0 => 1 + dice.below(4) as u32,
        _ => 0,
    };
    params.protocol = u32::from(dice.once_in(8));
    extend(params, dice)
}

/// The same with a name, or answered by its owner, or without windows.
fn extend(mut params: Params, dice: &Dice) -> Params {
    let logical = params.location == Location::Logical;
    if dice.once_in(8) {
        let names: [&[u8]; 4] = [b"", b"a", b"a\0", b"aa"];
        let name = names[dice.below(4) as usize];
        let own = match params.connection {
            Connection::Peer => dice.below(1 + name.len() as u64) as usize,
            _ => 0,
        };
        params.name = Name::new(name, own).expect("short");
    }
    if params.connection == Connection::Server && dice.once_in(2) {
        params.hold = true;
        params.once = dice.once_in(2);
    }
    if logical && dice.once_in(8) {
        (params.local, params.remote) = Default::default();
        params.bare = true;
    }
    params
}

/// Parameters that nearly always fit.
fn keen_params(dice: &Dice) -> Params {
    let connection = match dice.below(4) {
        0 => Connection::Server,
        1 => Connection::Client,
        _ => Connection::Peer,
    };
    let limits = || pages(dice.below(2), 2 + dice.below(4));
    let mut params = logical(connection, limits(), limits());
    if connection == Connection::Server {
        params.hold = dice.once_in(2);
        params.once = params.hold && dice.once_in(3);
    }
    params
}

/// Two hosts and the memory of others on each.
struct Storm {
    two: Two,
    dice: Dice,
    /// Every other storm is of requests that fit.
    keen: bool,
    foreign: [Vec<u64>; 2],
    /// Sessions that were closed and have no memory.
    bare: [BTreeSet<u32>; 2],
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let dice = Dice::new(seed);
        Storm {
            two: Two::new([4 + dice.below(24), 4 + dice.below(24)]),
            dice,
            keen: seed % 2 == 0,
            foreign: Default::default(),
            bare: Default::default(),
        }
    }

    fn step(&mut self) {
        let at = self.dice.below(2) as usize;
        let site = &mut self.two.sites[at];
        match self.dice.below(20) {
            0 | 1 => {
                let params = match self.keen {
                    true => keen_params(&self.dice),
                    false => some_params(&self.dice),
                };
                // Refusals are checked against the model, not here.
                let _ = site.request(&params);
            }
            2 => {
                let open = site.open();
                if !open.is_empty() && self.dice.below(4) < open.len() as u64 {
                    let session = open[self.dice.below(open.len() as u64) as usize];
                    site.close(session);
                    if site.engine.has(session) && !site.engine.has_memory(session) {
                        self.bare[at].insert(session);
                    }
                }
            }
            3 if self.dice.once_in(2) => {
                let got = site.desk.take(1 + self.dice.below(4));
                self.foreign[at].extend(got);
            }
            4 | 5 => {
                if let Some(off) = self.foreign[at].pop() {
                    site.desk.free(off);
                    site.memory_freed();
                }
            }
            6 | 7 => {
                if let Some(server) = site.asked().first().copied() {
                    match self.dice.once_in(3) {
                        true => site.reject(server, 7),
                        false => site.accept(server),
                    };
                }
            }
            8..=13 => {
                self.two.push(at);
            }
            _ => {
                self.two.deliver(at);
            }
        }
        self.two.check();
        self.check_memory();
    }

    /// PXI-CW-8: each piece of memory that was given is that of one session, which is known as long
    /// as it is there; who is closed gets none.
    fn check_memory(&mut self) {
        for (at, site) in self.two.sites.iter().enumerate() {
            let exposed = site.desk.exposed.iter().flatten().count();
            let cut = site.desk.arena.extents().count() - self.foreign[at].len();
            let sessions = site.desk.sessions.keys();
            let with = sessions.filter(|session| site.engine.has_memory(**session));
            assert_eq!(with.count(), cut + exposed);
            let bare = &mut self.bare[at];
            bare.retain(|session| site.engine.has(*session));
            assert!(!bare.iter().any(|session| site.engine.has_memory(*session)));
        }
    }

    fn lose_link(&mut self) {
        let mut foreign = self.foreign.clone();
        foreign.iter_mut().for_each(|all| all.sort_unstable());
        self.two.lose_link([&foreign[0], &foreign[1]]);
    }

    /// No message is on its way: nobody waits, and nobody is apart who could be together.
    fn check_calm(&mut self) {
        self.two.settle();
        for site in &self.two.sites {
            for (n, s) in &site.desk.sessions {
                assert!(s.has_ended() || s.closed, "request {n} has not ended");
                assert!(
                    !s.accepted || s.closed || s.at_hand.is_none(),
                    "{n} has been accepted"
                );
            }
            // Or of a client that asks.
            let asking = site.desk.sessions.values();
            let asking = asking.filter(|s| s.at_hand.is_some() && !s.closed).count();
            let all = site.windows().len() + asking;
            assert_eq!(all, site.desk.known.len(), "data is kept of what is listed");
        }
        check_nobody_waits_alone(&self.two.sites);
        check_nobody_is_apart(&self.two.sites);
    }

    /// All close; then all is as it was in the beginning.
    fn check_end(&mut self) {
        for at in [0, 1] {
            for off in std::mem::take(&mut self.foreign[at]) {
                self.two.sites[at].desk.free(off);
                self.two.sites[at].memory_freed();
            }
        }
        self.check_calm();
        for at in [0, 1] {
            for session in self.two.sites[at].open() {
                self.two.sites[at].close(session);
            }
        }
        self.two.settle();
        for site in &self.two.sites {
            assert!(site.desk.sessions.is_empty(), "{:?}", site.desk.sessions);
            assert!(site.desk.known.is_empty());
            assert_eq!(site.windows(), []);
            assert_eq!(site.desk.arena.free_bytes(), site.desk.arena.size());
        }
    }
}

/// A request is at hand on one host if and only if its client waits on the other one.
fn check_nobody_waits_alone(sites: &[Site; 2]) {
    for at in [0, 1] {
        let asked = sites[at].desk.sessions.values();
        let mut asked: Vec<_> = asked
            .filter_map(|s| s.at_hand.filter(|_| !s.closed))
            .collect();
        let waits = |s: &hosts::Session| s.held && !s.closed && s.pair.is_none();
        let waiting = sites[1 - at].desk.sessions.iter();
        let waiting: Vec<_> = waiting.filter(|(_, s)| waits(s)).map(|(n, _)| *n).collect();
        asked.sort_unstable();
        assert_eq!(asked, waiting);
    }
}

/// PXI-PAIR-1: of all posted sessions of both hosts no two may be together.
fn check_nobody_is_apart(sites: &[Site; 2]) {
    let posted = |site: &Site| -> Vec<_> {
        let all = site.desk.sessions.values();
        // Who waits for an answer, or has to answer, is with somebody.
        let all = all.filter(|s| !s.closed && s.pair.is_none() && !s.held && s.at_hand.is_none());
        all.map(|s| (s.params, s.uid)).collect()
    };
    let free = [0, 1].map(|n: usize| sites[n].desk.largest());
    for (x, x_uid) in posted(&sites[0]) {
        for (y, y_uid) in posted(&sites[1]) {
            // Whichever came later asked; both orders are kept apart only if no rule joins them.
            let together = best(&x, &y, y_uid, free).is_some()
                && best(&y, &x, x_uid, [free[1], free[0]]).is_some();
            assert!(!together, "{x:?} and {y:?} with {free:?} free");
        }
    }
}

/// PXI-PAIR-1, PXI-PAIR-11, PXI-PAIR-13, PXI-PAIR-17, PXI-PAIR-18, PXI-CW-8, PXI-SES-6
#[test]
fn whatever_happens_both_hosts_agree_and_nothing_is_lost() {
    let (mut pairs, mut answers) = (0, 0);
    for seed in 0..3000 {
        let mut storm = Storm::new(seed);
        for _ in 0..30 + storm.dice.below(600) {
            storm.step();
        }
        let events = storm.two.sites[0].desk.log.iter();
        pairs += events.filter(|e| matches!(e, Event::Paired { .. })).count();
        let events = storm.two.sites.iter().flat_map(|site| &site.desk.log);
        answers += events
            .filter(|e| matches!(e, Event::Answered { .. }))
            .count();
        storm.check_calm();
        storm.check_end();
    }
    assert!(pairs > 3500, "{pairs} pairs only: the storm tests little");
    assert!(
        answers > 500,
        "{answers} answers only: the storm tests little"
    );
}

/// PXI-PAIR-18: a link that is lost at any step leaves no memory behind, and the next epoch works.
#[test]
fn the_link_may_be_lost_at_every_step() {
    for seed in 0..30 {
        for cut in 0..150 {
            let mut storm = Storm::new(seed);
            for _ in 0..cut {
                storm.step();
            }
            storm.lose_link();
            for _ in 0..20 {
                storm.step();
            }
            storm.check_end();
        }
    }
}

/// PXI-REQLP-20, PXI-PAIR-18: every interleaving of two equal peer requests and their messages.
#[test]
fn two_peers_meet_whoever_is_first_and_however_messages_cross() {
    // Each digit of a path says what goes on next; what cannot go on is skipped.
    for path in 0..6u32.pow(7) {
        let mut two = Two::of_first_release([4, 4]);
        let params = logical(Connection::Peer, pages(1, 2), pages(1, 2));
        let mut rest = path;
        let mut asked = [false; 2];
        for _ in 0..7 {
            let what = rest % 6;
            rest /= 6;
            let at = (what % 2) as usize;
            match what / 2 {
                0 if !asked[at] => {
                    two.sites[at].request(&params).expect("taken");
                    asked[at] = true;
                }
                0 => {}
                1 => {
                    two.push(at);
                }
                _ => {
                    two.deliver(at);
                }
            }
        }
        for at in [ARBITER, ASKER] {
            if !asked[at] {
                two.sites[at].request(&params).expect("taken");
            }
        }
        two.settle();
        for site in &two.sites {
            assert!(site.pair(1).is_some(), "path {path}");
        }
    }
}

/// PXI-CW-5, PXI-CW-7, PXI-PAIR-18: a close at every step of a request, on either host.
#[test]
fn a_close_may_cross_anything() {
    let kinds = [
        (Connection::Server, Connection::Client),
        (Connection::Client, Connection::Server),
        (Connection::Peer, Connection::Peer),
    ];
    for (of_arbiter, of_asker) in kinds {
        for first in [ARBITER, ASKER] {
            for closer in [ARBITER, ASKER] {
                for delay in 0..24 {
                    let mut two = Two::new([4, 4]);
                    let params = [of_arbiter, of_asker]
                        .map(|connection| logical(connection, pages(1, 2), pages(1, 2)));
                    two.sites[first].request(&params[first]).expect("taken");
                    two.settle();
                    let second = two.sites[1 - first].request(&params[1 - first]);
                    let _ = second.expect("taken");
                    for step in 0..delay {
                        match step % 4 {
                            0 => two.push(ASKER),
                            1 => two.deliver(ASKER),
                            2 => two.push(ARBITER),
                            _ => two.deliver(ARBITER),
                        };
                    }
                    if two.sites[closer].open().is_empty() {
                        continue;
                    }
                    two.sites[closer].close(1);
                    two.settle();
                    let other = &two.sites[1 - closer];
                    let left = other.desk.sessions.get(&1);
                    let left = left.filter(|s| s.pair.is_some());
                    assert!(left.is_none_or(|s| s.partner_closed));
                    let paired = left.is_some();
                    let kept: Vec<_> = two.sites[closer].desk.arena.extents().collect();
                    assert!(kept.iter().all(|e| e.retired), "its owner has closed");
                    assert_eq!(kept.len(), usize::from(paired));
                    for at in [ARBITER, ASKER] {
                        for session in two.sites[at].open() {
                            two.close(at, session);
                        }
                    }
                    for site in &two.sites {
                        assert_eq!(site.desk.arena.free_bytes(), 4 * PAGE);
                        assert!(site.desk.sessions.is_empty());
                    }
                }
            }
        }
    }
}

/// A peer that says anything is found out, or does no harm; the memory is whole afterwards.
#[test]
fn a_hostile_peer_harms_nobody() {
    for seed in 0..2000 {
        let mut storm = Storm::new(seed);
        let (mut lies, mut truths) = (0, 0);
        for _ in 0..200 {
            storm.step();
            if storm.dice.once_in(5) {
                let at = storm.dice.below(2) as usize;
                let bytes = forged(&storm.two, &storm.dice, at);
                if let Some(message) = Message::decode(&bytes) {
                    match storm.two.sites[at].receive(&message) {
                        Ok(()) => truths += 1,
                        Err(_) => lies += 1,
                    }
                    // After a lie the two tables differ for good: the epoch ends here.
                    break;
                }
            }
        }
        assert!(lies + truths <= 1);
        storm.lose_link();
        storm.check_end();
    }
}

/// Bytes that look like a message: one that is on its way with something changed, or made up.
fn forged(two: &Two, dice: &Dice, to: usize) -> Vec<u8> {
    let genuine = two.wire[1 - to].front().filter(|_| dice.once_in(2));
    let mut bytes = genuine.cloned().unwrap_or_else(|| {
        let mut bytes = vec![0; 64];
        bytes[0] = 1 + dice.below(16) as u8;
        bytes[1] = 0x10 + 1 + dice.below(3) as u8;
        bytes[2] = 64;
        bytes[3] = match dice.below(4) {
            0 => dice.below(16) as u8,
            _ => dice.below(2) as u8,
        };
        if bytes[3] & 2 != 0 {
            bytes.resize(mp_proto::pairing::message::SIZE_NAMED, 0);
            bytes[64 + 2] = dice.below(8) as u8;
        }
        for at in [4, 8, 12] {
            bytes[at] = dice.below(4) as u8;
        }
        for at in [17, 25, 33, 41] {
            bytes[at] = dice.below(4) as u8 * 0x10;
        }
        bytes
    });
    let at = dice.below(bytes.len() as u64) as usize;
    bytes[at] ^= 1 << dice.below(8);
    bytes
}

/// The sizes of a pair of `asks` and `posted`, whose identifier is `uid`, or `None` if there is no
/// such pair: the largest of all sizes that break no rule. `free` is what each host has in one
/// piece, first that of `asks`. Sizes are whole pages.
fn best(asks: &Params, posted: &Params, uid: u32, free: [u64; 2]) -> Option<(u64, u64)> {
    use Connection::{Client, Peer, Server};
    let may_ask = [(Client, Server), (Peer, Peer)].contains(&(asks.connection, posted.connection));
    let name = |p: &Params| {
        let (own, wanted) = p.name.whole().split_at(p.name.own());
        (own.to_vec(), wanted.to_vec(), p.name.own() == 0)
    };
    let ((own, wanted, whole), (theirs, of_them, all)) = (name(asks), name(posted));
    let named = match whole && all {
        true => wanted == of_them,
        false => !whole && !all && own == of_them && wanted == theirs,
    };
    if !may_ask
        || !named
        || asks.bare != posted.bare
        || asks.location != posted.location
        || asks.protocol != posted.protocol
        || asks.uid != 0 && asks.uid != uid
    {
        return None;
    }
    let memory = asks.location == Location::Logical;
    let within = |size: u64, x: Limits, y: Limits, free: u64| {
        let have = !memory || size <= free;
        have && size >= x.min && size >= y.min && size <= x.max && size <= y.max
    };
    let mut found = None;
    for local in (0..32).map(|n| n * PAGE) {
        for remote in (0..32).map(|n| n * PAGE) {
            if (asks.bare || local + remote > 0)
                && within(local, asks.local, posted.remote, free[0])
                && within(remote, asks.remote, posted.local, free[1])
            {
                found = found.max(Some((local, remote)));
            }
        }
    }
    found
}

#[derive(Debug, Clone)]
enum Deed {
    Request(usize, u64),
    Close(usize, prop::sample::Index),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        3 => (0usize..2, any::<u64>()).prop_map(|(at, seed)| Deed::Request(at, seed)),
        1 => (0usize..2, any::<prop::sample::Index>()).prop_map(|(at, n)| Deed::Close(at, n)),
    ];
    prop::collection::vec(deed, 1..40)
}

/// The posted sessions of a host.
fn posted(site: &Site) -> Vec<(Params, u32)> {
    let all = site.desk.sessions.values();
    let all = all.filter(|s| !s.closed && s.pair.is_none());
    all.map(|s| (s.params, s.uid)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// PXI-PAIR-1 to PXI-PAIR-12, PXI-REQLC-6, PXI-REQPC-5, PXI-REQLP-7, PXI-REQLP-8: a request
    /// succeeds if and only if the model finds a partner, with the sizes that the model finds.
    #[test]
    fn requests_end_as_the_criteria_say(
        sizes in (2u64..16, 2u64..16),
        deeds in deeds(),
    ) {
        let mut two = Two::new([sizes.0, sizes.1]);
        for deed in deeds {
            match deed {
                Deed::Close(at, n) => {
                    let open = two.sites[at].open();
                    if !open.is_empty() {
                        two.close(at, open[n.index(open.len())]);
                    }
                }
                Deed::Request(at, seed) => {
                    // Whom an owner accepts, no criterion says.
                    let params = Params {
                        hold: false,
                        once: false,
                        ..some_params(&Dice::new(seed))
                    };
                    let free = [at, 1 - at].map(|n| two.sites[n].desk.largest());
                    let candidates = posted(&two.sites[1 - at]);
                    let all = candidates.iter().map(|(p, uid)| best(&params, p, *uid, free));
                    let all: Vec<_> = all.flatten().collect();
                    let Ok(session) = two.request(at, &params) else {
                        continue;
                    };
                    let site = &two.sites[at];
                    let outcome = site.outcome(session).expect("ended");
                    prop_assert_eq!(outcome == Outcome::Paired, !all.is_empty());
                    if let Some(pair) = site.pair(session) {
                        let bytes = |span: Option<mp_proto::pairing::terms::Span>| {
                            span.map_or(0, |span| span.len)
                        };
                        let got = (bytes(pair.local), bytes(pair.remote));
                        prop_assert!(all.contains(&got), "{:?} of {:?}", got, all);
                    }
                    let fails = params.connection == Connection::Client && all.is_empty();
                    let failed = matches!(outcome, Outcome::NoPairing | Outcome::Space);
                    prop_assert!(!fails || failed);
                }
            }
            check_nobody_is_apart(&two.sites);
        }
    }

    /// The same for one host that is its own peer, whose two windows share an arena.
    #[test]
    fn in_loopback_too(size in 2u64..16, deeds in deeds()) {
        let mut site = Site::new(Mode::Loopback, size, size);
        for deed in deeds {
            match deed {
                Deed::Close(_, n) => {
                    let open = site.open();
                    if !open.is_empty() {
                        site.close(open[n.index(open.len())]);
                    }
                }
                Deed::Request(_, seed) => {
                    // Whom an owner accepts, no criterion says.
                    let params = Params {
                        hold: false,
                        once: false,
                        ..some_params(&Dice::new(seed))
                    };
                    let free = site.desk.largest();
                    let candidates = posted(&site);
                    let Ok(session) = site.request(&params) else {
                        continue;
                    };
                    let outcome = site.outcome(session).expect("ended");
                    let all = candidates.iter().map(|(p, uid)| best(&params, p, *uid, [free, free]));
                    let paired = outcome == Outcome::Paired;
                    prop_assert!(!paired || all.flatten().next().is_some());
                    // With room for both windows one behind the other the pair has to be.
                    let mut sure = candidates.iter().filter(|(p, uid)| {
                        let needed = params.local.min.max(p.remote.min)
                            + params.remote.min.max(p.local.min) + PAGE;
                        best(&params, p, *uid, [free, free]).is_some()
                            && (params.location == Location::Physical || needed <= free)
                    });
                    prop_assert!(paired || sure.next().is_none());
                    if let Some(pair) = site.pair(session) {
                        let back = site.pair(pair.partner).expect("both");
                        prop_assert_eq!((back.local, back.remote), (pair.remote, pair.local));
                        prop_assert_eq!(back.partner, session);
                    }
                }
            }
        }
        for session in site.open() {
            site.close(session);
        }
        prop_assert_eq!(site.desk.arena.free_bytes(), site.desk.arena.size());
        prop_assert!(site.desk.sessions.is_empty());
        prop_assert_eq!(site.windows(), []);
    }
}
