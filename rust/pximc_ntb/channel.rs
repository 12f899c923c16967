// SPDX-License-Identifier: GPL-2.0-only

//! The data path of one link in one epoch: its rings, filled by
//! [`Link::send`] and emptied by NAPI polls.
//!
//! A channel is made when the link comes up and dropped when it goes down; it
//! is never reused. It touches the peer's memory and the memory the peer
//! writes only through [`mp_proto::ring`], which checks everything it reads. What a
//! sending half does under its lock is [`mp_proto::sending`]'s.

#[path = "channel/sending.rs"]
mod sending;

use self::sending::Sending;
use crate::{
    bell::Bell,
    dma::{
        self,
        Copies,
        Engine, //
    },
    inward::InRing,
    kept::{
        Keeper,
        RX_HELD, //
    },
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
use core::cell::Cell;
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
        SharedBytes,
        Writer, //
    },
    error,
    net::napi::Napi,
    new_spinlock_bh,
    sync::{
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
    memory::{
        Inbound,
        Outbound,
        Parts, //
    },
    ring::{
        Armed,
        Consumer,
        Corrupt,
        NextError,
        Place,
        Record,
        Ringing,
        UNIT, //
    },
    sending::SendingHalf,
    wire::{
        Envelope,
        MsgHdr,
        PeerData,
        Priority,
        Tag, //
    }, //
};
use mp_transport::{
    details::{
        LinkDetails,
        RingDetails, //
    },
    frame::{
        Frame,
        FrameBody,
        RxContext,
        RxData,
        FUNC_HDR_MAX, //
    },
    kept::{
        Anchor,
        Hold,
        Kept,
        Spot, //
    },
    peer::{
        Peer,
        SendError, //
    },
    service,
    stats::Counter, //
};

/// Most data bytes of a frame: a 64 KiB segment with all its headers.
pub(crate) const MAX_FRAME: usize = 128 << 10;

/// Longest headers of a frame, all together.
pub(crate) const HDR_MAX: usize = Envelope::MAX + FUNC_HDR_MAX;

/// Records that are given back are released at once if more than this part of the
/// ring is held.
const URGENT_PART: u32 = 4;

/// The channel works.
const OPEN: u32 = 0;
/// The epoch is over.
const CLOSED: u32 = 1;
/// The peer wrote something impossible.
const FAULTY: u32 = 2;

/// What happened on a channel, for the statistics.
#[derive(Default)]
pub(crate) struct Counters {
    /// Doorbells rung at the peer.
    pub(crate) doorbells: Counter,
    /// Sends that met a full ring.
    pub(crate) ring_full: Counter,
    /// Frames dropped because no memory was left to put them together.
    pub(crate) no_memory: Counter,
    /// Polls run.
    pub(crate) polls: Counter,
    /// Kept frames that were moved out of the ring.
    pub(crate) moved_out: Counter,
    /// Sleeps that a second look has ended.
    pub(crate) crossed_wakeups: Counter,
    /// Sleeps that nothing but the heartbeat has ended.
    pub(crate) late_wakeups: Counter,
    /// Microseconds that both have lasted too long, at most.
    pub(crate) wakeup_delay_us: Counter,
}

/// The sending half of a ring.
type Tx = SendingHalf<Frame, Copies>;

/// The receiving half of a ring.
struct Rx {
    consumer: Consumer<RX_HELD>,
    assembly: Assembly,
    /// Records that functions keep, in ring order, also those given back and not yet
    /// released; within its capacity.
    kept: KVec<KeptRecord>,
}

/// A record that a function keeps.
struct KeptRecord {
    /// Among those that the consumer holds.
    place: usize,
    spot: Arc<Spot>,
    /// Whether a heartbeat has found it already.
    old: bool,
}

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

    /// What becomes of ring `number` now that a doorbell has been asked for: `true` if its
    /// side need not sleep. If it sleeps from now on, there is a second look, once a
    /// processor that is idle has watched the ring for `watch_ns` nanoseconds.
    #[inline]
    fn follow(&self, number: u32, armed: Armed, watch_ns: u64) -> bool {
        if armed == Armed::Asleep {
            let guard = rcu::read_lock();
            let looks = self.looks.load(&guard);
            if let Some(look) = looks
                .as_ref()
                .and_then(|l| l.get(usize::from(queue_of(number))))
            {
                look::asleep(look, watch_ns);
            }
        }
        armed == Armed::Ready
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
            let half = ring.rx.lock();
            let has_data = half.consumer.is_overdue(&self.inb) && !half.consumer.is_full();
            drop(half);
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
            let _ = ring.rx.lock().consumer.repeat(&self.out);
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

    /// What calls of the sending half of ring `number` are made for.
    #[inline]
    fn on(&self, number: u32) -> Sending<'_> {
        Sending {
            channel: self,
            number,
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
        let mut half = ring.rx.lock();
        let mut done = 0;
        while done < budget && self.is_open() {
            self.collect(number, &mut half);
            let record = match half.consumer.next(&self.inb) {
                Ok(Some(record)) => record,
                Ok(None) | Err(NextError::TooManyHeld) => break,
                Err(NextError::Corrupt(cause)) => {
                    self.fail(cause);
                    break;
                }
            };
            done += 1;
            let rx = RxContext {
                napi: Some(napi),
                queue: queue_of(number),
                priority: match number {
                    CONTROL_RING => Priority::High,
                    _ => Priority::Bulk,
                },
                last: !half.consumer.knows_more(),
            };
            let kept = self.take(&rx, peer, number, &mut half, &record);
            // There is room for it, or it had not been kept.
            if kept.is_none_or(|kept| half.kept.push_within_capacity(kept).is_err()) {
                half.consumer.release(record.token);
            }
            if half.consumer.unpublished_units() > half.consumer.units() / 4 {
                self.give_back(number, &mut half);
            }
        }
        if !half.kept.is_empty() {
            self.look_after_kept(number, &mut half);
        }
        self.give_back(number, &mut half);
        done
    }

    /// Release the records that functions have given back.
    #[inline]
    fn collect(&self, number: u32, half: &mut Rx) {
        if half.kept.is_empty() {
            return;
        }
        let Rx { consumer, kept, .. } = half;
        self.keeper.take_returned(number, |place| {
            consumer.release_at(place);
            kept.retain(|record| record.place != place);
        });
    }

    /// Follow what functions keep, at the end of a poll.
    fn look_after_kept(&self, number: u32, half: &mut Rx) {
        self.collect(number, half);
        self.make_room(half);
        let held = half.consumer.held_units();
        let urgent = held > half.consumer.units() / URGENT_PART;
        self.keeper.set_urgent(number, urgent);
    }

    /// A heartbeat: what has been kept since the last one is moved out of the rings.
    /// Others wait for what is behind it to be consumed.
    pub(crate) fn age_kept(&self) {
        for (number, ring) in (0..).zip(&self.rings) {
            let mut half = ring.rx.lock();
            if half.kept.is_empty() || !self.is_open() {
                continue;
            }
            self.collect(number, &mut half);
            while half.kept.first().is_some_and(|record| record.old) && self.move_out(&mut half) {}
            for record in &mut half.kept {
                record.old = true;
            }
            self.look_after_kept(number, &mut half);
            self.give_back(number, &mut half);
        }
    }

    /// Move what functions keep out of a ring that would have to stop for it: half of
    /// it must be free for the largest record. Without memory, the ring
    /// stops until something is given back or memory is there.
    #[inline]
    fn make_room(&self, half: &mut Rx) {
        while !half.consumer.may_keep() && self.move_out(half) {}
    }

    /// Move the oldest record that is kept out of a ring; `false` if there is none, or
    /// it cannot be moved now.
    fn move_out(&self, half: &mut Rx) -> bool {
        let Some(oldest) = half.kept.first() else {
            return false;
        };
        let place = oldest.place;
        match oldest.spot.move_out(&*self.keeper) {
            Ok(true) => {
                half.consumer.release_at(place);
                self.counters.moved_out.add(1);
                half.kept.retain(|record| record.place != place);
                true
            }
            // It has been given back, or is being copied: another poll finds it. Or there
            // is no memory.
            Ok(false) | Err(_) => false,
        }
    }

    /// End the copies of kept frames that the engine has reported.
    #[inline]
    pub(crate) fn finish_copies(&self) {
        self.engine.finish_inward(&self.inb);
    }

    /// Tell the peer what was consumed, and wake it if it waits for that; unless the
    /// epoch is over.
    fn give_back(&self, number: u32, half: &mut Rx) {
        if !self.is_open() {
            return;
        }
        if let Ok(true) = half.consumer.publish_cons(&self.out, &self.inb) {
            self.ring_bell(number);
        }
    }

    /// Pass a record on: a whole frame at once, a part of one to the assembly. The
    /// record, if a function keeps it.
    fn take(
        &self,
        rx: &RxContext<'_>,
        peer: &Arc<Peer>,
        number: u32,
        half: &mut Rx,
        record: &Record,
    ) -> Option<KeptRecord> {
        let step = match half.assembly.step(record) {
            Ok(step) => step,
            Err(cause) => {
                self.fail(cause);
                return None;
            }
        };
        if !(step.first && step.last) {
            self.take_part(rx, peer, half, record, step);
            return None;
        }
        let (head, data) = record.parts.split_at(record.hdr.hdr_len as usize);
        let mut headers = [0; HDR_MAX];
        let Some(headers) = headers.get_mut(..record.hdr.hdr_len as usize) else {
            peer.stats().rx_errors.add(1);
            return None;
        };
        if head.read(&self.inb, 0, headers).is_err() {
            self.fail(Corrupt::Memory);
            return None;
        }
        let data = RingData {
            channel: self,
            half,
            number,
            token: record.token,
            parts: data,
            kept: Cell::new(None),
        };
        deliver(rx, peer, headers, &data);
        data.kept.take()
    }

    fn take_part(
        &self,
        rx: &RxContext<'_>,
        peer: &Arc<Peer>,
        half: &mut Rx,
        record: &Record,
        step: mp_proto::ring::Step,
    ) {
        match half.assembly.add(&self.inb, record, step) {
            Ok(Some(whole)) => {
                deliver(rx, peer, whole.headers(), &whole);
                half.assembly.give_back(whole);
            }
            Ok(None) => {}
            Err(e) if e == ENOMEM => {
                self.counters.no_memory.add(1);
                peer.stats().rx_errors.add(1);
            }
            Err(_) => self.fail(Corrupt::Memory),
        }
    }

    /// Ask for a doorbell with the next record; `true` if there is one now. A processor
    /// that is idle watches the ring for `watch_ns` nanoseconds.
    pub(crate) fn arm_data(&self, number: u32, watch_ns: u64) -> bool {
        let Some(ring) = self.rings.get(number as usize) else {
            return false;
        };
        let mut half = ring.rx.lock();
        if !self.is_open() {
            return false;
        }
        match half.consumer.arm_data(&self.out, &self.inb) {
            // Who gives a record back has the ring polled.
            Ok(armed) => self.follow(number, armed, watch_ns) && !half.consumer.is_full(),
            Err(cause) => {
                self.fail(cause);
                false
            }
        }
    }

    /// Ask for no doorbell.
    pub(crate) fn mute(&self, number: u32) {
        let Some(ring) = self.rings.get(number as usize) else {
            return;
        };
        let mut half = ring.rx.lock();
        if self.is_open() {
            // The words lie in the peer's status page, or no channel had been made.
            let _ = half.consumer.mute(&self.out);
        }
    }

    /// Whether the peer has published something new that can be received.
    pub(crate) fn is_ready(&self, number: u32) -> bool {
        let is_ready = |ring: &Pin<KBox<Ring>>| {
            let half = ring.rx.lock();
            half.consumer.is_ready(&self.inb) && !half.consumer.is_full()
        };
        self.rings.get(number as usize).is_some_and(is_ready)
    }

    /// What is known of memory and rings.
    pub(crate) fn details(&self) -> LinkDetails {
        let mut details = LinkDetails {
            inbound: self.inb.size() as u64,
            outbound: self.out.size() as u64,
            ..LinkDetails::default()
        };
        for (place, ring) in details.rings.iter_mut().zip(&self.rings) {
            *place = Some(ring.details(&self.inb));
        }
        details
    }

    /// The names of the counters.
    pub(crate) fn counters() -> &'static [&'static CStr] {
        &[
            c"doorbells",
            c"ring_full",
            c"no_memory",
            c"polls",
            c"dma_frames",
            c"dma_bytes",
            c"dma_errors",
            c"cpu_fallbacks",
            c"moved_out",
            c"dma_received",
            c"crossed_wakeups",
            c"late_wakeups",
            c"wakeup_delay_us",
        ]
    }

    /// The value of counter `counters()[index]`.
    pub(crate) fn counter(&self, index: usize) -> u64 {
        let counters = &self.counters;
        let dma = &self.engine.counters;
        let counter = match index {
            0 => &counters.doorbells,
            1 => &counters.ring_full,
            2 => &counters.no_memory,
            3 => &counters.polls,
            4 => &dma.frames,
            5 => &dma.bytes,
            6 => &dma.errors,
            7 => &dma.fallbacks,
            8 => &counters.moved_out,
            9 => &dma.received,
            10 => &counters.crossed_wakeups,
            11 => &counters.late_wakeups,
            _ => &counters.wakeup_delay_us,
        };
        counter.get()
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
        let tx = Tx::new(tx, own, theirs, ringing, urgent, copies);
        let tx = tx.map_err(|_| error::protocol())?;
        let size = rx.size;
        let rx = Rx {
            consumer: Consumer::new(rx, own, theirs, ringing).map_err(|_| error::protocol())?,
            assembly: Assembly::new(size)?,
            kept: KVec::with_capacity(RX_HELD / 2, GFP_KERNEL)?,
        };
        KBox::pin_init(
            pin_init!(Self {
                tx <- new_spinlock_bh!(tx),
                rx <- new_spinlock_bh!(rx),
            }),
            GFP_KERNEL,
        )
    }
}

impl Ring {
    /// Sizes and fill levels.
    fn details(&self, inb: &LocalMemory) -> RingDetails {
        let (tx_units, tx_free) = {
            let tx = self.tx.lock();
            (tx.units(), tx.free_units())
        };
        let (rx_units, rx_used) = {
            let rx = self.rx.lock();
            (rx.consumer.units(), rx.consumer.unread_units(inb))
        };
        RingDetails {
            tx_size: tx_units * UNIT,
            tx_used: tx_units.saturating_sub(tx_free) * UNIT,
            rx_size: rx_units * UNIT,
            rx_used: rx_used * UNIT,
        }
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

/// Split the message header off and hand the frame to the service. An
/// error has been counted there and concerns nobody else.
fn deliver(rx: &RxContext<'_>, peer: &Arc<Peer>, headers: &[u8], data: &dyn RxData) {
    let Some((msg, rest)) = headers.split_first_chunk::<{ MsgHdr::SIZE }>() else {
        return peer.stats().rx_errors.add(1);
    };
    let _ = service::receive(rx, peer, MsgHdr::decode(msg), rest, data);
}

/// A frame's data, still in the ring.
struct RingData<'a> {
    channel: &'a Channel,
    half: &'a Rx,
    number: u32,
    token: u32,
    parts: Parts,
    /// Set when a function keeps it.
    kept: Cell<Option<KeptRecord>>,
}

impl RxData for RingData<'_> {
    fn len(&self) -> usize {
        self.parts.len()
    }

    fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result {
        let (inb, parts) = (&self.channel.inb, self.parts);
        InRing { inb, parts }.copy_to(offset, dst)
    }

    /// Leave the record in the ring, unless that is to be moved out of it soon: what
    /// is urgent must always get through, and the largest record as well.
    fn keep(&self) -> Result<Kept> {
        let Rx { consumer, kept, .. } = self.half;
        let has_room = consumer.may_keep() && kept.len() < kept.capacity();
        let earlier = self.kept.take();
        if self.number == CONTROL_RING || !has_room || earlier.is_some() {
            self.kept.set(earlier);
            return Kept::copy(self);
        }
        let place = Consumer::<RX_HELD>::place_of(self.token);
        let hold = Hold {
            token: Keeper::token(self.number, place),
            parts: self.parts,
        };
        let (data, spot) = self.channel.anchor.hold(hold)?;
        let old = false;
        self.kept.set(Some(KeptRecord { place, spot, old }));
        Ok(data)
    }
}
