// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a library has in each process that its memory was copied to by `fork()`.
//!
//! What a process has open is of no use to a forked child. The child starts with its own, and never
//! touches its parent's part more than to look at it: locks there may be held for ever by threads
//! that it does not have, and a call that forks returns through it. So [`PerProcess`] finds the part
//! of the process that is calling without a lock, and frees none.

mod mark;

use mark::Mark;
use std::{
    process, ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

/// How a process gets its part; its parent's is given if that had one. Threads may do so at the
/// same time, and only one part is kept.
pub type Make<T> = &'static (dyn Fn(Option<&T>) -> T + Sync);

/// The part of the process that is calling.
pub struct PerProcess<T: 'static> {
    make: Make<T>,
    /// NULL, or what `of` has made. Those of parents are never freed.
    current: AtomicPtr<Part<T>>,
    /// Set if `current` is of this process.
    mark: Mark,
}

struct Part<T> {
    process: u32,
    value: T,
}

// Any thread may be given what another one has made.
impl<T: Send + Sync> PerProcess<T> {
    /// No process has called yet.
    pub const fn new(make: Make<T>) -> Self {
        PerProcess {
            make,
            current: AtomicPtr::new(ptr::null_mut()),
            mark: Mark::new(),
        }
    }

    /// The part of the process that is calling. That it is the one of the call before is known
    /// without a system call.
    pub fn current(&self) -> &T {
        if self.mark.is_set() {
            if let Some(part) = self.latest() {
                return &part.value;
            }
        }
        let value = self.of(process::id());
        self.mark.set();
        value
    }

    /// The part of the process of that id, which is the one that is calling.
    pub fn of(&self, id: u32) -> &T {
        loop {
            let latest = self.latest();
            let parent = match latest {
                Some(part) if part.process == id => return &part.value,
                other => other.map(|part| &part.value),
            };
            let new = Box::into_raw(Box::new(Part {
                process: id,
                value: (self.make)(parent),
            }));
            let old = latest.map_or(ptr::null_mut(), |part| ptr::from_ref(part).cast_mut());
            let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
            if self.current.compare_exchange(old, new, set, fetch).is_err() {
                // SAFETY: It has just been made, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    /// That of the process that was the last to get one: this one or its parent.
    fn latest(&self) -> Option<&Part<T>> {
        // SAFETY: NULL, or from a box in `of`, which does not free what it has stored.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_testing::child;
    use std::{sync::atomic::AtomicU32, thread, time::Duration};

    /// Counts generations.
    static GENERATIONS: PerProcess<AtomicU32> = PerProcess::new(&|parent: Option<&AtomicU32>| {
        AtomicU32::new(parent.map_or(1, |parent| parent.load(Ordering::Relaxed) + 1))
    });

    fn generation(processes: &PerProcess<AtomicU32>) -> u32 {
        processes.current().load(Ordering::Relaxed)
    }

    #[test]
    fn all_threads_share_one() {
        static SHARED: PerProcess<AtomicU32> = PerProcess::new(&|_| {
            // All threads are at it.
            thread::sleep(Duration::from_millis(20));
            AtomicU32::new(0)
        });
        let threads: Vec<_> = (0..8)
            .map(|_| thread::spawn(|| SHARED.current().fetch_add(1, Ordering::Relaxed)))
            .collect();
        let mut seen: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn each_process_has_its_own() {
        let processes = PerProcess::new(&|parent: Option<&AtomicU32>| {
            AtomicU32::new(parent.map_or(10, |parent| parent.load(Ordering::Relaxed) + 1))
        });
        let parent = processes.of(100);
        parent.store(20, Ordering::Relaxed);
        assert!(ptr::eq(parent, processes.of(100)));
        let child = processes.of(200);
        assert_eq!(child.load(Ordering::Relaxed), 21);
        assert_eq!(parent.load(Ordering::Relaxed), 20);
    }

    #[test]
    fn a_forked_child_notices() {
        assert_eq!(generation(&GENERATIONS), 1);
        let of_children = || {
            // The second call finds what the first one has made.
            let own = generation(&GENERATIONS) == 2 && generation(&GENERATIONS) == 2;
            u8::from(own && child(|| u8::from(generation(&GENERATIONS) == 3)) == 1)
        };
        assert_eq!(child(of_children), 1);
        assert_eq!(generation(&GENERATIONS), 1);
        assert_eq!(child(of_children), 1);
    }

    /// One library's call says nothing of another's.
    #[test]
    fn a_child_that_has_called_one_has_not_called_the_other() {
        static OTHER: PerProcess<u32> = PerProcess::new(&|_| process::id());
        static ONE: PerProcess<u32> = PerProcess::new(&|_| process::id());
        assert_eq!(
            (*ONE.current(), *OTHER.current()),
            (process::id(), process::id())
        );
        let of_child = || u8::from([*ONE.current(), *OTHER.current()] == [process::id(); 2]);
        assert_eq!(child(of_child), 1);
    }
}
