// SPDX-License-Identifier: GPL-2.0-only

//! Memory of the kernel.

use core::{
    alloc::Layout,
    ffi::c_void,
    ptr, //
};
use machine::memory;

pub const __GFP_HIGHMEM: u32 = 0x02;
pub const __GFP_ZERO: u32 = 0x100;
/// The caller may sleep until there is memory.
const __GFP_DIRECT_RECLAIM: u32 = 0x400;
pub const __GFP_NOWARN: u32 = 0x2000;
pub const GFP_ATOMIC: u32 = 0x820;
pub const GFP_NOWAIT: u32 = 0x800 | __GFP_NOWARN;
pub const GFP_KERNEL: u32 = 0x8c0 | __GFP_DIRECT_RECLAIM;
pub const GFP_KERNEL_ACCOUNT: u32 = GFP_KERNEL | 0x40_0000;

/// A page; none is ever made.
#[repr(C)]
pub struct page {
    _none: [u8; 0],
}

/// # Safety
///
/// Never called: no memory is mapped page by page.
pub unsafe fn vmalloc_to_page(_pointer: *const c_void) -> *mut page {
    ptr::null_mut()
}

pub const ARCH_KMALLOC_MINALIGN: usize = 8;
pub const PAGE_SHIFT: u32 = 12;
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;
pub const MAX_NUMNODES: u32 = 1;
pub const NUMA_NO_NODE: i32 = -1;

/// Make memory of `size` bytes with what `old` has, which is freed; null without memory, and then
/// `old` is as it was. Of no bytes: free `old`.
///
/// # Safety
///
/// `old` is null, or memory of this kind that nobody uses.
pub unsafe extern "C" fn krealloc_node_align(
    old: *const c_void,
    size: usize,
    align: usize,
    flags: u32,
    _node: i32,
) -> *mut c_void {
    let old = old.cast_mut().cast::<u8>();
    let mut new = ptr::null_mut();
    if size != 0 {
        let align = align.max(ARCH_KMALLOC_MINALIGN);
        let layout = Layout::from_size_align(size, align).expect("sizes of Rust types");
        new = memory::allocate(layout, flags & __GFP_DIRECT_RECLAIM != 0);
        if new.is_null() {
            return ptr::null_mut();
        }
        if flags & __GFP_ZERO != 0 {
            // SAFETY: Just allocated.
            unsafe { new.write_bytes(0, size) };
        }
    }
    if !old.is_null() {
        let kept = size.min(memory::size_of_block(old));
        if !new.is_null() {
            // SAFETY: Both are so large; one has just been allocated.
            unsafe { ptr::copy_nonoverlapping(old, new, kept) };
        }
        // SAFETY: Nobody uses it, as the caller promises.
        unsafe { memory::free(old) };
    }
    new.cast()
}

pub use krealloc_node_align as kvrealloc_node_align;
pub use krealloc_node_align as vrealloc_node_align;

/// Whether memory is mapped page by page, which none is here.
///
/// # Safety
///
/// Any pointer will do.
pub unsafe fn is_vmalloc_addr(_pointer: *const c_void) -> bool {
    false
}

/// A run of `2^order` pages; null if there is none.
///
/// # Safety
///
/// None.
pub unsafe fn alloc_pages(flags: u32, order: u32) -> *mut page {
    // SAFETY: Fresh memory.
    unsafe {
        krealloc_node_align(
            ptr::null(),
            PAGE_SIZE << order,
            PAGE_SIZE << order,
            flags,
            NUMA_NO_NODE,
        )
    }
    .cast()
}

/// # Safety
///
/// Allocated with that order; nobody uses it any more.
pub unsafe fn __free_pages(page: *mut page, _order: u32) {
    // SAFETY: As the caller promises.
    unsafe { memory::free(page.cast()) };
}
