// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the arbiter's messages do: the asker takes memory when it is told to, keeps it until the
//! arbiter has decided, and believes a pair only if it suits what both sessions asked for.

use crate::pairing::message::Pairing;
use crate::pairing::table::{Far, FarStage, Hold, Own, Pair, Stage};
use crate::pairing::terms::{agree, len, Connection, Limits, Params};
use crate::pairing::{drop_span, grab, Corrupt, Engine, Event, Host};
use crate::rows::{find, find_mut, Table};

impl<O: Table<Own>, F: Table<Far>> Engine<O, F> {
    /// The arbiter wants the window of an own session. It may have been closed meanwhile; then
    /// there is none.
    pub(super) fn hear_reserve(
        &mut self,
        session: u32,
        limits: Limits,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        let own = find(&self.own, session).ok_or(Corrupt)?;
        let may_be = match own.stage {
            Stage::Asking | Stage::Held(_) => own.ask == 0,
            Stage::Posting => own.closed,
            Stage::Open => true,
            Stage::Paired(_) | Stage::Over => false,
        };
        let wanted = own.params.local;
        let in_order = wanted.min <= limits.min && limits.min <= limits.max;
        if !may_be || own.answer != 0 || !in_order || limits.max > wanted.max {
            return Err(Corrupt);
        }
        let (params, hold, closed) = (own.params, own.hold, own.closed);
        let had = own.uid;
        if let Hold::Window(span) = hold {
            drop_span(span, host);
        }
        let hold = match closed {
            true => Hold::Denied,
            false => grab((session, &params), limits, host).map_or(Hold::Denied, Hold::Window),
        };
        let uid = match had {
            0 if hold != Hold::Denied => self.free_uid(params.uid, session),
            uid => uid,
        };
        let now = self.tick();
        if let Some(mut own) = find_mut(&mut self.own, session) {
            own.hold = hold;
            own.uid = uid;
            own.answer = now;
        }
        Ok(())
    }

    /// The arbiter does not need a posted session's window after all.
    pub(super) fn hear_release(
        &mut self,
        session: u32,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        let mut own = find_mut(&mut self.own, session).ok_or(Corrupt)?;
        let Hold::Window(span) = own.hold else {
            return Err(Corrupt);
        };
        if own.answer != 0 || matches!(own.stage, Stage::Asking | Stage::Held(_)) {
            return Err(Corrupt);
        }
        drop_span(span, host);
        own.hold = Hold::Nothing;
        Ok(())
    }

    /// The arbiter has made a pair. The own session may have been closed meanwhile; then it is a
    /// pair of which one is closed.
    pub(super) fn hear_paired(
        &mut self,
        pairing: &Pairing,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        let own = find(&self.own, pairing.session).ok_or(Corrupt)?;
        let held = own.hold == Hold::Window(pairing.yours) && own.answer == 0;
        if !held || !self.suits(own, pairing) {
            return Err(Corrupt);
        }
        let (params, closed) = (own.params, own.closed);
        if pairing.answered && !closed {
            let session = pairing.session;
            host.event(Event::Answered { session });
        }
        if pairing.unposted {
            let far = unposted(pairing, &params);
            self.far.insert(far).ok_or(Corrupt)?;
            let session = pairing.partner;
            host.event(Event::Announced { session });
        }
        if let Some(mut far) = find_mut(&mut self.far, pairing.partner) {
            far.partner = pairing.session;
            far.uid = pairing.uid;
            far.stage = FarStage::Paired {
                local: len(pairing.theirs),
                remote: len(pairing.yours),
            };
        }
        if let Some(mut own) = find_mut(&mut self.own, pairing.session) {
            own.hold = Hold::Nothing;
            (own.client, own.accepted) = (None, 0);
        }
        if let Some(span) = pairing.yours.filter(|_| closed) {
            host.retire(span.off);
        }
        let pair = Pair {
            partner: pairing.partner,
            local: pairing.yours,
            remote: pairing.theirs,
            partner_closed: false,
        };
        self.paired(pairing.session, pair, host);
        host.event(Event::WindowsChanged);
        Ok(())
    }

    /// Whether a pairing is one that the sessions' parameters and the peer's memory allow.
    fn suits(&self, own: &Own, pairing: &Pairing) -> bool {
        let (theirs, yours) = (len(pairing.theirs), len(pairing.yours));
        let partner = find(&self.far, pairing.partner);
        let asked = matches!(own.stage, Stage::Asking | Stage::Held(_));
        if pairing.answered && own.params.connection != Connection::Client {
            return false;
        }
        let params = match partner {
            Some(far) if own.params.hold => {
                let accepted = own.client == Some(far.number) && own.accepted != 0;
                if !accepted || far.stage != FarStage::Held(own.number) || pairing.unposted {
                    return false;
                }
                if !self.is_new_uid(pairing.uid) {
                    return false;
                }
                far.params
            }
            None if own.params.hold => return false,
            Some(far) => {
                let open = far.stage == FarStage::Open && far.uid == pairing.uid;
                if !open || pairing.unposted {
                    return false;
                }
                far.params
            }
            None => {
                let serves = own.params.connection != Connection::Client;
                let named = pairing.partner != 0 && self.is_new_uid(pairing.uid);
                if !pairing.unposted || !named || !serves {
                    return false;
                }
                unposted(pairing, &own.params).params
            }
        };
        let named = own.params.uid == 0 || own.params.uid == pairing.uid;
        let placed = self.is_placed(&params, pairing.theirs);
        let sized = agree(&own.params, &params)
            .is_some_and(|terms| terms.remote.contain(theirs) && terms.local.contain(yours));
        let windows = own.params.bare || theirs != 0 || yours != 0;
        (named || !asked) && placed && sized && windows
    }
}

/// The arbiter's session that was not posted: what can be said of it from the pair it is in.
fn unposted(pairing: &Pairing, own: &Params) -> Far {
    let connection = match own.connection {
        Connection::Server => Connection::Client,
        Connection::Client => Connection::Server,
        Connection::Peer => Connection::Peer,
    };
    let params = Params {
        connection,
        location: own.location,
        protocol: own.protocol,
        uid: 0,
        local: Limits::exactly(len(pairing.theirs)),
        remote: Limits::exactly(len(pairing.yours)),
        address: 0,
        address_bits: 64,
        name: own.name.of_partner(),
        hold: false,
        once: false,
        bare: own.bare,
    };
    Far::new(pairing.partner, &params, pairing.uid, FarStage::Open)
}
