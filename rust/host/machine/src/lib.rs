// SPDX-License-Identifier: GPL-2.0-only

//! Machines on which kernel code runs inside one thread of a program: what stands in for
//! processors, memory and time.
//!
//! [`run`] makes a [`World`] from a seed and runs a function in it, as a context of a first host.
//! Contexts ([`spawn`]) take turns as the seed says. One of them gives up its turn only at a
//! [`point`], which all stand-ins of the kernel reach at each access that another processor could
//! see, or where it sleeps. The same seed gives the same run.
//!
//! * [`world`]: a run, its scheduler and its clock.
//! * [`context`]: what runs, and in which sections it must not sleep.
//! * [`queue`]: sleeping until somebody wakes one.
//! * [`host`]: one machine of a run, and what belongs to it alone.
//! * [`statics`]: statics of modules, which each host has for itself.
//! * [`usage`]: where locks are taken that interrupts and softirqs take.
//! * [`alarm`]: what runs at a time.
//! * [`symbols`]: where the statics of a crate lie.
//! * [`memory`]: allocations, which fail when the dice say so.
//! * [`dice`]: random numbers from a seed.
//!
//! Memory accesses of the contexts of one host happen in some order that all of them agree on:
//! weak orderings between processors are the model checker's subject, not this crate's. What is
//! made in one run must not be used in another one.

pub mod alarm;
pub mod context;
pub mod dice;
pub mod host;
pub mod memory;
pub mod order;
pub mod queue;
pub mod statics;
pub mod symbols;
pub mod usage;
pub mod world;

pub use context::{
    enter_atomic,
    leave_atomic,
    might_sleep,
    point,
    spawn,
    spawn_on,
    Handle,
    Kind, //
};
pub use host::{
    host,
    Host, //
};
pub use world::{
    chance,
    fail,
    now,
    run,
    sleep_until,
    Plan,
    World, //
};
