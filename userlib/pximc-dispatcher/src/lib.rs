// SPDX-License-Identifier: MIT OR Apache-2.0

//! The PXImc Dispatcher: `libpximc64.so` (for 32-bit processes, `libpximc32.so`).
//!
//! Programs are linked to it, and need not know whose bridges there are. It loads the libraries
//! of all vendors, lists their interfaces as one, and passes each call on to the library that it
//! is for. The rules are those of chapter 4 of the PXImc software specification; tests name them
//! as `PXI-DSP-n`.
//!
//! - [`dispatch`] has the maps and decides where a call goes; [`numbers`] keeps what different
//!   vendors number apart. Both are free of C and of `unsafe`.
//! - [`scan`] finds the libraries, [`library`] loads them.
//! - [`exports`] has the functions that C calls, and the one dispatcher of a process.
//!
//! It never looks into a window, never answers for a vendor, and holds no lock while it calls
//! one: calls may block, and may come back.

pub mod dispatch;
pub mod exports;
pub mod library;
pub mod numbers;
pub mod scan;
pub mod status;

/// Numbers of `pximc.h`, and its functions in a library that is loaded.
#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_debug_implementations
)]
mod sys {
    pub use pximc_header::*;

    include!("functions.rs");
}
