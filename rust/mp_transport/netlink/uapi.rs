// SPDX-License-Identifier: GPL-2.0-only

//! Numbers of commands and attributes, generated from `uapi/linux/mp_netlink.h`.

#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    unreachable_pub
)]

use kernel::ffi;

include!(concat!(
    env!("MP_OBJ"),
    "/rust/mp_transport/uapi_generated.rs"
));
