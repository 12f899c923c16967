// SPDX-License-Identifier: GPL-2.0-only

//! Connections: the use that a process makes of a segment, event or port of a peer.
//!
//! The sharing engine of the link moves a connection through its states; this keeps what its
//! process needs: the window, events and notices, and the way to the object.

use crate::{
    link::Link,
    notices::{
        Notice,
        Notices, //
    },
    outbox::{
        Outbox,
        Signal, //
    },
    placed::{
        self,
        Target, //
    },
    ready::{
        self,
        Ready, //
    },
    session::{
        Mapper,
        Place, //
    },
    status::Word,
    uapi::*,
    unsent::OfSender,
    window::{
        Piece,
        Window, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    barrier,
    error,
    new_spinlock_bh,
    new_wait_queue,
    process::Payer,
    sync::SpinLockBh,
    time::monotonic_ns,
    wait::{
        Events,
        Sleep,
        WaitQueue, //
    }, //
};
use mp_proto::{
    fabric::{
        Header,
        Life,
        PUT_AT, //
    },
    name::Name,
    sharing::{
        message::{
            Message,
            What, //
        },
        placed::{
            Budget,
            Ticket,
            Totals,
            Transfers,
            PIECE, //
        },
        requests::Request,
        state::{
            Change,
            State, //
        },
        window::Sender,
        Grant,
        Object,
        Rights,
        Want, //
    },
    wire::Priority, //
};
use mp_transport::{
    frame::RxFrame,
    memory::{
        Source,
        Told, //
    }, //
};

/// The request has not been answered; all other outcomes are 0 or a negative errno.
const PENDING: i32 = 1;

/// How soon a message is tried again that others are in the way of, in nanoseconds.
const SOON_NS: u64 = 1_000_000;

/// What may be done, as the device has it.
pub(crate) fn rights_word(rights: Rights) -> u32 {
    (u32::from(rights.read) * MP_GRANT_READ) | (u32::from(rights.write) * MP_GRANT_WRITE)
}

/// How many connections' notices there is room for: one asks to leave, and one may be fatal.
const NOTICES: usize = 2;

struct Inner {
    state: State,
    /// No window leads to the segment.
    is_placed: bool,
    /// How often it has ceased to be operational.
    losses: u32,
    /// Bytes of the segment.
    len: u64,
    /// What the process may do with it.
    rights: Rights,
    piece: Option<Arc<Piece>>,
    window: Option<Window>,
    /// Its status word, until it is closed. Not longer: who holds the connection last may be in a
    /// softirq, where words cannot be given back.
    word: Option<Word>,
    /// What its messages count among, of one that leads to a port; until it is closed, as the word.
    of_sender: Option<OfSender>,
    /// The way to the peer, while it is operational.
    way: Option<Way>,
    sender: Sender,
}

/// The way to what a connection leads to.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) life: Life,
    /// What triggers an event.
    pub(crate) signal: Option<Arc<Signal>>,
    /// That of messages to a port.
    pub(crate) lane: Priority,
}

/// What a connection is to lead to.
#[derive(Clone)]
pub(crate) struct Goal {
    pub(crate) want: Want,
    /// By which it is found, if it has one.
    pub(crate) name: Name,
    /// What its process may do with it, whatever the peer lets it do.
    pub(crate) most: Rights,
}

impl Goal {
    /// All that the peer lets it do.
    pub(crate) fn new(want: Want, name: Name) -> Self {
        Self {
            want,
            name,
            most: Rights::ALL,
        }
    }
}

/// A connection.
#[pin_data]
pub(crate) struct Connection {
    number: u32,
    link: Arc<Link>,
    goal: Goal,
    ready: Arc<Ready>,
    #[pin]
    notices: Notices,
    outcome: Atomic<i32>,
    #[pin]
    asking: WaitQueue,
    /// A message waits for room.
    is_full: Atomic<bool>,
    /// It could not have what is its own, and is to end.
    is_spoilt: Atomic<bool>,
    /// How often it has triggered its event.
    total: Arc<Atomic<u32>>,
    /// Pieces of the segment that are under way.
    #[pin]
    transfers: SpinLockBh<Transfers<Target>>,
    #[pin]
    inner: Mutex<Inner>,
}

impl Connection {
    /// A connection that is about to be asked for, by a process for which `payer` answers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        number: u32,
        link: Arc<Link>,
        goal: Goal,
        word: Word,
        payer: Payer,
    ) -> Result<Arc<Self>> {
        let is_placed = goal.want.placed;
        let of_sender = match goal.want.object {
            Object::Port => Some(OfSender::new(link.clone(), payer)?),
            _ => None,
        };
        let ready = Ready::new(0)?;
        let total = Arc::new(Atomic::new(0), GFP_KERNEL_ACCOUNT)?;
        let of = ready.clone();
        let connection = Arc::pin_init(
            pin_init!(Self {
                number,
                link,
                goal,
                ready,
                notices <- Notices::new(of),
                outcome: Atomic::new(PENDING),
                asking <- new_wait_queue!("mp_connection"),
                is_full: Atomic::new(false),
                is_spoilt: Atomic::new(false),
                total,
                transfers <- new_spinlock_bh!(Transfers::default()),
                inner <- new_mutex!(Inner {
                    state: State::CONNECTING,
                    is_placed,
                    losses: 0,
                    len: 0,
                    rights: Rights::ALL,
                    piece: None,
                    window: None,
                    word: Some(word),
                    of_sender,
                    way: None,
                    sender: Sender::default(),
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        connection.notices.reserve(NOTICES)?;
        Ok(connection)
    }

    /// Its number, unique on this host.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The link that it is of.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// What it was to lead to.
    pub(crate) fn goal(&self) -> &Goal {
        &self.goal
    }

    /// What may be done with what it leads to.
    pub(crate) fn rights(&self) -> Rights {
        self.inner.lock().rights
    }

    /// What it leads to.
    pub(crate) fn want(&self) -> &Want {
        &self.goal.want
    }

    /// Its events.
    pub(crate) fn ready(&self) -> &Arc<Ready> {
        &self.ready
    }

    /// What has happened to it.
    pub(crate) fn notices(&self) -> &Notices {
        &self.notices
    }

    /// How often it has triggered its event, to be told to the peer.
    pub(crate) fn total(&self) -> &Arc<Atomic<u32>> {
        &self.total
    }

    /// Wait for the answer.
    ///
    /// # Errors
    ///
    /// What the request failed with, `ETIMEDOUT`, `ERESTARTSYS` if the process is being killed.
    pub(crate) fn outcome(&self, deadline: Option<u64>) -> Result {
        let ended = || self.outcome.load(Acquire) != PENDING;
        self.asking
            .wait_until(Sleep::Killable, deadline, ended)
            .ok()?;
        kernel::error::to_result(self.outcome.load(Acquire))
    }

    /// The request has failed.
    pub(crate) fn refused(&self, error: Error) {
        self.outcome.store(error.to_errno(), Release);
        self.asking.wake(Events::IN);
    }

    fn tell(&self, kind: u32) {
        self.notices.push(Notice {
            kind,
            interface: self.link.interface().id(),
            peer: self.link.peer_id(),
            connection: self.number,
        });
    }

    /// Change the state of the connection, and show that: before the memory goes, as who stores
    /// into the scrap page is to see by the word that it has.
    fn apply(&self, inner: &mut Inner, change: Change) {
        let was_operational = inner.state.is_operational();
        inner.state.apply(change);
        let ends = was_operational && !inner.state.is_operational();
        if ends {
            inner.losses = inner.losses.wrapping_add(1);
        }
        if let Some(word) = &inner.word {
            word.set(inner.bits(), inner.losses);
        }
        if ends {
            inner.way = None;
            if let Some(window) = &mut inner.window {
                window.release();
            }
            if let Some(piece) = inner.piece.take() {
                piece.stop_copies();
            }
            self.lose_transfers();
        }
        self.has_room();
    }

    /// Wake what waits for room.
    fn has_room(&self) {
        self.is_full.store(false, Release);
        self.asking.wake(Events::OUT);
    }

    /// The object is there, or there again: its memory, if it is shown, and the way to it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; it is as it was.
    pub(crate) fn found(&self, piece: Option<Arc<Piece>>, grant: &Grant, way: Way) -> Result {
        let mut inner = self.inner.lock();
        if inner.word.is_none() {
            // It was closed meanwhile.
            return Ok(());
        }
        let is_new = inner.state == State::CONNECTING;
        if let (Some(piece), Some(window)) = (&piece, &mut inner.window) {
            window.show(piece.clone())?;
        }
        (inner.len, inner.rights) = (grant.len, grant.rights.and(self.goal.most));
        inner.piece = piece;
        inner.way = Some(way.clone());
        self.apply(&mut inner, Change::Up);
        drop(inner);
        if is_new {
            self.outcome.store(0, Release);
            self.asking.wake(Events::IN);
            return Ok(());
        }
        self.ready.clear(ready::DOWN);
        self.tell(MP_NOTICE_UP);
        match way.signal {
            // What was triggered last may not have arrived.
            Some(signal) => way.outbox.signal(&signal),
            None => Ok(()),
        }
    }

    /// The link is back, and there is no memory for what is its own: it is to end.
    pub(crate) fn spoil(&self) {
        self.is_spoilt.store(true, Relaxed);
    }

    /// Whether it is to end, as it has not before.
    pub(crate) fn take_spoilt(&self) -> bool {
        self.is_spoilt.load(Relaxed) && self.is_spoilt.xchg(false, Relaxed)
    }

    /// The link is down.
    pub(crate) fn down(&self) {
        self.apply(&mut self.inner.lock(), Change::Down);
        self.ready.raise(ready::DOWN);
        self.tell(MP_NOTICE_DOWN);
    }

    /// The owner asks to leave.
    pub(crate) fn withdrawn(&self) {
        self.apply(&mut self.inner.lock(), Change::Withdraw);
        self.tell(MP_NOTICE_DISCONNECTED);
    }

    /// The bridge has failed; it is lost after that.
    pub(crate) fn failed(&self) {
        let is_lost = self.inner.lock().state.is_lost();
        if !is_lost {
            self.tell(MP_NOTICE_FATAL);
        }
    }

    /// It has ended for good.
    pub(crate) fn lost(&self) {
        {
            let mut inner = self.inner.lock();
            self.apply(&mut inner, Change::Lose);
        }
        self.ready.raise(ready::CLOSED);
        self.tell(MP_NOTICE_LOST);
    }

    /// The port has taken so many messages.
    ///
    /// # Errors
    ///
    /// `EPROTO` if there were not so many.
    pub(crate) fn taken(&self, total: u32) -> Result {
        let mut inner = self.inner.lock();
        inner.sender.taken(total).map_err(|_| error::protocol())?;
        self.has_room();
        Ok(())
    }

    /// How many messages have been sent to the port, modulo 2^32. No more are, once it has been
    /// [stripped](Self::strip).
    pub(crate) fn sent(&self) -> u32 {
        self.inner.lock().sender.sent()
    }

    /// Whether what is written arrives.
    ///
    /// # Errors
    ///
    /// `ECONNRESET` if it is lost, `ENETDOWN`.
    pub(crate) fn check(&self) -> Result {
        self.inner.lock().check()
    }

    /// Whether it may be written.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check), `EACCES`.
    pub(crate) fn check_write(&self) -> Result {
        self.check_right(|rights| rights.write)
    }

    /// Whether it may be read.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check), `EACCES`.
    pub(crate) fn check_read(&self) -> Result {
        self.check_right(|rights| rights.read)
    }

    fn check_right(&self, has: impl Fn(&Rights) -> bool) -> Result {
        let inner = self.inner.lock();
        inner.check()?;
        match has(&inner.rights) {
            true => Ok(()),
            false => Err(EACCES),
        }
    }

    /// Bytes of the segment; 0 if it leads elsewhere.
    pub(crate) fn len(&self) -> u64 {
        self.inner.lock().len
    }

    /// Copy all of `data` to `at` in the segment that it leads to.
    ///
    /// # Errors
    ///
    /// `ECONNRESET`, `ENETDOWN`, `EINVAL` outside, `ENOTCONN` if the epoch is over,
    /// `EOPNOTSUPP` to physical memory of this host.
    pub(crate) fn store(&self, at: u64, data: &[u8]) -> Result {
        // Under the lock: once it is lost, down or closed, nothing is written.
        let inner = self.inner.lock();
        inner.check()?;
        match inner.piece.as_deref() {
            Some(piece) => {
                let written = piece.write(at, data);
                // Before the peer may hear that nothing is written any more.
                barrier::wmb();
                written
            }
            None => Err(error::net_down()),
        }
    }

    /// Fill all of `to` from `at` in the segment that it leads to, which is this host's.
    ///
    /// # Errors
    ///
    /// `ECONNRESET`, `ENETDOWN`, `EINVAL` outside, `ENOTCONN` if the memory has gone,
    /// `EOPNOTSUPP` if the kernel does not read it.
    pub(crate) fn load(&self, at: u64, to: &mut [u8]) -> Result {
        let inner = self.inner.lock();
        inner.check()?;
        let piece = inner.piece.as_deref();
        piece.ok_or_else(error::net_down)?.read(at, to)
    }

    /// Whether what is written goes by frames, as no window leads to the segment.
    pub(crate) fn is_by_frames(&self) -> bool {
        self.goal.want.placed && !self.link.is_loopback()
    }

    /// What is under way; see [`placed`](crate::placed).
    pub(crate) fn transfers(&self) -> &SpinLockBh<Transfers<Target>> {
        &self.transfers
    }

    /// Most bytes that are written in one piece.
    ///
    /// # Errors
    ///
    /// `ENETDOWN`, `EMSGSIZE` if the link has no room for any.
    pub(crate) fn most_of_a_piece(&self) -> Result<usize> {
        let inner = self.inner.lock();
        let way = inner.way.as_ref().ok_or_else(error::net_down)?;
        let room = way.outbox.peer().max_frame().saturating_sub(PUT_AT);
        match room.min(PIECE) {
            0 => Err(EMSGSIZE),
            most => Ok(most),
        }
    }

    /// Call `f` with what is under way, of this connection and of all.
    fn with_transfers<R>(&self, f: impl FnOnce(&mut Transfers<Target>, &mut Budget) -> R) -> R {
        let mut transfers = self.transfers.lock();
        // The inner lock goes first: the outer one lets softirqs run, which take both.
        let mut budget = self.link.under_way().budget.lock();
        f(&mut transfers, &mut budget)
    }

    /// What was under way has failed.
    fn lose_transfers(&self) {
        self.with_transfers(|transfers, budget| transfers.lose(budget));
        self.link.under_way().changed();
    }

    /// The way to the segment's host, for a piece.
    fn way_to(&self, inner: &Inner, at: u64, len: usize) -> Result<Way> {
        inner.check()?;
        let end = at.checked_add(len as u64);
        if end.is_none_or(|end| end > inner.len) {
            return Err(EINVAL);
        }
        inner.way.clone().ok_or_else(error::net_down)
    }

    /// Send a piece, which is to be stored at `at` in the segment.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if others are in the way. `EINVAL` outside, `ECONNRESET`, `ENETDOWN`, `ENOMEM`.
    pub(crate) fn put(&self, at: u64, data: &[u8]) -> Result<Ticket> {
        // Under the lock: once it is lost, down or closed, nothing is sent.
        let inner = self.inner.lock();
        let way = self.way_to(&inner, at, data.len())?;
        let ticket = self.with_transfers(|transfers, budget| transfers.put(budget));
        let ticket = ticket.ok_or(EAGAIN)?;
        let header = Header::Put {
            life: way.life,
            from: self.number,
        };
        self.link.under_way().expect_room();
        let mut copied = KVec::new();
        // Not charged: the link's worker waits for the lock.
        let sent = match copied.extend_from_slice(data, GFP_KERNEL) {
            Ok(()) => way.outbox.place(&header, at.to_le_bytes(), copied),
            Err(e) => Err(e.into()),
        };
        self.or_unsent(ticket, sent)
    }

    /// Send the exchange of a word, which somebody takes or abandons.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put), `EAGAIN` also as long as another exchange is not over.
    pub(crate) fn exchange(&self, word: &placed::Word) -> Result<Ticket> {
        let inner = self.inner.lock();
        let way = self.way_to(&inner, word.at, size_of::<u64>())?;
        let ticket = self.with_transfers(|transfers, budget| transfers.exchange(budget));
        let ticket = ticket.ok_or(EAGAIN)?;
        let header = Header::Exchange {
            life: way.life,
            from: self.number,
        };
        self.link.under_way().expect_room();
        let sent = way.outbox.place(&header, word.encode(), KVec::new());
        let sent = self.or_unsent(ticket, sent);
        if sent.is_err() {
            // The link may have been lost meanwhile.
            self.transfers.lock().abandon(ticket);
        }
        sent
    }

    /// Exchange a word of the segment that it leads to, which is this host's; whether it had the value
    /// that was expected.
    ///
    /// # Errors
    ///
    /// `ECONNRESET`, `ENETDOWN`, `EIO` if the kernel cannot.
    pub(crate) fn exchange_here(&self, word: &placed::Word) -> Result<bool> {
        let inner = self.inner.lock();
        inner.check()?;
        let piece = inner.piece.as_deref().ok_or_else(error::net_down)?;
        word.exchange(piece).map_err(|_| EIO)
    }

    /// Ask for a piece of `len` bytes at `at` in the segment, which goes to `target`.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put), `ENOBUFS`.
    pub(crate) fn fetch(&self, at: u64, target: Target, len: usize) -> Result<Ticket> {
        let inner = self.inner.lock();
        let way = self.way_to(&inner, at, len)?;
        let ticket = self.with_transfers(|transfers, budget| transfers.fetch(budget, target, len));
        let ticket = ticket.ok_or(EAGAIN)?;
        let message = Message {
            connection: self.number,
            what: What::Fetch(Request {
                number: ticket.number,
                len: len as u32,
                at,
            }),
        };
        self.or_unsent(ticket, way.outbox.ask(way.life, &message))
    }

    fn or_unsent(&self, ticket: Ticket, sent: Result) -> Result<Ticket> {
        if sent.is_err() {
            self.with_transfers(|transfers, budget| transfers.unsent(ticket, budget));
        }
        sent.map(|()| ticket)
    }

    /// The peer has dealt with so many pieces that were written. Softirq context.
    ///
    /// # Errors
    ///
    /// `EPROTO` if there were not so many.
    pub(crate) fn placed(&self, totals: Totals) -> Result {
        let heard = self.with_transfers(|transfers, budget| transfers.placed(totals, budget));
        heard.map_err(|_| error::protocol())?;
        self.link.under_way().changed();
        Ok(())
    }

    /// Some of a piece has arrived that is read. Softirq context.
    ///
    /// # Errors
    ///
    /// `EPROTO` if it was not asked for.
    pub(crate) fn fetched(&self, number: u32, frame: &RxFrame<'_>) -> Result {
        {
            // Under the lock: nothing is stored for a copy that has ended. Other connections do
            // not wait for that.
            let mut transfers = self.transfers.lock();
            let store = |target: &Target, done| target.store(done, frame);
            let heard = transfers.fetched(number, frame.len(), store);
            let Some(settled) = heard.map_err(|_| error::protocol())? else {
                return Ok(());
            };
            self.link.under_way().budget.lock().settle(settled);
        }
        self.link.under_way().changed();
        Ok(())
    }

    /// Where bytes of the segment are to which it leads; see [`Piece::phys_address`].
    ///
    /// # Errors
    ///
    /// Those of that, `ECONNRESET`, `ENETDOWN`, `EOPNOTSUPP` if it leads to no segment.
    pub(crate) fn phys_address(&self, at: u64, len: u64) -> Result<u64> {
        let inner = self.inner.lock();
        inner.check()?;
        let piece = inner.piece.as_deref().filter(|_| inner.is_shown());
        piece.ok_or(error::unsupported())?.phys_address(at, len)
    }

    /// Let an engine copy to `at` in the segment that it leads to; see
    /// [`mp_transport::memory::Remote::copy`].
    ///
    /// # Errors
    ///
    /// Those of that, `ECONNRESET`, `ENETDOWN`, `ENODEV` on this host itself.
    pub(crate) fn copy(
        &self,
        at: u64,
        source: &Source,
        from: u64,
        len: u64,
        told: (Arc<dyn Told>, usize),
    ) -> Result<u64> {
        // Under the lock: what begins before it is lost, down or closed is waited for.
        let inner = self.inner.lock();
        inner.check()?;
        match inner.piece.as_deref() {
            Some(Piece::Remote(remote)) => remote.copy(at, source, from, len, told),
            _ => Err(ENODEV),
        }
    }

    /// Trigger the event that it leads to (`SI-TRINT-2`).
    ///
    /// # Errors
    ///
    /// `EINVAL` if it leads elsewhere, `ECONNRESET`, `ENETDOWN`, `ENOMEM`.
    pub(crate) fn trigger(&self) -> Result {
        if self.goal.want.object != Object::Event {
            return Err(EINVAL);
        }
        let way = {
            let inner = self.inner.lock();
            inner.check()?;
            // Under the lock: it is told by this signal, or when the link is back.
            self.total.fetch_add(1, Relaxed);
            inner.way.clone()
        };
        match way {
            Some(Way {
                outbox,
                signal: Some(signal),
                ..
            }) => outbox.signal(&signal),
            _ => Err(error::net_down()),
        }
    }

    /// Send a message to the port that it leads to, once there is room.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it leads elsewhere, `ECONNRESET`, `ENETDOWN`, `ETIMEDOUT`, `ERESTARTSYS`
    /// for a signal, `ENOMEM`.
    pub(crate) fn send(&self, data: &[u8], deadline: Option<u64>) -> Result {
        if self.goal.want.object != Object::Port {
            return Err(EINVAL);
        }
        loop {
            let soon;
            {
                let mut inner = self.inner.lock();
                inner.check()?;
                let way = inner.way.clone().ok_or_else(error::net_down)?;
                let mut sender = inner.sender;
                if let Some(number) = sender.send() {
                    let header = Header::Message {
                        life: way.life,
                        from: self.number,
                        number,
                    };
                    // Under the lock: messages are sent in the order of their numbers.
                    let unsent = inner.of_sender.as_ref().ok_or(ENOENT)?.value();
                    match way.outbox.send_to_port(&header, data, way.lane, unsent) {
                        // Others' messages are in the way.
                        Err(e) if e == EAGAIN => {}
                        Err(e) => return Err(e),
                        Ok(()) => {
                            inner.sender = sender;
                            return Ok(());
                        }
                    }
                    soon = Some(monotonic_ns() + SOON_NS);
                } else {
                    soon = None;
                }
                self.is_full.store(true, Release);
            }
            let has_room = || !self.is_full.load(Acquire);
            let until = [soon, deadline].into_iter().flatten().min();
            let waited = self
                .asking
                .wait_until(Sleep::Interruptible, until, has_room)
                .ok();
            let is_over = deadline.is_some_and(|at| monotonic_ns() >= at);
            match waited {
                // Nobody tells that the link has room again: look.
                Err(e) if e == ETIMEDOUT && !is_over => {}
                waited => waited?,
            }
        }
    }

    /// Tell what there is to know, with the place where the process may map it.
    ///
    /// # Errors
    ///
    /// `ENOSPC` without free offsets, `ENOMEM`.
    pub(crate) fn describe(&self, mapper: &Mapper, info: &mut mp_connection) -> Result {
        info.interface = self.link.interface().id();
        info.object = match self.goal.want.object {
            Object::Segment => MP_OBJECT_SEGMENT,
            Object::Event => MP_OBJECT_EVENT,
            Object::Port => MP_OBJECT_PORT,
        };
        info.number = self.goal.want.number;
        let mut inner = self.inner.lock();
        info.status = inner.word.as_ref().map_or(0, Word::position);
        info.state = inner.bits();
        let inner = &mut *inner;
        let shown = inner.piece.as_ref().filter(|_| inner.is_shown());
        if let (Some(piece), None) = (shown, &inner.window) {
            let watch = inner.word.as_ref().map(Word::watch);
            inner.window = Some(mapper.watched(piece, watch)?);
        }
        let place = inner.window.as_ref().map_or(Place::default(), Place::of);
        (info.length, info.offset) = (inner.len, place.offset);
        info.rights = rights_word(inner.rights);
        Ok(())
    }

    /// Take the window away from the process, and end all waits.
    pub(crate) fn strip(&self) {
        let stripped = {
            let mut inner = self.inner.lock();
            inner.way = None;
            // The word first, as in [`apply`](Self::apply).
            drop(inner.word.take());
            let memory = (inner.window.take(), inner.piece.take());
            (memory, inner.of_sender.take())
        };
        if let ((_, Some(piece)), _) = &stripped {
            piece.stop_copies();
        }
        self.lose_transfers();
        self.ready.close();
        drop(stripped);
    }
}

impl Inner {
    /// Whether the process may be shown the memory itself, and not only have it copied.
    fn is_shown(&self) -> bool {
        self.rights.write && !self.is_placed
    }

    fn bits(&self) -> u32 {
        let mut bits = 0;
        if self.state.is_operational() {
            bits |= MP_CONNECTION_OPERATIONAL;
        }
        if self.state.is_withdrawn() {
            bits |= MP_CONNECTION_WITHDRAWN;
        }
        if self.state.is_lost() {
            bits |= MP_CONNECTION_LOST;
        }
        if self.is_placed {
            bits |= MP_CONNECTION_PLACED;
        }
        bits
    }

    fn check(&self) -> Result {
        if self.state.is_lost() {
            Err(error::reset())
        } else if !self.state.is_operational() {
            Err(error::net_down())
        } else {
            Ok(())
        }
    }
}
