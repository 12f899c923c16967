// SPDX-License-Identifier: GPL-2.0-only

//! Memory of processes. There are no processes with memory of their own on the host.

use core::convert::Infallible;
use kernel::prelude::*;

/// A range of a process's memory; there is none.
pub struct UserPages(Infallible);

impl UserPages {
    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self.0 {}
    }

    /// Where in its first page it begins.
    pub fn start(&self) -> usize {
        match self.0 {}
    }

    /// Whether it may be written.
    pub fn may_be_written(&self) -> bool {
        match self.0 {}
    }

    /// Physical address of a page.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn phys_address(&self, _page: usize) -> Result<u64> {
        match self.0 {}
    }

    /// All of them, if they may be written.
    pub(crate) fn writable(&self) -> Option<&[*mut mp_bindings::page]> {
        match self.0 {}
    }
}
