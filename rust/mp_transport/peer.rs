// SPDX-License-Identifier: GPL-2.0

//! Peers: the hosts that frames can be sent to.

use crate::{
    capi::Areas,
    frame::Frame,
    service,
    stats::Stats,
    transport::TransportEntry, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use mp_kernel::{
    error,
    sync::RcuArc, //
};
use mp_proto::wire::{
    MsgHdr,
    PeerId, //
};

/// Why a frame was not sent. The caller still has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// No room in that queue now: `EAGAIN`. [`Peer::arm_tx`] tells when there is.
    Full,
    /// The peer has left: `ENOTCONN`.
    Gone,
    /// Longer than [`Peer::max_frame`]: `EMSGSIZE`.
    TooLarge,
    /// The body could not be read: its own error.
    Body(Error),
}

impl From<SendError> for Error {
    fn from(e: SendError) -> Error {
        match e {
            SendError::Full => EAGAIN,
            SendError::Gone => error::not_connected(),
            SendError::TooLarge => EMSGSIZE,
            SendError::Body(e) => e,
        }
    }
}

/// The way to one peer, implemented by its transport.
///
/// All calls may come from process or softirq context, at the same time.
pub trait Link: Send + Sync + 'static {
    /// Number of transmit queues, each with its own back-pressure; at least one.
    fn queues(&self) -> u16;

    /// Most bytes of data in one frame.
    fn max_frame(&self) -> usize;

    /// Queues a frame, whose data has been copied or is referenced by a clone
    /// when this returns. Returns the ring units it takes, which come back
    /// through [`Peer::tx_completed`], many at a time unless
    /// [`arm_tx`](Self::arm_tx) asks for them. [`kick`](Self::kick) makes it go.
    fn send(&self, msg: &MsgHdr, frame: &Frame, queue: u16) -> Result<u32, SendError>;

    /// Publishes what `send` has queued and wakes the peer if it sleeps.
    fn kick(&self, queue: u16);

    /// Asks for [`Peer::tx_completed`] as soon as the peer has consumed
    /// something. `true`: it has already, do not wait.
    fn arm_tx(&self, queue: u16) -> bool;

    /// Names of the counters of its own; always the same.
    fn counters(&self) -> &'static [&'static CStr] {
        &[]
    }

    /// The value of counter `counters()[index]`.
    fn counter(&self, index: usize) -> u64 {
        let _ = index;
        0
    }
}

/// A [`Link`] behind a thin pointer.
pub(crate) struct LinkRef(Arc<dyn Link>);

/// A host that can be reached (`IDT-PEER-2`).
pub struct Peer {
    id: PeerId,
    index: u32,
    transport: Arc<TransportEntry>,
    stats: Stats,
    link: RcuArc<LinkRef>,
    queues: u16,
    max_frame: usize,
    counters: &'static [&'static CStr],
    /// What belongs to a transport in C; `None` for all others.
    areas: Option<Areas>,
}

impl Peer {
    pub(crate) fn new(
        id: PeerId,
        index: u32,
        transport: Arc<TransportEntry>,
        link: Arc<dyn Link>,
    ) -> Result<Arc<Self>> {
        Self::with_areas(id, index, transport, link, None)
    }

    pub(crate) fn with_areas(
        id: PeerId,
        index: u32,
        transport: Arc<TransportEntry>,
        link: Arc<dyn Link>,
        areas: Option<Areas>,
    ) -> Result<Arc<Self>> {
        let (queues, max_frame, counters) = (link.queues(), link.max_frame(), link.counters());
        let cell = RcuArc::empty();
        cell.replace(Some(Arc::new(LinkRef(link), GFP_KERNEL)?));
        Ok(Arc::new(
            Self {
                id,
                index,
                transport,
                stats: Stats::default(),
                link: cell,
                queues,
                max_frame,
                counters,
                areas,
            },
            GFP_KERNEL,
        )?)
    }

    /// The id that frames are addressed by.
    #[inline]
    pub fn id(&self) -> PeerId {
        self.id
    }

    /// Small dense number of this peer on this host, for tables (`IDT-ID-5`);
    /// 0 is the root processor.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// What a transport in C has in it.
    pub(crate) fn areas(&self) -> Option<&Areas> {
        self.areas.as_ref()
    }

    /// The transport that reaches it.
    #[inline]
    pub fn transport(&self) -> &Arc<TransportEntry> {
        &self.transport
    }

    /// Its counters.
    #[inline]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Number of transmit queues.
    #[inline]
    pub fn tx_queues(&self) -> u16 {
        self.queues
    }

    /// Most bytes of data in one frame.
    #[inline]
    pub fn max_frame(&self) -> usize {
        self.max_frame
    }

    /// Whether frames can be sent to it.
    pub fn is_connected(&self) -> bool {
        self.link.load(&rcu::read_lock()).is_some()
    }

    /// Runs `f` on the link, if the peer is still there.
    #[inline]
    fn with_link<R>(&self, f: impl FnOnce(&dyn Link) -> R) -> Option<R> {
        self.link.load(&rcu::read_lock()).map(|link| f(&*link.0))
    }

    /// Queues a frame to this peer; see [`Link::send`].
    #[inline]
    pub fn send(&self, frame: &Frame, queue: u16) -> Result<u32, SendError> {
        let data = frame.body().len();
        if data > self.max_frame {
            self.stats.tx_errors.add(1);
            return Err(SendError::TooLarge);
        }
        let msg = MsgHdr {
            dst: self.id,
            src: service::self_id(),
            len: (frame.func_hdr().len() + data) as u32,
            func: frame.func().0,
        };
        let result = self
            .with_link(|link| link.send(&msg, frame, queue))
            .unwrap_or(Err(SendError::Gone));
        match result {
            Ok(_) => {
                frame.sent();
                self.stats.sent(data);
            }
            Err(SendError::Full) => {}
            Err(_) => self.stats.tx_errors.add(1),
        }
        result
    }

    /// See [`Link::kick`].
    #[inline]
    pub fn kick(&self, queue: u16) {
        self.with_link(|link| link.kick(queue));
    }

    /// See [`Link::arm_tx`]. `true` also when the peer has left, so that nobody
    /// waits for it.
    pub fn arm_tx(&self, queue: u16) -> bool {
        self.with_link(|link| link.arm_tx(queue)).unwrap_or(true)
    }

    /// See [`Link::counters`].
    pub fn link_counters(&self) -> &'static [&'static CStr] {
        self.counters
    }

    /// See [`Link::counter`]. Zero when the peer has left.
    pub fn link_counter(&self, index: usize) -> u64 {
        self.with_link(|link| link.counter(index)).unwrap_or(0)
    }

    /// Tells the functions that the peer has consumed `units` of `queue`.
    ///
    /// Called by the transport, in softirq context.
    pub fn tx_completed(&self, queue: u16, units: u32) {
        service::for_each_function(|f| f.tx_completed(self, queue, units));
    }

    /// Cuts the peer off its link; no call into the link is under way afterwards.
    pub(crate) fn disconnect(&self) {
        drop(self.link.replace(None));
    }
}
