// SPDX-License-Identifier: GPL-2.0-only

//! Packets as frames and frames as packets.

use kernel::prelude::*;
use mp_kernel::{
    bytes::{
        SharedBytes,
        Writer, //
    },
    error,
    net::{
        device::NetDevice,
        skb::{
            self,
            Gso,
            GsoKind,
            ReceiveError,
            SkBuff, //
        }, //
    }, //
};
use mp_proto::{
    ether::{
        self,
        Checksum,
        Header,
        PacketInfo,
        SegmentKind,
        Segments, //
    },
    fdb::Mac,
    wire::Priority, //
};
use mp_transport::frame::{
    Frame,
    FrameBody,
    FuncId,
    RxContext,
    RxFrame, //
};

/// Least bytes of a large packet that are put in front, to be looked at.
const LINEAR_MIN: usize = 128;

/// A packet inside a frame, until all copies of it have been made.
struct Body(Option<SkBuff>);

impl FrameBody for Body {
    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, SkBuff::len)
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        self.0
            .as_ref()
            .map_or(Ok(()), |skb| skb.for_each_fragment(f))
    }

    fn complete(&mut self, status: Result) {
        // What is left behind on failure counts as dropped.
        if let (Some(skb), Ok(())) = (self.0.take(), status) {
            skb.consume();
        }
    }
}

/// A frame without data.
struct Empty;

impl FrameBody for Empty {
    fn len(&self) -> usize {
        0
    }

    fn for_each_fragment<'a>(&'a self, _f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        Ok(())
    }

    fn complete(&mut self, _status: Result) {}
}

fn frame(header: Header, priority: Priority, body: impl FrameBody) -> Result<Frame> {
    Frame::new(FuncId(ether::FUNC_ID), &header.encode(), priority, body)
}

/// The frame that carries `skb`.
///
/// # Errors
///
/// `ENOMEM`; the packet has been dropped then.
pub(crate) fn to_frame(mut skb: SkBuff) -> Result<Frame> {
    if skb.has_frag_list() {
        skb.linearize()?;
    }
    let header = Header::Packet(describe(&mut skb));
    frame(header, Priority::Bulk, Body(Some(skb)))
}

/// The frame that tells a peer the own address.
pub(crate) fn announcement(address: Mac) -> Result<Frame> {
    frame(Header::Announce(address), Priority::High, Empty)
}

/// What the receiver has to know of a packet.
fn describe(skb: &mut SkBuff) -> PacketInfo {
    let checksum = match skb.checksum() {
        skb::Checksum::None => Checksum::Unchecked,
        skb::Checksum::Valid => Checksum::Valid,
        skb::Checksum::Partial { start, offset } => Checksum::Partial { start, offset },
    };
    let segments = skb.gso().map(|gso| Segments {
        kind: match gso.kind {
            GsoKind::TcpV4 => SegmentKind::TcpV4,
            GsoKind::TcpV6 => SegmentKind::TcpV6,
            GsoKind::UdpL4 => SegmentKind::Udp,
        },
        size: gso.size,
        ecn: gso.ecn,
    });
    PacketInfo {
        checksum,
        segments,
        header_len: skb.header_len().try_into().unwrap_or(0),
        hash: Some(skb.flow_hash()),
        vlan: skb.vlan_tag(),
    }
}

/// Whether the receiver can be told how `skb` is to be cut.
pub(crate) fn can_cross_whole(skb: &SkBuff) -> bool {
    skb.gso().is_some() && matches!(skb.checksum(), skb::Checksum::Partial { .. })
}

/// The packet that a frame carries, for `dev`. It starts with its Ethernet
/// header.
///
/// # Errors
///
/// `ENOMEM`, or `EBADMSG` if what `info` says is not true of the packet.
pub(crate) fn from_frame(
    dev: &NetDevice,
    rx: &RxContext<'_>,
    frame: &RxFrame<'_>,
    info: &PacketInfo,
) -> Result<SkBuff> {
    let linear = usize::from(info.header_len).clamp(LINEAR_MIN, skb::LINEAR_MAX);
    let mut copy = |offset, room: Writer<'_>| frame.copy_to(offset, room);
    let mut skb =
        SkBuff::receive(dev, rx.napi, frame.len(), linear, &mut copy).map_err(|e| match e {
            ReceiveError::NoMemory => ENOMEM,
            ReceiveError::TooLong | ReceiveError::Copy(_) => error::bad_message(),
        })?;
    apply(&mut skb, info).map_err(|_| error::bad_message())?;
    skb.set_rx_queue(dev, rx.queue);
    Ok(skb)
}

/// Give a received packet what its sender said of it.
fn apply(skb: &mut SkBuff, info: &PacketInfo) -> Result {
    match info.checksum {
        Checksum::Unchecked => {}
        Checksum::Valid => skb.set_checksum_valid(),
        Checksum::Partial { start, offset } => skb.set_checksum_partial(start, offset)?,
    }
    if let Some(segments) = info.segments {
        skb.set_gso(&Gso {
            kind: match segments.kind {
                SegmentKind::TcpV4 => GsoKind::TcpV4,
                SegmentKind::TcpV6 => GsoKind::TcpV6,
                SegmentKind::Udp => GsoKind::UdpL4,
            },
            ecn: segments.ecn,
            size: segments.size,
        })?;
    }
    if let Some(hash) = info.hash {
        skb.set_flow_hash(hash);
    }
    if let Some(tag) = info.vlan {
        skb.set_vlan_tag(tag);
    }
    Ok(())
}

/// The sender's address in a packet that starts with its Ethernet header.
pub(crate) fn source(skb: &SkBuff) -> Option<Mac> {
    skb.head().get(6..)?.first_chunk().copied()
}
