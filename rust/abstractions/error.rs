// SPDX-License-Identifier: GPL-2.0-only

//! Error codes that not every supported version of the kernel crate names.

use kernel::{
    bindings,
    error::Error,
    prelude::*, //
};

macro_rules! codes {
    ($($(#[$doc:meta])* $function:ident $code:ident)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $function() -> Error {
            Error::from_errno(-(bindings::$code as c_int))
        }
    )*};
}

codes! {
    /// `ENOTCONN`: the peer is not there, or not any more.
    not_connected ENOTCONN
    /// `EBADMSG`: what arrived is not what it says it is.
    bad_message EBADMSG
    /// `EMSGSIZE`: longer than there is room for.
    message_size EMSGSIZE
    /// `EPROTO`: the other side does not keep to the protocol.
    protocol EPROTO
    /// `EHOSTUNREACH`: no way leads to that host.
    unreachable EHOSTUNREACH
    /// `ECANCELED`: given up before it began.
    cancelled ECANCELED
    /// `EOPNOTSUPP`: not with this device.
    unsupported EOPNOTSUPP
    /// `ENOLINK`: the link is not up.
    no_link ENOLINK
    /// `ENETDOWN`: the interface is down.
    net_down ENETDOWN
    /// `ESTALE`: from an earlier life of the other side.
    stale ESTALE
    /// `ENOBUFS`: no room, and nothing that one could wait for.
    no_buffers ENOBUFS
    /// `EADDRINUSE`: somebody has that number.
    in_use EADDRINUSE
    /// `ECONNREFUSED`: nobody is there for it.
    refused ECONNREFUSED
    /// `ECONNRESET`: the other side has left.
    reset ECONNRESET
    /// `EDQUOT`: more than the caller may have.
    quota EDQUOT
    /// `ESHUTDOWN`: it has ended.
    shut_down ESHUTDOWN
    /// `EINPROGRESS`: it has begun, and goes on without the caller.
    in_progress EINPROGRESS
}
