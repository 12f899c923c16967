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
use mp_proto::link::WaitsFor;

include!(concat!(
    env!("MP_OBJ"),
    "/rust/mp_transport/uapi_generated.rs"
));

/// The numbers of [`WaitsFor`] are those that programs know.
const _: () = {
    let numbers = [
        MP_WAITS_REPAIR,
        MP_WAITS_NTB_LINK,
        MP_WAITS_MEMORY,
        MP_WAITS_MAILBOX,
        MP_WAITS_VERSION,
        MP_WAITS_ANSWER,
        MP_WAITS_WINDOW,
        MP_WAITS_HELLO,
        MP_WAITS_ECHO,
        MP_WAITS_PAUSE,
        MP_WAITS_IDENTITY,
        MP_WAITS_OTHER_ROOT,
        MP_WAITS_ENTRY,
        MP_WAITS_DOORBELL,
    ];
    let mut n = 0;
    while n < WaitsFor::ALL.len() {
        assert!(WaitsFor::ALL[n].number() == numbers[n]);
        n += 1;
    }
};
