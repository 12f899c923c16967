// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! A work queue: the requests that were posted and not handed back, in order.
//!
//! Processing starts them in order and may complete them in any; the program gets them back in
//! the order in which they were posted, and hears of completions in that order.

use super::room::{Full, Ring, Room};

/// A send or write that was sent whole, and of which the partner has not said that it has taken
/// effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Its bytes.
    pub(super) total: u32,
    /// The number of its last message.
    pub(super) message: u64,
    /// The errors that the partner may refuse it with.
    pub(super) refusals: super::Errors,
}

/// How far a request is.
#[derive(Clone, Copy, Debug)]
enum Stage<C> {
    /// It waits, or is being processed.
    Pending,
    /// It waits for the partner.
    Sent(Sent),
    /// It is complete.
    Done(C),
}

/// A request on a queue, or a place that has none.
#[derive(Clone, Copy, Debug)]
pub struct Entry<R, C> {
    request: R,
    stage: Stage<C>,
}

impl<R: Default, C> Default for Entry<R, C> {
    fn default() -> Self {
        Entry {
            request: R::default(),
            stage: Stage::Pending,
        }
    }
}

impl<R, C> Entry<R, C> {
    #[inline]
    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }
}

/// The first request of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head<C> {
    /// There is none.
    Empty,
    /// It is not complete.
    Pending,
    /// It was, and has been taken.
    Done(C),
}

/// A work queue.
#[derive(Debug)]
pub(super) struct Queue<R, C, S> {
    entries: Ring<Entry<R, C>, S>,
    /// Position of the first that was not started.
    started: u64,
    /// Position of the first that was not announced as complete. It may have been taken.
    announced: u64,
    /// No request before that position waits for the partner.
    oldest: u64,
    /// How many wait for the partner.
    sent: u32,
}

impl<R: Copy + Default, C: Copy, S: Room<Entry<R, C>>> Queue<R, C, S> {
    pub(super) fn new(room: S) -> Self {
        Queue {
            entries: Ring::new(room),
            started: 0,
            announced: 0,
            oldest: 0,
            sent: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The request at a position that is not complete, and the one behind it.
    #[inline]
    pub(super) fn linked(&self, position: u64) -> Option<(R, Option<R>)> {
        let entry = self
            .entries
            .get(position)
            .filter(|entry| !entry.is_done())?;
        let next = self.entries.get(position + 1).map(|next| next.request);
        Some((entry.request, next))
    }

    /// The last request, if it is there and not complete.
    #[inline]
    pub(super) fn last(&self) -> Option<R> {
        let last = self.entries.get(self.entries.end().wrapping_sub(1))?;
        (!last.is_done()).then_some(last.request)
    }

    /// Make sure that there is room for another request.
    ///
    /// # Errors
    /// [`Full`].
    #[inline]
    pub(super) fn reserve(&mut self) -> Result<(), Full> {
        self.entries.reserve()
    }

    /// Add a request; its position.
    ///
    /// # Errors
    /// [`Full`].
    #[inline]
    pub(super) fn post(&mut self, request: R) -> Result<u64, Full> {
        self.entries.push(Entry {
            request,
            stage: Stage::Pending,
        })
    }

    /// The next one to start.
    #[inline]
    pub(super) fn next(&self) -> Option<(u64, R)> {
        let entry = self.entries.get(self.started)?;
        Some((self.started, entry.request))
    }

    /// Note that the next one has started.
    #[inline]
    pub(super) fn start(&mut self) {
        self.started = self.entries.end().min(self.started + 1);
    }

    /// Complete one. It counts as started.
    #[inline]
    pub(super) fn complete(&mut self, position: u64, done: C) {
        if let Some(entry) = self.entries.get_mut(position) {
            entry.stage = Stage::Done(done);
            self.started = self.started.max(position + 1);
        }
    }

    /// Note that one waits for the partner, all that were noted before being in front of it.
    #[inline]
    pub(super) fn wait(&mut self, position: u64, sent: Sent) {
        if let Some(entry) = self.entries.get_mut(position) {
            entry.stage = Stage::Sent(sent);
            if self.sent == 0 {
                self.oldest = position;
            }
            self.sent += 1;
        }
    }

    /// How many wait for the partner.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        self.sent
    }

    /// The oldest one that waits for the partner.
    pub(super) fn oldest(&mut self) -> Option<(u64, Sent)> {
        // Those in front of it may have been taken since.
        self.oldest = self.oldest.max(self.entries.base());
        while self.sent > 0 {
            match self.entries.get(self.oldest)?.stage {
                Stage::Sent(sent) => return Some((self.oldest, sent)),
                // A read, or one that was complete when others were sent.
                _ => self.oldest += 1,
            }
        }
        None
    }

    /// Take the oldest one out of those that wait for the partner: it is completed now.
    pub(super) fn settle(&mut self) -> Option<(u64, Sent)> {
        let oldest = self.oldest()?;
        self.sent -= 1;
        self.oldest += 1;
        Some(oldest)
    }

    /// None waits for the partner any more.
    pub(super) fn abandon(&mut self) {
        self.sent = 0;
    }

    /// The first one from a position on that is not complete.
    pub(super) fn pending_from(&self, position: u64) -> Option<u64> {
        let mut all = position.max(self.entries.base())..self.entries.end();
        all.find(|position| {
            self.entries
                .get(*position)
                .is_some_and(|entry| !entry.is_done())
        })
    }

    /// How many have become complete in order since the last time. Those that were taken meanwhile
    /// count.
    pub(super) fn announce(&mut self) -> usize {
        let before = self.announced;
        self.announced = before.max(self.entries.base());
        while self.entries.get(self.announced).is_some_and(Entry::is_done) {
            self.announced += 1;
        }
        (self.announced - before) as usize
    }

    /// Take the first one if it is complete.
    #[inline]
    pub(super) fn take(&mut self) -> Head<C> {
        let Some(entry) = self.entries.get(self.entries.base()) else {
            return Head::Empty;
        };
        let Stage::Done(done) = entry.stage else {
            return Head::Pending;
        };
        self.entries.skip();
        Head::Done(done)
    }

    /// Whether the first one is there and not complete.
    pub(super) fn is_pending(&self) -> bool {
        let first = self.entries.get(self.entries.base());
        first.is_some_and(|entry| !entry.is_done())
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::tests::Heap;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// One with room for so many requests.
    type Limited<const MOST: usize> = Queue<u64, u64, Heap<Entry<u64, u64>, MOST>>;
    type Tested = Limited<1024>;

    fn pending(queue: &Tested) -> Vec<u64> {
        let next = |last: &u64| queue.pending_from(last + 1);
        std::iter::successors(queue.pending_from(0), next).collect()
    }

    fn sent(message: u64) -> Sent {
        Sent {
            total: 0,
            message,
            refusals: super::super::Errors::NONE,
        }
    }

    /// One that finishes early is neither handed out nor announced.
    #[test]
    fn completions_wait_for_those_before() {
        let mut queue = Tested::new(Heap::default());
        assert_eq!(queue.take(), Head::Empty);
        for n in 0..3 {
            assert_eq!(queue.post(n), Ok(n));
        }
        queue.complete(1, 1);
        assert_eq!((queue.announce(), queue.take()), (0, Head::Pending));
        queue.complete(0, 0);
        assert_eq!((queue.announce(), queue.announce()), (2, 0));
        assert_eq!(queue.next().map(|(n, _)| n), Some(2));
        assert_eq!(queue.take(), Head::Done(0));
        assert_eq!(queue.take(), Head::Done(1));
        assert_eq!(queue.take(), Head::Pending);
        assert_eq!(pending(&queue), [2]);
        queue.complete(2, 2);
        assert_eq!((queue.take(), queue.announce()), (Head::Done(2), 1));
    }

    /// Room that was reserved is there for one more.
    #[test]
    fn a_queue_with_a_place_left_takes_one_more() {
        let mut queue = Limited::<16>::new(Heap::default());
        for n in 0..16 {
            assert_eq!((queue.reserve(), queue.post(n)), (Ok(()), Ok(n)));
        }
        assert_eq!(queue.reserve(), Err(Full));
        queue.complete(0, 0);
        assert_eq!((queue.take(), queue.reserve()), (Head::Done(0), Ok(())));
        assert_eq!(queue.post(16), Ok(16));
    }

    /// Without room nothing is posted, and what is there stays as it is.
    #[test]
    fn a_full_queue_takes_no_more() {
        let mut queue = Limited::<16>::new(Heap::default());
        for n in 0..40 {
            for m in n..n + 16 {
                assert_eq!(queue.post(m), Ok(m - n + 17 * n));
            }
            assert_eq!((queue.post(99), queue.len()), (Err(Full), 16));
            for _ in 0..16 {
                let (position, request) = queue.next().unwrap();
                queue.start();
                queue.complete(position, request);
            }
            for m in n..n + 16 {
                assert_eq!(queue.take(), Head::Done(m));
            }
            assert_eq!(queue.take(), Head::Empty);
            // Others begin at another place.
            assert_eq!(queue.post(0), Ok(17 * n + 16));
            queue.complete(17 * n + 16, 0);
            assert_eq!(queue.take(), Head::Done(0));
        }
    }

    proptest! {
        /// Each is handed out once, in order, and announced once, whatever is first.
        #[test]
        fn each_request_comes_back_once_and_in_order(actions in prop::collection::vec((0..4_u8, 0..64_usize), 0..200)) {
            let mut queue = Tested::new(Heap::default());
            let (mut posts, mut taken, mut announced, mut finished) = (0, 0, 0, 0);
            for (action, which) in actions {
                match action {
                    0 => {
                        prop_assert_eq!(queue.post(posts), Ok(posts));
                        posts += 1;
                    }
                    1 => {
                        let pending = pending(&queue);
                        if !pending.is_empty() {
                            let position = pending[which % pending.len()];
                            queue.complete(position, position);
                            finished += 1;
                        }
                    }
                    2 => {
                        announced += queue.announce() as u64;
                        let complete = pending(&queue).first().copied().unwrap_or(posts);
                        prop_assert_eq!(announced, complete);
                    }
                    _ => {
                        if let Head::Done(completion) = queue.take() {
                            prop_assert_eq!(completion, taken);
                            taken += 1;
                        }
                    }
                }
                prop_assert!(taken.max(announced) <= finished && finished <= posts);
                prop_assert_eq!(queue.len() as u64, posts - taken);
            }
        }

        /// Those that wait for the partner are settled in the order in which they were sent, whatever
        /// is between them and whenever the program takes what is complete.
        #[test]
        fn those_that_wait_are_settled_in_order(actions in prop::collection::vec(0..5_u8, 0..300)) {
            let mut queue = Tested::new(Heap::default());
            let (mut waiting, mut reads) = (std::collections::VecDeque::new(), Vec::new());
            for action in actions {
                match action {
                    0 => drop(queue.post(0)),
                    1 | 2 => {
                        let Some((position, _)) = queue.next() else { continue };
                        queue.start();
                        if action == 1 {
                            queue.wait(position, sent(position));
                            waiting.push_back(position);
                        } else {
                            reads.push(position);
                        }
                    }
                    3 => {
                        let found = queue.settle();
                        let expected = waiting.pop_front();
                        prop_assert_eq!(found.map(|(position, _)| position), expected);
                        prop_assert_eq!(found.map(|(_, sent)| sent.message), expected);
                        if let Some(position) = expected {
                            queue.complete(position, position);
                        }
                        while queue.take() != Head::Pending && !queue.is_empty() {}
                    }
                    _ => {
                        if let Some(position) = reads.pop() {
                            queue.complete(position, position);
                        }
                    }
                }
                prop_assert_eq!(queue.waiting() as usize, waiting.len());
                let oldest = queue.oldest().map(|(position, _)| position);
                prop_assert_eq!(oldest, waiting.front().copied());
            }
        }
    }
}
