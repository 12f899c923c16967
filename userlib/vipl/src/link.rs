// SPDX-License-Identifier: MIT OR Apache-2.0

//! A connection's way over the fabric: the queue pair in the windows of a session. One session for
//! one connection; a [`Link`] is what a connection knows of it, so that connections of the same
//! two processes can share a session by streams of its pair.

use crate::wire::{End, Frame, Header, Kind, Reason, Wire};
use mp_fabric::{CharDevice, Deadline, Device, Error as FabricError, EventMask, Session};
use mp_queue_pair::{Error, Head, QueuePair, Shape};
use std::ops::RangeInclusive;
use vm_memory::VolatileSlice;

/// Bytes that cross in one piece.
pub(crate) const MTU: usize = 4096;

/// Bytes of a window: as much as a pair needs, and as much as is used if there is room.
pub(crate) const WINDOW: RangeInclusive<u64> = 0x1_0000..=0x1_0000;

/// The stream of the pair that a connection has.
const STREAM: u16 = 0;

/// The way to the other end of a connection.
#[derive(Debug)]
pub(crate) struct Link<D: Device = CharDevice> {
    pair: QueuePair<D>,
    /// A message on its way out, or in.
    out: Vec<u8>,
    room: Vec<u8>,
}

impl<D: Device> Link<D> {
    /// Waits until both sides have their end of the pair.
    ///
    /// # Errors
    /// The end that it has come to; nothing if the time is over.
    pub(crate) fn open(session: Session<D>, deadline: Deadline) -> Result<Self, Option<End>> {
        let pair = QueuePair::open(session, &Shape::default(), deadline);
        let pair = pair.map_err(|error| match error {
            Error::Fabric(FabricError::TimedOut) => None,
            other => Some(end_of(other)),
        })?;
        Ok(Link {
            out: Vec::with_capacity(pair.message_max()),
            room: vec![0; MTU],
            pair,
        })
    }

    /// Whether the partner's process or the link has gone.
    pub(crate) fn gone(&self) -> Option<End> {
        match self.pair.session().state() {
            Ok(state) if state.events.contains(EventMask::CLOSED) => Some(End::Gone),
            Ok(state) if state.events.contains(EventMask::DOWN) => Some(End::Down),
            Ok(_) => None,
            Err(_) => Some(End::Gone),
        }
    }
}

impl<D: Device> Wire for Link<D> {
    fn most(&self, kind: Kind) -> usize {
        self.pair.message_max() - kind.header()
    }

    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[VolatileSlice<'_>],
    ) -> Result<bool, End> {
        self.out.clear();
        self.out
            .extend(header.get(..kind.header()).unwrap_or_default());
        for piece in payload {
            let at = self.out.len();
            self.out.resize(at + piece.len(), 0);
            piece.copy_to(self.out.get_mut(at..).unwrap_or_default());
        }
        let head = Head {
            stream: STREAM,
            kind: kind as u8,
            more: false,
            immediate,
        };
        self.pair.try_send(&head, &self.out).map_err(end_of)
    }

    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        let received = self.pair.try_receive(&mut self.room).map_err(end_of)?;
        let Some(received) = received else {
            return Ok(None);
        };
        let kind = Kind::of(received.head.kind).ok_or(End::Broken)?;
        let bytes = self.room.get_mut(..received.len).ok_or(End::Broken)?;
        let (front, payload) = bytes
            .split_at_mut_checked(kind.header())
            .ok_or(End::Broken)?;
        let mut header = Header::default();
        header
            .get_mut(..front.len())
            .ok_or(End::Broken)?
            .copy_from_slice(front);
        Ok(Some(Frame {
            kind,
            immediate: received.head.immediate,
            header,
            payload: VolatileSlice::from(payload),
        }))
    }

    fn close(&mut self, reason: Reason) {
        // A partner that has gone need not be told.
        let _ = self.pair.close(reason as u16);
    }
}

/// How a connection has ended when its pair fails.
fn end_of(error: Error) -> End {
    match error {
        Error::Closed { reason } => Reason::of(reason).map_or(End::Broken, End::Closed),
        Error::Fabric(FabricError::InterfaceDown | FabricError::NoInterface) => End::Down,
        Error::Fabric(_) => End::Gone,
        _ => End::Broken,
    }
}
