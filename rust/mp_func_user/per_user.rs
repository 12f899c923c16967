// SPDX-License-Identifier: GPL-2.0-only

//! What each user has of its own at a link, as long as an object of the user needs it.

use crate::link::Link;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::process::Payer;

/// What one user has.
struct Entry<T> {
    payer: Payer,
    value: Arc<T>,
    /// Objects that need it.
    uses: usize,
}

/// What all users have of a kind at one link.
#[pin_data]
pub(crate) struct PerUser<T> {
    #[pin]
    all: Mutex<KVec<Entry<T>>>,
}

impl<T> PerUser<T> {
    /// Nothing.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            all <- new_mutex!(KVec::new()),
        })
    }

    /// That of a user, which `make` makes if there is none, for one object more.
    fn enter(&self, payer: Payer, make: impl FnOnce() -> Result<Arc<T>>) -> Result<Arc<T>> {
        let mut all = self.all.lock();
        if let Some(known) = all.iter_mut().find(|entry| entry.payer == payer) {
            known.uses += 1;
            return Ok(known.value.clone());
        }
        let value = make()?;
        let entry = Entry {
            payer,
            value: value.clone(),
            uses: 1,
        };
        all.push(entry, GFP_KERNEL)?;
        Ok(value)
    }

    /// One object of a user less.
    fn leave(&self, payer: Payer) {
        let gone = {
            let mut all = self.all.lock();
            let Some(at) = all.iter().position(|entry| entry.payer == payer) else {
                return;
            };
            if let Some(known) = all.get_mut(at) {
                known.uses -= 1;
                if known.uses != 0 {
                    return;
                }
            }
            all.remove(at).ok()
        };
        drop(gone);
    }
}

/// A kind of what users have.
pub(crate) trait OfUser: Sized {
    /// Where it is.
    fn of(link: &Link) -> &PerUser<Self>;

    /// What a user has first.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn make() -> Result<Arc<Self>>;
}

/// That of a user, for one of the user's objects.
pub(crate) struct Own<T: OfUser> {
    link: Arc<Link>,
    payer: Payer,
    value: Arc<T>,
}

impl<T: OfUser> Own<T> {
    /// For an object at that link, of a process for which that one answers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(link: Arc<Link>, payer: Payer) -> Result<Self> {
        let value = T::of(&link).enter(payer, T::make)?;
        Ok(Self { link, payer, value })
    }

    /// The link.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// What it is.
    pub(crate) fn value(&self) -> &Arc<T> {
        &self.value
    }
}

impl<T: OfUser> Drop for Own<T> {
    fn drop(&mut self) {
        T::of(&self.link).leave(self.payer);
    }
}
