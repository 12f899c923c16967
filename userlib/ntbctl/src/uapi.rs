// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers of commands and attributes, generated from `uapi/linux/mp_netlink.h`.

#![allow(dead_code, missing_docs, non_camel_case_types, clippy::all)]

include!("bindings.rs");
