// SPDX-License-Identifier: GPL-2.0

//! How many sessions a user has, over all contexts.

use kernel::prelude::*;
use mp_kernel::{
    error,
    process::UserId, //
};

kernel::sync::global_lock! {
    // SAFETY: Initialised in the module's `init`, before there are contexts.
    pub(crate) unsafe(uninit) static USERS: Mutex<KVec<(UserId, u32)>> = KVec::new();
}

/// One session of a user.
pub(crate) struct Share(UserId);

impl Share {
    /// One more session of `user`, who may have so many.
    ///
    /// # Errors
    ///
    /// `EDQUOT`, `ENOMEM`.
    pub(crate) fn new(user: UserId, most: u32) -> Result<Self> {
        let mut users = USERS.lock();
        match users.iter_mut().find(|(id, _)| *id == user) {
            Some((_, count)) if *count >= most => return Err(error::quota()),
            Some((_, count)) => *count += 1,
            None if most == 0 => return Err(error::quota()),
            None => users.push((user, 1), GFP_KERNEL)?,
        }
        Ok(Self(user))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut users = USERS.lock();
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
