// SPDX-License-Identifier: GPL-2.0-only

//! What a transport knows of the link to a peer, for those who look after it.

use mp_proto::layout::MAX_QUEUES;

/// Most rings of a link: one for control, one for each data queue.
pub const MAX_RINGS: usize = MAX_QUEUES as usize + 1;

/// A ring in both directions; bytes.
#[derive(Clone, Copy, Default)]
pub struct RingDetails {
    /// Size of the one that this host fills.
    pub tx_size: u32,
    /// What of it was sent and is not known to be consumed.
    pub tx_used: u32,
    /// Size of the one that the peer fills.
    pub rx_size: u32,
    /// What of it was received and is not given back.
    pub rx_used: u32,
}

/// A link in its present epoch.
#[derive(Clone, Copy, Default)]
pub struct LinkDetails {
    /// Epoch number of this host.
    pub epoch: u64,
    /// Epoch number of the peer.
    pub peer_epoch: u64,
    /// Version of the wire format that both ends have agreed on.
    pub version: u8,
    /// Memory that the peer writes into, in bytes.
    pub inbound: u64,
    /// The peer's memory that this host can write into, in bytes.
    pub outbound: u64,
    /// The rings by their numbers; 0 is the control ring.
    pub rings: [Option<RingDetails>; MAX_RINGS],
}
