// SPDX-License-Identifier: MIT OR Apache-2.0

//! The errors of the specification, and which of them an error of the fabric is where a call has
//! no meaning of its own for it.

use rustix::io::Errno;
use std::ffi::CStr;

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! errors {
    ($($variant:ident $name:literal $code:literal $text:literal;)*) => {
        /// Why a call did not do what it should.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        pub enum Error {
            $(#[doc = $text] #[error($text)] $variant,)*
            /// The fabric cannot be opened.
            #[error("{0}")]
            Unopened(mp_fabric::Error),
            /// A message has no room, and stays.
            #[error("there is no room for a message of {len} bytes")]
            TooLong {
                /// Its length in bytes.
                len: usize,
            },
            /// The operating system has refused; the error tells why.
            #[error("{0}")]
            System(Errno),
        }

        impl Error {
            /// All errors that are nothing but a number.
            pub const ALL: &[Error] = &[$(Error::$variant),*];

            /// The number that `sisci_error.h` gives it.
            pub const fn code(self) -> u32 {
                match self {
                    $(Error::$variant => $code,)*
                    Error::TooLong { .. } => Error::OutOfRange.code(),
                    Error::Unopened(_) | Error::System(_) => SYSTEM,
                }
            }

            /// The name that `sisci_error.h` gives it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Error::$variant => $name,)*
                    Error::TooLong { .. } => Error::OutOfRange.name(),
                    Error::Unopened(_) | Error::System(_) => "SCI_ERR_SYSTEM",
                }
            }

            /// What `errno` tells of it.
            pub fn errno(self) -> Option<Errno> {
                match self {
                    Error::System(errno) => Some(errno),
                    Error::Unopened(error) => Some(error.into()),
                    _ => None,
                }
            }

            const fn text(self) -> &'static CStr {
                match self {
                    $(Error::$variant => c_text(concat!($text, "\0")),)*
                    Error::TooLong { .. } => Error::OutOfRange.text(),
                    Error::Unopened(_) | Error::System(_) => c"system error, see errno",
                }
            }
        }
    };
}

const fn c_text(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_until_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    }
}

const SYSTEM: u32 = 0x4000_0919;

errors! {
    Busy "SCI_ERR_BUSY" 0x4000_0900 "resource in use";
    FlagNotImplemented "SCI_ERR_FLAG_NOT_IMPLEMENTED" 0x4000_0901 "flag not implemented";
    IllegalFlag "SCI_ERR_ILLEGAL_FLAG" 0x4000_0902 "illegal flag";
    NoSpace "SCI_ERR_NOSPC" 0x4000_0904 "out of memory or resources of the system";
    ApiNoSpace "SCI_ERR_API_NOSPC" 0x4000_0905 "out of resources of the library";
    HwNoSpace "SCI_ERR_HW_NOSPC" 0x4000_0906 "out of resources of the adapter";
    NotImplemented "SCI_ERR_NOT_IMPLEMENTED" 0x4000_0907 "not implemented";
    IllegalAdapterNo "SCI_ERR_ILLEGAL_ADAPTERNO" 0x4000_0908 "illegal adapter number";
    NoSuchAdapterNo "SCI_ERR_NO_SUCH_ADAPTERNO" 0x4000_0909 "no such adapter";
    Timeout "SCI_ERR_TIMEOUT" 0x4000_090A "timed out";
    OutOfRange "SCI_ERR_OUT_OF_RANGE" 0x4000_090B "outside of the legal range";
    NoSuchSegment "SCI_ERR_NO_SUCH_SEGMENT" 0x4000_090C "no such segment or interrupt";
    IllegalNodeId "SCI_ERR_ILLEGAL_NODEID" 0x4000_090D "illegal node id";
    ConnectionRefused "SCI_ERR_CONNECTION_REFUSED" 0x4000_090E "connection refused";
    SegmentNotConnected "SCI_ERR_SEGMENT_NOT_CONNECTED" 0x4000_090F "segment not connected";
    SizeAlignment "SCI_ERR_SIZE_ALIGNMENT" 0x4000_0910 "size not aligned";
    OffsetAlignment "SCI_ERR_OFFSET_ALIGNMENT" 0x4000_0911 "offset not aligned";
    IllegalParameter "SCI_ERR_ILLEGAL_PARAMETER" 0x4000_0912 "illegal parameter";
    MaxEntries "SCI_ERR_MAX_ENTRIES" 0x4000_0913 "too many entries";
    SegmentNotPrepared "SCI_ERR_SEGMENT_NOT_PREPARED" 0x4000_0914 "segment not prepared";
    IllegalAddress "SCI_ERR_ILLEGAL_ADDRESS" 0x4000_0915 "illegal address";
    IllegalOperation "SCI_ERR_ILLEGAL_OPERATION" 0x4000_0916 "illegal operation in this state";
    IllegalQuery "SCI_ERR_ILLEGAL_QUERY" 0x4000_0917 "illegal query";
    SegmentIdUsed "SCI_ERR_SEGMENTID_USED" 0x4000_0918 "number of segment or interrupt in use";
    Cancelled "SCI_ERR_CANCELLED" 0x4000_091A "cancelled";
    NotConnected "SCI_ERR_NOT_CONNECTED" 0x4000_091B "not connected to the remote node";
    NotAvailable "SCI_ERR_NOT_AVAILABLE" 0x4000_091C "not available";
    InconsistentVersions "SCI_ERR_INCONSISTENT_VERSIONS" 0x4000_091D "versions do not fit";
    Overflow "SCI_ERR_OVERFLOW" 0x4000_091F "overflow";
    NotInitialized "SCI_ERR_NOT_INITIALIZED" 0x4000_0920 "library not initialized";
    Access "SCI_ERR_ACCESS" 0x4000_0921 "access denied";
    NotSupported "SCI_ERR_NOT_SUPPORTED" 0x4000_0922 "not supported";
    Deprecated "SCI_ERR_DEPRECATED" 0x4000_0923 "deprecated";
    DmaNotAvailable "SCI_ERR_DMA_NOT_AVAILABLE" 0x4000_0924 "DMA mode not available";
    DmaDisabled "SCI_ERR_DMA_DISABLED" 0x4000_0925 "DMA mode disabled";
    NoSuchNodeId "SCI_ERR_NO_SUCH_NODEID" 0x4000_0A00 "no such node";
    NodeNotResponding "SCI_ERR_NODE_NOT_RESPONDING" 0x4000_0A02 "node does not respond";
    NoRemoteLinkAccess "SCI_ERR_NO_REMOTE_LINK_ACCESS" 0x4000_0A04 "remote link is down";
    NoLinkAccess "SCI_ERR_NO_LINK_ACCESS" 0x4000_0A05 "local link is down";
    TransferFailed "SCI_ERR_TRANSFER_FAILED" 0x4000_0A06 "transfer failed";
    RemoteBusy "SCI_ERR_REMOTE_BUSY" 0x4000_0B00 "remote node is busy";
    IrqlIllegal "SCI_ERR_IRQL_ILLEGAL" 0x4000_0B02 "illegal interrupt line";
    LocalBusy "SCI_ERR_LOCAL_BUSY" 0x4000_0B03 "local node is busy";
    AllBusy "SCI_ERR_ALL_BUSY" 0x4000_0B04 "system is busy";
    NoSuchFdid "SCI_ERR_NO_SUCH_FDID" 0x4000_0B05 "no such fabric device";
}

/// What `SCIGetErrorString()` says of a number; a number that is none has a text as well.
pub fn error_string(code: u32) -> &'static CStr {
    const OTHERS: [Error; 1] = [Error::System(Errno::IO)];
    let mut all = Error::ALL.iter().chain(&OTHERS);
    match all.find(|error| error.code() == code) {
        Some(error) => error.text(),
        None if code == 0 => c"no error",
        None => c"unknown error",
    }
}

impl From<mp_fabric::Error> for Error {
    fn from(error: mp_fabric::Error) -> Self {
        match error {
            mp_fabric::Error::NoInterface(_) => Error::NoSuchAdapterNo,
            mp_fabric::Error::InterfaceDown(_) => Error::NoLinkAccess,
            mp_fabric::Error::NotFound(_) => Error::NoSuchSegment,
            mp_fabric::Error::Invalid(_) => Error::IllegalParameter,
            mp_fabric::Error::NoSpace(_) => Error::HwNoSpace,
            mp_fabric::Error::Quota(_) | mp_fabric::Error::NoMemory => Error::NoSpace,
            mp_fabric::Error::UidTaken(_) => Error::SegmentIdUsed,
            mp_fabric::Error::NoPartner(_) => Error::ConnectionRefused,
            mp_fabric::Error::NotPaired | mp_fabric::Error::PartnerGone => Error::NotConnected,
            mp_fabric::Error::NoWindow(_) => Error::OutOfRange,
            mp_fabric::Error::NotPermitted(_) => Error::Access,
            mp_fabric::Error::NotSupported(_) => Error::NotSupported,
            mp_fabric::Error::TimedOut => Error::Timeout,
            mp_fabric::Error::Cancelled | mp_fabric::Error::Interrupted => Error::Cancelled,
            mp_fabric::Error::TooLong { len } => Error::TooLong { len },
            // The context is a parent process's, or has ended with its descriptor.
            mp_fabric::Error::Foreign | mp_fabric::Error::Ended => Error::IllegalOperation,
            other => Error::System(Errno::from(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// SI-ERRSTR-1: every code has a text of its own, and what is no code has one as well.
    #[test]
    fn every_code_has_a_text() {
        let texts: HashSet<&CStr> = Error::ALL.iter().map(|e| error_string(e.code())).collect();
        assert_eq!(texts.len(), Error::ALL.len());
        assert!(!texts.contains(error_string(0)));
        assert!(!texts.contains(c"unknown error"));
        assert_eq!(error_string(SYSTEM), c"system error, see errno");
        assert_eq!(error_string(0x4000_0903), c"unknown error");
        assert_eq!(error_string(u32::MAX), c"unknown error");
    }
}
