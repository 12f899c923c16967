// SPDX-License-Identifier: GPL-2.0-only

//! What this host and one peer have of each other, in one epoch of their link.
//!
//! Both have a table in the memory that the other one reaches, say so in a Hello, and are partners from
//! then on. Messages wait here for room in the ring of priority frames; that of one buffer becomes one.
//!
//! # Locks
//!
//! `landings`, then `state`, then those of the transport. What is stored to the peer's memory is stored
//! under `state`: when a message that ends that has been received, nobody is in the middle of it.

use crate::{
    fabric,
    stats::Tally,
    SERVICE, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    bytes::SharedBytes,
    error,
    new_spinlock_bh,
    random,
    sync::SpinLockBh, //
};
use mp_proto::{
    dibs::{
        self,
        message::Encoded,
        Entry,
        Gid,
        Grant,
        Hello,
        Message,
        Move,
        Outbox,
        Pending,
        Slot,
        Slots,
        Token,
        MAX_SLOTS, //
    },
    reach,
    wire::{
        PeerId,
        Priority, //
    }, //
};
use mp_transport::{
    frame::{
        Frame,
        FrameBody, //
    },
    memory::{
        Local,
        Memory,
        Remote, //
    },
    peer::{
        Peer,
        SendError, //
    },
    service, //
};

/// Messages without data that can wait: one for each buffer of both, and some.
const CONTROL: usize = 2 * MAX_SLOTS + 8;

/// Attempts to send while the peer makes room at the same time.
const ATTEMPTS: u32 = 32;

/// Pause after a failure, in milliseconds.
const RETRY_MS: u32 = 10;

/// Who is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Both, or the peer's device is awaited.
    Open,
    /// The own device goes; the peer was told.
    Leaving,
    /// The peer's device has gone, or is another one: this link is to be replaced. Whether it waits for
    /// an answer.
    Replace(bool),
    /// The peer knows that, and reaches nothing of this host's.
    Left,
    /// Nothing of the peer's is reached any more.
    Ended,
}

/// What changes.
struct State {
    phase: Phase,
    /// The partner's device, while its table and buffers may be written.
    theirs: Option<Hello>,
    /// What the partner is to be told of its buffers.
    outbox: Outbox<KVVec<Pending>>,
    /// Own buffers that the partner may send into.
    lent: Slots<KVVec<Slot>>,
    /// Other messages, oldest first; within its capacity.
    control: KVVec<Message>,
}

/// A link.
#[pin_data]
pub(crate) struct Link {
    peer: Arc<Peer>,
    tally: Arc<Tally>,
    gid: Gid,
    pub(crate) memory: Arc<Memory>,
    /// All of the peer's arena that is reached.
    remote: Remote,
    /// The entries of the peer's buffers, which the peer stores.
    table: Local,
    slots: u16,
    /// By slot: where the peer stores for that buffer, until it has let go.
    #[pin]
    landings: Mutex<KVVec<Option<Arc<Local>>>>,
    #[pin]
    state: SpinLockBh<State>,
}

/// A message on its way.
struct Body(Encoded);

impl FrameBody for Body {
    fn len(&self) -> usize {
        self.0.bytes().len()
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        f(self.0.bytes().into())
    }

    fn complete(&mut self, _status: Result) {}
}

fn filled<T: Clone>(value: T, count: usize) -> Result<KVVec<T>> {
    let mut all = KVVec::with_capacity(count, GFP_KERNEL)?;
    all.extend_with(count, value, GFP_KERNEL)?;
    Ok(all)
}

impl Link {
    /// What there is of a peer that has arrived, for the device named so. Sleeps.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if no memory is reached there, `ENOSPC` if there is none to give, `ENOMEM`,
    /// `ENOTCONN` if the peer has left.
    pub(crate) fn new(peer: &Arc<Peer>, gid: Gid, tally: &Arc<Tally>) -> Result<Arc<Self>> {
        let memory = peer.memory().ok_or(error::unsupported())?;
        let limits = memory.limits();
        let remote = memory.reach(reach::start_of(reach::ARENA), limits.remote_total)?;
        let slots = dibs::slots_for(limits.local_total);
        let state = State {
            phase: Phase::Open,
            theirs: None,
            outbox: Outbox::new(filled(Pending::NONE, slots)?),
            lent: Slots::new(filled(Slot::Free, MAX_SLOTS)?),
            control: KVVec::with_capacity(CONTROL, GFP_KERNEL)?,
        };
        let landings = filled(None, MAX_SLOTS)?;
        let table = memory.alloc(slots as u64 * Entry::SIZE)?;
        let this = pin_init!(Self {
            peer: peer.clone(),
            tally: tally.clone(),
            gid,
            remote,
            table,
            slots: slots as u16,
            landings <- new_mutex!(landings, "mp_dibs::Link::landings"),
            state <- new_spinlock_bh!(state, "mp_dibs::Link"),
            memory,
        });
        let this = Arc::pin_init(this, GFP_KERNEL)?;
        this.memory.grant(SERVICE, &this.table)?;
        Ok(this)
    }

    /// The peer.
    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Name of the partner's device.
    pub(crate) fn partner(&self) -> Option<Gid> {
        self.state.lock().theirs.map(|hello| hello.gid)
    }

    /// How many slots are in use.
    pub(crate) fn slots_in_use(&self) -> usize {
        self.state.lock().lent.used()
    }

    /// Tell the peer of the own device; it is to answer.
    pub(crate) fn greet(&self) {
        let mut state = self.state.lock();
        self.queue(&mut state, self.hello(true));
        self.send_all(&mut state);
    }

    fn hello(&self, answer: bool) -> Message {
        Message::Hello(Hello {
            answer,
            slots: self.slots,
            table: self.table.off(),
            gid: self.gid,
        })
    }

    /// The peer has told of its device. Softirq context.
    ///
    /// # Errors
    ///
    /// `EPROTO` if its table is in no place that is reached.
    pub(crate) fn greeted(&self, hello: Hello) -> Result {
        if !hello.is_reached(self.remote.len()) {
            return Err(error::protocol());
        }
        let mut state = self.state.lock();
        if state.phase != Phase::Open {
            return Ok(());
        }
        match state.theirs {
            Some(theirs) if theirs.gid != hello.gid => {
                self.replace(&mut state, false);
                return Ok(());
            }
            Some(_) => {}
            None => state.theirs = Some(hello),
        }
        if hello.answer {
            let answer = self.hello(false);
            self.queue(&mut state, answer);
            self.send_all(&mut state);
        }
        Ok(())
    }

    fn replace(&self, state: &mut State, answer: bool) {
        state.phase = Phase::Replace(answer);
        fabric::kick(0);
    }

    /// The partner says that its device goes. Softirq context.
    pub(crate) fn bid_farewell(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Open {
            self.replace(&mut state, true);
        }
    }

    /// Whether it is to be replaced; and whether the peer waits for an answer.
    pub(crate) fn to_replace(&self) -> Option<bool> {
        match self.state.lock().phase {
            Phase::Replace(answer) => Some(answer),
            _ => None,
        }
    }

    /// The partner's device has gone, or the link: nothing of it is written any more. The name that it
    /// had. Process context.
    pub(crate) fn end(&self) -> Option<Gid> {
        let mut state = self.state.lock();
        state.phase = Phase::Ended;
        state.theirs.take().map(|hello| hello.gid)
    }

    /// Whether the partner has gone.
    pub(crate) fn is_ended(&self) -> bool {
        self.state.lock().phase == Phase::Ended
    }

    /// Whether it has answered that the own device goes.
    pub(crate) fn has_left(&self) -> bool {
        self.state.lock().phase == Phase::Left
    }

    /// Whether an answer to that is awaited.
    pub(crate) fn is_leaving(&self) -> bool {
        self.state.lock().phase == Phase::Leaving
    }

    /// Tell a partner whose device has gone that nothing of it is written any more. Process context.
    pub(crate) fn answer_farewell(&self) {
        // The peer waits for a time only.
        if send(&self.peer, &Message::Left).is_ok() {
            self.peer.kick(0);
        }
    }

    /// Tell the partner that the own device goes, whose buffers have all been removed.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        let had_partner = state.theirs.take().is_some();
        state.phase = Phase::Leaving;
        if had_partner {
            self.queue(&mut state, Message::Bye);
            self.send_all(&mut state);
        } else {
            // Nobody may be there to answer; if somebody has just heard of the table, it stays in quarantine.
            state.phase = Phase::Ended;
        }
    }

    /// The partner has answered that. Softirq context.
    pub(crate) fn left(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Leaving {
            state.phase = Phase::Left;
        }
    }

    /// No device of the partner's host writes anything of this host's any more: its memory is free,
    /// also what it was lent before this module was loaded. Process context.
    pub(crate) fn let_go_all(&self) {
        self.landings.lock().iter_mut().for_each(|l| *l = None);
        // If the epoch is over, nothing is left to be done.
        let _ = self.memory.peer_let_all_go(SERVICE);
    }

    /// The partner does not write there any more, if the epoch still is.
    fn let_go(&self, local: &Local) {
        let _ = self.memory.peer_let_go(SERVICE, local.off());
    }

    /// Give what the partner has let go of back. Send what waits. Process context.
    pub(crate) fn settle(&self) {
        for (slot, landing) in self.landings.lock().iter_mut().enumerate() {
            if landing.is_some() && self.state.lock().lent.is_free(slot) {
                if let Some(landing) = landing.take() {
                    self.let_go(&landing);
                }
            }
        }
        self.send_all(&mut self.state.lock());
    }

    /// Lend the partner a buffer of `len` bytes, which has this number. Process context.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if all slots are in use, `ENOTCONN` if the partner has gone. It was not told of the
    /// landing place then.
    pub(crate) fn lend(&self, index: u32, len: u32, landing: &Arc<Local>) -> Result<Token> {
        let mut landings = self.landings.lock();
        let mut state = self.state.lock();
        let theirs = state.theirs.ok_or(error::not_connected())?;
        let limit = usize::from(theirs.slots);
        let random = random::next_u64();
        let token = state.lent.lend(service::self_id(), limit, index, random);
        let token = token.ok_or(ENOSPC)?;
        let place = landing.off();
        let stored = self.store_entry(&theirs, &Entry { place, len, token });
        if stored.is_err() {
            state.lent.take_back(token);
            state.lent.let_go(token);
        }
        drop(state);
        stored?;
        let kept = landings.get_mut(usize::from(token.slot())).ok_or(EINVAL)?;
        // The one before it is still there if the worker has not run since the slot is free.
        if let Some(before) = kept.replace(landing.clone()) {
            self.let_go(&before);
        }
        Ok(token)
    }

    /// Store an entry to the partner's table, the token last.
    fn store_entry(&self, theirs: &Hello, entry: &Entry) -> Result {
        let at = theirs.table + Entry::at(entry.token.slot());
        let [place, len] = entry.words();
        self.remote.store_u64(at, place)?;
        self.remote.store_u64(at + 8, len)?;
        self.remote.flush()?;
        self.remote
            .store_u64(at + Entry::TOKEN_AT, entry.token.raw())?;
        self.remote.flush()
    }

    /// Take a buffer back, of which nothing is received any more. Process context.
    pub(crate) fn take_back(&self, token: Token) {
        let mut state = self.state.lock();
        state.lent.take_back(token);
        let Some(theirs) = state.theirs else {
            // Nobody is there to let go.
            state.lent.let_go(token);
            return;
        };
        let at = theirs.table + Entry::at(token.slot()) + Entry::TOKEN_AT;
        // Fails only when the epoch is over.
        let _ = self
            .remote
            .store_u64(at, 0)
            .and_then(|()| self.remote.flush());
        self.queue(&mut state, Message::Release(token));
        self.send_all(&mut state);
    }

    /// The partner has let go of a buffer. Softirq context.
    ///
    /// # Errors
    ///
    /// `EPROTO` if it was not told to.
    pub(crate) fn gone(&self, token: Token) -> Result {
        if !self.state.lock().lent.let_go(token) {
            return Err(error::protocol());
        }
        fabric::kick(0);
        Ok(())
    }

    /// The partner has taken back a buffer. Softirq context.
    pub(crate) fn released(&self, token: Token) {
        let mut state = self.state.lock();
        state.outbox.forget(token);
        self.queue(&mut state, Message::Gone(token));
        self.send_all(&mut state);
    }

    /// The number of the own buffer that the partner may send into by this token.
    pub(crate) fn lent(&self, token: Token) -> Option<u32> {
        self.state.lock().lent.lent(token)
    }

    /// Send `data` to a buffer of the partner's, and signal it. Softirq or process context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the partner has told no such token, or the data would not be in the buffer;
    /// `ENOTCONN` if the partner has gone.
    pub(crate) fn move_data(
        &self,
        token: Token,
        signal: Option<u32>,
        offset: u32,
        data: &[u8],
    ) -> Result {
        let mut state = self.state.lock();
        if state.theirs.is_none() {
            return Err(error::not_connected());
        }
        let load = |at| self.table.load_u64(at).ok();
        let size = u32::try_from(data.len()).map_err(|_| EINVAL)?;
        let what = Grant::find(token, usize::from(self.slots), self.remote.len(), load)
            .and_then(|grant| grant.classify(signal.is_some(), offset, size));
        let record = match what {
            Ok(Move::Data(at, range)) => {
                self.remote.write(at, data)?;
                // Before the frame that tells of it, which may be sent from another processor.
                self.remote.flush()?;
                self.tally.sent_bytes.add(u64::from(size));
                state.outbox.moved(token, range);
                return Ok(());
            }
            Ok(Move::Record) => Some(data.try_into().map_err(|_| EINVAL)?),
            Ok(Move::Nothing) => None,
            Err(_) => {
                self.tally.refused_moves.add(1);
                return Err(EINVAL);
            }
        };
        let signal = signal.unwrap_or_default() as u16;
        state.outbox.signal(token, signal, record);
        self.send_all(&mut state);
        Ok(())
    }

    /// Send the partner's client an event.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the partner has gone, `EAGAIN` if too many messages wait.
    pub(crate) fn event(&self, code: u32, info: u64) -> Result {
        let mut state = self.state.lock();
        if state.theirs.is_none() {
            return Err(error::not_connected());
        }
        if state.control.len() >= CONTROL / 2 {
            return Err(EAGAIN);
        }
        self.queue(&mut state, Message::Event { code, info });
        self.send_all(&mut state);
        Ok(())
    }

    /// What the partner has said of a buffer cannot be. Softirq context.
    pub(crate) fn broken(&self) {
        let mut state = self.state.lock();
        // Who says it again and again is told as often as there is room.
        if state.control.len() < CONTROL / 2 {
            self.queue(&mut state, Message::Broken);
            self.send_all(&mut state);
        }
    }

    /// Let a message wait. One that is lost costs its slot for the rest of the epoch; there is room for
    /// those of all slots.
    fn queue(&self, state: &mut State, message: Message) {
        if state.control.push_within_capacity(message).is_err() {
            self.tally.lost_messages.add(1);
        }
    }

    /// The peer has made room. Softirq context.
    pub(crate) fn room(&self) {
        self.send_all(&mut self.state.lock());
    }

    /// Send what waits, or see to it that it is tried again.
    fn send_all(&self, state: &mut State) {
        let mut attempts = 0;
        let mut sent = false;
        while let Some((message, is_control)) = state.next() {
            match send(&self.peer, &message) {
                Ok(()) => {
                    sent = true;
                    state.sent(is_control);
                    if !is_control {
                        self.tally.sent_signals.add(1);
                    }
                }
                Err(SendError::Full) => {
                    attempts += 1;
                    self.tally.waited.add(1);
                    if !self.peer.arm_priority() {
                        break;
                    }
                    if attempts == ATTEMPTS {
                        fabric::kick(RETRY_MS);
                        break;
                    }
                }
                Err(SendError::Body(_)) => {
                    fabric::kick(RETRY_MS);
                    break;
                }
                // It has left: nobody waits for this.
                Err(_) => state.sent(is_control),
            }
        }
        if sent {
            self.peer.kick(0);
        }
    }

    /// The id by which tokens name the peer.
    pub(crate) fn id(&self) -> PeerId {
        self.peer.id()
    }
}

impl State {
    /// What is to be sent next, and whether it is one of the control messages.
    fn next(&mut self) -> Option<(Message, bool)> {
        if let Some(message) = self.control.first() {
            return Some((*message, true));
        }
        self.outbox
            .peek()
            .map(|moved| (Message::Moved(moved), false))
    }

    /// That has been sent.
    fn sent(&mut self, is_control: bool) {
        match is_control {
            true => _ = self.control.remove(0),
            false => self.outbox.pop(),
        }
    }
}

/// Send a message, ahead of bulk frames.
fn send(peer: &Peer, message: &Message) -> Result<(), SendError> {
    let body = Body(message.encode());
    let frame = Frame::new(SERVICE, &[], Priority::High, body);
    peer.send(&frame.map_err(SendError::Body)?, 0).map(drop)
}
