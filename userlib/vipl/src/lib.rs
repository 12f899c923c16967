// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Virtual Interface Provider Library for programs in Rust: connected endpoints with send,
//! receive and remote memory access, on the queue pairs of the fabric.
//!
//! The names are the specification's. A [`Library`] opens a [`Nic`], with which [`Vi`]s, [`Cq`]s,
//! protection tags and regions are made. Identifiers like VI-WQ-1 are those of
//! `Documentation/conformance/via.md`.
//!
//! | file | owns |
//! |---|---|
//! | `nic` | what a program has opened, and all that was made with it |
//! | `address`, `attributes`, `tag` | addresses, limits, protection tags |
//! | `memory` | registered memory: the only place that accesses memory of the program |
//! | `pages` | how many regions have each page, which is locked as long as any has it |
//! | `descriptor` | descriptors in memory |
//! | `state`, `engine` | a VI without I/O: its states, its operations, its errors, on the work queues of `mp_proto` |
//! | `wire`, `check`, `link` | what the two ends tell each other, checks of it, and the queue pair that carries it |
//! | `trunk` | the queue pair that connections share where memory is short |
//! | `vi`, `completion` | VIs and completion queues as the program uses them |
//! | `names` | which host has which name |
//! | `connect` | client and server, and peer to peer |
//! | `notify`, `report` | threads of handlers, and asynchronous errors |
//! | `room` | memory of queues |
//!
//! Data moves without a system call while both programs look. The kernel sets up and wakes; it
//! knows nothing of VIs. Memory is accessed by this library in the process that has registered
//! it, also for remote operations: by whichever thread looks, or by the service thread.
//!
//! A forked child must not use what its parent has: it opens a NIC of its own.
//!
//! For processes of 64 bits.

#![cfg(target_pointer_width = "64")]

/// Copies of an object are the same one.
macro_rules! shared {
    ($($name:ident)*) => {$(
        impl<D: mp_fabric::Device> Clone for $name<D> {
            fn clone(&self) -> Self {
                $name(std::sync::Arc::clone(&self.0))
            }
        }

        impl<D: mp_fabric::Device> std::fmt::Debug for $name<D> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
use shared;

mod address;
mod arrivals;
mod attributes;
mod check;
mod completion;
mod connect;
mod descriptor;
mod engine;
mod error;
mod link;
mod memory;
mod names;
mod nic;
mod notify;
mod pages;
mod report;
mod room;
mod state;
mod tag;
mod trunk;
mod vi;
mod wire;

pub use address::{HostAddress, NetAddress, DISCRIMINATOR_MAX, HOST_ADDRESS_LEN};
pub use attributes::{
    Level, MemAttributes, NicAttributes, RemoteViAttributes, ViAttributes, CQ_ENTRIES_MAX, CQ_MAX,
    DESCRIPTORS_MAX, REGIONS_MAX, SEGMENTS_MAX, TRANSFER_MAX,
};
pub use completion::{Cq, CqHandler};
pub use connect::{Request, Server};
pub use descriptor::{
    Completion, Descriptor, Operation, Remote, Segment, Status, DESCRIPTOR_ALIGNMENT,
};
pub use error::{Error, Result};
pub use memory::MemHandle;
pub use mp_proto::work::QueueKind;
pub use names::{
    Host, Mistake, NameService, Names, NamesError, NAMES_PATH, NAMES_VARIABLE, NAME_MAX,
};
pub use nic::{Library, Nic, CHECKS_VARIABLE, NIC_BASE_NAME, PARTITIONS_VARIABLE};
pub use report::{ErrorCode, ErrorEvent, ErrorHandler, Resource};
pub use state::State;
pub use tag::Ptag;
pub use vi::{QueueHandler, Vi, ViInfo};

pub use mp_fabric::{CharDevice, Deadline, Device, Fabric, Map, ProcessMemory};

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Until when a call waits whose timeout is in milliseconds: all ones never come (VI-GEN-2).
pub fn deadline(milliseconds: u64) -> Deadline {
    match milliseconds {
        0 => Deadline::PAST,
        u64::MAX => Deadline::NEVER,
        finite => Deadline::after(Duration::from_millis(finite)),
    }
}

/// Lock, also after a panic: each change is complete when others see it.
#[inline]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
