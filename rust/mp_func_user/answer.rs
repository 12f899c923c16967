// SPDX-License-Identifier: GPL-2.0-only

//! The other side of a session: requests that a server's owner answers, what partners tell
//! each other when they meet, and the two calls for both.

use crate::{
    calls::{
        deadline,
        expect_zero,
        name_of_caller,
        user,
        Told as Outcome, //
    },
    context::Context,
    ready,
    session::{
        Phase,
        Session,
        PENDING, //
    },
    uapi::*, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    error,
    wait::{
        Events,
        Sleep, //
    }, //
};
use mp_proto::pairing::terms::{
    Limits,
    Name,
    DATA_MAX, //
};

/// What is told of the other session, beside its data.
struct Told {
    /// The id of its host.
    peer: u32,
    /// As asked for.
    local: Limits,
    remote: Limits,
}

fn copy_of(data: &[u8]) -> Result<KVec<u8>> {
    let mut copy = KVec::with_capacity(data.len(), GFP_KERNEL_ACCOUNT)?;
    copy.extend_from_slice(data, GFP_KERNEL_ACCOUNT)?;
    Ok(copy)
}

/// What comes of a request that has been accepted, for the process that has done that.
#[derive(Clone)]
pub(crate) struct Acceptance(Arc<Atomic<i32>>);

impl Acceptance {
    /// Of a request that is about to be accepted.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new() -> Result<Self> {
        Ok(Self(Arc::new(Atomic::new(PENDING), GFP_KERNEL_ACCOUNT)?))
    }

    /// The outcome; `None` as long as that is open.
    pub(crate) fn outcome(&self) -> Option<Result> {
        let outcome = self.0.load(Acquire);
        (outcome != PENDING).then(|| kernel::error::to_result(outcome))
    }
}

/// The other side of a session, as its process sees it.
pub(crate) struct Dealings {
    /// Requests that it has had: the number of the last one.
    requests: u32,
    /// That has not been answered.
    is_asked: bool,
    /// That has been accepted, and is not a pair yet.
    accepted: Option<Acceptance>,
    /// What the session answers with.
    answer: Option<Arc<KVec<u8>>>,
    /// The partner, or who asks, or who has refused.
    told: Option<Told>,
    /// The data of that.
    data: KVec<u8>,
    /// The reason of a rejection; `None` if the server has gone.
    reason: Option<u32>,
}

impl Dealings {
    /// With nobody, and with memory for so many bytes of data of others.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        Ok(Self {
            requests: 0,
            is_asked: false,
            accepted: None,
            answer: None,
            told: None,
            data: KVec::with_capacity(bytes, GFP_KERNEL_ACCOUNT)?,
            reason: None,
        })
    }

    /// Somebody of the host with that id tells data, and perhaps has asked for those sizes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: there was no memory for so many bytes before.
    fn hear(&mut self, peer: u32, data: &[u8], (local, remote): (Limits, Limits)) -> Result {
        self.told = None;
        self.data.clear();
        self.data.extend_from_slice(data, GFP_KERNEL_ACCOUNT)?;
        self.told = Some(Told {
            peer,
            local,
            remote,
        });
        Ok(())
    }

    /// The request at hand has become a pair.
    pub(crate) fn end_request(&mut self) {
        self.is_asked = false;
    }
}

impl Session {
    /// Whether it has been told of its partner.
    pub(crate) fn knows_partner(&self) -> bool {
        self.state.lock().dealings.told.is_some()
    }

    /// It is told of its partner, or of an answer, by the host with that id.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; none, if it is a client.
    pub(crate) fn meet(&self, peer: u32, data: &[u8], sizes: (Limits, Limits)) -> Result {
        self.state.lock().dealings.hear(peer, data, sizes)
    }

    /// A client's request is at hand, of the host with that id and for those sizes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; none, if it answers requests.
    pub(crate) fn asked(&self, peer: u32, data: &[u8], sizes: (Limits, Limits)) -> Result {
        {
            let dealings = &mut self.state.lock().dealings;
            dealings.hear(peer, data, sizes)?;
            dealings.requests = dealings.requests.wrapping_add(1).max(1);
            dealings.is_asked = true;
        }
        self.raise(ready::REQUEST);
        Ok(())
    }

    /// The request is not at hand any more: whoever waits for what comes of it, hears that.
    pub(crate) fn withdrawn(&self, error: Error) {
        {
            let dealings = &mut self.state.lock().dealings;
            dealings.is_asked = false;
            dealings.told = None;
        }
        self.clear(ready::REQUEST);
        self.answer_accepted(error.to_errno());
    }

    /// It has rejected the request.
    pub(crate) fn rejected(&self) {
        self.withdrawn(error::reset());
    }

    /// It takes no more requests.
    pub(crate) fn spend(&self) {
        let events = self.end_serving();
        self.raise(events);
    }

    /// Take no more requests; the event to raise.
    fn end_serving(&self) -> u32 {
        self.state.lock().phase = Phase::Lost;
        ready::CLOSED
    }

    /// Its own request is with a server.
    pub(crate) fn held(&self) {
        {
            let state = &mut *self.state.lock();
            if state.phase != Phase::Asking {
                // The server could not be told of it.
                return;
            }
            state.phase = Phase::Held;
        }
        if self.is_pending() {
            self.end_request(0);
        }
    }

    /// Its request has been rejected for a reason, or the server has gone.
    pub(crate) fn refused(&self, reason: Option<u32>) {
        let events = self.end_asking(reason);
        if events != 0 {
            self.raise(events);
        }
    }

    /// Ask no more: the request has been rejected for a reason, or the server has gone. The event to
    /// raise, if the process does not wait for the answer in the call that asks.
    fn end_asking(&self, reason: Option<u32>) -> u32 {
        {
            let state = &mut *self.state.lock();
            state.phase = Phase::Refused;
            state.dealings.reason = reason;
            if reason.is_none() {
                // The answer of an acceptance that has come to nothing.
                state.dealings.told = None;
            }
        }
        if self.is_pending() {
            return ready::REFUSED;
        }
        self.answer_if_pending(Err(error::refused()));
        0
    }

    /// The link is down: requests are lost on both sides. The events to raise.
    pub(crate) fn lose_request(&self) -> u32 {
        let (phase, is_asked) = {
            let state = self.state.lock();
            (state.phase, state.dealings.is_asked)
        };
        let mut events = 0;
        if phase == Phase::Held {
            events |= self.end_asking(None);
        }
        if is_asked {
            self.withdrawn(error::net_down());
            if self.params().once {
                events |= self.end_serving();
            }
        }
        self.answer_accepted(error::net_down().to_errno());
        events
    }

    /// What it answers.
    pub(crate) fn answer_data(&self) -> Option<Arc<KVec<u8>>> {
        self.state.lock().dealings.answer.clone()
    }

    /// It is about to answer a request.
    ///
    /// # Errors
    ///
    /// `ECONNRESET` if that is not at hand, `EBUSY` if it is being accepted, `ENOMEM`.
    pub(crate) fn begin_answer(
        &self,
        request: u32,
        accepts: bool,
        data: &[u8],
    ) -> Result<Option<Acceptance>> {
        let answer = Arc::new(copy_of(data)?, GFP_KERNEL_ACCOUNT)?;
        let acceptance = accepts.then(Acceptance::new).transpose()?;
        let mut state = self.state.lock();
        let dealings = &mut state.dealings;
        if !dealings.is_asked || dealings.requests != request {
            return Err(error::reset());
        }
        if dealings.accepted.is_some() {
            return Err(EBUSY);
        }
        dealings.answer = Some(answer);
        dealings.accepted = acceptance.clone();
        Ok(acceptance)
    }

    /// What it has accepted has come to this: 0 or a negative errno.
    pub(crate) fn answer_accepted(&self, outcome: i32) {
        let accepted = self.state.lock().dealings.accepted.take();
        if let Some(Acceptance(of_caller)) = accepted {
            of_caller.store(outcome, Release);
            self.asking.wake(Events::IN);
        }
    }

    /// Wait until there is a pair, or will be none.
    fn wait_for_partner(&self, acceptance: &Acceptance, deadline: Option<u64>) -> Result {
        let is_over = || acceptance.outcome().is_some();
        self.asking
            .wait_until(Sleep::Killable, deadline, is_over)
            .ok()
    }
}

/// The name of a session that is to be opened.
///
/// # Errors
///
/// `EINVAL`, `EFAULT`.
pub(crate) fn name(open: &mp_session_open) -> Result<Name> {
    let whole = name_of_caller(open.name, open.name_size)?;
    Name::new(whole.bytes(), open.name_own as usize).ok_or(EINVAL)
}

/// Whether a client does not wait for the answer of a server.
///
/// # Errors
///
/// `EINVAL` for flags of other roles, or unknown ones.
pub(crate) fn is_pending(open: &mp_session_open) -> Result<bool> {
    let known = MP_SESSION_DEFER | MP_SESSION_ONCE | MP_SESSION_NONBLOCK | MP_SESSION_NO_WINDOWS;
    expect_zero(open.flags & !known)?;
    let is_pending = open.flags & MP_SESSION_NONBLOCK != 0;
    match is_pending && open.role == MP_ROLE_SERVER {
        true => Err(EINVAL),
        false => Ok(is_pending),
    }
}

/// Deal with `MP_IOC_SESSION_PARTNER`.
///
/// # Errors
///
/// Those in the header.
pub(crate) fn describe(context: &Context, info: &mut mp_session_partner) -> Result<Outcome> {
    expect_zero(info.reserved)?;
    let session = context.session(info.handle)?;
    let room = info.data_size as usize;
    let is_paired = session.ready().events() & ready::PAIRED != 0;
    let mut data = KVec::new();
    {
        let state = session.state.lock();
        let dealings = &state.dealings;
        (info.request, info.reason) = (0, 0);
        info.state = match dealings.reason {
            _ if is_paired => MP_PARTNER_PAIRED,
            Some(_) if state.phase == Phase::Refused => MP_PARTNER_REJECTED,
            None if state.phase == Phase::Refused => MP_PARTNER_GONE,
            _ if dealings.is_asked => MP_PARTNER_REQUEST,
            _ => return Err(error::not_connected()),
        };
        if info.state == MP_PARTNER_REQUEST {
            info.request = dealings.requests;
        }
        if info.state == MP_PARTNER_REJECTED {
            info.reason = dealings.reason.unwrap_or(0);
        }
        let told = dealings.told.as_ref();
        info.peer = told.map_or(session.link().peer_id(), |told| told.peer);
        let (mut local, mut remote) =
            told.map_or_else(Default::default, |told| (told.local, told.remote));
        if is_paired {
            // As the partner sees them.
            let (own, theirs) = state.sizes();
            (local, remote) = (Limits::exactly(theirs), Limits::exactly(own));
        }
        (info.local_min, info.local_max) = (local.min, local.max);
        (info.remote_min, info.remote_max) = (remote.min, remote.max);
        if told.is_some() {
            // Not charged: the link's worker waits for the lock.
            data.extend_from_slice(&dealings.data, GFP_KERNEL)?;
        }
    }
    info.data_size = data.len() as u32;
    if data.len() > room {
        return Ok(Outcome::Short(ENOSPC));
    }
    user(info.data, data.len())?.writer().write_slice(&data)?;
    Ok(Outcome::Done)
}

/// Deal with `MP_IOC_SESSION_ANSWER`.
///
/// # Errors
///
/// Those in the header.
pub(crate) fn give(context: &Context, answer: &mp_session_answer) -> Result {
    let session = context.session(answer.handle)?;
    let reason = match answer.flags {
        MP_ANSWER_ACCEPT if answer.reason == 0 => None,
        MP_ANSWER_REJECT => Some(answer.reason),
        _ => return Err(EINVAL),
    };
    let len = answer.data_size as usize;
    if len > DATA_MAX || !session.params().hold {
        return Err(EINVAL);
    }
    let mut data = KVec::from_elem(0, len, GFP_KERNEL_ACCOUNT)?;
    user(answer.data, len)?.reader().read_slice(&mut data)?;
    let link = session.link();
    let acceptance = link.answer(&session, answer.request, reason, &data)?;
    let Some(acceptance) = acceptance else {
        return Ok(());
    };
    match session.wait_for_partner(&acceptance, deadline(answer.deadline)) {
        Ok(()) => acceptance.outcome().unwrap_or(Ok(())),
        Err(e) => link.give_up_answer(&session, &acceptance, e),
    }
}
