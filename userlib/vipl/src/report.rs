// SPDX-License-Identifier: MIT OR Apache-2.0

//! Asynchronous errors: what no descriptor can carry.

use crate::{descriptor::Status, Cq, Nic, Vi};
use mp_fabric::{CharDevice, Device};

/// What has happened; the numbers are those of `vipl.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// A descriptor was posted that is none, or was changed afterwards.
    PostDesc = 0,
    /// A connection was lost.
    ConnLost = 1,
    /// A message had no receive descriptor.
    RecvqEmpty = 2,
    /// Too many descriptors were posted.
    ViOverrun = 3,
    /// A remote RDMA write was not allowed.
    RdmawProt = 4,
    /// A remote RDMA write was corrupted.
    RdmawData = 5,
    /// A remote RDMA write ended in the middle.
    RdmawAbort = 6,
    /// A remote RDMA read was not allowed.
    RdmarProt = 7,
    /// A completion could not be written.
    CompProt = 8,
    /// The transport failed in a remote RDMA operation.
    RdmaTransport = 9,
    /// A failure that nothing survives.
    Catastrophic = 10,
}

/// What it has happened to; the numbers are those of `vipl.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Resource {
    /// The NIC.
    Nic = 0,
    /// A VI.
    Vi = 1,
    /// A completion queue.
    Cq = 2,
    /// A descriptor.
    Descriptor = 3,
}

/// What an error handler is told (VI-ERR-18).
#[derive(Debug)]
pub struct ErrorEvent<D: Device = CharDevice> {
    /// The VI, if it is about one.
    pub vi: Option<Vi<D>>,
    /// The completion queue, if it is about one.
    pub cq: Option<Cq<D>>,
    /// Where the descriptor is, if it is about one.
    pub descriptor: Option<usize>,
    /// The operation, as a descriptor's Status tells it.
    pub operation: Status,
    /// What it has happened to.
    pub resource: Resource,
    /// What has happened.
    pub code: ErrorCode,
}

/// What an engine tells of its VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) code: ErrorCode,
    pub(crate) resource: Resource,
    pub(crate) operation: Status,
    pub(crate) descriptor: Option<usize>,
}

impl Report {
    /// Whether a remote side can cause it again and again: the connection survives it.
    pub(crate) fn repeats(&self, reliable: bool) -> bool {
        let remote = matches!(self.code, ErrorCode::RecvqEmpty | ErrorCode::RdmawProt);
        remote && !reliable
    }

    /// About a VI.
    pub(crate) fn of_vi(code: ErrorCode, operation: Status) -> Self {
        Report {
            code,
            resource: Resource::Vi,
            operation,
            descriptor: None,
        }
    }

    /// About a descriptor.
    pub(crate) fn of_descriptor(code: ErrorCode, operation: Status, at: usize) -> Self {
        Report {
            code,
            resource: Resource::Descriptor,
            operation,
            descriptor: Some(at),
        }
    }
}

/// Is told of asynchronous errors.
pub type ErrorHandler<D = CharDevice> = Box<dyn FnMut(&Nic<D>, &ErrorEvent<D>) + Send>;
