// SPDX-License-Identifier: GPL-2.0-only

//! What is to be sent to a peer: in order, and without loss as long as the peer is there.
//!
//! Messages go ahead of bulk data. To a peer that another one forwards to, both take one lane, in
//! one order: what [`stores`](crate::stores) has sent is there before what is sent after it. That
//! host may drop a frame, so all of them are numbered ([`mp_proto::sequence`]).

use crate::{
    inbox::{
        WorkerRef,
        MAX, //
    },
    link::AGAIN_MS,
    FUNC, //
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_kernel::{
    barrier,
    bytes::SharedBytes,
    error,
    fifo::Fifo,
    new_spinlock_bh,
    sync::SpinLockBh, //
};
use mp_proto::{
    fabric::{
        self,
        Header,
        Life, //
    },
    sequence::Numbers,
    sharing::{
        message::{
            Message,
            What, //
        },
        placed::Totals, //
    },
    wire::{
        Bytes,
        Priority, //
    }, //
};
use mp_transport::{
    frame::{
        Frame,
        FrameBody, //
    },
    peer::{
        Peer,
        SendError, //
    }, //
};

/// The transmit queue that the frames take; messages go ahead of it, with priority.
const QUEUE: u16 = 0;

/// Most that wait when a process may add a message to a port: the others wait in their
/// processes, and leave room for what the services tell each other.
const MAX_FOR_PORTS: usize = MAX / 2;

/// How often a queue that is full is tried again at once because it says that it has
/// room; then the link's worker goes on after a millisecond. A transport that says so
/// for ever keeps nobody busy.
const TRIES: u32 = 16;

/// Milliseconds that the last messages may take. A peer that takes nothing for so long
/// is about to be given up.
const DRAIN_MS: u32 = 500;

/// What waits.
enum Mail {
    /// A message.
    Frame(Frame),
    /// A signal.
    Signal(Arc<Signal>),
}

impl Mail {
    /// What is to be sent now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn frame(&self) -> Result<Frame> {
        match self {
            Mail::Frame(frame) => Ok(frame.clone()),
            Mail::Signal(signal) => signal.frame(),
        }
    }

    /// It does not wait any more.
    fn leaves(&self) {
        if let Mail::Signal(signal) = self {
            signal.waits.store(false, Relaxed);
        }
    }
}

/// What a signal tells.
enum Content {
    /// That it was sent: one frame, sent often.
    Plain(Frame),
    /// How often there was a trigger.
    Total(Header, Arc<Atomic<u32>>),
    /// Which question is the last one.
    Question(Header, Arc<Atomic<u32>>),
    /// How many messages of a connection were taken.
    Taken {
        header: Header,
        connection: u32,
        total: Arc<Atomic<u32>>,
    },
    /// What has become of the pieces that a connection has written.
    Placed {
        header: Header,
        connection: u32,
        totals: Arc<Atomic<u64>>,
    },
}

/// What is told to the other side again and again, to a session or about a connection.
pub(crate) struct Signal {
    content: Content,
    /// Whether it waits in the outbox, under whose lock this changes.
    waits: Atomic<bool>,
}

impl Signal {
    /// From one session to another, of the service with that life.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(life: Life, from: u32, to: u32) -> Result<Arc<Self>> {
        let header = Header::Signal { life, to, from };
        Self::with(Content::Plain(frame(&header, Data(KVec::new()))?))
    }

    /// The trigger of an event by that connection, to the service with that life: tells
    /// how often there was one by the time at which it leaves.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn trigger(life: Life, from: u32, total: Arc<Atomic<u32>>) -> Result<Arc<Self>> {
        Self::with(Content::Total(Header::Trigger { life, from }, total))
    }

    /// A question to the service with that life: tells the number that is the last one by the
    /// time at which it leaves.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn question(life: Life, last: Arc<Atomic<u32>>) -> Result<Arc<Self>> {
        Self::with(Content::Question(Header::Sharing(life), last))
    }

    fn with(content: Content) -> Result<Arc<Self>> {
        let signal = Self {
            content,
            waits: Atomic::new(false),
        };
        Ok(Arc::new(signal, GFP_KERNEL)?)
    }

    /// The frame that tells what is so now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn frame(&self) -> Result<Frame> {
        match &self.content {
            Content::Plain(frame) => Ok(frame.clone()),
            Content::Total(header, total) => {
                let total = total.load(Relaxed).to_le_bytes();
                frame(header, Data(Bytes::<4>::new(&total, &[])))
            }
            Content::Question(header, last) => {
                let message = Message {
                    connection: last.load(Acquire),
                    what: What::Ask,
                };
                frame(header, Data(message.encode()))
            }
            Content::Taken {
                header,
                connection,
                total,
            } => {
                let message = Message {
                    connection: *connection,
                    what: What::Taken(total.load(Relaxed)),
                };
                frame(header, Data(message.encode()))
            }
            Content::Placed {
                header,
                connection,
                totals,
            } => {
                let totals = totals.load(Acquire);
                let message = Message {
                    connection: *connection,
                    what: What::Placed(Totals {
                        done: totals as u32,
                        failed: (totals >> 32) as u32,
                    }),
                };
                frame(header, Data(message.encode()))
            }
        }
    }
}

/// Tells the sender of messages to a port how many of them have been taken.
pub(crate) struct Receipt {
    outbox: Arc<Outbox>,
    signal: Arc<Signal>,
    total: Arc<Atomic<u32>>,
}

impl Receipt {
    /// For a connection of the service with that life.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(outbox: Arc<Outbox>, life: Life, connection: u32) -> Result<Self> {
        let total = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let signal = Signal::with(Content::Taken {
            header: Header::Sharing(life),
            connection,
            total: total.clone(),
        })?;
        Ok(Self {
            outbox,
            signal,
            total,
        })
    }

    /// So many have been taken: what waits to be sent tells that, too.
    pub(crate) fn count(&self, total: u32) {
        self.total.store(total, Relaxed);
    }

    /// The signal that tells it, and its way.
    pub(crate) fn way(&self) -> (Arc<Outbox>, Arc<Signal>) {
        (self.outbox.clone(), self.signal.clone())
    }
}

/// Tells the peer what has become of the pieces that one of its connections has written.
pub(crate) struct Tally {
    signal: Arc<Signal>,
    totals: Arc<Atomic<u64>>,
}

impl Tally {
    /// Of a connection of the service with that life.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(life: Life, connection: u32) -> Result<Self> {
        let totals = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let signal = Signal::with(Content::Placed {
            header: Header::Sharing(life),
            connection,
            totals: totals.clone(),
        })?;
        Ok(Self { signal, totals })
    }

    /// So many have been dealt with: what waits to be sent tells that, too.
    pub(crate) fn count(&self, totals: Totals) {
        let both = u64::from(totals.failed) << 32 | u64::from(totals.done);
        // After what was stored of them.
        self.totals.store(both, Release);
    }

    /// The signal that tells it.
    pub(crate) fn signal(&self) -> Arc<Signal> {
        self.signal.clone()
    }
}

/// Data of a message.
struct Data<B>(B);

impl<B: Deref<Target = [u8]> + Send + Sync + 'static> FrameBody for Data<B> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        f((*self.0).into())
    }

    fn complete(&mut self, _status: Result) {}
}

/// Data that is stored by the peer's service, behind bytes that tell where.
struct Placed<const N: usize>([u8; N], KVec<u8>);

impl<const N: usize> FrameBody for Placed<N> {
    fn len(&self) -> usize {
        N + self.1.len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        f(self.0.as_slice().into())?;
        f(self.1.as_slice().into())
    }

    fn complete(&mut self, _status: Result) {}
}

/// A frame as it leaves, with a number behind its header.
struct Counted(Frame);

impl Counted {
    /// That frame with that number, in the lane of bulk data.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn frame(frame: &Frame, number: u32) -> Result<Frame> {
        let header = fabric::with_number(frame.func_hdr(), number).ok_or(EINVAL)?;
        Frame::new(FUNC, &header, Priority::Bulk, Self(frame.clone()))
    }
}

impl FrameBody for Counted {
    fn len(&self) -> usize {
        self.0.body().len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        self.0.body().for_each_fragment(f)
    }

    fn complete(&mut self, _status: Result) {}
}

/// The message with that header and body.
///
/// # Errors
///
/// `ENOMEM`.
fn frame(header: &Header, body: impl FrameBody + 'static) -> Result<Frame> {
    Frame::new(FUNC, &header.encode(), Priority::High, body)
}

/// What changes with each frame.
struct State {
    waiting: Fifo<Mail>,
    /// Of the frames in the one lane.
    numbers: Numbers,
}

/// The frames to one peer.
#[pin_data]
pub(crate) struct Outbox {
    peer: Arc<Peer>,
    /// All that is sent takes the lane of bulk data, and is numbered.
    is_one_lane: bool,
    /// That of the link, whose work calls [`resume`](Outbox::resume).
    worker: WorkerRef,
    /// Held while frames are sent, so that they leave in the order of their numbers.
    #[pin]
    state: SpinLockBh<State>,
}

impl Outbox {
    /// Nothing to send.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(peer: Arc<Peer>, worker: WorkerRef) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                is_one_lane: peer.hop().is_some(),
                peer,
                worker,
                state <- new_spinlock_bh!(State {
                    waiting: Fifo::new(),
                    numbers: Numbers::default(),
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// The peer.
    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Send a message, as soon as there is room. Any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS` if the peer takes nothing: it is lost, and the two sides do not
    /// agree any more.
    pub(crate) fn send(&self, header: &Header, data: KVec<u8>) -> Result {
        self.enter(Mail::Frame(frame(header, Data(data))?))
    }

    /// Tell the sharing engine of the service with that life something. Any context but hard
    /// interrupts.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(crate) fn say(&self, life: Life, message: &Message) -> Result {
        let mut data = KVec::new();
        data.extend_from_slice(&message.encode(), GFP_ATOMIC)?;
        self.send(&Header::Sharing(life), data)
    }

    /// As [`send`](Self::send), of a message of a process to a port.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if too much waits: nothing has been sent. `ENOMEM`.
    pub(crate) fn send_to_port(&self, header: &Header, data: &[u8]) -> Result {
        if self.state.lock().waiting.len() >= MAX_FOR_PORTS {
            return Err(EAGAIN);
        }
        let mut copied = KVec::with_capacity(data.len(), GFP_KERNEL)?;
        copied.extend_from_slice(data, GFP_KERNEL)?;
        self.send(header, copied)
    }

    /// Send data that the peer's service stores, by the data rings.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if they are full: somebody is told when there is room, see
    /// [`Peer::arm_tx`]. `ENOMEM`, `ENOTCONN`, `EMSGSIZE`.
    pub(crate) fn place<const N: usize>(
        &self,
        header: &Header,
        place: [u8; N],
        data: KVec<u8>,
    ) -> Result {
        self.put(&Self::bulk(header, place, data)?)
    }

    /// Data for the peer's service to store, as a frame.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn bulk<const N: usize>(
        header: &Header,
        place: [u8; N],
        data: KVec<u8>,
    ) -> Result<Frame> {
        Frame::new(FUNC, &header.encode(), Priority::Bulk, Placed(place, data))
    }

    /// Send such a frame; not ahead of messages that wait, if these take the same lane.
    ///
    /// # Errors
    ///
    /// Those of [`place`](Self::place).
    pub(crate) fn put(&self, frame: &Frame) -> Result {
        if !self.is_one_lane {
            return self.send_bulk(frame);
        }
        let mut state = self.state.lock();
        if !state.waiting.is_empty() {
            return Err(EAGAIN);
        }
        let counted = Counted::frame(frame, state.numbers.next())?;
        self.send_bulk(&counted)?;
        state.numbers.sent();
        Ok(())
    }

    fn send_bulk(&self, frame: &Frame) -> Result {
        for _ in 0..TRIES {
            match self.peer.send(frame, QUEUE) {
                Err(SendError::Full) if self.peer.arm_tx(QUEUE) => {}
                sent => {
                    self.peer.kick(QUEUE);
                    return sent.map(drop).map_err(Error::from);
                }
            }
        }
        Err(EAGAIN)
    }

    /// How many frames have left in the one lane, modulo 2^32.
    pub(crate) fn sent(&self) -> u32 {
        self.state.lock().numbers.next()
    }

    /// Send a signal after everything that this processor has stored, as soon as there
    /// is room (`PXI-AE-1`).
    ///
    /// # Errors
    ///
    /// `ENOMEM`; it is not sent.
    pub(crate) fn signal(&self, signal: &Arc<Signal>) -> Result {
        barrier::wmb();
        let mut state = self.state.lock();
        if signal.waits.load(Relaxed) {
            // The one that waits will tell of these stores as well (PXI-AE-4).
            return Ok(());
        }
        state.waiting.push(Mail::Signal(signal.clone()))?;
        signal.waits.store(true, Relaxed);
        self.flush(&mut state);
        Ok(())
    }

    fn enter(&self, mail: Mail) -> Result {
        let mut state = self.state.lock();
        if state.waiting.len() >= MAX {
            return Err(error::no_buffers());
        }
        state.waiting.push(mail)?;
        self.flush(&mut state);
        Ok(())
    }

    /// There may be room now.
    pub(crate) fn resume(&self) {
        let mut state = self.state.lock();
        if !state.waiting.is_empty() {
            self.flush(&mut state);
        }
    }

    /// Let the link's worker try again what could not be entered.
    pub(crate) fn resume_later(&self) {
        self.worker.kick_in(AGAIN_MS);
    }

    /// Let the link's worker run, after others that want the link.
    pub(crate) fn resume_soon(&self) {
        self.worker.kick();
    }

    /// Wait until nothing is left to be sent, for a while; whether that is so. Nothing
    /// more is entered meanwhile. Sleeps.
    pub(crate) fn drain(&self) -> bool {
        for _ in 0..DRAIN_MS {
            self.resume();
            if self.state.lock().waiting.is_empty() {
                return true;
            }
            fsleep(Delta::from_millis(1));
        }
        false
    }

    /// Whether there is room for messages by now; else the peer's completion tells.
    fn has_room(&self) -> bool {
        match self.is_one_lane {
            true => self.peer.arm_tx(QUEUE),
            false => self.peer.arm_priority(),
        }
    }

    /// What is to leave next of what waits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn next(&self, state: &State) -> Result<Option<Frame>> {
        let Some(mail) = state.waiting.front() else {
            return Ok(None);
        };
        let frame = mail.frame()?;
        match self.is_one_lane {
            true => Counted::frame(&frame, state.numbers.next()).map(Some),
            false => Ok(Some(frame)),
        }
    }

    /// Send what waits, as far as there is room.
    fn flush(&self, state: &mut State) {
        let mut sent = false;
        let mut tries = 0;
        loop {
            let frame = match self.next(state) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => {
                    self.worker.kick_in(1);
                    break;
                }
            };
            match self.peer.send(&frame, QUEUE) {
                Err(SendError::Full) => {
                    if !self.has_room() {
                        break;
                    }
                    tries += 1;
                    if tries == TRIES {
                        self.worker.kick_in(1);
                        break;
                    }
                }
                // What a peer that has left does not get, it does not miss.
                _ => {
                    if let Some(mail) = state.waiting.pop() {
                        mail.leaves();
                    }
                    state.numbers.sent();
                    sent = true;
                    tries = 0;
                }
            }
        }
        if sent {
            self.peer.kick(QUEUE);
        }
    }
}
