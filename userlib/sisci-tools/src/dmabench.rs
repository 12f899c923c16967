// SPDX-License-Identifier: MIT OR Apache-2.0

//! `sci_dmabench`: how fast a DMA queue copies into a segment of another node.

use crate::{
    failure::{Called, Failure, Outcome},
    mirror::{self, Mirror},
    options::{largest, size, Only, Pair, Rounds},
    output::Output,
    side::Side,
    Tool,
};
use clap::{Parser, ValueEnum};
use mp_fabric::Device;
use sisci::{
    Direction, DmaQueue, DmaSource, DmaState, Error, Library, LocalSegment, Map, MapFlags,
    NewSegment, Piece, VECTOR_MAX,
};
use std::time::Instant;
use vm_memory::VolatileSlice;

/// Measures the rate of copies to another node, by DMA.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "sci_dmabench",
    version,
    after_help = "sci_dmabench(1) tells more."
)]
pub struct Options {
    #[command(flatten)]
    pair: Pair,

    #[command(flatten)]
    rounds: Rounds,

    /// Bytes of a copy
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    #[arg(default_value = "4096,65536,262144")]
    sizes: Vec<usize>,

    /// Entries of a vector
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(VECTOR_MAX)))]
    pieces: u32,

    #[command(flatten)]
    only: Only<Kind>,
}

/// What is copied, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A segment of this node in one piece
    Dma,
    /// The same in many pieces
    Vector,
    /// The same many times over by one start
    Series,
    /// Memory of the program
    Memory,
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
        let mut source = Source::open(side, room)?;
        let queue = side
            .desc
            .create_dma_queue(self.pair.adapter(), self.pieces)
            .called("SCICreateDMAQueue")?;
        out.head_of_rates()?;
        for &size in &self.sizes {
            for (&kind, name) in self.only.kinds() {
                source.fill(&mut mirror, kind, size)?;
                let pieces = self.pieces(kind, size);
                let start = Instant::now();
                for _ in 0..self.rounds.rounds {
                    self.copy(&mirror, &source, &queue, kind, &pieces)?;
                }
                let times = if kind == Kind::Series { self.pieces } else { 1 };
                out.rate(&name, size, self.rounds.rounds, start.elapsed() / times)?;
                mirror.check(size)?;
            }
        }
        queue.remove().called("SCIRemoveDMAQueue")?;
        mirror.close()?;
        source.close()
    }
}

/// Where copies come from.
struct Source<D: Device> {
    segment: LocalSegment<D>,
    map: Map<D>,
    memory: mp_fabric::Map,
}

impl<D: Device> Source<D> {
    fn open(side: &Side<'_, D>, size: usize) -> Outcome<Self> {
        let new = NewSegment {
            private: true,
            ..NewSegment::of(size)
        };
        let segment = side.desc.create_segment(new);
        let segment = segment.called("SCICreateSegment")?;
        let prepared = segment.prepare(side.options.adapter());
        prepared.called("SCIPrepareSegment")?;
        let map = segment.map(0, size, 0, MapFlags::empty());
        let memory = mp_fabric::Map::allocate(size);
        Ok(Source {
            map: map.called("SCIMapLocalSegment")?,
            segment,
            memory: memory.map_err(|error| Failure::Wrong(error.to_string()))?,
        })
    }

    fn fill(&mut self, mirror: &mut Mirror<'_, D>, kind: Kind, size: usize) -> Outcome {
        let mut fill = |memory: VolatileSlice<'_>| match memory.subslice(0, size) {
            Ok(part) => {
                mirror.fill(&part);
                Ok(())
            }
            Err(error) => Err(Failure::Wrong(error.to_string())),
        };
        match kind {
            Kind::Memory => fill(self.memory.volatile()),
            Kind::Dma | Kind::Vector | Kind::Series => {
                self.map.with(fill).called("SCIMapLocalSegment")?
            }
        }
    }

    fn close(self) -> Outcome {
        self.map.unmap().called("SCIUnmapSegment")?;
        self.segment
            .remove(sisci::Removal::Unused)
            .called("SCIRemoveSegment")
    }
}

/// Cut a size into at most so many pieces.
fn cut(size: usize, pieces: u32) -> Vec<Piece> {
    let pieces = pieces as usize;
    let place = |number: usize| (size as u128 * number as u128 / pieces as u128) as usize;
    let pieces = (0..pieces).map(|number| (place(number), place(number + 1)));
    let pieces = pieces.filter(|(start, end)| start < end);
    let pieces = pieces.map(|(start, end)| Piece {
        local: start,
        remote: start,
        size: end - start,
    });
    pieces.collect()
}

impl Options {
    /// What one start copies.
    fn pieces(&self, kind: Kind, size: usize) -> Vec<Piece> {
        match kind {
            Kind::Dma | Kind::Memory => cut(size, 1),
            Kind::Vector => cut(size, self.pieces),
            Kind::Series => (0..self.pieces).flat_map(|_| cut(size, 1)).collect(),
        }
    }

    fn copy<D: Device>(
        &self,
        mirror: &Mirror<'_, D>,
        source: &Source<D>,
        queue: &DmaQueue<D>,
        kind: Kind,
        pieces: &[Piece],
    ) -> Outcome {
        let from = match kind {
            Kind::Memory => DmaSource::Memory(source.memory.memory()),
            Kind::Dma | Kind::Vector | Kind::Series => DmaSource::Segment(&source.segment),
        };
        let started = queue.start(from, Direction::Write, &mirror.segment, pieces, None);
        started.called(match kind {
            Kind::Dma => "SCIStartDmaTransfer",
            Kind::Vector | Kind::Series => "SCIStartDmaTransferVec",
            Kind::Memory => "SCIStartDmaTransferMem",
        })?;
        let ended = queue.wait(self.pair.patience);
        match ended.called("SCIWaitForDMAQueue")? {
            DmaState::Done => Ok(()),
            _ => Err(Failure::Call("SCIWaitForDMAQueue", Error::TransferFailed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_everything_without_a_gap() {
        for (size, pieces, expected) in [(100, 7, 7), (5, 7, 5), (5, 1, 1), (1 << 30, 256, 256)] {
            let cut = cut(size, pieces);
            assert_eq!(cut.len(), expected);
            let mut end = 0;
            for piece in cut {
                assert_eq!((piece.local, piece.remote), (end, end));
                end += piece.size;
            }
            assert_eq!(end, size);
        }
    }
}
