// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's device memory controller: how much of a device's memory the processes of a control
//! group may have.
//!
//! Such memory is there already when a process asks for a part of it, so that `memory.max` does not
//! count it. A kernel without the controller (`CONFIG_CGROUP_DMEM`) has no regions, and limits
//! nothing.
//!
//! C header: [`include/linux/cgroup_dmem.h`](srctree/include/linux/cgroup_dmem.h)

use crate::error;
use kernel::{
    error::to_result,
    prelude::*,
    str::CString,
    sync::Arc, //
};

/// Memory that groups are charged for, until it is dropped. Charges may last longer.
///
/// # Invariants
///
/// The pointer is null, or to a region that this has registered.
pub struct Region(*mut c_void);

// SAFETY: A region is not tied to a thread.
unsafe impl Send for Region {}
// SAFETY: All that is done with a shared one is to charge groups for it, for which the kernel has locks.
unsafe impl Sync for Region {}

impl Region {
    /// So many bytes of memory, by the name under which `dmem.max` and the other files have it, which
    /// has no spaces. Nothing is charged for no bytes. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &CString, len: u64) -> Result<Self> {
        let mut region = core::ptr::null_mut();
        // SAFETY: The name is copied, and the result written to what is there.
        to_result(unsafe {
            mp_bindings::dmem_region_register(len, name.as_char_ptr(), &mut region)
        })?;
        // INVARIANT: Just registered, if there is any.
        Ok(Self(region))
    }

    /// Charge the group of the calling process for so many bytes. Process context; sleeps.
    ///
    /// # Errors
    ///
    /// `EDQUOT` if the group may not have so many, `ENOMEM`.
    pub fn charge(&self, len: u64) -> Result<Charge> {
        if self.0.is_null() {
            return Ok(Charge::NONE);
        }
        let mut pool = core::ptr::null_mut();
        // SAFETY: By the invariants; the result is written to what is there.
        let charged = to_result(unsafe { mp_bindings::dmem_charge(self.0, len, &mut pool) });
        match charged {
            // INVARIANT: Just charged.
            Ok(()) => {
                let held = Arc::new(Charged { pool, len }, GFP_KERNEL)?;
                Ok(Charge { _held: Some(held) })
            }
            Err(e) if e == EAGAIN => Err(error::quota()),
            Err(e) => Err(e),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: By the invariants, and nobody can charge a group for it any more.
        unsafe { mp_bindings::dmem_region_unregister(self.0) };
    }
}

/// What a group is charged for, until the last copy of this is dropped: in any context.
#[derive(Clone)]
pub struct Charge {
    _held: Option<Arc<Charged>>,
}

impl Charge {
    /// None.
    pub const NONE: Self = Self { _held: None };
}

/// # Invariants
///
/// `pool` was charged with `len` bytes and keeps that charge.
struct Charged {
    pool: *mut c_void,
    len: u64,
}

// SAFETY: A charge is not tied to a thread.
unsafe impl Send for Charged {}
// SAFETY: Nothing is done with a shared one.
unsafe impl Sync for Charged {}

impl Drop for Charged {
    fn drop(&mut self) {
        // SAFETY: By the invariants; the pool is there as long as it is charged, also without its region.
        unsafe { mp_bindings::dmem_uncharge(self.pool, self.len) };
    }
}
