// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What pairing costs beside many posted sessions: windows that are cut, and looks at the free
//! space, of which each turn has one.

#[path = "common/hosts.rs"]
mod hosts;

use std::cell::Cell;

use hosts::{logical, pages, PAGE};
use mp_proto::pairing::message::{Message, What, Why};
use mp_proto::pairing::terms::{Connection, Params, Span};
use mp_proto::pairing::{Engine, Event, Far, Host, Mode, Outcome, Own, SESSIONS};
use mp_proto::rows::Row;
use proptest::prelude::*;
use Connection::{Client, Peer, Server};

/// Posted sessions, as many as a process may have.
const POSTED: u32 = 1024;

/// Most turns of one input.
const TURNS: u64 = 32;

/// Most posted sessions that one input looks at.
const LOOKS: usize = 64;

/// Most windows that one turn may cut in vain.
const ATTEMPTS: u64 = 4;

fn exactly(connection: Connection, local: u64, remote: u64) -> Params {
    Params {
        protocol: 1,
        ..logical(connection, pages(local, local), pages(remote, remote))
    }
}

/// A host that counts. Its memory is one run, of which windows are cut.
struct Counting {
    free: u64,
    /// Nothing can be cut, whatever is free.
    is_out_of_memory: bool,
    cuts: u64,
    looks: Cell<u64>,
    events: Vec<Event>,
}

impl Counting {
    fn new(pages: u64) -> Counting {
        Counting {
            free: pages * PAGE,
            is_out_of_memory: false,
            cuts: 0,
            looks: Cell::new(0),
            events: Vec::new(),
        }
    }

    /// Count from now on.
    fn begin(&mut self) {
        self.cuts = 0;
        self.looks.set(0);
        self.events.clear();
    }

    fn outcome(&self) -> Option<Outcome> {
        let mut ends = self.events.iter().filter_map(|event| match event {
            Event::Requested { outcome, .. } => Some(*outcome),
            _ => None,
        });
        ends.next_back()
    }

    fn pairs(&self) -> usize {
        let is_pair = |event: &&Event| matches!(event, Event::Paired { .. });
        self.events.iter().filter(is_pair).count() / 2
    }
}

impl Host for Counting {
    fn runs(&self) -> [u64; 2] {
        self.looks.set(self.looks.get() + 1);
        [self.free, 0]
    }
    fn alloc(&mut self, _session: u32, len: u64) -> Option<u64> {
        self.cuts += 1;
        if self.is_out_of_memory {
            return None;
        }
        // Where it lies tells how long it is.
        self.free = self.free.checked_sub(len)?;
        Some(len)
    }
    fn expose(&mut self, _address: u64, _len: u64) -> Option<u64> {
        None
    }
    fn free(&mut self, off: u64) {
        self.free += off;
    }
    fn retire(&mut self, _off: u64) {}
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

type Pairing = Engine<Vec<Row<Own>>, Vec<Row<Far>>>;

/// An engine with posted sessions of its own, all of that kind.
fn loopback(host: &mut Counting, posted: &Params) -> Pairing {
    loopback_with(host, posted, POSTED)
}

fn loopback_with(host: &mut Counting, posted: &Params, count: u32) -> Pairing {
    let places = vec![Row::FREE; SESSIONS];
    let engine = Engine::new(Mode::Loopback, host.free, true, places, Vec::new());
    let mut engine = engine.expect("large enough");
    for number in 1..=count {
        let taken = engine.request(number, posted, 0, host);
        assert_eq!(taken, Ok(()));
    }
    finish(&mut engine, host);
    host.begin();
    engine
}

/// Resume until no input has left anything.
fn finish(engine: &mut Pairing, host: &mut Counting) {
    while engine.is_unfinished() {
        engine.resume(host);
    }
}

/// An arbiter beside a host that has posted sessions, all of that kind.
fn arbiter(host: &mut Counting, posted: &Params) -> Pairing {
    let (own, far) = (vec![Row::FREE; SESSIONS], vec![Row::FREE; SESSIONS]);
    let engine = Engine::new(Mode::Arbiter, host.free, true, own, far);
    let mut engine = engine.expect("large enough");
    for number in 1..=POSTED {
        let what = What::Post(number, *posted, number);
        let free = host.free;
        assert_eq!(engine.receive(&Message { free, what }, host), Ok(()));
    }
    while engine.poll(host).is_some() {}
    host.begin();
    engine
}

#[test]
fn what_there_is_no_space_for_is_not_cut() {
    let mut host = Counting::new(8);
    let mut engine = loopback(&mut host, &exactly(Server, 5, 5));
    let client = exactly(Client, 5, 5);
    assert_eq!(engine.request(2000, &client, 0, &mut host), Ok(()));
    // No input looks at all of them.
    assert!(engine.is_unfinished());
    finish(&mut engine, &mut host);
    assert_eq!(host.outcome(), Some(Outcome::NoPairing));
    assert_eq!(host.cuts, 0);
}

/// The two minimums find their place in two runs, or in one that is long enough.
#[test]
fn what_there_is_space_for_is_cut_once() {
    let mut host = Counting::new(10);
    let mut engine = loopback(&mut host, &exactly(Server, 5, 5));
    let client = exactly(Client, 5, 5);
    assert_eq!(engine.request(2000, &client, 0, &mut host), Ok(()));
    assert_eq!(host.outcome(), Some(Outcome::Paired));
    assert_eq!(host.cuts, 2);
}

#[test]
fn a_host_without_memory_is_not_asked_for_each_candidate() {
    let mut host = Counting::new(10);
    let mut engine = loopback(&mut host, &exactly(Server, 1, 1));
    host.is_out_of_memory = true;
    let client = exactly(Client, 1, 1);
    assert_eq!(engine.request(2000, &client, 0, &mut host), Ok(()));
    assert_eq!(host.outcome(), Some(Outcome::NoPairing));
    assert!(host.cuts <= ATTEMPTS, "{} windows were cut", host.cuts);
}

/// A request asks a peer that denies windows in spite of what it has free a few times.
#[test]
fn a_peer_that_denies_is_not_asked_for_each_candidate() {
    let mut host = Counting::new(10);
    let mut engine = arbiter(&mut host, &exactly(Server, 1, 1));
    let client = exactly(Client, 1, 1);
    assert_eq!(engine.request(2000, &client, 0, &mut host), Ok(()));
    let mut asked = 0;
    while let Some(message) = engine.poll(&mut host) {
        let What::Reserve(session, _) = message.what else {
            panic!("{message:?}");
        };
        asked += 1;
        let what = What::Reserved(session, None);
        let denied = Message {
            free: host.free,
            what,
        };
        assert_eq!(engine.receive(&denied, &mut host), Ok(()));
    }
    assert_eq!(host.outcome(), Some(Outcome::NoPairing));
    assert!(asked <= ATTEMPTS, "it was asked {asked} times");
}

/// What the peer says is free with a denial is so: what needs more is not asked for.
#[test]
fn a_peer_without_space_is_asked_once() {
    let mut host = Counting::new(10);
    let mut engine = arbiter(&mut host, &exactly(Server, 2, 1));
    let client = exactly(Client, 1, 2);
    assert_eq!(engine.request(2000, &client, 0, &mut host), Ok(()));
    let message = engine.poll(&mut host).expect("it asks");
    let What::Reserve(session, _) = message.what else {
        panic!("{message:?}");
    };
    let what = What::Reserved(session, None);
    let denied = Message { free: PAGE, what };
    assert_eq!(engine.receive(&denied, &mut host), Ok(()));
    finish(&mut engine, &mut host);
    assert_eq!(host.outcome(), Some(Outcome::Space));
    assert_eq!(engine.poll(&mut host), None);
}

/// Space that comes back has the posted peers tried a few at a time, also if more comes back
/// meanwhile; those that fit find each other in the end.
#[test]
fn posted_peers_are_tried_a_few_at_a_time() {
    let mut host = Counting::new(8);
    let mut engine = loopback(&mut host, &exactly(Peer, 5, 5));
    two_that_fit(&mut engine, &mut host, |_, _| {});
    for rounds in 0.. {
        host.looks.set(0);
        engine.memory_freed(&mut host);
        if host.pairs() != 0 {
            break;
        }
        let looks = host.looks.get();
        assert!(looks <= TURNS, "{looks} turns of one input");
        assert!(rounds <= 100, "the last ones are never tried");
    }
    finish(&mut engine, &mut host);
    assert_eq!(host.pairs(), 1);
}

/// Post two peers that would find each other at once if there were memory, with something after each.
fn two_that_fit(
    engine: &mut Pairing,
    host: &mut Counting,
    between: impl Fn(&mut Pairing, &mut Counting),
) {
    host.is_out_of_memory = true;
    for (number, peer) in [(2000, exactly(Peer, 0, 1)), (2001, exactly(Peer, 1, 0))] {
        assert_eq!(engine.request(number, &peer, 0, host), Ok(()));
        between(engine, host);
    }
    host.is_out_of_memory = false;
    host.begin();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However far posted peers have come with their candidates: those that wait in their calls do
    /// not wait for them, and they lose nothing by that.
    #[test]
    fn a_request_goes_ahead_of_posted_peers(
        before in 0..150_usize,
        between in prop::collection::vec(0..3_usize, 1..40),
    ) {
        // So many that one input does not look at all that a late one may have.
        let posted = 2 * LOOKS;
        let mut host = Counting::new(8);
        let mut engine = loopback_with(&mut host, &exactly(Peer, 5, 5), posted as u32);
        two_that_fit(&mut engine, &mut host, finish);
        engine.memory_freed(&mut host);
        for _ in 0..before {
            engine.resume(&mut host);
        }
        let mut resumed = before;
        for (n, times) in between.into_iter().enumerate() {
            let client = Params { protocol: 2, ..exactly(Client, 1, 1) };
            let number = 3000 + n as u32;
            prop_assert_eq!(engine.request(number, &client, 0, &mut host), Ok(()));
            let ended = Event::Requested { session: number, uid: 0, outcome: Outcome::NoPairing };
            prop_assert!(host.events.contains(&ended), "it waits for posted peers");
            for _ in 0..times {
                engine.resume(&mut host);
            }
            resumed += times + 1;
        }
        // As many looks as peers have earlier ones, and one more for each of them.
        let (peers, turns) = (posted + 2, TURNS as usize);
        let looks = peers * (peers + 1) / 2;
        let most = looks / (LOOKS - 2) + peers / (turns - 2) + 2;
        while engine.is_unfinished() {
            engine.resume(&mut host);
            resumed += 1;
            prop_assert!(resumed <= most, "what was tried is tried again");
        }
        prop_assert_eq!(host.pairs(), 1);
    }
}

/// A client that is tried with many servers keeps what it has reserved until it is told what becomes
/// of its request: it takes no RELEASE while it asks.
#[test]
fn a_client_is_not_told_to_release_what_it_has_reserved() {
    let mut host = Counting::new(10);
    let (own, far) = (vec![Row::FREE; SESSIONS], vec![Row::FREE; SESSIONS]);
    let engine = Engine::new(Mode::Arbiter, host.free, true, own, far);
    let mut engine = engine.expect("large enough");
    let told = |what| Message {
        free: 10 * PAGE,
        what,
    };
    // All but the first one are of other sizes.
    for number in 1..=POSTED {
        let pages = if number == 1 { 1 } else { 5 };
        let server = exactly(Server, pages, pages);
        assert_eq!(engine.request(number, &server, 0, &mut host), Ok(()));
        while engine.poll(&mut host).is_some() {}
        let posted = told(What::Posted(number));
        assert_eq!(engine.receive(&posted, &mut host), Ok(()));
    }
    let client = told(What::Request(2000, exactly(Client, 1, 1)));
    assert_eq!(engine.receive(&client, &mut host), Ok(()));
    let asked = engine.poll(&mut host).map(|message| message.what);
    assert!(matches!(asked, Some(What::Reserve(2000, _))), "{asked:?}");
    // The server that fits goes, while the client reserves its window.
    assert_eq!(engine.close(1, &mut host), Ok(()));
    let window = Span { off: 0, len: PAGE };
    let reserved = told(What::Reserved(2000, Some((3000, Some(window)))));
    assert_eq!(engine.receive(&reserved, &mut host), Ok(()));
    assert!(engine.is_unfinished());
    let mut heard = Vec::new();
    loop {
        heard.extend(core::iter::from_fn(|| engine.poll(&mut host)).map(|message| message.what));
        if !engine.is_unfinished() {
            break;
        }
        engine.resume(&mut host);
    }
    let is_close = |what: &What| matches!(what, What::Close(1));
    heard.retain(|what| !is_close(what));
    assert!(
        matches!(heard[..], [What::Refused(2000, Why::NoPairing)]),
        "{heard:?}"
    );
}
