// SPDX-License-Identifier: GPL-2.0-only

//! The way to all peers: transmit queue 0.
//!
//! A packet that meets a full ring of some peers waits for these alone; each
//! peer gets it once, and the queue goes on when all of them have it.

use kernel::prelude::*;
use mp_kernel::{
    error,
    net::{
        device::Loss,
        skb::SkBuff, //
    },
    new_spinlock_bh,
    sync::SpinLockBh, //
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

/// The transmit queue of packets to all peers.
pub(crate) const QUEUE: u32 = 0;

/// A set of peers, by index.
pub(crate) type PeerSet = u64;

/// A packet and whom it has not reached yet.
struct Waiting {
    frame: Frame,
    peers: PeerSet,
}

/// The packet that is being sent to all peers.
#[pin_data]
pub(crate) struct Flood {
    #[pin]
    waiting: SpinLockBh<Option<Waiting>>,
}

impl Flood {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            waiting <- new_spinlock_bh!(None, "mp_func_ether::Flood"),
        })
    }

    /// Send a packet to `peers`: to each of them once, to some of them perhaps
    /// later.
    pub(crate) fn send(&self, shared: &Shared, skb: SkBuff, peers: PeerSet) -> Sent {
        let mut waiting = self.waiting.lock();
        self.advance(shared, &mut waiting);
        if waiting.is_some() {
            return Sent::Busy(skb);
        }
        let frame = match packet::to_frame(skb) {
            Ok(frame) => frame,
            Err(e) => return Sent::No(SendError::Body(e)),
        };
        *waiting = Some(Waiting { frame, peers });
        self.advance(shared, &mut waiting);
        if waiting.is_some() {
            shared.counters.tx_ring_full.add(1);
        }
        Sent::Yes
    }

    /// Peer `index` has made room, or has left.
    pub(crate) fn go_on(&self, shared: &Shared, index: u32) {
        let mut waiting = self.waiting.lock();
        if waiting.as_ref().is_some_and(|w| w.peers & bit(index) != 0) {
            self.advance(shared, &mut waiting);
        }
    }

    /// Drop the packet that waits.
    pub(crate) fn drop_held(&self, shared: &Shared) {
        let waiting = self.waiting.lock().take();
        if let Some(waiting) = waiting {
            waiting.frame.fail(error::net_down());
            shared.device.count_loss(Loss::TxDropped);
        }
        if let Some(queue) = shared.device.tx_queue(QUEUE) {
            queue.wake();
        }
    }

    /// Send to all that have room. Stops the queue while one has not, and sees
    /// to it that [`go_on`](Self::go_on) will be called.
    fn advance(&self, shared: &Shared, slot: &mut Option<Waiting>) {
        let Some(waiting) = slot else {
            return;
        };
        let queue = shared.device.tx_queue(QUEUE);
        for _ in 0..ATTEMPTS {
            waiting.peers = full(shared, waiting);
            if waiting.peers == 0 {
                break;
            }
            if let Some(queue) = &queue {
                queue.stop();
            }
            let mut room = false;
            shared.for_ports(waiting.peers, |port| room |= port.await_room());
            if !room {
                return;
            }
        }
        if waiting.peers != 0 {
            waiting.frame.fail(EIO);
            shared.counters.tx_given_up.add(1);
            shared.device.count_loss(Loss::TxDropped);
        }
        *slot = None;
        if let Some(queue) = queue.filter(|queue| queue.is_stopped()) {
            queue.wake();
        }
    }
}

/// Send to all peers that are waited for; those of them whose ring is full.
fn full(shared: &Shared, waiting: &Waiting) -> PeerSet {
    let mut full = 0;
    shared.for_ports(waiting.peers, |port: &Port| {
        match port.send_aside(&waiting.frame) {
            Ok(()) | Err(SendError::Gone) => {}
            Err(SendError::Full) => full |= bit(port.peer().index()),
            Err(e) => {
                waiting.frame.fail(e.into());
                shared.device.count_loss(Loss::TxError);
            }
        }
    });
    full
}

/// The set of one peer.
pub(crate) fn bit(index: u32) -> PeerSet {
    1u64.checked_shl(index).unwrap_or(0)
}
