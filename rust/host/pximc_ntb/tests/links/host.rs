// SPDX-License-Identifier: GPL-2.0-only

//! One of the hosts: its modules, and a function that sends and checks what it receives.

use crate::ledger::Shared;
use kernel::{
    error::code::{
        EAGAIN,
        EINVAL,
        ENOMEM, //
    },
    module,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};
use machine::{
    context,
    memory::pieces_of,
    sleep_until,
    spawn_on,
    world::below,
    Handle,
    Host,
    Kind, //
};
use mp_bindings::bridge::ports_are_bound;
use mp_kernel::{
    bytes::SharedBytes,
    new_spinlock_bh,
    sync::SpinLockBh, //
};
use mp_proto::wire::{
    PeerId,
    Priority, //
};
use mp_transport::{
    frame::{
        Frame,
        FrameBody,
        FuncId,
        RxContext,
        RxFrame, //
    },
    function::{
        Function,
        Registration, //
    },
    peer::Peer,
    service, //
};
use std::{
    cell::{
        Cell,
        RefCell, //
    },
    rc::Rc, //
};

const FUNC: FuncId = FuncId(0x5eed);
/// Bytes of the longest frame: more than one record has in a small ring.
const LONGEST: u64 = 6_000;
/// A frame begins with its stream and its number.
const HEAD: usize = 8;

/// Streams of frames, each with a sender and in an order of its own. Two of them share a ring: each
/// sender publishes what the other one has put there.
pub(crate) const STREAMS: [Priority; 3] = [Priority::Bulk, Priority::Bulk, Priority::High];

/// A byte of a frame's data.
fn byte(number: u32, at: usize) -> u8 {
    (number as usize * 31 + at * 7) as u8
}

/// Data of a frame.
fn data(stream: u32, number: u32, len: usize) -> std::vec::Vec<u8> {
    let mut data = std::vec![0; len.max(HEAD)];
    data[..4].copy_from_slice(&stream.to_le_bytes());
    data[4..HEAD].copy_from_slice(&number.to_le_bytes());
    for (at, to) in data.iter_mut().enumerate().skip(HEAD) {
        *to = byte(number, at);
    }
    data
}

/// What a function knows of the peer.
#[derive(Default)]
struct Seen {
    is_there: bool,
    /// The next number of each stream, as of this session; `None` before the first frame.
    next: [Option<u32>; STREAMS.len()],
    /// The last one of all sessions.
    last: [Option<u32>; STREAMS.len()],
}

/// The function.
#[pin_data]
struct Checker {
    #[pin]
    seen: SpinLockBh<Seen>,
    received: [Atomic<u32>; STREAMS.len()],
    made: Atomic<u32>,
    completed: Atomic<u32>,
    peer: Atomic<u32>,
    /// Frames of this host, and those of the other one.
    sent: Shared,
    theirs: Shared,
    /// Memory may run short: then frames are missing.
    may_lose: bool,
}

impl Checker {
    fn new([sent, theirs]: [Shared; 2], may_lose: bool) -> Result<Arc<Self>> {
        let this = pin_init!(Self {
            seen <- new_spinlock_bh!(Seen::default()),
            received: [const { Atomic::new(0) }; STREAMS.len()],
            made: Atomic::new(0),
            completed: Atomic::new(0),
            peer: Atomic::new(PeerId::SELF.0),
            sent,
            theirs,
            may_lose,
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// A frame has arrived with these bytes.
    fn check(&self, bytes: &[u8]) {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
            word.map_or(u32::MAX, u32::from_le_bytes)
        };
        let (stream, number) = (word(0), word(4));
        if bytes != data(stream, number, bytes.len()) {
            machine::fail(format!(
                "frame {number} of stream {stream} is not what was sent"
            ));
        }
        let stream = stream as usize;
        let mut seen = self.seen.lock();
        if !seen.is_there {
            machine::fail("a frame arrives of a peer that is not there");
        }
        let next = seen.next[stream].unwrap_or(number);
        let is_next = next == number || self.may_lose;
        if !is_next || seen.last[stream].is_some_and(|last| last >= number) {
            let last = seen.last[stream];
            machine::fail(format!(
                "stream {stream}: {number} arrives for {next}, after {last:?}"
            ));
        }
        seen.next[stream] = Some(number + 1);
        seen.last[stream] = Some(number);
        drop(seen);
        self.theirs.arrive(stream, number);
        self.received[stream].fetch_add(1, Relaxed);
    }

    /// Send frames of a stream until told to stop, but not while told to rest.
    fn send(self: &Arc<Self>, stream: usize, must_stop: &Cell<bool>, must_rest: &Cell<bool>) {
        let mut number = 0;
        // Rings get full, or mostly empty.
        let busy = !self.may_lose && below(2) == 0;
        let pause = if busy { 200_000 } else { 4_000_000 };
        while !must_stop.get() {
            if must_rest.get() {
                sleep_until(machine::now() + 20_000);
                continue;
            }
            self.sent.get().begin(stream, number);
            let result = self.send_one(stream, number);
            match result {
                Ok(()) => self.sent.accept(stream, number),
                Err(_) => self.sent.refuse(stream, number),
            }
            match result {
                Ok(()) => {
                    number += 1;
                    // The other one may find nothing, and go to sleep.
                    if below(8) == 0 {
                        sleep_until(machine::now() + below(pause));
                    }
                }
                Err(e) if e == EAGAIN => sleep_until(machine::now() + below(20_000)),
                Err(_) => sleep_until(machine::now() + below(1_000_000)),
            }
        }
    }

    fn send_one(self: &Arc<Self>, stream: usize, number: u32) -> Result {
        let longest = if below(8) == 0 { LONGEST } else { 200 };
        let body = Bytes {
            data: data(stream as u32, number, below(longest) as usize),
            checker: self.clone(),
            is_completed: false,
        };
        self.made.fetch_add(1, Relaxed);
        let frame = context::spared(|| Frame::new(FUNC, &[], STREAMS[stream], body))?;
        let to = PeerId(self.peer.load(Relaxed));
        if to == PeerId::SELF {
            return Err(EINVAL);
        }
        service::send(to, &frame)
    }
}

impl Function for Checker {
    fn peer_add(&self, peer: &Arc<Peer>) {
        if peer.id() == service::self_id() {
            return;
        }
        let mut seen = self.seen.lock();
        if core::mem::replace(&mut seen.is_there, true) {
            machine::fail("a peer comes that is there");
        }
        seen.next = Default::default();
        drop(seen);
        self.sent.get().turn();
        self.theirs.get().expect();
        self.peer.store(peer.id().0, Relaxed);
    }

    fn peer_del(&self, peer: &Arc<Peer>) {
        if peer.id().0 != self.peer.load(Relaxed) {
            return;
        }
        self.peer.store(PeerId::SELF.0, Relaxed);
        self.sent.get().turn();
        let lost = self.theirs.get().lost();
        let counted = peer.stats().snapshot().rx_errors;
        if lost > counted {
            machine::fail(format!("{lost} frames are lost, {counted} are counted"));
        }
        if !core::mem::replace(&mut self.seen.lock().is_there, false) {
            machine::fail("a peer goes that is not there");
        }
    }

    fn receive(&self, _rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
        let len = frame.msg().len as usize;
        let mut bytes = std::vec![0; len];
        frame.sync(&mut [&mut bytes])?;
        self.check(&bytes);
        Ok(())
    }
}

/// The body of a frame, which is completed once.
struct Bytes {
    data: std::vec::Vec<u8>,
    checker: Arc<Checker>,
    is_completed: bool,
}

impl FrameBody for Bytes {
    fn len(&self) -> usize {
        self.data.len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        let (head, rest) = self.data.split_at(HEAD);
        f(head.into())?;
        f(rest.into())
    }

    fn complete(&mut self, _status: Result) {
        if core::mem::replace(&mut self.is_completed, true) {
            machine::fail("a frame is completed twice");
        }
        self.checker.completed.fetch_add(1, Relaxed);
    }
}

/// A host that runs.
pub(crate) struct Machine {
    host: Rc<Host>,
    checker: Rc<RefCell<Option<Arc<Checker>>>>,
    must_stop: Rc<Cell<bool>>,
    must_rest: Rc<Cell<bool>>,
    must_reload: Rc<Cell<bool>>,
    /// Frames that it sends.
    pub(crate) sent: Shared,
    main: Handle,
}

impl Machine {
    /// Load the modules and send, until [`stop`](Self::stop) or [`reload`](Self::reload). The ledgers
    /// are those of what this host sends and of what the other one does.
    pub(crate) fn start(host: Rc<Host>, ledgers: [Shared; 2], may_lose: bool) -> Self {
        let checker = Rc::<RefCell<Option<Arc<Checker>>>>::default();
        let must_stop = Rc::<Cell<bool>>::default();
        let must_rest = Rc::<Cell<bool>>::default();
        let must_reload = Rc::<Cell<bool>>::default();
        let sent = ledgers[0].clone();
        let shared = checker.clone();
        let told = Told {
            stop: must_stop.clone(),
            rest: must_rest.clone(),
            reload: must_reload.clone(),
        };
        let main = spawn_on(&host, "host", Kind::Process, move || {
            sleep_until(machine::now() + below(2_000_000));
            until_there_is_memory(|| {
                let loaded = module::load(&mp_transport::HOST_MODULE);
                if loaded.is_err() {
                    assert_eq!(
                        pieces_of(&machine::host()),
                        0,
                        "pieces of what is not loaded"
                    );
                }
                loaded
            });
            let checker = until_there_is_memory(|| Checker::new(ledgers.clone(), may_lose));
            live(&checker, &shared, &told);
            module::unload(&mp_transport::HOST_MODULE);
        });
        Self {
            host,
            checker,
            must_stop,
            must_rest,
            must_reload,
            sent,
            main,
        }
    }

    /// How many frames have arrived of each stream.
    pub(crate) fn received(&self) -> [u32; STREAMS.len()] {
        match &*self.checker.borrow() {
            Some(checker) => checker.received.each_ref().map(|n| n.load(Relaxed)),
            None => Default::default(),
        }
    }

    /// What it has printed.
    pub(crate) fn log(&self) -> std::vec::Vec<std::string::String> {
        kernel::print::take_log(&self.host)
    }

    /// Send nothing new, or send again.
    pub(crate) fn rest(&self, rests: bool) {
        self.must_rest.set(rests);
    }

    /// Unload the transport and load it again.
    pub(crate) fn reload(&self) {
        self.reload_later();
        self.await_reload();
    }

    /// As [`reload`](Self::reload), by the host itself.
    pub(crate) fn reload_later(&self) {
        self.must_reload.set(true);
    }

    /// Wait until it has done so.
    pub(crate) fn await_reload(&self) {
        while self.must_reload.get() {
            sleep_until(machine::now() + 100_000);
        }
    }

    /// Unload the modules.
    pub(crate) fn stop(&self) {
        self.must_stop.set(true);
        self.main.join();
    }

    /// Nothing of the modules is left on the host.
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(pieces_of(&self.host), 0, "pieces of memory");
    }
}

/// What there is memory for in the end.
fn until_there_is_memory<T>(mut get: impl FnMut() -> Result<T>) -> T {
    loop {
        match get() {
            Ok(got) => return got,
            Err(e) => assert_eq!(e, ENOMEM),
        }
        sleep_until(machine::now() + 100_000);
    }
}

/// Load the transport, as soon as there is memory for it and for its device.
fn load() {
    until_there_is_memory(|| {
        module::load(&pximc_ntb::HOST_MODULE)?;
        if ports_are_bound() {
            return Ok(());
        }
        module::unload(&pximc_ntb::HOST_MODULE);
        Err(ENOMEM)
    });
}

/// What a host is told.
struct Told {
    stop: Rc<Cell<bool>>,
    rest: Rc<Cell<bool>>,
    reload: Rc<Cell<bool>>,
}

/// Live with the message frame service, until told to stop.
fn live(checker: &Arc<Checker>, shared: &RefCell<Option<Arc<Checker>>>, told: &Told) {
    *shared.borrow_mut() = Some(checker.clone());
    let registration = until_there_is_memory(|| Registration::new(FUNC, checker.clone()));
    load();
    let senders: std::vec::Vec<_> = (0..STREAMS.len())
        .map(|stream| {
            let (checker, stop, rest) = (checker.clone(), told.stop.clone(), told.rest.clone());
            machine::spawn("sender", Kind::Process, move || {
                checker.send(stream, &stop, &rest);
            })
        })
        .collect();
    while !told.stop.get() {
        sleep_until(machine::now() + below(1_000_000));
        if told.reload.get() {
            module::unload(&pximc_ntb::HOST_MODULE);
            sleep_until(machine::now() + below(1_000_000_000));
            load();
            told.reload.set(false);
        }
    }
    // In the middle of what is sent, or behind it.
    if below(2) == 0 {
        senders.iter().for_each(Handle::join);
    }
    module::unload(&pximc_ntb::HOST_MODULE);
    senders.iter().for_each(Handle::join);
    drop(registration);
    if checker.seen.lock().is_there {
        machine::fail("the peer is there without the transport");
    }
    let (made, completed) = (checker.made.load(Relaxed), checker.completed.load(Relaxed));
    assert_eq!(made, completed, "frames that were made, and completed");
    *shared.borrow_mut() = None;
}
