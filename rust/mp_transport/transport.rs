// SPDX-License-Identifier: GPL-2.0-only

//! Transport services: the ways that frames take to peers.

use crate::{
    peer::{
        Link,
        Peer,
        Route, //
    },
    service,
    stats::{
        Snapshot,
        Stats, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    }, //
};
use mp_proto::wire::{
    PeerData,
    PeerId, //
};

/// What a transport does about peers that the root processor announces and does not
/// forward to: they share a bridge with this host (`IDT-TR-2`, `IDT-PEER-13`).
///
/// Process context, one call at a time.
pub(crate) trait Announcements: Send + Sync {
    /// Peer `id` is there.
    fn peer_add(&self, id: PeerId, data: &PeerData);

    /// It has left.
    fn peer_del(&self, id: PeerId);
}

/// An entry of the transport registry (`IDT-TR-1`).
#[pin_data]
pub struct TransportEntry {
    id: u32,
    /// A copy: who reads it may do so after the transport's module has gone.
    name: CString,
    /// Counters of the peers that have left.
    retired: Stats,
    /// Whether it is being unloaded (`IDT-PEER-5`).
    unloading: Atomic<bool>,
    /// Who wants to hear of announcements.
    #[pin]
    listener: Mutex<Option<Arc<dyn Announcements>>>,
}

impl TransportEntry {
    pub(crate) fn new(id: u32, name: &CStr) -> Result<Arc<Self>> {
        let name = CString::try_from(name)?;
        Arc::pin_init(
            pin_init!(Self {
                id,
                name,
                retired: Stats::default(),
                unloading: Atomic::new(false),
                listener <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Tell `listener` of announcements; no call of the one before is under way
    /// when this returns.
    pub(crate) fn listen(&self, listener: Option<Arc<dyn Announcements>>) {
        *self.listener.lock() = listener;
    }

    /// Call `f` with who listens, if anybody does.
    pub(crate) fn announce(&self, f: impl FnOnce(&dyn Announcements)) {
        if let Some(listener) = &*self.listener.lock() {
            f(&**listener);
        }
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its name, e.g. `ntb`.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// Counters over all its peers, also those that have left.
    pub fn stats(&self) -> Snapshot {
        let sum = Stats::default();
        sum.absorb(self.retired.snapshot());
        service::for_each_peer(|peer| {
            if peer.transport().id == self.id {
                sum.absorb(peer.stats().snapshot());
            }
        });
        sum.snapshot()
    }

    /// Whether it is being unloaded: its peers need not be told that the others leave.
    pub(crate) fn is_unloading(&self) -> bool {
        self.unloading.load(Relaxed)
    }

    pub(crate) fn retire(&self, peer: &Peer) {
        self.retired.absorb(peer.stats().snapshot());
    }
}

/// Keeps a transport service registered (`IDT-TR-3`).
///
/// Its peers, as [`PeerRegistration`]s, refer to it and hence go first (`IDT-TR-4`).
pub struct Registration {
    entry: Arc<TransportEntry>,
}

impl Registration {
    /// Register a transport.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the id is taken, `ENOSPC` if the registry is full, `ENOMEM`.
    pub fn new(id: u32, name: &CStr) -> Result<Self> {
        let entry = TransportEntry::new(id, name)?;
        service::transport_add(&entry)?;
        Ok(Self { entry })
    }

    /// The registry entry.
    pub(crate) fn entry(&self) -> &Arc<TransportEntry> {
        &self.entry
    }

    /// All peers of this transport are about to be removed: from now on they are
    /// not told of each other's leaving (`IDT-PEER-5`).
    pub fn unload(&self) {
        self.entry.unloading.store(true, Relaxed);
    }

    /// Enter a peer that this transport reaches and tell all functions.
    /// Process context.
    ///
    /// # Errors
    ///
    /// `EEXIST` if a peer of that id or index exists (`IDT-PEER-9`), `ERANGE`
    /// for an index beyond the table, `ENOMEM`.
    pub fn add_peer(
        &self,
        id: PeerId,
        index: u32,
        link: Arc<dyn Link>,
    ) -> Result<PeerRegistration> {
        let peer = Peer::new(id, index, self.entry.clone(), Route::Direct, link)?;
        service::peer_add(&peer)?;
        Ok(PeerRegistration { peer })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        service::transport_del(&self.entry);
    }
}

/// Keeps a peer in the registry.
///
/// Dropping it (in process context) tells the functions and returns when no
/// call into the peer's link is under way or can start.
pub struct PeerRegistration {
    peer: Arc<Peer>,
}

impl PeerRegistration {
    /// The peer.
    #[inline]
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }
}

impl Drop for PeerRegistration {
    fn drop(&mut self) {
        service::peer_del(&self.peer);
    }
}
