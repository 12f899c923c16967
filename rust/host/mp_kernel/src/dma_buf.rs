// SPDX-License-Identifier: GPL-2.0-only

//! Memory that is shared with drivers. There are none on the host.

use core::convert::Infallible;

/// Some bytes of a dma-buf; there are none.
pub struct Part(Infallible);

impl Part {
    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        match self.0 {}
    }
}

/// A part as a device reaches it; there is none.
pub struct Attached(Infallible);

impl Attached {
    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        match self.0 {}
    }
}
