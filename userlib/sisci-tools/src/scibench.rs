// SPDX-License-Identifier: MIT OR Apache-2.0

//! `scibench`: how fast the processor copies into a segment of another node, and out of it.

use crate::{
    failure::{Called, Failure, Outcome},
    mirror::{self, Mirror},
    options::{largest, size, Only, Pair, Rounds},
    output::Output,
    side::{start_sequence, Side},
    Tool,
};
use clap::{Parser, ValueEnum};
use mp_fabric::Device;
use sisci::{Library, Sequence};
use std::time::{Duration, Instant};
use vm_memory::VolatileSlice;

/// Where software emulates the memory management unit, pages whose numbers end alike evict each
/// other from a table: the own memory is shifted by so many bytes, so many times, and the best
/// rate counts.
const SHIFT: usize = 13 * 4096;
const SHIFTS: usize = 4;

/// Measures the rate of copies to another node and from it, by the processor.
#[derive(Parser, Clone, Debug)]
#[command(name = "scibench", version, after_help = "scibench(1) tells more.")]
pub struct Options {
    #[command(flatten)]
    pair: Pair,

    #[command(flatten)]
    rounds: Rounds,

    /// Bytes of a copy
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    #[arg(default_value = "64,1024,16384,65536")]
    sizes: Vec<usize>,

    #[command(flatten)]
    only: Only<Kind>,
}

/// A way to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Plain stores
    Write,
    /// The same, with a barrier after each copy
    Barrier,
    /// Copies that are looked after, whether they have arrived
    Memcpy,
    /// Loads
    Read,
}

impl Tool for Options {
    fn json(&self) -> bool {
        self.pair.local.json
    }

    fn run<D: Device>(&self, library: &Library<D>, out: &mut Output<'_>) -> Outcome {
        Side::on(library, &self.pair, |side| self.measure(side, out))
    }
}

impl Options {
    fn measure<D: Device>(&self, side: &Side<'_, D>, out: &mut Output<'_>) -> Outcome {
        let room = largest(&self.sizes);
        if self.pair.is_server() {
            return mirror::serve(side, room);
        }
        let mut mirror = Mirror::open(side, room)?;
        let sequence = start_sequence(&mirror.map)?;
        let mut memory = vec![0_u8; room.saturating_add((SHIFTS - 1) * SHIFT)];
        out.head_of_rates()?;
        for &size in &self.sizes {
            for (&kind, name) in self.only.kinds() {
                let mut copies = Copies {
                    mirror: &mut mirror,
                    sequence: &sequence,
                    kind,
                    rounds: self.rounds.rounds,
                };
                let time = copies.least_time(&mut memory, size)?;
                out.rate(&name, size, self.rounds.rounds, time)?;
            }
        }
        sequence.remove().called("SCIRemoveSequence")?;
        mirror.close()
    }
}

/// The same memory once more.
fn part<'a>(place: &'a VolatileSlice<'_>) -> Outcome<VolatileSlice<'a>> {
    let part = place.subslice(0, place.len());
    part.map_err(|error| Failure::Wrong(error.to_string()))
}

/// Copies of one kind.
struct Copies<'a, 'b, D: Device> {
    mirror: &'a mut Mirror<'b, D>,
    sequence: &'a Sequence<D>,
    kind: Kind,
    rounds: u32,
}

impl<D: Device> Copies<'_, '_, D> {
    /// The least time that all rounds have taken, of any of the places.
    fn least_time(&mut self, memory: &mut [u8], size: usize) -> Outcome<Duration> {
        let mut least = Duration::MAX;
        for shift in 0..SHIFTS {
            let place = memory.get_mut(shift * SHIFT..shift * SHIFT + size);
            let place = VolatileSlice::from(place.unwrap_or_default());
            let reads = self.kind == Kind::Read;
            self.mirror.fill(&place);
            if reads {
                // What is read has to be there.
                self.mirror
                    .map
                    .write(None, 0, part(&place)?)
                    .called("SCIMemWrite")?;
                place.copy_from(&vec![0_u8; size]);
            }
            let start = Instant::now();
            for _ in 0..self.rounds {
                self.copy(&place)?;
            }
            least = least.min(start.elapsed());
            match reads {
                true => self.mirror.look(&place)?,
                false => self.mirror.check(size)?,
            }
        }
        Ok(least)
    }

    fn copy(&self, place: &VolatileSlice<'_>) -> Outcome {
        let map = &self.mirror.map;
        let part = part(place)?;
        match self.kind {
            Kind::Write => map.write(None, 0, part).called("SCIMemWrite"),
            Kind::Barrier => {
                map.write(None, 0, part).called("SCIMemWrite")?;
                self.sequence.store_barrier();
                Ok(())
            }
            Kind::Memcpy => map.write(Some(self.sequence), 0, part).called("SCIMemCpy"),
            Kind::Read => map.read(None, 0, part).called("SCIMemCpy"),
        }
    }
}
