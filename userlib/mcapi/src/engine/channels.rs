// SPDX-License-Identifier: MIT OR Apache-2.0

//! Channels: endpoints that are connected, opened and closed by their owners.
//!
//! A connect is a transaction of the owner of the lower endpoint: it reserves that one, asks the
//! owner of the other one, which connects it or refuses, and then connects its own or frees it. Of
//! connects that are for the same endpoints, the one that holds the highest of them succeeds.

use super::*;
use crate::{
    channel::{Channel, Kind},
    connection::{Connection, Role, Say, Step},
    peer::{Ask, Reservation},
    pipe::Plan,
    wire::{End, Terms},
};

/// What has happened to a channel that engines do not see to: data, and the way for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The receiving end is to be posted for the node of the other end.
    Post { port: u16, id: u64, peer: NodeId },
    /// The receiving end is to be asked.
    Ask { port: u16, id: u64, peer: NodeId },
    /// It is open, by that handle.
    Opened { port: u16, channel: Channel },
    /// The program has closed this end.
    ClosedHere { port: u16 },
    /// The other end was closed.
    ClosedThere { port: u16 },
    /// Nothing comes or goes any more.
    Severed { port: u16 },
    /// A packet is not to be sent or received any more.
    Withdrawn { port: u16, request: Request },
    /// The endpoint is not connected any more.
    Ended { port: u16 },
}

/// How often a connect is found unanswered before it is given up.
pub(super) const AGE_MAX: u8 = 4;

impl Engine {
    /// How the way for data of an endpoint's channel is made.
    pub(crate) fn plan(&self, port: u16) -> Option<Plan> {
        let local = self.endpoints.get(port).ok()?;
        let connection = local.connection.as_ref()?;
        let Connection { id, role, .. } = *connection;
        Some(Plan {
            port,
            id,
            role,
            max_payload: local.settings.max_payload,
            buffers: local.settings.buffers,
            memory: local.settings.memory,
            timeout: local.settings.timeout,
            send_buffers: local.settings.send_buffers,
            priority: local.settings.priority,
        })
    }

    /// What has happened to channels since this was asked last.
    pub(crate) fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// What an endpoint says of itself when it is connected.
    fn terms(local: &Local) -> Terms {
        Terms {
            max_payload: local.settings.max_payload,
            priorities: local.settings.priorities as u16,
            priority: local.settings.priority as u8,
            buffers: local.settings.buffers,
            memory: local.settings.memory,
        }
    }

    /// Begin to connect two endpoints (MC-PKTCONN-1 to MC-PKTCONN-7).
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]: they are one; [`Error::RequestLimit`]; what this node, if it is
    /// the one that decides, objects to.
    pub(crate) fn connect(
        &mut self,
        kind: Kind,
        send: Endpoint,
        receive: Endpoint,
    ) -> Result<Request> {
        if send == receive {
            return Err(Error::EndpointInvalid);
        }
        let request = self.begin_ask(send.min(receive).node(), By::Program, |number| {
            Control::Connect {
                number,
                kind,
                send,
                receive,
            }
        })?;
        self.at_once(request)
    }

    /// A request that has failed at once is none: its error is the call's (MC-GEN-6).
    pub(crate) fn at_once(&mut self, request: Request) -> Result<Request> {
        match self.requests.test(request)? {
            Some(Err(error)) => {
                let error = *error;
                self.requests.release(request)?;
                Err(error)
            }
            _ => Ok(request),
        }
    }

    /// A node wants two endpoints connected, of which this one has the lower one.
    pub(super) fn asked_to_connect(
        &mut self,
        node: NodeId,
        number: u32,
        kind: Kind,
        send: Endpoint,
        receive: Endpoint,
    ) {
        if let Err(error) = self.reserve(node, number, kind, send, receive) {
            let result = Err(error);
            self.peer(node).tell(Control::Connected { number, result });
        }
    }

    fn reserve(
        &mut self,
        asker: NodeId,
        number: u32,
        kind: Kind,
        send: Endpoint,
        receive: Endpoint,
    ) -> Result<()> {
        let (own, partner) = (send.min(receive), send.max(receive));
        if own.node() != self.id || own == partner {
            return Err(Error::EndpointInvalid);
        }
        let direction = match own == send {
            true => Direction::Send,
            false => Direction::Receive,
        };
        let role = Role { kind, direction };
        self.ids += 1;
        let id = self.keys.hash_one(self.ids);
        let local = self.endpoints.get(own.port())?;
        local.check_connect(role, self.parameters.is_strict)?;
        let terms = Self::terms(local);
        if self.peer(partner.node()).refuses_channels() {
            return Err(Error::General);
        }
        let local = self.endpoints.get_mut(own.port())?;
        local.reserved = Some(id);
        let peer = self.peer(partner.node());
        let frame = Control::Reserve {
            number: peer.number(),
            id,
            port: partner.port(),
            role: role.other(),
            partner: own,
            terms,
        };
        peer.reserve(Reservation {
            frame,
            id,
            own: own.port(),
            role,
            partner,
            asker: Some((asker, number)),
            age: 0,
        });
        self.seek(partner.node());
        Ok(())
    }

    /// A node that has the lower of two endpoints wants the higher one, of this node, connected.
    pub(super) fn asked_to_reserve(&mut self, node: NodeId, frame: Control) {
        let Control::Reserve {
            number,
            id,
            port,
            role,
            partner,
            terms,
        } = frame
        else {
            return;
        };
        let may = self.endpoints.get(port).and_then(|local| {
            local.check_connect(role, self.parameters.is_strict)?;
            match (partner.node() == node, terms == Self::terms(local)) {
                (false, _) => Err(Error::EndpointInvalid),
                (true, false) => Err(Error::AttributeIncompatible),
                (true, true) => Ok(()),
            }
        });
        self.peer(node).tell(Control::Reserved {
            number,
            result: may,
        });
        if may.is_ok() {
            self.connect_end(port, Connection::new(id, role, partner));
        }
    }

    /// The owner of the higher endpoint has answered.
    pub(super) fn reserved(&mut self, node: NodeId, number: u32, result: Result<()>) {
        if let Some(reservation) = self.peer(node).reservations.remove(&number) {
            self.settle_reservation(&reservation, result);
        }
    }

    /// A connect is over: connect the own endpoint, or free it, and answer.
    pub(super) fn settle_reservation(&mut self, reservation: &Reservation, result: Result<()>) {
        let Reservation {
            id,
            own,
            role,
            partner,
            asker,
            ..
        } = *reservation;
        if let Ok(local) = self.endpoints.get_mut(own) {
            local.reserved = None;
        }
        if result.is_ok() {
            self.connect_end(own, Connection::new(id, role, partner));
        }
        if let Some((asker, number)) = asker {
            self.peer(asker).tell(Control::Connected { number, result });
        }
    }

    /// Let connects that are not answered grow older, and end those that are too old, so that no
    /// endpoint of this node is reserved for ever; the nodes that do not take what they are told, whose
    /// sessions have to end.
    pub(crate) fn age(&mut self) -> Vec<NodeId> {
        let (mut given_up, mut over) = (Vec::new(), Vec::new());
        for (node, peer) in &mut self.peers {
            given_up.extend(peer.age(AGE_MAX).into_iter().map(|old| (*node, old)));
            over.extend(peer.check().is_err().then_some(*node));
        }
        for (node, reservation) in given_up {
            self.note_changed(node);
            self.settle_reservation(&reservation, Err(Error::General));
        }
        self.settle();
        over
    }

    /// A node has gone: connects that it has asked for go on, but whoever has its number next does
    /// not learn of them.
    pub(super) fn forget_asker(&mut self, node: NodeId) {
        let peers = self.peers.values_mut();
        for reservation in peers.flat_map(|peer| peer.reservations.values_mut()) {
            reservation.asker = reservation.asker.filter(|(asker, _)| *asker != node);
        }
    }

    /// An endpoint is connected (MC-CHAN-8, MC-CHAN-19); one that is being opened goes on, or was
    /// opened as something else (MC-CHAN-10, MC-CHAN-11).
    fn connect_end(&mut self, port: u16, connection: Connection) {
        let Ok(local) = self.endpoints.get_mut(port) else {
            return;
        };
        let role = connection.role;
        let waiting = local.connect(connection);
        self.end_messages(port, Error::General);
        if let Some((wanted, request)) = waiting {
            match role.check(wanted) {
                Ok(()) => self.change(port, |end, steps| end.open(request, steps)),
                Err(error) => self.requests.complete(request, Err(error)),
            }
        }
    }

    /// Begin to open an end (MC-PKTROPEN-1 to MC-PKTROPEN-6).
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]; those of [`Connection::check_open`]; [`Error::RequestLimit`].
    pub(crate) fn open(&mut self, endpoint: Endpoint, role: Role) -> Result<Request> {
        let local = self.local(endpoint)?;
        local.check_open(role)?;
        let port = endpoint.port();
        let request = self.requests.begin(By::Program, Operation::Open { port })?;
        let local = self.local_mut(endpoint)?;
        match local.connection {
            Some(_) => self.change(port, |end, steps| end.open(request, steps)),
            None => local.waiting = Some((role, request)),
        }
        self.settle();
        Ok(request)
    }

    /// Begin to close an end (MC-PKTRCLOSE-1 to MC-PKTRCLOSE-6).
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`], [`Error::ChannelType`], [`Error::ChannelDirection`],
    /// [`Error::ChannelNotOpen`], [`Error::RequestLimit`].
    pub(crate) fn close(&mut self, channel: Channel, role: Role) -> Result<Request> {
        let port = channel.port();
        let local = self.endpoints.get(port).ok();
        let local = local.filter(|local| local.channel == Some(channel));
        let end = local.and_then(|local| local.connection.as_ref());
        let end = end.ok_or(Error::ChannelInvalid)?;
        end.role.check(role)?;
        end.check_close()?;
        let request = self
            .requests
            .begin(By::Program, Operation::Close { port })?;
        self.change(port, |end, steps| end.close(request, steps));
        self.settle();
        Ok(request)
    }

    /// Begin a request for a packet that is to be sent or received.
    ///
    /// # Errors
    /// [`Error::RequestLimit`].
    pub(crate) fn packet(&mut self, port: u16, by: By) -> Result<Request> {
        self.requests.begin(by, Operation::Packet { port })
    }

    /// Everything that waited on a channel whose end was closed was sent, or will not be.
    pub(crate) fn drained(&mut self, port: u16) {
        self.change(port, Connection::drained);
        self.settle();
    }

    /// The receiving end of a channel was posted.
    pub(crate) fn posted(&mut self, port: u16, id: u64) {
        self.change_of(port, id, |_, steps| steps.push(Step::Tell(Say::Posted)));
        self.settle();
    }

    /// Data can move on a channel.
    pub(crate) fn ready(&mut self, port: u16, id: u64) {
        self.change_of(port, id, Connection::ready);
        self.settle();
    }

    /// There is no way for data, or none any more.
    pub(crate) fn severed(&mut self, port: u16, id: u64) {
        self.change_of(port, id, Connection::fail);
        self.settle();
    }

    /// The other owner of a channel has told something. One that does not know of the end of the
    /// connection yet speaks of an earlier one.
    pub(super) fn told_of_channel(&mut self, node: NodeId, port: u16, id: u64, say: Say) {
        let local = self.endpoints.get(port).ok();
        let end = local.and_then(|local| local.connection.as_ref());
        if end.is_some_and(|end| end.partner.node() == node) {
            self.change_of(port, id, |end, steps| end.told(say, steps));
        }
    }

    /// A node has gone, or the way to it: so have all channels to its endpoints.
    pub(super) fn sever_all(&mut self, node: NodeId) {
        for port in self.endpoints.connected_to(node) {
            self.change(port, Connection::sever);
        }
    }

    /// Withdraw an open; one that is not pending any more stays.
    pub(super) fn withdraw_open(&mut self, port: u16, request: Request) {
        if let Ok(local) = self.endpoints.get_mut(port) {
            local.waiting = local.waiting.filter(|(_, other)| *other != request);
        }
        self.change(port, |end, steps| end.withdraw_open(request, steps));
    }

    pub(super) fn withdraw_close(&mut self, port: u16, request: Request) {
        self.change(port, |end, _| end.withdraw_close(request));
    }

    pub(super) fn withdraw_packet(&mut self, port: u16, request: Request) {
        self.news.push(News::Withdrawn { port, request });
    }

    /// Change the connection of a port, if it is that one.
    fn change_of(
        &mut self,
        port: u16,
        id: u64,
        change: impl FnOnce(&mut Connection, &mut Vec<Step>),
    ) {
        let local = self.endpoints.get(port).ok();
        let end = local.and_then(|local| local.connection.as_ref());
        if end.is_some_and(|end| end.id == id) {
            self.change(port, change);
        }
    }

    /// Change the connection of a port, if there is one, and do what follows.
    fn change(&mut self, port: u16, change: impl FnOnce(&mut Connection, &mut Vec<Step>)) {
        let mut steps = Vec::new();
        let local = self.endpoints.get_mut(port).ok();
        let Some(end) = local.and_then(|local| local.connection.as_mut()) else {
            return;
        };
        change(end, &mut steps);
        let (id, partner) = (end.id, end.partner);
        for step in steps {
            self.follow(port, id, partner, step);
        }
    }

    fn follow(&mut self, port: u16, id: u64, partner: Endpoint, step: Step) {
        let peer = partner.node();
        match step {
            Step::Tell(say) => {
                let port = partner.port();
                self.peer(peer).tell(Control::Channel { port, id, say });
            }
            Step::Opened(request) => self.opened(port, request),
            Step::Closed(request) => self.requests.complete(request, Ok(Completion::Closed)),
            Step::Failed(request, error) => self.requests.complete(request, Err(error)),
            Step::Post => self.news.push(News::Post { port, id, peer }),
            Step::Ask => self.news.push(News::Ask { port, id, peer }),
            Step::CloseHere => self.news.push(News::ClosedHere { port }),
            Step::CloseThere => self.news.push(News::ClosedThere { port }),
            Step::Sever => self.news.push(News::Severed { port }),
            Step::Disconnect => {
                self.news.push(News::Ended { port });
                if let Ok(local) = self.endpoints.get_mut(port) {
                    local.disconnect();
                }
            }
        }
    }

    fn opened(&mut self, port: u16, request: Request) {
        self.opens = self.opens.wrapping_add(1);
        let channel = Channel::of(port, self.opens);
        if let Ok(local) = self.endpoints.get_mut(port) {
            local.channel = Some(channel);
        }
        self.news.push(News::Opened { port, channel });
        self.requests
            .complete(request, Ok(Completion::Open(channel)));
    }

    /// Begin to ask a node for something that it answers.
    ///
    /// # Errors
    /// [`Error::RequestLimit`].
    pub(super) fn begin_ask(
        &mut self,
        node: NodeId,
        by: By,
        frame: impl FnOnce(u32) -> Control,
    ) -> Result<Request> {
        let number = self.peer(node).number();
        let frame = frame(number);
        if frame.is_of_channels() && self.peer(node).refuses_channels() {
            return Err(Error::General);
        }
        let request = self.requests.begin(by, Operation::Ask { node, number })?;
        self.peer(node).ask(number, Ask { request, frame });
        self.seek(node);
        self.settle();
        Ok(request)
    }

    /// What asks that a node will not answer end with, and why.
    pub(super) fn end_asks(&mut self, asks: impl IntoIterator<Item = Ask>, end: End) {
        for Ask { request, frame } in asks {
            let error = match (frame, end) {
                (Control::Connect { .. }, End::Gone) => Error::EndpointInvalid,
                (_, End::Gone) => Error::NodeInvalid,
                (_, End::Down | End::Broken) => Error::General,
            };
            self.requests.complete(request, Err(error));
        }
    }

    /// The same for connects that wait for it.
    pub(super) fn end_reservations(
        &mut self,
        reservations: impl IntoIterator<Item = Reservation>,
        end: End,
    ) {
        let error = match end {
            End::Gone => Error::EndpointInvalid,
            End::Down | End::Broken => Error::General,
        };
        for reservation in reservations {
            self.settle_reservation(&reservation, Err(error));
        }
    }
}
