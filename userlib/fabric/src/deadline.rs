// SPDX-License-Identifier: MIT OR Apache-2.0

//! Until when a call waits. Computed once by the caller, so that a wait that is resumed does not
//! last longer; and the one place that sleeps for descriptors.

use crate::{
    sys::{MP_DEADLINE_NEVER, MP_DEADLINE_PAST},
    Result,
};
use rustix::{
    event::{self, PollFd},
    time::{clock_gettime, ClockId, Timespec},
};
use std::{
    sync::{Condvar, MutexGuard, PoisonError},
    time::Duration,
};

/// A moment of the monotonic clock, or one that is over or never comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Deadline {
    /// The call looks and does not wait.
    pub const PAST: Deadline = Deadline(MP_DEADLINE_PAST);
    /// The call waits as long as it takes.
    pub const NEVER: Deadline = Deadline(MP_DEADLINE_NEVER);

    /// A time from now on; one beyond the clock's range is the last moment before
    /// [`NEVER`](Self::NEVER).
    pub fn after(time: Duration) -> Self {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Deadline(now().saturating_add(time).min(MP_DEADLINE_NEVER - 1))
    }

    /// Milliseconds from now on: [`PAST`](Self::PAST) for 0, [`NEVER`](Self::NEVER) for the
    /// largest number, which is how the interfaces in C write a time without an end.
    pub fn after_milliseconds(milliseconds: u32) -> Self {
        match milliseconds {
            0 => Deadline::PAST,
            u32::MAX => Deadline::NEVER,
            finite => Deadline::after(Duration::from_millis(finite.into())),
        }
    }

    /// A moment of `CLOCK_MONOTONIC`, in nanoseconds.
    pub fn at(nanoseconds: u64) -> Self {
        Deadline(nanoseconds)
    }

    /// The moment in nanoseconds, as the kernel is told it.
    pub fn nanoseconds(self) -> u64 {
        self.0
    }

    /// The time until then; nothing if it never comes.
    pub fn remaining(self) -> Option<Duration> {
        (self != Self::NEVER).then(|| Duration::from_nanos(self.0.saturating_sub(now())))
    }

    /// Sleep until one of the descriptors is ready: how many are, 0 if none is until then.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted): a signal handler has run.
    pub(crate) fn poll(self, fds: &mut [PollFd<'_>]) -> Result<usize> {
        // Too long for the type is a time that nobody waits.
        let left = self.remaining();
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        Ok(event::poll(fds, left.as_ref())?)
    }
}

impl Deadline {
    /// Sleep on a condition variable, with a lock that is released meanwhile. The caller looks again,
    /// whatever has ended the wait.
    pub fn sleep_on<'a, T>(self, changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match self.remaining() {
            Some(left) => {
                let slept = changed.wait_timeout(guard, left);
                slept.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let slept = changed.wait(guard);
                slept.unwrap_or_else(PoisonError::into_inner)
            }
        }
    }
}

fn now() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    let (seconds, nanoseconds) = (u64::try_from(tv_sec), u64::try_from(tv_nsec));
    // The clock starts at boot and never goes back.
    seconds.unwrap_or(0) * 1_000_000_000 + nanoseconds.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Mutex, thread, time::Instant};

    #[test]
    fn a_deadline_lies_ahead_by_the_time_asked_for() {
        let left = Deadline::after(Duration::from_secs(10)).remaining();
        assert!(left.is_some_and(|left| left <= Duration::from_secs(10)));
        assert!(left.is_some_and(|left| left > Duration::from_secs(9)));
        assert_eq!(Deadline::PAST.remaining(), Some(Duration::ZERO));
    }

    #[test]
    fn milliseconds_are_none_some_or_no_end() {
        assert_eq!(Deadline::after_milliseconds(0), Deadline::PAST);
        assert_eq!(Deadline::after_milliseconds(u32::MAX), Deadline::NEVER);
        let left = Deadline::after_milliseconds(10_000).remaining();
        assert!(left.is_some_and(|left| left <= Duration::from_secs(10)));
        assert!(left.is_some_and(|left| left > Duration::from_secs(9)));
        let longest = Deadline::after_milliseconds(u32::MAX - 1).remaining();
        assert!(longest.is_some_and(|left| left > Duration::from_secs(49 * 24 * 3600)));
    }

    #[test]
    fn a_sleep_ends_at_its_deadline_or_when_it_is_told() {
        let (lock, changed) = (Mutex::new(false), Condvar::new());
        let begun = Instant::now();
        let deadline = Deadline::after(Duration::from_millis(20));
        let mut guard = lock.lock().unwrap();
        while deadline.remaining() != Some(Duration::ZERO) {
            guard = deadline.sleep_on(&changed, guard);
        }
        assert!(begun.elapsed() >= Duration::from_millis(20));
        thread::scope(|scope| {
            scope.spawn(|| {
                *lock.lock().unwrap() = true;
                changed.notify_one();
            });
            while !*guard {
                guard = Deadline::NEVER.sleep_on(&changed, guard);
            }
        });
    }

    #[test]
    fn no_finite_time_becomes_never() {
        assert_ne!(Deadline::after(Duration::MAX), Deadline::NEVER);
        assert_eq!(Deadline::NEVER.remaining(), None);
    }
}
