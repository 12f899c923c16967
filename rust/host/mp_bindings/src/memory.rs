// SPDX-License-Identifier: GPL-2.0-only

//! Pages, and physical memory of devices. A page is known by the address of its memory.

use core::{
    ffi::c_void,
    ops::Range, //
};
use std::cell::RefCell;

pub use bindings::page;

/// Physical addresses of devices on each host: the old adapters' memory of a PC. Physical
/// memory begins behind them.
pub const DEVICES: Range<u64> = 0xa_0000..0xc_0000;

/// # Safety
///
/// The page is one.
pub unsafe fn page_address(page: *mut page) -> *mut c_void {
    page.cast()
}

/// # Safety
///
/// The page is one.
pub unsafe fn page_to_phys(page: *mut page) -> u64 {
    // SAFETY: As the caller promises.
    unsafe { crate::kernel_phys(page.cast()) }
}

/// A run of `2^order` pages of zeros; null if there is none. Sleeps.
///
/// # Safety
///
/// None beyond that the caller may sleep, which is checked.
pub unsafe fn contiguous_alloc(order: u32) -> *mut page {
    // SAFETY: Nothing is asked of the caller but that it may sleep.
    unsafe { bindings::alloc_pages(bindings::GFP_KERNEL | bindings::__GFP_ZERO, order) }
}

/// # Safety
///
/// As for [`contiguous_alloc`].
pub unsafe fn compound_alloc(order: u32) -> *mut page {
    // SAFETY: As the caller promises.
    unsafe { contiguous_alloc(order) }
}

/// # Safety
///
/// Nobody uses the pages any more.
pub unsafe fn contiguous_free(page: *mut page, order: u32) {
    // SAFETY: As the caller promises.
    unsafe { bindings::__free_pages(page, order) };
}

/// What a host has claimed of its devices' memory.
#[derive(Default)]
struct Claims(RefCell<Vec<Range<u64>>>);

/// # Safety
///
/// None.
pub unsafe fn iomem_is_device_memory(phys: u64, len: u64) -> bool {
    phys >= DEVICES.start && phys.checked_add(len).is_some_and(|end| end <= DEVICES.end)
}

/// Claim pages in the caller's name.
///
/// # Safety
///
/// None.
pub unsafe fn iomem_claim(phys: u64, len: u64) -> i32 {
    // SAFETY: No requirements.
    if !unsafe { iomem_is_device_memory(phys, len) } {
        return -bindings::EOPNOTSUPP.cast_signed();
    }
    let claims = machine::host().own::<Claims>();
    claims.0.borrow_mut().push(phys..phys + len);
    0
}

/// # Safety
///
/// Claimed before.
///
/// # Panics
///
/// If it was not.
pub unsafe fn iomem_unclaim(phys: u64, len: u64) {
    let claims = machine::host().own::<Claims>();
    let mut claims = claims.0.borrow_mut();
    let at = claims.iter().position(|range| *range == (phys..phys + len));
    claims.remove(at.expect("what was claimed"));
}

/// Claim part of a BAR: no host has a function with one.
///
/// # Safety
///
/// None.
pub unsafe fn iomem_claim_bar(
    _domain: i32,
    _bus: u32,
    _devfn: u32,
    _number: u32,
    _off: u64,
    _len: u64,
    _phys: *mut u64,
) -> i32 {
    -bindings::ENODEV.cast_signed()
}
