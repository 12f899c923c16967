// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Requests that a server's owner answers. The owner sees who asks, and accepts or rejects; only then
//! is the pair tried. One request is at hand at a time.

use crate::pairing::message::Why;
use crate::pairing::table::{Far, FarStage, Hold, Own, Stage, Step, SERVER};
use crate::pairing::terms::{agree, Connection, Params};
use crate::pairing::{drop_span, Corrupt, Engine, Event, Host, Mode, Side};
use crate::rows::{find, find_mut, Table};

/// Why a request cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The server has no request at hand, or does not exist.
    Nothing,
    /// It has been accepted already.
    Busy,
}

impl<O: Table<Own>, F: Table<Far>> Engine<O, F> {
    /// Accept the request that a server has at hand. Ends with [`Event::Paired`],
    /// [`Event::Unable`] or [`Event::Withdrawn`], which may be before this returns.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn accept(&mut self, session: u32, host: &mut impl Host) -> Result<(), NoAnswer> {
        let client = self.at_hand(session)?;
        let now = self.tick();
        let is_asker = self.mode == Mode::Asker;
        if let Some(mut own) = find_mut(&mut self.own, session) {
            own.accepted = now;
            if is_asker {
                own.verdict = now;
            }
        }
        if self.mode == Mode::Loopback {
            host.event(Event::Answered { session: client });
        }
        self.run(host);
        Ok(())
    }

    /// Reject the request that a server has at hand.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn reject(
        &mut self,
        session: u32,
        reason: u32,
        host: &mut impl Host,
    ) -> Result<(), NoAnswer> {
        let client = self.at_hand(session)?;
        let now = self.tick();
        let mode = self.mode;
        if let Some(mut own) = find_mut(&mut self.own, session) {
            own.client = None;
            if mode == Mode::Asker {
                own.verdict = now;
                own.rejects = Some((client, reason));
            }
        }
        match mode {
            Mode::Loopback => {
                host.event(Event::Answered { session: client });
                self.refused(client, Some(reason), host);
            }
            Mode::Arbiter => {
                let server = session;
                self.refuse(client, Why::Rejected { server, reason }, host);
            }
            Mode::Asker => self.drop_far(client, host),
        }
        self.spend(session, host);
        self.run(host);
        Ok(())
    }

    /// The client whose request a server has at hand, and has not accepted.
    fn at_hand(&self, session: u32) -> Result<u32, NoAnswer> {
        let own = find(&self.own, session).filter(|own| self.is_open(own));
        let own = own.ok_or(NoAnswer::Nothing)?;
        let client = own.client.ok_or(NoAnswer::Nothing)?;
        match own.accepted {
            0 => Ok(client),
            _ => Err(NoAnswer::Busy),
        }
    }

    fn is_open(&self, own: &Own) -> bool {
        own.stage == Stage::Open && !own.closed
    }

    /// Bring the request of a client to a server that answers itself.
    pub(super) fn hold(&mut self, side: Side, client: u32, server: u32, host: &mut impl Host) {
        let now = self.tick();
        if side == Side::Far {
            let params = self.far.change(client, |far| {
                far.stage = FarStage::Held(server);
                far.notice = now;
                // What was reserved for another pair is released with this.
                far.step = 0;
                far.params
            });
            if let Some(params) = params {
                self.asked(server, client, &params, host);
            }
            return;
        }
        let Some(mut own) = find_mut(&mut self.own, client) else {
            return;
        };
        own.stage = Stage::Held(server);
        if self.mode == Mode::Loopback {
            let params = own.params;
            drop(own);
            self.asked(server, client, &params, host);
        } else {
            own.ask = now;
            drop(own);
            if let Some(mut far) = find_mut(&mut self.far, server) {
                (far.client, far.accepted) = (client, 0);
            }
        }
        host.event(Event::Held { session: client });
    }

    /// A server has the request of a client at hand.
    fn asked(&mut self, server: u32, client: u32, params: &Params, host: &mut impl Host) {
        if let Some(mut own) = find_mut(&mut self.own, server) {
            (own.client, own.accepted) = (Some(client), 0);
            host.event(Event::Asked {
                session: server,
                client,
                local: params.local,
                remote: params.remote,
            });
        }
    }

    /// Whether an own server has the request of that client.
    pub(super) fn has_client(&self, server: u32, client: u32) -> bool {
        let own = find(&self.own, server);
        own.is_some_and(|own| self.is_open(own) && own.client == Some(client))
    }

    /// Whether a client of the other host, if it is held, has a server that is open.
    pub(super) fn is_served(&self, far: &Far) -> bool {
        match far.stage {
            FarStage::Held(server) => {
                self.mode == Mode::Arbiter || self.has_client(server, far.number)
            }
            _ => true,
        }
    }

    /// The client that a server has accepted.
    pub(super) fn accepted_by(&self, side: Side, server: u32) -> Option<u32> {
        match side {
            Side::Own => find(&self.own, server)?.client,
            Side::Far => {
                let far = find(&self.far, server)?;
                (far.client != 0).then_some(far.client)
            }
        }
    }

    /// What a server has accepted is a pair now.
    pub(super) fn settled(&mut self, side: Side, server: u32) {
        match side {
            Side::Own => {
                if let Some(mut own) = find_mut(&mut self.own, server) {
                    (own.client, own.accepted) = (None, 0);
                }
            }
            Side::Far => {
                if let Some(mut far) = find_mut(&mut self.far, server) {
                    (far.client, far.accepted) = (0, 0);
                }
            }
        }
    }

    /// There is not the space for what a server has accepted.
    pub(super) fn unable(&mut self, side: Side, server: u32, host: &mut impl Host) {
        let now = self.tick();
        match side {
            Side::Own => {
                if let Some(mut own) = find_mut(&mut self.own, server) {
                    own.accepted = 0;
                    host.event(Event::Unable { session: server });
                }
            }
            Side::Far => {
                if let Some(mut far) = find_mut(&mut self.far, server) {
                    far.accepted = 0;
                    far.step = now;
                    far.step_is = Step::Unable;
                }
            }
        }
    }

    /// A client's request has ended without a partner; the session does not exist any more.
    pub(super) fn refused(&mut self, session: u32, reason: Option<u32>, host: &mut impl Host) {
        self.own.remove(session);
        host.event(Event::Refused { session, reason });
    }

    /// A client has withdrawn its request, which an own server had at hand.
    pub(super) fn withdrawn(&mut self, server: u32, client: u32, host: &mut impl Host) {
        let has = self.has_client(server, client);
        let own = find_mut(&mut self.own, server);
        let Some(mut own) = own.filter(|own| own.client == Some(client)) else {
            return;
        };
        (own.client, own.accepted, own.verdict) = (None, 0, 0);
        drop(own);
        if has {
            host.event(Event::Withdrawn { session: server });
            self.spend(server, host);
        }
    }

    /// A server whose only request came to nothing is over.
    fn spend(&mut self, server: u32, host: &mut impl Host) {
        let own = find(&self.own, server);
        if !own.is_some_and(|own| own.params.once && self.is_open(own)) {
            return;
        }
        host.event(Event::Spent { session: server });
        // It is open.
        let _ = self.close(server, host);
    }

    /// A session of the other host has closed: own clients whose request it had end, also those
    /// that are closed, as their CLOSE will not be answered.
    pub(super) fn server_left(&mut self, server: u32, host: &mut impl Host) {
        let server = u64::from(server);
        while let Some((key, own)) = self.own.first(SERVER, (server, 0)) {
            if key.0 != server {
                break;
            }
            let client = own.number;
            if own.closed {
                self.own.change(client, |own| own.stage = Stage::Over);
                self.bury_own(client, host);
            } else {
                self.refused(client, None, host);
            }
        }
    }

    /// An own session has been closed in that stage: its request leaves its server, and the
    /// request that it had is refused.
    pub(super) fn leave_request(&mut self, session: u32, stage: Stage, host: &mut impl Host) {
        if let Stage::Held(server) = stage {
            match self.mode {
                Mode::Loopback => self.withdrawn(server, session, host),
                _ => {
                    let far = find_mut(&mut self.far, server);
                    if let Some(mut far) = far.filter(|far| far.client == session) {
                        (far.client, far.accepted) = (0, 0);
                    }
                }
            }
        }
        let own = find(&self.own, session);
        let Some(client) = own.and_then(|own| own.client) else {
            return;
        };
        match self.mode {
            Mode::Loopback => self.refused(client, None, host),
            // What the asker reserves is released with the refusal, after its answer.
            Mode::Arbiter if self.is_tried(session, client) => {}
            Mode::Arbiter => self.refuse(client, Why::Gone, host),
            // The arbiter may have made the pair meanwhile.
            Mode::Asker => {}
        }
    }

    /// The arbiter has heard that an own server is closed: what is left of its request goes.
    pub(super) fn forget_client(&mut self, server: u32, host: &mut impl Host) {
        let own = find_mut(&mut self.own, server);
        let client = own.and_then(|mut own| own.client.take());
        let far = client.and_then(|client| find(&self.far, client));
        if let Some(far) = far.filter(|far| far.stage == FarStage::Held(server)) {
            self.drop_far(far.number, host);
        }
    }

    /// Forget a client of the other host at once: that hears of it by other ways.
    fn drop_far(&mut self, client: u32, host: &mut impl Host) {
        self.far.remove(client);
        host.event(Event::Forgotten { session: client });
    }

    /// A client of the arbiter's asks an own server. That may have been closed meanwhile.
    pub(super) fn hear_ask(
        &mut self,
        session: u32,
        params: &Params,
        server: u32,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        let own = find(&self.own, server).ok_or(Corrupt)?;
        let fits = own.params.hold && agree(params, &own.params).is_some();
        let is_client = params.connection == Connection::Client;
        if own.stage != Stage::Open || !fits || !is_client || !self.is_new(session, params) {
            return Err(Corrupt);
        }
        if own.closed {
            return Ok(());
        }
        if own.client.is_some() || own.rejects.is_some() {
            return Err(Corrupt);
        }
        let mut far = Far::new(session, params, 0, FarStage::Held(server));
        far.order = self.tick();
        self.far.insert(far).ok_or(Corrupt)?;
        host.event(Event::Announced { session });
        self.asked(server, session, params, host);
        Ok(())
    }

    /// The request of an own client waits for an answer.
    pub(super) fn hear_held(&mut self, session: u32, host: &mut impl Host) -> Result<(), Corrupt> {
        let own = find_mut(&mut self.own, session);
        let own = own.filter(|own| own.stage == Stage::Asking && own.ask == 0);
        let own = own.filter(|own| own.params.connection == Connection::Client);
        let mut own = own.ok_or(Corrupt)?;
        if own.answer != 0 {
            return Err(Corrupt);
        }
        if let Hold::Window(span) = own.hold {
            drop_span(span, host);
        }
        own.hold = Hold::Nothing;
        own.stage = Stage::Held(0);
        if !own.closed {
            host.event(Event::Held { session });
        }
        Ok(())
    }

    /// Whether an own client is held by that server of the other host, and is not closed.
    fn held_by(&self, client: u32, server: u32) -> Result<bool, Corrupt> {
        let own = find(&self.own, client);
        let own = own.filter(|own| own.stage == Stage::Held(server) && own.ask == 0);
        own.map(|own| !own.closed).ok_or(Corrupt)
    }

    /// A server of the asker's has accepted an own client, which may have been closed meanwhile.
    pub(super) fn hear_accept(
        &mut self,
        server: u32,
        client: u32,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        if !self.held_by(client, server)? {
            return Ok(());
        }
        let now = self.tick();
        let far = find_mut(&mut self.far, server);
        let far = far.filter(|far| far.client == client && far.accepted == 0);
        far.ok_or(Corrupt)?.accepted = now;
        host.event(Event::Answered { session: client });
        Ok(())
    }

    /// A server of the asker's has rejected an own client.
    pub(super) fn hear_reject(
        &mut self,
        server: u32,
        client: u32,
        reason: u32,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        if !self.held_by(client, server)? {
            if let Some(mut own) = find_mut(&mut self.own, client) {
                own.stage = Stage::Over;
            }
            self.bury_own(client, host);
            return Ok(());
        }
        let far = find_mut(&mut self.far, server);
        let far = far.filter(|far| far.client == client && far.accepted == 0);
        far.ok_or(Corrupt)?.client = 0;
        host.event(Event::Answered { session: client });
        self.refused(client, Some(reason), host);
        Ok(())
    }

    /// What an own server has accepted cannot be; the request may have been withdrawn meanwhile,
    /// or the server closed.
    pub(super) fn hear_unable(
        &mut self,
        session: u32,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        let mut own = find_mut(&mut self.own, session).ok_or(Corrupt)?;
        let is_waiting = own.client.is_some() && own.accepted != 0 && own.verdict == 0;
        if own.stage != Stage::Open || !is_waiting || own.answer != 0 {
            return Err(Corrupt);
        }
        if let Hold::Window(span) = own.hold {
            drop_span(span, host);
        }
        own.hold = Hold::Nothing;
        own.accepted = 0;
        if !own.closed {
            host.event(Event::Unable { session });
        }
        Ok(())
    }
}
