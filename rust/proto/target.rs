// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Where a window leads that its owner [exposes](crate::reach) memory by, for a peer that
//! programs the translation itself.
//!
//! The owner writes two words into the peer's status page, the length last, before it tells the
//! peer that there is something to be reached; the peer reads them when it is told. The owner
//! leads the window elsewhere only after the peer has let go, or in another epoch, whose status
//! page begins with zeros. The address is the owner's business: the peer leads its window there
//! unseen, and reaches nothing but what its bridge shows of the owner.

use crate::layout::{self, PAGE};
use crate::memory::{Inbound, OutOfBounds, Outbound};

/// What a window leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Bus address at the owner.
    pub addr: u64,
    /// Bytes: whole pages, not none.
    pub len: u64,
}

impl Target {
    /// Tell the peer whose status page begins `out` that exposed window `window`, from zero,
    /// leads there.
    ///
    /// # Errors
    /// [`OutOfBounds`] if there is no such window.
    pub fn write(self, window: u32, out: &(impl Outbound + ?Sized)) -> Result<(), OutOfBounds> {
        let at = layout::target(window).ok_or(OutOfBounds)?;
        out.store_u64(at, self.addr)?;
        out.wmb();
        out.store_u64(at + 8, self.len)?;
        out.wmb();
        Ok(())
    }

    /// Tell the peer that the window leads nowhere.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn clear(window: u32, out: &(impl Outbound + ?Sized)) -> Result<(), OutOfBounds> {
        let at = layout::target(window).ok_or(OutOfBounds)?;
        out.store_u64(at + 8, 0)?;
        out.wmb();
        Ok(())
    }

    /// Where the peer whose words `inb` begins with says that its exposed window leads; `None`
    /// if it says nothing, or no length that can be.
    pub fn read(window: u32, inb: &(impl Inbound + ?Sized)) -> Option<Target> {
        let at = layout::target(window)?;
        let len = inb.load_u64(at + 8).ok()?;
        inb.rmb();
        let addr = inb.load_u64(at).ok()?;
        let is_whole = len != 0 && len % PAGE == 0;
        (is_whole && addr.checked_add(len).is_some()).then_some(Target { addr, len })
    }
}
