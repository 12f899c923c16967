// SPDX-License-Identifier: MIT OR Apache-2.0

//! DMA queues.

use super::segments::{pages, register};
use super::*;
use crate::functions::{
    abort_dma_queue, create_dma_queue, dma_queue_state, remove_dma_queue, start_dma,
    wait_for_dma_queue, DmaCallback, Pieces, Source,
};
use sisci::Piece;
use std::sync::mpsc;
use sys::*;

/// A queue of B, a prepared segment of it, and a mapped one of A.
struct Transfer {
    world: World,
    b: Arc<Program>,
    queue: Handle,
    local: Handle,
    from: usize,
    remote: Handle,
    map: Handle,
    to: usize,
}

const SIZE: usize = 8192;

fn new_queue(p: &Program, entries: u32) -> Result<Handle> {
    let desc = open(p);
    made(|out| create_dma_queue(p, desc, out, 0, entries, 0))
}

fn transfer() -> Transfer {
    let (world, a, b) = pair();
    let target = offered(&a, 7, SIZE);
    let (_, to) = map_local(&a, target, part(0, SIZE), 0).unwrap();
    let remote = connect(&b, A, 7).unwrap();
    let (map, _) = map_remote(&b, remote, part(0, SIZE), 0).unwrap();
    let local = create(&b, open(&b), 8, SIZE, SCI_FLAG_PRIVATE).unwrap();
    functions::prepare_segment(&b, local, 0, 0).unwrap();
    let (source, from) = map_local(&b, local, part(0, SIZE), 0).unwrap();
    assert_ne!(source, NONE);
    // What the exporter has stays as long as the world does.
    std::mem::forget(a);
    Transfer {
        queue: new_queue(&b, 64).unwrap(),
        world,
        b,
        local,
        from,
        remote,
        map,
        to,
    }
}

fn piece(local: usize, remote: usize, size: usize) -> Pieces {
    Pieces::One(Piece {
        local,
        remote,
        size,
    })
}

impl Transfer {
    fn start(&self, pieces: Pieces, flags: u32) -> Result<()> {
        let source = Source::Segment(self.local);
        start_dma(
            &self.b,
            self.queue,
            source,
            self.remote,
            pieces,
            None,
            flags,
        )
    }

    fn start_with(&self, callback: DmaCallback) -> Result<()> {
        let source = Source::Segment(self.local);
        let flags = SCI_FLAG_USE_CALLBACK;
        let (queue, pieces) = (self.queue, piece(0, 0, 64));
        start_dma(
            &self.b,
            queue,
            source,
            self.remote,
            pieces,
            Some(callback),
            flags,
        )
    }

    fn state(&self) -> u32 {
        dma_queue_state(&self.b, self.queue).unwrap()
    }

    fn wait(&self, timeout: u32) -> Result<u32> {
        wait_for_dma_queue(&self.b, self.queue, timeout, 0)
    }

    fn abort(&self) -> Result<()> {
        abort_dma_queue(&self.b, self.queue, 0)
    }

    fn remove(&self) -> Result<()> {
        remove_dma_queue(&self.b, self.queue, 0)
    }
}

/// SI-CRDMA-1, SI-CRDMA-2, SI-CRDMA-3
#[test]
fn a_new_queue_is_idle() {
    let (_world, a, _b) = pair();
    let (first, second) = (new_queue(&a, 1).unwrap(), new_queue(&a, 256).unwrap());
    for queue in [first, second] {
        assert_eq!(dma_queue_state(&a, queue), Ok(SCI_DMAQUEUE_IDLE));
        assert_eq!(remove_dma_queue(&a, queue, 0), Ok(()));
    }
    assert_eq!(new_queue(&a, 0), Err(Error::IllegalParameter));
    assert_eq!(new_queue(&a, 257), Err(Error::NoSpace));
}

/// SI-SDMA-1, SI-SDMA-2, SI-SDMA-9, SI-WDMA-1, SI-WDMA-2, SI-DMAST-1, SI-PREP-2
#[test]
fn a_transfer_is_complete_when_it_is_done() {
    let t = transfer();
    write(t.from + 100, 42);
    t.world.hold_queues();
    assert_eq!(t.start(piece(100, 200, 50), 0), Ok(()));
    assert_eq!(t.state(), SCI_DMAQUEUE_POSTED);
    assert_eq!(t.wait(20), Err(Error::Timeout));
    assert_eq!(read(t.to + 200), 0);
    t.world.release_queues();
    assert_eq!(t.wait(1000), Ok(SCI_DMAQUEUE_DONE));
    assert_eq!(read(t.to + 200), 42);
    assert_eq!(t.wait(0), Ok(SCI_DMAQUEUE_DONE));
    assert_eq!(t.state(), SCI_DMAQUEUE_DONE);
}

/// SI-DSM-1, SI-DSM-2, SI-DSM-3, SI-DSM-4, SI-RMDMA-1, SI-SDMA-4, SI-ABDMA-1, SI-ABDMA-2,
/// SI-WDMA-2: every cell of the table of states.
#[test]
fn each_state_has_its_operations() {
    let t = transfer();
    let illegal = Err(Error::IllegalOperation);
    assert_eq!(t.wait(0), Err(Error::IllegalOperation));
    assert_eq!(t.abort(), illegal);
    t.world.hold_queues();
    t.start(piece(0, 0, 64), 0).unwrap();
    assert_eq!(t.start(piece(0, 0, 64), 0), illegal);
    assert_eq!(t.remove(), illegal);
    assert_eq!(t.abort(), Ok(()));
    assert_eq!(t.state(), SCI_DMAQUEUE_ABORTED);
    assert_eq!(t.wait(0), Ok(SCI_DMAQUEUE_ABORTED));
    assert_eq!(t.abort(), Ok(()));
    t.start(piece(0, 0, 64), 0).unwrap();
    t.world.set_up(0, false);
    t.world.release_queues();
    assert_eq!(t.wait(1000), Ok(SCI_DMAQUEUE_ERROR));
    assert_eq!(t.abort(), Ok(()));
    t.world.set_up(0, true);
    t.start(piece(0, 0, 64), 0).unwrap();
    assert_eq!(t.state(), SCI_DMAQUEUE_DONE);
    assert_eq!(t.remove(), Ok(()));
    assert_eq!(t.remove(), Err(Error::IllegalParameter));
}

/// SI-ABDMA-3: nothing is written after an abort.
#[test]
fn an_aborted_transfer_writes_nothing() {
    let t = transfer();
    write(t.from, 9);
    t.world.hold_queues();
    t.start(piece(0, 0, 64), 0).unwrap();
    t.abort().unwrap();
    t.world.release_queues();
    assert_eq!(read(t.to), 0);
    assert_eq!(t.state(), SCI_DMAQUEUE_ABORTED);
}

/// SI-SDMA-3, SI-SDMA-8, SI-DSM-6, SI-RSM-7: what a start looks at, and that it changes nothing.
#[test]
fn a_transfer_that_cannot_be_is_refused() {
    let t = transfer();
    assert_eq!(t.start(piece(0, 0, SIZE), 0), Ok(()));
    let refused = |pieces, error| {
        assert_eq!(t.start(pieces, 0), Err(error));
        assert_eq!(t.state(), SCI_DMAQUEUE_DONE);
    };
    refused(piece(1, 0, SIZE), Error::OutOfRange);
    refused(piece(0, 1, SIZE), Error::OutOfRange);
    refused(piece(usize::MAX, 0, 2), Error::OutOfRange);
    refused(piece(0, 0, 0), Error::SizeAlignment);
    let raw = create(&t.b, open(&t.b), 9, SIZE, 0).unwrap();
    let source = Source::Segment(raw);
    let unprepared = start_dma(&t.b, t.queue, source, t.remote, piece(0, 0, 8), None, 0);
    assert_eq!(unprepared, Err(Error::SegmentNotPrepared));
    t.world.set_up(0, false);
    refused(piece(0, 0, 8), Error::SegmentNotConnected);
    t.world.set_up(0, true);
    functions::unmap_segment(&t.b, t.map, 0).unwrap();
    refused(piece(0, 0, 8), Error::IllegalOperation);
}

/// SI-SDMA-6, SI-SDMA-7, SI-NTB-16, SI-GEN-3
#[test]
fn modes_that_are_not_there_are_refused() {
    let t = transfer();
    let with = |flags| t.start(piece(0, 0, 64), flags);
    let both = SCI_FLAG_DMA_SYSDMA | SCI_FLAG_DMA_GLOBAL;
    assert_eq!(with(both), Err(Error::IllegalFlag));
    assert_eq!(with(SCI_FLAG_DMA_GLOBAL), Err(Error::DmaNotAvailable));
    assert_eq!(with(SCI_FLAG_DMA_ADAPTER), Err(Error::DmaNotAvailable));
    assert_eq!(with(SCI_FLAG_BROADCAST), Err(Error::NotSupported));
    assert_eq!(with(SCI_FLAG_DMA_SYSDMA), Ok(()));
}

/// SI-SDMA-2: the flag reverses the direction.
#[test]
fn a_transfer_reads_the_remote_segment() {
    let t = transfer();
    write(t.to + 200, 7);
    write(t.from + 100, 9);
    assert_eq!(t.start(piece(100, 200, 50), SCI_FLAG_DMA_READ), Ok(()));
    assert_eq!(t.wait(1000), Ok(SCI_DMAQUEUE_DONE));
    assert_eq!((read(t.from + 100), read(t.to + 200)), (7, 7));
    t.world.set_placed(false);
    let refused = t.start(piece(100, 200, 50), SCI_FLAG_DMA_READ);
    assert_eq!(refused, Err(Error::FlagNotImplemented));
}

/// SI-SDMA-2, SI-SDMAM-1, SI-SDMAM-3: memory of the program is read into, at any address, and
/// nothing beside it.
#[test]
fn a_transfer_reads_into_memory_of_the_program() {
    let t = transfer();
    (200..210).for_each(|at| write(t.to + at, 7));
    let mut data = vec![5; 64];
    let whole = lent(&mut data);
    // SAFETY: A part of the data, which live to the end of the test.
    let odd = unsafe { ProcessMemory::new(whole.start() + 1, 10) };
    let start = |remote, size| {
        let (source, pieces) = (Source::Memory(odd), piece(0, remote, size));
        let flags = SCI_FLAG_DMA_READ;
        start_dma(&t.b, t.queue, source, t.remote, pieces, None, flags)
    };
    t.world.hold_queues();
    assert_eq!(start(200, 10), Ok(()));
    assert_eq!(t.state(), SCI_DMAQUEUE_POSTED);
    t.world.release_queues();
    assert_eq!(t.wait(1000), Ok(SCI_DMAQUEUE_DONE));
    let seen: Vec<u8> = (0..12).map(|at| read(whole.start() + at)).collect();
    assert_eq!(seen, [5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 5]);
    assert_eq!(start(200, 11), Err(Error::OutOfRange));
    // It cannot be read before the call returns.
    t.world.set_pinned(9);
    assert_eq!(start(200, 10), Err(Error::NoSpace));
}

/// SI-CONSEG-2, SI-MAPR-7, SI-SDMA-2, SI-SDMA-3: no window leads to the segment, so there is
/// nothing to map, and transfers need no map.
#[test]
fn a_segment_without_a_window_is_copied_to_and_from() {
    let (world, a, b) = pair();
    world.set_reachable(false);
    let target = create(&a, open(&a), 7, SIZE, SCI_FLAG_EMPTY).unwrap();
    register(&a, target, pages(2), SIZE, 0).unwrap();
    publish(&a, target).unwrap();
    let (_, to) = map_local(&a, target, part(0, SIZE), 0).unwrap();
    let remote = connect(&b, A, 7).unwrap();
    let refused = map_remote(&b, remote, part(0, SIZE), 0);
    assert_eq!(refused.map(drop), Err(Error::HwNoSpace));
    let local = create(&b, open(&b), 8, SIZE, SCI_FLAG_PRIVATE).unwrap();
    functions::prepare_segment(&b, local, 0, 0).unwrap();
    let (_, from) = map_local(&b, local, part(0, SIZE), 0).unwrap();
    let queue = new_queue(&b, 1).unwrap();
    let copy = |flags| {
        let flags = flags | SCI_FLAG_DMA_WAIT;
        let source = Source::Segment(local);
        start_dma(&b, queue, source, remote, piece(0, 8, 8), None, flags)
    };
    write(from, 3);
    assert_eq!(copy(0), Ok(()));
    assert_eq!(read(to + 8), 3);
    write(to + 8, 4);
    assert_eq!(copy(SCI_FLAG_DMA_READ), Ok(()));
    assert_eq!(read(from), 4);
    // One that has a window has to be mapped.
    let other = offered(&a, 9, SIZE);
    assert_ne!(other, NONE);
    let remote = connect(&b, A, 9).unwrap();
    let source = Source::Segment(local);
    let unmapped = start_dma(&b, queue, source, remote, piece(0, 0, 8), None, 0);
    assert_eq!(unmapped, Err(Error::IllegalOperation));
}

/// SI-SDMAM-1, SI-SDMAM-2, SI-SDMAM-3: memory of the program, at any address.
#[test]
fn memory_of_the_program_is_copied() {
    let t = transfer();
    let mut data: Vec<u8> = (0..=99).collect();
    let whole = lent(&mut data);
    // SAFETY: A part of the data, which live to the end of the test.
    let odd = unsafe { ProcessMemory::new(whole.start() + 1, 97) };
    let start = |memory, size| {
        let source = Source::Memory(memory);
        start_dma(&t.b, t.queue, source, t.remote, piece(0, 3, size), None, 0)
    };
    assert_eq!(start(odd, 97), Ok(()));
    assert_eq!(t.wait(1000), Ok(SCI_DMAQUEUE_DONE));
    assert_eq!((read(t.to + 3), read(t.to + 99)), (1, 97));
    // SAFETY: NULL.
    let nothing = unsafe { ProcessMemory::new(0, 8) };
    assert_eq!(start(nothing, 8), Err(Error::IllegalParameter));
}

/// SI-SDMA-1, SI-SDMAM-2: memory of the program is read in the background, as long as it may be
/// pinned, and otherwise before the call returns.
#[test]
fn memory_of_the_program_is_pinned_while_it_is_read() {
    let t = transfer();
    let mut data = vec![5; 100];
    let memory = lent(&mut data);
    let start = || {
        let source = Source::Memory(memory);
        start_dma(&t.b, t.queue, source, t.remote, piece(0, 0, 100), None, 0)
    };
    t.world.hold_queues();
    assert_eq!(start(), Ok(()));
    assert_eq!((t.state(), read(t.to)), (SCI_DMAQUEUE_POSTED, 0));
    t.world.release_queues();
    assert_eq!((t.wait(1000), read(t.to)), (Ok(SCI_DMAQUEUE_DONE), 5));
    t.world.hold_queues();
    t.world.set_pinned(99);
    data.fill(6);
    assert_eq!(start(), Ok(()));
    assert_eq!((t.state(), read(t.to)), (SCI_DMAQUEUE_DONE, 6));
}

fn entry(size: u32, local_offset: u32, remote_offset: u32) -> dis_dma_vec_t {
    dis_dma_vec_t {
        size,
        local_offset,
        remote_offset,
        flags: 0,
    }
}

/// SI-SDMAV-1, SI-SDMAV-2, SI-SDMAV-3, SI-SDMAV-4
#[test]
fn a_vector_is_copied_piece_by_piece() {
    let t = transfer();
    for n in 0..64 {
        write(t.from + n * 100, n as u8 + 1);
    }
    let vector: Vec<_> = (0..65).map(|n| entry(1, n * 100, 6400 - n * 100)).collect();
    // SAFETY: The vector lives to the end of the test.
    let pieces = |len| Pieces::Vector(unsafe { Input::new(vector.as_ptr(), len) });
    assert_eq!(t.start(pieces(64), SCI_FLAG_DMA_WAIT), Ok(()));
    assert_eq!(t.state(), SCI_DMAQUEUE_DONE);
    assert!((0..64).all(|n| read(t.to + 6400 - n * 100) == n as u8 + 1));
    assert_eq!(t.start(pieces(0), 0), Err(Error::MaxEntries));
    assert_eq!(t.start(pieces(65), 0), Err(Error::MaxEntries));
    // SAFETY: NULL.
    let nothing = Pieces::Vector(unsafe { Input::new(ptr::null(), 4) });
    assert_eq!(t.start(nothing, 0), Err(Error::IllegalParameter));
    let marked = dis_dma_vec_t {
        flags: 1,
        ..entry(1, 0, 0)
    };
    // SAFETY: The entry lives to the end of the test.
    let marked = Pieces::Vector(unsafe { Input::new(&marked, 1) });
    assert_eq!(t.start(marked, 0), Err(Error::IllegalFlag));
}

/// SI-SDMAV-2: a wait for a transfer that fails says so.
#[test]
fn a_wait_tells_of_a_failure() {
    let t = transfer();
    t.world.hold_queues();
    let world = t.world.clone();
    let breaker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        world.set_up(0, false);
        world.release_queues();
    });
    assert_eq!(
        t.start(piece(0, 0, 8), SCI_FLAG_DMA_WAIT),
        Err(Error::TransferFailed)
    );
    breaker.join().unwrap();
    assert_eq!(t.state(), SCI_DMAQUEUE_ERROR);
}

/// SI-SDMA-5, SI-SDMA-10, SI-DSM-5, SI-ABDMA-3, SI-WDMA-3, SI-GEN-16: one call for each transfer,
/// with what became of it.
#[test]
fn a_callback_runs_once_for_each_transfer() {
    let t = transfer();
    let (done, ends) = mpsc::channel();
    let callback = || -> DmaCallback {
        let (done, b) = (done.clone(), Arc::clone(&t.b));
        Box::new(move |queue, status| {
            let state = dma_queue_state(&b, queue).unwrap();
            done.send((status, state)).unwrap();
        })
    };
    let next = || ends.recv_timeout(Duration::from_secs(10)).unwrap();
    t.start_with(callback()).unwrap();
    assert_eq!(next(), (Ok(()), SCI_DMAQUEUE_DONE));
    t.world.hold_queues();
    t.start_with(callback()).unwrap();
    assert_eq!(t.wait(0), Err(Error::IllegalOperation));
    t.abort().unwrap();
    assert_eq!(next(), (Err(Error::Cancelled), SCI_DMAQUEUE_ABORTED));
    t.start_with(callback()).unwrap();
    t.world.set_up(0, false);
    t.world.release_queues();
    assert_eq!(next(), (Err(Error::TransferFailed), SCI_DMAQUEUE_ERROR));
    assert!(ends.try_recv().is_err());
    until("waits are allowed again", || {
        t.wait(0) == Ok(SCI_DMAQUEUE_ERROR)
    });
}

/// SI-SDMA-10, SI-UNMAP-2, SI-GEN-12: segments of a transfer stay until its end, as does the last
/// map of the remote one.
#[test]
fn segments_in_a_transfer_are_busy() {
    let t = transfer();
    let unmap = |map| functions::unmap_segment(&t.b, map, 0);
    let (other, _) = map_remote(&t.b, t.remote, part(0, 8), 0).unwrap();
    t.world.hold_queues();
    t.start(piece(0, 0, 8), 0).unwrap();
    assert_eq!(unmap(other), Ok(()));
    assert_eq!(unmap(t.map), Err(Error::Busy));
    let disconnect = || functions::disconnect_segment(&t.b, t.remote, 0);
    assert_eq!(disconnect(), Err(Error::Busy));
    t.world.release_queues();
    assert_eq!(unmap(t.map), Ok(()));
    assert_eq!(disconnect(), Ok(()));
}
