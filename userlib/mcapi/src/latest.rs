// SPDX-License-Identifier: MIT OR Apache-2.0

//! Data of channels with state buffers (MC-STATE-1): a register in the receiver's window has the latest
//! value, and whoever sends overwrites it, whether it was received or not.
//!
//! A value is a packet, whose kind is 0, or a scalar, whose kind is its bytes. Behind each one goes an
//! empty message, so that a receiver that sleeps is woken: the register itself tells nobody. One that
//! has no room is owed; a receiver has something to take then, and takes it ahead of the value.
//!
//! The receiver's window has the register first, and behind it, for packets, buffers that values are
//! copied to and handed out in.

use crate::wire::{copied, End};
use mp_fabric::Device;
use mp_queue_pair::{
    provider,
    register::{self, Reader, Writer},
    Area, Head, Outgoing, Piece, Place, Receiving,
};

type Outbox<D> = provider::Outbox<D>;

fn end_of(error: mp_queue_pair::Error) -> End {
    provider::End::from(error).into()
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Setter {
    register: Writer,
    /// The latest value, which could not be written for want of memory of the kernel.
    kept: Option<(u8, Box<[u8]>)>,
    /// The receiver is to be told that there is a value.
    owes_news: bool,
}

impl Setter {
    /// # Errors
    /// [`End::Broken`]: the receiver's window has no such register.
    pub(crate) fn new<D: Device>(outbox: &mut Outbox<D>, most: u32) -> Result<Self, End> {
        let register = outbox.sending().register(most);
        Ok(Setter {
            register: register.map_err(|_| End::Broken)?,
            kept: None,
            owes_news: false,
        })
    }

    /// Make a value the latest one; false if it can neither be written nor kept now.
    ///
    /// # Errors
    /// How the pair has ended.
    pub(crate) fn set<D: Device>(
        &mut self,
        outbox: &mut Outbox<D>,
        kind: u8,
        data: Piece<'_>,
    ) -> Result<bool, End> {
        let kept = match self.write(outbox, kind, data)? {
            true => None,
            false => match copied(&data) {
                Ok(copy) => Some((kind, copy)),
                Err(_) => return Ok(false),
            },
        };
        self.kept = kept;
        self.owes_news = true;
        self.tell(outbox)?;
        Ok(true)
    }

    fn write<D: Device>(
        &mut self,
        outbox: &mut Outbox<D>,
        kind: u8,
        data: Piece<'_>,
    ) -> Result<bool, End> {
        let written = outbox.sending().set(&mut self.register, kind, data);
        written.map_err(end_of)
    }

    /// Do what could not be done before.
    ///
    /// # Errors
    /// How the pair has ended.
    pub(crate) fn go_on<D: Device>(&mut self, outbox: &mut Outbox<D>) -> Result<(), End> {
        if let Some((kind, data)) = self.kept.take() {
            if !self.write(outbox, kind, Piece::Bytes(&data))? {
                self.kept = Some((kind, data));
            }
            self.owes_news = true;
        }
        match self.owes_news {
            true => self.tell(outbox),
            false => Ok(()),
        }
    }

    fn tell<D: Device>(&mut self, outbox: &mut Outbox<D>) -> Result<(), End> {
        let mut news = Outgoing::new(Head::default(), &[], &[]);
        self.owes_news = !outbox.put(&mut news).map_err(end_of)?;
        outbox.flush().map_err(end_of)
    }

    /// Whether there is something left to do.
    pub(crate) fn is_busy(&self) -> bool {
        self.kept.is_some() || self.owes_news
    }

    /// Nobody receives any more.
    pub(crate) fn forget(&mut self) {
        (self.kept, self.owes_news) = (None, false);
    }
}

/// A buffer that a packet was copied to.
#[derive(Debug)]
pub(crate) struct Copied {
    area: Area,
    place: Place,
}

impl Copied {
    pub(crate) fn area(&self) -> &Area {
        &self.area
    }
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Getter {
    register: Reader,
    /// Buffers that the program does not have.
    free: Vec<Place>,
}

impl Getter {
    /// The register, and as many buffers of so many bytes as there is room for behind it.
    ///
    /// # Errors
    /// [`End::Broken`]: the own window is too small.
    pub(crate) fn new<D: Device>(
        receiving: &Receiving<D>,
        most: u32,
        size: u64,
        count: u64,
    ) -> Result<Self, End> {
        let register = receiving.register(most).map_err(|_| End::Broken)?;
        let room = receiving.layout().buffers_len;
        let places = (0..count).map(|n| Place {
            key: 0,
            off: register::size(most) + n * size,
            len: size as u32,
        });
        let free = places.take_while(|place| place.off + size <= room);
        Ok(Getter {
            register,
            free: free.collect(),
        })
    }

    /// Whether there is a value that was not received.
    ///
    /// # Errors
    /// [`End::Broken`].
    pub(crate) fn has_news<D: Device>(&self, receiving: &Receiving<D>) -> Result<bool, End> {
        receiving.has_value(&self.register).map_err(end_of)
    }

    /// Whether a receive of a packet, or of a scalar, would find a value that was not received.
    pub(crate) fn is_ready<D: Device>(&self, receiving: &Receiving<D>, is_packet: bool) -> bool {
        // What is wrong is told by the receive.
        let has_buffer = !is_packet || !self.free.is_empty();
        has_buffer && self.has_news(receiving).unwrap_or(true)
    }

    /// The latest packet, in a buffer of its own; nothing if there is none, or no buffer.
    ///
    /// # Errors
    /// [`End::Broken`].
    pub(crate) fn packet<D: Device>(
        &mut self,
        receiving: &Receiving<D>,
    ) -> Result<Option<Copied>, End> {
        let Some(place) = self.free.last().copied() else {
            return Ok(None);
        };
        let buffer = receiving.area(place).ok_or(End::Broken)?;
        let room = buffer.volatile().map_err(end_of)?;
        let value = receiving.value(&mut self.register, |from| from.copy_to_volatile_slice(room));
        let Some((kind, len)) = value.map_err(end_of)? else {
            return Ok(None);
        };
        let place = Place {
            len: len as u32,
            ..place
        };
        let area = receiving.area(place);
        match (kind, area) {
            (0, Some(area)) => {
                self.free.pop();
                Ok(Some(Copied { area, place }))
            }
            _ => Err(End::Broken),
        }
    }

    /// The latest scalar: its bytes, and its value.
    ///
    /// # Errors
    /// [`End::Broken`].
    pub(crate) fn scalar<D: Device>(
        &mut self,
        receiving: &Receiving<D>,
    ) -> Result<Option<(u8, u64)>, End> {
        let mut bytes = [0; 8];
        let value = receiving.value(&mut self.register, |from| {
            bytes = [0; 8];
            from.copy_to(&mut bytes);
        });
        match value.map_err(end_of)? {
            None => Ok(None),
            Some((width @ (1 | 2 | 4 | 8), len)) if len == usize::from(width) => {
                Ok(Some((width, u64::from_le_bytes(bytes))))
            }
            Some(_) => Err(End::Broken),
        }
    }

    /// The latest value was not received after all.
    pub(crate) fn put_back(&mut self) {
        self.register.put_back();
    }

    /// The program gives a buffer back, which is `size` bytes long.
    pub(crate) fn give(&mut self, copied: Copied, size: u64) {
        self.free.push(Place {
            len: size as u32,
            ..copied.place
        });
    }
}
