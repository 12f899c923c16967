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
    /// are fewer than [`REST`].
    free: VecDeque<u32>,
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
        let new = match self.free.len() < REST {
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

    /// How it has ended; nothing while it has not. It stays (MC-TEST-2).
    ///
    /// # Errors
    /// [`Error::RequestInvalid`] (MC-REQ-4).
    pub(crate) fn test(&self, request: Request) -> Result<Option<&Outcome>> {
        let entry = self.entry(request).ok_or(Error::RequestInvalid)?;
        Ok(entry.done.as_ref())
    }

    /// Make the caller the waiter of all of them, or of none.
    ///
    /// # Errors
    /// [`Error::Parameter`]: there are none, or one is there twice (MC-WAITANY-8).
    /// [`Error::RequestInvalid`]; [`Error::WaitPending`] (MC-REQ-5).
    pub(crate) fn begin_wait(&mut self, requests: &[Request]) -> Result<()> {
        let mut sorted: Vec<u32> = requests.iter().map(|request| request.0).collect();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.is_empty() || sorted.len() != requests.len() {
            return Err(Error::Parameter);
        }
        for request in requests {
            let entry = self.entry(*request).ok_or(Error::RequestInvalid)?;
            if entry.is_waited {
                return Err(Error::WaitPending);
            }
        }
        self.mark(requests, true);
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Completion;
    use proptest::prelude::*;

    fn done(size: usize) -> Outcome {
        Ok(Completion::Sent(size))
    }

    fn size(done: &Outcome) -> usize {
        done.as_ref().unwrap().size()
    }

    /// MC-REQ-10, MC-REQ-2: the limit is the program's, and release makes room.
    #[test]
    fn handles_run_out_and_come_back() {
        let mut requests = Requests::new(REQUESTS_MAX);
        let all: Vec<_> = (0..REQUESTS_MAX)
            .map(|n| requests.begin(By::Program, n).unwrap())
            .collect();
        assert_eq!(requests.begin(By::Program, 0), Err(Error::RequestLimit));
        let call = requests.begin(By::Call, 7).unwrap();
        requests.complete(all[5], done(1));
        assert!(requests.test(all[5]).unwrap().is_some());
        assert_eq!(requests.begin(By::Program, 0), Err(Error::RequestLimit));
        assert_eq!(requests.release(all[5]).unwrap().0, 5);
        assert_eq!(requests.release(call).unwrap(), (7, None));
        assert!(requests.begin(By::Program, 0).is_ok());
    }

    /// MC-REQ-9: a handle that was released is none of the next requests, for more than four
    /// million of them.
    #[test]
    fn handles_come_back_late() {
        let mut requests = Requests::new(REQUESTS_MAX);
        let first = requests.begin(By::Program, ()).unwrap();
        requests.release(first).unwrap();
        let others = REST * GENERATION_MAX as usize - 1;
        for round in 0..others {
            let request = requests.begin(By::Program, ()).unwrap();
            assert_ne!(request.to_raw() >> INDEX_BITS, 0);
            assert_ne!(request, first, "{round}");
            assert_eq!(requests.test(first), Err(Error::RequestInvalid));
            requests.release(request).unwrap();
        }
        assert_eq!(requests.begin(By::Program, ()), Ok(first));
        assert_eq!(requests.slots.len(), REST);
    }

    /// MC-REQ-5, MC-WAITANY-8
    #[test]
    fn a_request_has_one_waiter() {
        let mut requests = Requests::new(REQUESTS_MAX);
        let [a, b] = [0, 1].map(|n| requests.begin(By::Program, n).unwrap());
        assert_eq!(requests.begin_wait(&[]), Err(Error::Parameter));
        assert_eq!(requests.begin_wait(&[a, b, a]), Err(Error::Parameter));
        requests.begin_wait(&[a]).unwrap();
        assert_eq!(requests.begin_wait(&[b, a]), Err(Error::WaitPending));
        requests.begin_wait(&[b]).unwrap();
        requests.end_wait(&[a]);
        requests.begin_wait(&[a]).unwrap();
        requests.release(b).unwrap();
        assert_eq!(requests.begin_wait(&[b]), Err(Error::RequestInvalid));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Begin,
        Complete(usize, usize),
        Test(usize),
        Release(usize),
        Wait(usize),
        Unwait(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let one = prop_oneof![
            Just(Step::Begin),
            (0..40usize, 0..9usize).prop_map(|(n, size)| Step::Complete(n, size)),
            (0..40usize).prop_map(Step::Test),
            (0..40usize).prop_map(Step::Release),
            (0..40usize).prop_map(Step::Wait),
            (0..40usize).prop_map(Step::Unwait),
        ];
        prop::collection::vec(one, 0..200)
    }

    #[derive(Default)]
    struct Model {
        live: bool,
        done: Option<usize>,
        waited: bool,
    }

    proptest! {
        /// The table of the specification (section 4.3), against handles that remember all.
        #[test]
        fn requests_behave_as_the_table_says(steps in steps()) {
            let mut requests = Requests::new(REQUESTS_MAX);
            let (mut handles, mut model): (Vec<Request>, Vec<Model>) = Default::default();
            for step in steps {
                let index = match step {
                    Step::Begin => {
                        handles.push(requests.begin(By::Program, handles.len()).unwrap());
                        model.push(Model { live: true, ..Model::default() });
                        continue;
                    }
                    Step::Complete(n, _) | Step::Test(n) | Step::Release(n) => n,
                    Step::Wait(n) | Step::Unwait(n) => n,
                };
                let Some(handle) = handles.get(index).copied() else { continue };
                let known = &mut model[index];
                match step {
                    Step::Complete(_, size) => {
                        requests.complete(handle, done(size));
                        if known.live {
                            known.done.get_or_insert(size);
                        }
                    }
                    Step::Release(_) => {
                        let released = requests.release(handle);
                        prop_assert_eq!(released.is_ok(), known.live);
                        if let Ok((operation, completion)) = released {
                            prop_assert_eq!(operation, index);
                            prop_assert_eq!(completion.as_ref().map(size), known.done);
                        }
                        *known = Model::default();
                    }
                    Step::Wait(_) => {
                        let expected = match (known.live, known.waited) {
                            (false, _) => Err(Error::RequestInvalid),
                            (true, true) => Err(Error::WaitPending),
                            (true, false) => Ok(()),
                        };
                        prop_assert_eq!(requests.begin_wait(&[handle]), expected);
                        known.waited |= known.live;
                    }
                    Step::Unwait(_) => {
                        requests.end_wait(&[handle]);
                        known.waited = false;
                    }
                    _ => {}
                }
                let tested = requests.test(handle).map(|done| done.map(size));
                let expected = match known.live {
                    true => Ok(known.done),
                    false => Err(Error::RequestInvalid),
                };
                prop_assert_eq!(tested, expected);
                let live = model.iter().filter(|known| known.live).count();
                prop_assert_eq!(requests.count(), live);
            }
        }
    }
}
