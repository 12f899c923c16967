// SPDX-License-Identifier: GPL-2.0-only

//! Peers: the hosts that frames can be sent to.

use crate::{
    capi::Areas,
    details::LinkDetails,
    frame::Frame,
    management,
    memory::Memory,
    service,
    stats::Stats,
    transport::TransportEntry,
    via::Via, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        rcu,
        Arc, //
    }, //
};
use mp_kernel::{
    error,
    sync::RcuArc,
    trace, //
};
use mp_proto::{
    layout::MAX_QUEUES,
    sending,
    wire::{
        Envelope,
        MsgHdr,
        PeerData,
        PeerId,
        Priority, //
    }, //
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

impl From<sending::SendError<Error>> for SendError {
    #[inline]
    fn from(e: sending::SendError<Error>) -> SendError {
        match e {
            sending::SendError::Full => SendError::Full,
            sending::SendError::Gone => SendError::Gone,
            sending::SendError::TooLarge => SendError::TooLarge,
            sending::SendError::Body(e) => SendError::Body(e),
        }
    }
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

    /// Queue a frame, whose data has been copied or is referenced by a clone
    /// when this returns. Returns the ring units it takes, which come back
    /// through [`Peer::tx_completed`], many at a time unless
    /// [`arm_tx`](Self::arm_tx) asks for them. [`kick`](Self::kick) makes it go.
    fn send(&self, head: &Envelope, frame: &Frame, queue: u16) -> Result<u32, SendError>;

    /// Publish what `send` has queued and wake the peer if it sleeps.
    fn kick(&self, queue: u16);

    /// Ask for [`Peer::tx_completed`] as soon as the peer has consumed
    /// something. `true`: it has already, do not wait.
    fn arm_tx(&self, queue: u16) -> bool;

    /// As [`arm_tx`](Self::arm_tx), for priority frames, where these do not share the
    /// room of queue 0. The completion is one of queue 0 then, without units.
    fn arm_priority(&self) -> bool {
        self.arm_tx(0)
    }

    /// The two hosts do not agree any more: ends the link's epoch, so that both start
    /// over. A link that has no epochs has nothing to end.
    fn reset(&self) {}

    /// The bridge that it leads over: peers with the same number reach each
    /// other without this host.
    fn bridge(&self) -> u32 {
        0
    }

    /// What other hosts are told of this peer (`IDT-EP-3`); its index is filled in.
    fn data(&self) -> PeerData {
        PeerData::default()
    }

    /// Names of the counters of its own; always the same.
    fn counters(&self) -> &'static [&'static CStr] {
        &[]
    }

    /// The value of counter `counters()[index]`.
    fn counter(&self, index: usize) -> u64 {
        let _ = index;
        0
    }

    /// The memory of both ends, if the link leads to memory.
    fn memory(&self) -> Option<Arc<Memory>> {
        None
    }

    /// What is known of the link itself, if it is one of its own.
    fn details(&self) -> Option<LinkDetails> {
        None
    }
}

/// A [`Link`] behind a thin pointer.
pub(crate) struct LinkRef(Arc<dyn Link>);

/// How a peer is reached.
pub(crate) enum Route {
    /// Over a link of its own.
    Direct,
    /// By way of a peer that forwards.
    Via(Arc<Via>),
}

/// A set of peers, by index.
pub(crate) type PeerSet = u64;

/// Number of the next life of a peer.
static NEXT_LIFE: Atomic<u32> = Atomic::new(1);

/// A host that can be reached (`IDT-PEER-2`).
pub struct Peer {
    id: PeerId,
    index: u32,
    life: u32,
    transport: Arc<TransportEntry>,
    stats: Stats,
    route: Route,
    link: RcuArc<LinkRef>,
    queues: u16,
    max_frame: usize,
    bridge: u64,
    /// Peers with frames that wait for room in the rings of this one.
    waiting: Atomic<PeerSet>,
    /// Peers that this one's frames have been forwarded to since they were last
    /// told, for each queue of this one.
    untold: [Atomic<PeerSet>; MAX_QUEUES as usize],
    /// What belongs to a transport in C; `None` for all others.
    areas: Option<Areas>,
}

impl Peer {
    pub(crate) fn new(
        id: PeerId,
        index: u32,
        transport: Arc<TransportEntry>,
        route: Route,
        link: Arc<dyn Link>,
    ) -> Result<Arc<Self>> {
        Self::with_areas(id, index, transport, route, link, None)
    }

    pub(crate) fn with_areas(
        id: PeerId,
        index: u32,
        transport: Arc<TransportEntry>,
        route: Route,
        link: Arc<dyn Link>,
        areas: Option<Areas>,
    ) -> Result<Arc<Self>> {
        let (queues, max_frame) = (link.queues(), link.max_frame());
        let bridge = u64::from(transport.id()) << 32 | u64::from(link.bridge());
        let cell = RcuArc::empty();
        cell.replace(Some(Arc::new(LinkRef(link), GFP_KERNEL)?));
        Ok(Arc::new(
            Self {
                id,
                index,
                life: NEXT_LIFE.fetch_add(1, Relaxed),
                transport,
                stats: Stats::default(),
                route,
                link: cell,
                queues,
                max_frame,
                bridge,
                waiting: Atomic::new(0),
                untold: [const { Atomic::new(0) }; MAX_QUEUES as usize],
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

    /// Differ from that of all other peers, also from that of a peer with the
    /// same id that has left.
    pub(crate) fn life(&self) -> u32 {
        self.life
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

    /// The bridge that it is reached over, of all transports.
    pub(crate) fn bridge(&self) -> u64 {
        self.bridge
    }

    /// The way to it, if another peer forwards; `None` if it has a link of its own.
    #[inline]
    pub(crate) fn via(&self) -> Option<&Arc<Via>> {
        match &self.route {
            Route::Direct => None,
            Route::Via(via) => Some(via),
        }
    }

    /// The peer that forwards to it; `None` if it has a link of its own.
    pub fn hop(&self) -> Option<&Arc<Peer>> {
        self.via().map(|via| via.hop())
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

    /// What other hosts are told of it.
    pub(crate) fn data(&self) -> PeerData {
        let data = match &self.areas {
            Some(areas) => areas.announced(),
            None => self.with_link(|link| link.data()).unwrap_or_default(),
        };
        PeerData {
            peer_index: self.index,
            ..data
        }
    }

    /// Run `f` on the link, if the peer is still there.
    #[inline]
    fn with_link<R>(&self, f: impl FnOnce(&dyn Link) -> R) -> Option<R> {
        self.link.load(&rcu::read_lock()).map(|link| f(&*link.0))
    }

    /// Queue a frame to this peer; see [`Link::send`].
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
        let result = self.relay(&msg.into(), frame, queue);
        match result {
            Ok(_) => {
                frame.sent();
                self.stats.sent(data);
                trace::frame_send(|| traced(&msg, data, queue, frame.priority()));
            }
            Err(SendError::Full) => {}
            Err(_) => self.stats.tx_errors.add(1),
        }
        result
    }

    /// Queue a frame with headers that are made already, and do not count it.
    #[inline]
    pub(crate) fn relay(
        &self,
        head: &Envelope,
        frame: &Frame,
        queue: u16,
    ) -> Result<u32, SendError> {
        self.with_link(|link| link.send(head, frame, queue))
            .unwrap_or(Err(SendError::Gone))
    }

    /// See [`Link::kick`].
    #[inline]
    pub fn kick(&self, queue: u16) {
        self.with_link(|link| link.kick(queue));
    }

    /// See [`Link::reset`].
    pub fn reset(&self) {
        self.with_link(|link| link.reset());
    }

    /// See [`Link::arm_tx`]. `true` also when the peer has left, so that nobody
    /// waits for it.
    pub fn arm_tx(&self, queue: u16) -> bool {
        self.with_link(|link| link.arm_tx(queue)).unwrap_or(true)
    }

    /// See [`Link::arm_priority`]. `true` also when the peer has left.
    pub fn arm_priority(&self) -> bool {
        self.with_link(|link| link.arm_priority()).unwrap_or(true)
    }

    /// As [`arm_tx`](Self::arm_tx), for frames of peer `index` that lead over
    /// this one: they go on when [`tx_completed`](Self::tx_completed) comes.
    pub(crate) fn arm_tx_for(&self, index: u32, queue: u16) -> bool {
        include(&self.waiting, index);
        self.arm_tx(queue)
    }

    /// The same for priority frames.
    pub(crate) fn arm_priority_for(&self, index: u32) -> bool {
        include(&self.waiting, index);
        self.arm_priority()
    }

    /// Note that a frame from `queue` of this peer was forwarded to peer `index`.
    pub(crate) fn forwarded_to(&self, index: u32, queue: u16) {
        if let Some(untold) = self.untold.get(usize::from(queue)) {
            include(untold, index);
        }
    }

    /// The peers that frames from `queue` were forwarded to since the last call.
    #[inline]
    pub(crate) fn take_untold(&self, queue: u16) -> PeerSet {
        match self.untold.get(usize::from(queue)) {
            Some(untold) if untold.load(Relaxed) != 0 => untold.xchg(0, Relaxed),
            _ => 0,
        }
    }

    /// See [`Link::counters`]. None when the peer has left: the names are its transport's, whose
    /// module may have gone since.
    pub fn link_counters(&self) -> &'static [&'static CStr] {
        self.with_link(|link| link.counters()).unwrap_or(&[])
    }

    /// Call `f` with the name and the value of each of the link's counters, until it fails. It does
    /// not sleep. Does nothing when the peer has left.
    pub(crate) fn for_each_counter(&self, mut f: impl FnMut(&CStr, u64) -> Result) -> Result {
        // The names are there as long as the link is.
        let each = self.with_link(|link| {
            let mut counters = link.counters().iter().enumerate();
            counters.try_for_each(|(index, name)| f(name, link.counter(index)))
        });
        each.unwrap_or(Ok(()))
    }

    /// See [`Link::counter`]. Zero when the peer has left.
    pub fn link_counter(&self, index: usize) -> u64 {
        self.with_link(|link| link.counter(index)).unwrap_or(0)
    }

    /// The memory of this host that the peer may reach, and that of the peer. `None`
    /// when the peer has left.
    pub fn memory(&self) -> Option<Arc<Memory>> {
        self.with_link(|link| link.memory()).flatten()
    }

    /// See [`Link::details`]. `None` when the peer has left.
    pub(crate) fn details(&self) -> Option<LinkDetails> {
        self.with_link(|link| link.details()).flatten()
    }

    /// Tell the functions that the peer has consumed `units` of `queue`, and
    /// let frames go on that wait for room there.
    ///
    /// Called by the transport, in softirq context.
    pub fn tx_completed(&self, queue: u16, units: u32) {
        service::for_each_function(|f| f.tx_completed(self, queue, units));
        if self.waiting.load(Relaxed) != 0 {
            management::resume(self, self.waiting.xchg(0, Full), queue);
        }
    }

    /// Cut the peer off its link; no call into the link is under way afterwards.
    pub(crate) fn disconnect(&self) {
        drop(self.link.replace(None));
    }
}

/// A frame as tracepoints tell of it.
pub(crate) fn traced(msg: &MsgHdr, data: usize, queue: u16, priority: Priority) -> trace::Frame {
    trace::Frame {
        src: msg.src.0,
        dst: msg.dst.0,
        func: msg.func,
        len: data as u32,
        queue,
        priority: priority == Priority::High,
    }
}

/// The set of one peer.
#[inline]
pub(crate) fn set_of(index: u32) -> PeerSet {
    1u64.checked_shl(index).unwrap_or(0)
}

/// Add a peer to a set.
fn include(set: &Atomic<PeerSet>, index: u32) {
    let mut old = set.load(Relaxed);
    while let Err(now) = set.cmpxchg(old, old | set_of(index), Full) {
        old = now;
    }
}

/// The indices of the peers in a set.
pub(crate) fn members(set: PeerSet) -> impl Iterator<Item = u32> {
    (0..PeerSet::BITS).filter(move |&index| set & set_of(index) != 0)
}
