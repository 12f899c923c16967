// SPDX-License-Identifier: GPL-2.0-only

//! A buffer of the own client, and what arrives for it.
//!
//! The client reads memory that no peer reaches. What a peer has stored into the landing place is
//! copied to it here, when a record of the peer's says so that has been checked: clients use its cursors
//! as they are. Each byte is copied once, when it is new.

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
    sync::SpinLockBh,
    time, //
};
use mp_proto::dibs::{
    cdc::{
        self,
        Lives, //
    },
    Gid,
    Moved,
    Range,
    Token,
    HEAD, //
};
use mp_transport::memory::Local;

/// Bytes copied at a time, by way of the stack.
const STRETCH: usize = 512;

/// How long a client may take to hear of the end of a link, in nanoseconds.
const HEARD_NS: u64 = 1_000_000_000;

/// What a buffer of a link that has ended waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// Nothing.
    Nothing,
    /// The client has time to hear of it.
    Wait,
    /// The buffer says that the connection has been aborted: the client is to look.
    Signal,
}

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
    /// Held while a record is checked against the one before it and stored.
    #[pin]
    arrival: SpinLockBh<Arrival>,
}

/// What arrives.
struct Arrival {
    /// Where the peer stores, as long as the link is.
    landing: Option<Arc<Local>>,
    /// The connections so far.
    lives: Lives,
    /// When the link has ended, in nanoseconds since boot, until the client has been told.
    ended: Option<u64>,
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
        let arrival = Arrival {
            landing: Some(landing.clone()),
            lives: Lives::NONE,
            ended: None,
        };
        let this = pin_init!(Self {
            token,
            link: link.clone(),
            rgid,
            len,
            pages,
            arrival <- new_spinlock_bh!(arrival, "mp_dibs::Buffer"),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// Take what the peer has stored. Softirq context.
    ///
    /// # Errors
    ///
    /// `EPROTO` for what cannot be: nothing has been taken then, and the client's connection ends.
    /// `ESTALE` for what belongs to a connection that used the buffer before. `ENOTCONN` if the link or the
    /// memory has gone.
    pub(crate) fn receive(&self, moved: &Moved, tally: &Tally) -> Result {
        let mut arrival = self.arrival.lock();
        let Arrival { landing, lives, .. } = &mut *arrival;
        let landing = landing.as_ref().ok_or(error::not_connected())?;
        let record = &moved.record;
        if lives.is_late(moved.life, record, self.pages.read_u64(0)?) {
            return Err(error::stale());
        }
        let producer = self.pages.read_u64(cdc::PRODUCER_AT)?;
        let ranges = match cdc::check(record, producer, self.len) {
            Ok(ranges) => ranges,
            Err(cdc::Refused::Late) => return Err(error::stale()),
            Err(_) => {
                self.abort()?;
                return Err(error::protocol());
            }
        };
        for range in ranges.into_iter().flatten() {
            self.copy(landing, range)?;
            tally.received_bytes.add(u64::from(range.len()));
        }
        // The client may have set the buffer to zero meanwhile.
        if self.pages.read_u64(cdc::PRODUCER_AT)? != producer {
            return Err(error::stale());
        }
        lives.received(moved.life);
        self.store(record)
    }

    /// The link has ended: nothing is received any more. Process context.
    pub(crate) fn end(&self) {
        let landing = {
            let mut arrival = self.arrival.lock();
            arrival.ended = Some(time::coarse_ns());
            arrival.landing.take()
        };
        // Without the lock.
        drop(landing);
    }

    /// What is to be done of a client that may not have heard of the end of its link.
    pub(crate) fn see_to_end(&self) -> AtEnd {
        let mut arrival = self.arrival.lock();
        match arrival.ended {
            None => AtEnd::Nothing,
            Some(at) if time::coarse_ns().saturating_sub(at) < HEARD_NS => AtEnd::Wait,
            Some(_) => {
                arrival.ended = None;
                // Fails only outside of the buffer.
                let _ = self.abort();
                AtEnd::Signal
            }
        }
    }

    /// Tell the client, as its partner would, that the connection has been aborted. Under the lock.
    fn abort(&self) -> Result {
        let consumer = self.pages.read_u64(cdc::CONSUMER_AT)?;
        self.pages
            .write_u64(cdc::CONSUMER_AT, cdc::aborted(consumer))
    }

    /// Copy from the landing place, where the peer may store meanwhile.
    fn copy(&self, landing: &Local, range: Range) -> Result {
        let mut stretch = [0; STRETCH];
        let end = range.end() as usize;
        for at in (range.start() as usize..end).step_by(STRETCH) {
            let part = stretch.get_mut(..STRETCH.min(end - at)).ok_or(EINVAL)?;
            landing.read(at as u64, part)?;
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
