// SPDX-License-Identifier: GPL-2.0-only

//! Test function service: sends frames with a known pattern and checks those
//! it receives.
//!
//! Loaded without parameters it only receives. With `count=` it sends that
//! many frames of `size=` bytes, in two fragments, to the peer `dst=`; with
//! `mix=1` every other frame is short. With `keep=` it keeps that many of the
//! frames it receives, and checks the data of each when a later one takes its
//! place. With `share=1` it offers memory of the commons to all peers that arrive; with
//! `mark=` it stores a one to word `word=` of such memory, at that place of the peer
//! `dst=`. With `scribble=1` it stores ones to every page of that peer that any window leads to, whoever
//! the memory is for. What happened stands in `/sys/kernel/mp_func_test`:
//!
//! ```text
//! sent_ok, sent_failed      frames by the status their destructor got
//! received, corrupt         frames that arrived intact, and those that did not
//! repeated                  frames that arrived more than once or out of order
//! checked, cut_off          frames that were kept: intact, or without their data
//!                           because their link went down
//! peers_added, peers_removed
//! share                     the place of the memory that is offered, all ones if none is
//! marks                     the words of it that are not zero, a bit each
//! done                      1 once all frames have been completed
//! ```

use core::fmt::{
    self,
    Write, //
};
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    bytes::SharedBytes,
    error,
    kobject::{
        Attributes,
        Directory, //
    },
    new_spinlock_bh,
    param,
    sync::SpinLockBh,
    worker::{
        new_worker,
        Work,
        Worker, //
    }, //
};
use mp_proto::{
    reach,
    wire::{
        PeerId,
        Priority, //
    }, //
};
use mp_transport::{
    frame::{
        Frame,
        FrameBody,
        FuncId,
        RxContext,
        RxData,
        RxFrame, //
    },
    function,
    kept::KeptFrame,
    memory::{
        Commons,
        Local, //
        Memory,
    },
    peer::Peer,
    service,
    stats::Counter, //
};

/// Its id in the message header: "TEST".
const FUNC: FuncId = FuncId(0x5453_4554);

/// Most data bytes of a test frame.
const SIZE_MAX: u32 = 128 << 10;

/// Data bytes of every other frame of a mix.
const SHORT: usize = 100;

/// Most received frames to keep at a time.
const KEEP_MAX: u32 = 4096;

/// Peers whose sequence is followed.
const PEERS: usize = 64;

/// Frames sent in one run of the worker.
const BATCH: u32 = 64;

/// Words of shared memory.
const WORDS: u64 = 64;

/// Pages of what a peer exposes that are stored to.
const EXPOSED: u64 = 4;

/// Pause after a full queue or a failure, in milliseconds.
const RETRY_MS: u32 = 1;

/// What is counted.
#[derive(Default)]
struct Tally {
    sent_ok: Counter,
    sent_failed: Counter,
    received: Counter,
    corrupt: Counter,
    repeated: Counter,
    peers_added: Counter,
    peers_removed: Counter,
    checked: Counter,
    cut_off: Counter,
}

/// A byte of the pattern of frame `seq`.
fn pattern(seq: u32, at: usize) -> u8 {
    (seq as usize)
        .wrapping_mul(31)
        .wrapping_add(at.wrapping_mul(7)) as u8
}

/// The data of a test frame: two fragments, freed and counted when it is done.
struct TestBody {
    fragments: [KVec<u8>; 2],
    tally: Arc<Tally>,
}

impl TestBody {
    fn new(seq: u32, size: usize, tally: Arc<Tally>) -> Result<Self> {
        let split = size / 3;
        let mut fragments = [KVec::new(), KVec::new()];
        for at in 0..size {
            fragments[usize::from(at >= split)].push(pattern(seq, at), GFP_KERNEL)?;
        }
        Ok(Self { fragments, tally })
    }
}

impl FrameBody for TestBody {
    fn len(&self) -> usize {
        self.fragments.iter().map(|f| f.len()).sum()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        let mut fragments = self.fragments.iter();
        fragments.try_for_each(|fragment| f(fragment.as_slice().into()))
    }

    fn complete(&mut self, status: Result) {
        match status {
            Ok(()) => self.tally.sent_ok.add(1),
            Err(_) => self.tally.sent_failed.add(1),
        }
    }
}

/// The sequence number in a function header.
fn sequence(func_hdr: &[u8]) -> Result<u32> {
    Ok(u32::from_le_bytes(func_hdr.try_into().map_err(|_| EINVAL)?))
}

/// Compare data with the pattern of frame `seq`.
fn check_data(seq: u32, data: &(impl RxData + ?Sized)) -> Result {
    let mut buffer = [0u8; 256];
    for from in (0..data.len()).step_by(buffer.len()) {
        let n = buffer.len().min(data.len() - from);
        let piece = buffer.get_mut(..n).ok_or(EINVAL)?;
        data.copy_to(from, piece.into())?;
        let good = |(i, byte): (usize, &u8)| *byte == pattern(seq, from + i);
        if !piece.iter().enumerate().all(good) {
            return Err(error::bad_message());
        }
    }
    Ok(())
}

/// What is to be sent.
#[derive(Clone, Copy)]
struct Order {
    dst: PeerId,
    count: u32,
    size: usize,
    mix: bool,
    priority: Priority,
}

impl Order {
    /// Data bytes of frame `seq`.
    fn size_of(&self, seq: u32) -> usize {
        match self.mix && seq % 2 == 1 {
            true => self.size.min(SHORT),
            false => self.size,
        }
    }
}

/// How sending a frame went.
enum Sent {
    Yes,
    /// It failed for good.
    No,
    /// The queue is full.
    Later,
}

/// The service.
#[pin_data]
struct TestFunction {
    order: Order,
    /// The frame that met a full queue.
    #[pin]
    waiting: Mutex<Option<Frame>>,
    tally: Arc<Tally>,
    /// Frames handed to the message frame service so far.
    sent: Atomic<u32>,
    /// By peer index: the sequence number expected next.
    expected: [Atomic<u32>; PEERS],
    /// Received frames to keep at a time.
    keep: usize,
    /// These frames with their sequence numbers, oldest first; within its capacity.
    #[pin]
    kept: SpinLockBh<KVec<(u32, KeptFrame)>>,
    /// What all peers are offered.
    share: Option<Local>,
    /// Where to store a one at the peer: the place, and the word of it.
    mark: Option<(u64, u64)>,
    /// Whether to store wherever that is possible.
    scribble: bool,
}

impl TestFunction {
    fn new(
        order: Order,
        keep: usize,
        share: Option<Local>,
        mark: Option<(u64, u64)>,
        scribble: bool,
    ) -> impl PinInit<Self, Error> {
        let room = KVec::with_capacity(keep, GFP_KERNEL);
        try_pin_init!(Self {
            order,
            waiting <- new_mutex!(None),
            tally: Arc::new(Tally::default(), GFP_KERNEL)?,
            sent: Atomic::new(0),
            expected: [const { Atomic::new(0) }; PEERS],
            keep,
            kept <- new_spinlock_bh!(room?),
            share,
            mark,
            scribble,
        })
    }

    /// Offer a peer what all are offered, and store to what it offers.
    fn meet(&self, peer: &Peer) -> Result {
        let Some(memory) = peer.memory() else {
            return Ok(());
        };
        if let Some(share) = &self.share {
            memory.grant(FUNC, share)?;
        }
        if let Some((at, word)) = self.mark.filter(|_| peer.id() == self.order.dst) {
            let remote = memory.reach(at, WORDS * 8)?;
            remote.store_u64(word * 8, 1)?;
            remote.flush()?;
        }
        if self.scribble && peer.id() == self.order.dst {
            let limits = memory.limits();
            scribble(&memory, reach::start_of(reach::ARENA), limits.remote_total)?;
            let commons = reach::start_of(reach::COMMONS);
            scribble(&memory, commons, limits.remote_commons)?;
            scribble_exposures(&memory);
        }
        Ok(())
    }

    /// The words of the shared memory that are not zero.
    fn marks(&self) -> u64 {
        let Some(share) = &self.share else { return 0 };
        let is_marked = |word: &u64| share.load_u64(word * 8).is_ok_and(|value| value != 0);
        (0..WORDS)
            .filter(is_marked)
            .fold(0, |set, word| set | 1 << word)
    }

    /// Make frame `seq`.
    fn make(&self, seq: u32) -> Result<Frame> {
        let body = TestBody::new(seq, self.order.size_of(seq), self.tally.clone())?;
        Frame::new(FUNC, &seq.to_le_bytes(), self.order.priority, body)
    }

    /// Send the next frame, or again the one that met a full queue.
    fn send_next(&self, waiting: &mut Option<Frame>, seq: u32) -> Result<Sent> {
        let frame = match waiting.take() {
            Some(frame) => frame,
            None => self.make(seq)?,
        };
        // The destructor counts how it went.
        Ok(match service::send(self.order.dst, &frame) {
            Ok(()) => Sent::Yes,
            Err(e) if e == EAGAIN && self.order.dst != PeerId::BCAST => {
                *waiting = Some(frame);
                Sent::Later
            }
            Err(_) => Sent::No,
        })
    }

    /// Keep a frame in place of the one that was kept first, which is checked.
    fn keep(&self, frame: RxFrame<'_>) -> Result {
        let seq = sequence(frame.func_hdr())?;
        let frame = frame.keep()?;
        let mut kept = self.kept.lock();
        let oldest = match kept.len() < self.keep {
            true => None,
            false => kept.remove(0).ok(),
        };
        kept.push_within_capacity((seq, frame))
            .map_err(|_| ENOSPC)?;
        drop(kept);
        if let Some((seq, frame)) = oldest {
            self.check_kept(seq, &frame);
        }
        Ok(())
    }

    fn check_kept(&self, seq: u32, frame: &KeptFrame) {
        match check_data(seq, frame.data()) {
            Ok(()) => self.tally.checked.add(1),
            Err(e) if e == error::not_connected() => self.tally.cut_off.add(1),
            Err(_) => self.tally.corrupt.add(1),
        }
    }

    /// Whether `seq` is later than all before it from that peer.
    fn in_order(&self, peer: &Peer, seq: u32) -> bool {
        let Some(expected) = self.expected.get(peer.index() as usize) else {
            return false;
        };
        // Sequence 0 begins a new run of the sender.
        if seq != 0 && seq < expected.load(Relaxed) {
            return false;
        }
        expected.store(seq + 1, Relaxed);
        true
    }
}

impl function::Function for TestFunction {
    fn peer_add(&self, peer: &Arc<Peer>) {
        self.tally.peers_added.add(1);
        if let Err(e) = self.meet(peer) {
            pr_info!(
                "peer {:08x}: no shared memory: error {}\n",
                peer.id().0,
                e.to_errno()
            );
        }
    }

    fn peer_del(&self, _peer: &Arc<Peer>) {
        self.tally.peers_removed.add(1);
    }

    fn receive(&self, _rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
        let seq = sequence(frame.func_hdr())?;
        if !self.in_order(frame.src(), seq) {
            self.tally.repeated.add(1);
        } else if self.keep == 0 && check_data(seq, &*frame).is_err() {
            self.tally.corrupt.add(1);
        } else {
            self.tally.received.add(1);
        }
        match self.keep {
            0 => Ok(()),
            _ => self.keep(frame),
        }
    }
}

impl Work for TestFunction {
    fn run(&self) -> Option<u32> {
        let mut waiting = self.waiting.lock();
        for _ in 0..BATCH {
            let seq = self.sent.load(Relaxed);
            if seq >= self.order.count {
                return None;
            }
            match self.send_next(&mut waiting, seq) {
                Ok(Sent::Yes) => self.sent.store(seq + 1, Relaxed),
                Ok(Sent::No) => {
                    // Not to keep a processor busy with a peer that is away.
                    self.sent.store(seq + 1, Relaxed);
                    return Some(RETRY_MS);
                }
                Ok(Sent::Later) | Err(_) => return Some(RETRY_MS),
            }
        }
        Some(0)
    }
}

impl Attributes for TestFunction {
    fn names(&self) -> &'static [&'static CStr] {
        &[
            c"sent_ok",
            c"sent_failed",
            c"received",
            c"corrupt",
            c"repeated",
            c"peers_added",
            c"peers_removed",
            c"checked",
            c"cut_off",
            c"share",
            c"marks",
            c"done",
        ]
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let t = &self.tally;
        let value = match index {
            0 => t.sent_ok.get(),
            1 => t.sent_failed.get(),
            2 => t.received.get(),
            3 => t.corrupt.get(),
            4 => t.repeated.get(),
            5 => t.peers_added.get(),
            6 => t.peers_removed.get(),
            7 => t.checked.get(),
            8 => t.cut_off.get(),
            9 => self.share.as_ref().map_or(u64::MAX, Local::off),
            10 => self.marks(),
            _ => u64::from(t.sent_ok.get() + t.sent_failed.get() >= u64::from(self.order.count)),
        };
        writeln!(out, "{value}")
    }
}

/// The module. Fields go in this order: no sending, no receiving, no showing.
struct TestModule {
    _worker: Arc<Worker<TestFunction>>,
    _registration: function::Registration,
    _directory: Directory,
}

impl kernel::Module for TestModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let function = Arc::pin_init(
            TestFunction::new(order()?, keep()?, share()?, mark()?, param!(scribble) != 0),
            GFP_KERNEL,
        )?;
        let directory = Directory::new(c"mp_func_test", None, function.clone())?;
        let registration = function::Registration::new(FUNC, function.clone())?;
        let worker = new_worker!(function)?;
        worker.kick();
        Ok(Self {
            _worker: worker,
            _registration: registration,
            _directory: directory,
        })
    }
}

/// The parameters, checked.
fn order() -> Result<Order> {
    let size = param!(size);
    if size > SIZE_MAX {
        pr_err!("parameter size={} is above {}\n", size, SIZE_MAX);
        return Err(EINVAL);
    }
    Ok(Order {
        dst: PeerId(param!(dst)),
        count: param!(count),
        size: size as usize,
        mix: param!(mix) != 0,
        priority: match param!(priority) {
            0 => Priority::Bulk,
            _ => Priority::High,
        },
    })
}

/// Memory of the commons, if it is to be offered.
fn share() -> Result<Option<Local>> {
    match param!(share) {
        0 => Ok(None),
        _ => Ok(Some(Commons::get()?.alloc(WORDS * 8)?)),
    }
}

/// Where to store a one, checked.
fn mark() -> Result<Option<(u64, u64)>> {
    let (at, word) = (param!(mark), u64::from(param!(word)));
    if word >= WORDS {
        pr_err!("parameter word={} is not below {}\n", word, WORDS);
        return Err(EINVAL);
    }
    Ok((at != u64::MAX).then_some((at, word)))
}

/// Store ones to each page of `len` bytes at a place of the peer.
fn scribble(memory: &Arc<Memory>, at: u64, len: u64) -> Result {
    if len == 0 {
        return Ok(());
    }
    let remote = memory.reach(at, len)?;
    for page in (0..len).step_by(PAGE_SIZE) {
        remote.store_u64(page, 1)?;
    }
    remote.flush()
}

/// The same to what windows lead to that the peer leads elsewhere, as far as they lead anywhere, and
/// say how many pages that were.
fn scribble_exposures(memory: &Arc<Memory>) {
    let windows = (reach::FIRST_EXPOSED..).take(reach::MAX_EXPOSED as usize);
    let reached = |at: &u64| scribble(memory, *at, PAGE_SIZE as u64).is_ok();
    let stored = windows
        .flat_map(|window| {
            (0..EXPOSED).map(move |page| reach::start_of(window) + page * PAGE_SIZE as u64)
        })
        .filter(reached)
        .count();
    pr_info!("stored to {} pages that were exposed\n", stored);
}

/// How many frames to keep, checked.
fn keep() -> Result<usize> {
    let keep = param!(keep);
    if keep > KEEP_MAX {
        pr_err!("parameter keep={} is above {}\n", keep, KEEP_MAX);
        return Err(EINVAL);
    }
    Ok(keep as usize)
}

module! {
    type: TestModule,
    name: "mp_func_test",
    authors: ["The pximc-ntb authors"],
    description: "Test function service of the message frame fabric",
    license: "GPL",
    params: {
        dst: u32 {
            default: 0xffff_ffff,
            description: "id of the peer to send to; 0xffffffff: all others, 0x80000000: this host",
        },
        count: u32 {
            default: 0,
            description: "frames to send",
        },
        size: u32 {
            default: 100,
            description: "bytes of data in each frame",
        },
        mix: u8 {
            default: 0,
            description: "1: every other frame has 100 bytes at most",
        },
        priority: u8 {
            default: 0,
            description: "1: send priority frames",
        },
        keep: u32 {
            default: 0,
            description: "received frames to keep before they are checked, up to 4096",
        },
        share: u8 {
            default: 0,
            description: "1: offer memory of the commons to all peers",
        },
        mark: u64 {
            default: u64::MAX,
            description: "place where the peer dst offers such memory, to store a one there",
        },
        word: u32 {
            default: 0,
            description: "word of that memory to store to, below 64",
        },
        scribble: u8 {
            default: 0,
            description: "1: store to all memory of the peer dst that any window leads to",
        },
    },
}
