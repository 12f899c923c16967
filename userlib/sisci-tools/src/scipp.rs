// SPDX-License-Identifier: MIT OR Apache-2.0

//! `scipp`: ping-pong over shared memory. Each node looks at its own segment all the time and
//! writes messages into that of the other one. A message ends with its number, which is written
//! once all else of it has left. Neither node makes a system call meanwhile.

use crate::{
    failure::{Called, Failure, Outcome},
    options::{largest, size, Pair, Rounds},
    output::Output,
    side::{check, map_remote, start_sequence, Side},
    Tool,
};
use clap::Parser;
use mp_fabric::Device;
use sisci::{flush_stores, Library, MapFlags, NewSegment};
use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use vm_memory::{VolatileMemory, VolatileSlice};

/// Bytes of a number.
const WORD: usize = 4;
/// The clock is read once for so many parts of all rounds, which are shorter than that.
const PARTS: u32 = 50;
/// And once for so many looks at memory: a second, or less.
const LOOKS: u32 = 1 << 22;

/// Measures the latency of messages to another node, by stores.
#[derive(Parser, Clone, Debug)]
#[command(name = "scipp", version, after_help = "scipp(1) tells more.")]
pub struct Options {
    #[command(flatten)]
    pair: Pair,

    #[command(flatten)]
    rounds: Rounds,

    /// Bytes of the messages, multiples of 4
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = words)]
    #[arg(default_value = "4,64,1024,8192")]
    sizes: Vec<usize>,
}

fn words(text: &str) -> Result<usize, String> {
    match size(text)? {
        size if size % WORD == 0 => Ok(size),
        _ => Err(format!("not a multiple of {WORD}")),
    }
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
        let (room, adapter) = (largest(&self.sizes), self.pair.adapter());
        let new = NewSegment {
            id: self.pair.own_id(),
            ..NewSegment::of(room)
        };
        let local = side.desc.create_segment(new);
        let local = local.called("SCICreateSegment")?;
        local.prepare(adapter).called("SCIPrepareSegment")?;
        let own = local.map(0, room, 0, MapFlags::empty());
        let own = own.called("SCIMapLocalSegment")?;
        let available = local.set_available(adapter);
        available.called("SCISetSegmentAvailable")?;

        let remote = side.connect_segment(self.pair.other_id())?;
        let other = map_remote(&remote, room)?;
        let sequence = start_sequence(&other)?;
        let played = own.with(|own| other.with(|other| self.play_all(side, own, other, out)));
        played
            .called("SCIMapLocalSegment")?
            .called("SCIMapRemoteSegment")??;
        check(&sequence)?;

        sequence.remove().called("SCIRemoveSequence")?;
        other.unmap().called("SCIUnmapSegment")?;
        remote.disconnect().called("SCIDisconnectSegment")?;
        own.unmap().called("SCIUnmapSegment")?;
        side.remove("SCIRemoveSegment", || local.remove(sisci::Removal::Unused))
    }
}

/// Where messages of one size come and go.
struct Court<'a> {
    /// The other node's memory for a message, except for its end.
    body: VolatileSlice<'a>,
    /// What is written there.
    data: Vec<u8>,
    /// The end of a message in the other node's memory.
    other: &'a AtomicU32,
    /// The start and the end of a message in this node's memory.
    own: [&'a AtomicU32; 2],
    patience: Duration,
}

impl<'a> Court<'a> {
    fn new(
        own: &'a VolatileSlice<'_>,
        other: &'a VolatileSlice<'_>,
        size: usize,
        patience: u32,
    ) -> Outcome<Self> {
        let outside = |_| Failure::Wrong("a size is larger than the segment".into());
        let last = size.saturating_sub(WORD);
        Ok(Court {
            body: other.subslice(0, last).map_err(outside)?,
            data: vec![0; last],
            other: other.get_atomic_ref(last).map_err(outside)?,
            own: [
                own.get_atomic_ref(0).map_err(outside)?,
                own.get_atomic_ref(last).map_err(outside)?,
            ],
            patience: Duration::from_millis(patience.into()),
        })
    }

    fn send(&mut self, number: u32) {
        if let Some(first) = self.data.first_chunk_mut() {
            *first = number.to_ne_bytes();
            self.body.copy_from(&self.data);
            flush_stores();
        }
        self.other.store(number, Ordering::Release);
        flush_stores();
    }

    fn await_message(&self, number: u32) -> Outcome {
        let [first, last] = self.own;
        let mut since = None;
        let mut looks = 0_u32;
        while last.load(Ordering::Acquire) != number {
            spin_loop();
            looks = looks.wrapping_add(1);
            if looks % LOOKS == 0
                && since.get_or_insert_with(Instant::now).elapsed() > self.patience
            {
                return Err(Failure::Silent);
            }
        }
        match first.load(Ordering::Relaxed) == number {
            true => Ok(()),
            false => Err(Failure::Wrong(
                "the end of a message has come before its beginning".into(),
            )),
        }
    }
}

impl Options {
    fn play_all<D: Device>(
        &self,
        side: &Side<'_, D>,
        own: VolatileSlice<'_>,
        other: VolatileSlice<'_>,
        out: &mut Output<'_>,
    ) -> Outcome {
        let server = side.options.is_server();
        if !server {
            out.head_of_times()?;
        }
        let mut number = 0;
        for &size in &self.sizes {
            let mut court = Court::new(&own, &other, size, self.pair.patience)?;
            let times = self.play(&mut court, &mut number)?;
            if !server {
                out.times("scipp", size, self.rounds.rounds, &times)?;
            }
        }
        Ok(())
    }

    /// Half a round trip, for each part.
    fn play(&self, court: &mut Court<'_>, number: &mut u32) -> Outcome<Vec<Duration>> {
        let rounds = u64::from(self.rounds.rounds);
        let parts = self.rounds.rounds.min(PARTS);
        let mut times = Vec::new();
        let mut done = 0;
        for part in 1..=u64::from(parts) {
            let end = rounds * part / u64::from(parts);
            let start = Instant::now();
            for _ in done..end {
                *number = number.wrapping_add(1);
                if self.pair.is_server() {
                    court.await_message(*number)?;
                    court.send(*number);
                } else {
                    court.send(*number);
                    court.await_message(*number)?;
                }
            }
            times.push(start.elapsed().div_f64((end - done) as f64 * 2.0));
            done = end;
        }
        Ok(times)
    }
}
