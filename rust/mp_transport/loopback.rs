// SPDX-License-Identifier: GPL-2.0-only

//! The local host as a peer of itself (`IDT-PEER-11`).
//!
//! Frames to self take the same way as all others: they are queued, and a
//! NAPI poll delivers them to the function. Only the data is not copied before
//! the function copies it out.
//!
//! Memory is what it is to other peers as well, in one epoch that lasts. Both ends of
//! it are the same pages, taken when they are first needed and kept for the next.

use crate::{
    frame::{
        gather,
        Frame,
        RxContext,
        RxData, //
    },
    interface::{
        self,
        Info,
        Kind, //
    },
    memory::{
        commons::OwnCommons,
        physical::OwnWindows,
        Commons,
        Far,
        Further,
        Memory,
        Pool, //
    },
    peer::{
        Link,
        Peer,
        Route,
        SendError, //
    },
    service,
    transport, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    str::CString,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_kernel::{
    bytes::Writer,
    error,
    fifo::Fifo,
    net::napi::{
        Instance,
        Napi,
        NapiHost,
        Poll, //
    },
    new_spinlock_bh,
    shared_pages::SharedPages,
    sync::SpinLockBh, //
};
use mp_proto::wire::{
    Envelope,
    MsgHdr,
    PeerId,
    Priority, //
};

/// Transport id of the loopback.
const TRANSPORT_ID: u32 = 0;

/// Interface id of the loopback: none that a function on a bus can have.
const INTERFACE_ID: u32 = 1;

/// Frames that may wait; a sender beyond that sees a full queue.
const DEPTH: usize = 256;

/// Largest frame, in bytes of data: what any transport can carry.
const MAX_FRAME: usize = 1 << 17;

/// A frame on its way.
type Entry = (MsgHdr, Frame);

/// The queue and the one who empties it.
#[pin_data]
struct Engine {
    #[pin]
    queue: SpinLockBh<Fifo<Entry>>,
}

impl Engine {
    fn new(queue: Fifo<Entry>) -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- new_spinlock_bh!(queue),
        })
    }

    fn pop(&self) -> Option<Entry> {
        self.queue.lock().pop()
    }

    /// Deliver one frame to its function.
    fn deliver(&self, rx: &RxContext<'_>, (msg, frame): Entry) {
        let Some(me) = service::peer_get(PeerId::SELF) else {
            return frame.fail(error::not_connected());
        };
        if let Err(e) = service::receive(rx, &me, msg, frame.func_hdr(), &Local(&frame)) {
            frame.fail(e);
        }
        me.tx_completed(0, 1);
    }
}

impl Poll for Engine {
    fn poll(&self, napi: &Napi, budget: u32) -> u32 {
        let rx = RxContext {
            napi: Some(napi),
            queue: 0,
            priority: Priority::Bulk,
            last: false,
        };
        let mut done = 0;
        while done < budget {
            let Some(entry) = self.pop() else {
                break;
            };
            done += 1;
            self.deliver(&rx, entry);
        }
        done
    }
}

/// A frame's data, read where the sender keeps it.
struct Local<'a>(&'a Frame);

impl RxData for Local<'_> {
    fn len(&self) -> usize {
        self.0.body().len()
    }

    fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result {
        gather(offset, dst, |f| self.0.body().for_each_fragment(f))
    }
}

/// The link of the self peer.
pub(crate) struct LoopbackLink {
    engine: Arc<Engine>,
    napi: Arc<Instance<Engine>>,
    memory: Arc<Memory>,
}

impl LoopbackLink {
    /// Drop what waits and return when no delivery is under way.
    ///
    /// May sleep.
    pub(crate) fn drain(&self) {
        while self.engine.pop().is_some() {}
        self.napi.synchronize();
    }
}

/// How often frames that wait are looked after, at most, once a millisecond.
const SETTLE: usize = 1000;

impl LoopbackLink {
    /// Wait until the frames that wait now have been delivered; drop those that
    /// wait for too long.
    ///
    /// May sleep.
    pub(crate) fn settle(&self) {
        let due = self.engine.queue.lock().end();
        for _ in 0..SETTLE {
            if self.engine.queue.lock().is_past(due) {
                return self.napi.synchronize();
            }
            self.napi.schedule();
            fsleep(Delta::from_millis(1));
        }
        self.drain();
    }
}

impl Link for LoopbackLink {
    fn queues(&self) -> u16 {
        1
    }

    fn max_frame(&self) -> usize {
        MAX_FRAME
    }

    fn send(&self, head: &Envelope, frame: &Frame, _queue: u16) -> Result<u32, SendError> {
        let mut queue = self.engine.queue.lock();
        if queue.len() >= DEPTH {
            return Err(SendError::Full);
        }
        queue
            .push((head.msg, frame.clone()))
            .map_err(SendError::Body)?;
        Ok(1)
    }

    fn kick(&self, _queue: u16) {
        self.napi.schedule();
    }

    fn arm_tx(&self, _queue: u16) -> bool {
        self.engine.queue.lock().len() < DEPTH
    }

    fn memory(&self) -> Option<Arc<Memory>> {
        Some(self.memory.clone())
    }
}

/// The pages that peers of this host, when it is its own, reach.
struct OwnMemory(Arc<Pool>);

impl OwnMemory {
    /// At most `len` bytes, none of which is taken yet, and all of the commons.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(len: usize, commons: &Arc<Commons>) -> Result<(Self, Arc<Memory>)> {
        let pages = Arc::new(SharedPages::new(len / PAGE_SIZE)?, GFP_KERNEL)?;
        let len = pages.len() as u64;
        let windows = OwnWindows::new()?;
        let further = Further {
            commons: Some((commons.clone(), commons.max_len())),
            windows: Some(windows.clone()),
            is_lasting: true,
        };
        let pool = Pool::new((c"loopback", len), pages.clone(), further)?;
        let own = Arc::new(OwnCommons(commons.clone()), GFP_KERNEL)?;
        let far = Far {
            commons: Some((own, commons.max_len())),
            windows: Some(windows),
            ..Far::arena(pages, len)
        };
        let memory = Memory::begin(pool.clone(), far)?;
        Ok((Self(pool), memory))
    }
}

impl Drop for OwnMemory {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The local host's entry in the registry.
pub(crate) struct SelfEntry {
    pub(crate) peer: Arc<Peer>,
    pub(crate) link: Arc<LoopbackLink>,
}

/// Owns the loopback transport for the life of the module.
pub(crate) struct Loopback {
    _interface: interface::Registration,
    link: Arc<LoopbackLink>,
    _memory: OwnMemory,
    _transport: transport::Registration,
}

impl Loopback {
    /// Enter the self peer, with at most so many bytes of memory, and the commons.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(memory_len: usize, commons: &Arc<Commons>) -> Result<Self> {
        let transport = transport::Registration::new(TRANSPORT_ID, c"loopback")?;
        let mut queue = Fifo::new();
        queue.reserve(DEPTH, GFP_KERNEL)?;
        let engine = Arc::pin_init(Engine::new(queue), GFP_KERNEL)?;
        let napi = NapiHost::new()?.add(engine.clone())?;
        napi.enable()?;
        let (own_memory, memory) = OwnMemory::new(memory_len, commons)?;
        let link = LoopbackLink {
            engine,
            napi,
            memory,
        };
        let link = Arc::new(link, GFP_KERNEL)?;
        // The self peer exists from the start; a transport gives it its id.
        let entry = transport.entry().clone();
        let peer = Peer::new(PeerId::SELF, 0, entry, Route::Direct, link.clone())?;
        let interface = interface::Registration::new(Info {
            id: INTERFACE_ID,
            name: CString::try_from(c"loopback")?,
            kind: Kind::Loopback,
            location: None,
            bridge: None,
            port: 0,
        })?;
        let entry = SelfEntry {
            peer: peer.clone(),
            link: link.clone(),
        };
        service::self_set(Some(Arc::new(entry, GFP_KERNEL)?));
        interface.set_peer(Some(peer));
        Ok(Self {
            _interface: interface,
            link,
            _memory: own_memory,
            _transport: transport,
        })
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.link.memory.end();
        service::self_set(None);
        self.link.drain();
        self.link.napi.close();
    }
}
