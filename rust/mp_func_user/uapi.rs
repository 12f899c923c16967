// SPDX-License-Identifier: GPL-2.0-only

//! What programs share with the device, generated from `uapi/linux/mp_fabric.h`.

#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub
)]

use kernel::ffi;
use pin_init::MaybeZeroable;

include!(concat!(
    env!("MP_OBJ"),
    "/rust/mp_func_user/uapi_generated.rs"
));
