// SPDX-License-Identifier: GPL-2.0-only

//! Atomic variables and reference counts.
//!
//! Each access is a place where other contexts may go first. In one host all accesses have one
//! order, so the suffixes of the names make no difference here.

use core::{
    ffi::c_void,
    ptr,
    sync::atomic::{
        AtomicI16,
        AtomicI32,
        AtomicI64,
        AtomicI8,
        AtomicPtr,
        Ordering::SeqCst, //
    }, //
};
use machine::{
    fail,
    memory,
    point,
    statics::place, //
};

/// The value of a variable, unless that has been freed.
fn seen<T: Copy + PartialEq>(variable: *mut T, value: T, freed: T) -> T {
    if value == freed {
        memory::check(variable.addr());
    }
    value
}

/// Functions with several names and one text.
macro_rules! functions {
    (@one $name:ident { ($($arg:ident: $type:ty),*) $(-> $ret:ty)? $body:block }) => {
        /// # Safety
        ///
        /// The variable is one, and is not accessed otherwise meanwhile.
        #[inline]
        pub unsafe fn $name($($arg: $type),*) $(-> $ret)? {
            point();
            $body
        }
    };
    ([$($name:ident)*] $text:tt) => {$(
        functions!(@one $name $text);
    )*};
}

/// The functions of one type: by their names, the type, what has it in Rust.
macro_rules! basic {
    ($type:ty as $raw:ty, $freed:expr, $atomic:ident: $read:ident $read_acquire:ident $set:ident $set_release:ident
     ($($xchg:ident)*) ($($cmpxchg:ident)*)) => {
        functions!([$read $read_acquire] { (v: *mut $type) -> $type {
            // SAFETY: As the caller promises.
            let value = unsafe { $atomic::from_ptr(place(v).cast()) }.load(SeqCst);
            seen(v.cast::<$raw>(), value, $freed) as $type
        } });
        functions!([$set $set_release] { (v: *mut $type, new: $type) {
            // SAFETY: As the caller promises.
            let old = unsafe { $atomic::from_ptr(place(v).cast()) }.swap(new as $raw, SeqCst);
            seen(v.cast::<$raw>(), old, $freed);
        } });
        functions!([$($xchg)*] { (v: *mut $type, new: $type) -> $type {
            // SAFETY: As the caller promises.
            let old = unsafe { $atomic::from_ptr(place(v).cast()) }.swap(new as $raw, SeqCst);
            seen(v.cast::<$raw>(), old, $freed) as $type
        } });
        functions!([$($cmpxchg)*] { (v: *mut $type, old: *mut $type, new: $type) -> bool {
            let place = place(v).cast::<$raw>();
            // SAFETY: As the caller promises; `old` is the caller's own.
            let (v, old) = unsafe { ($atomic::from_ptr(place), &mut *old) };
            let changed = v.compare_exchange(*old as $raw, new as $raw, SeqCst, SeqCst);
            let had = match changed {
                Ok(had) | Err(had) => had,
            };
            seen(place, had, $freed);
            *old = had as $type;
            changed.is_ok()
        } });
    };
}

basic!(i8 as i8, i8::from_ne_bytes([memory::FREED; size_of::<i8>()]), AtomicI8: atomic_i8_read atomic_i8_read_acquire atomic_i8_set atomic_i8_set_release
    (atomic_i8_xchg atomic_i8_xchg_acquire atomic_i8_xchg_release atomic_i8_xchg_relaxed)
    (atomic_i8_try_cmpxchg atomic_i8_try_cmpxchg_acquire atomic_i8_try_cmpxchg_release
     atomic_i8_try_cmpxchg_relaxed));
basic!(i16 as i16, i16::from_ne_bytes([memory::FREED; size_of::<i16>()]), AtomicI16: atomic_i16_read atomic_i16_read_acquire atomic_i16_set
    atomic_i16_set_release
    (atomic_i16_xchg atomic_i16_xchg_acquire atomic_i16_xchg_release atomic_i16_xchg_relaxed)
    (atomic_i16_try_cmpxchg atomic_i16_try_cmpxchg_acquire atomic_i16_try_cmpxchg_release
     atomic_i16_try_cmpxchg_relaxed));
basic!(i32 as i32, i32::from_ne_bytes([memory::FREED; size_of::<i32>()]), AtomicI32: atomic_read atomic_read_acquire atomic_set atomic_set_release
    (atomic_xchg atomic_xchg_acquire atomic_xchg_release atomic_xchg_relaxed)
    (atomic_try_cmpxchg atomic_try_cmpxchg_acquire atomic_try_cmpxchg_release
     atomic_try_cmpxchg_relaxed));
basic!(i64 as i64, i64::from_ne_bytes([memory::FREED; size_of::<i64>()]), AtomicI64: atomic64_read atomic64_read_acquire atomic64_set atomic64_set_release
    (atomic64_xchg atomic64_xchg_acquire atomic64_xchg_release atomic64_xchg_relaxed)
    (atomic64_try_cmpxchg atomic64_try_cmpxchg_acquire atomic64_try_cmpxchg_release
     atomic64_try_cmpxchg_relaxed));
basic!(*const c_void as *mut c_void,
    ptr::without_provenance_mut(usize::from_ne_bytes([memory::FREED; size_of::<usize>()])),
    AtomicPtr: atomic_ptr_read atomic_ptr_read_acquire atomic_ptr_set
    atomic_ptr_set_release
    (atomic_ptr_xchg atomic_ptr_xchg_acquire atomic_ptr_xchg_release atomic_ptr_xchg_relaxed)
    (atomic_ptr_try_cmpxchg atomic_ptr_try_cmpxchg_acquire atomic_ptr_try_cmpxchg_release
     atomic_ptr_try_cmpxchg_relaxed));

macro_rules! arithmetic {
    ($type:ty, $freed:expr, $atomic:ident: $add:ident ($($fetch_add:ident)*) ($($fetch_sub:ident)*)) => {
        functions!([$add] { (by: $type, v: *mut $type) {
            // SAFETY: As the caller promises.
            let old = unsafe { $atomic::from_ptr(place(v)) }.fetch_add(by, SeqCst);
            seen(v, old, $freed);
        } });
        functions!([$($fetch_add)*] { (by: $type, v: *mut $type) -> $type {
            // SAFETY: As the caller promises.
            let old = unsafe { $atomic::from_ptr(place(v)) }.fetch_add(by, SeqCst);
            seen(v, old, $freed)
        } });
        functions!([$($fetch_sub)*] { (by: $type, v: *mut $type) -> $type {
            // SAFETY: As the caller promises.
            let old = unsafe { $atomic::from_ptr(place(v)) }.fetch_sub(by, SeqCst);
            seen(v, old, $freed)
        } });
    };
}

arithmetic!(i32, i32::from_ne_bytes([memory::FREED; 4]), AtomicI32: atomic_add
    (atomic_fetch_add atomic_fetch_add_acquire atomic_fetch_add_release atomic_fetch_add_relaxed)
    (atomic_fetch_sub atomic_fetch_sub_acquire atomic_fetch_sub_release
     atomic_fetch_sub_relaxed));
arithmetic!(i64, i64::from_ne_bytes([memory::FREED; 8]), AtomicI64: atomic64_add
    (atomic64_fetch_add atomic64_fetch_add_acquire atomic64_fetch_add_release
     atomic64_fetch_add_relaxed)
    (atomic64_fetch_sub atomic64_fetch_sub_acquire atomic64_fetch_sub_release
     atomic64_fetch_sub_relaxed));

/// A count of references.
#[repr(transparent)]
pub struct refcount_t(AtomicI32);

/// # Safety
///
/// Any value will do.
pub unsafe fn REFCOUNT_INIT(value: i32) -> refcount_t {
    refcount_t(AtomicI32::new(value))
}

/// References that no object of a run has: what is freed is filled with more.
const MOST: i32 = 1 << 24;

/// Fail unless a count was one of something that is there, with `least` references.
fn check(before: i32, least: i32) {
    if !(least..MOST).contains(&before) {
        fail("it counts references to what has gone");
    }
}

/// The count at a pointer.
///
/// # Safety
///
/// There is one, for as long as the result is used.
unsafe fn count<'a>(r: *mut refcount_t) -> &'a AtomicI32 {
    // SAFETY: As the caller promises.
    unsafe { &(*place(r)).0 }
}

/// # Safety
///
/// The count is one.
pub unsafe fn refcount_set(r: *mut refcount_t, value: i32) {
    point();
    // SAFETY: As the caller promises.
    unsafe { count(r) }.store(value, SeqCst);
}

/// # Safety
///
/// The count is one.
///
/// Fails if it is zero: what it belongs to has gone.
pub unsafe fn refcount_inc(r: *mut refcount_t) {
    point();
    // SAFETY: As the caller promises.
    let before = unsafe { count(r) }.fetch_add(1, SeqCst);
    check(before, 1);
}

/// # Safety
///
/// The count is one.
pub unsafe fn refcount_dec(r: *mut refcount_t) {
    point();
    // SAFETY: As the caller promises.
    let before = unsafe { count(r) }.fetch_sub(1, SeqCst);
    check(before, 2);
}

/// # Safety
///
/// The count is one.
///
/// Fails if it is zero.
pub unsafe fn refcount_dec_and_test(r: *mut refcount_t) -> bool {
    point();
    // SAFETY: As the caller promises.
    let before = unsafe { count(r) }.fetch_sub(1, SeqCst);
    check(before, 1);
    before == 1
}
