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

/// Stores that a thread sends one after the other: records, in frames that the way takes. No more
/// than a frame is copied before it leaves, however much there is to be stored.
struct Stream<'a> {
    session: &'a Session,
    outbox: Arc<Outbox>,
    header: Header,
    /// Most bytes of a frame.
    most: usize,
    /// How long to wait for room.
    deadline: Option<u64>,
    /// The records of the next frame.
    records: KVec<u8>,
    /// A frame has left.
    has_sent: bool,
}

impl<'a> Stream<'a> {
    /// No stores, by that way into that window.
    fn new(
        session: &'a Session,
        (outbox, sent): (Arc<Outbox>, Sent),
        deadline: Option<u64>,
    ) -> Self {
        Self {
            session,
            header: Header::Stores(sent.life),
            most: outbox.peer().max_frame().min(FRAME),
            outbox,
            deadline,
            records: KVec::new(),
            has_sent: false,
        }
    }

    /// Add a store of `len` bytes at `off` in the arena, which `read` fills in one after the other.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the link has no room for any, those of [`flush`](Self::flush) and of `read`.
    fn add(
        &mut self,
        mut off: u64,
        mut len: u64,
        mut read: impl FnMut(&mut [u8]) -> Result,
    ) -> Result {
        while len != 0 {
            let record = Record {
                off,
                len: part(self.most.saturating_sub(self.records.len()), len),
            };
            if record.len == 0 {
                if self.records.is_empty() {
                    return Err(EMSGSIZE);
                }
                self.flush()?;
                continue;
            }
            self.records
                .extend_from_slice(&record.encode(), GFP_KERNEL_ACCOUNT)?;
            let start = self.records.len();
            let end = start + record.len as usize;
            self.records
                .resize(end + record.padding(), 0, GFP_KERNEL_ACCOUNT)?;
            read(self.records.get_mut(start..end).ok_or(EINVAL)?)?;
            off += u64::from(record.len);
            len -= u64::from(record.len);
        }
        Ok(())
    }

    /// Send what has been added. Waits until there is room.
    ///
    /// # Errors
    ///
    /// Those of [`when_there_is_room`](crate::placed::UnderWay::when_there_is_room), `ENOMEM`.
    fn flush(&mut self) -> Result {
        let records = core::mem::take(&mut self.records);
        if records.is_empty() {
            return Ok(());
        }
        let frame = Outbox::bulk(&self.header, [0; 0], records)?;
        let under_way = self.session.link().under_way();
        under_way.when_there_is_room(&self.outbox, self.deadline, || {
            self.session.send_stores(&frame)
        })?;
        self.has_sent = true;
        Ok(())
    }

    /// Choose the error for the caller: `ENOMEM` only if nothing has left. It sends all of it again
    /// then, and no word gets an earlier value back.
    fn told(&self, error: Error) -> Error {
        match self.has_sent && error == ENOMEM {
            true => error::no_buffers(),
            false => error,
        }
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
        let partner = state.partner.as_ref().ok_or_else(error::net_down)?;
        let outbox = partner.outbox();
        match state.remote().ok_or(ENXIO)? {
            Piece::Sent(sent) => Ok((outbox.clone(), *sent)),
            _ => Err(error::unsupported()),
        }
    }

    /// Send a frame to the partner's host, as long as there is a partner.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if others are in the way, or if there is no memory now.
    fn send_stores(&self, frame: &Frame) -> Result {
        // Under the lock: once it has ended, nothing is sent.
        let state = self.state.lock();
        match &state.partner {
            Some(partner) => match partner.outbox().put(frame) {
                // What a peer that has left does not get, it does not miss.
                Err(e) if e == error::not_connected() => Ok(()),
                // Some of the thread's stores may have left: the others follow them.
                Err(e) if e == ENOMEM => Err(EAGAIN),
                put => put,
            },
            None => Ok(()),
        }
    }

    /// As [`arm`](Session::arm), in a window that is sent to.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::flush`].
    pub(crate) fn send_word(&self, at: u64, value: u64, deadline: Option<u64>) -> Result {
        let Ok((outbox, sent)) = self.way_to_window() else {
            return Ok(());
        };
        let mut stream = Stream::new(self, (outbox, sent), deadline);
        let word = value.to_ne_bytes();
        let off = sent.off.checked_add(at).ok_or(ERANGE)?;
        stream.add(off, word.len() as u64, |to| {
            to.copy_from_slice(&word);
            Ok(())
        })?;
        stream.flush()
    }
}

/// The stores of a call, each inside of the window.
///
/// # Errors
///
/// Those in the header, of each store.
fn read_list(store: &mp_session_store, window: u64) -> Result<KVec<mp_copy>> {
    let mut list = KVec::with_capacity(store.count as usize, GFP_KERNEL_ACCOUNT)?;
    let mut left = u64::from(MP_STORES_BYTES_MAX);
    for n in 0..store.count as usize {
        let copy: mp_copy = calls::element(store.stores, n, store.store_size)?;
        let end = copy.remote.checked_add(copy.length);
        if end.is_none_or(|end| end > window) {
            return Err(ERANGE);
        }
        left = left.checked_sub(copy.length).ok_or(EINVAL)?;
        calls::user(copy.local, copy.length as usize)?;
        list.push(copy, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(list)
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
    let list = read_list(store, sent.len)?;
    let mut stream = Stream::new(&session, (outbox, sent), None);
    let added = list.iter().try_for_each(|copy| {
        let mut from = calls::user(copy.local, copy.length as usize)?.reader();
        let off = sent.off + copy.remote;
        stream.add(off, copy.length, |to| from.read_slice(to))
    });
    let sent = added.and_then(|()| stream.flush());
    sent.map_err(|e| stream.told(e))
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
