// SPDX-License-Identifier: GPL-2.0-only

//! The way to one peer: its rings, each with a transmit queue of its own.
//!
//! A packet that meets a full ring is held, and the queue is stopped; it goes
//! first when the peer has made room. The byte limit of a queue counts ring
//! space, which a packet occupies until the peer has consumed it.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    error,
    net::{
        device::{
            ByteLimit,
            Device,
            Loss,
            TxQueue, //
        },
        skb::SkBuff, //
    },
    new_spinlock_bh,
    sync::SpinLockBh, //
};
use mp_proto::fdb::Mac;
use mp_transport::{
    frame::Frame,
    peer::{
        Peer,
        SendError, //
    }, //
};

use crate::{
    interface::Shared,
    packet, //
};

/// Bytes of a ring unit.
const UNIT: u32 = mp_proto::ring::UNIT;

/// Least bytes in flight per ring that the byte limit allows: below, a wake-up
/// of the sender takes longer than the peer takes to empty the ring.
const MIN_LIMIT: u32 = 256 << 10;

/// Attempts to send what is held while the peer makes room at the same time.
/// Each time there is room for half of what was in the ring.
pub(crate) const ATTEMPTS: u32 = 32;

/// What became of a packet.
pub(crate) enum Sent {
    /// It is on its way, or held until it can be; the queue is stopped then.
    Yes,
    /// It was not sent.
    No(SendError),
    /// Another one is held: this one has not been looked at.
    Busy(SkBuff),
}

/// What changes with each packet.
struct State {
    /// The packet that met a full ring.
    held: Option<Frame>,
    /// Packets that the peer was not told of yet.
    unannounced: u32,
    /// Ring units in flight that are not counted against the byte limit.
    uncounted: u32,
    /// That of the transmit queue.
    limit: ByteLimit,
}

#[pin_data]
struct Ring {
    /// Taken before the transport's own lock, and held until the packet is
    /// counted: a completion cannot be counted first.
    #[pin]
    state: SpinLockBh<State>,
    /// Its number at the peer.
    number: u16,
    /// The transmit queue that feeds it.
    queue: u32,
}

/// The way to one peer.
#[pin_data]
pub(crate) struct Port {
    peer: Arc<Peer>,
    device: Arc<Device>,
    shared: Arc<Shared>,
    rings: KVec<Pin<KBox<Ring>>>,
    /// The own address, if the peer has yet to be told. Held while it is told: who asks for room
    /// and who says that there is some do not miss each other.
    #[pin]
    untold: SpinLockBh<Option<Mac>>,
}

impl Port {
    /// The way to `peer`, by way of `count` of the interface's transmit queues
    /// from `first` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are not so many queues, `ENOMEM`.
    pub(crate) fn new(
        peer: &Arc<Peer>,
        device: &Arc<Device>,
        shared: &Arc<Shared>,
        first: u32,
        count: u16,
    ) -> Result<Arc<Self>> {
        let mut rings = KVec::new();
        for number in 0..peer.tx_queues().min(count) {
            let queue = first + u32::from(number);
            let state = State {
                held: None,
                unannounced: 0,
                uncounted: 0,
                // SAFETY: The interface lends a queue to one port at a time, and again when
                // nothing is sent or completed by that any more; a port has one ring for it.
                limit: unsafe { ByteLimit::new(device, queue).ok_or(EINVAL)? },
            };
            let ring = pin_init!(Ring {
                state <- new_spinlock_bh!(state, "mp_func_ether::Ring"),
                number,
                queue,
            });
            rings.push(KBox::pin_init(ring, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let (peer, device, shared) = (peer.clone(), device.clone(), shared.clone());
        Arc::pin_init(
            pin_init!(Self {
                peer,
                device,
                shared,
                rings,
                untold <- new_spinlock_bh!(None, "mp_func_ether::Port"),
            }),
            GFP_KERNEL,
        )
    }

    /// The peer.
    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Number of rings.
    pub(crate) fn rings(&self) -> usize {
        self.rings.len()
    }

    /// Prepare the transmit queues for a peer that has just arrived.
    pub(crate) fn open(&self) {
        for ring in &self.rings {
            if let Some(queue) = self.device.tx_queue(ring.queue) {
                let mut state = ring.state.lock();
                state.limit.reset();
                state.limit.set_min(MIN_LIMIT);
                drop(state);
                queue.wake();
            }
        }
    }

    /// Let the stack go on without the peer: what is queued for one that has
    /// left is dropped as it is sent.
    pub(crate) fn close(&self) {
        self.drop_held();
        for ring in &self.rings {
            ring.state.lock().limit.reset();
        }
    }

    /// Drop what is held.
    pub(crate) fn drop_held(&self) {
        for ring in &self.rings {
            let held = ring.state.lock().held.take();
            if let Some(frame) = held {
                frame.fail(error::not_connected());
                self.device.count_loss(Loss::TxDropped);
            }
            if let Some(queue) = self.device.tx_queue(ring.queue) {
                queue.wake();
            }
        }
    }

    /// Tell the peer the own address, as soon as it has room.
    pub(crate) fn announce(&self, address: Mac) {
        let mut untold = self.untold.lock();
        *untold = Some(address);
        self.tell(&mut untold);
    }

    /// Tell the peer what it was not told yet, or see to it that
    /// [`completed`](Self::completed) of the first ring will be called.
    fn tell(&self, untold: &mut Option<Mac>) {
        for _ in 0..ATTEMPTS {
            let Some(address) = *untold else {
                return;
            };
            // Without it the first packets go to all peers, and nothing else is lost.
            let sent = packet::announcement(address).map(|frame| self.peer.send(&frame, 0));
            if let Ok(Err(SendError::Full)) = sent {
                if !self.peer.arm_priority() {
                    return;
                }
            } else {
                *untold = None;
                self.peer.kick(0);
            }
        }
    }

    /// Send a packet from transmit queue `queue` through ring `number`.
    ///
    /// The peer is told when no `more` packets follow, or `batch` have gathered.
    pub(crate) fn send(
        &self,
        queue: &TxQueue<'_>,
        number: usize,
        skb: SkBuff,
        more: bool,
        batch: u32,
    ) -> Sent {
        let Some(ring) = self.rings.get(number) else {
            return Sent::No(SendError::Gone);
        };
        let mut state = ring.state.lock();
        let sent = self.place(ring, queue, &mut state, skb);
        let is_placed = matches!(sent, Sent::Yes);
        // Only a packet that has its place has another one behind it for certain.
        let is_last = !more || !is_placed || queue.is_stopped();
        if state.unannounced >= if is_last { 1 } else { batch } {
            state.unannounced = 0;
            self.peer.kick(ring.number);
        }
        if is_placed && queue.is_stopped() {
            self.go_on(ring, queue, &mut state);
        }
        sent
    }

    /// Put a packet into the ring, of which the peer is not told yet, or hold it and stop the
    /// queue.
    fn place(&self, ring: &Ring, queue: &TxQueue<'_>, state: &mut State, skb: SkBuff) -> Sent {
        if state.held.is_some() {
            queue.stop();
            self.go_on(ring, queue, state);
            if state.held.is_some() {
                return Sent::Busy(skb);
            }
        }
        let frame = match packet::to_frame(skb) {
            Ok(frame) => frame,
            Err(e) => return Sent::No(SendError::Body(e)),
        };
        match self.peer.send(&frame, ring.number) {
            Ok(units) => {
                state.unannounced += 1;
                if state.limit.sent(units * UNIT) {
                    self.shared.counters.tx_byte_limit.add(1);
                }
                Sent::Yes
            }
            Err(SendError::Full) => {
                self.shared.counters.tx_ring_full.add(1);
                state.held = Some(frame);
                queue.stop();
                Sent::Yes
            }
            Err(e) => {
                frame.fail(e.into());
                Sent::No(e)
            }
        }
    }

    /// Send a packet that does not come from the ring's own transmit queue.
    pub(crate) fn send_aside(&self, frame: &Frame) -> Result<(), SendError> {
        let ring = self.rings.first().ok_or(SendError::Gone)?;
        let mut state = ring.state.lock();
        let units = self.peer.send(frame, ring.number)?;
        state.uncounted = state.uncounted.saturating_add(units);
        state.unannounced = 0;
        self.peer.kick(ring.number);
        Ok(())
    }

    /// Ask for [`completed`](Self::completed) of the first ring. `true`: there is
    /// room already.
    pub(crate) fn await_room(&self) -> bool {
        self.peer.arm_tx(0)
    }

    /// The peer has consumed `units` of ring `number`, or of the priority ring if that is the
    /// first one.
    pub(crate) fn completed(&self, number: u16, units: u32) {
        if number == 0 {
            self.tell(&mut self.untold.lock());
        }
        let Some(ring) = self.rings.get(usize::from(number)) else {
            return;
        };
        let Some(queue) = self.device.tx_queue(ring.queue) else {
            return;
        };
        let mut state = ring.state.lock();
        let aside = state.uncounted.min(units);
        state.uncounted -= aside;
        let bytes = (units - aside).saturating_mul(UNIT);
        state.limit.completed(1, bytes);
        if state.held.is_some() || queue.is_stopped() {
            self.go_on(ring, &queue, &mut state);
        }
    }

    /// Send what is held and restart the queue, or see to it that
    /// [`completed`](Self::completed) will be called.
    fn go_on(&self, ring: &Ring, queue: &TxQueue<'_>, state: &mut State) {
        for _ in 0..ATTEMPTS {
            self.send_held(ring, queue, state);
            if !queue.is_stopped() || !self.peer.arm_tx(ring.number) {
                return;
            }
            if state.held.is_none() {
                // Stopped by the byte limit: what was consumed is about to be reported.
                return;
            }
        }
        if let Some(frame) = state.held.take() {
            frame.fail(EIO);
            self.shared.counters.tx_given_up.add(1);
            self.device.count_loss(Loss::TxDropped);
            queue.wake();
        }
    }

    fn send_held(&self, ring: &Ring, queue: &TxQueue<'_>, state: &mut State) {
        let Some(frame) = state.held.take() else {
            return;
        };
        match self.peer.send(&frame, ring.number) {
            Ok(units) => {
                state.limit.sent(units * UNIT);
                state.unannounced = 0;
                self.peer.kick(ring.number);
            }
            Err(SendError::Full) => {
                state.held = Some(frame);
                return;
            }
            Err(e) => {
                frame.fail(e.into());
                self.device.count_loss(Loss::TxDropped);
            }
        }
        queue.wake();
    }
}
