// SPDX-License-Identifier: GPL-2.0-only

//! Polls, and their end.

use kernel::prelude::*;

#[kunit_tests(mp_napi)]
mod tests {
    use super::*;
    use kernel::{
        current,
        sync::{
            aref::ARef,
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc, //
        },
        task::Task,
        time::{
            delay::fsleep,
            Delta, //
        },
        workqueue, //
    };
    use mp_kernel::{
        net::napi::{
            Instance,
            Napi,
            NapiHost,
            Poll, //
        },
        new_spinlock_bh,
        sync::SpinLockBh,
        time::monotonic_ns, //
    };

    extern "C" {
        /// Of `tasks.c`.
        fn mp_kunit_has_ended(task: *const c_void) -> bool;
    }

    const MS: u64 = 1_000_000;

    /// A source that always has a packet. Of a poll that is to be the last one, arming it takes
    /// until the instance has been closed for a while.
    #[pin_data]
    struct Source {
        is_last: Atomic<bool>,
        /// Arming has begun; the instance is being closed; arming has seen that.
        begun: Atomic<bool>,
        closing: Atomic<bool>,
        seen: Atomic<bool>,
        /// The thread that watches had ended before arming had.
        was_stopped: Atomic<bool>,
        #[pin]
        watcher: SpinLockBh<Option<ARef<Task>>>,
    }

    impl Source {
        fn new() -> Result<Arc<Self>> {
            let this = pin_init!(Self {
                is_last: Atomic::new(false),
                begun: Atomic::new(false),
                closing: Atomic::new(false),
                seen: Atomic::new(false),
                was_stopped: Atomic::new(false),
                watcher <- new_spinlock_bh!(None),
            });
            Arc::pin_init(this, GFP_KERNEL)
        }

        fn is_watched(&self) -> bool {
            self.watcher.lock().is_some()
        }

        /// Whether the thread that watches has ended.
        fn has_ended(&self) -> bool {
            let watcher = self.watcher.lock();
            watcher.as_ref().is_some_and(|task| {
                // SAFETY: The task is counted.
                unsafe { mp_kunit_has_ended(task.as_ptr().cast()) }
            })
        }
    }

    impl Poll for Source {
        fn poll(&self, _napi: &Napi, _budget: u32) -> u32 {
            1
        }

        fn linger_ns(&self) -> u64 {
            1000 * MS
        }

        /// The thread that watches has it armed without another watch.
        fn arm(&self, watch_ns: u64) -> bool {
            if !self.is_last.load(Relaxed) || watch_ns == 0 {
                return false;
            }
            self.begun.store(true, Relaxed);
            // In softirq context for that long, as behind a lock that others hold.
            let seen = spin_until(3000 * MS, || self.closing.load(Relaxed));
            self.seen.store(seen, Relaxed);
            let stopped = spin_until(50 * MS, || self.has_ended());
            self.was_stopped.store(stopped, Relaxed);
            true
        }

        fn mute(&self) {
            *self.watcher.lock() = Some(ARef::from(&**current!()));
        }
    }

    /// Spin for up to `ns` nanoseconds; whether `is_over` was true.
    fn spin_until(ns: u64, is_over: impl Fn() -> bool) -> bool {
        let end = monotonic_ns() + ns;
        while monotonic_ns() < end {
            if is_over() {
                return true;
            }
            core::hint::spin_loop();
        }
        false
    }

    /// Sleep until `is_there`, for a while; whether it is.
    fn soon(is_there: impl Fn() -> bool) -> bool {
        for _ in 0..2000 {
            if is_there() {
                return true;
            }
            fsleep(Delta::from_millis(1));
        }
        false
    }

    /// A poll is over for the kernel once it has completed the NAPI. What it does then is still
    /// done with what the instance has: with the thread that watches the source, for one.
    #[test]
    fn an_instance_that_is_closed_waits_for_what_follows_a_poll() -> Result {
        let source = Source::new()?;
        let napi: Arc<Instance<Source>> = NapiHost::new()?.add(source.clone())?;
        napi.enable()?;
        let is_watched = soon(|| {
            napi.schedule();
            source.is_watched()
        });
        // Polls follow one another.
        assert!(is_watched);
        source.is_last.store(true, Relaxed);
        // The poll is for another processor.
        let (spawned, ended) = (Atomic::new(0), Arc::new(Atomic::new(0), GFP_KERNEL)?);
        let begun = soon(|| {
            let (scheduled, work) = (napi.clone(), ended.clone());
            let schedule = move || {
                scheduled.schedule();
                work.fetch_add(1, Relaxed);
            };
            if workqueue::system_unbound()
                .try_spawn(GFP_KERNEL, schedule)
                .is_ok()
            {
                spawned.fetch_add(1, Relaxed);
            }
            source.begun.load(Relaxed)
        });
        source.closing.store(true, Relaxed);
        napi.close();
        // They run code of this module.
        assert!(soon(|| ended.load(Relaxed) == spawned.load(Relaxed)));
        assert!(begun);
        assert!(source.seen.load(Relaxed));
        // The poll still needed it.
        assert!(!source.was_stopped.load(Relaxed));
        assert!(source.has_ended());
        Ok(())
    }
}
