// SPDX-License-Identifier: GPL-2.0-only

//! The kernel crate on the host.
//!
//! What has no kernel below it is the kernel's own source: allocation with boxes and vectors,
//! reference counts, atomics, RCU guards, condition variables, errors, strings, initialisers. It
//! calls `bindings`, whose functions are stand-ins on a [`machine`]. Files that lie here stand in
//! for those of the kernel that would be of no use or too large:
//!
//! * [`build_assert`], [`device`], [`jump_label`], [`page`], [`prelude`], [`task`], [`time`]: small parts of
//!   the kernel's.
//! * [`sync`]: the same list of modules; [`sync::lock`] finds locks that are statics on each host.
//! * [`module`]: modules are loaded and unloaded by calls; [`module_param`]: parameters are
//!   set for each host.
//! * [`print`]: what is printed stays with the host.
//! * [`kunit`]: what a test makes of the result of a case.

#![feature(derive_coerce_pointee)]
#![allow(clippy::disallowed_names)]

extern crate self as kernel;

pub use bindings;
pub use ffi;
pub use machine;
// The kernel's files name it by this crate.
#[allow(clippy::single_component_path_imports)]
pub(crate) use macros;

#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod alloc;
pub mod build_assert;
pub mod device;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod error;
#[allow(warnings, clippy::all)]
pub mod fmt;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod init;
pub mod jump_label;
pub mod kunit;
pub mod module;
pub mod module_param;
pub mod page;
pub mod prelude;
pub mod print;
#[allow(warnings, clippy::all)]
pub mod processor;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod str;
pub mod sync;
pub mod task;
pub mod time;
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod types;

pub use module::{
    InPlaceModule,
    Module,
    ThisModule, //
};

/// As of the kernel: the structure that has a field at this address.
#[macro_export]
macro_rules! container_of {
    ($field_ptr:expr, $Container:ty, $($fields:tt)*) => {{
        let offset: usize = ::core::mem::offset_of!($Container, $($fields)*);
        let field_ptr = $field_ptr;
        field_ptr.byte_sub(offset).cast::<$Container>()
    }}
}
