// SPDX-License-Identifier: MIT OR Apache-2.0

//! `sci_intr_bench`: ping-pong with interrupts. Each node waits for one of its own and triggers that
//! of the other.

use crate::{
    failure::{Called, Outcome},
    options::{Pair, Rounds},
    output::Output,
    side::Side,
    Tool,
};
use clap::Parser;
use mp_fabric::Device;
use sisci::{InterruptFlags, Library, LocalInterrupt, RemoteInterrupt, INFINITE};
use std::time::{Duration, Instant};

/// Measures the latency of interrupts to another node.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "sci_intr_bench",
    version,
    after_help = "sci_intr_bench(1) tells more."
)]
pub struct Options {
    #[command(flatten)]
    pair: Pair,

    #[command(flatten)]
    rounds: Rounds,
}

impl Tool for Options {
    fn json(&self) -> bool {
        self.pair.local.json
    }

    fn run<D: Device>(&self, library: &Library<D>, out: &mut Output<'_>) -> Outcome {
        Side::on(library, &self.pair, |side| self.play_on(side, out))
    }
}

impl Options {
    fn play_on<D: Device>(&self, side: &Side<'_, D>, out: &mut Output<'_>) -> Outcome {
        let (node, adapter) = (self.pair.node, self.pair.adapter());
        let flags = InterruptFlags {
            number: Some(self.pair.own_id()),
            ..InterruptFlags::default()
        };
        let local = side.desc.create_interrupt(adapter, flags);
        let local = local.called("SCICreateInterrupt")?;
        let other = self.pair.other_id();
        let remote = side.connect("SCIConnectInterrupt", other, || {
            side.desc
                .connect_interrupt(node, adapter, other, INFINITE, sisci::Triggers::Merged)
        })?;

        let rounds = 0..self.rounds.rounds;
        let times = rounds.map(|_| self.round(&local, &remote));
        let times = times.collect::<Outcome<Vec<Duration>>>()?;
        if !self.pair.is_server() {
            out.head_of_times()?;
            out.times("intr_bench", 0, self.rounds.rounds, &times)?;
        }

        remote.disconnect().called("SCIDisconnectInterrupt")?;
        side.remove("SCIRemoveInterrupt", || local.remove())
    }
}

impl Options {
    /// Half the time of a round trip.
    fn round<D: Device>(
        &self,
        local: &LocalInterrupt<D>,
        remote: &RemoteInterrupt<D>,
    ) -> Outcome<Duration> {
        let trigger = || remote.trigger().called("SCITriggerInterrupt");
        let start = Instant::now();
        if !self.pair.is_server() {
            trigger()?;
        }
        let waited = local.wait(self.pair.patience);
        waited.called("SCIWaitForInterrupt")?;
        if self.pair.is_server() {
            trigger()?;
        }
        Ok(start.elapsed() / 2)
    }
}
