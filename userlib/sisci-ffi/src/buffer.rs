// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory of the caller. Whoever makes such a value vouches for the pointer; from then on it is
//! safe to use, because it is written only as far as it goes and never read as anything.

use mp_fabric::ProcessMemory;
use sisci::{Error, Result};
use std::{ffi::c_void, ptr, slice};
use vm_memory::VolatileSlice;

/// Where one value goes, or NULL.
#[derive(Debug)]
pub struct Output<T>(*mut T);

// Not derived: that would ask the same of the value.
impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Output<T> {}

impl<T: Copy> Output<T> {
    /// # Safety
    /// The pointer is NULL, or one may read and write a `T` there as long as the value exists.
    pub unsafe fn new(pointer: *mut T) -> Self {
        Output(pointer)
    }

    /// Refuses NULL.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`].
    pub fn required(self) -> Result<Self> {
        match self.0.is_null() {
            false => Ok(self),
            true => Err(Error::IllegalParameter),
        }
    }

    /// Writes the value, unless the pointer is NULL.
    pub fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: Promised to `new()`. Nobody promised that it is aligned.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// What is there.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: NULL.
    pub fn read(self) -> Result<T> {
        self.required()?;
        // SAFETY: Promised to `new()`; it is plain data of C.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

/// Bytes of the caller, for reading or writing.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    start: *mut u8,
    len: usize,
}

impl Bytes {
    /// # Safety
    /// The pointer is NULL, or so many bytes are there as long as the value exists, for reading;
    /// for writing as well if it is for a function that writes.
    pub unsafe fn new(start: *mut c_void, len: usize) -> Self {
        Bytes {
            start: start.cast(),
            len,
        }
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.len
    }

    /// The bytes, for a transfer that goes on when the function has returned.
    pub fn lent(&self) -> ProcessMemory<'_> {
        // SAFETY: Promised to `new()`; a program that starts a transfer keeps the memory until it
        // ends, and the transfer only reads.
        unsafe { ProcessMemory::new(self.start.expose_provenance(), self.len) }
    }

    /// Refuses NULL, unless there are no bytes.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`].
    pub fn required(self) -> Result<Self> {
        match self.start.is_null() && self.len > 0 {
            false => Ok(self),
            true => Err(Error::IllegalParameter),
        }
    }

    /// The bytes, which somebody else may change at the same time.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: NULL.
    pub fn volatile(&self) -> Result<VolatileSlice<'_>> {
        self.required()?;
        let start = match self.start.is_null() {
            false => self.start,
            true => ptr::dangling_mut(),
        };
        // SAFETY: Promised to `new()`; no reference to them is made.
        Ok(unsafe { VolatileSlice::new(start, self.len) })
    }

    /// A copy.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: NULL.
    pub fn copy(self) -> Result<Vec<u8>> {
        self.required()?;
        if self.len == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: Promised to `new()`.
        Ok(unsafe { slice::from_raw_parts(self.start, self.len) }.into())
    }

    /// Writes as many of the bytes as there is room for.
    pub fn fill(self, bytes: &[u8]) {
        let len = bytes.len().min(self.len);
        if len > 0 && !self.start.is_null() {
            // SAFETY: Promised to `new()`; the caller's memory is none of ours.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, len) }
        }
    }
}

/// An array of the caller that is read.
#[derive(Clone, Copy, Debug)]
pub struct Array<T> {
    start: *const T,
    len: usize,
}

impl<T: Copy> Array<T> {
    /// # Safety
    /// The pointer is NULL, or so many values can be read there as long as the value exists.
    pub unsafe fn new(start: *const T, len: usize) -> Self {
        Array { start, len }
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.len
    }

    /// A copy.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: NULL.
    pub fn copy(self) -> Result<Vec<T>> {
        if self.start.is_null() {
            return Err(Error::IllegalParameter);
        }
        // SAFETY: Promised to `new()`; nobody promised that they are aligned.
        let one = |index| unsafe { self.start.add(index).read_unaligned() };
        Ok((0..self.len).map(one).collect())
    }
}

/// The structure of a query, with the pointers in it.
#[derive(Clone, Copy, Debug)]
pub struct Query(*mut c_void);

impl Query {
    /// # Safety
    /// The pointer is NULL, or leads to the structure that belongs to the command of the query as
    /// long as the value exists; and so do the pointers in it to what its subcommand answers.
    pub unsafe fn new(structure: *mut c_void) -> Self {
        Query(structure)
    }

    /// Refuses NULL.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`].
    pub fn required(self) -> Result<Self> {
        match self.0.is_null() {
            false => Ok(self),
            true => Err(Error::IllegalParameter),
        }
    }

    /// The structure. The type is the one that belongs to the command.
    pub fn structure<T: Copy>(self) -> Output<T> {
        Output(self.0.cast())
    }

    /// Where a pointer in the structure leads to. The type is the one that the subcommand answers.
    pub fn answer<T: Copy>(self, pointer: *mut c_void) -> Output<T> {
        Output(pointer.cast())
    }

    /// The text that a pointer in the structure leads to, with room for so many bytes.
    pub fn text(self, start: *mut std::ffi::c_char, len: u32) -> Bytes {
        Bytes {
            start: start.cast(),
            len: len as usize,
        }
    }
}
