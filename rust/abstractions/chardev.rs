// SPDX-License-Identifier: GPL-2.0-only

//! Character devices whose open files are contexts.
//!
//! A module has a `static` [`Device`] of a type that implements [`File`], and keeps
//! the [`Registration`] as long as programs may open it. Each open file has a value
//! of that type, which lives until the file is released.
//!
//! The device is one of the misc class. Compared with the kernel crate's own
//! `miscdevice` there are polling, a callback for the end of the process whose file it
//! is, an address space of the device's own for mappings ([`vma`](crate::vma)) and a
//! mode; and a file keeps its module loaded.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/miscdevice.h`](srctree/include/linux/miscdevice.h)

use core::cell::UnsafeCell;

use kernel::{
    bindings,
    container_of,
    error::{
        to_result,
        VTABLE_DEFAULT_ERROR, //
    },
    fs,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Release, //
        },
        Arc,
        ArcBorrow, //
    },
    types::Opaque,
    uaccess::{
        UserPtr,
        UserSlice,
        UserSliceWriter, //
    }, //
};

use crate::{
    new_wait_queue,
    process::{
        ExitWatch,
        Owner,
        Table, //
    },
    vma::{
        AddressSpace,
        NewVma, //
    },
    wait::{
        Events,
        WaitQueue, //
    },
    worker::{
        new_worker,
        Work,
        Worker,
        Workqueue, //
    }, //
};

/// What a file is opened with.
pub struct Opening<'a, F: File> {
    /// What the device's files have in common.
    pub shared: ArcBorrow<'a, F::Shared>,
    /// The process that opens it, whose file it is.
    pub owner: &'a Arc<Owner>,
    /// Where to publish what programs may map.
    pub space: &'a Arc<AddressSpace>,
    /// Those who poll this file, to be woken when [`File::poll`] may say more than
    /// before. Others may sleep there as well.
    pub pollers: &'a Arc<WaitQueue>,
}

/// An open file.
///
/// All callbacks run in process context, may sleep, and may run in parallel for the
/// same file.
#[vtable]
pub trait File: Sized + Send + Sync + 'static {
    /// What the device's files have in common.
    type Shared: Send + Sync + 'static;

    /// Make the context of a file that the calling process opens.
    ///
    /// Must not wait for other opens of misc devices.
    ///
    /// # Errors
    ///
    /// The error is what the program gets; so below.
    fn open(opening: Opening<'_, Self>) -> Result<Arc<Self>>;

    /// Obey a command; `arg` points to its argument, if it has one.
    ///
    /// 32-bit programs come here as well ([`is_compat`](crate::process::is_compat)
    /// tells): the structures behind `arg` are the same for them.
    fn ioctl(this: ArcBorrow<'_, Self>, command: u32, arg: UserPtr) -> Result<c_int>;

    /// What the file is ready for. Who polls is on the queue [`Opening::pollers`] then,
    /// and comes back when that is woken.
    fn poll(_this: ArcBorrow<'_, Self>) -> Events {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Map something: attach `area` to what is published at its offset, after it has
    /// looked whose that is. The process's `mmap_lock` is held.
    fn mmap(_this: ArcBorrow<'_, Self>, _area: NewVma<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Give the program what it reads and return how many bytes; with `nonblock`
    /// without waiting for them, or `EAGAIN`.
    fn read(
        _this: ArcBorrow<'_, Self>,
        _to: &mut UserSliceWriter,
        _nonblock: bool,
    ) -> Result<usize> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The process that opened the file has ended, or the table that it was opened in has no
    /// descriptor of it any more. Other tables may have, and there may be areas that are mapped.
    /// May be told more than once, and by any task.
    fn abandoned(_this: ArcBorrow<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The last descriptor and the last mapping have gone. The context is dropped
    /// when nobody else has a reference to it.
    fn release(this: Arc<Self>) {
        drop(this);
    }
}

/// How a device appears in `/dev`.
#[derive(Clone, Copy)]
pub struct Options {
    /// Its name in sysfs.
    pub name: &'static CStr,
    /// The node's path below `/dev`, if that is not the name.
    pub node: Option<&'static CStr>,
    /// The node's permissions.
    pub mode: u16,
}

/// Not registered yet.
const FRESH: u32 = 0;
/// Being registered, or registered.
const TAKEN: u32 = 1;
/// Not registered any more, for good: open files refer to the callbacks.
const CLOSED: u32 = 2;

/// A device; to be a `static`.
///
/// # Invariants
///
/// Who has changed `state` from [`FRESH`] to [`TAKEN`] writes `misc`, `operations`
/// and `common`, before the device is registered; `operations` is not
/// written again, the others not before the device is unregistered.
/// While it is registered, `common` has a value.
pub struct Device<F: File> {
    state: Atomic<u32>,
    misc: Opaque<bindings::miscdevice>,
    operations: Opaque<bindings::file_operations>,
    common: UnsafeCell<Option<Common<F>>>,
}

struct Common<F: File> {
    shared: Arc<F::Shared>,
    space: Arc<AddressSpace>,
    /// Where the files of processes end: however many there are, and whatever that waits for.
    ends: Arc<Workqueue>,
}

// SAFETY: The invariants say who writes, and that nobody reads then; what is shared is `Sync`.
unsafe impl<F: File> Sync for Device<F> {}

impl<F: File> Device<F> {
    /// A device that is not registered yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self {
            state: Atomic::new(FRESH),
            misc: Opaque::uninit(),
            operations: Opaque::uninit(),
            common: UnsafeCell::new(None),
        }
    }

    /// Let programs open the device, once in the life of `module`, in which it lies.
    ///
    /// Nothing may fail after it in the module's `init`: a file that is open then keeps
    /// no module that does not come up.
    ///
    /// # Errors
    ///
    /// `EEXIST` if another device has the name, `EBUSY` if it was registered before or
    /// there are no minor numbers left, `ENOMEM`.
    pub fn register(
        &'static self,
        module: &'static ThisModule,
        options: Options,
        shared: Arc<F::Shared>,
    ) -> Result<Registration<F>> {
        let space = AddressSpace::new()?;
        let ends = Workqueue::new(options.name, 0)?;
        if self.state.cmpxchg(FRESH, TAKEN, Full).is_err() {
            return Err(EBUSY);
        }
        // INVARIANT: It was us who changed the state, and nothing is registered yet.
        // SAFETY: By the invariants nobody else reads or writes now.
        unsafe {
            self.common.get().write(Some(Common {
                shared,
                space,
                ends,
            }));
            self.operations.get().write(Calls::<F>::table(module));
            self.misc
                .get()
                .write(describe(options, self.operations.get()));
        }
        // SAFETY: The device is initialised and static; its callbacks belong to `module`, which
        // each open file keeps.
        let registered = to_result(unsafe { bindings::misc_register(self.misc.get()) });
        if let Err(error) = registered {
            self.close();
            return Err(error);
        }
        Ok(Registration { device: self })
    }

    /// Let go of what the files share. The device is not registered any more.
    fn close(&self) {
        // SAFETY: By the invariants `open`, which reads it, is not called any more, and only
        // who has registered the device comes here, once.
        drop(unsafe { (*self.common.get()).take() });
        self.state.store(CLOSED, Release);
    }

    /// What the files share; while the device is registered.
    ///
    /// # Safety
    ///
    /// The device is not unregistered before the end of the borrow.
    unsafe fn common(&self) -> Option<&Common<F>> {
        // SAFETY: By the invariants it is not written while the device is registered.
        unsafe { (*self.common.get()).as_ref() }
    }
}

/// The device as the misc class wants it described.
fn describe(
    options: Options,
    operations: *const bindings::file_operations,
) -> bindings::miscdevice {
    bindings::miscdevice {
        minor: bindings::MISC_DYNAMIC_MINOR as c_int,
        name: options.name.as_char_ptr(),
        fops: operations,
        nodename: options
            .node
            .map_or(core::ptr::null(), |node| node.as_char_ptr()),
        mode: options.mode,
        ..pin_init::zeroed()
    }
}

/// Let programs open a device; dropping it, which waits for opens under way, ends that.
/// Files that are open stay.
///
/// # Invariants
///
/// The device is registered.
pub struct Registration<F: File> {
    device: &'static Device<F>,
}

impl<F: File> Drop for Registration<F> {
    fn drop(&mut self) {
        // SAFETY: By the invariants the device is registered, and nobody else ends that. Opens
        // run under the lock that this takes.
        unsafe { bindings::misc_deregister(self.device.misc.get()) };
        self.device.close();
    }
}

/// The private data of a file.
struct Open<F: File> {
    context: Arc<F>,
    /// Where its owner has descriptors of it.
    table: Table,
    /// Tells the context of its owner's end: nobody closes the descriptors of a process
    /// that shares its table with another one.
    exit: Option<Pin<KBox<ExitWatch<Heir<F>>>>>,
    /// On which polls may stay until the file is released.
    pollers: Arc<WaitQueue>,
    /// Where the file's mappings lie.
    _space: Arc<AddressSpace>,
}

/// A context and the process whose it is.
struct Heir<F: File> {
    context: Arc<F>,
    owner: Arc<Owner>,
}

impl<F: File> Work for Heir<F> {
    fn run(&self) -> Option<u32> {
        if self.owner.is_over() {
            F::abandoned(self.context.as_arc_borrow());
        }
        None
    }
}

/// The callbacks of the files of a device.
///
/// In all of them but `open`, the private data of the file is an [`Open`]: misc devices
/// are opened by `open`, and only if it succeeds the others are called, up to
/// `release`, after which nothing is called any more.
struct Calls<F>(core::marker::PhantomData<F>);

impl<F: File> Calls<F> {
    fn table(module: &'static ThisModule) -> bindings::file_operations {
        bindings::file_operations {
            owner: module.as_ptr(),
            open: Some(Self::open),
            release: Some(Self::release),
            unlocked_ioctl: Some(Self::ioctl),
            // The same with the pointers of 32-bit programs.
            #[cfg(CONFIG_COMPAT)]
            compat_ioctl: bindings::compat_ptr_ioctl,
            poll: if F::HAS_POLL { Some(Self::poll) } else { None },
            mmap: if F::HAS_MMAP { Some(Self::mmap) } else { None },
            read: if F::HAS_READ { Some(Self::read) } else { None },
            flush: if F::HAS_ABANDONED {
                Some(Self::flush)
            } else {
                None
            },
            llseek: Some(bindings::noop_llseek),
            ..pin_init::zeroed()
        }
    }

    /// The private data of a file.
    ///
    /// # Safety
    ///
    /// `file` is a file of this device, opened and not released before the end of `'a`.
    unsafe fn data<'a>(file: *mut bindings::file) -> &'a Open<F> {
        // SAFETY: The private data is an `Open`, which lives until `release`.
        unsafe { &*(*file).private_data.cast_const().cast() }
    }

    /// The context of a file.
    ///
    /// # Safety
    ///
    /// As above.
    unsafe fn context<'a>(file: *mut bindings::file) -> ArcBorrow<'a, F> {
        // SAFETY: As the caller promises.
        unsafe { Self::data(file) }.context.as_arc_borrow()
    }

    /// The private data of a new file.
    fn make(common: &Common<F>) -> Result<KBox<Open<F>>> {
        let pollers = Arc::pin_init(new_wait_queue!("mp_file"), GFP_KERNEL_ACCOUNT)?;
        let owner = Arc::new(Owner::current()?, GFP_KERNEL_ACCOUNT)?;
        let context = F::open(Opening {
            shared: common.shared.as_arc_borrow(),
            owner: &owner,
            space: &common.space,
            pollers: &pollers,
        })?;
        let exit = match F::HAS_ABANDONED {
            true => Some(Self::watch(&context, &owner, &common.ends)?),
            false => None,
        };
        let open = Open {
            context,
            table: Table::current()?,
            exit,
            pollers,
            _space: common.space.clone(),
        };
        Ok(KBox::new(open, GFP_KERNEL_ACCOUNT)?)
    }

    /// Let the context of a new file be told of the end of its owner.
    fn watch(
        context: &Arc<F>,
        owner: &Arc<Owner>,
        ends: &Arc<Workqueue>,
    ) -> Result<Pin<KBox<ExitWatch<Heir<F>>>>> {
        let heir = Heir {
            context: context.clone(),
            owner: owner.clone(),
        };
        let heir = Arc::new(heir, GFP_KERNEL_ACCOUNT)?;
        let worker: Arc<Worker<_>> = new_worker!(in ends.clone(), heir)?;
        KBox::pin_init(ExitWatch::new(owner.clone(), worker), GFP_KERNEL_ACCOUNT)
    }

    /// # Safety
    ///
    /// Called by the misc class for a file of a `Device<F>`.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: Both are valid.
        let ret = unsafe { bindings::nonseekable_open(inode, file) };
        if ret != 0 {
            return ret;
        }
        // SAFETY: The misc class leaves a pointer to the device there, which is part of a
        // `Device<F>`.
        let device = unsafe {
            let misc: *mut Opaque<bindings::miscdevice> = (*file).private_data.cast();
            &*container_of!(misc, Device<F>, misc)
        };
        // SAFETY: The misc class unregisters no device during a call of `open`.
        let Some(common) = (unsafe { device.common() }) else {
            return ENODEV.to_errno();
        };
        match Self::make(common) {
            Ok(open) => {
                // SAFETY: The file is being opened; `release` undoes this before it drops `open`,
                // which has a reference to the space.
                unsafe {
                    common.space.adopt(file);
                    (*file).private_data = KBox::into_raw(open).cast();
                }
                0
            }
            Err(error) => error.to_errno(),
        }
    }

    /// # Safety
    ///
    /// Called once, as the last callback of a file of a `Device<F>`.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: Areas keep the file they map; so there is none any more.
        unsafe { AddressSpace::forget(file) };
        // SAFETY: `open` has put it there, and nobody else uses it any more.
        let open = unsafe { KBox::<Open<F>>::from_raw((*file).private_data.cast()) };
        let Open { context, exit, .. } = KBox::into_inner(open);
        // It has a reference to the context.
        drop(exit);
        F::release(context);
        0
    }

    /// # Safety
    ///
    /// `file` is an open file of a `Device<F>`; so below.
    unsafe extern "C" fn ioctl(file: *mut bindings::file, command: c_uint, arg: c_ulong) -> c_long {
        // SAFETY: As the caller promises.
        let this = unsafe { Self::context(file) };
        match F::ioctl(this, command, UserPtr::from_addr(arg)) {
            Ok(ret) => ret as c_long,
            Err(error) => error.to_errno() as c_long,
        }
    }

    /// # Safety
    ///
    /// As above; `table` is null or valid.
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) -> bindings::__poll_t {
        // SAFETY: As the caller promises.
        let open = unsafe { Self::data(file) };
        // SAFETY: The file and the queue are valid. A poll that stays on the queue keeps the file,
        // or is taken out before the file is released, as which the queue lives at least as long.
        unsafe { bindings::poll_wait(file, open.pollers.as_ptr(), table) };
        F::poll(open.context.as_arc_borrow()).bits()
    }

    /// # Safety
    ///
    /// As above; `area` is being set up for a mapping of the file.
    unsafe extern "C" fn mmap(
        file: *mut bindings::file,
        area: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: As the caller promises.
        let this = unsafe { Self::context(file) };
        // SAFETY: As the caller promises.
        let area = unsafe { NewVma::from_raw(area) };
        match F::mmap(this, area) {
            Ok(()) => 0,
            Err(error) => error.to_errno(),
        }
    }

    /// # Safety
    ///
    /// As above.
    unsafe extern "C" fn read(
        file: *mut bindings::file,
        to: *mut c_char,
        len: usize,
        _position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: As the caller promises.
        let this = unsafe { Self::context(file) };
        // SAFETY: The file is valid during the call, and its position is not in use.
        let flags = unsafe { fs::File::from_raw_file(file) }.flags();
        let nonblock = flags & fs::file::flags::O_NONBLOCK != 0;
        let mut to = UserSlice::new(UserPtr::from_ptr(to.cast()), len).writer();
        match F::read(this, &mut to, nonblock) {
            Ok(n) => n.min(len) as isize,
            Err(error) => error.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// As above.
    unsafe extern "C" fn flush(file: *mut bindings::file, table: bindings::fl_owner_t) -> c_int {
        // SAFETY: As the caller promises.
        let open = unsafe { Self::data(file) };
        // What is closed has left its table before.
        if open.table.is_left(table, file) {
            F::abandoned(open.context.as_arc_borrow());
        }
        0
    }
}
