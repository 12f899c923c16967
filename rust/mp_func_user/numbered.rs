// SPDX-License-Identifier: GPL-2.0-only

//! Objects of a link by their numbers, which never come again.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::sync::SpinLockBh;

/// What has a number of its own.
pub(crate) trait Numbered {
    /// The number, never 0.
    fn number(&self) -> u32;
}

/// Objects in the order of their numbers.
pub(crate) struct List<T>(KVec<Arc<T>>);

impl<T: Numbered> List<T> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self(KVec::new())
    }

    fn position(&self, number: u32) -> Result<usize, usize> {
        self.0
            .binary_search_by_key(&number, |object| object.number())
    }

    /// Enter an object that is not there yet. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn enter(&mut self, object: Arc<T>) -> Result {
        self.0.reserve(1, GFP_ATOMIC)?;
        let (Ok(at) | Err(at)) = self.position(object.number());
        // There is room for it.
        let entered = self.0.insert_within_capacity(at, object);
        entered.map_err(|_| ENOMEM)
    }

    /// Remove the object of that number, if it is there.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Arc<T>> {
        let at = self.position(number).ok()?;
        self.0.remove(at).ok()
    }

    /// The object of that number.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<T>> {
        self.0.get(self.position(number).ok()?)
    }

    /// The first object behind a number.
    fn behind(&self, number: u32) -> Option<&Arc<T>> {
        self.0
            .get(self.0.partition_point(|object| object.number() <= number))
    }
}

/// Call `f` with each object, and without the lock. Those that are there all the time are met,
/// whoever comes and goes meanwhile.
pub(crate) fn for_each<T: Numbered>(list: &SpinLockBh<List<T>>, mut f: impl FnMut(&Arc<T>)) {
    let mut number = 0;
    loop {
        let next = list.lock().behind(number).cloned();
        let Some(object) = next else { break };
        number = object.number();
        f(&object);
    }
}
