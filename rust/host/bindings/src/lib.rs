// SPDX-License-Identifier: GPL-2.0-only

//! The C side of a kernel, as far as the kernel crate calls it, on machines of the host.
//!
//! The functions have the kernel's names, arguments and meanings; what they say of contexts,
//! sleep and order is what [`machine`] checks. Types of C that Rust code only passes on are as
//! small as that allows.
//!
//! * [`errno`]: numbers of errors, from the kernel's headers.
//! * [`slab`]: `krealloc()` and its like.
//! * [`atomics`]: `atomic_t` and its like, and reference counts.
//! * [`locks`]: mutexes and spin locks.
//! * [`rcu`]: sections of readers, and grace periods.
//! * [`devices`]: devices and references to them.
//! * [`timers`]: timers with the resolution of the clock.
//! * [`waits`]: wait queues and timed sleeps.
//! * [`strings`]: functions of `string.h`.

#![allow(missing_docs, non_camel_case_types, non_upper_case_globals)]

#[allow(non_snake_case)]
pub mod atomics;
pub mod devices;
#[allow(non_snake_case)]
pub mod errno;
pub mod locks;
pub mod rcu;
pub mod slab;
pub mod strings;
pub mod timers;
pub mod waits;

pub use atomics::*;
pub use devices::*;
pub use errno::*;
pub use locks::*;
pub use rcu::*;
pub use slab::*;
pub use strings::*;
pub use timers::*;
pub use waits::*;
