// SPDX-License-Identifier: GPL-2.0

//! Network devices, socket buffers, NAPI and ethtool.
//!
//! * [`napi`]: engines that are polled, whether or not they are interfaces.
//! * [`skb`]: packets, owned, read in pieces and built from foreign memory.

pub mod napi;
pub mod skb;
