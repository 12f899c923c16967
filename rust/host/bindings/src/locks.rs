// SPDX-License-Identifier: GPL-2.0-only

//! Mutexes and spin locks: which context has one, and reports of those that are used wrongly.

use core::{
    ffi::{
        c_char,
        CStr, //
    },
    sync::atomic::{
        AtomicU64,
        Ordering::Relaxed, //
    }, //
};
use machine::{
    context,
    enter_atomic,
    fail,
    leave_atomic,
    memory,
    might_sleep,
    order,
    point,
    queue,
    usage,
    Kind, //
};

/// A class of locks, known by its address alone.
#[repr(C)]
pub struct lock_class_key {
    _spare: u8,
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
    /// The address of its class; 0 if it has not been initialised.
    class: usize,
    name: *const c_char,
}

impl Default for raw_lock {
    /// Not initialised yet.
    fn default() -> Self {
        Self {
            owner: AtomicU64::new(0),
            class: 0,
            name: core::ptr::null(),
        }
    }
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

    fn name(&self) -> &str {
        if self.class == 0 || self.name.is_null() {
            return "a lock without a name";
        }
        // SAFETY: Initialised with a string that is a static.
        let name = unsafe { CStr::from_ptr(self.name) };
        name.to_str().unwrap_or("a lock")
    }

    /// It is taken now, or tried, as a spin lock.
    fn note(&self, was_tried: bool) {
        memory::check(self.queue());
        if self.class != 0 {
            usage::note(self.class, self.name(), was_tried);
        }
    }

    fn take(&self) -> bool {
        let taken = self.owner.compare_exchange(0, Self::me(), Relaxed, Relaxed);
        if taken.is_ok() && self.class != 0 {
            order::taken(self.queue(), self.class, self.name());
        }
        taken.is_ok()
    }

    fn lock(&self) {
        if self.owner.load(Relaxed) == Self::me() {
            fail(format!("it takes a lock that it has: {}", self.name()));
        }
        if self.class != 0 {
            order::wait_for(self.class, self.name());
        }
        while !self.take() {
            memory::check(self.queue());
            let owner = context::name_of(self.owner.load(Relaxed).wrapping_sub(1));
            let text = format!("{}, which {owner} has", self.name());
            context::waiting_for(&text, || {
                queue::wait_while(self.queue(), || self.owner.load(Relaxed) != 0);
            });
        }
    }

    fn unlock(&self) {
        if self.owner.swap(0, Relaxed) != Self::me() {
            fail(format!(
                "it leaves a lock that it does not have: {}",
                self.name()
            ));
        }
        order::left(self.queue());
        queue::wake_all(self.queue());
    }

    /// Fail if the caller is no process, which alone may have a mutex.
    fn note_mutex(&self) {
        if context::kind() != Kind::Process {
            fail(format!(
                "it takes or leaves a mutex in an interrupt: {}",
                self.name()
            ));
        }
    }
}

macro_rules! initialiser {
    ($($name:ident)*) => {$(
        /// # Safety
        ///
        /// The pointer is valid for writes; name and class are statics.
        pub unsafe fn $name(lock: *mut raw_lock, name: *const u8, key: *mut lock_class_key) {
            let this = raw_lock {
                owner: AtomicU64::new(0),
                class: key.addr(),
                name: name.cast(),
            };
            // SAFETY: As the caller promises.
            unsafe { lock.write(this) };
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
    let lock = unsafe { &*lock };
    lock.note_mutex();
    i32::from(lock.take())
}

/// # Safety
///
/// As for [`mutex_lock`].
///
/// Fails if the caller does not have it.
pub unsafe fn mutex_unlock(lock: *mut mutex) {
    // SAFETY: As the caller promises.
    let lock = unsafe { &*lock };
    lock.note_mutex();
    lock.unlock();
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
    let lock = unsafe { &*lock };
    lock.note(false);
    lock.lock();
}

/// # Safety
///
/// As for [`mutex_lock`].
pub unsafe fn spin_trylock(lock: *mut spinlock_t) -> i32 {
    point();
    enter_atomic();
    // SAFETY: As the caller promises.
    let lock = unsafe { &*lock };
    lock.note(true);
    let taken = lock.take();
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
