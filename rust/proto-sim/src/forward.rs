// SPDX-License-Identifier: GPL-2.0-only

//! Forwarding between peers that share no bridge, in the order of `rust/mp_transport/forward.rs`.

use std::collections::VecDeque;
use std::rc::Rc;

use mp_proto::flow::{self, Losses, Meter};
use mp_proto::manage::{self, Message};
use mp_proto::wire::{Envelope, MsgHdr, PeerId, Priority, WayTag};

use crate::channel::{queue_of, Frame, SendError};
use crate::host::Host;
use crate::service::{lane_number, split_way};

/// Attempts to send what waits while the receiver makes room at the same time.
const ATTEMPTS: u32 = 32;

struct Waiting {
    head: Envelope,
    frame: Rc<Frame>,
    units: u32,
}

#[derive(Default)]
struct Lane {
    meter: Meter,
    losses: Losses,
    waiting: VecDeque<Waiting>,
}

/// The way from one peer to another: lives, index and id of both.
pub struct Flow {
    src: (u32, u32),
    dst: (u32, u32, PeerId),
    way: WayTag,
    dst_queues: u16,
    lanes: Vec<Lane>,
}

impl Flow {
    fn queue_to(&self, number: usize) -> u16 {
        let queue = number.saturating_sub(1) as u16;
        queue.checked_rem(self.dst_queues).unwrap_or(0)
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }
}

impl Host {
    /// Pass a frame of peer `life` on to another one.
    pub fn forward(
        &mut self,
        life: u32,
        number: usize,
        msg: MsgHdr,
        rest: &[u8],
        data: &[u8],
        last: bool,
    ) {
        let mut flows = self.flows.iter();
        let found = flows.position(|flow| flow.src.0 == life && flow.dst.2 == msg.dst);
        let Some(at) = found else {
            self.drops.no_route += 1;
            return;
        };
        let Some((way, func_hdr)) = split_way(rest) else {
            self.drops.bad_header += 1;
            return;
        };
        if msg.len as usize != func_hdr.len() + data.len() {
            self.drops.bad_header += 1;
            return;
        }
        if way != Some(self.flows[at].way) {
            self.drops.stale += 1;
            return;
        }
        let priority = match number {
            0 => Priority::High,
            _ => Priority::Bulk,
        };
        let frame = Rc::new(Frame {
            func: msg.func,
            func_hdr: func_hdr.to_vec(),
            data: data.to_vec(),
            priority,
        });
        let lane = lane_number(queue_of(number), priority);
        self.take(at, lane, Envelope { msg, way }, frame, last);
    }

    fn take(&mut self, at: usize, number: usize, head: Envelope, frame: Rc<Frame>, last: bool) {
        let flow = &mut self.flows[at];
        let Some(lane) = flow.lanes.get_mut(number) else {
            return;
        };
        let units = flow::cost(head.msg.len as usize);
        if lane.meter.arrive(units).is_err() {
            self.drops.overrun += 1;
            return;
        }
        if !self.put_forward(at, number, head, frame, units, last) {
            self.lose(at, number, &head, units);
        }
        self.report(at, number);
    }

    fn put_forward(
        &mut self,
        at: usize,
        number: usize,
        head: Envelope,
        frame: Rc<Frame>,
        units: u32,
        last: bool,
    ) -> bool {
        let flow = &self.flows[at];
        let (src, dst, queue) = (flow.src, flow.dst, flow.queue_to(number));
        if flow.lanes[number].waiting.is_empty() {
            match self.relay(dst.0, &head, &frame, queue) {
                Ok(_) => {
                    self.passed(at, number, units);
                    if last {
                        self.kick_queue(dst.0, queue);
                    } else {
                        let from = number.saturating_sub(1) as u16;
                        self.forwarded_to(src.0, dst.1, from);
                    }
                    return true;
                }
                Err(SendError::Full) => {}
                Err(_) => return false,
            }
        }
        let waiting = &mut self.flows[at].lanes[number].waiting;
        waiting.push_back(Waiting { head, frame, units });
        self.go_on(at, number);
        true
    }

    fn lose(&mut self, at: usize, number: usize, head: &Envelope, units: u32) {
        self.drops.forwarding += 1;
        let lane = &mut self.flows[at].lanes[number];
        lane.meter.pass(units);
        lane.losses.note(head.msg.func);
    }

    fn passed(&mut self, at: usize, number: usize, units: u32) {
        self.forwarded += 1;
        self.flows[at].lanes[number].meter.pass(units);
    }

    fn go_on(&mut self, at: usize, number: usize) {
        let flow = &self.flows[at];
        let (src, dst, queue) = (flow.src, flow.dst, flow.queue_to(number));
        for _ in 0..ATTEMPTS {
            self.send_waiting(at, number, queue);
            self.kick_queue(dst.0, queue);
            if self.flows[at].lanes[number].waiting.is_empty() {
                return;
            }
            // Nobody says when the control ring has room.
            if number == 0 {
                break;
            }
            if !self.arm_tx_for(dst.0, src.1, queue) {
                return;
            }
        }
        self.retry();
    }

    fn send_waiting(&mut self, at: usize, number: usize, queue: u16) {
        let dst = self.flows[at].dst.0;
        while let Some(waiting) = self.flows[at].lanes[number].waiting.front() {
            let (head, frame, units) = (waiting.head, waiting.frame.clone(), waiting.units);
            match self.relay(dst, &head, &frame, queue) {
                Ok(_) => self.passed(at, number, units),
                Err(SendError::Full) => return,
                Err(_) => self.lose(at, number, &head, units),
            }
            self.flows[at].lanes[number].waiting.pop_front();
        }
    }

    /// Tell the sender what was passed on, if it is time to, and what was dropped.
    fn report(&mut self, at: usize, number: usize) {
        let flow = &self.flows[at];
        let (src, state) = (flow.src.0, &flow.lanes[number]);
        let (due, untold) = (state.meter.due(), state.losses.untold());
        let lane = manage::Lane {
            dst: flow.dst.2,
            way: flow.way,
            number: number as u32,
        };
        if let Some(total) = due {
            if self.tell_sender(src, &Message::Passed(lane, total)) {
                self.flows[at].lanes[number].meter.reported(total);
            }
        }
        if let Some(function) = untold {
            if self.tell_sender(src, &Message::Lost(lane, function)) {
                self.flows[at].lanes[number].losses.told();
            }
        }
    }

    /// Tell the sender something; `false` if that is to be tried again.
    fn tell_sender(&mut self, src: u32, message: &Message) -> bool {
        let is_full = self.tell(src, message) == Err(SendError::Full);
        if is_full {
            self.retry();
        }
        !is_full
    }

    fn resume_flow(&mut self, at: usize, queue: Option<u16>) {
        for number in 0..self.flows[at].lanes.len() {
            if queue.is_none_or(|queue| queue == self.flows[at].queue_to(number)) {
                if !self.flows[at].lanes[number].waiting.is_empty() {
                    self.go_on(at, number);
                }
                self.report(at, number);
            }
        }
    }

    /// There is room in a queue of peer `dst` for frames of peers.
    pub fn resume_flows(&mut self, dst: u32, waiting: u64, queue: u16) {
        for at in 0..self.flows.len() {
            let flow = &self.flows[at];
            if flow.dst.0 == dst && waiting >> flow.src.1 & 1 != 0 {
                self.resume_flow(at, Some(queue));
            }
        }
    }

    /// Publish the frames of peer `src` that were forwarded to peers.
    pub fn publish_flows(&mut self, src: u32, queue: u16, peers: u64) {
        for at in 0..self.flows.len() {
            let flow = &self.flows[at];
            if flow.src.0 == src && peers >> flow.dst.1 & 1 != 0 {
                let (dst, queue) = (flow.dst.0, flow.queue_to(usize::from(queue) + 1));
                self.kick_queue(dst, queue);
            }
        }
    }

    /// The sender wants to be told once `total` units of a lane were passed on.
    pub fn want(&mut self, src: u32, lane: manage::Lane, total: u32) {
        let mut flows = self.flows.iter();
        let found = flows.position(|flow| flow.src.0 == src && flow.dst.2 == lane.dst);
        let Some(at) = found.filter(|at| self.flows[*at].way == lane.way) else {
            return;
        };
        if let Some(state) = self.flows[at].lanes.get_mut(lane.number as usize) {
            state.meter.want(total);
            self.report(at, lane.number as usize);
        }
    }

    /// Look after everything that waits and every report that is due.
    pub fn resume_all(&mut self) {
        for at in 0..self.flows.len() {
            self.resume_flow(at, None);
        }
    }

    /// Forward between these pairs of peers from now on, and between no others.
    pub fn set_flows(&mut self, ways: &[(u32, u32, WayTag)]) {
        let mut present = std::mem::take(&mut self.flows);
        for (a, b, way) in ways {
            for (src, dst) in [(*a, *b), (*b, *a)] {
                let same = |flow: &Flow| flow.way == *way && flow.src.0 == src && flow.dst.0 == dst;
                if let Some(at) = present.iter().position(same) {
                    let flow = present.swap_remove(at);
                    self.flows.push(flow);
                    continue;
                }
                let (Some(from), Some(to)) = (self.peer(src), self.peer(dst)) else {
                    continue;
                };
                let flow = Flow {
                    src: (src, from.index),
                    dst: (dst, to.index, to.id),
                    way: *way,
                    dst_queues: to.queues,
                    lanes: (0..=from.queues).map(|_| Lane::default()).collect(),
                };
                self.flows.push(flow);
            }
        }
    }
}
