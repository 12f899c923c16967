// SPDX-License-Identifier: GPL-2.0-only

//! What a link waits for: at its interface at any time, and in the log once it has taken long
//! ([`Patience`]).

use crate::{
    device::Shared,
    upper::Upper, //
};
use kernel::prelude::*;
use mp_kernel::time::monotonic_ns as now;
use mp_proto::link::{
    Patience,
    WaitsFor, //
};

const NS_PER_S: u64 = 1_000_000_000;

/// What is known of one link's waits.
pub(crate) struct Waits(Patience);

impl Waits {
    /// A link that waits for nothing yet.
    pub(crate) const fn new() -> Self {
        Self(Patience::new())
    }

    /// The link to peer `pidx` waits for this now.
    pub(crate) fn look(
        &mut self,
        shared: &Shared,
        pidx: u32,
        upper: &Upper,
        waits: Option<WaitsFor>,
    ) {
        let report = self.0.look(waits, now());
        upper.set_waits(waits.zip(self.0.since()));
        if let Some((waits, ns)) = report {
            dev_info!(
                shared.ntb(),
                "peer {}: {} for {} s: {}\n",
                pidx,
                match waits {
                    WaitsFor::Doorbell => "no doorbell",
                    _ => "no link",
                },
                ns / NS_PER_S,
                advice(waits)
            );
        }
    }
}

/// What to look at, for the user.
fn advice(waits: WaitsFor) -> &'static str {
    match waits {
        WaitsFor::Repair => "the bridge has failed",
        WaitsFor::NtbLink => "the bridge has no link: cable, power and driver of the peer",
        WaitsFor::Memory => "there is no inbound memory",
        WaitsFor::Mailbox => "its mailbox is empty: its pximc_ntb is not loaded",
        WaitsFor::Version => "it speaks other versions: load modules of the same release",
        WaitsFor::Answer => "its mailbox does not answer: what this host writes does not arrive",
        WaitsFor::Window => "its memory cannot be mapped",
        WaitsFor::Hello => "nothing of it arrives in memory: its window leads elsewhere",
        WaitsFor::Echo => "nothing arrives in its memory: this host's window leads elsewhere",
        WaitsFor::Pause => "it writes what cannot be",
        WaitsFor::Identity => "no host is the root processor: role=1 makes this host one",
        WaitsFor::OtherRoot => "it belongs to another root processor",
        WaitsFor::Entry => "it is not entered: its id belongs to another host, or memory is short",
        WaitsFor::Doorbell => "none has ever come over this bridge; frames wait for the heartbeat",
    }
}
