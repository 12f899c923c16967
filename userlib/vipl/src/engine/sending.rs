// SPDX-License-Identifier: MIT OR Apache-2.0

//! The messages of a VI: its own operations in order, answers to the partner's reads,
//! acknowledgements, and the end.

use super::{Engine, QueueKind, BUDGET};
use crate::{
    descriptor::{
        check, collect, collect_checked, Operation, Pieces, Places, Remote, Sampled, Status,
    },
    memory::{Access, Place, View},
    report::{ErrorCode, Report},
    state::State,
    wire::{header, place_header, End, Kind, Reason, Wire, HEADER_MAX, READS_MAX},
};
use std::{collections::VecDeque, mem};

/// The operation that is started, at the front.
#[derive(Clone, Copy, Debug)]
struct Current {
    position: u64,
    /// What to do, or the error that it is completed with.
    sampled: Result<Sampled, Status>,
    /// All segments were found accessible. One that goes in one message is not checked before.
    checked: bool,
    /// Bytes that were sent.
    sent: u32,
    /// A message of it was sent.
    begun: bool,
}

/// A send or write of which the partner has not said that it has taken effect.
#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    position: u64,
    total: u32,
    /// The number of its last message.
    message: u64,
    refusals: Status,
}

/// The errors that a partner may refuse an operation with (VI-STS-9).
fn refusals(sampled: &Sampled) -> Status {
    let any = Status::TRANSPORT_ERROR.with(Status::PARTIAL_ERROR);
    match (sampled.operation, sampled.immediate) {
        (Operation::RdmaWrite(_), None) => any.with(Status::RDMA_PROT_ERROR),
        (Operation::RdmaWrite(_), Some(_)) => any
            .with(Status::RDMA_PROT_ERROR)
            .with(Status::REMOTE_DESC_ERROR),
        _ => any.with(Status::REMOTE_DESC_ERROR),
    }
}

/// A read that is not answered.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) position: u64,
    pub(super) number: u32,
    pub(super) segments: Places,
    pub(super) total: u32,
    pub(super) received: u32,
}

/// What the partner gets for a read.
#[derive(Debug)]
enum Answer {
    Data { place: Place, sent: u32 },
    Failed { number: u32 },
}

/// What is to be sent, or was and is not settled.
#[derive(Debug, Default)]
pub(super) struct Sending {
    current: Option<Current>,
    /// The segments of the operation that is started.
    segments: Places,
    /// The message that was begun has to be aborted.
    abort: bool,
    /// Sends and writes that were sent whole.
    numbered: u32,
    /// Those that wait for an acknowledgement.
    unacknowledged: VecDeque<Unacknowledged>,
    pub(super) reads: VecDeque<Read>,
    reads_sent: u32,
    answers: VecDeque<Answer>,
    asked: u32,
    /// The partner's operations that have taken effect, and those of them that it knows of.
    effected: u32,
    told: u32,
    refusal: Option<(u32, Status)>,
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

impl Sending {
    /// Give up everything that belongs to descriptors. What has to be told is still told.
    pub(super) fn abandon(&mut self) {
        self.current = None;
        self.unacknowledged.clear();
        self.reads.clear();
        self.answers
            .retain(|answer| matches!(answer, Answer::Failed { .. }));
    }

    pub(super) fn close(&mut self, reason: Reason) {
        self.closing = Some(reason);
        self.waits = true;
    }

    /// A descriptor was posted.
    #[inline]
    pub(super) fn posted(&mut self) {
        self.waits = true;
    }

    pub(super) fn finish(&mut self) {
        self.over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether there is something to tell that belongs to no own descriptor.
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

    /// An operation of the partner has taken effect.
    pub(super) fn effect(&mut self) {
        self.effected = self.effected.wrapping_add(1);
        self.waits = true;
    }

    /// The partner's operation after those that have taken effect does not.
    pub(super) fn refuse(&mut self, why: Status) {
        self.refusal = Some((self.effected.wrapping_add(1), why));
        self.waits = true;
    }

    /// Why the connection ends if the partner has not been told of a refusal.
    pub(super) fn refuses(&self) -> Option<Reason> {
        let (_, why) = self.refusal?;
        Some(match why.masked(Status::RDMA_PROT_ERROR) {
            Status(0) => Reason::RefusedReceive,
            _ => Reason::RefusedRdma,
        })
    }

    /// The partner has asked for bytes; nothing if it must not ask for more now.
    pub(super) fn answer(&mut self, place: Place) -> Option<()> {
        self.asked = self.asked.wrapping_add(1);
        if self.answers.len() >= READS_MAX {
            return None;
        }
        self.answers.push_back(Answer::Data { place, sent: 0 });
        self.waits = true;
        Some(())
    }

    /// The read that was asked for last must not be.
    pub(super) fn refuse_read(&mut self) {
        let number = self.asked;
        let last = self.answers.back_mut();
        if let Some(last) = last {
            *last = Answer::Failed { number };
        }
    }
}

impl Engine {
    /// Send as much as there is room for, within limits; whether it was anything.
    #[inline]
    pub(super) fn transmit<W: Wire>(&mut self, view: &View<'_>, wire: &mut W) -> Result<bool, End> {
        let mut any = false;
        for _ in 0..BUDGET {
            let tells = self.sending.has_to_tell();
            let told = tells && self.tell_and_answer(view, wire)?;
            let step = self.advance(view, wire)?;
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

    /// Send what belongs to no own descriptor; whether there was room for any of it.
    fn tell_and_answer<W: Wire>(&mut self, view: &View<'_>, wire: &mut W) -> Result<bool, End> {
        let told = self.tell(wire)?;
        let answered = self.answer(view, wire)?;
        Ok(told || answered)
    }

    /// Acknowledge or refuse, or abort what was begun.
    fn tell<W: Wire>(&mut self, wire: &mut W) -> Result<bool, End> {
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

    /// Send the next piece of what the partner reads.
    fn answer<W: Wire>(&mut self, view: &View<'_>, wire: &mut W) -> Result<bool, End> {
        let Some(answer) = self.sending.answers.front_mut() else {
            return Ok(false);
        };
        let (place, sent) = match answer {
            Answer::Data { place, sent } => (*place, *sent),
            Answer::Failed { number } => {
                let header = header([*number, 0, 0, 0]);
                let sent = wire.send(Kind::ReadFailed, None, &header, &[])?;
                if sent {
                    self.sending.answers.pop_front();
                }
                return Ok(sent);
            }
        };
        let len = (place.len - sent).min(wire.most(Kind::ReadData) as u32);
        let piece = Place {
            address: place.address + u64::from(sent),
            len,
            ..place
        };
        let Ok(slice) = view.slice(self.attributes.ptag, piece, Access::RemoteRead) else {
            let waiting = self.sending.answers.len() as u32;
            let number = self.sending.asked.wrapping_sub(waiting - 1);
            if let Some(front) = self.sending.answers.front_mut() {
                *front = Answer::Failed { number };
            }
            self.read_refused(view);
            return Ok(true);
        };
        if !wire.send(Kind::ReadData, None, &[0; HEADER_MAX], &[slice])? {
            return Ok(false);
        }
        match self.sending.answers.front_mut() {
            Some(Answer::Data { sent, .. }) if *sent + len < place.len => *sent += len,
            _ => drop(self.sending.answers.pop_front()),
        }
        Ok(true)
    }

    /// A remote read is not allowed (VI-EM-6).
    pub(super) fn read_refused(&mut self, view: &View<'_>) {
        let report = Report::of_vi(ErrorCode::RdmarProt, Status::OP_RDMA_READ);
        self.report(report);
        self.fault(view);
    }

    /// Take the next descriptor of the send queue, if there is one. It has to wait for what the
    /// partner must hear before: that the message before it ends in the middle.
    #[inline]
    fn begin(&mut self, view: &View<'_>) -> Option<Current> {
        if self.sending.abort || self.state != State::Connected {
            return None;
        }
        let (position, posted) = self.send.next()?;
        self.send.start();
        let (tag, rules) = (self.attributes.ptag, self.rules(false));
        Some(Current {
            position,
            sampled: posted.sample(view, tag, &rules, &mut self.sending.segments),
            checked: false,
            sent: 0,
            begun: false,
        })
    }

    /// Do the next step of the send queue.
    #[inline]
    fn advance<W: Wire>(&mut self, view: &View<'_>, wire: &mut W) -> Result<Step, End> {
        let current = match self.sending.current.take() {
            Some(current) => current,
            None => match self.begin(view) {
                Some(current) => current,
                None => return Ok(Step::None),
            },
        };
        match current.sampled {
            // What was sent before may still succeed (VI-REL-6).
            Err(_) if !self.sending.unacknowledged.is_empty() => Ok(self.keep(current)),
            Err(status) => {
                self.stopped(view, current.position, status);
                Ok(Step::Moved)
            }
            Ok(sampled) if sampled.fence && !current.begun && !self.sending.reads.is_empty() => {
                Ok(self.keep(current))
            }
            Ok(sampled) => match sampled.operation {
                Operation::RdmaRead(remote) => {
                    self.send_read(view, wire, (current, sampled), remote)
                }
                _ => self.send_piece(view, wire, (current, sampled)),
            },
        }
    }

    /// Go on with the started operation later.
    #[inline]
    fn keep(&mut self, current: Current) -> Step {
        self.sending.current = Some(current);
        Step::Waits
    }

    /// Find all segments of the started operation accessible, or that it cannot be, before any of it
    /// is sent; false if it cannot be.
    fn check_all(&mut self, view: &View<'_>, current: &mut Current, access: Access) -> bool {
        let segments = &self.sending.segments;
        let checked =
            current.checked || check(view, self.attributes.ptag, segments, access).is_ok();
        if !checked {
            current.sampled = Err(Status::PROTECTION_ERROR);
        }
        current.checked = checked;
        checked
    }

    /// Send the request of a read.
    fn send_read<W: Wire>(
        &mut self,
        view: &View<'_>,
        wire: &mut W,
        (mut current, sampled): (Current, Sampled),
        remote: Remote,
    ) -> Result<Step, End> {
        if !self.check_all(view, &mut current, Access::Write) {
            self.keep(current);
            return Ok(Step::Moved);
        }
        let header = place_header(remote.address, remote.handle, sampled.total);
        let room = self.sending.reads.len() < READS_MAX;
        if !room || !wire.send(Kind::Read, None, &header, &[])? {
            return Ok(self.keep(current));
        }
        let sending = &mut self.sending;
        sending.reads_sent = sending.reads_sent.wrapping_add(1);
        sending.reads.push_back(Read {
            position: current.position,
            number: sending.reads_sent,
            segments: mem::take(&mut sending.segments),
            total: sampled.total,
            received: 0,
        });
        Ok(Step::Moved)
    }

    /// Send the next message of a send or write.
    #[inline]
    fn send_piece<W: Wire>(
        &mut self,
        view: &View<'_>,
        wire: &mut W,
        (mut current, sampled): (Current, Sampled),
    ) -> Result<Step, End> {
        let (total, begun) = (sampled.total, current.begun);
        let (kind, head) = match sampled.operation {
            _ if begun => (Kind::More, [0; HEADER_MAX]),
            Operation::RdmaWrite(remote) => {
                let header = place_header(remote.address, remote.handle, total);
                (Kind::Write, header)
            }
            _ if total as usize <= wire.most(Kind::Send) => (Kind::Send, [0; HEADER_MAX]),
            _ => (Kind::LongSend, header([total, 0, 0, 0])),
        };
        let len = (total - current.sent).min(wire.most(kind) as u32);
        let is_whole = len == total;
        if !is_whole && !self.check_all(view, &mut current, Access::Read) {
            self.keep(current);
            return Ok(Step::Moved);
        }
        let reach = (view, self.attributes.ptag, Access::Read);
        let mut pieces = Pieces::new();
        let segments = &self.sending.segments;
        let collected = match is_whole {
            true => collect_checked(&mut pieces, reach, segments, len),
            false => collect(&mut pieces, reach, segments, current.sent, len),
        };
        if collected.is_err() {
            self.inaccessible(view, current);
            return Ok(Step::Moved);
        }
        let immediate = sampled.immediate.filter(|_| !begun);
        let put = wire.send(kind, immediate, &head, &pieces);
        if put != Ok(true) {
            let waits = self.keep(current);
            return put.map(|_| waits);
        }
        current.sent += len;
        current.begun = true;
        match current.sent == total {
            true => self.sent_whole(view, current.position, &sampled, wire),
            false => self.sending.current = Some(current),
        }
        Ok(Step::Moved)
    }

    /// Memory of the started operation must not be accessed, or has become inaccessible since it has
    /// begun.
    #[cold]
    fn inaccessible(&mut self, view: &View<'_>, mut current: Current) {
        let bits = Status::PROTECTION_ERROR;
        match current.begun {
            true => {
                self.sending.abort = true;
                self.stopped(view, current.position, bits.with(Status::PARTIAL_ERROR));
            }
            false => {
                current.sampled = Err(bits);
                self.keep(current);
            }
        }
    }

    /// The operation that is started fails on this side.
    fn stopped(&mut self, view: &View<'_>, position: u64, bits: Status) {
        self.complete(view, QueueKind::Send, position, bits, 0, None);
        self.fault(view);
    }

    /// A send or write is on its way (VI-REL-7).
    #[inline]
    fn sent_whole<W: Wire>(&mut self, view: &View<'_>, position: u64, sampled: &Sampled, wire: &W) {
        if self.is_acknowledged() {
            self.sending.numbered = self.sending.numbered.wrapping_add(1);
            self.sending.unacknowledged.push_back(Unacknowledged {
                position,
                total: sampled.total,
                message: wire.sent(),
                refusals: refusals(sampled),
            });
        } else {
            self.succeeded(view, position, sampled.total);
        }
    }

    #[inline]
    fn succeeded(&mut self, view: &View<'_>, position: u64, total: u32) {
        let ok = Status::default();
        self.complete(view, QueueKind::Send, position, ok, total, None);
    }

    /// The connection has ended: what has taken effect at the partner before that has succeeded,
    /// although there was no room to say so (VI-REL-3).
    pub(super) fn settle(&mut self, view: &View<'_>, effective: u64) {
        let unacknowledged = &self.sending.unacknowledged;
        let count = unacknowledged.partition_point(|sent| sent.message <= effective);
        for _ in 0..count {
            if let Some(sent) = self.sending.unacknowledged.pop_front() {
                self.succeeded(view, sent.position, sent.total);
            }
        }
    }

    /// The partner has refused the next operation with its end, for want of room before.
    pub(super) fn settle_refused(&mut self, view: &View<'_>, end: End) {
        let bits = match end {
            End::Closed(Reason::RefusedReceive) => Status::REMOTE_DESC_ERROR,
            End::Closed(Reason::RefusedRdma) => Status::RDMA_PROT_ERROR,
            _ => return,
        };
        // A partner that has refused nothing has ended the connection all the same.
        let _ = self.refuse_next(view, bits);
    }

    /// The partner's word that operations up to a number have taken effect; nothing if it cannot
    /// be.
    pub(super) fn acknowledged(&mut self, view: &View<'_>, number: u32) -> Option<()> {
        let waiting = self.sending.unacknowledged.len() as u32;
        let left = self.sending.numbered.wrapping_sub(number);
        if !self.is_acknowledged() || left > waiting {
            return None;
        }
        for _ in left..waiting {
            let sent = self.sending.unacknowledged.pop_front()?;
            self.succeeded(view, sent.position, sent.total);
        }
        Some(())
    }

    /// The partner's word that an operation has failed; nothing if it cannot be.
    pub(super) fn refused(&mut self, view: &View<'_>, number: u32, bits: u32) -> Option<()> {
        let before = number.wrapping_sub(1);
        self.acknowledged(view, before)?;
        self.refuse_next(view, Status(bits))?;
        self.fault(view);
        Some(())
    }

    /// Complete the oldest operation that waits for the partner with what it was refused with;
    /// nothing if there is none.
    fn refuse_next(&mut self, view: &View<'_>, bits: Status) -> Option<()> {
        let (position, refusals, partial) = match self.sending.unacknowledged.pop_front() {
            Some(sent) => (sent.position, sent.refusals, Status::default()),
            None => {
                let current = self.sending.current.take_if(|current| current.begun)?;
                let refusals = refusals(current.sampled.as_ref().ok()?);
                (current.position, refusals, Status::PARTIAL_ERROR)
            }
        };
        let bits = match bits.masked(refusals) {
            Status(0) => Status::TRANSPORT_ERROR,
            bits => bits,
        };
        let bits = bits.with(partial);
        self.complete(view, QueueKind::Send, position, bits, 0, None);
        Some(())
    }

    /// A read has failed at the partner; nothing if there is none of that number.
    pub(super) fn read_failed(&mut self, view: &View<'_>, number: u32) -> Option<()> {
        let mut reads = self.sending.reads.iter();
        let index = reads.position(|read| read.number == number)?;
        let read = self.sending.reads.remove(index)?;
        let bits = Status::RDMA_PROT_ERROR;
        self.complete(view, QueueKind::Send, read.position, bits, 0, None);
        self.fault(view);
        Some(())
    }

    /// The transport has failed: what waits for the partner fails with it (VI-EM-10, VI-EM-11,
    /// VI-EM-13).
    pub(super) fn sending_fails(&mut self, view: &View<'_>) {
        let reads = mem::take(&mut self.sending.reads);
        let reads = reads.into_iter().map(|read| read.position);
        let begun = self.sending.current.take_if(|current| current.begun);
        let oldest = match self.sending.unacknowledged.pop_front() {
            Some(sent) => Some(sent.position),
            None => begun.map(|current| current.position),
        };
        let oldest = oldest.filter(|_| self.is_acknowledged());
        let failed: Vec<u64> = reads.chain(oldest).collect();
        for position in failed {
            let bits = Status::TRANSPORT_ERROR;
            self.complete(view, QueueKind::Send, position, bits, 0, None);
        }
    }
}
