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

    /// Make the caller the waiter of all of them, which are the program's, or of none.
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
            self.check_program(*request)?;
            if self.entry(*request).is_some_and(|entry| entry.is_waited) {
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
    use std::collections::HashSet;

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
        Begin(By),
        Complete(usize, usize),
        Release(usize),
        /// A thread waits for all of them.
        Wait(Vec<usize>),
        /// One of the threads waits no more.
        Unwait(usize),
        /// Those who wait were woken.
        Forget,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Of the latest ones; a few of them are none at all.
        let any = || 0..30_usize;
        let one = prop_oneof![
            6 => Just(Step::Begin(By::Program)),
            2 => Just(Step::Begin(By::Call)),
            4 => (any(), 0..9_usize).prop_map(|(n, size)| Step::Complete(n, size)),
            6 => any().prop_map(Step::Release),
            3 => prop::collection::vec(any(), 0..4).prop_map(Step::Wait),
            2 => any().prop_map(Step::Unwait),
            1 => Just(Step::Forget),
        ];
        prop::collection::vec(one, 0..300)
    }

    /// Requests of the program in the model, at most.
    const MOST: usize = 8;

    /// What a handle was given out for.
    struct Known {
        request: Request,
        by: By,
        is_live: bool,
        done: Option<usize>,
        is_waited: bool,
    }

    /// The table, and handles that remember all.
    struct Model {
        requests: Requests<usize>,
        known: Vec<Known>,
        /// What threads of the program wait for.
        waits: Vec<Vec<Request>>,
        /// Requests that a thread is to be woken for.
        over: HashSet<Request>,
    }

    impl Model {
        /// A table whose indices are used again early, and whose generations soon begin anew.
        fn new() -> Self {
            let mut requests = Requests::new(MOST);
            requests.rest = CALLS + 1;
            for slot in &mut requests.slots {
                slot.generation = GENERATION_MAX;
            }
            Model {
                requests,
                known: Vec::new(),
                waits: Vec::new(),
                over: HashSet::new(),
            }
        }

        /// The handle that was given out as so many others after it, or one that never was.
        fn handle(&self, back: usize) -> Request {
            let index = self.known.len().checked_sub(back + 1);
            index.map_or(Request::from_raw(back as u32), |index| {
                self.known[index].request
            })
        }

        fn live(&mut self, request: Request) -> Option<&mut Known> {
            let mut known = self.known.iter_mut();
            known.find(|known| known.is_live && known.request == request)
        }

        fn count(&self) -> usize {
            let live = self.known.iter().filter(|known| known.is_live);
            live.filter(|known| known.by == By::Program).count()
        }

        fn begin(&mut self, by: By) {
            let expected = match (by, self.count()) {
                (By::Program, MOST) => Err(Error::RequestLimit),
                _ => Ok(()),
            };
            let begun = self.requests.begin(by, self.known.len());
            assert_eq!(begun.map(|_| ()), expected);
            if let Ok(request) = begun {
                // MC-REQ-9: none that was given out before.
                assert!(self.known.iter().all(|known| known.request != request));
                self.known.push(Known {
                    request,
                    by,
                    is_live: true,
                    done: None,
                    is_waited: by == By::Call,
                });
            }
        }

        fn complete(&mut self, request: Request, size: usize) {
            self.requests.complete(request, done(size));
            if let Some(known) = self.live(request) {
                known.done.get_or_insert(size);
                let is_waited = known.is_waited;
                self.over.extend(is_waited.then_some(request));
            }
        }

        fn release(&mut self, request: Request) {
            let released = self.requests.release(request);
            let index = self.known.iter().position(|known| known.request == request);
            let Some(known) = self.live(request) else {
                return assert_eq!(released.err(), Some(Error::RequestInvalid));
            };
            known.is_live = false;
            let (ended, is_waited) = (known.done, known.is_waited);
            self.over.extend(is_waited.then_some(request));
            let (operation, outcome) = released.unwrap();
            assert_eq!(Some(operation), index);
            assert_eq!(outcome.as_ref().map(size), ended);
        }

        /// Section 4.3: what a wait for these gets.
        fn expected_of_wait(&mut self, requests: &[Request]) -> Result<()> {
            let all: HashSet<_> = requests.iter().collect();
            if all.is_empty() || all.len() < requests.len() {
                return Err(Error::Parameter);
            }
            for request in requests {
                match self.live(*request) {
                    Some(known) if known.by == By::Call => return Err(Error::RequestInvalid),
                    Some(known) if known.is_waited => return Err(Error::WaitPending),
                    Some(_) => {}
                    None => return Err(Error::RequestInvalid),
                }
            }
            Ok(())
        }

        fn wait(&mut self, requests: Vec<Request>) {
            let expected = self.expected_of_wait(&requests);
            assert_eq!(self.requests.begin_wait(&requests), expected);
            if expected.is_ok() {
                for request in &requests {
                    self.live(*request).unwrap().is_waited = true;
                }
                self.waits.push(requests);
            }
        }

        fn unwait(&mut self, number: usize) {
            if number >= self.waits.len() {
                return;
            }
            let requests = self.waits.swap_remove(number);
            self.requests.end_wait(&requests);
            for request in requests {
                if let Some(known) = self.live(request) {
                    known.is_waited = false;
                }
            }
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::Begin(by) => self.begin(by),
                Step::Complete(n, size) => self.complete(self.handle(n), size),
                Step::Release(n) => self.release(self.handle(n)),
                Step::Wait(all) => {
                    let requests = all.into_iter().map(|n| self.handle(n)).collect();
                    self.wait(requests);
                }
                Step::Unwait(number) => self.unwait(number),
                Step::Forget => {
                    self.requests.forget_over();
                    self.over.clear();
                }
            }
        }

        /// The table says of the latest handles what the model knows of them.
        fn check(&self, latest: usize) {
            for known in self.known.iter().rev().take(latest) {
                let tested = self.requests.test(known.request);
                let expected = match known.is_live {
                    true => Ok(known.done),
                    false => Err(Error::RequestInvalid),
                };
                assert_eq!(tested.map(|done| done.map(size)), expected);
                let is_done = known.is_live && known.done.is_some();
                assert_eq!(self.requests.is_live(known.request), known.is_live);
                assert_eq!(self.requests.is_done(known.request), is_done);
                let is_own = known.is_live && known.by == By::Program;
                let expected = is_own.then_some(()).ok_or(Error::RequestInvalid);
                assert_eq!(self.requests.check_program(known.request), expected);
            }
            assert_eq!(self.requests.count(), self.count());
            let pending = |known: &&Known| known.is_live && known.done.is_none();
            let pending = self.known.iter().filter(pending);
            let pending: HashSet<_> = pending.map(|known| known.request).collect();
            let told = self.requests.pending();
            assert_eq!(told.len(), pending.len());
            assert_eq!(told.into_iter().collect::<HashSet<_>>(), pending);
            // Each thread whose request is over, or was released under it, is woken, and no other.
            let over = self.requests.over().iter().copied();
            assert_eq!(over.collect::<HashSet<_>>(), self.over);
        }
    }

    proptest! {
        /// The table of the specification (section 4.3): requests of the program and of calls, up to the
        /// limit, with several that wait, and indices that are used again.
        #[test]
        fn requests_behave_as_the_table_says(steps in steps()) {
            let mut model = Model::new();
            for step in steps {
                model.step(step);
                model.check(40);
            }
            model.check(usize::MAX);
        }
    }

    /// The steps of the property use indices again, with generations that have begun anew.
    #[test]
    fn the_model_uses_indices_again() {
        let mut model = Model::new();
        for _ in 0..4 * CALLS {
            model.begin(By::Program);
            model.release(model.handle(0));
        }
        model.check(usize::MAX);
        let of = |index| {
            model
                .known
                .iter()
                .filter(move |known| known.request.index() == index)
        };
        let generations: Vec<_> = of(0).map(|known| known.request.generation()).collect();
        assert_eq!(generations[..3], [GENERATION_MAX, 1, 2]);
    }
}
