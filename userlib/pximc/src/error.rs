// SPDX-License-Identifier: MIT OR Apache-2.0

//! The statuses of the specification, other than success, and which of them an error of the
//! fabric is. Statuses about buffers of callers in C are not here: Rust has no such buffers.

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call did not do what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such interface.
    #[error("no such interface: those that are there are found by findInterfaces")]
    InvalidInterface,
    /// The other system cannot be reached.
    #[error("the interface is down: `ntbctl peers` lists the hosts that are reached")]
    InterfaceDown,
    /// An argument is outside of what the specification allows.
    #[error("invalid argument: the page of the call lists what it takes")]
    InvalidArgument,
    /// The least sizes cannot be had, or memory or sessions are used up.
    #[error(
        "space not available: ask for less, close sessions, or give the bridge larger windows"
    )]
    SpaceNotAvailable,
    /// The unique identifier is in use on this system.
    #[error("the unique identifier is in use: choose another one, or close the session of this system that has it")]
    UidConflict,
    /// No partner was found, or none has come yet.
    #[error("no partner: start the other side, with the same protocol and identifier")]
    NoPairing,
    /// The hardware, the platform or a missing privilege forbids the use of physical addresses.
    #[error("physical resource not available: it takes CAP_SYS_RAWIO, and a window of the bridge to itself")]
    PhyResourceNotAvailable,
    /// The session is closed, or is another process's.
    #[error("no such session: it is closed, or another process has opened it")]
    InvalidSession,
    /// The session has no remote window.
    #[error("the session has no remote window: ask for one of a size when it is requested")]
    NoWindow,
    /// The partner has closed.
    #[error("the partner has closed: close the session, and request another one")]
    SessionClosed,
    /// The other system has no such window.
    #[error("no such window: those that are there are found by findWindows")]
    InvalidWindow,
    /// Nothing has happened in time; a warning.
    #[error("timed out: see that the other side runs, or wait for longer")]
    Timeout,
}

impl Error {
    /// What an error of a call for an interface means.
    pub(crate) fn of_interface(error: mp_fabric::Error) -> Self {
        match error {
            mp_fabric::Error::NotFound(_) => Error::InvalidWindow,
            other => Self::common(other, Error::InvalidInterface),
        }
    }

    /// What an error of a request means.
    pub(crate) fn of_request(error: mp_fabric::Error) -> Self {
        match error {
            mp_fabric::Error::Foreign | mp_fabric::Error::Ended => Error::InvalidInterface,
            other => Self::common(other, Error::SpaceNotAvailable),
        }
    }

    /// What an error of a call for a session means.
    pub(crate) fn of_session(error: mp_fabric::Error) -> Self {
        Self::common(error, Error::InvalidSession)
    }

    /// What means the same everywhere; other errors have no status of their own.
    fn common(error: mp_fabric::Error, other: Self) -> Self {
        use mp_fabric::Error as Fabric;
        match error {
            Fabric::NoInterface(_) => Error::InvalidInterface,
            Fabric::InterfaceDown(_) => Error::InterfaceDown,
            Fabric::Invalid(_) => Error::InvalidArgument,
            Fabric::NoSpace(_) | Fabric::Quota(_) | Fabric::NoMemory => Error::SpaceNotAvailable,
            Fabric::UidTaken(_) => Error::UidConflict,
            Fabric::NoPartner(_) | Fabric::NotPaired => Error::NoPairing,
            Fabric::NotPermitted(_) | Fabric::NotSupported(_) => Error::PhyResourceNotAvailable,
            Fabric::NoWindow(_) => Error::NoWindow,
            Fabric::PartnerGone => Error::SessionClosed,
            Fabric::TimedOut => Error::Timeout,
            unknown => {
                tracing::warn!("{other}: {unknown}");
                other
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Error::*;

    #[test]
    fn every_text_says_what_to_do() {
        [
            InvalidInterface,
            InterfaceDown,
            InvalidArgument,
            SpaceNotAvailable,
            UidConflict,
            NoPairing,
            PhyResourceNotAvailable,
            InvalidSession,
            NoWindow,
            SessionClosed,
            InvalidWindow,
            Timeout,
        ]
        .iter()
        .for_each(mp_testing::assert_advises);
    }
}
