// SPDX-License-Identifier: MIT OR Apache-2.0

//! The way to the kernel. [`Device`] is what the rest of the crate needs of it, so that a
//! program's logic can be tested without a kernel; [`CharDevice`] is the real one and the only
//! place that hands addresses to it.

use crate::{
    map::{Map, MapOptions},
    sys::{self, *},
};
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    fs::{open, Mode, OFlags},
    io::{self, Errno},
    ioctl::{ioctl, Opcode, Updater},
};
use std::{
    mem::{offset_of, size_of},
    path::Path,
};

/// Most events that are read at once.
const EVENTS: usize = 64;

/// A call with its structure, and the arrays that the structure has the addresses of. The device
/// fills in sizes, capacities and addresses.
#[derive(Debug)]
pub enum Call<'a> {
    /// `MP_IOC_INFO`
    Info(&'a mut mp_info),
    /// `MP_IOC_CLOSE`
    Close(&'a mut mp_handle),
    /// `MP_IOC_WAIT`
    Wait(&'a mut mp_wait),
    /// `MP_IOC_NOTIFY`, with an eventfd or nothing
    Notify(&'a mut mp_notify, Option<BorrowedFd<'a>>),
    /// `MP_IOC_WATCH`
    Watch(&'a mut mp_watch),
    /// `MP_IOC_SIGNAL`
    Signal(&'a mut mp_handle),
    /// `MP_IOC_INTERFACES`, with room for ids
    Interfaces(&'a mut mp_interfaces, &'a mut [u32]),
    /// `MP_IOC_INTERFACE`
    Interface(&'a mut mp_interface),
    /// `MP_IOC_WINDOWS`, with room for ids
    Windows(&'a mut mp_windows, &'a mut [u32]),
    /// `MP_IOC_WINDOW`, with room for data
    Window(&'a mut mp_window, &'a mut [u8]),
    /// `MP_IOC_SESSION_OPEN`, with the data
    SessionOpen(&'a mut mp_session_open, &'a [u8]),
    /// `MP_IOC_SESSION`
    Session(&'a mut mp_session),
    /// `MP_IOC_SESSION_ADDRESS`
    SessionAddress(&'a mut mp_session_address),
    /// `MP_IOC_ADDRESS`
    Address(&'a mut mp_address),
    /// `MP_IOC_SESSION_ACCESS`
    SessionAccess(&'a mut mp_session_access),
    /// `MP_IOC_SEGMENT_CREATE`
    SegmentCreate(&'a mut mp_segment_create),
    /// `MP_IOC_SEGMENT_FILL`
    SegmentFill(&'a mut mp_segment_fill),
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
    /// `MP_IOC_OFFER`
    Offer(&'a mut mp_offer),
    /// `MP_IOC_CONNECT`
    Connect(&'a mut mp_connect),
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
    /// `MP_IOC_QUEUE_CREATE`
    QueueCreate(&'a mut mp_queue_create),
    /// `MP_IOC_QUEUE_START`, with the copies
    QueueStart(&'a mut mp_queue_start, &'a [mp_copy]),
    /// `MP_IOC_QUEUE_ABORT`
    QueueAbort(&'a mut mp_handle),
    /// `MP_IOC_QUEUE`
    Queue(&'a mut mp_queue),
}

/// A context: an open file of the fabric, or what stands in for it in a test.
pub trait Device: Send + Sync + 'static {
    /// Makes a call.
    ///
    /// # Errors
    /// Those that `uapi/linux/mp_fabric.h` lists for it.
    fn call(&self, call: Call<'_>) -> Result<(), Errno>;

    /// Maps memory, by the offset that a call has given.
    ///
    /// # Errors
    /// Those of `mmap()`.
    fn map_with(&self, offset: u64, len: u64, options: MapOptions) -> Result<Map, Errno>;

    /// Maps memory for reading and writing, where the kernel likes.
    ///
    /// # Errors
    /// Those of `mmap()`.
    fn map(&self, offset: u64, len: u64) -> Result<Map, Errno> {
        self.map_with(offset, len, MapOptions::default())
    }

    /// Takes reported events. Never waits.
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
    /// Opens a device file. The context belongs to this process; it is not kept over `exec()`.
    ///
    /// # Errors
    /// Those of `open()`: `ENOENT` if the module is not loaded.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        // Only reading is not to wait; all other calls have deadlines.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(CharDevice(open(path, flags, Mode::empty())?))
    }

    /// # Safety
    /// `OP` takes a `T`, and the addresses in `argument` are those of arrays that the kernel may
    /// write to as far as `T` says.
    unsafe fn update<const OP: Opcode, T>(&self, argument: &mut T) -> Result<(), Errno> {
        // SAFETY: The caller's promise.
        unsafe { ioctl(&self.0, Updater::<OP, T>::new(argument)) }
    }
}

/// Length of an array as the kernel takes it: what does not fit is not used.
fn capacity(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Address of an array as the kernel takes it.
fn address<T>(array: *const T) -> u64 {
    array.expose_provenance() as u64
}

/// The size of a structure as the kernel is told it.
const fn size<T>() -> u32 {
    size_of::<T>() as u32
}

impl Device for CharDevice {
    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        // SAFETY: Each number goes with the structure that the header names beside it. Addresses
        // are those of arrays that are borrowed for as long as the call takes, mutably if the
        // kernel writes, with their own lengths.
        unsafe {
            match call {
                Call::Info(info) => {
                    info.size = size::<mp_info>();
                    self.update::<{ MP_IOC_INFO }, _>(info)
                }
                Call::Close(handle) => {
                    handle.size = size::<mp_handle>();
                    self.update::<{ MP_IOC_CLOSE }, _>(handle)
                }
                Call::Wait(wait) => {
                    wait.size = size::<mp_wait>();
                    self.update::<{ MP_IOC_WAIT }, _>(wait)
                }
                Call::Notify(notify, eventfd) => {
                    notify.size = size::<mp_notify>();
                    notify.eventfd = eventfd.map_or(-1, |fd| fd.as_raw_fd());
                    self.update::<{ MP_IOC_NOTIFY }, _>(notify)
                }
                Call::Watch(watch) => {
                    watch.size = size::<mp_watch>();
                    self.update::<{ MP_IOC_WATCH }, _>(watch)
                }
                Call::Signal(handle) => {
                    handle.size = size::<mp_handle>();
                    self.update::<{ MP_IOC_SIGNAL }, _>(handle)
                }
                Call::Interfaces(interfaces, ids) => {
                    interfaces.size = size::<mp_interfaces>();
                    interfaces.capacity = capacity(ids.len());
                    interfaces.ids = address(ids.as_mut_ptr());
                    self.update::<{ MP_IOC_INTERFACES }, _>(interfaces)
                }
                Call::Interface(interface) => {
                    interface.size = size::<mp_interface>();
                    self.update::<{ MP_IOC_INTERFACE }, _>(interface)
                }
                Call::Windows(windows, ids) => {
                    windows.size = size::<mp_windows>();
                    windows.capacity = capacity(ids.len());
                    windows.ids = address(ids.as_mut_ptr());
                    self.update::<{ MP_IOC_WINDOWS }, _>(windows)
                }
                Call::Window(window, data) => {
                    window.size = size::<mp_window>();
                    window.data_size = capacity(data.len());
                    window.data = if data.is_empty() {
                        0
                    } else {
                        address(data.as_mut_ptr())
                    };
                    self.update::<{ MP_IOC_WINDOW }, _>(window)
                }
                Call::SessionOpen(open, data) => {
                    open.size = size::<mp_session_open>();
                    open.data_size = capacity(data.len());
                    open.data = if data.is_empty() {
                        0
                    } else {
                        address(data.as_ptr())
                    };
                    self.update::<{ MP_IOC_SESSION_OPEN }, _>(open)
                }
                Call::Session(session) => {
                    session.size = size::<mp_session>();
                    self.update::<{ MP_IOC_SESSION }, _>(session)
                }
                Call::SessionAddress(address) => {
                    address.size = size::<mp_session_address>();
                    self.update::<{ MP_IOC_SESSION_ADDRESS }, _>(address)
                }
                Call::Address(range) => {
                    range.size = size::<mp_address>();
                    self.update::<{ MP_IOC_ADDRESS }, _>(range)
                }
                Call::SessionAccess(access) => {
                    access.size = size::<mp_session_access>();
                    self.update::<{ MP_IOC_SESSION_ACCESS }, _>(access)
                }
                Call::SegmentCreate(argument) => {
                    argument.size = size::<mp_segment_create>();
                    self.update::<{ MP_IOC_SEGMENT_CREATE }, _>(argument)
                }
                Call::SegmentFill(argument) => {
                    argument.size = size::<mp_segment_fill>();
                    self.update::<{ MP_IOC_SEGMENT_FILL }, _>(argument)
                }
                Call::SegmentShare(argument) => {
                    argument.size = size::<mp_handle>();
                    self.update::<{ MP_IOC_SEGMENT_SHARE }, _>(argument)
                }
                Call::SegmentAttach(argument) => {
                    argument.size = size::<mp_segment_attach>();
                    self.update::<{ MP_IOC_SEGMENT_ATTACH }, _>(argument)
                }
                Call::SegmentPrepare(argument) => {
                    argument.size = size::<mp_segment_interface>();
                    self.update::<{ MP_IOC_SEGMENT_PREPARE }, _>(argument)
                }
                Call::SegmentPublish(argument) => {
                    argument.size = size::<mp_segment_interface>();
                    self.update::<{ MP_IOC_SEGMENT_PUBLISH }, _>(argument)
                }
                Call::SegmentWithdraw(argument) => {
                    argument.size = size::<mp_segment_interface>();
                    self.update::<{ MP_IOC_SEGMENT_WITHDRAW }, _>(argument)
                }
                Call::Segment(argument) => {
                    argument.size = size::<mp_segment>();
                    self.update::<{ MP_IOC_SEGMENT }, _>(argument)
                }
                Call::Remove(argument) => {
                    argument.size = size::<mp_remove>();
                    self.update::<{ MP_IOC_REMOVE }, _>(argument)
                }
                Call::Offer(argument) => {
                    argument.size = size::<mp_offer>();
                    self.update::<{ MP_IOC_OFFER }, _>(argument)
                }
                Call::Connect(argument) => {
                    argument.size = size::<mp_connect>();
                    self.update::<{ MP_IOC_CONNECT }, _>(argument)
                }
                Call::Connection(argument) => {
                    argument.size = size::<mp_connection>();
                    self.update::<{ MP_IOC_CONNECTION }, _>(argument)
                }
                Call::Notice(argument) => {
                    argument.size = size::<mp_notice>();
                    self.update::<{ MP_IOC_NOTICE }, _>(argument)
                }
                Call::Send(message, data) => {
                    message.size = size::<mp_message>();
                    message.length = capacity(data.len());
                    message.data = address(data.as_ptr());
                    self.update::<{ MP_IOC_SEND }, _>(message)
                }
                Call::Receive(message, room) => {
                    message.size = size::<mp_message>();
                    message.length = capacity(room.len());
                    message.data = address(room.as_mut_ptr());
                    self.update::<{ MP_IOC_RECEIVE }, _>(message)
                }
                Call::Barrier(argument) => {
                    argument.size = size::<mp_barrier>();
                    self.update::<{ MP_IOC_BARRIER }, _>(argument)
                }
                Call::QueueCreate(argument) => {
                    argument.size = size::<mp_queue_create>();
                    self.update::<{ MP_IOC_QUEUE_CREATE }, _>(argument)
                }
                Call::QueueStart(start, copies) => {
                    start.size = size::<mp_queue_start>();
                    start.count = capacity(copies.len());
                    start.copies = address(copies.as_ptr());
                    self.update::<{ MP_IOC_QUEUE_START }, _>(start)
                }
                Call::QueueAbort(argument) => {
                    argument.size = size::<mp_handle>();
                    self.update::<{ MP_IOC_QUEUE_ABORT }, _>(argument)
                }
                Call::Queue(argument) => {
                    argument.size = size::<mp_queue>();
                    self.update::<{ MP_IOC_QUEUE }, _>(argument)
                }
            }
        }
    }

    fn map_with(&self, offset: u64, len: u64, options: MapOptions) -> Result<Map, Errno> {
        Map::with_options(&self.0, offset, len, options)
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
