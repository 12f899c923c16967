// SPDX-License-Identifier: GPL-2.0-only

//! A buffer of the own client, and what arrives for it.
//!
//! The client reads memory that no peer reaches. What a peer has stored into the landing place is
//! copied to it here, when the peer has said so, and the record that goes with it has been checked:
//! clients use its cursors as they are.

use crate::{
    link::Link,
    stats::Tally, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    barrier,
    contiguous::ContiguousPages,
    error,
    new_spinlock_bh,
    sync::SpinLockBh, //
};
use mp_proto::dibs::{
    cdc,
    Gid,
    Moved,
    Range,
    Token,
    HEAD, //
};
use mp_transport::memory::Local;

/// Bytes copied at a time, by way of the stack.
const STRETCH: usize = 512;

/// A buffer.
#[pin_data]
pub(crate) struct Buffer {
    pub(crate) token: Token,
    pub(crate) link: Arc<Link>,
    /// Whose client sends.
    pub(crate) rgid: Gid,
    len: u32,
    /// What the client reads; of this many bytes at least.
    pages: ContiguousPages,
    landing: Arc<Local>,
    /// Held while a record is checked against the one before it and stored.
    #[pin]
    arrival: SpinLockBh<()>,
}

impl Buffer {
    /// A buffer of `len` bytes, which the peer of the link has been lent by that token.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        link: &Arc<Link>,
        token: Token,
        rgid: Gid,
        len: u32,
        pages: ContiguousPages,
        landing: &Arc<Local>,
    ) -> Result<Arc<Self>> {
        let this = pin_init!(Self {
            token,
            link: link.clone(),
            rgid,
            len,
            pages,
            landing: landing.clone(),
            arrival <- new_spinlock_bh!((), "mp_dibs::Buffer"),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// Take what the peer has stored. Softirq context.
    ///
    /// # Errors
    ///
    /// `EPROTO` for what cannot be: nothing has been taken then. `ENOTCONN` if the memory has gone.
    pub(crate) fn receive(&self, moved: &Moved, tally: &Tally) -> Result {
        let _arrival = self.arrival.lock();
        if !moved.ranges.iter().all(|range| range.is_inside(self.len)) {
            return Err(error::protocol());
        }
        if let Some(record) = &moved.record {
            let producer = self.pages.read_u64(cdc::PRODUCER_AT)?;
            cdc::check(record, producer, self.len).map_err(|_| error::protocol())?;
        }
        for range in moved.ranges.iter() {
            self.copy(range)?;
            tally.received_bytes.add(u64::from(range.len()));
        }
        if let Some(record) = &moved.record {
            self.store(record)?;
        }
        Ok(())
    }

    /// Copy from the landing place, where the peer may store meanwhile.
    fn copy(&self, range: Range) -> Result {
        let mut stretch = [0; STRETCH];
        let end = range.end() as usize;
        for at in (range.start() as usize..end).step_by(STRETCH) {
            let part = stretch.get_mut(..STRETCH.min(end - at)).ok_or(EINVAL)?;
            self.landing.read(at as u64, part)?;
            self.pages.write(at, part)?;
        }
        Ok(())
    }

    /// Store a record behind the data. The client may look at any time, and loads each word in one
    /// piece.
    fn store(&self, record: &cdc::Record) -> Result {
        barrier::wmb();
        for (at, word) in (0..HEAD as usize).step_by(8).zip(cdc::words(record)) {
            self.pages.write_u64(at, word)?;
        }
        Ok(())
    }
}
