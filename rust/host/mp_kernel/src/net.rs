// SPDX-License-Identifier: GPL-2.0-only

//! What modules use of the network stack.

pub mod napi;
