// SPDX-License-Identifier: MIT OR Apache-2.0

//! The statuses of the specification, other than success, and which of them an error of the
//! fabric is. Statuses about buffers of callers in C are not here: Rust has no such buffers.

use std::{error, fmt};

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call did not do what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no such interface.
    InvalidInterface,
    /// The other system cannot be reached.
    InterfaceDown,
    /// An argument is outside of what the specification allows.
    InvalidArgument,
    /// The least sizes cannot be had, or memory or sessions are used up.
    SpaceNotAvailable,
    /// The unique identifier is in use on this system.
    UidConflict,
    /// No partner was found, or none has come yet.
    NoPairing,
    /// The hardware, the platform or a missing privilege forbids the use of physical addresses.
    PhyResourceNotAvailable,
    /// The session is closed, or is another process's.
    InvalidSession,
    /// The session has no remote window.
    NoWindow,
    /// The partner has closed.
    SessionClosed,
    /// The other system has no such window.
    InvalidWindow,
    /// Nothing has happened in time; a warning.
    Timeout,
}

impl Error {
    /// What an error of a call for an interface means.
    pub(crate) fn of_interface(error: mp_fabric::Error) -> Self {
        match error {
            mp_fabric::Error::NotFound => Error::InvalidWindow,
            other => Self::common(other).unwrap_or(Error::InvalidInterface),
        }
    }

    /// What an error of a request means.
    pub(crate) fn of_request(error: mp_fabric::Error) -> Self {
        match error {
            mp_fabric::Error::Foreign | mp_fabric::Error::Ended => Error::InvalidInterface,
            other => Self::common(other).unwrap_or(Error::SpaceNotAvailable),
        }
    }

    /// What an error of a call for a session means.
    pub(crate) fn of_session(error: mp_fabric::Error) -> Self {
        Self::common(error).unwrap_or(Error::InvalidSession)
    }

    /// What means the same everywhere.
    fn common(error: mp_fabric::Error) -> Option<Self> {
        use mp_fabric::Error as Fabric;
        Some(match error {
            Fabric::NoInterface => Error::InvalidInterface,
            Fabric::InterfaceDown => Error::InterfaceDown,
            Fabric::Invalid => Error::InvalidArgument,
            Fabric::NoSpace | Fabric::Quota | Fabric::NoMemory => Error::SpaceNotAvailable,
            Fabric::UidTaken => Error::UidConflict,
            Fabric::NoPartner | Fabric::NotPaired => Error::NoPairing,
            Fabric::NotPermitted | Fabric::NotSupported => Error::PhyResourceNotAvailable,
            Fabric::NoWindow => Error::NoWindow,
            Fabric::PartnerGone => Error::SessionClosed,
            Fabric::TimedOut => Error::Timeout,
            _ => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::InvalidInterface => "no such interface",
            Error::InterfaceDown => "the interface is down",
            Error::InvalidArgument => "invalid argument",
            Error::SpaceNotAvailable => "space not available",
            Error::UidConflict => "the unique identifier is in use",
            Error::NoPairing => "no partner",
            Error::PhyResourceNotAvailable => "physical resource not available",
            Error::InvalidSession => "no such session",
            Error::NoWindow => "the session has no remote window",
            Error::SessionClosed => "the partner has closed",
            Error::InvalidWindow => "no such window",
            Error::Timeout => "timed out",
        })
    }
}

impl error::Error for Error {}
