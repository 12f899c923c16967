// SPDX-License-Identifier: GPL-2.0-only

//! Carries out what a link's pairing engine decides: memory, sessions' states, messages.
//!
//! Without memory no two engines come apart. What a message needs is had before the engine hears of
//! it. What the engine has to say stays there until there is a place for it in the outbox. A
//! session that cannot have what is its own, a partner's window or an answer, is closed.

use crate::{
    link::{
        Link,
        Pairing,
        Posted,
        Up, //
    },
    numbered::List,
    outbox::{
        Outbox,
        Waiting, //
    },
    ready,
    session::{
        Partner,
        Session, //
    },
    window::{
        Piece,
        Sent, //
    },
    FUNC, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    error,
    iomem::DeviceRange, //
};
use mp_proto::{
    fabric::Life,
    pairing::{
        message::{
            DataOf,
            Message, //
        },
        terms::{
            Limits,
            Params, //
        },
        Event,
        Host,
        NoAnswer,
        Outcome,
        Refusal, //
    }, //
};
use mp_transport::memory::Memory;

/// Find the piece of this host that starts at `off`.
fn position(pieces: &[Arc<Piece>], off: u64) -> Option<usize> {
    pieces.iter().position(|piece| piece.off() == Some(off))
}

/// No session has the piece there any more; one that the peer was granted is nobody's as long as it may
/// be reached.
fn forget(pieces: &mut KVec<Arc<Piece>>, off: u64) {
    if let Some(at) = position(pieces, off) {
        drop(pieces.remove(at));
    }
}

/// Give memory back that the engine has asked for.
fn give_back(memory: &Memory, pieces: &mut KVec<Arc<Piece>>, off: u64) {
    forget(pieces, off);
    // The engine knows that the peer does not reach it, or never has; if the epoch is over,
    // nothing is left to be done.
    let _ = memory.peer_let_go(FUNC, off);
}

/// Carries out what the engine decides.
pub(crate) struct Desk<'a> {
    engine: &'a mut Pairing,
    host: Carrier<'a>,
}

struct Carrier<'a> {
    link: &'a Link,
    outbox: &'a Arc<Outbox>,
    life: Life,
    memory: &'a Arc<Memory>,
    pieces: &'a mut KVec<Arc<Piece>>,
    data: &'a mut List<Posted>,
    closed: &'a mut List<Session>,
    /// The data behind the message at hand.
    arrived: &'a [u8],
    /// Keeps them, if they are a session's.
    keeps: Option<Arc<Posted>>,
    /// What a client of this host is told by a server of this host.
    answer: Option<&'a [u8]>,
    /// There are pairs that their processes have not been told of, and messages to be sent before.
    has_paired: &'a mut bool,
    is_unsaid: &'a mut bool,
    /// There are sessions that could not have what is their own.
    has_missed: bool,
}

impl<'a> Desk<'a> {
    /// For the engine of `link`, whose other end is reached by `outbox`.
    pub(crate) fn new(link: &'a Link, outbox: &'a Arc<Outbox>, up: &'a mut Up) -> Self {
        let Up {
            life,
            memory,
            engine,
            pieces,
            data,
            closed,
            has_paired,
            is_unsaid,
            ..
        } = up;
        Self {
            engine,
            host: Carrier {
                link,
                outbox,
                life: *life,
                memory,
                pieces,
                data,
                closed,
                arrived: &[],
                keeps: None,
                answer: None,
                has_paired,
                is_unsaid,
                has_missed: false,
            },
        }
    }

    /// Ask for a session.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOSPC`, `EOPNOTSUPP`, `EADDRINUSE`.
    pub(crate) fn request(&mut self, session: &Arc<Session>, params: &Params) -> Result {
        let len = session.data().len();
        self.engine
            .request(session.number(), params, len, &mut self.host)
            .map_err(|refusal| match refusal {
                Refusal::Invalid(_) | Refusal::Number => EINVAL,
                Refusal::Space => ENOSPC,
                Refusal::Unsupported => error::unsupported(),
                Refusal::UidConflict => error::in_use(),
            })
    }

    /// Post a session that was posted in an earlier life of the link.
    pub(crate) fn post_again(&mut self, session: &Arc<Session>) {
        if self.request(session, &session.params()).is_err() {
            // What was there before is not there any more.
            session.forsaken();
        }
    }

    /// Close a session, which had memory if `had_memory`. It may be closed already.
    pub(crate) fn close(&mut self, session: u32, had_memory: bool) {
        // The engine does not know a session whose request it has refused, nor the pairs of
        // earlier lives of the link. What one of these had is free now.
        if self.engine.has(session) {
            let _ = self.engine.close(session, &mut self.host);
        } else if had_memory {
            self.engine.memory_freed(&mut self.host);
        }
    }

    /// Close a session that its process has closed, and keep it as long as the engine has a place
    /// for it: what its user has of these is not free before, nor is the memory that the peer may
    /// reach because of it.
    pub(crate) fn close_for_good(&mut self, session: &Arc<Session>, had_memory: bool) {
        let number = session.number();
        if self.engine.has(number) {
            // There is room for it: see `Up`.
            let _ = self.host.closed.enter(session.clone());
        }
        self.close(number, had_memory);
        if !self.engine.has_memory(number) {
            session.give_memory_back();
        }
    }

    /// Accept the request that a server has at hand, or reject it for a reason.
    ///
    /// # Errors
    ///
    /// `ECONNRESET` if there is none, `EBUSY` if it has been accepted.
    pub(crate) fn answer(&mut self, server: u32, reason: Option<u32>, data: &'a [u8]) -> Result {
        if self.host.link.is_loopback() {
            // No message carries it.
            self.host.answer = Some(data);
        }
        let answered = match reason {
            None => self.engine.accept(server, &mut self.host),
            Some(reason) => self.engine.reject(server, reason, &mut self.host),
        };
        answered.map_err(|why| match why {
            NoAnswer::Nothing => error::reset(),
            NoAnswer::Busy => EBUSY,
        })
    }

    /// Deal with a message of the other engine, and the window data behind it.
    ///
    /// # Errors
    ///
    /// `EPROTO` if it cannot be. `ENOMEM`: nothing has happened, and it is to be tried again.
    pub(crate) fn receive(&mut self, data: &'a [u8]) -> Result {
        let (message, rest) = Message::split(data).ok_or_else(error::protocol)?;
        if message.data_of().is_none() && !rest.is_empty() {
            return Err(error::protocol());
        }
        self.host.keeps = match message.introduces() {
            Some(session) => Some(self.host.keep(session, rest)?),
            None => None,
        };
        self.host.arrived = rest;
        let received = self.engine.receive(&message, &mut self.host);
        self.host.arrived = &[];
        received.map_err(|_| error::protocol())
    }

    /// Let the engine go on with what it has left.
    pub(crate) fn resume(&mut self) {
        self.engine.resume(&mut self.host);
    }

    /// Send what the engine has to say, and then tell processes of their partners: what
    /// these signal comes behind the message that makes the pair. What there is no memory for waits,
    /// and the link's worker goes on with it.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: the peer takes nothing.
    pub(crate) fn finish(mut self) -> Result {
        self.close_missed();
        let said = self.say();
        *self.host.is_unsaid = said.is_err();
        if said.is_err() {
            self.host.outbox.shortage().note();
            self.host.outbox.resume_later();
        } else if core::mem::replace(self.host.has_paired, false) {
            self.host.link.announce();
        }
        if self.engine.is_unfinished() {
            self.host.outbox.resume_soon();
        }
        match said {
            Err(e) if e == ENOMEM => Ok(()),
            said => said,
        }
    }

    /// Close the sessions that could not have what is their own. Their partners hear that they have
    /// gone.
    fn close_missed(&mut self) {
        let link = self.host.link;
        while core::mem::replace(&mut self.host.has_missed, false) {
            link.for_each_session(|session| {
                if session.is_missed() {
                    self.close(session.number(), false);
                }
            });
        }
    }

    /// Say what there is a place for.
    fn say(&mut self) -> Result {
        loop {
            let outbox = self.host.outbox;
            outbox.hold_another()?;
            let Some(message) = self.engine.poll(&mut self.host) else {
                outbox.give_back();
                return Ok(());
            };
            let data = self.host.data_of(&message);
            outbox.say(Waiting::Pairing(self.host.life, message, data))?;
        }
    }
}

impl Carrier<'_> {
    /// The data behind a message.
    fn data_of(&self, message: &Message) -> Option<Arc<KVec<u8>>> {
        match message.data_of()? {
            DataOf::Session(number) => Some(self.link.session(number)?.data().clone()),
            DataOf::Answer(number) => self.link.session(number)?.answer_data(),
        }
    }

    fn paired(
        &mut self,
        session: u32,
        partner: u32,
        local: Option<u64>,
        remote: Option<(u64, u64)>,
    ) -> Result {
        let piece = local.and_then(|off| position(self.pieces, off));
        let local = piece.and_then(|at| self.pieces.remove(at).ok());
        let remote = match remote {
            Some((off, len)) => Some(Arc::new(self.remote(off, len)?, GFP_KERNEL)?),
            None => None,
        };
        if let Some(session) = self.link.session(session) {
            if !session.knows_partner() {
                self.with_data_of(partner, |data| {
                    session.meet(self.link.peer_id(), data, Default::default())
                })?;
            }
            let way = Partner::new(self.outbox.clone(), self.life, partner);
            session.pair(partner, local, remote, way);
            *self.has_paired = true;
        }
        Ok(())
    }

    /// Memory of the other host, which the engine has seen to lie in its arena.
    fn remote(&self, off: u64, len: u64) -> Result<Piece> {
        Ok(match self.link.is_routed() {
            true => Piece::Sent(Sent {
                life: self.life,
                off,
                len,
            }),
            false => Piece::Remote(self.memory.reach(off, len)?),
        })
    }

    /// Call `f` with the data of a session of the other host, or of another one of this host.
    fn with_data_of<R>(&self, session: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        if self.link.is_loopback() {
            let session = self.link.session(session);
            return f(session.as_ref().map_or(&[][..], |session| session.data()));
        }
        let known = self.data.get(&session);
        f(known.map_or(&[][..], |posted| &posted.data))
    }

    fn asked(&mut self, server: u32, client: u32, local: Limits, remote: Limits) -> Result {
        let Some(server) = self.link.session(server) else {
            return Ok(());
        };
        self.with_data_of(client, |data| {
            server.asked(self.link.peer_id(), data, (local, remote))
        })
    }

    fn answered(&mut self, client: u32) -> Result {
        let data = self.answer.take().unwrap_or(self.arrived);
        let Some(client) = self.link.session(client) else {
            return Ok(());
        };
        client.meet(self.link.peer_id(), data, Default::default())
    }

    /// A session could not have what is its own: it is closed behind what the engine does now.
    fn miss(&mut self, session: u32, error: Error) {
        self.has_missed = true;
        self.with_session(session, |session| session.miss(error));
    }

    fn with_session(&self, number: u32, f: impl FnOnce(&Session)) {
        if let Some(session) = self.link.session(number) {
            f(&session);
        }
    }

    /// What keeps the data of a session of the other host, for which there is a place.
    fn keep(&mut self, session: u32, arrived: &[u8]) -> Result<Arc<Posted>> {
        let mut data = KVec::with_capacity(arrived.len(), GFP_KERNEL)?;
        data.extend_from_slice(arrived, GFP_KERNEL)?;
        self.data.reserve()?;
        Ok(Arc::new(Posted { session, data }, GFP_KERNEL)?)
    }

    fn forget(&mut self, session: u32) {
        drop(self.data.remove(&session));
    }

    fn cut(&mut self, session: u32, len: u64) -> Result<u64> {
        let session = self.link.session(session).ok_or(ENOENT)?;
        let local = self.memory.alloc_charged(len, session.charge())?;
        let off = local.off();
        let piece = Arc::new(Piece::Local(local), GFP_KERNEL)?;
        self.pieces.reserve(1, GFP_KERNEL)?;
        // The peer may be told from here on: what is dropped now waits for it.
        if let Piece::Local(local) = &*piece {
            self.memory.grant(FUNC, local)?;
        }
        self.pieces.push(piece, GFP_KERNEL)?;
        Ok(off)
    }
}

/// Physical memory of a server's session.
///
/// # Errors
///
/// Those of [`DeviceRange::new`].
pub(crate) fn range_of_session(address: u64, len: u64) -> Result<DeviceRange> {
    // SAFETY: An address of a session of this host, whose process might name it when it
    // opened the session.
    unsafe { DeviceRange::new(address, len) }
}

impl Carrier<'_> {
    fn lead(&mut self, address: u64, len: u64) -> Result<u64> {
        self.pieces.reserve(1, GFP_KERNEL)?;
        let range = range_of_session(address, len)?;
        let exposure = self.memory.expose(FUNC, &range)?;
        let off = exposure.off();
        let piece = Arc::new(Piece::Exposed(exposure), GFP_KERNEL);
        let piece = piece.inspect_err(|_| {
            // The peer has not been told of it.
            let _ = self.memory.peer_let_go(FUNC, off);
        })?;
        self.pieces.push(piece, GFP_KERNEL)?;
        Ok(off)
    }
}

impl Host for Carrier<'_> {
    fn runs(&self) -> [u64; 2] {
        self.memory.free_runs()
    }

    fn alloc(&mut self, session: u32, len: u64) -> Option<u64> {
        self.cut(session, len).ok()
    }

    fn expose(&mut self, address: u64, len: u64) -> Option<u64> {
        self.lead(address, len).ok()
    }

    fn free(&mut self, off: u64) {
        give_back(self.memory, self.pieces, off);
    }

    fn retire(&mut self, _off: u64) {
        // The session has dropped the piece before: it is in quarantine.
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Requested {
                session,
                uid,
                outcome,
            } => {
                let Some(session) = self.link.session(session) else {
                    return;
                };
                match outcome {
                    Outcome::Posted => session.answer(Ok(uid)),
                    Outcome::Paired => session.name(uid),
                    Outcome::NoPairing => session.answer(Err(error::refused())),
                    Outcome::UidConflict => session.answer(Err(error::in_use())),
                    Outcome::Space => session.answer(Err(ENOSPC)),
                }
            }
            Event::Paired {
                session,
                partner,
                local,
                remote,
            } => {
                let local = local.map(|span| span.off);
                let remote = remote.map(|span| (span.off, span.len));
                if let Err(e) = self.paired(session, partner, local, remote) {
                    self.miss(session, e);
                }
            }
            Event::PartnerClosed { session } => {
                if let Some(session) = self.link.session(session) {
                    session.forsaken();
                }
            }
            Event::Released { session } => drop(self.closed.remove(&session)),
            Event::Announced { session } => {
                self.forget(session);
                if let Some(posted) = self.keeps.take_if(|posted| posted.session == session) {
                    // There is a place for it.
                    let _ = self.data.enter(posted);
                }
            }
            Event::Forgotten { session } => self.forget(session),
            Event::WindowsChanged => self.link.tell(ready::WINDOWS),
            Event::Asked {
                session,
                client,
                local,
                remote,
            } => {
                if let Err(e) = self.asked(session, client, local, remote) {
                    self.miss(session, e);
                }
            }
            Event::Answered { session } => {
                if let Err(e) = self.answered(session) {
                    self.miss(session, e);
                }
            }
            Event::Held { session } => self.with_session(session, Session::held),
            Event::Withdrawn { session } => {
                self.with_session(session, |session| session.withdrawn(error::reset()));
            }
            Event::Unable { session } => {
                self.with_session(session, |session| {
                    session.answer_accepted(ENOSPC.to_errno());
                });
            }
            Event::Refused { session, reason } => {
                self.with_session(session, |session| session.refused(reason));
            }
            Event::Spent { session } => self.with_session(session, Session::spend),
        }
    }
}

/// Ends what sessions have in a life of the link.
pub(crate) struct Ending<'a> {
    pub(crate) memory: &'a Arc<Memory>,
    pub(crate) pieces: &'a mut KVec<Arc<Piece>>,
    /// The peer's processes reach nothing of it any more. Else what they were granted is nobody's until
    /// the next epoch begins, whatever the engine knows.
    pub(crate) has_let_go: bool,
}

impl Host for Ending<'_> {
    fn runs(&self) -> [u64; 2] {
        [0; 2]
    }

    fn alloc(&mut self, _session: u32, _len: u64) -> Option<u64> {
        None
    }

    fn expose(&mut self, _address: u64, _len: u64) -> Option<u64> {
        None
    }

    fn free(&mut self, off: u64) {
        match self.has_let_go {
            true => give_back(self.memory, self.pieces, off),
            false => forget(self.pieces, off),
        }
    }

    fn retire(&mut self, _off: u64) {}

    fn event(&mut self, _event: Event) {}
}
