// SPDX-License-Identifier: MIT OR Apache-2.0

//! What happens on a VI: descriptors become messages, messages complete descriptors, errors end
//! the connection as its level says. No I/O: messages go over a [`Wire`], and what others have to
//! be told is collected: completions and asynchronous errors.
//!
//! | what | where |
//! |---|---|
//! | posting, completing, flushing, errors | here |
//! | own descriptors to messages; answers to reads; acknowledgements | `sending` |
//! | messages into memory and descriptors | `receiving` |

mod receiving;
mod sending;

use crate::{
    attributes::DESCRIPTORS_MAX,
    descriptor::{operation_bits, Completion, Posted, Rules, Status, Written},
    memory::{Regions, View},
    queue::{Head, WorkQueue},
    report::{ErrorCode, Report, Resource},
    state::{Event, State},
    wire::{End, Frame, Reason, Wire},
    MemHandle, Result, ViAttributes,
};
use receiving::Receiving;
use sending::Sending;
use std::mem;

/// Messages that are received or sent at once before others get a turn.
const BUDGET: usize = 64;

/// One of the two work queues of a VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// Sends and RDMA operations.
    Send,
    /// Receives.
    Receive,
}

/// A VI.
#[derive(Debug)]
pub(crate) struct Engine {
    state: State,
    attributes: ViAttributes,
    send: WorkQueue,
    recv: WorkQueue,
    sending: Sending,
    receiving: Receiving,
    /// Descriptors have become complete that were not [announced](Self::announce).
    completed: bool,
    /// Asynchronous errors that nobody was told of.
    reports: Vec<Report>,
}

impl Engine {
    pub(crate) fn new(attributes: ViAttributes) -> Self {
        Engine {
            state: State::Idle,
            attributes,
            send: WorkQueue::default(),
            recv: WorkQueue::default(),
            sending: Sending::default(),
            receiving: Receiving::default(),
            completed: false,
            reports: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        self.state
    }

    #[inline]
    pub(crate) fn attributes(&self) -> &ViAttributes {
        &self.attributes
    }

    #[inline]
    fn queue(&mut self, kind: QueueKind) -> &mut WorkQueue {
        match kind {
            QueueKind::Send => &mut self.send,
            QueueKind::Receive => &mut self.recv,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self, kind: QueueKind) -> bool {
        match kind {
            QueueKind::Send => self.send.is_empty(),
            QueueKind::Receive => self.recv.is_empty(),
        }
    }

    #[inline]
    fn rules(&self, receive: bool) -> Rules {
        Rules {
            receive,
            level: self.attributes.level,
            max_transfer_size: self.attributes.max_transfer_size,
        }
    }

    #[inline]
    fn is_reliable(&self) -> bool {
        self.attributes.level.is_reliable()
    }

    #[inline]
    fn is_acknowledged(&self) -> bool {
        self.attributes.level.is_acknowledged()
    }

    /// Whether descriptors have become complete that were not announced.
    #[inline]
    pub(crate) fn has_completed(&self) -> bool {
        self.completed
    }

    /// How many descriptors of each queue have become complete, in order, since the last time.
    pub(crate) fn announce(&mut self) -> [(QueueKind, usize); 2] {
        self.completed = false;
        let (sent, received) = (self.send.announce(), self.recv.announce());
        [(QueueKind::Send, sent), (QueueKind::Receive, received)]
    }

    /// Whether there are asynchronous errors to tell of.
    #[inline]
    pub(crate) fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Take the asynchronous errors.
    pub(crate) fn reports(&mut self) -> Vec<Report> {
        mem::take(&mut self.reports)
    }

    /// Let an event change the state.
    ///
    /// # Errors
    /// [`InvalidState`](crate::Error::InvalidState): nothing has changed.
    pub(crate) fn event(&mut self, memory: &Regions, event: Event) -> Result<()> {
        let next = self.state.after(event)?;
        if event == Event::Established {
            self.sending = Sending::default();
            self.receiving = Receiving::default();
        }
        self.state = next.state;
        if next.flush {
            self.flush(&memory.view());
        }
        Ok(())
    }

    /// Whether the attributes can be changed (VI-ATTR-1).
    ///
    /// # Errors
    /// [`InvalidState`](crate::Error::InvalidState).
    pub(crate) fn may_change(&self) -> Result<()> {
        self.state.after(Event::SetAttributes).map(|_| ())
    }

    /// Change the attributes.
    ///
    /// # Errors
    /// [`InvalidState`](crate::Error::InvalidState).
    pub(crate) fn set_attributes(&mut self, attributes: ViAttributes) -> Result<()> {
        self.may_change()?;
        self.attributes = attributes;
        Ok(())
    }

    /// Post a descriptor. Whatever is wrong with it is told later (VI-POST-8, VI-POST-10).
    #[inline]
    pub(crate) fn post(
        &mut self,
        view: &View<'_>,
        kind: QueueKind,
        address: usize,
        handle: MemHandle,
    ) {
        let receive = kind == QueueKind::Receive;
        let posted = Posted { address, handle };
        let tag = self.attributes.ptag;
        let Ok(control) = posted.prepare(view, tag) else {
            let operation = operation_bits(0, receive);
            let report = Report::of_descriptor(ErrorCode::PostDesc, operation, address);
            return self.catastrophe(view, report);
        };
        let (state, queue) = (self.state, self.queue(kind));
        let is_full = queue.len() >= DESCRIPTORS_MAX;
        if let Some(last) = queue.last() {
            // One that cannot be reached any more is found when it is completed.
            let _ = last.link(view, tag, posted);
        }
        let position = queue.post(posted, operation_bits(control, receive));
        if is_full {
            let report = Report {
                resource: Resource::Vi,
                ..Report::of_descriptor(ErrorCode::ViOverrun, operation_bits(0, receive), address)
            };
            return self.catastrophe(view, report);
        }
        let flushes = match kind {
            QueueKind::Send => {
                self.sending.posted();
                state.flushes_sends()
            }
            QueueKind::Receive => state.flushes_receives(),
        };
        if flushes {
            self.flush_one(view, kind, position);
        }
    }

    /// Whether the first descriptor of a queue is there and not complete.
    pub(crate) fn is_pending(&self, kind: QueueKind) -> bool {
        match kind {
            QueueKind::Send => self.send.is_pending(),
            QueueKind::Receive => self.recv.is_pending(),
        }
    }

    /// Take the first descriptor of a queue if it is complete.
    #[inline]
    pub(crate) fn take(&mut self, kind: QueueKind) -> Head {
        self.queue(kind).take()
    }

    /// Complete a descriptor; `bits` are errors, and the operation of a receive.
    #[inline]
    fn complete(
        &mut self,
        view: &View<'_>,
        kind: QueueKind,
        position: u64,
        bits: Status,
        length: u32,
        immediate: Option<u32>,
    ) {
        let tag = self.attributes.ptag;
        let Some((posted, kept, next)) = self.queue(kind).linked(position) else {
            return;
        };
        let at = posted.address;
        let immediate = immediate.filter(|_| !bits.is_error());
        let flag = immediate.map_or(Status::default(), |_| Status::IMMEDIATE);
        let operation = kept.with(bits.masked(Status::OP_MASK));
        let done = Completion {
            descriptor: at,
            status: Status::DONE.with(bits).with(operation).with(flag),
            length: if bits.is_error() { 0 } else { length },
            immediate,
        };
        match posted.complete_linked(view, tag, next, &done) {
            Written::Whole => self.done(kind, position, done),
            Written::Altered => {
                let report = Report::of_descriptor(ErrorCode::PostDesc, kept, at);
                self.catastrophe(view, report);
            }
            Written::Unreachable => {
                self.done(kind, position, done);
                let report = Report::of_descriptor(ErrorCode::CompProt, operation, at);
                self.catastrophe(view, report);
            }
        }
    }

    /// Complete a descriptor that is not processed any more (VI-STATE-19).
    fn flush_one(&mut self, view: &View<'_>, kind: QueueKind, position: u64) {
        let tag = self.attributes.ptag;
        let Some((posted, operation, _)) = self.queue(kind).linked(position) else {
            return;
        };
        let done = Completion {
            descriptor: posted.address,
            status: Status::DONE.with(Status::FLUSHED_ERROR).with(operation),
            length: 0,
            immediate: None,
        };
        // One that cannot be reached any more comes back all the same.
        let _ = posted.complete(view, tag, &done);
        self.done(kind, position, done);
    }

    #[inline]
    fn done(&mut self, kind: QueueKind, position: u64, done: Completion) {
        self.completed = true;
        self.queue(kind).complete(position, done);
    }

    /// An asynchronous error.
    fn report(&mut self, report: Report) {
        self.reports.push(report);
    }

    fn flush(&mut self, view: &View<'_>) {
        self.sending.abandon();
        self.receiving.abandon();
        for kind in [QueueKind::Send, QueueKind::Receive] {
            for position in self.queue(kind).pending() {
                self.flush_one(view, kind, position);
            }
        }
    }

    /// Whether the VI can be destroyed (VI-EP-10).
    ///
    /// # Errors
    /// [`InvalidState`](crate::Error::InvalidState).
    pub(crate) fn may_be_destroyed(&self) -> Result<()> {
        let empty = self.send.is_empty() && self.recv.is_empty();
        self.state.after(Event::Destroy { empty }).map(|_| ())
    }

    /// An error that no level survives, and that was told.
    pub(crate) fn fail(&mut self, memory: &Regions) {
        self.fall(&memory.view(), Event::Catastrophe);
    }

    /// An error that no level survives (VI-ERR-16).
    pub(crate) fn catastrophe(&mut self, view: &View<'_>, report: Report) {
        self.report(report);
        self.fall(view, Event::Catastrophe);
    }

    /// An error that ends the connection if the level is reliable (VI-REL-4).
    fn fault(&mut self, view: &View<'_>) {
        let reliable = self.is_reliable();
        self.fall(view, Event::Fault { reliable });
    }

    fn fall(&mut self, view: &View<'_>, event: Event) {
        let Ok(next) = self.state.after(event) else {
            return;
        };
        let was = mem::replace(&mut self.state, next.state);
        if next.flush {
            self.flush(view);
        }
        if was == State::Connected && next.state == State::Error {
            self.sending.close(Reason::Fault);
            let lost = Report::of_vi(ErrorCode::ConnLost, Status::default());
            self.report(lost);
        }
    }

    /// The connection has ended at the other side, or on the way (VI-EM-9 to VI-EM-11).
    pub(crate) fn lost<W: Wire>(&mut self, view: &View<'_>, wire: &mut W, end: End) {
        if self.state != State::Connected {
            return;
        }
        if self.is_acknowledged() {
            self.settle(view, wire.effective());
            self.settle_refused(view, end);
        }
        let transport = matches!(
            end,
            End::Down | End::Broken | End::Closed(Reason::Transport)
        );
        self.receiving_ends(view, transport);
        if transport && self.is_reliable() {
            self.sending_fails(view);
        }
        self.fall(view, Event::Lost);
    }

    /// Whether [`progress()`](Self::progress) may have something to do. Most looks find nothing.
    #[inline]
    pub(crate) fn has_work<W: Wire>(&self, wire: &W) -> bool {
        wire.has_news() || self.has_to_send()
    }

    /// Receive and send as much as there is, within limits; whether there was anything.
    pub(crate) fn progress<W: Wire>(&mut self, view: &View<'_>, wire: &mut W) -> bool {
        let (received, ended) = self.receive(view, wire);
        let ended = match ended {
            Err(end) => end,
            Ok(()) => {
                let sent = match self.has_to_send() {
                    true => self.transmit(view, wire),
                    false => Ok(false),
                };
                match sent.and_then(|sent| wire.flush().map(|()| sent)) {
                    Ok(sent) => return received || sent,
                    // What the partner has said before it went is there.
                    Err(end) => self.drain(view, wire).unwrap_or(end),
                }
            }
        };
        self.ended(view, wire, ended);
        true
    }

    /// Why the program ends the connection now, as the partner is told: it hears of a refusal for
    /// which there was no room.
    pub(crate) fn leaves(&self) -> Reason {
        self.sending.refuses().unwrap_or(Reason::Disconnect)
    }

    /// Receive until there is nothing more; how the partner has ended it, if it has said so.
    pub(crate) fn drain<W: Wire>(&mut self, view: &View<'_>, wire: &mut W) -> Option<End> {
        loop {
            match self.receive(view, wire) {
                (_, Err(end)) => return Some(end),
                (false, Ok(())) => return None,
                (true, Ok(())) => {}
            }
        }
    }

    #[inline]
    fn receive<W: Wire>(
        &mut self,
        view: &View<'_>,
        wire: &mut W,
    ) -> (bool, std::result::Result<(), End>) {
        for n in 0..BUDGET {
            if !wire.has_news() {
                return (n > 0, Ok(()));
            }
            let frame = match wire.receive() {
                Ok(Some(frame)) => frame,
                Ok(None) => return (n > 0, Ok(())),
                Err(end) => return (n > 0, Err(end)),
            };
            let taken = self.take_frame(view, &frame);
            match taken {
                Err(end) => return (true, Err(end)),
                Ok(true) => wire.effect(),
                Ok(false) => {}
            }
        }
        (true, Ok(()))
    }

    /// Take a message that others have received for this VI.
    pub(crate) fn deliver<W: Wire>(&mut self, view: &View<'_>, wire: &mut W, frame: &Frame<'_>) {
        let taken = self.take_frame(view, frame);
        match taken {
            Err(end) => self.ended(view, wire, end),
            Ok(true) => wire.effect(),
            Ok(false) => {}
        }
    }

    /// Take a message; whether the partner waits to hear that it has taken effect.
    #[inline]
    fn take_frame(&mut self, view: &View<'_>, frame: &Frame<'_>) -> std::result::Result<bool, End> {
        if self.state == State::Connected && self.arrival(view, frame).is_none() {
            return Err(End::Broken);
        }
        // One that was refused has ended the connection.
        Ok(self.is_acknowledged() && self.state == State::Connected)
    }

    /// The connection has ended: nothing has to be said any more.
    pub(crate) fn ended<W: Wire>(&mut self, view: &View<'_>, wire: &mut W, end: End) {
        if end == End::Broken {
            wire.close(Reason::Transport);
        }
        self.lost(view, wire, end);
        self.sending.finish();
    }

    /// Whether nothing has to be said any more: the connection has ended.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.sending.is_over()
    }

    /// Whether messages may wait for room.
    #[inline]
    pub(crate) fn has_to_send(&self) -> bool {
        self.sending.waits()
    }
}

#[cfg(test)]
mod tests;
