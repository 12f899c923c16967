// SPDX-License-Identifier: GPL-2.0-only

//! Synchronisation: most of it is the kernel's own.
//!
//! * [`lock`]: locks, by the kernel's file; those that are statics ([`lock::global`]) belong to a
//!   host each.
//! * [`set_once`]: values that are set once; the same.

#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
mod arc;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod aref;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod atomic;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
mod condvar;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod lock;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod rcu;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
mod refcount;
pub mod set_once;

pub use arc::{
    Arc,
    ArcBorrow,
    UniqueArc, //
};
pub use condvar::{
    new_condvar,
    CondVar,
    CondVarTimeoutResult, //
};
pub use lock::{
    global::{
        global_lock,
        GlobalGuard,
        GlobalLock,
        GlobalLockBackend, //
    },
    mutex::{
        new_mutex,
        Mutex,
        MutexGuard, //
    },
    spinlock::{
        new_spinlock,
        SpinLock,
        SpinLockGuard, //
    }, //
};
pub use refcount::Refcount;
pub use set_once::SetOnce;

/// As of the kernel.
pub struct LockClassKey(crate::types::Opaque<bindings::lock_class_key>);

// SAFETY: Only its address is used.
unsafe impl Sync for LockClassKey {}

impl LockClassKey {
    /// # Safety
    ///
    /// None here.
    pub const unsafe fn new_static() -> Self {
        Self(crate::types::Opaque::uninit())
    }

    /// As C has it.
    pub fn as_ptr(&self) -> *mut bindings::lock_class_key {
        self.0.get()
    }
}

/// A class of locks for each place where it stands.
#[macro_export]
macro_rules! static_lock_class {
    () => {{
        static CLASS: $crate::sync::LockClassKey =
            // SAFETY: A static.
            unsafe { $crate::sync::LockClassKey::new_static() };
        $crate::prelude::Pin::static_ref(&CLASS)
    }};
}
pub use static_lock_class;

/// The name of a lock, or where it is made.
#[doc(hidden)]
#[macro_export]
macro_rules! optional_name {
    () => {
        $crate::c_str!(::core::concat!(::core::file!(), ":", ::core::line!()))
    };
    ($name:literal) => {
        $crate::c_str!($name)
    };
}
