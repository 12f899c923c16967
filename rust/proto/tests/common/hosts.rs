// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Two hosts with pairing engines, and the wires between them. What an engine asks of its host, and
//! what it tells it, is checked as it happens; [`Two::check`] looks at both hosts together.

#![allow(dead_code)] // each test program uses its part

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mp_proto::arena::{Arena, Extent};
use mp_proto::pairing::message::{DataOf, Message};
use mp_proto::pairing::terms::{Connection, Limits, Location, Name, Params, Span};
use mp_proto::pairing::{
    sessions, Corrupt, Engine, Event, Far, Host, Mode, Outcome, Own, Refusal, RemoteWindow,
};
use mp_proto::reach::{start_of, Place, FIRST_EXPOSED};
use mp_proto::rows::Row;

pub const PAGE: u64 = 4096;

pub fn pages(min: u64, max: u64) -> Limits {
    Limits {
        min: min * PAGE,
        max: max.saturating_mul(PAGE),
    }
}

pub fn logical(connection: Connection, local: Limits, remote: Limits) -> Params {
    Params {
        connection,
        location: Location::Logical,
        protocol: 0xabcd_1000,
        uid: 0,
        local,
        remote,
        address: 0,
        address_bits: 64,
        name: Name::NONE,
        hold: false,
        once: false,
        bare: false,
    }
}

pub fn physical_server(address: u64, size: u64) -> Params {
    Params {
        location: Location::Physical,
        address,
        ..logical(Connection::Server, Limits::exactly(size), Limits::default())
    }
}

pub fn physical_client(min: u64, max: u64) -> Params {
    Params {
        location: Location::Physical,
        ..logical(Connection::Client, Limits::default(), Limits { min, max })
    }
}

/// The pair as a process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub partner: u32,
    pub local: Option<Span>,
    pub remote: Option<Span>,
}

#[derive(Debug, Clone)]
pub struct Session {
    pub params: Params,
    pub uid: u32,
    pub outcome: Option<Outcome>,
    pub pair: Option<Seen>,
    pub partner_closed: bool,
    pub closed: bool,
    /// Of a client: its request is with a server.
    pub held: bool,
    /// Of a server: the client whose request is at hand, and whether that was accepted.
    pub at_hand: Option<u32>,
    pub accepted: bool,
    /// Of a client: the data of an answer has come.
    pub answered: bool,
}

impl Session {
    fn new(params: &Params) -> Session {
        Session {
            params: *params,
            uid: 0,
            outcome: None,
            pair: None,
            partner_closed: false,
            closed: false,
            held: false,
            at_hand: None,
            accepted: false,
            answered: false,
        }
    }

    /// Whether it waits for nothing but a process.
    pub fn has_ended(&self) -> bool {
        self.outcome.is_some() || self.held
    }
}

/// Windows that a host can lead to memory of its choice: for all sessions that tests open.
const WINDOWS: usize = 64;

/// What a host keeps besides its engine.
pub struct Desk {
    pub arena: Arena<Vec<Option<Extent>>>,
    /// Which allocation or exposure lies at an offset: numbers that never come again.
    pub life: BTreeMap<u64, u64>,
    lives: u64,
    /// What windows lead to: address and length.
    pub exposed: Vec<Option<(u64, u64)>>,
    pub sessions: BTreeMap<u32, Session>,
    /// Sessions of the other host whose data is kept.
    pub known: BTreeSet<u32>,
    pub changed: bool,
    pub log: Vec<Event>,
}

impl Desk {
    fn new(pages: u64, extents: usize) -> Desk {
        Desk {
            arena: Arena::new(pages * PAGE, vec![None; extents]),
            life: BTreeMap::new(),
            lives: 0,
            exposed: vec![None; WINDOWS],
            sessions: BTreeMap::new(),
            known: BTreeSet::new(),
            changed: false,
            log: Vec::new(),
        }
    }

    /// Memory for another user of the arena.
    pub fn take(&mut self, pages: u64) -> Option<u64> {
        self.alloc(0, pages * PAGE)
    }
}

/// The window of a place that is exposed, counted from the first.
pub fn exposed_at(off: u64) -> Option<usize> {
    let window = Place::decode(off).window.checked_sub(FIRST_EXPOSED);
    window.map(usize::from)
}

impl Host for Desk {
    fn runs(&self) -> [u64; 2] {
        self.arena.runs()
    }
    fn alloc(&mut self, _session: u32, len: u64) -> Option<u64> {
        let extent = self.arena.alloc(len).ok()?;
        self.lives += 1;
        self.life.insert(extent.off, self.lives);
        Some(extent.off)
    }
    fn expose(&mut self, address: u64, len: u64) -> Option<u64> {
        let window = self.exposed.iter().position(Option::is_none)?;
        self.exposed[window] = Some((address, len));
        let off = start_of(FIRST_EXPOSED + window as u16);
        self.lives += 1;
        self.life.insert(off, self.lives);
        Some(off)
    }
    fn free(&mut self, off: u64) {
        match exposed_at(off) {
            Some(window) => assert!(self.exposed[window].take().is_some(), "exposed"),
            None => self.arena.free(off).expect("allocated"),
        }
        self.life.remove(&off);
    }
    fn retire(&mut self, off: u64) {
        match exposed_at(off) {
            Some(window) => assert!(self.exposed[window].is_some(), "exposed"),
            None => self.arena.retire(off).expect("allocated and in use"),
        }
    }
    fn event(&mut self, event: Event) {
        self.log.push(event);
        match event {
            Event::Requested {
                session,
                uid,
                outcome,
            } => {
                let s = self.sessions.get_mut(&session).expect("requested");
                assert!(!s.closed, "ended by its close");
                assert_eq!(s.outcome.replace(outcome), None, "a request ends once");
                s.uid = uid;
                match outcome {
                    Outcome::Posted => assert!(uid != 0 && s.pair.is_none()),
                    Outcome::Paired => assert!(uid != 0 && s.pair.is_some()),
                    _ => {
                        assert_eq!((uid, s.pair), (0, None));
                        self.sessions.remove(&session);
                    }
                }
            }
            Event::Paired {
                session,
                partner,
                local,
                remote,
            } => {
                let s = self.sessions.get_mut(&session).expect("requested");
                let seen = Seen {
                    partner,
                    local,
                    remote,
                };
                assert!(!s.closed);
                assert_eq!(s.pair.replace(seen), None, "a session pairs once");
                if s.params.hold {
                    assert!(s.accepted, "its owner decides");
                    assert_eq!(s.at_hand.take(), Some(partner));
                }
                if s.held {
                    assert!(s.answered, "with an answer");
                }
            }
            Event::PartnerClosed { session } => {
                let s = self.sessions.get_mut(&session).expect("open");
                assert!(s.pair.is_some() && !s.closed && !s.partner_closed);
                s.partner_closed = true;
            }
            Event::Released { session } => {
                let s = self.sessions.remove(&session).expect("requested");
                assert!(s.closed, "only its owner closes a session");
            }
            Event::Announced { session } => assert!(self.known.insert(session)),
            Event::Forgotten { session } => assert!(self.known.remove(&session)),
            Event::WindowsChanged => self.changed = true,
            Event::Held { session } => {
                let s = self.sessions.get_mut(&session).expect("requested");
                assert!(!s.closed && !s.held && s.outcome.is_none());
                s.held = true;
            }
            Event::Asked {
                session, client, ..
            } => {
                let s = self.sessions.get_mut(&session).expect("requested");
                assert!(s.params.hold && !s.closed && s.pair.is_none());
                assert_eq!(s.at_hand.replace(client), None, "one at a time");
                s.accepted = false;
            }
            Event::Withdrawn { session } => {
                let s = self.sessions.get_mut(&session).expect("requested");
                assert!(s.at_hand.take().is_some() && !s.closed);
            }
            Event::Unable { session } => {
                let s = self.sessions.get_mut(&session).expect("requested");
                assert!(s.at_hand.is_some() && s.accepted && !s.closed);
                s.accepted = false;
            }
            Event::Answered { session } => {
                let s = self.sessions.get_mut(&session).expect("requested");
                assert!(!s.closed && s.params.connection == Connection::Client);
                s.answered = true;
            }
            Event::Refused { session, reason } => {
                let s = self.sessions.remove(&session).expect("requested");
                assert!(s.held && !s.closed && s.pair.is_none());
                assert!(s.answered || reason.is_none(), "a rejection has data");
            }
            Event::Spent { session } => {
                let s = self.sessions.get_mut(&session).expect("requested");
                assert!(s.params.once && !s.closed && s.pair.is_none());
                s.closed = true;
                s.at_hand = None;
            }
        }
    }
}

pub struct Site {
    pub engine: Engine<Vec<Row<Own>>, Vec<Row<Far>>>,
    pub desk: Desk,
}

impl Site {
    pub fn new(mode: Mode, pages: u64, peer_pages: u64) -> Site {
        Site::beside(mode, pages, peer_pages, true)
    }

    /// Beside a host of the first release, unless `extended`.
    fn beside(mode: Mode, pages: u64, peer_pages: u64, extended: bool) -> Site {
        Site {
            engine: engine(mode, peer_pages, extended),
            desk: Desk::new(pages, 64),
        }
    }

    pub fn windows(&self) -> Vec<RemoteWindow> {
        self.engine.remote_windows().collect()
    }

    /// Let the engine do something, and check what it says of the list of windows.
    fn with<R>(&mut self, what: impl FnOnce(&mut Site) -> R) -> R {
        let before = self.windows();
        self.desk.changed = false;
        let result = what(self);
        while self.engine.is_unfinished() {
            self.engine.resume(&mut self.desk);
        }
        let after = self.windows();
        assert_eq!(self.desk.changed, before != after, "{before:?} {after:?}");
        let uids: BTreeSet<_> = after.iter().map(|w| w.uid).collect();
        assert_eq!(uids.len(), after.len(), "identifiers are unique");
        assert!(!uids.contains(&0));
        result
    }

    /// A request with the lowest free number.
    pub fn request(&mut self, params: &Params) -> Result<u32, Refusal> {
        let mut numbers = 1..;
        let free = |n: &u32| !self.desk.sessions.contains_key(n);
        let number = numbers.find(free).expect("few sessions");
        self.request_as(number, params)
    }

    pub fn request_as(&mut self, number: u32, params: &Params) -> Result<u32, Refusal> {
        let session = Session::new(params);
        let had = self.desk.sessions.get(&number).cloned();
        if had.is_none() {
            self.desk.sessions.insert(number, session);
        }
        let result = self.with(|s| s.engine.request(number, params, 0, &mut s.desk));
        if result.is_err() && had.is_none() {
            self.desk.sessions.remove(&number);
        }
        result.map(|()| number)
    }

    pub fn close(&mut self, session: u32) {
        if let Some(s) = self.desk.sessions.get_mut(&session) {
            s.closed = true;
        }
        let closed = self.with(|s| s.engine.close(session, &mut s.desk));
        closed.expect("open");
    }

    /// The owner of a server accepts the request at hand; whether there is one.
    pub fn accept(&mut self, session: u32) -> bool {
        let s = self.desk.sessions.get_mut(&session).expect("open");
        let may = s.at_hand.is_some() && !s.accepted;
        s.accepted |= may;
        let accepted = self.with(|s| s.engine.accept(session, &mut s.desk));
        assert_eq!(accepted.is_ok(), may);
        may
    }

    /// The servers that have a request at hand.
    pub fn asked(&self) -> Vec<u32> {
        let asked = |s: &Session| s.at_hand.is_some() && !s.accepted && !s.closed;
        let all = self.desk.sessions.iter();
        all.filter(|(_, s)| asked(s)).map(|(n, _)| *n).collect()
    }

    /// As [`accept`](Self::accept), but rejects.
    pub fn reject(&mut self, session: u32, reason: u32) -> bool {
        let s = self.desk.sessions.get_mut(&session).expect("open");
        let may = s.at_hand.is_some() && !s.accepted;
        if may {
            s.at_hand = None;
        }
        let rejected = self.with(|s| s.engine.reject(session, reason, &mut s.desk));
        assert_eq!(rejected.is_ok(), may);
        may
    }

    pub fn receive(&mut self, message: &Message) -> Result<(), Corrupt> {
        let known = self.desk.known.clone();
        self.with(|s| s.engine.receive(message, &mut s.desk))?;
        let new: Vec<_> = self.desk.known.difference(&known).collect();
        for session in new {
            let of = message.data_of();
            assert_eq!(of, Some(DataOf::Session(*session)), "data is at hand");
        }
        Ok(())
    }

    pub fn memory_freed(&mut self) {
        self.with(|s| s.engine.memory_freed(&mut s.desk));
    }

    pub fn open(&self) -> Vec<u32> {
        let open = self.desk.sessions.iter().filter(|(_, s)| !s.closed);
        open.map(|(n, _)| *n).collect()
    }

    pub fn outcome(&self, session: u32) -> Option<Outcome> {
        let all = self.desk.log.iter().rev();
        let mut ends = all.filter_map(|event| match event {
            Event::Requested {
                session: s,
                outcome,
                ..
            } if *s == session => Some(*outcome),
            _ => None,
        });
        ends.next()
    }

    pub fn pair(&self, session: u32) -> Option<Seen> {
        self.desk.sessions.get(&session)?.pair
    }

    pub fn uid(&self, session: u32) -> u32 {
        self.desk.sessions[&session].uid
    }

    pub fn window(&self, uid: u32) -> Option<RemoteWindow> {
        self.windows().into_iter().find(|w| w.uid == uid)
    }

    /// The epoch ends: what is left belongs to open pairs, which are closed and freed.
    pub fn end(&mut self, foreign: &[u64]) {
        self.engine.end(&mut self.desk);
        for s in std::mem::take(&mut self.desk.sessions).into_values() {
            let local = s.pair.filter(|_| !s.closed).and_then(|pair| pair.local);
            if let Some(span) = local.filter(|_| s.params.location == Location::Logical) {
                self.desk.free(span.off);
            }
        }
        let left: Vec<_> = self.desk.arena.extents().map(|e| e.off).collect();
        assert_eq!(left, foreign, "memory is lost");
        assert_eq!(self.windows(), []);
        self.desk.known.clear();
        self.desk.log.clear();
    }
}

pub fn engine(mode: Mode, peer_pages: u64, extended: bool) -> Engine<Vec<Row<Own>>, Vec<Row<Far>>> {
    let far = match mode {
        Mode::Loopback => Vec::new(),
        _ => vec![Row::FREE; sessions(extended)],
    };
    Engine::new(mode, peer_pages * PAGE, extended, vec![Row::FREE; 24], far).expect("large enough")
}

pub const ARBITER: usize = 0;
pub const ASKER: usize = 1;

/// Both hosts and what is on the way from each.
pub struct Two {
    pub sites: [Site; 2],
    pub wire: [VecDeque<Vec<u8>>; 2],
    pages: [u64; 2],
    /// Of open pairs: the life of the memory that a session of a host reaches on the other.
    reach: BTreeMap<(usize, u32), u64>,
}

impl Two {
    pub fn new(pages: [u64; 2]) -> Two {
        Two::speaking(pages, true)
    }

    /// Two hosts that say what the first release does.
    pub fn of_first_release(pages: [u64; 2]) -> Two {
        Two::speaking(pages, false)
    }

    fn speaking(pages: [u64; 2], extended: bool) -> Two {
        Two {
            sites: [
                Site::beside(Mode::Arbiter, pages[0], pages[1], extended),
                Site::beside(Mode::Asker, pages[1], pages[0], extended),
            ],
            wire: Default::default(),
            pages,
            reach: BTreeMap::new(),
        }
    }

    /// Put the next message of a host on the wire.
    pub fn push(&mut self, from: usize) -> bool {
        let site = &mut self.sites[from];
        let message = site.engine.poll(&mut site.desk);
        self.wire[from].extend(message.map(|m| m.encode().to_vec()));
        message.is_some()
    }

    /// The other host takes the next message off the wire.
    pub fn deliver(&mut self, from: usize) -> bool {
        let Some(bytes) = self.wire[from].pop_front() else {
            return false;
        };
        let message = Message::decode(&bytes).expect("a message");
        let taken = self.sites[1 - from].receive(&message);
        assert_eq!(taken, Ok(()), "{message:?}");
        true
    }

    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "no end");
            let all = [self.push(0), self.push(1), self.deliver(0), self.deliver(1)];
            self.check();
            if !all.contains(&true) {
                break;
            }
        }
    }

    /// Accept all requests that are at hand, and reject those for which there is no space.
    pub fn answer_all(&mut self) {
        for accepts in [true, false] {
            for at in [ARBITER, ASKER] {
                for server in self.sites[at].asked() {
                    match accepts {
                        true => self.sites[at].accept(server),
                        false => self.sites[at].reject(server, 1),
                    };
                }
            }
            self.settle();
        }
    }

    /// A request, with all that follows from it.
    pub fn request(&mut self, at: usize, params: &Params) -> Result<u32, Refusal> {
        let session = self.sites[at].request(params)?;
        self.settle();
        Ok(session)
    }

    pub fn close(&mut self, at: usize, session: u32) {
        self.sites[at].close(session);
        self.settle();
    }

    pub fn outcome(&mut self, at: usize, params: &Params) -> Outcome {
        let session = self.request(at, params).expect("taken");
        self.sites[at].outcome(session).expect("ended")
    }

    /// The link is lost with all that is on it, and comes up again.
    pub fn lose_link(&mut self, foreign: [&[u64]; 2]) {
        for (n, mode) in [Mode::Arbiter, Mode::Asker].into_iter().enumerate() {
            self.wire[n].clear();
            self.sites[n].end(foreign[n]);
            self.sites[n].engine = engine(mode, self.pages[1 - n], true);
        }
        self.reach.clear();
    }

    /// What must hold at any time (PXI-PAIR-11, PXI-PAIR-13, PXI-PAIR-17, PXI-CW-8).
    pub fn check(&mut self) {
        let mut reach = BTreeMap::new();
        for (at, site) in self.sites.iter().enumerate() {
            let other = &self.sites[1 - at];
            for (number, s) in &site.desk.sessions {
                let Some(pair) = s.pair.filter(|_| !s.closed) else {
                    continue;
                };
                let windows = pair.local.is_some() || pair.remote.is_some();
                assert!(windows != s.params.bare);
                let partner = other.desk.sessions.get(&pair.partner);
                if s.partner_closed {
                    assert!(partner
                        .is_none_or(|p| p.closed || p.pair.is_none_or(|q| q.partner != *number)));
                } else {
                    let partner = partner.expect("stays until both have closed");
                    check_sizes(s, &pair, partner);
                    if let Some(back) = partner.pair {
                        assert_eq!(back.partner, *number, "one to one");
                        assert_eq!((back.local, back.remote), (pair.remote, pair.local));
                    }
                }
                if let Some(span) = pair.remote {
                    let kept = match exposed_at(span.off) {
                        Some(window) => other.desk.exposed[window].map(|(_, len)| len),
                        None => other.desk.arena.get(span.off).map(|extent| extent.len),
                    };
                    assert_eq!(kept, Some(span.len), "reachable memory is kept");
                    let life = other.desk.life[&span.off];
                    let before = self.reach.get(&(at, *number)).copied();
                    assert_eq!(before.unwrap_or(life), life, "memory was reused");
                    assert!(reach.insert((at, *number), life).is_none());
                }
            }
        }
        for at in [0, 1] {
            let lives = reach
                .iter()
                .filter(|((a, _), _)| *a == at)
                .map(|(_, life)| life);
            let (count, distinct) = (lives.clone().count(), lives.collect::<BTreeSet<_>>());
            assert_eq!(count, distinct.len(), "two sessions reach the same memory");
        }
        self.reach = reach;
    }
}

fn check_sizes(s: &Session, pair: &Seen, partner: &Session) {
    let bytes = |span: Option<Span>| span.map_or(0, |span| span.len);
    for (size, limits) in [
        (bytes(pair.local), s.params.local),
        (bytes(pair.local), partner.params.remote),
        (bytes(pair.remote), s.params.remote),
        (bytes(pair.remote), partner.params.local),
    ] {
        assert!(limits.min <= size && size <= limits.max);
    }
}
