// SPDX-License-Identifier: GPL-2.0-only

//! Spin locks. Those that disable interrupts need more of the kernel than is here.
//!
//! From the kernel's `rust/kernel/sync/lock/spinlock.rs`, the first half of it.

// The kernel's `lock.rs`, of which this is a module, is compiled without warnings.
#![warn(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]

use super::{
    Backend,
    Guard,
    Lock, //
};

/// A lock that is spun for.
#[macro_export]
macro_rules! new_spinlock {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLock::new(
            $inner, $crate::optional_name!($($name)?), $crate::static_lock_class!())
    };
}
pub use new_spinlock;

/// A lock that is spun for.
pub type SpinLock<T> = Lock<T, SpinLockBackend>;

/// A [`Guard`] of a [`SpinLock`].
pub type SpinLockGuard<'a, T> = Guard<'a, T, SpinLockBackend>;

/// `spin_lock()` and its like.
pub struct SpinLockBackend;

// SAFETY: One context owns a lock of `bindings` at a time.
unsafe impl Backend for SpinLockBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    unsafe fn init(
        ptr: *mut Self::State,
        name: *const crate::ffi::c_char,
        key: *mut bindings::lock_class_key,
    ) {
        // SAFETY: As the caller promises.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: As the caller promises.
        unsafe { bindings::spin_lock(ptr) }
    }

    unsafe fn unlock(ptr: *mut Self::State, _guard_state: &Self::GuardState) {
        // SAFETY: As the caller promises.
        unsafe { bindings::spin_unlock(ptr) }
    }

    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: As the caller promises.
        (unsafe { bindings::spin_trylock(ptr) } != 0).then_some(())
    }

    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: As the caller promises.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}
