// SPDX-License-Identifier: GPL-2.0-only

//! The NTB core, for clients.

// Parts are for drivers of bridges, or for tests in guests; the kernel has an older clippy.
#[allow(dead_code)]
pub(crate) mod access;
pub mod client;
pub mod device;
pub mod events;
pub mod inbound;
#[allow(dead_code)]
pub(crate) mod posted;
pub mod range;
pub mod window;

pub use self::{
    device::NtbDev,
    events::{
        EventRegistration,
        Events, //
    },
    inbound::InboundBuffer,
    window::PeerWindow, //
};
