// SPDX-License-Identifier: MIT OR Apache-2.0

//! The border that neither a panic nor a change of `errno` crosses.

use std::{
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
/// it: for functions that pass on what others do.
pub fn caught<T>(function: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // Dropping it runs code that may panic again.
            mem::forget(payload);
            None
        }
    }
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
