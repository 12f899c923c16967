// SPDX-License-Identifier: GPL-2.0-only

//! Forwarding between peers that share no bridge: the root processor in the
//! middle of a star (`IDT-MSG-7`).
//!
//! A [`Flow`] leads from one peer to another and has a lane for priority frames
//! and one for each queue of the sender. A frame is copied out of the inbound
//! ring at once, so that this ring goes on, and put into the next one; what has
//! no room there waits in its lane, in order. Senders keep to the credits of
//! [`mp_proto::flow`], which bounds what waits; a sender that does not loses its
//! frames. A slow receiver stops the flows to itself and no others.
//!
//! A frame is dropped if memory is short, and those behind it go on: datagrams do not mind. The
//! sender is told of the function that it was for, as long as it takes until it knows; a function
//! that minds has the way made anew.
//!
//! The set of flows is read under RCU and replaced as a whole, by the worker of
//! [`management`].

use crate::{
    copied::Copied,
    frame::{
        Frame,
        FrameBody,
        FuncId,
        RxContext,
        RxData,
        FUNC_HDR_MAX, //
    },
    management,
    peer::{
        set_of,
        Peer,
        PeerSet,
        SendError, //
    },
    service::{
        bad_header,
        split_way,
        DROPS, //
    },
    stats::Counter,
    via::lane_number, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use mp_kernel::{
    bytes::SharedBytes,
    error,
    fifo::Fifo,
    new_spinlock_bh,
    sync::{
        RcuArc,
        SpinLockBh,
        SpinLockBhGuard, //
    }, //
};
use mp_proto::{
    flow::{
        self,
        Losses,
        Meter, //
    },
    manage::{
        self,
        Message, //
    },
    wire::{
        Envelope,
        MsgHdr,
        PeerId,
        WayTag, //
    }, //
};

/// Frames passed on to another peer.
pub(crate) static FORWARDED: Counter = Counter::new();

/// Attempts to send what waits while the receiver makes room at the same time.
const ATTEMPTS: u32 = 32;

/// All flows, in no order.
static FLOWS: RcuArc<KVec<Arc<Flow>>> = RcuArc::empty();

/// A frame that waits for room.
struct Waiting {
    head: Envelope,
    frame: Frame,
    units: u32,
}

/// What changes with each frame.
struct State {
    meter: Meter,
    losses: Losses,
    waiting: Fifo<Waiting>,
}

impl State {
    /// A frame does not get to its end.
    fn lose(&mut self, head: &Envelope, units: u32) {
        DROPS.forwarding.add(1);
        self.meter.pass(units);
        self.losses.note(head.msg.func);
    }
}

#[pin_data]
struct Lane {
    /// Held while a frame is sent, so that the receiver gets them in order.
    #[pin]
    state: SpinLockBh<State>,
}

/// The way from one peer to another.
pub(crate) struct Flow {
    src: Arc<Peer>,
    dst: Arc<Peer>,
    way: WayTag,
    lanes: KVec<Pin<KBox<Lane>>>,
}

impl Flow {
    fn new(src: Arc<Peer>, dst: Arc<Peer>, way: WayTag) -> Result<Arc<Self>> {
        let mut lanes = KVec::new();
        for _ in 0..=src.tx_queues() {
            let state = State {
                meter: Meter::default(),
                losses: Losses::default(),
                waiting: Fifo::new(),
            };
            let lane = pin_init!(Lane {
                state <- new_spinlock_bh!(state, "mp_transport::Flow"),
            });
            lanes.push(KBox::pin_init(lane, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Arc::new(
            Self {
                src,
                dst,
                way,
                lanes,
            },
            GFP_KERNEL,
        )?)
    }

    fn is(&self, src: &Peer, dst: PeerId) -> bool {
        self.src.life() == src.life() && self.dst.id() == dst
    }

    /// The queue of the receiver that a lane leads into.
    fn queue_to(&self, number: usize) -> u16 {
        let queue = number.saturating_sub(1) as u16;
        queue.checked_rem(self.dst.tx_queues()).unwrap_or(0)
    }

    /// Take a frame into lane `number`; nothing is copied for a sender without credits. The frames
    /// of a lane come one after the other.
    fn take(
        &self,
        number: usize,
        head: Envelope,
        copy: impl FnOnce() -> Result<Frame>,
        last: bool,
    ) -> Result {
        let lane = self.lanes.get(number).ok_or(EINVAL)?;
        let units = flow::cost(head.msg.len as usize);
        if lane.state.lock().meter.arrive(units).is_err() {
            DROPS.overrun.add(1);
            return Err(error::no_buffers());
        }
        // Not under the lock, which who sends what waits would spin for.
        let frame = copy();
        let mut state = lane.state.lock();
        let result = frame.and_then(|frame| self.put(number, &mut state, head, frame, units, last));
        if result.is_err() {
            state.lose(&head, units);
        }
        self.report(number, state);
        result
    }

    /// Send a frame, or have it wait.
    fn put(
        &self,
        number: usize,
        state: &mut State,
        head: Envelope,
        frame: Frame,
        units: u32,
        last: bool,
    ) -> Result {
        let queue = self.queue_to(number);
        if state.waiting.is_empty() {
            match self.dst.relay(&head, &frame, queue) {
                Ok(_) => {
                    self.passed(state, units);
                    if last {
                        self.dst.kick(queue);
                    } else {
                        let from = number.saturating_sub(1) as u16;
                        self.src.forwarded_to(self.dst.index(), from);
                    }
                    return Ok(());
                }
                Err(SendError::Full) => {}
                Err(e) => return Err(e.into()),
            }
        }
        state.waiting.push(Waiting { head, frame, units })?;
        self.go_on(number, state);
        Ok(())
    }

    fn passed(&self, state: &mut State, units: u32) {
        FORWARDED.add(1);
        state.meter.pass(units);
    }

    /// Send what waits in a lane, or see to it that this is called again.
    fn go_on(&self, number: usize, state: &mut State) {
        let queue = self.queue_to(number);
        for _ in 0..ATTEMPTS {
            self.send_waiting(queue, state);
            self.dst.kick(queue);
            if state.waiting.is_empty() {
                return;
            }
            // Nobody says when the control ring has room.
            if number == 0 {
                break;
            }
            if !self.dst.arm_tx_for(self.src.index(), queue) {
                return;
            }
        }
        management::retry();
    }

    /// Send what waits, as far as there is room.
    fn send_waiting(&self, queue: u16, state: &mut State) {
        while let Some(waiting) = state.waiting.front() {
            let (head, units) = (waiting.head, waiting.units);
            match self.dst.relay(&head, &waiting.frame, queue) {
                Ok(_) => self.passed(state, units),
                Err(SendError::Full) => return,
                Err(_) => state.lose(&head, units),
            }
            drop(state.waiting.pop());
        }
    }

    /// Tell the sender what was passed on, if it is time to, and what was dropped.
    fn report(&self, number: usize, mut state: SpinLockBhGuard<'_, State>) {
        let lane = manage::Lane {
            dst: self.dst.id(),
            way: self.way,
            number: number as u32,
        };
        if let Some(total) = state.meter.due() {
            if self.tell_sender(&Message::Passed(lane, total)) {
                state.meter.reported(total);
            }
        }
        if let Some(function) = state.losses.untold() {
            if self.tell_sender(&Message::Lost(lane, function)) {
                state.losses.told();
            }
        }
    }

    /// Tell the sender something; `false` if that is to be tried again.
    fn tell_sender(&self, message: &Message) -> bool {
        let is_full = management::tell(&self.src, message) == Err(SendError::Full);
        if is_full {
            management::retry();
        }
        !is_full
    }

    /// Send what waits for room in `queue` of the receiver; `None`: in any.
    fn resume(&self, queue: Option<u16>) {
        for (number, lane) in self.lanes.iter().enumerate() {
            if queue.is_none_or(|queue| queue == self.queue_to(number)) {
                let mut state = lane.state.lock();
                if !state.waiting.is_empty() {
                    self.go_on(number, &mut state);
                }
                self.report(number, state);
            }
        }
    }

    /// The sender wants to be told once `total` units of a lane were passed on.
    fn want(&self, number: u32, total: u32) {
        if let Some(lane) = self.lanes.get(number as usize) {
            let mut state = lane.state.lock();
            state.meter.want(total);
            self.report(number as usize, state);
        }
    }
}

/// Call `f` with the flow from `src` to `dst`, if there is one.
fn with_flow<R>(src: &Peer, dst: PeerId, f: impl FnOnce(&Flow) -> R) -> Option<R> {
    let guard = rcu::read_lock();
    let flows = FLOWS.load(&guard)?;
    let flow = flows.iter().find(|flow| flow.is(src, dst))?;
    Some(f(flow))
}

/// Pass a frame of `src` on to another peer. Softirq context. `rest` are the
/// headers behind the message header.
///
/// # Errors
///
/// `EHOSTUNREACH` if nothing is forwarded between the two, `EBADMSG` for headers
/// that are not true, `ESTALE` if the frame is from an earlier life of one of
/// them, `ENOBUFS` from a sender that does not keep to its credits, `ENOMEM`, or
/// the error of sending. All are counted.
pub(crate) fn forward(
    rx: &RxContext<'_>,
    src: &Peer,
    msg: MsgHdr,
    rest: &[u8],
    data: &dyn RxData,
) -> Result {
    let result = with_flow(src, msg.dst, |flow| {
        let (way, func_hdr) = split_way(rest)?;
        if msg.len as usize != func_hdr.len() + data.len() || func_hdr.len() > FUNC_HDR_MAX {
            return Err(bad_header());
        }
        if way != Some(flow.way) {
            DROPS.stale.add(1);
            return Err(error::stale());
        }
        let copy = || {
            let body = Copied::new(data.len(), |at, dst| data.copy_to(at, dst))?;
            Frame::new(FuncId(msg.func), func_hdr, rx.priority, body)
        };
        let number = lane_number(rx.queue, rx.priority);
        flow.take(number, Envelope { msg, way }, copy, rx.last)
    });
    result.unwrap_or_else(|| {
        DROPS.no_route.add(1);
        Err(error::unreachable())
    })
}

/// Call `f` with each flow, under RCU.
fn for_each_flow(f: impl FnMut(&Arc<Flow>)) {
    let guard = rcu::read_lock();
    if let Some(flows) = FLOWS.load(&guard) {
        flows.iter().for_each(f);
    }
}

/// Publish the frames of `src` that were forwarded, in its queue `queue`, to `peers`.
pub(crate) fn publish(src: &Peer, queue: u16, peers: PeerSet) {
    for_each_flow(|flow| {
        if flow.src.life() == src.life() && peers & set_of(flow.dst.index()) != 0 {
            flow.dst.kick(flow.queue_to(usize::from(queue) + 1));
        }
    });
}

/// See [`Flow::want`]; `src` is who asks.
pub(crate) fn want(src: &Peer, lane: manage::Lane, total: u32) {
    with_flow(src, lane.dst, |flow| {
        if flow.way == lane.way {
            flow.want(lane.number, total);
        }
    });
}

/// There is room in `queue` of `dst` for frames of `peers`.
pub(crate) fn resume(dst: &Peer, peers: PeerSet, queue: u16) {
    for_each_flow(|flow| {
        if flow.dst.life() == dst.life() && peers & set_of(flow.src.index()) != 0 {
            flow.resume(Some(queue));
        }
    });
}

/// Look after everything that waits and every report that is due.
pub(crate) fn resume_all() {
    for_each_flow(|flow| flow.resume(None));
}

/// Forward between these pairs of peers from now on, with these marks, and
/// between no others. Sleeps.
///
/// # Errors
///
/// `ENOMEM`; the flows are then what they were.
pub(crate) fn set(ways: &[(Arc<Peer>, Arc<Peer>, WayTag)]) -> Result {
    let present = FLOWS.get();
    let present = present.as_ref().map_or(&[][..], |flows| flows.as_slice());
    let known = |src: &Peer, dst: &Peer, way: WayTag| {
        let same = |flow: &&Arc<Flow>| {
            flow.way == way && flow.src.life() == src.life() && flow.dst.life() == dst.life()
        };
        present.iter().find(same).cloned()
    };
    let mut flows = KVec::with_capacity(2 * ways.len(), GFP_KERNEL)?;
    let mut is_same = present.len() == 2 * ways.len();
    for (a, b, way) in ways {
        for (src, dst) in [(a, b), (b, a)] {
            let flow = match known(src, dst, *way) {
                Some(flow) => flow,
                None => {
                    is_same = false;
                    Flow::new(src.clone(), dst.clone(), *way)?
                }
            };
            flows.push(flow, GFP_KERNEL)?;
        }
    }
    if !is_same {
        drop(FLOWS.replace(Some(Arc::new(flows, GFP_KERNEL)?)));
    }
    Ok(())
}

/// Forward nothing any more. Sleeps.
pub(crate) fn stop() {
    drop(FLOWS.replace(None));
}

impl FrameBody for Copied {
    fn len(&self) -> usize {
        Copied::len(self)
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        self.for_each_piece(f)
    }

    fn complete(&mut self, _status: Result) {}
}
