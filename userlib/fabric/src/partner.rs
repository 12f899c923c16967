// SPDX-License-Identifier: MIT OR Apache-2.0

//! The other side of a session, and the answers of servers that hold requests.

use crate::{
    sys::{self, mp_session_answer, mp_session_partner},
    Call, Deadline, Device, Error, Result, Session, Subject, WINDOW_DATA_MAX,
};
use std::ops::RangeInclusive;

/// Names a request among those of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u32);

/// How the two stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartnerState {
    /// A client that has not been answered.
    Request(RequestId),
    /// The session has it, or has had it.
    Paired,
    /// A server that has rejected the request, with that reason.
    Rejected(u32),
    /// A server that has gone, or its link, before it answered.
    Gone,
}

/// The other session, as its own host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partner {
    /// How the two stand.
    pub state: PartnerState,
    /// The id of its host.
    pub peer: u32,
    /// What it was opened with; of a server that has answered, what it has answered with.
    pub data: Vec<u8>,
    /// Bytes of its local window: as asked for, or of a pair as they are.
    pub local: RangeInclusive<u64>,
    /// Bytes of its remote window.
    pub remote: RangeInclusive<u64>,
}

impl<D: Device> Session<D> {
    /// The other session: of a server that holds requests the client whose request is at hand.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NotPaired`]: there is nobody.
    pub fn partner(&self) -> Result<Partner> {
        let mut data = vec![0; WINDOW_DATA_MAX];
        let mut partner = mp_session_partner {
            handle: self.open_handle()?,
            ..Default::default()
        };
        self.device
            .call(Call::SessionPartner(&mut partner, &mut data))?;
        data.truncate(partner.data_size as usize);
        let state = match partner.state {
            sys::MP_PARTNER_REQUEST => PartnerState::Request(RequestId(partner.request)),
            sys::MP_PARTNER_PAIRED => PartnerState::Paired,
            sys::MP_PARTNER_REJECTED => PartnerState::Rejected(partner.reason),
            sys::MP_PARTNER_GONE => PartnerState::Gone,
            _ => return Err(Error::NotSupported(Subject::Unnamed)),
        };
        Ok(Partner {
            state,
            peer: partner.peer,
            data,
            local: partner.local_min..=partner.local_max,
            remote: partner.remote_min..=partner.remote_max,
        })
    }

    /// Accept a request, with data for the client. Returns when both have a partner.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`]: too much data, a server that does not hold
    /// requests; [`Error::InterfaceDown`]; [`Error::PartnerGone`]: the request is not there any
    /// more; [`Error::NoSpace`]: the memory cannot be had, the request stays. After
    /// [`Error::TimedOut`] the client is refused, and the session is over: it has `CLOSED`.
    /// [`Error::NoMemory`].
    pub fn accept(&self, request: RequestId, data: &[u8], deadline: Deadline) -> Result<()> {
        let answer = mp_session_answer {
            request: request.0,
            flags: sys::MP_ANSWER_ACCEPT,
            deadline: deadline.nanoseconds(),
            ..Default::default()
        };
        self.answer(answer, data)
    }

    /// Reject a request, with a reason and data for the client. Does not wait.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`]: too much data, a server that does not hold
    /// requests; [`Error::InterfaceDown`]; [`Error::PartnerGone`]: the request is not there any
    /// more. [`Error::NoMemory`].
    pub fn reject(&self, request: RequestId, reason: u32, data: &[u8]) -> Result<()> {
        let answer = mp_session_answer {
            request: request.0,
            flags: sys::MP_ANSWER_REJECT,
            reason,
            ..Default::default()
        };
        self.answer(answer, data)
    }

    fn answer(&self, mut answer: mp_session_answer, data: &[u8]) -> Result<()> {
        answer.handle = self.open_handle()?;
        self.device
            .call(Call::SessionAnswer(&mut answer, data))
            .map_err(Error::from)
    }
}
