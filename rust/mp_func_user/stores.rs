// SPDX-License-Identifier: GPL-2.0-only

//! Stores into windows of sessions that no bridge leads to: the partner's host is behind another
//! one, which forwards what is sent there ([`mp_proto::stores`]).
//!
//! All that the two services tell each other takes one lane of the way then, in which frames keep
//! their order: stores are there before a signal that was sent after them, before the answer to a
//! question that was asked after them, and before the close of their session is heard of. So they
//! mean what posted writes through a window mean. They need no answer either: what is under way
//! is bounded by the credits of the lane, and whoever stores waits for these.

use crate::{
    calls,
    context::Context,
    link::Link,
    outbox::Outbox,
    placed::by_stretches,
    session::Session,
    uapi::*,
    window::{
        Piece,
        Sent, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    barrier,
    error, //
};
use mp_proto::{
    fabric::Header,
    stores::{
        part,
        Record, //
    }, //
};
use mp_transport::{
    frame::{
        Frame,
        RxFrame, //
    },
    memory::Memory, //
};

/// Most bytes of a frame: hosts on the way need pages for it that are next to each other, and the last
/// one stores it at one go.
const FRAME: usize = 1 << 14;

/// Stores that are sent together: records, in frames that the way takes.
struct Batch {
    header: Header,
    /// Most bytes of a frame.
    most: usize,
    /// Those that are full.
    frames: KVec<Frame>,
    last: KVec<u8>,
}

impl Batch {
    /// No stores, into that window, by that way.
    fn new(outbox: &Outbox, sent: &Sent) -> Self {
        Self {
            header: Header::Stores(sent.life),
            most: outbox.peer().max_frame().min(FRAME),
            frames: KVec::new(),
            last: KVec::new(),
        }
    }

    /// Add a store of `len` bytes at `off` in the arena, which `read` fills in one after the other.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the link has no room for any, `ENOMEM`, or that of `read`.
    fn add(
        &mut self,
        mut off: u64,
        mut len: u64,
        mut read: impl FnMut(&mut [u8]) -> Result,
    ) -> Result {
        while len != 0 {
            let record = Record {
                off,
                len: part(self.most.saturating_sub(self.last.len()), len),
            };
            if record.len == 0 {
                if self.last.is_empty() {
                    return Err(EMSGSIZE);
                }
                self.close()?;
                continue;
            }
            self.last
                .extend_from_slice(&record.encode(), GFP_KERNEL_ACCOUNT)?;
            let start = self.last.len();
            let end = start + record.len as usize;
            self.last
                .resize(end + record.padding(), 0, GFP_KERNEL_ACCOUNT)?;
            read(self.last.get_mut(start..end).ok_or(EINVAL)?)?;
            off += u64::from(record.len);
            len -= u64::from(record.len);
        }
        Ok(())
    }

    /// What comes next goes into another frame.
    fn close(&mut self) -> Result {
        let data = core::mem::take(&mut self.last);
        if !data.is_empty() {
            let frame = Outbox::bulk(&self.header, [0; 0], data)?;
            self.frames.push(frame, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }

    /// All frames, in their order.
    fn finish(mut self) -> Result<KVec<Frame>> {
        self.close()?;
        Ok(self.frames)
    }
}

impl Session {
    /// The way to the partner, and the remote window as a place that is sent to.
    ///
    /// # Errors
    ///
    /// Those of [`check_paired`](Session::check_paired), `ENXIO` without such a window,
    /// `EOPNOTSUPP` if it can be mapped.
    fn way_to_window(&self) -> Result<(Arc<Outbox>, Sent)> {
        self.check_paired()?;
        let state = self.state.lock();
        let (outbox, _) = state.partner.as_ref().ok_or_else(error::net_down)?;
        match state.remote().ok_or(ENXIO)? {
            Piece::Sent(sent) => Ok((outbox.clone(), *sent)),
            _ => Err(error::unsupported()),
        }
    }

    /// Send a frame to the partner's host, as long as there is a partner.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if others are in the way, `ENOMEM`.
    fn send_stores(&self, frame: &Frame) -> Result {
        // Under the lock: once it has ended, nothing is sent.
        let state = self.state.lock();
        match &state.partner {
            Some((outbox, _)) => match outbox.put(frame) {
                // What a peer that has left does not get, it does not miss.
                Err(e) if e == error::not_connected() => Ok(()),
                put => put,
            },
            None => Ok(()),
        }
    }

    /// As [`arm`](Session::arm), in a window that is sent to. Waits until there is room.
    ///
    /// # Errors
    ///
    /// Those of [`when_there_is_room`](crate::placed::UnderWay::when_there_is_room), `ENOMEM`.
    pub(crate) fn send_word(&self, at: u64, value: u64) -> Result {
        let Ok((outbox, sent)) = self.way_to_window() else {
            return Ok(());
        };
        let mut batch = Batch::new(&outbox, &sent);
        let word = value.to_ne_bytes();
        let off = sent.off.checked_add(at).ok_or(ERANGE)?;
        batch.add(off, word.len() as u64, |to| {
            to.copy_from_slice(&word);
            Ok(())
        })?;
        self.send_all(&batch.finish()?)
    }

    fn send_all(&self, frames: &[Frame]) -> Result {
        let under_way = self.link().under_way();
        for frame in frames {
            under_way.when_there_is_room(|| self.send_stores(frame))?;
        }
        Ok(())
    }
}

/// See `MP_IOC_SESSION_STORE`.
///
/// # Errors
///
/// Those in the header.
pub(crate) fn store(context: &Context, store: &mp_session_store) -> Result {
    calls::expect_zero(store.flags)?;
    calls::expect_zero(store.reserved)?;
    let session = context.session(store.handle)?;
    if store.count == 0 || store.count > MP_STORES_MAX {
        return Err(EINVAL);
    }
    let (outbox, sent) = session.way_to_window()?;
    let mut batch = Batch::new(&outbox, &sent);
    let mut left = u64::from(MP_STORES_BYTES_MAX);
    for n in 0..store.count as usize {
        let copy: mp_copy = calls::element(store.stores, n, store.store_size)?;
        let end = copy.remote.checked_add(copy.length);
        if end.is_none_or(|end| end > sent.len) {
            return Err(ERANGE);
        }
        left = left.checked_sub(copy.length).ok_or(EINVAL)?;
        let mut from = calls::user(copy.local, copy.length as usize)?.reader();
        let off = sent.off + copy.remote;
        batch.add(off, copy.length, |to| from.read_slice(to))?;
    }
    session.send_all(&batch.finish()?)
}

/// Make the stores of a frame. Softirq context.
///
/// # Errors
///
/// `EPROTO` for what is no record, `EINVAL` outside of memory that was cut, `ENOTCONN` if it has
/// gone. What is before it has been stored.
pub(crate) fn receive(memory: &Memory, frame: &RxFrame<'_>) -> Result {
    let mut at = 0;
    while at < frame.len() {
        let mut head = [0; Record::SIZE];
        frame.copy_to(at, head.as_mut_slice().into())?;
        let record = Record::decode(&head).ok_or_else(error::protocol)?;
        if frame.len() - at < record.size() {
            return Err(error::protocol());
        }
        store_record(memory, &record, frame, at + Record::SIZE)?;
        // Before what comes behind it.
        barrier::wmb();
        at += record.size();
    }
    Ok(())
}

/// Make the store of a record, whose bytes begin at `from` in the frame.
fn store_record(memory: &Memory, record: &Record, frame: &RxFrame<'_>, from: usize) -> Result {
    by_stretches(frame, from, record.len as usize, |done, part| {
        let off = record.off.checked_add(done as u64).ok_or(EINVAL)?;
        memory.store(off, part)
    })
}

impl Link {
    /// Stores of the peer's processes have arrived. Softirq context.
    ///
    /// # Errors
    ///
    /// Those of [`receive`]; `EPROTO` if the peer reaches this host's memory by windows.
    pub(crate) fn stored(&self, frame: &RxFrame<'_>) -> Result {
        if !self.is_routed() {
            return Err(error::protocol());
        }
        self.with_partner(|partner| receive(&partner.memory, frame))
            .unwrap_or(Ok(()))
    }
}
