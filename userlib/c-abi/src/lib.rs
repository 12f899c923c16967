// SPDX-License-Identifier: MIT OR Apache-2.0

//! What every library needs that programs in C call: the edge between pointers and values.
//!
//! A library writes its functions in safe Rust, with the types of this crate for the caller's
//! memory, and lists them once with [`export!`]. The macro makes the function that C calls, and
//! compares its signature with the one that bindgen has generated from the header.
//!
//! | file | owns |
//! |---|---|
//! | `export` | [`export!`], and [`Abi`]: which types are passed alike |
//! | `memory` | memory of the caller: [`Out`], [`Room`], [`In`], [`Input`], [`Text`], [`Opaque`] |
//! | `guard` | [`guarded`]: no panic reaches C, `errno` stays as it is, and a thread is not cancelled |
//! | `nap` | [`Nap`]: a sleep in which it is |
//! | `table` | [`Objects`] by number; [`Table`]s of objects by handle |
//! | `process` | [`PerProcess`]: what a forked child does not share with its parent |
//!
//! It knows no API and no fabric: deadlines, and threads that handle no signals of the program, are
//! in `mp_fabric`, where Rust programs have them as well. Errors are the library's: this crate says
//! only what is wrong with a pointer ([`Null`]) or a handle ([`NoObject`], [`Full`]), and the
//! library says which of its statuses that is.
//!
//! # Examples
//! ```
//! use mp_c_abi::{export, guarded, Null, Out, Room};
//!
//! /// What bindgen generates from the header.
//! mod sys {
//!     extern "C" {
//!         pub fn demo_list(numbers: *mut u32, capacity: u32, actual: *mut u32) -> i32;
//!     }
//! }
//!
//! /// The status of a result; of a panic as well.
//! fn run(function: impl FnOnce(&str) -> Result<(), Null>) -> i32 {
//!     match guarded(|| function("the state of this process")) {
//!         Some(Ok(())) => 0,
//!         Some(Err(Null)) => -1,
//!         None => -2,
//!     }
//! }
//!
//! fn list(_process: &str, numbers: Room<u32>, actual: Out<u32>) -> Result<(), Null> {
//!     actual.required()?;
//!     numbers.required()?.fill(&[1, 2, 3]);
//!     actual.write(3);
//!     Ok(())
//! }
//!
//! export! {
//!     header = sys; run = run;
//!
//!     /// Lists numbers.
//!     demo_list(numbers: *mut u32, capacity: u32, actual: Out<u32>) -> i32
//!         = list([numbers; capacity], actual);
//! }
//!
//! let (mut numbers, mut actual) = ([0; 3], 0);
//! // SAFETY: There is room for three numbers, and for how many they are.
//! let status = unsafe { demo_list(numbers.as_mut_ptr(), 3, Out::new(&mut actual)) };
//! assert_eq!((status, numbers, actual), (0, [1, 2, 3], 3));
//! ```

mod export;
mod guard;
mod memory;
mod nap;
mod process;
mod table;
#[cfg(test)]
mod tests;

/// What [`export!`] needs to tell which call something is told of.
#[doc(hidden)]
pub mod diagnostics {
    pub use mp_log::init;
    pub use tracing;
}

pub use export::{Abi, Extent};
pub use guard::{caught, guarded, set_errno};
pub use memory::{In, Input, Null, Opaque, Out, Room, Text};
pub use nap::Nap;
pub use process::{Make, PerProcess};
pub use table::Objects;
#[cfg(target_pointer_width = "64")]
pub use table::{Full, Handle, NoObject, Table};
