// SPDX-License-Identifier: GPL-2.0-only

//! An NTB between QEMU guests.
//!
//! Every guest's RAM is a shared file that all other guests see as the BAR of
//! an `ivshmem-plain` function; an `ivshmem-doorbell` function adds interrupts
//! and shared *register memory*. This driver makes a device of the kernel's NTB
//! core out of them, for any client. It knows nothing of its clients.
//!
//! * [`driver`]: the PCI driver: finds the functions, puts the parts together.
//! * [`port`]: the operations table; forwards to the parts.
//! * [`link`]: who is there, link state and link events.
//! * [`windows`]: memory windows; [`slots`]: memory at predictable addresses.
//! * [`doorbell`], [`scratchpad`], [`message`]: the registers of those names.
//! * [`board`], [`regs`]: the register memory and its layout.
//! * [`personality`]: the limits of real parts; [`params`]: module parameters.
//!
//! # Rules of the register memory
//!
//! Ports are different machines that share no lock, so each word that several
//! of them look at has one writer, except scratchpads, which are as racy as
//! anywhere. A doorbell or message bit is a pair of words: the sender toggles
//! its bit in one when it rings, the owner makes the other equal when it
//! clears; the bit is set while they differ. Full barriers stand between a
//! store to one such word and the load of its counterpart.
//!
//! # Limits
//!
//! An outbound window has no address of its own: it is a part of the BAR that shows
//! the peer's RAM. A client that asks where it is before it enables the link, as
//! mainline's do, is told the window's slot in the peer's memory, and the peer's
//! client must use memory at that slot; `ntb_mw_get_align()` arranges that, see
//! [`slots`]. Any other window may be led elsewhere in RAM, or to the memory of one PCI
//! function, the *target*; then it is found where it leads to by who asks afterwards, and
//! who asked before still writes to where it led. Nothing stops a peer from writing to a
//! window whose translation is not set.
//!
//! A peer sees the target's memory as the BAR of function 1 of the device that shows the
//! RAM. That stands for peer-to-peer routing in a root complex.
//!
//! `ntb_msi_test` and the MSI mode of `ntb_transport` do not apply: they need a
//! window onto the receiver's interrupt controller, and the BARs show RAM only.
//! `ntb_msi_init()` fails cleanly.

use kernel::{
    driver::Registration,
    pci,
    prelude::*, //
};
use mp_kernel::param;

#[path = "ntb_hw_ivshmem/board.rs"]
mod board;
#[path = "ntb_hw_ivshmem/doorbell.rs"]
mod doorbell;
#[path = "ntb_hw_ivshmem/driver.rs"]
mod driver;
#[path = "ntb_hw_ivshmem/fault.rs"]
mod fault;
#[path = "ntb_hw_ivshmem/link.rs"]
mod link;
#[path = "ntb_hw_ivshmem/message.rs"]
mod message;
#[path = "ntb_hw_ivshmem/params.rs"]
mod params;
#[path = "ntb_hw_ivshmem/personality.rs"]
mod personality;
#[path = "ntb_hw_ivshmem/port.rs"]
mod port;
#[path = "ntb_hw_ivshmem/regs.rs"]
mod regs;
#[path = "ntb_hw_ivshmem/scratchpad.rs"]
mod scratchpad;
#[path = "ntb_hw_ivshmem/slots.rs"]
mod slots;
#[path = "ntb_hw_ivshmem/windows.rs"]
mod windows;

/// The module: a PCI driver, registered once its parameters are known to be good.
#[pin_data]
struct IvshmemModule {
    #[pin]
    registration: Registration<pci::Adapter<driver::IvshmemDriver>>,
}

impl kernel::InPlaceModule for IvshmemModule {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: { params::Params::read()?; },
            registration <- Registration::new(c"ntb_hw_ivshmem", module),
        })
    }
}

module! {
    type: IvshmemModule,
    name: "ntb_hw_ivshmem",
    authors: ["The pximc-ntb authors"],
    description: "NTB between QEMU guests over ivshmem",
    license: "GPL",
    params: {
        mw_count: u32 {
            default: u32::MAX,
            description: "Direct memory windows for each peer, 1 to 4, if not as the personality; the same on all hosts",
        },
        mw_size: u64 {
            default: 0,
            description: "Bytes of each direct window, a power of two from 65536, if not as the personality; the same on all hosts",
        },
        db_count: u32 {
            default: u32::MAX,
            description: "Doorbells, 8 to 62, if not as the personality; the same on all hosts",
        },
        spad_count: u32 {
            default: u32::MAX,
            description: "Scratchpads of each host, 0 to 256, if not as the personality; the same on all hosts",
        },
        lose_doorbells: u32 {
            default: 0,
            description: "For tests: every so many interrupts of peers get lost; 0: none",
        },
        dead_reads: u32 {
            default: 0,
            description: "For tests: every so many reads of scratchpads are all ones; 0: none",
        },
    },
}

param::word_param!(
    personality,
    "Whose limits to imitate: generic (default), intel, amd, switchtec, epf, idt or tiny; the same on all hosts"
);
param::word_param!(
    target,
    "PCI function whose memory, BAR 2, windows may lead to, as 0000:00:0e.0; default: none"
);
