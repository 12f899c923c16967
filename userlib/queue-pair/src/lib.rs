// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages between two processes of two hosts, in the windows of a session.
//!
//! A [`QueuePair`] takes a [`Session`] with a window in each direction. While both ends look,
//! messages move by plain stores and loads, without a system call; one is made only to sleep
//! ([`receive`](QueuePair::receive), [`send`](QueuePair::send)), to wake a partner that sleeps,
//! and to end. The protocol is that of [`mp_proto::queue_pair`]; this crate adds the windows, the
//! storage and the waiting, and never looks into shared memory itself.
//!
//! A partner whose process or host has gone is noticed by calls that sleep; who only looks
//! ([`try_receive`](QueuePair::try_receive)) asks the session from time to time.
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
mod window;

pub use error::{Error, Result};
pub use mp_proto::queue_pair::{Broken, Head, INLINE_MAX};

use mp_fabric::{CharDevice, Deadline, Device, EventMask, Session};
use mp_proto::{
    memory::{Inbound, Outbound},
    queue_pair::{
        tell_end, Body, End, Held, Hello, Layout, Link, Message, Queue, Receiver, Sender, Wants,
    },
};
use std::{hint::spin_loop, time::Duration};
use window::{Far, Near};

/// Looks at memory before a call sleeps.
const LOOKS: u32 = 20_000;
/// A side that sleeps looks again after this time: a message and the request for a signal can
/// cross on the way, and then nobody signals.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// What a wait for the partner ends with.
const NEWS: EventMask = EventMask::SIGNAL
    .union(EventMask::CLOSED)
    .union(EventMask::DOWN);

/// What the own window is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lines of 64 bytes in the ring that the partner sends into: a power of two from 8 on.
    pub lines: u32,
    /// Slots for messages of the partner that are longer than [`INLINE_MAX`].
    pub slots: u32,
    /// Bytes of each, a multiple of 64.
    pub slot_size: u32,
    /// Streams that the partner may send on.
    pub streams: u16,
    /// Slots of the partner that this side can use: a power of two from 8 on.
    pub partner_slots: u32,
}

impl Default for Shape {
    /// Fits into 64 KiB: 128 lines, and 8 slots of 4096 bytes for one stream.
    fn default() -> Self {
        Shape {
            lines: 128,
            slots: 8,
            slot_size: 4096,
            streams: 1,
            partner_slots: 8,
        }
    }
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Stream, kind, immediate data.
    pub head: Head,
    /// Bytes of data.
    pub len: usize,
}

/// A queue pair over the windows of a session. Dropping it ends the session; the partner sees
/// that as the end of its session, unless [`close()`](Self::close) has told it before.
#[derive(Debug)]
pub struct QueuePair<D: Device = CharDevice> {
    session: Session<D>,
    near: Near,
    far: Far,
    sender: Sender<Vec<Link>, Vec<Queue>>,
    receiver: Receiver<Vec<Held>>,
    room: Box<[u8; INLINE_MAX]>,
}

impl<D: Device> QueuePair<D> {
    /// Waits until the session is paired and the partner has announced its end of the pair.
    /// Each slot is given to a stream, one stream after the other.
    ///
    /// # Errors
    /// [`Error::Layout`]; [`Error::Fabric`]: what waiting and mapping fail with,
    /// [`TimedOut`](mp_fabric::Error::TimedOut) among it; [`Error::Broken`]: the partner announces
    /// what cannot be, or speaks another version.
    pub fn open(session: Session<D>, shape: &Shape, deadline: Deadline) -> Result<Self> {
        session.wait(EventMask::PAIRED, deadline)?;
        let near = Near(session.map_local()?.ok_or(Error::Layout)?);
        let far = Far(session.map_remote()?.ok_or(Error::Layout)?);
        let wants = Wants {
            lines: shape.lines,
            free: shape.partner_slots,
            slots: shape.slots,
            slot_size: shape.slot_size,
            streams: u32::from(shape.streams),
        };
        let own = Layout::plan(near.size() as u64, &wants)?;
        Hello::new(own).tell(&far).map_err(|_| Error::Layout)?;
        session.signal()?;
        let peer = loop {
            match Hello::look(&near, far.size() as u64) {
                Ok(Some((hello, _))) => break hello.layout,
                Ok(None) => {}
                Err(broken) => {
                    give_up(&session, &far, broken);
                    return Err(broken.into());
                }
            }
            sleep(&session, deadline)?;
        };
        let links = vec![Link::default(); peer.slots as usize];
        let queues = vec![Queue::default(); peer.streams as usize];
        let held = vec![Held::default(); own.slots as usize];
        let mut pair = QueuePair {
            sender: Sender::new(own, peer, links, queues)?,
            receiver: Receiver::new(own, peer, held)?,
            session,
            near,
            far,
            room: Box::new([0; INLINE_MAX]),
        };
        for slot in 0..pair.receiver.slots() {
            let stream = slot % u32::from(shape.streams.max(1));
            pair.receiver.give(&pair.far, slot, stream as u16)?;
        }
        pair.push()?;
        Ok(pair)
    }

    /// The session, for its state and its events.
    pub fn session(&self) -> &Session<D> {
        &self.session
    }

    /// Most bytes of a message to the partner.
    pub fn message_max(&self) -> usize {
        let peer = self.sender.peer();
        let slot = if peer.slots == 0 { 0 } else { peer.slot_size };
        INLINE_MAX.max(slot as usize)
    }

    /// Pushes out everything, and wakes the partner if it sleeps.
    fn push(&mut self) -> Result<()> {
        let sent = self.sender.publish(&self.near, &self.far)?;
        let took = self.receiver.publish(&self.near, &self.far)?;
        self.wake(sent || took)
    }

    #[inline]
    fn wake(&self, asleep: bool) -> Result<()> {
        if asleep {
            self.session.signal()?;
        }
        Ok(())
    }

    /// Tells the partner that it broke the rules.
    #[inline]
    fn judge<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::Broken(broken)) = &result {
            give_up(&self.session, &self.far, *broken);
        }
        result
    }

    /// Sends a message, if there is room for it; without a system call while the partner looks.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Stream`], [`Error::Ended`], [`Error::Broken`];
    /// [`Error::Fabric`]: what waking the partner fails with.
    #[inline]
    pub fn try_send(&mut self, head: &Head, data: &[u8]) -> Result<bool> {
        let sent = if data.len() <= INLINE_MAX {
            let sent = self.sender.send(&self.near, &self.far, head, data);
            sent.map(|_| true)
        } else {
            self.send_slot(head, data)
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => match Error::of_send(error, self.message_max()) {
                Some(error) => return self.judge(Err(error)),
                None => false,
            },
        };
        if sent {
            let asleep = self.sender.publish(&self.near, &self.far)?;
            self.wake(asleep)?;
        }
        Ok(sent)
    }

    fn send_slot(
        &mut self,
        head: &Head,
        data: &[u8],
    ) -> std::result::Result<bool, mp_proto::queue_pair::SendError> {
        if data.len() > self.message_max() {
            return Err(mp_proto::queue_pair::SendError::Length);
        }
        let Some(slot) = self.sender.take_slot(&self.near, head.stream)? else {
            return Ok(false);
        };
        if self.far.write(slot.part().off, data).is_err() {
            return Err(Broken::Memory.into());
        }
        let len = data.len() as u32;
        let (near, far) = (&self.near, &self.far);
        match self.sender.send_slot(near, far, head, slot, len, &[]) {
            Ok(_) => Ok(true),
            Err((slot, error)) => {
                self.sender.put_back(slot);
                Err(error)
            }
        }
    }

    /// Sends a message as soon as there is room for it.
    ///
    /// # Errors
    /// As [`try_send()`](Self::try_send); [`Error::Fabric`] also with
    /// [`TimedOut`](mp_fabric::Error::TimedOut), and with
    /// [`PartnerGone`](mp_fabric::Error::PartnerGone) and
    /// [`InterfaceDown`](mp_fabric::Error::InterfaceDown).
    #[inline]
    pub fn send(&mut self, head: &Head, data: &[u8], deadline: Deadline) -> Result<()> {
        loop {
            for _ in 0..LOOKS {
                if self.try_send(head, data)? {
                    return Ok(());
                }
                spin_loop();
            }
            let asleep = self.sender.arm_space(&self.near, &self.far)?;
            self.wake(asleep)?;
            if self.try_send(head, data)? {
                return Ok(());
            }
            sleep(&self.session, deadline)?;
        }
    }

    /// Receives a message into a room, if there is one; without a system call while the partner
    /// looks.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Broken`]; [`Error::TooLong`]: the room is too small, and the
    /// message is lost.
    #[inline]
    pub fn try_receive(&mut self, room: &mut [u8]) -> Result<Option<Received>> {
        let message = self.receiver.receive(&self.near, &mut self.room);
        let Some(message) = (match message {
            Ok(message) => message,
            Err(stop) => return self.judge(Err(stop.into())),
        }) else {
            return Ok(None);
        };
        let taken = self.take(&message, room);
        if self.receiver.publish(&self.near, &self.far)? {
            // A partner that has gone needs no room: its messages are received nevertheless.
            let _ = self.session.signal();
        }
        let len = self.judge(taken)?;
        Ok(Some(Received {
            head: message.head,
            len,
        }))
    }

    /// Copies the data of a message to the caller's room.
    #[inline]
    fn take(&mut self, message: &Message, room: &mut [u8]) -> Result<usize> {
        let most = room.len();
        match message.body {
            Body::Inline(len) => {
                let data = self.room.get(..len).ok_or(Broken::Length)?;
                let room = room.get_mut(..len).ok_or(Error::TooLong { most })?;
                room.copy_from_slice(data);
                Ok(len)
            }
            Body::Slot { slot, part } => {
                let read = match room.get_mut(..part.len) {
                    Some(room) => self.near.read(part.off, room).map_err(Broken::from),
                    None => Ok(()),
                };
                self.receiver.give(&self.far, slot, message.head.stream)?;
                read?;
                if part.len > most {
                    return Err(Error::TooLong { most });
                }
                Ok(part.len)
            }
            // This side advertises no buffers, and uses none.
            Body::Placed { .. } | Body::Advertised { .. } => Err(Broken::Operation.into()),
        }
    }

    /// Receives a message as soon as there is one: looks for a while, then sleeps.
    ///
    /// # Errors
    /// As [`try_receive()`](Self::try_receive); [`Error::Fabric`] also with
    /// [`TimedOut`](mp_fabric::Error::TimedOut), and with
    /// [`PartnerGone`](mp_fabric::Error::PartnerGone) and
    /// [`InterfaceDown`](mp_fabric::Error::InterfaceDown).
    #[inline]
    pub fn receive(&mut self, room: &mut [u8], deadline: Deadline) -> Result<Received> {
        loop {
            for _ in 0..LOOKS {
                if let Some(received) = self.try_receive(room)? {
                    return Ok(received);
                }
                spin_loop();
            }
            let asleep = self.receiver.arm_data(&self.near, &self.far)?;
            self.wake(asleep)?;
            if let Some(received) = self.try_receive(room)? {
                return Ok(received);
            }
            if let Err(gone) = sleep(&self.session, deadline) {
                // What it has said last may be there.
                return match self.try_receive(room)? {
                    Some(received) => Ok(received),
                    None => Err(gone),
                };
            }
        }
    }

    /// Ends this direction in order: the partner receives what was sent before, and then the
    /// reason. Messages of the partner can be received until it closes as well.
    ///
    /// # Errors
    /// [`Error::Fabric`]: what waking the partner fails with.
    pub fn close(&mut self, reason: u16) -> Result<()> {
        let told = self.sender.close(&self.far, reason);
        told.map_err(Broken::from)?;
        match self.session.signal() {
            // It has looked, and gone, before it was woken; or will not come again.
            Err(mp_fabric::Error::PartnerGone) => Ok(()),
            other => Ok(other?),
        }
    }
}

/// Ends the pair at the partner; one that has gone misses nothing.
#[cold]
fn give_up<D: Device>(session: &Session<D>, far: &Far, broken: Broken) {
    let reason = broken.reason();
    if !matches!(broken, Broken::Partner(_)) && tell_end(far, End::Broken { reason }).is_ok() {
        let _ = session.signal();
    }
}

/// Sleeps until the partner signals, but not for long.
fn sleep<D: Device>(session: &Session<D>, deadline: Deadline) -> Result<()> {
    let left = deadline.remaining();
    if left.is_some_and(|left| left.is_zero()) {
        return Err(mp_fabric::Error::TimedOut.into());
    }
    let nap = left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN));
    match session.wait_one(NEWS, Deadline::after(nap)) {
        Ok(EventMask::CLOSED) => Err(mp_fabric::Error::PartnerGone.into()),
        Ok(EventMask::DOWN) => Err(mp_fabric::Error::InterfaceDown.into()),
        Ok(_) | Err(mp_fabric::Error::TimedOut) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
