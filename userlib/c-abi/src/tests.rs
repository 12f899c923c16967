// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads that were cancelled, for tests.

use std::{
    ffi::{c_int, c_void},
    ptr,
    sync::Barrier,
};

/// Whether a thread that was cancelled beforehand ends within a function.
pub(crate) fn ends_in(function: extern "C-unwind" fn(*mut c_void) -> *mut c_void) -> bool {
    extern "C" {
        fn pthread_create(
            id: *mut libc::pthread_t,
            attributes: *const c_void,
            start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
            argument: *mut c_void,
        ) -> c_int;
        fn pthread_cancel(id: libc::pthread_t) -> c_int;
    }
    let (mut id, mut result) = (0, ptr::null_mut());
    let cancelled = Barrier::new(2);
    let argument = (&raw const cancelled).cast_mut().cast();
    // SAFETY: The thread is joined, and was not before. The barrier is there until then.
    unsafe {
        assert_eq!(pthread_create(&mut id, ptr::null(), function, argument), 0);
        assert_eq!(pthread_cancel(id), 0);
        cancelled.wait();
        assert_eq!(libc::pthread_join(id, &mut result), 0);
    }
    // PTHREAD_CANCELED
    result as isize == -1
}

/// Wait until the thread has been cancelled.
pub(crate) fn until_cancelled(barrier: *mut c_void) {
    // SAFETY: It is the one of ends_in(), which waits for this thread.
    unsafe { &*barrier.cast::<Barrier>() }.wait();
}
