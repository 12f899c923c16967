// SPDX-License-Identifier: GPL-2.0-only

//! A value that is set once: as of the kernel, with one for each host if it is a static.
//!
//! From the kernel's `rust/kernel/sync/set_once.rs`: what differs is that the value is looked for
//! on the host that calls.

use super::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};
use core::{
    cell::UnsafeCell,
    mem::MaybeUninit, //
};
use machine::statics::place;

const BEING_SET: u32 = 1;
const SET: u32 = 2;

/// A value that is set once.
///
/// # Invariants
///
/// If `state` is [`SET`], the value is initialised and does not change any more. If it is
/// [`BEING_SET`], one context writes it.
pub struct SetOnce<T> {
    state: Atomic<u32>,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> SetOnce<T> {
    /// One that is not set.
    pub const fn new() -> Self {
        Self {
            state: Atomic::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Where the calling host has the value.
    fn place(&self) -> *mut T {
        place(self.value.get()).cast()
    }

    /// The value, if it has been set.
    pub fn as_ref(&self) -> Option<&T> {
        if self.state.load(Acquire) != SET {
            return None;
        }
        // SAFETY: Initialised by the type invariants.
        Some(unsafe { &*self.place() })
    }

    /// Set it, unless it has been; whether this has.
    pub fn populate(&self, value: T) -> bool {
        // INVARIANT: Nobody else gets here.
        if self.state.cmpxchg(0, BEING_SET, Relaxed).is_err() {
            return false;
        }
        // SAFETY: This context alone writes it by the type invariants.
        unsafe { self.place().write(value) };
        // INVARIANT: Just written.
        self.state.store(SET, Release);
        true
    }

    /// A copy of the value, if it has been set.
    pub fn copy(&self) -> Option<T>
    where
        T: Copy,
    {
        self.as_ref().copied()
    }
}

impl<T> Drop for SetOnce<T> {
    fn drop(&mut self) {
        // What is dropped is no static.
        if *self.state.get_mut() == SET {
            // SAFETY: Initialised by the type invariants.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

// SAFETY: The value goes with it.
unsafe impl<T: Send> Send for SetOnce<T> {}
// SAFETY: The value may be set from another context, and is shared then.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}
