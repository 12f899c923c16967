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
//! | what the caller has: requests and memory | `host` |
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

use core::mem;

mod completions;
mod delivery;
mod host;
mod message;
mod order;
mod receiving;
mod room;
mod sending;
mod state;

pub use completions::Completions;
pub use host::{
    Access, Caller, Completed, Errors, Host, Notice, Operation, Outcome, Part, Protected,
    QueueKind, Remote, Work,
};
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

/// The queue of an endpoint.
type QueueOf<C> = Queue<<C as Caller>::Request, <C as Caller>::Completion, <C as Caller>::Room>;

/// Room for the queues of an endpoint.
#[derive(Debug, Default)]
pub struct Rooms<R> {
    /// For sends, writes and reads.
    pub send: R,
    /// For receives.
    pub receive: R,
}

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
    /// One that is not connected, whose queues begin with that room. How much more they get is up to
    /// the room.
    pub fn new(level: Level, rooms: Rooms<C::Room>) -> Self {
        Endpoint {
            state: State::Idle,
            level,
            send: Queue::new(rooms.send),
            receive: Queue::new(rooms.receive),
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

    /// How many requests of each queue have become complete, in order, since the last time. Those
    /// that were [taken](Self::take) meanwhile count.
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

    /// Make sure that a queue has room for another request.
    ///
    /// # Errors
    /// [`Full`].
    #[inline]
    pub fn reserve(&mut self, kind: QueueKind) -> Result<(), Full> {
        self.queue_mut(kind).reserve()
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
