// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the work queues ask of this side: descriptors and registered memory of the program, and
//! errors as the specification names them.

use crate::{
    descriptor::{
        check, collect, collect_checked, Completion, Operation, Pieces, Places, Posted, Rules,
        Sampled, Status, Written,
    },
    memory::View,
    report::{ErrorCode, Report},
    room::Heap,
    MemHandle, QueueKind, ViAttributes,
};
use mp_proto::work::{
    Access, Caller, Completed, Entry, Errors, Host, Notice, Outcome, Part, Place, Protected, Work,
};
use mp_queue_pair::Piece;
use std::slice;
use vm_memory::VolatileSlice;

/// A remote RDMA write that completes a receive.
const REMOTE_WRITE: Status = Status::OP_REMOTE_RDMA_WRITE;

/// A descriptor on a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) posted: Posted,
    /// The operation that was posted, as Status tells it.
    pub(crate) operation: Status,
}

/// A place that has none.
impl Default for Request {
    fn default() -> Self {
        Request {
            posted: Posted {
                address: 0,
                handle: MemHandle(0),
            },
            operation: Status::default(),
        }
    }
}

/// Descriptors and memory of a program.
#[derive(Debug)]
pub(crate) enum Program {}

impl Caller for Program {
    type Request = Request;
    type Completion = Completion;
    type Segments = Places;
    type Room = Heap<Entry<Request, Completion>>;
    type Piece<'a> = VolatileSlice<'a>;
    type Pieces<'a> = Pieces<'a>;
    type Payload<'a> = Piece<'a>;

    #[inline]
    fn payload_len(payload: &Piece<'_>) -> usize {
        payload.len()
    }
}

/// This side of a VI, while none of its memory is taken away.
pub(crate) struct Side<'a> {
    pub(crate) view: &'a View<'a>,
    pub(crate) attributes: &'a ViAttributes,
    pub(crate) reports: &'a mut Vec<Report>,
}

impl Host<Program> for Side<'_> {
    #[inline]
    fn sample(
        &mut self,
        kind: QueueKind,
        request: Request,
        segments: &mut Places,
    ) -> Result<Work, Errors> {
        let rules = Rules {
            receive: kind == QueueKind::Receive,
            level: self.attributes.level,
            max_transfer_size: self.attributes.max_transfer_size,
        };
        let tag = self.attributes.ptag;
        let sampled = request.posted.sample(self.view, tag, &rules, segments);
        sampled.map(Work::from).map_err(|bits| Errors(bits.0))
    }

    #[inline]
    fn complete(
        &mut self,
        request: Request,
        next: Option<Request>,
        outcome: &Outcome,
    ) -> Completed<Completion> {
        let done = completion(&request, outcome);
        let (tag, next) = (self.attributes.ptag, next.map(|next| next.posted));
        match request.posted.complete_linked(self.view, tag, next, &done) {
            Written::Whole => Completed::Whole(done),
            Written::Altered => {
                self.report(ErrorCode::PostDesc, &request, request.operation);
                Completed::Altered
            }
            Written::Unreachable => {
                let operation = done.status.masked(Status::OP_MASK);
                self.report(ErrorCode::CompProt, &request, operation);
                Completed::Untold(done)
            }
        }
    }

    /// VI-STATE-19
    fn flush(&mut self, request: Request) -> Completion {
        let done = Completion {
            descriptor: request.posted.address,
            status: Status::DONE
                .with(Status::FLUSHED_ERROR)
                .with(request.operation),
            length: 0,
            immediate: None,
        };
        // One that cannot be reached any more comes back all the same.
        let tag = self.attributes.ptag;
        let _ = request.posted.complete(self.view, tag, &done);
        done
    }

    fn note(&mut self, notice: Notice) {
        let (code, operation) = match notice {
            Notice::Lost => (ErrorCode::ConnLost, Status::default()),
            Notice::NoReceive { write: false } => (ErrorCode::RecvqEmpty, Status::OP_RECEIVE),
            Notice::NoReceive { write: true } => (ErrorCode::RecvqEmpty, REMOTE_WRITE),
            Notice::WriteRefused => (ErrorCode::RdmawProt, REMOTE_WRITE),
            Notice::WriteCorrupt => (ErrorCode::RdmawData, REMOTE_WRITE),
            Notice::WriteAborted => (ErrorCode::RdmawAbort, REMOTE_WRITE),
            Notice::WriteLost => (ErrorCode::RdmaTransport, REMOTE_WRITE),
            Notice::ReadRefused => (ErrorCode::RdmarProt, Status::OP_RDMA_READ),
        };
        self.reports.push(Report::of_vi(code, operation));
    }

    #[inline]
    fn check(&self, segments: &Places, access: Access) -> Result<(), Protected> {
        check(self.view, self.attributes.ptag, segments, access)
    }

    #[inline]
    fn gather<'a>(
        &'a self,
        pieces: &mut Pieces<'a>,
        segments: &Places,
        part: Part,
    ) -> Result<(), Protected> {
        self.collect(pieces, segments, part, Access::Read)
    }

    #[inline(always)]
    fn scatter(&self, payload: &Piece<'_>, segments: &Places, part: Part) -> Result<(), Protected> {
        let mut pieces = Pieces::new();
        self.collect(&mut pieces, segments, part, Access::Write)?;
        scatter(payload, &pieces);
        Ok(())
    }

    fn allows(&self, place: Place, access: Access) -> bool {
        self.slice(place, access).is_ok()
    }

    fn read(&self, place: Place) -> Result<VolatileSlice<'_>, Protected> {
        self.slice(place, Access::RemoteRead)
    }

    #[inline]
    fn write(&self, payload: &Piece<'_>, place: Place) -> Result<(), Protected> {
        let to = self.slice(place, Access::RemoteWrite)?;
        scatter(payload, slice::from_ref(&to));
        Ok(())
    }
}

impl Side<'_> {
    fn report(&mut self, code: ErrorCode, request: &Request, operation: Status) {
        let report = Report::of_descriptor(code, operation, request.posted.address);
        self.reports.push(report);
    }

    /// Collect the pieces of a part of segments (VI-DESC-19). Each message needs it.
    #[inline(always)]
    fn collect<'a>(
        &'a self,
        pieces: &mut Pieces<'a>,
        segments: &Places,
        part: Part,
        access: Access,
    ) -> Result<(), Protected> {
        let reach = (self.view, self.attributes.ptag, access);
        match part.whole {
            true => collect_checked(pieces, reach, segments, part.len),
            false => collect(pieces, reach, segments, part.skip, part.len),
        }
    }

    /// Memory that the remote side accesses, if this VI and the region allow it (VI-RDMA-5).
    #[inline]
    fn slice(&self, place: Place, access: Access) -> Result<VolatileSlice<'_>, Protected> {
        let enabled = match access {
            Access::RemoteWrite => self.attributes.rdma_write,
            Access::RemoteRead => self.attributes.rdma_read,
            Access::Read | Access::Write => true,
        };
        match enabled {
            true => self.view.slice(self.attributes.ptag, place, access),
            false => Err(Protected),
        }
    }
}

/// What the program gets for a descriptor.
#[inline]
fn completion(request: &Request, outcome: &Outcome) -> Completion {
    let operation = match outcome.written {
        true => REMOTE_WRITE,
        false => request.operation,
    };
    let immediate = outcome
        .immediate
        .map_or(Status::default(), |_| Status::IMMEDIATE);
    let errors = Status(outcome.errors.0);
    Completion {
        descriptor: request.posted.address,
        status: Status::DONE.with(errors).with(operation).with(immediate),
        length: outcome.length,
        immediate: outcome.immediate,
    }
}

impl From<Sampled> for Work {
    #[inline]
    fn from(sampled: Sampled) -> Self {
        let remote = |remote: crate::Remote| mp_proto::work::Remote {
            address: remote.address,
            handle: remote.handle,
        };
        Work {
            operation: match sampled.operation {
                Operation::SendReceive => mp_proto::work::Operation::Send,
                Operation::RdmaWrite(at) => mp_proto::work::Operation::Write(remote(at)),
                Operation::RdmaRead(at) => mp_proto::work::Operation::Read(remote(at)),
            },
            immediate: sampled.immediate,
            fence: sampled.fence,
            total: sampled.total,
        }
    }
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

const _: () = {
    // The errors of a refusal are bits of Status.
    let pairs = [
        (Errors::FORMAT, Status::FORMAT_ERROR),
        (Errors::PROTECTION, Status::PROTECTION_ERROR),
        (Errors::LENGTH, Status::LENGTH_ERROR),
        (Errors::PARTIAL, Status::PARTIAL_ERROR),
        (Errors::FLUSHED, Status::FLUSHED_ERROR),
        (Errors::TRANSPORT, Status::TRANSPORT_ERROR),
        (Errors::REMOTE_ACCESS, Status::RDMA_PROT_ERROR),
        (Errors::REMOTE_RECEIVE, Status::REMOTE_DESC_ERROR),
    ];
    let mut n = 0;
    while n < pairs.len() {
        assert!(pairs[n].0 .0 == pairs[n].1 .0);
        n += 1;
    }
};
