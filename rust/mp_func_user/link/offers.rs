// SPDX-License-Identifier: GPL-2.0-only

//! Events and ports that a link offers, and what arrives for them.

use super::{
    Core,
    Link, //
};
use crate::{
    offer::{
        Mail,
        Number,
        Offer,
        Terms, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Full,
            Release, //
        },
        Arc, //
    }, //
};
use mp_kernel::error;
use mp_proto::{
    name::Name,
    sharing::{
        message::{
            Message,
            What, //
        },
        Want, //
    }, //
};

impl Link {
    /// Offer an event or port, see [`Offer::new`].
    ///
    /// # Errors
    ///
    /// `ENODEV` if the interface has gone, `EADDRINUSE`, `ENOMEM`.
    pub(crate) fn offer(
        self: &Arc<Self>,
        numbers: (u32, u32),
        terms: &Terms,
    ) -> Result<Arc<Offer>> {
        let core = self.core.lock();
        if core.removed {
            return Err(ENODEV);
        }
        Offer::new(numbers, self.clone(), &self.offered, terms)
    }

    /// The event or port that is wanted, under that name unless it is none.
    pub(crate) fn offered(&self, want: &Want, name: &Name) -> Option<Arc<Number>> {
        self.offered.lock().find(want, name).cloned()
    }

    /// An event or port is not offered any more.
    pub(crate) fn withdraw_number(&self, number: &Arc<Number>) {
        let gone = self.offered.lock().remove(number);
        self.end_guests(number.token());
        drop(gone);
    }

    /// A connection of the peer has triggered its event so often. Any context.
    pub(crate) fn triggered(&self, from: u32, total: u32) {
        let found = {
            let mut bells = self.bells.lock();
            let bell = bells.get_mut(from);
            bell.map(|bell| (bell.number.clone(), bell.heard.total(total)))
        };
        if let Some((number, count)) = found {
            number.trigger(count);
        }
    }

    /// A message to the port of a connection of the peer has arrived, of that number. Whether it
    /// is to be delivered: not if the connection has ended. Softirq context.
    ///
    /// # Errors
    ///
    /// `EPROTO` if it cannot be.
    pub(crate) fn arrived(&self, from: u32, number: u32) -> Result<bool> {
        let mut bells = self.bells.lock();
        let bell = bells.get_mut(from);
        let Some(bell) = bell.filter(|bell| !bell.is_broken) else {
            return Ok(false);
        };
        let arrived = bell.receiver.arrived(number);
        arrived.map_err(|_| error::protocol())?;
        Ok(true)
    }

    /// Deliver the oldest message of those that have arrived of a connection of the peer. Whether
    /// that has left, and this was the last one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: it is lost, and the connection is to end.
    pub(super) fn deliver(&self, from: u32, data: KVec<u8>) -> Result<bool> {
        let (port, is_last) = {
            let mut bells = self.bells.lock();
            let bell = bells.get_mut(from);
            let Some(bell) = bell.filter(|bell| !bell.is_broken) else {
                return Ok(false);
            };
            (bell.number.clone(), bell.receiver.deliver())
        };
        port.deliver(Mail { guest: from, data })?;
        Ok(is_last)
    }

    /// Whether a connection of the peer leaves by that message before all that it has sent is with
    /// the port. It has left then when that is.
    ///
    /// # Errors
    ///
    /// `EPROTO` if it cannot have sent so many.
    pub(super) fn is_early(&self, core: &Core, message: &Message) -> Result<bool> {
        let counts = core.up.as_ref().is_some_and(|up| up.has_way_for_messages());
        let (What::Leave(sent), true) = (message.what, counts) else {
            return Ok(false);
        };
        let mut bells = self.bells.lock();
        let bell = bells.get_mut(message.connection);
        let Some(bell) = bell.filter(|bell| !bell.is_broken) else {
            return Ok(false);
        };
        let left = bell.receiver.left(sent).map_err(|_| error::protocol())?;
        Ok(!left)
    }

    /// Whether there are such connections.
    pub(super) fn has_early(&self) -> bool {
        let bells = self.bells.lock();
        let mut all = bells.iter();
        all.any(|bell| bell.receiver.has_left())
    }

    /// A message of that connection of the peer is lost, for want of memory: the connection ends
    /// when the worker runs, which the caller wakes. Any context.
    pub(crate) fn lose_message(&self, from: u32) {
        let mut bells = self.bells.lock();
        if let Some(bell) = bells.get_mut(from) {
            bell.is_broken = true;
            self.has_broken.store(true, Release);
        }
    }

    /// End the connections of which messages were lost. No others are concerned, nor is the link.
    pub(super) fn end_broken(&self, core: &mut Core) -> Result {
        if !self.has_broken.xchg(false, Full) {
            return Ok(());
        }
        let broken = || {
            let bells = self.bells.lock();
            let bell = bells.iter().find(|bell| bell.is_broken);
            bell.map(|bell| (bell.guest, bell.receiver.has_left()))
        };
        while let Some((guest, has_left)) = broken() {
            if let Some(number) = self.take_bell(guest) {
                number.left(1);
            }
            self.with_shared(core, |engine, clerk| match has_left {
                true => engine.left(guest, clerk),
                false => engine.end_guest(guest, clerk),
            })?;
        }
        Ok(())
    }

    /// End the way of a connection of the peer to an event or port.
    pub(crate) fn take_bell(&self, guest: u32) -> Option<Arc<Number>> {
        let bell = self.bells.lock().remove(guest)?;
        Some(KBox::into_inner(bell).number)
    }

    /// A message has been taken; its sender is told if nobody else has to take it.
    pub(crate) fn taken(&self, mail: Arc<Mail>) {
        let Some(mail) = Arc::into_unique_or_drop(mail) else {
            return;
        };
        let way = {
            let mut bells = self.bells.lock();
            let bell = bells.get_mut(mail.guest);
            bell.and_then(|bell| {
                let receipt = bell.receipt.as_ref()?;
                receipt.count(bell.receiver.take()?);
                Some(receipt.way())
            })
        };
        if let Some((outbox, receipt)) = way {
            // It has a place of its own.
            let _ = outbox.signal(&receipt);
        }
    }
}
