// SPDX-License-Identifier: GPL-2.0-only

//! Objects by what they are found by: their numbers, or their names. None has that of another one.

use core::marker::PhantomData;
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};
use mp_kernel::sync::SpinLockBh;

/// What is found by a key of its own, which stays.
pub(crate) trait Keyed<K> {
    /// The key.
    fn key(&self) -> K;
}

/// Objects in the order of their keys.
pub(crate) struct List<T, K = u32> {
    objects: KVec<Arc<T>>,
    by: PhantomData<K>,
}

impl<T: Keyed<K>, K: Ord> List<T, K> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self {
            objects: KVec::new(),
            by: PhantomData,
        }
    }

    fn position(&self, key: &K) -> Result<usize, usize> {
        self.objects
            .binary_search_by(|object| object.key().cmp(key))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Make room for one object more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reserve(&mut self) -> Result {
        self.reserve_more(1, GFP_ATOMIC)
    }

    /// Make room for so many objects more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reserve_more(&mut self, count: usize, flags: Flags) -> Result {
        Ok(self.objects.reserve(count, flags)?)
    }

    /// Enter an object that is not there yet. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, unless there is [room](Self::reserve).
    pub(crate) fn enter(&mut self, object: Arc<T>) -> Result {
        self.reserve()?;
        let (Ok(at) | Err(at)) = self.position(&object.key());
        // There is room for it.
        let entered = self.objects.insert_within_capacity(at, object);
        entered.map_err(|_| ENOMEM)
    }

    /// Remove the object of that key, if it is there.
    pub(crate) fn remove(&mut self, key: &K) -> Option<Arc<T>> {
        let at = self.position(key).ok()?;
        self.objects.remove(at).ok()
    }

    /// The object of that key.
    pub(crate) fn get(&self, key: &K) -> Option<&Arc<T>> {
        self.objects.get(self.position(key).ok()?)
    }

    /// All objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.iter()
    }

    /// Those from a key on.
    pub(crate) fn from(&self, key: &K) -> &[Arc<T>] {
        let at = self.objects.partition_point(|object| object.key() < *key);
        self.objects.get(at..).unwrap_or(&[])
    }
}

/// Call `f` with each object, and without the lock. Those that are there all the time are met,
/// whoever comes and goes meanwhile.
pub(crate) fn for_each<T: Keyed<u32>>(list: &SpinLockBh<List<T>>, mut f: impl FnMut(&Arc<T>)) {
    let mut from = Some(0);
    while let Some(number) = from {
        let next = list.lock().from(&number).first().cloned();
        let Some(object) = next else { break };
        from = object.key().checked_add(1);
        f(&object);
    }
}
