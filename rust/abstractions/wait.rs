// SPDX-License-Identifier: GPL-2.0-only

//! Sleeping until something is the case, and telling those who poll.
//!
//! A [`WaitQueue`] belongs to whatever can become ready. Tasks sleep on it with
//! [`WaitQueue::wait_until`], holding no lock; [`WaitQueue::wake`] reaches them from
//! any context. A wait is frozen with its task, and [`Sleep`] says which signals end it early.
//!
//! Those who poll a file wait on a queue as well, the one of the file
//! ([`chardev`](crate::chardev)), and on no other: a poll may stay on the queue as long as
//! the file is open, which an object of the file, or of a peer, need not live.
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)

use core::ops::BitOr;

use kernel::{
    bindings,
    prelude::*,
    sync::LockClassKey,
    types::Opaque, //
};

/// Creates a [`WaitQueue`] initialiser with the given name and a newly-created lock class.
#[macro_export]
macro_rules! new_wait_queue {
    ($($name:literal)?) => {
        $crate::wait::WaitQueue::new(
            ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub use new_wait_queue;

/// What a file is ready for, as `poll()` and `epoll_wait()` tell it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Events(u32);

impl Events {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// There is something to take.
    pub const IN: Self = Self(mp_bindings::EPOLLIN);
    /// There is room to put something.
    pub const OUT: Self = Self(mp_bindings::EPOLLOUT);
    /// Something out of the ordinary has happened.
    pub const PRI: Self = Self(mp_bindings::EPOLLPRI);
    /// Something has failed. Always told, whether asked for or not; so the next.
    pub const ERR: Self = Self(mp_bindings::EPOLLERR);
    /// The other side has gone.
    pub const HUP: Self = Self(mp_bindings::EPOLLHUP);
    /// Any of them: whoever polls looks again.
    pub const ALL: Self = Self(u32::MAX);

    /// The bits of `EPOLLIN` and so on.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Events {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Which signals end a wait early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// All that the task does not block: the call can be made again as if it had never been. Only
    /// such a task can be stopped, traced, or frozen with its cgroup.
    Interruptible,
    /// Those that end the process: the call has begun something whose end it has to see.
    Killable,
}

impl Sleep {
    /// The state of a task that sleeps so; the freezer of system sleep need not wake it.
    fn task_state(self) -> c_int {
        let state = match self {
            Self::Interruptible => bindings::TASK_INTERRUPTIBLE,
            Self::Killable => bindings::TASK_KILLABLE,
        };
        (state | bindings::TASK_FREEZABLE) as c_int
    }
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// The condition holds.
    Woken,
    /// It did not hold when the deadline had passed.
    TimedOut,
    /// It did not hold when a signal came that ends such a wait.
    Interrupted,
}

impl Waited {
    /// The same as a result.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, or `ERESTARTSYS`: the kernel makes the call again after the signal's handler,
    /// or tells the program `EINTR`, as the handler was installed.
    pub fn ok(self) -> Result {
        match self {
            Self::Woken => Ok(()),
            Self::TimedOut => Err(ETIMEDOUT),
            Self::Interrupted => Err(ERESTARTSYS),
        }
    }
}

/// Those who wait for something.
///
/// # Examples
///
/// ```
/// use kernel::sync::{atomic::{Acquire, Atomic, Release}, Arc};
/// use mp_kernel::{new_wait_queue, time, wait::{Events, Sleep, Waited}};
///
/// let queue = Arc::pin_init(new_wait_queue!("ready"), GFP_KERNEL)?;
/// let ready = Atomic::new(false);
/// let soon = time::monotonic_ns() + 1_000_000;
/// assert_eq!(queue.wait_until(Sleep::Killable, Some(soon), || ready.load(Acquire)), Waited::TimedOut);
///
/// ready.store(true, Release);
/// queue.wake(Events::IN);
/// assert_eq!(queue.wait_until(Sleep::Killable, None, || ready.load(Acquire)), Waited::Woken);
/// # Ok::<(), Error>(())
/// ```
#[pin_data]
pub struct WaitQueue {
    #[pin]
    head: Opaque<bindings::wait_queue_head>,
}

// SAFETY: A wait queue head has a lock of its own.
unsafe impl Send for WaitQueue {}
// SAFETY: As above.
unsafe impl Sync for WaitQueue {}

impl WaitQueue {
    /// An empty queue; [`new_wait_queue!`] supplies the lock class.
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid and pinned; name and key are static.
            head <- Opaque::ffi_init(|slot| unsafe {
                bindings::__init_waitqueue_head(slot, name.as_char_ptr(), key.as_ptr())
            }),
        })
    }

    /// The queue as the kernel knows it: initialised, and in this place as long as `self`.
    pub(crate) fn as_ptr(&self) -> *mut bindings::wait_queue_head {
        self.head.get()
    }

    /// Wake all sleepers to look at their condition again, and tell those that poll for
    /// one of `events`. Any context.
    ///
    /// What the condition looks at is changed before; costs a barrier and a look if
    /// nobody waits.
    #[inline]
    pub fn wake(&self, events: Events) {
        // SAFETY: The queue is initialised.
        unsafe { mp_bindings::wait_queue_wake(self.head.get().cast(), events.0) };
    }

    /// Sleep until `condition` holds, until the monotonic clock has reached
    /// `deadline` (nanoseconds, see [`monotonic_ns`](crate::time::monotonic_ns)), or
    /// until a signal comes that ends such a sleep; process context, without a lock.
    ///
    /// The clock's own precision counts, not that of the timer tick. `condition` is
    /// evaluated by a task that is about to sleep: it must not sleep itself, but may
    /// take spin locks. It has the last word: it is evaluated once more at the end.
    pub fn wait_until(
        &self,
        sleep: Sleep,
        deadline: Option<u64>,
        mut condition: impl FnMut() -> bool,
    ) -> Waited {
        if condition() {
            return Waited::Woken;
        }
        let entry = Entry::new(self);
        wait(core::slice::from_ref(&entry), sleep, deadline, condition)
    }
}

/// As [`WaitQueue::wait_until`], on several queues at the same time: `condition` looks at what is
/// changed before any of them is woken.
///
/// # Errors
///
/// `ENOMEM`.
pub fn wait_until_any<'a>(
    queues: impl ExactSizeIterator<Item = &'a WaitQueue>,
    sleep: Sleep,
    deadline: Option<u64>,
    mut condition: impl FnMut() -> bool,
) -> Result<Waited> {
    if condition() {
        return Ok(Waited::Woken);
    }
    // As many as a process asks for.
    let mut entries = KVVec::with_capacity(queues.len(), GFP_KERNEL_ACCOUNT)?;
    for queue in queues {
        entries.push(Entry::new(queue), GFP_KERNEL_ACCOUNT)?;
    }
    Ok(wait(&entries, sleep, deadline, condition))
}

/// The calling task on a queue.
struct Entry<'a> {
    queue: &'a WaitQueue,
    raw: Opaque<bindings::wait_queue_entry>,
}

impl<'a> Entry<'a> {
    /// Not on the queue yet.
    fn new(queue: &'a WaitQueue) -> Self {
        Self {
            queue,
            raw: Opaque::uninit(),
        }
    }

    /// Enter the task; whether a signal is there that ends the sleep, and it is not entered.
    fn prepare(&self, sleep: Sleep) -> bool {
        // SAFETY: The queue is initialised, and [`wait`], the only caller, has initialised the
        // entry and takes it out before it goes.
        let ret = unsafe {
            bindings::prepare_to_wait_event(self.queue.as_ptr(), self.raw.get(), sleep.task_state())
        };
        ret != 0
    }
}

/// See [`WaitQueue::wait_until`].
///
/// Takes the entries by reference: the queues refer to them, which stay in place until they have
/// been taken out again.
fn wait(
    entries: &[Entry<'_>],
    sleep: Sleep,
    deadline: Option<u64>,
    mut condition: impl FnMut() -> bool,
) -> Waited {
    for entry in entries {
        // SAFETY: `raw` is valid for writes.
        unsafe { bindings::init_wait_entry(entry.raw.get(), 0) };
    }
    let mut passed = false;
    let waited = loop {
        // From here on a wake-up is not missed: the task is on the queues, in the state of a
        // sleeper, and a waker that it misses has changed what `condition` looks at.
        let interrupted = entries
            .iter()
            .fold(false, |any, entry| entry.prepare(sleep) | any);
        if condition() {
            break Waited::Woken;
        }
        if interrupted {
            break Waited::Interrupted;
        }
        if passed {
            break Waited::TimedOut;
        }
        passed = schedule(deadline);
    };
    for entry in entries {
        // SAFETY: Initialised above; off the queue or on it, and off it afterwards.
        unsafe { bindings::finish_wait(entry.queue.as_ptr(), entry.raw.get()) };
    }
    waited
}

/// Sleep until somebody wakes the task, which is in the state of a sleeper; whether
/// the deadline has passed.
fn schedule(deadline: Option<u64>) -> bool {
    // A deadline that does not fit is centuries away.
    let time = deadline.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
    let mut time = time.filter(|&at| at != i64::MAX);
    let expires = time
        .as_mut()
        .map_or(core::ptr::null_mut(), core::ptr::from_mut);
    // SAFETY: Null or a time; this is process context, and the caller holds nothing that
    // forbids to sleep.
    let ret = unsafe {
        mp_bindings::schedule_hrtimeout_range(
            expires.cast(),
            0,
            mp_bindings::hrtimer_mode_HRTIMER_MODE_ABS,
        )
    };
    ret == 0
}
