// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Placed transfers: copies into and out of a segment that no window has to lead to. The segment's
//! host makes them, in *pieces*, each in frames of the data rings.
//!
//! | step | host of the process | host of the segment |
//! |---|---|---|
//! | write a piece | PUT, with the bytes | stores them, then PLACED |
//! | read a piece | FETCH | FETCHED, with the bytes, in one frame or more |
//! | exchange a word | EXCHANGE | compares it and exchanges it in one step, then PLACED |
//!
//! Nobody reads across the bridge. The pieces of one connection are dealt with in their order, those
//! that are written and those that are read each by themselves; so the host of the process has two
//! counters for each connection ([`Transfers`]), and the host of the segment has totals of what was
//! written ([`Totals`]) and a short queue of what is to be read ([`requests`](super::requests)).
//!
//! An exchange is a piece that is written, of which the totals tell in words of their own what it has
//! come to; so that it is plain whose they are, a connection has one under way at a time.
//!
//! The host of the process bounds what is under way: [`SHARE`] pieces for each connection,
//! [`BUDGET`] for each link, and less for each connection when many copies go on. Whatever the other
//! host says that does not fit is [`Stray`]: it changes nothing.

use core::array;

/// Most bytes of a piece.
pub const PIECE: usize = 1 << 14;

/// Most pieces of one connection that are under way.
pub const SHARE: usize = 8;

/// Most pieces of all connections of a link that are under way.
pub const BUDGET: usize = 16;

/// What the other host says belongs to nothing that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stray;

/// The connection or its link has ended before it was told what an exchange has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// Pieces of one connection that have been written, since its link is up; modulo 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Pieces that have been dealt with.
    pub done: u32,
    /// Those among them that could not be stored.
    pub failed: u32,
    /// Exchanges among them that have found another value.
    pub missed: u32,
    /// Exchanges among them that could not be made.
    pub refused: u32,
}

impl Totals {
    /// One more has been dealt with.
    pub fn count(&mut self, is_stored: bool) {
        self.done = self.done.wrapping_add(1);
        self.failed = self.failed.wrapping_add(u32::from(!is_stored));
    }

    /// One more, which was an exchange.
    pub fn count_exchange(&mut self, exchanged: Exchanged) {
        self.done = self.done.wrapping_add(1);
        match exchanged {
            Exchanged::Made => {}
            Exchanged::Missed => self.missed = self.missed.wrapping_add(1),
            Exchanged::Refused => self.refused = self.refused.wrapping_add(1),
        }
    }

    /// What has been dealt with since; `None` if no more pieces were dealt with than have come to
    /// something.
    fn since(self, before: Totals) -> Option<Totals> {
        let new = Totals {
            done: self.done.wrapping_sub(before.done),
            failed: self.failed.wrapping_sub(before.failed),
            missed: self.missed.wrapping_sub(before.missed),
            refused: self.refused.wrapping_sub(before.refused),
        };
        let parts = [new.failed, new.missed, new.refused].map(u64::from);
        (parts.iter().sum::<u64>() <= new.done.into()).then_some(new)
    }

    /// What has become of the one exchange that they may tell of.
    ///
    /// # Errors
    /// [`Stray`]: they tell of more.
    fn exchanged(self) -> Result<Exchanged, Stray> {
        match (self.missed, self.refused) {
            (0, 0) => Ok(Exchanged::Made),
            (1, 0) => Ok(Exchanged::Missed),
            (0, 1) => Ok(Exchanged::Refused),
            _ => Err(Stray),
        }
    }
}

/// What has become of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchanged {
    /// The word had the value that it was compared with, and has the other one now.
    Made,
    /// The word had another value, and still has.
    Missed,
    /// Its host could not do it, or would not.
    Refused,
}

/// The exchange of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Exchange {
    #[default]
    None,
    /// The piece of that number; `false`: nobody wants to know any more.
    UnderWay(u32, bool),
    /// It has come to that, or was lost, of which its caller is to hear.
    Over(u32, Option<Exchanged>),
}

/// What all connections of a link have under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    under_way: usize,
    copies: usize,
    /// Pieces that have been dealt with, or have failed, modulo 2^32.
    done: u32,
}

impl Budget {
    /// A copy begins, which takes its share from now on.
    pub fn join(&mut self) {
        self.copies += 1;
    }

    /// It has ended.
    pub fn leave(&mut self) {
        self.copies = self.copies.saturating_sub(1);
    }

    /// Pieces that are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// How far the other host is with the pieces of all connections.
    pub fn progress(&self) -> Progress {
        Progress {
            under_way: self.under_way,
            done: self.done,
        }
    }

    /// Most pieces of one connection, so that there are some for each copy.
    fn share(&self) -> usize {
        SHARE.min(BUDGET / self.copies.max(1)).max(1)
    }

    /// Take one more for a connection that has `held`.
    fn take(&mut self, held: usize) -> bool {
        let may = self.under_way < BUDGET && held < self.share();
        self.under_way += usize::from(may);
        may
    }

    fn give(&mut self, count: usize) {
        self.under_way = self.under_way.saturating_sub(count);
        self.done = self.done.wrapping_add(count as u32);
    }

    /// A piece has been dealt with.
    pub fn settle(&mut self, _: Settled) {
        self.give(1);
    }
}

/// A piece has been dealt with, and the [`Budget`] is to hear of it.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub struct Settled(());

/// How far the other host is with pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Those under way.
    pub under_way: usize,
    /// Those that have been dealt with, modulo 2^32.
    pub done: u32,
}

/// Finds out that the other host deals with nothing of what is under way.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    done: u32,
    since: u64,
}

impl Watch {
    /// From that time on.
    pub fn new(progress: Progress, now: u64) -> Self {
        Watch {
            done: progress.done,
            since: now,
        }
    }

    /// For how long, at that time, something has been under way of which nothing was dealt with.
    pub fn stalled_for(&mut self, progress: Progress, now: u64) -> u64 {
        if progress.under_way == 0 || progress.done != self.done {
            *self = Watch::new(progress, now);
        }
        now.saturating_sub(self.since)
    }
}

/// Which way a piece goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Into the segment.
    Put,
    /// Out of it.
    Fetch,
}

/// A piece that is under way, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    way: Way,
    /// Pieces of that way that were sent before it, modulo 2^32.
    pub number: u32,
}

/// Pieces of one way, modulo 2^32: those up to `done` have been dealt with, in their order.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    sent: u32,
    done: u32,
}

impl Flow {
    fn under_way(&self) -> u32 {
        self.sent.wrapping_sub(self.done)
    }
}

/// Where a piece goes that is read.
#[derive(Debug)]
struct Slot<T> {
    /// `None` if nobody wants it any more: it is waited for, and dropped.
    target: Option<T>,
    len: usize,
    arrived: usize,
    /// Some of it could not be stored.
    has_failed: bool,
}

/// The pieces of one connection of this host, which are stored into a `T` when they are read.
#[derive(Debug)]
pub struct Transfers<T> {
    puts: Flow,
    /// What the other host has told of them, since the link is up.
    heard: Totals,
    /// Among what is put.
    exchange: Exchange,
    fetches: Flow,
    /// By their numbers, modulo [`SHARE`].
    slots: [Option<Slot<T>>; SHARE],
    /// Pieces that have failed, modulo 2^32.
    failed: u32,
}

impl<T> Default for Transfers<T> {
    fn default() -> Self {
        Transfers {
            puts: Flow::default(),
            heard: Totals::default(),
            exchange: Exchange::None,
            fetches: Flow::default(),
            slots: array::from_fn(|_| None),
            failed: 0,
        }
    }
}

impl<T> Transfers<T> {
    /// Pieces that are under way.
    pub fn under_way(&self) -> usize {
        (self.puts.under_way() + self.fetches.under_way()) as usize
    }

    /// How many pieces have failed, modulo 2^32.
    pub fn failed(&self) -> u32 {
        self.failed
    }

    /// How far the other host is with them.
    pub fn progress(&self) -> Progress {
        Progress {
            under_way: self.under_way(),
            done: self.puts.done.wrapping_add(self.fetches.done),
        }
    }

    /// Whether a piece has been dealt with; it may have failed.
    pub fn is_done(&self, ticket: Ticket) -> bool {
        let done = match ticket.way {
            Way::Put => self.puts.done,
            Way::Fetch => self.fetches.done,
        };
        (done.wrapping_sub(ticket.number) as i32) > 0
    }

    /// The caller sends a piece; `None` if it has to wait until others have been dealt with.
    pub fn put(&mut self, budget: &mut Budget) -> Option<Ticket> {
        if !budget.take(self.under_way()) {
            return None;
        }
        Some(next(&mut self.puts, Way::Put))
    }

    /// The caller sends an exchange, and [takes](Self::take_exchanged) what it comes to or
    /// [abandons](Self::abandon) it; `None` if it has to wait, also for another exchange.
    pub fn exchange(&mut self, budget: &mut Budget) -> Option<Ticket> {
        if self.exchange != Exchange::None {
            return None;
        }
        let ticket = self.put(budget)?;
        self.exchange = Exchange::UnderWay(ticket.number, true);
        Some(ticket)
    }

    /// What that exchange has come to; `None` as long as it is under way.
    ///
    /// # Errors
    /// [`Lost`]: nobody knows, or ever will.
    pub fn take_exchanged(&mut self, ticket: Ticket) -> Option<Result<Exchanged, Lost>> {
        match self.exchange {
            Exchange::Over(number, exchanged) if number == ticket.number => {
                self.exchange = Exchange::None;
                Some(exchanged.ok_or(Lost))
            }
            Exchange::UnderWay(number, _) if number == ticket.number => None,
            _ => Some(Err(Lost)),
        }
    }

    /// Nobody wants to know what that exchange comes to. It may still be made.
    pub fn abandon(&mut self, ticket: Ticket) {
        match self.exchange {
            Exchange::Over(number, _) if number == ticket.number => self.exchange = Exchange::None,
            Exchange::UnderWay(number, _) if number == ticket.number => {
                self.exchange = Exchange::UnderWay(number, false);
            }
            _ => {}
        }
    }

    /// The exchange that is under way has come to something, or is lost.
    fn end_exchange(&mut self, exchanged: Option<Exchanged>) {
        self.exchange = match self.exchange {
            Exchange::UnderWay(number, true) => Exchange::Over(number, exchanged),
            Exchange::UnderWay(_, false) => Exchange::None,
            other => other,
        };
    }

    /// Whether the exchange that is under way is among so many pieces that are dealt with next.
    fn has_exchange_in(&self, done: u32) -> bool {
        match self.exchange {
            Exchange::UnderWay(number, _) => number.wrapping_sub(self.puts.done) < done,
            _ => false,
        }
    }

    /// The caller asks for a piece of `len` bytes, which go to `target`; `None` if it has to wait.
    pub fn fetch(&mut self, budget: &mut Budget, target: T, len: usize) -> Option<Ticket> {
        if !budget.take(self.under_way()) {
            return None;
        }
        let ticket = next(&mut self.fetches, Way::Fetch);
        *self.slot(ticket.number) = Some(Slot {
            target: Some(target),
            len,
            arrived: 0,
            has_failed: false,
        });
        Some(ticket)
    }

    fn slot(&mut self, number: u32) -> &mut Option<Slot<T>> {
        &mut self.slots[number as usize % SHARE]
    }

    /// The last piece of that way could not be sent.
    pub fn unsent(&mut self, ticket: Ticket, budget: &mut Budget) {
        let flow = match ticket.way {
            Way::Put => &mut self.puts,
            Way::Fetch => &mut self.fetches,
        };
        // Unless all have ended meanwhile.
        if flow.under_way() == 0 || flow.sent != ticket.number.wrapping_add(1) {
            return;
        }
        flow.sent = ticket.number;
        match ticket.way {
            Way::Fetch => *self.slot(ticket.number) = None,
            Way::Put if self.exchange == Exchange::UnderWay(ticket.number, true) => {
                self.exchange = Exchange::None;
            }
            Way::Put => {}
        }
        budget.give(1);
    }

    /// The other host has dealt with so many pieces that were written.
    ///
    /// # Errors
    /// [`Stray`] if there were not so many.
    pub fn placed(&mut self, totals: Totals, budget: &mut Budget) -> Result<(), Stray> {
        let new = totals.since(self.heard).ok_or(Stray)?;
        let exchanged = new.exchanged()?;
        let has_exchange = self.has_exchange_in(new.done);
        let is_told = has_exchange || exchanged == Exchanged::Made;
        if new.done > self.puts.under_way() || !is_told {
            return Err(Stray);
        }
        if has_exchange {
            self.end_exchange(Some(exchanged));
        }
        self.heard = totals;
        self.puts.done = self.puts.done.wrapping_add(new.done);
        self.failed = self.failed.wrapping_add(new.failed);
        budget.give(new.done as usize);
        Ok(())
    }

    /// Bytes of the piece of that number have arrived behind those before, which `store` stores at
    /// that place in the target; none: the other host could not read it. Says whether the piece
    /// has been dealt with. It takes its time: the budget hears of the end behind it.
    ///
    /// # Errors
    /// [`Stray`] if it is not the next one.
    pub fn fetched(
        &mut self,
        number: u32,
        len: usize,
        store: impl FnOnce(&T, usize) -> bool,
    ) -> Result<Option<Settled>, Stray> {
        if self.fetches.under_way() == 0 || number != self.fetches.done {
            return Err(Stray);
        }
        let place = self.slot(number);
        let slot = place.as_mut().ok_or(Stray)?;
        let fits = len != 0 && len <= slot.len - slot.arrived;
        if fits {
            let target = slot.target.as_ref();
            slot.has_failed |= !target.is_none_or(|target| store(target, slot.arrived));
            slot.arrived += len;
            if slot.arrived < slot.len {
                return Ok(None);
            }
        }
        let has_failed = !fits || slot.has_failed;
        *place = None;
        self.fetches.done = number.wrapping_add(1);
        self.failed = self.failed.wrapping_add(u32::from(has_failed));
        Ok(Some(Settled(())))
    }

    /// Nothing is stored any more into targets that `is_its` names.
    pub fn forget(&mut self, is_its: impl Fn(&T) -> bool) {
        for slot in self.slots.iter_mut().flatten() {
            slot.target.take_if(|target| is_its(target));
        }
    }

    /// The link is down, or the connection has ended: what was under way has failed.
    pub fn lose(&mut self, budget: &mut Budget) {
        let lost = self.under_way();
        budget.give(lost);
        self.failed = self.failed.wrapping_add(lost as u32);
        self.end_exchange(None);
        self.puts.done = self.puts.sent;
        self.fetches.done = self.fetches.sent;
        self.heard = Totals::default();
        self.slots = array::from_fn(|_| None);
    }
}

/// The next piece of a flow.
fn next(flow: &mut Flow, way: Way) -> Ticket {
    let number = flow.sent;
    flow.sent = number.wrapping_add(1);
    Ticket { way, number }
}
