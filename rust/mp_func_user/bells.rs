// SPDX-License-Identifier: GPL-2.0-only

//! The ways from the connections of a peer to events and ports of this host.

use crate::sharing::Bell;
use kernel::prelude::*;
use mp_proto::sharing;

/// In the order of the connections' numbers: one is looked for whenever a message or a trigger
/// arrives. There is room for as many as there may be.
pub(crate) struct Bells(KVec<KBox<Bell>>);

impl Bells {
    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(KVec::with_capacity(sharing::CONNECTIONS, GFP_KERNEL)?))
    }

    fn position(&self, guest: u32) -> Result<usize, usize> {
        self.0.binary_search_by(|bell| bell.guest.cmp(&guest))
    }

    /// That of a connection. Any context; so below.
    pub(crate) fn get_mut(&mut self, guest: u32) -> Option<&mut Bell> {
        let at = self.position(guest).ok()?;
        self.0.get_mut(at).map(|bell| &mut **bell)
    }

    /// Enter that of a connection that has none; `false` if there are too many.
    pub(crate) fn enter(&mut self, bell: KBox<Bell>) -> bool {
        let (Ok(at) | Err(at)) = self.position(bell.guest);
        self.0.insert_within_capacity(at, bell).is_ok()
    }

    /// Take out that of a connection.
    pub(crate) fn remove(&mut self, guest: u32) -> Option<KBox<Bell>> {
        let at = self.position(guest).ok()?;
        self.0.remove(at).ok()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Bell> {
        self.0.iter().map(|bell| &**bell)
    }
}
