// SPDX-License-Identifier: GPL-2.0-only

//! Memory that is shared with drivers. There are none on the host.

use core::convert::Infallible;
use kernel::{
    prelude::*,
    sync::Arc, //
};

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

    /// Let a device reach a part.
    ///
    /// # Errors
    ///
    /// There is none.
    ///
    /// # Safety
    ///
    /// The device is valid.
    pub(crate) unsafe fn new(part: &Arc<Part>, _dev: *mut mp_bindings::device) -> Result<Self> {
        match part.0 {}
    }

    /// Where the device reaches it.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(crate) fn dma_address(&self, _dev: *mut mp_bindings::device) -> Result<u64> {
        match self.0 {}
    }
}
