// SPDX-License-Identifier: MIT OR Apache-2.0

//! The partner's messages: into receive descriptors, registered memory and the state of what was
//! sent. Every value in them is checked; what cannot be is `None`, which ends the connection.

use super::{Engine, QueueKind};
use crate::{
    descriptor::{check, collect, collect_checked, Pieces, Places, Status},
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
    /// Its position, and bytes that it has room for. Its segments are [at hand](Receiving::segments).
    Good(u64, u32),
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

impl Message {
    /// One of so many bytes that goes nowhere.
    fn dropped(total: u32) -> Self {
        Message {
            target: Target::Nowhere,
            receive: None,
            immediate: None,
            total,
            received: 0,
        }
    }
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
        let Receive::Good(position, _) = self.next_receive(view, operation)? else {
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
                let message = self.begin_send(view, total, true, *immediate)?;
                self.data(view, message, payload)
            }
            Kind::LongSend => {
                let message = self.begin_send(view, word(header, 0), false, *immediate)?;
                self.data(view, message, payload)
            }
            Kind::Write => {
                let (address, handle, len) = place_of(header);
                let place = Place {
                    handle,
                    address,
                    len,
                };
                let is_whole = payload.len() == len as usize;
                let message = self.begin_write(view, place, is_whole, *immediate)?;
                self.data(view, message, payload)
            }
            Kind::More => match self.receiving.message.take() {
                Some(message) => self.data(view, message, payload),
                // One that could not be received, or none.
                None => (self.receiving.skips || self.state != State::Connected).then_some(()),
            },
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

    /// Begin a send of so many bytes, all of which have come if it `is_whole`; nothing if it cannot be
    /// now.
    #[inline]
    fn begin_send(
        &mut self,
        view: &View<'_>,
        total: u32,
        is_whole: bool,
        immediate: Option<u32>,
    ) -> Option<Message> {
        let Receive::Good(position, room) = self.next_receive(view, Status::OP_RECEIVE)? else {
            return Some(Message::dropped(total));
        };
        let (tag, segments) = (self.attributes.ptag, &self.receiving.segments);
        let fits = if room < total {
            Err(Status::LENGTH_ERROR)
        } else if is_whole {
            // They are checked where the bytes are copied.
            Ok(())
        } else {
            let checked = check(view, tag, segments, Access::Write);
            checked.map_err(|Protected| Status::PROTECTION_ERROR)
        };
        if let Err(bits) = fits {
            self.receive_failed(view, position, bits);
            return Some(Message::dropped(total));
        }
        Some(Message {
            target: Target::Segments,
            receive: Some(position),
            immediate,
            total,
            received: 0,
        })
    }

    /// A receive cannot take the message that has come for it.
    #[cold]
    fn receive_failed(&mut self, view: &View<'_>, position: u64, bits: Status) {
        self.complete(view, QueueKind::Receive, position, bits, 0, None);
        self.reject(view, Status::REMOTE_DESC_ERROR);
    }

    /// Take the next receive descriptor for a message (VI-ORD-7); nothing if another message is
    /// not finished.
    #[inline]
    fn next_receive(&mut self, view: &View<'_>, operation: Status) -> Option<Receive> {
        if self.receiving.message.is_some() {
            return None;
        }
        self.receiving.skips = false;
        let Some((position, posted)) = self.recv.next() else {
            self.report(Report::of_vi(ErrorCode::RecvqEmpty, operation));
            self.reject(view, Status::REMOTE_DESC_ERROR);
            return Some(Receive::Missing);
        };
        self.recv.start();
        let rules = self.rules(true);
        let (tag, segments) = (self.attributes.ptag, &mut self.receiving.segments);
        match posted.sample(view, tag, &rules, segments) {
            Ok(sampled) => Some(Receive::Good(position, sampled.total)),
            Err(bits) => {
                self.receive_failed(view, position, bits.with(operation));
                Some(Receive::Missing)
            }
        }
    }

    /// Begin an RDMA write, all of which has come if it `is_whole`; nothing if it cannot be now.
    #[inline]
    fn begin_write(
        &mut self,
        view: &View<'_>,
        place: Place,
        is_whole: bool,
        immediate: Option<u32>,
    ) -> Option<Message> {
        if self.receiving.message.is_some() {
            return None;
        }
        self.receiving.skips = false;
        let receive = match immediate {
            None => None,
            Some(_) => match self.next_receive(view, REMOTE_WRITE)? {
                Receive::Good(position, _) => Some(position),
                Receive::Missing => return Some(Message::dropped(place.len)),
            },
        };
        let tag = self.attributes.ptag;
        // What is whole is checked where the bytes are copied.
        let reaches = || is_whole || view.slice(tag, place, Access::RemoteWrite).is_ok();
        if !self.attributes.rdma_write || !reaches() {
            self.write_refused(view, receive);
            return Some(Message::dropped(place.len));
        }
        Some(Message {
            target: Target::Region(place),
            receive,
            immediate,
            total: place.len,
            received: 0,
        })
    }

    /// A write that completes that receive, if any, is not allowed (VI-EM-4, VI-EM-5).
    #[cold]
    fn write_refused(&mut self, view: &View<'_>, receive: Option<u64>) {
        match receive {
            Some(position) => {
                let bits = Status::PROTECTION_ERROR.with(REMOTE_WRITE);
                self.complete(view, QueueKind::Receive, position, bits, 0, None);
            }
            None => self.report(Report::of_vi(ErrorCode::RdmawProt, REMOTE_WRITE)),
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

    /// Take the next bytes of a message; nothing if there are more than it has, or none.
    #[inline]
    fn data(&mut self, view: &View<'_>, mut message: Message, payload: &Piece<'_>) -> Option<()> {
        if self.state != State::Connected {
            // It has ended the connection.
            return Some(());
        }
        let total = message.total;
        let len = u32::try_from(payload.len()).ok()?;
        let received = message.received.checked_add(len);
        let Some(received) = received.filter(|all| *all <= total && (len > 0 || total == 0)) else {
            self.receiving.message = Some(message);
            return None;
        };
        if self.copy(view, &message, payload, len).is_err() {
            self.interrupted(view, message);
            message = Message::dropped(total);
        }
        message.received = received;
        if received == total {
            self.arrived(view, &message);
        } else if self.state == State::Connected {
            self.receiving.message = Some(message);
        }
        Some(())
    }

    /// Copy the next `len` bytes of a message to where they go.
    #[inline]
    fn copy(
        &self,
        view: &View<'_>,
        message: &Message,
        payload: &Piece<'_>,
        len: u32,
    ) -> Result<(), Protected> {
        let tag = self.attributes.ptag;
        match message.target {
            Target::Nowhere => Ok(()),
            Target::Segments => {
                let (reach, segments) = ((view, tag, Access::Write), &self.receiving.segments);
                let mut pieces = Pieces::new();
                match len == message.total {
                    true => collect_checked(&mut pieces, reach, segments, len)?,
                    false => collect(&mut pieces, reach, segments, message.received, len)?,
                }
                scatter(payload, &pieces);
                Ok(())
            }
            Target::Region(place) => {
                let address = place.address.checked_add(message.received.into());
                let place = Place {
                    address: address.ok_or(Protected)?,
                    len,
                    ..place
                };
                let to = view.slice(tag, place, Access::RemoteWrite)?;
                scatter(payload, slice::from_ref(&to));
                Ok(())
            }
        }
    }

    /// Memory must not be accessed, or has become inaccessible since the message began.
    #[cold]
    fn interrupted(&mut self, view: &View<'_>, message: Message) {
        if matches!(message.target, Target::Region(_)) {
            return self.write_refused(view, message.receive);
        }
        let partial = match message.received {
            0 => Status::default(),
            _ => Status::PARTIAL_ERROR,
        };
        if let Some(position) = message.receive {
            let bits = Status::PROTECTION_ERROR.with(partial);
            self.complete(view, QueueKind::Receive, position, bits, 0, None);
        }
        self.reject(view, Status::REMOTE_DESC_ERROR);
    }

    /// The message has arrived whole.
    #[inline]
    fn arrived(&mut self, view: &View<'_>, message: &Message) {
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
