// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What both halves of a ring are given with each call.

use crate::memory::{Inbound, Outbound};
use crate::ring::Corrupt;

/// This host's side of a ring in one epoch: the memories, and who hears of what happens.
pub trait Side {
    /// This host's memory, which the peer writes.
    type Inbound: Inbound;
    /// The peer's memory.
    type Outbound: Outbound;

    /// This host's memory.
    fn inbound(&self) -> &Self::Inbound;
    /// The peer's memory.
    fn outbound(&self) -> &Self::Outbound;
    /// Whether the epoch goes on. Asked before each publication, as another thread may end it.
    fn is_open(&self) -> bool;

    /// Ring the doorbell of this ring at the peer.
    fn ring_bell(&self);
    /// From now on this side waits for the peer's doorbell, which has just been asked for.
    fn asleep(&self);
    /// The peer wrote what cannot be: the epoch has to end.
    fn corrupt(&self, cause: Corrupt);
}
