// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who depends on a resource: it cannot be released before them (SI-GEN-12).

use crate::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The dependants of a resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users(Arc<Mutex<Count>>);

#[derive(Debug, Default)]
struct Count {
    users: usize,
    released: bool,
    /// What the resource depends on itself, until it is released.
    below: Option<User>,
}

/// A dependant; no longer, once it is dropped.
#[derive(Debug)]
pub(crate) struct User(Users);

impl Users {
    /// Those of a resource that is a dependant itself: no longer once it is released, however
    /// long somebody still holds it, or once it is gone without that.
    pub(crate) fn below(user: User) -> Self {
        let count = Count {
            below: Some(user),
            ..Count::default()
        };
        Users(Arc::new(Mutex::new(count)))
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Make the resource stay.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: it has been released.
    pub(crate) fn enter(&self) -> Result<User> {
        let mut count = self.count();
        if count.released {
            return Err(Error::IllegalParameter);
        }
        count.users += 1;
        Ok(User(self.clone()))
    }

    /// Whether there are any.
    pub(crate) fn are_there(&self) -> bool {
        self.count().users > 0
    }

    /// Release the resource if the function succeeds. Nobody can begin to depend on it meanwhile.
    ///
    /// # Errors
    /// [`Error::Busy`]: there are dependants. [`Error::IllegalParameter`]: it was released
    /// before. Those of the function.
    pub(crate) fn release(&self, release: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut count = self.count();
        if count.released {
            return Err(Error::IllegalParameter);
        }
        if count.users > 0 {
            return Err(Error::Busy);
        }
        release()?;
        count.released = true;
        let below = count.below.take();
        drop(count);
        drop(below);
        Ok(())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.count().users -= 1;
    }
}
