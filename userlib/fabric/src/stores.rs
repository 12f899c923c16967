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
/// Threads collect while another one's system call is under way. Those who have something to send
/// themselves wait for it, as their own stores may be among what it sends.
///
/// What is stored when the partner or the link has gone is lost, as in a map. What the kernel has
/// no memory to take is kept, and sent ahead of all that is stored later. Once stores could not be
/// sent for another reason, all later ones fail with that. [`settle()`](Stores::settle) tells.
pub struct Stores<D: Device = CharDevice> {
    device: Arc<D>,
    session: u32,
    size: usize,
    /// Held while batches are sent, so that they leave in their order; taken before the other lock.
    sending: Mutex<()>,
    collected: Mutex<Collected>,
}

/// What was not sent, but for the batch that is being sent.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            sending: Mutex::default(),
            collected: Mutex::default(),
        })
    }

    /// What is collected, with room for one more store of `len` bytes.
    ///
    /// # Errors
    /// What earlier stores have failed with.
    fn room_for(&self, len: usize) -> Result<MutexGuard<'_, Collected>, Errno> {
        loop {
            let collected = lock(&self.collected);
            match collected.failed {
                Some(errno) => return Err(errno),
                None if collected.is_held_up || collected.has_room(len) => return Ok(collected),
                None => {}
            }
            drop(collected);
            self.send();
        }
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
        if !lock(&self.collected).may_keep(len, self.size) {
            return Err(Errno::NOMEM);
        }
        for at in (0..len).step_by(STORE_MAX) {
            let count = STORE_MAX.min(len - at);
            let mut collected = self.room_for(count)?;
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

    /// Send what is collected, behind what is being sent, unless the kernel has no memory for that.
    fn send(&self) {
        let _order = lock(&self.sending);
        // What other threads collect meanwhile is for them to send.
        let count = lock(&self.collected).batches.len();
        for _ in 0..count {
            let Some(batch) = lock(&self.collected).take_first() else {
                return;
            };
            let sent = self.send_batch(&batch);
            if lock(&self.collected).end(batch, sent).is_none() {
                return;
            }
        }
    }

    /// Send some stores. The kernel has sent none of them if it has no memory.
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
        self.send();
        let collected = lock(&self.collected);
        match collected.failed {
            None => Ok(!collected.is_held_up),
            Some(errno) => Err(errno),
        }
    }

    /// Whether something is kept that the kernel had no memory to send.
    pub fn is_held_up(&self) -> bool {
        lock(&self.collected).is_held_up
    }
}

impl Collected {
    /// Whether so many bytes more go into the same call.
    fn has_room(&self, len: usize) -> bool {
        self.batches.back().is_none_or(|last| last.has_room(len))
    }

    /// Whether so many bytes more can be kept: one that writes into a window of `size` bytes waits
    /// before it has written as many.
    fn may_keep(&self, len: usize, size: usize) -> bool {
        !self.is_held_up || self.bytes <= size.saturating_add(COLLECTED_MAX).saturating_sub(len)
    }

    /// Collect a store; where its bytes go.
    fn add(&mut self, remote: u64, len: usize) -> &mut [u8] {
        if self.batches.is_empty() || !self.has_room(len) {
            self.batches.push_back(Batch::default());
        }
        self.bytes += len;
        match self.batches.back_mut() {
            Some(last) => last.add(remote, len),
            None => &mut [],
        }
    }

    /// Take what is sent next.
    fn take_first(&mut self) -> Option<Batch> {
        self.batches
            .front()
            .filter(|first| !first.stores.is_empty())?;
        let first = self.batches.pop_front()?;
        self.bytes -= first.bytes.len();
        Some(first)
    }

    /// What has come of sending the batch that was the first; nothing if the next one cannot be sent.
    fn end(&mut self, batch: Batch, sent: Result<(), Errno>) -> Option<()> {
        match sent {
            // The partner, the link, the session or this process may have gone.
            Ok(()) | Err(Errno::CONNRESET | Errno::NETDOWN | Errno::NOENT | Errno::INTR) => {
                self.is_held_up = false;
                if self.batches.is_empty() {
                    self.batches.push_back(batch.emptied());
                }
                Some(())
            }
            Err(Errno::NOMEM) => {
                self.is_held_up = true;
                self.bytes += batch.bytes.len();
                self.batches.retain(|other| !other.stores.is_empty());
                self.batches.push_front(batch);
                None
            }
            Err(errno) => {
                *self = Collected {
                    failed: Some(errno),
                    ..Collected::default()
                };
                None
            }
        }
    }
}

impl Batch {
    /// Whether one more store goes into the same call.
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
        self.send();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Map, Protection};
    use rustix::fd::BorrowedFd;
    use std::{
        sync::{mpsc, Barrier},
        thread,
        time::Duration,
    };

    /// A way on which the first call takes until the test lets it go on, and then has an outcome.
    struct Slow {
        /// Passed when that call has begun, and once more when it may end.
        first: Barrier,
        outcome: Result<(), Errno>,
        /// What each call has stored: where, and the first byte.
        calls: Mutex<Vec<Vec<(u64, u8)>>>,
    }

    impl Slow {
        fn new(outcome: Result<(), Errno>) -> Arc<Self> {
            Arc::new(Slow {
                first: Barrier::new(2),
                outcome,
                calls: Mutex::default(),
            })
        }
    }

    impl Device for Slow {
        type Remote = Map;

        fn call(&self, call: Call<'_>) -> Result<(), Errno> {
            let Call::SessionStore(_, stores, bytes) = call else {
                return Err(Errno::NOTTY);
            };
            let of = |store: &mp_copy| (store.remote, bytes[store.local as usize]);
            let is_first = {
                let mut calls = lock(&self.calls);
                calls.push(stores.iter().map(of).collect());
                calls.len() == 1
            };
            if !is_first {
                return Ok(());
            }
            self.first.wait();
            self.first.wait();
            self.outcome
        }

        fn map<P: Protection>(&self, _: u64, _: u64, _: usize) -> Result<Map<P>, Errno> {
            Err(Errno::NODEV)
        }

        fn remote(&self, map: Map) -> Map {
            map
        }

        fn read(&self, _: &mut Vec<sys::mp_event>) -> Result<(), Errno> {
            Err(Errno::AGAIN)
        }

        fn fd(&self) -> BorrowedFd<'_> {
            unimplemented!("nobody waits")
        }
    }

    #[test]
    fn threads_collect_while_another_one_sends_and_batches_leave_in_their_order() {
        let device = Slow::new(Ok(()));
        let stores = Stores::new(&device, 1, 4096).expect("small");
        let (tell, told) = mpsc::channel();
        let collected = thread::scope(|scope| {
            scope.spawn(|| {
                stores.store(0, 1).expect("inside");
                stores.barrier();
            });
            device.first.wait();
            scope.spawn(|| {
                stores.store(8, 2).expect("inside");
                tell.send(()).expect("somebody waits");
                stores.barrier();
            });
            let collected = told.recv_timeout(Duration::from_secs(10));
            device.first.wait();
            collected
        });
        assert_eq!(collected, Ok(()));
        assert_eq!(*lock(&device.calls), [[(0, 1)], [(8, 2)]]);
    }

    #[test]
    fn what_the_kernel_does_not_take_is_ahead_of_what_was_collected_meanwhile() {
        let device = Slow::new(Err(Errno::NOMEM));
        let stores = Stores::new(&device, 1, 4096).expect("small");
        thread::scope(|scope| {
            let settled = scope.spawn(|| {
                stores.store(0, 1).expect("inside");
                stores.settle()
            });
            device.first.wait();
            stores.store(8, 2).expect("inside");
            device.first.wait();
            assert_eq!(settled.join().expect("no panic"), Ok(false));
        });
        assert!(stores.is_held_up());
        // No more is kept than a window and what one call sends.
        let all = [3; 4096];
        let kept = (0..100).take_while(|_| stores.write(0, &all).is_ok());
        assert_eq!(kept.count(), COLLECTED_MAX / 4096);
        assert_eq!(stores.settle(), Ok(true));
        let calls = lock(&device.calls);
        assert_eq!(calls[..2], [[(0, 1)], [(0, 1)]]);
        assert_eq!(calls[2][..2], [(8, 2), (0, 3)]);
        assert!(!stores.is_held_up());
    }
}
