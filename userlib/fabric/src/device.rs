// SPDX-License-Identifier: MIT OR Apache-2.0

//! The way to the kernel. [`Device`] is what the rest of the crate needs of it, so that a
//! program's logic can be tested without a kernel; [`CharDevice`] is the real one and the only
//! place that hands addresses to it.

#[cfg(target_pointer_width = "64")]
use crate::RemoteMemory;
use crate::{
    map::{Map, Protection},
    memory::Vouched,
    sys::{self, *},
};
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    fs::{open, Mode, OFlags},
    io::{self, Errno},
    ioctl::{ioctl, Updater},
};
use std::{
    fmt::Debug,
    mem::{offset_of, size_of},
    path::Path,
};
use tracing::{debug, trace};

/// Most events that are read at once.
const EVENTS: usize = 64;

/// A call with its structure, and the arrays that the structure has the addresses of. The device
/// fills in sizes, capacities and the addresses of arrays; for others somebody vouches.
#[derive(Debug)]
pub enum Call<'a> {
    /// `MP_IOC_INFO`
    Info(&'a mut mp_info),
    /// `MP_IOC_CLOSE`
    Close(&'a mut mp_handle),
    /// `MP_IOC_WAIT`
    Wait(&'a mut mp_wait),
    /// `MP_IOC_EVENTFD`, with an eventfd or nothing
    Notify(&'a mut mp_eventfd, Option<BorrowedFd<'a>>),
    /// `MP_IOC_WATCH`
    Watch(&'a mut mp_watch),
    /// `MP_IOC_SIGNAL`
    Signal(&'a mut mp_handle),
    /// `MP_IOC_EXPORT`, with room for the descriptor
    Export(&'a mut mp_export, &'a mut Option<OwnedFd>),
    /// `MP_IOC_IMPORT`, with the descriptor
    Import(&'a mut mp_import, BorrowedFd<'a>),
    /// `MP_IOC_INTERFACES`, with room for ids
    Interfaces(&'a mut mp_interfaces, &'a mut [u32]),
    /// `MP_IOC_INTERFACE`
    Interface(&'a mut mp_interface),
    /// `MP_IOC_WINDOWS`, with room for ids
    Windows(&'a mut mp_windows, &'a mut [u32]),
    /// `MP_IOC_WINDOW`, with room for data
    Window(&'a mut mp_window, &'a mut [u8]),
    /// `MP_IOC_SESSION_OPEN`, with the data and the name
    SessionOpen(Vouched<'a, mp_session_open>, &'a [u8], &'a [u8]),
    /// `MP_IOC_SESSION`
    Session(&'a mut mp_session),
    /// `MP_IOC_SESSION_ADDRESS`
    SessionAddress(&'a mut mp_session_address),
    /// `MP_IOC_ADDRESS`
    Address(&'a mut mp_address),
    /// `MP_IOC_SESSION_ACCESS`
    SessionAccess(&'a mut mp_session_access),
    /// `MP_IOC_SESSION_PARTNER`, with room for data
    SessionPartner(&'a mut mp_session_partner, &'a mut [u8]),
    /// `MP_IOC_SESSION_ANSWER`, with the data
    SessionAnswer(&'a mut mp_session_answer, &'a [u8]),
    /// `MP_IOC_SESSION_STORE`, with the stores, whose local offsets are in the bytes
    SessionStore(&'a mut mp_session_store, &'a mut [mp_copy], &'a [u8]),
    /// `MP_IOC_PARK`, with the entries
    Park(&'a mut mp_park, &'a [mp_park_entry]),
    /// `MP_IOC_SEGMENT_CREATE`, with the name
    SegmentCreate(&'a mut mp_segment_create, &'a [u8]),
    /// `MP_IOC_SEGMENT_REGISTER`
    SegmentFill(Vouched<'a, mp_segment_register>),
    /// `MP_IOC_SEGMENT_GRANT`
    SegmentGrant(&'a mut mp_segment_grant),
    /// `MP_IOC_SEGMENT_DMABUF`, with room for the descriptor
    SegmentDmaBuf(&'a mut mp_segment_dmabuf, &'a mut Option<OwnedFd>),
    /// `MP_IOC_SEGMENT_SHARE`
    SegmentShare(&'a mut mp_handle),
    /// `MP_IOC_SEGMENT_ATTACH`
    SegmentAttach(&'a mut mp_segment_attach),
    /// `MP_IOC_SEGMENT_PREPARE`
    SegmentPrepare(&'a mut mp_segment_interface),
    /// `MP_IOC_SEGMENT_PUBLISH`
    SegmentPublish(&'a mut mp_segment_interface),
    /// `MP_IOC_SEGMENT_WITHDRAW`
    SegmentWithdraw(&'a mut mp_segment_interface),
    /// `MP_IOC_SEGMENT`
    Segment(&'a mut mp_segment),
    /// `MP_IOC_REMOVE`
    Remove(&'a mut mp_remove),
    /// `MP_IOC_OFFER`, with the name
    Offer(&'a mut mp_offer, &'a [u8]),
    /// `MP_IOC_CONNECT`, with the name
    Connect(&'a mut mp_connect, &'a [u8]),
    /// `MP_IOC_CONNECTION`
    Connection(&'a mut mp_connection),
    /// `MP_IOC_NOTICE`
    Notice(&'a mut mp_notice),
    /// `MP_IOC_SEND`, with the message
    Send(&'a mut mp_message, &'a [u8]),
    /// `MP_IOC_RECEIVE`, with room for a message
    Receive(&'a mut mp_message, &'a mut [u8]),
    /// `MP_IOC_BARRIER`
    Barrier(&'a mut mp_barrier),
    /// `MP_IOC_EXCHANGE`
    Exchange(&'a mut mp_exchange),
    /// `MP_IOC_QUEUE_CREATE`
    QueueCreate(&'a mut mp_queue_create),
    /// `MP_IOC_QUEUE_START`, with the copies
    QueueStart(&'a mut mp_queue_start, Vouched<'a, [mp_copy]>),
    /// `MP_IOC_QUEUE_ABORT`
    QueueAbort(&'a mut mp_handle),
    /// `MP_IOC_QUEUE`
    Queue(&'a mut mp_queue),
}

/// A context: an open file of the fabric, or what stands in for it in a test.
pub trait Device: Send + Sync + 'static {
    /// How memory of a partner is stored to.
    #[cfg(target_pointer_width = "64")]
    type Remote: RemoteMemory;

    /// Make a call.
    ///
    /// # Errors
    /// Those that `uapi/linux/mp_fabric.h` lists for it.
    fn call(&self, call: Call<'_>) -> Result<(), Errno>;

    /// Map memory, by the offset that a call has given; the address `hint` is tried first, unless
    /// it is 0.
    ///
    /// # Errors
    /// Those of `mmap()`.
    fn map<P: Protection>(&self, offset: u64, len: u64, hint: usize) -> Result<Map<P>, Errno>;

    /// Mapped memory of a partner, to store to.
    #[cfg(target_pointer_width = "64")]
    fn remote(&self, map: Map) -> Self::Remote;

    /// Take reported events. Never waits.
    ///
    /// # Errors
    /// `EAGAIN` if there are none.
    fn read(&self, events: &mut Vec<mp_event>) -> Result<(), Errno>;

    /// A descriptor that is readable as long as there are reported events.
    fn fd(&self) -> BorrowedFd<'_>;
}

/// The character device.
#[derive(Debug)]
pub struct CharDevice(OwnedFd);

impl CharDevice {
    /// Open a device file. The context belongs to this process; it is not kept over `exec()`.
    ///
    /// # Errors
    /// Those of `open()`: `ENOENT` if the module is not loaded.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        // Only reading is not to wait; all other calls have deadlines.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(CharDevice(open(path, flags, Mode::empty())?))
    }
}

/// Tell of a call that has failed, and what for; of one that only looks nothing else was expected.
fn tell(call: &str, what: &dyn Debug, errno: Errno) {
    match errno {
        Errno::TIMEDOUT | Errno::INTR => trace!("{call} of {what:?}: {errno}"),
        _ => debug!("{call} of {what:?}: {errno}"),
    }
}

/// Length of an array as the kernel takes it: what does not fit is not used.
fn capacity(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Address of an array as the kernel takes it; 0 if there is nothing in it.
fn address<T>(array: &[T]) -> u64 {
    match array {
        [] => 0,
        _ => array.as_ptr().expose_provenance() as u64,
    }
}

/// As [`address`], of an array that the kernel writes to.
fn address_mut<T>(array: &mut [T]) -> u64 {
    match array {
        [] => 0,
        _ => array.as_mut_ptr().expose_provenance() as u64,
    }
}

impl Device for CharDevice {
    #[cfg(target_pointer_width = "64")]
    type Remote = Map;

    #[cfg(target_pointer_width = "64")]
    fn remote(&self, map: Map) -> Map {
        map
    }

    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        macro_rules! call {
            ($number:ident, $type:ident, $argument:expr) => {{
                let argument: &mut $type = $argument;
                argument.size = size_of::<$type>() as u32;
                // SAFETY: The number goes with the structure that the header names beside it. The
                // addresses in it are those of arrays that are borrowed for as long as the call
                // takes, mutably if the kernel writes, with their own lengths; or somebody has
                // vouched for them.
                let once = || unsafe { ioctl(&self.0, Updater::<{ $number }, $type>::new(argument)) };
                // A call that a signal has ended has done nothing, and deadlines stay what they are.
                io::retry_on_intr(once)
                    .inspect_err(|errno| tell(stringify!($number), argument, *errno))
            }};
        }
        match call {
            Call::Info(argument) => call!(MP_IOC_INFO, mp_info, argument),
            Call::Close(argument) => call!(MP_IOC_CLOSE, mp_handle, argument),
            Call::Wait(argument) => call!(MP_IOC_WAIT, mp_wait, argument),
            Call::Watch(argument) => call!(MP_IOC_WATCH, mp_watch, argument),
            Call::Signal(argument) => call!(MP_IOC_SIGNAL, mp_handle, argument),
            Call::Interface(argument) => call!(MP_IOC_INTERFACE, mp_interface, argument),
            Call::Session(argument) => call!(MP_IOC_SESSION, mp_session, argument),
            Call::SessionAddress(argument) => {
                call!(MP_IOC_SESSION_ADDRESS, mp_session_address, argument)
            }
            Call::Address(argument) => call!(MP_IOC_ADDRESS, mp_address, argument),
            Call::SessionAccess(argument) => {
                call!(MP_IOC_SESSION_ACCESS, mp_session_access, argument)
            }
            Call::SegmentCreate(argument, name) => {
                (argument.name_size, argument.name) = (capacity(name.len()), address(name));
                call!(MP_IOC_SEGMENT_CREATE, mp_segment_create, argument)
            }
            Call::SegmentGrant(argument) => {
                call!(MP_IOC_SEGMENT_GRANT, mp_segment_grant, argument)
            }
            Call::SegmentShare(argument) => call!(MP_IOC_SEGMENT_SHARE, mp_handle, argument),
            Call::SegmentAttach(argument) => {
                call!(MP_IOC_SEGMENT_ATTACH, mp_segment_attach, argument)
            }
            Call::SegmentPrepare(argument) => {
                call!(MP_IOC_SEGMENT_PREPARE, mp_segment_interface, argument)
            }
            Call::SegmentPublish(argument) => {
                call!(MP_IOC_SEGMENT_PUBLISH, mp_segment_interface, argument)
            }
            Call::SegmentWithdraw(argument) => {
                call!(MP_IOC_SEGMENT_WITHDRAW, mp_segment_interface, argument)
            }
            Call::Segment(argument) => call!(MP_IOC_SEGMENT, mp_segment, argument),
            Call::Remove(argument) => call!(MP_IOC_REMOVE, mp_remove, argument),
            Call::Connection(argument) => call!(MP_IOC_CONNECTION, mp_connection, argument),
            Call::Notice(argument) => call!(MP_IOC_NOTICE, mp_notice, argument),
            Call::Barrier(argument) => call!(MP_IOC_BARRIER, mp_barrier, argument),
            Call::Exchange(argument) => call!(MP_IOC_EXCHANGE, mp_exchange, argument),
            Call::QueueCreate(argument) => call!(MP_IOC_QUEUE_CREATE, mp_queue_create, argument),
            Call::QueueAbort(argument) => call!(MP_IOC_QUEUE_ABORT, mp_handle, argument),
            Call::Queue(argument) => call!(MP_IOC_QUEUE, mp_queue, argument),
            Call::Offer(argument, name) => {
                (argument.name_size, argument.name) = (capacity(name.len()), address(name));
                call!(MP_IOC_OFFER, mp_offer, argument)
            }
            Call::Connect(argument, name) => {
                (argument.name_size, argument.name) = (capacity(name.len()), address(name));
                call!(MP_IOC_CONNECT, mp_connect, argument)
            }
            Call::SegmentFill(argument) => {
                call!(
                    MP_IOC_SEGMENT_REGISTER,
                    mp_segment_register,
                    argument.into_inner()
                )
            }
            Call::Export(argument, fd) => {
                call!(MP_IOC_EXPORT, mp_export, argument)?;
                // SAFETY: The kernel has just opened it for this process, and nobody has it yet.
                *fd = Some(unsafe { OwnedFd::from_raw_fd(argument.fd) });
                Ok(())
            }
            Call::Import(argument, fd) => {
                argument.fd = fd.as_raw_fd();
                call!(MP_IOC_IMPORT, mp_import, argument)
            }
            Call::SegmentDmaBuf(argument, fd) => {
                call!(MP_IOC_SEGMENT_DMABUF, mp_segment_dmabuf, argument)?;
                // SAFETY: As above.
                *fd = Some(unsafe { OwnedFd::from_raw_fd(argument.fd) });
                Ok(())
            }
            Call::Notify(argument, eventfd) => {
                argument.eventfd = eventfd.map_or(-1, |fd| fd.as_raw_fd());
                call!(MP_IOC_EVENTFD, mp_eventfd, argument)
            }
            Call::Interfaces(argument, ids) => {
                (argument.capacity, argument.ids) = (capacity(ids.len()), address_mut(ids));
                call!(MP_IOC_INTERFACES, mp_interfaces, argument)
            }
            Call::Windows(argument, ids) => {
                (argument.capacity, argument.ids) = (capacity(ids.len()), address_mut(ids));
                call!(MP_IOC_WINDOWS, mp_windows, argument)
            }
            Call::Window(argument, data) => {
                (argument.data_size, argument.data) = (capacity(data.len()), address_mut(data));
                call!(MP_IOC_WINDOW, mp_window, argument)
            }
            Call::SessionOpen(argument, data, name) => {
                let argument = argument.into_inner();
                (argument.data_size, argument.data) = (capacity(data.len()), address(data));
                (argument.name_size, argument.name) = (capacity(name.len()), address(name));
                call!(MP_IOC_SESSION_OPEN, mp_session_open, argument)
            }
            Call::SessionPartner(argument, data) => {
                (argument.data_size, argument.data) = (capacity(data.len()), address_mut(data));
                call!(MP_IOC_SESSION_PARTNER, mp_session_partner, argument)
            }
            Call::SessionAnswer(argument, data) => {
                (argument.data_size, argument.data) = (capacity(data.len()), address(data));
                call!(MP_IOC_SESSION_ANSWER, mp_session_answer, argument)
            }
            Call::Send(argument, data) => {
                (argument.length, argument.data) = (capacity(data.len()), address(data));
                call!(MP_IOC_SEND, mp_message, argument)
            }
            Call::Receive(argument, room) => {
                (argument.length, argument.data) = (capacity(room.len()), address_mut(room));
                call!(MP_IOC_RECEIVE, mp_message, argument)
            }
            Call::Park(argument, entries) => {
                (argument.count, argument.entries) = (capacity(entries.len()), address(entries));
                argument.entry_size = size_of::<mp_park_entry>() as u32;
                call!(MP_IOC_PARK, mp_park, argument)
            }
            Call::SessionStore(argument, stores, bytes) => {
                let start = address(bytes);
                for store in &mut *stores {
                    let end = store.local.checked_add(store.length);
                    end.filter(|end| *end <= bytes.len() as u64)
                        .ok_or(Errno::FAULT)?;
                    store.local += start;
                }
                (argument.count, argument.stores) = (capacity(stores.len()), address(stores));
                argument.store_size = size_of::<mp_copy>() as u32;
                call!(MP_IOC_SESSION_STORE, mp_session_store, argument)
            }
            Call::QueueStart(argument, copies) => {
                let copies = copies.into_inner();
                (argument.count, argument.copies) = (capacity(copies.len()), address(copies));
                call!(MP_IOC_QUEUE_START, mp_queue_start, argument)
            }
        }
    }

    fn map<P: Protection>(&self, offset: u64, len: u64, hint: usize) -> Result<Map<P>, Errno> {
        let map = Map::with_hint(&self.0, offset, len, hint);
        map.inspect_err(|errno| tell("mmap", &(offset, len), *errno))
    }

    fn read(&self, events: &mut Vec<mp_event>) -> Result<(), Errno> {
        const SIZE: usize = size_of::<mp_event>();
        let mut buffer = [0; EVENTS * SIZE];
        let len = io::retry_on_intr(|| io::read(&self.0, &mut buffer[..]))?;
        events.extend(buffer.chunks_exact(SIZE).take(len / SIZE).map(event));
        Ok(())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An event as it was read.
fn event(bytes: &[u8]) -> mp_event {
    mp_event {
        cookie: u64::from_ne_bytes(field(bytes, offset_of!(mp_event, cookie))),
        target: u32::from_ne_bytes(field(bytes, offset_of!(mp_event, target))),
        events: u32::from_ne_bytes(field(bytes, offset_of!(mp_event, events))),
    }
}

/// Bytes of a field, which lies inside of what was read.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let field = bytes
        .get(at..at + N)
        .and_then(|field| field.try_into().ok());
    field.unwrap_or([0; N])
}

/// Where the device usually is.
pub(crate) fn path() -> String {
    let name = sys::MP_FABRIC_DEVICE.to_str().unwrap_or_default();
    format!("/dev/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_apart_as_the_kernel_puts_them_together() {
        let mut bytes = 0x1122_3344_5566_7788_u64.to_ne_bytes().to_vec();
        bytes.extend(7_u32.to_ne_bytes());
        bytes.extend(MP_EVENT_SIGNAL.to_ne_bytes());
        let event = event(&bytes);
        assert_eq!(event.cookie, 0x1122_3344_5566_7788);
        assert_eq!((event.target, event.events), (7, MP_EVENT_SIGNAL));
    }

    #[test]
    fn a_file_that_is_no_such_device_is_refused_by_the_kernel() {
        let device = CharDevice::open(Path::new("/dev/null")).unwrap();
        assert_eq!(
            device.call(Call::Info(&mut mp_info::default())),
            Err(Errno::NOTTY)
        );
    }

    #[test]
    fn a_device_that_is_not_there_is_told() {
        let missing = CharDevice::open(Path::new("/dev/mp_fabric-missing"));
        assert_eq!(missing.unwrap_err(), Errno::NOENT);
    }
}
