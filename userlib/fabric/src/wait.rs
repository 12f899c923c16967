// SPDX-License-Identifier: MIT OR Apache-2.0

//! What can happen to an object, and the calls that wait for it: the same for interfaces and
//! sessions.

use crate::{
    sys::{self, mp_eventfd, mp_wait, mp_watch},
    Call, Deadline, Device, Error, Result, Subject, Target,
};
use rustix::{fd::BorrowedFd, io::retry_on_intr};

bitflags::bitflags! {
    /// What has happened to an interface or a session.
    ///
    /// `STATE`, `WINDOWS` and `SIGNAL` are taken by the wait that finds them; the others stay.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct EventMask: u32 {
        /// An interface has gone up or down.
        const STATE = sys::MP_EVENT_STATE;
        /// The windows of an interface's peer have changed.
        const WINDOWS = sys::MP_EVENT_WINDOWS;
        /// A session has a partner, or has had one.
        const PAIRED = sys::MP_EVENT_PAIRED;
        /// A session's partner has signalled.
        const SIGNAL = sys::MP_EVENT_SIGNAL;
        /// A session's partner is gone for good.
        const CLOSED = sys::MP_EVENT_CLOSED;
        /// A session's link is down.
        const DOWN = sys::MP_EVENT_DOWN;
        /// A segment or connection has a notice to take.
        const NOTICE = sys::MP_EVENT_NOTICE;
        /// A port has a message to take.
        const MESSAGE = sys::MP_EVENT_MESSAGE;
        /// A queue is in a final state.
        const DONE = sys::MP_EVENT_DONE;
        /// A server that answers requests itself has one at hand.
        const REQUEST = sys::MP_EVENT_REQUEST;
        /// A client whose request was pending will have no partner.
        const REFUSED = sys::MP_EVENT_REFUSED;
        // A newer kernel may know more.
        const _ = !0;
    }
}

impl Target {
    /// Name it in an error.
    fn subject(self) -> Subject {
        match self {
            Target::Object(_) => Subject::Unnamed,
            Target::Interface(id) => Subject::Interface(id),
        }
    }

    /// The number and the flags by which the kernel knows it.
    fn number(self) -> (u32, u32) {
        match self {
            Target::Object(handle) => (handle, 0),
            Target::Interface(id) => (id.0, sys::MP_WAIT_INTERFACE),
        }
    }
}

/// Wait for any event of the mask; a signal handler that runs meanwhile does not end that.
pub(crate) fn wait(
    device: &impl Device,
    target: Target,
    mask: EventMask,
    flags: u32,
    deadline: Deadline,
) -> Result<EventMask> {
    let (number, kind) = target.number();
    let mut wait = mp_wait {
        flags: flags | kind,
        target: number,
        mask: mask.bits(),
        deadline: deadline.nanoseconds(),
        ..Default::default()
    };
    let waited = retry_on_intr(|| device.call(Call::Wait(&mut wait)));
    waited.map_err(Error::of(target.subject()))?;
    Ok(EventMask::from_bits_retain(wait.events))
}

/// Signal an eventfd by events of the mask, or no longer.
pub(crate) fn notify(
    device: &impl Device,
    target: Target,
    mask: EventMask,
    eventfd: Option<BorrowedFd<'_>>,
) -> Result<()> {
    let (number, flags) = target.number();
    let mut notify = mp_eventfd {
        flags,
        target: number,
        mask: mask.bits(),
        ..Default::default()
    };
    device
        .call(Call::Notify(&mut notify, eventfd))
        .map_err(Error::of(target.subject()))
}

/// Report events of the mask to [`Events`](crate::Events); an empty mask ends that.
pub(crate) fn watch(
    device: &impl Device,
    target: Target,
    mask: EventMask,
    cookie: u64,
) -> Result<()> {
    let (number, flags) = target.number();
    let mut watch = mp_watch {
        flags,
        target: number,
        mask: mask.bits(),
        cookie,
        ..Default::default()
    };
    let called = device.call(Call::Watch(&mut watch));
    called.map_err(Error::of(target.subject()))
}
