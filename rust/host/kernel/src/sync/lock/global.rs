// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2024 Google LLC.

//! Locks that are statics, with one for each host.
//!
//! From the kernel's `rust/kernel/sync/lock/global.rs`, with other comments, without data outside
//! of a lock, and with [`GlobalLock::own`] between a lock and each use of it.

// The kernel's `lock.rs`, of which this is a module, is compiled without warnings.
#![warn(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]

use super::{
    Backend,
    Guard,
    Lock, //
};
use crate::{
    str::{
        CStr,
        CStrExt as _, //
    },
    sync::LockClassKey,
    types::Opaque, //
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
use machine::statics::place;

/// What [`global_lock!`] says of a lock.
pub trait GlobalLockBackend {
    /// Its name.
    const NAME: &'static CStr;
    /// What it protects.
    type Item: 'static;
    /// What kind of lock it is.
    type Backend: Backend + 'static;

    /// Its class.
    fn get_lock_class() -> Pin<&'static LockClassKey>;
}

/// A lock that is a static.
pub struct GlobalLock<B: GlobalLockBackend> {
    inner: Lock<B::Item, B::Backend>,
}

impl<B: GlobalLockBackend> GlobalLock<B> {
    /// A lock that has to be initialised.
    ///
    /// # Safety
    ///
    /// [`init`](Self::init) is called before it is used, on each host and after each load.
    pub const unsafe fn new(data: B::Item) -> Self {
        Self {
            inner: Lock {
                state: Opaque::uninit(),
                data: UnsafeCell::new(data),
                _pin: PhantomPinned,
            },
        }
    }

    /// The lock of the calling host.
    fn own(&'static self) -> &'static Lock<B::Item, B::Backend> {
        let place = place(core::ptr::from_ref(&self.inner).cast_mut());
        // SAFETY: This lock, or its like in the image of the host, which lives as long as the
        // run: nothing of a host is used later.
        unsafe { &*place }
    }

    /// Initialise the lock of the calling host.
    ///
    /// # Safety
    ///
    /// Called once after each load, before the lock is used.
    pub unsafe fn init(&'static self) {
        // SAFETY: Nobody else uses the lock yet; name and class are static.
        unsafe {
            B::Backend::init(
                self.own().state.get(),
                B::NAME.as_char_ptr(),
                B::get_lock_class().as_ptr(),
            )
        }
    }

    /// Lock.
    #[inline]
    pub fn lock(&'static self) -> GlobalGuard<B> {
        GlobalGuard {
            inner: self.own().lock(),
        }
    }

    /// As [`lock`](Self::lock), unless somebody else has it.
    #[must_use = "if unused, the lock will be immediately unlocked"]
    #[inline]
    pub fn try_lock(&'static self) -> Option<GlobalGuard<B>> {
        Some(GlobalGuard {
            inner: self.own().try_lock()?,
        })
    }
}

/// The data of a [`GlobalLock`].
#[must_use = "the lock unlocks immediately when the guard is unused"]
pub struct GlobalGuard<B: GlobalLockBackend> {
    inner: Guard<'static, B::Item, B::Backend>,
}

impl<B: GlobalLockBackend> Deref for GlobalGuard<B> {
    type Target = B::Item;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl<B: GlobalLockBackend> DerefMut for GlobalGuard<B>
where
    B::Item: Unpin,
{
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
    }
}

/// The kernel's `lock.rs` names it. Data outside of a lock is not on the host.
pub enum GlobalLockedBy {}

/// Defines a lock that is a static.
#[macro_export]
macro_rules! global_lock {
    {
        $(#[$meta:meta])* $pub:vis
        unsafe(uninit) static $name:ident: $kind:ident<$valuety:ty> = $value:expr;
    } => {
        #[doc = "What the lock of that name is."]
        #[allow(non_camel_case_types, unreachable_pub)]
        $pub enum $name {}

        impl $crate::sync::lock::GlobalLockBackend for $name {
            const NAME: &'static $crate::str::CStr = $crate::c_str!(::core::stringify!($name));
            type Item = $valuety;
            type Backend = $crate::global_lock_inner!(backend $kind);

            fn get_lock_class() -> Pin<&'static $crate::sync::LockClassKey> {
                $crate::static_lock_class!()
            }
        }

        $(#[$meta])*
        $pub static $name: $crate::sync::lock::GlobalLock<$name> = {
            let init: $valuety = $value;
            // SAFETY: Who uses this macro promises to initialise the lock.
            unsafe { $crate::sync::lock::GlobalLock::new(init) }
        };
    };
}
pub use global_lock;

#[doc(hidden)]
#[macro_export]
macro_rules! global_lock_inner {
    (backend Mutex) => {
        $crate::sync::lock::mutex::MutexBackend
    };
    (backend SpinLock) => {
        $crate::sync::lock::spinlock::SpinLockBackend
    };
}
