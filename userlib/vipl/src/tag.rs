// SPDX-License-Identifier: MIT OR Apache-2.0

//! Protection tags: numbers of a NIC handle that VIs and regions are associated with. They never
//! leave the process.

use crate::{lock, Error, Result};
use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicU64, Ordering},
        Mutex,
    },
};

/// Tags of this process, also of other NIC handles: one is never given twice.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A protection tag. The number is below 2^48 and not 0; a number that was never given is no
/// tag of any NIC handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ptag(pub u64);

/// The tags of a NIC handle, and by how many VIs and regions each is used.
#[derive(Debug, Default)]
pub(crate) struct Tags(Mutex<HashMap<Ptag, usize>>);

impl Tags {
    /// Make one (VI-PTAG-1).
    ///
    /// # Errors
    /// [`Error::Resource`]: there are so many, or there is no memory.
    pub(crate) fn create(&self, most: usize) -> Result<Ptag> {
        let mut tags = lock(&self.0);
        if tags.len() >= most {
            return Err(Error::Resource);
        }
        tags.try_reserve(1).map_err(|_| Error::Resource)?;
        let tag = Ptag(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        tags.insert(tag, 0);
        Ok(tag)
    }

    /// End one that nothing is associated with (VI-PTAG-3, VI-PTAG-7).
    ///
    /// # Errors
    /// [`Error::Resource`]: it is used. [`Error::InvalidParameter`]: there is none.
    pub(crate) fn destroy(&self, tag: Ptag) -> Result<()> {
        let mut tags = lock(&self.0);
        match tags.get(&tag) {
            None => Err(Error::InvalidParameter),
            Some(0) => {
                tags.remove(&tag);
                Ok(())
            }
            Some(_) => Err(Error::Resource),
        }
    }

    /// Associate something with a tag.
    ///
    /// # Errors
    /// [`Error::InvalidPtag`].
    pub(crate) fn hold(&self, tag: Ptag) -> Result<()> {
        let mut tags = lock(&self.0);
        *tags.get_mut(&tag).ok_or(Error::InvalidPtag)? += 1;
        Ok(())
    }

    /// End an association.
    pub(crate) fn release(&self, tag: Ptag) {
        if let Some(users) = lock(&self.0).get_mut(&tag) {
            *users = users.saturating_sub(1);
        }
    }

    /// Move an association (VI-PTAG-4).
    ///
    /// # Errors
    /// [`Error::InvalidPtag`]: nothing has changed.
    pub(crate) fn exchange(&self, from: Ptag, to: Ptag) -> Result<()> {
        self.hold(to)?;
        self.release(from);
        Ok(())
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VI-PTAG-1, VI-PTAG-3, VI-PTAG-4, VI-PTAG-7
    #[test]
    fn a_tag_lives_until_nothing_uses_it() {
        let (tags, others) = (Tags::default(), Tags::default());
        let [one, two] = [0; 2].map(|_| tags.create(2).unwrap());
        assert_ne!(one, two);
        assert_eq!(tags.create(2), Err(Error::Resource));
        assert_eq!(others.hold(one), Err(Error::InvalidPtag));
        assert_eq!(others.destroy(one), Err(Error::InvalidParameter));
        assert_eq!(tags.hold(Ptag(0)), Err(Error::InvalidPtag));
        tags.hold(one).unwrap();
        assert_eq!(tags.destroy(one), Err(Error::Resource));
        assert_eq!(tags.exchange(one, Ptag(0)), Err(Error::InvalidPtag));
        assert_eq!(tags.destroy(one), Err(Error::Resource));
        tags.exchange(one, two).unwrap();
        assert_eq!(tags.destroy(one), Ok(()));
        assert_eq!(tags.destroy(two), Err(Error::Resource));
        tags.release(two);
        assert_eq!(tags.destroy(two), Ok(()));
        assert_eq!(tags.destroy(two), Err(Error::InvalidParameter));
    }
}
