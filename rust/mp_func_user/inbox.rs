// SPDX-License-Identifier: GPL-2.0-only

//! What has arrived from a peer and waits for the link's worker, in order.
//!
//! Messages arrive where nothing may wait for memory. Without any, what the two services have to
//! agree on goes to a [`Backlog`] of bytes, out of which the worker takes it once it has memory. A
//! message to a port is not worth that: its connection ends.
//!
//! A goodbye that has overtaken messages to ports waits for them, and all others behind it.

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
    backlog::{
        self,
        Backlog, //
    },
    fabric::{
        self,
        Header, //
    },
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
use mp_transport::frame::RxData;

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

/// Bytes of messages for which there was no memory: dozens of the longest of the services, and
/// hundreds of most.
const RESERVED: usize = 1 << 16;

/// Bytes in front of the data of such a message: its header, and whether it is a receipt.
const IN_FRONT: usize = fabric::SIZE + 1;

/// What a message is about, of which so many may wait.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A message to a port. Each connection of the peer has as many at most as its window lets it,
    /// which has been [checked](mp_proto::sharing::window::Receiver::arrived).
    ForPort,
    /// Tells that a port has taken messages.
    Receipt,
    /// Anything else.
    Other,
}

impl Kind {
    /// Most that wait.
    fn most(self) -> usize {
        match self {
            Kind::ForPort => usize::MAX,
            Kind::Receipt => MAX_RECEIPTS,
            Kind::Other => MAX,
        }
    }
}

/// Whether what is lost because of that error is a message of one connection to a port, and
/// nothing that the two services have to agree on.
pub(crate) fn is_of_port(kind: Kind, error: Error) -> bool {
    matches!(kind, Kind::ForPort) && error == ENOMEM
}

/// A message.
pub(crate) struct Mail {
    pub(crate) header: Header,
    pub(crate) data: KVec<u8>,
    kind: Kind,
    /// That of the [`Backlog`], if it has not been put by.
    number: u32,
}

impl Mail {
    /// Copy a message out of its frame. Any context.
    ///
    /// # Errors
    ///
    /// `EPROTO` if it is too long, `ENOMEM`.
    fn new(header: Header, arrived: &dyn RxData, kind: Kind) -> Result<Self> {
        let len = arrived.len();
        if len > LONGEST {
            return Err(error::protocol());
        }
        let mut data = KVec::new();
        bytes::append(&mut data, len, GFP_ATOMIC, |room| arrived.copy_to(0, room))?;
        let number = 0;
        Ok(Self {
            header,
            data,
            kind,
            number,
        })
    }

    /// A message that was put by, with its data in `data`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, unless there is room for them.
    fn copy_of(reserved: &[u8], mut data: KVec<u8>) -> Result<Self> {
        let (front, rest) = reserved.split_first_chunk::<IN_FRONT>().ok_or(EINVAL)?;
        let header = header_in(reserved).ok_or(EINVAL)?;
        data.extend_from_slice(rest, GFP_ATOMIC)?;
        let kind = match front.last() {
            Some(0) => Kind::Other,
            _ => Kind::Receipt,
        };
        Ok(Self {
            header,
            data,
            kind,
            number: 0,
        })
    }
}

/// What is in front of a message that is put by.
fn in_front(header: &Header, kind: Kind) -> [u8; IN_FRONT] {
    let mut front = [0; IN_FRONT];
    if let Some((to_header, to_kind)) = front.split_first_chunk_mut() {
        *to_header = header.encode();
        to_kind.fill(u8::from(matches!(kind, Kind::Receipt)));
    }
    front
}

/// The header of a message that is put by.
fn header_in(reserved: &[u8]) -> Option<Header> {
    Header::decode(reserved.get(..fabric::SIZE)?)
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
            Kind::ForPort => &mut self.for_ports,
            Kind::Receipt => &mut self.receipts,
            Kind::Other => &mut self.others,
        }
    }
}

struct State {
    queue: Fifo<Mail>,
    /// Messages to ports.
    for_ports: Fifo<Mail>,
    /// A goodbye that waits for messages to ports: of all others, none is taken before it.
    bye: Option<Mail>,
    /// Messages for which there was no memory, among those of the queue.
    backlog: Backlog<KVVec<u8>>,
    counts: Counts,
    /// What the worker could not deal with for want of memory: it comes before all others.
    again: Option<Mail>,
    /// The worker has taken a message, and may not be done with it.
    busy: bool,
    /// Why a message was lost, until the worker knows.
    lost: Option<Error>,
}

impl State {
    /// Whether no message was lost. It is told once.
    ///
    /// # Errors
    ///
    /// Why one was.
    fn check(&mut self) -> Result {
        let Some(e) = self.lost.take() else {
            return Ok(());
        };
        self.busy = true;
        // There is no memory for the peer's messages at all.
        Err(if e == ENOMEM { error::no_buffers() } else { e })
    }

    /// Whether a signal like this one waits.
    fn has_signal(&self, header: &Header) -> bool {
        let mut reserved = self.backlog.iter().map(header_in);
        self.queue.any(|waiting| waiting.header == *header) || reserved.any(|h| h == Some(*header))
    }

    /// Queue a message.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn enter(&mut self, mut mail: Mail) -> Result {
        let queue = match mail.kind {
            Kind::ForPort => &mut self.for_ports,
            _ => &mut self.queue,
        };
        self.backlog.enter(|number| {
            mail.number = number;
            queue.push(mail)
        })
    }

    /// Put a message by.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no room any more, or that of reading the data.
    fn put_by(&mut self, header: &Header, arrived: &dyn RxData, kind: Kind) -> Result {
        let front = in_front(header, kind);
        let entered = self.backlog.put_by(IN_FRONT + arrived.len(), |room| {
            let (to_front, to_data) = room.split_at_mut_checked(IN_FRONT).ok_or(EINVAL)?;
            to_front.copy_from_slice(&front);
            arrived.copy_to(0, to_data.into())
        });
        entered.unwrap_or(Err(ENOMEM))
    }

    /// Bytes of the oldest message that was put by.
    fn reserved(&self) -> usize {
        self.backlog.front().map_or(0, <[u8]>::len)
    }

    /// Take the oldest message out, into `data` if it was put by.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, unless there is room for it: it stays.
    fn take(&mut self, data: KVec<u8>) -> Result<Option<Mail>> {
        let number = |queue: &Fifo<Mail>| queue.front().map(|mail| mail.number);
        let (other, for_port) = (number(&self.queue), number(&self.for_ports));
        let is_for_port = match (other, for_port) {
            (Some(other), Some(for_port)) => backlog::is_before(for_port, other),
            (_, for_port) => for_port.is_some(),
        };
        let queue = match is_for_port || self.bye.is_some() {
            true => &mut self.for_ports,
            false => &mut self.queue,
        };
        let queued = queue.front().map(|mail| mail.number);
        if self.bye.is_some() || !self.backlog.is_first(queued) {
            return Ok(queue.pop());
        }
        let reserved = self.backlog.front().unwrap_or_default();
        let mail = Mail::copy_of(reserved, data)?;
        self.backlog.pop();
        Ok(Some(mail))
    }
}

/// Messages of one link.
#[pin_data]
pub(crate) struct Inbox {
    #[pin]
    state: SpinLockBh<State>,
}

impl Inbox {
    /// An empty one.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            state <- new_spinlock_bh!(State {
                queue: Fifo::new(),
                for_ports: Fifo::new(),
                bye: None,
                backlog: Backlog::new(KVVec::from_elem(0, RESERVED, GFP_KERNEL)?),
                counts: Counts::default(),
                again: None,
                busy: false,
                lost: None,
            }),
        })
    }

    /// A message has arrived. `false`: nothing is before it, and the caller may deal with
    /// it at once instead of leaving it here. Softirq context.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        let is_idle = !state.busy && state.bye.is_none() && state.lost.is_none();
        state.queue.is_empty() && state.for_ports.is_empty() && state.backlog.is_empty() && is_idle
    }

    /// Queue a message for the worker, which the caller wakes.
    ///
    /// # Errors
    ///
    /// Why it is lost; the worker will find out. A message to a port that is lost for want of
    /// memory is the affair of its connection ([`is_of_port`]).
    pub(crate) fn enter(&self, header: Header, arrived: &dyn RxData, kind: Kind) -> Result {
        let mail = Mail::new(header, arrived, kind);
        let mut state = self.state.lock();
        if matches!(header, Header::Signal { .. }) && state.has_signal(&header) {
            // However often a process signals, what waits tells of it (PXI-AE-4).
            return Ok(());
        }
        let is_full = *state.counts.of(kind) >= kind.most();
        let entered = match mail {
            _ if is_full => Err(ENOSPC),
            Ok(mail) => state.enter(mail),
            Err(e) => Err(e),
        };
        let entered = match entered {
            Err(e) if e == ENOMEM && !is_of_port(kind, e) => state.put_by(&header, arrived, kind),
            entered => entered,
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

    /// Whether no message was lost. It is told once.
    ///
    /// # Errors
    ///
    /// Why one was.
    pub(crate) fn check(&self) -> Result {
        self.state.lock().check()
    }

    /// The next message for the worker, which is done with the one before; `None` if there is none.
    /// A goodbye that was [held](Self::hold) is one, once the messages have arrived for which it
    /// waits. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if it is to be tried again, or else why one was lost.
    pub(crate) fn next(&self, have_arrived: impl FnOnce() -> bool) -> Result<Option<Mail>> {
        let (reserved, is_held) = {
            let mut state = self.state.lock();
            if let Some(mail) = state.again.take() {
                return Ok(Some(mail));
            }
            (state.reserved(), state.bye.is_some())
        };
        if is_held && have_arrived() {
            let mut state = self.state.lock();
            state.busy = true;
            return Ok(state.bye.take());
        }
        // Here there is time to wait for it.
        let data = KVec::with_capacity(reserved, GFP_KERNEL)?;
        let mut state = self.state.lock();
        state.check()?;
        // Still busy, if that fails.
        let next = state.take(data)?;
        if let Some(mail) = &next {
            *state.counts.of(mail.kind) -= 1;
        }
        state.busy = next.is_some();
        Ok(next)
    }

    /// Keep a message that the worker could not deal with, for its next turn.
    pub(crate) fn put_back(&self, mail: Mail) {
        self.state.lock().again = Some(mail);
    }

    /// Keep a goodbye that has overtaken messages to ports, until these have arrived.
    pub(crate) fn hold(&self, bye: Mail) {
        self.state.lock().bye = Some(bye);
    }

    /// The peer has left.
    pub(crate) fn clear(&self) {
        let old = {
            let mut state = self.state.lock();
            state.lost = None;
            state.backlog.clear();
            state.counts = Counts::default();
            let held = (state.again.take(), state.bye.take());
            let for_ports = core::mem::take(&mut state.for_ports);
            (held, for_ports, core::mem::take(&mut state.queue))
        };
        drop(old);
    }
}

/// The links of all peers share one kind of worker.
pub(crate) type Worker = mp_kernel::worker::Worker<crate::link::Link>;

/// See [`Worker`].
pub(crate) type WorkerRef = Arc<Worker>;
