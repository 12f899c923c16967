// SPDX-License-Identifier: MIT OR Apache-2.0

//! Addresses as programs in C have them: two lengths, and behind them as many bytes. A length is
//! read once and compared with the most that there can be before a byte is.

use crate::sys::VIP_NET_ADDRESS;
use mp_c_abi::{Abi, Null, Out, Room};
use std::mem::offset_of;
use vipl::{Error, HostAddress, NetAddress, Result, DISCRIMINATOR_MAX, HOST_ADDRESS_LEN};

/// Where the bytes begin.
const BYTES: usize = offset_of!(VIP_NET_ADDRESS, HostAddress);

/// The two lengths: of the host address and of the discriminator.
type Lengths = [u16; 2];

/// An address of the caller, or NULL.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Address(*mut VIP_NET_ADDRESS);

// SAFETY: A pointer, and transparent.
unsafe impl Abi<*mut VIP_NET_ADDRESS> for Address {
    fn to_c(self) -> *mut VIP_NET_ADDRESS {
        self.0
    }
}

impl Address {
    /// Vouch for a pointer.
    ///
    /// # Safety
    /// The pointer is NULL, or leads to an address with as many bytes as its lengths say, as long
    /// as the value exists; for a function that writes one, to as many as the longest one has.
    pub const unsafe fn new(pointer: *mut VIP_NET_ADDRESS) -> Self {
        Address(pointer)
    }

    /// Refuse NULL.
    ///
    /// # Errors
    /// [`Null`].
    pub fn required(self) -> std::result::Result<Self, Null> {
        self.lengths().required().map(|_| self)
    }

    fn lengths(self) -> Out<Lengths> {
        // SAFETY: Promised to `new()`: each address has its lengths.
        unsafe { Out::new(self.0.cast()) }
    }

    /// The bytes from the first one of the host on.
    fn bytes(self, len: usize) -> Room<u8> {
        // SAFETY: Promised to `new()`: callers pass what the lengths say, or write.
        unsafe { Room::new(self.0.cast::<u8>().wrapping_add(BYTES), len) }
    }

    /// The address.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: NULL, or longer than any address (VI-ADDR-2, VI-CONN-26).
    pub fn read(self) -> Result<NetAddress> {
        let [host, discriminator] = self.read_lengths()?;
        if host != HOST_ADDRESS_LEN || discriminator > DISCRIMINATOR_MAX {
            return Err(Error::InvalidParameter);
        }
        let mut bytes = vec![0; host + discriminator];
        let room = self.bytes(bytes.len());
        let there = room.volatile().map_err(|Null| Error::InvalidParameter)?;
        there.copy_to(&mut bytes[..]);
        let discriminator = bytes.split_off(host);
        Ok(NetAddress {
            host: bytes,
            discriminator,
        })
    }

    /// The host of the address; the discriminator is not looked at (VI-NS-10).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: NULL, or no address of a host.
    pub fn read_host(self) -> Result<HostAddress> {
        let [len, _] = self.read_lengths()?;
        let mut host = [0; HOST_ADDRESS_LEN];
        if len != host.len() {
            return Err(Error::InvalidParameter);
        }
        let room = self.bytes(len);
        let there = room.volatile().map_err(|Null| Error::InvalidParameter)?;
        there.copy_to(&mut host[..]);
        Ok(HostAddress(host))
    }

    /// For how many bytes of a host address there is room, as the length says.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: NULL, or too few (VI-NS-7, VI-SMI-5).
    pub fn must_hold_host(self) -> Result<()> {
        match self.read_lengths()? {
            [len, _] if len >= HOST_ADDRESS_LEN => Ok(()),
            _ => Err(Error::InvalidParameter),
        }
    }

    fn read_lengths(self) -> Result<[usize; 2]> {
        let lengths = self.lengths().read();
        let lengths = lengths.map_err(|Null| Error::InvalidParameter)?;
        Ok(lengths.map(usize::from))
    }

    /// Write a host and how long it is, and leave all else as it is (VI-NS-7, VI-SMI-3).
    pub fn write_host(self, host: HostAddress) {
        // SAFETY: Promised to `new()`: the first of the lengths.
        let len: Out<u16> = unsafe { Out::new(self.0.cast()) };
        len.write(HOST_ADDRESS_LEN as u16);
        self.bytes(HOST_ADDRESS_LEN).fill(&host.0);
    }

    /// Write an address, whatever the lengths say (VI-CONN-7).
    pub fn write(self, address: &NetAddress) {
        let NetAddress {
            host,
            discriminator,
        } = address;
        let lengths = [host.len(), discriminator.len()];
        self.lengths().write(lengths.map(|len| len as u16));
        let bytes = [host.as_slice(), discriminator].concat();
        let most = HOST_ADDRESS_LEN + DISCRIMINATOR_MAX;
        self.bytes(bytes.len().min(most)).fill(&bytes);
    }
}
