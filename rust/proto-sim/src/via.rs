// SPDX-License-Identifier: GPL-2.0-only

//! The way to a peer that another one forwards to, in the order of `rust/mp_transport/via.rs`.

use std::rc::Rc;

use mp_proto::flow::{self, Window, WINDOW};
use mp_proto::manage::{self, Message};
use mp_proto::wire::{Envelope, PeerId, Priority, WayTag};

use crate::channel::{Frame, SendError};
use crate::host::{Entity, Host};
use crate::service::lane_number;

/// What keeps its place in a queue with others.
#[derive(Debug, Default)]
pub struct Lane {
    /// Credits.
    pub window: Window,
    asks: bool,
}

/// The way to one peer.
pub struct Via {
    /// The life of the peer that forwards.
    pub hop: u32,
    /// The mark of the frames.
    pub way: WayTag,
    /// The other end takes frames.
    pub open: bool,
    /// The two hosts do not agree any more.
    pub is_broken: bool,
    /// By number.
    pub lanes: Vec<Lane>,
}

impl Via {
    /// A way that is closed.
    pub fn new(hop: u32, way: WayTag, queues: u16) -> Via {
        Via {
            hop,
            way,
            open: false,
            is_broken: false,
            lanes: (0..=queues).map(|_| Lane::default()).collect(),
        }
    }
}

impl Host {
    fn via_mut(&mut self, life: u32) -> Option<&mut Via> {
        self.peer_mut(life)?.via.as_mut()
    }

    /// The two hosts do not agree any more: end the way to that one, if there is one.
    pub fn reset_via(&mut self, id: PeerId) {
        let mut peers = self.peers.iter_mut().filter(|peer| peer.id == id);
        if let Some(via) = peers.find_map(|peer| peer.via.as_mut()) {
            via.is_broken = true;
            self.kick(Entity::Manager);
        }
    }

    /// The other end takes frames: lets them go.
    pub fn open_via(&mut self, life: u32) {
        let Some(peer) = self.peer_mut(life) else {
            return;
        };
        let queues = peer.queues;
        if let Some(via) = &mut peer.via {
            via.open = true;
        }
        for queue in 0..queues {
            self.tx_completed(life, queue, 0);
        }
    }

    /// The hop has passed on `total` units of a lane.
    pub fn via_passed(&mut self, life: u32, number: u32, total: u32) {
        let Some(via) = self.via_mut(life) else {
            return;
        };
        let Some(lane) = via.lanes.get_mut(number as usize) else {
            return;
        };
        let new = lane.window.passed(total);
        match (new, number.checked_sub(1)) {
            (Some(units), Some(queue)) => self.tx_completed(life, queue as u16, units),
            (Some(1..), None) => self.tx_completed(life, 0, 0),
            _ => {}
        }
    }

    /// Ask the hop for the reports that it could not be asked for yet.
    pub fn ask_again(&mut self, life: u32) {
        let lanes = self.via_mut(life).map_or(0, |via| via.lanes.len());
        for number in 0..lanes {
            if self.via_mut(life).is_some_and(|via| via.lanes[number].asks) {
                self.ask(life, number);
            }
        }
    }

    fn ask(&mut self, life: u32, number: usize) {
        let Some(peer) = self.peer(life) else { return };
        let Some(via) = &peer.via else { return };
        let total = via.lanes[number].window.wanted();
        let want = manage::Lane {
            dst: peer.id,
            way: via.way,
            number: number as u32,
        };
        let sent = self.tell(via.hop, &Message::Want(want, total));
        let full = sent == Err(SendError::Full);
        if let Some(via) = self.via_mut(life) {
            via.lanes[number].asks = full;
        }
        if full {
            self.retry();
        }
    }

    /// Send a frame on its way.
    pub fn send_via(
        &mut self,
        life: u32,
        head: &Envelope,
        frame: &Rc<Frame>,
        queue: u16,
    ) -> Result<u32, SendError> {
        let number = lane_number(queue, frame.priority);
        let units = flow::cost(head.msg.len as usize);
        let via = self.via_mut(life).ok_or(SendError::Gone)?;
        let lane = via.lanes.get(number).ok_or(SendError::Gone)?;
        if !via.open || !lane.window.has_room(units) {
            return Err(SendError::Full);
        }
        let (hop, way) = (via.hop, Some(via.way));
        self.relay(hop, &Envelope { way, ..*head }, frame, queue)?;
        if let Some(via) = self.via_mut(life) {
            via.lanes[number].window.sent(units);
        }
        Ok(if number == 0 { 0 } else { units })
    }

    /// Ask for a completion of a lane.
    pub fn arm_via(&mut self, life: u32, queue: u16, priority: Priority) -> bool {
        let number = lane_number(queue, priority);
        let Some(peer) = self.peer(life) else {
            return true;
        };
        let index = peer.index;
        let Some(via) = &peer.via else { return true };
        let Some(lane) = via.lanes.get(number) else {
            return true;
        };
        if !via.open {
            return false;
        }
        let (hop, under_way) = (via.hop, lane.window.under_way());
        if under_way != 0 {
            self.ask(life, number);
        }
        under_way <= WINDOW / 2
            && match priority {
                Priority::High => self.arm_priority_for(hop, index),
                Priority::Bulk => self.arm_tx_for(hop, index, queue),
            }
    }

    /// Why a way does not work or something is still on it.
    pub fn via_unrest(&self, id: PeerId) -> Option<String> {
        let peer = self.peers.iter().find(|peer| peer.id == id);
        let Some(via) = peer.and_then(|peer| peer.via.as_ref()) else {
            return Some(format!("host {} knows no way to {:x}", self.index, id.0));
        };
        (!via.open).then(|| format!("host {}: the way to {:x} is closed", self.index, id.0))
    }
}
