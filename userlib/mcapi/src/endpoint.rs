// SPDX-License-Identifier: MIT OR Apache-2.0

//! The endpoints of a node: ports, attributes, who has got them, messages that wait for a receive
//! and receives that wait for a message.

use crate::{
    attributes::{
        Attribute, EndpointType, Settings, STATUS_CONNECTED, STATUS_GET_PENDING,
        STATUS_OPEN_PENDING, STATUS_PACKET_CHANNEL, STATUS_RECEIVE, STATUS_SCALAR_CHANNEL,
        STATUS_SEND,
    },
    channel::{Channel, Direction, Kind},
    connection::{Connection, Role},
    table::Table,
    wire::Lane,
    Endpoint, Error, NodeId, Request, Result, PORT_MAX, PRIORITIES,
};
use std::collections::{BTreeMap, VecDeque};

/// Most endpoints of a node.
pub const ENDPOINTS_MAX: usize = 256;
/// The first port of those that are given to endpoints without one (MC-EPCREATE-7).
pub const PORT_ANY_FIRST: u16 = 0x8000;

/// A message that waits for a receive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The node whose buffers it takes.
    pub(crate) node: NodeId,
    pub(crate) lane: Lane,
    pub(crate) data: Vec<u8>,
}

/// A receive that waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) request: Request,
    /// Bytes that there is room for.
    pub(crate) room: usize,
}

/// An endpoint.
#[derive(Debug, Default)]
pub(crate) struct Local {
    pub(crate) settings: Settings,
    /// Which endpoint of the node it is, counted from its beginning.
    pub(crate) life: u32,
    /// How often nodes have got it.
    gets: BTreeMap<NodeId, u32>,
    source: Option<NodeId>,
    messages: [VecDeque<Message>; PRIORITIES],
    posted: VecDeque<Posted>,
    /// Sends that are not complete, by calls that do not wait.
    pub(crate) sends: u32,
    /// A connect has not been decided, by the identifier that the connection will have.
    pub(crate) reserved: Option<u64>,
    /// It is the end of a channel; how it was before (MC-CHAN-8).
    pub(crate) connection: Option<Connection>,
    kind_before: Option<EndpointType>,
    /// An open that waits for a connection.
    pub(crate) waiting: Option<(Role, Request)>,
    /// The handle of the end that is open.
    pub(crate) channel: Option<Channel>,
}

/// What an endpoint of a role is for.
fn type_of(role: Role) -> EndpointType {
    match role.kind {
        Kind::Packets => EndpointType::PacketChannel,
        Kind::Scalars => EndpointType::ScalarChannel,
    }
}

impl Local {
    /// A node gets it (MC-EPGETI-3, MC-EPGETI-6).
    ///
    /// # Errors
    /// [`Error::EndpointGetLimit`]: it is of a channel type, and a node has got it.
    pub(crate) fn get(&mut self, node: NodeId) -> Result<()> {
        if self.settings.kind != EndpointType::Message && self.get_count() > 0 {
            return Err(Error::EndpointGetLimit);
        }
        *self.gets.entry(node).or_default() += 1;
        self.source = Some(node);
        Ok(())
    }

    /// A node takes back a get (MC-EPGETI-4).
    pub(crate) fn unget(&mut self, node: NodeId) {
        if let Some(count) = self.gets.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.gets.remove(&node);
            }
        }
    }

    /// A node has gone: its gets count no more.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.gets.remove(&node);
    }

    fn get_count(&self) -> u32 {
        self.gets.values().sum()
    }

    /// Fail if the endpoint is connected, or is about to be.
    ///
    /// # Errors
    /// [`Error::ChannelConnected`].
    pub(crate) fn check_free(&self) -> Result<()> {
        match self.connection.is_none() && self.reserved.is_none() {
            true => Ok(()),
            false => Err(Error::ChannelConnected),
        }
    }

    /// Whether it can be connected for a role (MC-CHAN-4, MC-CHAN-9, MC-EPATTRSET-3, MC-PKTCONN-4).
    ///
    /// # Errors
    /// [`Error::ChannelConnected`], [`Error::ChannelClosePending`];
    /// [`Error::AttributeIncompatible`]: it was declared for something else;
    /// [`Error::EndpointGetLimit`]: its node is strict, it is for messages, and a node has got it.
    pub(crate) fn check_connect(&self, role: Role, is_strict: bool) -> Result<()> {
        if let Some(connection) = &self.connection {
            return Err(connection.is_taken());
        }
        self.check_free()?;
        match self.settings.kind {
            EndpointType::Message if is_strict && self.get_count() > 0 => {
                Err(Error::EndpointGetLimit)
            }
            EndpointType::Message => Ok(()),
            kind if kind == type_of(role) => Ok(()),
            _ => Err(Error::AttributeIncompatible),
        }
    }

    /// Whether it can be opened for a role.
    ///
    /// # Errors
    /// Those of [`Connection::check_open`].
    pub(crate) fn check_open(&self, role: Role) -> Result<()> {
        match (&self.connection, &self.waiting) {
            (Some(connection), _) => connection.check_open(role),
            (None, Some(_)) => Err(Error::ChannelOpenPending),
            (None, None) => match self.is_for_messages() || self.settings.kind == type_of(role) {
                true => Ok(()),
                false => Err(Error::ChannelType),
            },
        }
    }

    /// Connect it (MC-CHAN-8); the open that has waited for that.
    pub(crate) fn connect(&mut self, connection: Connection) -> Option<(Role, Request)> {
        self.kind_before = Some(self.settings.kind);
        self.settings.kind = type_of(connection.role);
        self.connection = Some(connection);
        self.waiting.take()
    }

    /// It is not connected any more, and is what it was before.
    pub(crate) fn disconnect(&mut self) {
        self.settings.kind = self.kind_before.take().unwrap_or(self.settings.kind);
        (self.connection, self.channel) = (None, None);
    }

    /// Flags of the status (MC-ATTR-5).
    fn status(&self) -> u64 {
        let gets = match self.get_count() {
            0 => 0,
            _ => STATUS_GET_PENDING,
        };
        let channel = match (&self.connection, &self.waiting) {
            (Some(connection), _) => {
                let kind = match connection.role.kind {
                    Kind::Packets => STATUS_PACKET_CHANNEL,
                    Kind::Scalars => STATUS_SCALAR_CHANNEL,
                };
                let direction = match connection.role.direction {
                    Direction::Send => STATUS_SEND,
                    Direction::Receive => STATUS_RECEIVE,
                };
                STATUS_CONNECTED | kind | direction | connection.flags()
            }
            (None, Some(_)) => STATUS_OPEN_PENDING,
            (None, None) => 0,
        };
        gets | channel
    }

    /// The value of an attribute other than the number of receive buffers.
    pub(crate) fn attribute(&self, attribute: Attribute) -> u64 {
        match attribute {
            // A connection counts as one where there is none (MC-CHAN-8).
            Attribute::GetCount => {
                let least = u32::from(self.connection.is_some());
                self.get_count().max(least).into()
            }
            Attribute::GetSource => match self.source {
                Some(node) => u64::from(node.domain()) << 32 | u64::from(node.node()),
                None => u64::MAX,
            },
            Attribute::Status => self.status(),
            other => self.settings.get(other).unwrap_or(0),
        }
    }

    pub(crate) fn is_for_messages(&self) -> bool {
        self.settings.kind == EndpointType::Message
    }

    /// The other end of its channel.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: it is not connected.
    pub(crate) fn partner(&self) -> Result<Endpoint> {
        let connection = self.connection.as_ref().ok_or(Error::ChannelInvalid)?;
        Ok(connection.partner)
    }

    /// The receive that a message is for, if one waits.
    pub(crate) fn take_posted(&mut self) -> Option<Posted> {
        self.posted.pop_front()
    }

    /// Keep a message until it is received.
    pub(crate) fn keep(&mut self, message: Message) {
        if let Some(level) = self.messages.get_mut(usize::from(message.lane.level)) {
            level.push_back(message);
        }
    }

    /// The next message: the oldest of the lowest level that has one (MC-MSG-3).
    pub(crate) fn take(&mut self) -> Option<Message> {
        self.messages.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Discard the messages of a node; how many there were.
    fn discard(&mut self, node: NodeId) -> usize {
        let before = self.available();
        for level in &mut self.messages {
            level.retain(|message| message.node != node);
        }
        before - self.available()
    }

    /// Let a receive wait for a message, behind others (MC-REQ-12).
    pub(crate) fn post(&mut self, posted: Posted) {
        self.posted.push_back(posted);
    }

    /// Take back a receive (MC-MSGRECVI-4).
    pub(crate) fn withdraw(&mut self, request: Request) {
        self.posted.retain(|posted| posted.request != request);
    }

    /// Messages that wait (MC-MSGAVAIL-1).
    pub(crate) fn available(&self) -> usize {
        self.messages.iter().map(VecDeque::len).sum()
    }
}

/// The endpoints of a node.
#[derive(Debug)]
pub(crate) struct Endpoints {
    all: Table<u16, Local>,
    /// How many there may be.
    most: usize,
    /// The port that was given last.
    last: Option<u16>,
    /// Endpoints that there were.
    lives: u32,
}

impl Endpoints {
    /// None yet, and so many at most.
    pub(crate) fn new(most: usize) -> Self {
        Endpoints {
            all: Table::default(),
            most,
            last: None,
            lives: 0,
        }
    }

    /// Make an endpoint of a port, or of one that is free (MC-EPCREATE-1 to MC-EPCREATE-7).
    ///
    /// # Errors
    /// [`Error::EndpointExists`]; [`Error::PortInvalid`]: there is no port to be given;
    /// [`Error::General`]: the port that is asked for is one more than there may be.
    pub(crate) fn create(&mut self, port: Option<u16>) -> Result<u16> {
        let is_full = self.all.len() >= self.most;
        let port = match port {
            Some(port) if self.all.contains_key(&port) => return Err(Error::EndpointExists),
            Some(_) if is_full => return Err(Error::General),
            Some(port) => port,
            None if is_full => return Err(Error::PortInvalid),
            None => self.free_port().ok_or(Error::PortInvalid)?,
        };
        self.lives = self.lives.wrapping_add(1);
        let local = Local {
            life: self.lives,
            ..Local::default()
        };
        self.all.insert(port, local);
        Ok(port)
    }

    /// The next port that is free: one that was used is left alone as long as possible.
    fn free_port(&mut self) -> Option<u16> {
        let most = PORT_MAX as u16;
        let after = self
            .last
            .map_or(PORT_ANY_FIRST, |last| last.saturating_add(1));
        let mut ports = (after..=most).chain(PORT_ANY_FIRST..=most);
        let free = ports.find(|port| !self.all.contains_key(port));
        self.last = free.or(self.last);
        free
    }

    /// Take an endpoint away.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`].
    pub(crate) fn remove(&mut self, port: u16) -> Result<Local> {
        self.all.remove(&port).ok_or(Error::EndpointInvalid)
    }

    /// # Errors
    /// [`Error::EndpointInvalid`].
    pub(crate) fn get(&self, port: u16) -> Result<&Local> {
        self.all.get(&port).ok_or(Error::EndpointInvalid)
    }

    /// # Errors
    /// [`Error::EndpointInvalid`].
    pub(crate) fn get_mut(&mut self, port: u16) -> Result<&mut Local> {
        self.all.get_mut(&port).ok_or(Error::EndpointInvalid)
    }

    /// The first port that has an endpoint, from one on.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]: none has.
    pub(crate) fn next(&self, from: u16) -> Result<u16> {
        let ports = self.all.keys().copied().filter(|port| *port >= from);
        ports.min().ok_or(Error::EndpointInvalid)
    }

    /// Ports of endpoints that are connected to those of a node.
    pub(crate) fn connected_to(&self, node: NodeId) -> Vec<u16> {
        let is_to = |local: &Local| {
            let connection = local.connection.as_ref();
            connection.is_some_and(|connection| connection.partner.node() == node)
        };
        let all = self.all.iter().filter(|(_, local)| is_to(local));
        all.map(|(port, _)| *port).collect()
    }

    /// Discard the messages of a node; how many there were.
    pub(crate) fn discard(&mut self, node: NodeId) -> usize {
        let all = self.all.values_mut();
        all.map(|local| local.discard(node)).sum()
    }

    /// A node has gone.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.all.values_mut().for_each(|local| local.forget(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(number: u32) -> NodeId {
        NodeId::new(0, number).unwrap()
    }

    fn message(level: u16, n: u8) -> Message {
        Message {
            node: node(1),
            lane: Lane { level, port: 0 },
            data: vec![n],
        }
    }

    /// MC-EPCREATE-2, MC-EPCREATE-3, MC-EPCREATE-7
    #[test]
    fn ports_are_asked_for_or_given() {
        let mut endpoints = Endpoints::new(ENDPOINTS_MAX);
        assert_eq!(endpoints.create(Some(17)), Ok(17));
        assert_eq!(endpoints.create(Some(17)), Err(Error::EndpointExists));
        let mut given: Vec<u16> = (1..ENDPOINTS_MAX)
            .map(|_| endpoints.create(None).unwrap())
            .collect();
        assert!(given.iter().all(|port| *port >= PORT_ANY_FIRST));
        assert_eq!(endpoints.create(None), Err(Error::PortInvalid));
        assert_eq!(endpoints.create(Some(18)), Err(Error::General));
        endpoints.remove(17).unwrap();
        assert!(endpoints.remove(17).is_err());
        given.push(endpoints.create(None).unwrap());
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), ENDPOINTS_MAX);
    }

    /// MC-EPCREATE-2: a port is given again only after all others.
    #[test]
    fn given_ports_go_round() {
        let mut endpoints = Endpoints::new(ENDPOINTS_MAX);
        let most = PORT_MAX as u16;
        for expected in (PORT_ANY_FIRST..=most).chain([PORT_ANY_FIRST, PORT_ANY_FIRST + 1]) {
            assert_eq!(endpoints.create(None), Ok(expected));
            endpoints.remove(expected).unwrap();
        }
    }

    /// MC-EPGETI-3, MC-EPGETI-4, MC-EPGETI-6
    #[test]
    fn gets_are_counted_for_each_node() {
        let mut local = Local::default();
        assert_eq!(local.attribute(Attribute::GetSource), u64::MAX);
        for getter in [1, 2, 2] {
            local.get(node(getter)).unwrap();
        }
        assert_eq!(local.attribute(Attribute::GetCount), 3);
        assert_eq!(local.attribute(Attribute::GetSource), 2);
        assert_eq!(local.attribute(Attribute::Status), STATUS_GET_PENDING);
        local.unget(node(3));
        local.unget(node(2));
        assert_eq!(local.attribute(Attribute::GetCount), 2);
        local.forget(node(2));
        local.unget(node(2));
        assert_eq!(local.attribute(Attribute::GetCount), 1);
        local.settings.set(Attribute::Type, 2).unwrap();
        assert_eq!(local.get(node(5)), Err(Error::EndpointGetLimit));
        local.unget(node(1));
        assert_eq!(local.get(node(5)), Ok(()));
        assert_eq!(local.get(node(5)), Err(Error::EndpointGetLimit));
    }

    proptest! {
        /// MC-MSG-3, MC-MSGAVAIL-1: against a sorted list.
        #[test]
        fn the_most_urgent_and_oldest_message_is_next(steps: Vec<(bool, u8)>) {
            let mut local = Local::default();
            let mut model: Vec<(u16, u8)> = Vec::new();
            for (n, (keeps, level)) in steps.into_iter().enumerate() {
                if keeps {
                    let level = u16::from(level) % PRIORITIES as u16;
                    local.keep(message(level, n as u8));
                    let at = model.partition_point(|(other, _)| *other <= level);
                    model.insert(at, (level, n as u8));
                } else {
                    let next = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(local.take(), next.map(|(level, n)| message(level, n)));
                }
                prop_assert_eq!(local.available(), model.len());
            }
        }
    }
}
