// SPDX-License-Identifier: GPL-2.0-only

//! Counters in user space that the kernel adds to.
//!
//! C header: [`include/linux/eventfd.h`](srctree/include/linux/eventfd.h)

use core::ptr::NonNull;

use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// A program's eventfd.
///
/// # Invariants
///
/// `ctx` is an eventfd context, and this handle owns a reference to it.
pub struct EventFd {
    ctx: NonNull<c_void>,
}

// SAFETY: A context is counted and has a lock of its own.
unsafe impl Send for EventFd {}
// SAFETY: As above.
unsafe impl Sync for EventFd {}

impl EventFd {
    /// The eventfd behind a file descriptor of the calling process. Process context.
    ///
    /// # Errors
    ///
    /// `EBADF` if the descriptor is not open, `EINVAL` if it is no eventfd, `ENOSYS` if
    /// the kernel has none.
    pub fn from_fd(fd: i32) -> Result<Self> {
        // SAFETY: Any number will do.
        let ctx = from_err_ptr(unsafe { mp_bindings::eventfd_get(fd) })?;
        // INVARIANT: A reference that is ours.
        Ok(Self {
            ctx: NonNull::new(ctx).ok_or(EINVAL)?,
        })
    }

    /// Add one to the counter and wake those who wait for it. Any context, but not
    /// from a callback of another eventfd's wait queue.
    #[inline]
    pub fn signal(&self) {
        // SAFETY: By the invariants.
        unsafe { mp_bindings::eventfd_signal(self.ctx.as_ptr()) };
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        // SAFETY: By the invariants; any context.
        unsafe { mp_bindings::eventfd_put(self.ctx.as_ptr()) };
    }
}
