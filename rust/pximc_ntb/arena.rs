// SPDX-License-Identifier: GPL-2.0-only

//! The arenas at both ends of a link as memory for other services
//! ([`mp_transport::memory`]), with what [`further`] windows lead to.
//!
//! The arena of this host lives with the inbound memory, over all epochs; that of the
//! peer is reached through the window for as long as an epoch lasts. Neither touches
//! what lies before the arena: the status page and the rings.

use crate::{
    device::Shared,
    dma::{
        Engine,
        INBOUND, //
    },
    further::{
        self,
        Lead,
        Windows, //
    },
    memory::{
        LocalMemory,
        RemoteMemory, //
    }, //
};
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use mp_proto::{
    layout::Layout,
    link::Hello, //
};
use mp_transport::{
    copy::Completion,
    local::Piece,
    memory::{
        self,
        Cache,
        Commons,
        Further,
        LeadWindows,
        LocalBytes,
        Memory,
        PageFrame,
        Pool,
        RemoteBytes, //
    }, //
};

/// Where a byte of an arena is in the memory that begins `start` bytes before it.
///
/// # Errors
///
/// `EINVAL` beyond all memory.
fn place(start: u64, off: u64) -> Result<usize> {
    Ok(usize::try_from(start.checked_add(off).ok_or(EINVAL)?)?)
}

/// The arena that the peer reaches.
struct Near {
    memory: LocalMemory,
    start: u64,
}

impl Near {
    fn place(&self, off: u64) -> Result<usize> {
        place(self.start, off)
    }
}

impl LocalBytes for Near {
    fn page(&self, off: u64) -> Result<PageFrame> {
        let buffer = &self.memory.0;
        let at = self.place(off)?;
        if at >= buffer.len() {
            return Err(EINVAL);
        }
        PageFrame::at(buffer.phys_address() + at as u64, Cache::Cached)
    }

    fn address(&self, off: u64) -> Option<*mut u8> {
        let at = self.place(off).ok()?;
        let buffer = &self.memory.0;
        (at < buffer.len()).then(|| buffer.as_ptr().wrapping_add(at))
    }

    fn load_u64(&self, off: u64) -> Result<u64> {
        self.memory.0.read_u64(self.place(off)?)
    }

    fn store_u64(&self, off: u64, val: u64) -> Result {
        self.memory.0.write_u64(self.place(off)?, val)
    }

    fn exchange_u64(&self, off: u64, expected: u64, desired: u64) -> Result<bool> {
        let place = self.place(off)?;
        self.memory.0.exchange_u64(place, expected, desired)
    }

    fn read(&self, off: u64, dst: &mut [u8]) -> Result {
        self.memory.0.copy_to_slice(self.place(off)?, dst)
    }

    fn write(&self, off: u64, src: &[u8]) -> Result {
        self.memory.0.copy_from_slice(self.place(off)?, src)
    }

    fn zero(&self, off: u64, len: u64) -> Result {
        self.memory.0.zero(self.place(off)?, usize::try_from(len)?)
    }
}

/// The peer's arena.
struct Far {
    memory: RemoteMemory,
    start: u64,
    engine: Arc<Engine>,
}

impl Far {
    fn place(&self, off: u64) -> Result<usize> {
        place(self.start, off)
    }

    /// Where a byte of the window is that begins at `window`.
    fn address(&self, window: u64, off: u64) -> Result<u64> {
        let at = self.place(off)?;
        if at >= self.memory.0.len() {
            return Err(EINVAL);
        }
        window.checked_add(at as u64).ok_or(EINVAL)
    }
}

impl RemoteBytes for Far {
    fn page(&self, off: u64) -> Result<PageFrame> {
        let phys = self.address(self.memory.0.phys_addr(), off)?;
        PageFrame::at(phys, Cache::WriteCombining)
    }

    fn bus_address(&self, off: u64) -> Result<u64> {
        self.address(self.memory.0.bus_addr(), off)
    }

    fn store_u64(&self, off: u64, val: u64) -> Result {
        self.memory.0.write_u64(self.place(off)?, val)
    }

    fn write(&self, off: u64, src: &[u8]) -> Result {
        self.memory.0.copy_from(self.place(off)?, src.into())
    }

    unsafe fn copy(&self, off: u64, pieces: &[Piece], done: Completion) -> Result {
        let start = self.start.checked_add(off).ok_or(EINVAL)?;
        // SAFETY: As the caller promises.
        unsafe { self.engine.copy_much(INBOUND, start, pieces, done) }
    }

    fn flush(&self) {
        self.memory.0.flush();
    }
}

/// The memory of this host for one peer: the arena, and what further windows lead to.
/// Dropping it takes it away from everybody on this host, and sleeps; the inbound memory
/// goes after that, and the windows before.
pub(crate) struct Arena {
    pool: Arc<Pool>,
    near: LocalMemory,
    /// `None` if there are no windows to be led elsewhere.
    lead: Option<Arc<Lead>>,
}

impl Arena {
    /// The arena that `layout` has in `memory`, and the further windows of peer `pidx`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        memory: &LocalMemory,
        layout: &Layout,
        windows: &Windows,
        shared: &Arc<Shared>,
        pidx: u32,
    ) -> Result<Self> {
        let near = Near {
            memory: memory.clone(),
            start: layout.arena_off,
        };
        let lead = windows.lead(shared, pidx)?;
        let further = Further {
            commons: windows.commons(),
            windows: lead.clone().map(|lead| lead as Arc<dyn LeadWindows>),
            is_lasting: false,
        };
        let name = match shared.ntb().pci_function() {
            Some(function) => CString::try_from_fmt(format_args!("{function}/{pidx}"))?,
            None => CString::try_from_fmt(format_args!("ntb{}/{pidx}", shared.bridge()))?,
        };
        let near = Arc::new(near, GFP_KERNEL)?;
        let pool = Pool::new((&name, layout.arena_len), near, further)?;
        Commons::get()?.join(&pool)?;
        Ok(Self {
            pool,
            near: memory.clone(),
            lead,
        })
    }

    /// Begin an epoch, in which the peer's inbound memory is behind `window` and has the
    /// layout of its Hello, which has been checked, and its `commons` behind another one;
    /// `engine` copies there.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(never)]
    pub(crate) fn begin(
        &self,
        shared: &Arc<Shared>,
        pidx: u32,
        window: &RemoteMemory,
        commons: Option<(RemoteMemory, u64)>,
        engine: &Arc<Engine>,
        peer: &Hello,
    ) -> Result<Arc<Memory>> {
        let far = Far {
            memory: window.clone(),
            start: peer.layout.arena_off,
            engine: engine.clone(),
        };
        let commons = commons.map(|commons| further::reached(commons, engine));
        let far = memory::Far {
            arena: (Some(Arc::new(far, GFP_KERNEL)?), peer.layout.arena_len),
            commons: commons.transpose()?,
            windows: further::see(shared, pidx, &peer.further, &self.near)?,
        };
        if let Some(lead) = &self.lead {
            lead.begin(window);
        }
        Memory::begin(self.pool.clone(), far)
    }

    /// The peer's inbound memory goes; the epoch has ended.
    pub(crate) fn end(&self) {
        if let Some(lead) = &self.lead {
            lead.end();
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.pool.close();
    }
}
