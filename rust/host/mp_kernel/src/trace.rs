// SPDX-License-Identifier: GPL-2.0-only

//! Events of the fabric, which nobody records on the host.

use kernel::prelude::*;

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
    ($($name:ident)*) => {$(
        /// An event of a frame; see the file that this one stands in for.
        #[inline]
        pub fn $name(_describe: impl FnOnce() -> Frame) {}
    )*};
}

frame_events!(frame_send frame_receive ring_full);

/// A link has come up or gone down.
pub fn link_state(_bridge: u32, _port: u32, _up: bool, _reason: &CStr) {}
