// SPDX-License-Identifier: GPL-2.0-only

//! What `mp_kernel` calls of the C side of a kernel, beside what the kernel crate calls, on machines
//! of the host; and the project's own interface for modules in C.
//!
//! * [`bridge`]: bridges between hosts.
//! * [`dma`]: DMA engines, of which there are none.
//! * [`dmem`]: the device memory controller, which these hosts do not have.
//! * [`header`]: `include/mp/mp.h`, by bindgen.
//! * [`locks`]: spin locks and softirqs.
//! * [`memory`]: pages, and physical memory of devices.
//! * [`net`]: the states of NAPI.
//! * [`notifiers`]: modules that go, the machine that stops.
//! * [`ntb`]: the NTB core.
//! * [`pci`]: functions on buses.
//! * [`sched`]: tasks and threads.
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
pub mod bridge;
pub mod dma;
pub mod dmem;
pub mod locks;
pub mod memory;
pub mod net;
pub mod notifiers;
pub mod ntb;
pub mod pci;
pub mod sched;
pub mod times;
pub mod waits;
pub mod work;

pub use bindings::device;
pub use bridge::*;
pub use dma::*;
pub use dmem::*;
pub use header::*;
pub use locks::*;
pub use memory::*;
pub use net::*;
pub use notifiers::*;
pub use ntb::*;
pub use pci::*;
pub use sched::*;
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

/// What was stored through windows is posted; what other hosts do may come before or behind it.
///
/// # Safety
///
/// None.
pub unsafe fn mb() {
    bridge::flush();
    machine::point();
}

pub use mb as wmb;

/// What other hosts do may come before or behind it.
///
/// # Safety
///
/// None.
pub unsafe fn rmb() {
    machine::point();
}
