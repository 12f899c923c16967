// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connected endpoints of libfabric (`FI_EP_MSG`) over queue pairs of the fabric, without its C
//! structures.
//!
//! | file | owns |
//! |---|---|
//! | `address` | [`Address`]: a host and a port, which is the name of sessions |
//! | `channel` | [`Channel`]: posted sends and receives, and the queue pair that moves them |
//! | `listener` | [`Listener`], [`Request`]: waiting for connections, and a request for one |
//! | `endpoint` | [`Endpoint`]: how a connection begins and ends |
//!
//! Nothing here waits, apart from [`Endpoint::accept`], and nothing has a thread or a lock: whoever
//! looks at a queue moves what is to be moved. Memory of the program is reached through [`Memory`].

#![cfg(target_pointer_width = "64")]

mod address;
mod channel;
mod endpoint;
mod listener;

pub use address::Address;
pub use channel::{
    Channel, Completion, Fault, Kind, Memory, Receive, Send, Source, Watch, IOV_MAX,
};
pub use endpoint::{Endpoint, Event, Refusal, CM_DATA_MAX};
pub use listener::{Listener, Request};

/// The protocol of all sessions of endpoints.
const PROTOCOL: u32 = 0x4649_4D31;
