// SPDX-License-Identifier: GPL-2.0-only

//! Placed transfers: copies into and out of segments that no window has to lead to.
//!
//! [`mp_proto::sharing::placed`] says how the two hosts go about it. The host of the process has
//! [`UnderWay`] for each link, and a [`Copying`] for each start of a queue. The host of the
//! segment has [`Serving`]: it stores what arrives in the softirq that brings it, under the lock
//! that takes a guest's memory away, and sends what is to be read with a worker of its own. Both
//! sides use the data rings, and wait when these are full as everybody does.
//!
//! A transfers' lock comes behind that of a connection's state, and before that of the budget.

use crate::{
    connection::Connection,
    link::AGAIN_MS,
    outbox::{
        Outbox,
        Tally, //
    },
    window::Piece, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    error,
    new_spinlock_bh,
    new_wait_queue,
    sync::SpinLockBh,
    time::monotonic_ns,
    wait::{
        Events,
        Sleep,
        WaitQueue, //
    },
    worker::Work, //
};
use mp_proto::{
    fabric::{
        Header,
        Life,
        EXCHANGE_SIZE,
        PUT_AT, //
    },
    sharing::{
        placed::{
            Budget,
            Exchanged,
            Progress,
            Ticket,
            Totals,
            Watch,
            PIECE, //
        },
        requests::{
            turn,
            Request,
            Requests, //
        },
        Rights,
        CONNECTIONS, //
    }, //
};
use mp_transport::frame::RxFrame;

/// A peer that deals with nothing of what is under way for so long loses its link; a way that takes
/// nothing for so long, what is to be sent.
const ANSWER_NS: u64 = 5_000_000_000;

/// How often a copy that waits looks whether it was aborted, in nanoseconds.
const TICK_NS: u64 = 10_000_000;

/// Milliseconds after which full rings are looked at again, though nobody has said so.
const FULL_MS: u32 = 10;

/// Parts that are sent before others may run.
const BATCH: usize = 64;

/// Bytes that go from a ring to memory at a time, on the stack.
const STRETCH: usize = 512;

/// Where a piece goes that is read.
pub(crate) struct Target {
    piece: Arc<Piece>,
    at: u64,
    /// The copy that it is of.
    copy: u32,
}

/// What the connections of this host's processes have under way at one link.
#[pin_data]
pub(crate) struct UnderWay {
    #[pin]
    pub(crate) budget: SpinLockBh<Budget>,
    /// Changes whenever there may be something to do for those who wait.
    changes: Atomic<u32>,
    /// A copy waits for room in the rings.
    is_full: Atomic<bool>,
    /// The number of the last copy.
    last: Atomic<u32>,
    #[pin]
    queue: WaitQueue,
}

impl UnderWay {
    /// Nothing.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            budget <- new_spinlock_bh!(Budget::default()),
            changes: Atomic::new(0),
            is_full: Atomic::new(false),
            last: Atomic::new(0),
            queue <- new_wait_queue!("mp_placed"),
        })
    }

    /// Pieces have been dealt with, or have ended. Any context.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Full);
        self.queue.wake(Events::OUT);
    }

    /// The rings have room. Any context.
    pub(crate) fn has_room(&self) {
        if self.is_full.load(Relaxed) && self.is_full.xchg(false, Full) {
            self.changed();
        }
    }

    /// Somebody is about to find them full.
    pub(crate) fn expect_room(&self) {
        self.is_full.store(true, Relaxed);
    }

    /// Wait as long as the way that `outbox` leads to is full: `f` says `EAGAIN`.
    ///
    /// # Errors
    ///
    /// Those of `f`; `ETIMEDOUT` at the deadline, or if the way takes nothing from anybody;
    /// `ERESTARTSYS` if the process is being killed.
    pub(crate) fn when_there_is_room(
        &self,
        outbox: &Outbox,
        deadline: Option<u64>,
        mut f: impl FnMut() -> Result,
    ) -> Result {
        let progress = || Progress {
            under_way: 1,
            done: outbox.sent(),
        };
        let mut watch = Watch::new(progress(), monotonic_ns());
        let attempt = || {
            self.expect_room();
            f()
        };
        self.wait_for(attempt, |now| {
            let is_over = deadline.is_some_and(|at| at <= now);
            let stalled = watch.stalled_for(progress(), now);
            let is_late = outbox.shortage().is_late(now - stalled, ANSWER_NS, now);
            match is_over || is_late {
                true => Err(ETIMEDOUT),
                false => Ok(()),
            }
        })
    }

    /// Wait as long as `f` says `EAGAIN` and `goes_on`, which is told the time, does not fail.
    ///
    /// # Errors
    ///
    /// Those of both, and `ERESTARTSYS` if the process is being killed.
    fn wait_for<T>(
        &self,
        mut f: impl FnMut() -> Result<T>,
        mut goes_on: impl FnMut(u64) -> Result,
    ) -> Result<T> {
        loop {
            let seen = self.changes.load(Acquire);
            match f() {
                Err(e) if e == EAGAIN => {}
                result => return result,
            }
            let now = monotonic_ns();
            goes_on(now)?;
            let has_changed = || self.changes.load(Acquire) != seen;
            match self
                .queue
                .wait_until(Sleep::Killable, Some(now + TICK_NS), has_changed)
                .ok()
            {
                Err(e) if e != ETIMEDOUT => return Err(e),
                _ => {}
            }
        }
    }
}

/// The copies of one start of a queue, by pieces. Nothing is stored any more for it once it is
/// dropped.
pub(crate) struct Copying<'a> {
    connection: &'a Connection,
    is_aborted: &'a Atomic<bool>,
    number: u32,
    /// How many pieces of the connection had failed before.
    failed: u32,
    /// The last piece of each way: those before it are dealt with before.
    last_put: Option<Ticket>,
    last_fetch: Option<Ticket>,
}

impl<'a> Copying<'a> {
    /// Through that connection, until `is_aborted`.
    pub(crate) fn new(connection: &'a Connection, is_aborted: &'a Atomic<bool>) -> Self {
        let under_way = connection.link().under_way();
        under_way.budget.lock().join();
        Self {
            connection,
            is_aborted,
            number: under_way.last.fetch_add(1, Relaxed).wrapping_add(1),
            failed: connection.transfers().lock().failed(),
            last_put: None,
            last_fetch: None,
        }
    }

    /// Write `data` to `at` in the segment; it may be under way when this returns.
    ///
    /// # Errors
    ///
    /// `ECANCELED`, `ECONNRESET`, `ENETDOWN`, `ETIMEDOUT` if the peer does nothing, `ERESTARTSYS`
    /// if the process is being killed, `ENOMEM`.
    pub(crate) fn put(&mut self, mut at: u64, data: &[u8]) -> Result {
        for part in data.chunks(self.connection.most_of_a_piece()?) {
            let ticket = self.wait_for_peer(|| self.connection.put(at, part))?;
            self.last_put = Some(ticket);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Read `len` bytes at `from` in the segment to `at` in `piece`; they may be under way when
    /// this returns.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put).
    pub(crate) fn fetch(
        &mut self,
        mut from: u64,
        piece: &Arc<Piece>,
        mut at: u64,
        mut len: u64,
    ) -> Result {
        while len != 0 {
            let part = len.min(PIECE as u64);
            let ticket = self.wait_for_peer(|| {
                let target = Target {
                    piece: piece.clone(),
                    at,
                    copy: self.number,
                };
                self.connection.fetch(from, target, part as usize)
            })?;
            self.last_fetch = Some(ticket);
            (from, at, len) = (from + part, at + part, len - part);
        }
        Ok(())
    }

    /// Wait until all is where it was to go.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put), and `EIO` if the segment's host could not copy some of it.
    pub(crate) fn finish(&mut self) -> Result {
        let tickets = [self.last_put.take(), self.last_fetch.take()];
        for ticket in tickets.into_iter().flatten() {
            self.wait_for_peer(
                || match self.connection.transfers().lock().is_done(ticket) {
                    true => Ok(ticket),
                    false => Err(EAGAIN),
                },
            )?;
        }
        match self.connection.transfers().lock().failed() == self.failed {
            true => Ok(()),
            false => Err(EIO),
        }
    }

    /// See [`wait_for_peer`].
    fn wait_for_peer(&self, f: impl FnMut() -> Result<Ticket>) -> Result<Ticket> {
        wait_for_peer(self.connection, f, |_| {
            match self.is_aborted.load(Relaxed) {
                true => Err(error::cancelled()),
                false => Ok(()),
            }
        })
    }
}

/// How far the peer is with the pieces of a connection; if there are none, with those of others,
/// which are in its way.
fn progress(connection: &Connection) -> Progress {
    let own = connection.transfers().lock().progress();
    match own.under_way {
        0 => connection.link().under_way().budget.lock().progress(),
        _ => own,
    }
}

/// Wait as long as `f` says `EAGAIN` and `goes_on`, which is told the time, does not fail, for pieces
/// that are dealt with, or for room in rings. A peer that deals with nothing of what is under way
/// loses its link, unless this host was short of memory meanwhile. Where another host forwards
/// the caller alone fails: what others send may be what stands. All of it is in one order, so
/// what is under way is stored before anything later.
fn wait_for_peer<T>(
    connection: &Connection,
    f: impl FnMut() -> Result<T>,
    mut goes_on: impl FnMut(u64) -> Result,
) -> Result<T> {
    let link = connection.link();
    let mut watch = Watch::new(progress(connection), monotonic_ns());
    link.under_way().wait_for(f, |now| {
        goes_on(now)?;
        connection.check()?;
        let stalled = watch.stalled_for(progress(connection), now);
        if link.shortage().is_late(now - stalled, ANSWER_NS, now) {
            if !link.is_routed() {
                // What is under way ends with the epoch, and nothing of it is stored after.
                link.reset();
            }
            return Err(ETIMEDOUT);
        }
        Ok(())
    })
}

/// The exchange of a word. Dropping it has nobody told any more what it comes to.
pub(crate) struct Exchanging<'a> {
    connection: &'a Connection,
    /// Once it is under way.
    ticket: Option<Ticket>,
}

impl<'a> Exchanging<'a> {
    /// Through that connection.
    pub(crate) fn new(connection: &'a Connection) -> Self {
        connection.link().under_way().budget.lock().join();
        Self {
            connection,
            ticket: None,
        }
    }

    /// Exchange a word until the deadline; whether it had the value that was expected.
    ///
    /// # Errors
    ///
    /// `EIO` if the segment's host could not. With all others it may have been made, or be made
    /// yet: `ECONNRESET`, `ENETDOWN`, `ETIMEDOUT`, `ERESTARTSYS` if the process is being killed,
    /// `ENOMEM`.
    pub(crate) fn make(mut self, word: &Word, deadline: Option<u64>) -> Result<bool> {
        let goes_on = |now: u64| match deadline.is_some_and(|at| at <= now) {
            true => Err(ETIMEDOUT),
            false => Ok(()),
        };
        let connection = self.connection;
        let ticket = wait_for_peer(connection, || connection.exchange(word), goes_on)?;
        self.ticket = Some(ticket);
        let take = || {
            let taken = connection.transfers().lock().take_exchanged(ticket);
            taken.ok_or(EAGAIN)
        };
        match wait_for_peer(connection, take, goes_on)? {
            Ok(Exchanged::Made) => Ok(true),
            Ok(Exchanged::Missed) => Ok(false),
            Ok(Exchanged::Refused) => Err(EIO),
            Err(_) => Err(connection.check().err().unwrap_or(error::net_down())),
        }
    }
}

impl Drop for Exchanging<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.connection.transfers().lock().abandon(ticket);
        }
        let under_way = self.connection.link().under_way();
        under_way.budget.lock().leave();
        // Others may wait to have theirs.
        under_way.changed();
    }
}

/// A word of a segment, what it is compared with, and what it is to become.
pub(crate) struct Word {
    pub(crate) at: u64,
    pub(crate) expected: u64,
    pub(crate) desired: u64,
}

impl Word {
    /// What a frame has of it.
    pub(crate) fn encode(&self) -> [u8; EXCHANGE_SIZE] {
        let mut b = [0; EXCHANGE_SIZE];
        let words = [self.at, self.expected, self.desired];
        for (to, word) in b.chunks_exact_mut(size_of::<u64>()).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        b
    }

    /// That of a frame.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is none.
    fn of(frame: &RxFrame<'_>) -> Result<Self> {
        if frame.len() != EXCHANGE_SIZE {
            return Err(EINVAL);
        }
        let mut b = [0; EXCHANGE_SIZE];
        frame.copy_to(0, b.as_mut_slice().into())?;
        let word = |n: usize| {
            let bytes = b.get(8 * n..).and_then(|b| b.first_chunk());
            bytes.map_or(0, |b| u64::from_le_bytes(*b))
        };
        Ok(Self {
            at: word(0),
            expected: word(1),
            desired: word(2),
        })
    }

    /// Exchange it; whether it had the value that was expected.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside, and others if the kernel cannot do that.
    pub(crate) fn exchange(&self, piece: &Piece) -> Result<bool> {
        piece.exchange_u64(self.at, self.expected, self.desired)
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        let is_its = |target: &Target| target.copy == self.number;
        self.connection.transfers().lock().forget(is_its);
        self.connection.link().under_way().budget.lock().leave();
    }
}

/// Copy bytes of a frame from `from` on to `at`; nothing if they are not all inside.
///
/// # Errors
///
/// `EINVAL`, or what is wrong with the memory: some may have been stored then.
fn store(piece: &Piece, at: u64, frame: &RxFrame<'_>, from: usize) -> Result {
    let len = frame.len().checked_sub(from).ok_or(EINVAL)?;
    let end = at.checked_add(len as u64);
    if end.is_none_or(|end| end > piece.len()) {
        return Err(EINVAL);
    }
    by_stretches(frame, from, len, |done, part| {
        piece.write(at + done as u64, part)
    })
}

/// Call `f` with `len` bytes of a frame from `from` on, in order, and with how many came before.
///
/// # Errors
///
/// Those of `f`, after which it is not called any more, and `EINVAL`: the frame has fewer bytes.
pub(crate) fn by_stretches(
    frame: &RxFrame<'_>,
    from: usize,
    len: usize,
    mut f: impl FnMut(usize, &[u8]) -> Result,
) -> Result {
    let mut buffer = [0; STRETCH];
    let mut done = 0;
    while done < len {
        let count = STRETCH.min(len - done);
        let part = buffer.get_mut(..count).ok_or(EINVAL)?;
        frame.copy_to(from + done, (&mut *part).into())?;
        f(done, part)?;
        done += count;
    }
    Ok(())
}

impl Target {
    /// Store all bytes of a frame behind the first `done` ones.
    pub(crate) fn store(&self, done: usize, frame: &RxFrame<'_>) -> bool {
        let at = self.at.saturating_add(done as u64);
        store(&self.piece, at, frame, 0).is_ok()
    }
}

/// A connection of the peer to a segment of this host.
struct Guest {
    number: u32,
    /// What it is connected to; see [`Guest::token`](mp_proto::sharing::Guest::token).
    token: u32,
    piece: Arc<Piece>,
    /// What it may do with it.
    rights: Rights,
    outbox: Arc<Outbox>,
    life: Life,
    totals: Totals,
    /// Tells the peer of them.
    tally: Tally,
    requests: Requests,
}

struct Guests {
    /// By their numbers. There is room for as many as a link has.
    all: KVec<KBox<Guest>>,
    /// The one that was served last.
    last: u32,
}

impl Guests {
    fn find(&mut self, number: u32) -> Option<&mut Guest> {
        let at = self.all.binary_search_by_key(&number, |guest| guest.number);
        self.all.get_mut(at.ok()?).map(|guest| &mut **guest)
    }
}

/// What is to be sent to a guest.
struct Part {
    guest: u32,
    piece: Arc<Piece>,
    may_read: bool,
    outbox: Arc<Outbox>,
    life: Life,
    request: Request,
}

/// The host of segments: the peer's connections to them, of one link.
#[pin_data]
pub(crate) struct Serving {
    #[pin]
    guests: SpinLockBh<Guests>,
    /// The worker waits for room in the rings.
    pub(crate) is_full: Atomic<bool>,
}

/// [`Serving`] with its worker.
pub(crate) type Server = mp_kernel::worker::Worker<Serving>;

impl Serving {
    /// No guests.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let all = KVec::with_capacity(CONNECTIONS, GFP_KERNEL)?;
        let this = pin_init!(Self {
            guests <- new_spinlock_bh!(Guests { all, last: 0 }),
            is_full: Atomic::new(false),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// A connection of the service with that life may reach memory from now on, with those rights.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn enter(
        &self,
        (number, token): (u32, u32),
        (piece, rights): (Arc<Piece>, Rights),
        outbox: &Arc<Outbox>,
        life: Life,
    ) -> Result {
        let guest = Guest {
            number,
            token,
            piece,
            rights,
            outbox: outbox.clone(),
            life,
            totals: Totals::default(),
            tally: Tally::new(outbox, life, number)?,
            requests: Requests::default(),
        };
        let guest = KBox::new(guest, GFP_KERNEL)?;
        self.leave(number);
        let mut guests = self.guests.lock();
        let at = guests.all.partition_point(|known| known.number < number);
        let entered = guests.all.insert_within_capacity(at, guest);
        entered.map_err(|_| ENOMEM)
    }

    /// None of those connected to what has that token stores or is sent anything any more when
    /// this returns, but for what was read before. Process context.
    pub(crate) fn end(&self, token: u32) {
        self.end_each(|guest| guest.token == token);
    }

    /// The link is down: nobody stores or is sent anything any more, as [`end`](Self::end). What
    /// is entered for guests leads back to the link, which they would keep.
    pub(crate) fn close(&self) {
        self.end_each(|_| true);
    }

    fn end_each(&self, is_meant: impl Fn(&Guest) -> bool) {
        loop {
            let gone = {
                let mut guests = self.guests.lock();
                let at = guests.all.iter().position(|guest| is_meant(guest));
                at.and_then(|at| guests.all.remove(at).ok())
            };
            // Its memory goes without the lock.
            if gone.is_none() {
                return;
            }
        }
    }

    /// A connection does not reach its memory any more when this returns, as [`end`](Self::end).
    /// Process context.
    pub(crate) fn leave(&self, number: u32) {
        let gone = {
            let mut guests = self.guests.lock();
            let at = guests
                .all
                .binary_search_by_key(&number, |guest| guest.number);
            at.ok().and_then(|at| guests.all.remove(at).ok())
        };
        drop(gone);
    }

    /// A piece has arrived from a connection. Softirq context.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such a connection, `EACCES`, `EINVAL` or others if it was not stored; the
    /// peer is told then.
    pub(crate) fn put(&self, from: u32, frame: &RxFrame<'_>) -> Result {
        let mut at = [0; PUT_AT];
        let placed = frame.copy_to(0, at.as_mut_slice().into());
        let (stored, outbox, signal) = {
            let mut guests = self.guests.lock();
            let guest = guests.find(from).ok_or(ENOENT)?;
            // Under the lock: who leaves stores nothing after that.
            let at = u64::from_le_bytes(at);
            let stored = placed.and_then(|()| match guest.rights.write {
                true => store(&guest.piece, at, frame, PUT_AT),
                false => Err(EACCES),
            });
            guest.totals.count(stored.is_ok());
            guest.tally.count(guest.totals);
            (stored, guest.outbox.clone(), guest.tally.signal())
        };
        // It has a place of its own.
        let _ = outbox.signal(&signal);
        stored
    }

    /// A connection would like to exchange a word. Softirq context.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such a connection, `EACCES`, `EINVAL` or others if it could not be done; the
    /// peer is told then.
    pub(crate) fn exchange(&self, from: u32, frame: &RxFrame<'_>) -> Result {
        let (exchanged, outbox, signal) = {
            let mut guests = self.guests.lock();
            let guest = guests.find(from).ok_or(ENOENT)?;
            // Under the lock: who leaves exchanges nothing after that.
            let exchanged = match guest.rights == Rights::ALL {
                true => Word::of(frame).and_then(|word| word.exchange(&guest.piece)),
                false => Err(EACCES),
            };
            guest.totals.count_exchange(match exchanged {
                Ok(true) => Exchanged::Made,
                Ok(false) => Exchanged::Missed,
                Err(_) => Exchanged::Refused,
            });
            guest.tally.count(guest.totals);
            (exchanged, guest.outbox.clone(), guest.tally.signal())
        };
        // It has a place of its own.
        let _ = outbox.signal(&signal);
        exchanged.map(drop)
    }

    /// A connection would like to read a piece. Softirq context.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such a connection, `EPROTO` if it asks for too much; it is not answered.
    pub(crate) fn ask(&self, from: u32, request: Request) -> Result {
        let mut guests = self.guests.lock();
        let guest = guests.find(from).ok_or(ENOENT)?;
        guest.requests.enter(request).map_err(|_| error::protocol())
    }

    /// Whether a connection still reaches its memory.
    fn has(&self, number: u32) -> bool {
        self.guests.lock().find(number).is_some()
    }

    /// What is to be sent next.
    fn next(&self) -> Option<Part> {
        let mut guests = self.guests.lock();
        let waiting = guests.all.iter().filter(|guest| !guest.requests.is_empty());
        let number = turn(waiting.map(|guest| guest.number), guests.last)?;
        guests.last = number;
        let guest = guests.find(number)?;
        let most = PIECE.min(guest.outbox.peer().max_frame()) as u32;
        Some(Part {
            guest: number,
            piece: guest.piece.clone(),
            may_read: guest.rights.read,
            outbox: guest.outbox.clone(),
            life: guest.life,
            request: guest.requests.next(most)?,
        })
    }

    /// Send a part, or say that it cannot be read.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the rings are full, `ENOMEM`: it is to be tried again.
    fn push(&self, part: &Part) -> Result {
        let request = &part.request;
        let mut data = KVec::from_elem(0, request.len as usize, GFP_KERNEL)?;
        let read = part
            .check()
            .and_then(|()| part.piece.read(request.at, &mut data));
        // What was read after the guest had to leave is not sent.
        if !self.has(part.guest) {
            return Ok(());
        }
        if read.is_err() {
            data.clear();
        }
        let header = Header::Fetched {
            life: part.life,
            to: part.guest,
            number: request.number,
        };
        self.is_full.store(true, Relaxed);
        let sent = part.outbox.place(&header, [0; 0], data);
        if matches!(sent, Err(e) if e == EAGAIN || e == ENOMEM) {
            return sent;
        }
        let mut guests = self.guests.lock();
        if let Some(guest) = guests.find(part.guest) {
            match read.and(sent) {
                Ok(()) => guest.requests.sent(request),
                Err(_) => guest.requests.failed(request),
            }
        }
        Ok(())
    }
}

impl Part {
    /// Whether the guest may have it, and the segment has all of it.
    ///
    /// # Errors
    ///
    /// `EACCES`, `EINVAL`.
    fn check(&self) -> Result {
        if !self.may_read {
            return Err(EACCES);
        }
        let end = self.request.at.checked_add(self.request.len.into());
        match end.is_some_and(|end| end <= self.piece.len()) {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }
}

impl Work for Serving {
    fn run(&self) -> Option<u32> {
        for _ in 0..BATCH {
            let part = self.next()?;
            match self.push(&part) {
                Ok(()) => {}
                Err(e) if e == EAGAIN => return Some(FULL_MS),
                Err(_) => return Some(AGAIN_MS),
            }
        }
        Some(0)
    }
}
