// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a message of the other engine does. Each is checked completely before anything is changed.

use crate::pairing::message::{Message, What, Why};
use crate::pairing::table::{Answer, Far, FarStage, Hold, Own, Stage, UID};
use crate::pairing::terms::{Connection, Params};
use crate::pairing::{drop_span, Corrupt, Engine, Event, Host, Mode, Outcome, Side};
use crate::rows::{find, find_mut, Table};

impl<O: Table<Own>, F: Table<Far>> Engine<O, F> {
    /// The other engine has said something.
    ///
    /// # Errors
    /// [`Corrupt`] if it cannot have said that; the epoch must end.
    pub fn receive(&mut self, message: &Message, host: &mut impl Host) -> Result<(), Corrupt> {
        let to_arbiter = matches!(
            message.what,
            What::Request(..)
                | What::Reserved(..)
                | What::Freed
                | What::Accept(..)
                | What::Reject(..)
        );
        let to_asker = matches!(
            message.what,
            What::Reserve(..)
                | What::Paired(_)
                | What::Release(_)
                | What::Ask(..)
                | What::Held(_)
                | What::Unable(_)
        );
        match self.mode {
            Mode::Loopback => return Err(Corrupt),
            Mode::Arbiter if to_asker => return Err(Corrupt),
            Mode::Asker if to_arbiter => return Err(Corrupt),
            _ => {}
        }
        let free = message.free.min(self.peer_size);
        if free > self.peer_free || message.what == What::Freed {
            self.sweep_all();
        }
        self.peer_free = free;
        match &message.what {
            What::Post(session, params, uid) => self.hear_post(*session, params, *uid, host),
            What::Posted(session) => self.hear_posted(*session, host),
            What::Request(session, params) => self.hear_request(*session, params, host),
            What::Reserve(session, limits) => self.hear_reserve(*session, *limits, host),
            What::Reserved(session, granted) => self.hear_reserved(*session, *granted, host),
            What::Paired(pairing) => self.hear_paired(pairing, host),
            What::Release(session) => self.hear_release(*session, host),
            What::Refused(session, why) => self.hear_refused(*session, *why, host),
            What::Close(session) => self.hear_close(*session, host),
            What::Closed(session) => self.hear_closed(*session, host),
            What::Freed => Ok(()),
            What::Ask(session, params, server) => self.hear_ask(*session, params, *server, host),
            What::Held(session) => self.hear_held(*session, host),
            What::Accept(session, client) => self.hear_accept(*session, *client, host),
            What::Reject(session, client, reason) => {
                self.hear_reject(*session, *client, *reason, host)
            }
            What::Unable(session) => self.hear_unable(*session, host),
        }?;
        self.run(host);
        Ok(())
    }

    fn hear_post(
        &mut self,
        session: u32,
        params: &Params,
        uid: u32,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        let posted = params.connection != Connection::Client;
        let named = params.uid == 0 || params.uid == uid;
        if !posted || !named || !self.is_new(session, params) || !self.is_new_uid(uid) {
            return Err(Corrupt);
        }
        let mut far = Far::new(session, params, uid, FarStage::Open);
        far.order = self.tick();
        far.answer = far.order;
        // The memory is this host's, and so is the check (PXI-REQLS-6).
        let fits = !params.is_backed() || params.remote.min <= host.largest();
        if !fits {
            far.stage = FarStage::Gone;
            far.answer_is = Answer::Refused(Why::Space);
        }
        self.far.insert(far).ok_or(Corrupt)?;
        if fits {
            host.event(Event::Announced { session });
            host.event(Event::WindowsChanged);
            if params.connection == Connection::Peer {
                self.sweep_from(far.order);
            }
        }
        Ok(())
    }

    fn hear_request(
        &mut self,
        session: u32,
        params: &Params,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        if params.connection == Connection::Server || !self.is_new(session, params) {
            return Err(Corrupt);
        }
        let mut far = Far::new(session, params, 0, FarStage::Asking);
        far.order = self.tick();
        self.far.insert(far).ok_or(Corrupt)?;
        host.event(Event::Announced { session });
        Ok(())
    }

    fn hear_posted(&mut self, session: u32, host: &mut impl Host) -> Result<(), Corrupt> {
        let now = self.tick();
        let own = find_mut(&mut self.own, session);
        let own = own.filter(|own| own.stage == Stage::Posting && own.ask == 0);
        let mut own = own.ok_or(Corrupt)?;
        own.stage = Stage::Open;
        own.order = now;
        if own.closed {
            return Ok(());
        }
        let (uid, is_peer) = (own.uid, own.params.connection == Connection::Peer);
        drop(own);
        host.event(Event::Requested {
            session,
            uid,
            outcome: Outcome::Posted,
        });
        if is_peer {
            self.sweep_from(now);
        }
        Ok(())
    }

    fn hear_refused(
        &mut self,
        session: u32,
        why: Why,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        let mut own = find_mut(&mut self.own, session).ok_or(Corrupt)?;
        let asks = matches!(own.stage, Stage::Asking | Stage::Held(_));
        let asked = self.mode == Mode::Asker && asks;
        let posted = own.stage == Stage::Posting && why == Why::Space;
        if !asked && !posted || own.ask != 0 || own.answer != 0 {
            return Err(Corrupt);
        }
        if let Hold::Window(span) = own.hold {
            drop_span(span, host);
        }
        own.hold = Hold::Nothing;
        let is_closed = own.closed;
        if is_closed {
            own.stage = Stage::Over;
        }
        let is_peer = own.params.connection == Connection::Peer;
        let is_held = own.is_held();
        drop(own);
        if is_closed {
            self.bury_own(session, host);
            return Ok(());
        }
        match why {
            Why::Rejected { reason, .. } if is_held => {
                host.event(Event::Answered { session });
                self.refused(session, Some(reason), host);
            }
            _ if is_held => self.refused(session, None, host),
            Why::Rejected { .. } | Why::Gone => self.fail(session, Outcome::NoPairing, host),
            Why::Space => self.fail(session, Outcome::Space, host),
            Why::NoPairing if is_peer => self.post_peer(session, host),
            Why::NoPairing => self.fail(session, Outcome::NoPairing, host),
        }
        Ok(())
    }

    fn hear_close(&mut self, session: u32, host: &mut impl Host) -> Result<(), Corrupt> {
        let now = self.tick();
        let served = find(&self.far, session).is_some_and(|far| self.is_served(far));
        let Some(mut far) = find_mut(&mut self.far, session) else {
            // It crossed the refusal of a session that was forgotten with it.
            return Ok(());
        };
        let (stage, listed, partner) = (far.stage, far.is_listed(), far.partner);
        (far.client, far.accepted) = (0, 0);
        match stage {
            FarStage::Gone if far.answer == 0 || far.answer_is == Answer::Closed => {
                return Err(Corrupt);
            }
            FarStage::Paired { .. } => {}
            // The server has closed before: the other host hears of that, and of no more.
            FarStage::Held(_) if !served => {}
            _ => {
                far.answer = now;
                far.answer_is = Answer::Closed;
            }
        }
        far.stage = FarStage::Gone;
        drop(far);
        match stage {
            FarStage::Gone => {}
            FarStage::Paired { .. } => self.partner_left(partner, host),
            _ => self.abandon(Side::Far, session, host),
        }
        if let FarStage::Held(server) = stage {
            self.withdrawn(server, session, host);
        }
        self.server_left(session, host);
        if stage != FarStage::Gone {
            host.event(Event::Forgotten { session });
        }
        if listed {
            host.event(Event::WindowsChanged);
        }
        self.bury_far(session);
        Ok(())
    }

    fn hear_closed(&mut self, session: u32, host: &mut impl Host) -> Result<(), Corrupt> {
        let mut own = find_mut(&mut self.own, session).ok_or(Corrupt)?;
        let alone = matches!(own.stage, Stage::Asking | Stage::Posting | Stage::Open);
        let alone = alone || matches!(own.stage, Stage::Held(_));
        if !alone || !own.closed || own.close != 0 {
            return Err(Corrupt);
        }
        own.stage = Stage::Over;
        if let Hold::Window(span) = own.hold {
            drop_span(span, host);
            own.hold = Hold::Denied;
        }
        drop(own);
        self.forget_client(session, host);
        self.bury_own(session, host);
        Ok(())
    }

    /// Whether the other host may bring that session to knowledge now.
    pub(super) fn is_new(&self, session: u32, params: &Params) -> bool {
        let unknown = find(&self.far, session).is_none();
        session != 0 && unknown && params.check(0).is_ok()
    }

    /// Whether no listed session of the other host has that identifier.
    pub(super) fn is_new_uid(&self, uid: u32) -> bool {
        let uid = u64::from(uid);
        let listed = self.far.first(UID, (uid, 0));
        uid != 0 && listed.is_none_or(|(key, _)| key.0 != uid)
    }

    /// Forget a session that asked, and tell the other host why.
    pub(super) fn refuse(&mut self, session: u32, why: Why, host: &mut impl Host) {
        let now = self.tick();
        let Some(mut far) = find_mut(&mut self.far, session) else {
            return;
        };
        far.stage = FarStage::Gone;
        far.answer = now;
        far.answer_is = Answer::Refused(why);
        // What is reserved for it is released with this.
        far.step = 0;
        host.event(Event::Forgotten { session });
    }
}
