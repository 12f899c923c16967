// SPDX-License-Identifier: GPL-2.0-only

//! `mp_peer`, which is a [`Peer`], and the local host.

use super::{
    area::Areas,
    exported,
    give,
    give_or_null,
    lend,
    share,
    status,
    take,
    trans::{
        CLink,
        TransObject, //
    }, //
};
use crate::{
    peer::{
        Peer,
        Route, //
    },
    service,
    stats::Snapshot, //
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};
use mp_bindings::{
    mp_peer,
    mp_stats, //
};
use mp_kernel::{
    error,
    sync::RcuArc, //
};
use mp_proto::wire::PeerId;

/// The local host as a transport in C has entered it.
static SELF: RcuArc<Peer> = RcuArc::empty();

/// Whether that gave the host its id.
static NAMED: Atomic<bool> = Atomic::new(false);

/// Counters as C has them.
pub(super) fn counters(s: Snapshot) -> mp_stats {
    mp_stats {
        tx_frames: s.tx_frames,
        tx_bytes: s.tx_bytes,
        tx_errors: s.tx_errors,
        rx_frames: s.rx_frames,
        rx_bytes: s.rx_bytes,
        rx_errors: s.rx_errors,
    }
}

/// The id by which others know a peer.
fn id_of(peer: &Peer) -> PeerId {
    match peer.id() {
        PeerId::SELF => service::self_id(),
        id => id,
    }
}

/// The local host.
pub(super) fn own() -> Option<Arc<Peer>> {
    SELF.get().or_else(|| service::peer_get(PeerId::SELF))
}

/// A peer by its id, the local host included.
pub(super) fn find(id: PeerId) -> Option<Arc<Peer>> {
    match id == PeerId::SELF || id == service::self_id() {
        true => own(),
        false => service::peer_get(id),
    }
}

fn alloc(trans: &Arc<TransObject>, id: PeerId, data_len: u32, priv_len: u32) -> Result<Arc<Peer>> {
    // By the decision for IDT-ID-5 the RP gives out ids whose bus number is the index.
    let index = (id.0 >> 8) & 0xff;
    let areas = Areas::new(data_len, priv_len)?;
    let link = Arc::new(CLink::new(trans.clone()), GFP_KERNEL)?;
    let entry = trans.entry().clone();
    Peer::with_areas(id, index, entry, Route::Direct, link, Some(areas))
}

fn add(peer: &Arc<Peer>) -> Result {
    if !peer.id().is_host() || peer.areas().is_none() {
        return Err(EINVAL);
    }
    if !peer.is_connected() {
        return Err(error::not_connected());
    }
    service::peer_add(peer)
}

fn del(peer: &Arc<Peer>) -> Result {
    if peer.areas().is_none() {
        return Err(EPERM);
    }
    match service::peer_get(peer.id()) {
        Some(entered) if Arc::ptr_eq(&entered, peer) => {
            service::peer_del(peer);
            Ok(())
        }
        _ => Err(ENOENT),
    }
}

fn self_add(peer: Arc<Peer>) -> Result {
    let fresh = service::self_id() == PeerId::SELF;
    service::set_self_id(peer.id())?;
    NAMED.store(fresh, Relaxed);
    drop(SELF.replace(Some(peer)));
    Ok(())
}

fn self_del(peer: &Arc<Peer>) -> Result {
    if !SELF.get().is_some_and(|own| Arc::ptr_eq(&own, peer)) {
        return Err(ENOENT);
    }
    drop(SELF.replace(None));
    if NAMED.load(Relaxed) {
        service::clear_self_id();
    }
    Ok(())
}

exported! {
    /// `IDT-PEER-6`.
    fn mp_peer_alloc(
        trans: *mut c_void,
        _type: u32,
        id: u32,
        data_len: u32,
        priv_len: u32,
    ) -> *mut mp_peer {
        // SAFETY: The header's contract.
        let Some(trans) = (unsafe { lend::<TransObject, _>(trans) }) else {
            return ptr::null_mut();
        };
        give_or_null(alloc(&trans.into(), PeerId(id), data_len, priv_len).ok())
    }

    /// `IDT-PEER-7`.
    fn mp_peer_free(peer: *mut mp_peer) {
        // SAFETY: The header's contract.
        drop(unsafe { take::<Peer, _>(peer) });
    }

    /// `IDT-PEER-7`.
    fn mp_peer_inc(peer: *mut mp_peer) -> *mut mp_peer {
        // SAFETY: The header's contract.
        unsafe { share::<Peer, _>(peer) }
    }

    /// `IDT-PEER-7`.
    fn mp_peer_dec(peer: *mut mp_peer) {
        // SAFETY: The header's contract.
        drop(unsafe { take::<Peer, _>(peer) });
    }

    /// `IDT-PEER-8`.
    fn mp_peer_data(peer: *mut mp_peer) -> *mut c_void {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        let areas = peer.as_deref().and_then(Peer::areas);
        areas.map_or(ptr::null_mut(), |areas| areas.data.start())
    }

    /// `IDT-PEER-8`.
    fn mp_peer_priv(peer: *mut mp_peer) -> *mut c_void {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        let areas = peer.as_deref().and_then(Peer::areas);
        areas.map_or(ptr::null_mut(), |areas| areas.private.start())
    }

    /// `IDT-PEER-2`.
    fn mp_peer_data_len(peer: *const mp_peer) -> u32 {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        let areas = peer.as_deref().and_then(Peer::areas);
        areas.map_or(0, |areas| areas.data_len)
    }

    /// `IDT-PEER-2`.
    fn mp_peer_id(peer: *const mp_peer) -> u32 {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        peer.map_or(PeerId::BCAST, |peer| id_of(&peer)).0
    }

    /// `IDT-PEER-2`.
    fn mp_peer_index(peer: *const mp_peer) -> c_int {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        peer.map_or(-1, |peer| peer.index() as c_int)
    }

    /// `IDT-PEER-2`.
    fn mp_peer_type(peer: *const mp_peer) -> u32 {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        peer.map_or(0, |peer| peer.transport().id())
    }

    /// `IDT-PEER-1`.
    fn mp_peer_stats(peer: *const mp_peer, stats: *mut mp_stats) {
        // SAFETY: The header's contract.
        if let Some(peer) = unsafe { lend::<Peer, _>(peer) } {
            // SAFETY: The header's contract.
            unsafe { stats.write(counters(peer.stats().snapshot())) };
        }
    }

    /// `IDT-PEER-9`.
    fn mp_peer_add(peer: *mut mp_peer) -> c_int {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        status(peer.ok_or(EINVAL).and_then(|peer| add(&peer.into())))
    }

    /// `IDT-PEER-9`.
    fn mp_peer_del(peer: *mut mp_peer) -> c_int {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        status(peer.ok_or(EINVAL).and_then(|peer| del(&peer.into())))
    }

    /// `IDT-PEER-10`.
    fn mp_peer_next(peer: *mut mp_peer) -> *mut mp_peer {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        give_or_null(service::peer_next(peer.map(|peer| peer.index())))
    }

    /// `IDT-PEER-10`.
    fn mp_peer_get(id: u32) -> *mut mp_peer {
        give_or_null(find(PeerId(id)))
    }

    /// `IDT-PEER-11`.
    fn mp_self_add(peer: *mut mp_peer) -> c_int {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        status(peer.ok_or(EINVAL).and_then(|peer| self_add(peer.into())))
    }

    /// `IDT-PEER-11`.
    fn mp_self_del(peer: *mut mp_peer) -> c_int {
        // SAFETY: The header's contract.
        let peer = unsafe { lend::<Peer, _>(peer) };
        status(peer.ok_or(EINVAL).and_then(|peer| self_del(&peer.into())))
    }

    /// `IDT-PEER-11`.
    fn mp_self_get() -> *mut mp_peer {
        own().map_or(ptr::null_mut(), give)
    }
}
