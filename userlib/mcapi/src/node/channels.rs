// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls of programs for packet and scalar channels.

use super::{waiting::begin_call, Node};
use crate::{
    channel::{Direction, Kind},
    connection::Role,
    lock,
    pipe::{Pipe, Tried},
    request::By,
    Channel, Completion, Device, Endpoint, Error, Packet, Payload, Request, Result, Scalar,
};
use mp_queue_pair::Piece;
use std::time::Instant;

const PACKETS_OUT: Role = role(Kind::Packets, Direction::Send);
const PACKETS_IN: Role = role(Kind::Packets, Direction::Receive);
const SCALARS_OUT: Role = role(Kind::Scalars, Direction::Send);
const SCALARS_IN: Role = role(Kind::Scalars, Direction::Receive);

const fn role(kind: Kind, direction: Direction) -> Role {
    Role { kind, direction }
}

impl<D: Device> Node<D> {
    /// Begin to connect two endpoints by a packet channel. Any node may (MC-PKTCONN-1). What the
    /// owners of the endpoints object to is told by the request.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]: both are the same, or there is no such domain;
    /// [`Error::RequestLimit`]. Of the request: [`Error::EndpointInvalid`];
    /// [`Error::ChannelConnected`], [`Error::ChannelClosePending`];
    /// [`Error::AttributeIncompatible`]; [`Error::General`]: a node cannot be reached, or has no
    /// channels.
    pub fn pktchan_connect_i(&self, send: Endpoint, receive: Endpoint) -> Result<Request> {
        self.connect(Kind::Packets, send, receive)
    }

    /// Begin to connect two endpoints by a scalar channel.
    ///
    /// # Errors
    /// As [`pktchan_connect_i`](Self::pktchan_connect_i).
    pub fn sclchan_connect_i(&self, send: Endpoint, receive: Endpoint) -> Result<Request> {
        self.connect(Kind::Scalars, send, receive)
    }

    /// Begin to open the receiving end of a packet channel. The request is complete, with the
    /// handle, when both ends are open; opening may come before connecting (MC-CHAN-10).
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]: none of this node; [`Error::ChannelType`],
    /// [`Error::ChannelDirection`]: connected as something else; [`Error::ChannelOpen`],
    /// [`Error::ChannelOpenPending`], [`Error::ChannelClosePending`]; [`Error::RequestLimit`].
    /// Of the request: [`Error::ChannelType`], [`Error::ChannelDirection`] (MC-CHAN-11);
    /// [`Error::EndpointDeleted`]; [`Error::General`]: the other node has gone, the link was lost,
    /// or there is no memory for the channel.
    pub fn pktchan_recv_open_i(&self, endpoint: Endpoint) -> Result<Request> {
        self.0.with(|core| core.engine.open(endpoint, PACKETS_IN))
    }

    /// Begin to open the sending end of a packet channel.
    ///
    /// # Errors
    /// As [`pktchan_recv_open_i`](Self::pktchan_recv_open_i).
    pub fn pktchan_send_open_i(&self, endpoint: Endpoint) -> Result<Request> {
        self.0.with(|core| core.engine.open(endpoint, PACKETS_OUT))
    }

    /// Begin to open the receiving end of a scalar channel.
    ///
    /// # Errors
    /// As [`pktchan_recv_open_i`](Self::pktchan_recv_open_i).
    pub fn sclchan_recv_open_i(&self, endpoint: Endpoint) -> Result<Request> {
        self.0.with(|core| core.engine.open(endpoint, SCALARS_IN))
    }

    /// Begin to open the sending end of a scalar channel.
    ///
    /// # Errors
    /// As [`pktchan_recv_open_i`](Self::pktchan_recv_open_i).
    pub fn sclchan_send_open_i(&self, endpoint: Endpoint) -> Result<Request> {
        self.0.with(|core| core.engine.open(endpoint, SCALARS_OUT))
    }

    /// Begin to send a packet. The request is complete when the packet is in the receiver's
    /// memory; until then a copy of it waits here.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the sending end of a packet channel, or the receiving end
    /// was closed; [`Error::PacketSize`]; [`Error::RequestLimit`]; [`Error::MemoryLimit`]: as
    /// many as [`NumSendBuffers`](crate::Attribute::NumSendBuffers) of the endpoint are not sent;
    /// [`Error::Transmission`]: the other node has gone, or the link was lost. Of the request:
    /// [`Error::ChannelInvalid`], [`Error::Transmission`].
    pub fn pktchan_send_i<'a>(
        &self,
        channel: Channel,
        data: impl Into<Payload<'a>>,
    ) -> Result<Request> {
        let data = data.into().piece();
        let pipe = self.0.pipe(channel, PACKETS_OUT)?;
        pipe.check_send(data.len())?;
        self.0.begin_send(&pipe, data, By::Program)
    }

    /// Send a packet: wait for a buffer, as long as the endpoint's
    /// [`Timeout`](crate::Attribute::Timeout) says.
    ///
    /// # Errors
    /// As [`pktchan_send_i`](Self::pktchan_send_i) and of its request, but for the limits;
    /// [`Error::Timeout`]: nothing was sent.
    pub fn pktchan_send<'a>(&self, channel: Channel, data: impl Into<Payload<'a>>) -> Result<()> {
        let data = data.into().piece();
        let pipe = self.0.pipe(channel, PACKETS_OUT)?;
        self.0.send(&pipe, data, |pipe| pipe.try_send_packet(data))
    }

    /// Begin to receive a packet.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the receiving end of a packet channel, or the sending end
    /// was closed and everything was received; [`Error::RequestLimit`];
    /// [`Error::Transmission`]: the other node has gone, or the link was lost, and everything was
    /// received. Of the request: [`Error::ChannelInvalid`], [`Error::Transmission`].
    pub fn pktchan_recv_i(&self, channel: Channel) -> Result<Request> {
        let pipe = self.0.pipe(channel, PACKETS_IN)?;
        self.0.begin_receive(&pipe, By::Program)
    }

    /// Receive a packet: wait for one as long as the endpoint's
    /// [`Timeout`](crate::Attribute::Timeout) says.
    ///
    /// # Errors
    /// As [`pktchan_recv_i`](Self::pktchan_recv_i) and of its request, but for the limit;
    /// [`Error::Timeout`]: no packet is taken.
    pub fn pktchan_recv(&self, channel: Channel) -> Result<Packet> {
        let pipe = self.0.pipe(channel, PACKETS_IN)?;
        if let Some(held) = self.0.attempt(&pipe, Pipe::try_receive_packet)? {
            return self.0.keep(&pipe, held);
        }
        let (begun, deadline) = (Instant::now(), pipe.deadline());
        if let Some(held) = self
            .0
            .spin(&pipe, begun, deadline, Pipe::try_receive_packet)?
        {
            return self.0.keep(&pipe, held);
        }
        let request = begin_call(deadline, || self.0.begin_receive(&pipe, By::Call))?;
        match self.0.finish(request, begun, deadline)?? {
            Completion::Packet(packet) => Ok(packet),
            _ => Err(Error::General),
        }
    }

    /// Packets that can be received without waiting.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the receiving end of a packet channel.
    pub fn pktchan_available(&self, channel: Channel) -> Result<usize> {
        self.0.pipe(channel, PACKETS_IN)?.available()
    }

    /// Give the buffer of a packet back, by its [address](Packet::address): in any order, and
    /// also after the channel was closed (MC-PKTREL-1, MC-PKTREL-4).
    ///
    /// # Errors
    /// [`Error::BufferInvalid`]: no buffer of this node, or it was released.
    pub fn pktchan_release(&self, address: usize) -> Result<()> {
        // Nothing else is done under that lock.
        let held = lock(&self.0.held).remove(&address);
        match held {
            Some((pipe, held)) => {
                let Tried { owes_signal, .. } = pipe.release(held);
                self.0.see_to_signal(&pipe, owes_signal);
                Ok(())
            }
            None => Err(self.0.or_ended(Error::BufferInvalid)),
        }
    }

    /// Whether the program has the buffer of a packet (MC-PKTRELTEST-4).
    ///
    /// # Errors
    /// [`Error::NodeNotInit`].
    pub fn pktchan_is_held(&self, address: usize) -> Result<bool> {
        drop(self.0.alive()?);
        Ok(lock(&self.0.held).contains_key(&address))
    }

    /// Whether a packet that the program has sent from an address is lent: on a channel of
    /// [shared memory](crate::MemoryType::Shared), and not released by the receiver, which still is there
    /// (MC-PKTRELTEST-1). Also after the channel was closed.
    ///
    /// # Errors
    /// [`Error::NodeNotInit`].
    pub fn pktchan_is_lent(&self, address: usize) -> Result<bool> {
        drop(self.0.alive()?);
        let lenders = self.0.lenders();
        Ok(lenders.iter().any(|pipe| pipe.is_lent(address)))
    }

    /// Whether packets that are sent on a channel are lent.
    pub fn pktchan_lends(&self, channel: Channel) -> bool {
        let lenders = self.0.lenders();
        lenders.iter().any(|pipe| pipe.has(channel))
    }

    /// Begin to close the receiving end of a packet channel: packets that were not received are
    /// discarded. The request is complete when both ends are closed.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: no handle; [`Error::ChannelType`], [`Error::ChannelDirection`]:
    /// a handle for something else; [`Error::ChannelNotOpen`]: closed before;
    /// [`Error::RequestLimit`].
    pub fn pktchan_recv_close_i(&self, channel: Channel) -> Result<Request> {
        self.0.with(|core| core.engine.close(channel, PACKETS_IN))
    }

    /// Begin to close the sending end of a packet channel: what was sent stays receivable.
    ///
    /// # Errors
    /// As [`pktchan_recv_close_i`](Self::pktchan_recv_close_i).
    pub fn pktchan_send_close_i(&self, channel: Channel) -> Result<Request> {
        self.0.with(|core| core.engine.close(channel, PACKETS_OUT))
    }

    /// Send a scalar: wait for room as long as the endpoint's
    /// [`Timeout`](crate::Attribute::Timeout) says. Widths may be mixed.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the sending end of a scalar channel, or the receiving end
    /// was closed; [`Error::General`]: the other node has gone, or the link was lost;
    /// [`Error::Timeout`]: nothing was sent.
    pub fn sclchan_send<S: Scalar>(&self, channel: Channel, scalar: S) -> Result<()> {
        let pipe = self.0.pipe(channel, SCALARS_OUT)?;
        let bytes = scalar.to_u64().to_le_bytes();
        let bytes = bytes.get(..S::WIDTH.into()).unwrap_or_default();
        self.0.send(&pipe, Piece::Bytes(bytes), |pipe| {
            pipe.try_send_scalar(scalar)
        })
    }

    /// Receive a scalar: wait for one as long as the endpoint's
    /// [`Timeout`](crate::Attribute::Timeout) says.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the receiving end of a scalar channel, or the sending end
    /// was closed and everything was received; [`Error::General`]: the next scalar has another
    /// width, and stays; or the other node has gone, or the link was lost, and everything was
    /// received; [`Error::Timeout`]: none is taken.
    pub fn sclchan_recv<S: Scalar>(&self, channel: Channel) -> Result<S> {
        let pipe = self.0.pipe(channel, SCALARS_IN)?;
        if let Some(scalar) = self.0.attempt(&pipe, Pipe::try_receive_scalar)? {
            return Ok(scalar);
        }
        let (begun, deadline) = (Instant::now(), pipe.deadline());
        loop {
            let received = self
                .0
                .spin(&pipe, begun, deadline, Pipe::try_receive_scalar)?;
            if let Some(scalar) = received {
                return Ok(scalar);
            }
            // Until there is one, which another thread may take.
            let request = begin_call(deadline, || self.0.begin_receive(&pipe, By::Call))?;
            self.0.finish(request, begun, deadline)??;
        }
    }

    /// Scalars of any width that can be received without waiting.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the receiving end of a scalar channel.
    pub fn sclchan_available(&self, channel: Channel) -> Result<usize> {
        self.0.pipe(channel, SCALARS_IN)?.available()
    }

    /// Begin to close the receiving end of a scalar channel, as
    /// [`pktchan_recv_close_i`](Self::pktchan_recv_close_i).
    ///
    /// # Errors
    /// The same.
    pub fn sclchan_recv_close_i(&self, channel: Channel) -> Result<Request> {
        self.0.with(|core| core.engine.close(channel, SCALARS_IN))
    }

    /// Begin to close the sending end of a scalar channel, as
    /// [`pktchan_send_close_i`](Self::pktchan_send_close_i).
    ///
    /// # Errors
    /// The same.
    pub fn sclchan_send_close_i(&self, channel: Channel) -> Result<Request> {
        self.0.with(|core| core.engine.close(channel, SCALARS_OUT))
    }

    fn connect(&self, kind: Kind, send: Endpoint, receive: Endpoint) -> Result<Request> {
        for endpoint in [send, receive] {
            let (id, port) = (endpoint.node(), endpoint.port().into());
            let named = self.named(id.domain(), id.node(), port);
            named.map_err(|error| match error {
                Error::DomainInvalid => Error::EndpointInvalid,
                other => other,
            })?;
        }
        self.0.with(|core| core.engine.connect(kind, send, receive))
    }
}
