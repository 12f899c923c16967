// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls of programs for packet and scalar channels.

use super::Node;
use crate::{Channel, Device, Endpoint, Error, Packet, Request, Result, Scalar};

impl<D: Device> Node<D> {
    /// Begin to connect two endpoints by a packet channel. Any node may (MC-PKTCONN-1). What the
    /// owners of the endpoints object to is told by the request.
    ///
    /// # Errors
    /// [`Error::DomainInvalid`]; [`Error::EndpointInvalid`]: both are the same;
    /// [`Error::RequestLimit`]. Of the request: [`Error::EndpointInvalid`];
    /// [`Error::ChannelConnected`], [`Error::ChannelClosePending`];
    /// [`Error::AttributeIncompatible`]; [`Error::General`]: a node cannot be reached, or has no
    /// channels.
    pub fn pktchan_connect_i(&self, send: Endpoint, receive: Endpoint) -> Result<Request> {
        let _ = (send, receive);
        Err(Error::General)
    }

    /// Begin to connect two endpoints by a scalar channel.
    ///
    /// # Errors
    /// As [`pktchan_connect_i`](Self::pktchan_connect_i).
    pub fn sclchan_connect_i(&self, send: Endpoint, receive: Endpoint) -> Result<Request> {
        let _ = (send, receive);
        Err(Error::General)
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
        let _ = endpoint;
        Err(Error::General)
    }

    /// Begin to open the sending end of a packet channel.
    ///
    /// # Errors
    /// As [`pktchan_recv_open_i`](Self::pktchan_recv_open_i).
    pub fn pktchan_send_open_i(&self, endpoint: Endpoint) -> Result<Request> {
        let _ = endpoint;
        Err(Error::General)
    }

    /// Begin to open the receiving end of a scalar channel.
    ///
    /// # Errors
    /// As [`pktchan_recv_open_i`](Self::pktchan_recv_open_i).
    pub fn sclchan_recv_open_i(&self, endpoint: Endpoint) -> Result<Request> {
        let _ = endpoint;
        Err(Error::General)
    }

    /// Begin to open the sending end of a scalar channel.
    ///
    /// # Errors
    /// As [`pktchan_recv_open_i`](Self::pktchan_recv_open_i).
    pub fn sclchan_send_open_i(&self, endpoint: Endpoint) -> Result<Request> {
        let _ = endpoint;
        Err(Error::General)
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
    pub fn pktchan_send_i(&self, channel: Channel, data: &[u8]) -> Result<Request> {
        let _ = (channel, data);
        Err(Error::ChannelInvalid)
    }

    /// Send a packet: wait for a buffer, as long as the endpoint's
    /// [`Timeout`](crate::Attribute::Timeout) says.
    ///
    /// # Errors
    /// As [`pktchan_send_i`](Self::pktchan_send_i) and of its request, but for the limits;
    /// [`Error::Timeout`]: nothing was sent.
    pub fn pktchan_send(&self, channel: Channel, data: &[u8]) -> Result<()> {
        let _ = (channel, data);
        Err(Error::ChannelInvalid)
    }

    /// Begin to receive a packet.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the receiving end of a packet channel, or the sending end
    /// was closed and everything was received; [`Error::RequestLimit`];
    /// [`Error::Transmission`]: the other node has gone, or the link was lost, and everything was
    /// received. Of the request: [`Error::ChannelInvalid`], [`Error::Transmission`].
    pub fn pktchan_recv_i(&self, channel: Channel) -> Result<Request> {
        let _ = channel;
        Err(Error::ChannelInvalid)
    }

    /// Receive a packet: wait for one as long as the endpoint's
    /// [`Timeout`](crate::Attribute::Timeout) says.
    ///
    /// # Errors
    /// As [`pktchan_recv_i`](Self::pktchan_recv_i) and of its request, but for the limit;
    /// [`Error::Timeout`]: no packet is taken.
    pub fn pktchan_recv(&self, channel: Channel) -> Result<Packet> {
        let _ = channel;
        Err(Error::ChannelInvalid)
    }

    /// Packets that can be received without waiting.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the receiving end of a packet channel.
    pub fn pktchan_available(&self, channel: Channel) -> Result<usize> {
        let _ = channel;
        Err(Error::ChannelInvalid)
    }

    /// Give the buffer of a packet back, by its [address](Packet::address): in any order, and
    /// also after the channel was closed (MC-PKTREL-1, MC-PKTREL-4).
    ///
    /// # Errors
    /// [`Error::BufferInvalid`]: no buffer of this node, or it was released.
    pub fn pktchan_release(&self, address: usize) -> Result<()> {
        let _ = address;
        Err(Error::BufferInvalid)
    }

    /// Whether the program has the buffer of a packet (MC-PKTRELTEST-4).
    ///
    /// # Errors
    /// [`Error::NodeNotInit`].
    pub fn pktchan_is_held(&self, address: usize) -> Result<bool> {
        let _ = address;
        Ok(false)
    }

    /// Begin to close the receiving end of a packet channel: packets that were not received are
    /// discarded. The request is complete when both ends are closed.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: no handle; [`Error::ChannelType`], [`Error::ChannelDirection`]:
    /// a handle for something else; [`Error::ChannelNotOpen`]: closed before;
    /// [`Error::RequestLimit`].
    pub fn pktchan_recv_close_i(&self, channel: Channel) -> Result<Request> {
        let _ = channel;
        Err(Error::ChannelInvalid)
    }

    /// Begin to close the sending end of a packet channel: what was sent stays receivable.
    ///
    /// # Errors
    /// As [`pktchan_recv_close_i`](Self::pktchan_recv_close_i).
    pub fn pktchan_send_close_i(&self, channel: Channel) -> Result<Request> {
        let _ = channel;
        Err(Error::ChannelInvalid)
    }

    /// Send a scalar: wait for room as long as the endpoint's
    /// [`Timeout`](crate::Attribute::Timeout) says. Widths may be mixed.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the sending end of a scalar channel, or the receiving end
    /// was closed; [`Error::General`]: the other node has gone, or the link was lost;
    /// [`Error::Timeout`]: nothing was sent.
    pub fn sclchan_send<S: Scalar>(&self, channel: Channel, scalar: S) -> Result<()> {
        let _ = (channel, scalar.to_u64());
        Err(Error::ChannelInvalid)
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
        let _ = channel;
        Err(Error::ChannelInvalid)
    }

    /// Scalars of any width that can be received without waiting.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]: not the receiving end of a scalar channel.
    pub fn sclchan_available(&self, channel: Channel) -> Result<usize> {
        let _ = channel;
        Err(Error::ChannelInvalid)
    }

    /// Begin to close the receiving end of a scalar channel, as
    /// [`pktchan_recv_close_i`](Self::pktchan_recv_close_i).
    ///
    /// # Errors
    /// The same.
    pub fn sclchan_recv_close_i(&self, channel: Channel) -> Result<Request> {
        let _ = channel;
        Err(Error::ChannelInvalid)
    }

    /// Begin to close the sending end of a scalar channel, as
    /// [`pktchan_send_close_i`](Self::pktchan_send_close_i).
    ///
    /// # Errors
    /// The same.
    pub fn sclchan_send_close_i(&self, channel: Channel) -> Result<Request> {
        let _ = channel;
        Err(Error::ChannelInvalid)
    }
}
