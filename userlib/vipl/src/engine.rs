// SPDX-License-Identifier: MIT OR Apache-2.0

//! What happens on a VI: the work queues of `mp_proto`, with descriptors, memory and errors as the
//! specification has them. No I/O: messages go over a [`Wire`], and what others have to be told is
//! collected: completions and asynchronous errors.
//!
//! | what | where |
//! |---|---|
//! | posting, attributes, states | here |
//! | descriptors and memory, as the work queues ask for them | `program` |
//! | order, levels, messages, errors | `mp_proto::work` |

mod program;

use crate::{
    attributes::DESCRIPTORS_MAX,
    descriptor::{operation_bits, Completion, Posted},
    memory::{Regions, View},
    report::{ErrorCode, Report, Resource},
    state::{Event, State},
    wire::{End, Frame, Reason, Wire},
    Error, MemHandle, QueueKind, Result, ViAttributes,
};
use mp_proto::work::{self, Endpoint, Full, Rooms};
pub(crate) use program::Program;
use program::{Request, Side};
use std::mem;

/// The first descriptor of a queue.
pub(crate) type Head = work::Head<Completion>;

/// A VI.
#[derive(Debug)]
pub(crate) struct Engine {
    attributes: ViAttributes,
    work: Endpoint<Program>,
    /// Asynchronous errors that nobody was told of.
    reports: Vec<Report>,
}

impl Engine {
    /// One whose queues have room for a first descriptor.
    ///
    /// # Errors
    /// [`Resource`](Error::Resource).
    pub(crate) fn new(attributes: ViAttributes) -> Result<Self> {
        let mut work = Endpoint::new(attributes.level.into(), Rooms::default());
        for kind in [QueueKind::Send, QueueKind::Receive] {
            work.reserve(kind).map_err(|Full| Error::Resource)?;
        }
        Ok(Engine {
            attributes,
            work,
            reports: Vec::new(),
        })
    }

    /// The work queues, and what they ask.
    #[inline]
    fn parts<'a>(&'a mut self, view: &'a View<'_>) -> (&'a mut Endpoint<Program>, Side<'a>) {
        let side = Side {
            view,
            attributes: &self.attributes,
            reports: &mut self.reports,
        };
        (&mut self.work, side)
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        self.work.state().into()
    }

    #[inline]
    pub(crate) fn attributes(&self) -> &ViAttributes {
        &self.attributes
    }

    #[inline]
    pub(crate) fn is_empty(&self, kind: QueueKind) -> bool {
        self.work.is_empty(kind)
    }

    /// Whether descriptors have become complete that were not announced.
    #[inline]
    pub(crate) fn has_completed(&self) -> bool {
        self.work.has_completed()
    }

    /// How many descriptors of each queue have become complete, in order, since the last time.
    pub(crate) fn announce(&mut self) -> [(QueueKind, usize); 2] {
        self.work.announce()
    }

    /// Whether there are asynchronous errors to tell of.
    #[inline]
    pub(crate) fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Take the asynchronous errors.
    pub(crate) fn reports(&mut self) -> Vec<Report> {
        mem::take(&mut self.reports)
    }

    /// Let an event change the state.
    ///
    /// # Errors
    /// [`InvalidState`](Error::InvalidState): nothing has changed (VI-STATE-18).
    pub(crate) fn event(&mut self, memory: &Regions, event: Event) -> Result<()> {
        let view = memory.view();
        let (work, mut side) = self.parts(&view);
        work.event(&mut side, event)
            .map_err(|work::Invalid| Error::InvalidState)
    }

    /// Whether the attributes can be changed (VI-ATTR-1).
    ///
    /// # Errors
    /// [`InvalidState`](Error::InvalidState).
    pub(crate) fn may_change(&self) -> Result<()> {
        match self.state() {
            State::Idle => Ok(()),
            _ => Err(Error::InvalidState),
        }
    }

    /// Change the attributes.
    ///
    /// # Errors
    /// [`InvalidState`](Error::InvalidState).
    pub(crate) fn set_attributes(&mut self, attributes: ViAttributes) -> Result<()> {
        let changed = self.work.set_level(attributes.level.into());
        changed.map_err(|work::Invalid| Error::InvalidState)?;
        self.attributes = attributes;
        Ok(())
    }

    /// Whether the VI can be destroyed (VI-EP-10, VI-STATE-17).
    ///
    /// # Errors
    /// [`InvalidState`](Error::InvalidState).
    pub(crate) fn may_be_destroyed(&self) -> Result<()> {
        let kinds = [QueueKind::Send, QueueKind::Receive];
        match kinds.into_iter().all(|kind| self.is_empty(kind)) {
            true => self.may_change(),
            false => Err(Error::InvalidState),
        }
    }

    /// Post a descriptor. Whatever is wrong with it is told later (VI-POST-8, VI-POST-10).
    ///
    /// A queue has room for one more at any time, so that one which is too many is flushed with the
    /// others (VI-POST-9), also if there is no memory for more.
    #[inline]
    pub(crate) fn post(
        &mut self,
        view: &View<'_>,
        kind: QueueKind,
        address: usize,
        handle: MemHandle,
    ) {
        let receive = kind == QueueKind::Receive;
        let posted = Posted { address, handle };
        let tag = self.attributes.ptag;
        let Ok(control) = posted.prepare(view, tag) else {
            let operation = operation_bits(0, receive);
            let report = Report::of_descriptor(ErrorCode::PostDesc, operation, address);
            return self.catastrophe(view, report);
        };
        let (work, mut side) = self.parts(view);
        let is_full = work.len(kind) >= DESCRIPTORS_MAX;
        if let Some(last) = work.last(kind) {
            // One that cannot be reached any more is found when it is completed.
            let _ = last.posted.link(view, tag, posted);
        }
        let request = Request {
            posted,
            operation: operation_bits(control, receive),
        };
        let posted = work.post(&mut side, kind, request);
        if posted.and_then(|()| work.reserve(kind)).is_err() || is_full {
            let report = Report {
                resource: Resource::Vi,
                ..Report::of_descriptor(ErrorCode::ViOverrun, operation_bits(0, receive), address)
            };
            self.catastrophe(view, report);
        }
    }

    /// Whether the first descriptor of a queue is there and not complete.
    pub(crate) fn is_pending(&self, kind: QueueKind) -> bool {
        self.work.is_pending(kind)
    }

    /// Take the first descriptor of a queue if it is complete (VI-WQ-1).
    #[inline]
    pub(crate) fn take(&mut self, kind: QueueKind) -> Head {
        self.work.take(kind)
    }

    /// An error that no level survives, and that was told.
    pub(crate) fn fail(&mut self, memory: &Regions) {
        let view = memory.view();
        let (work, mut side) = self.parts(&view);
        work.fail(&mut side);
    }

    /// An error that no level survives (VI-ERR-16).
    #[cold]
    fn catastrophe(&mut self, view: &View<'_>, report: Report) {
        self.reports.push(report);
        let (work, mut side) = self.parts(view);
        work.fail(&mut side);
    }

    /// The connection has ended at the other side, or on the way (VI-EM-9 to VI-EM-11).
    pub(crate) fn lost<W: Wire<Program>>(&mut self, view: &View<'_>, wire: &mut W, end: End) {
        let (work, mut side) = self.parts(view);
        work.lost(&mut side, wire, end);
    }

    /// Whether [`progress()`](Self::progress) may have something to do. Most looks find nothing.
    #[inline]
    pub(crate) fn has_work<W: Wire<Program>>(&self, wire: &W) -> bool {
        self.work.has_work(wire)
    }

    /// Receive and send as much as there is, within limits; whether there was anything.
    pub(crate) fn progress<W: Wire<Program>>(&mut self, view: &View<'_>, wire: &mut W) -> bool {
        let (work, mut side) = self.parts(view);
        work.progress(&mut side, wire)
    }

    /// Why the program ends the connection now, as the partner is told: it hears of a refusal for
    /// which there was no room.
    pub(crate) fn leaves(&self) -> Reason {
        self.work.leaves()
    }

    /// Receive until there is nothing more; how the partner has ended it, if it has said so.
    pub(crate) fn drain<W: Wire<Program>>(&mut self, view: &View<'_>, wire: &mut W) -> Option<End> {
        let (work, mut side) = self.parts(view);
        work.drain(&mut side, wire)
    }

    /// Take a message that others have received for this VI.
    pub(crate) fn deliver<W: Wire<Program>>(
        &mut self,
        view: &View<'_>,
        wire: &mut W,
        frame: Frame<'_>,
    ) {
        let (work, mut side) = self.parts(view);
        work.deliver(&mut side, wire, frame);
    }

    /// The connection has ended: nothing has to be said any more.
    pub(crate) fn ended<W: Wire<Program>>(&mut self, view: &View<'_>, wire: &mut W, end: End) {
        let (work, mut side) = self.parts(view);
        work.ended(&mut side, wire, end);
    }

    /// Whether nothing has to be said any more: the connection has ended.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.work.is_over()
    }

    /// Whether messages may wait for room.
    #[inline]
    pub(crate) fn has_to_send(&self) -> bool {
        self.work.has_to_send()
    }
}

#[cfg(test)]
mod tests;
