// SPDX-License-Identifier: GPL-2.0-only

//! Network devices, socket buffers, NAPI and ethtool.
//!
//! * [`device`]: an Ethernet interface, its operations and transmit queues.
//! * [`ethtool`]: what the interface tells and lets change through ethtool.
//! * [`napi`]: engines that are polled, whether or not they are interfaces.
//! * [`rtnl`]: the lock over the configuration of all interfaces.
//! * [`skb`]: packets, owned, read in pieces and built from foreign memory.

pub mod device;
pub mod ethtool;
mod linger;
pub mod napi;
pub mod rtnl;
pub mod skb;
