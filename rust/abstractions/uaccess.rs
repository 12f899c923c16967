// SPDX-License-Identifier: GPL-2.0-only

//! Structures of programs that may be older or younger than the kernel.
//!
//! A structure of the user interface grows at its end only, and zero means "as before"
//! in each new field. The caller says how large the structure is that it knows. Each
//! byte is read once.

use core::mem::{
    size_of,
    MaybeUninit, //
};

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    transmute::{
        AsBytes,
        FromBytes, //
    },
    uaccess::{
        UserPtr,
        UserSlice,
        UserSliceReader,
        UserSliceWriter, //
    }, //
};

/// A structure that may grow.
///
/// # Examples
///
/// ```
/// use kernel::transmute::{AsBytes, FromBytes};
/// use mp_kernel::uaccess::{self, Versioned};
///
/// #[repr(C)]
/// struct Query {
///     handle: u32,
///     flags: u32,
///     // Since the second version.
///     limit: u64,
/// }
///
/// // SAFETY: Numbers without padding, for which all bits will do.
/// unsafe impl FromBytes for Query {}
/// // SAFETY: As above.
/// unsafe impl AsBytes for Query {}
///
/// impl Versioned for Query {
///     const FIRST_SIZE: usize = 8;
/// }
///
/// fn ioctl(arg: UserPtr, size: usize) -> Result {
///     let query: Query = uaccess::read_versioned(arg, size)?;
///     uaccess::write_versioned(arg, size, &query)
/// }
/// ```
pub trait Versioned: FromBytes + AsBytes {
    /// Bytes of the first version that was ever published.
    const FIRST_SIZE: usize;
}

/// Read a structure of which the program knows `size` bytes: the rest is zero.
///
/// # Errors
///
/// `EINVAL` if it knows less than the first version, `E2BIG` if it knows and uses more
/// than this kernel does, or claims to know more than a page, `EFAULT` if it is not
/// there.
pub fn read_versioned<T: Versioned>(from: UserPtr, size: usize) -> Result<T> {
    check_size::<T>(size)?;
    let mut reader = UserSlice::new(from, size).reader();
    let mut value = zeroed::<T>();
    let known = size.min(size_of::<T>());
    let bytes = value.as_bytes_mut().get_mut(..known).ok_or(EINVAL)?;
    reader.read_slice(bytes)?;
    expect_zeroes(&mut reader)?;
    Ok(value)
}

/// Read a structure whose first field, of 32 bits, says how large the program thinks
/// that it is. Returns that size as well, for [`write_versioned`].
///
/// The field is what it was when the size was read, even if another thread of the
/// program has changed it since.
///
/// # Errors
///
/// As [`read_versioned`].
pub fn read_sized<T: Versioned>(from: UserPtr) -> Result<(T, usize)> {
    let size: u32 = UserSlice::new(from, size_of::<u32>()).reader().read()?;
    let mut value: T = read_versioned(from, size as usize)?;
    let field = value.as_bytes_mut().get_mut(..size_of::<u32>());
    field.ok_or(EINVAL)?.copy_from_slice(&size.to_ne_bytes());
    Ok((value, size as usize))
}

/// Write back what the program knows of a structure: its first `size` bytes.
///
/// # Errors
///
/// `EINVAL` and `E2BIG` for a size that cannot be read either, `EFAULT`.
pub fn write_versioned<T: Versioned>(to: UserPtr, size: usize, value: &T) -> Result {
    check_size::<T>(size)?;
    let known = size.min(size_of::<T>());
    let bytes = value.as_bytes().get(..known).ok_or(EINVAL)?;
    UserSlice::new(to, known).writer().write_slice(bytes)
}

/// Write an element of an array, of which the program knows `size` bytes: what the kernel does
/// not know of them is zero.
///
/// # Errors
///
/// As [`write_versioned`].
pub fn write_element<T: Versioned>(to: &mut UserSliceWriter, size: usize, value: &T) -> Result {
    check_size::<T>(size)?;
    let known = size.min(size_of::<T>());
    to.write_slice(value.as_bytes().get(..known).ok_or(EINVAL)?)?;
    let zeroes = [0; 64];
    let mut left = size - known;
    while left != 0 {
        let part = zeroes.get(..left.min(zeroes.len())).ok_or(EINVAL)?;
        to.write_slice(part)?;
        left -= part.len();
    }
    Ok(())
}

/// Whether a program can have that size of a structure in mind.
///
/// # Errors
///
/// `EINVAL` if it is less than that of the first version, `E2BIG` for more than a page.
pub fn check_size<T: Versioned>(size: usize) -> Result {
    const { assert!(T::FIRST_SIZE >= size_of::<u32>() && T::FIRST_SIZE <= size_of::<T>()) };
    if size < T::FIRST_SIZE {
        Err(EINVAL)
    } else if size > PAGE_SIZE {
        Err(E2BIG)
    } else {
        Ok(())
    }
}

/// A value of zeroes.
fn zeroed<T: FromBytes>() -> T {
    // SAFETY: All bytes will do for a `FromBytes`, and these are initialised.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// What this kernel does not know must be zero.
fn expect_zeroes(reader: &mut UserSliceReader) -> Result {
    let mut buffer = [0; 64];
    while !reader.is_empty() {
        let n = reader.len().min(buffer.len());
        let part = buffer.get_mut(..n).ok_or(EINVAL)?;
        reader.read_slice(part)?;
        if part.iter().any(|&byte| byte != 0) {
            return Err(E2BIG);
        }
    }
    Ok(())
}
