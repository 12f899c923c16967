// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions of the VI Provider Library for programs in C: `libvipl.so`.
//!
//! | file | owns |
//! |---|---|
//! | `ffi` | which functions are exported, and with which arguments; handlers |
//! | `functions`, `functions/` | what each function does, in the order in which it looks at things |
//! | `structures` | structures of C, made of values of the crate `vipl` and the other way round |
//! | `address` | addresses, whose length is in them |
//! | `process` | what this process has open, which a forked child does not have |
//!
//! Pointers, handles, panics and what a forked child has are the crate `mp_c_abi`'s; everything
//! below is in the crate `vipl`. No lock is held while a call waits or a handler runs. Identifiers
//! like VI-GEN-6 are those of `Documentation/conformance/via.md`.

#![cfg(target_pointer_width = "64")]

mod address;
mod ffi;
mod functions;
mod process;
mod structures;
#[cfg(test)]
mod tests;

/// Numbers and signatures of `vipl.h`.
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
