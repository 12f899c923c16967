// SPDX-License-Identifier: MIT OR Apache-2.0

//! A node without I/O: endpoints, messages, gets, questions, and the requests that they complete.
//!
//! Calls of the program change it at once or begin requests; frames go over a [`Wire`] for each
//! peer. The node itself is a peer, whose wire is a [`Loop`]: what is true between two nodes is so
//! within one.
//!
//! | what | where |
//! |---|---|
//! | calls of the program | here |
//! | frames that arrive, sessions that begin and end | `peers` |

mod channels;
mod peers;
#[cfg(test)]
mod tests;

use crate::{
    attributes::{Attribute, NodeState},
    channel::Direction,
    endpoint::{Endpoints, Local, Message, Posted},
    incoming::Arrived,
    outgoing::Send,
    peer::{Peer, Stage},
    request::{By, Requests},
    table::Table,
    wire::{copied, Control, End, Frame, Lane, Loop, Subject, Wire},
    Completion, Endpoint, Error, NodeAttributes, NodeId, Outcome, Parameters, Request, Result,
    MESSAGE_MAX, PRIORITIES,
};
pub(crate) use channels::News;
use mp_queue_pair::Piece;
pub(crate) use peers::LAST;
use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `by`: whether it takes one of the endpoint's send buffers.
    Send {
        to: NodeId,
        lane: Lane,
        from: u16,
        by: By,
    },
    Receive {
        port: u16,
    },
    Get {
        node: NodeId,
        number: u32,
    },
    /// Something that a node answers.
    Ask {
        node: NodeId,
        number: u32,
    },
    Open {
        port: u16,
    },
    Close {
        port: u16,
    },
    /// A packet that is to be sent or received.
    Packet {
        port: u16,
    },
}

/// A node.
#[derive(Debug)]
pub(crate) struct Engine {
    id: NodeId,
    attributes: NodeAttributes,
    parameters: Parameters,
    endpoints: Endpoints,
    requests: Requests<Operation>,
    /// Nodes that there was something to do with, among them this one.
    peers: Table<NodeId, Peer>,
    own: Loop,
    /// Messages that no endpoint was there for.
    discarded: u64,
    /// Nodes to be found, since the last time that somebody asked.
    seeks: bool,
    /// Nodes that there may be more to send to, in the order of their turns.
    changed: VecDeque<NodeId>,
    /// This one is such a node.
    own_changed: bool,
    /// What has happened to channels, likewise.
    news: Vec<News>,
    /// What identifiers of connections are made of, which nobody guesses.
    keys: RandomState,
    ids: u64,
    /// Ends that were opened.
    opens: u32,
    /// The fabric has ended under the node.
    has_failed: bool,
}

impl Engine {
    pub(crate) fn new(id: NodeId, attributes: NodeAttributes, parameters: Parameters) -> Self {
        let mut engine = Engine {
            id,
            attributes,
            parameters,
            endpoints: Endpoints::new(parameters.endpoints),
            requests: Requests::new(parameters.requests),
            peers: Table::default(),
            own: Loop::default(),
            discarded: 0,
            seeks: false,
            changed: VecDeque::new(),
            own_changed: false,
            news: Vec::new(),
            keys: RandomState::new(),
            ids: 0,
            opens: 0,
            has_failed: false,
        };
        engine.peer(id).open();
        engine.settle();
        engine
    }

    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    /// Say how far the node is.
    pub(crate) fn mark(&mut self, state: NodeState) {
        self.attributes.state = state;
    }

    /// Messages that were discarded: no endpoint was there for them, or none any more.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    pub(crate) fn requests(&mut self) -> &mut Requests<Operation> {
        &mut self.requests
    }

    /// There may be more to send to a node. What this one sends itself, [`settle`](Self::settle) sees
    /// to.
    fn note_changed(&mut self, node: NodeId) {
        if node == self.id {
            self.own_changed = true;
        } else if !self.changed.contains(&node) {
            self.changed.push_back(node);
        }
    }

    /// The peer, which is from now on one that there is something to do with.
    fn peer(&mut self, node: NodeId) -> &mut Peer {
        self.note_changed(node);
        self.peers.entry(node).or_default()
    }

    /// The endpoint of this node that a handle is for.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]: there is none, or it is another node's.
    pub(crate) fn local(&self, endpoint: Endpoint) -> Result<&Local> {
        match endpoint.node() == self.id {
            true => self.endpoints.get(endpoint.port()),
            false => Err(Error::EndpointInvalid),
        }
    }

    fn local_mut(&mut self, endpoint: Endpoint) -> Result<&mut Local> {
        match endpoint.node() == self.id {
            true => self.endpoints.get_mut(endpoint.port()),
            false => Err(Error::EndpointInvalid),
        }
    }

    /// Make an endpoint, and answer whoever waits for it (MC-EPCREATE-5).
    ///
    /// # Errors
    /// [`Error::EndpointExists`], [`Error::PortInvalid`], [`Error::General`].
    pub(crate) fn create(&mut self, port: Option<u16>) -> Result<Endpoint> {
        let port = self.endpoints.create(port)?;
        self.answer_parked(port);
        self.settle();
        Ok(Endpoint::of(self.id, port))
    }

    /// Take an endpoint away (MC-EPDEL-1 to MC-EPDEL-7).
    ///
    /// # Errors
    /// [`Error::EndpointNotOwner`], [`Error::EndpointInvalid`], [`Error::ChannelConnected`].
    pub(crate) fn delete(&mut self, endpoint: Endpoint) -> Result<()> {
        if endpoint.node() != self.id {
            return Err(Error::EndpointNotOwner);
        }
        self.endpoints.get(endpoint.port())?.check_free()?;
        self.end_messages(endpoint.port(), Error::EndpointInvalid);
        let local = self.endpoints.remove(endpoint.port())?;
        if let Some((_, request)) = local.waiting {
            self.requests.complete(request, Err(Error::EndpointDeleted));
        }
        self.settle();
        Ok(())
    }

    /// An endpoint is not for messages any more: receives that wait fail, and messages that wait, or
    /// have begun to arrive, are discarded.
    fn end_messages(&mut self, port: u16, error: Error) {
        for peer in self.peers.values_mut() {
            peer.incoming.unwant(port);
        }
        while let Some(posted) = self.local_at(port).and_then(Local::take_posted) {
            self.requests.complete(posted.request, Err(error));
        }
        while let Some(message) = self.local_at(port).and_then(Local::take) {
            self.discard(message.node, message.lane, message.data.len());
        }
    }

    fn local_at(&mut self, port: u16) -> Option<&mut Local> {
        self.endpoints.get_mut(port).ok()
    }

    /// A message is not for anybody.
    fn discard(&mut self, node: NodeId, lane: Lane, len: usize) {
        self.discarded += 1;
        self.peer(node).incoming.discard(lane, len);
    }

    /// Give a message's buffers back to its sender.
    fn free(&mut self, node: NodeId, lane: Lane, len: usize) {
        let peer = self.peers.get_mut(&node);
        if peer.is_some_and(|peer| peer.incoming.free(lane, len)) {
            self.note_changed(node);
        }
    }

    /// The value of an attribute of an endpoint of this node, as another one sees it (MC-ATTR-6).
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`].
    pub(crate) fn attribute(&self, port: u16, attribute: Attribute, asker: NodeId) -> Result<u64> {
        let local = self.endpoints.get(port)?;
        if attribute != Attribute::NumRecvBuffers {
            return Ok(local.attribute(attribute));
        }
        let level = local.settings.priorities.saturating_sub(1) as u16;
        let lane = Lane { level, port };
        let senders = self.peers.iter();
        let seen = senders.filter(|(node, _)| asker == self.id || asker == **node);
        let free = seen.map(|(_, peer)| peer.incoming.available(lane)).min();
        Ok(free.unwrap_or(crate::RECEIVE_BUFFERS).into())
    }

    /// Set an attribute of an endpoint of this node. One that is for a channel from now on has no
    /// messages, as if it were connected (MC-CHAN-19).
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`], [`Error::EndpointRemote`], [`Error::ChannelConnected`], and those
    /// of [`Settings::set`].
    ///
    /// [`Settings::set`]: crate::attributes::Settings::set
    pub(crate) fn set_attribute(
        &mut self,
        endpoint: Endpoint,
        attribute: Attribute,
        value: u64,
    ) -> Result<()> {
        if endpoint.node() != self.id {
            return Err(Error::EndpointRemote);
        }
        let local = self.local_mut(endpoint)?;
        local.check_free()?;
        local.settings.set(attribute, value)?;
        if !local.is_for_messages() {
            self.end_messages(endpoint.port(), Error::General);
            self.settle();
        }
        Ok(())
    }

    /// Begin to wait until an endpoint exists (MC-EPGETI-1 to MC-EPGETI-6).
    ///
    /// # Errors
    /// [`Error::RequestLimit`].
    pub(crate) fn get(&mut self, endpoint: Endpoint, by: By) -> Result<Request> {
        let (node, port) = (endpoint.node(), endpoint.port());
        let number = self.peer(node).number();
        let operation = Operation::Get { node, number };
        let request = self.requests.begin(by, operation)?;
        let peer = self.peer(node);
        peer.gets.insert(number, (request, port));
        peer.tell(Control::Get { number, port });
        self.seek(node);
        self.settle();
        Ok(request)
    }

    /// Begin to ask another node, or this one.
    ///
    /// # Errors
    /// [`Error::RequestLimit`].
    pub(crate) fn ask(
        &mut self,
        node: NodeId,
        subject: Subject,
        attribute: u16,
    ) -> Result<Request> {
        self.begin_ask(node, By::Call, |number| Control::Question {
            number,
            subject,
            attribute,
        })
    }

    /// What a message needs before anything of it is kept (MC-GEN-4); the lane that it takes.
    ///
    /// # Errors
    /// As [`send`](Self::send), but for the limits.
    pub(crate) fn check_send(
        &self,
        from: Endpoint,
        to: Endpoint,
        len: usize,
        priority: u32,
    ) -> Result<Lane> {
        let settings = &self.local(from)?.settings;
        if self.local(to).is_ok_and(|local| !local.is_for_messages()) {
            return Err(Error::General);
        }
        if len > MESSAGE_MAX.min(settings.max_payload as usize) {
            return Err(Error::MessageSize);
        }
        let level = u16::try_from(priority).ok();
        let level = level.filter(|_| priority < settings.priorities.min(PRIORITIES as u32));
        Ok(Lane {
            level: level.ok_or(Error::Priority)?,
            port: to.port(),
        })
    }

    /// Begin to send a message (MC-MSGSENDI-1 to MC-MSGSENDI-5).
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]: the sender's; [`Error::General`]: an endpoint of this node that
    /// is not for messages; [`Error::MessageSize`], [`Error::Priority`], [`Error::RequestLimit`];
    /// [`Error::MemoryLimit`]: there is no memory for the copy, or, of calls that do not wait, as many
    /// wait as may.
    pub(crate) fn send(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        data: Piece<'_>,
        priority: u32,
        by: By,
    ) -> Result<Request> {
        let lane = self.check_send(from, to, data.len(), priority)?;
        let request = self.begin_send(from, to, lane, by)?;
        self.queue(request, data)?;
        Ok(request)
    }

    /// Begin to send a message on a lane: its data are [queued](Self::queue), or have
    /// left, which [ends](Self::end_send) it.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`], [`Error::RequestLimit`], [`Error::MemoryLimit`], as of
    /// [`send`](Self::send).
    pub(crate) fn begin_send(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        lane: Lane,
        by: By,
    ) -> Result<Request> {
        self.requests.check(by)?;
        let is_counted = by == By::Program;
        let local = self.local(from)?;
        if is_counted && local.sends >= local.settings.send_buffers {
            return Err(Error::MemoryLimit);
        }
        let operation = Operation::Send {
            to: to.node(),
            lane,
            from: from.port(),
            by,
        };
        let request = self.requests.begin(by, operation)?;
        self.local_mut(from)?.sends += u32::from(is_counted);
        Ok(request)
    }

    /// Let a message that has begun wait for its turn, with a copy of its data.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`]: there is no memory for it, and the request is none any more.
    pub(crate) fn queue(&mut self, request: Request, data: Piece<'_>) -> Result<()> {
        let operation = self.requests.operation(request).copied();
        let Some(Operation::Send { to, lane, from, by }) = operation else {
            return Err(Error::RequestInvalid);
        };
        let data = copied(&data).inspect_err(|_| {
            self.give_send_buffer(from, by);
            // It was there just now.
            let _ = self.requests.release(request);
        })?;
        let send = Send {
            request,
            from,
            data,
        };
        self.peer(to).outgoing.push(lane, send);
        self.seek(to);
        self.settle();
        Ok(())
    }

    /// Send a message at once, from where it is; false if it has more than one frame, or something goes
    /// first, or there is no room.
    ///
    /// # Errors
    /// How the session has ended.
    pub(crate) fn send_at_once(
        &mut self,
        to: NodeId,
        message: Frame<'_>,
        wire: &mut impl Wire,
    ) -> Result<bool, End> {
        match self.peers.get_mut(&to) {
            Some(peer) => peer.send_at_once(message, wire),
            None => Ok(false),
        }
    }

    /// A send is over, one way or the other.
    pub(crate) fn end_send(
        &mut self,
        request: Request,
        from: u16,
        size: usize,
        result: Result<()>,
    ) {
        if let Some(Operation::Send { by, .. }) = self.requests.operation(request).copied() {
            self.give_send_buffer(from, by);
            self.requests
                .complete(request, result.map(|()| Completion::Sent(size)));
        }
    }

    fn give_send_buffer(&mut self, from: u16, by: By) {
        // The endpoint may be another one by now: then it has not so many.
        if let (By::Program, Ok(local)) = (by, self.endpoints.get_mut(from)) {
            local.sends = local.sends.saturating_sub(1);
        }
    }

    /// The endpoint that a receive is from.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]; [`Error::General`]: it is not for messages.
    fn receiver(&mut self, endpoint: Endpoint) -> Result<&mut Local> {
        let local = self.local_mut(endpoint)?;
        match local.is_for_messages() {
            true => Ok(local),
            false => Err(Error::General),
        }
    }

    /// Take a message, if one waits.
    ///
    /// # Errors
    /// As of [`receive`](Self::receive), but for the limit.
    pub(crate) fn try_receive(&mut self, endpoint: Endpoint) -> Result<Option<Vec<u8>>> {
        let Some(message) = self.receiver(endpoint)?.take() else {
            return Ok(None);
        };
        self.free(message.node, message.lane, message.data.len());
        self.settle();
        Ok(Some(message.data))
    }

    /// Begin to receive a message of at most so many bytes (MC-MSGRECVI-1 to MC-MSGRECVI-4).
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]; [`Error::General`]: the endpoint is not for messages;
    /// [`Error::RequestLimit`].
    pub(crate) fn receive(&mut self, endpoint: Endpoint, room: usize, by: By) -> Result<Request> {
        self.receiver(endpoint)?;
        let port = endpoint.port();
        let request = self.requests.begin(by, Operation::Receive { port })?;
        match self.try_receive(endpoint)? {
            Some(data) => self
                .requests
                .complete(request, Ok(Completion::message(data, room))),
            None => {
                self.receiver(endpoint)?.post(Posted { request, room });
                self.settle();
            }
        }
        Ok(request)
    }

    /// The node that a request sends a message to whose first frame was sent, and its last one not.
    pub(crate) fn started(&self, request: Request) -> Option<NodeId> {
        let operation = self.requests.operation(request);
        let Some(Operation::Send { to, lane, .. }) = operation else {
            return None;
        };
        let peer = self.peers.get(to)?;
        peer.outgoing.is_started(*lane, request).then_some(*to)
    }

    /// Whether nothing has come up that others have to see to.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        let has_over = !self.requests.over().is_empty();
        self.changed.is_empty() && self.news.is_empty() && !self.seeks && !has_over
    }

    /// How many nodes there may be more to send to.
    pub(crate) fn changes(&self) -> usize {
        self.changed.len()
    }

    /// The next one of them, once.
    pub(crate) fn next_changed(&mut self) -> Option<NodeId> {
        self.changed.pop_front()
    }

    /// Withdraw what a request is for, and release it (MC-CANCEL-1 to MC-CANCEL-5): how it had
    /// ended before, if it had.
    ///
    /// # Errors
    /// [`Error::RequestInvalid`].
    pub(crate) fn cancel(&mut self, request: Request) -> Result<Option<Outcome>> {
        let (operation, done) = self.requests.release(request)?;
        if done.is_some() {
            return Ok(done);
        }
        self.withdraw(operation, request);
        self.settle();
        Ok(None)
    }

    /// Withdraw what a request is for that is pending.
    fn withdraw(&mut self, operation: Operation, request: Request) {
        match operation {
            Operation::Send { to, lane, from, by } => {
                self.peer(to).outgoing.withdraw(lane, request);
                self.give_send_buffer(from, by);
            }
            Operation::Receive { port } => {
                if let Ok(local) = self.endpoints.get_mut(port) {
                    local.withdraw(request);
                }
            }
            Operation::Get { node, number } => self.peer(node).withdraw(number),
            Operation::Ask { node, number } => {
                self.peer(node).asks.remove(&number);
            }
            Operation::Open { port } => self.withdraw_open(port, request),
            Operation::Close { port } => self.withdraw_close(port, request),
            Operation::Packet { port } => self.withdraw_packet(port, request),
        }
    }

    /// End everything: the fabric has ended under the node. From now on, what cannot be done at once
    /// fails.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
        let others = self.peers.keys().filter(|node| **node != self.id);
        for node in others.copied().collect::<Vec<_>>() {
            self.down(node, End::Down);
        }
        self.sever_all(self.id);
        self.settle();
    }

    /// End what is pending, for nothing comes any more. Data of channels end with the channels, which
    /// are severed.
    fn end_pending(&mut self) {
        for request in self.requests.pending() {
            let Some(operation) = self.requests.operation(request).copied() else {
                continue;
            };
            let error = match operation {
                Operation::Packet { .. } => continue,
                Operation::Send { .. } | Operation::Receive { .. } => Error::Transmission,
                _ => Error::General,
            };
            self.withdraw(operation, request);
            self.requests.complete(request, Err(error));
        }
    }
}
