// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers, types and signatures of `pximc.h`, by their names there. The vendor library and the
//! Dispatcher both serve them; this crate has no functions of its own.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::all
)]

include!("bindings.rs");
