// SPDX-License-Identifier: MIT OR Apache-2.0

//! What happens on a VI: descriptors become messages, messages complete descriptors, errors end
//! the connection as its level says. No I/O: messages go over a [`Wire`], and what others have to
//! be told is collected ([`Effects`]).
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

/// What others have to be told.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Descriptors of the send queue that have become complete, in order.
    pub(crate) sent: usize,
    /// The same of the receive queue.
    pub(crate) received: usize,
    /// Asynchronous errors.
    pub(crate) reports: Vec<Report>,
}

impl Effects {
    pub(crate) fn is_empty(&self) -> bool {
        self.sent == 0 && self.received == 0 && self.reports.is_empty()
    }
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
    reports: Vec<Report>,
    /// There is something in it for [`effects()`](Self::effects).
    changed: bool,
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
            reports: Vec::new(),
            changed: false,
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn attributes(&self) -> &ViAttributes {
        &self.attributes
    }

    fn queue(&mut self, kind: QueueKind) -> &mut WorkQueue {
        match kind {
            QueueKind::Send => &mut self.send,
            QueueKind::Receive => &mut self.recv,
        }
    }

    pub(crate) fn is_empty(&self, kind: QueueKind) -> bool {
        match kind {
            QueueKind::Send => self.send.is_empty(),
            QueueKind::Receive => self.recv.is_empty(),
        }
    }

    fn rules(&self, receive: bool) -> Rules {
        Rules {
            receive,
            level: self.attributes.level,
            max_transfer_size: self.attributes.max_transfer_size,
        }
    }

    fn is_reliable(&self) -> bool {
        self.attributes.level.is_reliable()
    }

    fn is_acknowledged(&self) -> bool {
        self.attributes.level.is_acknowledged()
    }

    /// Take what has happened since the last time.
    #[inline]
    pub(crate) fn effects(&mut self) -> Effects {
        if !mem::take(&mut self.changed) {
            return Effects::default();
        }
        Effects {
            sent: self.send.announce(),
            received: self.recv.announce(),
            reports: mem::take(&mut self.reports),
        }
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
    pub(crate) fn post(
        &mut self,
        memory: &Regions,
        kind: QueueKind,
        address: usize,
        handle: MemHandle,
    ) {
        let receive = kind == QueueKind::Receive;
        let view = memory.view();
        let posted = Posted { address, handle };
        let tag = self.attributes.ptag;
        let Some(control) = posted.prepare(&view, tag) else {
            let operation = operation_bits(0, receive);
            let report = Report::of_descriptor(ErrorCode::PostDesc, operation, address);
            return self.catastrophe(&view, report);
        };
        let (state, queue) = (self.state, self.queue(kind));
        let is_full = queue.len() >= DESCRIPTORS_MAX;
        if let Some(last) = queue.last().filter(|last| last.done.is_none()) {
            // One that cannot be reached any more is found when it is completed.
            let _ = last.posted.link(&view, tag, posted);
        }
        let position = queue.post(posted, operation_bits(control, receive));
        if is_full {
            let report = Report {
                resource: Resource::Vi,
                ..Report::of_descriptor(ErrorCode::ViOverrun, operation_bits(0, receive), address)
            };
            return self.catastrophe(&view, report);
        }
        let flushes = match kind {
            QueueKind::Send => state.flushes_sends(),
            QueueKind::Receive => state.flushes_receives(),
        };
        if flushes {
            self.flush_one(&view, kind, position);
        }
    }

    /// Look at the first descriptor of a queue.
    pub(crate) fn head(&self, kind: QueueKind) -> Head {
        match kind {
            QueueKind::Send => self.send.head(),
            QueueKind::Receive => self.recv.head(),
        }
    }

    /// Take the first descriptor of a queue if it is complete.
    pub(crate) fn take(&mut self, kind: QueueKind) -> Head {
        self.queue(kind).take()
    }

    /// Complete a descriptor; `bits` are errors, and the operation of a receive.
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
        let queue = self.queue(kind);
        let Some(entry) = queue.get(position).copied() else {
            return;
        };
        let next = queue.get(position + 1).map(|next| next.posted);
        let at = entry.posted.address;
        let immediate = immediate.filter(|_| !bits.is_error());
        let flag = immediate.map_or(Status::default(), |_| Status::IMMEDIATE);
        let operation = entry.operation.with(bits.masked(Status::OP_MASK));
        let done = Completion {
            descriptor: at,
            status: Status::DONE.with(bits).with(operation).with(flag),
            length: if bits.is_error() { 0 } else { length },
            immediate,
        };
        match entry.posted.complete_linked(view, tag, next, &done) {
            Written::Whole => self.done(kind, position, done),
            Written::Altered => {
                let report = Report::of_descriptor(ErrorCode::PostDesc, entry.operation, at);
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
        let queue = self.queue(kind);
        let Some(entry) = queue.get(position).copied() else {
            return;
        };
        let done = Completion {
            descriptor: entry.posted.address,
            status: Status::DONE
                .with(Status::FLUSHED_ERROR)
                .with(entry.operation),
            length: 0,
            immediate: None,
        };
        // One that cannot be reached any more comes back all the same.
        let _ = entry.posted.complete(view, tag, &done);
        self.done(kind, position, done);
    }

    fn done(&mut self, kind: QueueKind, position: u64, done: Completion) {
        self.changed = true;
        self.queue(kind).complete(position, done);
    }

    /// An asynchronous error.
    fn report(&mut self, report: Report) {
        self.changed = true;
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
    pub(crate) fn lost<W: Wire>(&mut self, memory: &Regions, wire: &mut W, end: End) {
        if self.state != State::Connected {
            return;
        }
        let view = memory.view();
        if self.is_acknowledged() {
            self.settle(&view, wire.effective());
            self.settle_refused(&view, end);
        }
        let transport = matches!(
            end,
            End::Down | End::Broken | End::Closed(Reason::Transport)
        );
        self.receiving_ends(&view, transport);
        if transport && self.is_reliable() {
            self.sending_fails(&view);
        }
        self.fall(&view, Event::Lost);
    }

    /// Receive and send as much as there is, within limits; whether there was anything.
    pub(crate) fn progress<W: Wire>(&mut self, memory: &Regions, wire: &mut W) -> bool {
        // Most looks find nothing.
        if !wire.has_news() && !self.has_to_send() {
            return false;
        }
        let (received, ended) = self.receive(memory, wire);
        let ended = match ended {
            Err(end) => end,
            Ok(()) => {
                let sent = self.transmit(memory, wire);
                match sent.and_then(|sent| wire.flush().map(|()| sent)) {
                    Ok(sent) => return received || sent,
                    // What the partner has said before it went is there.
                    Err(end) => self.drain(memory, wire).unwrap_or(end),
                }
            }
        };
        self.ended(memory, wire, ended);
        true
    }

    /// Why the program ends the connection now, as the partner is told: it hears of a refusal for
    /// which there was no room.
    pub(crate) fn leaves(&self) -> Reason {
        self.sending.refuses().unwrap_or(Reason::Disconnect)
    }

    /// Receive until there is nothing more; how the partner has ended it, if it has said so.
    pub(crate) fn drain<W: Wire>(&mut self, memory: &Regions, wire: &mut W) -> Option<End> {
        loop {
            match self.receive(memory, wire) {
                (_, Err(end)) => return Some(end),
                (false, Ok(())) => return None,
                (true, Ok(())) => {}
            }
        }
    }

    fn receive<W: Wire>(
        &mut self,
        memory: &Regions,
        wire: &mut W,
    ) -> (bool, std::result::Result<(), End>) {
        let view = memory.view();
        for n in 0..BUDGET {
            let frame = match wire.receive() {
                Ok(Some(frame)) => frame,
                Ok(None) => return (n > 0, Ok(())),
                Err(end) => return (n > 0, Err(end)),
            };
            let taken = self.take_frame(&view, &frame);
            match taken {
                Err(end) => return (true, Err(end)),
                Ok(true) => wire.effect(),
                Ok(false) => {}
            }
        }
        (true, Ok(()))
    }

    /// Take a message that others have received for this VI.
    pub(crate) fn deliver<W: Wire>(&mut self, memory: &Regions, wire: &mut W, frame: &Frame<'_>) {
        let taken = self.take_frame(&memory.view(), frame);
        match taken {
            Err(end) => self.ended(memory, wire, end),
            Ok(true) => wire.effect(),
            Ok(false) => {}
        }
    }

    /// Take a message; whether the partner waits to hear that it has taken effect.
    fn take_frame(&mut self, view: &View<'_>, frame: &Frame<'_>) -> std::result::Result<bool, End> {
        if self.state == State::Connected && self.arrival(view, frame).is_none() {
            return Err(End::Broken);
        }
        // One that was refused has ended the connection.
        Ok(self.is_acknowledged() && self.state == State::Connected)
    }

    /// The connection has ended: nothing has to be said any more.
    pub(crate) fn ended<W: Wire>(&mut self, memory: &Regions, wire: &mut W, end: End) {
        if end == End::Broken {
            wire.close(Reason::Transport);
        }
        self.lost(memory, wire, end);
        self.sending.finish();
    }

    /// Whether nothing has to be said any more: the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.sending.is_over()
    }

    /// Whether messages wait for room.
    pub(crate) fn has_to_send(&self) -> bool {
        self.sending.has_to_send() || self.state == State::Connected && self.send.next().is_some()
    }
}

#[cfg(test)]
mod tests;
