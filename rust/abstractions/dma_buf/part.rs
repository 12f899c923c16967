// SPDX-License-Identifier: GPL-2.0-only

//! Memory that another driver has exported.
//!
//! A [`Part`] is some bytes of a dma-buf. A device reaches them by an [`Attached`], for which the
//! driver may have to wait until the memory is where the device reaches it: nobody else waits for
//! what is locked meanwhile. The driver keeps the memory there as long as the device is attached.

use core::ptr::NonNull;

use kernel::{
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};
use mp_bindings as bindings;

/// Some bytes of a dma-buf, whole pages. Dropping it sleeps.
///
/// # Invariants
///
/// `buffer` is a dma-buf, to which this has a reference, and which has `len` bytes at `off`.
pub struct Part {
    buffer: NonNull<c_void>,
    off: u64,
    len: u64,
}

// SAFETY: A reference to a dma-buf is not tied to a thread.
unsafe impl Send for Part {}
// SAFETY: As above.
unsafe impl Sync for Part {}

impl Part {
    /// Bytes of the dma-buf of which the calling process has the descriptor `fd`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if this kernel has none, `EBADF` for no descriptor, `EINVAL` if it is of
    /// something else, or for no bytes or no whole pages, `EACCES` if it is only to be read, `ERANGE`
    /// if it has less.
    pub fn of_descriptor(fd: i32, off: u64, len: u64) -> Result<Self> {
        let page = PAGE_SIZE as u64;
        if len == 0 || off % page != 0 || len % page != 0 {
            return Err(EINVAL);
        }
        // SAFETY: Always safe, in process context.
        let buffer = from_err_ptr(unsafe { bindings::dmabuf_get(fd) })?;
        // INVARIANT: A reference that is ours, and dropped from here on; nobody sees it before it is
        // known to have the bytes.
        let this = Self {
            buffer: NonNull::new(buffer).ok_or(EINVAL)?,
            off,
            len,
        };
        // SAFETY: By the invariants a dma-buf.
        let (may_be_written, size) = unsafe {
            let buffer = this.buffer.as_ptr();
            (
                bindings::dmabuf_may_be_written(buffer),
                bindings::dmabuf_size(buffer) as u64,
            )
        };
        if !may_be_written {
            return Err(EACCES);
        }
        match off.checked_add(len) {
            Some(end) if end <= size => Ok(this),
            _ => Err(ERANGE),
        }
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { bindings::dmabuf_put(self.buffer.as_ptr()) };
    }
}

/// A part as a device reaches it. Dropping it sleeps; to be dropped before the device goes.
///
/// # Invariants
///
/// `attachment` was made by `dmabuf_map` for `dev`: the bytes of the part are at `start` for it.
pub struct Attached {
    attachment: NonNull<c_void>,
    /// It has a reference to that.
    dev: *mut bindings::device,
    start: u64,
    /// Goes after the attachment.
    part: Arc<Part>,
}

// SAFETY: An attachment is not tied to a thread.
unsafe impl Send for Attached {}
// SAFETY: It does not change.
unsafe impl Sync for Attached {}

impl Attached {
    /// Let a device reach a part. Sleeps, as long as the driver that has exported it takes; a signal
    /// may end that.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is not in one run for the device, or not where that reaches it; those of the
    /// driver, of which `EINTR` and `ENOMEM` are as elsewhere.
    ///
    /// # Safety
    ///
    /// `dev` is a device that does DMA.
    pub(crate) unsafe fn new(part: &Arc<Part>, dev: *mut bindings::device) -> Result<Self> {
        let mut start = 0;
        // SAFETY: As the caller promises; by its invariants the part keeps a dma-buf.
        let made = from_err_ptr(unsafe {
            bindings::dmabuf_map(part.buffer.as_ptr(), dev, part.off, part.len, &mut start)
        });
        let attachment = made.map_err(|e| match e {
            e if e == ENOMEM || e == EINTR || e == ERESTARTSYS => e,
            _ => crate::error::unsupported(),
        })?;
        // INVARIANT: Just made.
        Ok(Self {
            attachment: NonNull::new(attachment).ok_or(ENOMEM)?,
            dev,
            start,
            part: part.clone(),
        })
    }

    /// Where that device reaches it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not the one that is attached.
    pub(crate) fn dma_address(&self, dev: *mut bindings::device) -> Result<u64> {
        match core::ptr::eq(self.dev, dev) {
            true => Ok(self.start),
            false => Err(EINVAL),
        }
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.part.len()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { bindings::dmabuf_unmap(self.attachment.as_ptr()) };
    }
}
