// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel's errors mean here. Every call documents which of them it returns and when.

use rustix::io::Errno;
use std::{error, fmt, io};

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no such interface, or it has been removed (`ENODEV`).
    NoInterface,
    /// The other host cannot be reached (`ENETDOWN`).
    InterfaceDown,
    /// The session is closed, or there is no such window of the peer (`ENOENT`).
    NotFound,
    /// An argument makes no sense (`EINVAL`).
    Invalid,
    /// The space asked for cannot be had (`ENOSPC`).
    NoSpace,
    /// Too many sessions (`EDQUOT`).
    Quota,
    /// The kernel, or this process, is out of memory (`ENOMEM`).
    NoMemory,
    /// The unique identifier is in use on this host (`EADDRINUSE`).
    UidTaken,
    /// No window of the peer fits (`ECONNREFUSED`).
    NoPartner,
    /// The session has not been paired yet (`ENOTCONN`).
    NotPaired,
    /// The partner has closed its session for good (`ECONNRESET`).
    PartnerGone,
    /// The session has no such window (`ENXIO`).
    NoWindow,
    /// Physical addresses need `CAP_SYS_RAWIO` (`EPERM`).
    NotPermitted,
    /// The hardware or the platform cannot do it (`EOPNOTSUPP`).
    NotSupported,
    /// Nothing has happened in time (`ETIMEDOUT`).
    TimedOut,
    /// The context belongs to another process, or the device may not be opened (`EACCES`).
    Foreign,
    /// The context has ended: the process has closed a descriptor of it (`ESHUTDOWN`).
    Ended,
    /// Whoever has released the object has ended the wait (`ECANCELED`).
    Cancelled,
    /// A signal has ended the wait (`EINTR`).
    Interrupted,
    /// A message is longer than the room for it (`EMSGSIZE`).
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// Any other error of the system.
    System(Errno),
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NODEV => Error::NoInterface,
            Errno::NETDOWN => Error::InterfaceDown,
            Errno::NOENT => Error::NotFound,
            Errno::INVAL => Error::Invalid,
            Errno::NOSPC => Error::NoSpace,
            Errno::DQUOT => Error::Quota,
            Errno::NOMEM => Error::NoMemory,
            Errno::ADDRINUSE => Error::UidTaken,
            Errno::CONNREFUSED => Error::NoPartner,
            Errno::NOTCONN => Error::NotPaired,
            Errno::CONNRESET => Error::PartnerGone,
            Errno::NXIO => Error::NoWindow,
            Errno::PERM => Error::NotPermitted,
            Errno::OPNOTSUPP => Error::NotSupported,
            Errno::TIMEDOUT => Error::TimedOut,
            Errno::ACCESS => Error::Foreign,
            Errno::SHUTDOWN => Error::Ended,
            Errno::CANCELED => Error::Cancelled,
            Errno::INTR => Error::Interrupted,
            other => Error::System(other),
        }
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::NoInterface => Errno::NODEV,
            Error::InterfaceDown => Errno::NETDOWN,
            Error::NotFound => Errno::NOENT,
            Error::Invalid => Errno::INVAL,
            Error::NoSpace => Errno::NOSPC,
            Error::Quota => Errno::DQUOT,
            Error::NoMemory => Errno::NOMEM,
            Error::UidTaken => Errno::ADDRINUSE,
            Error::NoPartner => Errno::CONNREFUSED,
            Error::NotPaired => Errno::NOTCONN,
            Error::PartnerGone => Errno::CONNRESET,
            Error::NoWindow => Errno::NXIO,
            Error::NotPermitted => Errno::PERM,
            Error::NotSupported => Errno::OPNOTSUPP,
            Error::TimedOut => Errno::TIMEDOUT,
            Error::Foreign => Errno::ACCESS,
            Error::Ended => Errno::SHUTDOWN,
            Error::Cancelled => Errno::CANCELED,
            Error::Interrupted => Errno::INTR,
            Error::TooLong { .. } => Errno::MSGSIZE,
            Error::System(errno) => errno,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Errno::from(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::NoInterface => "no such interface",
            Error::InterfaceDown => "the interface is down",
            Error::NotFound => "no such session or window",
            Error::Invalid => "invalid argument",
            Error::NoSpace => "not enough space",
            Error::Quota => "too many sessions",
            Error::NoMemory => "out of memory",
            Error::UidTaken => "the unique identifier is in use",
            Error::NoPartner => "no window of the peer fits",
            Error::NotPaired => "the session is not paired",
            Error::PartnerGone => "the partner has closed",
            Error::NoWindow => "the session has no such window",
            Error::NotPermitted => "physical addresses need CAP_SYS_RAWIO",
            Error::NotSupported => "not supported by the hardware",
            Error::TimedOut => "timed out",
            Error::Foreign => "access denied: the context belongs to another process",
            Error::Ended => "the context has ended",
            Error::Cancelled => "the wait was cancelled",
            Error::Interrupted => "a signal has ended the wait",
            Error::TooLong { len } => return write!(f, "a message of {len} bytes has no room"),
            Error::System(errno) => return errno.fmt(f),
        })
    }
}

impl error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_keeps_its_number() {
        for number in 1..134 {
            let errno = Errno::from_raw_os_error(number);
            assert_eq!(Errno::from(Error::from(errno)), errno);
        }
    }
}
