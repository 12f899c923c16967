// SPDX-License-Identifier: GPL-2.0-only

//! Allocations of the kernel.
//!
//! They fail when the dice say so. Freed memory is filled and kept until the run ends, so that who
//! still uses it finds nothing that makes sense, and who frees it once more is found. Atomic
//! variables, locks and counts of references in it are found to be gone ([`check`]).

use crate::{
    context::{
        current,
        in_atomic,
        might_sleep, //
    },
    world::{
        fail,
        world, //
    }, //
};
use std::{
    alloc::{
        alloc,
        dealloc,
        Layout, //
    },
    collections::BTreeMap,
    ptr, //
};

/// What fresh memory is filled with.
const FRESH: u8 = 0x5a;
/// What freed memory is filled with, as by the kernel's allocator.
pub const FREED: u8 = 0x6b;

/// A piece of memory.
struct Block {
    layout: Layout,
    host: usize,
    is_freed: bool,
}

/// All memory of a run.
#[derive(Default)]
pub(crate) struct Memory {
    blocks: BTreeMap<usize, Block>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (&address, block) in &self.blocks {
            // SAFETY: Allocated with that layout; the run that has used it is over.
            unsafe { dealloc(ptr::with_exposed_provenance_mut(address), block.layout) };
        }
    }
}

/// Whether an allocation fails now; one that may sleep is a place where to sleep.
fn fails(may_sleep: bool) -> bool {
    if may_sleep {
        might_sleep();
    }
    let plan = world().plan.get();
    crate::chance(if may_sleep && !in_atomic() {
        plan.fails
    } else {
        plan.atomic_fails
    })
}

/// Memory of this host, filled with some value; null if the dice say so.
///
/// Fails if it may sleep where the caller must not.
pub fn allocate(layout: Layout, may_sleep: bool) -> *mut u8 {
    if layout.size() == 0 || fails(may_sleep) {
        return ptr::null_mut();
    }
    // SAFETY: Of more than no bytes.
    let start = unsafe { alloc(layout) };
    if start.is_null() {
        return start;
    }
    // SAFETY: Just allocated.
    unsafe { start.write_bytes(FRESH, layout.size()) };
    let world = world();
    let block = Block {
        layout,
        host: current(&world).host.number(),
        is_freed: false,
    };
    let blocks = &mut world.memory.borrow_mut().blocks;
    blocks.insert(start.expose_provenance(), block);
    start
}

/// Free memory.
///
/// Fails if it is none, or has been freed.
///
/// # Safety
///
/// Nobody uses it any more.
pub unsafe fn free(start: *mut u8) {
    let world = world();
    let blocks = &mut world.memory.borrow_mut().blocks;
    let Some(block) = blocks.get_mut(&start.addr()) else {
        fail("it frees what has not been allocated");
    };
    if block.is_freed {
        fail("it frees memory twice");
    }
    block.is_freed = true;
    // SAFETY: Allocated with that size, and by the caller's promise nobody's any more.
    unsafe { start.write_bytes(FREED, block.layout.size()) };
}

/// The size of memory that has not been freed.
///
/// Fails if it is none.
pub fn size_of_block(start: *mut u8) -> usize {
    let world = world();
    let blocks = &world.memory.borrow().blocks;
    match blocks.get(&start.addr()).filter(|block| !block.is_freed) {
        Some(block) => block.layout.size(),
        None => fail("it uses memory that is not there"),
    }
}

/// Fail if an address is in memory that has been freed. Called where [`FREED`] was read.
pub fn check(address: usize) {
    let world = world();
    let blocks = &world.memory.borrow().blocks;
    let before = blocks.range(..=address).next_back();
    let is_in = |(start, block): &(&usize, &Block)| address < **start + block.layout.size();
    if before
        .filter(is_in)
        .is_some_and(|(_, block)| block.is_freed)
    {
        fail("it uses memory that has been freed");
    }
}

/// Pieces of memory that a host has and has not freed.
pub fn pieces_of(host: &crate::Host) -> usize {
    let world = world();
    let blocks = &world.memory.borrow().blocks;
    let its = blocks.values().filter(|b| b.host == host.number());
    its.filter(|block| !block.is_freed).count()
}
