// SPDX-License-Identifier: MIT OR Apache-2.0

//! The remote memory of a session: mapped, or where a store is sent.

use crate::{
    sys::{self, mp_copy, mp_session_store},
    Call, CharDevice, Device, RemoteMemory,
};
use rustix::io::Errno;
use std::{
    collections::VecDeque,
    fmt,
    sync::{
        atomic::{fence, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
};
use vm_memory::VolatileSlice;

/// Bytes that are collected before they are sent without a [`barrier()`](RemoteMemory::barrier).
const COLLECTED_MAX: usize = 1 << 16;

/// Most bytes of one store: what is longer is divided.
const STORE_MAX: usize = 1 << 15;

/// Memory of a partner whose host another one forwards to. Stores are collected, and sent by
/// [`barrier()`](RemoteMemory::barrier), which makes a system call. They are made there in the
/// order in which they were collected, so [`flush()`](RemoteMemory::flush) has nothing to do.
///
/// What is stored when the partner or the link has gone is lost, as in a map. What the kernel has
/// no memory to send is kept, and sent ahead of all that is stored later. Once stores could not be
/// sent for another reason, all later ones fail with that. [`settle()`](Stores::settle) tells.
pub struct Stores<D: Device = CharDevice> {
    device: Arc<D>,
    session: u32,
    size: usize,
    collected: Mutex<Collected>,
}

/// What was not sent.
#[derive(Default)]
struct Collected {
    /// The oldest first; an empty one is the only one.
    batches: VecDeque<Batch>,
    /// Bytes of all of them.
    bytes: usize,
    /// The kernel had no memory for the first one.
    is_held_up: bool,
    failed: Option<Errno>,
}

/// What one call sends.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where they go; the local offsets are those in the bytes.
    stores: Vec<mp_copy>,
}

impl<D: Device> fmt::Debug for Stores<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stores { session, size, .. } = self;
        write!(f, "Stores {{ session: {session}, size: {size} }}")
    }
}

impl<D: Device> Stores<D> {
    pub(crate) fn new(device: &Arc<D>, session: u32, size: u64) -> Result<Self, Errno> {
        Ok(Stores {
            device: device.clone(),
            session,
            size: usize::try_from(size).map_err(|_| Errno::NOMEM)?,
            collected: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.collected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Collect a store of `len` bytes, which `fill` gives from an offset in them on.
    fn collect(
        &self,
        offset: usize,
        len: usize,
        fill: impl Fn(usize, &mut [u8]),
    ) -> Result<(), Errno> {
        let end = offset.checked_add(len);
        if end.is_none_or(|end| end > self.size) {
            return Err(Errno::RANGE);
        }
        let mut collected = self.lock();
        if let Some(errno) = collected.failed {
            return Err(errno);
        }
        if !collected.may_keep(len, self.size) {
            return Err(Errno::NOMEM);
        }
        for at in (0..len).step_by(STORE_MAX) {
            let count = STORE_MAX.min(len - at);
            if !collected.has_room(count) {
                self.send(&mut collected);
            }
            let room = collected.add((offset + at) as u64, count);
            fill(at, room);
        }
        Ok(())
    }

    /// As [`collect`](Self::collect), of words that are stored in one piece each.
    fn collect_words(&self, offset: usize, words: &[u64]) -> Result<(), Errno> {
        if offset % 8 != 0 {
            return Err(Errno::RANGE);
        }
        self.collect(offset, 8 * words.len(), |_, room| {
            for (room, word) in room.chunks_exact_mut(8).zip(words) {
                room.copy_from_slice(&word.to_le_bytes());
            }
        })
    }

    /// Send everything, unless the kernel has no memory for that.
    fn send(&self, collected: &mut Collected) {
        while let Some(batch) = collected.first() {
            match self.send_batch(batch) {
                Ok(()) => {}
                // The partner, the link, the session or this process has gone.
                Err(Errno::CONNRESET | Errno::NETDOWN | Errno::NOENT | Errno::INTR) => {}
                Err(Errno::NOMEM) => {
                    collected.is_held_up = true;
                    return;
                }
                Err(errno) => {
                    *collected = Collected {
                        failed: Some(errno),
                        ..Collected::default()
                    };
                    return;
                }
            }
            collected.forget_first();
        }
    }

    /// Send some stores. Sent once more after a part of them was made, they do no harm: nothing was
    /// stored behind them.
    fn send_batch(&self, batch: &Batch) -> Result<(), Errno> {
        let mut store = mp_session_store {
            handle: self.session,
            ..Default::default()
        };
        // The call changes them.
        let mut stores = batch.stores.clone();
        self.device
            .call(Call::SessionStore(&mut store, &mut stores, &batch.bytes))
    }

    /// Send what is collected; whether all was sent. What the kernel has no memory for is kept: call
    /// again.
    ///
    /// # Errors
    /// What stores could not be sent for: some were lost, and the partner does not miss them by
    /// itself.
    pub fn settle(&self) -> Result<bool, Errno> {
        let mut collected = self.lock();
        self.send(&mut collected);
        match collected.failed {
            None => Ok(!collected.is_held_up),
            Some(errno) => Err(errno),
        }
    }

    /// Whether something is kept that the kernel had no memory to send.
    pub fn is_held_up(&self) -> bool {
        self.lock().is_held_up
    }
}

impl Collected {
    /// Whether so many bytes more go into the same call.
    fn has_room(&self, len: usize) -> bool {
        self.batches.back().is_some_and(|last| last.has_room(len))
    }

    /// Whether so many bytes more can be kept: one that writes into a window of `size` bytes waits
    /// before it has written as many.
    fn may_keep(&self, len: usize, size: usize) -> bool {
        self.bytes <= size.saturating_add(COLLECTED_MAX).saturating_sub(len)
    }

    /// Collect a store; where its bytes go.
    fn add(&mut self, remote: u64, len: usize) -> &mut [u8] {
        if !self.has_room(len) {
            self.batches.push_back(Batch::default());
        }
        self.bytes += len;
        match self.batches.back_mut() {
            Some(last) => last.add(remote, len),
            None => &mut [],
        }
    }

    /// What is sent next.
    fn first(&self) -> Option<&Batch> {
        self.batches
            .front()
            .filter(|first| !first.stores.is_empty())
    }

    /// What was the first was sent. The memory of the last one is used again.
    fn forget_first(&mut self) {
        self.is_held_up = false;
        let first = self.batches.pop_front().unwrap_or_default();
        self.bytes -= first.bytes.len();
        if self.batches.is_empty() {
            self.batches.push_back(first.emptied());
        }
    }
}

impl Batch {
    fn has_room(&self, len: usize) -> bool {
        let is_short = self.stores.len() < sys::MP_STORES_MAX as usize;
        is_short && self.bytes.len() + len <= COLLECTED_MAX
    }

    fn add(&mut self, remote: u64, len: usize) -> &mut [u8] {
        let start = self.bytes.len();
        self.stores.push(mp_copy {
            local: start as u64,
            remote,
            length: len as u64,
        });
        self.bytes.resize(start + len, 0);
        &mut self.bytes[start..]
    }

    fn emptied(mut self) -> Self {
        self.bytes.clear();
        self.stores.clear();
        self
    }
}

// Out of the way of programs that map the memory: these take system calls anyway.
impl<D: Device> RemoteMemory for Stores<D> {
    fn size(&self) -> usize {
        self.size
    }

    #[cold]
    fn store(&self, offset: usize, word: u64) -> Result<(), Errno> {
        self.collect_words(offset, &[word])
    }

    #[cold]
    fn store_line(&self, offset: usize, line: &[u64; 8]) -> Result<(), Errno> {
        self.collect_words(offset, line)
    }

    #[cold]
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
        self.collect(offset, bytes.len(), |at, room| {
            room.copy_from_slice(&bytes[at..at + room.len()]);
        })
    }

    #[cold]
    fn copy(&self, offset: usize, from: VolatileSlice<'_>) -> Result<(), Errno> {
        self.collect(offset, from.len(), |at, room| {
            if let Ok(part) = from.subslice(at, room.len()) {
                part.copy_to(room);
            }
        })
    }

    #[cold]
    fn flush(&self) {
        fence(Ordering::Release);
    }

    #[cold]
    fn barrier(&self) {
        self.send(&mut self.lock());
        fence(Ordering::SeqCst);
    }
}

/// What is collected is sent: in a map, stores do not wait for a barrier for ever either.
impl<D: Device> Drop for Stores<D> {
    fn drop(&mut self) {
        self.barrier();
    }
}

/// The remote memory of a session, to store to.
pub enum PartnerMemory<D: Device = CharDevice> {
    /// A window of a bridge leads there.
    Mapped(D::Remote),
    /// Another host forwards what is stored.
    Sent(Stores<D>),
}

impl<D: Device> fmt::Debug for PartnerMemory<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartnerMemory::Mapped(memory) => memory.fmt(f),
            PartnerMemory::Sent(memory) => memory.fmt(f),
        }
    }
}

macro_rules! either {
    ($self:ident, $memory:ident => $call:expr) => {
        match $self {
            PartnerMemory::Mapped($memory) => $call,
            PartnerMemory::Sent($memory) => $call,
        }
    };
}

impl<D: Device> RemoteMemory for PartnerMemory<D> {
    #[inline]
    fn size(&self) -> usize {
        either!(self, memory => memory.size())
    }

    #[inline]
    fn store(&self, offset: usize, word: u64) -> Result<(), Errno> {
        either!(self, memory => memory.store(offset, word))
    }

    #[inline]
    fn store_line(&self, offset: usize, line: &[u64; 8]) -> Result<(), Errno> {
        either!(self, memory => memory.store_line(offset, line))
    }

    #[inline]
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
        either!(self, memory => memory.write(offset, bytes))
    }

    #[inline]
    fn copy(&self, offset: usize, from: VolatileSlice<'_>) -> Result<(), Errno> {
        either!(self, memory => memory.copy(offset, from))
    }

    #[inline]
    fn flush(&self) {
        either!(self, memory => memory.flush())
    }

    #[inline]
    fn barrier(&self) {
        either!(self, memory => memory.barrier())
    }
}
