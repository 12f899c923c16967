// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a sending half is given: frames, copies by somebody else, and the context of a call.

use crate::ring::{Chunk, Slot};
use crate::side::Side;

/// A frame as it is sent. Clones refer to the same data.
pub trait Payload: Clone {
    /// Why the data cannot be read.
    type Error;
    /// The peer's memory ends before the ring does.
    const OUTSIDE: Self::Error;

    /// The function header, of at most [`FUNC_HDR_MAX`](crate::wire::FUNC_HDR_MAX) bytes.
    fn func_hdr(&self) -> &[u8];
    /// Bytes of data.
    fn data_len(&self) -> u32;
    /// This copy of the frame is not sent, for good. The first reason counts.
    fn failed(&self, why: SendError<Self::Error>);
}

/// Why a frame is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError<E> {
    /// No room now: wait with [`SendingHalf::await_room`](super::SendingHalf::await_room).
    Full,
    /// The epoch is over.
    Gone,
    /// It never fits into this ring.
    TooLarge,
    /// The data could not be read.
    Body(E),
}

/// A record whose headers are written and whose data is copied by somebody else.
#[derive(Debug)]
pub struct Pending<F> {
    /// The record.
    pub slot: Slot,
    /// What of the frame it carries.
    pub chunk: Chunk,
    /// Where in the record its data begins.
    pub data_at: usize,
    /// The frame.
    pub frame: F,
}

/// The records of one ring that are being copied.
pub trait Copies<F> {
    /// Whether there is none.
    fn is_empty(&self) -> bool;
    /// Take a record out whose end has been reported, and whether its data has been copied.
    fn take_reported(&mut self) -> Option<(Pending<F>, bool)>;
    /// Fail all frames: the epoch is over, and nothing is copied any more.
    fn abandon(&mut self);
}

/// What a call is made for, besides the [`Side`].
pub trait Context<F: Payload>: Side {
    /// See [`Copies`].
    type Copies: Copies<F>;

    /// Copy the data of `chunk` to byte `at` of the record.
    ///
    /// # Errors
    /// That of the frame's data.
    fn write_data(&self, slot: &Slot, chunk: &Chunk, at: usize, frame: &F) -> Result<(), F::Error>;
    /// Whether a record with `len` bytes of data is worth a copy by somebody else.
    fn wants_copy(&self, len: u32) -> bool;
    /// Let somebody else copy the data of a record.
    ///
    /// # Errors
    /// Gives the record back: it is written by [`write_data`](Self::write_data).
    fn start_copy(&self, copies: &mut Self::Copies, record: Pending<F>) -> Result<(), Pending<F>>;
    /// The end of a copy has been reported: of `len` bytes, if it has been made.
    fn copy_ended(&self, len: u32, copied: bool);

    /// A record met a full ring.
    fn ring_full(&self);
    /// The rest of a frame that the peer has in part cannot be read any more: the epoch has to end.
    fn unreadable(&self);
}
