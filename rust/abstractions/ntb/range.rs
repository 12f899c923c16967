// SPDX-License-Identifier: GPL-2.0-only

//! Physical memory that a window leads to, and that was not allocated for it.

use super::NtbDev;
use crate::{
    contiguous::ContiguousPages,
    dma_buf::{
        Attached,
        Part, //
    },
    iomem::DeviceRange,
    user_pages::UserPages, //
};
use core::ptr::NonNull;
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};
use mp_bindings as bindings;

/// How a range was mapped.
enum Mapping {
    /// By the physical address of these pages, which go after the mapping.
    Run { _pages: Arc<ContiguousPages> },
    /// By its physical address, as memory of a device, which is claimed until it is unmapped.
    Device { _range: DeviceRange },
    /// By this table of its pages.
    Pages {
        table: NonNull<c_void>,
        /// Go after the mapping.
        _pages: Arc<UserPages>,
    },
    /// By whoever has exported it.
    Part { _attached: Arc<Attached> },
}

/// A range of physical addresses, or pages that are one for the bridge, as the bridge
/// reaches them: mapped where something translates between them.
///
/// [`expose`](Self::expose) lets a peer write it; the translation is taken away again
/// before the mapping is.
///
/// # Invariants
///
/// `dma` is the mapping of `len` bytes, made as `mapping` says.
pub struct MappedRange {
    dma: u64,
    len: usize,
    mapping: Mapping,
    exposed: Option<(u32, u32)>,
    dev: ARef<NtbDev>,
}

// SAFETY: A table may be used, and freed, by whoever has it.
unsafe impl Send for MappedRange {}
// SAFETY: It does not change.
unsafe impl Sync for MappedRange {}

impl MappedRange {
    /// Map pages in one run, all of them, which stay as long as this does. Sleeps.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the bridge cannot reach them.
    pub fn of_run(dev: &NtbDev, pages: &Arc<ContiguousPages>) -> Result<Self> {
        let mapping = Mapping::Run {
            _pages: pages.clone(),
        };
        // SAFETY: The mapping keeps the pages, which the kernel itself only copies.
        unsafe { Self::new(dev, pages.phys_address(), pages.len(), mapping) }
    }

    /// Map memory of a device, from the start of the range `len` bytes: at most the whole
    /// pages that it is on. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more bytes, or a range that does not start with a page, `EOPNOTSUPP` if the bridge cannot reach them.
    pub fn of_device(dev: &NtbDev, range: &DeviceRange, len: u64) -> Result<Self> {
        let page = PAGE_SIZE as u64;
        let whole = range.len().checked_next_multiple_of(page);
        if range.phys() % page != 0 || whole.is_none_or(|whole| len > whole) {
            return Err(EINVAL);
        }
        let mapping = Mapping::Device {
            _range: range.clone(),
        };
        // SAFETY: By its invariants the range is no memory of the kernel's, and who named it
        // answers for what peers do there.
        unsafe { Self::new(dev, range.phys(), usize::try_from(len)?, mapping) }
    }

    /// Map `len` bytes at `phys`, as `mapping` says.
    ///
    /// # Safety
    ///
    /// Peers may write there, in any way, as long as the mapping is there.
    unsafe fn new(dev: &NtbDev, phys: u64, len: usize, mapping: Mapping) -> Result<Self> {
        let is_device = matches!(mapping, Mapping::Device { .. });
        // SAFETY: The DMA device is valid while the NTB device is; as the caller promises.
        let dma = unsafe { bindings::ntb_map_range(dev.dma_dev_raw(), phys, len, is_device) };
        if dma == u64::MAX {
            return Err(crate::error::unsupported());
        }
        // INVARIANT: Just mapped.
        Ok(Self {
            dma,
            len,
            mapping,
            exposed: None,
            dev: dev.into(),
        })
    }

    /// Map pages of a process in one run, all of them. Sleeps.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if they are not in one run and nothing makes them one, or the bridge
    /// cannot reach them; `EINVAL` unless the pages may be written.
    pub fn of_pages(dev: &NtbDev, pages: &Arc<UserPages>) -> Result<Self> {
        let list = pages.writable().ok_or(EINVAL)?;
        let count = u32::try_from(list.len())?;
        let mut dma = 0;
        // SAFETY: The DMA device is valid while the NTB device is; the pages stay while this
        // does, and the list is only read.
        let table = unsafe {
            bindings::ntb_map_pages(dev.dma_dev_raw(), list.as_ptr().cast_mut(), count, &mut dma)
        };
        let table = NonNull::new(table).ok_or_else(crate::error::unsupported)?;
        // INVARIANT: Just mapped.
        Ok(Self {
            dma,
            len: list.len() * PAGE_SIZE,
            mapping: Mapping::Pages {
                table,
                _pages: pages.clone(),
            },
            exposed: None,
            dev: dev.into(),
        })
    }

    /// Let the bridge reach a part of a dma-buf, for [`of_attached`](Self::of_attached). Sleeps, maybe
    /// for long. To be dropped before the device goes.
    ///
    /// # Errors
    ///
    /// Those of [`Attached::new`].
    pub fn attach(dev: &NtbDev, part: &Arc<Part>) -> Result<Arc<Attached>> {
        // SAFETY: The DMA device is valid while the NTB device is.
        let attached = unsafe { Attached::new(part, dev.dma_dev_raw())? };
        Ok(Arc::new(attached, GFP_KERNEL)?)
    }

    /// A part of a dma-buf that the bridge reaches.
    ///
    /// # Errors
    ///
    /// `EINVAL` if another bridge does.
    pub fn of_attached(dev: &NtbDev, attached: &Arc<Attached>) -> Result<Self> {
        // INVARIANT: Mapped by who has exported it.
        Ok(Self {
            dma: attached.dma_address(dev.dma_dev_raw())?,
            len: usize::try_from(attached.len())?,
            mapping: Mapping::Part {
                _attached: attached.clone(),
            },
            exposed: None,
            dev: dev.into(),
        })
    }

    /// Address for the device, which is what a peer's bridge needs to know.
    pub fn dma_address(&self) -> u64 {
        self.dma
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Let peer `pidx` write `size` bytes, at most all, through its window `widx`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is exposed already, `EINVAL` for more bytes, or what the device's
    /// driver reports.
    pub fn expose(&mut self, pidx: u32, widx: u32, size: u64) -> Result {
        if self.exposed.is_some() {
            return Err(EBUSY);
        }
        if size > self.len as u64 {
            return Err(EINVAL);
        }
        self.dev.mw_set_trans(pidx, widx, self.dma, size)?;
        self.exposed = Some((pidx, widx));
        Ok(())
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        if let Some((pidx, widx)) = self.exposed.take() {
            self.dev.mw_clear_trans(pidx, widx);
        }
        let dev = self.dev.dma_dev_raw();
        match &self.mapping {
            Mapping::Run { .. } | Mapping::Device { .. } => {
                let is_device = matches!(self.mapping, Mapping::Device { .. });
                // SAFETY: The mapping that the invariants describe; no translation leads to it.
                unsafe { bindings::ntb_unmap_range(dev, self.dma, self.len, is_device) };
            }
            // SAFETY: As above. The pages go after that.
            Mapping::Pages { table, .. } => unsafe {
                bindings::ntb_unmap_pages(dev, table.as_ptr());
            },
            // What was attached goes with the last one who has it.
            Mapping::Part { .. } => {}
        }
    }
}
