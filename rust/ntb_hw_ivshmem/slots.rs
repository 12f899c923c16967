// SPDX-License-Identifier: GPL-2.0-only

//! Memory at predictable addresses.
//!
//! A peer's outbound window leads to a fixed address here, its *slot*, which the
//! peer's client may ask for long before the client here allocates the memory.
//! So that the allocation lands there, the slots fill the start of the kernel's
//! contiguous memory area (`cma=SIZE@START`), out of which large coherent
//! allocations are served first fit: while all slots are held but one, the next
//! allocation of up to a slot's size lies at the start of that one.
//!
//! Where the slots begin further up, because other devices have theirs at the start,
//! what lies below is held as well.
//!
//! The memory is held in blocks of powers of two that lie in one slot each,
//! which works too where a client has taken less than a slot. A slot with memory
//! of a client is left alone.

use super::board::Geometry;
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};
use mp_kernel::ntb::coherent::{
    CoherentBlock,
    CoherentSource, //
};

/// Up to this size the area's allocator aligns blocks to their size.
const BLOCK_MAX: usize = 1 << 20;
/// Smaller ones do not come out of the area.
const BLOCK_MIN: usize = 8 << 10;

/// Sizes of blocks from the largest down.
fn sizes(largest: usize) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(largest), |size| Some(size / 2))
        .take_while(|&size| size >= BLOCK_MIN)
}

/// The slots of this host.
#[pin_data]
pub(crate) struct Slots {
    base: u64,
    size: u64,
    count: u32,
    source: CoherentSource,
    #[pin]
    blocks: Mutex<KVec<CoherentBlock>>,
}

impl Slots {
    /// `count` slots of `size` bytes, none of them held.
    pub(crate) fn new(
        source: CoherentSource,
        geometry: &Geometry,
        size: u64,
        count: u32,
    ) -> impl PinInit<Self, Error> {
        let base = geometry.area_base;
        try_pin_init!(Self {
            base,
            size,
            count,
            source,
            blocks <- new_mutex!(KVec::new()),
        })
    }

    /// Bytes of a slot.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Address of a slot.
    pub(crate) fn address(&self, slot: u32) -> u64 {
        self.base + u64::from(slot) * self.size
    }

    /// Bytes of all slots.
    pub(crate) fn total(&self) -> u64 {
        self.end() - self.base
    }

    fn end(&self) -> u64 {
        self.address(self.count)
    }

    /// Hold all that is free, and return how many bytes are not.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory to remember a block.
    pub(crate) fn hold_all(&self) -> Result<u64> {
        let mut blocks = self.blocks.lock();
        self.hold_below(&mut blocks)?;
        self.fill(&mut blocks)?;
        let own = blocks.iter().filter(|b| b.dma_address() >= self.base);
        let held = own.fold(0, |sum, b| sum + b.len() as u64);
        Ok(self.total().saturating_sub(held))
    }

    /// Let one slot go and hold all others. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory to remember a block.
    pub(crate) fn release(&self, slot: u32) -> Result {
        let mut blocks = self.blocks.lock();
        self.fill(&mut blocks)?;
        let slot = self.address(slot)..self.address(slot) + self.size;
        blocks.retain(|block| !slot.contains(&block.dma_address()));
        Ok(())
    }

    /// Take what is free below the slots, which another board may have left.
    fn hold_below(&self, blocks: &mut KVec<CoherentBlock>) -> Result {
        for size in sizes(BLOCK_MAX) {
            while let Ok(block) = self.source.alloc(size) {
                if block.dma_address() >= self.base {
                    break;
                }
                blocks.push(block, GFP_KERNEL)?;
            }
        }
        Ok(())
    }

    /// Take ever smaller blocks until each size is found only outside.
    fn fill(&self, blocks: &mut KVec<CoherentBlock>) -> Result {
        let largest = usize::try_from(self.size)?.min(BLOCK_MAX);
        for size in sizes(largest) {
            while let Ok(block) = self.source.alloc(size) {
                if !(self.base..self.end()).contains(&block.dma_address()) {
                    break;
                }
                blocks.push(block, GFP_KERNEL)?;
            }
        }
        Ok(())
    }
}
