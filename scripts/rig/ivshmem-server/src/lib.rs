// SPDX-License-Identifier: GPL-2.0-only
//! The rig's ivshmem server: one Unix socket per NTB port, one shared page set.
//!
//! QEMU's `ivshmem-doorbell` device connects to a server, which hands it a
//! shared memory file and one event descriptor per peer and interrupt vector
//! (QEMU's `docs/specs/ivshmem-spec`). Three choices differ from QEMU's own
//! example server:
//!
//! * Every port has its own socket, so a guest that comes back is the same port
//!   again, in whatever order guests start.
//! * All ports' event descriptors exist for ever and are announced in the first
//!   handshake; no port is ever announced as gone. QEMU 7.2 aborts when a peer
//!   that was announced as gone returns, and ivshmem guests are not told anyway.
//! * Instead, the shared memory says who is there: when a port's connection
//!   closes, the server clears the port's state word and rings the others.
//!
//! [`board`] owns the layout of the shared memory, [`wire`] the message
//! encoding, [`server`] the connections.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod board;
pub mod server;
pub mod wire;
