// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which error it is that a pointer is NULL, or that a handle leads nowhere.

use mp_c_abi::{Full, NoObject, Null};
use sisci::{Error, Result};

/// What was looked for in an argument of C.
pub trait Legal<T> {
    /// It, or the error that SISCI has for what is there in its place.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: NULL where something has to be, or no handle.
    /// [`Error::IllegalOperation`]: the object is the parent process's.
    /// [`Error::ApiNoSpace`]: there are too many objects.
    fn legal(self) -> Result<T>;
}

impl<T> Legal<T> for std::result::Result<T, Null> {
    fn legal(self) -> Result<T> {
        self.map_err(|Null| Error::IllegalParameter)
    }
}

impl<T> Legal<T> for std::result::Result<T, NoObject> {
    fn legal(self) -> Result<T> {
        self.map_err(|error| match error {
            NoObject::Unknown => Error::IllegalParameter,
            NoObject::Inherited => Error::IllegalOperation,
        })
    }
}

impl<T> Legal<T> for std::result::Result<T, Full> {
    fn legal(self) -> Result<T> {
        self.map_err(|Full| Error::ApiNoSpace)
    }
}
