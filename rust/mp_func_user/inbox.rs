// SPDX-License-Identifier: GPL-2.0-only

//! What has arrived from a peer and waits for the link's worker, in order.

use crate::uapi::MP_MESSAGE_MAX;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    bytes,
    error,
    fifo::Fifo,
    new_spinlock_bh,
    sync::SpinLockBh, //
};
use mp_proto::{
    fabric::Header,
    pairing::{
        message,
        terms::DATA_MAX,
        SESSIONS, //
    },
    sharing::{
        window::MESSAGES,
        CONNECTIONS, //
    }, //
};
use mp_transport::frame::RxFrame;

/// Most messages that wait for each session and each connection. An honest host has no more on
/// their way: what it asks for, what it answers, that it closes, and a signal.
const OF_EACH: usize = 4;

/// Most others that wait, in either direction.
pub(crate) const MAX: usize = OF_EACH * (SESSIONS + CONNECTIONS);

/// Most receipts that wait: one for each message under way, and one for what the receipt before
/// it has told already.
const MAX_RECEIPTS: usize = 2 * CONNECTIONS * MESSAGES as usize;

/// Most bytes of a message's data.
const LONGEST: usize = if MP_MESSAGE_MAX as usize > message::SIZE + DATA_MAX {
    MP_MESSAGE_MAX as usize
} else {
    message::SIZE + DATA_MAX
};

/// What a message is about, of which so many may wait.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A message to a port. The peer has so many connections: each of them may have as many
    /// messages under way as its window lets it.
    ForPort(usize),
    /// Tells that a port has taken messages.
    Receipt,
    /// Anything else.
    Other,
}

impl Kind {
    /// Most that wait.
    fn most(self) -> usize {
        match self {
            Kind::ForPort(connections) => connections.saturating_mul(MESSAGES as usize),
            Kind::Receipt => MAX_RECEIPTS,
            Kind::Other => MAX,
        }
    }
}

/// Whether what is lost because of that error is a message of one connection to a port, and
/// nothing that the two services have to agree on.
pub(crate) fn is_of_port(kind: Kind, error: Error) -> bool {
    matches!(kind, Kind::ForPort(_)) && error == ENOMEM
}

/// A message.
pub(crate) struct Mail {
    pub(crate) header: Header,
    pub(crate) data: KVec<u8>,
    kind: Kind,
}

impl Mail {
    /// Copy a message out of its frame. Any context.
    ///
    /// # Errors
    ///
    /// `EPROTO` if it is too long, `ENOMEM`.
    fn new(header: Header, frame: &RxFrame<'_>, kind: Kind) -> Result<Self> {
        let len = frame.len();
        if len > LONGEST {
            return Err(error::protocol());
        }
        let mut data = KVec::new();
        bytes::append(&mut data, len, GFP_ATOMIC, |room| frame.copy_to(0, room))?;
        Ok(Self { header, data, kind })
    }
}

/// How many messages of each kind wait.
#[derive(Default)]
struct Counts {
    for_ports: usize,
    receipts: usize,
    others: usize,
}

impl Counts {
    fn of(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::ForPort(_) => &mut self.for_ports,
            Kind::Receipt => &mut self.receipts,
            Kind::Other => &mut self.others,
        }
    }
}

struct State {
    queue: Fifo<Mail>,
    counts: Counts,
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
                counts: Counts::default(),
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

    /// Queue a message for the worker, which the caller wakes.
    ///
    /// # Errors
    ///
    /// Why it is lost; the worker will find out. A message to a port that is lost for want of
    /// memory is the affair of its connection ([`is_of_port`]).
    pub(crate) fn enter(&self, header: Header, frame: &RxFrame<'_>, kind: Kind) -> Result {
        let mail = Mail::new(header, frame, kind);
        let mut state = self.state.lock();
        let is_signal = matches!(header, Header::Signal { .. });
        if is_signal && state.queue.any(|waiting| waiting.header == header) {
            // However often a process signals, what waits tells of it (PXI-AE-4).
            return Ok(());
        }
        let is_full = *state.counts.of(kind) >= kind.most();
        let entered = match mail {
            Ok(_) if is_full => Err(ENOSPC),
            Ok(mail) => state.queue.push(mail),
            Err(e) => Err(e),
        };
        if entered.is_ok() {
            *state.counts.of(kind) += 1;
        }
        if let Err(e) = entered {
            if !is_of_port(kind, e) {
                state.lost = Some(e);
            }
        }
        entered
    }

    /// The peer has said what cannot be, or something of it was lost: the worker, which the caller
    /// wakes, will find out. Any context.
    pub(crate) fn fail(&self, error: Error) {
        self.state.lock().lost = Some(error);
    }

    /// The next message for the worker, which is done with the one before; or why one
    /// was lost.
    pub(crate) fn next(&self) -> Option<Result<Mail>> {
        let mut state = self.state.lock();
        let next = match state.lost.take() {
            Some(e) => Some(Err(e)),
            None => state.queue.pop().map(Ok),
        };
        if let Some(Ok(mail)) = &next {
            *state.counts.of(mail.kind) -= 1;
        }
        state.busy = next.is_some();
        next
    }

    /// The peer has left.
    pub(crate) fn clear(&self) {
        let old = {
            let mut state = self.state.lock();
            state.lost = None;
            state.counts = Counts::default();
            core::mem::take(&mut state.queue)
        };
        drop(old);
    }
}

/// The links of all peers share one kind of worker.
pub(crate) type Worker = mp_kernel::worker::Worker<crate::link::Link>;

/// See [`Worker`].
pub(crate) type WorkerRef = Arc<Worker>;
