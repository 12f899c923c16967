// SPDX-License-Identifier: GPL-2.0

//! How many sessions, and how many other objects, a user has over all contexts.

use kernel::prelude::*;
use mp_kernel::{
    error,
    process::UserId, //
};

kernel::sync::global_lock! {
    // SAFETY: Initialised in the module's `init`, before there are contexts.
    pub(crate) unsafe(uninit) static SESSIONS: Mutex<KVec<(UserId, u32)>> = KVec::new();
}

kernel::sync::global_lock! {
    // SAFETY: As above.
    pub(crate) unsafe(uninit) static OBJECTS: Mutex<KVec<(UserId, u32)>> = KVec::new();
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sessions.
    Session,
    /// All other objects.
    Object,
}

/// Runs `f` on what users have of a kind.
fn with_users<R>(kind: Kind, f: impl FnOnce(&mut KVec<(UserId, u32)>) -> R) -> R {
    match kind {
        Kind::Session => f(&mut SESSIONS.lock()),
        Kind::Object => f(&mut OBJECTS.lock()),
    }
}

/// One session, or other object, of a user.
pub(crate) struct Share(UserId, Kind);

impl Share {
    /// One more of that kind for `user`, who may have so many.
    ///
    /// # Errors
    ///
    /// `EDQUOT`, `ENOMEM`.
    pub(crate) fn new(user: UserId, kind: Kind, most: u32) -> Result<Self> {
        with_users(kind, |users| {
            match users.iter_mut().find(|(id, _)| *id == user) {
                Some((_, count)) if *count >= most => return Err(error::quota()),
                Some((_, count)) => *count += 1,
                None if most == 0 => return Err(error::quota()),
                None => users.push((user, 1), GFP_KERNEL)?,
            }
            Ok(Self(user, kind))
        })
    }

    fn give_back(&self, users: &mut KVec<(UserId, u32)>) {
        let Some(at) = users.iter().position(|(id, _)| *id == self.0) else {
            return;
        };
        if let Some((_, count)) = users.get_mut(at) {
            *count -= 1;
            if *count == 0 {
                drop(users.remove(at));
            }
        }
        if users.is_empty() {
            // Nobody drops what is static.
            *users = KVec::new();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        with_users(self.1, |users| self.give_back(users));
    }
}
