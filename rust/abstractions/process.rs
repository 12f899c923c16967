// SPDX-License-Identifier: GPL-2.0

//! Who the caller is: processes as owners, users, privileges.
//!
//! Everything here is about the calling task and makes sense in process context, in
//! a callback of a file, only.

use core::ptr::NonNull;

use kernel::{
    bindings,
    mm::Mm,
    prelude::*,
    sync::aref::ARef, //
};

/// A process that owns something: a thread group with its address space.
///
/// Neither is kept alive, but their identities are: no later process is taken for
/// this one.
///
/// # Invariants
///
/// `group` is a `struct pid`, to which this owner has a reference.
pub struct Owner {
    mm: ARef<Mm>,
    group: NonNull<c_void>,
}

// SAFETY: A `struct pid` is counted and does not change.
unsafe impl Send for Owner {}
// SAFETY: As above.
unsafe impl Sync for Owner {}

impl Owner {
    /// The calling process.
    ///
    /// # Errors
    ///
    /// `ESRCH` in a kernel thread, or if the process has given up its address space.
    pub fn current() -> Result<Self> {
        // SAFETY: Always safe; with a reference that is ours.
        let mm = NonNull::new(unsafe { mp_bindings::current_mm_grab() }).ok_or(ESRCH)?;
        // SAFETY: `Mm` is a transparent wrapper, and the reference is given away.
        let mm = unsafe { ARef::from_raw(mm.cast::<Mm>()) };
        // SAFETY: A task always has a thread group.
        let group = unsafe { mp_bindings::thread_group_get() };
        // INVARIANT: A reference that is ours.
        Ok(Self {
            mm,
            group: NonNull::new(group).ok_or(ESRCH)?,
        })
    }

    /// The owner's address space; its memory may be gone.
    pub fn mm(&self) -> &Mm {
        &self.mm
    }

    /// Whether the caller is a thread of the owner, in the address space that it had: not
    /// its child, even if they share memory, and not the program that it became by
    /// `execve()`.
    pub fn is_current(&self) -> bool {
        // SAFETY: The pointer is compared only.
        self.is_closing() && unsafe { mp_bindings::current_mm_is(self.mm.as_raw().cast()) }
    }

    /// Whether the caller is a thread of the owner, as far as closing its files goes:
    /// also if the process ends, and has no address space any more, or has become
    /// another program.
    ///
    /// For [`File::flush`](crate::chardev::File::flush).
    pub fn is_closing(&self) -> bool {
        // SAFETY: By the invariants; the pointer is compared only.
        unsafe { mp_bindings::thread_group_is_current(self.group.as_ptr()) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { mp_bindings::thread_group_put(self.group.as_ptr()) };
    }
}

/// A user, of whatever namespace: for what is limited for each of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UserId(u32);

impl UserId {
    /// The caller's real user, who pays for what its programs use.
    pub fn current() -> Self {
        Self(kernel::current!().uid().into_raw().val)
    }
}

/// Whether the caller may work with physical addresses: `CAP_SYS_RAWIO` in the initial
/// user namespace. Marks the privilege as used.
pub fn may_use_physical_addresses() -> bool {
    // SAFETY: A capability that there is.
    unsafe { bindings::capable(bindings::CAP_SYS_RAWIO as c_int) }
}

/// Whether the calling task is about to end: what it closes now, it does not close
/// by a call.
pub fn is_exiting() -> bool {
    // SAFETY: Always safe.
    unsafe { mp_bindings::current_is_exiting() }
}

/// Whether the call under way is that of a 32-bit program on a 64-bit kernel.
pub fn is_compat() -> bool {
    // SAFETY: Always safe.
    unsafe { mp_bindings::in_compat_syscall() }
}
