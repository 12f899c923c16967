// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages between two processes of two hosts, in the windows of a session.
//!
//! A pair lies in the windows of a [`Session`] that has one in each direction. While both ends
//! look, messages move by plain stores and loads, without a system call; one is made only to
//! sleep, to wake a partner that sleeps, and to end. The protocol is that of
//! [`mp_proto::queue_pair`]; this crate adds the windows, the storage and the waiting, and never
//! looks into shared memory itself.
//!
//! | type | for |
//! |---|---|
//! | [`QueuePair`] | programs: messages are copied, calls wait |
//! | [`Sending`], [`Receiving`] | providers of other interfaces: the two halves, for a thread each; messages are gathered and lent where they are, nothing waits |
//! | [`Opening`] | to begin a pair without waiting |
//! | [`provider`] | what providers have in common above the two halves |
//!
//! The halves share the session and the windows only. Each has its user's lock, if it has several
//! users.
//!
//! A partner whose process or host has gone is noticed by [`sleep`]; who only looks asks the
//! session from time to time.
//!
//! For processes of 64 bits.
//!
//! # Examples
//! ```no_run
//! use mp_fabric::{Deadline, Fabric};
//! use mp_queue_pair::{Head, QueuePair, Shape};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fabric = Fabric::open()?;
//! let interface = fabric.interfaces()?[0];
//! let size = 0x1_0000..=0x1_0000;
//! let session = fabric.client(interface, 0xF000_0001).local(size.clone()).remote(size).open()?;
//! let mut pair = QueuePair::open(session, &Shape::default(), Deadline::NEVER)?;
//! pair.send(&Head::default(), b"hello", Deadline::NEVER)?;
//! let mut room = [0; 4096];
//! let answer = pair.receive(&mut room, Deadline::NEVER)?;
//! println!("{:?}", &room[..answer.len]);
//! # Ok(())
//! # }
//! ```

#![cfg(target_pointer_width = "64")]

mod error;
mod open;
mod piece;
pub mod provider;
mod receive;
mod send;
mod window;

pub use error::{Error, Result};
pub use mp_proto::queue_pair::{
    Broken, Head, Layout, Need, Park, EXTRA_MAX, INLINE_MAX, PLACED_EXTRA_MAX,
};
pub use mp_proto::register;
pub use open::{open, sleep, Opened, Opening, Shape};
pub use piece::{Outgoing, Piece};
pub use receive::{Area, Data, Held, Message, Place, Receiving, Room};
pub use send::Sending;

use mp_fabric::{CharDevice, Deadline, Device, Session};
use std::hint::spin_loop;

/// Looks at memory before a call sleeps, unless [`QueuePair::set_looks`] says otherwise.
const LOOKS: u32 = 20_000;

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Stream, kind, immediate data.
    pub head: Head,
    /// Bytes of data.
    pub len: usize,
}

/// A queue pair whose messages are copied to and from rooms of the caller, with calls that wait.
/// Dropping it ends the session; the partner sees that as the end of its session, unless
/// [`close()`](Self::close) has told it before.
#[derive(Debug)]
pub struct QueuePair<D: Device = CharDevice> {
    sending: Sending<D>,
    receiving: Receiving<D>,
    room: Box<Room>,
    looks: u32,
}

impl<D: Device> QueuePair<D> {
    /// Wait until the session is paired and the partner has announced its end of the pair.
    ///
    /// # Errors
    /// As [`open()`].
    pub fn open(session: Session<D>, shape: &Shape, deadline: Deadline) -> Result<Self> {
        let (sending, receiving) = open(session, shape, deadline)?;
        Ok(QueuePair {
            sending,
            receiving,
            room: Box::default(),
            looks: LOOKS,
        })
    }

    /// The session, for its state and its events.
    pub fn session(&self) -> &Session<D> {
        self.sending.session()
    }

    /// Look at memory so many times before a call sleeps, at least once. Each look costs
    /// processor time, and a partner that answers meanwhile need not wake this side.
    pub fn set_looks(&mut self, looks: u32) {
        self.looks = looks.max(1);
    }

    /// Most bytes of a message to the partner.
    pub fn message_max(&self) -> usize {
        let partner = self.sending.partner();
        let slot = if partner.slots == 0 {
            0
        } else {
            partner.slot_size
        };
        INLINE_MAX.max(slot as usize)
    }

    /// Send a message, if there is room for it; without a system call while the partner looks.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Stream`], [`Error::Ended`], [`Error::Broken`];
    /// [`Error::Fabric`]: what waking the partner fails with.
    #[inline]
    pub fn try_send(&mut self, head: &Head, data: &[u8]) -> Result<bool> {
        let most = self.message_max();
        if data.len() > most {
            return Err(Error::TooLong { most });
        }
        let data = [Piece::from(data)];
        let sent = self.sending.put(&mut Outgoing::new(*head, &[], &data))?;
        self.sending.publish()?;
        Ok(sent.is_some())
    }

    /// Send a message as soon as there is room for it.
    ///
    /// # Errors
    /// As [`try_send()`](Self::try_send); [`Error::Fabric`] also with
    /// [`TimedOut`](mp_fabric::Error::TimedOut), with
    /// [`NoMemory`](mp_fabric::Error::NoMemory) for what was sent before, and with
    /// [`PartnerGone`](mp_fabric::Error::PartnerGone) and
    /// [`InterfaceDown`](mp_fabric::Error::InterfaceDown).
    #[inline]
    pub fn send(&mut self, head: &Head, data: &[u8], deadline: Deadline) -> Result<()> {
        loop {
            for _ in 0..self.looks {
                if self.try_send(head, data)? {
                    return Ok(());
                }
                spin_loop();
            }
            let pieces = [Piece::from(data)];
            let need = self.sending.need(&Outgoing::new(*head, &[], &pieces));
            if let Some(park) = self.sending.arm(need)? {
                sleep(self.session(), Some(park), deadline)?;
            }
        }
    }

    /// Receive a message into a room, if there is one; without a system call while the partner
    /// looks.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Broken`]; [`Error::TooLong`]: the room is too small, and the
    /// message is lost.
    #[inline]
    pub fn try_receive(&mut self, room: &mut [u8]) -> Result<Option<Received>> {
        let Some(message) = self.receiving.receive(&mut self.room)? else {
            return Ok(None);
        };
        let (head, len, most) = (message.head, message.data.len(), room.len());
        let read = match room.get_mut(..len) {
            Some(room) => message.data.read(room),
            None => Err(Error::TooLong { most }),
        };
        if let Data::Held(held) = message.data {
            self.receiving
                .give(held, head.stream)
                .map_err(|(_, error)| error)?;
        }
        self.receiving.publish()?;
        read?;
        Ok(Some(Received { head, len }))
    }

    /// Receive a message as soon as there is one: look for a while, then sleep.
    ///
    /// # Errors
    /// As [`try_receive()`](Self::try_receive); [`Error::Fabric`] also with
    /// [`TimedOut`](mp_fabric::Error::TimedOut), and with
    /// [`PartnerGone`](mp_fabric::Error::PartnerGone) and
    /// [`InterfaceDown`](mp_fabric::Error::InterfaceDown).
    #[inline]
    pub fn receive(&mut self, room: &mut [u8], deadline: Deadline) -> Result<Received> {
        loop {
            for _ in 0..self.looks {
                if let Some(received) = self.try_receive(room)? {
                    return Ok(received);
                }
                spin_loop();
            }
            let Some(park) = self.receiving.arm()? else {
                continue;
            };
            if let Err(gone) = sleep(self.session(), Some(park), deadline) {
                // What it has said last may be there.
                return match self.try_receive(room)? {
                    Some(received) => Ok(received),
                    None => Err(gone),
                };
            }
        }
    }

    /// End this direction in order; as [`Sending::close`].
    ///
    /// # Errors
    /// As [`Sending::close`].
    pub fn close(&mut self, reason: u16) -> Result<()> {
        self.sending.close(reason)
    }

    /// The two halves, for two threads.
    pub fn split(self) -> (Sending<D>, Receiving<D>) {
        (self.sending, self.receiving)
    }
}
