// SPDX-License-Identifier: MIT OR Apache-2.0

//! The partner's messages: into receive descriptors, registered memory and the state of what was
//! sent. Every value in them is checked; what cannot be is `None`, which ends the connection.

use super::{Engine, QueueKind};
use crate::{
    descriptor::{check, collect, Pieces, Places, Status},
    memory::{Access, Place, Protected, View},
    report::{ErrorCode, Report},
    state::State,
    wire::{place_of, word, Fault, Frame, Kind},
    Ptag,
};
use mp_queue_pair::Piece;
use std::slice;
use vm_memory::VolatileSlice;

/// Where the bytes of a message go.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// The [segments](Receiving::segments) of a receive descriptor.
    Segments,
    /// What a remote RDMA write names.
    Region(Place),
    /// Nowhere: it could not be received.
    Nowhere,
}

impl Target {
    /// The operation that a receive is completed with; nothing if nothing is received.
    #[inline]
    fn operation(&self) -> Option<Status> {
        match self {
            Target::Nowhere => None,
            Target::Segments => Some(Status::OP_RECEIVE),
            Target::Region(_) => Some(REMOTE_WRITE),
        }
    }
}

/// The receive descriptor of a message.
enum Receive {
    /// Its position. Its segments are [at hand](Receiving::segments).
    Good(u64),
    /// There is none, or a bad one: that was told, and the message is dropped.
    Missing,
}

/// A message of which not all has arrived.
#[derive(Clone, Copy, Debug)]
struct Message {
    target: Target,
    /// The receive descriptor that it completes.
    receive: Option<u64>,
    immediate: Option<u32>,
    total: u32,
    received: u32,
}

/// What is being received.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    message: Option<Message>,
    /// The segments of the receive descriptor that was started last.
    segments: Places,
    /// The message before was spoiled or lost on the way: pieces that come belong to it.
    skips: bool,
}

impl Receiving {
    /// Give up everything that belongs to descriptors.
    pub(super) fn abandon(&mut self) {
        self.message = None;
    }
}

/// A remote RDMA write that completes a receive.
const REMOTE_WRITE: Status = Status::OP_REMOTE_RDMA_WRITE;
/// A message of which not all has arrived.
const PARTIAL: Status = Status::PARTIAL_ERROR.with(Status::TRANSPORT_ERROR);

impl Engine {
    /// Take what has come over the way; nothing if it cannot be.
    #[inline]
    pub(super) fn arrival(&mut self, view: &View<'_>, frame: &Frame<'_>) -> Option<()> {
        match frame.fault {
            None => self.frame(view, frame),
            Some(Fault::Again) => Some(()),
            Some(Fault::Corrupt) => self.corrupted(view, frame),
            Some(Fault::Gap { .. }) => {
                self.missed(view);
                match self.state {
                    State::Connected => self.frame(view, frame),
                    _ => Some(()),
                }
            }
        }
    }

    /// A message was changed on the way, and what it says is perhaps not what was sent (VI-EM-7,
    /// VI-EM-8, VI-EM-13); nothing if the connection cannot go on, and nobody can be told why.
    fn corrupted(&mut self, view: &View<'_>, frame: &Frame<'_>) -> Option<()> {
        let begins = match frame.kind {
            Kind::ReadData if self.is_reliable() => {
                let read = self.sending.reads.pop_front()?;
                let bits = Status::TRANSPORT_ERROR;
                self.complete(view, QueueKind::Send, read.position, bits, 0, None);
                self.fault(view);
                return Some(());
            }
            Kind::Read | Kind::ReadFailed | Kind::Ack | Kind::Refusal if self.is_reliable() => {
                return None;
            }
            _ if self.receiving.message.is_some() => None,
            Kind::Send | Kind::LongSend => Some(Status::OP_RECEIVE),
            Kind::Write => Some(REMOTE_WRITE),
            // Without reliability there is nothing else: it was another kind.
            _ => None,
        };
        let refused = match begins {
            None => {
                self.cut(view, Status::TRANSPORT_ERROR, ErrorCode::RdmawData);
                false
            }
            Some(REMOTE_WRITE) if frame.immediate.is_none() => {
                self.report_reliably(ErrorCode::RdmawData, REMOTE_WRITE);
                false
            }
            Some(operation) => self.spoil_receive(view, operation)?,
        };
        self.receiving.skips = true;
        if !refused {
            self.reject(view, Status::TRANSPORT_ERROR);
        }
        Some(())
    }

    /// Complete the receive that a message would have completed; whether the message is refused
    /// because there is none, or a bad one.
    fn spoil_receive(&mut self, view: &View<'_>, operation: Status) -> Option<bool> {
        let receive = self.next_receive(view, 0, operation)?;
        self.receiving.message = None;
        let Receive::Good(position) = receive else {
            return Some(true);
        };
        let bits = Status::TRANSPORT_ERROR.with(operation);
        self.complete(view, QueueKind::Receive, position, bits, 0, None);
        Some(false)
    }

    /// Messages are missing (VI-EM-10): the one that is not whole ends here. If there is none, the
    /// next receive tells of it where the connection ends with that, or else the error handler.
    fn missed(&mut self, view: &View<'_>) {
        self.receiving.skips = true;
        if self.receiving.message.is_some() {
            self.cut(view, PARTIAL, ErrorCode::RdmaTransport);
        } else if !self.is_reliable() {
            return;
        } else if let Some((position, _)) = self.recv.next() {
            let bits = Status::TRANSPORT_ERROR.with(Status::OP_RECEIVE);
            self.complete(view, QueueKind::Receive, position, bits, 0, None);
        } else {
            self.report_reliably(ErrorCode::RdmaTransport, REMOTE_WRITE);
        }
        self.reject(view, Status::TRANSPORT_ERROR);
    }

    /// Take a message; nothing if it cannot be.
    #[inline]
    fn frame(&mut self, view: &View<'_>, frame: &Frame<'_>) -> Option<()> {
        let Frame {
            kind,
            immediate,
            header,
            payload,
            ..
        } = frame;
        if !payload.is_empty() && matches!(kind, Kind::Read | Kind::Ack | Kind::Refusal) {
            return None;
        }
        match kind {
            Kind::Send => {
                let total = u32::try_from(payload.len()).ok()?;
                self.begin_send(view, total, *immediate)?;
                self.data(view, payload)
            }
            Kind::LongSend => {
                self.begin_send(view, word(header, 0), *immediate)?;
                self.data(view, payload)
            }
            Kind::Write => {
                let (address, handle, len) = place_of(header);
                let place = Place {
                    handle,
                    address,
                    len,
                };
                self.begin_write(view, place, *immediate)?;
                self.data(view, payload)
            }
            Kind::More => self.data(view, payload),
            Kind::Abort => self.aborted(view),
            Kind::Read => {
                let (address, handle, len) = place_of(header);
                let place = Place {
                    handle,
                    address,
                    len,
                };
                self.read_asked(view, place)
            }
            Kind::ReadData => self.read_data(view, payload),
            Kind::ReadFailed => self.read_failed(view, word(header, 0)),
            Kind::Ack => self.acknowledged(view, word(header, 0)),
            Kind::Refusal => self.refused(view, word(header, 0), word(header, 1)),
        }
    }

    #[inline]
    fn begin_send(&mut self, view: &View<'_>, total: u32, immediate: Option<u32>) -> Option<()> {
        let receive = self.next_receive(view, total, Status::OP_RECEIVE)?;
        let Receive::Good(position) = receive else {
            return Some(());
        };
        let receive = Some(position);
        let segments = &self.receiving.segments;
        // None has more room than the largest transfer.
        let room: u64 = segments.iter().map(|place| u64::from(place.len)).sum();
        let fits = if room < u64::from(total) {
            Err(Status::LENGTH_ERROR)
        } else {
            let checked = check(view, self.attributes.ptag, segments, Access::Write);
            checked.map_err(|Protected| Status::PROTECTION_ERROR)
        };
        match fits {
            Ok(()) => self.expect(Target::Segments, receive, immediate, total),
            Err(bits) => {
                self.expect(Target::Nowhere, None, None, total);
                self.complete(view, QueueKind::Receive, position, bits, 0, None);
                self.reject(view, Status::REMOTE_DESC_ERROR);
            }
        }
        Some(())
    }

    /// Begin a message.
    #[inline]
    fn expect(&mut self, target: Target, receive: Option<u64>, immediate: Option<u32>, total: u32) {
        self.receiving.skips = false;
        self.receiving.message = Some(Message {
            target,
            receive,
            immediate,
            total,
            received: 0,
        });
    }

    /// Take the next receive descriptor for a message (VI-ORD-7); nothing if another message is
    /// not finished.
    #[inline]
    fn next_receive(&mut self, view: &View<'_>, total: u32, operation: Status) -> Option<Receive> {
        if self.receiving.message.is_some() {
            return None;
        }
        let Some((position, posted)) = self.recv.next() else {
            self.expect(Target::Nowhere, None, None, total);
            self.report(Report::of_vi(ErrorCode::RecvqEmpty, operation));
            self.reject(view, Status::REMOTE_DESC_ERROR);
            return Some(Receive::Missing);
        };
        self.recv.start();
        let rules = self.rules(true);
        let (tag, segments) = (self.attributes.ptag, &mut self.receiving.segments);
        match posted.sample(view, tag, &rules, segments) {
            Ok(_) => Some(Receive::Good(position)),
            Err(bits) => {
                self.expect(Target::Nowhere, None, None, total);
                let bits = bits.with(operation);
                self.complete(view, QueueKind::Receive, position, bits, 0, None);
                self.reject(view, Status::REMOTE_DESC_ERROR);
                Some(Receive::Missing)
            }
        }
    }

    fn begin_write(&mut self, view: &View<'_>, place: Place, immediate: Option<u32>) -> Option<()> {
        if self.receiving.message.is_some() {
            return None;
        }
        let receive = match immediate {
            None => None,
            Some(_) => match self.next_receive(view, place.len, REMOTE_WRITE)? {
                Receive::Good(position) => Some(position),
                Receive::Missing => return Some(()),
            },
        };
        let allowed = self.attributes.rdma_write
            && view
                .slice(self.attributes.ptag, place, Access::RemoteWrite)
                .is_ok();
        self.expect(Target::Region(place), receive, immediate, place.len);
        if !allowed {
            self.write_refused(view);
        }
        Some(())
    }

    /// The write that is being received is not allowed (VI-EM-4, VI-EM-5).
    fn write_refused(&mut self, view: &View<'_>) {
        if let Some(message) = &mut self.receiving.message {
            message.target = Target::Nowhere;
            match message.receive.take() {
                Some(position) => {
                    let bits = Status::PROTECTION_ERROR.with(REMOTE_WRITE);
                    self.complete(view, QueueKind::Receive, position, bits, 0, None);
                }
                None => {
                    let report = Report::of_vi(ErrorCode::RdmawProt, REMOTE_WRITE);
                    self.report(report);
                }
            }
        }
        self.reject(view, Status::RDMA_PROT_ERROR);
    }

    /// Something of the partner's has failed here: it is told if it waits for that, and the
    /// connection ends if it is reliable.
    fn reject(&mut self, view: &View<'_>, why: Status) {
        if self.is_acknowledged() {
            self.sending.refuse(why);
        }
        self.fault(view);
    }

    /// The next bytes of the message.
    #[inline]
    fn data(&mut self, view: &View<'_>, payload: &Piece<'_>) -> Option<()> {
        let tag = self.attributes.ptag;
        let Some(message) = &mut self.receiving.message else {
            // One that could not be received, or none.
            return (self.receiving.skips || self.state != State::Connected).then_some(());
        };
        let len = u32::try_from(payload.len()).ok()?;
        let received = message.received.checked_add(len)?;
        let total = message.total;
        if received > total || len == 0 && total > 0 {
            return None;
        }
        let copied = match message.target {
            Target::Nowhere => Ok(()),
            Target::Segments => {
                let reach = (view, tag, Access::Write);
                let segments = &self.receiving.segments;
                scatter_to(payload, reach, segments, message.received, len)
            }
            Target::Region(place) => {
                let place = Place {
                    address: place.address.checked_add(message.received.into())?,
                    len,
                    ..place
                };
                let to = view.slice(tag, place, Access::RemoteWrite);
                to.map(|to| scatter(payload, slice::from_ref(&to)))
            }
        };
        message.received = received;
        if copied.is_err() {
            self.interrupted(view);
        }
        if received == total {
            self.arrived(view);
        }
        Some(())
    }

    /// Memory has become inaccessible since the message began.
    fn interrupted(&mut self, view: &View<'_>) {
        let Some(message) = &mut self.receiving.message else {
            return;
        };
        if matches!(message.target, Target::Region(_)) {
            return self.write_refused(view);
        }
        message.target = Target::Nowhere;
        if let Some(position) = message.receive.take() {
            let bits = Status::PROTECTION_ERROR.with(Status::PARTIAL_ERROR);
            self.complete(view, QueueKind::Receive, position, bits, 0, None);
        }
        self.reject(view, Status::REMOTE_DESC_ERROR);
    }

    /// The message has arrived whole.
    #[inline]
    fn arrived(&mut self, view: &View<'_>) {
        let Some(message) = self.receiving.message.take() else {
            // It has ended the connection.
            return;
        };
        let Some(operation) = message.target.operation() else {
            return;
        };
        if let Some(position) = message.receive {
            let (kind, total) = (QueueKind::Receive, message.total);
            self.complete(view, kind, position, operation, total, message.immediate);
        }
        if self.is_acknowledged() {
            self.sending.effect();
        }
    }

    /// The partner has given a message up (VI-EM-9).
    fn aborted(&mut self, view: &View<'_>) -> Option<()> {
        if self.receiving.message.is_none() {
            return self.receiving.skips.then_some(());
        }
        self.cut(view, PARTIAL, ErrorCode::RdmawAbort);
        self.fault(view);
        Some(())
    }

    /// The message ends before all of it has arrived: its receive completes with errors, or the
    /// error handler is told.
    fn cut(&mut self, view: &View<'_>, bits: Status, code: ErrorCode) {
        let Some(message) = self.receiving.message.take() else {
            return;
        };
        let Some(operation) = message.target.operation() else {
            return;
        };
        match message.receive {
            Some(position) => {
                let bits = bits.with(operation);
                self.complete(view, QueueKind::Receive, position, bits, 0, None);
            }
            None => self.report_reliably(code, operation),
        }
    }

    /// Tell of an error that no descriptor tells of. At the unreliable level nobody hears of it
    /// (VI-REL-8).
    fn report_reliably(&mut self, code: ErrorCode, operation: Status) {
        if self.is_reliable() {
            self.report(Report::of_vi(code, operation));
        }
    }

    /// The connection has ended, perhaps by the transport.
    pub(super) fn receiving_ends(&mut self, view: &View<'_>, transport: bool) {
        let code = match transport {
            true => ErrorCode::RdmaTransport,
            false => ErrorCode::RdmawAbort,
        };
        self.cut(view, PARTIAL, code);
    }

    fn read_asked(&mut self, view: &View<'_>, place: Place) -> Option<()> {
        if !self.attributes.level.has_read() {
            return None;
        }
        self.sending.answer(place)?;
        let allowed = self.attributes.rdma_read
            && view
                .slice(self.attributes.ptag, place, Access::RemoteRead)
                .is_ok();
        if !allowed {
            self.sending.refuse_read();
            self.read_refused(view);
        }
        Some(())
    }

    fn read_data(&mut self, view: &View<'_>, payload: &Piece<'_>) -> Option<()> {
        let tag = self.attributes.ptag;
        let read = self.sending.reads.front_mut()?;
        let len = u32::try_from(payload.len()).ok()?;
        let received = read.received.checked_add(len)?;
        let total = read.total;
        if received > total || len == 0 && total > 0 {
            return None;
        }
        let reach = (view, tag, Access::Write);
        let copied = scatter_to(payload, reach, &read.segments, read.received, len);
        read.received = received;
        let position = read.position;
        let bits = match copied {
            Ok(()) if received < total => return Some(()),
            Ok(()) => Status::default(),
            Err(Protected) => Status::PROTECTION_ERROR.with(Status::PARTIAL_ERROR),
        };
        self.sending.reads.pop_front();
        self.complete(view, QueueKind::Send, position, bits, total, None);
        if bits.is_error() {
            self.fault(view);
        }
        Some(())
    }
}

/// Copy to the bytes of segments from `skip` bytes on.
#[inline]
fn scatter_to(
    from: &Piece<'_>,
    reach: (&View<'_>, Ptag, Access),
    segments: &[Place],
    skip: u32,
    len: u32,
) -> Result<(), Protected> {
    let mut pieces = Pieces::new();
    collect(&mut pieces, reach, segments, skip, len)?;
    scatter(from, &pieces);
    Ok(())
}

/// Copy to pieces that have as many bytes altogether.
#[inline]
fn scatter(from: &Piece<'_>, to: &[VolatileSlice<'_>]) {
    let mut at = 0;
    for piece in to {
        match from {
            Piece::Bytes(bytes) => {
                let bytes = bytes.get(at..).unwrap_or_default();
                piece.copy_from(bytes);
            }
            Piece::Memory(memory) => {
                if let Ok(memory) = memory.offset(at) {
                    memory.copy_to_volatile_slice(*piece);
                }
            }
        }
        at += piece.len();
    }
}
