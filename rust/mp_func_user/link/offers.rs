// SPDX-License-Identifier: GPL-2.0-only

//! Events and ports that a link offers, and what arrives for them.

use super::Link;
use crate::offer::{
    Mail,
    Number,
    Offer,
    Terms, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
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
    pub(super) fn arrived(&self, from: u32, number: u32, data: KVec<u8>) -> Result {
        let port = {
            let mut bells = self.bells.lock();
            let Some(bell) = bells.iter_mut().find(|bell| bell.guest == from) else {
                return Ok(());
            };
            let arrived = bell.receiver.arrived(number);
            arrived.map_err(|_| error::protocol())?;
            bell.number.clone()
        };
        port.deliver(Mail { guest: from, data })
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
                let receipt = bell.receipt.as_ref()?;
                receipt.count(bell.receiver.take()?);
                Some(receipt.way())
            })
        };
        if let Some((outbox, receipt)) = way {
            if outbox.signal(&receipt).is_err() {
                // The sender would wait for ever.
                outbox.peer().reset();
            }
        }
    }
}
