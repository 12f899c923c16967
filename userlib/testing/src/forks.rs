// SPDX-License-Identifier: MIT OR Apache-2.0

//! Children of a process with threads, for tests of libraries that such processes use: whatever
//! the threads were at when the process forked, the child does not have them, and must not wait
//! for a lock that one of them holds.

use std::{
    io,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

/// Threads of the parent, and children.
const THREADS: usize = 4;
const CHILDREN: usize = 64;
/// Seconds after which a child that has not ended never will.
const TIME_LIMIT: u32 = 60;

/// Do some work in threads, again and again, while one child is made after the other, each of
/// which does it once.
///
/// # Panics
/// If a child does not end well, or `work` panics.
pub fn children_of_threads(work: impl Fn() + Sync) {
    let is_over = AtomicBool::new(false);
    let failed = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    work();
                }
            });
        }
        let once = || {
            work();
            0
        };
        let mut ends = (0..CHILDREN).map(|_| fork(once));
        let failed = ends.find(|end| !matches!(end, Ok(0)));
        is_over.store(true, Relaxed);
        failed
    });
    match failed {
        None => {}
        Some(Ok(status)) => panic!("a child has ended with status {status:#x}"),
        Some(Err(error)) => panic!("no child: {error}"),
    }
}

/// Do some work in a child; what it returns, or 1 if it panics.
///
/// # Panics
/// If there is no child, or it does not end in time.
pub fn child(work: impl FnOnce() -> u8) -> i32 {
    let status = fork(work).expect("there can be a child");
    assert!(
        libc::WIFEXITED(status),
        "a child has ended with status {status:#x}"
    );
    libc::WEXITSTATUS(status)
}

/// The status of a child that has done some work.
fn fork(work: impl FnOnce() -> u8) -> io::Result<i32> {
    // SAFETY: The child does the work, which is there to be tried in one, and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: Nobody handles the signal: it ends the child.
            unsafe { libc::alarm(TIME_LIMIT) };
            let done = catch_unwind(AssertUnwindSafe(work));
            // SAFETY: Nothing of the parent's is torn down.
            unsafe { libc::_exit(done.unwrap_or(1).into()) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: A status is written.
            match unsafe { libc::waitpid(pid, &mut status, 0) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(status),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_do_the_work() {
        children_of_threads(|| {});
    }

    #[test]
    #[should_panic = "a child has ended with status 0x100"]
    fn children_that_fail_are_noticed() {
        let parent = std::process::id();
        children_of_threads(|| assert_eq!(std::process::id(), parent));
    }
}
