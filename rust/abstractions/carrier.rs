// SPDX-License-Identifier: GPL-2.0-only

//! Files without a name that carry a value of a module from one process to another.
//!
//! A module has a `static` [`Kind`], which it [makes ready](Kind::start) once. [`Kind::make`] puts a value into a new file, for which the
//! calling process gets a descriptor; whoever has been given one finds the value by
//! [`Kind::find`]. The files cannot be read, written, mapped, or opened anew by `/proc`, and keep
//! their module loaded.
//!
//! C header: [`include/linux/anon_inodes.h`](srctree/include/linux/anon_inodes.h)

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::from_err_ptr,
    fs::file::{
        FileDescriptorReservation,
        LocalFile, //
    },
    fs::File,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        ArcBorrow,
        SetOnce, //
    }, //
};

/// What files of a kind carry.
///
/// It is dropped in process context, when the last descriptor has gone and nobody else has it;
/// that may sleep.
pub trait Carried: Send + Sync + 'static {
    /// How `/proc` names the files.
    const NAME: &'static CStr;
}

/// A kind of files; to be a `static`.
///
/// # Invariants
///
/// The private data of a file with these `operations` is a reference to a `T`, which is the file's
/// own until `release`. Only [`make`](Self::make) makes such files.
pub struct Kind<T: Carried> {
    operations: SetOnce<bindings::file_operations>,
    _carried: PhantomData<fn() -> T>,
}

// SAFETY: It is written once; the pointers in it are those of callbacks and of the module.
unsafe impl<T: Carried> Sync for Kind<T> {}

impl<T: Carried> Kind<T> {
    /// A kind of files of which there are none yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self {
            operations: SetOnce::new(),
            _carried: PhantomData,
        }
    }

    /// Let there be files, once in the life of `module`, in which it lies.
    pub fn start(&'static self, module: &'static ThisModule) {
        self.operations.populate(bindings::file_operations {
            owner: module.as_ptr(),
            release: Some(Self::release),
            ..pin_init::zeroed()
        });
    }

    /// A file that carries `value`. The calling process has a descriptor of it, closed by `exec`,
    /// once that is [installed](Carrier::install).
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has too many descriptors, `ENFILE` if the host has too many files,
    /// `ENOMEM`, `ENODEV` before the start.
    pub fn make(&'static self, value: Arc<T>) -> Result<Carrier> {
        let reserved = FileDescriptorReservation::get_unused_fd_flags(bindings::O_CLOEXEC)?;
        let operations = self.operations.as_ref().ok_or(ENODEV)?;
        let data = Arc::into_raw(value);
        // SAFETY: The name and the operations are static, and those of a module that is loaded;
        // the data is what they need.
        let file = from_err_ptr(unsafe {
            mp_bindings::anon_file(
                T::NAME.as_char_ptr(),
                core::ptr::from_ref(operations).cast(),
                data.cast_mut().cast(),
            )
        });
        let file = file.inspect_err(|_| {
            // SAFETY: There is no file that could have the reference.
            drop(unsafe { Arc::from_raw(data) });
        })?;
        let file = NonNull::new(file.cast::<File>()).ok_or(ENOMEM)?;
        Ok(Carrier {
            reserved,
            // SAFETY: The only reference to a new file, which nobody seeks in.
            file: unsafe { ARef::from_raw(file) },
        })
    }

    /// What is carried by the file that the calling process has under that descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF` if the descriptor is not open, `EINVAL` if it is of another file.
    pub fn find(&'static self, fd: i32) -> Result<Arc<T>> {
        let file = LocalFile::fget(fd as u32)?;
        // SAFETY: The file is valid, and its operations are not changed after it was opened.
        let (operations, data) = unsafe { ((*file.as_ptr()).f_op, (*file.as_ptr()).private_data) };
        let own = self.operations.as_ref();
        if !own.is_some_and(|own| core::ptr::eq(own, operations)) {
            return Err(EINVAL);
        }
        // SAFETY: By the invariants; the file is not released while there is `file`.
        let value = unsafe { ArcBorrow::<'_, T>::from_raw(data.cast_const().cast()) };
        Ok(value.into())
    }

    /// # Safety
    ///
    /// Called once, as the last callback of a file with the operations.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: By the invariants; nobody else uses the reference any more.
        drop(unsafe { Arc::<T>::from_raw((*file).private_data.cast_const().cast()) });
        0
    }
}

/// A file that the calling process does not have yet; dropping it releases the file.
pub struct Carrier {
    reserved: FileDescriptorReservation,
    file: ARef<File>,
}

impl Carrier {
    /// A file of another kind, and the descriptor that is reserved for it.
    pub(crate) fn of_file(reserved: FileDescriptorReservation, file: ARef<File>) -> Self {
        Self { reserved, file }
    }

    /// Its descriptor, once it is installed.
    pub fn number(&self) -> i32 {
        self.reserved.reserved_fd() as i32
    }

    /// Give the process its descriptor.
    pub fn install(self) {
        self.reserved.fd_install(self.file);
    }
}
