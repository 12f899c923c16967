// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Multicore Communications API for programs in Rust: nodes, endpoints, messages and channels
//! between processes of one host and of several, on the queue pairs of the fabric.
//!
//! The names are the specification's. A program becomes a [`Node`], which has [`Endpoint`]s.
//! Identifiers like MC-MSG-6 are those of the specification's digest; `Documentation/mcapi.md` says
//! how the library works, and what it does where the specification leaves that open.
//!
//! | file | owns |
//! |---|---|
//! | `node` | calls of programs, waits, the lock of a node |
//! | `worker`, `connect`, `claim` | the thread that finds nodes; claiming a number |
//! | `pair`, `link`, `pipe` | a queue pair; frames to another node; the data of a channel |
//! | `engine` | a node without I/O, by `endpoint`, `connection`, `request`, `peer`, `outgoing`, `incoming` |
//! | `survey` | what there is in the fabric, for tools |
//! | `channel`, `payload` | handles of channels, packets, scalars; what is sent |
//! | `wire` | what nodes tell each other |
//! | `table` | tables by nodes, ports and lanes |
//! | `attributes`, `parameters`, `id`, `topology`, `error` | values, limits, names, configuration, statuses |
//!
//! Data moves without a system call while threads at both ends look.
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
mod channel;
mod claim;
mod connect;
mod connection;
mod endpoint;
mod engine;
mod error;
mod id;
mod incoming;
mod latest;
mod lent;
mod link;
mod node;
mod outgoing;
mod pair;
mod parameters;
mod payload;
mod peer;
mod pipe;
mod request;
mod survey;
mod table;
mod topology;
mod wire;
mod worker;

pub use attributes::{
    Attribute, BufferType, EndpointType, MemoryType, NodeAttributes, NodeState, SEND_BUFFERS_MAX,
    STATUS_CLOSE_PENDING, STATUS_CONNECTED, STATUS_GET_PENDING, STATUS_OPEN, STATUS_OPEN_PENDING,
    STATUS_PACKET_CHANNEL, STATUS_RECEIVE, STATUS_SCALAR_CHANNEL, STATUS_SEND,
};
pub use channel::{Channel, Packet, Scalar};
pub use endpoint::{ENDPOINTS_MAX, PORT_ANY_FIRST};
pub use error::{Error, Result};
pub use id::{Endpoint, NodeId, DOMAIN_MAX, NODE_MAX, PORT_MAX};
pub use node::{Node, Received};
pub use parameters::Parameters;
pub use payload::Payload;
pub use request::{Request, REQUESTS_MAX};
pub use survey::{FoundEndpoint, FoundNode};
pub use topology::{Mistake, Topology, TopologyError, CONFIG_PATH, CONFIG_VARIABLE};

pub use mp_fabric::{vm_memory::VolatileSlice, CharDevice, Deadline, Device, Fabric};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes of a message.
pub const MESSAGE_MAX: usize = 65536;
/// Most bytes of a packet.
pub const PACKET_MAX: usize = 65536;
/// Priorities of messages: 0, the highest, to 7.
pub const PRIORITIES: usize = 8;
/// Buffers that an endpoint has for each node and priority.
pub const RECEIVE_BUFFERS: u32 = outgoing::BUFFERS;

/// What an operation has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// So many bytes of a message or a packet were sent.
    Sent(usize),
    /// A message was received.
    Message {
        /// Its bytes, or the first ones that there was room for.
        data: Arc<Vec<u8>>,
        /// It was longer than the room, and its end is lost (MC-MSGRECV-3).
        is_truncated: bool,
    },
    /// A packet was received. Its buffer is the program's until it is
    /// [released](Node::pktchan_release).
    Packet(Packet),
    /// The endpoint of a get exists.
    Endpoint(Endpoint),
    /// The answer to a question.
    Value(u64),
    /// Two endpoints are connected.
    Connected,
    /// Both ends of a channel are open; this is the own one.
    Open(Channel),
    /// Both ends of a channel are closed.
    Closed,
}

/// What an operation has come to, or why it did not do what it should.
pub type Outcome = Result<Completion>;

impl Completion {
    /// Bytes that were moved (MC-REQ-7).
    pub fn size(&self) -> usize {
        match self {
            Completion::Sent(size) => *size,
            Completion::Message { data, .. } => data.len(),
            Completion::Packet(packet) => packet.len(),
            _ => 0,
        }
    }

    /// A message for a receive with so much room.
    pub(crate) fn message(data: Vec<u8>, room: usize) -> Self {
        let (data, is_truncated) = cut(data, room);
        Completion::Message {
            data: Arc::new(data),
            is_truncated,
        }
    }
}

/// The first bytes of a message, of which so many have room, and whether there were more (MC-MSGRECV-3).
fn cut(mut data: Vec<u8>, room: usize) -> (Vec<u8>, bool) {
    let is_truncated = data.len() > room;
    data.truncate(room);
    (data, is_truncated)
}

/// Lock, also after a panic: each change is complete when others see it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
