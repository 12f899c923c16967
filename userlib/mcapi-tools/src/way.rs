// SPDX-License-Identifier: MIT OR Apache-2.0

//! One kind of data to another node and from it: messages, or a channel each way.

use crate::failure::{Failure, Outcome};
use clap::ValueEnum;
use mcapi::{
    Attribute, Channel, Completion, Deadline, Device, Endpoint, Error, Node, Request, MESSAGE_MAX,
};
use serde::Serialize;
use std::time::Duration;

/// Priority of messages: neither the highest, which is for what is urgent, nor the lowest.
const PRIORITY: u32 = 1;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Messages, which are copied at both ends
    Messages,
    /// Packets, which are received where they arrive
    Packets,
    /// Scalars of 64 bits
    Scalars,
}

/// The endpoints of a node for one kind of data: for what it sends, and for what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Messages go out of this one, too.
    pub out: Endpoint,
    /// Messages come in here as well.
    pub into: Endpoint,
}

impl Ends {
    /// Make both, whose blocking calls wait for so long at most.
    ///
    /// # Errors
    /// Those of the node; so below.
    pub fn new<D: Device>(node: &Node<D>, patience: Duration) -> Outcome<Self> {
        let endpoint = || {
            let endpoint = node.endpoint_create(None)?;
            let milliseconds = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
            let most = u64::from(u32::MAX) - 1;
            node.set_endpoint_attribute(endpoint, Attribute::Timeout, milliseconds.min(most))?;
            Ok::<_, Error>(endpoint)
        };
        Ok(Ends {
            out: endpoint()?,
            into: endpoint()?,
        })
    }
}

/// Connect two endpoints; messages need nothing.
///
/// # Errors
/// Those of the node.
pub fn connect<D: Device>(
    node: &Node<D>,
    kind: Kind,
    from: Endpoint,
    to: Endpoint,
    patience: Duration,
) -> Outcome {
    let request = match kind {
        Kind::Messages => return Ok(()),
        Kind::Packets => node.pktchan_connect_i(from, to)?,
        Kind::Scalars => node.sclchan_connect_i(from, to)?,
    };
    node.wait(request, Deadline::after(patience))?;
    Ok(())
}

/// A way to another node and back.
#[derive(Debug)]
pub struct Way<'a, D: Device> {
    node: &'a Node<D>,
    kind: Kind,
    own: Ends,
    there: Ends,
    /// Sending and receiving ends; messages need none.
    channels: Option<[Channel; 2]>,
    patience: Duration,
}

impl<'a, D: Device> Way<'a, D> {
    /// Open the way: the other node has to open it as well, and one of the two to
    /// [`connect`](Self::connect) it.
    pub fn open(
        node: &'a Node<D>,
        kind: Kind,
        own: Ends,
        there: Ends,
        patience: Duration,
    ) -> Outcome<Self> {
        let mut way = Way {
            node,
            kind,
            own,
            there,
            channels: None,
            patience,
        };
        let requests = match kind {
            Kind::Messages => return Ok(way),
            Kind::Packets => [
                node.pktchan_send_open_i(own.out)?,
                node.pktchan_recv_open_i(own.into)?,
            ],
            Kind::Scalars => [
                node.sclchan_send_open_i(own.out)?,
                node.sclchan_recv_open_i(own.into)?,
            ],
        };
        let [send, receive] = requests;
        way.channels = Some([way.opened(send)?, way.opened(receive)?]);
        Ok(way)
    }

    /// Connect the ends of two nodes both ways; messages need nothing.
    pub fn connect(
        node: &Node<D>,
        kind: Kind,
        [one, other]: [Ends; 2],
        patience: Duration,
    ) -> Outcome {
        for (from, to) in [(one.out, other.into), (other.out, one.into)] {
            connect(node, kind, from, to, patience)?;
        }
        Ok(())
    }

    fn opened(&self, request: Request) -> Outcome<Channel> {
        match self.node.wait(request, Deadline::after(self.patience))? {
            Completion::Open(channel) => Ok(channel),
            _ => Err(Failure::Wrong("an end is open without a handle")),
        }
    }

    /// The sending end of the channel to the other node, and the receiving one.
    fn channels(&self) -> Outcome<[Channel; 2]> {
        self.channels
            .ok_or(Failure::Wrong("messages have no channel"))
    }

    /// Send an item: of a scalar, eight bytes.
    pub fn put(&self, data: &[u8]) -> Outcome {
        match self.kind {
            Kind::Messages => {
                let (from, to) = (self.own.out, self.there.into);
                self.node.msg_send(from, to, data, PRIORITY)?;
            }
            Kind::Packets => self.node.pktchan_send(self.channels()?[0], data)?,
            Kind::Scalars => {
                let bytes = data.try_into();
                let bytes = bytes.map_err(|_| Failure::Wrong("a scalar has eight bytes"))?;
                let scalar = u64::from_le_bytes(bytes);
                self.node.sclchan_send(self.channels()?[0], scalar)?;
            }
        }
        Ok(())
    }

    /// Receive an item, and look at where it has arrived; it is given back then.
    pub fn take<T>(&self, look: impl FnOnce(&Item<'_, D>) -> Outcome<T>) -> Outcome<T> {
        match self.kind {
            Kind::Messages => {
                let (data, _) = self.node.msg_take(self.own.into, MESSAGE_MAX)?;
                look(&Item {
                    way: self,
                    data: Data::Bytes(&data),
                })
            }
            Kind::Packets => {
                let packet = self.node.pktchan_recv(self.channels()?[1])?;
                let looked = look(&Item {
                    way: self,
                    data: Data::Packet(&packet),
                });
                self.node.pktchan_release(packet.address())?;
                looked
            }
            Kind::Scalars => {
                let scalar: u64 = self.node.sclchan_recv(self.channels()?[1])?;
                look(&Item {
                    way: self,
                    data: Data::Bytes(&scalar.to_le_bytes()),
                })
            }
        }
    }

    /// Close both ends, which the other node has to do as well, and delete the endpoints.
    pub fn close(self) -> Outcome {
        if let Some([send, receive]) = self.channels {
            let requests = match self.kind {
                Kind::Scalars => [
                    self.node.sclchan_send_close_i(send)?,
                    self.node.sclchan_recv_close_i(receive)?,
                ],
                _ => [
                    self.node.pktchan_send_close_i(send)?,
                    self.node.pktchan_recv_close_i(receive)?,
                ],
            };
            for request in requests {
                self.node.wait(request, Deadline::after(self.patience))?;
            }
        }
        for endpoint in [self.own.out, self.own.into] {
            self.node.endpoint_delete(endpoint)?;
        }
        Ok(())
    }
}

/// Where an item has arrived.
#[derive(Debug)]
enum Data<'a> {
    Bytes(&'a [u8]),
    Packet(&'a mcapi::Packet),
}

/// An item that has arrived.
#[derive(Debug)]
pub struct Item<'a, D: Device> {
    way: &'a Way<'a, D>,
    data: Data<'a>,
}

impl<D: Device> Item<'_, D> {
    /// Send it back, from where it is.
    pub fn put_back(&self) -> Outcome {
        match self.data {
            Data::Bytes(bytes) => self.way.put(bytes),
            Data::Packet(packet) => {
                let channel = self.way.channels()?[0];
                Ok(self.way.node.pktchan_send(channel, packet.memory())?)
            }
        }
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        match self.data {
            Data::Bytes(bytes) => bytes.len(),
            Data::Packet(packet) => packet.len(),
        }
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has these bytes; `room` is for those of a packet.
    pub fn is(&self, expected: &[u8], room: &mut Vec<u8>) -> bool {
        match self.data {
            Data::Bytes(bytes) => bytes == expected,
            Data::Packet(packet) => {
                room.resize(packet.len(), 0);
                packet.read(room);
                room == expected
            }
        }
    }
}
