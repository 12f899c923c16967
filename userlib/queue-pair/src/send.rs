// SPDX-License-Identifier: MIT OR Apache-2.0

//! The sending half.

use crate::{
    open::Shared,
    piece::{Cursor, Outgoing, Piece},
    window::with_far,
    Error, Head, Place, Result, EXTRA_MAX, INLINE_MAX, PLACED_EXTRA_MAX,
};
use mp_fabric::{CharDevice, Device, Session};
use mp_proto::memory::{Outbound, Part};
use mp_proto::queue_pair::{lines_for, Broken, Layout, Link, Need, Park, Queue, SendError, Sender};
use mp_proto::register::{self, Writer};
use std::sync::Arc;

/// The half of a pair that sends. Nothing waits; what has no room now is not sent. The other half
/// can be used by another thread at the same time.
///
/// Whatever is put stays with this side until [`publish()`](Self::publish): several messages cost
/// one fence and at most one signal. The thread that has put them publishes: stores wait in the
/// buffers of its processor.
#[derive(Debug)]
pub struct Sending<D: Device = CharDevice> {
    shared: Arc<Shared<D>>,
    sender: Sender<Vec<Link>, Vec<Queue>>,
    /// Lines that had been sent when the partner was signalled last.
    signalled: u64,
}

/// What the engine has said of a message: nothing if it is only for room.
fn outcome<T>(result: std::result::Result<T, SendError>, most: usize) -> Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) => match Error::of_send(error, most) {
            None => Ok(None),
            Some(error) => Err(error),
        },
    }
}

/// Where the register is in a window that is divided so.
pub(crate) fn register_in(layout: &Layout, most: u32) -> Option<Part> {
    let len = u32::try_from(register::size(most)).ok()?;
    layout.buffer(0, len)
}

/// So many values, as many as the partner may have asked for.
///
/// # Errors
/// [`NoMemory`](mp_fabric::Error::NoMemory).
pub(crate) fn defaults<T: Clone + Default>(count: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    let reserved = all.try_reserve_exact(count);
    reserved.map_err(|_| mp_fabric::Error::NoMemory)?;
    all.resize(count, T::default());
    Ok(all)
}

impl<D: Device> Sending<D> {
    pub(crate) fn new(shared: Arc<Shared<D>>, own: Layout, peer: Layout) -> Result<Self> {
        let links = defaults(peer.slots as usize)?;
        let queues = defaults(peer.streams as usize)?;
        let sender = Sender::new(own, peer, links, queues)?;
        Ok(Sending {
            shared,
            sender,
            signalled: 0,
        })
    }

    /// The session, for its state and its events. Others may keep it: it is open until the last of
    /// them has dropped it, or one has closed it.
    pub fn session(&self) -> &Arc<Session<D>> {
        &self.shared.session
    }

    /// How the partner has divided its window: lines, slots and their size, streams, buffers.
    pub fn partner(&self) -> &Layout {
        self.sender.peer()
    }

    /// Send a message, or as many of its parts as there is room for now; with the last one, the
    /// number of lines sent altogether, which [`acknowledged()`](Self::acknowledged) reaches.
    /// Nothing: call again with the same message, and send nothing else on its stream before.
    ///
    /// A part is inline if what is left of the message has room in lines, otherwise it fills a
    /// slot. All parts but the last one say that more follow.
    ///
    /// # Errors
    /// [`Error::TooLong`]: of the bytes that accompany it; [`Error::Stream`], [`Error::Ended`],
    /// [`Error::Broken`].
    #[inline]
    pub fn put(&mut self, message: &mut Outgoing<'_>) -> Result<Option<u64>> {
        self.shared.alive()?;
        if message.extra.len() > EXTRA_MAX {
            return Err(Error::TooLong { most: EXTRA_MAX });
        }
        if self.shared.is_held_up() {
            return Ok(None);
        }
        loop {
            let inline = self.inline_max(message);
            let put = if message.left() <= inline || self.sender.peer().slots == 0 {
                self.put_inline(message, inline)
            } else {
                self.put_slot(message)
            };
            let put = self.shared.judge(outcome(put, INLINE_MAX))?;
            if put.is_none() || message.left() == 0 {
                return Ok(put);
            }
        }
    }

    /// Send a message in one slot, however short it is: the partner can lend it where it lies. Result
    /// as that of [`put()`](Self::put).
    ///
    /// # Errors
    /// As [`put()`](Self::put); [`Error::TooLong`]: also if no slot has room for it.
    #[inline]
    pub fn put_in_slot(&mut self, message: &mut Outgoing<'_>) -> Result<Option<u64>> {
        self.shared.alive()?;
        let peer = self.sender.peer();
        let most = if peer.slots == 0 {
            0
        } else {
            peer.slot_size as usize
        };
        if message.extra.len() > EXTRA_MAX || message.left() > most {
            return Err(Error::TooLong { most });
        }
        if self.shared.is_held_up() {
            return Ok(None);
        }
        let put = self.put_slot(message);
        self.shared.judge(outcome(put, most))
    }

    fn inline_max(&self, message: &Outgoing<'_>) -> usize {
        INLINE_MAX - message.extra.len()
    }

    #[inline]
    fn put_inline(
        &mut self,
        message: &mut Outgoing<'_>,
        most: usize,
    ) -> std::result::Result<u64, SendError> {
        let Outgoing { head, extra, data } = message;
        let len = data.left().min(most);
        let head = Head {
            more: head.more || data.left() > len,
            ..*head
        };
        let (near, all) = (&*self.shared.near, extra.len() + len);
        let mut extra = *extra;
        let fill = |room: &mut [u8]| {
            let room = match extra {
                [] => room,
                _ => {
                    let (to, room) = room.split_at_mut(extra.len().min(room.len()));
                    let (now, later) = extra.split_at(to.len());
                    to.copy_from_slice(now);
                    extra = later;
                    room
                }
            };
            data.fill(room);
        };
        with_far!(self.shared, far => self.sender.send_with(near, far, &head, all, fill))
    }

    #[inline]
    fn put_slot(&mut self, message: &mut Outgoing<'_>) -> std::result::Result<u64, SendError> {
        let Outgoing { head, extra, data } = message;
        let near = &*self.shared.near;
        if !self.sender.has_room(near, 1)? {
            return Err(SendError::Full);
        }
        let slot = self.sender.take_slot(near, head.stream)?;
        let slot = slot.ok_or(SendError::Full)?;
        let mut rest = *data;
        let len = rest.left().min(slot.part().len);
        let sent = with_far!(self.shared, far => {
            match far.gather(slot.part().off, len, &mut rest) {
                Ok(()) => {
                    let head = Head {
                        more: head.more || rest.left() > 0,
                        ..*head
                    };
                    let sender = &mut self.sender;
                    sender.send_slot(near, far, &head, slot, len as u32, extra)
                }
                Err(outside) => Err((slot, outside.into())),
            }
        });
        match sent {
            Ok(number) => {
                *data = rest;
                Ok(number)
            }
            Err((slot, error)) => {
                self.sender.put_back(slot);
                Err(error)
            }
        }
    }

    /// Write into the partner's buffers, from `off` on, and tell nobody. Only what the partner
    /// has advertised is free to be written; that is for the layers to keep.
    ///
    /// # Errors
    /// [`Error::TooLong`]: outside of the buffers; [`Error::Broken`]; [`Error::Fabric`] with
    /// [`InterfaceDown`](mp_fabric::Error::InterfaceDown): it could not be sent.
    pub fn write(&mut self, off: u64, data: &[Piece<'_>]) -> Result<()> {
        self.shared.alive()?;
        let mut data = Cursor::new(data);
        let most = self.sender.peer().buffers_len as usize;
        let len = u32::try_from(data.left()).ok();
        let part = len.and_then(|len| self.sender.peer().buffer(off, len));
        let part = part.ok_or(Error::TooLong { most })?;
        let written = self.shared.far().gather(part.off, part.len, &mut data);
        written.map_err(|_| Broken::Memory)?;
        self.shared.push()
    }

    /// Store a word at a multiple of eight in the partner's buffers, in one piece and least significant
    /// byte first, and tell nobody. Behind a [`fence()`](Self::fence) it tells a partner that looks
    /// at its memory that what was written before is there.
    ///
    /// # Errors
    /// [`Error::TooLong`]: outside of the buffers, or not at a multiple of eight; else as
    /// [`write()`](Self::write).
    #[inline]
    pub fn store(&mut self, off: u64, word: u64) -> Result<()> {
        self.shared.alive()?;
        let most = self.sender.peer().buffers_len as usize;
        let part = self.sender.peer().buffer(off, 8);
        let part = part.filter(|part| part.off % 8 == 0);
        let part = part.ok_or(Error::TooLong { most })?;
        let stored = with_far!(self.shared, far => far.store_u64(part.off, word));
        stored.map_err(|_| Broken::Memory)?;
        self.shared.push()
    }

    /// Push out what was written in place, ahead of all that is written later.
    #[inline]
    pub fn fence(&mut self) {
        with_far!(self.shared, far => far.wmb());
    }

    /// The register for values of at most so many bytes that is at the start of the partner's buffers.
    ///
    /// # Errors
    /// [`Error::Layout`]: the partner has less.
    pub fn register(&self, most: u32) -> Result<Writer> {
        let part = register_in(self.sender.peer(), most);
        part.and_then(|part| Writer::new(part, most).ok())
            .ok_or(Error::Layout)
    }

    /// Write the next value into a register of the partner, and tell nobody; false if stores wait for
    /// memory of the kernel: then nothing was written.
    ///
    /// # Errors
    /// [`Error::TooLong`]: it is longer than the register's values; else as [`write()`](Self::write).
    pub fn set(&mut self, register: &mut Writer, kind: u8, data: Piece<'_>) -> Result<bool> {
        self.shared.alive()?;
        if self.shared.is_held_up() {
            return Ok(false);
        }
        let (len, most) = (data.len(), register.most());
        if len > most {
            return Err(Error::TooLong { most });
        }
        let pieces = [data];
        let mut data = Cursor::new(&pieces);
        let written = with_far!(self.shared, far => {
            register.write(far, kind, len, |to| far.gather(to.off, to.len, &mut data))
        });
        written.map_err(|_| Broken::Memory)?;
        self.shared.push()?;
        Ok(true)
    }

    /// Tell that a place in the partner's buffers has been written, with at most
    /// [`PLACED_EXTRA_MAX`] bytes of the layer above. Result as that of [`put()`](Self::put).
    ///
    /// # Errors
    /// As [`put()`](Self::put); [`Error::TooLong`]: also if the place is outside of the buffers.
    pub fn put_placed(&mut self, head: &Head, place: Place, extra: &[u8]) -> Result<Option<u64>> {
        self.shared.alive()?;
        if self.shared.is_held_up() {
            return Ok(None);
        }
        let Place { key, off, len } = place;
        let (near, far) = (&*self.shared.near, &self.shared.far());
        let sent = self
            .sender
            .send_placed(near, far, head, key, off, len, extra);
        self.shared.judge(outcome(sent, PLACED_EXTRA_MAX))
    }

    /// Let the partner write a place in the own buffers. Result as that of [`put()`](Self::put).
    ///
    /// # Errors
    /// As [`put()`](Self::put); [`Error::TooLong`]: also if the place is outside of the buffers.
    pub fn advertise(&mut self, head: &Head, place: Place) -> Result<Option<u64>> {
        self.shared.alive()?;
        if self.shared.is_held_up() {
            return Ok(None);
        }
        let Place { key, off, len } = place;
        let (near, far) = (&*self.shared.near, &self.shared.far());
        let sent = self.sender.advertise(near, far, head, key, off, len);
        self.shared.judge(outcome(sent, 0))
    }

    /// Push out what was put, and wake the partner if it sleeps; no system call otherwise.
    ///
    /// # Errors
    /// [`Error::Broken`]; [`Error::Fabric`]: what waking the partner fails with;
    /// [`InterfaceDown`](mp_fabric::Error::InterfaceDown): something could not be sent.
    #[inline]
    pub fn publish(&mut self) -> Result<()> {
        let near = &*self.shared.near;
        let asleep = with_far!(self.shared, far => self.sender.publish(near, far));
        let asleep = asleep.map_err(Error::from);
        let asleep = self.shared.judge(asleep)?;
        if asleep {
            self.signalled = self.sender.sent();
        }
        self.shared.wake(asleep)
    }

    /// Signal the partner for what it has not taken and was not signalled for: once for the same
    /// messages. It did not sleep when they were published, but may look no more.
    ///
    /// # Errors
    /// As [`publish()`](Self::publish).
    pub fn remind(&mut self) -> Result<()> {
        let sent = self.sender.sent();
        if self.signalled == sent || self.taken()? >= sent {
            return Ok(());
        }
        self.signalled = sent;
        self.shared.wake(true)
    }

    /// Whether the partner has to be woken and the kernel had no memory for that: the next
    /// [`publish()`](Self::publish) tries again, also if nothing was put.
    #[inline]
    pub fn owes_signal(&self) -> bool {
        self.shared.owes_signal()
    }

    /// Lines sent from the beginning on.
    pub fn sent(&self) -> u64 {
        self.sender.sent()
    }

    /// Lines that the partner has taken out of its ring.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn taken(&mut self) -> Result<u64> {
        self.shared.alive()?;
        let taken = self.sender.taken(&*self.shared.near);
        self.shared.judge(taken.map_err(Error::from))
    }

    /// Lines that the partner's layer has acknowledged: what was sent in them has taken effect.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn acknowledged(&mut self) -> Result<u64> {
        self.shared.alive()?;
        let acknowledged = self.sender.acknowledged(&*self.shared.near);
        self.shared.judge(acknowledged.map_err(Error::from))
    }

    /// Lines that are free now.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn room(&mut self) -> Result<u32> {
        self.shared.alive()?;
        let room = self.sender.room(&*self.shared.near);
        self.shared.judge(room.map_err(Error::from))
    }

    /// Slots of a stream that are free now.
    ///
    /// # Errors
    /// [`Error::Stream`], [`Error::Broken`].
    pub fn slots(&mut self, stream: u16) -> Result<u32> {
        self.shared.alive()?;
        let slots = outcome(self.sender.slots(&*self.shared.near, stream), 0);
        Ok(self.shared.judge(slots)?.unwrap_or(0))
    }

    /// The slot that the next [`put_in_slot()`](Self::put_in_slot) on a stream sends in, by its number;
    /// nothing if none is free.
    ///
    /// # Errors
    /// [`Error::Stream`], [`Error::Broken`].
    pub fn next_slot(&mut self, stream: u16) -> Result<Option<u32>> {
        let next = self.sender.next_slot(&*self.shared.near, stream);
        Ok(self.shared.judge(outcome(next, 0))?.flatten())
    }

    /// Whether the partner has ended its own direction in order. What it had given back and acknowledged
    /// by then is known when that is asked for behind this.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn is_closed_there(&mut self) -> Result<bool> {
        let is_closed = self.sender.is_closed_there(&*self.shared.near);
        self.shared.judge(is_closed.map_err(Error::from))
    }

    /// Whether the partner has given a slot back since it was sent last. What it has given is known also
    /// when its process has gone.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn has_slot(&mut self, slot: u32) -> Result<bool> {
        let has = self.sender.has_slot(&*self.shared.near, slot);
        self.shared.judge(has.map_err(Error::from))
    }

    /// What a message waits for that [`put()`](Self::put) had no room for.
    pub fn need(&self, message: &Outgoing<'_>) -> Need {
        let left = message.left();
        if left > self.inline_max(message) && self.sender.peer().slots > 0 {
            Need::Slot(message.head.stream)
        } else {
            let len = left.min(self.inline_max(message));
            Need::Lines(lines_for(message.extra.len() + len))
        }
    }

    /// Publish, and ask the partner for a signal when it gives lines or slots. What to sleep
    /// on; nothing if what is needed is there by now.
    ///
    /// # Errors
    /// As [`publish()`](Self::publish); [`Error::Stream`]; [`Error::Fabric`] with
    /// [`NoMemory`](mp_fabric::Error::NoMemory): there is none to send what was published.
    pub fn arm(&mut self, need: Need) -> Result<Option<Park>> {
        self.shared.must_move()?;
        let (near, far) = (&*self.shared.near, &self.shared.far());
        let asleep = self.sender.arm_space(near, far).map_err(Error::from);
        self.shared.wake(self.shared.judge(asleep)?)?;
        self.shared.must_move()?;
        // A message with a slot needs a line as well.
        for need in [need, Need::Lines(1)] {
            let park = outcome(self.sender.park(near, need), 0);
            if let Some(park) = self.shared.judge(park)?.flatten() {
                return Ok(Some(park));
            }
        }
        Ok(None)
    }

    /// End this direction in order: the partner receives what was sent before, and then the
    /// reason. Messages of the partner can be received until it closes as well.
    ///
    /// # Errors
    /// [`Error::Broken`]; [`Error::Fabric`]: what waking the partner fails with.
    pub fn close(&mut self, reason: u16) -> Result<()> {
        self.shared.alive()?;
        if !self.shared.may_tell() {
            return Ok(());
        }
        let told = self.sender.close(&self.shared.far(), reason);
        told.map_err(Broken::from)?;
        match self.shared.session.signal() {
            // It has looked, and gone, before it was woken; or will not come again.
            Err(mp_fabric::Error::PartnerGone) => Ok(()),
            other => Ok(other?),
        }
    }

    /// End both directions at once. The partner's calls fail with
    /// [`Broken::Partner`](crate::Broken::Partner) of the reason, which is at least 256; those of
    /// this side with [`Error::Ended`].
    pub fn abort(&mut self, reason: u16) {
        self.shared.abort(reason);
    }
}
