// SPDX-License-Identifier: GPL-2.0-only

//! Where the copies of queues run: for each user at each link, a few at a time.
//!
//! Whatever a user has copied, and whatever peer that waits for, no other user's copies wait for
//! it, nor these at another link, nor does anything else of the kernel: a [`Lane`] is a workqueue.

use crate::{
    link::Link,
    per_user::{
        OfUser,
        Own,
        PerUser, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::worker::Workqueue;

/// Most queues of a user that copy through a link at a time; the others wait for their turns.
const ACTIVE: u16 = 4;

impl OfUser for Workqueue {
    fn of(link: &Link) -> &PerUser<Self> {
        &link.lanes
    }

    fn make() -> Result<Arc<Self>> {
        Workqueue::new(c"mp_copies", ACTIVE)
    }
}

/// Where a queue runs.
pub(crate) type Lane = Own<Workqueue>;
