// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a call comes to: a status, and what the function returns. Without success that is a value
//! of its own, which programs must not use (MC-GEN-1).

use crate::sys;
use mcapi::{Error, Result};
use mp_c_abi::Abi;

/// A status, and what the function returns if that is not [`Value::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    pub status: sys::mcapi_status_t,
    pub value: Option<T>,
}

impl<T> Answer<T> {
    /// Nothing has failed, and it is not complete.
    pub const PENDING: Self = Answer {
        status: sys::MCAPI_PENDING,
        value: None,
    };

    /// Everything was done.
    pub fn success(value: T) -> Self {
        Answer {
            status: sys::MCAPI_SUCCESS,
            value: Some(value),
        }
    }

    /// Whether the call has neither done nor begun what it should.
    pub fn is_error(&self) -> bool {
        !matches!(self.status, sys::MCAPI_SUCCESS | sys::MCAPI_PENDING)
    }
}

impl<T> From<Error> for Answer<T> {
    fn from(error: Error) -> Self {
        Answer {
            status: error.code(),
            value: None,
        }
    }
}

impl<T> From<Result<T>> for Answer<T> {
    fn from(result: Result<T>) -> Self {
        result.map_or_else(Answer::from, Answer::success)
    }
}

impl<T> From<Result<Answer<T>>> for Answer<T> {
    fn from(result: Result<Answer<T>>) -> Self {
        result.unwrap_or_else(Answer::from)
    }
}

/// What a function returns.
pub trait Value {
    /// What it returns without success.
    const NONE: Self;
}

impl Value for () {
    const NONE: Self = ();
}

macro_rules! values {
    ($($number:ty)*) => {$(
        impl Value for $number {
            const NONE: Self = 0;
        }
    )*};
}

values!(u8 u16 u32 u64);

/// A domain, a node or an index: 0 is one of them, all ones are none.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(pub u32);

impl Value for Number {
    const NONE: Self = Number(u32::MAX);
}

// SAFETY: The number, and transparent.
unsafe impl Abi<u32> for Number {
    fn to_c(self) -> u32 {
        self.0
    }
}
