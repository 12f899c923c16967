// SPDX-License-Identifier: MIT OR Apache-2.0

//! A sleep in which a thread can be cancelled (pthreads(7)).
//!
//! Everything else that a function of a library does is behind the border of
//! [`guarded`](crate::guarded), where no thread is cancelled.

use crate::guard::{errno, set_errno};
use std::{os::fd::RawFd, time::Duration};

extern "C-unwind" {
    #[link_name = "poll"]
    fn poll_or_end(
        fds: *mut libc::pollfd,
        count: libc::nfds_t,
        milliseconds: libc::c_int,
    ) -> libc::c_int;
}

/// How long to sleep, and what ends that earlier: one of the descriptors can be read.
#[derive(Clone, Copy, Debug)]
pub struct Nap {
    /// At most, to the next millisecond; nothing if that has no end.
    pub time: Option<Duration>,
    /// Open as long as it is slept.
    pub fds: [RawFd; 2],
}

impl Nap {
    /// Sleep; a thread that was cancelled ends. `errno` stays.
    ///
    /// # Safety
    /// All callers, up to the function that C has called, have nothing to drop, and may unwind:
    /// cancelling passes through them.
    pub unsafe fn sleep_or_end(self) {
        let mut fds = self.fds.map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let milliseconds = self.time.map(|time| time.as_micros().div_ceil(1000));
        let milliseconds = milliseconds.map_or(-1, |milliseconds| {
            libc::c_int::try_from(milliseconds).unwrap_or(libc::c_int::MAX)
        });
        let before = errno();
        // SAFETY: The array is there until it returns.
        unsafe { poll_or_end(fds.as_mut_ptr(), 2, milliseconds) };
        set_errno(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{ends_in, until_cancelled};
    use std::{
        ffi::c_void,
        os::fd::AsRawFd,
        ptr,
        sync::atomic::{AtomicBool, Ordering},
        time::Instant,
    };

    fn nap(milliseconds: u64) -> Nap {
        // Nobody wakes it.
        let fds = [-1; 2];
        let time = Some(Duration::from_millis(milliseconds));
        Nap { time, fds }
    }

    #[test]
    fn a_sleep_lasts_as_long_as_it_is_told() {
        set_errno(7);
        let begun = Instant::now();
        // SAFETY: Nobody cancels this thread.
        unsafe { nap(30).sleep_or_end() };
        assert!(begun.elapsed() >= Duration::from_millis(30));
        assert_eq!(errno(), 7);
    }

    #[test]
    fn a_descriptor_that_can_be_read_ends_a_sleep() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        let fds = [-1, reader.as_raw_fd()];
        let begun = Instant::now();
        for time in [nap(60_000).time, None] {
            // SAFETY: Nobody cancels this thread.
            unsafe { Nap { time, fds }.sleep_or_end() };
        }
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_thread_that_is_cancelled_ends() {
        static ENDED: AtomicBool = AtomicBool::new(false);
        struct Ends;
        impl Drop for Ends {
            fn drop(&mut self) {
                ENDED.store(true, Ordering::SeqCst);
            }
        }
        thread_local! {
            static OWNS: std::cell::RefCell<Option<Ends>> = const { std::cell::RefCell::new(None) };
        }
        extern "C-unwind" fn sleeps(barrier: *mut c_void) -> *mut c_void {
            OWNS.set(Some(Ends));
            until_cancelled(barrier);
            // SAFETY: There is nothing to drop in this frame, the first one of the thread.
            unsafe { nap(60_000).sleep_or_end() };
            ptr::null_mut()
        }
        assert!(ends_in(sleeps));
        assert!(ENDED.load(Ordering::SeqCst));
    }
}
