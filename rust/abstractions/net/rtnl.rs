// SPDX-License-Identifier: GPL-2.0-only

//! RTNL: the mutex over the configuration of all network interfaces.
//!
//! Functions that need it ask for a reference to [`Rtnl`], which either comes
//! from [`lock`] or is handed to a callback that runs under it.
//!
//! C header: [`include/linux/rtnetlink.h`](srctree/include/linux/rtnetlink.h)

use core::{
    marker::PhantomData,
    ops::Deref, //
};

/// Proof that the current task holds RTNL.
///
/// # Invariants
///
/// RTNL is held by the current task for as long as a reference to this lives.
pub struct Rtnl {
    _not_send: PhantomData<*mut ()>,
}

impl Rtnl {
    /// The proof, in a callback.
    ///
    /// # Safety
    ///
    /// The current task must hold RTNL for all of `'a`.
    #[inline]
    pub(super) unsafe fn assume_held<'a>() -> &'a Self {
        // INVARIANT: By the safety requirements.
        &Self {
            _not_send: PhantomData,
        }
    }
}

/// RTNL, until dropped.
#[must_use = "RTNL is released when the guard is dropped"]
pub struct Guard {
    rtnl: Rtnl,
}

/// Take RTNL. Sleeps; must not be called while holding it, as most
/// callbacks of a network device do.
pub fn lock() -> Guard {
    // SAFETY: Always safe in a context that may sleep; the guard unlocks.
    unsafe { mp_bindings::rtnl_lock() };
    // INVARIANT: RTNL is held until the guard, and so the proof in it, is dropped.
    Guard {
        rtnl: Rtnl {
            _not_send: PhantomData,
        },
    }
}

impl Deref for Guard {
    type Target = Rtnl;

    #[inline]
    fn deref(&self) -> &Rtnl {
        &self.rtnl
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: The guard holds RTNL, and is not `Send`.
        unsafe { mp_bindings::rtnl_unlock() };
    }
}
