// SPDX-License-Identifier: GPL-2.0-only

//! The peer's memory behind the bridge.

use super::{
    access::Region,
    device::AddressRange,
    posted::Posted,
    NtbDev, //
};
use crate::{
    barrier,
    bytes::SharedBytes, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};
use mp_bindings as bindings;

/// An outbound memory window, mapped write-combining; dropping it unmaps it.
///
/// It is only written: a read across the bridge is slow and yields all ones, or
/// worse, when the link is down. Writes to a peer that has gone are lost without
/// notice. Offsets and lengths are in bytes.
///
/// # Invariants
///
/// `map` is the whole of what `ntb_map_window()` has mapped.
pub struct PeerWindow {
    map: Region,
    /// What words take their time in, for tests.
    posted: Option<Arc<Posted>>,
    phys: u64,
    dev: ARef<NtbDev>,
}

impl PeerWindow {
    /// Map outbound window `widx`.
    pub(super) fn map(dev: &NtbDev, widx: u32) -> Result<Self> {
        let AddressRange { addr, size } = dev.peer_mw_addr(widx)?;
        let len = usize::try_from(size)?;
        if len == 0 {
            return Err(ENODEV);
        }
        // SAFETY: The range is device memory, as the device's driver says.
        let base = unsafe { bindings::ntb_map_window(addr, len) };
        if base.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Just mapped; a mapping starts on a page if the window does.
        Ok(Self {
            // SAFETY: Mapped until the drop; `Region` is volatile throughout.
            map: unsafe { Region::new(base.cast(), len) },
            posted: Posted::get(),
            phys: addr,
            dev: dev.into(),
        })
    }

    /// Length of the window.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Physical address of the window on this host, for a DMA engine or a user
    /// mapping.
    #[inline]
    pub fn phys_addr(&self) -> u64 {
        self.phys
    }

    /// Address of the window on this host's PCI bus.
    pub fn bus_addr(&self) -> u64 {
        // SAFETY: The device is valid; the function only looks at its bus.
        unsafe { bindings::ntb_window_bus(self.dev.as_raw(), self.phys, self.len()) }
    }

    /// Address of the mapping. It is for comparing: memory of a peer is written by the
    /// methods here.
    pub fn virt_addr(&self) -> usize {
        self.map.base() as usize
    }

    /// Copy all of `src` to `off`, in any order and any pieces.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that does not fit; nothing is written then.
    #[inline]
    pub fn copy_from(&self, off: usize, src: SharedBytes<'_>) -> Result {
        self.map.write(off, src)
    }

    /// Store a word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `off` is unaligned or outside.
    #[inline]
    pub fn write_u64(&self, off: usize, val: u64) -> Result {
        match &self.posted {
            None => self.map.write_u64(off, val),
            Some(posted) => {
                let at = self.map.word(off)?;
                // SAFETY: In the mapping, as `word` has checked; flushed before it is unmapped.
                unsafe { posted.store(at, val) };
                Ok(())
            }
        }
    }

    /// Store a word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `off` is unaligned or outside.
    #[inline]
    pub fn write_u32(&self, off: usize, val: u32) -> Result {
        self.map.write_u32(off, val)
    }

    /// Push all stores before it out, ahead of all stores after it.
    #[inline]
    pub fn flush(&self) {
        barrier::wmb();
    }
}

impl Drop for PeerWindow {
    fn drop(&mut self) {
        if let Some(posted) = &self.posted {
            posted.flush();
        }
        // SAFETY: Mapped by `ntb_map_window()`, and nobody else can reach it any more.
        unsafe { bindings::ntb_unmap_window(self.map.base().cast()) };
    }
}
