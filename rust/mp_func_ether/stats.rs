// SPDX-License-Identifier: GPL-2.0-only

//! The counters of `ethtool -S`: what the interface's own do not tell.

use kernel::prelude::*;
use mp_transport::stats::Counter;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $text:literal,)*) => {
        /// What happened on the interface.
        #[derive(Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        impl Counters {
            /// The names, in the order of [`read`](Self::read).
            pub(crate) const NAMES: &'static [&'static CStr] = &[$($text),*];

            /// Write the values.
            pub(crate) fn read(&self, values: &mut [u64]) {
                let now = [$(self.$name.get()),*];
                for (to, from) in values.iter_mut().zip(now) {
                    *to = from;
                }
            }
        }
    };
}

counters! {
    /// Packets sent to all peers.
    tx_flooded: c"tx_flooded",
    /// Copies of such packets that were not sent since their peer made no room in time.
    tx_flood_dropped: c"tx_flood_dropped",
    /// Times that a full ring stopped a queue.
    tx_ring_full: c"tx_ring_full",
    /// Times that a byte limit stopped a queue.
    tx_byte_limit: c"tx_byte_limit",
    /// Packets dropped since their peer had left.
    tx_no_peer: c"tx_no_peer",
    /// Packets dropped for lack of memory.
    tx_no_memory: c"tx_no_memory",
    /// Packets dropped since a ring stayed full against all promises.
    tx_given_up: c"tx_given_up",
    /// Frames whose header contradicts the packet or itself.
    rx_malformed: c"rx_malformed",
    /// Frames of another version.
    rx_version: c"rx_version",
    /// Packets dropped for lack of memory.
    rx_no_memory: c"rx_no_memory",
    /// Packets that came while the interface was down.
    rx_while_down: c"rx_while_down",
    /// Addresses heard for the first time.
    fdb_learned: c"fdb_learned",
    /// Addresses heard behind another peer than before.
    fdb_moved: c"fdb_moved",
    /// Announcements of an address.
    rx_announced: c"rx_announced",
}
