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
    sharing::Want, //
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
            let bell = bells.iter_mut().find(|bell| bell.guest == from);
            bell.map(|bell| (bell.number.clone(), bell.heard.total(total)))
        };
        if let Some((number, count)) = found {
            number.trigger(count);
        }
    }

    /// A message to the port of a connection of the peer has arrived.
    ///
    /// # Errors
    ///
    /// `EPROTO` if it cannot be; `ENOMEM`: it is lost, and the connection is to end.
    pub(super) fn arrived(&self, from: u32, number: u32, data: KVec<u8>) -> Result {
        let port = {
            let mut bells = self.bells.lock();
            let bell = bells.iter_mut().find(|bell| bell.guest == from);
            let Some(bell) = bell.filter(|bell| !bell.is_broken) else {
                return Ok(());
            };
            let arrived = bell.receiver.arrived(number);
            arrived.map_err(|_| error::protocol())?;
            bell.number.clone()
        };
        port.deliver(Mail { guest: from, data })
    }

    /// A message of that connection of the peer is lost, for want of memory: the connection ends
    /// when the worker runs, which the caller wakes. Any context.
    pub(crate) fn lose_message(&self, from: u32) {
        let mut bells = self.bells.lock();
        if let Some(bell) = bells.iter_mut().find(|bell| bell.guest == from) {
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
            bell.map(|bell| bell.guest)
        };
        while let Some(guest) = broken() {
            if let Some(number) = self.take_bell(guest) {
                number.left(1);
            }
            self.with_shared(core, |engine, clerk| engine.end_guest(guest, clerk))?;
        }
        Ok(())
    }

    /// End the way of a connection of the peer to an event or port.
    pub(crate) fn take_bell(&self, guest: u32) -> Option<Arc<Number>> {
        let mut bells = self.bells.lock();
        let at = bells.iter().position(|bell| bell.guest == guest)?;
        Some(KBox::into_inner(bells.remove(at).ok()?).number)
    }

    /// A message has been taken; its sender is told if nobody else has to take it.
    pub(crate) fn taken(&self, mail: Arc<Mail>) {
        let Some(mail) = Arc::into_unique_or_drop(mail) else {
            return;
        };
        let way = {
            let mut bells = self.bells.lock();
            let bell = bells.iter_mut().find(|bell| bell.guest == mail.guest);
            bell.and_then(|bell| {
                let bell = &mut **bell;
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
