// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets of shared memory (MC-PKTRELTEST-1): which of those that were sent the receiver has not
//! released.
//!
//! A packet goes in a slot of the receiver's window, as every one does. The receiver gives the slot back when
//! its program releases the packet, in any order; the sender notes which slot it has sent a packet in, and
//! looks which have come back. So the ends tell each other nothing more than those of local memory do.

use crate::{pair::end_of, wire::End};
use mp_fabric::Device;
use mp_queue_pair::{provider::Outbox, Head, Outgoing, Piece};

/// Slots of a channel, at most.
const SLOTS: usize = 16;

/// A packet that was sent and has not come back.
#[derive(Clone, Copy, Debug)]
struct Loan {
    /// Where the program has its data.
    address: usize,
    /// Lines that were sent with it.
    line: u64,
}

/// What the receiver may have, by the numbers of its slots.
#[derive(Debug, Default)]
pub(crate) struct Loans([Option<Loan>; SLOTS]);

/// Where the program has data.
pub(crate) fn address(data: &Piece<'_>) -> usize {
    match data {
        Piece::Bytes(bytes) => bytes.as_ptr().addr(),
        Piece::Memory(memory) => memory.ptr_guard().as_ptr().addr(),
    }
}

impl Loans {
    /// Send a packet whose data the program has at an address; false if there is no room.
    ///
    /// # Errors
    /// How the pair has ended.
    pub(crate) fn send<D: Device>(
        &mut self,
        outbox: &mut Outbox<D>,
        address: usize,
        data: Piece<'_>,
    ) -> Result<bool, End> {
        let pieces = [data];
        let mut message = Outgoing::new(Head::default(), &[], &pieces);
        let slot = outbox.put_in_known_slot(&mut message, 0).map_err(end_of)?;
        if let Some(slot) = slot {
            // What was in the slot before has come back.
            let place = self.0.get_mut(slot as usize).ok_or(End::Broken)?;
            let line = outbox.sent();
            *place = Some(Loan { address, line });
        }
        outbox.flush().map_err(end_of)?;
        Ok(slot.is_some())
    }

    /// Note what has come back. A receiver that was closed says so in the pair, behind an acknowledgement of
    /// what it had taken by then, and takes nothing more.
    ///
    /// # Errors
    /// How the pair has ended.
    pub(crate) fn settle<D: Device>(&mut self, outbox: &mut Outbox<D>) -> Result<(), End> {
        let sending = outbox.sending();
        let taken = match sending.is_closed_there().map_err(end_of)? {
            true => sending.acknowledged().map_err(end_of)?,
            false => u64::MAX,
        };
        for (slot, place) in (0..).zip(&mut self.0) {
            if let Some(Loan { line, .. }) = *place {
                let is_back = sending.has_slot(slot).map_err(end_of)?;
                *place = place.filter(|_| !is_back && line <= taken);
            }
        }
        Ok(())
    }

    /// Whether a packet is lent, from an address or from any.
    pub(crate) fn has(&self, address: Option<usize>) -> bool {
        let mut all = self.0.iter().flatten();
        all.any(|loan| address.is_none_or(|address| loan.address == address))
    }

    /// Nothing is lent any more.
    pub(crate) fn forget(&mut self) {
        *self = Loans::default();
    }
}
