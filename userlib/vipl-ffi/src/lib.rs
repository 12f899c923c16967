// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions of the VI Provider Library for programs in C: `libvipl.so`.
//!
//! So far this is what `vipl.h` declares.

#[cfg(target_pointer_width = "64")]
#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unused_imports,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod sys {
    include!("bindings.rs");
}
