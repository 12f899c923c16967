// SPDX-License-Identifier: GPL-2.0-only

//! A function service in Rust: sends each frame back to where it came from.
//!
//! The first word of a frame's function header, little-endian, is the id of the
//! function service that gets the answer; header and data come back as they were.
//! Frames are kept as they arrive, and answered by a worker. What happened stands in
//! `/sys/kernel/mp_sample_echo`:
//!
//! ```text
//! answered      frames that were sent back
//! failed        frames whose answer could not be sent
//! refused       frames that came while too many waited
//! ```

use core::fmt::{
    self,
    Write, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    bytes::{
        self,
        SharedBytes, //
    },
    kobject::{
        Attributes,
        Directory, //
    },
    new_spinlock_bh,
    sync::SpinLockBh,
    worker::{
        new_worker,
        Work,
        Worker, //
    }, //
};
use mp_proto::wire::Priority;
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
    peer::Peer,
    service,
    stats::Counter, //
};

/// Its id in the message header: "ECHO".
const FUNC: FuncId = FuncId(0x4543_484f);

/// Frames that may wait for their answer.
const WAITING: usize = 64;

/// Pause after a full queue, in milliseconds.
const RETRY_MS: u32 = 1;

/// What is counted.
#[derive(Default)]
struct Tally {
    answered: Counter,
    failed: Counter,
    refused: Counter,
}

/// The data of an answer.
struct Answer {
    data: KVVec<u8>,
    tally: Arc<Tally>,
}

impl FrameBody for Answer {
    fn len(&self) -> usize {
        self.data.len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        f(self.data.as_slice().into())
    }

    fn complete(&mut self, status: Result) {
        match status {
            Ok(()) => self.tally.answered.add(1),
            Err(_) => self.tally.failed.add(1),
        }
    }
}

/// Who answers.
#[pin_data]
struct Answerer {
    /// Frames to answer, oldest first; within its capacity.
    #[pin]
    waiting: SpinLockBh<KVec<KeptFrame>>,
    /// An answer that met a full queue.
    #[pin]
    stuck: SpinLockBh<Option<(Arc<Peer>, Frame)>>,
    tally: Arc<Tally>,
}

impl Answerer {
    fn new() -> Result<Arc<Self>> {
        let tally = Arc::new(Tally::default(), GFP_KERNEL)?;
        let room = KVec::with_capacity(WAITING, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                waiting <- new_spinlock_bh!(room),
                stuck <- new_spinlock_bh!(None),
                tally,
            }),
            GFP_KERNEL,
        )
    }

    /// Make the answer to a frame, whose data is copied here and nowhere else.
    fn answer(&self, frame: &KeptFrame) -> Result<Frame> {
        let to = frame.func_hdr().first_chunk().ok_or(EINVAL)?;
        let mut data = KVVec::new();
        bytes::append(&mut data, frame.data().len(), GFP_KERNEL, |dst| {
            frame.data().copy_to(0, dst)
        })?;
        let body = Answer {
            data,
            tally: self.tally.clone(),
        };
        let func = FuncId(u32::from_le_bytes(*to));
        Frame::new(func, frame.func_hdr(), Priority::Bulk, body)
    }

    /// Take the next frame that waits, and make its answer.
    fn next(&self) -> Option<(Arc<Peer>, Frame)> {
        loop {
            let frame = self.waiting.lock().remove(0).ok()?;
            match self.answer(&frame) {
                Ok(answer) => return Some((frame.src().clone(), answer)),
                Err(_) => self.tally.failed.add(1),
            }
        }
    }
}

impl Work for Answerer {
    fn run(&self) -> Option<u32> {
        let mut next = self.stuck.lock().take();
        while let Some((peer, answer)) = next.or_else(|| self.next()) {
            // The destructor counts how it went, except for a queue that is full.
            if service::send(peer.id(), &answer) == Err(EAGAIN) {
                *self.stuck.lock() = Some((peer, answer));
                return Some(RETRY_MS);
            }
            next = None;
        }
        None
    }
}

impl Attributes for Answerer {
    fn names(&self) -> &'static [&'static CStr] {
        &[c"answered", c"failed", c"refused"]
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let counter = match index {
            0 => &self.tally.answered,
            1 => &self.tally.failed,
            _ => &self.tally.refused,
        };
        writeln!(out, "{}", counter.get())
    }
}

/// The service.
struct Echo {
    answerer: Arc<Answerer>,
    worker: Arc<Worker<Answerer>>,
}

impl function::Function for Echo {
    fn peer_add(&self, _peer: &Arc<Peer>) {}

    fn peer_del(&self, _peer: &Arc<Peer>) {}

    fn receive(&self, _rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
        let frame = frame.keep()?;
        let pushed = self.answerer.waiting.lock().push_within_capacity(frame);
        match pushed {
            Ok(()) => {
                self.worker.kick();
                Ok(())
            }
            Err(_) => {
                self.answerer.tally.refused.add(1);
                Err(ENOSPC)
            }
        }
    }
}

/// The module. Fields go in this order: no receiving, no answering, no showing.
struct EchoModule {
    _registration: function::Registration,
    _worker: Arc<Worker<Answerer>>,
    _directory: Directory,
}

impl kernel::Module for EchoModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let answerer = Answerer::new()?;
        let directory = Directory::new(c"mp_sample_echo", None, answerer.clone())?;
        let worker = new_worker!(answerer.clone())?;
        let echo = Echo {
            answerer,
            worker: worker.clone(),
        };
        Ok(Self {
            _registration: function::Registration::new(FUNC, Arc::new(echo, GFP_KERNEL)?)?,
            _worker: worker,
            _directory: directory,
        })
    }
}

module! {
    type: EchoModule,
    name: "mp_sample_echo",
    authors: ["The pximc-ntb authors"],
    description: "Sample of a function service in Rust",
    license: "GPL",
}
