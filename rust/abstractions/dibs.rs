// SPDX-License-Identifier: GPL-2.0-only

//! Devices for direct internal buffer sharing (DIBS), by which SMC-D sockets reach other hosts.
//!
//! A module of the crate `mp_dibs`, and none of `mp_kernel`: all modules would need `dibs.ko` then.
//!
//! C header: [`include/linux/dibs.h`](srctree/include/linux/dibs.h)

use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};
use mp_kernel::pci;

/// Name of a device.
pub(crate) type Gid = [u8; 16];

/// Most buffers of a device (`MP_DIBS_BUFFERS`).
pub(crate) const MAX_BUFFERS: usize = 1024;

/// A buffer that a driver has made for a client.
pub(crate) struct Added {
    /// Where it begins, for the kernel; valid until it is removed.
    pub(crate) address: *mut u8,
    /// What the client's partner names it by.
    pub(crate) token: u64,
    /// Its number, below [`MAX_BUFFERS`].
    pub(crate) index: u32,
}

/// The operations of a device. Clients may call all of them at the same time.
pub(crate) trait Driver: Send + Sync + 'static {
    /// Whether the device named so can be reached. May be called with locks held, and does not sleep.
    fn query(&self, gid: &Gid) -> Result;

    /// Make a buffer of `len` bytes for the device named so to send into. Process context, under a mutex
    /// of all the host's handshakes: it may sleep, and waits for nobody.
    fn add(&self, gid: &Gid, len: u32) -> Result<Added>;

    /// Remove a buffer; the client does not use it any more. Process context.
    fn remove(&self, index: u32, token: u64) -> Result;

    /// Send `data` to `offset` of a buffer, and signal its owner. Softirq or process context, with
    /// locks held: it does not sleep.
    fn move_data(&self, token: u64, signal: Option<u32>, offset: u32, data: &[u8]) -> Result;

    /// Send an event to the clients of the device named so. Process context.
    fn event(&self, gid: &Gid, code: u32, info: u64) -> Result;
}

/// As in `glue.h`.
#[repr(C)]
struct Buffer {
    address: *mut c_void,
    token: u64,
    index: u32,
}

/// As in `glue.h`.
#[repr(C)]
struct Calls {
    query: unsafe extern "C" fn(*mut c_void, *const Gid) -> c_int,
    add: unsafe extern "C" fn(*mut c_void, *const Gid, u32, *mut Buffer) -> c_int,
    remove: unsafe extern "C" fn(*mut c_void, u32, u64) -> c_int,
    move_data: unsafe extern "C" fn(*mut c_void, u64, u32, bool, u32, *const c_void, u32) -> c_int,
    event: unsafe extern "C" fn(*mut c_void, *const Gid, u32, u64) -> c_int,
}

// In glue.c. Devices are `struct mp_dibs`.
unsafe extern "C" {
    fn mp_dibs_new() -> *mut c_void;
    fn mp_dibs_free(device: *mut c_void);
    fn mp_dibs_add(
        device: *mut c_void,
        gid: *const Gid,
        calls: *const Calls,
        data: *mut c_void,
        domain: u32,
        bus: u8,
        devfn: u8,
    ) -> c_int;
    fn mp_dibs_del(device: *mut c_void);
    fn mp_dibs_signal(device: *mut c_void, index: u32, signal: u32);
    fn mp_dibs_event(device: *mut c_void, gid: *const Gid, code: u32, info: u64);
    fn mp_dibs_gone(device: *mut c_void, gid: *const Gid);
}

/// A device, which clients see while it is [registered](Registration). All methods may be called in any
/// context, and do nothing while it is not.
///
/// # Invariants
///
/// The pointer is to a device of `glue.c`, which is this one's.
pub(crate) struct Device(NonNull<c_void>);

// SAFETY: Devices are not tied to a thread.
unsafe impl Send for Device {}
// SAFETY: What is called by a shared reference takes the device's lock.
unsafe impl Sync for Device {}

impl Device {
    /// A device that is to be registered.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // SAFETY: No requirements; this may sleep.
        let device = unsafe { mp_dibs_new() };
        // INVARIANT: Just made.
        let device = Self(NonNull::new(device).ok_or(ENOMEM)?);
        Ok(Arc::new(device, GFP_KERNEL)?)
    }

    /// Let the client of a buffer look at it.
    pub(crate) fn signal(&self, index: u32, signal: u32) {
        // SAFETY: By the invariants; the index is checked.
        unsafe { mp_dibs_signal(self.0.as_ptr(), index, signal) };
    }

    /// Tell the clients of an event that a client of the device named so has sent.
    pub(crate) fn event(&self, gid: &Gid, code: u32, info: u64) {
        // SAFETY: By the invariants.
        unsafe { mp_dibs_event(self.0.as_ptr(), gid, code, info) };
    }

    /// Tell the clients that the device named so is not reached any more. They may miss it when memory
    /// is short.
    pub(crate) fn gone(&self, gid: &Gid) {
        // SAFETY: By the invariants.
        unsafe { mp_dibs_gone(self.0.as_ptr(), gid) };
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: By the invariants; nobody else has it.
        unsafe { mp_dibs_free(self.0.as_ptr()) };
    }
}

/// Keeps a device registered. Dropping it ends all that clients do with it, and no call of the driver
/// is under way afterwards. Sleeps.
///
/// # Invariants
///
/// The device is registered with [`Table::CALLS`] of `T` and a pointer to `data`.
pub(crate) struct Registration<T: Driver> {
    device: Arc<Device>,
    _data: Arc<T>,
}

impl<T: Driver> Registration<T> {
    /// Register a device by that name, once. It is a child of the first function of the root bus above
    /// `function`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if that function has gone: nothing has happened then. Those of the kernel's devices.
    pub(crate) fn new(
        device: Arc<Device>,
        gid: &Gid,
        data: Arc<T>,
        function: &pci::Function,
    ) -> Result<Self> {
        let devfn = function.device << 3 | function.function & 7;
        let pointer: *const T = &*data;
        // SAFETY: The device is valid, and the driver lives until it is removed. The name is copied.
        to_result(unsafe {
            mp_dibs_add(
                device.0.as_ptr(),
                gid,
                &Table::<T>::CALLS,
                pointer.cast_mut().cast(),
                function.domain,
                function.bus,
                devfn,
            )
        })?;
        // INVARIANT: Just registered.
        Ok(Self {
            device,
            _data: data,
        })
    }
}

impl<T: Driver> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the invariants it is registered, until now.
        unsafe { mp_dibs_del(self.device.0.as_ptr()) };
    }
}

/// The operations of `T`, as C calls them.
struct Table<T>(core::marker::PhantomData<T>);

fn status(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

impl<T: Driver> Table<T> {
    const CALLS: Calls = Calls {
        query: Self::query,
        add: Self::add,
        remove: Self::remove,
        move_data: Self::move_data,
        event: Self::event,
    };

    /// # Safety
    ///
    /// `data` is the driver of a device that is registered; the name is valid.
    unsafe extern "C" fn query(data: *mut c_void, gid: *const Gid) -> c_int {
        // SAFETY: As the caller promises.
        let (this, gid) = unsafe { (&*data.cast::<T>(), &*gid) };
        status(this.query(gid))
    }

    /// # Safety
    ///
    /// As for [`query`](Self::query); `buffer` is valid for writes.
    unsafe extern "C" fn add(
        data: *mut c_void,
        gid: *const Gid,
        len: u32,
        buffer: *mut Buffer,
    ) -> c_int {
        // SAFETY: As the caller promises.
        let (this, gid) = unsafe { (&*data.cast::<T>(), &*gid) };
        status(this.add(gid, len).map(|added| {
            let added = Buffer {
                address: added.address.cast(),
                token: added.token,
                index: added.index,
            };
            // SAFETY: As the caller promises.
            unsafe { buffer.write(added) }
        }))
    }

    /// # Safety
    ///
    /// As for [`query`](Self::query).
    unsafe extern "C" fn remove(data: *mut c_void, index: u32, token: u64) -> c_int {
        // SAFETY: As the caller promises.
        let this = unsafe { &*data.cast::<T>() };
        status(this.remove(index, token))
    }

    /// # Safety
    ///
    /// As for [`query`](Self::query); nobody changes the `len` bytes meanwhile, if there are any.
    unsafe extern "C" fn move_data(
        data: *mut c_void,
        token: u64,
        signal: u32,
        sf: bool,
        offset: u32,
        bytes: *const c_void,
        len: u32,
    ) -> c_int {
        // SAFETY: As the caller promises.
        let this = unsafe { &*data.cast::<T>() };
        let bytes = match len {
            0 => &[][..],
            // SAFETY: As the caller promises.
            _ => unsafe { core::slice::from_raw_parts(bytes.cast::<u8>(), len as usize) },
        };
        status(this.move_data(token, sf.then_some(signal), offset, bytes))
    }

    /// # Safety
    ///
    /// As for [`query`](Self::query).
    unsafe extern "C" fn event(data: *mut c_void, gid: *const Gid, code: u32, info: u64) -> c_int {
        // SAFETY: As the caller promises.
        let (this, gid) = unsafe { (&*data.cast::<T>(), &*gid) };
        status(this.event(gid, code, info))
    }
}
