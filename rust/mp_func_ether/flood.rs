// SPDX-License-Identifier: GPL-2.0-only

//! The way to all peers: transmit queue 0.
//!
//! A packet that meets a full ring of some peers waits for these alone; each
//! peer gets it once, and the queue goes on when all of them have it, or when it
//! has waited for long enough ([`mp_proto::flood`]). What some peer does not get
//! is counted: each copy in `tx_flood_dropped`, the packet as one that was dropped.
//!
//! Locks: the queue's own, then a ring's, then the transport's.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    error,
    net::{
        device::Loss,
        skb::SkBuff, //
    },
    new_spinlock_bh,
    sync::SpinLockBh,
    time::monotonic_ns,
    timer::{
        Expire,
        Timer, //
    }, //
};
use mp_proto::{
    flood::{
        bit,
        Delivery,
        PeerSet, //
    },
    queues::TO_ALL, //
};
use mp_transport::{
    frame::Frame,
    peer::SendError, //
};

use crate::{
    interface::Shared,
    packet,
    port::{
        Port,
        Sent,
        ATTEMPTS, //
    }, //
};

/// What changes with each packet.
struct State {
    /// Which peers the packet has yet to reach; none if there is no packet.
    delivery: Delivery,
    packet: Option<Frame>,
    /// Some peer does not get it.
    is_lost: bool,
}

/// The packet that is being sent to all peers.
#[pin_data]
struct Queue {
    shared: Arc<Shared>,
    #[pin]
    state: SpinLockBh<State>,
}

/// Goes on without the peers that have made no room in time.
struct Late(Arc<Queue>);

/// The transmit queue of packets to all peers.
pub(crate) struct Flood {
    queue: Arc<Queue>,
    timer: Pin<KBox<Timer<Late>>>,
}

impl Flood {
    /// Nothing to send. A packet will wait for a peer for `wait_ns` nanoseconds at most.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(shared: &Arc<Shared>, wait_ns: u64) -> Result<Self> {
        let shared = shared.clone();
        let queue = Arc::pin_init(
            pin_init!(Queue {
                shared,
                state <- new_spinlock_bh!(
                    State {
                        delivery: Delivery::new(wait_ns),
                        packet: None,
                        is_lost: false,
                    },
                    "mp_func_ether::Flood"
                ),
            }),
            GFP_KERNEL,
        )?;
        let timer = Timer::new(Late(queue.clone()))?;
        Ok(Self { queue, timer })
    }

    /// Send a packet to `peers`: to each of them once, to some of them perhaps
    /// later.
    pub(crate) fn send(&self, skb: SkBuff, peers: PeerSet) -> Sent {
        let mut state = self.queue.state.lock();
        let now = monotonic_ns();
        self.queue.advance(&mut state, now);
        if state.packet.is_some() {
            return Sent::Busy(skb);
        }
        let frame = match packet::to_frame(skb) {
            Ok(frame) => frame,
            Err(e) => return Sent::No(SendError::Body(e)),
        };
        state.packet = Some(frame);
        state.is_lost = false;
        state.delivery.begin(peers, now);
        self.queue.advance(&mut state, now);
        if let Some(deadline) = state.delivery.deadline() {
            self.queue.shared.counters.tx_ring_full.add(1);
            self.timer.start(deadline);
        }
        Sent::Yes
    }

    /// Peer `index` has made room.
    pub(crate) fn go_on(&self, index: u32) {
        let mut state = self.queue.state.lock();
        if state.delivery.missing() & bit(index) != 0 {
            self.queue.advance(&mut state, monotonic_ns());
        }
    }

    /// Peer `index` has left.
    pub(crate) fn left(&self, index: u32) {
        self.go_on(index);
        self.queue.state.lock().delivery.left(index);
    }

    /// Drop the packet that waits.
    pub(crate) fn drop_held(&self) {
        let mut state = self.queue.state.lock();
        state.delivery.cancel();
        let packet = state.packet.take();
        drop(state);
        let shared = &self.queue.shared;
        if let Some(frame) = packet {
            frame.fail(error::net_down());
            shared.device.count_loss(Loss::TxDropped);
        }
        if let Some(queue) = shared.device.tx_queue(TO_ALL) {
            queue.wake();
        }
    }
}

impl Expire for Late {
    fn expire(&self) -> Option<u64> {
        let mut state = self.0.state.lock();
        self.0.advance(&mut state, monotonic_ns());
        state.delivery.deadline()
    }
}

impl Queue {
    /// Send to all that have room. Stops the queue while one has not, and sees
    /// to it that [`go_on`](Flood::go_on) will be called.
    fn advance(&self, state: &mut State, now: u64) {
        let Some(frame) = &state.packet else {
            return;
        };
        let shared = &*self.shared;
        let queue = shared.device.tx_queue(TO_ALL);
        // Those that say that they have room.
        let mut eager = 0;
        for _ in 0..ATTEMPTS {
            let full = full(shared, frame, state.delivery.missing());
            let without = state.delivery.refused(full, now);
            state.is_lost |= self.goes_without(without);
            if state.delivery.missing() == 0 {
                break;
            }
            if let Some(queue) = &queue {
                queue.stop();
            }
            eager = 0;
            shared.for_ports(state.delivery.missing(), |port| {
                if port.await_room() {
                    eager |= bit(port.peer().index());
                }
            });
            if eager == 0 {
                return;
            }
        }
        if state.delivery.missing() != 0 {
            // They took nothing all the same. The others are waited for.
            state.delivery.pass_over(eager, now);
            shared.counters.tx_given_up.add(1);
            state.is_lost |= self.goes_without(eager);
            if state.delivery.missing() != 0 {
                return;
            }
        }
        if state.is_lost {
            frame.fail(EIO);
            shared.device.count_loss(Loss::TxDropped);
        }
        state.packet = None;
        if let Some(queue) = queue.filter(|queue| queue.is_stopped()) {
            queue.wake();
        }
    }

    /// Count that a packet goes without these peers; whether there are any.
    fn goes_without(&self, peers: PeerSet) -> bool {
        let count = peers.count_ones();
        self.shared.counters.tx_flood_dropped.add(count.into());
        count != 0
    }
}

/// Send to all peers that are waited for; those of them whose ring is full.
fn full(shared: &Shared, frame: &Frame, peers: PeerSet) -> PeerSet {
    let mut full = 0;
    shared.for_ports(peers, |port: &Port| match port.send_aside(frame) {
        Ok(()) | Err(SendError::Gone) => {}
        Err(SendError::Full) => full |= bit(port.peer().index()),
        Err(e) => {
            frame.fail(e.into());
            shared.device.count_loss(Loss::TxError);
        }
    });
    full
}
