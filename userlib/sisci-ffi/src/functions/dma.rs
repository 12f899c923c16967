// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues of transfers by DMA.

use super::{end, found, make, maker, only, wanted, Legal};
use crate::{process::Process, sys};
use mp_c_abi::{Handle, Input, Out};
use mp_fabric::{Device, ProcessMemory};
use sisci::{Direction, DmaQueue, DmaSource, DmaState, Error, Piece, Result};

/// `SCICreateDMAQueue`
pub fn create_dma_queue<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Out<Handle>,
    adapter: u32,
    entries: u32,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    only(flags, 0)?;
    make(&process.dma_queues, out, || {
        desc.create_dma_queue(adapter, entries)
    })
}

/// A queue, for a function that takes no flags.
fn queue<D: Device>(process: &Process<D>, queue: Handle, flags: u32) -> Result<DmaQueue<D>> {
    found(process, &process.dma_queues, queue, flags, 0)
}

/// `SCIRemoveDMAQueue`
pub fn remove_dma_queue<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    end(process, &process.dma_queues, handle, flags, |queue| {
        queue.remove()
    })
}

/// Runs the callback of a queue.
pub type DmaCallback = Box<dyn FnOnce(Handle, Result<()>) + Send>;

/// Where a transfer comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    Segment(Handle),
    Memory(ProcessMemory<'a>),
}

/// The pieces of a transfer.
#[derive(Clone, Copy, Debug)]
pub enum Pieces {
    One(Piece),
    Vector(Input<sys::dis_dma_vec_t>),
}

impl Pieces {
    fn list(self, entries: usize) -> Result<Vec<Piece>> {
        let vector = match self {
            Pieces::One(piece) => return Ok(vec![piece]),
            Pieces::Vector(vector) => vector,
        };
        if vector.is_empty() || vector.len() > entries {
            return Err(Error::MaxEntries);
        }
        let list = vector.copy().legal()?;
        if list.iter().any(|entry| entry.flags != 0) {
            return Err(Error::IllegalFlag);
        }
        let pieces = list.iter().map(|entry| Piece {
            local: entry.local_offset as usize,
            remote: entry.remote_offset as usize,
            size: entry.size as usize,
        });
        Ok(pieces.collect())
    }
}

/// `SCIStartDmaTransfer`, and what is common to the other two
pub fn start_dma<D: Device>(
    process: &Process<D>,
    handle: Handle,
    source: Source<'_>,
    remote: Handle,
    pieces: Pieces,
    callback: Option<DmaCallback>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let queue = process.dma_queues.get(handle).legal()?;
    let segment = match source {
        Source::Segment(segment) => Some(process.local_segments.get(segment).legal()?),
        Source::Memory(memory) if memory.start() == 0 && !memory.is_empty() => {
            return Err(Error::IllegalParameter);
        }
        Source::Memory(_) => None,
    };
    let remote = process.remote_segments.get(remote).legal()?;
    dma_flags(flags)?;
    let callback = wanted(flags, callback)?;
    let pieces = pieces.list(sisci::VECTOR_MAX as usize)?;
    let source = match (&segment, &source) {
        (Some(segment), _) => DmaSource::Segment(segment),
        (None, Source::Memory(memory)) => DmaSource::Memory(*memory),
        (None, Source::Segment(_)) => return Err(Error::IllegalParameter),
    };
    let callback = callback.map(|callback| {
        let run = move |status| callback(handle, status);
        Box::new(run) as Box<dyn FnOnce(Result<()>) + Send>
    });
    let waits = flags & sys::SCI_FLAG_DMA_WAIT != 0 && callback.is_none();
    let direction = match flags & sys::SCI_FLAG_DMA_READ {
        0 => Direction::Write,
        _ => Direction::Read,
    };
    queue.start(source, direction, &remote, &pieces, callback)?;
    match waits {
        true => queue.wait(sisci::INFINITE)?.status(),
        false => Ok(()),
    }
}

/// `SCIStartDmaTransferMem`
pub fn start_dma_from_memory<D: Device>(
    process: &Process<D>,
    queue: Handle,
    memory: ProcessMemory<'_>,
    segment: Handle,
    remote: usize,
    callback: Option<DmaCallback>,
    flags: u32,
) -> Result<()> {
    let (local, size) = (0, memory.len());
    let pieces = Pieces::One(Piece {
        local,
        remote,
        size,
    });
    let source = Source::Memory(memory);
    start_dma(process, queue, source, segment, pieces, callback, flags)
}

/// `SCIStartDmaTransferVec`
pub fn start_dma_of_vector<D: Device>(
    process: &Process<D>,
    queue: Handle,
    local: Handle,
    remote: Handle,
    vector: Input<sys::dis_dma_vec_t>,
    callback: Option<DmaCallback>,
    flags: u32,
) -> Result<()> {
    let (source, pieces) = (Source::Segment(local), Pieces::Vector(vector));
    start_dma(process, queue, source, remote, pieces, callback, flags)
}

/// Which ways of copying there are: that of the system, which is also the default one.
fn dma_flags(flags: u32) -> Result<()> {
    let modes = sys::SCI_FLAG_DMA_GLOBAL | sys::SCI_FLAG_DMA_SYSDMA | sys::SCI_FLAG_DMA_ADAPTER;
    let others = sys::SCI_FLAG_USE_CALLBACK
        | sys::SCI_FLAG_DMA_READ
        | sys::SCI_FLAG_DMA_WAIT
        | sys::SCI_FLAG_BROADCAST;
    only(flags, modes | others)?;
    if (flags & modes).count_ones() > 1 {
        return Err(Error::IllegalFlag);
    }
    if flags & sys::SCI_FLAG_BROADCAST != 0 {
        return Err(Error::NotSupported);
    }
    match flags & modes {
        0 | sys::SCI_FLAG_DMA_SYSDMA => Ok(()),
        _ => Err(Error::DmaNotAvailable),
    }
}

/// `SCIDMAQueueState`
pub fn dma_queue_state<D: Device>(process: &Process<D>, handle: Handle) -> Result<u32> {
    Ok(queue(process, handle, 0)?.state()? as u32)
}

/// `SCIWaitForDMAQueue`
pub fn wait_for_dma_queue<D: Device>(
    process: &Process<D>,
    handle: Handle,
    timeout: u32,
    flags: u32,
) -> Result<u32> {
    let state: DmaState = queue(process, handle, flags)?.wait(timeout)?;
    Ok(state as u32)
}

/// `SCIAbortDMAQueue`
pub fn abort_dma_queue<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    queue(process, handle, flags)?.abort()
}
