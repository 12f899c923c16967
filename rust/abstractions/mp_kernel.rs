// SPDX-License-Identifier: GPL-2.0-only

//! Safe abstractions that the kernel crate lacks.
//!
//! * [`ntb`]: the NTB core, both as provider of a device and as client of one.
//! * [`genl`]: commands and events for programs, by generic netlink.
//! * [`chardev`]: a character device whose open files are contexts.
//! * [`user_pages`]: memory of a process that stays where it is.
//! * [`vma`]: mappings of page frames into processes, which can be revoked.
//! * [`wait`]: sleeping until something is the case, and polling for it.
//! * [`eventfd`]: counters of programs that the kernel adds to.
//! * [`process`]: who the caller is.
//! * [`uaccess`]: structures of programs older or younger than the kernel.
//! * [`net`]: network devices, socket buffers, NAPI and ethtool.
//! * [`shared_pages`]: pages that processes map and the kernel uses meanwhile.
//! * [`contiguous`]: a large piece of memory in one run.
//! * [`sync`]: locks and reference cells for softirq context.
//! * [`pci`]: what a function on a PCI bus is, and where.
//! * [`random`]: the kernel's random numbers.
//! * [`time`]: the monotonic clock as a number.
//! * [`timer`]: timers with its resolution.
//! * [`trace`]: tracepoints of links and frames.
//! * [`worker`]: background work that ends with its owner.
//! * [`barrier`]: barriers against devices and other hosts.
//! * [`bytes`]: memory that is only copied from, or only written.
//! * [`carrier`]: files that carry a value from one process to another.
//! * [`cpu`]: the number of processors.
//! * [`dma_buf`]: memory that is shared with devices and drivers.
//! * [`dma_engine`]: copies by a DMA engine.
//! * [`idle`]: threads for the time in which there is nothing else to do.
//! * [`iomem`]: physical memory of devices.
//! * [`iommu`]: what an IOMMU lets devices reach.
//! * [`kobject`]: directories of attributes in sysfs.
//! * [`notifier`]: modules that go, the machine that stops.
//!
//! The fabric's modules are written on this crate and the kernel crate alone;
//! raw bindings and almost all `unsafe` stay in here. The module has no
//! function of its own.

use kernel::prelude::*;

const NS_PER_US: u64 = 1000;

pub mod barrier;
pub mod bytes;
pub mod carrier;
pub mod cgroup;
pub mod chardev;
pub mod contiguous;
pub mod cpu;
pub mod dma_buf;
pub mod dma_engine;
pub mod dmem;
pub mod error;
pub mod eventfd;
pub mod fifo;
pub mod genl;
pub mod idle;
pub mod iomem;
pub mod iommu;
pub mod kobject;
pub mod net;
pub mod notifier;
pub mod ntb;
pub mod param;
pub mod pci;
pub mod process;
pub mod random;
pub mod shared_pages;
pub mod sync;
pub mod time;
pub mod timer;
pub mod trace;
pub mod uaccess;
pub mod user_pages;
pub mod vma;
pub mod wait;
pub mod worker;

/// The module that carries this crate's code.
struct Abstractions;

impl kernel::Module for Abstractions {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let delay = u64::from(param!(posted_us)) * NS_PER_US;
        ntb::posted::set_delay(delay)?;
        Ok(Self)
    }
}

impl Drop for Abstractions {
    fn drop(&mut self) {
        // Taking a delay away cannot fail.
        let _ = ntb::posted::set_delay(0);
    }
}

module! {
    type: Abstractions,
    name: "mp_kernel",
    authors: ["The pximc-ntb authors"],
    description: "Rust abstractions for NTB and network devices",
    license: "GPL",
    params: {
        posted_us: u32 {
            default: 0,
            description: "For tests: words and doorbells reach a peer so many microseconds late, in order; 0: at once",
        },
    },
}
