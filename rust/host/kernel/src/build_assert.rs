// SPDX-License-Identifier: GPL-2.0-only

//! Assertions that the compiler checks.

/// As of the kernel.
#[macro_export]
macro_rules! static_assert {
    ($condition:expr $(, $($arg:tt)+)?) => {
        const _: () = ::core::assert!($condition $(, $($arg)+)?);
    };
}

/// As of the kernel, but checked when it is reached: here nothing is optimised away for it.
#[macro_export]
macro_rules! build_assert {
    ($condition:expr $(, $($arg:tt)+)?) => {
        ::core::assert!($condition $(, $($arg)+)?)
    };
}

/// As [`build_assert!`].
#[macro_export]
macro_rules! build_error {
    ($($arg:tt)*) => {
        ::core::panic!($($arg)*)
    };
}

/// As of the kernel: checked for each instance of what it stands in.
#[macro_export]
macro_rules! const_assert {
    ($condition:expr $(, $($arg:tt)+)?) => {
        const { ::core::assert!($condition $(, $($arg)+)?) }
    };
}

pub use build_assert;
pub use build_error;
pub use const_assert;
pub use static_assert;
