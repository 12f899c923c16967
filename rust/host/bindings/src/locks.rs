// SPDX-License-Identifier: GPL-2.0-only

//! Mutexes and spin locks: who has one, and what is said of those that are used wrongly.

use core::sync::atomic::{
    AtomicU64,
    Ordering::Relaxed, //
};
use machine::{
    context,
    enter_atomic,
    fail,
    leave_atomic,
    memory,
    might_sleep,
    point,
    queue, //
};

/// A class of locks, of which nothing is noted here.
#[repr(C)]
pub struct lock_class_key {
    _none: [u8; 0],
}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn lockdep_register_key(_key: *mut lock_class_key) {}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn lockdep_unregister_key(_key: *mut lock_class_key) {}

/// A lock of any kind.
#[repr(C)]
pub struct raw_lock {
    /// The context that has it and 1, or 0.
    owner: AtomicU64,
}

pub type mutex = raw_lock;
pub type spinlock_t = raw_lock;

impl raw_lock {
    fn me() -> u64 {
        context::number() + 1
    }

    fn queue(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn take(&self) -> bool {
        let taken = self.owner.compare_exchange(0, Self::me(), Relaxed, Relaxed);
        taken.is_ok()
    }

    fn lock(&self) {
        if self.owner.load(Relaxed) == Self::me() {
            fail("it takes a lock that it has");
        }
        while !self.take() {
            memory::check(self.queue());
            queue::wait_while(self.queue(), || self.owner.load(Relaxed) != 0);
        }
    }

    fn unlock(&self) {
        if self.owner.swap(0, Relaxed) != Self::me() {
            fail("it leaves a lock that it does not have");
        }
        queue::wake_all(self.queue());
    }
}

macro_rules! initialiser {
    ($($name:ident)*) => {$(
        /// # Safety
        ///
        /// The pointer is valid for writes.
        pub unsafe fn $name(lock: *mut raw_lock, _name: *const u8, _key: *mut lock_class_key) {
            let owner = AtomicU64::new(0);
            // SAFETY: As the caller promises.
            unsafe { lock.write(raw_lock { owner }) };
        }
    )*};
}

initialiser!(__mutex_init __spin_lock_init);

/// # Safety
///
/// The lock is initialised; so for all functions below.
///
/// Fails if the caller must not sleep, or has the lock.
pub unsafe fn mutex_lock(lock: *mut mutex) {
    might_sleep();
    // SAFETY: As the caller promises.
    unsafe { &*lock }.lock();
}

/// # Safety
///
/// As for [`mutex_lock`].
pub unsafe fn mutex_trylock(lock: *mut mutex) -> i32 {
    point();
    // SAFETY: As the caller promises.
    i32::from(unsafe { &*lock }.take())
}

/// # Safety
///
/// As for [`mutex_lock`].
///
/// Fails if the caller does not have it.
pub unsafe fn mutex_unlock(lock: *mut mutex) {
    // SAFETY: As the caller promises.
    unsafe { &*lock }.unlock();
    point();
}

/// # Safety
///
/// As for [`mutex_lock`].
///
/// Fails if the caller does not have it.
pub unsafe fn mutex_assert_is_held(lock: *mut mutex) {
    // SAFETY: As the caller promises.
    if unsafe { &*lock }.owner.load(Relaxed) != raw_lock::me() {
        fail("it does not have the lock that it should");
    }
}

pub use mutex_assert_is_held as spin_assert_is_held;

/// The caller must not sleep until it has unlocked.
///
/// # Safety
///
/// As for [`mutex_lock`].
///
/// Fails if the caller has the lock.
pub unsafe fn spin_lock(lock: *mut spinlock_t) {
    point();
    enter_atomic();
    // SAFETY: As the caller promises.
    unsafe { &*lock }.lock();
}

/// # Safety
///
/// As for [`mutex_lock`].
pub unsafe fn spin_trylock(lock: *mut spinlock_t) -> i32 {
    point();
    enter_atomic();
    // SAFETY: As the caller promises.
    let taken = unsafe { &*lock }.take();
    if !taken {
        leave_atomic();
    }
    i32::from(taken)
}

/// # Safety
///
/// As for [`mutex_lock`].
///
/// Fails if the caller does not have it.
pub unsafe fn spin_unlock(lock: *mut spinlock_t) {
    // SAFETY: As the caller promises.
    unsafe { &*lock }.unlock();
    leave_atomic();
    point();
}
