// SPDX-License-Identifier: GPL-2.0-only

//! What a directory of sysfs shows.

use core::fmt::Write;
use kernel::prelude::*;

/// An object whose state a [`Directory`](super::Directory) shows.
pub trait Attributes: Send + Sync + 'static {
    /// The files of the directory; always the same.
    fn names(&self) -> &'static [&'static CStr];

    /// Write the content of the file `names()[index]`.
    ///
    /// May sleep. At most one page is kept.
    fn show(&self, index: usize, out: &mut dyn Write) -> core::fmt::Result;
}

/// A directory without files.
pub struct NoAttributes;

impl Attributes for NoAttributes {
    fn names(&self) -> &'static [&'static CStr] {
        &[]
    }

    fn show(&self, _index: usize, _out: &mut dyn Write) -> core::fmt::Result {
        Ok(())
    }
}
