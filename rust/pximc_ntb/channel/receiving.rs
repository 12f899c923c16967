// SPDX-License-Identifier: GPL-2.0-only

//! What the receiving half of a ring asks of its channel, and how frames go to the service.

use super::{
    queue_of,
    Channel,
    On,
    HDR_MAX,
    MAX_FRAME, //
};
use crate::{
    inward::InRing,
    kept::Keeper,
    reassembly::Whole, //
};
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    bytes::Writer,
    net::napi::Napi, //
};
use mp_proto::{
    layout::CONTROL_RING,
    memory::Parts,
    receiving::{
        Arrived,
        Context,
        Upper, //
    },
    ring::Corrupt,
    wire::{
        MsgHdr,
        Priority, //
    }, //
};
use mp_transport::{
    frame::{
        RxContext,
        RxData, //
    },
    kept::{
        Hold,
        Kept,
        Spot, //
    },
    peer::Peer,
    service, //
};

impl Context<Arc<Spot>> for On<'_> {
    #[inline]
    fn take_returned(&self, f: impl FnMut(usize)) {
        self.channel.keeper.take_returned(self.number, f);
    }

    fn set_urgent(&self, urgent: bool) {
        self.channel.keeper.set_urgent(self.number, urgent);
    }

    fn move_out(&self, kept: &Arc<Spot>) -> bool {
        // Without memory, another poll tries again.
        let moved = matches!(kept.move_out(&*self.channel.keeper), Ok(true));
        if moved {
            self.channel.counters.moved_out.add(1);
        }
        moved
    }
}

/// The service, in a poll of ring `number`.
pub(super) struct Delivery<'a> {
    pub(super) channel: &'a Channel,
    pub(super) number: u32,
    pub(super) napi: &'a Napi,
    pub(super) peer: &'a Arc<Peer>,
}

impl Delivery<'_> {
    /// Split the message header off and hand a frame to the service. An error has been counted
    /// there and concerns nobody else.
    fn deliver(&self, headers: &[u8], data: &dyn RxData, last: bool) {
        let Some((msg, rest)) = headers.split_first_chunk::<{ MsgHdr::SIZE }>() else {
            return self.peer.stats().rx_errors.add(1);
        };
        let rx = RxContext {
            napi: Some(self.napi),
            queue: queue_of(self.number),
            priority: match self.number {
                CONTROL_RING => Priority::High,
                _ => Priority::Bulk,
            },
            last,
        };
        let _ = service::receive(&rx, self.peer, MsgHdr::decode(msg), rest, data);
    }
}

impl Upper<Arc<Spot>, Whole> for Delivery<'_> {
    fn frame(&self, frame: &Arrived<'_>) -> Option<Arc<Spot>> {
        let record = frame.record;
        let (head, parts) = record.parts.split_at(record.hdr.hdr_len as usize);
        let mut headers = [0; HDR_MAX];
        let headers = headers.get_mut(..record.hdr.hdr_len as usize);
        // No honest peer sends more data, and functions rely on that; as for frames in parts.
        let Some(headers) = headers.filter(|_| parts.len() <= MAX_FRAME) else {
            self.peer.stats().rx_errors.add(1);
            return None;
        };
        if head.read(&self.channel.inb, 0, headers).is_err() {
            self.channel.fail(Corrupt::Memory);
            return None;
        }
        let data = RingData {
            channel: self.channel,
            number: self.number,
            place: frame.place,
            parts,
            may_keep: Cell::new(frame.may_keep),
            kept: Cell::new(None),
        };
        self.deliver(headers, &data, frame.is_last);
        data.kept.take()
    }

    fn whole(&self, whole: &Whole, is_last: bool) {
        self.deliver(whole.headers(), whole, is_last);
    }

    fn no_memory(&self) {
        self.channel.counters.no_memory.add(1);
        self.peer.stats().rx_errors.add(1);
    }
}

/// A frame's data, still in the ring.
struct RingData<'a> {
    channel: &'a Channel,
    number: u32,
    /// Of the record, among those that are held.
    place: usize,
    parts: Parts,
    /// Whether a function may leave it there. One may.
    may_keep: Cell<bool>,
    /// Set when one does.
    kept: Cell<Option<Arc<Spot>>>,
}

impl RxData for RingData<'_> {
    fn len(&self) -> usize {
        self.parts.len()
    }

    fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result {
        let (inb, parts) = (&self.channel.inb, self.parts);
        InRing { inb, parts }.copy_to(offset, dst)
    }

    /// Leave the record in the ring, unless that is to be moved out of it soon.
    fn keep(&self) -> Result<Kept> {
        if !self.may_keep.replace(false) {
            return Kept::copy(self);
        }
        let hold = Hold {
            token: Keeper::token(self.number, self.place),
            parts: self.parts,
        };
        let (data, spot) = self.channel.anchor.hold(hold)?;
        self.kept.set(Some(spot));
        Ok(data)
    }
}
