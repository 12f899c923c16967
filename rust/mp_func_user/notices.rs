// SPDX-License-Identifier: GPL-2.0-only

//! What has happened to connections, in order, until somebody takes it (`SI-EVT-10`).

use crate::ready::{
    self,
    Ready, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::fifo::Fifo;

/// Most notices of one object; who connects beyond that is refused.
const MAX: usize = 8192;

/// Most notices of one connection that nobody has taken: it was made, the link is back, the
/// link is down, it has ended.
const EACH: usize = 4;

/// Something has happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notice {
    /// `MP_NOTICE_*`.
    pub(crate) kind: u32,
    /// Where it came from.
    pub(crate) interface: u32,
    /// The peer there.
    pub(crate) peer: u32,
    /// The connection, by its number at the host that uses it.
    pub(crate) connection: u32,
}

/// The notices of an object.
#[pin_data]
pub(crate) struct Notices {
    ready: Arc<Ready>,
    /// Also held while the event that tells of notices changes.
    #[pin]
    queue: Mutex<Fifo<Notice>>,
}

impl Notices {
    /// None yet, of the object with these events.
    pub(crate) fn new(ready: Arc<Ready>) -> impl PinInit<Self> {
        pin_init!(Self {
            ready,
            queue <- new_mutex!(Fifo::new()),
        })
    }

    /// Make sure that there is room for all that may happen to so many connections.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if nobody takes notices, `ENOMEM`.
    pub(crate) fn reserve(&self, connections: usize) -> Result {
        let mut queue = self.queue.lock();
        let places = queue.len() + EACH * connections;
        if places > MAX {
            return Err(ENOSPC);
        }
        queue.reserve(places, GFP_KERNEL_ACCOUNT)
    }

    /// That has happened.
    pub(crate) fn push(&self, notice: Notice) {
        let mut queue = self.queue.lock();
        let down = Notice {
            kind: crate::uapi::MP_NOTICE_DOWN,
            ..notice
        };
        let is_up = notice.kind == crate::uapi::MP_NOTICE_UP;
        if is_up && queue.remove(|waiting| *waiting == down).is_some() {
            // Nobody has seen that it was down.
            if queue.is_empty() {
                self.ready.clear(ready::NOTICE);
            }
            return;
        }
        // There is room, by `reserve`.
        if queue.push(notice).is_ok() {
            self.ready.raise(ready::NOTICE);
        }
    }

    /// Wait for the next one, have `f` look at it, and take it if that succeeds.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the object is closed, `ETIMEDOUT`, `ERESTARTSYS` for a signal, or that
    /// of `f`.
    pub(crate) fn take(
        &self,
        deadline: Option<u64>,
        mut f: impl FnMut(&Notice) -> Result,
    ) -> Result {
        loop {
            self.ready.wait(ready::NOTICE, deadline, false)?;
            let Some(notice) = self.front() else { continue };
            f(&notice)?;
            // Another thread may have been faster, or what was down is up again.
            if self.pop(&notice) {
                return Ok(());
            }
        }
    }

    fn front(&self) -> Option<Notice> {
        self.queue.lock().front().copied()
    }

    /// Take a notice out, if it is the next one.
    fn pop(&self, notice: &Notice) -> bool {
        let mut queue = self.queue.lock();
        let is_next = queue.front() == Some(notice);
        if is_next {
            queue.pop();
        }
        if queue.is_empty() {
            self.ready.clear(ready::NOTICE);
        }
        is_next
    }
}
