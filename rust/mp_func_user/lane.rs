// SPDX-License-Identifier: GPL-2.0-only

//! Where the copies of queues run: for each user at each link, a few at a time.
//!
//! Whatever a user has copied, and whatever peer that waits for, no other user's copies wait for
//! it, nor these at another link, nor does anything else of the kernel: a [`Lane`] is a workqueue.

use crate::link::Link;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    process::Payer,
    worker::Workqueue, //
};

/// Most queues of a user that copy through a link at a time; the others wait for their turns.
const ACTIVE: u16 = 4;

/// The workqueue of a user.
struct Entry {
    payer: Payer,
    workqueue: Arc<Workqueue>,
    /// Queues that use it.
    queues: usize,
}

/// The lanes of a link that have queues.
#[pin_data]
pub(crate) struct Lanes {
    #[pin]
    all: Mutex<KVec<Entry>>,
}

impl Lanes {
    /// None.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            all <- new_mutex!(KVec::new()),
        })
    }

    fn make() -> Result<Arc<Self>> {
        Workqueue::new(c"mp_copies", ACTIVE)
    }
}

/// Where a queue runs.
pub(crate) struct Lane {
    link: Arc<Link>,
    payer: Payer,
    workqueue: Arc<Workqueue>,
}

impl Lane {
    /// For a queue of that link, of a process for which that one answers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(link: Arc<Link>, payer: Payer) -> Result<Self> {
        let workqueue = link.lanes.enter(payer)?;
        Ok(Self {
            link,
            payer,
            workqueue,
        })
    }

    /// The link.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// What runs its queues.
    pub(crate) fn workqueue(&self) -> &Arc<Workqueue> {
        &self.workqueue
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.link.lanes.leave(self.payer);
    }
}
