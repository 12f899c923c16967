// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What an endpoint's caller has: requests, and the memory that they name.

use super::{Entry, Place, Room};
use core::fmt::Debug;

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
    pub(super) fn place(self, len: u32) -> Place {
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
    pub(super) fn failed(errors: Errors) -> Self {
        Outcome {
            errors,
            written: false,
            length: 0,
            immediate: None,
        }
    }

    /// So many bytes were sent, or read.
    #[inline]
    pub(super) fn moved(length: u32) -> Self {
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

/// What an endpoint asks of its caller: about requests, and about memory. It answers at once, and
/// calls nothing of the endpoint.
pub trait Host<C: Caller> {
    /// Copy a request, its segments into `segments`, and check what does not depend on memory. The
    /// program may change it at any time: what is copied is what is processed.
    ///
    /// # Errors
    /// What it fails with; at least one of them.
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
