// SPDX-License-Identifier: MIT OR Apache-2.0

//! What tests of the libraries have in common.
//!
//! | file | owns |
//! |---|---|
//! | `fake` | [`World`]: two hosts in one process, and [`FakeDevice`]s that stand in for the driver |
//! | `bridge` | [`Bridge`]: what a device's stores to partners pass through |
//! | `seeds` | [`bridge_seed`], [`seeded_bridge`], [`with_other_seeds`]: chances of bridges, and more of them |
//! | `forks` | [`children_of_threads`], [`child`]: what a forked child can do |
//! | `shortage` | [`LimitedMemory`]: memory that runs out |
//! | `advice` | [`assert_advises`]: what texts of errors have to say |
//! | `built` | [`built`]: the shared library of a crate, and programs in C above it |

mod advice;
#[cfg(target_pointer_width = "64")]
mod again;
mod bridge;
pub mod built;
mod fake;
mod forks;
mod seeds;
mod shortage;

pub use advice::assert_advises;
#[cfg(target_pointer_width = "64")]
pub use again::{again, is_inner};
pub use bridge::{Bridge, BridgeDevice, BridgeMemory, Lines};
pub use fake::{FakeDevice, Host, World, LOOPBACK};
pub use forks::{child, children_of_threads};
pub use seeds::{bridge_seed, seeded_bridge, with_other_seeds};
pub use shortage::LimitedMemory;
