// SPDX-License-Identifier: GPL-2.0-only

//! Ordinary pages as memory that both ends of a link reach, when they are the same
//! host.

use super::{
    Cache,
    LocalBytes,
    PageFrame,
    RemoteBytes, //
};
use kernel::prelude::*;
use mp_kernel::{
    barrier,
    shared_pages::SharedPages, //
};

/// What is beyond any address is outside of the pages as well.
fn place(off: u64) -> Result<usize> {
    Ok(usize::try_from(off)?)
}

fn frame(pages: &SharedPages, off: u64) -> Result<PageFrame> {
    PageFrame::at(pages.phys_address(place(off)?)?, Cache::Cached)
}

impl LocalBytes for SharedPages {
    fn prepare(&self, off: u64, len: u64) -> Result {
        self.populate(place(off)?, place(len)?)
    }

    fn page(&self, off: u64) -> Result<PageFrame> {
        frame(self, off)
    }

    fn load_u64(&self, off: u64) -> Result<u64> {
        self.read_u64(place(off)?)
    }

    fn store_u64(&self, off: u64, val: u64) -> Result {
        self.write_u64(place(off)?, val)
    }

    fn exchange_u64(&self, off: u64, expected: u64, desired: u64) -> Result<bool> {
        SharedPages::exchange_u64(self, place(off)?, expected, desired)
    }

    fn read(&self, off: u64, dst: &mut [u8]) -> Result {
        SharedPages::read(self, place(off)?, dst)
    }

    fn write(&self, off: u64, src: &[u8]) -> Result {
        SharedPages::write(self, place(off)?, src)
    }

    fn zero(&self, off: u64, len: u64) -> Result {
        SharedPages::zero(self, place(off)?, place(len)?)
    }
}

impl RemoteBytes for SharedPages {
    fn page(&self, off: u64) -> Result<PageFrame> {
        frame(self, off)
    }

    fn store_u64(&self, off: u64, val: u64) -> Result {
        self.write_u64(place(off)?, val)
    }

    fn write(&self, off: u64, src: &[u8]) -> Result {
        SharedPages::write(self, place(off)?, src)
    }

    fn flush(&self) {
        barrier::wmb();
    }
}
