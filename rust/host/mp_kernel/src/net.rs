// SPDX-License-Identifier: GPL-2.0-only

//! What modules use of the network stack.

mod linger;
// Interfaces are not compiled here.
#[allow(dead_code)]
pub mod napi;
