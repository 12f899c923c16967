// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs send.

use mp_fabric::vm_memory::VolatileSlice;
use mp_queue_pair::Piece;
use std::sync::Arc;

/// Bytes that a program sends: its own, or those of memory that others may write meanwhile, such as
/// the [buffer of a packet](crate::Packet::memory). Made of either by `into()`.
///
/// What others write while it is sent arrives as it was before or after, byte for byte.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a>(Piece<'a>);

impl<'a> Payload<'a> {
    pub(crate) fn piece(self) -> Piece<'a> {
        self.0
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Payload(Piece::Bytes(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Payload<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Payload(Piece::Bytes(bytes))
    }
}

impl<'a> From<&'a Vec<u8>> for Payload<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Payload(Piece::Bytes(bytes))
    }
}

impl<'a> From<&'a Arc<Vec<u8>>> for Payload<'a> {
    fn from(bytes: &'a Arc<Vec<u8>>) -> Self {
        Payload(Piece::Bytes(bytes))
    }
}

impl<'a> From<&'a Box<[u8]>> for Payload<'a> {
    fn from(bytes: &'a Box<[u8]>) -> Self {
        Payload(Piece::Bytes(bytes))
    }
}

impl<'a> From<VolatileSlice<'a>> for Payload<'a> {
    fn from(memory: VolatileSlice<'a>) -> Self {
        Payload(Piece::Memory(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a receive returns is sent as it is, and so are bytes that somebody owns.
    #[test]
    fn bytes_are_sent_whoever_owns_them() {
        let (shared, boxed) = (Arc::new(b"bytes".to_vec()), Box::<[u8]>::from(*b"bytes"));
        for payload in [Payload::from(&shared), (&boxed).into(), (&*shared).into()] {
            assert!(matches!(payload.piece(), Piece::Bytes(b"bytes")));
        }
    }
}
