// SPDX-License-Identifier: MIT OR Apache-2.0

//! The structures and numbers of the character device, generated from
//! `uapi/linux/mp_fabric.h`, which explains them. For those who implement
//! [`Device`](crate::Device); everybody else finds types with names in this crate.

#![allow(missing_docs, non_camel_case_types, clippy::all)]

include!("bindings.rs");
