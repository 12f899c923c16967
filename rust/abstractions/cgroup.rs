// SPDX-License-Identifier: GPL-2.0-only

//! Control groups, which are charged for memory that the kernel has for their processes.
//!
//! What a process asks for in its own calls is allocated with `GFP_KERNEL_ACCOUNT`, or with
//! [`atomic_account`], and needs no more. A [`MemoryGroup`] is for what comes to a process without
//! its doing. What is allocated under a lock that others take is not charged: a process whose group
//! is at its limit sleeps in the allocation, and they would wait for it.
//!
//! C header: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h)

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc,
    types::NotThreadSafe, //
};

/// As `GFP_ATOMIC`, and charged. The charge does not fail: it may go beyond the group's limit. Then
/// what its processes ask for next finds none, and one of them may be ended.
pub fn atomic_account() -> Flags {
    GFP_ATOMIC | (GFP_KERNEL_ACCOUNT & !GFP_KERNEL)
}

/// The group that is charged for the memory of a process.
///
/// # Invariants
///
/// The pointer is null, or to a group that does not go while this is there.
pub struct MemoryGroup(*mut c_void);

// SAFETY: A group is not tied to a thread.
unsafe impl Send for MemoryGroup {}
// SAFETY: All that is done with a shared one is to charge it.
unsafe impl Sync for MemoryGroup {}

impl MemoryGroup {
    /// That of the calling process. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn current() -> Result<Arc<Self>> {
        // INVARIANT: The reference that this takes is given up when it is dropped.
        // SAFETY: Always safe, in process context.
        let this = Self(unsafe { mp_bindings::memory_group_get() });
        Ok(Arc::new(this, GFP_KERNEL_ACCOUNT)?)
    }

    /// Call `f`, and charge the group for what it allocates with `GFP_KERNEL_ACCOUNT` or
    /// [`atomic_account`]. Process context.
    pub fn charge<R>(&self, f: impl FnOnce() -> R) -> R {
        let _charging = Charging::begin(self);
        f()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { mp_bindings::memory_group_put(self.0) };
    }
}

/// While it is there, a group is charged for what this context allocates.
struct Charging<'a> {
    before: *mut c_void,
    _group: &'a MemoryGroup,
    _context: NotThreadSafe,
}

impl<'a> Charging<'a> {
    fn begin(group: &'a MemoryGroup) -> Self {
        Self {
            // SAFETY: By its invariants the group outlives this, which ends the charges.
            before: unsafe { mp_bindings::memory_group_charge(group.0) },
            _group: group,
            _context: NotThreadSafe,
        }
    }
}

impl Drop for Charging<'_> {
    fn drop(&mut self) {
        // SAFETY: The group that was charged before outlives its own scope, which is around this.
        unsafe { mp_bindings::memory_group_charge(self.before) };
    }
}
