// SPDX-License-Identifier: GPL-2.0-only

//! How many messages to ports each user has waiting to be sent to a peer.
//!
//! A peer that stands still takes none. What waits for it has room for several users who have sent
//! as much as they can, and holds up none of the others.

use crate::{
    link::Link,
    outbox::MAX_FOR_PORTS,
    per_user::{
        OfUser,
        Own,
        PerUser, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

/// Most of one user: a quarter of all.
const MOST: usize = MAX_FOR_PORTS / 4;

/// Those of one user.
pub(crate) struct Unsent(Atomic<usize>);

impl OfUser for Unsent {
    fn of(link: &Link) -> &PerUser<Self> {
        &link.unsent
    }

    fn make() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Atomic::new(0)), GFP_KERNEL)?)
    }
}

/// Those of the user of a connection.
pub(crate) type OfSender = Own<Unsent>;

/// One of them, until it is dropped. Any context.
pub(crate) struct UnsentOne(Arc<Unsent>);

impl UnsentOne {
    /// One more, if the user may have one.
    pub(crate) fn new(unsent: &Arc<Unsent>) -> Option<Self> {
        let one = Self(unsent.clone());
        // Dropping it takes it back.
        (unsent.0.fetch_add(1, Relaxed) < MOST).then_some(one)
    }
}

impl Drop for UnsentOne {
    fn drop(&mut self) {
        self.0 .0.fetch_sub(1, Relaxed);
    }
}
