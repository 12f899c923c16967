// SPDX-License-Identifier: GPL-2.0-only

//! What is to be sent to a peer: in order, and without loss as long as the peer is there.
//!
//! What services tell each other goes ahead of bulk data. Messages of processes to ports are bulk
//! data themselves, unless the peer's release is older, and in an order of their own: the peer
//! finds out by their numbers, and by how many a process has sent that leaves, when all are there.
//! To a peer that another one forwards to, all take one lane, in one order: what [`stores`](crate::stores) has sent is there before what is sent after it. That
//! host may drop a frame, so all of them are numbered ([`mp_proto::sequence`]).
//!
//! What the engines say waits as it is, and a signal once at most: the frame is made when it leaves,
//! and made later if there is no memory then. So all that these take is a place in the queue, which
//! is theirs before there is something to say: see [`hold`](Outbox::hold) and [`Place`]. Who
//! wants a place at once may find no memory, and has said nothing then.

use crate::{
    inbox::{
        WorkerRef,
        MAX, //
    },
    link::AGAIN_MS,
    shortage::Shortage,
    unsent::{
        Unsent,
        UnsentOne, //
    },
    FUNC, //
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_kernel::{
    barrier,
    bytes::SharedBytes,
    error,
    fifo::{
        Chunked,
        Supply, //
    },
    new_spinlock_bh,
    sync::SpinLockBh,
    time::monotonic_ns, //
};
use mp_proto::{
    fabric::{
        self,
        Header,
        Hello,
        Life, //
    },
    pairing::message::{
        Message as OfPairing,
        SIZE_NAMED, //
    },
    sequence::Numbers,
    sharing::{
        message::{
            Message,
            What, //
        },
        placed::Totals, //
    },
    wire::{
        Bytes,
        Priority, //
    }, //
};
use mp_transport::{
    frame::{
        Frame,
        FrameBody, //
    },
    peer::{
        Peer,
        SendError, //
    }, //
};

/// The transmit queue that the frames take; messages go ahead of it, with priority.
const QUEUE: u16 = 0;

/// Most that wait when a process may add a message to a port: the others wait in their
/// processes, and leave room for what the services tell each other.
pub(crate) const MAX_FOR_PORTS: usize = MAX / 2;

/// How often a queue that is full is tried again at once because it says that it has
/// room; then the link's worker goes on after a millisecond. A transport that says so
/// for ever keeps nobody busy.
const TRIES: u32 = 16;

/// Nanoseconds that the last messages may take. A peer that takes nothing for so long
/// is about to be given up.
const DRAIN_NS: u64 = 500_000_000;

/// Milliseconds that they may take if they wait for memory.
const SHORT_MS: u32 = 5000;

/// A place for the goodbye, in which nothing else can be told.
const BYE: usize = 1;

/// Most messages whose places are had at a time.
const CHUNK: usize = 16;

/// What waits.
pub(crate) enum Waiting {
    /// What the service speaks.
    Hello(Hello),
    /// It leaves the service with that life.
    Bye(Life),
    /// A message of the sharing engine to the service with that life.
    Sharing(Life, Message),
    /// A message of the pairing engine to the service with that life, and the data behind it.
    Pairing(Life, OfPairing, Option<Arc<KVec<u8>>>),
    /// A message to a port, one of those of its user.
    Frame { frame: Frame, _one: UnsentOne },
    /// A signal.
    Signal(Arc<Signal>),
}

impl Waiting {
    /// What is to be sent now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn frame(&self) -> Result<Frame> {
        match self {
            Waiting::Hello(hello) => {
                let data = Bytes::<4>::new(&hello.data(), &[]);
                frame(&Header::Hello(*hello), Data(data))
            }
            Waiting::Bye(life) => frame(&Header::Bye(*life), Data(KVec::new())),
            Waiting::Sharing(life, message) => {
                frame(&Header::Sharing(*life), Data(message.encode()))
            }
            Waiting::Pairing(life, message, data) => {
                let said = Said(message.encode(), data.clone());
                frame(&Header::Pairing(*life), said)
            }
            Waiting::Frame { frame, .. } => Ok(frame.clone()),
            Waiting::Signal(signal) => signal.frame(),
        }
    }

    /// It does not wait any more.
    fn leaves(&self) {
        if let Waiting::Signal(signal) = self {
            signal.waits.store(false, Relaxed);
        }
    }
}

/// What a signal tells.
enum Content {
    /// That it was sent: one frame, sent often.
    Plain(Frame),
    /// How often there was a trigger.
    Total(Header, Arc<Atomic<u32>>),
    /// Which question is the last one, or the last one that is answered.
    Question(Header, Arc<Atomic<u32>>, What),
    /// How many messages of a connection were taken.
    Taken {
        header: Header,
        connection: u32,
        total: Arc<Atomic<u32>>,
    },
    /// What has become of the pieces that a connection has written.
    Placed {
        header: Header,
        connection: u32,
        totals: Arc<SpinLockBh<Totals>>,
    },
}

/// What is told to the other side again and again, to a session or about a connection.
pub(crate) struct Signal {
    content: Content,
    /// Its own in the outbox, if it always has one.
    place: Option<Place>,
    /// Whether it waits in the outbox, under whose lock this changes.
    waits: Atomic<bool>,
}

impl Signal {
    /// From one session to another, of the service with that life.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(life: Life, from: u32, to: u32) -> Result<Arc<Self>> {
        let header = Header::Signal { life, to, from };
        Self::with(Content::Plain(frame(&header, Data(KVec::new()))?))
    }

    /// The trigger of an event by that connection, to the service with that life: tells
    /// how often there was one by the time at which it leaves. It has a place of its own.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS`.
    pub(crate) fn trigger(
        outbox: &Outbox,
        life: Life,
        from: u32,
        total: Arc<Atomic<u32>>,
    ) -> Result<Arc<Self>> {
        let content = Content::Total(Header::Trigger { life, from }, total);
        Self::placed(outbox, content)
    }

    /// A question to the service with that life, if it `asks`, or else the answer to one: tells the
    /// number that is the last one by the time at which it leaves. It has a place of its own.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS`.
    pub(crate) fn question(
        outbox: &Outbox,
        life: Life,
        last: Arc<Atomic<u32>>,
        asks: bool,
    ) -> Result<Arc<Self>> {
        let what = if asks { What::Ask } else { What::Answer };
        Self::placed(outbox, Content::Question(Header::Sharing(life), last, what))
    }

    fn with(content: Content) -> Result<Arc<Self>> {
        Self::make(content, None)
    }

    fn placed(outbox: &Outbox, content: Content) -> Result<Arc<Self>> {
        Self::make(content, Some(outbox.place_for_signal()?))
    }

    fn make(content: Content, place: Option<Place>) -> Result<Arc<Self>> {
        let signal = Self {
            content,
            place,
            waits: Atomic::new(false),
        };
        Ok(Arc::new(signal, GFP_KERNEL_ACCOUNT)?)
    }

    /// The frame that tells what is so now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn frame(&self) -> Result<Frame> {
        match &self.content {
            Content::Plain(frame) => Ok(frame.clone()),
            Content::Total(header, total) => {
                let total = total.load(Relaxed).to_le_bytes();
                frame(header, Data(Bytes::<4>::new(&total, &[])))
            }
            Content::Question(header, last, what) => {
                let message = Message {
                    connection: last.load(Acquire),
                    what: *what,
                };
                frame(header, Data(message.encode()))
            }
            Content::Taken {
                header,
                connection,
                total,
            } => {
                let message = Message {
                    connection: *connection,
                    what: What::Taken(total.load(Relaxed)),
                };
                frame(header, Data(message.encode()))
            }
            Content::Placed {
                header,
                connection,
                totals,
            } => {
                let message = Message {
                    connection: *connection,
                    what: What::Placed(*totals.lock()),
                };
                frame(header, Data(message.encode()))
            }
        }
    }
}

/// Tells the sender of messages to a port how many of them have been taken.
pub(crate) struct Receipt {
    outbox: Arc<Outbox>,
    signal: Arc<Signal>,
    total: Arc<Atomic<u32>>,
}

impl Receipt {
    /// For a connection of the service with that life.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS`.
    pub(crate) fn new(outbox: Arc<Outbox>, life: Life, connection: u32) -> Result<Self> {
        let total = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let content = Content::Taken {
            header: Header::Sharing(life),
            connection,
            total: total.clone(),
        };
        let signal = Signal::placed(&outbox, content)?;
        Ok(Self {
            outbox,
            signal,
            total,
        })
    }

    /// So many have been taken: what waits to be sent tells that, too.
    pub(crate) fn count(&self, total: u32) {
        self.total.store(total, Relaxed);
    }

    /// The signal that tells it, and its way.
    pub(crate) fn way(&self) -> (Arc<Outbox>, Arc<Signal>) {
        (self.outbox.clone(), self.signal.clone())
    }
}

/// Tells the peer what has become of the pieces that one of its connections has written.
pub(crate) struct Tally {
    signal: Arc<Signal>,
    /// Its lock comes behind those of guests and outboxes.
    totals: Arc<SpinLockBh<Totals>>,
}

impl Tally {
    /// Of a connection of the service with that life.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS`.
    pub(crate) fn new(outbox: &Outbox, life: Life, connection: u32) -> Result<Self> {
        let totals = Arc::pin_init(new_spinlock_bh!(Totals::default()), GFP_KERNEL)?;
        let content = Content::Placed {
            header: Header::Sharing(life),
            connection,
            totals: totals.clone(),
        };
        let signal = Signal::placed(outbox, content)?;
        Ok(Self { signal, totals })
    }

    /// So many have been dealt with: what waits to be sent tells that, too.
    pub(crate) fn count(&self, totals: Totals) {
        *self.totals.lock() = totals;
    }

    /// The signal that tells it.
    pub(crate) fn signal(&self) -> Arc<Signal> {
        self.signal.clone()
    }
}

/// Data of a message.
struct Data<B>(B);

impl<B: Deref<Target = [u8]> + Send + Sync + 'static> FrameBody for Data<B> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        f((*self.0).into())
    }

    fn complete(&mut self, _status: Result) {}
}

/// A message of the pairing engine, and the data behind it.
struct Said(Bytes<SIZE_NAMED>, Option<Arc<KVec<u8>>>);

impl Said {
    fn data(&self) -> &[u8] {
        self.1.as_ref().map_or(&[], |data| data.as_slice())
    }
}

impl FrameBody for Said {
    fn len(&self) -> usize {
        self.0.len() + self.data().len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        f((*self.0).into())?;
        f(self.data().into())
    }

    fn complete(&mut self, _status: Result) {}
}

/// Data that is stored by the peer's service, behind bytes that tell where.
struct Placed<const N: usize>([u8; N], KVec<u8>);

impl<const N: usize> FrameBody for Placed<N> {
    fn len(&self) -> usize {
        N + self.1.len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        f(self.0.as_slice().into())?;
        f(self.1.as_slice().into())
    }

    fn complete(&mut self, _status: Result) {}
}

/// A frame as it leaves, with a number behind its header.
struct Counted(Frame);

impl Counted {
    /// That frame with that number, in the lane of bulk data.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn frame(frame: &Frame, number: u32) -> Result<Frame> {
        let header = fabric::with_number(frame.func_hdr(), number).ok_or(EINVAL)?;
        Frame::new(FUNC, &header, Priority::Bulk, Self(frame.clone()))
    }
}

impl FrameBody for Counted {
    fn len(&self) -> usize {
        self.0.body().len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        self.0.body().for_each_fragment(f)
    }

    fn complete(&mut self, _status: Result) {}
}

/// The message with that header and body.
///
/// # Errors
///
/// `ENOMEM`.
fn frame(header: &Header, body: impl FrameBody + 'static) -> Result<Frame> {
    frame_of(header, Priority::High, body)
}

/// The same in that lane.
///
/// # Errors
///
/// `ENOMEM`.
fn frame_of(header: &Header, lane: Priority, body: impl FrameBody + 'static) -> Result<Frame> {
    Frame::new(FUNC, &header.encode(), lane, body)
}

/// A place in an outbox for one signal; dropping it gives that back.
pub(crate) struct Place(Arc<Atomic<usize>>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// What changes with each frame.
///
/// # Invariants
///
/// Behind what waits there is room for what is held, and for each signal with a place that does not
/// wait.
struct State {
    waiting: Chunked<Waiting, CHUNK>,
    /// Messages to ports that have a lane of their own.
    for_ports: Chunked<Waiting, CHUNK>,
    /// Messages of the engines that may come without more ado.
    held: usize,
    /// Of the frames in the one lane.
    numbers: Numbers,
}

impl State {
    /// What waits for that lane.
    fn of(&mut self, lane: Priority) -> &mut Chunked<Waiting, CHUNK> {
        match lane {
            Priority::High => &mut self.waiting,
            Priority::Bulk => &mut self.for_ports,
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.for_ports.is_empty()
    }
}

/// The frames to one peer.
#[pin_data]
pub(crate) struct Outbox {
    peer: Arc<Peer>,
    /// All that is sent takes the lane of bulk data, and is numbered.
    is_one_lane: bool,
    /// That of the link, whose work calls [`resume`](Outbox::resume).
    worker: WorkerRef,
    /// That of the link.
    shortage: Arc<Shortage>,
    /// Signals with a place of their own. More only under the lock.
    places: Arc<Atomic<usize>>,
    /// Held while frames are sent, so that they leave in the order of their numbers.
    #[pin]
    state: SpinLockBh<State>,
}

impl Outbox {
    /// Nothing to send.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        peer: Arc<Peer>,
        worker: WorkerRef,
        shortage: Arc<Shortage>,
    ) -> Result<Arc<Self>> {
        let places = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let mut waiting = Chunked::new();
        waiting.reserve(BYE, GFP_KERNEL)?;
        Arc::pin_init(
            // INVARIANT: There is room for the goodbye.
            pin_init!(Self {
                is_one_lane: peer.hop().is_some(),
                peer,
                worker,
                shortage,
                places,
                state <- new_spinlock_bh!(State {
                    waiting,
                    for_ports: Chunked::new(),
                    held: BYE,
                    numbers: Numbers::default(),
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// The peer.
    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// When this host was short of memory for what it tells the peer, or hears from it.
    pub(crate) fn shortage(&self) -> &Shortage {
        &self.shortage
    }

    /// Call `f` when there is room for so many entries as `more` says, beside those that may come
    /// without more ado. Sleeps before, if that takes memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS` if the peer takes nothing; `f` is not called.
    fn with_room<R>(
        &self,
        more: impl Fn(&State) -> usize,
        f: impl FnOnce(&mut State) -> R,
    ) -> Result<R> {
        let mut supply = Supply::new();
        loop {
            let mut state = self.state.lock();
            let more = more(&state);
            if more != 0 && state.waiting.len() >= MAX {
                return Err(error::no_buffers());
            }
            // Signals that wait are counted twice, which does no harm.
            let places = state.waiting.len() + state.held + self.places.load(Relaxed) + more;
            if more == 0 || state.waiting.reserve_from(places, &mut supply) {
                return Ok(f(&mut state));
            }
            drop(state);
            supply.fill(GFP_KERNEL | __GFP_NOWARN)?;
        }
    }

    /// Make sure that the engines can [say](Self::say) so many things without memory, and that the
    /// goodbye can be said.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS` if the peer takes nothing; what is held is as it was.
    pub(crate) fn hold(&self, count: usize) -> Result {
        let lacks = |state: &State| (count + BYE).saturating_sub(state.held);
        self.with_room(lacks, |state| state.held += lacks(state))
    }

    /// [Hold](Self::hold) one more.
    ///
    /// # Errors
    ///
    /// Those of [`hold`](Self::hold).
    pub(crate) fn hold_another(&self) -> Result {
        self.hold(self.held() + 1)
    }

    /// Give the place of one that is held back: there is nothing to say.
    pub(crate) fn give_back(&self) {
        self.hold_only(self.held().saturating_sub(1));
    }

    /// Hold no more than that.
    pub(crate) fn hold_only(&self, count: usize) {
        let mut state = self.state.lock();
        state.held = state.held.min(count + BYE);
    }

    /// How many messages are held.
    pub(crate) fn held(&self) -> usize {
        self.state.lock().held.saturating_sub(BYE)
    }

    /// Send one of the messages that are held, as soon as there is room. Sleeps, if none is.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS`: it was not held, and is lost.
    pub(crate) fn say(&self, mail: Waiting) -> Result {
        let lacks = |state: &State| usize::from(state.held == 0);
        self.with_room(lacks, |state| {
            state.held = state.held.saturating_sub(1);
            self.push(state, mail)
        })?
    }

    /// A place for one signal.
    fn place_for_signal(&self) -> Result<Place> {
        self.with_room(
            |_| 1,
            |_| {
                self.places.fetch_add(1, Relaxed);
                Place(self.places.clone())
            },
        )
    }

    /// Tell the peer what this service speaks.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS`: it is not told.
    pub(crate) fn greet(&self, hello: &Hello) -> Result {
        self.enter(Waiting::Hello(*hello))
    }

    /// Ask the service with that life for a piece of a segment. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS` if the peer takes nothing: it is not asked.
    pub(crate) fn ask(&self, life: Life, message: &Message) -> Result {
        self.enter(Waiting::Sharing(life, *message))
    }

    /// Send a message of a process to a port in that lane, as soon as there is room. It is not
    /// charged to the process: callers hold a lock that the link's worker takes.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if too much waits, of all or of the one user, `ENOMEM`: nothing has been sent.
    pub(crate) fn send_to_port(
        &self,
        header: &Header,
        data: &[u8],
        lane: Priority,
        unsent: &Arc<Unsent>,
    ) -> Result {
        // Where there is one lane, its frames are made as those that go ahead elsewhere.
        let lane = match self.is_one_lane {
            true => Priority::High,
            false => lane,
        };
        let one = UnsentOne::new(unsent).ok_or(EAGAIN)?;
        if self.state.lock().of(lane).len() >= MAX_FOR_PORTS {
            return Err(EAGAIN);
        }
        let mut copied = KVec::with_capacity(data.len(), GFP_KERNEL)?;
        copied.extend_from_slice(data, GFP_KERNEL)?;
        let frame = frame_of(header, lane, Data(copied))?;
        let mail = Waiting::Frame { frame, _one: one };
        match lane {
            Priority::High => self.enter(mail),
            Priority::Bulk => self.enter_for_port(mail),
        }
    }

    /// Append a message to a port to those that have a lane of their own. Sleeps before, if that
    /// takes memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn enter_for_port(&self, mail: Waiting) -> Result {
        let mut supply = Supply::new();
        loop {
            let mut state = self.state.lock();
            let places = state.for_ports.len() + 1;
            if state.for_ports.reserve_from(places, &mut supply) {
                state.for_ports.push(mail)?;
                self.flush(&mut state, Priority::Bulk);
                return Ok(());
            }
            drop(state);
            supply.fill(GFP_KERNEL | __GFP_NOWARN)?;
        }
    }

    /// Send data that the peer's service stores, by the data rings.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if they are full: somebody is told when there is room, see
    /// [`Peer::arm_tx`]. `ENOMEM`, `ENOTCONN`, `EMSGSIZE`.
    pub(crate) fn place<const N: usize>(
        &self,
        header: &Header,
        place: [u8; N],
        data: KVec<u8>,
    ) -> Result {
        self.put(&Self::bulk(header, place, data)?)
    }

    /// Data for the peer's service to store, as a frame.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn bulk<const N: usize>(
        header: &Header,
        place: [u8; N],
        data: KVec<u8>,
    ) -> Result<Frame> {
        Frame::new(FUNC, &header.encode(), Priority::Bulk, Placed(place, data))
    }

    /// Send such a frame; not ahead of messages that wait, if these take the same lane.
    ///
    /// # Errors
    ///
    /// Those of [`place`](Self::place).
    pub(crate) fn put(&self, frame: &Frame) -> Result {
        if !self.is_one_lane {
            return self.send_bulk(frame);
        }
        let mut state = self.state.lock();
        if !state.waiting.is_empty() {
            return Err(EAGAIN);
        }
        let counted = Counted::frame(frame, state.numbers.next())?;
        self.send_bulk(&counted)?;
        state.numbers.sent();
        Ok(())
    }

    fn send_bulk(&self, frame: &Frame) -> Result {
        for _ in 0..TRIES {
            match self.peer.send(frame, QUEUE) {
                Err(SendError::Full) if self.peer.arm_tx(QUEUE) => {}
                sent => {
                    self.peer.kick(QUEUE);
                    return sent.map(drop).map_err(Error::from);
                }
            }
        }
        Err(EAGAIN)
    }

    /// How many frames have left in the one lane, modulo 2^32.
    pub(crate) fn sent(&self) -> u32 {
        self.state.lock().numbers.next()
    }

    /// Send a signal after everything that this processor has stored, as soon as there
    /// is room (`PXI-AE-1`). Sleeps, unless it has a place of its own: then any context but hard
    /// interrupts will do.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS`: it is not sent. None, if it has a place of its own in this outbox.
    pub(crate) fn signal(&self, signal: &Arc<Signal>) -> Result {
        barrier::wmb();
        // What waits will tell of these stores as well (PXI-AE-4).
        let is_new = |_: &State| !signal.waits.load(Relaxed);
        let lacks = |state: &State| usize::from(signal.place.is_none() && is_new(state));
        self.with_room(lacks, |state| {
            if is_new(state) {
                state.waiting.push(Waiting::Signal(signal.clone()))?;
                signal.waits.store(true, Relaxed);
                self.flush(state, Priority::High);
            }
            Ok(())
        })?
    }

    fn enter(&self, mail: Waiting) -> Result {
        self.with_room(|_| 1, |state| self.push(state, mail))?
    }

    /// Append what there is room for, and send what can be sent.
    fn push(&self, state: &mut State, mail: Waiting) -> Result {
        state.waiting.push(mail)?;
        self.flush(state, Priority::High);
        Ok(())
    }

    /// There may be room now.
    pub(crate) fn resume(&self) {
        let mut state = self.state.lock();
        for lane in [Priority::High, Priority::Bulk] {
            if !state.of(lane).is_empty() {
                self.flush(&mut state, lane);
            }
        }
    }

    /// Let the link's worker try again what could not be entered.
    pub(crate) fn resume_later(&self) {
        self.worker.kick_in(AGAIN_MS);
    }

    /// Let the link's worker run, after others that want the link.
    pub(crate) fn resume_soon(&self) {
        self.worker.kick();
    }

    /// Wait until nothing is left to be sent, for a while; whether that is so. Nothing
    /// more is entered meanwhile. Sleeps.
    pub(crate) fn drain(&self) -> bool {
        let begun = monotonic_ns();
        for _ in 0..SHORT_MS {
            self.resume();
            if self.state.lock().is_empty() {
                return true;
            }
            if self.shortage.is_late(begun, DRAIN_NS, monotonic_ns()) {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        false
    }

    /// Whether there is room in that lane by now; else the peer's completion tells.
    fn has_room(&self, lane: Priority) -> bool {
        match lane {
            Priority::High if !self.is_one_lane => self.peer.arm_priority(),
            _ => self.peer.arm_tx(QUEUE),
        }
    }

    /// What is to leave next of what waits for that lane.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn next(&self, state: &mut State, lane: Priority) -> Result<Option<Frame>> {
        let Some(mail) = state.of(lane).front() else {
            return Ok(None);
        };
        let frame = mail.frame()?;
        match self.is_one_lane {
            true => Counted::frame(&frame, state.numbers.next()).map(Some),
            false => Ok(Some(frame)),
        }
    }

    /// What is to leave next waits for memory.
    fn wait_for_memory(&self) {
        self.shortage.note();
        self.worker.kick_in(1);
    }

    /// Send what waits for that lane, as far as there is room.
    fn flush(&self, state: &mut State, lane: Priority) {
        let mut sent = false;
        let mut tries = 0;
        loop {
            let frame = match self.next(state, lane) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => {
                    self.wait_for_memory();
                    break;
                }
            };
            match self.peer.send(&frame, QUEUE) {
                Err(SendError::Full) => {
                    if !self.has_room(lane) {
                        break;
                    }
                    tries += 1;
                    if tries == TRIES {
                        self.worker.kick_in(1);
                        break;
                    }
                }
                Err(SendError::Body(e)) if e == ENOMEM => {
                    self.wait_for_memory();
                    break;
                }
                // What a peer that has left does not get, it does not miss.
                _ => {
                    if let Some(mail) = state.of(lane).pop() {
                        mail.leaves();
                    }
                    state.numbers.sent();
                    sent = true;
                    tries = 0;
                }
            }
        }
        if sent {
            self.peer.kick(QUEUE);
        }
    }
}
