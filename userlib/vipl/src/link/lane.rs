// SPDX-License-Identifier: MIT OR Apache-2.0

//! A connection's part of a trunk. Its own session has no windows: it says how the partner was
//! found, and when it has gone.

use super::News;
use crate::{
    engine::Program,
    trunk::{Control, Trunk},
    vi::ViShared,
    wire::{End, Frame, Header, Kind, Reason, Wire},
};
use mp_fabric::{CharDevice, Deadline, Device, Error as FabricError, EventMask, Session};
use std::sync::Arc;
use vm_memory::VolatileSlice;

/// What is heard of the session of a lane.
pub(crate) const ENDS: EventMask = EventMask::CLOSED.union(EventMask::DOWN);

/// The two numbers of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// By which the partner names it.
    pub(crate) own: u32,
    /// By which this side names it.
    pub(crate) partner: u32,
}

/// A connection's part of a trunk.
#[derive(Debug)]
pub(crate) struct Lane<D: Device = CharDevice> {
    trunk: Arc<Trunk<D>>,
    session: Arc<Session<D>>,
    numbers: Numbers,
    /// The partner is ready for messages.
    ready: bool,
    /// A message was refused since the last flush: it waits for room, or for its turn.
    refused: bool,
    /// It waits for its turn.
    queued: bool,
    sent: u64,
    received: u64,
    /// Messages that have taken effect here, and at the partner as far as its end says so.
    effect: u64,
    effective: u64,
    /// The end of the session, and the round of receiving after which it is that of the lane.
    ending: Option<(End, u64)>,
    closed: bool,
}

impl<D: Device> Lane<D> {
    /// A lane that nobody knows of yet.
    pub(crate) fn new(trunk: Arc<Trunk<D>>, session: Arc<Session<D>>, numbers: Numbers) -> Self {
        Lane {
            trunk,
            session,
            numbers,
            ready: false,
            refused: false,
            queued: false,
            sent: 0,
            received: 0,
            effect: 0,
            effective: 0,
            ending: None,
            closed: false,
        }
    }

    /// Begin: what arrives is for a VI, and the partner may send. With the VI's lock.
    /// False if the trunk has told all its lanes of its end before.
    pub(crate) fn start(&mut self, vi: &Arc<ViShared<D>>) -> bool {
        self.ready = self.trunk.enter(self.numbers, vi);
        self.trunk.tell(Control::Ready(self.numbers));
        self.trunk.end().is_none()
    }

    /// Whether a number is that of this lane, and not of an earlier one of the same VI.
    pub(crate) fn is(&self, own: u32) -> bool {
        self.numbers.own == own
    }

    /// The partner is ready for a lane, if it means this one.
    pub(crate) fn begin(&mut self, both: Numbers) {
        self.ready |= self.numbers == both;
    }

    /// A message has arrived.
    pub(crate) fn count(&mut self) {
        self.received += 1;
    }

    /// Note how the partner has ended it, and how much has taken effect there: not more than was
    /// sent.
    pub(crate) fn settle(&mut self, end: End, effective: u64) -> End {
        if effective > self.sent {
            return End::Broken;
        }
        self.effective = effective;
        end
    }

    pub(crate) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Look whether the trunk or the session has ended. Messages of the lane come by the trunk: the
    /// end of the session is that of the lane once all that had come before was received.
    pub(super) fn look(&mut self) -> News {
        if let Some(end) = self.trunk.end() {
            return News::Ended(end);
        }
        let (end, round) = match self.ending {
            Some(ending) => ending,
            None => match self.session.wait_one(ENDS, Deadline::PAST) {
                Err(FabricError::TimedOut) => return News::None,
                _ => {
                    let events = self.session.state().map(|state| state.events);
                    let is_down = events.is_ok_and(|events| events.contains(EventMask::DOWN));
                    let end = if is_down { End::Down } else { End::Gone };
                    *self.ending.insert((end, self.trunk.next_round()))
                }
            },
        };
        match self.trunk.has_received(round) {
            true => News::Ended(end),
            false => News::Ending,
        }
    }

    /// End the lane at this side.
    fn leave(&mut self, reason: Option<Reason>) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.trunk.forget(self.numbers.own);
        self.trunk.tell(Control::End {
            lane: self.numbers,
            reason,
            effective: self.effect,
            session: Arc::clone(&self.session),
        });
    }
}

impl<D: Device> Wire<Program> for Lane<D> {
    fn most(&self, kind: Kind) -> usize {
        self.trunk.most(kind)
    }

    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[VolatileSlice<'_>],
    ) -> Result<bool, End> {
        if !self.ready {
            return Ok(false);
        }
        let message = (kind, immediate, header);
        let put = self.trunk.send(self.numbers, message, payload)?;
        self.sent += u64::from(put);
        self.refused |= !put;
        self.queued |= !put;
        Ok(put)
    }

    fn has_news(&self) -> bool {
        false
    }

    /// Messages come by the trunk.
    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        Ok(None)
    }

    fn flush(&mut self) -> Result<(), End> {
        let refused = std::mem::take(&mut self.refused);
        if self.queued && !refused {
            self.queued = false;
            self.trunk.yield_turn(self.numbers.own);
        }
        self.trunk.flush()
    }

    fn effect(&mut self) {
        self.effect = self.received;
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn effective(&mut self) -> u64 {
        self.effective
    }

    fn close(&mut self, reason: Reason) {
        self.leave(Some(reason));
    }
}

/// The partner hears of the end, whatever it was.
impl<D: Device> Drop for Lane<D> {
    fn drop(&mut self) {
        self.leave(None);
    }
}
