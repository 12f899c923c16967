// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a receiving half is given: memory for frames in parts, those who keep frames, and the layer
//! above.

use crate::ring::{Record, Step};
use crate::side::Side;

/// Why a part of a frame was not put to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddError {
    /// There is no memory: the frame is dropped. Told once for each frame.
    NoMemory,
    /// The record does not lie in this host's memory.
    Outside,
}

/// Puts frames together that took more than one record.
pub trait Assembly<I> {
    /// A frame, in memory of its own.
    type Whole;

    /// Add the data of a record; the frame, if that completes it. A record that begins a frame ends
    /// the one before; records of a frame that was dropped are passed over.
    ///
    /// # Errors
    /// See [`AddError`].
    fn add(
        &mut self,
        inb: &I,
        record: &Record,
        step: Step,
    ) -> Result<Option<Self::Whole>, AddError>;

    /// A frame is not needed any more.
    fn give_back(&mut self, whole: Self::Whole);
}

/// What a call is made for, besides the [`Side`]. `K` names a record to those who keep it.
pub trait Context<K>: Side {
    /// Call `f` with the place of each record that was given back since the last call. A place is
    /// given back once.
    fn take_returned(&self, f: impl FnMut(usize));
    /// Whether a poll is to follow as soon as a record is given back, or can be moved out that
    /// could not: much of the ring is held. Told when it changes; not so at first. Whoever does
    /// not see yet that it is so has done that before [`take_returned`](Self::take_returned) and
    /// [`move_out`](Self::move_out) look next: a full barrier on both sides.
    fn set_urgent(&self, urgent: bool);
    /// Move the data of a record to memory of its own; `false` if that is not possible now, or if
    /// the record has been given back.
    fn move_out(&self, kept: &K) -> bool;
}

/// The layer above, as it is while frames are received.
pub trait Upper<K, W> {
    /// A frame has arrived in one record. What it is called by those who keep it, which they may if
    /// [`Arrived::may_keep`].
    fn frame(&self, frame: &Arrived<'_>) -> Option<K>;
    /// A frame has arrived in several records; `is_last` as in [`Arrived`].
    fn whole(&self, whole: &W, is_last: bool);
    /// A frame is dropped for lack of memory.
    fn no_memory(&self);
}

/// A frame in one record, which is in the ring.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The record.
    pub record: &'a Record,
    /// Where it is among those that are held, below [`RX_HELD`](super::RX_HELD).
    pub place: usize,
    /// There is room to leave it in the ring.
    pub may_keep: bool,
    /// No frame is known to be behind it.
    pub is_last: bool,
}
