// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs see of channels: handles, packets, scalars.

use crate::{Error, Result};
use mp_fabric::vm_memory::VolatileSlice;
use mp_queue_pair::Area;
use std::fmt;

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Packets,
    Scalars,
}

/// Which end of a channel an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Send,
    Receive,
}

/// The handle of an end of a channel that was opened. None is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Channel(u32);

/// Bits of a handle that are the port.
const PORT_BITS: u32 = 16;
/// Largest generation.
const GENERATION_MAX: u32 = u32::MAX >> PORT_BITS;

impl Channel {
    /// The handle as a number.
    pub fn to_raw(self) -> u32 {
        self.0
    }

    /// The handle of a number, which may be none of a channel.
    pub fn from_raw(raw: u32) -> Self {
        Channel(raw)
    }

    /// The handle of the endpoint of a port, when the node has opened `count` ends before.
    pub(crate) fn of(port: u16, count: u32) -> Self {
        let generation = count % GENERATION_MAX + 1;
        Channel(generation << PORT_BITS | u32::from(port))
    }

    pub(crate) fn port(self) -> u16 {
        self.0 as u16
    }
}

/// A packet that was received, in the buffer that it has arrived in. The buffer is the program's
/// until it is [released](crate::Node::pktchan_release), also after the channel was closed.
///
/// The sender can reach the buffer as well: what shall not change is copied.
#[derive(Clone)]
pub struct Packet {
    area: Area,
    address: usize,
}

impl Packet {
    /// # Errors
    /// [`Error::General`]: the window has become smaller, which does not happen.
    pub(crate) fn new(area: Area) -> Result<Self> {
        let memory = area.volatile().map_err(|_| Error::General)?;
        let address = memory.ptr_guard().as_ptr() as usize;
        Ok(Packet { area, address })
    }

    /// Where the buffer is, which is its name.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.area.len()
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// The bytes, where they are, to read and to write (MC-BUF-6).
    pub fn memory(&self) -> VolatileSlice<'_> {
        // A window does not become smaller.
        let none = || VolatileSlice::from(&mut [][..]);
        self.area.volatile().unwrap_or_else(|_| none())
    }

    /// Copy the bytes, or the first ones that there is room for; how many.
    pub fn read(&self, room: &mut [u8]) -> usize {
        self.memory().copy_to(room)
    }
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        (self.address, self.len()) == (other.address, other.len())
    }
}

impl Eq for Packet {}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes at {:#x})", self.len(), self.address)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// What a scalar channel carries: `u8`, `u16`, `u32`, `u64`.
pub trait Scalar: Copy + sealed::Sealed {
    /// Bytes of it.
    const WIDTH: u8;

    /// Its value.
    fn to_u64(self) -> u64;

    /// The scalar with a value, whose upper bytes are dropped.
    fn from_u64(value: u64) -> Self;
}

macro_rules! scalars {
    ($($scalar:ty),*) => {
        $(
            impl sealed::Sealed for $scalar {}

            impl Scalar for $scalar {
                const WIDTH: u8 = size_of::<$scalar>() as u8;

                fn to_u64(self) -> u64 {
                    self.into()
                }

                fn from_u64(value: u64) -> Self {
                    value as $scalar
                }
            }
        )*
    };
}

scalars!(u8, u16, u32, u64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// MC-GEN-13: no handle is 0, and an earlier one of an endpoint is not the next one.
        #[test]
        fn handles_are_their_openings_own(port: u16, count: u32) {
            let channel = Channel::of(port, count);
            prop_assert_ne!(channel.to_raw(), 0);
            prop_assert_eq!(channel.port(), port);
            prop_assert_ne!(channel, Channel::of(port, count.wrapping_add(1)));
        }
    }
}
