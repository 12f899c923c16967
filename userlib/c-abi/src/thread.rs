// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads that a library starts in a program that does not know of them.

use std::{
    io,
    mem::MaybeUninit,
    ptr,
    thread::{Builder, JoinHandle},
};

/// Starts a thread that handles no signals: those that the program is sent are for its own
/// threads, whose waits they are to interrupt.
///
/// # Errors
/// Those of starting a thread.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // A thread starts with the mask of the one that starts it.
    let _blocked = Blocked::all();
    Builder::new().name(name.into()).spawn(run)
}

/// Has the calling thread handle no signals, until it is dropped.
struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    fn all() -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: `sigfillset()` fills in the first set before it is read; the second one is
        // filled in, for the call fails only for a request that does not exist.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        Blocked { before }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: The set is what the thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Which signals the calling thread does not handle.
    fn blocked() -> Vec<i32> {
        let mut mask = MaybeUninit::uninit();
        // SAFETY: The set is filled in; nothing changes.
        let mask = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
            mask.assume_init()
        };
        // SAFETY: The set is filled in.
        let is_blocked = |signal: &i32| unsafe { libc::sigismember(&mask, *signal) } == 1;
        (1..=libc::SIGSYS).filter(is_blocked).collect()
    }

    #[test]
    fn a_thread_of_a_library_handles_no_signals() {
        let before = blocked();
        assert!(!before.contains(&libc::SIGTERM));
        let (tell, told) = mpsc::channel();
        let thread = spawn("helper", move || {
            let name = std::thread::current().name().map(str::to_owned);
            tell.send((blocked(), name)).unwrap();
        });
        thread.unwrap().join().unwrap();
        let (blocked_there, name) = told.recv().unwrap();
        let all: Vec<i32> = (1..=libc::SIGSYS)
            .filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal))
            .collect();
        assert_eq!(blocked_there, all);
        assert_eq!(name.as_deref(), Some("helper"));
        assert_eq!(blocked(), before);
    }
}
