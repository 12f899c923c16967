// SPDX-License-Identifier: GPL-2.0-only

//! What the suites work with: a transport without a wire and a function that
//! notes what it is given.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
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
    bytes::{
        SharedBytes,
        Writer, //
    },
    new_spinlock_bh,
    sync::SpinLockBh, //
};
use mp_proto::{
    manage::{
        Message,
        PeerStats,
        FUNC_ID, //
    },
    wire::{
        Envelope,
        MsgHdr,
        PeerId,
        Priority, //
    }, //
};
use mp_transport::{
    frame::{
        Frame,
        FrameBody,
        RxContext,
        RxData,
        RxFrame, //
    },
    function::Function,
    peer::{
        Link,
        Peer,
        SendError, //
    },
    service,
    transport::{
        PeerRegistration,
        Registration, //
    }, //
};

/// Id of the transport.
pub(crate) const TRANSPORT_ID: u32 = 0x7e57;

/// A context of frames that no NAPI receives.
pub(crate) fn context() -> RxContext<'static> {
    RxContext {
        napi: None,
        queue: 0,
        priority: Priority::Bulk,
        last: true,
    }
}

/// What a link has been given.
#[derive(Default)]
struct Taken {
    /// Headers of frames that a function will see, in order.
    frames: KVec<Envelope>,
    /// What the peer's message frame service was told, in order.
    messages: KVec<Message>,
}

/// A link that takes frames and keeps their headers.
#[pin_data]
pub(crate) struct Sink {
    bridge: u32,
    full: Atomic<bool>,
    /// Bodies of frames cannot be read.
    fails: Atomic<bool>,
    /// Id of the peer that answers questions; [`PeerId::SELF`] for none.
    answers: Atomic<u32>,
    #[pin]
    taken: SpinLockBh<Taken>,
}

impl Sink {
    fn new(bridge: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                bridge,
                full: Atomic::new(false),
                fails: Atomic::new(false),
                answers: Atomic::new(PeerId::SELF.0),
                taken <- new_spinlock_bh!(Taken::default()),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether frames meet a full queue from now on.
    pub(crate) fn refuse(&self, full: bool) {
        self.full.store(full, Relaxed);
    }

    /// Whether frames that a function will see fail with `ENOMEM` from now on.
    pub(crate) fn fail(&self, fails: bool) {
        self.fails.store(fails, Relaxed);
    }

    /// Who answers the questions for statistics that this peer gets, with [`ANSWER`].
    pub(crate) fn answer(&self, by: PeerId) {
        self.answers.store(by.0, Relaxed);
    }

    /// The headers of the frames that it was given since the last call.
    pub(crate) fn take_frames(&self) -> KVec<Envelope> {
        core::mem::take(&mut self.taken.lock().frames)
    }

    /// What the peer was told since the last call.
    pub(crate) fn take_messages(&self) -> KVec<Message> {
        core::mem::take(&mut self.taken.lock().messages)
    }

    /// Wait until the peer has been told `count` things, at most a second.
    pub(crate) fn await_messages(&self, count: usize) -> KVec<Message> {
        for _ in 0..1000 {
            if self.taken.lock().messages.len() >= count {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        self.take_messages()
    }

    fn tell(&self, head: &Envelope, message: Message) {
        // A message that is not kept is missed by the test that waits for it.
        let _ = self.taken.lock().messages.push(message, GFP_ATOMIC);
        let by = PeerId(self.answers.load(Relaxed));
        if let (Message::AskStats(number), true) = (message, by != PeerId::SELF) {
            let answer = Message::Stats(number, ANSWER).encode();
            let msg = MsgHdr {
                dst: head.msg.src,
                src: by,
                len: answer.len() as u32,
                func: FUNC_ID,
            };
            if let Some(peer) = service::peer_get(by) {
                let _ = service::receive(&context(), &peer, msg, &answer, &Bytes(&[]));
            }
        }
    }
}

/// What a peer's statistics are.
pub(crate) const ANSWER: PeerStats = PeerStats {
    tx_frames: 1,
    tx_bytes: 2,
    tx_errors: 3,
    rx_frames: 4,
    rx_bytes: 5,
    rx_errors: 6,
};

impl Link for Sink {
    fn queues(&self) -> u16 {
        1
    }

    fn max_frame(&self) -> usize {
        1 << 16
    }

    fn send(&self, head: &Envelope, frame: &Frame, _queue: u16) -> Result<u32, SendError> {
        if self.full.load(Relaxed) {
            return Err(SendError::Full);
        }
        match Message::decode(frame.func_hdr()) {
            Some(message) if head.msg.func == FUNC_ID => self.tell(head, message),
            _ if self.fails.load(Relaxed) => return Err(SendError::Body(ENOMEM)),
            _ => {
                let frames = &mut self.taken.lock().frames;
                frames
                    .push(*head, GFP_ATOMIC)
                    .map_err(|e| SendError::Body(e.into()))?;
            }
        }
        Ok(1)
    }

    fn kick(&self, _queue: u16) {}

    fn arm_tx(&self, _queue: u16) -> bool {
        !self.full.load(Relaxed)
    }

    fn bridge(&self) -> u32 {
        self.bridge
    }

    fn counters(&self) -> &'static [&'static CStr] {
        &[c"bridge"]
    }

    fn counter(&self, _index: usize) -> u64 {
        self.bridge.into()
    }
}

/// This host as the RP, and its peers: number `n` has index and bus `n`.
///
/// Dropping it removes everything, the peers first.
pub(crate) struct Fabric {
    peers: KVec<(PeerRegistration, Arc<Sink>)>,
    transport: Registration,
    /// Whether each peer is behind a bridge of its own.
    is_star: bool,
    _id: OwnId,
}

/// The id of this host, as long as it lives.
struct OwnId;

impl Drop for OwnId {
    fn drop(&mut self) {
        service::clear_self_id();
    }
}

impl Fabric {
    /// A host with so many peers, all behind one bridge.
    pub(crate) fn new(peers: usize) -> Result<Self> {
        Self::with(peers, false)
    }

    /// A host with so many peers, each behind a bridge of its own.
    pub(crate) fn star(peers: usize) -> Result<Self> {
        Self::with(peers, true)
    }

    fn of(id: PeerId, is_star: bool) -> Result<Self> {
        service::set_self_id(id)?;
        let id = OwnId;
        Ok(Self {
            peers: KVec::new(),
            transport: Registration::new(TRANSPORT_ID, c"kunit")?,
            is_star,
            _id: id,
        })
    }

    fn with(peers: usize, is_star: bool) -> Result<Self> {
        let mut this = Self::of(PeerId::RP, is_star)?;
        for _ in 0..peers {
            this.add()?;
        }
        Ok(this)
    }

    /// A host that is an endpoint, on bus 9, with the RP as its only peer, which is number 1.
    pub(crate) fn endpoint() -> Result<Self> {
        let mut this = Self::of(PeerId::from_bdf(9, 0, 0), true)?;
        this.enter(PeerId::RP, 0)?;
        Ok(this)
    }

    /// Add the next peer.
    pub(crate) fn add(&mut self) -> Result {
        let number = self.peers.len() as u32 + 1;
        self.enter(PeerId::from_bdf(number, 0, 0), number)
    }

    /// Add a peer with that id and index.
    pub(crate) fn enter(&mut self, id: PeerId, index: u32) -> Result {
        let bridge = if self.is_star { index } else { 0 };
        let sink = Sink::new(bridge)?;
        let peer = self.transport.add_peer(id, index, sink.clone())?;
        self.peers.push((peer, sink), GFP_KERNEL)?;
        Ok(())
    }

    /// The error of adding a peer, which is removed at once if there is none.
    pub(crate) fn try_add(&self, id: PeerId, index: u32) -> Option<Error> {
        let sink = match Sink::new(0) {
            Ok(sink) => sink,
            Err(e) => return Some(e),
        };
        self.transport.add_peer(id, index, sink).err()
    }

    /// The transport that leads to the peers.
    pub(crate) fn transport(&self) -> &Registration {
        &self.transport
    }

    /// Remove the peer that was added last.
    pub(crate) fn remove_last(&mut self) {
        drop(self.peers.pop());
    }

    /// Peer `number`.
    pub(crate) fn peer(&self, number: u32) -> Result<Arc<Peer>> {
        let (peer, _) = self.peers.get(number as usize - 1).ok_or(ENOENT)?;
        Ok(peer.peer().clone())
    }

    /// The link of peer `number`.
    pub(crate) fn link(&self, number: u32) -> Result<&Sink> {
        let (_, sink) = self.peers.get(number as usize - 1).ok_or(ENOENT)?;
        Ok(sink)
    }
}

/// The data of a frame that has arrived.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl RxData for Bytes<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn copy_to(&self, offset: usize, mut dst: Writer<'_>) -> Result {
        let end = offset.checked_add(dst.remaining()).ok_or(EINVAL)?;
        dst.write(self.0.get(offset..end).ok_or(EINVAL)?.into())
    }
}

/// A function that counts, and copies the data of each frame twice.
#[pin_data]
pub(crate) struct Listener {
    present: Atomic<i32>,
    received: Atomic<u32>,
    completed: Atomic<u32>,
    lost: Atomic<u32>,
    /// Bytes that the two buffers got, intact and in order.
    copied: Atomic<u64>,
    /// What buffers that are too small came to.
    #[pin]
    short: SpinLockBh<Option<Error>>,
}

/// What buffers are filled with beforehand.
const BLANK: u8 = 0xee;

impl Listener {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                present: Atomic::new(0),
                received: Atomic::new(0),
                completed: Atomic::new(0),
                lost: Atomic::new(0),
                copied: Atomic::new(0),
                short <- new_spinlock_bh!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Peers that have come and not gone.
    pub(crate) fn present(&self) -> i32 {
        self.present.load(Relaxed)
    }

    /// Frames received.
    pub(crate) fn received(&self) -> u32 {
        self.received.load(Relaxed)
    }

    /// How often a peer was said to have room.
    pub(crate) fn completed(&self) -> u32 {
        self.completed.load(Relaxed)
    }

    /// How often it was told of frames that were dropped on their way.
    pub(crate) fn lost(&self) -> u32 {
        self.lost.load(Relaxed)
    }

    /// How many bytes the first and the second buffer got of the last frame.
    pub(crate) fn copied(&self) -> (u32, u32) {
        let both = self.copied.load(Relaxed);
        ((both >> 32) as u32, both as u32)
    }

    /// The error of buffers that were too small for the last frame.
    pub(crate) fn short(&self) -> Option<Error> {
        *self.short.lock()
    }

    /// Copy into a buffer of three bytes and one of twenty.
    fn copy(&self, frame: &RxFrame<'_>) -> Result {
        let (mut a, mut b) = ([BLANK; 3], [BLANK; 20]);
        frame.sync(&mut [&mut a, &mut b])?;
        let mut got = [0u32; 2];
        let mut expected = 0u8;
        for (count, buffer) in got.iter_mut().zip([&a[..], &b[..]]) {
            for byte in buffer.iter().filter(|byte| **byte != BLANK) {
                *count += u32::from(*byte == expected);
                expected += 1;
            }
        }
        let [first, second] = got;
        self.copied
            .store(u64::from(first) << 32 | u64::from(second), Relaxed);
        Ok(())
    }

    /// Try buffers that lack a byte; they must stay as they are.
    fn copy_short(&self, frame: &RxFrame<'_>) -> Result {
        let (mut a, mut b) = ([BLANK; 3], [BLANK; 6]);
        let error = frame.sync(&mut [&mut a, &mut b]).err();
        let untouched = a == [BLANK; 3] && b == [BLANK; 6];
        *self.short.lock() = error.filter(|_| untouched);
        Ok(())
    }
}

impl Function for Listener {
    fn peer_add(&self, _peer: &Arc<Peer>) {
        self.present.fetch_add(1, Relaxed);
    }

    fn peer_del(&self, _peer: &Arc<Peer>) {
        self.present.fetch_sub(1, Relaxed);
    }

    fn tx_completed(&self, _peer: &Peer, _queue: u16, _units: u32) {
        self.completed.fetch_add(1, Relaxed);
    }

    fn lost(&self, _peer: &Peer) {
        self.lost.fetch_add(1, Relaxed);
    }

    fn receive(&self, _rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
        self.received.fetch_add(1, Relaxed);
        self.copy(&frame)?;
        self.copy_short(&frame)
    }
}

/// How often and how frames were completed.
#[pin_data]
pub(crate) struct Outcome {
    #[pin]
    last: SpinLockBh<(u32, Result)>,
}

impl Outcome {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self { last <- new_spinlock_bh!((0, Ok(()))) }),
            GFP_KERNEL,
        )
    }

    /// What happened since the last call.
    pub(crate) fn take(&self) -> (u32, Result) {
        core::mem::replace(&mut *self.last.lock(), (0, Ok(())))
    }
}

/// A body without data.
pub(crate) struct Attempt(Arc<Outcome>);

impl Attempt {
    pub(crate) fn new(outcome: &Arc<Outcome>) -> Self {
        Self(outcome.clone())
    }
}

impl FrameBody for Attempt {
    fn len(&self) -> usize {
        0
    }

    fn for_each_fragment<'a>(&'a self, _f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        Ok(())
    }

    fn complete(&mut self, status: Result) {
        let mut last = self.0.last.lock();
        *last = (last.0 + 1, status);
    }
}
