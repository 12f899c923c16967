// SPDX-License-Identifier: MIT OR Apache-2.0

//! Other nodes: sessions that begin and end, and the frames that they send.

use super::*;
use crate::wire::{End, Frame, Wire};

/// Frames that are received or sent at once before others get a turn.
const BUDGET: usize = 64;

impl Engine {
    /// A session with a node has begun.
    pub(crate) fn up(&mut self, node: NodeId) {
        self.peer(node).open();
    }

    /// A session has ended, or none can be had. Gets go on waiting (MC-EPGETI-5, MC-FINAL-3).
    pub(crate) fn down(&mut self, node: NodeId, end: End) {
        let peer = self.peer(node);
        peer.close();
        let sends = peer.outgoing.reset();
        let questions = std::mem::take(&mut peer.questions);
        // What is sent to a node that is not there is discarded (MC-MSG-6); that there is no way
        // to it is told (MC-MSG-8).
        let (send, error) = match end {
            End::Gone => (Ok(()), Error::NodeInvalid),
            End::Down | End::Broken => (Err(Error::Transmission), Error::General),
        };
        for Send {
            request,
            from,
            data,
        } in sends
        {
            self.end_send(request, from, data.len(), send);
        }
        for question in questions.into_values() {
            self.requests.complete(question.request, Err(error));
        }
        self.endpoints.forget(node);
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
    /// How the session has ended.
    pub(crate) fn progress(&mut self, node: NodeId, wire: &mut impl Wire) -> Result<bool, End> {
        let mut moved = self.take_in(node, wire, BUDGET)?;
        moved |= self.send_out(node, wire)?;
        if moved {
            wire.flush()?;
        }
        self.settle();
        Ok(moved)
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

    fn send_out(&mut self, node: NodeId, wire: &mut impl Wire) -> Result<bool, End> {
        let mut moved = false;
        for _ in 0..BUDGET {
            let Some(peer) = self.peers.get_mut(&node) else {
                break;
            };
            let Some(frame) = peer.next() else {
                break;
            };
            if !wire.send(&frame)? {
                break;
            }
            moved = true;
            if let Some(Send {
                request,
                from,
                data,
            }) = peer.sent()
            {
                self.end_send(request, from, data.len(), Ok(()));
            }
        }
        Ok(moved)
    }

    /// Whether there is something to send to a node as soon as there is room.
    pub(crate) fn has_to_send(&mut self, node: NodeId) -> bool {
        self.peers.get_mut(&node).is_some_and(Peer::can_send)
    }

    /// Let this node's own frames arrive, until there are no more.
    pub(super) fn settle(&mut self) {
        let mut own = std::mem::take(&mut self.own);
        let id = self.id;
        loop {
            let sent = self.send_out(id, &mut own);
            let taken = self.take_in(id, &mut own, usize::MAX);
            // A node does not lie to itself.
            debug_assert!(sent.is_ok() && taken.is_ok());
            if !matches!((sent, taken), (Ok(sent), Ok(taken)) if sent || taken) {
                break;
            }
        }
        self.own = own;
    }

    /// A frame of a node has arrived.
    ///
    /// # Errors
    /// [`End::Broken`]: it cannot be.
    fn frame(&mut self, node: NodeId, frame: &Frame<'_>) -> Result<(), End> {
        let peer = self.peer(node);
        match (peer.stage, frame) {
            (_, Frame::Control(control)) => self.control(node, *control),
            (Stage::Ready, frame) => {
                if let Some(arrived) = peer.incoming.frame(frame)? {
                    self.deliver(node, arrived);
                }
                Ok(())
            }
            _ => Err(End::Broken),
        }
    }

    /// A frame without data has arrived.
    ///
    /// # Errors
    /// [`End::Broken`]: it cannot be.
    fn control(&mut self, node: NodeId, control: Control) -> Result<(), End> {
        let peer = self.peer(node);
        match (peer.stage, control) {
            (Stage::Opening, Control::Debt { lane, count }) => peer.outgoing.debt(lane, count),
            (Stage::Opening, Control::Ready { version, .. }) if version > 0 => {
                peer.ready();
                Ok(())
            }
            (Stage::Ready, Control::Credit { lane, count }) => peer.outgoing.credit(lane, count),
            (Stage::Ready, Control::Get { number, port }) => self.answer_get(node, number, port),
            (Stage::Ready, Control::Withdrawn { number, port }) => {
                if peer.parked.remove(&number).is_none() {
                    if let Ok(local) = self.endpoints.get_mut(port) {
                        local.unget(node);
                    }
                }
                Ok(())
            }
            (Stage::Ready, Control::Got { number, result }) => {
                // One that was withdrawn meanwhile waits for nothing.
                if let Some((request, port)) = peer.gets.remove(&number) {
                    let endpoint = Endpoint::of(node, port);
                    let outcome = result.map(|()| Completion::Endpoint(endpoint));
                    self.requests.complete(request, outcome);
                }
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
                if let Some(question) = peer.questions.remove(&number) {
                    let outcome = result.map(Completion::Value);
                    self.requests.complete(question.request, outcome);
                }
                Ok(())
            }
            _ => Err(End::Broken),
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

    /// A message has arrived: it is for a receive, or waits, or is for nobody.
    fn deliver(&mut self, node: NodeId, arrived: Arrived) {
        let Arrived { lane, data } = arrived;
        let len = data.len();
        let local = self.endpoints.get_mut(lane.port);
        let Ok(local) = local.and_then(|local| match local.is_for_messages() {
            true => Ok(local),
            false => Err(Error::General),
        }) else {
            return self.discard(node, lane, len);
        };
        match local.take_posted() {
            Some(Posted { request, room }) => {
                self.requests
                    .complete(request, Ok(Completion::message(data, room)));
                self.free(node, lane, len);
            }
            None => local.keep(Message { node, lane, data }),
        }
    }

    fn answer_get(&mut self, node: NodeId, number: u32, port: u16) -> Result<(), End> {
        match self.endpoints.get_mut(port) {
            Ok(local) => {
                let result = local.get(node);
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
        for (node, peer) in &mut self.peers {
            let waiting = peer.parked.iter().filter(|(_, wanted)| **wanted == port);
            let waiting: Vec<u32> = waiting.map(|(number, _)| *number).collect();
            for number in waiting {
                peer.parked.remove(&number);
                let result = local.get(*node);
                peer.tell(Control::Got { number, result });
            }
        }
    }

    fn answer(&self, asker: NodeId, subject: Subject, attribute: u16) -> Result<u64> {
        match subject {
            Subject::Node => self.attributes.get(attribute.into()),
            Subject::Endpoint { port } => {
                self.attribute(port, Attribute::of(attribute.into())?, asker)
            }
        }
    }
}
