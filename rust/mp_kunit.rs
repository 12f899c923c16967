// SPDX-License-Identifier: GPL-2.0-only

//! KUnit suites of the parts that have no hardware below them.
//!
//! They run when the module is loaded, if the kernel is booted with
//! `kunit.enable=1`, or by a write to `run` in a suite's directory below
//! `/sys/kernel/debug/kunit`, where the results stand as well. No transport may
//! be loaded then: the suites register transports and peers of their own.
//!
//! * [`bytes`]: memory that is only copied from, or only written, and packets of it.
//! * [`ether`]: the virtual Ethernet, where that is loaded.
//! * [`fifo`]: queues that grow as needed.
//! * [`frames`]: the message frame service: peers, functions, frames.
//! * [`forward`]: peers that share no bridge, and what the services tell each other.
//! * [`kept`]: data that a transport holds for others.
//! * [`memory`]: memory of both ends of a link.
//! * [`napi`]: polls, and their end. A second processor is needed.
//! * [`interface`]: the local ends of links.
//! * [`user`]: what serves programs: offsets, mappings, waits.
//! * [`windows`]: windows and lists of the user service.
//! * `tasks.c`: what these ask of tasks.
//! * `capi.c`: the suite of the interface for modules in C.
//! * [`fixture`]: a transport without a wire, and a function that notes what it
//!   is given.

use kernel::prelude::*;

#[path = "mp_kunit/bytes.rs"]
mod bytes;
#[path = "mp_kunit/ether.rs"]
mod ether;
#[path = "mp_kunit/fifo.rs"]
mod fifo;
#[path = "mp_kunit/fixture.rs"]
mod fixture;
#[path = "mp_kunit/forward.rs"]
mod forward;
#[path = "mp_kunit/frames.rs"]
mod frames;
#[path = "mp_kunit/interface.rs"]
mod interface;
#[path = "mp_kunit/kept.rs"]
mod kept;
#[path = "mp_kunit/memory.rs"]
mod memory;
#[path = "mp_kunit/napi.rs"]
mod napi;
#[path = "mp_kunit/user.rs"]
mod user;
#[path = "mp_kunit/windows.rs"]
mod windows;

/// The module; its suites are found by the kernel in a section of their own.
struct Suites;

impl kernel::Module for Suites {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

module! {
    type: Suites,
    name: "mp_kunit",
    authors: ["The pximc-ntb authors"],
    description: "KUnit suites of the message frame fabric",
    license: "GPL",
}
