// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues: copies into segments of peers, or out of them, in order and in the background.

use crate::{
    sys::{self, mp_copy, mp_handle, mp_queue, mp_queue_create, mp_queue_start},
    Call, CharDevice, Connection, Device, Error, Fabric, InterfaceId, Object, ProcessMemory,
    Result, Segment, Subject, Vouched,
};
use rustix::io::{retry_on_intr, Errno};

/// A copy: offset in the local segment, offset in the remote one, and length, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where it starts in the local segment.
    pub local: u64,
    /// Where it starts in the remote segment.
    pub remote: u64,
    /// Its bytes.
    pub len: u64,
}

/// How far a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// Never started.
    Idle,
    /// Copies.
    Posted,
    /// All is where it was to go.
    Done,
    /// The connection was lost or down, or a copy has failed.
    Error,
    /// Stopped by its owner.
    Aborted,
}

impl QueueState {
    /// What the driver calls so.
    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            sys::MP_QUEUE_IDLE => QueueState::Idle,
            sys::MP_QUEUE_POSTED => QueueState::Posted,
            sys::MP_QUEUE_DONE => QueueState::Done,
            sys::MP_QUEUE_ABORTED => QueueState::Aborted,
            _ => QueueState::Error,
        }
    }
}

/// What is known of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// How far it is.
    pub state: QueueState,
    /// Bytes from the start of [`Status`](crate::Status) to its own word.
    pub status: u32,
}

/// Asynchronous copies over one interface.
#[derive(Debug)]
pub struct Queue<D: Device = CharDevice> {
    object: Object<D>,
}

impl<D: Device> std::ops::Deref for Queue<D> {
    type Target = Object<D>;

    fn deref(&self) -> &Object<D> {
        &self.object
    }
}

impl<D: Device> Fabric<D> {
    /// A queue for so many copies at a time.
    ///
    /// # Errors
    /// [`Error::NoInterface`],
    /// [`Error::Invalid`]: so many copies cannot be,
    /// [`Error::Quota`].
    pub fn create_queue(&self, interface: InterfaceId, entries: u32) -> Result<Queue<D>> {
        let mut create = mp_queue_create {
            interface: interface.0,
            entries,
            ..Default::default()
        };
        let called = self.device.call(Call::QueueCreate(&mut create));
        called.map_err(Error::of(Subject::Queue { interface, entries }))?;
        Ok(Queue {
            object: Object::new(&self.device, create.handle),
        })
    }
}

impl<D: Device> Queue<D> {
    /// Start copies from a segment into that of a connection.
    ///
    /// # Errors
    /// [`Error::System`] with `EBUSY`: it is posted, or with `ERANGE`:
    /// beyond the end of a segment. [`Error::Invalid`]: none or too many
    /// copies, or another interface. [`Error::NoWindow`]: the local
    /// segment is not prepared. [`Error::PartnerGone`],
    /// [`Error::InterfaceDown`].
    pub fn start(
        &self,
        segment: &Segment<D>,
        connection: &Connection<D>,
        copies: &[Copy],
    ) -> Result<()> {
        self.start_of(segment, 0, connection, copies)
    }

    /// Start copies from the segment of a connection into a local one. The kernel of the peer's
    /// host sends what is read.
    ///
    /// # Errors
    /// As [`start()`](Self::start). [`Error::NotSupported`]: the peer's kernel is of a release
    /// that does not do that, [`Error::Invalid`]: this host's is; see `MP_FEATURE_PLACED`.
    pub fn start_read(
        &self,
        segment: &Segment<D>,
        connection: &Connection<D>,
        copies: &[Copy],
    ) -> Result<()> {
        self.start_of(segment, sys::MP_QUEUE_READ, connection, copies)
    }

    fn start_of(
        &self,
        segment: &Segment<D>,
        flags: u32,
        connection: &Connection<D>,
        copies: &[Copy],
    ) -> Result<()> {
        let copies: Vec<mp_copy> = copies.iter().map(mp_copy::from).collect();
        // SAFETY: The offsets are those of a segment, and no addresses.
        unsafe { self.start_from(segment.open_handle()?, flags, connection, copies) }
    }

    /// Start copies from memory of this process. It is pinned and copied in the background as it
    /// is then; what cannot be pinned has been read when this returns: more than
    /// `RLIMIT_MEMLOCK` lets the user pin, memory of a device, or all of it if the kernel does
    /// not pin.
    ///
    /// # Errors
    /// As [`start()`](Self::start); [`Error::System`] with `EFAULT`: there is no memory.
    pub fn start_from_memory(
        &self,
        memory: ProcessMemory<'_>,
        connection: &Connection<D>,
        copies: &[Copy],
    ) -> Result<()> {
        let copies = in_memory(memory, copies)?;
        // SAFETY: All that is read lies in the memory, which its maker vouches for.
        let start = |flags| unsafe { self.start_from(0, flags, connection, copies.clone()) };
        match start(sys::MP_QUEUE_PINNED) {
            Err(Error::Quota(_) | Error::Invalid(_) | Error::System(Errno::FAULT)) => start(0),
            other => other,
        }
    }

    /// Start copies from the segment of a connection into memory of this process, which is pinned
    /// until they end.
    ///
    /// # Errors
    /// As [`start_read()`](Self::start_read); [`Error::Quota`]: more than `RLIMIT_MEMLOCK` lets the
    /// user pin. [`Error::System`] with `EFAULT`: there is no memory that can be pinned and written.
    pub fn start_into_memory(
        &self,
        memory: ProcessMemory<'_>,
        connection: &Connection<D>,
        copies: &[Copy],
    ) -> Result<()> {
        let copies = in_memory(memory, copies)?;
        let flags = sys::MP_QUEUE_PINNED | sys::MP_QUEUE_READ;
        // SAFETY: All that is written lies in the memory, which its maker vouches for.
        unsafe { self.start_from(0, flags, connection, copies) }
    }

    /// # Safety
    /// Without a segment somebody vouches for what lies at the local offsets.
    unsafe fn start_from(
        &self,
        segment: u32,
        flags: u32,
        connection: &Connection<D>,
        mut copies: Vec<mp_copy>,
    ) -> Result<()> {
        let mut start = mp_queue_start {
            handle: self.object.open_handle()?,
            segment,
            flags,
            connection: connection.open_handle()?,
            ..Default::default()
        };
        // SAFETY: Promised by the caller.
        let copies = unsafe { Vouched::new(&mut *copies) };
        let device = &self.object.device;
        Ok(device.call(Call::QueueStart(&mut start, copies))?)
    }

    /// Stop the copies: when it returns, nothing is read or written by them any more.
    ///
    /// # Errors
    /// [`Error::NoWindow`]: it was never started.
    pub fn abort(&self) -> Result<()> {
        let handle = self.object.open_handle()?;
        Ok(retry_on_intr(|| {
            let mut abort = mp_handle {
                handle,
                ..Default::default()
            };
            self.object.device.call(Call::QueueAbort(&mut abort))
        })?)
    }

    /// What is known of it.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn info(&self) -> Result<QueueInfo> {
        let mut queue = mp_queue {
            handle: self.object.open_handle()?,
            ..Default::default()
        };
        self.object.device.call(Call::Queue(&mut queue))?;
        Ok(QueueInfo {
            state: QueueState::from_number(queue.state),
            status: queue.status,
        })
    }
}

/// Name the local ends of copies by their addresses in memory of this process.
///
/// # Errors
/// [`Error::System`] with `ERANGE`: beyond its end.
fn in_memory(memory: ProcessMemory<'_>, copies: &[Copy]) -> Result<Vec<mp_copy>> {
    let (start, len) = (memory.start() as u64, memory.len() as u64);
    let absolute = |copy: &Copy| {
        let end = copy.local.checked_add(copy.len)?;
        let local = start.checked_add(copy.local).filter(|_| end <= len)?;
        Some(mp_copy::from(&Copy { local, ..*copy }))
    };
    let copies: Option<Vec<mp_copy>> = copies.iter().map(absolute).collect();
    copies.ok_or(Error::System(Errno::RANGE))
}

impl From<&Copy> for mp_copy {
    fn from(copy: &Copy) -> Self {
        mp_copy {
            local: copy.local,
            remote: copy.remote,
            length: copy.len,
        }
    }
}
