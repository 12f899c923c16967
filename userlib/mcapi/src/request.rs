// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests: operations that may take time, by handles with generations (MC-REQ-1 to MC-REQ-12).
//!
//! The table knows nothing of what an operation is, and does not wait: the node's lock is held
//! over each call, and threads that wait look again.

use crate::{Error, Outcome, Result};
use std::collections::VecDeque;

/// Most requests that programs have at a time.
pub const REQUESTS_MAX: usize = 4096;

/// Slots that are free at least before one of them is used again: a handle comes back after so many
/// requests times [`GENERATION_MAX`] at the earliest.
const REST: usize = 1024;

/// Slots that requests of the program do not take where there is no memory for more: so many calls can
/// wait then.
const CALLS: usize = 64;

/// Bits of a handle that are the index.
const INDEX_BITS: u32 = 20;
/// Largest generation.
const GENERATION_MAX: u32 = u32::MAX >> INDEX_BITS;

/// The handle of a request. None is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request(u32);

impl Request {
    /// The handle as a number.
    pub fn to_raw(self) -> u32 {
        self.0
    }

    /// The handle of a number, which may be none of a request.
    pub fn from_raw(raw: u32) -> Self {
        Request(raw)
    }

    fn new(index: u32, generation: u32) -> Self {
        Request(generation << INDEX_BITS | index)
    }

    fn index(self) -> u32 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }

    fn generation(self) -> u32 {
        self.0 >> INDEX_BITS
    }
}

/// Who began a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The program, which releases it. There is a limit.
    Program,
    /// A call that waits by itself.
    Call,
}

#[derive(Debug)]
struct Entry<T> {
    operation: T,
    done: Option<Outcome>,
    is_waited: bool,
    by: By,
}

#[derive(Debug)]
struct Slot<T> {
    /// 1 to [`GENERATION_MAX`].
    generation: u32,
    entry: Option<Entry<T>>,
}

/// The requests of a node; `T` is what is known of an operation.
#[derive(Debug)]
pub(crate) struct Requests<T> {
    slots: Vec<Slot<T>>,
    /// Those without an entry; the one that is longest without is taken first, but not while they
    /// are fewer than `rest`.
    free: VecDeque<u32>,
    /// [`REST`].
    rest: usize,
    /// Requests of the program, and how many there may be.
    count: usize,
    most: usize,
    /// Those that somebody waits for and that are over, or released.
    over: Vec<Request>,
}

impl<T> Requests<T> {
    /// None yet, and so many of the program at most.
    pub(crate) fn new(most: usize) -> Self {
        let slots = (0..CALLS).map(|_| Slot {
            generation: 1,
            entry: None,
        });
        Requests {
            slots: slots.collect(),
            free: (0..CALLS as u32).collect(),
            rest: REST,
            count: 0,
            most,
            over: Vec::new(),
        }
    }

    /// Whether there may be one more of the program.
    ///
    /// # Errors
    /// [`Error::RequestLimit`] (MC-REQ-10).
    pub(crate) fn check(&self, by: By) -> Result<()> {
        match by == By::Program && self.count >= self.most {
            false => Ok(()),
            true => Err(Error::RequestLimit),
        }
    }

    /// Begin a request.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`Error::MemoryLimit`]: there is no memory for one more.
    pub(crate) fn begin(&mut self, by: By, operation: T) -> Result<Request> {
        self.check(by)?;
        let index = self.slot(by)?;
        let slot = self.slots.get_mut(index as usize);
        let slot = slot.ok_or(Error::RequestLimit)?;
        slot.entry = Some(Entry {
            operation,
            done: None,
            is_waited: by == By::Call,
            by,
        });
        self.count += usize::from(by == By::Program);
        Ok(Request::new(index, slot.generation))
    }

    /// A slot without an entry: a new one while few are free, or else the one that is longest without.
    /// The last ones are those of calls that wait, which begin also when there is no memory (MC-MSGRECV-6).
    ///
    /// # Errors
    /// [`Error::RequestLimit`], [`Error::MemoryLimit`].
    fn slot(&mut self, by: By) -> Result<u32> {
        let new = match self.free.len() < self.rest {
            true => self.grow(),
            false => Err(Error::RequestLimit),
        };
        let kept = match by {
            By::Program => CALLS,
            By::Call => 0,
        };
        new.or_else(|error| match self.free.len() > kept {
            true => self.free.pop_front().ok_or(error),
            false => Err(error),
        })
    }

    /// Make a slot, and room for it among those that are free.
    fn grow(&mut self) -> Result<u32> {
        let index = u32::try_from(self.slots.len()).ok();
        let index = index.filter(|index| *index < 1 << INDEX_BITS);
        let index = index.ok_or(Error::RequestLimit)?;
        let taken = self.slots.len() - self.free.len();
        let reserved = self.slots.try_reserve(1);
        let reserved = reserved.and_then(|()| self.free.try_reserve(taken + 1));
        reserved.map_err(|_| Error::MemoryLimit)?;
        self.slots.push(Slot {
            generation: 1,
            entry: None,
        });
        Ok(index)
    }

    fn entry(&self, request: Request) -> Option<&Entry<T>> {
        let slot = self.slots.get(request.index() as usize)?;
        let entry = slot.entry.as_ref()?;
        (slot.generation == request.generation()).then_some(entry)
    }

    fn entry_mut(&mut self, request: Request) -> Option<&mut Entry<T>> {
        let slot = self.slots.get_mut(request.index() as usize)?;
        let entry = slot.entry.as_mut()?;
        (slot.generation == request.generation()).then_some(entry)
    }

    /// What the operation is, unless the request was released.
    pub(crate) fn operation(&self, request: Request) -> Option<&T> {
        Some(&self.entry(request)?.operation)
    }

    /// The operation is over. One that was released meanwhile stays so; so does the first end.
    pub(crate) fn complete(&mut self, request: Request, outcome: Outcome) {
        let Some(entry) = self.entry_mut(request) else {
            return;
        };
        entry.done.get_or_insert(outcome);
        if entry.is_waited {
            self.over.push(request);
        }
    }

    /// Requests that are pending.
    pub(crate) fn pending(&self) -> Vec<Request> {
        let slots = (0..).zip(&self.slots);
        let pending = slots.filter(|(_, slot)| {
            let entry = slot.entry.as_ref();
            entry.is_some_and(|entry| entry.done.is_none())
        });
        let requests = pending.map(|(index, slot)| Request::new(index, slot.generation));
        requests.collect()
    }

    /// Requests that somebody waits for and that are over, or released, since they were forgotten.
    pub(crate) fn over(&self) -> &[Request] {
        &self.over
    }

    /// Those who wait for them know.
    pub(crate) fn forget_over(&mut self) {
        self.over.clear();
    }

    /// Whether the request is there.
    pub(crate) fn is_live(&self, request: Request) -> bool {
        self.entry(request).is_some()
    }

    /// Whether it is there and done.
    pub(crate) fn is_done(&self, request: Request) -> bool {
        self.entry(request)
            .is_some_and(|entry| entry.done.is_some())
    }

    /// Whether the program has the request: what a call waits for is nobody else's (MC-REQ-4).
    ///
    /// # Errors
    /// [`Error::RequestInvalid`].
    pub(crate) fn check_program(&self, request: Request) -> Result<()> {
        match self.entry(request).map(|entry| entry.by) {
            Some(By::Program) => Ok(()),
            Some(By::Call) | None => Err(Error::RequestInvalid),
        }
    }

    /// How it has ended; nothing while it has not. It stays (MC-TEST-2).
    ///
    /// # Errors
    /// [`Error::RequestInvalid`] (MC-REQ-4).
    pub(crate) fn test(&self, request: Request) -> Result<Option<&Outcome>> {
        let entry = self.entry(request).ok_or(Error::RequestInvalid)?;
        Ok(entry.done.as_ref())
    }

    /// Whether the caller may wait for all of them, which are the program's.
    ///
    /// # Errors
    /// [`Error::Parameter`]: there are none, or one is there twice (MC-WAITANY-8).
    /// [`Error::RequestInvalid`]; [`Error::WaitPending`] (MC-REQ-5).
    fn check_wait(&self, requests: &[Request]) -> Result<()> {
        if requests.is_empty() || has_twins(requests) {
            return Err(Error::Parameter);
        }
        for request in requests {
            self.check_program(*request)?;
            if self.entry(*request).is_some_and(|entry| entry.is_waited) {
                return Err(Error::WaitPending);
            }
        }
        Ok(())
    }

    /// Release the first of some requests that is done, its index and how it has ended; if none is, make
    /// the caller the waiter of all of them.
    ///
    /// # Errors
    /// [`Error::Parameter`]: there are none, or one is there twice (MC-WAITANY-8).
    /// [`Error::RequestInvalid`]; [`Error::WaitPending`] (MC-REQ-5). The caller waits for none then.
    pub(crate) fn begin_wait(&mut self, requests: &[Request]) -> Result<Option<(usize, Outcome)>> {
        self.check_wait(requests)?;
        let done = self.take_any(requests);
        if done.is_none() {
            self.mark(requests, true);
        }
        Ok(done)
    }

    /// Release the first of some requests that is done: its index, and how it has ended.
    pub(crate) fn take_any(&mut self, requests: &[Request]) -> Option<(usize, Outcome)> {
        let index = requests.iter().position(|request| self.is_done(*request))?;
        let (_, done) = self.release(*requests.get(index)?).ok()?;
        Some((index, done?))
    }

    /// The caller waits no more.
    pub(crate) fn end_wait(&mut self, requests: &[Request]) {
        self.mark(requests, false);
    }

    fn mark(&mut self, requests: &[Request], is_waited: bool) {
        for request in requests {
            if let Some(entry) = self.entry_mut(*request) {
                entry.is_waited = is_waited;
            }
        }
    }

    /// Release a request: what the operation was, and how it has ended if it has.
    ///
    /// # Errors
    /// [`Error::RequestInvalid`].
    pub(crate) fn release(&mut self, request: Request) -> Result<(T, Option<Outcome>)> {
        let slot = self.slots.get_mut(request.index() as usize);
        let slot = slot.filter(|slot| slot.generation == request.generation());
        let slot = slot.ok_or(Error::RequestInvalid)?;
        let entry = slot.entry.take().ok_or(Error::RequestInvalid)?;
        slot.generation = slot.generation % GENERATION_MAX + 1;
        self.free.push_back(request.index());
        self.count -= usize::from(entry.by == By::Program);
        if entry.is_waited {
            self.over.push(request);
        }
        Ok((entry.operation, entry.done))
    }

    /// Request of the program that were not released.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// Whether a request is there twice.
fn has_twins(requests: &[Request]) -> bool {
    if requests.len() < 2 {
        return false;
    }
    let mut sorted: Vec<u32> = requests.iter().map(|request| request.0).collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair.first() == pair.last())
}

#[cfg(test)]
mod tests;
