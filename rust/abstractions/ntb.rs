// SPDX-License-Identifier: GPL-2.0-only

//! The NTB core: client and provider side.
//!
//! For clients:
//!
//! * [`client`]: how a driver finds NTB devices: [`client::Client`] is probed
//!   for each of them, [`client::Registration`] announces it.
//! * [`device`]: [`NtbDev`], the device as its client sees it: ports, links,
//!   windows, doorbells, scratchpads, messages.
//! * [`events`]: the client's interrupt-time callbacks.
//! * [`window`]: [`PeerWindow`], the peer's memory behind the bridge, which is
//!   only written.
//! * [`inbound`]: [`InboundBuffer`], local memory that a peer writes.
//!
//! For drivers of hardware:
//!
//! * [`provider`]: [`provider::Device`] with the operations, announced by
//!   [`provider::Registration`].
//! * [`bus`]: BARs, neighbouring functions and interrupts.
//! * [`coherent`]: memory that is held for its address.
//!
//! Nothing here panics on what a peer or a device does: remote memory may
//! vanish at any time (writes go nowhere), local memory that a peer writes may
//! change under the reader, and accesses outside of a mapping are errors.
//!
//! C header: [`include/linux/ntb.h`](srctree/include/linux/ntb.h)

pub(crate) mod access;
pub mod bus;
pub mod client;
pub mod coherent;
pub mod device;
pub mod events;
pub mod inbound;
pub(crate) mod posted;
pub mod provider;
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
