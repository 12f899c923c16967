// SPDX-License-Identifier: GPL-2.0-only

//! Interfaces to hosts that another one forwards to.
//!
//! The worker of [`management`](crate::management) makes one for each such host when that is
//! entered for the first time, and keeps it, as one over a bridge is kept: it is down while the
//! host is not reached in this way, also while there is a link of its own.
//!
//! An interface has memory, as others do, of which function services cut pieces for the peer.
//! But nobody reaches memory through another host: what the peer has for an arena of this host,
//! it sends, and a function service stores it ([`Memory::store`]). Both hosts have equally much.

use crate::{
    interface::{
        self,
        Info,
        Kind, //
    },
    memory::{
        Far,
        Further,
        Memory,
        Pool, //
    },
    peer::Peer,
    service::MAX_PEERS, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    str::CString,
    sync::Arc, //
};
use mp_kernel::shared_pages::SharedPages;
use mp_proto::{
    reach::ROUTED_LEN,
    wire::PeerId, //
};

/// What the peer is sent data for, over all its lives.
struct Arena(Arc<Pool>);

impl Arena {
    /// Pages for that host, none of which is taken yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(id: PeerId) -> Result<Self> {
        let pages = Arc::new(SharedPages::new(ROUTED_LEN / PAGE_SIZE)?, GFP_KERNEL)?;
        let len = pages.len() as u64;
        let name = CString::try_from_fmt(fmt!("host-{:08x}", id.0))?;
        Ok(Self(Pool::new((&name, len), pages, Further::default())?))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The interface to a host; gone in this order.
pub(crate) struct Routed {
    id: PeerId,
    interface: interface::Registration,
    arena: Arena,
}

impl Routed {
    /// The interface to that host, where no peer is yet.
    ///
    /// # Errors
    ///
    /// Those of [`interface::Registration::new`].
    fn new(id: PeerId) -> Result<Self> {
        let arena = Arena::new(id)?;
        let info = Info {
            id: interface::id_behind(id),
            name: CString::try_from_fmt(fmt!("host {:08x} behind another", id.0))?,
            kind: Kind::Routed,
            location: None,
            bridge: None,
            port: 0,
        };
        Ok(Self {
            id,
            interface: interface::Registration::new(info)?,
            arena,
        })
    }

    /// The interface to a host among `all`, which is made if there is none.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(crate) fn to(id: PeerId, all: &mut KVec<Self>) -> Result<&Self> {
        let known = all.iter().position(|routed| routed.id == id);
        if known.is_none() {
            Self::make_room(all)?;
            all.push(Self::new(id)?, GFP_KERNEL)?;
        }
        all.get(known.unwrap_or(all.len() - 1)).ok_or(EINVAL)
    }

    /// Give up an interface that leads nowhere, if there are as many as there can be hosts: the root
    /// processor may tell of any number, one after the other.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if all of them lead to a host.
    fn make_room(all: &mut KVec<Self>) -> Result {
        if all.len() >= MAX_PEERS {
            let leads_nowhere = |routed: &Self| routed.interface.interface().peer().is_none();
            let at = all.iter().position(leads_nowhere).ok_or(ENOSPC)?;
            drop(all.remove(at).map_err(|_| EINVAL)?);
        }
        Ok(())
    }

    /// See [`interface::Registration::count_reset`].
    pub(crate) fn count_reset(&self) {
        self.interface.count_reset();
    }

    /// The memory of a new life of the peer. That of the one before has ended.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn begin(&self) -> Result<Arc<Memory>> {
        Memory::begin(self.arena.0.clone(), Far::beyond(ROUTED_LEN as u64))
    }

    /// See [`interface::Registration::set_peer`].
    pub(crate) fn set_peer(&self, peer: Option<Arc<Peer>>) {
        self.interface.set_peer(peer);
    }
}
