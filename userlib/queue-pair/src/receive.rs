// SPDX-License-Identifier: MIT OR Apache-2.0

//! The receiving half, and the messages that it lends.

use crate::{
    open::Shared,
    send::{defaults, register_in},
    window::{with_far, Near},
    Error, Head, Result, INLINE_MAX,
};
use mp_fabric::{vm_memory::VolatileSlice, CharDevice, Device, Session};
use mp_proto::{
    memory::Part,
    queue_pair::{
        self, Body, Broken, GiveError, Layout, Park, Receiver, EXTRA_MAX, PLACED_EXTRA_MAX,
    },
    register::Reader,
};
use std::sync::Arc;

/// What a partner has done that writes what no register can have.
const BAD_VALUE: Error = Error::Broken(Broken::Length);

/// Room for the data of an inline message and for what accompanies others. A program that keeps
/// several messages has a room for each.
#[derive(Clone, Copy, Debug)]
pub struct Room([u8; INLINE_MAX]);

impl Room {
    /// What is in it.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Default for Room {
    fn default() -> Self {
        Room([0; INLINE_MAX])
    }
}

/// A part of the buffers of one of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the buffer was advertised under.
    pub key: u32,
    /// From the start of the buffers, in bytes.
    pub off: u64,
    /// In bytes.
    pub len: u32,
}

/// Bytes of the own window. The partner can still change them.
#[derive(Clone, Debug)]
pub struct Area {
    near: Arc<Near>,
    part: Part,
}

impl Area {
    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.part.len
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.part.len == 0
    }

    /// The bytes, where they are.
    ///
    /// # Errors
    /// [`Error::Broken`]: the window has become smaller, which does not happen.
    #[inline]
    pub fn volatile(&self) -> Result<VolatileSlice<'_>> {
        self.near.part(self.part).map_err(|_| Broken::Memory.into())
    }
}

/// A slot that a message came in. It belongs to this side until
/// [`Receiving::give`] returns it, and is lost for the pair if it is dropped.
#[derive(Debug)]
#[must_use = "a slot that is not given back is lost"]
pub struct Held {
    area: Area,
    slot: u32,
    stream: u16,
}

impl Held {
    /// The message's bytes in it.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// The stream that the message came on.
    pub fn stream(&self) -> u16 {
        self.stream
    }
}

/// The data of a message, where they are.
#[derive(Debug)]
pub enum Data<'r> {
    /// In the room.
    Inline(&'r [u8]),
    /// In a slot of the own window.
    Held(Held),
    /// In the buffers of the own window.
    Placed(Place, Area),
    /// There are none: a place in the partner's buffers can be written to.
    Advertised(Place),
}

impl Data<'_> {
    /// Bytes of data.
    pub fn len(&self) -> usize {
        match self {
            Data::Inline(data) => data.len(),
            Data::Held(held) => held.area.len(),
            Data::Placed(_, area) => area.len(),
            Data::Advertised(_) => 0,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copy the data to several destinations, each of which is filled before the next one; how
    /// many bytes, which is the least of both sizes.
    ///
    /// # Errors
    /// As [`Area::volatile`].
    #[inline]
    pub fn scatter<'a>(&self, rooms: impl IntoIterator<Item = VolatileSlice<'a>>) -> Result<usize> {
        match self {
            Data::Inline(data) => Ok(scatter(data.len(), rooms, |at, len, room| {
                if let Some(data) = data.get(at..at + len) {
                    room.copy_from(data);
                }
            })),
            Data::Held(Held { area, .. }) | Data::Placed(_, area) => {
                let data = area.volatile()?;
                Ok(scatter(data.len(), rooms, |at, len, room| {
                    if let Ok(data) = data.subslice(at, len) {
                        data.copy_to_volatile_slice(room);
                    }
                }))
            }
            Data::Advertised(_) => Ok(0),
        }
    }

    /// Copy the data to the start of a room of this program; how many bytes.
    ///
    /// # Errors
    /// As [`Area::volatile`].
    #[inline]
    pub fn read(&self, room: &mut [u8]) -> Result<usize> {
        self.scatter([VolatileSlice::from(room)])
    }
}

/// Divide `len` bytes among rooms.
#[inline]
fn scatter<'a>(
    len: usize,
    rooms: impl IntoIterator<Item = VolatileSlice<'a>>,
    mut copy: impl FnMut(usize, usize, VolatileSlice<'a>),
) -> usize {
    let mut at = 0;
    for room in rooms {
        let run = room.len().min(len - at);
        if run > 0 {
            copy(at, run, room);
        }
        at += run;
    }
    at
}

/// A message that has arrived. Nothing of a slot or a buffer was copied.
#[derive(Debug)]
pub struct Message<'r> {
    /// What every message has.
    pub head: Head,
    /// Lines received with it altogether, for [`Receiving::acknowledge`].
    pub number: u64,
    /// Bytes of the layer above that accompany the data: as many as can be, those behind what the
    /// partner gave zero. None of an inline message.
    pub extra: &'r [u8],
    /// Its data.
    pub data: Data<'r>,
}

impl Message<'_> {
    /// The message with `len` bytes of the layer above beside its data, as
    /// [`Outgoing::new`](crate::Outgoing::new) was given them: of an inline message these are the
    /// first ones. Nothing if it has not so many.
    #[inline]
    pub fn split(self, len: usize) -> Option<Self> {
        let (extra, data) = match self.data {
            Data::Inline(data) => {
                let (extra, data) = data.split_at_checked(len)?;
                (extra, Data::Inline(data))
            }
            data => (self.extra.get(..len)?, data),
        };
        Some(Message {
            extra,
            data,
            ..self
        })
    }
}

/// The half of a pair that receives. Nothing waits. The other half can be used by another thread
/// at the same time.
#[derive(Debug)]
pub struct Receiving<D: Device = CharDevice> {
    shared: Arc<Shared<D>>,
    own: Layout,
    receiver: Receiver<Vec<queue_pair::Held>>,
}

impl<D: Device> Receiving<D> {
    /// Give each slot to a stream, one stream after the other.
    pub(crate) fn new(
        shared: Arc<Shared<D>>,
        own: Layout,
        peer: Layout,
        streams: u16,
    ) -> Result<Self> {
        let held = defaults(own.slots as usize)?;
        let mut receiver = Receiver::new(own, peer, held)?;
        for slot in 0..receiver.slots() {
            let stream = slot % u32::from(streams.max(1));
            receiver.give(&shared.far(), slot, stream as u16)?;
        }
        let mut receiving = Receiving {
            shared,
            own,
            receiver,
        };
        receiving.publish()?;
        Ok(receiving)
    }

    /// The session, for its state and its events. Others may keep it: it is open until the last of
    /// them has dropped it, or one has closed it.
    pub fn session(&self) -> &Arc<Session<D>> {
        &self.shared.session
    }

    /// How the own window is divided.
    pub fn layout(&self) -> &Layout {
        &self.own
    }

    /// A place in the own buffers; nothing if it is outside of them.
    pub fn area(&self, place: Place) -> Option<Area> {
        let part = self.own.buffer(place.off, place.len)?;
        let near = self.shared.near.clone();
        Some(Area { near, part })
    }

    /// The register for values of at most so many bytes that is at the start of the own buffers.
    ///
    /// # Errors
    /// [`Error::Layout`]: they are not as large.
    pub fn register(&self, most: u32) -> Result<Reader> {
        let part = register_in(&self.own, most);
        part.and_then(|part| Reader::new(part, most).ok())
            .ok_or(Error::Layout)
    }

    /// Whether a register has a value that was not read.
    ///
    /// # Errors
    /// [`Error::Broken`].
    #[inline]
    pub fn has_value(&self, register: &Reader) -> Result<bool> {
        let has = register.has_news(&*self.shared.near);
        self.shared.judge(has.map_err(|_| BAD_VALUE))
    }

    /// Copy the latest value of a register, also when the pair has ended; its kind and how many bytes
    /// it has. `copy` may be called several times: what it was given last is the value. Nothing if
    /// there is none, or if it was always overwritten meanwhile.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn value(
        &self,
        register: &mut Reader,
        mut copy: impl FnMut(VolatileSlice<'_>),
    ) -> Result<Option<(u8, usize)>> {
        let near = &*self.shared.near;
        let value = register.read(near, |value| near.part(value.part).map(&mut copy));
        let value = self.shared.judge(value.map_err(|_| BAD_VALUE))?;
        Ok(value.map(|value| (value.kind, value.part.len)))
    }

    /// Whether [`receive()`](Self::receive) may have something to say. For those who look often and
    /// find nothing.
    #[inline]
    pub fn has_news(&self) -> bool {
        // What is wrong is said by the next receive.
        self.shared.alive().is_err() || self.receiver.has_news(&*self.shared.near).unwrap_or(true)
    }

    /// Lend the next message, if there is a whole one, without a system call. What is inline, or
    /// accompanies the data, is in the room. Data in a slot stay there as long as the caller wants;
    /// the next message does not wait for that.
    ///
    /// # Errors
    /// [`Error::Closed`]: there are no more; [`Error::Broken`].
    #[inline]
    pub fn receive<'r>(&mut self, room: &'r mut Room) -> Result<Option<Message<'r>>> {
        let Some(message) = self.next(room)? else {
            return Ok(None);
        };
        let head = message.head;
        let room = &room.0;
        let area = |part| Area {
            near: self.shared.near.clone(),
            part,
        };
        let (extra, data) = match message.body {
            Body::Inline(len) => (0, Data::Inline(room.get(..len).unwrap_or_default())),
            Body::Slot { slot, part } => {
                let held = Held {
                    area: area(part),
                    slot,
                    stream: head.stream,
                };
                (EXTRA_MAX, Data::Held(held))
            }
            Body::Placed { key, off, part } => {
                let len = part.len as u32;
                let place = Place { key, off, len };
                (PLACED_EXTRA_MAX, Data::Placed(place, area(part)))
            }
            Body::Advertised { key, off, len } => (0, Data::Advertised(Place { key, off, len })),
        };
        Ok(Some(Message {
            head,
            number: message.number,
            extra: room.get(..extra).unwrap_or_default(),
            data,
        }))
    }

    /// Take the next message, if there is a whole one. What is inline, or accompanies the data, is in
    /// the room; a slot is [given](Self::give_slot) back by its number.
    ///
    /// # Errors
    /// As [`receive()`](Self::receive).
    #[inline]
    pub(crate) fn next(&mut self, room: &mut Room) -> Result<Option<queue_pair::Message>> {
        self.shared.alive()?;
        let message = self.receiver.receive(&*self.shared.near, &mut room.0);
        self.shared.judge(message.map_err(Error::from))
    }

    /// Bytes of the own window, where they are.
    ///
    /// # Errors
    /// As [`Area::volatile`].
    #[inline]
    pub(crate) fn part(&self, part: Part) -> Result<VolatileSlice<'_>> {
        let part = self.shared.near.part(part);
        part.map_err(|_| Broken::Memory.into())
    }

    /// Give a slot back, in any order, for the next message on a stream; what was read from it
    /// was read before. The partner knows after [`publish()`](Self::publish).
    ///
    /// # Errors
    /// With the slot: [`Error::Stream`]: this side has no such stream; [`Error::Foreign`]: the
    /// slot is another pair's; [`Error::Broken`].
    #[inline]
    pub fn give(&mut self, held: Held, stream: u16) -> std::result::Result<(), (Held, Error)> {
        if !Arc::ptr_eq(&held.area.near, &self.shared.near) {
            return Err((held, Error::Foreign));
        }
        match self.give_slot(held.slot, stream) {
            Ok(()) => Ok(()),
            Err(GiveError::Slot) => Err((held, Error::Foreign)),
            Err(error) => Err((held, error.into())),
        }
    }

    /// As [`give()`](Self::give), by the number of the slot.
    ///
    /// # Errors
    /// See [`GiveError`].
    #[inline]
    pub(crate) fn give_slot(
        &mut self,
        slot: u32,
        stream: u16,
    ) -> std::result::Result<(), GiveError> {
        with_far!(self.shared, far => self.receiver.give(far, slot, stream))
    }

    /// Lines received from the beginning on.
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Acknowledge all messages up to the one with that number: they have taken effect. Told
    /// with [`publish()`](Self::publish). A number that is not newer than the last one, or was
    /// not received, changes nothing.
    pub fn acknowledge(&mut self, number: u64) {
        self.receiver.acknowledge(number);
    }

    /// Tell what was given and acknowledged, and that lines are free once a quarter of the ring
    /// was taken; wake the partner if it sleeps. Has to be called from time to time, or the
    /// partner finds no room.
    ///
    /// # Errors
    /// [`Error::Broken`].
    #[inline]
    pub fn publish(&mut self) -> Result<()> {
        let near = &*self.shared.near;
        let asleep = with_far!(self.shared, far => self.receiver.publish(near, far));
        let asleep = asleep.map_err(Error::from);
        let asleep = self.shared.judge(asleep)?;
        // A partner that has gone needs no room: its messages are received nevertheless.
        let _ = self.shared.wake(asleep);
        Ok(())
    }

    /// Publish everything, and ask the partner for a signal when it sends. What to sleep on;
    /// nothing if a message, or an end, is there by now.
    ///
    /// # Errors
    /// [`Error::Broken`]; [`Error::Fabric`] with [`NoMemory`](mp_fabric::Error::NoMemory): there is
    /// none to send what was published.
    pub fn arm(&mut self) -> Result<Option<Park>> {
        self.shared.must_move()?;
        let (near, far) = (&*self.shared.near, &self.shared.far());
        let asleep = self.receiver.arm_data(near, far).map_err(Error::from);
        let asleep = self.shared.judge(asleep)?;
        let _ = self.shared.wake(asleep);
        self.shared.must_move()?;
        let park = self.receiver.park(near).map_err(Error::from);
        self.shared.judge(park)
    }

    /// End both directions at once; as [`Sending::abort`](crate::Sending::abort).
    pub fn abort(&mut self, reason: u16) {
        self.shared.abort(reason);
    }
}
