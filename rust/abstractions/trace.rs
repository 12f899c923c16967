// SPDX-License-Identifier: GPL-2.0-only

//! Tracepoints of the fabric: the events of `/sys/kernel/tracing/events/mp`.
//!
//! One that is off costs a branch that is patched out, or a load and a branch on
//! kernels without static keys; what it would tell is put together only if it is on.
//!
//! The events are defined in `rust/bindings/trace/mp.h`.

use kernel::{
    jump_label::static_branch_unlikely,
    prelude::*, //
};

/// What is told of a frame.
pub struct Frame {
    /// Id of the host that it comes from.
    pub src: u32,
    /// Id of the host that it goes to.
    pub dst: u32,
    /// Id of the function service.
    pub func: u32,
    /// Data bytes, without any header.
    pub len: u32,
    /// The queue at the link.
    pub queue: u16,
    /// Whether it is a priority frame.
    pub priority: bool,
}

macro_rules! frame_events {
    ($($(#[$doc:meta])* $name:ident $key:ident $fire:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(describe: impl FnOnce() -> Frame) {
            // SAFETY: The tracepoint is a static of the kind that the macro wants.
            #[cfg(CONFIG_TRACEPOINTS)]
            if unsafe {
                static_branch_unlikely!(mp_bindings::$key, kernel::bindings::tracepoint, key)
            } {
                let Frame { src, dst, func, len, queue, priority } = describe();
                // SAFETY: The arguments are values; any context is allowed.
                unsafe { mp_bindings::$fire(src, dst, func, len, queue.into(), priority) };
            }
            #[cfg(not(CONFIG_TRACEPOINTS))]
            let _ = describe;
        }
    )*};
}

frame_events! {
    /// A frame was put into a ring, or handed to the local host.
    frame_send __tracepoint_mp_frame_send rust_do_trace_mp_frame_send;
    /// A frame has arrived for a function of this host.
    frame_receive __tracepoint_mp_frame_receive rust_do_trace_mp_frame_receive;
    /// A frame has met a full ring; its sender still has it.
    ring_full __tracepoint_mp_ring_full rust_do_trace_mp_ring_full;
}

/// A link has come up or gone down, for that reason; `port` is the peer's place
/// among those at the bridge.
pub fn link_state(bridge: u32, port: u32, up: bool, reason: &CStr) {
    // SAFETY: The tracepoint is a static of the kind that the macro wants.
    #[cfg(CONFIG_TRACEPOINTS)]
    if unsafe {
        static_branch_unlikely!(
            mp_bindings::__tracepoint_mp_link_state,
            kernel::bindings::tracepoint,
            key
        )
    } {
        // SAFETY: The text ends with a zero and is copied.
        unsafe {
            mp_bindings::rust_do_trace_mp_link_state(bridge, port, up, reason.as_char_ptr());
        }
    }
    #[cfg(not(CONFIG_TRACEPOINTS))]
    let _ = (bridge, port, up, reason);
}
