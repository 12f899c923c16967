// SPDX-License-Identifier: GPL-2.0-only

//! Sessions of a link: what their processes ask for, and how they end.

use super::{
    Core,
    Link,
    Up, //
};
use crate::{
    answer::Acceptance,
    desk::{
        range_of_session,
        Desk, //
    },
    outbox::Outbox,
    session::Session, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::error;
use mp_proto::pairing::terms::{
    Connection as Role,
    Location,
    Params, //
};
use mp_transport::memory::{
    Limits,
    Memory, //
};

impl Link {
    /// Ask for a session; return its identifier when the request has succeeded.
    ///
    /// # Errors
    ///
    /// Those of `MP_IOC_SESSION_OPEN`; the session is closed then.
    pub(crate) fn request(&self, session: &Arc<Session>) -> Result<u32> {
        let asked = self.ask(session).and_then(|()| {
            session.outcome().map_err(|e| match e == ETIMEDOUT {
                // That is the affair of this session: its place is kept until there is an answer.
                true => error::net_down(),
                false => e,
            })
        });
        if asked.is_err() {
            self.end(session);
        }
        asked.map_err(|e| self.reason(e))
    }

    /// Why a request has failed that found no memory or nobody: the link may have ended, of
    /// which this service hears a little after its memory has gone.
    fn reason(&self, found: Error) -> Error {
        if found != ENOSPC && found != error::refused() {
            return found;
        }
        match self.memory().map(|memory| memory.limits()) {
            None => error::net_down(),
            Some(limits) if limits == Limits::default() => error::net_down(),
            Some(_) => found,
        }
    }

    fn ask(&self, session: &Arc<Session>) -> Result {
        let mut core = self.core.lock();
        if core.removed {
            return Err(ENODEV);
        }
        let Core { peer, up, .. } = &mut *core;
        let (Some((outbox, _)), Some(up)) = (peer, up) else {
            return Err(error::net_down());
        };
        let params = session.params();
        check_physical(&up.memory, &params)?;
        if params.location == Location::Physical && params.connection == Role::Server {
            session.claim(range_of_session(params.address, params.local.max)?);
        }
        let outbox = outbox.clone();
        self.make_room(&outbox, up)?;
        let open = self.sessions.lock().len();
        // INVARIANT: There is room for one more than there are.
        up.closed.reserve_more(open + 1, GFP_KERNEL)?;
        self.sessions.lock().enter(session.clone())?;
        let mut desk = Desk::new(self, &outbox, up);
        let asked = desk.request(session, &params);
        let sent = desk.finish();
        drop(core);
        if sent.is_err() {
            outbox.peer().reset();
        }
        asked
    }

    /// Answer the request that a server has at hand: accept it without a `reason`, which is
    /// over when what this returns says so. The client is told the data.
    ///
    /// # Errors
    ///
    /// `ENETDOWN`, `ECONNRESET` if that request is not there any more, `EBUSY`, `ENOMEM`.
    pub(crate) fn answer(
        &self,
        session: &Arc<Session>,
        request: u32,
        reason: Option<u32>,
        data: &[u8],
    ) -> Result<Option<Acceptance>> {
        let mut core = self.core.lock();
        let Core { peer, up, .. } = &mut *core;
        let (Some((outbox, _)), Some(up)) = (peer, up) else {
            return Err(error::net_down());
        };
        let outbox = outbox.clone();
        // Also for the answer before, whose data this one replaces.
        self.make_room(&outbox, up)?;
        let acceptance = session.begin_answer(request, reason.is_none(), data)?;
        let mut desk = Desk::new(self, &outbox, up);
        let answered = desk.answer(session.number(), reason, data);
        if answered.is_ok() && reason.is_some() {
            session.rejected();
        }
        let sent = desk.finish();
        drop(core);
        if sent.is_err() {
            outbox.peer().reset();
        }
        answered.inspect_err(|e| session.answer_accepted(e.to_errno()))?;
        Ok(acceptance)
    }

    /// The process of a server does not wait any longer for what it has accepted: the client
    /// is refused, and the session is over; or it is a pair already, which is no error.
    ///
    /// # Errors
    ///
    /// `error` if the session is over.
    pub(crate) fn give_up_answer(
        &self,
        session: &Arc<Session>,
        acceptance: &Acceptance,
        error: Error,
    ) -> Result {
        let mut core = self.core.lock();
        if let Some(outcome) = acceptance.outcome() {
            return outcome;
        }
        session.withdrawn(error);
        session.spend();
        self.tell_closed(&mut core, |desk| desk.close(session.number(), false));
        Err(error)
    }

    /// Close a session: its process has done so, or is gone.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        let mut core = self.core.lock();
        let gone = self.sessions.lock().remove(&session.number());
        let had_memory = session.strip();
        self.tell_closed(&mut core, |desk| desk.close_for_good(session, had_memory));
        drop(core);
        drop(gone);
    }

    /// Close a session for the engines by `f`, if processes reach each other; the link starts over
    /// if the peer cannot be told.
    fn tell_closed(&self, core: &mut Core, f: impl FnOnce(&mut Desk<'_>)) {
        let Core { peer, up, .. } = core;
        if let (Some((outbox, _)), Some(up)) = (peer, up) {
            let outbox = outbox.clone();
            let mut desk = Desk::new(self, &outbox, up);
            f(&mut desk);
            if desk.finish().is_err() {
                outbox.peer().reset();
            }
        }
    }

    /// Say all that the pairing engine has left, before a process asks for more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: it is not to ask now.
    fn make_room(&self, outbox: &Arc<Outbox>, up: &mut Up) -> Result {
        if up.is_unsaid {
            if Desk::new(self, outbox, up).finish().is_err() {
                outbox.peer().reset();
            }
            if up.is_unsaid {
                return Err(ENOMEM);
            }
        }
        match outbox.hold_another() {
            Err(e) if e == ENOMEM => Err(e),
            held => {
                if held.is_ok() {
                    outbox.give_back();
                }
                // A peer that takes nothing is found out below.
                Ok(())
            }
        }
    }

    /// Go on with what the pairing engine has left.
    pub(super) fn resume_pairing(&self, core: &mut Core) {
        let Core { peer, up, .. } = core;
        let (Some((outbox, _)), Some(up)) = (peer, up) else {
            return;
        };
        if !up.engine.is_unfinished() && !up.is_unsaid {
            return;
        }
        let mut desk = Desk::new(self, outbox, up);
        desk.resume();
        if desk.finish().is_err() {
            outbox.peer().reset();
        }
    }
}

/// Whether physical windows are possible here, and to the addresses of a server
/// (`PXI-REQPS-5`, `PXI-REQPS-12`, `PXI-REQPC-4`).
///
/// # Errors
///
/// `ENOSPC` without such windows or for too much memory, `EOPNOTSUPP` for addresses that
/// none can lead to.
fn check_physical(memory: &Memory, params: &Params) -> Result {
    match (params.location, params.connection) {
        (Location::Logical, _) => Ok(()),
        (_, Role::Server) => memory.can_expose(params.address, params.local.max),
        _ if memory.sees_exposures() => Ok(()),
        _ => Err(ENOSPC),
    }
}
