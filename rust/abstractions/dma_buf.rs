// SPDX-License-Identifier: GPL-2.0-only

//! Memory that is shared with devices and other drivers, as a dma-buf.
//!
//! A [`Part`] is memory that another driver has exported. [`export`] makes a dma-buf of a [`Buffer`]: its owner says where the memory is, and keeps it there until
//! the dma-buf is released. What importers ask for is here: lists for devices, what caches need
//! before and after an access of the processor, and mappings of processes. The memory neither moves
//! nor is it taken back, so that any importer will do.
//!
//! # Locks
//!
//! The lock of a dma-buf's list of devices is inside of the reservation's, which the core holds when
//! it calls for a list to be mapped.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)

mod part;

pub use part::{
    Attached,
    Part, //
};

use core::ptr::NonNull;

use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    fs::{
        file::FileDescriptorReservation,
        File, //
    },
    mm::virt::{
        flags,
        VmaNew, //
    },
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        Mutex, //
    }, //
};

use crate::carrier::Carrier;

/// Whether this kernel has dma-bufs at all.
pub const HAS_DMA_BUFS: bool = cfg!(CONFIG_DMA_SHARED_BUFFER);

/// Memory that can be exported.
///
/// # Safety
///
/// As long as the value lives, all of its `len` bytes, whole pages, are at the addresses that
/// [`run`](Self::run) says, always the same ones: ordinary memory with a `struct page`, cached, in which
/// there is nothing of the kernel's, so that processes and devices may see it, and write it if it
/// [may be written](Self::is_writable).
#[allow(clippy::len_without_is_empty)]
pub unsafe trait Buffer: Send + Sync + 'static {
    /// Bytes, a multiple of a page, and not 0.
    fn len(&self) -> usize;

    /// The physical address of byte `at`, and how many bytes of at most `most` are in one run from
    /// there; whole pages for whole pages.
    ///
    /// # Errors
    ///
    /// Any, if there is nothing.
    fn run(&self, at: usize, most: usize) -> Result<(u64, usize)>;

    /// Whether others may write it.
    fn is_writable(&self) -> bool;
}

/// What a device has of a buffer.
///
/// # Invariants
///
/// `dev` is that of an attachment, whose importer keeps it until it detaches. `table` was made by `sg_alloc_table`, and is mapped
/// for the device in a direction if there is one.
struct Attachment {
    dev: *mut bindings::device,
    table: bindings::sg_table,
    mapped: Option<bindings::dma_data_direction>,
}

// SAFETY: Devices and tables are not tied to a thread.
unsafe impl Send for Attachment {}

impl Attachment {
    /// A list for a device, which is not mapped.
    ///
    /// # Safety
    ///
    /// `dev` is valid, and stays so as long as the result.
    unsafe fn new(dev: *mut bindings::device, buffer: &dyn Buffer) -> Result<KBox<Self>> {
        // SAFETY: As the caller promises.
        let most = unsafe { mp_bindings::device_max_segment(dev.cast()) } as usize;
        let most = (most / PAGE_SIZE * PAGE_SIZE).max(PAGE_SIZE);
        let mut count = 0;
        for_each_run(buffer, 0, buffer.len(), most, |_, _, _| {
            count += 1;
            Ok(())
        })?;
        let mut table = bindings::sg_table::default();
        // SAFETY: The table is ours, and empty.
        to_result(unsafe {
            bindings::sg_alloc_table(&mut table, count, bindings::GFP_KERNEL_ACCOUNT)
        })?;
        // INVARIANT: Just made; dropped from here on, it is freed.
        let this = Self {
            dev,
            table,
            mapped: None,
        };
        let mut entry = this.table.sgl;
        for_each_run(buffer, 0, buffer.len(), most, |_, phys, len| {
            // SAFETY: The table has an entry for each run: there are as many as before, as they are
            // always the same. By the contract of `Buffer` the memory has pages.
            entry = unsafe { mp_bindings::sg_say(entry.cast(), phys, len as c_uint) }.cast();
            Ok(())
        })?;
        Ok(KBox::new(this, GFP_KERNEL_ACCOUNT)?)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: By the invariants. It is not mapped: importers unmap before they detach.
        unsafe { bindings::sg_free_table(&mut self.table) };
    }
}

/// Call `f` with the place, the address and the length of each run of some bytes, whole pages.
///
/// # Errors
///
/// Those of [`Buffer::run`] and of `f`; `EINVAL` for a run of no bytes.
fn for_each_run(
    buffer: &dyn Buffer,
    mut at: usize,
    len: usize,
    most: usize,
    mut f: impl FnMut(usize, u64, usize) -> Result,
) -> Result {
    let end = at.checked_add(len).ok_or(EINVAL)?;
    while at < end {
        let (phys, found) = buffer.run(at, most.min(end - at))?;
        let found = found.min(most).min(end - at);
        if found == 0 {
            return Err(EINVAL);
        }
        f(at, phys, found)?;
        at += found;
    }
    Ok(())
}

/// What a dma-buf of ours has as its private data, from its making until its release.
#[pin_data]
struct Exported {
    buffer: Arc<dyn Buffer>,
    /// Those of all devices.
    #[pin]
    attachments: Mutex<KVec<KBox<Attachment>>>,
}

/// What the core of dma-bufs calls.
const OPERATIONS: &bindings::dma_buf_ops = &bindings::dma_buf_ops {
    attach: Some(attach),
    detach: Some(detach),
    map_dma_buf: Some(map),
    unmap_dma_buf: Some(unmap),
    begin_cpu_access: Some(begin_access),
    end_cpu_access: Some(end_access),
    mmap: Some(mmap),
    release: Some(release),
    ..pin_init::zeroed()
};

/// A dma-buf of that memory. The calling process has a descriptor of it, closed by `exec`, once that is
/// [installed](Carrier::install). `module` has the code of the buffer, and stays loaded meanwhile.
///
/// # Errors
///
/// `EOPNOTSUPP` if this kernel has no dma-bufs, `EINVAL` if it is not whole pages, `EMFILE`,
/// `ENFILE`, `ENOMEM`.
pub fn export(
    module: &'static ThisModule,
    name: &'static CStr,
    buffer: Arc<dyn Buffer>,
) -> Result<Carrier> {
    let size = buffer.len();
    if size == 0 || size % PAGE_SIZE != 0 {
        return Err(EINVAL);
    }
    let access = match buffer.is_writable() {
        true => bindings::O_RDWR,
        false => bindings::O_RDONLY,
    };
    let reserved = FileDescriptorReservation::get_unused_fd_flags(bindings::O_CLOEXEC)?;
    let exported = KBox::pin_init(
        pin_init!(Exported {
            buffer,
            attachments <- new_mutex!(KVec::new()),
        }),
        GFP_KERNEL_ACCOUNT,
    )?;
    // SAFETY: It is not moved: only `release` takes it back, to drop it.
    let data = KBox::into_raw(unsafe { Pin::into_inner_unchecked(exported) });
    let info = bindings::dma_buf_export_info {
        exp_name: name.as_char_ptr(),
        owner: module.as_ptr(),
        ops: OPERATIONS,
        size,
        flags: access as c_int,
        priv_: data.cast(),
        ..pin_init::zeroed()
    };
    // SAFETY: The operations are static, and their private data is what they need.
    let made = from_err_ptr(unsafe { mp_bindings::dmabuf_export((&raw const info).cast()) });
    let made: *mut bindings::dma_buf = made
        .inspect_err(|_| {
            // SAFETY: There is no dma-buf that could have it.
            drop(unsafe { KBox::from_raw(data) });
        })?
        .cast();
    // SAFETY: A new dma-buf has a file.
    let file = NonNull::new(unsafe { (*made).file }.cast::<File>()).ok_or(ENOMEM)?;
    // SAFETY: The only reference to the file of a new dma-buf, in which nobody seeks.
    let file = unsafe { ARef::from_raw(file) };
    Ok(Carrier::of_file(reserved, file))
}

/// # Safety
///
/// `buf` has the [`OPERATIONS`] and is not released before the end of `'a`; so below.
unsafe fn exported<'a>(buf: *mut bindings::dma_buf) -> &'a Exported {
    // SAFETY: `export` has put it there, and `release` has not taken it.
    unsafe { &*(*buf).priv_.cast_const().cast() }
}

/// # Safety
///
/// As above; `attachment` is being made, and has a device that stays until [`detach`].
unsafe extern "C" fn attach(
    buf: *mut bindings::dma_buf,
    attachment: *mut bindings::dma_buf_attachment,
) -> c_int {
    // SAFETY: As the caller promises.
    let exported = unsafe { exported(buf) };
    // SAFETY: As the caller promises.
    let made = unsafe { Attachment::new((*attachment).dev, &*exported.buffer) };
    let entered = made.and_then(|mut made| {
        let at = &raw mut *made;
        exported.attachments.lock().push(made, GFP_KERNEL_ACCOUNT)?;
        Ok(at)
    });
    match entered {
        Ok(at) => {
            // SAFETY: The attachment is ours to prepare.
            unsafe { (*attachment).priv_ = at.cast() };
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// # Safety
///
/// As above; `attachment` is not mapped, and goes.
unsafe extern "C" fn detach(
    buf: *mut bindings::dma_buf,
    attachment: *mut bindings::dma_buf_attachment,
) {
    // SAFETY: As the caller promises.
    let (exported, own) = unsafe { (exported(buf), (*attachment).priv_) };
    let gone = {
        let mut all = exported.attachments.lock();
        let is_own = |it: &KBox<Attachment>| core::ptr::eq(&raw const **it, own.cast());
        let at = all.iter().position(is_own);
        at.and_then(|at| all.remove(at).ok())
    };
    drop(gone);
}

/// Run `f` on what a device has.
///
/// # Safety
///
/// `attachment` is one of a dma-buf with the [`OPERATIONS`], and is not detached meanwhile.
unsafe fn with_attachment<R>(
    attachment: *mut bindings::dma_buf_attachment,
    f: impl FnOnce(&mut Attachment) -> R,
) -> R {
    // SAFETY: As the caller promises.
    let exported = unsafe { exported((*attachment).dmabuf) };
    let _all = exported.attachments.lock();
    // SAFETY: `attach` has put it there, `detach` has not freed it, and all come here with the lock.
    f(unsafe { &mut *(*attachment).priv_.cast() })
}

/// # Safety
///
/// As above; `attachment` is not mapped.
unsafe extern "C" fn map(
    attachment: *mut bindings::dma_buf_attachment,
    direction: bindings::dma_data_direction,
) -> *mut bindings::sg_table {
    // SAFETY: As the caller promises.
    let may_be_written = unsafe { exported((*attachment).dmabuf) }
        .buffer
        .is_writable();
    if !may_be_written && direction != bindings::dma_data_direction::DMA_TO_DEVICE {
        // Neither the core nor importers look at how a descriptor was opened.
        return EACCES.to_ptr();
    }
    let mapped = |own: &mut Attachment| {
        // SAFETY: By the invariants, and the table is not mapped.
        to_result(unsafe { bindings::dma_map_sgtable(own.dev, &mut own.table, direction, 0) })?;
        own.mapped = Some(direction);
        Ok::<_, Error>(&raw mut own.table)
    };
    // SAFETY: As the caller promises.
    match unsafe { with_attachment(attachment, mapped) } {
        Ok(table) => table,
        Err(e) => e.to_ptr(),
    }
}

/// # Safety
///
/// As above; `attachment` is mapped in that direction.
unsafe extern "C" fn unmap(
    attachment: *mut bindings::dma_buf_attachment,
    _table: *mut bindings::sg_table,
    direction: bindings::dma_data_direction,
) {
    let unmapped = |own: &mut Attachment| {
        own.mapped = None;
        let table = &raw mut own.table;
        // SAFETY: By the invariants, and it is mapped.
        unsafe { mp_bindings::sgtable_unmap(own.dev.cast(), table.cast(), direction.0 as c_int) };
    };
    // SAFETY: As the caller promises.
    unsafe { with_attachment(attachment, unmapped) };
}

/// Call `f` with the device and the table of all that is mapped, and the direction.
fn for_each_mapped(exported: &Exported, f: impl Fn(*mut c_void, *mut c_void, c_int)) {
    let mut all = exported.attachments.lock();
    for own in all.iter_mut() {
        if let Some(direction) = own.mapped {
            let table = &raw mut own.table;
            f(own.dev.cast(), table.cast(), direction.0 as c_int);
        }
    }
}

/// # Safety
///
/// As [`exported`]; so below.
unsafe extern "C" fn begin_access(
    buf: *mut bindings::dma_buf,
    _direction: bindings::dma_data_direction,
) -> c_int {
    // SAFETY: As the caller promises.
    for_each_mapped(unsafe { exported(buf) }, |dev, table, direction| {
        // SAFETY: By the invariants of `Attachment`, and it is mapped so.
        unsafe { mp_bindings::sgtable_sync_for_cpu(dev, table, direction) };
    });
    0
}

/// # Safety
///
/// As above.
unsafe extern "C" fn end_access(
    buf: *mut bindings::dma_buf,
    _direction: bindings::dma_data_direction,
) -> c_int {
    // SAFETY: As the caller promises.
    for_each_mapped(unsafe { exported(buf) }, |dev, table, direction| {
        // SAFETY: By the invariants of `Attachment`, and it is mapped so.
        unsafe { mp_bindings::sgtable_sync_for_device(dev, table, direction) };
    });
    0
}

/// Show a process what its area wants of a buffer.
///
/// # Errors
///
/// `EACCES` to execute, or to write what is only read; `EINVAL` if it is private, or beyond the end.
///
/// # Safety
///
/// `area` is that of an `mmap` callback, and was not changed; it keeps the buffer.
unsafe fn show(buffer: &dyn Buffer, area: *mut bindings::vm_area_struct) -> Result {
    // SAFETY: As the caller promises.
    let (new, first) = unsafe { (VmaNew::from_raw(area), (*area).vm_pgoff) };
    if new.flags() & flags::MAYSHARE == 0 {
        return Err(EINVAL);
    }
    new.try_clear_mayexec().map_err(|_| EACCES)?;
    if !buffer.is_writable() {
        new.try_clear_maywrite().map_err(|_| EACCES)?;
    }
    let start = new.start();
    let len = new.end() - start;
    let at = first.checked_mul(PAGE_SIZE).ok_or(EINVAL)?;
    if at.checked_add(len).is_none_or(|end| end > buffer.len()) {
        return Err(EINVAL);
    }
    // SAFETY: The area is being set up.
    unsafe { mp_bindings::vma_keep_single(area.cast()) };
    for_each_run(buffer, at, len, len, |place, phys, found| {
        let address = start + (place - at);
        // SAFETY: The addresses are the area's, and by the contract of `Buffer` a process may see
        // the memory, which stays as long as the area has the file.
        to_result(unsafe { mp_bindings::vma_show_run(area.cast(), address, phys, found) })
    })
}

/// # Safety
///
/// As above; `area` is being set up for a mapping of the file, which keeps it.
unsafe extern "C" fn mmap(
    buf: *mut bindings::dma_buf,
    area: *mut bindings::vm_area_struct,
) -> c_int {
    // SAFETY: As the caller promises.
    let exported = unsafe { exported(buf) };
    // SAFETY: As the caller promises; the file has the buffer.
    match unsafe { show(&*exported.buffer, area) } {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// # Safety
///
/// As above; it is the last callback, and there are no attachments and no mappings any more.
unsafe extern "C" fn release(buf: *mut bindings::dma_buf) {
    // SAFETY: `export` has put it there, and nobody uses it any more.
    drop(unsafe { KBox::<Exported>::from_raw((*buf).priv_.cast()) });
}
