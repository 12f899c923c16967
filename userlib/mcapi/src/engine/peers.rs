// SPDX-License-Identifier: MIT OR Apache-2.0

//! Other nodes: sessions that begin and end, and the frames that they send.

use super::*;
use crate::{
    incoming::Incoming,
    wire::{End, Frame, Wire, NEXT_PORT, PARTNER},
};

/// Frames that are received or sent at once before others get a turn.
const BUDGET: usize = 64;
/// Frames that are received for the last time: more than can be on the way.
pub(crate) const LAST: usize = 4096;
/// Buffers in use, altogether, by messages of a host's nodes that there is no session with.
pub(crate) const LEFT_MAX: u32 = 4096;

/// What was sent to a node.
#[derive(Clone, Copy, Debug, Default)]
struct Out {
    /// There was something.
    moved: bool,
    /// There may be more.
    left: bool,
}

impl Engine {
    /// A session with a node on a host has begun.
    pub(crate) fn up(&mut self, node: NodeId, host: u32) {
        let peer = self.peer(node);
        peer.host = Some(host);
        peer.open();
    }

    /// A session has ended, or none can be had. Gets go on waiting (MC-EPGETI-5, MC-FINAL-3).
    pub(crate) fn down(&mut self, node: NodeId, end: End) {
        self.forget_asker(node);
        let peer = self.peer(node);
        let has_session = peer.stage != Stage::None;
        peer.close();
        let host = peer.host;
        let sends = peer.outgoing.reset();
        let asks = std::mem::take(&mut peer.asks);
        let reservations = std::mem::take(&mut peer.reservations);
        // What is sent to a node that is not there is discarded (MC-MSG-6). That there is no way to it
        // is told (MC-MSG-8), and so is that what has waited for a node was not sent (MC-GEN-9).
        let send = match (end, has_session) {
            (End::Gone, false) => Ok(()),
            _ => Err(Error::Transmission),
        };
        for Send {
            request,
            from,
            data,
        } in sends
        {
            self.end_send(request, from, data.len(), send);
        }
        self.end_asks(asks.into_values(), end);
        self.end_reservations(reservations.into_values(), end);
        self.sever_all(node);
        self.endpoints.forget(node);
        // With a link that was lost no node has gone: what they have sent waits for its receiver.
        if let (End::Gone | End::Broken, Some(host)) = (end, host) {
            self.limit_what_is_left(host);
        }
        self.forget_idle(node);
        self.settle();
    }

    /// Discard messages of a host's nodes that there is no session with, of who has left the most first,
    /// until there are no more than are kept: a host whose nodes come and go by ever new numbers, of
    /// whatever domains, takes so much memory, and who has left little loses nothing.
    fn limit_what_is_left(&mut self, host: u32) {
        let has_left = |(id, peer): (&NodeId, &Peer)| {
            let is_one = peer.host == Some(host) && peer.stage == Stage::None;
            is_one.then(|| (peer.incoming.used(), *id))
        };
        let mut left: Vec<_> = self.peers.iter().filter_map(has_left).collect();
        left.sort_unstable();
        let mut sum: u32 = left.iter().map(|(used, _)| used).sum();
        while sum > LEFT_MAX {
            let Some((used, node)) = left.pop() else {
                break;
            };
            sum -= used;
            self.discarded += self.endpoints.discard(node) as u64;
            self.peer(node).incoming = Incoming::default();
            self.forget_idle(node);
        }
    }

    /// Forget a node that there is nothing to know of: whoever names nodes that are not there shall not
    /// make this one remember them.
    fn forget_idle(&mut self, node: NodeId) {
        if self.peers.get(&node).is_some_and(Peer::is_idle) {
            self.peers.remove(&node);
        }
    }

    /// Nodes that there is no session with, and that there is something to tell.
    pub(crate) fn sought(&self) -> Vec<NodeId> {
        let peers = self.peers.iter();
        let sought = peers.filter(|(_, peer)| peer.stage == Stage::None && peer.is_wanted());
        sought.map(|(node, _)| *node).collect()
    }

    /// Whether there are more of them than when somebody asked this last.
    pub(crate) fn seeks(&mut self) -> bool {
        std::mem::take(&mut self.seeks)
    }

    /// A node has to be found, if there is something to tell it, and no session.
    pub(crate) fn seek(&mut self, node: NodeId) {
        let peer = self.peer(node);
        self.seeks |= peer.stage == Stage::None && peer.is_wanted();
    }

    /// Receive frames of a node and send it some; whether there were any.
    ///
    /// # Errors
    /// How the session has ended. What had arrived before was received.
    pub(crate) fn progress(&mut self, node: NodeId, wire: &mut impl Wire) -> Result<bool, End> {
        let exchanged = self.exchange(node, wire);
        if let Err(End::Gone | End::Down) = exchanged {
            self.drain(node, wire);
        }
        self.settle();
        exchanged
    }

    fn exchange(&mut self, node: NodeId, wire: &mut impl Wire) -> Result<bool, End> {
        let mut moved = self.take_in(node, wire, BUDGET)?;
        let out = self.send_out(node, wire)?;
        moved |= out.moved;
        wire.flush()?;
        // Whatever there was to send has left, or waits for room.
        self.changed.retain(|changed| *changed != node);
        if out.left {
            self.note_changed(node);
        }
        Ok(moved)
    }

    /// Receive what has arrived before a session ended.
    pub(crate) fn drain(&mut self, node: NodeId, wire: &mut impl Wire) {
        // Whatever is wrong with it now, it has ended before.
        let _ = self.take_in(node, wire, LAST);
    }

    /// Receive frames of a node; whether there were any.
    ///
    /// # Errors
    /// How the session has ended.
    pub(crate) fn take_in(
        &mut self,
        node: NodeId,
        wire: &mut impl Wire,
        budget: usize,
    ) -> Result<bool, End> {
        let mut moved = false;
        for _ in 0..budget {
            let Some(frame) = wire.receive()? else {
                break;
            };
            self.frame(node, &frame)?;
            moved = true;
        }
        Ok(moved)
    }

    /// Send frames to a node: as many as there is room for, and as are its turn.
    ///
    /// # Errors
    /// How the session has ended.
    fn send_out(&mut self, node: NodeId, wire: &mut impl Wire) -> Result<Out, End> {
        let mut out = Out::default();
        for _ in 0..BUDGET {
            let Some(peer) = self.peers.get_mut(&node) else {
                return Ok(out);
            };
            let Some(frame) = peer.next() else {
                return Ok(out);
            };
            if !wire.send(&frame)? {
                break;
            }
            out.moved = true;
            if let Some(Send {
                request,
                from,
                data,
            }) = peer.sent()
            {
                self.end_send(request, from, data.len(), Ok(()));
            }
        }
        out.left = true;
        Ok(out)
    }

    /// Whether there is something to send to a node as soon as there is room.
    pub(crate) fn has_to_send(&mut self, node: NodeId) -> bool {
        self.peers.get_mut(&node).is_some_and(Peer::can_send)
    }

    /// Let this node's own frames arrive, until there are no more; without a fabric, nothing else will.
    pub(super) fn settle(&mut self) {
        self.settle_own();
        if self.has_failed {
            self.end_pending();
        }
    }

    fn settle_own(&mut self) {
        if !std::mem::take(&mut self.own_changed) {
            return;
        }
        let mut own = std::mem::take(&mut self.own);
        let id = self.id;
        loop {
            let sent = self.send_out(id, &mut own);
            let taken = self.take_in(id, &mut own, usize::MAX);
            // A node does not lie to itself.
            debug_assert!(sent.is_ok() && taken.is_ok());
            if !matches!((sent, taken), (Ok(sent), Ok(taken)) if sent.moved || taken) {
                break;
            }
        }
        self.own_changed = false;
        self.own = own;
    }

    /// A frame of a node has arrived.
    ///
    /// # Errors
    /// [`End::Broken`]: it cannot be.
    fn frame(&mut self, node: NodeId, frame: &Frame<'_>) -> Result<(), End> {
        match frame {
            Frame::Control(control) => self.control(node, *control),
            message => self.message(node, message),
        }
    }

    /// A frame of a message has arrived. One that is whole is for a receive, or waits, or is for nobody.
    ///
    /// # Errors
    /// [`End::Broken`]: it cannot be.
    fn message(&mut self, node: NodeId, frame: &Frame<'_>) -> Result<(), End> {
        let port = frame.lane().map(|lane| lane.port);
        let local = port.and_then(|port| self.endpoints.get_mut(port).ok());
        let local = local.filter(|local| local.is_for_messages());
        let peer = self.peers.get_mut(&node);
        let peer = peer.filter(|peer| peer.stage == Stage::Ready);
        let incoming = &mut peer.ok_or(End::Broken)?.incoming;
        let Some(Arrived { lane, total, data }) = incoming.frame(frame, local.is_some())? else {
            return Ok(());
        };
        let (Some(local), Some(data)) = (local, data) else {
            self.discard(node, lane, total);
            return Ok(());
        };
        match local.take_posted() {
            Some(Posted { request, room }) => {
                let received = Completion::message(data, room);
                self.requests.complete(request, Ok(received));
                self.free(node, lane, total);
            }
            None => local.keep(Message { node, lane, data }),
        }
        Ok(())
    }

    /// A frame without data has arrived.
    ///
    /// # Errors
    /// [`End::Broken`]: it cannot be.
    fn control(&mut self, node: NodeId, control: Control) -> Result<(), End> {
        let peer = self.peer(node);
        match (peer.stage, control) {
            (Stage::Opening, Control::Debt { lane, count }) => peer.outgoing.debt(lane, count),
            (Stage::Opening, Control::Ready { version, features }) if version > 0 => {
                peer.ready(features);
                if !peer.has_channels() {
                    let (asks, reservations) = peer.take_channels();
                    self.end_asks(asks, End::Broken);
                    self.end_reservations(reservations, End::Broken);
                }
                Ok(())
            }
            (Stage::Ready, Control::Credit { lane, count }) => peer.outgoing.credit(lane, count),
            (Stage::Ready, Control::Get { number, port }) => self.answer_get(node, number, port),
            (Stage::Ready, Control::Withdrawn { number }) => {
                // One that was answered is taken back when the answer arrives.
                match peer.parked.remove(&number) {
                    Some(_) => {
                        let result = Err(Error::RequestCancelled);
                        self.tell(node, Control::Got { number, result })
                    }
                    None => Ok(()),
                }
            }
            (Stage::Ready, Control::Released { port, life }) => {
                let local = self.endpoints.get_mut(port).ok();
                if let Some(local) = local.filter(|local| local.life == life) {
                    local.unget(node);
                }
                Ok(())
            }
            (Stage::Ready, Control::Got { number, result }) => {
                self.got(node, number, result);
                Ok(())
            }
            (
                Stage::Ready,
                Control::Question {
                    number,
                    subject,
                    attribute,
                },
            ) => {
                let result = self.answer(node, subject, attribute);
                self.tell(node, Control::Told { number, result })
            }
            (Stage::Ready, Control::Told { number, result }) => {
                if let Some(ask) = peer.asks.remove(&number) {
                    let outcome = result.map(Completion::Value);
                    self.requests.complete(ask.request, outcome);
                }
                Ok(())
            }
            (Stage::Ready, control) if peer.has_channels() => {
                self.channel(node, control)?;
                self.peer(node).check()
            }
            _ => Err(End::Broken),
        }
    }

    /// A frame about channels has arrived.
    ///
    /// # Errors
    /// [`End::Broken`]: it is none.
    fn channel(&mut self, node: NodeId, control: Control) -> Result<(), End> {
        match control {
            Control::Connect {
                number,
                kind,
                send,
                receive,
            } => self.asked_to_connect(node, number, kind, send, receive),
            Control::Connected { number, result } => {
                if let Some(ask) = self.peer(node).asks.remove(&number) {
                    let outcome = result.map(|()| Completion::Connected);
                    self.requests.complete(ask.request, outcome);
                }
            }
            Control::Reserve { .. } => self.asked_to_reserve(node, control),
            Control::Reserved { number, result } => self.reserved(node, number, result),
            Control::Channel { port, id, say } => self.told_of_channel(node, port, id, say),
            _ => return Err(End::Broken),
        }
        Ok(())
    }

    /// A get was answered.
    fn got(&mut self, node: NodeId, number: u32, result: Result<u32>) {
        let peer = self.peer(node);
        let withdrawn = peer.withdrawn.remove(&number);
        if let (Some(port), Ok(life)) = (withdrawn, result) {
            peer.tell(Control::Released { port, life });
        }
        if let Some((request, port)) = peer.gets.remove(&number) {
            let endpoint = Endpoint::of(node, port);
            let outcome = result.map(|_| Completion::Endpoint(endpoint));
            self.requests.complete(request, outcome);
        }
    }

    /// Tell a node something that it has asked for.
    ///
    /// # Errors
    /// [`End::Broken`]: it does not take its answers.
    fn tell(&mut self, node: NodeId, frame: Control) -> Result<(), End> {
        let peer = self.peer(node);
        peer.tell(frame);
        peer.check()
    }

    fn answer_get(&mut self, node: NodeId, number: u32, port: u16) -> Result<(), End> {
        match self.endpoints.get_mut(port) {
            Ok(local) => {
                let result = local.get(node).map(|()| local.life);
                self.tell(node, Control::Got { number, result })
            }
            Err(_) => {
                let peer = self.peer(node);
                match peer.parked.insert(number, port) {
                    None => peer.check(),
                    Some(_) => Err(End::Broken),
                }
            }
        }
    }

    /// Answer those who wait for a port.
    pub(super) fn answer_parked(&mut self, port: u16) {
        let Ok(local) = self.endpoints.get_mut(port) else {
            return;
        };
        let mut changed = Vec::new();
        for (node, peer) in &mut self.peers {
            let waiting = peer.parked.iter().filter(|(_, wanted)| **wanted == port);
            let waiting: Vec<u32> = waiting.map(|(number, _)| *number).collect();
            for number in waiting {
                peer.parked.remove(&number);
                changed.push(*node);
                let result = local.get(*node).map(|()| local.life);
                peer.tell(Control::Got { number, result });
            }
        }
        changed.into_iter().for_each(|node| self.note_changed(node));
    }

    fn answer(&self, asker: NodeId, subject: Subject, attribute: u16) -> Result<u64> {
        match subject {
            Subject::Node => self.attributes.get(attribute.into()),
            Subject::Endpoint { port } => match attribute {
                NEXT_PORT => self.endpoints.next(port).map(u64::from),
                PARTNER => self.endpoints.get(port)?.partner().map(Endpoint::to_raw),
                other => self.attribute(port, Attribute::of(other.into())?, asker),
            },
        }
    }
}
