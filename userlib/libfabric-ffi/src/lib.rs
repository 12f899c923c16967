// SPDX-License-Identifier: MIT OR Apache-2.0

//! A provider of libfabric, by the name `mpfab`: `libmpfab-fi.so`, which libfabric loads from the
//! directories in `FI_PROVIDER_PATH`.
//!
//! | file | owns |
//! |---|---|
//! | `provider` | what libfabric finds: the entry, and opening a fabric |
//! | `info` | what the provider can do, and addresses |
//! | `core` | functions of libfabric itself: structures are its own, of its size |
//! | `tables` | endpoints and queues by number, and who is told of what |
//! | `objects` | structures of C with their tables of functions, for domains, regions and the like |
//! | `endpoint`, `queues` | the same for endpoints; for event and completion queues |
//!
//! One lock for each fabric that a program opens: any thread may call anything
//! (`FI_THREAD_SAFE`). What is moved is moved by threads that read queues (`FI_PROGRESS_MANUAL`).

#![cfg(target_pointer_width = "64")]

mod core;
mod endpoint;
mod info;
mod objects;
mod provider;
mod queues;
mod tables;

/// Structures and numbers of libfabric's headers.
mod sys {
    #![allow(
        dead_code,
        missing_docs,
        non_camel_case_types,
        non_snake_case,
        non_upper_case_globals,
        unsafe_op_in_unsafe_fn,
        unused_imports,
        clippy::all,
        clippy::ptr_as_ptr,
        clippy::as_underscore,
        clippy::undocumented_unsafe_blocks
    )]

    pub(crate) use libc::sockaddr_in;

    include!("bindings.rs");
}

/// What a function of C returns: the negative number of an error.
pub(crate) type Result<T = ()> = std::result::Result<T, i32>;

/// Do what a function of the provider does; a panic is an error.
pub(crate) fn run<T: From<i32>>(function: impl FnOnce() -> Result<T>) -> T {
    match mp_c_abi::guarded(function) {
        Some(Ok(value)) => value,
        Some(Err(error)) => T::from(-error),
        None => T::from(-libc::EIO),
    }
}

/// As [`run`], for functions that return only whether they have failed.
pub(crate) fn status(function: impl FnOnce() -> Result) -> i32 {
    run(|| function().map(|()| 0))
}

/// As [`run`], for functions that return a count.
pub(crate) fn count(function: impl FnOnce() -> Result<usize>) -> isize {
    match mp_c_abi::guarded(function) {
        Some(Ok(count)) => count.try_into().unwrap_or(isize::MAX),
        Some(Err(error)) => -(error as isize),
        None => -(libc::EIO as isize),
    }
}
