// SPDX-License-Identifier: GPL-2.0

//! The one dispatcher of a process.
//!
//! Made at the first call and never freed: threads may be inside when the program ends. A child
//! after `fork` begins with a new one, for sessions work in the process that has opened them only
//! (PXI-SES-2), and a lock of its parent might be held by a thread that the child does not have.
//! The old one is left as it is, because a call that forks returns through it.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::dispatch::Dispatcher;
use crate::library::Directory;

static DISPATCHER: AtomicPtr<Dispatcher<Directory>> = AtomicPtr::new(ptr::null_mut());
/// Whether children are told apart. Not a lock: one that is held during a fork stays held.
static FORKS_ARE_SEEN: AtomicBool = AtomicBool::new(false);

/// Runs in a child, before `fork` returns; only stores a word.
unsafe extern "C" fn begin_anew() {
    DISPATCHER.store(ptr::null_mut(), Ordering::Release);
}

/// The dispatcher of this process; none if there is no memory to see forks.
pub fn dispatcher() -> Option<&'static Dispatcher<Directory>> {
    let present = DISPATCHER.load(Ordering::Acquire);
    let dispatcher = if present.is_null() { make()? } else { present };
    // SAFETY: It was made from a box, is shared only, and is never freed once it was stored.
    unsafe { dispatcher.as_ref() }
}

fn make() -> Option<*mut Dispatcher<Directory>> {
    if !FORKS_ARE_SEEN.load(Ordering::Acquire) {
        // Two threads may both do it, which does no harm. It has to be done before the
        // dispatcher is stored, so that no child ever has its parent's.
        // SAFETY: The handler does what a handler may do.
        let error = unsafe { libc::pthread_atfork(None, None, Some(begin_anew)) };
        if error != 0 {
            return None;
        }
        FORKS_ARE_SEEN.store(true, Ordering::Release);
    }
    let new = Box::into_raw(Box::new(Dispatcher::new(Directory)));
    let stored =
        DISPATCHER.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
    match stored {
        Ok(_) => Some(new),
        Err(present) => {
            // SAFETY: Another thread was faster, and nobody has seen this one.
            drop(unsafe { Box::from_raw(new) });
            Some(present)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_share_one_dispatcher() {
        let address = || dispatcher().map(|found| ptr::from_ref(found) as usize);
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(address)).collect();
        for thread in threads {
            let found = thread.join().expect("the thread does not panic");
            assert!(found.is_some());
            assert_eq!(found, address());
        }
    }
}
