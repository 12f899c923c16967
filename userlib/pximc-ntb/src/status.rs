// SPDX-License-Identifier: MIT OR Apache-2.0

//! What went wrong, and its number.

use crate::sys;
use mp_c_abi::Null;
use pximc::Error;

/// Why a function does not return success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The library has refused.
    #[error(transparent)]
    Library(Error),
    /// The caller's buffer is too small.
    #[error("the buffer is too small: the actual size tells how large it has to be")]
    InsufficientSpace,
    /// There is no such attribute.
    #[error("there is no such attribute")]
    NsupAttribute,
    /// The caller's buffer is not aligned for the value.
    #[error("the buffer is not aligned for the value")]
    Alignment,
}

/// How a function ends.
pub type Outcome = Result<(), Failure>;

/// For a pointer that must not be NULL, and every other argument that makes no sense.
pub const INVALID_ARGUMENT: Failure = Failure::Library(Error::InvalidArgument);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(error)
    }
}

impl From<Null> for Failure {
    fn from(Null: Null) -> Self {
        INVALID_ARGUMENT
    }
}

impl Failure {
    fn number(self) -> sys::tPXIMC_Status {
        match self {
            Failure::InsufficientSpace => sys::PXIMC_INSUFFICIENT_SPACE,
            Failure::NsupAttribute => sys::PXIMC_NSUP_ATTRIBUTE,
            Failure::Alignment => sys::PXIMC_ALIGNMENT_ERROR,
            Failure::Library(error) => match error {
                Error::InvalidInterface => sys::PXIMC_INVALID_INTERFACE,
                Error::InterfaceDown => sys::PXIMC_INTERFACE_DOWN,
                Error::InvalidArgument => sys::PXIMC_INVALID_ARGUMENT,
                Error::SpaceNotAvailable => sys::PXIMC_SPACE_NOT_AVAILABLE,
                Error::UidConflict => sys::PXIMC_UID_CONFLICT,
                Error::NoPairing => sys::PXIMC_NO_PAIRING,
                Error::PhyResourceNotAvailable => sys::PXIMC_PHY_RESOURCE_NOT_AVAILABLE,
                Error::InvalidSession => sys::PXIMC_INVALID_SESSION,
                Error::NoWindow => sys::PXIMC_NO_WINDOW,
                Error::SessionClosed => sys::PXIMC_SESSION_CLOSED,
                Error::InvalidWindow => sys::PXIMC_INVALID_WINDOW,
                Error::Timeout => sys::PXIMC_TIMEOUT,
            },
        }
    }
}

/// The number that a function returns.
pub fn number(outcome: Outcome) -> sys::tPXIMC_Status {
    outcome.map_or_else(Failure::number, |()| sys::PXIMC_SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PXI-GEN-6: success is 0, errors are negative, warnings positive.
    #[test]
    fn the_sign_tells_errors_from_warnings() {
        assert_eq!(number(Ok(())), 0);
        assert_eq!(number(Err(Error::Timeout.into())), 0x1000_1001);
        assert_eq!(number(Err(Failure::InsufficientSpace)), -0x7fff_f000);
        for error in [
            Error::InvalidInterface,
            Error::InterfaceDown,
            Error::InvalidArgument,
            Error::SpaceNotAvailable,
            Error::UidConflict,
            Error::NoPairing,
            Error::PhyResourceNotAvailable,
            Error::InvalidSession,
            Error::NoWindow,
            Error::SessionClosed,
            Error::InvalidWindow,
        ] {
            assert!(number(Err(error.into())) < 0, "{error}");
        }
        assert!(number(Err(Failure::NsupAttribute)) < 0);
        assert!(number(Err(Failure::Alignment)) < 0);
    }
}
