// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a message does that has arrived: to receives, to own reads, and to what waits for the
//! partner. What cannot be is `None`, which ends the connection.

use super::message::word;
use super::receiving::Receive;
use super::{
    Access, Caller, Endpoint, Errors, Fault, Frame, Host, Kind, Notice, Outcome, Part, Place,
    Protected, QueueKind, State,
};

/// A message of which not all has arrived.
pub(super) const PARTIAL: Errors = Errors::PARTIAL.with(Errors::TRANSPORT);

/// What a spoiled message has begun.
enum Begun {
    /// Nothing: it belongs to the message before.
    Nothing,
    /// A send.
    Send,
    /// A write.
    Write,
}

impl<C: Caller> Endpoint<C> {
    /// Take what has come over the way; nothing if it cannot be.
    #[inline]
    pub(super) fn arrival<H: Host<C>>(
        &mut self,
        host: &mut H,
        frame: &Frame<C::Payload<'_>>,
    ) -> Option<()> {
        match frame.fault {
            None => self.frame(host, frame),
            Some(fault) => self.faulty(host, frame, fault),
        }
    }

    /// Take what has not come as it was sent.
    #[cold]
    fn faulty<H: Host<C>>(
        &mut self,
        host: &mut H,
        frame: &Frame<C::Payload<'_>>,
        fault: Fault,
    ) -> Option<()> {
        match fault {
            Fault::Again => Some(()),
            Fault::Corrupt => self.corrupted(host, frame.kind, frame.immediate.is_some()),
            Fault::Gap { .. } => {
                self.missed(host);
                match self.state {
                    State::Connected => self.frame(host, frame),
                    _ => Some(()),
                }
            }
        }
    }

    /// A message was changed on the way, and what it says is perhaps not what was sent; nothing if the
    /// connection cannot go on, and nobody can be told why.
    fn corrupted<H: Host<C>>(&mut self, host: &mut H, kind: Kind, immediate: bool) -> Option<()> {
        let begun = match kind {
            Kind::ReadData if self.level.is_reliable() => {
                let read = self.sending.reads.pop()?;
                let outcome = Outcome::failed(Errors::TRANSPORT);
                self.complete(host, QueueKind::Send, read.position, outcome);
                self.fault(host);
                return Some(());
            }
            Kind::Read | Kind::ReadFailed | Kind::Ack | Kind::Refusal
                if self.level.is_reliable() =>
            {
                return None;
            }
            _ if self.receiving.message.is_some() => Begun::Nothing,
            Kind::Send | Kind::LongSend => Begun::Send,
            Kind::Write => Begun::Write,
            // Without reliability there is nothing else: it was another kind.
            _ => Begun::Nothing,
        };
        let refused = match begun {
            Begun::Nothing => {
                self.cut(host, Errors::TRANSPORT, Notice::WriteCorrupt);
                false
            }
            Begun::Write if !immediate => {
                self.note_reliably(host, Notice::WriteCorrupt);
                false
            }
            Begun::Write => self.spoil_receive(host, true)?,
            Begun::Send => self.spoil_receive(host, false)?,
        };
        self.receiving.skips = true;
        if !refused {
            self.reject(host, Errors::TRANSPORT);
        }
        Some(())
    }

    /// Complete the receive that a message would have completed; whether the message is refused
    /// because there is none, or a bad one.
    fn spoil_receive<H: Host<C>>(&mut self, host: &mut H, write: bool) -> Option<bool> {
        let Receive::Good(position, _) = self.next_receive(host, write)? else {
            return Some(true);
        };
        let outcome = Outcome {
            written: write,
            ..Outcome::failed(Errors::TRANSPORT)
        };
        self.complete(host, QueueKind::Receive, position, outcome);
        Some(false)
    }

    /// Messages are missing: the one that is not whole ends here. If there is none, the next receive
    /// tells of it where the connection ends with that, or else the program is told.
    fn missed<H: Host<C>>(&mut self, host: &mut H) {
        self.receiving.skips = true;
        if self.receiving.message.is_some() {
            self.cut(host, PARTIAL, Notice::WriteLost);
        } else if !self.level.is_reliable() {
            return;
        } else if let Some((position, _)) = self.receive.next() {
            let outcome = Outcome::failed(Errors::TRANSPORT);
            self.complete(host, QueueKind::Receive, position, outcome);
        } else {
            host.note(Notice::WriteLost);
        }
        self.reject(host, Errors::TRANSPORT);
    }

    /// Take a message; nothing if it cannot be.
    #[inline]
    fn frame<H: Host<C>>(&mut self, host: &mut H, frame: &Frame<C::Payload<'_>>) -> Option<()> {
        let Frame {
            kind,
            immediate,
            header,
            payload,
            ..
        } = frame;
        let len = C::payload_len(payload);
        if len > 0 && matches!(kind, Kind::Read | Kind::Ack | Kind::Refusal) {
            return None;
        }
        match kind {
            Kind::Send => {
                let total = u32::try_from(len).ok()?;
                let message = self.begin_send(host, total, true, *immediate)?;
                self.data(host, message, payload)
            }
            Kind::LongSend => {
                let message = self.begin_send(host, word(header, 0), false, *immediate)?;
                self.data(host, message, payload)
            }
            Kind::Write => {
                let place = Place::of(header);
                let is_whole = len == place.len as usize;
                let message = self.begin_write(host, place, is_whole, *immediate)?;
                self.data(host, message, payload)
            }
            Kind::More => match self.receiving.message.take() {
                Some(message) => self.data(host, message, payload),
                // One that could not be received, or none.
                None => (self.receiving.skips || self.state != State::Connected).then_some(()),
            },
            Kind::Abort => self.aborted(host),
            Kind::Read => self.read_asked(host, Place::of(header)),
            Kind::ReadData => self.read_data(host, payload),
            Kind::ReadFailed => self.read_failed(host, word(header, 0)),
            Kind::Ack => self.acknowledged(host, word(header, 0)),
            Kind::Refusal => self.refused(host, word(header, 0), Errors(word(header, 1))),
        }
    }

    /// The partner has given a message up.
    fn aborted<H: Host<C>>(&mut self, host: &mut H) -> Option<()> {
        if self.receiving.message.is_none() {
            return self.receiving.skips.then_some(());
        }
        self.cut(host, PARTIAL, Notice::WriteAborted);
        self.fault(host);
        Some(())
    }

    /// The partner reads.
    fn read_asked<H: Host<C>>(&mut self, host: &mut H, place: Place) -> Option<()> {
        if !self.level.has_reads() {
            return None;
        }
        self.sending.answer(place)?;
        if !host.allows(place, Access::RemoteRead) {
            self.sending.refuse_read();
            self.read_refused(host);
        }
        Some(())
    }

    /// Bytes of the oldest read have come.
    fn read_data<H: Host<C>>(&mut self, host: &mut H, payload: &C::Payload<'_>) -> Option<()> {
        let read = self.sending.reads.front_mut()?;
        let len = u32::try_from(C::payload_len(payload)).ok()?;
        let received = read.received.checked_add(len)?;
        let total = read.total;
        if received > total || len == 0 && total > 0 {
            return None;
        }
        let part = Part {
            skip: read.received,
            len,
            whole: false,
        };
        let copied = host.scatter(payload, &read.segments, part);
        read.received = received;
        let position = read.position;
        let outcome = match copied {
            Ok(()) if received < total => return Some(()),
            Ok(()) => Outcome::moved(total),
            Err(Protected) => Outcome::failed(Errors::PROTECTION.with(Errors::PARTIAL)),
        };
        self.sending.reads.pop();
        self.complete(host, QueueKind::Send, position, outcome);
        if outcome.errors.any() {
            self.fault(host);
        }
        Some(())
    }
}
