// SPDX-License-Identifier: GPL-2.0-only

//! A function service that sends whatever it can, waits where it cannot, and looks at all that it
//! gets.

use std::rc::Rc;

use mp_proto::wire::Priority;

use crate::channel::{Frame, SendError};
use crate::check::pattern;
use crate::host::{Entity, Host};
use crate::plan::MS;
use crate::service::lane_number;

/// The function: "SIMU".
pub const FUNC_ID: u32 = 0x5349_4d55;

/// A frame that is to be sent in the end: peer and queue, or the control ring.
pub type Order = (u32, u16, Priority);

impl Host {
    /// Send, and give back what is kept.
    pub fn run_app(&mut self) {
        let plan = &self.env.plan;
        let (pace, urgent, dice) = (plan.pace, plan.urgent, self.env.dice.clone());
        let busy = plan.traffic && self.now < plan.calm;
        if busy && !self.peers.is_empty() {
            for _ in 0..=dice.below(4) {
                let peer = &self.peers[dice.pick(self.peers.len())];
                let (life, queue) = (peer.life, dice.below(u64::from(peer.queues)) as u16);
                let priority = match dice.once_in(urgent) {
                    true => Priority::High,
                    false => Priority::Bulk,
                };
                self.offer((life, queue, priority));
            }
        }
        let mut waits = std::mem::take(&mut self.backlog);
        waits.retain(|order| self.peer(order.0).is_some() && !self.offer(*order));
        self.backlog = waits;
        for k in 0..self.ports.len() {
            if let Some(channel) = self.ports[k].polled() {
                let urgent = channel.borrow_mut().give_back_kept();
                self.poll_where(k, |queue| urgent.contains(&queue));
            }
        }
        let idle = self.backlog.is_empty() && !busy;
        let pace = if idle { 5 * MS } else { pace };
        self.kick_in(Entity::App, pace / 2 + dice.below(pace));
    }

    /// Send a frame to each peer in each lane, in the end.
    pub fn order_burst(&mut self) {
        for peer in &self.peers {
            let bulk = (0..peer.queues).map(|queue| (peer.life, queue, Priority::Bulk));
            let all: Vec<_> = bulk.chain([(peer.life, 0, Priority::High)]).collect();
            self.backlog.extend(all.iter().chain(all.iter()));
        }
        self.kick(Entity::App);
    }

    /// Send a frame if there is room; whether that went well.
    fn offer(&mut self, (life, queue, priority): Order) -> bool {
        let dice = self.env.dice.clone();
        let queue = if priority == Priority::High { 0 } else { queue };
        if self.awaited.contains(&(life, queue)) {
            return false;
        }
        let len = match (priority, dice.below(8)) {
            (Priority::High, _) => dice.below(200),
            (_, 0) => dice.below(self.env.plan.longest),
            _ => dice.below(self.env.plan.longest.min(300)),
        };
        let Some(peer) = self.peer(life) else {
            return true;
        };
        let stream = peer.stream(lane_number(queue, priority));
        let number = self.env.check.borrow().number(stream);
        let mut func_hdr = stream.to_le_bytes().to_vec();
        func_hdr.extend_from_slice(&number.to_le_bytes());
        let data = (0..len as usize).map(|at| pattern(stream, number, at));
        let frame = Rc::new(Frame {
            func: FUNC_ID,
            func_hdr,
            data: data.collect(),
            priority,
        });
        for _ in 0..4 {
            match self.send(life, &frame, queue) {
                Ok(_) => {
                    self.env.check.borrow_mut().sent(stream, frame.data.len());
                    // The rest of a batch is published with the next one.
                    if dice.once_in(2) || self.now >= self.env.plan.calm {
                        self.kick_queue(life, queue);
                    }
                    return true;
                }
                Err(SendError::Full) => {}
                Err(_) => return true,
            }
            let more = match priority {
                Priority::High => self.arm_priority(life),
                Priority::Bulk => self.arm_tx(life, queue),
            };
            if !more {
                self.awaited.push((life, queue));
                return false;
            }
        }
        false
    }

    /// Take a frame.
    pub fn app_receive(&mut self, life: u32, func_hdr: &[u8], data: &[u8], forwarded: bool) {
        let word = |at: usize| {
            let word = func_hdr.get(at..).and_then(|b| b.first_chunk());
            word.map_or(0, |b| u64::from_le_bytes(*b))
        };
        let receiver = (self.index, self.boot, life);
        let epoch = self.epoch_of(life);
        let mut check = self.env.check.borrow_mut();
        check.received(receiver, epoch, word(0), word(8), data, forwarded);
    }
}
