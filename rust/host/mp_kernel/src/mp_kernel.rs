// SPDX-License-Identifier: GPL-2.0-only

//! The abstractions on the host: those of `rust/abstractions`, as far as modules that compile here
//! use them, on the functions of `mp_bindings`. Files that lie here stand in for larger ones:
//!
//! * [`dma_buf`], [`user_pages`]: memory of drivers and processes, of which there is none.
//! * [`genl`]: generic netlink without sockets.
//! * [`kobject`]: directories of sysfs, which tests read.
//! * [`net`]: the part for NAPI.
//! * [`ntb`]: the NTB core for clients; `ntb/access/raw.rs` leads stores through windows to the
//!   bridge.
//! * [`param`]: values of parameters.

pub mod barrier;
pub mod bytes;
pub mod contiguous;
pub mod cpu;
pub mod dma_buf;
#[allow(dead_code)]
pub mod dma_engine;
pub mod dmem;
pub mod error;
pub mod fifo;
pub mod genl;
pub mod idle;
pub mod iomem;
pub mod kobject;
pub mod net;
pub mod notifier;
pub mod ntb;
pub mod param;
// No host has a function yet.
#[allow(dead_code)]
pub mod pci;
pub mod random;
pub mod shared_pages;
pub mod sync;
pub mod time;
pub mod timer;
// The kernel's configuration has no tracepoints here.
#[allow(unused_imports)]
pub mod trace;
pub mod user_pages;
pub mod wait;
pub mod worker;
