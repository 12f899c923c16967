// SPDX-License-Identifier: GPL-2.0-only

//! The way to a peer that another one forwards to: on an endpoint, over the root
//! processor (`IDT-MSG-7`).
//!
//! Frames take the rings of the peer that forwards, the *hop*, with the mark of
//! the way in front. How many may be under way is limited for each lane by the
//! credits of [`mp_proto::flow`]. None are sent before the hop has said that the
//! other end takes them. Those of one lane arrive in the order in which they were sent: each
//! host passes on what it has from one ring in order, and there is no other way.

use crate::{
    frame::Frame,
    management,
    memory::Memory,
    peer::{
        Link,
        Peer,
        SendError, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    new_spinlock_bh,
    sync::{
        RcuArc,
        SpinLockBh, //
    }, //
};
use mp_proto::{
    flow::{
        self,
        Window,
        WINDOW, //
    },
    manage::{
        self,
        Message, //
    },
    wire::{
        Envelope,
        PeerId,
        Priority,
        WayTag, //
    }, //
};

/// The number of a lane: 0 for priority frames, else the queue and 1.
pub(crate) fn lane_number(queue: u16, priority: Priority) -> usize {
    match priority {
        Priority::High => 0,
        Priority::Bulk => usize::from(queue) + 1,
    }
}

/// What keeps its place in a queue with others.
#[pin_data]
struct Lane {
    /// Held while a frame is sent, so that the hop gets them in the order of the credits.
    #[pin]
    window: SpinLockBh<Window>,
    /// Whether the hop has yet to be asked for a report.
    asks: Atomic<bool>,
}

/// The way to one peer.
pub(crate) struct Via {
    hop: Arc<Peer>,
    /// The peer at the end.
    dst: PeerId,
    index: u32,
    way: WayTag,
    open: Atomic<bool>,
    /// The two hosts do not agree any more: the peer has to be removed.
    is_broken: Atomic<bool>,
    lanes: KVec<Pin<KBox<Lane>>>,
    /// Of the present life of the peer, if the host has an interface.
    memory: RcuArc<Memory>,
}

impl Via {
    /// The way over `hop` to peer `dst`, with that index, marked `way`; closed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(hop: Arc<Peer>, dst: PeerId, index: u32, way: WayTag) -> Result<Arc<Self>> {
        let mut lanes = KVec::new();
        for _ in 0..=hop.tx_queues() {
            let lane = pin_init!(Lane {
                window <- new_spinlock_bh!(Window::default(), "mp_transport::Via"),
                asks: Atomic::new(false),
            });
            lanes.push(KBox::pin_init(lane, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Arc::new(
            Self {
                hop,
                dst,
                index,
                way,
                open: Atomic::new(false),
                is_broken: Atomic::new(false),
                lanes,
                memory: RcuArc::empty(),
            },
            GFP_KERNEL,
        )?)
    }

    /// The peer that forwards.
    pub(crate) fn hop(&self) -> &Arc<Peer> {
        &self.hop
    }

    /// The mark of its frames.
    pub(crate) fn way(&self) -> WayTag {
        self.way
    }

    /// The peer is about to be entered anew, with that memory.
    pub(crate) fn begin(&self, memory: Option<Arc<Memory>>) {
        self.is_broken.store(false, Relaxed);
        drop(self.memory.replace(memory));
    }

    /// The peer has been removed. Sleeps.
    pub(crate) fn end(&self) {
        if let Some(memory) = self.memory.replace(None) {
            memory.end();
        }
    }

    /// Whether the peer has to be removed.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed)
    }

    /// The other end takes frames: lets them go. `peer` is the one at the end.
    pub(crate) fn open(&self, peer: &Peer) {
        self.open.store(true, Release);
        for queue in 0..peer.tx_queues() {
            peer.tx_completed(queue, 0);
        }
    }

    /// The hop has passed on `total` units of a lane. `peer` is the one at the end.
    /// Softirq context.
    pub(crate) fn passed(&self, peer: &Peer, number: u32, total: u32) {
        let Some(lane) = self.lanes.get(number as usize) else {
            return;
        };
        let new = lane.window.lock().passed(total);
        match (new, number.checked_sub(1)) {
            (Some(units), Some(queue)) => peer.tx_completed(queue as u16, units),
            // Priority frames have no units: only who has found no room waits.
            (Some(1..), None) => peer.tx_completed(0, 0),
            _ => {}
        }
    }

    /// Ask the hop for the reports that it could not be asked for yet.
    pub(crate) fn ask_again(&self) {
        for (number, lane) in self.lanes.iter().enumerate() {
            if lane.asks.load(Relaxed) {
                self.ask(number, lane);
            }
        }
    }

    /// Ask the hop for a report once half of what is under way has been passed on.
    fn ask(&self, number: usize, lane: &Lane) {
        let total = lane.window.lock().wanted();
        let want = manage::Lane {
            dst: self.dst,
            way: self.way,
            number: number as u32,
        };
        let sent = management::tell(&self.hop, &Message::Want(want, total));
        lane.asks.store(sent == Err(SendError::Full), Relaxed);
        if sent == Err(SendError::Full) {
            management::retry();
        }
    }

    /// Ask for a completion of a lane. `hop_has_room` asks the hop for one, where there are
    /// credits.
    fn arm(&self, number: usize, hop_has_room: impl FnOnce() -> bool) -> bool {
        let Some(lane) = self.lanes.get(number) else {
            return true;
        };
        if !self.open.load(Acquire) {
            return false;
        }
        let under_way = lane.window.lock().under_way();
        if under_way != 0 {
            self.ask(number, lane);
        }
        // Any frame has room in the other half: if one had none, then at the hop.
        under_way <= WINDOW / 2 && hop_has_room()
    }
}

impl Link for Via {
    fn queues(&self) -> u16 {
        self.hop.tx_queues()
    }

    fn max_frame(&self) -> usize {
        self.hop.max_frame()
    }

    fn send(&self, head: &Envelope, frame: &Frame, queue: u16) -> Result<u32, SendError> {
        let number = lane_number(queue, frame.priority());
        let lane = self.lanes.get(number).ok_or(SendError::Gone)?;
        let units = flow::cost(head.msg.len as usize);
        let mut window = lane.window.lock();
        if !self.open.load(Acquire) || !window.has_room(units) {
            return Err(SendError::Full);
        }
        let head = Envelope {
            way: Some(self.way),
            ..*head
        };
        self.hop.relay(&head, frame, queue)?;
        window.sent(units);
        Ok(if number == 0 { 0 } else { units })
    }

    fn kick(&self, queue: u16) {
        self.hop.kick(queue);
    }

    /// The worker removes the peer, and has the hop end the way for the other end as well.
    fn reset(&self) {
        self.is_broken.store(true, Relaxed);
        management::kick();
    }

    fn memory(&self) -> Option<Arc<Memory>> {
        self.memory.get()
    }

    fn arm_tx(&self, queue: u16) -> bool {
        self.arm(lane_number(queue, Priority::Bulk), || {
            self.hop.arm_tx_for(self.index, queue)
        })
    }

    fn arm_priority(&self) -> bool {
        self.arm(lane_number(0, Priority::High), || {
            self.hop.arm_priority_for(self.index)
        })
    }
}
