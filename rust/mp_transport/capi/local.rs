// SPDX-License-Identifier: GPL-2.0-only

//! The local processor: conversions of addresses, and copies by DMA.

use super::{
    exported,
    status, //
};
use crate::{
    copy::Completion,
    local::{
        self,
        Kind::{
            self,
            Pci,
            Phys,
            Virt, //
        },
        Side::{
            self,
            Inbound,
            Outbound, //
        }, //
    }, //
};
use core::slice;
use kernel::prelude::*;
use mp_bindings::{
    mp_dma_cb,
    mp_dma_frag,
    MP_DMA_DIR, //
};
use mp_kernel::error;

/// An address on the PCI bus, or all ones.
fn to_pci(side: Side, from: Kind, address: u64) -> u64 {
    local::convert(side, from, Pci, address).unwrap_or(u64::MAX)
}

/// An address for this host, or zero.
fn from_pci(side: Side, to: Kind, address: u64) -> usize {
    let found = local::convert(side, Pci, to, address);
    found.and_then(|a| usize::try_from(a).ok()).unwrap_or(0)
}

/// The callback of a transfer that nobody wants to know the end of.
extern "C" fn unheard(_status: c_int, _data: *mut c_void) {}

/// # Safety
///
/// The header's contract for `mp_dma_start()`.
unsafe fn start(
    dir: MP_DMA_DIR,
    frags: &[mp_dma_frag],
    cb: mp_dma_cb,
    cb_data: *mut c_void,
) -> Result {
    // Nothing reads across the bridge, and the engines serve windows only (IDT-DMA-4).
    if dir != mp_bindings::MP_DMA_DIR_MP_DMA_DIR_L2P {
        return Err(error::unsupported());
    }
    // SAFETY: The header's contract: the callback works until it has been called.
    let done = unsafe { Completion::new(cb.unwrap_or(unheard), cb_data) };
    let copies = frags.iter().map(|f| (f.src, f.dst, f.len));
    // SAFETY: The header's contract: the sources stay until the callback.
    unsafe { local::copy_out(copies, done) }
}

exported! {
    /// `IDT-LP-1`.
    fn mp_in_phys_to_pci(address: c_ulong) -> u64 {
        to_pci(Inbound, Phys, address as u64)
    }

    /// `IDT-LP-2`.
    fn mp_in_pci_to_phys(address: u64) -> c_ulong {
        from_pci(Inbound, Phys, address) as c_ulong
    }

    /// `IDT-LP-3`.
    fn mp_in_virt_to_pci(address: *mut c_void) -> u64 {
        to_pci(Inbound, Virt, address as u64)
    }

    /// `IDT-LP-4`.
    fn mp_in_pci_to_virt(address: u64) -> *mut c_void {
        from_pci(Inbound, Virt, address) as *mut c_void
    }

    /// `IDT-LP-5`.
    fn mp_out_phys_to_pci(address: c_ulong) -> u64 {
        to_pci(Outbound, Phys, address as u64)
    }

    /// `IDT-LP-6`.
    fn mp_out_pci_to_phys(address: u64) -> c_ulong {
        from_pci(Outbound, Phys, address) as c_ulong
    }

    /// `IDT-LP-7`.
    fn mp_out_virt_to_pci(address: *mut c_void) -> u64 {
        to_pci(Outbound, Virt, address as u64)
    }

    /// `IDT-LP-8`.
    fn mp_out_pci_to_virt(address: u64) -> *mut c_void {
        from_pci(Outbound, Virt, address) as *mut c_void
    }

    /// `IDT-DMA-3`.
    fn mp_dma_start(
        dir: MP_DMA_DIR,
        num_frags: u32,
        frags: *mut mp_dma_frag,
        cb: mp_dma_cb,
        cb_data: *mut c_void,
        _virt_base: c_ulong,
        _phys_base: c_ulong,
    ) -> c_int {
        let frags = match frags.is_null() {
            true => &[],
            // SAFETY: The header's contract: an array of that length.
            false => unsafe { slice::from_raw_parts(frags, num_frags as usize) },
        };
        // SAFETY: The header's contract.
        status(unsafe { start(dir, frags, cb, cb_data) })
    }
}
