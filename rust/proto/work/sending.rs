// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The messages of an endpoint: its own requests in order, answers to the partner's reads,
//! acknowledgements, and the end.

use super::message::{header, HEADER_MAX};
use super::order::Sent;
use super::room::{Few, Ring};
use super::{
    Access, Caller, End, Endpoint, Errors, Host, Kind, Notice, Operation, Outcome, Part, Place,
    Protected, QueueKind, Reason, Remote, State, Wire, Work, BUDGET,
};
use core::mem;

/// The request that is started, at the front.
#[derive(Clone, Copy, Debug)]
struct Current {
    position: u64,
    /// What to do, or the error that it is completed with.
    work: Result<Work, Errors>,
    /// All segments were found accessible. One that goes in one message is not checked before.
    checked: bool,
    /// Bytes that were sent.
    sent: u32,
    /// A message of it was sent.
    begun: bool,
}

/// The errors that a partner may refuse a request with.
fn refusals(work: &Work) -> Errors {
    let any = Errors::TRANSPORT.with(Errors::PARTIAL);
    match (work.operation, work.immediate) {
        (Operation::Write(_), None) => any.with(Errors::REMOTE_ACCESS),
        (Operation::Write(_), Some(_)) => {
            any.with(Errors::REMOTE_ACCESS).with(Errors::REMOTE_RECEIVE)
        }
        _ => any.with(Errors::REMOTE_RECEIVE),
    }
}

/// A read that is not answered.
#[derive(Debug, Default)]
pub(super) struct Read<S> {
    pub(super) position: u64,
    number: u32,
    pub(super) segments: S,
    pub(super) total: u32,
    pub(super) received: u32,
}

/// What the partner gets for a read.
#[derive(Debug)]
enum Answer {
    Data { place: Place, sent: u32 },
    Failed { number: u32 },
}

impl Default for Answer {
    fn default() -> Self {
        Answer::Failed { number: 0 }
    }
}

/// What is to be sent, or was and is not settled.
#[derive(Debug)]
pub(super) struct Sending<S> {
    current: Option<Current>,
    /// The segments of the request that is started.
    segments: S,
    /// The message that was begun has to be aborted.
    abort: bool,
    /// Sends and writes that were sent whole.
    numbered: u32,
    pub(super) reads: Ring<Read<S>, Few<Read<S>>>,
    reads_sent: u32,
    answers: Ring<Answer, Few<Answer>>,
    asked: u32,
    /// The partner's requests that have taken effect, and those of them that it knows of.
    effected: u32,
    told: u32,
    refusal: Option<(u32, Errors)>,
    closing: Option<Reason>,
    over: bool,
    /// There may be something to send: true unless it was found that there is nothing.
    waits: bool,
}

/// What has come of the next step of the send queue.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// It has moved.
    Moved,
    /// It waits for room, or for what was started before it.
    Waits,
    /// There is none.
    None,
}

impl<S: Default> Sending<S> {
    pub(super) fn new() -> Self {
        Sending {
            current: None,
            segments: S::default(),
            abort: false,
            numbered: 0,
            reads: Ring::new(Few::default()),
            reads_sent: 0,
            answers: Ring::new(Few::default()),
            asked: 0,
            effected: 0,
            told: 0,
            refusal: None,
            closing: None,
            over: false,
            waits: false,
        }
    }

    /// Give up everything that belongs to requests. What has to be told is still told.
    pub(super) fn abandon(&mut self) {
        self.current = None;
        self.reads.clear();
        self.answers
            .retain(|answer| matches!(answer, Answer::Failed { .. }));
    }

    pub(super) fn close(&mut self, reason: Reason) {
        self.closing = Some(reason);
        self.waits = true;
    }

    /// A request was posted.
    #[inline]
    pub(super) fn posted(&mut self) {
        self.waits = true;
    }

    pub(super) fn finish(&mut self) {
        self.over = true;
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether there is something to tell that belongs to no own request.
    #[inline]
    fn has_to_tell(&self) -> bool {
        let tell = self.told != self.effected || self.refusal.is_some() || self.abort;
        tell || !self.answers.is_empty()
    }

    /// Whether messages may wait for room.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.waits && !self.over
    }

    /// A request of the partner's has taken effect.
    pub(super) fn effect(&mut self) {
        self.effected = self.effected.wrapping_add(1);
        self.waits = true;
    }

    /// The partner's request after those that have taken effect does not.
    pub(super) fn refuse(&mut self, why: Errors) {
        self.refusal = Some((self.effected.wrapping_add(1), why));
        self.waits = true;
    }

    /// Why the connection ends if the partner has not been told of a refusal.
    pub(super) fn refuses(&self) -> Option<Reason> {
        let (_, why) = self.refusal?;
        Some(match why.masked(Errors::REMOTE_ACCESS).any() {
            false => Reason::RefusedReceive,
            true => Reason::RefusedRdma,
        })
    }

    /// The partner has asked for bytes; nothing if it must not ask for more now.
    pub(super) fn answer(&mut self, place: Place) -> Option<()> {
        self.asked = self.asked.wrapping_add(1);
        self.answers.push(Answer::Data { place, sent: 0 }).ok()?;
        self.waits = true;
        Some(())
    }

    /// The read that was asked for last must not be.
    pub(super) fn refuse_read(&mut self) {
        let number = self.asked;
        if let Some(last) = self.answers.back_mut() {
            *last = Answer::Failed { number };
        }
    }
}

impl<C: Caller> Endpoint<C> {
    /// Send as much as there is room for, within limits; whether it was anything.
    ///
    /// # Errors
    /// The connection has ended.
    #[inline]
    pub fn transmit<H: Host<C>, W: Wire<C>>(
        &mut self,
        host: &mut H,
        wire: &mut W,
    ) -> Result<bool, End> {
        let mut any = false;
        for _ in 0..BUDGET {
            let tells = self.sending.has_to_tell();
            let told = tells && self.tell_and_answer(host, wire)?;
            let step = self.advance(host, wire)?;
            if !told && step != Step::Moved {
                self.sending.waits = tells || step == Step::Waits;
                break;
            }
            any = true;
        }
        if let Some(reason) = self.sending.closing.filter(|_| !self.sending.has_to_tell()) {
            if !self.sending.over {
                wire.close(reason);
                self.sending.over = true;
            }
        }
        Ok(any)
    }

    /// Send what belongs to no own request; whether there was room for any of it.
    fn tell_and_answer<H: Host<C>, W: Wire<C>>(
        &mut self,
        host: &mut H,
        wire: &mut W,
    ) -> Result<bool, End> {
        let told = self.tell(wire)?;
        let answered = self.answer(host, wire)?;
        Ok(told || answered)
    }

    /// Acknowledge or refuse, or abort what was begun.
    fn tell<W: Wire<C>>(&mut self, wire: &mut W) -> Result<bool, End> {
        let sending = &mut self.sending;
        if sending.abort {
            let sent = wire.send(Kind::Abort, None, &[0; HEADER_MAX], &[])?;
            sending.abort = !sent;
            return Ok(sent);
        }
        if let Some((number, why)) = sending.refusal {
            let header = header([number, why.0, 0, 0]);
            if !wire.send(Kind::Refusal, None, &header, &[])? {
                return Ok(false);
            }
            // It says of those before as well that they have taken effect.
            (sending.refusal, sending.told) = (None, sending.effected);
            return Ok(true);
        }
        if sending.told == sending.effected {
            return Ok(false);
        }
        let number = sending.effected;
        let sent = wire.send(Kind::Ack, None, &header([number, 0, 0, 0]), &[])?;
        if sent {
            sending.told = number;
        }
        Ok(sent)
    }

    /// Send the next part of what the partner reads.
    fn answer<H: Host<C>, W: Wire<C>>(&mut self, host: &mut H, wire: &mut W) -> Result<bool, End> {
        let Some(answer) = self.sending.answers.front_mut() else {
            return Ok(false);
        };
        let (place, sent) = match answer {
            Answer::Data { place, sent } => (*place, *sent),
            Answer::Failed { number } => {
                let header = header([*number, 0, 0, 0]);
                let sent = wire.send(Kind::ReadFailed, None, &header, &[])?;
                if sent {
                    self.sending.answers.pop();
                }
                return Ok(sent);
            }
        };
        let len = (place.len - sent).min(wire.most(Kind::ReadData) as u32);
        let part = place.part(sent, len).ok_or(Protected);
        let put = match part.and_then(|part| host.read(part)) {
            Ok(piece) => Some(wire.send(Kind::ReadData, None, &[0; HEADER_MAX], &[piece])?),
            Err(Protected) => None,
        };
        match put {
            None => {
                self.answer_fails();
                self.read_refused(host);
                return Ok(true);
            }
            Some(false) => return Ok(false),
            Some(true) => {}
        }
        match self.sending.answers.front_mut() {
            Some(Answer::Data { sent, .. }) if *sent + len < place.len => *sent += len,
            _ => drop(self.sending.answers.pop()),
        }
        Ok(true)
    }

    /// What the partner reads first has become inaccessible.
    fn answer_fails(&mut self) {
        let waiting = self.sending.answers.len() as u32;
        let number = self.sending.asked.wrapping_sub(waiting.wrapping_sub(1));
        if let Some(front) = self.sending.answers.front_mut() {
            *front = Answer::Failed { number };
        }
    }

    /// A read of the partner's is not allowed.
    pub(super) fn read_refused<H: Host<C>>(&mut self, host: &mut H) {
        host.note(Notice::ReadRefused);
        self.fault(host);
    }

    /// Take the next request of the send queue, if there is one. It has to wait for what the
    /// partner must hear before: that the message before it ends in the middle.
    #[inline]
    fn begin<H: Host<C>>(&mut self, host: &mut H) -> Option<Current> {
        if self.sending.abort || self.state != State::Connected {
            return None;
        }
        let (position, request) = self.send.next()?;
        self.send.start();
        let segments = &mut self.sending.segments;
        Some(Current {
            position,
            work: host.sample(QueueKind::Send, request, segments),
            checked: false,
            sent: 0,
            begun: false,
        })
    }

    /// Do the next step of the send queue.
    #[inline]
    fn advance<H: Host<C>, W: Wire<C>>(&mut self, host: &mut H, wire: &mut W) -> Result<Step, End> {
        let current = match self.sending.current.take() {
            Some(current) => current,
            None => match self.begin(host) {
                Some(current) => current,
                None => return Ok(Step::None),
            },
        };
        match current.work {
            // What was sent before may still succeed.
            Err(_) if self.send.waiting() > 0 => Ok(self.keep(current)),
            Err(errors) => {
                self.stopped(host, current.position, errors);
                Ok(Step::Moved)
            }
            Ok(work) if work.fence && !current.begun && !self.sending.reads.is_empty() => {
                Ok(self.keep(current))
            }
            Ok(work) => match work.operation {
                Operation::Read(remote) => self.send_read(host, wire, (current, work), remote),
                _ => self.send_part(host, wire, (current, work)),
            },
        }
    }

    /// Go on with the started request later.
    #[inline]
    fn keep(&mut self, current: Current) -> Step {
        self.sending.current = Some(current);
        Step::Waits
    }

    /// Find all segments of the started request accessible, or that it cannot be, before any of it
    /// is sent; false if it cannot be.
    fn check_all<H: Host<C>>(&self, host: &H, current: &mut Current, access: Access) -> bool {
        let segments = &self.sending.segments;
        let checked = current.checked || host.check(segments, access).is_ok();
        if !checked {
            current.work = Err(Errors::PROTECTION);
        }
        current.checked = checked;
        checked
    }

    /// Send the request of a read.
    fn send_read<H: Host<C>, W: Wire<C>>(
        &mut self,
        host: &mut H,
        wire: &mut W,
        (mut current, work): (Current, Work),
        remote: Remote,
    ) -> Result<Step, End> {
        if !self.level.has_reads() {
            current.work = Err(Errors::FORMAT);
            self.keep(current);
            return Ok(Step::Moved);
        }
        if !self.check_all(host, &mut current, Access::Write) {
            self.keep(current);
            return Ok(Step::Moved);
        }
        let header = remote.place(work.total).header();
        let room = !self.sending.reads.is_full();
        if !room || !wire.send(Kind::Read, None, &header, &[])? {
            return Ok(self.keep(current));
        }
        let sending = &mut self.sending;
        sending.reads_sent = sending.reads_sent.wrapping_add(1);
        let read = Read {
            position: current.position,
            number: sending.reads_sent,
            segments: mem::take(&mut sending.segments),
            total: work.total,
            received: 0,
        };
        // There is room, as was found above.
        let _ = sending.reads.push(read);
        Ok(Step::Moved)
    }

    /// Send the next message of a send or write.
    #[inline]
    fn send_part<H: Host<C>, W: Wire<C>>(
        &mut self,
        host: &mut H,
        wire: &mut W,
        (mut current, work): (Current, Work),
    ) -> Result<Step, End> {
        let (total, begun) = (work.total, current.begun);
        let (kind, head) = match work.operation {
            _ if begun => (Kind::More, [0; HEADER_MAX]),
            Operation::Write(remote) => (Kind::Write, remote.place(total).header()),
            _ if total as usize <= wire.most(Kind::Send) => (Kind::Send, [0; HEADER_MAX]),
            _ => (Kind::LongSend, header([total, 0, 0, 0])),
        };
        let len = (total - current.sent).min(wire.most(kind) as u32);
        let part = Part {
            skip: current.sent,
            len,
            whole: len == total,
        };
        if !part.whole && !self.check_all(host, &mut current, Access::Read) {
            self.keep(current);
            return Ok(Step::Moved);
        }
        let immediate = work.immediate.filter(|_| !begun);
        let put = {
            let mut pieces = C::Pieces::default();
            let gathered = host.gather(&mut pieces, &self.sending.segments, part);
            gathered.map(|()| wire.send(kind, immediate, &head, pieces.as_ref()))
        };
        match put {
            Err(Protected) => {
                self.inaccessible(current);
                return Ok(Step::Moved);
            }
            Ok(Ok(true)) => {}
            Ok(put) => {
                let waits = self.keep(current);
                return put.map(|_| waits);
            }
        }
        current.sent += len;
        current.begun = true;
        match current.sent == total {
            true => self.sent_whole(host, current.position, &work, wire),
            false => self.sending.current = Some(current),
        }
        Ok(Step::Moved)
    }

    /// Memory of the started request must not be accessed, or has become inaccessible since it has
    /// begun. It fails when those that were sent before it have come to an end.
    #[cold]
    fn inaccessible(&mut self, mut current: Current) {
        let errors = Errors::PROTECTION;
        current.work = match current.begun {
            true => {
                self.sending.abort = true;
                Err(errors.with(Errors::PARTIAL))
            }
            false => Err(errors),
        };
        self.keep(current);
    }

    /// The request that is started fails on this side.
    fn stopped<H: Host<C>>(&mut self, host: &mut H, position: u64, errors: Errors) {
        self.complete(host, QueueKind::Send, position, Outcome::failed(errors));
        self.fault(host);
    }

    /// A send or write is on its way.
    #[inline]
    fn sent_whole<H: Host<C>, W: Wire<C>>(
        &mut self,
        host: &mut H,
        position: u64,
        work: &Work,
        wire: &W,
    ) {
        if self.level.is_acknowledged() {
            self.sending.numbered = self.sending.numbered.wrapping_add(1);
            let sent = Sent {
                total: work.total,
                message: wire.sent(),
                refusals: refusals(work),
            };
            self.send.wait(position, sent);
        } else {
            self.succeeded(host, position, work.total);
        }
    }

    #[inline]
    fn succeeded<H: Host<C>>(&mut self, host: &mut H, position: u64, total: u32) {
        self.complete(host, QueueKind::Send, position, Outcome::moved(total));
    }

    /// The connection has ended: what has taken effect at the partner before that has succeeded,
    /// although there was no room to say so.
    pub(super) fn settle<H: Host<C>>(&mut self, host: &mut H, effective: u64) {
        while let Some((position, sent)) = self.send.oldest() {
            if sent.message > effective {
                return;
            }
            self.send.settle();
            self.succeeded(host, position, sent.total);
        }
    }

    /// The partner has refused the next request with its end, for want of room before.
    pub(super) fn settle_refused<H: Host<C>>(&mut self, host: &mut H, end: End) {
        let errors = match end {
            End::Closed(Reason::RefusedReceive) => Errors::REMOTE_RECEIVE,
            End::Closed(Reason::RefusedRdma) => Errors::REMOTE_ACCESS,
            _ => return,
        };
        // A partner that has refused nothing has ended the connection all the same.
        let _ = self.refuse_next(host, errors);
    }

    /// The partner's word that requests up to a number have taken effect; nothing if it cannot
    /// be.
    pub(super) fn acknowledged<H: Host<C>>(&mut self, host: &mut H, number: u32) -> Option<()> {
        let waiting = self.send.waiting();
        let left = self.sending.numbered.wrapping_sub(number);
        if !self.level.is_acknowledged() || left > waiting {
            return None;
        }
        for _ in left..waiting {
            let Some((position, sent)) = self.send.settle() else {
                // The program could not be told of one: the others were flushed.
                break;
            };
            self.succeeded(host, position, sent.total);
        }
        Some(())
    }

    /// The partner's word that a request has failed; nothing if it cannot be.
    pub(super) fn refused<H: Host<C>>(
        &mut self,
        host: &mut H,
        number: u32,
        errors: Errors,
    ) -> Option<()> {
        let before = number.wrapping_sub(1);
        self.acknowledged(host, before)?;
        if self.state == State::Connected {
            self.refuse_next(host, errors)?;
            self.fault(host);
        }
        Some(())
    }

    /// Complete the oldest request that waits for the partner with what it was refused with;
    /// nothing if there is none.
    fn refuse_next<H: Host<C>>(&mut self, host: &mut H, errors: Errors) -> Option<()> {
        let (position, refusals, partial) = match self.send.settle() {
            Some((position, sent)) => (position, sent.refusals, Errors::NONE),
            None => {
                let current = self.sending.current.take_if(|current| current.begun)?;
                match current.work {
                    Ok(work) => (current.position, refusals(&work), Errors::PARTIAL),
                    // Its own error was first.
                    Err(own) => {
                        let failed = Outcome::failed(own);
                        self.complete(host, QueueKind::Send, current.position, failed);
                        return Some(());
                    }
                }
            }
        };
        let errors = match errors.masked(refusals) {
            Errors::NONE => Errors::TRANSPORT,
            errors => errors,
        };
        let outcome = Outcome::failed(errors.with(partial));
        self.complete(host, QueueKind::Send, position, outcome);
        Some(())
    }

    /// A read has failed at the partner; nothing if there is none of that number.
    pub(super) fn read_failed<H: Host<C>>(&mut self, host: &mut H, number: u32) -> Option<()> {
        let reads = &self.sending.reads;
        let mut all = (reads.base()..reads.end()).filter_map(|n| reads.get(n));
        let position = all.find(|read| read.number == number)?.position;
        let outcome = Outcome::failed(Errors::REMOTE_ACCESS);
        self.complete(host, QueueKind::Send, position, outcome);
        // There are reads at reliable levels only: the others are given up now.
        self.fault(host);
        Some(())
    }

    /// The transport has failed: what waits for the partner fails with it.
    pub(super) fn sending_fails<H: Host<C>>(&mut self, host: &mut H) {
        let outcome = Outcome::failed(Errors::TRANSPORT);
        let begun = self.sending.current.take_if(|current| current.begun);
        let oldest = match self.send.settle() {
            Some((position, _)) => Some(position),
            None => begun.map(|current| current.position),
        };
        while let Some(read) = self.sending.reads.pop() {
            self.complete(host, QueueKind::Send, read.position, outcome);
        }
        if let Some(position) = oldest.filter(|_| self.level.is_acknowledged()) {
            self.complete(host, QueueKind::Send, position, outcome);
        }
    }
}
