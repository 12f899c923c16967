// SPDX-License-Identifier: GPL-2.0

//! What has arrived from a peer and waits for the link's worker, in order.

use crate::uapi::MP_MESSAGE_MAX;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    error,
    fifo::Fifo,
    new_spinlock_bh,
    sync::SpinLockBh, //
};
use mp_proto::{
    fabric::Header,
    pairing::{
        message,
        terms::DATA_MAX, //
    },
    sharing::window::MESSAGES, //
};
use mp_transport::frame::RxFrame;

/// Most messages that wait, besides those to ports. An honest peer has a few on their way
/// for each session.
const MAX: usize = 2048;

/// Most bytes of a message's data.
const LONGEST: usize = if MP_MESSAGE_MAX as usize > message::SIZE + DATA_MAX {
    MP_MESSAGE_MAX as usize
} else {
    message::SIZE + DATA_MAX
};

/// A message.
pub(crate) struct Mail {
    pub(crate) header: Header,
    pub(crate) data: KVec<u8>,
}

impl Mail {
    /// Copies a message out of its frame. Any context.
    ///
    /// # Errors
    ///
    /// `EPROTO` if it is too long, `ENOMEM`.
    fn new(header: Header, frame: &RxFrame<'_>) -> Result<Self> {
        let len = frame.len();
        if len > LONGEST {
            return Err(error::protocol());
        }
        let mut data = KVec::from_elem(0, len, GFP_ATOMIC)?;
        frame.copy_to(0, &mut data)?;
        Ok(Self { header, data })
    }
}

struct State {
    queue: Fifo<Mail>,
    /// How many of them are for ports.
    for_ports: usize,
    /// The worker has taken a message, and may not be done with it.
    busy: bool,
    /// Why a message was lost, until the worker knows.
    lost: Option<Error>,
}

/// Messages of one link.
#[pin_data]
pub(crate) struct Inbox {
    #[pin]
    state: SpinLockBh<State>,
}

impl Inbox {
    /// An empty one.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock_bh!(State {
                queue: Fifo::new(),
                for_ports: 0,
                busy: false,
                lost: None,
            }),
        })
    }

    /// A message has arrived. `false`: nothing is before it, and the caller may deal with
    /// it at once instead of leaving it here. Softirq context.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.queue.is_empty() && !state.busy && state.lost.is_none()
    }

    /// Has a message wait for the worker, which the caller wakes. The peer has so many
    /// connections to ports: each of them may have as many messages under way as its window
    /// lets it, and no more.
    ///
    /// # Errors
    ///
    /// Why it is lost; the worker will find out.
    pub(crate) fn enter(&self, header: Header, frame: &RxFrame<'_>, connections: usize) -> Result {
        let mail = Mail::new(header, frame);
        let mut state = self.state.lock();
        let is_signal = matches!(header, Header::Signal { .. });
        if is_signal && state.queue.any(|waiting| waiting.header == header) {
            // However often a process signals, what waits tells of it (PXI-AE-4).
            return Ok(());
        }
        let is_for_port = matches!(header, Header::Message { .. });
        let is_full = match is_for_port {
            true => state.for_ports >= connections.saturating_mul(MESSAGES as usize),
            false => state.queue.len() - state.for_ports >= MAX,
        };
        let entered = match mail {
            Ok(_) if is_full => Err(ENOSPC),
            Ok(mail) => state.queue.push(mail),
            Err(e) => Err(e),
        };
        if entered.is_ok() {
            state.for_ports += usize::from(is_for_port);
        }
        if let Err(e) = entered {
            state.lost = Some(e);
        }
        entered
    }

    /// The next message for the worker, which is done with the one before; or why one
    /// was lost.
    pub(crate) fn next(&self) -> Option<Result<Mail>> {
        let mut state = self.state.lock();
        let next = match state.lost.take() {
            Some(e) => Some(Err(e)),
            None => state.queue.pop().map(Ok),
        };
        let is_for_port = |mail: &Mail| matches!(mail.header, Header::Message { .. });
        if matches!(&next, Some(Ok(mail)) if is_for_port(mail)) {
            state.for_ports -= 1;
        }
        state.busy = next.is_some();
        next
    }

    /// The peer has left.
    pub(crate) fn clear(&self) {
        let old = {
            let mut state = self.state.lock();
            state.lost = None;
            state.for_ports = 0;
            core::mem::take(&mut state.queue)
        };
        drop(old);
    }
}

/// The links of all peers share one kind of worker.
pub(crate) type Worker = mp_kernel::worker::Worker<crate::link::Link>;

/// See [`Worker`].
pub(crate) type WorkerRef = Arc<Worker>;
