// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel's errors mean here. Every call documents which of them it returns and when.

use rustix::io::Errno;
use std::io;

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call has failed. The text is for any call: each says in its documentation what it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device's file is not there, or nobody serves it.
    #[error("there is no fabric on this host: load the module mp_func_user, as by `modprobe mp_func_user`")]
    NotLoaded,
    /// The user may not open the device's file.
    #[error(
        "no permission to use the fabric: it takes membership of the group mp, \
        which the rule 70-mp-fabric.rules of udev gives the device to"
    )]
    NoPermission,
    /// There is no such interface, or it has been removed (`ENODEV`).
    #[error("there is no such interface: `ntbctl links` lists the bridges of this host")]
    NoInterface,
    /// The other host cannot be reached (`ENETDOWN`).
    #[error("the interface is down, so the other host is not reached: `ntbctl peers` lists those that are")]
    InterfaceDown,
    /// The object is closed, or the peer has nothing of that id or number (`ENOENT`).
    #[error("there is nothing of that id, or it is closed or not published")]
    NotFound,
    /// An argument makes no sense (`EINVAL`).
    #[error("invalid argument")]
    Invalid,
    /// The space asked for cannot be had, or is not reached by the peer (`ENOSPC`).
    #[error("not enough memory in the windows of the interface")]
    NoSpace,
    /// The user has too many objects, or too much memory pinned (`EDQUOT`).
    #[error("too many objects, or more memory to pin than RLIMIT_MEMLOCK allows")]
    Quota,
    /// The kernel, or this process, is out of memory (`ENOMEM`).
    #[error("out of memory")]
    NoMemory,
    /// The id or number is in use on this host (`EADDRINUSE`).
    #[error("the id or number is in use on this host")]
    UidTaken,
    /// No partner fits, or it takes no more connections (`ECONNREFUSED`).
    #[error("nobody at the other host takes the connection")]
    NoPartner,
    /// The session has not been paired yet (`ENOTCONN`).
    #[error("the session has no partner yet")]
    NotPaired,
    /// The other end has closed for good (`ECONNRESET`).
    #[error("the other end is gone for good")]
    PartnerGone,
    /// There is no such window, or the segment is not prepared or published there (`ENXIO`).
    #[error("there is no such window, or the memory is not prepared there")]
    NoWindow,
    /// That is for its owner, or takes a privilege (`EPERM`).
    #[error("not permitted: another user's, or CAP_SYS_RAWIO is missing")]
    NotPermitted,
    /// The hardware or the platform cannot do it (`EOPNOTSUPP`).
    #[error("the hardware or the platform cannot do it")]
    NotSupported,
    /// Nothing has happened in time (`ETIMEDOUT`).
    #[error("timed out")]
    TimedOut,
    /// The context belongs to another process (`EACCES`).
    #[error("the context belongs to another process: open one after fork()")]
    Foreign,
    /// The context has ended: the process has closed a descriptor of it (`ESHUTDOWN`).
    #[error("the context has ended: a descriptor of it was closed")]
    Ended,
    /// Whoever has released the object has ended the wait (`ECANCELED`).
    #[error("the wait was cancelled")]
    Cancelled,
    /// A signal has ended the wait (`EINTR`).
    #[error("a signal has ended the wait")]
    Interrupted,
    /// All has ended, but the other host has not confirmed that nothing is stored any more
    /// (`EINPROGRESS`).
    #[error("ended, but the other host has not confirmed that it stores nothing any more")]
    Unproven,
    /// A message is longer than the room for it (`EMSGSIZE`).
    #[error("there is no room for a message of {len} bytes")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// Any other error of the system.
    #[error("{0}")]
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
            Errno::INPROGRESS => Error::Unproven,
            other => Error::System(other),
        }
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::NotLoaded | Error::NoInterface => Errno::NODEV,
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
            Error::NoPermission | Error::Foreign => Errno::ACCESS,
            Error::Ended => Errno::SHUTDOWN,
            Error::Cancelled => Errno::CANCELED,
            Error::Interrupted => Errno::INTR,
            Error::Unproven => Errno::INPROGRESS,
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
