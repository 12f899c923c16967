// SPDX-License-Identifier: MIT OR Apache-2.0

//! The 17 functions of PXImc 1.1 for programs in C: the vendor library `libpximc_ntb.so`, which
//! the Dispatcher loads, or a program links to directly.
//!
//! | file | owns |
//! |---|---|
//! | `ffi` | which function is exported by which name, and with which arguments |
//! | `functions` | what each function does, in the order in which it looks at things |
//! | `attributes` | which numbers and texts describe an interface or a window |
//! | `process` | the sessions of this process, which a forked child does not have |
//! | `status` | the numbers of what went wrong |
//!
//! Pointers, panics and what a forked child has are the crate `mp_c_abi`'s; everything below is in
//! the crate `pximc`. No lock is held while a call waits.

mod attributes;
mod ffi;
mod functions;
mod process;
mod status;
#[cfg(test)]
mod tests;

use pximc_header as sys;
