// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is sent.

use crate::{Layout, Need, Outgoing, Result, Sending};
use mp_fabric::{CharDevice, Device, Session};
use std::{mem, sync::Arc};

/// The half of a pair that sends, and what the partner has not been told of yet.
#[derive(Debug)]
pub struct Outbox<D: Device = CharDevice> {
    sending: Sending<D>,
    /// Messages were put since the last flush.
    put: bool,
    /// What the last message waits for, if it had no room.
    need: Option<Need>,
}

impl<D: Device> Outbox<D> {
    /// Nothing is on the way.
    pub fn new(sending: Sending<D>) -> Self {
        Outbox {
            sending,
            put: false,
            need: None,
        }
    }

    /// The session, for its state and its events.
    pub fn session(&self) -> &Arc<Session<D>> {
        self.sending.session()
    }

    /// How the partner has divided its window.
    pub fn partner(&self) -> &Layout {
        self.sending.partner()
    }

    /// Put a message, or as many of its parts as there is room for; false if that was not all. See
    /// [`Sending::put`].
    ///
    /// # Errors
    /// As [`Sending::put`].
    #[inline]
    pub fn put(&mut self, message: &mut Outgoing<'_>) -> Result<bool> {
        let left = message.left();
        let put = self.sending.put(message)?.is_some();
        self.put |= put || message.left() < left;
        self.need = match put {
            true => None,
            false => Some(self.sending.need(message)),
        };
        Ok(put)
    }

    /// Put a message in one slot; false if there was no room. See [`Sending::put_in_slot`].
    ///
    /// # Errors
    /// As [`Sending::put_in_slot`].
    #[inline]
    pub fn put_in_slot(&mut self, message: &mut Outgoing<'_>, stream: u16) -> Result<bool> {
        let put = self.sending.put_in_slot(message)?.is_some();
        self.put |= put;
        self.need = match put {
            true => None,
            false => Some(Need::Slot(stream)),
        };
        Ok(put)
    }

    /// The same, and in which slot, by its number, which [`Sending::has_slot`] takes.
    ///
    /// # Errors
    /// As [`Sending::put_in_slot`].
    #[cold]
    pub fn put_in_known_slot(
        &mut self,
        message: &mut Outgoing<'_>,
        stream: u16,
    ) -> Result<Option<u32>> {
        // One that comes free behind this look is left for the next one.
        let slot = self.sending.next_slot(stream)?;
        if slot.is_none() {
            self.need = Some(Need::Slot(stream));
            return Ok(None);
        }
        let put = self.put_in_slot(message, stream)?;
        Ok(slot.filter(|_| put))
    }

    /// Whether so many lines are free. If not, the next message waits for them.
    ///
    /// # Errors
    /// As [`Sending::room`].
    pub fn has_lines(&mut self, lines: u32) -> Result<bool> {
        let is_there = self.sending.room()? >= lines;
        if !is_there {
            self.need = Some(Need::Lines(lines));
        }
        Ok(is_there)
    }

    /// What the last message waits for; nothing if it had room.
    pub fn need(&self) -> Option<Need> {
        self.need
    }

    /// Let the partner know of everything that was put, and wake it if it sleeps.
    ///
    /// # Errors
    /// As [`Sending::publish`].
    #[inline]
    pub fn flush(&mut self) -> Result<()> {
        match mem::take(&mut self.put) || self.sending.owes_signal() {
            true => self.sending.publish(),
            false => Ok(()),
        }
    }

    /// Signal the partner for what it has not taken and was not signalled for: once for the same
    /// messages. For a thread that goes to sleep and may wait for what they lead to: the partner may
    /// have left the link to a program that looks no more.
    pub fn remind(&mut self) {
        // One that has gone is noticed by who receives.
        let _ = self.sending.remind();
    }

    /// Whether the partner could not be woken: [`flush()`](Self::flush) tries again.
    #[inline]
    pub fn owes_signal(&self) -> bool {
        self.sending.owes_signal()
    }

    /// The half itself, for what needs no note here.
    pub fn sending(&mut self) -> &mut Sending<D> {
        &mut self.sending
    }

    /// Lines sent from the beginning on.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.sending.sent()
    }
}
