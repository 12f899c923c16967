// SPDX-License-Identifier: GPL-2.0-only

//! Directories of read-only attributes in sysfs.
//!
//! C header: [`include/linux/kobject.h`](srctree/include/linux/kobject.h).

mod attributes;

pub use attributes::{
    Attributes,
    NoAttributes, //
};

use core::{
    fmt::Write,
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// The memory behind a directory, freed by the kobject's release function.
#[repr(C)]
struct Node<T: Attributes> {
    kobj: Opaque<bindings::kobject>,
    files: KVec<bindings::attribute>,
    data: Arc<T>,
}

/// A directory in sysfs; dropping it removes it with its files.
///
/// # Invariants
///
/// `kobj` is the kobject of a [`Node`], added to sysfs, and this handle owns the
/// reference that [`Directory::new`] created.
pub struct Directory {
    kobj: NonNull<bindings::kobject>,
}

// SAFETY: A kobject may be looked at and released from any thread.
unsafe impl Send for Directory {}
// SAFETY: A shared `Directory` gives access to its address only.
unsafe impl Sync for Directory {}

impl Directory {
    /// Create the directory `name` in `parent`, or in `/sys/kernel`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken, `ENOMEM`.
    pub fn new<T: Attributes>(
        name: &CStr,
        parent: Option<&Directory>,
        data: Arc<T>,
    ) -> Result<Self> {
        let names = data.names();
        let mut files = KVec::with_capacity(names.len(), GFP_KERNEL)?;
        for name in names {
            // Lockdep adds fields of its own.
            #[allow(clippy::needless_update)]
            let file = bindings::attribute {
                name: name.as_char_ptr(),
                mode: 0o444,
                ..Default::default()
            };
            files.push(file, GFP_KERNEL)?;
        }
        for file in &mut files {
            let file: *mut bindings::attribute = file;
            // SAFETY: `file` is valid, and no other thread knows it yet.
            unsafe { mp_bindings::sysfs_attr_init(file.cast()) };
        }
        let node = KBox::new(
            Node {
                kobj: Opaque::zeroed(),
                files,
                data,
            },
            GFP_KERNEL,
        )?;
        let node = KBox::into_raw(node);
        // SAFETY: `node` is valid; `kernel_kobj` is set early at boot and never changes.
        let (kobj, kernel_kobj) = unsafe { ((*node).kobj.get(), bindings::kernel_kobj) };
        let parent = parent.map_or(kernel_kobj, |p| p.kobj.as_ptr());
        // SAFETY: `kobj` is zeroed memory inside a node that lives until its release function
        // runs; the type's table is static; `name` is formatted by a constant format.
        let ret = unsafe {
            bindings::kobject_init_and_add(
                kobj,
                KobjType::<T>::TABLE,
                parent,
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        };
        // INVARIANT: The kobject was initialised; if it could not be added, dropping the handle
        // releases it all the same.
        let this = Self {
            // SAFETY: `kobj` points into `node`, hence is not null.
            kobj: unsafe { NonNull::new_unchecked(kobj) },
        };
        kernel::error::to_result(ret)?;
        // SAFETY: The node lives as long as `this`.
        for file in unsafe { &(*node).files } {
            // SAFETY: `kobj` is in sysfs; `file` lives as long as the node, and its files are
            // removed before that.
            kernel::error::to_result(unsafe {
                bindings::sysfs_create_file_ns(kobj, file, core::ptr::null())
            })?;
        }
        Ok(this)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // SAFETY: By the invariants the kobject is valid and we own a reference to it. After
        // `kobject_del()` no attribute is being shown any more.
        unsafe {
            bindings::kobject_del(self.kobj.as_ptr());
            bindings::kobject_put(self.kobj.as_ptr());
        }
    }
}

/// The kobject type of a [`Node`].
struct KobjType<T>(PhantomData<T>);

/// A table that may be shared between threads.
#[repr(transparent)]
struct Table<T>(T);

// SAFETY: The tables are constant and hold pointers to functions and constants only.
unsafe impl<T> Sync for Table<T> {}

impl<T: Attributes> KobjType<T> {
    const OPS: &'static Table<bindings::sysfs_ops> = &Table(bindings::sysfs_ops {
        show: Some(Self::show),
        store: None,
    });

    const TABLE: *const bindings::kobj_type = &bindings::kobj_type {
        release: Some(Self::release),
        sysfs_ops: &raw const Self::OPS.0,
        default_groups: core::ptr::null_mut(),
        child_ns_type: None,
        namespace: None,
        get_ownership: None,
    };

    /// # Safety
    ///
    /// Called by the driver core when the last reference to the kobject of a `Node<T>` is gone.
    unsafe extern "C" fn release(kobj: *mut bindings::kobject) {
        // SAFETY: `kobj` is the first field of a `Node<T>` that `Directory::new` leaked.
        drop(unsafe { KBox::from_raw(kobj.cast::<Node<T>>()) });
    }

    /// # Safety
    ///
    /// Called by sysfs for a file of a `Node<T>`'s kobject with a buffer of one page.
    unsafe extern "C" fn show(
        kobj: *mut bindings::kobject,
        attr: *mut bindings::attribute,
        buf: *mut kernel::ffi::c_char,
    ) -> isize {
        // SAFETY: `kobj` is the first field of a `Node<T>`, which outlives the call.
        let node = unsafe { &*kobj.cast::<Node<T>>() };
        // SAFETY: sysfs gives one page, which nobody else uses during the call.
        let buf = unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), PAGE_SIZE) };
        let Some(index) = node.files.iter().position(|f| core::ptr::eq(f, attr)) else {
            return EIO.to_errno() as isize;
        };
        let mut out = PageWriter { buf, len: 0 };
        match node.data.show(index, &mut out) {
            Ok(()) => out.len as isize,
            Err(_) => EIO.to_errno() as isize,
        }
    }
}

/// Collects text in a page; what does not fit is cut off.
struct PageWriter<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl Write for PageWriter<'_> {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let room = self.buf.get_mut(self.len..).unwrap_or_default();
        let n = s.len().min(room.len());
        for (to, from) in room.iter_mut().zip(s.bytes()) {
            *to = from;
        }
        self.len += n;
        Ok(())
    }
}
