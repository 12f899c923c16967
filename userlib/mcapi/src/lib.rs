// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Multicore Communications API for programs in Rust: nodes, endpoints and messages between
//! processes of one host and of several, on the queue pairs of the fabric.
//!
//! The names are the specification's. A program becomes a [`Node`], which has [`Endpoint`]s.
//! Identifiers like MC-MSG-6 are those of the specification's digest; `Documentation/mcapi.md` says
//! how the library works, and what it does where the specification leaves that open.
//!
//! | file | owns |
//! |---|---|
//! | `node` | calls of programs, waits, the lock of a node |
//! | `service`, `connect`, `claim` | threads: moving frames; finding nodes; claiming a number |
//! | `link` | the queue pair to another node |
//! | `engine` | a node without I/O, by `endpoint`, `request`, `peer`, `outgoing`, `incoming` |
//! | `wire` | what nodes tell each other |
//! | `attributes`, `id`, `topology`, `error` | values, names, configuration, statuses |
//!
//! Data moves without a system call while threads at both ends look.
//!
//! It has no channels yet, neither for packets nor for scalars: endpoints can be declared for them
//! ([`Attribute::Type`]), and nothing else. It has no library for programs in C.
//!
//! A forked child must not use what its parent has: it becomes a node of its own.
//!
//! For processes of 64 bits.
//!
//! # Examples
//! ```no_run
//! use mcapi::{Deadline, Node, NodeAttributes};
//!
//! # fn main() -> mcapi::Result<()> {
//! // On host 0x108 of the fabric.
//! let node = Node::initialize(0x108, 1, NodeAttributes::default())?;
//! let own = node.endpoint_create(None)?;
//! let other = node.endpoint_get(0, 1, 17, Deadline::NEVER)?;
//! node.msg_send(own, other, &own.to_raw().to_le_bytes(), 0)?;
//! let mut room = [0; 64];
//! let received = node.msg_recv(own, &mut room)?;
//! println!("{:?}", &room[..received.size]);
//! # Ok(())
//! # }
//! ```

#![cfg(target_pointer_width = "64")]

mod attributes;
mod claim;
mod connect;
mod endpoint;
mod engine;
mod error;
mod id;
mod incoming;
mod link;
mod node;
mod outgoing;
mod peer;
mod request;
mod service;
mod topology;
mod wire;

pub use attributes::{
    Attribute, EndpointType, NodeAttributes, SEND_BUFFERS_MAX, STATUS_GET_PENDING,
};
pub use endpoint::{ENDPOINTS_MAX, PORT_ANY_FIRST};
pub use error::{Error, Result};
pub use id::{Endpoint, NodeId, DOMAIN_MAX, NODE_MAX, PORT_MAX};
pub use node::{Node, Received};
pub use request::{Request, REQUESTS_MAX};
pub use topology::{Topology, TopologyError, CONFIG_PATH, CONFIG_VARIABLE};

pub use mp_fabric::{CharDevice, Deadline, Device, Fabric};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most bytes of a message.
pub const MESSAGE_MAX: usize = 65536;
/// Priorities of messages: 0, the highest, to 7.
pub const PRIORITIES: usize = 8;
/// Buffers that an endpoint has for each node and priority.
pub const RECEIVE_BUFFERS: u32 = outgoing::BUFFERS;

/// How an operation has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Whether it did what it should.
    pub result: Result<()>,
    /// Bytes that were moved (MC-REQ-7).
    pub size: usize,
    /// The endpoint of a get.
    pub endpoint: Option<Endpoint>,
    /// The bytes of a receive. They are given once: whoever asks later finds none.
    pub data: Option<Vec<u8>>,
    /// The answer to a question.
    pub(crate) value: Option<u64>,
}

impl Completion {
    pub(crate) fn new(result: Result<()>, size: usize) -> Self {
        Completion {
            result,
            size,
            endpoint: None,
            data: None,
            value: None,
        }
    }

    /// Of a get.
    pub(crate) fn endpoint(endpoint: Result<Endpoint>) -> Self {
        Completion {
            endpoint: endpoint.ok(),
            ..Self::new(endpoint.map(|_| ()), 0)
        }
    }

    /// Of a question.
    pub(crate) fn value(value: Result<u64>) -> Self {
        Completion {
            value: value.ok(),
            ..Self::new(value.map(|_| ()), 0)
        }
    }

    /// Of a receive with so much room: what is too long loses its end (MC-MSGRECV-3).
    pub(crate) fn message(mut data: Vec<u8>, room: usize) -> Self {
        let result = match data.len() <= room {
            true => Ok(()),
            false => Err(Error::MessageTruncated),
        };
        data.truncate(room);
        let size = data.len();
        Completion {
            data: Some(data),
            ..Self::new(result, size)
        }
    }
}

/// Lock, also after a panic: each change is complete when others see it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
