// SPDX-License-Identifier: GPL-2.0-only

//! Function services: the users of frames.

use crate::{
    capi::FuncObject,
    frame::{
        FuncId,
        RxContext,
        RxFrame, //
    },
    peer::Peer,
    service, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A user of frames (`IDT-FN-1`).
pub trait Function: Send + Sync + 'static {
    /// A peer has arrived. Peers that were there before the function are
    /// announced while it registers (`IDT-PEER-12`). Process context.
    fn peer_add(&self, peer: &Arc<Peer>);

    /// A peer is leaving; nothing is received from it any more, and sending
    /// fails from now on. Process context.
    fn peer_del(&self, peer: &Arc<Peer>);

    /// A frame has arrived. Softirq context, under RCU.
    ///
    /// # Errors
    ///
    /// An error counts the frame as dropped (`rx_errors`).
    fn receive(&self, rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result;

    /// `peer` has consumed `units` ring units of `queue`: there is room again.
    /// Softirq context, under RCU.
    fn tx_completed(&self, peer: &Peer, queue: u16, units: u32) {
        let _ = (peer, queue, units);
    }

    /// Frames of this function to `peer` were dropped by the host that forwards them; those behind
    /// them may arrive. Softirq context, under RCU. A function that relies on all of them has the
    /// way [reset](Peer::reset).
    fn lost(&self, peer: &Peer) {
        let _ = peer;
    }
}

/// An entry of the registry.
pub(crate) struct FunctionEntry {
    pub(crate) id: FuncId,
    pub(crate) function: Arc<dyn Function>,
    /// The same as modules in C see it, if it is one of theirs.
    pub(crate) c: Option<Arc<FuncObject>>,
}

/// Keeps a function service registered.
///
/// Dropping it takes the function's peers from it and returns when no call
/// into it can start any more.
pub struct Registration {
    id: FuncId,
}

impl Registration {
    /// Register `function` under `id` and announce all present peers to it.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the id is taken, `ENOSPC` if the registry is full, `ENOMEM`.
    pub fn new(id: FuncId, function: Arc<dyn Function>) -> Result<Self> {
        Self::with(id, function, None)
    }

    /// As [`new`](Self::new), for a function that may be in C.
    pub(crate) fn with(
        id: FuncId,
        function: Arc<dyn Function>,
        c: Option<Arc<FuncObject>>,
    ) -> Result<Self> {
        let entry = FunctionEntry { id, function, c };
        service::function_add(Arc::new(entry, GFP_KERNEL)?)?;
        Ok(Self { id })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        service::function_del(self.id);
    }
}
