// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Sessions of two hosts that are joined directly, and how they become pairs (PXI-PAIR-*).
//!
//! Each of the two hosts has one [`Engine`] per link and epoch. The caller hands in what processes
//! ask for and what the other engine says, and sends what [`Engine::poll`] gives, in order. What
//! concerns processes, and the memory of the own arena, goes through the trait [`Host`] at once. A
//! third mode, [`Mode::Loopback`], pairs the sessions of one host with each other. The engine
//! knows no window data, no waiting process and no mapping.
//!
//! Roles. One host is the *arbiter* and decides who is paired with whom; the other is the *asker*.
//! Memory is given by the host that owns it: an arena has one owner, and no message can be wrong
//! about what is free.
//!
//! | step | asker | arbiter |
//! |---|---|---|
//! | a server, or a peer that found nobody | POST, either way, answered by POSTED or REFUSED | |
//! | a client or peer asks | REQUEST, answered by REFUSED, or: | looks at its posts itself |
//! | a pair is tried | RESERVED: takes memory | takes its own memory; RESERVE |
//! | it works | the pair is there | the pair is there; PAIRED |
//! | it does not | gives the memory back | gives its own back; RELEASE, next candidate or REFUSED |
//! | a session ends | CLOSE, either way, answered by CLOSED or, of a pair, by the partner's CLOSE | |
//!
//! Servers whose owner answers each request are tried only when it has accepted. Until then the
//! request is *held*: the server has it at hand, and is nobody's candidate.
//!
//! | step | client's host is the asker | client's host is the arbiter |
//! |---|---|---|
//! | a request finds the server | REQUEST, answered by HELD | ASK |
//! | it is accepted | RESERVE and so on; PAIRED has the answer | ACCEPT has the answer; RESERVE and so on |
//! | there is no space | the request waits on | UNABLE: the same |
//! | it is rejected | REFUSED | REJECT |
//! | the client closes | CLOSE, answered by CLOSED | the same |
//! | the server closes | REFUSED | CLOSE, answered by CLOSED |
//!
//! The rules that make it hold together:
//!
//! 1. The arbiter tries one pair at a time, requests in the order of arrival; so no session is
//!    promised to two (PXI-PAIR-11), and sizes are agreed before a process sees them.
//! 2. A post that was not acknowledged is nobody's candidate, and a request is not finished before
//!    its post is acknowledged: whoever sees a request succeed, finds it on the other host.
//! 3. When no request waits, posted peers are tried with each other, after a new post and after
//!    space has come back (PXI-PAIR-1). The one posted later counts as the one that asks. A request
//!    that comes meanwhile goes ahead of the rest of its candidates, but for the one that it is
//!    being tried with.
//! 4. An entry, its number and its identifier stay until both hosts are done with the session. So
//!    a message that crosses a CLOSE finds it and is answered.
//! 5. The memory of a pair is free when both have closed (PXI-CW-8): each host knows that of its
//!    own part by itself.
//! 6. A client on the arbiter's host whose server closes ends with that CLOSE, and a client that
//!    is rejected with REJECT: its own CLOSE, if it crosses, is not answered.
//!
//! The channel between the engines keeps order and loses nothing within an epoch; the next epoch
//! begins with new engines. Everything in a message is checked before anything is changed; what
//! cannot be is [`Corrupt`], and the caller resets the link.
//!
//! | module | owns |
//! |---|---|
//! | [`terms`] | parameters, their checks, whether two sessions fit |
//! | [`message`] | what the engines tell each other |
//! | `table` | the entries of both tables |
//! | `say` | the messages that are due, in order |
//! | `hear` | what a message does, on either host |
//! | `asker` | what the arbiter's messages do |
//! | `arbiter` | who is tried with whom |
//! | `room` | whether there is the space for a pair |
//! | `held` | requests that a server's owner answers |
//! | `loopback` | the pair within one host |

mod arbiter;
mod asker;
mod hear;
mod held;
mod loopback;
pub mod message;
mod room;
mod say;
pub(crate) mod table;
pub mod terms;

use crate::layout::PAGE;
use crate::reach::{Place, FIRST_EXPOSED};
use crate::rows::{find, find_mut, Rows, Table};
use arbiter::{Deal, Seeking};
use table::{FarStage, Hold, Stage, UID};
use terms::{Connection, Invalid, Limits, Location, Params, Span};

pub use held::NoAnswer;
pub use table::{Far, Own};

/// Most sessions that a host may have with another one, closed ones included that the other host
/// has not finished with. Both hosts rely on it.
pub const SESSIONS: usize = 1536;

/// The same beside a host of the first release.
pub const SESSIONS_FIRST: usize = 256;

/// The same beside a host that is of the first release unless `extended`.
pub const fn sessions(extended: bool) -> usize {
    match extended {
        true => SESSIONS,
        false => SESSIONS_FIRST,
    }
}

/// The part of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Decides about pairs.
    Arbiter,
    /// Asks the other host, which is the arbiter.
    Asker,
    /// The host is its own peer.
    Loopback,
}

/// What an engine needs of its host, at once: the memory that the peer reaches, and a listener.
pub trait Host {
    /// Bytes of the two longest free runs, the longest first.
    fn runs(&self) -> [u64; 2];

    /// Bytes of the longest free run.
    fn largest(&self) -> u64 {
        self.runs()[0]
    }

    /// Cut `len` bytes, not zero, for that own session: the offset, at a page boundary, or `None` if
    /// that is impossible.
    fn alloc(&mut self, session: u32, len: u64) -> Option<u64>;

    /// Lead a window of the peer to `len` bytes, not zero, at a physical address: the place of
    /// the first, in a window that leads to what is exposed, or `None` if that is impossible.
    fn expose(&mut self, address: u64, len: u64) -> Option<u64>;

    /// Nobody uses what was cut or exposed at `off` any more.
    fn free(&mut self, off: u64);

    /// The owner of what was cut or exposed at `off` has closed its session; the peer may still reach it. It
    /// is freed later.
    fn retire(&mut self, off: u64);

    /// Something happened to a session.
    fn event(&mut self, event: Event);
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It waits for a partner, and the other host lists it.
    Posted,
    /// It has a partner; [`Event::Paired`] came before.
    Paired,
    /// Nobody fits (PXI-REQLC-6, PXI-REQPC-5); the session does not exist.
    NoPairing,
    /// Its identifier is in use (PXI-REQLP-13); the session does not exist.
    UidConflict,
    /// The other host has not the space (PXI-REQLS-6); the session does not exist.
    Space,
}

/// What happened. Sessions are own ones unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request has ended, unless its session was closed meanwhile.
    Requested {
        /// The session.
        session: u32,
        /// Its identifier, zero if it does not exist.
        uid: u32,
        /// How.
        outcome: Outcome,
    },
    /// A session has a partner.
    Paired {
        /// The session.
        session: u32,
        /// The other host's session, or the other own one.
        partner: u32,
        /// Its window backed here: in the arena, or the exposure of a physical server.
        local: Option<Span>,
        /// Its window backed on the other host.
        remote: Option<Span>,
    },
    /// The partner is closed; the session is not.
    PartnerClosed {
        /// The session.
        session: u32,
    },
    /// A closed session is forgotten on both hosts: its number may be used again.
    Released {
        /// The session.
        session: u32,
    },
    /// The message at hand brought a session of the other host: keep the data behind it.
    Announced {
        /// The other host's session.
        session: u32,
    },
    /// Drop the data of a session of the other host.
    Forgotten {
        /// The other host's session.
        session: u32,
    },
    /// What [`Engine::remote_windows`] lists is different.
    WindowsChanged,
    /// A client's request waits for the answer of a server; it has not ended.
    Held {
        /// The client.
        session: u32,
    },
    /// A server has a request at hand: [`Engine::accept`], [`Engine::reject`].
    Asked {
        /// The server.
        session: u32,
        /// The client: the other host's session, or another own one.
        client: u32,
        /// The window backed by the client's host, as asked for.
        local: Limits,
        /// Its other window.
        remote: Limits,
    },
    /// The request that a server had at hand is not there any more.
    Withdrawn {
        /// The server.
        session: u32,
    },
    /// What a server has accepted cannot be, for lack of space. The request is at hand again.
    Unable {
        /// The server.
        session: u32,
    },
    /// The message at hand, or the call, brought the answer to a client's request: keep the data.
    Answered {
        /// The client.
        session: u32,
    },
    /// A held request has ended without a partner; the session does not exist.
    Refused {
        /// The client.
        session: u32,
        /// The reason of the rejection; `None` if the server has closed.
        reason: Option<u32>,
    },
    /// A server that takes one request is closed, as its request came to nothing.
    Spent {
        /// The server.
        session: u32,
    },
}

/// Why a request was refused at once, in the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its parameters make no sense.
    Invalid(Invalid),
    /// Its number is zero or that of a session which exists; the caller's mistake.
    Number,
    /// The minimum sizes cannot be had now, or there are too many sessions.
    Space,
    /// The other host is of the first release, and does not understand it.
    Unsupported,
    /// Its identifier is in use (PXI-REQLS-7, PXI-REQPS-6).
    UidConflict,
}

/// No such session is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown;

/// The peer said what cannot be; no session was changed by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

/// A session as processes of the other host see it (PXI-FW-1, PXI-QW-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteWindow {
    /// Its number on the host that owns it.
    pub session: u32,
    /// Its identifier, not zero.
    pub uid: u32,
    /// How it looks for a partner.
    pub connection: Connection,
    /// What its windows are.
    pub location: Location,
    /// Its protocol.
    pub protocol: u32,
    /// Whether it has, or had, a partner.
    pub paired: bool,
    /// The window that its host backs: as it was asked for, or as it is (PXI-QW-13).
    pub local: Limits,
    /// Its other window (PXI-QW-12).
    pub remote: Limits,
}

impl RemoteWindow {
    fn new(session: u32, uid: u32, params: &Params, sizes: Option<(u64, u64)>) -> RemoteWindow {
        let (local, remote) = match sizes {
            Some((local, remote)) => (Limits::exactly(local), Limits::exactly(remote)),
            None => (params.local, params.remote),
        };
        RemoteWindow {
            session,
            uid,
            connection: params.connection,
            location: params.location,
            protocol: params.protocol,
            paired: sizes.is_some(),
            local,
            remote,
        }
    }
}

/// Which host a session belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Own,
    Far,
}

/// The minimum cannot be had.
struct NoRoom;

/// The pairing engine of one host, for one peer and one epoch.
///
/// After each input, [`poll`](Self::poll) may have messages; they may wait as long as there is no
/// room for them on the link, while inputs go on.
#[derive(Debug)]
pub struct Engine<O, F> {
    mode: Mode,
    /// Size of the peer's arena in bytes.
    peer_size: u64,
    /// Both hosts know names and held requests.
    extended: bool,
    own: Rows<Own, O>,
    far: Rows<Far, F>,
    /// Decisions so far: the order of everything.
    count: u64,
    last_uid: u32,
    /// The pair that is being tried.
    deal: Option<Deal>,
    /// A request that has not been tried with all of its candidates.
    seeking: Option<Seeking>,
    /// The same of a posted peer: it goes on when no request waits.
    sweeping: Option<Seeking>,
    /// Posted peers from this order on are to be tried with earlier ones.
    sweep: Option<u64>,
    /// And after that, all of them.
    sweeps_again: bool,
    /// There are turns left for [`resume`](Self::resume).
    unfinished: bool,
    /// The peer's longest free run, as it last said.
    peer_free: u64,
    /// What the peer was last told of the own one.
    told_free: u64,
    /// Memory of a pair was freed, and the arbiter does not know.
    freed: bool,
}

impl<O: Table<Own>, F: Table<Far>> Engine<O, F> {
    /// An engine without sessions. `peer_size` is the size of the peer's arena in bytes; the peer
    /// is of the first release unless `extended`. `own` has a place for each session that this host
    /// may have, of which [`sessions`] are used at most. `far` has at least so many places, else
    /// the result is `None`; in loopback, none are needed.
    pub fn new(mode: Mode, peer_size: u64, extended: bool, own: O, far: F) -> Option<Self> {
        if mode != Mode::Loopback && far.len() < sessions(extended) {
            return None;
        }
        Some(Engine {
            mode,
            peer_size,
            extended,
            own: Rows::new(own),
            far: Rows::new(far),
            count: 0,
            last_uid: 0,
            deal: None,
            seeking: None,
            sweeping: None,
            sweep: None,
            sweeps_again: false,
            unfinished: false,
            peer_free: peer_size,
            told_free: u64::MAX,
            freed: false,
        })
    }

    /// A process requests a session, with `data` bytes of window data. The request has ended when
    /// [`Event::Requested`] says so, which may be before this returns.
    ///
    /// # Errors
    /// The first [`Refusal`] that applies; then the session does not exist.
    pub fn request(
        &mut self,
        session: u32,
        params: &Params,
        data: usize,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        params.check(data).map_err(Refusal::Invalid)?;
        if session == 0 || find(&self.own, session).is_some() {
            return Err(Refusal::Number);
        }
        let has_place = self.own.has_place(sessions(self.extended));
        if !has_place || !self.has_space(params, host) {
            return Err(Refusal::Space);
        }
        if params.is_extended() && !self.extended {
            return Err(Refusal::Unsupported);
        }
        let serves = params.connection == Connection::Server;
        if serves && params.uid != 0 && self.is_taken(params.uid, session) {
            return Err(Refusal::UidConflict);
        }
        let mut own = Own::new(session, params, Stage::Asking);
        own.order = self.tick();
        if self.mode == Mode::Asker && !serves {
            own.ask = own.order;
        }
        self.own.insert(own).ok_or(Refusal::Space)?;
        if serves {
            self.post(session, host);
        }
        self.run(host);
        Ok(())
    }

    /// A process closes its session, or has died. Its window must not be reachable through the
    /// process any more; what the partner may reach is kept until the partner has closed, too.
    /// A request that has not ended, ends with this.
    ///
    /// # Errors
    /// [`Unknown`] if there is no such session, or if it is closed already.
    pub fn close(&mut self, session: u32, host: &mut impl Host) -> Result<(), Unknown> {
        let is_open = |own: &Own| !own.closed && own.stage != Stage::Over;
        let own = find_mut(&mut self.own, session).filter(|own| is_open(own));
        let mut own = own.ok_or(Unknown)?;
        own.closed = true;
        let is_known = match own.stage {
            Stage::Asking => self.mode == Mode::Asker && own.ask == 0,
            Stage::Posting => own.ask == 0,
            Stage::Held(_) => self.mode != Mode::Loopback && own.ask == 0,
            _ => self.mode != Mode::Loopback,
        };
        let stage = own.stage;
        if is_known {
            self.count += 1;
            own.close = self.count;
        } else if own.pair().is_none() {
            own.stage = Stage::Over;
            own.ask = 0;
        }
        drop(own);
        self.leave_request(session, stage, host);
        self.abandon(Side::Own, session, host);
        if let Stage::Paired(pair) = stage {
            match pair.partner_closed {
                true => self.give_back(pair.local, host),
                false => {
                    if let Some(span) = pair.local {
                        host.retire(span.off);
                    }
                }
            }
            if self.mode == Mode::Loopback {
                self.partner_left(pair.partner, host);
            }
        }
        let is_listed = matches!(stage, Stage::Open | Stage::Paired(_));
        if self.mode == Mode::Loopback && is_listed {
            host.event(Event::WindowsChanged);
        }
        self.bury_own(session, host);
        self.run(host);
        Ok(())
    }

    /// Whether there is an own session of that number; it may be closed.
    pub fn has(&self, session: u32) -> bool {
        find(&self.own, session).is_some()
    }

    /// Whether the peer may reach memory of this host because of an own session, or may come to
    /// reach it: what is reserved while a pair is tried, and the window of a pair until both are
    /// closed. A session that is closed gets no more of it.
    pub fn has_memory(&self, session: u32) -> bool {
        let Some(own) = find(&self.own, session) else {
            return false;
        };
        let reserved = match own.hold {
            Hold::Window(span) => span,
            _ => None,
        };
        let window = own
            .pair()
            .filter(|pair| !own.closed || !pair.partner_closed)
            .and_then(|pair| pair.local);
        reserved.or(window).is_some() || self.has_dealt_memory(session)
    }

    /// Whether sessions are left that [`resume`](Self::resume) tries: no input tries more than a
    /// few.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Go on with what an input has left.
    pub fn resume(&mut self, host: &mut impl Host) {
        self.run(host);
    }

    /// Memory of the arena has come back by other ways than this engine.
    pub fn memory_freed(&mut self, host: &mut impl Host) {
        self.space_came();
        self.run(host);
    }

    /// The epoch is over: gives the memory back that no open session has. The windows of open
    /// pairs now belong to the caller, who frees them when their sessions are closed.
    pub fn end(&mut self, host: &mut impl Host) {
        self.abandon_deal(host);
        for own in self.own.iter() {
            let span = match (own.hold, own.stage) {
                (Hold::Window(span), _) => span,
                (_, Stage::Paired(pair)) if own.closed && !pair.partner_closed => pair.local,
                _ => None,
            };
            if let Some(span) = span {
                host.free(span.off);
            }
        }
        self.own.clear();
        self.far.clear();
        self.seeking = None;
        self.sweeping = None;
        self.sweep = None;
        self.sweeps_again = false;
        self.unfinished = false;
        self.freed = false;
    }

    /// The sessions that processes of this host find on the other one, in a stable order.
    pub fn remote_windows(&self) -> impl Iterator<Item = RemoteWindow> + '_ {
        let is_loopback = self.mode == Mode::Loopback;
        let own = self.own.iter().filter(move |own| {
            let listed = matches!(own.stage, Stage::Open | Stage::Paired(_));
            is_loopback && listed && !own.closed
        });
        let own = own.map(|own| {
            let sizes = own
                .pair()
                .map(|p| (terms::len(p.local), terms::len(p.remote)));
            RemoteWindow::new(own.number, own.uid, &own.params, sizes)
        });
        let far = self.far.iter().filter(|far| far.is_listed());
        let far = far.map(|far| {
            let sizes = match far.stage {
                FarStage::Paired { local, remote } => Some((local, remote)),
                _ => None,
            };
            RemoteWindow::new(far.number, far.uid, &far.params, sizes)
        });
        own.chain(far)
    }

    /// Whether the minimum sizes can be had now (PXI-REQLS-6, PXI-REQLC-5, PXI-REQLP-6,
    /// PXI-REQPS-5, PXI-REQPC-4). What the other host has free, it says itself, later.
    fn has_space(&self, params: &Params, host: &impl Host) -> bool {
        let needed = params.local.min.max(params.remote.min);
        if needed > params.reach() {
            return false;
        }
        let there = match self.mode {
            Mode::Loopback => host.largest(),
            _ => self.peer_size,
        };
        let here = params.local.min <= host.largest();
        !params.is_backed() || here && params.remote.min <= there
    }

    /// Post a session, whose request has not ended. If it asked for an identifier, that is free.
    fn post(&mut self, session: u32, host: &mut impl Host) {
        let Some(own) = find(&self.own, session) else {
            return;
        };
        let uid = self.free_uid(own.params.uid, session);
        let now = self.tick();
        let Some(mut own) = find_mut(&mut self.own, session) else {
            return;
        };
        own.uid = uid;
        own.order = now;
        if self.mode == Mode::Loopback {
            own.stage = Stage::Open;
            host.event(Event::Requested {
                session,
                uid,
                outcome: Outcome::Posted,
            });
            host.event(Event::WindowsChanged);
        } else {
            own.stage = Stage::Posting;
            own.ask = now;
        }
    }

    /// Post a peer that found nobody, if its identifier is free (PXI-REQLP-13 to PXI-REQLP-15).
    fn post_peer(&mut self, session: u32, host: &mut impl Host) {
        let wanted = find(&self.own, session).map_or(0, |own| own.params.uid);
        if wanted != 0 && self.is_taken(wanted, session) {
            self.fail(session, Outcome::UidConflict, host);
        } else {
            self.post(session, host);
        }
    }

    /// A request has failed; its session does not exist.
    fn fail(&mut self, session: u32, outcome: Outcome, host: &mut impl Host) {
        self.own.remove(session);
        host.event(Event::Requested {
            session,
            uid: 0,
            outcome,
        });
    }

    /// An own session has a partner: tells its process, which may still be in its request.
    fn paired(&mut self, session: u32, pair: table::Pair, host: &mut impl Host) {
        let Some(mut own) = find_mut(&mut self.own, session) else {
            return;
        };
        let asked = own.asks() || own.is_held();
        own.stage = Stage::Paired(pair);
        if own.closed {
            return;
        }
        let uid = own.uid;
        host.event(Event::Paired {
            session,
            partner: pair.partner,
            local: pair.local,
            remote: pair.remote,
        });
        if asked {
            host.event(Event::Requested {
                session,
                uid,
                outcome: Outcome::Paired,
            });
        }
    }

    /// The partner of an own session is closed.
    fn partner_left(&mut self, session: u32, host: &mut impl Host) {
        let Some(mut own) = find_mut(&mut self.own, session) else {
            return;
        };
        let closed = own.closed;
        let Stage::Paired(pair) = &mut own.stage else {
            return;
        };
        pair.partner_closed = true;
        let local = pair.local;
        drop(own);
        if closed {
            self.give_back(local, host);
            self.bury_own(session, host);
        } else {
            host.event(Event::PartnerClosed { session });
        }
    }

    /// Both of a pair are closed: its memory is free.
    fn give_back(&mut self, span: Option<Span>, host: &mut impl Host) {
        drop_span(span, host);
        self.space_came();
    }

    /// Space has come back: peers that it kept apart are tried again (PXI-PAIR-1).
    fn space_came(&mut self) {
        self.freed = true;
        self.sweep_all();
    }

    /// All posted peers are to be tried. Those that are being tried are so to the end first: else
    /// the last ones might never be.
    fn sweep_all(&mut self) {
        self.sweeps_again |= self.sweep.is_some_and(|next| next != 0);
        self.sweep_from(0);
    }

    /// Posted peers from that order on are to be tried.
    fn sweep_from(&mut self, order: u64) {
        self.sweep = self
            .sweep
            .or(Some(order))
            .filter(|_| self.mode != Mode::Asker);
    }

    /// Drop the entry of an own session that nobody needs any more.
    fn bury_own(&mut self, session: u32, host: &mut impl Host) {
        if let Some(own) = find(&self.own, session).filter(|own| own.is_finished()) {
            let closed = own.closed;
            self.own.remove(session);
            if closed {
                host.event(Event::Released { session });
            }
        }
    }

    /// Drop the entry of the other host's session, if nobody needs it any more.
    fn bury_far(&mut self, session: u32) {
        if find(&self.far, session).is_some_and(Far::is_finished) {
            self.far.remove(session);
        }
    }

    /// Whether an identifier is in use by another session than that one: until both hosts have
    /// done with it.
    fn is_taken(&self, uid: u32, but: u32) -> bool {
        let uid = u64::from(uid);
        let mut found = self.own.first(UID, (uid, 0));
        if found.is_some_and(|(_, own)| own.number == but) {
            found = self.own.first(UID, (uid, u64::from(but) + 1));
        }
        found.is_some_and(|(key, _)| key.0 == uid)
    }

    /// The wanted identifier if it is free, else another one that is.
    fn free_uid(&mut self, wanted: u32, session: u32) -> u32 {
        let mut uid = wanted;
        while uid == 0 || self.is_taken(uid, session) {
            self.last_uid = self.last_uid.wrapping_add(1);
            uid = self.last_uid;
        }
        uid
    }

    fn tick(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Whether a window of the peer's session is where it may be.
    fn is_placed(&self, params: &Params, span: Option<Span>) -> bool {
        if params.is_backed() {
            return self.is_in_peer(span);
        }
        span.is_none_or(|span| {
            let exposed = Place::decode(span.off).window >= FIRST_EXPOSED;
            exposed && span.off % PAGE == 0
        }) && terms::len(span) == params.offered()
    }

    /// Whether a window lies in the peer's arena as one must.
    fn is_in_peer(&self, span: Option<Span>) -> bool {
        span.is_none_or(|span| {
            let end = span.off.checked_add(span.len);
            span.off % PAGE == 0 && end.is_some_and(|end| end <= self.peer_size)
        })
    }
}

/// Take the own window of a session, as large as possible within `limits` (PXI-PAIR-12).
fn grab(
    (session, params): (u32, &Params),
    limits: Limits,
    host: &mut impl Host,
) -> Result<Option<Span>, NoRoom> {
    if !params.is_backed() {
        let len = params.offered();
        let off = (len != 0).then(|| host.expose(params.address, len));
        return match off {
            Some(off) => off.map(|off| Some(Span { off, len })).ok_or(NoRoom),
            None => Ok(None),
        };
    }
    let len = limits.max.min(host.largest());
    let off = (len >= limits.min && len != 0).then(|| host.alloc(session, len));
    match off.flatten() {
        Some(off) => Ok(Some(Span { off, len })),
        None if limits.min == 0 => Ok(None),
        None => Err(NoRoom),
    }
}

/// Free what [`grab`] took.
fn drop_span(span: Option<Span>, host: &mut impl Host) {
    if let Some(span) = span {
        host.free(span.off);
    }
}
