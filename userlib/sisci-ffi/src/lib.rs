// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions of SISCI for programs in C: `libsisci.so`.
//!
//! | file | owns |
//! |---|---|
//! | `ffi` | which function is exported by which names, and with which arguments; callbacks |
//! | `constants` | the exported objects with the numbers of flags, queries and the endless timeout |
//! | `functions`, `functions/` | what each function does, in the order in which it looks at things |
//! | `query` | `SCIQuery` |
//! | `process` | what this process has open, which a forked child does not have |
//!
//! Pointers, handles, panics and what a forked child has are the crate `mp_c_abi`'s; everything
//! below is in the crate `sisci`. No lock is held while a call waits or a callback runs.
//! Identifiers like SI-GEN-2 are those of `Documentation/conformance/sisci.md`.

mod constants;
mod ffi;
mod functions;
mod process;
mod query;
#[cfg(test)]
mod tests;

/// Numbers and signatures of `sisci_api.h`.
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
