// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads of libraries in programs that know nothing of them.

use crate::{Errno, Error, Result};
use std::{
    mem::MaybeUninit,
    ptr,
    thread::{Builder, JoinHandle},
};

/// Those that a thread brings about by itself: they cannot be left to another one.
const OWN: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Start a thread on which no signal of the process is handled: it ends a wait on one of the
/// program's own threads instead, for which it is meant.
///
/// # Errors
/// [`Error::System`]: there are no more threads.
pub fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: The sets are filled in before they are read. Only what this thread takes changes, and
    // it is changed back below.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in OWN {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    // It inherits what this thread does not take.
    let spawned = Builder::new().name(name.into()).spawn(run);
    // SAFETY: The set was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    spawned.map_err(|error| {
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        Error::System(errno.unwrap_or(Errno::AGAIN))
    })
}
