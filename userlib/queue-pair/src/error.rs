// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why something was not done.

use mp_proto::queue_pair::{BadLayout, Broken, GiveError, SendError, Stop};
use thiserror::Error;

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call has failed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The session, or the kernel.
    #[error(transparent)]
    Fabric(#[from] mp_fabric::Error),
    /// The session has not two windows, or they are too small for what is wanted.
    #[error("the session's windows are too small for the queue pair")]
    Layout,
    /// More bytes than a message, or the caller's room, can have.
    #[error("the message is longer than {most} bytes")]
    TooLong {
        /// The most that can be.
        most: usize,
    },
    /// There is no such stream.
    #[error("the queue pair has no such stream")]
    Stream,
    /// The partner has closed the pair, and everything that it had sent has been received.
    #[error("the partner has closed, reason {reason}")]
    Closed {
        /// Why, as the partner says.
        reason: u16,
    },
    /// The slot is another pair's.
    #[error("the slot is not one of this queue pair")]
    Foreign,
    /// This side has closed the pair.
    #[error("this side has closed")]
    Ended,
    /// The pair has ended: the partner broke the rules, or says that this side did.
    #[error("the queue pair is broken: {0:?}")]
    Broken(Broken),
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        Error::Broken(broken)
    }
}

impl From<BadLayout> for Error {
    fn from(_: BadLayout) -> Self {
        Error::Layout
    }
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Closed { reason } => Error::Closed { reason },
            Stop::Broken(broken) => Error::Broken(broken),
        }
    }
}

impl From<GiveError> for Error {
    fn from(error: GiveError) -> Self {
        match error {
            GiveError::Stream => Error::Stream,
            GiveError::Slot => Error::Broken(Broken::Slot),
            GiveError::Broken(broken) => Error::Broken(broken),
        }
    }
}

impl Error {
    /// What a send has failed with; nothing if it is only for room.
    pub(crate) fn of_send(error: SendError, most: usize) -> Option<Self> {
        match error {
            SendError::Full => None,
            SendError::Stream => Some(Error::Stream),
            SendError::Length => Some(Error::TooLong { most }),
            SendError::Closed => Some(Error::Ended),
            SendError::Broken(broken) => Some(Error::Broken(broken)),
        }
    }
}
