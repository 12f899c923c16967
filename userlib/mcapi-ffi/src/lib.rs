// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions of MCAPI 2.000 for programs in C: `libmcapi.so`.
//!
//! | file | owns |
//! |---|---|
//! | `ffi` | which functions are exported, and with which arguments |
//! | `functions`, `functions/` | what each function does, in the order in which it looks at things |
//! | `answer` | statuses, and what functions return without success |
//! | `operations` | requests of the program, and where their results go |
//! | `structures` | structures of C, made of values of the crate `mcapi` and the other way round |
//! | `sent` | addresses of packets that were sent |
//! | `process` | the node that this process is, which a forked child is not |
//!
//! Pointers, panics and what a forked child has are the crate `mp_c_abi`'s; everything below is in
//! the crate `mcapi`. Identifiers like MC-GEN-4 are those of `Documentation/conformance/mcapi.md`.

#![cfg(target_pointer_width = "64")]

mod answer;
mod ffi;
mod functions;
mod operations;
mod process;
mod sent;
mod structures;
#[cfg(test)]
mod tests;

/// Numbers and signatures of `mcapi.h` and `mcapi_abb.h`.
mod sys {
    #![allow(
        dead_code,
        missing_docs,
        non_camel_case_types,
        non_snake_case,
        non_upper_case_globals,
        unused_imports,
        clippy::all,
        clippy::undocumented_unsafe_blocks
    )]

    include!("bindings.rs");
}
