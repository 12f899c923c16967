// SPDX-License-Identifier: GPL-2.0-only

//! Measures how fast a peer's memory is written through its window: what
//! `ntb_perf` does, with the copy that the fabric's transport uses.
//!
//! A client of the NTB core that takes the place of `pximc_ntb` for a while.
//! Load it on both hosts; the one with `total_mib=` writes, the other only
//! provides the memory. It is for two hosts with scratchpads and for bridges
//! whose receiver programs the translation. The results stand in
//! `/sys/kernel/ntb_bench`:
//!
//! ```text
//! state      waiting, running, done, or failed and an error number
//! results    a line for each offset: offset in pages, bytes, nanoseconds
//! ```
//!
//! The source is shifted by several offsets, `step_pages=` apart: where software
//! emulates the memory management unit, source and destination whose page
//! numbers end alike evict each other from a direct-mapped table. At offset 0
//! the source is aligned like that of `ntb_perf`, to its size, and so is the
//! window's mapping.

use core::fmt::{
    self,
    Write, //
};
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    kobject::{
        Attributes,
        Directory, //
    },
    ntb::{
        client,
        InboundBuffer,
        NtbDev,
        PeerWindow, //
    },
    param,
    time,
    worker::{
        new_worker,
        Work,
        Worker, //
    }, //
};

/// The only peer.
const PEER: u32 = 0;

/// The scratchpad that says whether a host's memory is there.
const STATE_SPAD: u32 = 0;

/// Its value then: "BNCH".
const READY: u32 = 0x4843_4e42;

/// Time between two looks at a peer that is not ready, in milliseconds.
const LOOK_MS: u32 = 20;

/// Most offsets of one measurement.
const OFFSETS_MAX: u32 = 64;

/// What the parameters say, checked.
#[derive(Clone, Copy)]
struct Order {
    /// Bytes of one copy.
    chunk: usize,
    /// Bytes to write at each offset; zero to receive only.
    total: u64,
    /// Number of offsets.
    offsets: usize,
    /// Pages from one offset to the next.
    step: usize,
}

/// What one offset gave.
#[derive(Clone, Copy, Default)]
struct Sample {
    bytes: u64,
    ns: u64,
}

/// What a measurement in progress needs.
struct Run {
    window: PeerWindow,
    /// As long as the window.
    source: KVec<u8>,
}

impl Run {
    /// Copy `len` bytes to `at` of the window, from a source that is shifted by
    /// `skip` and goes on at its beginning behind its end.
    fn copy(&self, at: usize, len: usize, skip: usize) -> Result {
        let from = (at + skip).checked_rem(self.source.len()).ok_or(EINVAL)?;
        let rest = self.source.get(from..).ok_or(EINVAL)?;
        let (head, tail) = (rest.len().min(len), len.saturating_sub(rest.len()));
        let head_bytes = rest.get(..head).ok_or(EINVAL)?;
        let tail_bytes = self.source.get(..tail).ok_or(EINVAL)?;
        self.window.copy_from(at, head_bytes.into())?;
        self.window.copy_from(at + head, tail_bytes.into())
    }
}

enum Phase {
    Waiting,
    Running(Run),
    Done,
    Failed(Error),
}

struct Progress {
    /// The memory that the peer writes.
    inbound: Option<InboundBuffer>,
    phase: Phase,
    samples: KVec<Sample>,
}

/// A device that is measured.
#[pin_data]
struct Bench {
    ntb: ARef<NtbDev>,
    order: Order,
    #[pin]
    progress: Mutex<Progress>,
}

impl Bench {
    fn new(ntb: ARef<NtbDev>, order: Order) -> impl PinInit<Self> {
        let progress = Progress {
            inbound: None,
            phase: Phase::Waiting,
            samples: KVec::new(),
        };
        pin_init!(Self {
            ntb,
            order,
            progress <- new_mutex!(progress),
        })
    }

    /// Go on; return when to do so again.
    fn step(&self, progress: &mut Progress) -> Result<Option<u32>> {
        match &progress.phase {
            Phase::Waiting => self.try_begin(progress),
            Phase::Running(run) => {
                if self.measure(run, &mut progress.samples)? {
                    return Ok(Some(0));
                }
                progress.phase = Phase::Done;
                Ok(None)
            }
            Phase::Done | Phase::Failed(_) => Ok(None),
        }
    }

    /// Offer memory to the peer, and begin when the peer does.
    fn try_begin(&self, progress: &mut Progress) -> Result<Option<u32>> {
        if self.ntb.link_is_up() & (1 << PEER) == 0 {
            return Ok(Some(LOOK_MS));
        }
        if progress.inbound.is_none() {
            progress.inbound = Some(self.offer()?);
            self.ntb.spad_write(STATE_SPAD, READY)?;
        }
        if self.order.total == 0 {
            progress.phase = Phase::Done;
            return Ok(None);
        }
        if self.ntb.peer_spad_read(PEER, STATE_SPAD) != READY {
            return Ok(Some(LOOK_MS));
        }
        progress.phase = Phase::Running(self.begin()?);
        Ok(Some(0))
    }

    /// Let the peer write memory of this host, as much as its window shows.
    fn offer(&self) -> Result<InboundBuffer> {
        let widx = self.ntb.peer_resource_idx(PEER)?;
        let len = self.ntb.mw_get_align(PEER, widx)?.size_max;
        let mut buffer = self
            .ntb
            .alloc_inbound(PEER, widx, usize::try_from(len)?, 1)?;
        buffer.expose(PEER, widx)?;
        Ok(buffer)
    }

    fn begin(&self) -> Result<Run> {
        // The outbound window to a peer bears the peer's number.
        let window = self.ntb.map_peer_window(PEER)?;
        if window.len() < self.order.chunk {
            dev_err!(
                self.ntb,
                "the window has {} bytes, less than one chunk\n",
                window.len()
            );
            return Err(EINVAL);
        }
        let mut source = KVec::new();
        source.resize(window.len(), 0x5a, GFP_KERNEL)?;
        Ok(Run { window, source })
    }

    /// Fill the window once more; `false` when everything has been measured.
    fn measure(&self, run: &Run, samples: &mut KVec<Sample>) -> Result<bool> {
        if samples.last().is_none_or(|s| s.bytes >= self.order.total) {
            if samples.len() == self.order.offsets {
                return Ok(false);
            }
            samples.push(Sample::default(), GFP_KERNEL)?;
        }
        let skip = (samples.len() - 1) * self.order.step * PAGE_SIZE;
        let chunks = run
            .window
            .len()
            .checked_div(self.order.chunk)
            .ok_or(EINVAL)?;
        let start = time::monotonic_ns();
        for chunk in 0..chunks {
            run.copy(chunk * self.order.chunk, self.order.chunk, skip)?;
        }
        run.window.flush();
        if let Some(sample) = samples.last_mut() {
            sample.ns += time::monotonic_ns() - start;
            sample.bytes += (chunks * self.order.chunk) as u64;
        }
        Ok(true)
    }
}

impl Work for Bench {
    fn run(&self) -> Option<u32> {
        let mut progress = self.progress.lock();
        self.step(&mut progress).unwrap_or_else(|e| {
            dev_err!(self.ntb, "failed: error {}\n", e.to_errno());
            progress.phase = Phase::Failed(e);
            None
        })
    }
}

impl Attributes for Bench {
    fn names(&self) -> &'static [&'static CStr] {
        &[c"state", c"results"]
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let progress = self.progress.lock();
        if index == 0 {
            return match &progress.phase {
                Phase::Waiting => writeln!(out, "waiting"),
                Phase::Running(_) => writeln!(out, "running"),
                Phase::Done => writeln!(out, "done"),
                Phase::Failed(e) => writeln!(out, "failed {}", e.to_errno()),
            };
        }
        for (n, sample) in progress.samples.iter().enumerate() {
            writeln!(
                out,
                "{} {} {}",
                n * self.order.step,
                sample.bytes,
                sample.ns
            )?;
        }
        Ok(())
    }
}

/// A device that the client is bound to. Fields go in this order: no copying,
/// no showing.
struct Bound {
    worker: Arc<Worker<Bench>>,
    _directory: Directory,
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.worker.stop();
        let ntb = &self.worker.target().ntb;
        if ntb.spad_write(STATE_SPAD, 0).is_err() {
            dev_warn!(ntb, "cannot clear the state that the peer reads\n");
        }
        ntb.link_disable();
    }
}

struct Driver;

impl client::Client for Driver {
    type Data = Bound;

    fn probe(dev: &NtbDev) -> Result<Bound> {
        let order = order()?;
        if dev.spad_count() == 0 || dev.peer_port_count() != 1 {
            dev_err!(dev, "scratchpads and exactly one peer are needed\n");
            return Err(ENODEV);
        }
        dev.spad_write(STATE_SPAD, 0)?;
        let bench = Arc::pin_init(Bench::new(dev.into(), order), GFP_KERNEL)?;
        let bound = Bound {
            _directory: Directory::new(c"ntb_bench", None, bench.clone())?,
            worker: new_worker!(bench)?,
        };
        dev.link_enable();
        bound.worker.kick();
        Ok(bound)
    }
}

#[pin_data]
struct BenchModule {
    #[pin]
    client: client::Registration<Driver>,
}

impl kernel::InPlaceModule for BenchModule {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: { order()?; },
            client <- client::Registration::new(c"ntb_bench", module),
        })
    }
}

/// A parameter that must lie in a range.
fn ranged(name: &str, value: u32, min: u32, max: u32) -> Result<u32> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    pr_err!("parameter {}={} is not in {}..{}\n", name, value, min, max);
    Err(EINVAL)
}

/// The parameters, checked.
fn order() -> Result<Order> {
    let p = (
        param!(chunk_kib),
        param!(total_mib),
        param!(offsets),
        param!(step_pages),
    );
    Ok(Order {
        chunk: ranged("chunk_kib", p.0, 4, 16 << 10)? as usize * 1024,
        total: u64::from(ranged("total_mib", p.1, 0, 64 << 10)?) << 20,
        offsets: ranged("offsets", p.2, 1, OFFSETS_MAX)? as usize,
        step: ranged("step_pages", p.3, 1, 1024)? as usize,
    })
}

module! {
    type: BenchModule,
    name: "ntb_bench",
    authors: ["The pximc-ntb authors"],
    description: "Measures writing through NTB memory windows",
    license: "GPL",
    params: {
        chunk_kib: u32 {
            default: 1024,
            description: "KiB of one copy",
        },
        total_mib: u32 {
            default: 0,
            description: "MiB to write at each offset; 0: only receive",
        },
        offsets: u32 {
            default: 4,
            description: "number of source offsets, 1 to 64",
        },
        step_pages: u32 {
            default: 13,
            description: "pages from one offset to the next",
        },
    },
}
