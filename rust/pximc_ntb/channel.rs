// SPDX-License-Identifier: GPL-2.0-only

//! The data path of one link in one epoch: its rings, filled by
//! [`Link::send`] and emptied by NAPI polls.
//!
//! A channel is made when the link comes up and dropped when it goes down; it
//! is never reused. It touches the peer's memory and the memory the peer
//! writes only through [`mp_proto::ring`], which checks everything it reads. What
//! halves of rings do under their locks is [`mp_proto::sending`]'s and
//! [`mp_proto::receiving`]'s.

#[path = "channel/receiving.rs"]
mod receiving;
#[path = "channel/sending.rs"]
mod sending;
#[path = "channel/side.rs"]
mod side;
#[path = "channel/stats.rs"]
mod stats;

use self::{
    receiving::Delivery,
    side::On,
    stats::Counters, //
};
use crate::{
    bell::Bell,
    dma::{
        self,
        Copies,
        Engine, //
    },
    kept::Keeper,
    look::{
        self,
        LookTimer, //
    },
    memory::{
        LocalMemory,
        RemoteMemory, //
    },
    reassembly::Assembly, //
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
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_kernel::{
    bytes::{
        self,
        SharedBytes, //
    },
    error,
    net::napi::Napi,
    new_spinlock_bh,
    sync::{
        in_place,
        RcuArc,
        SpinLockBh, //
    },
    time::monotonic_ns as now, //
};
use mp_proto::{
    layout::{
        Layout,
        CONTROL_RING, //
    },
    receiving::{
        Kept,
        ReceivingHalf,
        RX_HELD, //
    },
    ring::{
        Corrupt,
        Place,
        Ringing, //
    },
    sending::SendingHalf,
    wire::{
        Envelope,
        PeerData,
        Priority,
        Tag, //
    }, //
};
use mp_transport::{
    frame::{
        Frame,
        FrameBody,
        FUNC_HDR_MAX, //
    },
    kept::{
        Anchor,
        Spot, //
    },
    peer::{
        Peer,
        SendError, //
    }, //
};

/// Most data bytes of a frame: a 64 KiB segment with all its headers.
pub(crate) const MAX_FRAME: usize = 128 << 10;

/// Longest headers of a frame, all together.
pub(crate) const HDR_MAX: usize = Envelope::MAX + FUNC_HDR_MAX;

/// The channel works.
const OPEN: u32 = 0;
/// The epoch is over.
const CLOSED: u32 = 1;
/// The peer wrote something impossible.
const FAULTY: u32 = 2;

/// The sending half of a ring.
type Tx = SendingHalf<Frame, Copies>;

/// The receiving half of a ring.
type Rx = ReceivingHalf<Assembly, KVec<Option<Kept<Arc<Spot>>>>>;

/// One ring in either direction.
#[pin_data]
struct Ring {
    #[pin]
    tx: SpinLockBh<Tx>,
    #[pin]
    rx: SpinLockBh<Rx>,
}

/// The rings of a link, from link-up to link-down.
pub(crate) struct Channel {
    inb: LocalMemory,
    out: RemoteMemory,
    bell: Bell,
    rings: KVec<Pin<KBox<Ring>>>,
    /// Whether it works: one of the constants below.
    state: Atomic<u32>,
    engine: Arc<Engine>,
    keeper: Arc<Keeper>,
    anchor: Arc<Anchor>,
    counters: Counters,
    /// The second looks, by queue, while there are pollers. They refer to the channel.
    looks: RcuArc<KVec<LookTimer>>,
}

/// The tags of an epoch: of the words this side writes and of those it reads.
#[derive(Clone, Copy)]
pub(crate) struct Tags {
    pub(crate) tx: Tag,
    pub(crate) rx: Tag,
}

impl Channel {
    /// Build the channel of a new epoch. `ours` is the layout of the inbound
    /// memory `inb`, `theirs` that of the peer's, seen through `out`; `ringing` is
    /// that of the version that both speak.
    ///
    /// # Errors
    ///
    /// `EPROTO` for a layout that does not work, `ENOMEM`.
    #[allow(clippy::too_many_arguments)]
    #[inline(never)]
    pub(crate) fn new(
        inb: LocalMemory,
        out: RemoteMemory,
        bell: Bell,
        engine: Arc<Engine>,
        ours: &Layout,
        theirs: &Layout,
        tags: Tags,
        ringing: Ringing,
    ) -> Result<Self> {
        let queues = ours.queues.min(theirs.queues);
        let mut rings = KVec::new();
        for ring in CONTROL_RING..=queues {
            let tx = theirs.ring(ring).ok_or(error::protocol())?;
            let rx = ours.ring(ring).ok_or(error::protocol())?;
            let urgent = ring == CONTROL_RING;
            let copies = match urgent {
                // What is urgent is short.
                true => None,
                false => engine.copies(queue_of(ring))?,
            };
            let ring = Ring::new(tx, rx, tags, ringing, urgent, copies)?;
            rings.push(ring, GFP_KERNEL)?;
        }
        let keeper = Arc::new(engine.keeper(&inb, rings.len())?, GFP_KERNEL)?;
        Ok(Self {
            inb,
            out,
            bell,
            rings,
            state: Atomic::new(OPEN),
            engine,
            anchor: Anchor::new(keeper.clone())?,
            keeper,
            counters: Counters::default(),
            looks: RcuArc::empty(),
        })
    }

    /// Set the second looks, or take them away: none of them runs any more when this
    /// returns. Sleeps.
    pub(crate) fn set_looks(&self, looks: Option<Arc<KVec<LookTimer>>>) {
        drop(self.looks.replace(looks));
    }

    /// A side of ring `number` sleeps from now on: there is a second look, once a processor that is
    /// idle has watched the ring for `watch_ns` nanoseconds.
    #[inline]
    fn follow(&self, number: u32, watch_ns: u64) {
        let guard = rcu::read_lock();
        let looks = self.looks.load(&guard);
        if let Some(look) = looks
            .as_ref()
            .and_then(|l| l.get(usize::from(queue_of(number))))
        {
            look::asleep(look, watch_ns);
        }
    }

    /// A heartbeat: has all queues polled, those that are overdue after `grace` nanoseconds.
    pub(crate) fn watch_sleep(&self, grace: u64) {
        let guard = rcu::read_lock();
        for look in self
            .looks
            .load(&guard)
            .iter()
            .flat_map(|looks| looks.iter())
        {
            look::heartbeat(look, grace);
        }
    }

    /// Whether a side of a queue sleeps although the peer has done what it waits for.
    pub(crate) fn is_overdue(&self, queue: u16) -> bool {
        let is_overdue = |ring: &Pin<KBox<Ring>>| {
            let has_data = ring.rx.lock().is_overdue(&self.inb);
            has_data || ring.tx.lock().is_overdue(&self.inb)
        };
        let mut rings = (0..).zip(&self.rings);
        self.is_open() && rings.any(|(number, ring)| queue_of(number) == queue && is_overdue(ring))
    }

    /// A side has slept for up to so many microseconds too long: until the heartbeat if `late`,
    /// else until the second look.
    pub(crate) fn count_overdue(&self, late: bool, us: u64) {
        let Counters {
            crossed_wakeups,
            late_wakeups,
            wakeup_delay_us,
            ..
        } = &self.counters;
        let wakeups = if late { late_wakeups } else { crossed_wakeups };
        wakeups.add(1);
        wakeup_delay_us.add(us);
    }

    /// What other hosts are told of the peer: where its memory is for this host
    /// (`IDT-EP-3`).
    pub(crate) fn peer_data(&self) -> PeerData {
        PeerData {
            inb_base: self.out.0.phys_addr(),
            ..PeerData::default()
        }
    }

    /// The engine that copies into the peer's memory.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Number of data rings.
    pub(crate) fn queues(&self) -> u16 {
        self.rings.len().saturating_sub(1) as u16
    }

    /// Write all indices again: one that was lost on the way, before the peer saw
    /// any, would stop its ring for good.
    pub(crate) fn repeat_indices(&self) {
        for ring in &self.rings {
            // The words lie in the peer's status page, or no channel had been made.
            let _ = ring.tx.lock().repeat(&self.out);
            let _ = ring.rx.lock().repeat(&self.out);
        }
    }

    /// End the traffic: frames are refused from now on, none are received, and
    /// those that wait have failed when this returns. Those that functions keep
    /// are cut off their data. Sleeps.
    pub(crate) fn close(&self) {
        self.state.store(CLOSED, Relaxed);
        self.anchor.close();
        self.engine.stop();
        self.engine.abandon_inward();
        for ring in &self.rings {
            // Who receives now sees the end before the next access to the peer's memory.
            drop(ring.rx.lock());
            ring.tx.lock().close();
        }
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.state.load(Relaxed) == OPEN
    }

    /// Whether the peer wrote something impossible: the link has to be reset.
    pub(crate) fn is_faulty(&self) -> bool {
        self.state.load(Relaxed) == FAULTY
    }

    /// Reset the link because the layers above do not agree any more.
    pub(crate) fn give_up(&self) {
        let _ = self.state.cmpxchg(OPEN, FAULTY, Full);
    }

    fn fail(&self, cause: Corrupt) {
        if self.state.cmpxchg(OPEN, FAULTY, Full).is_ok() {
            pr_warn!("peer wrote an impossible value into a ring: {:?}\n", cause);
        }
    }

    /// A poll begins.
    pub(crate) fn count_poll(&self) {
        self.counters.polls.add(1);
    }

    /// Reset the link for a reason of this host.
    fn break_off(&self, cause: &str) {
        if self.state.cmpxchg(OPEN, FAULTY, Full).is_ok() {
            pr_warn!("{}\n", cause);
        }
    }

    /// The ring of data queue `queue`, or the control ring for priority frames.
    fn ring_for(&self, queue: u16, priority: Priority) -> Option<(u32, Pin<&Ring>)> {
        let number = match priority {
            Priority::High => CONTROL_RING,
            Priority::Bulk => u32::from(queue) + 1,
        };
        let ring = self.rings.get(number as usize)?;
        Some((number, ring.as_ref()))
    }

    /// What calls of the halves of ring `number` are made for.
    #[inline]
    fn on(&self, number: u32) -> On<'_> {
        On {
            channel: self,
            number,
            watch_ns: 0,
        }
    }

    /// Wake the peer's poller of ring `number`.
    fn ring_bell(&self, number: u32) {
        self.counters.doorbells.add(1);
        self.bell.ring(queue_of(number));
    }

    /// See [`Link::send`](mp_transport::peer::Link::send).
    pub(crate) fn send(
        &self,
        head: &Envelope,
        frame: &Frame,
        queue: u16,
    ) -> Result<u32, SendError> {
        let Some((number, ring)) = self.ring_for(queue, frame.priority()) else {
            return Err(SendError::Gone);
        };
        let sent = ring.tx.lock().send(&self.on(number), head, frame);
        sent.map_err(SendError::from)
    }

    /// See [`Link::kick`](mp_transport::peer::Link::kick).
    pub(crate) fn kick(&self, queue: u16) {
        if let Some((number, ring)) = self.ring_for(queue, Priority::Bulk) {
            ring.tx.lock().publish(&self.on(number));
        }
    }

    /// Ask for a report as soon as the peer has consumed something. The first
    /// result is whether it has already, the second whether a poll would report it.
    pub(crate) fn arm_tx(&self, queue: u16) -> (bool, bool) {
        let Some((number, ring)) = self.ring_for(queue, Priority::Bulk) else {
            return (true, false);
        };
        let room = ring.tx.lock().await_room(&self.on(number));
        (room.now, room.has_report)
    }

    /// As [`arm_tx`](Self::arm_tx), for the control ring: whether there is room again.
    pub(crate) fn arm_priority(&self) -> bool {
        let Some(ring) = self.rings.get(CONTROL_RING as usize) else {
            return true;
        };
        ring.tx.lock().await_room(&self.on(CONTROL_RING)).now
    }

    /// Stop the engine if it has not reported a record in time. Sleeps.
    pub(crate) fn watch_engine(&self) {
        let is_late = |ring: &Pin<KBox<Ring>>| {
            let tx = ring.tx.lock();
            tx.copies().is_some_and(Copies::is_late)
        };
        if self.engine.is_there() && (self.rings.iter().any(is_late) || self.engine.is_late()) {
            self.engine.give_up();
        }
    }

    /// Let go of all frames that have been sent so far, without losing them, so
    /// that their owners' code may vanish. Sleeps.
    pub(crate) fn let_go(&self) {
        for ring in &self.rings {
            if ring.tx.lock().has_partial() && self.detach(ring).is_err() {
                self.break_off("no memory for the rest of a frame whose sender has gone");
            }
        }
        let start = now();
        while self.copies_since(start) {
            if now() - start > dma::TIMEOUT {
                self.engine.give_up();
            }
            fsleep(Delta::from_millis(1));
        }
    }

    /// Move the rest of a frame that is being sent to memory of its own. A frame
    /// for which there is none has failed.
    fn detach(&self, ring: &Pin<KBox<Ring>>) -> Result {
        let mut data = Some(KVVec::with_capacity(MAX_FRAME, GFP_KERNEL));
        let mut tx = ring.tx.lock();
        // What is not needed is freed without the lock.
        tx.detach(|frame| detached(frame, data.take().ok_or(ENOMEM)??))
    }

    /// Whether the engine copies records it got at or before `time`.
    fn copies_since(&self, time: u64) -> bool {
        let copies = |(number, ring): (u32, &Pin<KBox<Ring>>)| {
            let tx = &mut *ring.tx.lock();
            tx.settle(&self.on(number));
            tx.copies().is_some_and(|c| c.has_since(time))
        };
        (0..).zip(&self.rings).any(copies)
    }

    /// Report what the peer has consumed.
    pub(crate) fn report_completions(&self, peer: &Peer, number: u32) {
        let Some(ring) = self.rings.get(number as usize) else {
            return;
        };
        let units = ring.tx.lock().completions(&self.on(number));
        if let Some(units) = units {
            peer.tx_completed(queue_of(number), units);
        }
    }

    /// Receive up to `budget` frames from a ring; what of it was used.
    pub(crate) fn receive(&self, napi: &Napi, peer: &Arc<Peer>, number: u32, budget: u32) -> u32 {
        let Some(ring) = self.rings.get(number as usize) else {
            return 0;
        };
        let upper = Delivery {
            channel: self,
            number,
            napi,
            peer,
        };
        ring.rx.lock().receive(&self.on(number), &upper, budget)
    }

    /// A heartbeat: what has been kept since the last one is moved out of the rings. Polls may
    /// have the lock between any two records.
    pub(crate) fn age_kept(&self) {
        for (number, ring) in (0..).zip(&self.rings) {
            while ring.rx.lock().age(&self.on(number)) {}
        }
    }

    /// End the copies of kept frames that the engine has reported.
    #[inline]
    pub(crate) fn finish_copies(&self) {
        self.engine.finish_inward(&self.inb);
    }

    /// Ask for a doorbell with the next record; `true` if there is one now. A processor
    /// that is idle watches the ring for `watch_ns` nanoseconds.
    pub(crate) fn arm_data(&self, number: u32, watch_ns: u64) -> bool {
        let on = On {
            watch_ns,
            ..self.on(number)
        };
        let ring = self.rings.get(number as usize);
        ring.is_some_and(|ring| ring.rx.lock().arm(&on))
    }

    /// Ask for no doorbell.
    pub(crate) fn mute(&self, number: u32) {
        if let Some(ring) = self.rings.get(number as usize) {
            ring.rx.lock().mute(&self.on(number));
        }
    }

    /// Whether the peer has published something new that can be received. `false` while a poll of
    /// the ring is under way, which looks itself: with preemption disabled this must not wait for it.
    pub(crate) fn is_ready(&self, number: u32) -> bool {
        let ring = self.rings.get(number as usize).filter(|_| self.is_open());
        let rx = ring.and_then(|ring| ring.rx.try_lock());
        rx.is_some_and(|rx| rx.is_ready(&self.inb))
    }
}

impl Ring {
    fn new(
        tx: Place,
        rx: Place,
        tags: Tags,
        ringing: Ringing,
        urgent: bool,
        copies: Option<Copies>,
    ) -> Result<Pin<KBox<Self>>> {
        let Tags {
            tx: own,
            rx: theirs,
        } = tags;
        let assembly = Assembly::new(rx.size)?;
        let tx = tx.check().map_err(|_| error::protocol())?;
        let rx = rx.check().map_err(|_| error::protocol())?;
        let mut places = KVec::with_capacity(RX_HELD, GFP_KERNEL)?;
        for _ in 0..RX_HELD {
            places.push(None, GFP_KERNEL)?;
        }
        let tx = move || Tx::new(tx, own, theirs, ringing, urgent, copies);
        let rx = move || Rx::new(rx, own, theirs, ringing, urgent, assembly, places);
        KBox::pin_init(
            pin_init!(Self {
                tx <- new_spinlock_bh!(in_place(tx)),
                rx <- new_spinlock_bh!(in_place(rx)),
            }),
            GFP_KERNEL,
        )
    }
}

/// Data that has been copied from a frame.
struct Detached(KVVec<u8>);

impl FrameBody for Detached {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        f(self.0.as_slice().into())
    }

    fn complete(&mut self, _status: Result) {}
}

/// A frame like `frame`, with its data copied into the capacity of `data`.
fn detached(frame: &Frame, mut data: KVVec<u8>) -> Result<Frame> {
    let len = frame.body().len();
    if len > data.capacity() {
        return Err(EINVAL);
    }
    bytes::append(&mut data, len, GFP_ATOMIC, |mut dst| {
        frame
            .body()
            .for_each_fragment(&mut |fragment| dst.write(fragment))
    })?;
    let body = Detached(data);
    Frame::new(frame.func(), frame.func_hdr(), frame.priority(), body)
}

/// The data queue that a ring belongs to; the control ring goes with queue 0.
pub(crate) fn queue_of(number: u32) -> u16 {
    number.saturating_sub(1) as u16
}
