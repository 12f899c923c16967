// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Work queues: sends, writes, reads and receives that a program posts at two connected endpoints,
//! and how they become complete.
//!
//! An [`Endpoint`] has a queue for what it does and one for what it receives. Requests become
//! messages, messages complete requests, and errors end the connection as its [`Level`] says. What
//! a request is, where its bytes lie and what the program sees of its completion is the caller's
//! ([`Host`]), as is the way to the partner ([`Wire`]): a queue pair, or a part of one.
//!
//! | what | where |
//! |---|---|
//! | posting, completing, flushing, errors, turns | here |
//! | levels and states | `state` |
//! | the order of requests on a queue | `order` |
//! | completion queues, for many endpoints | `completions` |
//! | room for all of that | `room` |
//! | messages, and the way that carries them | `message` |
//! | own requests to messages; answers to reads; acknowledgements | `sending` |
//! | what a message does, and what is wrong with it | `delivery` |
//! | messages into memory and receives | `receiving` |
//!
//! # Order
//!
//! Requests of a queue start in the order in which they were posted and come back in that order. A
//! read is complete when its answer is there: what is posted behind it may take effect at the partner
//! before, unless it has a fence ([`Work::fence`]). Messages take receives in the order in
//! which both were posted.
//!
//! # Levels
//!
//! | level | a send or write is complete | an error |
//! |---|---|---|
//! | unreliable | when it is on its way | ends its own request |
//! | reliable | when it is on its way | ends the connection |
//! | acknowledged | when it has taken effect at the partner | ends the connection; the sender's request says why |
//!
//! # Untrusted
//!
//! Every value in a message is checked. One that cannot be is [`End::Broken`].

use core::fmt::Debug;
use core::mem;

mod completions;
mod delivery;
mod message;
mod order;
mod receiving;
mod room;
mod sending;
mod state;

pub use completions::Completions;
pub use message::{
    header, header_of, word, End, Fault, Frame, Header, Kind, Place, Reason, Wire, HEADER_MAX,
    READS_MAX,
};
pub use order::{Entry, Head};
pub use room::{Full, Room};
pub use state::{Event, Invalid, Level, State, Transition};

use order::Queue;
use receiving::Receiving;
use sending::Sending;

/// Messages that are received or sent at once before others get a turn.
const BUDGET: usize = 64;

/// One of the two work queues of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// Sends, writes and reads.
    Send,
    /// Receives.
    Receive,
}

/// Why a request has failed: there may be several reasons. The numbers are those of a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Errors(pub u32);

impl Errors {
    /// It has not.
    pub const NONE: Errors = Errors(0);
    /// It is malformed.
    pub const FORMAT: Errors = Errors(0x002);
    /// Own memory must not be accessed like that.
    pub const PROTECTION: Errors = Errors(0x004);
    /// Lengths do not fit.
    pub const LENGTH: Errors = Errors(0x008);
    /// Only a part was transferred.
    pub const PARTIAL: Errors = Errors(0x010);
    /// The connection has ended before it was processed.
    pub const FLUSHED: Errors = Errors(0x020);
    /// Data was lost or corrupted on the way.
    pub const TRANSPORT: Errors = Errors(0x040);
    /// The partner's memory must not be accessed like that.
    pub const REMOTE_ACCESS: Errors = Errors(0x080);
    /// The partner's receive is missing or does not fit.
    pub const REMOTE_RECEIVE: Errors = Errors(0x100);

    /// Both.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Errors) -> Errors {
        Errors(self.0 | other.0)
    }

    /// Those that both have.
    #[inline]
    #[must_use]
    pub const fn masked(self, mask: Errors) -> Errors {
        Errors(self.0 & mask.0)
    }

    /// Whether there is any.
    #[inline]
    pub const fn any(self) -> bool {
        self.0 != 0
    }
}

/// What is done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// This side reads it.
    Read,
    /// This side writes it.
    Write,
    /// The partner reads it.
    RemoteRead,
    /// The partner writes it.
    RemoteWrite,
}

/// Memory must not be accessed like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protected;

/// What a request on the send queue asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Send the bytes of the segments.
    Send,
    /// Write them to the partner's memory.
    Write(Remote),
    /// Read as many bytes of the partner's memory into them.
    Read(Remote),
}

/// Where the bytes of a write or read are at the partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The address in the partner's process.
    pub address: u64,
    /// The partner's handle of the region.
    pub handle: u32,
}

impl Remote {
    #[inline]
    fn place(self, len: u32) -> Place {
        Place {
            handle: self.handle,
            address: self.address,
            len,
        }
    }
}

/// A request that was copied and can be processed. Its segments are beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// What to do; of a receive it means nothing.
    pub operation: Operation,
    /// Immediate data that travels with a send or write.
    pub immediate: Option<u32>,
    /// It starts only after all reads before it are complete.
    pub fence: bool,
    /// Bytes that the segments have altogether.
    pub total: u32,
}

/// A part of the bytes of segments, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes in front of it.
    pub skip: u32,
    /// Its own.
    pub len: u32,
    /// Nothing else is transferred, and nobody has checked before that the segments can be
    /// accessed: all of them have to be, also those that have none of these bytes.
    pub whole: bool,
}

/// How a request has become complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why it has failed, if it has.
    pub errors: Errors,
    /// A receive that a write of the partner's has completed, not a send.
    pub written: bool,
    /// Bytes transferred; 0 after an error.
    pub length: u32,
    /// Immediate data that came with it; none after an error.
    pub immediate: Option<u32>,
}

impl Outcome {
    /// What has failed.
    #[inline]
    fn failed(errors: Errors) -> Self {
        Outcome {
            errors,
            written: false,
            length: 0,
            immediate: None,
        }
    }

    /// So many bytes were sent, or read.
    #[inline]
    fn moved(length: u32) -> Self {
        Outcome {
            errors: Errors::NONE,
            written: false,
            length,
            immediate: None,
        }
    }
}

/// What has come of telling the program of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed<T> {
    /// The request belongs to the program again.
    Whole(T),
    /// So it does, but the program could not be told where it looks: an error that no level
    /// survives.
    Untold(T),
    /// It is not what was posted any more, which is such an error as well: it is flushed.
    Altered,
}

/// What no request tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The connection is lost.
    Lost,
    /// A message had no receive.
    NoReceive {
        /// It was a write with immediate data.
        write: bool,
    },
    /// A write of the partner's was not allowed.
    WriteRefused,
    /// A write of the partner's was changed on the way.
    WriteCorrupt,
    /// A write of the partner's has ended in the middle.
    WriteAborted,
    /// The transport has failed in a write of the partner's.
    WriteLost,
    /// A read of the partner's was not allowed.
    ReadRefused,
}

/// The types of a caller.
pub trait Caller {
    /// A request as it is posted, such as where its descriptor is.
    type Request: Copy + Default + Debug;
    /// What the program gets for a request that is complete.
    type Completion: Copy + Debug;
    /// The pieces of memory that a request names.
    type Segments: Default + Debug;
    /// Room for the requests of a queue.
    type Room: Room<Entry<Self::Request, Self::Completion>> + Debug;
    /// Memory that is sent.
    type Piece<'a>;
    /// Several of that, in order.
    type Pieces<'a>: Default + AsRef<[Self::Piece<'a>]>;
    /// Bytes that have arrived.
    type Payload<'a>: Copy;

    /// How many bytes have arrived.
    fn payload_len(payload: &Self::Payload<'_>) -> usize;
}

/// What an endpoint has its caller do: with requests, and with memory. It is asked at once, and
/// calls nothing of the endpoint.
pub trait Host<C: Caller> {
    /// Copy a request, its segments into `segments`, and check what does not depend on memory. The
    /// program may change it at any time: what is copied is what is processed.
    ///
    /// # Errors
    /// What it fails with.
    fn sample(
        &mut self,
        kind: QueueKind,
        request: C::Request,
        segments: &mut C::Segments,
    ) -> Result<Work, Errors>;

    /// Tell the program that a request is complete; `next` is the request that was posted behind it.
    /// If that fails, the host notes why.
    fn complete(
        &mut self,
        request: C::Request,
        next: Option<C::Request>,
        outcome: &Outcome,
    ) -> Completed<C::Completion>;

    /// Tell the program that a request is complete which was not processed
    /// ([`Errors::FLUSHED`]), as far as it can be told.
    fn flush(&mut self, request: C::Request) -> C::Completion;

    /// Take note of what no request tells of.
    fn note(&mut self, notice: Notice);

    /// Make sure that all segments may be accessed like that.
    ///
    /// # Errors
    /// [`Protected`].
    fn check(&self, segments: &C::Segments, access: Access) -> Result<(), Protected>;

    /// Collect the memory of a part of segments that is sent.
    ///
    /// # Errors
    /// [`Protected`].
    fn gather<'a>(
        &'a self,
        pieces: &mut C::Pieces<'a>,
        segments: &C::Segments,
        part: Part,
    ) -> Result<(), Protected>;

    /// Copy what has arrived to a part of segments, which has as many bytes.
    ///
    /// # Errors
    /// [`Protected`]: nothing was copied.
    fn scatter(
        &self,
        payload: &C::Payload<'_>,
        segments: &C::Segments,
        part: Part,
    ) -> Result<(), Protected>;

    /// Whether the partner may access own memory like that.
    fn allows(&self, place: Place, access: Access) -> bool;

    /// Own memory that the partner reads, if it may.
    ///
    /// # Errors
    /// [`Protected`].
    fn read(&self, place: Place) -> Result<C::Piece<'_>, Protected>;

    /// Copy what has arrived to memory that the partner writes, if it may.
    ///
    /// # Errors
    /// [`Protected`]: nothing was copied.
    fn write(&self, payload: &C::Payload<'_>, place: Place) -> Result<(), Protected>;
}

/// The queue of an endpoint.
type QueueOf<C> = Queue<<C as Caller>::Request, <C as Caller>::Completion, <C as Caller>::Room>;

/// One end of a connection, with its two work queues.
#[derive(Debug)]
pub struct Endpoint<C: Caller> {
    state: State,
    level: Level,
    send: QueueOf<C>,
    receive: QueueOf<C>,
    sending: Sending<C::Segments>,
    receiving: Receiving<C::Segments>,
    /// Requests have become complete that were not [announced](Self::announce).
    completed: bool,
}

impl<C: Caller> Endpoint<C> {
    /// One that is not connected.
    pub fn new(level: Level) -> Self {
        Endpoint {
            state: State::Idle,
            level,
            send: Queue::new(),
            receive: Queue::new(),
            sending: Sending::new(),
            receiving: Receiving::new(),
            completed: false,
        }
    }

    /// Its state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// Change the level; only while it is not connected.
    ///
    /// # Errors
    /// [`Invalid`]: it is not idle.
    pub fn set_level(&mut self, level: Level) -> Result<(), Invalid> {
        match self.state {
            State::Idle => {
                self.level = level;
                Ok(())
            }
            _ => Err(Invalid),
        }
    }

    #[inline]
    fn queue(&self, kind: QueueKind) -> &QueueOf<C> {
        match kind {
            QueueKind::Send => &self.send,
            QueueKind::Receive => &self.receive,
        }
    }

    #[inline]
    fn queue_mut(&mut self, kind: QueueKind) -> &mut QueueOf<C> {
        match kind {
            QueueKind::Send => &mut self.send,
            QueueKind::Receive => &mut self.receive,
        }
    }

    /// How many requests were posted to a queue and not taken.
    #[inline]
    pub fn len(&self, kind: QueueKind) -> usize {
        self.queue(kind).len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self, kind: QueueKind) -> bool {
        self.queue(kind).is_empty()
    }

    /// The request that was posted last, if it is there and not complete.
    #[inline]
    pub fn last(&self, kind: QueueKind) -> Option<C::Request> {
        self.queue(kind).last()
    }

    /// Whether the first request of a queue is there and not complete.
    pub fn is_pending(&self, kind: QueueKind) -> bool {
        self.queue(kind).is_pending()
    }

    /// Take the first request of a queue if it is complete.
    #[inline]
    pub fn take(&mut self, kind: QueueKind) -> Head<C::Completion> {
        self.queue_mut(kind).take()
    }

    /// Whether requests have become complete that were not announced.
    #[inline]
    pub fn has_completed(&self) -> bool {
        self.completed
    }

    /// How many requests of each queue have become complete, in order, since the last time.
    pub fn announce(&mut self) -> [(QueueKind, usize); 2] {
        self.completed = false;
        let (sent, received) = (self.send.announce(), self.receive.announce());
        [(QueueKind::Send, sent), (QueueKind::Receive, received)]
    }

    /// Let an event change the state.
    ///
    /// # Errors
    /// [`Invalid`]: nothing has changed.
    pub fn event<H: Host<C>>(&mut self, host: &mut H, event: Event) -> Result<(), Invalid> {
        let next = self.state.after(event)?;
        if event == Event::Established {
            self.sending = Sending::new();
            self.receiving = Receiving::new();
        }
        self.state = next.state;
        if next.flush {
            self.flush(host);
        }
        Ok(())
    }

    /// Post a request.
    ///
    /// # Errors
    /// [`Full`]: nothing was posted.
    #[inline]
    pub fn post<H: Host<C>>(
        &mut self,
        host: &mut H,
        kind: QueueKind,
        request: C::Request,
    ) -> Result<(), Full> {
        let position = self.queue_mut(kind).post(request)?;
        let flushes = match kind {
            QueueKind::Send => {
                self.sending.posted();
                self.state.flushes_sends()
            }
            QueueKind::Receive => self.state.flushes_receives(),
        };
        if flushes {
            self.flush_one(host, kind, position);
        }
        Ok(())
    }

    /// Complete a request.
    #[inline]
    fn complete<H: Host<C>>(
        &mut self,
        host: &mut H,
        kind: QueueKind,
        position: u64,
        outcome: Outcome,
    ) {
        let Some((request, next)) = self.queue(kind).linked(position) else {
            return;
        };
        match host.complete(request, next, &outcome) {
            Completed::Whole(done) => self.done(kind, position, done),
            Completed::Altered => self.fail(host),
            Completed::Untold(done) => {
                self.done(kind, position, done);
                self.fail(host);
            }
        }
    }

    /// Complete a request that is not processed any more.
    fn flush_one<H: Host<C>>(&mut self, host: &mut H, kind: QueueKind, position: u64) {
        if let Some((request, _)) = self.queue(kind).linked(position) {
            let done = host.flush(request);
            self.done(kind, position, done);
        }
    }

    #[inline]
    fn done(&mut self, kind: QueueKind, position: u64, done: C::Completion) {
        self.completed = true;
        self.queue_mut(kind).complete(position, done);
    }

    fn flush<H: Host<C>>(&mut self, host: &mut H) {
        self.sending.abandon();
        self.receiving.abandon();
        self.send.abandon();
        for kind in [QueueKind::Send, QueueKind::Receive] {
            let mut from = 0;
            while let Some(position) = self.queue(kind).pending_from(from) {
                self.flush_one(host, kind, position);
                from = position + 1;
            }
        }
    }

    /// An error that no level survives.
    pub fn fail<H: Host<C>>(&mut self, host: &mut H) {
        self.fall(host, Event::Catastrophe);
    }

    /// An error that ends the connection if the level is reliable.
    fn fault<H: Host<C>>(&mut self, host: &mut H) {
        let reliable = self.level.is_reliable();
        self.fall(host, Event::Fault { reliable });
    }

    fn fall<H: Host<C>>(&mut self, host: &mut H, event: Event) {
        let Ok(next) = self.state.after(event) else {
            return;
        };
        let was = mem::replace(&mut self.state, next.state);
        if next.flush {
            self.flush(host);
        }
        if was == State::Connected && next.state == State::Broken {
            self.sending.close(Reason::Fault);
            host.note(Notice::Lost);
        }
    }

    /// The connection has ended at the other side, or on the way.
    pub fn lost<H: Host<C>, W: Wire<C>>(&mut self, host: &mut H, wire: &mut W, end: End) {
        if self.state != State::Connected {
            return;
        }
        if self.level.is_acknowledged() {
            self.settle(host, wire.effective());
            self.settle_refused(host, end);
        }
        let transport = end.is_of_transport();
        self.receiving_ends(host, transport);
        if transport && self.level.is_reliable() {
            self.sending_fails(host);
        }
        self.fall(host, Event::Lost);
    }

    /// The connection has ended: nothing has to be said any more.
    pub fn ended<H: Host<C>, W: Wire<C>>(&mut self, host: &mut H, wire: &mut W, end: End) {
        if end == End::Broken {
            wire.close(Reason::Transport);
        }
        self.lost(host, wire, end);
        self.sending.finish();
    }

    /// Whether nothing has to be said any more: the connection has ended.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.sending.is_over()
    }

    /// Why the program ends the connection now, as the partner is told: it hears of a refusal for
    /// which there was no room.
    pub fn leaves(&self) -> Reason {
        self.sending.refuses().unwrap_or(Reason::Disconnect)
    }

    /// Whether messages may wait for room.
    #[inline]
    pub fn has_to_send(&self) -> bool {
        self.sending.waits()
    }

    /// Whether [`progress()`](Self::progress) may have something to do. Most looks find nothing.
    #[inline]
    pub fn has_work<W: Wire<C>>(&self, wire: &W) -> bool {
        wire.has_news() || self.has_to_send()
    }

    /// Receive and send as much as there is, within limits; whether there was anything.
    pub fn progress<H: Host<C>, W: Wire<C>>(&mut self, host: &mut H, wire: &mut W) -> bool {
        let (received, ended) = self.receive(host, wire);
        let ended = match ended {
            Err(end) => end,
            Ok(()) => {
                let sent = match self.has_to_send() {
                    true => self.transmit(host, wire),
                    false => Ok(false),
                };
                match sent.and_then(|sent| wire.flush().map(|()| sent)) {
                    Ok(sent) => return received || sent,
                    // What the partner has said before it went is there.
                    Err(end) => self.drain(host, wire).unwrap_or(end),
                }
            }
        };
        self.ended(host, wire, ended);
        true
    }

    /// Receive until there is nothing more; how the partner has ended it, if it has said so.
    pub fn drain<H: Host<C>, W: Wire<C>>(&mut self, host: &mut H, wire: &mut W) -> Option<End> {
        loop {
            match self.receive(host, wire) {
                (_, Err(end)) => return Some(end),
                (false, Ok(())) => return None,
                (true, Ok(())) => {}
            }
        }
    }

    #[inline]
    fn receive<H: Host<C>, W: Wire<C>>(
        &mut self,
        host: &mut H,
        wire: &mut W,
    ) -> (bool, Result<(), End>) {
        for n in 0..BUDGET {
            if !wire.has_news() {
                return (n > 0, Ok(()));
            }
            let taken = match wire.receive() {
                Ok(Some(frame)) => self.take_frame(host, &frame),
                Ok(None) => return (n > 0, Ok(())),
                Err(end) => return (n > 0, Err(end)),
            };
            match taken {
                Err(end) => return (true, Err(end)),
                Ok(true) => wire.effect(),
                Ok(false) => {}
            }
        }
        (true, Ok(()))
    }

    /// Take a message that others have received for this endpoint.
    pub fn deliver<H: Host<C>, W: Wire<C>>(
        &mut self,
        host: &mut H,
        wire: &mut W,
        frame: Frame<C::Payload<'_>>,
    ) {
        match self.take_frame(host, &frame) {
            Err(end) => self.ended(host, wire, end),
            Ok(true) => wire.effect(),
            Ok(false) => {}
        }
    }

    /// Take a message; whether the partner waits to hear that it has taken effect.
    #[inline]
    fn take_frame<H: Host<C>>(
        &mut self,
        host: &mut H,
        frame: &Frame<C::Payload<'_>>,
    ) -> Result<bool, End> {
        if self.state == State::Connected && self.arrival(host, frame).is_none() {
            return Err(End::Broken);
        }
        // One that was refused has ended the connection.
        Ok(self.level.is_acknowledged() && self.state == State::Connected)
    }
}
