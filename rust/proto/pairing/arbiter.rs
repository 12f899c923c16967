// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Who is tried with whom: one pair at a time, requests in the order of their arrival, and posted
//! peers when no request waits.

use crate::pairing::message::{Pairing, Why};
use crate::pairing::room::{needs_there, Room};
use crate::pairing::table::{Far, FarStage, Own, Pair, Step, Turn, ALIKE, PEER, TURN, UID};
use crate::pairing::terms::{agree, len, meet, Connection, Limits, Params, Span, Terms};
use crate::pairing::{drop_span, grab, Corrupt, Engine, Event, Host, Mode, Outcome, Side};
use crate::rows::{find, find_mut, Key, Order, Ordered, Rows, Table, FIRST};

/// Most turns of one input: what is left is for [`Engine::resume`].
const TURNS: u32 = 32;

/// Most posted sessions that one input looks at: the session that seeks goes on with
/// [`Engine::resume`], where it was.
const LOOKS: u32 = 64;

/// Most pairs of one session that are tried in vain though there is the space for them.
const ATTEMPTS: u32 = 4;

/// How far a session has come with its candidates.
#[derive(Debug, Clone, Copy, Default)]
struct Tried {
    /// Those up to this order.
    order: u64,
    /// So many in vain.
    failed: u32,
}

impl Tried {
    /// The last of them in vain, though there was the space for it.
    fn failed(self) -> Tried {
        Tried {
            failed: self.failed + 1,
            ..self
        }
    }
}

/// How far a session has come that has not been tried with all of its candidates.
#[derive(Debug)]
pub(super) struct Seeking {
    side: Side,
    session: u32,
    /// Its order, as that of a [`Deal`].
    since: u64,
    tried: Tried,
}

/// A pair that is being tried: the arbiter has its window and waits for the asker's.
#[derive(Debug)]
pub(super) struct Deal {
    /// Whose session asks.
    asks: Side,
    /// Order of that session: its number may be another one's meanwhile.
    since: u64,
    own: u32,
    far: u32,
    /// What was tried, the posted one included.
    tried: Tried,
    /// What the asker is to reserve.
    limits: Limits,
    /// The own window.
    local: Option<Span>,
    /// One of the two was closed; the own window has been freed.
    dead: bool,
    /// It was accepted by the owner of the posted one.
    held: bool,
}

/// What is to be tried next.
enum Next {
    /// A session with its candidates, behind those that were.
    Seek(Side, u32, Tried),
    /// A server of that host with the client that it has accepted.
    Settle(Side, u32),
}

/// A posted session that may be the partner.
struct Candidate {
    number: u32,
    /// As the one that asks sees them.
    terms: Terms,
    /// Its owner answers requests.
    hold: bool,
    /// It has accepted this one.
    accepted: bool,
}

/// A posted session of either host.
struct Posted {
    order: u64,
    number: u32,
    params: Params,
    uid: u32,
}

impl Posted {
    fn of_own(own: &Own) -> Posted {
        Posted {
            order: own.order,
            number: own.number,
            params: own.params,
            uid: own.uid,
        }
    }

    fn of_far(far: &Far) -> Posted {
        Posted {
            order: far.order,
            number: far.number,
            params: far.params,
            uid: far.uid,
        }
    }
}

/// The first session that was posted after that order and is alike to what `asks` may have: the
/// one that it names, if it names one.
fn next_alike<'a, T: Ordered, S: Table<T>>(
    rows: &'a Rows<T, S>,
    asks: &Params,
    after: u64,
) -> Option<&'a T> {
    let alike = asks.alike_of_partner();
    if asks.uid != 0 {
        let uid = u64::from(asks.uid);
        let (_, named) = rows.first(UID, (uid, 0)).filter(|(key, _)| key.0 == uid)?;
        let place = named
            .key(ALIKE)
            .filter(|place| place.0 == alike && place.1 > after);
        return place.map(|_| named);
    }
    let (key, posted) = rows.first(ALIKE, (alike, after.saturating_add(1)))?;
    (key.0 == alike).then_some(posted)
}

impl<O: Table<Own>, F: Table<Far>> Engine<O, F> {
    /// Try pairs until one waits for the asker, or there is nothing left to try.
    pub(super) fn run(&mut self, host: &mut impl Host) {
        if self.mode == Mode::Asker {
            return;
        }
        self.unfinished = false;
        let (mut turns, mut looks) = (TURNS, LOOKS);
        while self.deal.is_none() {
            let Some(next) = self.next_turn() else { break };
            if turns == 0 || looks == 0 {
                self.unfinished = true;
                break;
            }
            turns -= 1;
            match next {
                Next::Seek(side, session, tried) => {
                    self.seek(side, session, tried, &mut looks, host);
                }
                Next::Settle(side, server) => self.settle(side, server, host),
            }
        }
    }

    /// Whose turn it is: that of a request that has begun, else of the oldest request or
    /// acceptance, else of a posted peer that has begun, else of the next one.
    fn next_turn(&mut self) -> Option<Next> {
        if let Some(begun) = self.goes_on(&self.seeking) {
            return Some(begun);
        }
        let Some((_, side, session)) = self.first(TURN, FIRST) else {
            if let Some(begun) = self.goes_on(&self.sweeping) {
                return Some(begun);
            }
            let (_, side, session) = self.next_to_sweep()?;
            return Some(Next::Seek(side, session, Tried::default()));
        };
        let turn = match side {
            Side::Own => find(&self.own, session)?.turn(),
            Side::Far => find(&self.far, session)?.turn(),
        };
        Some(match turn?.0 {
            Turn::Seek => Next::Seek(side, session, Tried::default()),
            Turn::Settle => Next::Settle(side, session),
        })
    }

    /// The session that has not been tried with all of its candidates, if it still asks.
    fn goes_on(&self, begun: &Option<Seeking>) -> Option<Next> {
        let begun = begun.as_ref()?;
        let (_, since, _) = self.who_asks(begun.side, begun.session)?;
        let goes_on = since == begun.since;
        goes_on.then_some(Next::Seek(begun.side, begun.session, begun.tried))
    }

    /// Where it is noted how far a session has come whose candidates are below `before`.
    fn begun(&mut self, before: u64) -> &mut Option<Seeking> {
        match before {
            u64::MAX => &mut self.seeking,
            _ => &mut self.sweeping,
        }
    }

    /// The first session of both hosts in an order, from a time on.
    pub(super) fn first(&self, order: Order, from: Key) -> Option<(u64, Side, u32)> {
        let own = self.own.first(order, from);
        let own = own.map(|(key, own)| (key.0, Side::Own, own.number()));
        let far = self.far.first(order, from);
        let far = far.map(|(key, far)| (key.0, Side::Far, far.number()));
        own.into_iter().chain(far).min_by_key(|(since, ..)| *since)
    }

    /// Make a pair of a server and the client that it has accepted.
    fn settle(&mut self, side: Side, server: u32, host: &mut impl Host) {
        let Some(client) = self.accepted_by(side, server) else {
            return;
        };
        let asks = match (side, self.mode) {
            (Side::Own, Mode::Arbiter) => Side::Far,
            _ => Side::Own,
        };
        let server_params = match side {
            Side::Own => find(&self.own, server).map(|own| own.params),
            Side::Far => find(&self.far, server).map(|far| far.params),
        };
        let client_params = self.who_asks(asks, client).map(|(params, ..)| params);
        let terms = client_params
            .zip(server_params)
            .and_then(|(client, server)| agree(&client, &server));
        let made = terms.is_some_and(|terms| {
            let candidate = Candidate {
                number: server,
                terms,
                hold: true,
                accepted: true,
            };
            match self.mode {
                Mode::Loopback => self.pair_here(client, server, terms, host),
                _ => self.try_pair(asks, client, &candidate, Tried::default(), host),
            }
        });
        if !made {
            self.unable(side, server, host);
        } else if self.mode == Mode::Loopback {
            self.settled(side, server);
        }
    }

    /// The posted peer whose turn it is.
    fn next_to_sweep(&mut self) -> Option<(u64, Side, u32)> {
        loop {
            let from = self.sweep?;
            let next = self.first(PEER, (from, 0));
            self.sweep = match next {
                Some((order, ..)) => Some(order),
                None => core::mem::take(&mut self.sweeps_again).then_some(0),
            };
            if next.is_some() {
                return next;
            }
        }
    }

    /// Try the candidates of a session that have not been tried, one after the other. When `looks`
    /// are used up it is [`Seeking`].
    fn seek(
        &mut self,
        side: Side,
        session: u32,
        tried: Tried,
        looks: &mut u32,
        host: &mut impl Host,
    ) {
        let Some((asks, since, before)) = self.who_asks(side, session) else {
            return;
        };
        *self.begun(before) = None;
        let swept = before != u64::MAX;
        let room = Room {
            runs: host.runs(),
            // Growth of what the peer has free starts another sweep, and a denial came with it: so
            // this may be believed.
            there: (swept || tried.failed != 0).then_some(self.peer_free),
        };
        if side == Side::Far && !swept && tried.order == 0 {
            // The memory is this host's, and so is the check (PXI-REQLC-5, PXI-REQLP-6).
            let [longest, _] = room.runs;
            if asks.is_backed() && asks.remote.min > longest {
                return self.refuse(session, Why::Space, host);
            }
        }
        let mut tried = tried;
        while tried.failed < ATTEMPTS {
            if *looks == 0 {
                *self.begun(before) = Some(Seeking {
                    side,
                    session,
                    since,
                    tried,
                });
                return;
            }
            *looks -= 1;
            let next = self.next_alike(side, &asks, tried.order, before, &room);
            let Some((order, candidate)) = next else {
                break;
            };
            tried.order = order;
            let Some(candidate) = candidate else { continue };
            if candidate.hold {
                return self.hold(side, session, candidate.number, host);
            }
            let taken = match self.mode {
                Mode::Loopback => self.pair_here(session, candidate.number, candidate.terms, host),
                _ => self.try_pair(side, session, &candidate, tried, host),
            };
            if taken {
                return;
            }
            tried = tried.failed();
        }
        self.found_nobody(side, session, before, host);
    }

    /// The parameters and the order of a session that may have a partner now, and the order that
    /// its candidates are below: a posted peer asks only those that were posted earlier.
    fn who_asks(&self, side: Side, session: u32) -> Option<(Params, u64, u64)> {
        match side {
            Side::Own => {
                let asks = |own: &Own| own.asks() || own.is_held();
                let own = find(&self.own, session).filter(|own| asks(own) || own.waits())?;
                let before = if asks(own) { u64::MAX } else { own.order };
                Some((own.params, own.order, before))
            }
            Side::Far => {
                let far = find(&self.far, session)?;
                match far.stage {
                    FarStage::Asking | FarStage::Held(_) => Some((far.params, far.order, u64::MAX)),
                    FarStage::Open => Some((far.params, far.order, far.order)),
                    _ => None,
                }
            }
        }
    }

    /// The first posted session, between `after` and `before`, of those that are alike to what may
    /// be the partner; and whether it is one, for which there is the space.
    fn next_alike(
        &self,
        side: Side,
        asks: &Params,
        after: u64,
        before: u64,
        room: &Room,
    ) -> Option<(u64, Option<Candidate>)> {
        let posted = match self.mode == Mode::Loopback || side == Side::Far {
            true => next_alike(&self.own, asks, after).map(Posted::of_own),
            false => next_alike(&self.far, asks, after).map(Posted::of_far),
        };
        let posted = posted.filter(|posted| posted.order < before)?;
        let params = &posted.params;
        let has_room = |terms: &Terms| match (self.mode, side) {
            (Mode::Loopback, _) => room.has_both_of(asks, terms),
            (_, Side::Own) => room.has_own_of(asks, terms),
            (_, Side::Far) => room.has_own_of(params, &terms.swapped()),
        };
        // The owner of a server that answers sees all requests.
        let terms = meet(asks, params, posted.uid).filter(|terms| params.hold || has_room(terms));
        let candidate = terms.map(|terms| Candidate {
            number: posted.number,
            terms,
            hold: params.hold,
            accepted: false,
        });
        Some((posted.order, candidate))
    }

    /// Take the own window and ask for the other one; false if that is of no use.
    fn try_pair(
        &mut self,
        asks: Side,
        session: u32,
        candidate: &Candidate,
        tried: Tried,
        host: &mut impl Host,
    ) -> bool {
        let (own, far, terms) = match asks {
            Side::Own => (session, candidate.number, candidate.terms),
            Side::Far => (candidate.number, session, candidate.terms.swapped()),
        };
        let since = self.who_asks(asks, session).map(|(_, since, _)| since);
        let params = find(&self.own, own).map(|own| own.params);
        let (Some(since), Some(params)) = (since, params) else {
            return false;
        };
        let Ok(local) = grab((own, &params), terms.local, host) else {
            return false;
        };
        let now = self.tick();
        let needs = needs_there(&params, len(local), terms.remote);
        let Some((mut entry, min)) = find_mut(&mut self.far, far).zip(needs) else {
            drop_span(local, host);
            return false;
        };
        let limits = Limits {
            min,
            ..terms.remote
        };
        entry.step = now;
        entry.step_is = Step::Reserve(limits);
        self.deal = Some(Deal {
            asks,
            since,
            own,
            far,
            tried,
            limits,
            local,
            dead: false,
            held: candidate.accepted,
        });
        true
    }

    /// The asker has taken the window, or has not.
    pub(super) fn hear_reserved(
        &mut self,
        session: u32,
        granted: Option<(u32, Option<Span>)>,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        let far = find(&self.far, session);
        let asked = far.is_none_or(|far| far.step == 0);
        let living = far.filter(|far| far.stage != FarStage::Gone);
        let deal = self.deal.as_ref();
        let deal = deal.filter(|deal| asked && deal.far == session);
        let deal = deal.ok_or(Corrupt)?;
        if let Some((uid, span)) = granted {
            let far = living.ok_or(Corrupt)?;
            if !self.may_be_granted(far, deal, uid, span) {
                return Err(Corrupt);
            }
        }
        let Some(deal) = self.deal.take() else {
            return Err(Corrupt);
        };
        match granted {
            Some((uid, span)) if !deal.dead => {
                self.commit(&deal, uid, span, host);
                return Ok(());
            }
            Some(_) => {
                let now = self.tick();
                // What a client has reserved it gives back with the next that it is told.
                let far = find_mut(&mut self.far, session);
                if let Some(mut far) = far.filter(|far| far.stage == FarStage::Open) {
                    far.step = now;
                    far.step_is = Step::Release;
                }
            }
            None if !deal.dead => drop_span(deal.local, host),
            None => {}
        }
        let asks = match deal.asks {
            Side::Own => deal.own,
            Side::Far => deal.far,
        };
        let tried = match deal.dead {
            false => deal.tried.failed(),
            true => deal.tried,
        };
        let still = self.who_asks(deal.asks, asks);
        if let Some((.., before)) = still.filter(|(_, since, _)| *since == deal.since) {
            match (deal.held, deal.asks) {
                (false, side) => {
                    *self.begun(before) = Some(Seeking {
                        side,
                        session: asks,
                        since: deal.since,
                        tried,
                    });
                }
                (true, Side::Own) => self.unable(Side::Far, deal.far, host),
                (true, Side::Far) if self.has_client(deal.own, asks) => {
                    self.unable(Side::Own, deal.own, host);
                }
                (true, Side::Far) => self.refuse(asks, Why::Gone, host),
            }
        }
        Ok(())
    }

    /// Whether the asker's answer keeps to the question and to its own earlier words.
    fn may_be_granted(&self, far: &Far, deal: &Deal, uid: u32, span: Option<Span>) -> bool {
        let named = match far.uid {
            0 => self.is_new_uid(uid),
            posted => posted == uid,
        };
        let placed = self.is_placed(&far.params, span);
        named && placed && deal.limits.contain(len(span))
    }

    /// Both windows are there: the pair is made.
    fn commit(&mut self, deal: &Deal, uid: u32, yours: Option<Span>, host: &mut impl Host) {
        let own = find(&self.own, deal.own);
        let Some((had, wanted)) = own.map(|own| (own.uid, own.params.uid)) else {
            return;
        };
        let unposted = own.is_some_and(Own::asks);
        let own_uid = match had {
            0 => self.free_uid(wanted, deal.own),
            had => had,
        };
        let now = self.tick();
        if let Some(mut own) = find_mut(&mut self.own, deal.own) {
            own.uid = own_uid;
        }
        if deal.held {
            self.settled(Side::Own, deal.own);
            self.settled(Side::Far, deal.far);
        }
        if let Some(mut far) = find_mut(&mut self.far, deal.far) {
            far.uid = uid;
            far.partner = deal.own;
            far.stage = FarStage::Paired {
                local: len(yours),
                remote: len(deal.local),
            };
            far.step = now;
            far.step_is = Step::Paired(Pairing {
                session: deal.far,
                partner: deal.own,
                uid: own_uid,
                unposted,
                answered: deal.held && deal.asks == Side::Far,
                theirs: deal.local,
                yours,
            });
        }
        let pair = Pair {
            partner: deal.far,
            local: deal.local,
            remote: yours,
            partner_closed: false,
        };
        self.paired(deal.own, pair, host);
        host.event(Event::WindowsChanged);
    }

    /// No candidate is left: a request ends or becomes a post, a posted peer stays one.
    fn found_nobody(&mut self, side: Side, session: u32, before: u64, host: &mut impl Host) {
        if before != u64::MAX {
            if self.sweep == Some(before) {
                self.sweep = Some(before.saturating_add(1));
            }
            return;
        }
        if side == Side::Far {
            return self.refuse(session, Why::NoPairing, host);
        }
        let Some(own) = find(&self.own, session) else {
            return;
        };
        if own.params.connection == Connection::Peer {
            return self.post_peer(session, host);
        }
        // If the other host has not the space, that is why (PXI-REQLC-5).
        let there = match self.mode {
            Mode::Loopback => host.largest(),
            _ => self.peer_free,
        };
        let lacks = own.params.is_backed() && own.params.remote.min > there;
        let outcome = match lacks {
            true => Outcome::Space,
            false => Outcome::NoPairing,
        };
        self.fail(session, outcome, host);
    }

    /// A session was closed: if it is being tried, that comes to nothing.
    pub(super) fn abandon(&mut self, side: Side, session: u32, host: &mut impl Host) {
        let is_in = self.deal.as_ref().is_some_and(|deal| match side {
            Side::Own => deal.own == session,
            Side::Far => deal.far == session,
        });
        if is_in {
            self.abandon_deal(host);
        }
    }

    /// Whether a pair of these is being tried.
    pub(super) fn is_tried(&self, own: u32, far: u32) -> bool {
        let deal = self.deal.as_ref().filter(|deal| !deal.dead);
        deal.is_some_and(|deal| deal.own == own && deal.far == far)
    }

    /// Whether memory was cut for an own session that is being tried.
    pub(super) fn has_dealt_memory(&self, own: u32) -> bool {
        let deal = self.deal.as_ref().filter(|deal| !deal.dead);
        deal.is_some_and(|deal| deal.own == own && deal.local.is_some())
    }

    /// The pair that is being tried, if there is one, comes to nothing. The asker still answers.
    pub(super) fn abandon_deal(&mut self, host: &mut impl Host) {
        if let Some(deal) = self.deal.as_mut().filter(|deal| !deal.dead) {
            drop_span(deal.local, host);
            deal.dead = true;
        }
    }
}
