// SPDX-License-Identifier: MIT OR Apache-2.0

//! Addresses of hosts and of endpoints on them.
//!
//! A host address is the fabric's number of the host, in four bytes, the most significant one
//! first. The kernel assigns it (VI-NIC-9). A discriminator has up to [`DISCRIMINATOR_MAX`] bytes
//! of any value, and is compared by length and bytes (VI-ADDR-4).

use crate::{Error, Result};

/// Bytes of a host address.
pub const HOST_ADDRESS_LEN: usize = 4;

/// Most bytes of a discriminator (VI-ADDR-2).
pub const DISCRIMINATOR_MAX: usize = 16;

/// The address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostAddress(pub [u8; HOST_ADDRESS_LEN]);

impl HostAddress {
    /// That of a host by its number in the fabric.
    pub fn of(peer: u32) -> Self {
        HostAddress(peer.to_be_bytes())
    }

    /// The number of the host in the fabric.
    pub fn peer(self) -> u32 {
        u32::from_be_bytes(self.0)
    }
}

/// Where an endpoint is: a host, and a discriminator on it. What a program passes: lengths are
/// looked at by the calls that take one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NetAddress {
    /// Bytes of the host address.
    pub host: Vec<u8>,
    /// Bytes of the discriminator.
    pub discriminator: Vec<u8>,
}

impl NetAddress {
    /// An endpoint on a host.
    pub fn new(host: HostAddress, discriminator: &[u8]) -> Self {
        NetAddress {
            host: host.0.into(),
            discriminator: discriminator.into(),
        }
    }

    /// The host (VI-CONN-26).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: the host part has another length, or the discriminator is too
    /// long.
    pub fn host(&self) -> Result<HostAddress> {
        let host = self.host.as_slice().try_into().map(HostAddress);
        let host = host.map_err(|_| Error::InvalidParameter)?;
        match self.discriminator.len() {
            0..=DISCRIMINATOR_MAX => Ok(host),
            _ => Err(Error::InvalidParameter),
        }
    }

    /// Refuse a local address whose host is another one (VI-ADDR-3).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`].
    pub(crate) fn must_be_of(&self, host: HostAddress) -> Result<()> {
        match self.host()? == host {
            true => Ok(()),
            false => Err(Error::InvalidParameter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VI-ADDR-1, VI-ADDR-2, VI-ADDR-3
    #[test]
    fn hosts_and_discriminators_have_their_lengths() {
        let host = HostAddress::of(0x0102_0304);
        assert_eq!((host.0, host.peer()), ([1, 2, 3, 4], 0x0102_0304));
        for len in 0..=DISCRIMINATOR_MAX {
            let address = NetAddress::new(host, &vec![7; len]);
            assert_eq!(address.host(), Ok(host));
            assert_eq!(address.must_be_of(host), Ok(()));
        }
        let invalid = Err(Error::InvalidParameter);
        let long = NetAddress::new(host, &[0; DISCRIMINATOR_MAX + 1]);
        assert_eq!(long.host(), invalid);
        for bytes in [&[1, 2, 3][..], &[1, 2, 3, 4, 5], &[]] {
            let address = NetAddress {
                host: bytes.into(),
                discriminator: vec![],
            };
            assert_eq!(address.host(), invalid);
        }
        let foreign = NetAddress::new(HostAddress::of(5), b"x");
        assert_eq!(foreign.must_be_of(host), Err(Error::InvalidParameter));
    }
}
