// SPDX-License-Identifier: GPL-2.0-only

//! Locks and reference cells for code that runs in softirq or interrupt context.
//!
//! * [`SpinLockBh`]: a spin lock that also keeps bottom halves off its CPU. It
//!   leaves interrupts enabled, so it may be held while a large frame is copied.
//! * [`SpinLockIrqSave`]: a spin lock that also keeps interrupts off its CPU,
//!   for data that interrupt handlers share.
//! * [`without_bh`]: a piece of code in the context that softirqs run in.
//! * [`RcuArc`]: a cell with at most one [`Arc`], read under RCU.

use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    ffi::c_ulong,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        lock::{
            Backend,
            Guard,
            Lock, //
        },
        rcu,
        Arc,
        ArcBorrow, //
    }, //
};

/// What all backends of `spinlock_t` share.
macro_rules! spinlock_backend {
    () => {
        #[inline]
        unsafe fn init(
            ptr: *mut Self::State,
            name: *const kernel::ffi::c_char,
            key: *mut kernel::bindings::lock_class_key,
        ) {
            // SAFETY: `ptr` is valid for writes, and `name` and `key` live as long as required.
            unsafe { kernel::bindings::__spin_lock_init(ptr, name, key) }
        }

        #[inline]
        unsafe fn assert_is_held(ptr: *mut Self::State) {
            // SAFETY: `ptr` points to an initialised lock.
            unsafe { kernel::bindings::spin_assert_is_held(ptr) }
        }
    };
}

/// Creates a [`SpinLockBh`] initialiser with a newly-created lock class.
#[macro_export]
macro_rules! new_spinlock_bh {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLockBh::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub use new_spinlock_bh;

/// Initialise by the value that `make` returns, which need not lie on the stack first: that of a
/// kernel is small.
pub fn in_place<T>(make: impl FnOnce() -> T) -> impl Init<T> {
    let fill = move |place: *mut T| {
        // SAFETY: The place is valid for writes, and nobody else's yet.
        write_to(unsafe { &mut *place.cast() }, make);
        Ok(())
    };
    // SAFETY: The place is initialised when the closure returns.
    unsafe { pin_init::init_from_closure(fill) }
}

// Not inlined: of its argument the compiler knows that a value can be made right there.
#[inline(never)]
fn write_to<T>(place: &mut MaybeUninit<T>, make: impl FnOnce() -> T) {
    place.write(make());
}

/// A spin lock that disables bottom halves while it is held.
///
/// For data shared between process context and softirq context (NAPI polls,
/// transmit routines, timers in softirq mode); must not be taken in hard
/// interrupt context.
pub type SpinLockBh<T> = Lock<T, SpinLockBhBackend>;

/// A [`Guard`] of a [`SpinLockBh`].
pub type SpinLockBhGuard<'a, T> = Guard<'a, T, SpinLockBhBackend>;

/// The `spin_lock_bh()` family as a lock backend; `spin_lock()` where bottom halves
/// are disabled already, as in polls and transmit routines.
pub struct SpinLockBhBackend;

// SAFETY: The kernel's `spinlock_t` ensures mutual exclusion. `relock` is the default, which uses
// the same locking method.
unsafe impl Backend for SpinLockBhBackend {
    type State = kernel::bindings::spinlock_t;
    /// Whether bottom halves were enabled before.
    type GuardState = bool;

    spinlock_backend!();

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: `ptr` points to an initialised lock.
        unsafe { mp_bindings::spin_lock_bh_nested(ptr.cast()) }
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, guard_state: &Self::GuardState) {
        // SAFETY: `ptr` points to a lock that the caller owns, with what `lock` has returned.
        unsafe { mp_bindings::spin_unlock_bh_nested(ptr.cast(), *guard_state) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: `ptr` points to an initialised lock.
        (unsafe { mp_bindings::spin_trylock_bh(ptr.cast()) } != 0).then_some(true)
    }
}

/// Creates a [`SpinLockIrqSave`] initialiser with a newly-created lock class.
#[macro_export]
macro_rules! new_spinlock_irqsave {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLockIrqSave::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub use new_spinlock_irqsave;

/// A spin lock that disables interrupts while it is held, in any context.
pub type SpinLockIrqSave<T> = Lock<T, SpinLockIrqSaveBackend>;

/// The `spin_lock_irqsave()` family as a lock backend.
pub struct SpinLockIrqSaveBackend;

// SAFETY: The kernel's `spinlock_t` ensures mutual exclusion. `relock` is the default, which uses
// the same locking method.
unsafe impl Backend for SpinLockIrqSaveBackend {
    type State = kernel::bindings::spinlock_t;
    /// What interrupts were like before.
    type GuardState = c_ulong;

    spinlock_backend!();

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: `ptr` points to an initialised lock.
        unsafe { mp_bindings::spin_lock_irqsave_flags(ptr.cast()) }
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, guard_state: &Self::GuardState) {
        // SAFETY: `ptr` points to a lock that the caller owns, with what `lock` has returned.
        unsafe { mp_bindings::spin_unlock_irqrestore_flags(ptr.cast(), *guard_state) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: `ptr` points to an initialised lock.
        unsafe { mp_bindings::spin_trylock_irqsave_flags(ptr.cast(), &mut flags) }.then_some(flags)
    }
}

/// Call `f` with bottom halves disabled, as in softirq context. Process or
/// softirq context.
pub fn without_bh<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: Enabled again below; panics end the machine.
    unsafe { mp_bindings::local_bh_disable() };
    let result = f();
    // SAFETY: Disabled above.
    unsafe { mp_bindings::local_bh_enable() };
    result
}

/// A cell that holds an [`Arc`] or nothing and is read without a lock.
///
/// # Invariants
///
/// `ptr` is null or came from [`Arc::into_raw`]; that reference belongs to the
/// cell. A pointer taken out is not dropped before an RCU grace period is over.
///
/// # Examples
///
/// ```
/// # use mp_kernel::sync::RcuArc;
/// use kernel::sync::{rcu, Arc};
///
/// let cell = RcuArc::empty();
/// cell.replace(Some(Arc::new(7, GFP_KERNEL)?));
/// assert_eq!(cell.load(&rcu::read_lock()).map(|v| *v), Some(7));
/// # Ok::<(), Error>(())
/// ```
pub struct RcuArc<T: Send + Sync> {
    ptr: Atomic<*mut T>,
}

impl<T: Send + Sync> RcuArc<T> {
    /// An empty cell.
    pub const fn empty() -> Self {
        Self {
            ptr: Atomic::new(core::ptr::null_mut()),
        }
    }

    /// The value, for as long as the read-side critical section lasts.
    #[inline]
    pub fn load<'g>(&self, _guard: &'g rcu::Guard) -> Option<ArcBorrow<'g, T>> {
        let ptr = NonNull::new(self.ptr.load(Acquire))?;
        // SAFETY: By the invariants the pointer came from `Arc::into_raw()`, and its reference
        // is not given up before a grace period after it left the cell; the guard delays that
        // beyond 'g. No unique borrow of it exists.
        Some(unsafe { ArcBorrow::from_raw(ptr.as_ptr()) })
    }

    /// A counted reference to the value.
    #[inline]
    pub fn get(&self) -> Option<Arc<T>> {
        self.load(&rcu::read_lock()).map(Into::into)
    }

    /// Put `new` in place of the present value and return that once no reader
    /// can have it any more.
    ///
    /// Sleeps for an RCU grace period when there was a value.
    pub fn replace(&self, new: Option<Arc<T>>) -> Option<Arc<T>> {
        let new = new.map_or(core::ptr::null_mut(), |arc| Arc::into_raw(arc).cast_mut());
        // INVARIANT: `new` is null or a reference given to the cell.
        let old = NonNull::new(self.ptr.xchg(new, Full))?;
        // SAFETY: Callers may sleep, as the documentation says.
        unsafe { kernel::bindings::synchronize_rcu() };
        // SAFETY: By the invariants `old` came from `Arc::into_raw()` and the cell owned it; it
        // left the cell above, exactly once.
        Some(unsafe { Arc::from_raw(old.as_ptr()) })
    }
}

impl<T: Send + Sync> Drop for RcuArc<T> {
    fn drop(&mut self) {
        let Some(ptr) = NonNull::new(self.ptr.load(Relaxed)) else {
            return;
        };
        // SAFETY: By the invariants the cell owns this reference. `&mut self` shows that no
        // reader borrows from the cell itself; readers of the value are inside a read-side
        // critical section that the owner of the cell has to outlive.
        drop(unsafe { Arc::from_raw(ptr.as_ptr()) });
    }
}
