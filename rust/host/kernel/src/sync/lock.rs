// SPDX-License-Identifier: GPL-2.0-only

//! Locks: as of the kernel, on the functions of `bindings`.
//!
//! * [`mutex`], [`spinlock`]: the kernel's own backends.
//! * [`global`]: locks that are statics, which each host has for itself.

use super::LockClassKey;
use crate::{
    str::{
        CStr,
        CStrExt as _, //
    },
    types::{
        NotThreadSafe,
        Opaque,
        ScopeGuard, //
    }, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomPinned,
    ops::{
        Deref,
        DerefMut, //
    },
    pin::Pin, //
};
use pin_init::{
    pin_data,
    pin_init,
    PinInit,
    Wrapper, //
};

pub mod global;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod mutex;
pub mod spinlock;

pub use global::{
    GlobalGuard,
    GlobalLock,
    GlobalLockBackend, //
};

/// As of the kernel.
///
/// # Safety
///
/// One context owns the lock between `lock` and `unlock`.
pub unsafe trait Backend {
    /// What the lock consists of.
    type State;
    /// What unlocking needs to know.
    type GuardState;

    /// # Safety
    ///
    /// The pointer is valid for writes, name and class live as long as the lock.
    unsafe fn init(
        ptr: *mut Self::State,
        name: *const crate::ffi::c_char,
        key: *mut bindings::lock_class_key,
    );

    /// # Safety
    ///
    /// The lock is initialised.
    #[must_use]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState;

    /// # Safety
    ///
    /// The lock is initialised.
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState>;

    /// # Safety
    ///
    /// The caller owns the lock.
    unsafe fn unlock(ptr: *mut Self::State, guard_state: &Self::GuardState);

    /// # Safety
    ///
    /// The state is of an earlier lock.
    unsafe fn relock(ptr: *mut Self::State, guard_state: &mut Self::GuardState) {
        // SAFETY: As the caller promises.
        *guard_state = unsafe { Self::lock(ptr) };
    }

    /// # Safety
    ///
    /// The lock is initialised.
    unsafe fn assert_is_held(ptr: *mut Self::State);
}

/// Data that one context has at a time.
#[repr(C)]
#[pin_data]
pub struct Lock<T: ?Sized, B: Backend> {
    #[pin]
    state: Opaque<B::State>,
    #[pin]
    _pin: PhantomPinned,
    #[pin]
    data: UnsafeCell<T>,
}

// SAFETY: One context has the data at a time.
unsafe impl<T: ?Sized + Send, B: Backend> Send for Lock<T, B> {}
// SAFETY: As above.
unsafe impl<T: ?Sized + Send, B: Backend> Sync for Lock<T, B> {}

impl<T, B: Backend> Lock<T, B> {
    /// A lock around what `t` makes.
    pub fn new(
        t: impl PinInit<T>,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            data <- UnsafeCell::pin_init(t),
            _pin: PhantomPinned,
            // SAFETY: The slot is valid for writes, and the rest static.
            state <- Opaque::ffi_init(|slot| unsafe {
                B::init(slot, name.as_char_ptr(), key.as_ptr())
            }),
        })
    }
}

impl<T: ?Sized, B: Backend> Lock<T, B> {
    /// Lock, and have the data.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T, B> {
        // SAFETY: Initialised by `new`.
        let state = unsafe { B::lock(self.state.get()) };
        // SAFETY: Just locked.
        unsafe { Guard::new(self, state) }
    }

    /// As [`lock`](Self::lock), unless somebody else has it.
    #[must_use = "if unused, the lock will be immediately unlocked"]
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T, B>> {
        // SAFETY: Initialised by `new`; the guard is made of a lock that was taken.
        unsafe { B::try_lock(self.state.get()).map(|state| Guard::new(self, state)) }
    }
}

/// The data of a lock; unlocks when it is dropped.
///
/// # Invariants
///
/// The context that has it owns the lock.
#[must_use = "the lock unlocks immediately when the guard is unused"]
pub struct Guard<'a, T: ?Sized, B: Backend> {
    lock: &'a Lock<T, B>,
    state: B::GuardState,
    _not_send: NotThreadSafe,
}

// SAFETY: Lends the data alone.
unsafe impl<T: Sync + ?Sized, B: Backend> Sync for Guard<'_, T, B> {}

impl<'a, T: ?Sized, B: Backend> Guard<'a, T, B> {
    /// # Safety
    ///
    /// The caller owns the lock.
    #[inline]
    pub unsafe fn new(lock: &'a Lock<T, B>, state: B::GuardState) -> Self {
        // SAFETY: Initialised by `new`.
        unsafe { B::assert_is_held(lock.state.get()) };
        // INVARIANT: As the caller promises.
        Self {
            lock,
            state,
            _not_send: NotThreadSafe,
        }
    }

    /// The lock.
    pub fn lock_ref(&self) -> &'a Lock<T, B> {
        self.lock
    }

    /// Run `cb` without the lock.
    pub(crate) fn do_unlocked<U>(&mut self, cb: impl FnOnce() -> U) -> U {
        // SAFETY: Owned by the type invariants, and again before this returns.
        unsafe { B::unlock(self.lock.state.get(), &self.state) };
        let _relock = ScopeGuard::new(|| {
            // SAFETY: Just unlocked.
            unsafe { B::relock(self.lock.state.get(), &mut self.state) }
        });
        cb()
    }

    /// The data, where it is pinned.
    pub fn as_mut(&mut self) -> Pin<&mut T> {
        // SAFETY: Owned by the type invariants; pinned as the lock is.
        unsafe { Pin::new_unchecked(&mut *self.lock.data.get()) }
    }
}

impl<T: ?Sized, B: Backend> Deref for Guard<'_, T, B> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &Self::Target {
        // SAFETY: Owned by the type invariants.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized + Unpin, B: Backend> DerefMut for Guard<'_, T, B> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: Owned by the type invariants.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized, B: Backend> Drop for Guard<'_, T, B> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Owned by the type invariants.
        unsafe { B::unlock(self.lock.state.get(), &self.state) };
    }
}
