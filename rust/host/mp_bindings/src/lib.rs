// SPDX-License-Identifier: GPL-2.0-only

//! What `mp_kernel` calls of the C side of a kernel, beside what the kernel crate calls, on machines
//! of the host; and the project's own interface for modules in C.
//!
//! * [`header`]: `include/mp/mp.h`, by bindgen.
//! * [`locks`]: spin locks and softirqs.
//! * [`memory`]: pages, and physical memory of devices.
//! * [`notifiers`]: modules that go, the machine that stops.
//! * [`pci`]: functions on buses.
//! * [`times`]: what time it is.
//! * [`waits`]: wait queues.
//! * [`work`]: delayed work on workqueues.

#![allow(missing_docs, non_camel_case_types, non_upper_case_globals)]

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    non_snake_case,
    unsafe_op_in_unsafe_fn
)]
pub mod header {
    use kernel::ffi;
    include!("../../../../build/host/mp_header.rs");
}
pub mod locks;
pub mod memory;
pub mod notifiers;
pub mod pci;
pub mod times;
pub mod waits;
pub mod work;

pub use header::*;
pub use locks::*;
pub use memory::*;
pub use notifiers::*;
pub use pci::*;
pub use times::*;
pub use waits::*;
pub use work::*;

/// Processors of a host, as it says: contexts take turns as if there were any number.
const PROCESSORS: u32 = 2;

/// # Safety
///
/// None.
pub unsafe fn num_online_cpus() -> u32 {
    PROCESSORS
}

macro_rules! barriers {
    ($($name:ident)*) => {$(
        /// What other hosts do may come before or behind it.
        ///
        /// # Safety
        ///
        /// None.
        pub unsafe fn $name() {
            machine::point();
        }
    )*};
}

barriers!(mb rmb wmb);
