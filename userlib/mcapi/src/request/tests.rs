// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of [`request`](super).

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
        let begun = self.requests.begin_wait(&requests);
        assert_eq!(begun.as_ref().map(|_| ()).map_err(|error| *error), expected);
        let Ok(taken) = begun else {
            return;
        };
        // MC-WAITANY-7: the first one that is done is released.
        let is_done = |request: &Request| {
            let mut known = self.known.iter();
            known.any(|known| known.is_live && known.request == *request && known.done.is_some())
        };
        let first = requests.iter().position(is_done);
        assert_eq!(taken.as_ref().map(|(index, _)| *index), first);
        match taken {
            Some((index, outcome)) => {
                let known = self.live(requests[index]).unwrap();
                known.is_live = false;
                assert_eq!(Some(size(&outcome)), known.done);
            }
            None => {
                for request in &requests {
                    self.live(*request).unwrap().is_waited = true;
                }
                self.waits.push(requests);
            }
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
