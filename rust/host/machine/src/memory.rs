// SPDX-License-Identifier: GPL-2.0-only

//! Allocations of the kernel.
//!
//! They fail when the dice say so, or if it is theirs to fail
//! ([`fail_allocation`](crate::world::fail_allocation)). Freed memory is filled and kept for a while ([`QUARANTINE`]): code
//! that still uses it finds nothing that makes sense, and code that frees it once more is found. Atomic
//! variables, locks and counts of references in it are found to be gone ([`check`]).
//!
//! Addresses are the program's. Physical addresses ([`phys_of`]) depend on the run alone.

use crate::{
    context::{
        current,
        in_atomic,
        might_sleep, //
    },
    order,
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
    collections::{
        BTreeMap,
        HashMap,
        VecDeque, //
    },
    ptr, //
};

/// What fresh memory is filled with.
const FRESH: u8 = 0x5a;
/// What freed memory is filled with, as by the kernel's allocator.
pub const FREED: u8 = 0x6b;

/// Bytes of freed memory that are kept, the youngest.
pub const QUARANTINE: usize = 64 << 20;
/// The first physical address that is given out, above what a PC has at low ones.
const FIRST_PHYS: u64 = 1 << 20;

/// A piece of memory.
struct Block {
    layout: Layout,
    host: usize,
    is_freed: bool,
    /// Its physical address, if somebody has asked for it.
    phys: Option<u64>,
}

/// All memory of a run.
#[derive(Default)]
pub(crate) struct Memory {
    blocks: BTreeMap<usize, Block>,
    /// Those that are freed, the oldest first, and how much they are.
    freed: VecDeque<usize>,
    freed_bytes: usize,
    /// Where those lie that have physical addresses, by host and address.
    by_phys: BTreeMap<(usize, u64), usize>,
    /// The next physical address of each host.
    next_phys: HashMap<usize, u64>,
}

impl Memory {
    /// The block with an address in it, and where it begins.
    fn find(&self, address: usize) -> Option<(usize, &Block)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        (address - start < block.layout.size()).then_some((start, block))
    }

    /// Give back what has been kept longest, as long as too much is.
    fn shrink(&mut self) {
        while self.freed_bytes > QUARANTINE {
            let Some(address) = self.freed.pop_front() else {
                return;
            };
            let Some(block) = self.blocks.remove(&address) else {
                return;
            };
            self.freed_bytes -= block.layout.size();
            if let Some(phys) = block.phys {
                self.by_phys.remove(&(block.host, phys));
            }
            // SAFETY: Allocated with that layout; freed by the module a long time ago.
            unsafe { dealloc(ptr::with_exposed_provenance_mut(address), block.layout) };
        }
    }

    /// The physical address of what begins at `start`.
    fn phys(&mut self, start: usize) -> u64 {
        let block = self.blocks.get_mut(&start).expect("a block begins there");
        if let Some(phys) = block.phys {
            return phys;
        }
        let next = self.next_phys.entry(block.host).or_insert(FIRST_PHYS);
        let phys = next.next_multiple_of(block.layout.align() as u64);
        *next = phys + block.layout.size() as u64;
        block.phys = Some(phys);
        self.by_phys.insert((block.host, phys), start);
        phys
    }
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
    let world = world();
    if world.is_failing() {
        return true;
    }
    let plan = world.plan.get();
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
        phys: None,
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
    let size = world
        .memory
        .borrow()
        .blocks
        .get(&start.addr())
        .map(|b| b.layout.size());
    if let Some(name) = order::lock_within(start.addr(), size.unwrap_or(0)) {
        fail(format!(
            "it frees memory with {name} in it, which somebody has"
        ));
    }
    let mut memory = world.memory.borrow_mut();
    let Some(block) = memory.blocks.get_mut(&start.addr()) else {
        fail("it frees what has not been allocated");
    };
    if block.is_freed {
        fail("it frees memory twice");
    }
    block.is_freed = true;
    // SAFETY: Allocated with that size, and by the caller's promise nobody's any more.
    unsafe { start.write_bytes(FREED, block.layout.size()) };
    memory.freed_bytes += block.layout.size();
    memory.freed.push_back(start.addr());
    memory.shrink();
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
    let memory = world.memory.borrow();
    if memory.find(address).is_some_and(|(_, b)| b.is_freed) {
        fail("it uses memory that has been freed");
    }
}

/// The physical address of memory; `None` if none has been allocated there.
pub fn phys_of(address: usize) -> Option<u64> {
    let world = world();
    let mut memory = world.memory.borrow_mut();
    let (start, _) = memory.find(address)?;
    Some(memory.phys(start) + (address - start) as u64)
}

/// The `len` bytes of a host's memory at a physical address, which are in one piece; `None` if no memory
/// is there whose address was asked for.
///
/// Fails if they have been freed.
pub fn at_phys(host: &crate::Host, phys: u64, len: usize) -> Option<*mut u8> {
    let world = world();
    let memory = world.memory.borrow();
    let key = (host.number(), phys);
    let ((of, first), &start) = memory.by_phys.range(..=key).next_back()?;
    let block = memory.blocks.get(&start)?;
    let off = usize::try_from(phys - first).ok()?;
    if *of != key.0 || off + len > block.layout.size() {
        return None;
    }
    if block.is_freed {
        fail("a device uses memory that has been freed");
    }
    Some(ptr::with_exposed_provenance_mut(start + off))
}

/// Bytes of the run's memory, with what is freed and kept.
pub fn bytes() -> usize {
    let world = world();
    let blocks = &world.memory.borrow().blocks;
    blocks.values().map(|block| block.layout.size()).sum()
}

/// Pieces of memory that a host has and has not freed.
pub fn pieces_of(host: &crate::Host) -> usize {
    let world = world();
    let blocks = &world.memory.borrow().blocks;
    let its = blocks.values().filter(|b| b.host == host.number());
    its.filter(|block| !block.is_freed).count()
}
