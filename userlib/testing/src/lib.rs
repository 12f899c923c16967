// SPDX-License-Identifier: MIT OR Apache-2.0

//! What tests of the libraries have in common.
//!
//! | file | owns |
//! |---|---|
//! | `fake` | [`World`]: two hosts in one process, and [`FakeDevice`]s that stand in for the driver |
//! | `forks` | [`children_of_threads`], [`child`]: what a forked child can do |
//! | `built` | [`built`]: the library that Cargo has built, and programs in C above it |

pub mod built;
mod fake;
mod forks;

pub use fake::{FakeDevice, Host, World, LOOPBACK};
pub use forks::{child, children_of_threads};
