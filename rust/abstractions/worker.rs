// SPDX-License-Identifier: GPL-2.0-only

//! A background worker that runs when kicked, or after the time it asked for.
//!
//! What the kernel crate's work items lack is an owner: a work item keeps
//! itself alive until it has run. A [`Worker`] is stopped by dropping it, and
//! its code does not run any more when that returns, so a module that drops
//! its workers can be unloaded.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h).

use core::ptr::NonNull;

use kernel::{
    alloc::Flags,
    container_of,
    prelude::*,
    sync::{
        Arc,
        LockClassKey, //
    },
    types::Opaque, //
};

/// Creates a [`Worker`] with a lock class of its own, so that workers may stop
/// those that others have created; on a [`Workqueue`] if one is given behind `in`: then the calling
/// process is charged for it.
#[macro_export]
macro_rules! new_worker {
    (in $queue:expr, $target:expr $(,)?) => {
        $crate::worker::Worker::new(
            $target,
            Some($queue),
            ::kernel::optional_name!(),
            ::kernel::static_lock_class!(),
            ::kernel::alloc::flags::GFP_KERNEL_ACCOUNT,
        )
    };
    ($target:expr $(, $name:literal)? $(,)?) => {
        $crate::worker::Worker::new(
            $target,
            None,
            ::kernel::optional_name!($($name)?),
            ::kernel::static_lock_class!(),
            ::kernel::alloc::flags::GFP_KERNEL,
        )
    };
}
pub use new_worker;

/// A workqueue for work that processes cause: what runs or waits in it takes no place in those of
/// the kernel. Its work runs on any processor, in the order in which it was kicked.
///
/// # Invariants
///
/// The pointer is to a workqueue that is this one's.
pub struct Workqueue(NonNull<c_void>);

// SAFETY: A workqueue may be used and destroyed from any thread.
unsafe impl Send for Workqueue {}
// SAFETY: As above.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// A workqueue that runs `most` of its work at a time; 0: the kernel's default.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &CStr, most: u16) -> Result<Arc<Self>> {
        // SAFETY: The name is copied.
        let queue =
            unsafe { mp_bindings::alloc_unbound_workqueue(name.as_char_ptr(), c_int::from(most)) };
        // INVARIANT: Just made.
        let queue = Self(NonNull::new(queue).ok_or(ENOMEM)?);
        Ok(Arc::new(queue, GFP_KERNEL)?)
    }
}

impl Drop for Workqueue {
    fn drop(&mut self) {
        // SAFETY: By the invariants. Workers keep their workqueue until they are stopped.
        unsafe { mp_bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// What a [`Worker`] does.
pub trait Work: Send + Sync + 'static {
    /// Whether it goes before ordinary tasks: for work that is short, and that
    /// somebody waits for.
    const URGENT: bool = false;

    /// Do what there is to do and return the time in milliseconds after
    /// which to run again at the latest; `None` waits for a kick.
    ///
    /// Process context, may sleep, never runs twice at the same time. Must not
    /// drop the worker, nor the last reference to its [`Workqueue`].
    fn run(&self) -> Option<u32>;
}

/// Runs a [`Work`] on one of the kernel's workqueues, or on another one.
///
/// # Invariants
///
/// `work` is initialised, its function is [`Worker::callback`], and it is queued on
/// [`Worker::queue`] only.
#[pin_data(PinnedDrop)]
pub struct Worker<W: Work> {
    #[pin]
    work: Opaque<mp_bindings::delayed_work>,
    target: Arc<W>,
    /// If it is none of the kernel's.
    own: Option<Arc<Workqueue>>,
}

// SAFETY: Work items may be queued and cancelled from any thread; `target` is `Send` and `Sync`.
unsafe impl<W: Work> Send for Worker<W> {}
// SAFETY: As above.
unsafe impl<W: Work> Sync for Worker<W> {}

impl<W: Work> Worker<W> {
    /// Create a worker that waits for its first kick; see [`new_worker`]. It runs on its own
    /// workqueue, or on one of the kernel's.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(
        target: Arc<W>,
        own: Option<Arc<Workqueue>>,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
        flags: Flags,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                work <- Opaque::ffi_init(|slot| {
                    let (name, class) = (name.as_char_ptr(), class.as_ptr().cast());
                    // SAFETY: `slot` is valid for writes and pinned; name and class are static.
                    unsafe {
                        mp_bindings::init_delayed_work(slot, Some(Self::callback), name, class)
                    }
                }),
                target,
                own,
            }),
            flags,
        )
    }

    /// The workqueue that it runs on, which lives at least as long.
    fn queue(&self) -> *mut c_void {
        match &self.own {
            Some(own) => own.0.as_ptr(),
            // SAFETY: No requirements.
            None => unsafe { mp_bindings::system_workqueue(W::URGENT) },
        }
    }

    /// The work it does.
    pub fn target(&self) -> &Arc<W> {
        &self.target
    }

    /// Run the work soon, once more if it is running now. Any context.
    pub fn kick(&self) {
        self.kick_in(0);
    }

    /// As [`kick`](Self::kick), but in so many milliseconds. Takes the place of
    /// a kick that has had no effect yet.
    pub fn kick_in(&self, ms: u32) {
        // SAFETY: By the type invariants the work item is initialised; the workqueue lives.
        unsafe { mp_bindings::requeue_delayed(self.queue(), self.work.get(), ms) };
    }

    /// As [`kick_in`](Self::kick_in), unless a run is queued already.
    pub fn kick_once_in(&self, ms: u32) {
        self.requeue(ms);
    }

    /// Stop the worker: it is not running any more when this returns, and
    /// kicks have no effect from now on.
    ///
    /// May sleep; must not be called by the work itself.
    pub fn stop(&self) {
        // SAFETY: By the type invariants the work item is initialised.
        unsafe { mp_bindings::disable_delayed_work_sync(self.work.get()) };
    }

    /// # Safety
    ///
    /// Called by the workqueue for the work item of a live `Worker<W>`.
    unsafe extern "C" fn callback(work: *mut mp_bindings::work_struct) {
        let dwork = container_of!(work, mp_bindings::delayed_work, work);
        // SAFETY: `dwork` is the field `work` of a worker, which lives: dropping it waits for
        // this function.
        let this = unsafe { &*container_of!(Opaque::cast_from(dwork), Self, work) };
        if let Some(ms) = this.target.run() {
            this.requeue(ms);
        }
    }

    /// Queue the next regular run, unless a kick has already queued one.
    fn requeue(&self, ms: u32) {
        // SAFETY: By the type invariants the work item is initialised; the workqueue lives.
        unsafe { mp_bindings::queue_delayed_once(self.queue(), self.work.get(), ms) };
    }
}

#[pinned_drop]
impl<W: Work> PinnedDrop for Worker<W> {
    fn drop(self: Pin<&mut Self>) {
        self.stop();
    }
}
