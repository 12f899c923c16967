// SPDX-License-Identifier: MIT OR Apache-2.0

//! The border that neither a panic, a cancelled thread nor a change of `errno` crosses.

use std::{
    ffi::c_int,
    mem,
    panic::{catch_unwind, AssertUnwindSafe},
};

/// Run what a function of the library does; nothing if it panics. `errno` is afterwards what it
/// was before, whatever system calls were made: a library that is to set it does so with
/// [`set_errno`] when this has returned.
pub fn guarded<T>(function: impl FnOnce() -> T) -> Option<T> {
    let before = errno();
    let result = caught(function);
    set_errno(before);
    result
}

/// Run what a function of the library does; nothing if it panics. `errno` is what it has made of
/// it: for functions that pass on what others do. A thread that was cancelled is not ended before
/// this has returned: Rust can neither catch what ends it nor let it pass, and the standard library
/// opens, reads, closes and joins by functions that are cancellation points.
pub fn caught<T>(function: impl FnOnce() -> T) -> Option<T> {
    let _not_cancelled = NotCancelled::new();
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // Dropping it runs code that may panic again.
            mem::forget(payload);
            None
        }
    }
}

/// As long as it exists, the thread that has made it is not cancelled (pthread_setcancelstate(3)).
struct NotCancelled {
    before: c_int,
}

impl NotCancelled {
    fn new() -> Self {
        NotCancelled {
            before: set_cancelling(PTHREAD_CANCEL_DISABLE),
        }
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        set_cancelling(self.before);
    }
}

/// Of `<pthread.h>`.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Say whether the calling thread may be cancelled, and return what was said before.
fn set_cancelling(state: c_int) -> c_int {
    extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    let mut before = PTHREAD_CANCEL_DISABLE;
    // SAFETY: There is room for what was said before. The states are the two that there are. A
    // thread that is cancelled at any time is one that may call no function of the library.
    unsafe { pthread_setcancelstate(state, &mut before) };
    before
}

pub(crate) fn errno() -> i32 {
    // SAFETY: The address is that of this thread's variable.
    unsafe { *libc::__errno_location() }
}

/// Set `errno` of the calling thread.
pub fn set_errno(number: i32) {
    // SAFETY: The address is that of this thread's variable.
    unsafe { *libc::__errno_location() = number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{ends_in, until_cancelled};
    use std::{ffi::c_void, ptr};

    #[test]
    fn a_panic_ends_here() {
        assert_eq!(guarded(|| 7), Some(7));
        assert_eq!(guarded(|| -> u32 { panic!("a defect") }), None);
    }

    #[test]
    fn a_panic_whose_payload_panics_ends_here() {
        struct Payload;
        impl Drop for Payload {
            fn drop(&mut self) {
                panic!("another one");
            }
        }
        assert_eq!(guarded(|| std::panic::panic_any(Payload)), None::<()>);
    }

    fn reads_a_file() -> usize {
        std::fs::read("/proc/self/status").unwrap().len()
    }

    #[test]
    fn a_cancelled_thread_goes_on_until_the_border() {
        extern "C-unwind" fn reads(barrier: *mut c_void) -> *mut c_void {
            until_cancelled(barrier);
            let read = guarded(reads_a_file).unwrap() + caught(reads_a_file).unwrap();
            let nested = guarded(|| (caught(reads_a_file), reads_a_file())).unwrap();
            assert!(read > 0 && nested.0.unwrap() > 0 && nested.1 > 0);
            assert_eq!(guarded(|| -> () { panic!("a defect") }), None);
            ptr::null_mut()
        }
        assert!(!ends_in(reads));
    }

    #[test]
    fn a_cancelled_thread_ends_behind_the_border() {
        extern "C-unwind" fn ends(barrier: *mut c_void) -> *mut c_void {
            until_cancelled(barrier);
            guarded(reads_a_file);
            assert_eq!(guarded(|| -> () { panic!("a defect") }), None);
            let nap = crate::Nap {
                time: None,
                fds: [-1; 2],
            };
            // SAFETY: There is nothing to drop in this frame, the first one of the thread.
            unsafe { nap.sleep_or_end() };
            ptr::null_mut()
        }
        assert!(ends_in(ends));
    }

    #[test]
    fn errno_is_passed_on() {
        set_errno(5);
        assert_eq!(caught(|| set_errno(7)), Some(()));
        assert_eq!(errno(), 7);
        assert_eq!(caught(|| -> u32 { panic!("a defect") }), None);
    }

    #[test]
    fn errno_stays() {
        set_errno(5);
        guarded(|| set_errno(7));
        guarded(|| -> () {
            set_errno(8);
            panic!("a defect")
        });
        assert_eq!(errno(), 5);
    }
}
