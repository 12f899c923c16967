// SPDX-License-Identifier: MIT OR Apache-2.0

//! A connection's way over the fabric: a queue pair of its own, in the windows of its session, or a
//! lane of the pair that all connections of two programs share where memory is short.
//!
//! Payload is gathered where the program has it and scattered from where it has arrived: this
//! side's copies are the only ones.

mod lane;
mod own;

pub(crate) use lane::{Lane, Numbers, ENDS};
pub(crate) use own::Own;

use crate::{
    check::Checked,
    descriptor::FEW,
    engine::Program,
    wire::{End, Frame, Header, Kind, Reason, Wire},
};
use mp_fabric::{CharDevice, Device, Error as FabricError};
use mp_queue_pair::{
    provider::{self, Outbox},
    Error, Head, Outgoing, Piece,
};
use smallvec::SmallVec;
use vm_memory::VolatileSlice;

/// The way to the other end of a connection, whose messages are checked, or are not.
#[allow(clippy::large_enum_variant)] // moved twice in the life of a connection
#[derive(Debug)]
pub(crate) enum Link<D: Device = CharDevice> {
    /// A queue pair of its own.
    Own(Checked<Own<D>>),
    /// A lane of a shared one.
    Shared(Checked<Lane<D>>),
}

/// What has come of looking at a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing that ends the connection.
    None,
    /// The connection ends as soon as everything that had been sent before is received: look again.
    Ending,
    /// It has ended.
    Ended(End),
}

impl<D: Device> Link<D> {
    /// Look what has happened to the session: whether the partner's process or the link has gone.
    pub(crate) fn look(&mut self) -> News {
        match self {
            Link::Own(own) => own.look().map_or(News::None, News::Ended),
            Link::Shared(lane) => lane.look(),
        }
    }

    /// Whether the partner could not be woken: [`flush()`](Wire::flush) tries again.
    pub(crate) fn owes_signal(&self) -> bool {
        match self {
            Link::Own(own) => own.owes_signal(),
            // The trunk tries again.
            Link::Shared(_) => false,
        }
    }
}

/// Do the same with either way.
macro_rules! either {
    ($link:expr, $way:ident => $act:expr) => {
        match $link {
            Link::Own($way) => $act,
            Link::Shared($way) => $act,
        }
    };
}

impl<D: Device> Wire<Program> for Link<D> {
    fn most(&self, kind: Kind) -> usize {
        either!(self, way => way.most(kind))
    }

    #[inline]
    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[VolatileSlice<'_>],
    ) -> Result<bool, End> {
        either!(self, way => way.send(kind, immediate, header, payload))
    }

    #[inline]
    fn has_news(&self) -> bool {
        either!(self, way => way.has_news())
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        either!(self, way => way.receive())
    }

    #[inline]
    fn flush(&mut self) -> Result<(), End> {
        either!(self, way => way.flush())
    }

    fn effect(&mut self) {
        either!(self, way => way.effect());
    }

    fn sent(&self) -> u64 {
        either!(self, way => way.sent())
    }

    fn effective(&mut self) -> u64 {
        either!(self, way => way.effective())
    }

    fn close(&mut self, reason: Reason) {
        either!(self, way => way.close(reason));
    }
}

/// Put a message whose payload is gathered where the program has it; false if there is no room.
#[inline]
pub(crate) fn put<D: Device>(
    outbox: &mut Outbox<D>,
    head: Head,
    extra: &[u8],
    payload: &[VolatileSlice<'_>],
) -> Result<bool, Error> {
    match payload {
        [one] => {
            let pieces = [Piece::from(*one)];
            outbox.put(&mut Outgoing::new(head, extra, &pieces))
        }
        many => {
            let pieces: SmallVec<[_; FEW]> = many.iter().map(|piece| Piece::from(*piece)).collect();
            outbox.put(&mut Outgoing::new(head, extra, &pieces))
        }
    }
}

/// Why the way of a connection was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// The other side has not done its part in time.
    Late,
    /// Memory is missing, for its windows or of the kernel.
    Short,
    /// It has come to an end.
    Ended(End),
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Self {
        match error {
            Error::Fabric(FabricError::TimedOut) => Unopened::Late,
            Error::Fabric(
                FabricError::NoSpace(_) | FabricError::NoMemory | FabricError::Quota(_),
            ) => Unopened::Short,
            other => Unopened::Ended(end_of(other)),
        }
    }
}

/// How a connection has ended when its pair fails.
pub(crate) fn end_of(error: Error) -> End {
    ending(error.into())
}

/// How a connection has ended whose pair has.
pub(crate) fn ending(end: provider::End) -> End {
    match end {
        provider::End::Closed { reason } => Reason::of(reason).map_or(End::Broken, End::Closed),
        provider::End::Gone => End::Gone,
        provider::End::Down => End::Down,
        provider::End::Broken => End::Broken,
    }
}
