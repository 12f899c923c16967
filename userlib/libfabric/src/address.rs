// SPDX-License-Identifier: MIT OR Apache-2.0

//! Addresses of endpoints.

/// A host of the fabric, and a port of it. Sessions have it as their name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address {
    /// The number that hosts know it by.
    pub host: u32,
    /// The port; 0 for none.
    pub port: u16,
}

/// Bytes of an address.
const LEN: usize = 6;

impl Address {
    /// Its bytes, most significant ones first.
    pub(crate) fn bytes(self) -> [u8; LEN] {
        let ([a, b, c, d], [e, f]) = (self.host.to_be_bytes(), self.port.to_be_bytes());
        [a, b, c, d, e, f]
    }

    /// The address at the start of some bytes, and the rest.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let ([a, b, c, d, e, f], rest) = bytes.split_first_chunk::<LEN>()?;
        let host = u32::from_be_bytes([*a, *b, *c, *d]);
        let port = u16::from_be_bytes([*e, *f]);
        Some((Address { host, port }, rest))
    }
}
