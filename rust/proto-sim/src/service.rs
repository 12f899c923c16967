// SPDX-License-Identifier: GPL-2.0-only

//! The message frame service: peers, sending by peer, and the way of what arrives, in the order of
//! `rust/mp_transport/service.rs` and `peer.rs`.

use std::cell::RefCell;
use std::rc::Rc;

use mp_proto::manage;
use mp_proto::route::{verdict, Verdict};
use mp_proto::wire::{Envelope, MsgHdr, PeerId, Priority, WayTag};

use crate::channel::{queue_of, Channel, Frame, Received, SendError, MAX_FRAME};
use crate::check::Check;
use crate::host::{Entity, Host, MAX_PEERS};
use crate::via::Via;

/// A host that can be reached.
pub struct Peer {
    /// Its id.
    pub id: PeerId,
    /// Its index.
    pub index: u32,
    /// Differs from that of all other peers of this host.
    pub life: u32,
    /// The link that frames take.
    pub port: usize,
    /// The bridge that it is reached over.
    pub bridge: u64,
    /// Number of its transmit queues.
    pub queues: u16,
    /// The rings of its own link.
    pub channel: Option<Rc<RefCell<Channel>>>,
    /// The way, if another peer forwards.
    pub via: Option<Via>,
    /// Peers with frames that wait for room.
    waiting: u64,
    /// Peers that its frames were forwarded to, for each queue.
    untold: [u64; 16],
    /// What this host sends, by lane.
    tx: Vec<u64>,
    /// Frames and bytes, sent and received.
    pub stats: [(u64, u64); 2],
}

impl Peer {
    /// The number of what is sent in a lane.
    pub fn stream(&self, number: usize) -> u64 {
        self.tx[number]
    }

    /// Nothing of what it was sent need arrive any more.
    pub fn end_streams(&self, check: &mut Check) {
        self.tx.iter().for_each(|id| check.end(*id));
    }

    /// The peer that forwards.
    pub fn hop(&self) -> Option<u32> {
        self.via.as_ref().map(|via| via.hop)
    }
}

/// The number of a lane: 0 for priority frames, else the queue and 1.
pub fn lane_number(queue: u16, priority: Priority) -> usize {
    match priority {
        Priority::High => 0,
        Priority::Bulk => usize::from(queue) + 1,
    }
}

fn set_of(index: u32) -> u64 {
    1u64.checked_shl(index).unwrap_or(0)
}

/// The frame was dropped, and counted.
struct Dropped;

impl Host {
    /// The peer with that life, as long as it is there.
    pub fn peer(&self, life: u32) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.life == life)
    }

    /// As [`peer`](Self::peer), to change it.
    pub fn peer_mut(&mut self, life: u32) -> Option<&mut Peer> {
        self.peers.iter_mut().find(|peer| peer.life == life)
    }

    /// Enter a peer that has a link of its own; its life.
    pub fn peer_add_direct(
        &mut self,
        k: usize,
        id: PeerId,
        index: u32,
        channel: &Rc<RefCell<Channel>>,
    ) -> Option<u32> {
        let far = self.peers.iter().find(|p| p.id == id && p.via.is_some());
        if let Some(life) = far.map(|far| far.life) {
            self.remove_peer(life);
        }
        let (queues, epoch) = (channel.borrow().queues(), channel.borrow().epochs.0);
        let bridge = self.ports[k].bridge as u64;
        self.peer_add(
            k,
            id,
            index,
            bridge,
            queues,
            epoch,
            Some(channel.clone()),
            None,
        )
    }

    /// Enter a peer; its life.
    #[allow(clippy::too_many_arguments)]
    pub fn peer_add(
        &mut self,
        port: usize,
        id: PeerId,
        index: u32,
        bridge: u64,
        queues: u16,
        epoch: u64,
        channel: Option<Rc<RefCell<Channel>>>,
        via: Option<Via>,
    ) -> Option<u32> {
        let taken = self.peers.iter().any(|p| p.id == id || p.index == index);
        if taken || id == self.self_id() || index as usize >= MAX_PEERS {
            return None;
        }
        let life = self.next_life;
        self.next_life += 1;
        let mut check = self.env.check.borrow_mut();
        let tx = (0..=queues).map(|_| check.begin(epoch)).collect();
        drop(check);
        self.peers.push(Peer {
            id,
            index,
            life,
            port,
            bridge,
            queues,
            channel,
            via,
            waiting: 0,
            untold: [0; 16],
            tx,
            stats: [(0, 0); 2],
        });
        self.kick(Entity::Manager);
        Some(life)
    }

    /// Remove a peer, and before it those that it forwards to.
    pub fn peer_del(&mut self, life: u32) {
        let far = self.peers.iter().filter(|p| p.hop() == Some(life));
        for far in far.map(|far| far.life).collect::<Vec<_>>() {
            self.remove_peer(far);
        }
        self.remove_peer(life);
        self.kick(Entity::Manager);
    }

    fn remove_peer(&mut self, life: u32) {
        if let Some(at) = self.peers.iter().position(|peer| peer.life == life) {
            let peer = self.peers.remove(at);
            peer.end_streams(&mut self.env.check.borrow_mut());
            self.awaited.retain(|(waiting, _)| *waiting != life);
        }
    }

    /// Queue a frame of a function to a peer.
    pub fn send(&mut self, life: u32, frame: &Rc<Frame>, queue: u16) -> Result<u32, SendError> {
        let peer = self.peer(life).ok_or(SendError::Gone)?;
        if frame.data.len() > MAX_FRAME {
            return Err(SendError::TooLarge);
        }
        let msg = MsgHdr {
            dst: peer.id,
            src: self.self_id(),
            len: (frame.func_hdr.len() + frame.data.len()) as u32,
            func: frame.func,
        };
        let sent = self.relay(life, &msg.into(), frame, queue)?;
        if let Some(peer) = self.peer_mut(life) {
            peer.stats[0].0 += 1;
            peer.stats[0].1 += frame.data.len() as u64;
        }
        Ok(sent)
    }

    /// Queue a frame with headers that are made already.
    pub fn relay(
        &mut self,
        life: u32,
        head: &Envelope,
        frame: &Rc<Frame>,
        queue: u16,
    ) -> Result<u32, SendError> {
        let peer = self.peer(life).ok_or(SendError::Gone)?;
        match &peer.channel {
            Some(channel) => channel.borrow_mut().send(head, frame, queue),
            None => self.send_via(life, head, frame, queue),
        }
    }

    /// Publish what was queued.
    pub fn kick_queue(&mut self, life: u32, queue: u16) {
        let Some(peer) = self.peer(life) else { return };
        match (&peer.channel, peer.hop()) {
            (Some(channel), _) => channel.borrow_mut().kick(queue),
            (None, Some(hop)) => self.kick_queue(hop, queue),
            _ => {}
        }
    }

    /// Ask for a completion as soon as the peer has consumed something; `true`: it has.
    pub fn arm_tx(&mut self, life: u32, queue: u16) -> bool {
        let Some(peer) = self.peer(life) else {
            return true;
        };
        let port = peer.port;
        let Some(channel) = peer.channel.clone() else {
            return self.arm_via(life, queue, Priority::Bulk);
        };
        let (progress, has_report) = channel.borrow_mut().arm_tx(queue);
        if has_report {
            self.poll_where(port, |q| q == queue);
        }
        progress
    }

    /// The same for priority frames.
    pub fn arm_priority(&mut self, life: u32) -> bool {
        let Some(peer) = self.peer(life) else {
            return true;
        };
        match peer.channel.clone() {
            Some(channel) => channel.borrow_mut().arm_priority(),
            None => self.arm_via(life, 0, Priority::High),
        }
    }

    /// As [`arm_tx`](Self::arm_tx), for frames of peer `index` that lead over that one.
    pub fn arm_tx_for(&mut self, life: u32, index: u32, queue: u16) -> bool {
        if let Some(peer) = self.peer_mut(life) {
            peer.waiting |= set_of(index);
        }
        self.arm_tx(life, queue)
    }

    /// The same for priority frames.
    pub fn arm_priority_for(&mut self, life: u32, index: u32) -> bool {
        if let Some(peer) = self.peer_mut(life) {
            peer.waiting |= set_of(index);
        }
        self.arm_priority(life)
    }

    /// Note that a frame of a queue of peer `life` was forwarded to peer `index`.
    pub fn forwarded_to(&mut self, life: u32, index: u32, queue: u16) {
        if let Some(peer) = self.peer_mut(life) {
            peer.untold[usize::from(queue)] |= set_of(index);
        }
    }

    /// The peer has consumed something.
    pub fn tx_completed(&mut self, life: u32, queue: u16, _units: u32) {
        self.awaited.retain(|waiting| *waiting != (life, queue));
        self.user_tx_completed(life);
        let Some(peer) = self.peer_mut(life) else {
            return;
        };
        let waiting = std::mem::take(&mut peer.waiting);
        if waiting == 0 {
            return;
        }
        self.resume_flows(life, waiting, queue);
        let far = self
            .peers
            .iter()
            .filter(|far| far.hop() == Some(life) && waiting & set_of(far.index) != 0);
        for far in far.map(|far| far.life).collect::<Vec<_>>() {
            self.tx_completed(far, queue, 0);
        }
    }

    /// Take a frame that came over the link of a peer.
    pub fn receive(&mut self, life: u32, number: usize, got: &Received) {
        let Some(peer) = self.peer(life) else { return };
        let Some((msg, rest)) = got.headers.split_first_chunk() else {
            return self.drops.bad_header += 1;
        };
        let msg = MsgHdr::decode(msg);
        let own = self.self_id();
        let received = match verdict(own, peer.id, msg.src, msg.dst) {
            Verdict::Deliver => self.deliver(life, msg, rest, &got.data, false),
            Verdict::DeliverFar => self.deliver_far(life, msg, rest, &got.data),
            Verdict::Forward => {
                self.forward(life, number, msg, rest, &got.data, got.last);
                Ok(())
            }
            Verdict::Loop => {
                self.drops.no_route += 1;
                Err(Dropped)
            }
            Verdict::BadSource => {
                self.drops.bad_header += 1;
                Err(Dropped)
            }
        };
        // What was dropped has been counted.
        let _ = received;
        let queue = queue_of(number);
        if !got.last {
            return;
        }
        let Some(peer) = self.peer_mut(life) else {
            return;
        };
        let untold = std::mem::take(&mut peer.untold[usize::from(queue)]);
        if untold != 0 {
            self.publish_flows(life, queue, untold);
        }
    }

    fn deliver(
        &mut self,
        life: u32,
        msg: MsgHdr,
        func_hdr: &[u8],
        data: &[u8],
        forwarded: bool,
    ) -> Result<(), Dropped> {
        if msg.len as usize != func_hdr.len() + data.len() {
            self.drops.bad_header += 1;
            return Err(Dropped);
        }
        let taken = match msg.func {
            manage::FUNC_ID => self.hear(life, func_hdr),
            mp_proto::fabric::FUNC_ID => self.user_receive(life, func_hdr, data),
            crate::app::FUNC_ID => {
                self.app_receive(life, func_hdr, data, forwarded);
                true
            }
            _ => {
                self.drops.unknown_function += 1;
                return Err(Dropped);
            }
        };
        if !taken {
            self.drops.bad_header += 1;
            return Err(Dropped);
        }
        if let Some(peer) = self.peer_mut(life).filter(|_| msg.func != manage::FUNC_ID) {
            peer.stats[1].0 += 1;
            peer.stats[1].1 += data.len() as u64;
        }
        Ok(())
    }

    fn deliver_far(
        &mut self,
        hop: u32,
        msg: MsgHdr,
        rest: &[u8],
        data: &[u8],
    ) -> Result<(), Dropped> {
        let Some((way, func_hdr)) = split_way(rest) else {
            self.drops.bad_header += 1;
            return Err(Dropped);
        };
        match self.far_peer(hop, msg.src, way) {
            Some(life) => self.deliver(life, msg, func_hdr, data, true),
            None => {
                self.drops.stale += 1;
                Err(Dropped)
            }
        }
    }

    /// The peer with this id that `hop` forwards to, if `way` is its mark.
    pub fn far_peer(&self, hop: u32, id: PeerId, way: Option<WayTag>) -> Option<u32> {
        let peer = self.peers.iter().find(|peer| peer.id == id)?;
        let via = peer.via.as_ref()?;
        (via.hop == hop && way == Some(via.way)).then_some(peer.life)
    }

    /// The epoch that frames of a peer belong to, as their sender names it.
    pub fn epoch_of(&self, life: u32) -> u64 {
        let Some(peer) = self.peer(life) else {
            return 0;
        };
        match (&peer.channel, &peer.via) {
            (Some(channel), _) => channel.borrow().epochs.1,
            (None, Some(via)) => u64::from(via.way.value()),
            _ => 0,
        }
    }
}

/// Split the mark of the way from the function header.
pub fn split_way(rest: &[u8]) -> Option<(Option<WayTag>, &[u8])> {
    let (way, func_hdr) = rest.split_first_chunk()?;
    Some((WayTag::from_value(u32::from_le_bytes(*way)), func_hdr))
}
