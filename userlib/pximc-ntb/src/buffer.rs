// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory of the caller. Whoever makes such a value vouches for the pointer; from then on it is
//! safe to use, because it is written only as far as it goes and never read as anything.

use crate::status::{Failure, Outcome, INVALID_ARGUMENT};
use pximc::WINDOW_DATA_MAX;
use std::{ptr, slice};

/// Where one value goes, or NULL.
#[derive(Debug)]
pub struct Output<T>(*mut T);

impl<T> Output<T> {
    /// # Safety
    /// The pointer is NULL, or one may write a `T` there as long as the value exists.
    pub unsafe fn new(pointer: *mut T) -> Self {
        Output(pointer)
    }

    /// Refuses NULL.
    pub fn required(&self) -> Outcome {
        match self.0.is_null() {
            false => Ok(()),
            true => Err(INVALID_ARGUMENT),
        }
    }

    /// Writes the value, unless the pointer is NULL.
    pub fn write(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: Promised to `new()`. Nobody promised that it is aligned.
            unsafe { self.0.write_unaligned(value) }
        }
    }
}

/// Where several elements go.
#[derive(Debug)]
pub struct Buffer<T> {
    start: *mut T,
    /// In elements.
    capacity: u32,
}

impl<T: Copy> Buffer<T> {
    /// # Safety
    /// The pointer is NULL, or one may write so many elements there as long as the value exists.
    pub unsafe fn new(start: *mut T, capacity: u32) -> Self {
        Buffer { start, capacity }
    }

    /// Refuses NULL, unless nothing could be written.
    pub fn required(&self) -> Outcome {
        match self.start.is_null() && self.capacity > 0 {
            false => Ok(()),
            true => Err(INVALID_ARGUMENT),
        }
    }

    /// Writes all elements and how many they are; or, if there is no room for them, only how many
    /// they are. A buffer that is to hold elements has to be aligned.
    ///
    /// # Errors
    /// In this order: no room, no alignment.
    pub fn fill(&self, elements: &[T], alignment: usize, actual: &Output<u32>) -> Outcome {
        // All lists are far shorter; one that is not would not fit.
        let count = u32::try_from(elements.len()).unwrap_or(u32::MAX);
        if count > self.capacity {
            actual.write(count);
            return Err(Failure::InsufficientSpace);
        }
        self.required()?;
        if count > 0 && self.start.addr() % alignment != 0 {
            return Err(Failure::Alignment);
        }
        if count > 0 {
            let len = size_of_val(elements);
            // SAFETY: There is room for the elements, as promised to `new()`; as bytes, because
            // nobody promised alignment. The caller's memory is none of ours.
            unsafe {
                ptr::copy_nonoverlapping(elements.as_ptr().cast::<u8>(), self.start.cast(), len)
            }
        }
        actual.write(count);
        Ok(())
    }
}

/// Data of the caller.
#[derive(Debug)]
pub struct Input {
    start: *const u8,
    size: u32,
}

impl Input {
    /// # Safety
    /// The pointer is NULL, or so many bytes can be read there as long as the value exists, unless
    /// they are more than window data may have.
    pub unsafe fn new(start: *const u8, size: u32) -> Self {
        Input { start, size }
    }

    /// A copy of the data.
    ///
    /// # Errors
    /// They are too long for window data, or missing.
    pub fn read(&self) -> Result<Vec<u8>, Failure> {
        let size = self.size as usize;
        match size {
            0 => Ok(Vec::new()),
            1..=WINDOW_DATA_MAX if !self.start.is_null() => {
                // SAFETY: Promised to `new()`.
                Ok(unsafe { slice::from_raw_parts(self.start, size) }.into())
            }
            _ => Err(INVALID_ARGUMENT),
        }
    }
}
