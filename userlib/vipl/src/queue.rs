// SPDX-License-Identifier: MIT OR Apache-2.0

//! A work queue: the descriptors that were posted and not handed back, in order.
//!
//! Processing starts them in order and may complete them in any; the program gets them back in
//! order (VI-ORD-4), and so do completion queues hear of them (VI-CQ-3).

use crate::descriptor::{Completion, Posted, Status};
use std::collections::VecDeque;

/// A descriptor on the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) posted: Posted,
    /// The operation that was posted, as Status tells it.
    pub(crate) operation: Status,
    pub(crate) done: Option<Completion>,
}

/// The first descriptor of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// There is none.
    Empty,
    /// It is not complete.
    Pending,
    /// It was, and has been taken.
    Done(Completion),
}

/// A work queue. Positions count from the first descriptor that was ever posted.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    entries: VecDeque<Entry>,
    /// Position of the first entry.
    base: u64,
    /// Position of the first that was not started.
    started: u64,
    /// Position of the first that was not announced as complete.
    announced: u64,
}

impl WorkQueue {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    #[inline]
    fn index(&self, position: u64) -> Option<usize> {
        position.checked_sub(self.base).map(|index| index as usize)
    }

    #[inline]
    pub(crate) fn get(&self, position: u64) -> Option<&Entry> {
        self.entries.get(self.index(position)?)
    }

    /// The one before the end.
    #[inline]
    pub(crate) fn last(&self) -> Option<&Entry> {
        self.entries.back()
    }

    /// Add a descriptor; its position.
    #[inline]
    pub(crate) fn post(&mut self, posted: Posted, operation: Status) -> u64 {
        self.entries.push_back(Entry {
            posted,
            operation,
            done: None,
        });
        self.end() - 1
    }

    /// Whether there is one to start.
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        self.started < self.end()
    }

    /// The next one to start.
    #[inline]
    pub(crate) fn next(&self) -> Option<(u64, Posted)> {
        let entry = self.get(self.started)?;
        Some((self.started, entry.posted))
    }

    /// Note that the next one has started.
    #[inline]
    pub(crate) fn start(&mut self) {
        if self.has_next() {
            self.started += 1;
        }
    }

    /// Complete one. It counts as started.
    #[inline]
    pub(crate) fn complete(&mut self, position: u64, done: Completion) {
        let index = self.index(position);
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
            entry.done = Some(done);
        }
        self.started = self.started.max(position + 1).min(self.end());
    }

    /// Positions that are not complete, in order.
    pub(crate) fn pending(&self) -> Vec<u64> {
        let all = (self.base..).zip(&self.entries);
        let pending = all.filter(|(_, entry)| entry.done.is_none());
        pending.map(|(position, _)| position).collect()
    }

    /// How many have become complete in order since the last time.
    pub(crate) fn announce(&mut self) -> usize {
        let before = self.announced;
        while self.get(self.announced).is_some_and(|e| e.done.is_some()) {
            self.announced += 1;
        }
        (self.announced - before) as usize
    }

    /// Take the first one if it is complete (VI-WQ-1).
    #[inline]
    pub(crate) fn take(&mut self) -> Head {
        let Some(entry) = self.entries.front() else {
            return Head::Empty;
        };
        let Some(done) = entry.done else {
            return Head::Pending;
        };
        self.entries.pop_front();
        self.base += 1;
        self.announced = self.announced.max(self.base);
        Head::Done(done)
    }

    /// Whether the first one is there and not complete.
    pub(crate) fn is_pending(&self) -> bool {
        let first = self.entries.front();
        first.is_some_and(|entry| entry.done.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemHandle;
    use proptest::prelude::*;

    fn posted(n: u64) -> Posted {
        Posted {
            address: n as usize * 64,
            handle: MemHandle(1),
        }
    }

    fn done(n: u64) -> Completion {
        Completion {
            descriptor: n as usize * 64,
            status: Status::DONE,
            length: 0,
            immediate: None,
        }
    }

    /// VI-WQ-1, VI-CQ-3: one that finishes early is neither handed out nor announced.
    #[test]
    fn completions_wait_for_those_before() {
        let mut queue = WorkQueue::default();
        assert_eq!(queue.take(), Head::Empty);
        for n in 0..3 {
            assert_eq!(queue.post(posted(n), Status::OP_SEND), n);
        }
        queue.complete(1, done(1));
        assert_eq!((queue.announce(), queue.take()), (0, Head::Pending));
        queue.complete(0, done(0));
        assert_eq!((queue.announce(), queue.announce()), (2, 0));
        assert_eq!(queue.next().map(|(n, _)| n), Some(2));
        assert_eq!(queue.take(), Head::Done(done(0)));
        assert_eq!(queue.take(), Head::Done(done(1)));
        assert_eq!((queue.take(), queue.pending()), (Head::Pending, vec![2]));
    }

    proptest! {
        /// VI-ORD-4, VI-CQ-2: each is handed out once, in order, and announced once, unless it was
        /// handed out before.
        #[test]
        fn each_descriptor_comes_back_once_and_in_order(actions in prop::collection::vec((0..4_u8, 0..64_usize), 0..200)) {
            let mut queue = WorkQueue::default();
            let (mut posts, mut taken, mut announced, mut skipped, mut finished) = (0, 0, 0, 0, 0);
            for (action, which) in actions {
                match action {
                    0 => {
                        queue.post(posted(posts), Status::OP_SEND);
                        posts += 1;
                    }
                    1 => {
                        let pending = queue.pending();
                        if !pending.is_empty() {
                            let position = pending[which % pending.len()];
                            queue.complete(position, done(position));
                            finished += 1;
                        }
                    }
                    2 => {
                        announced += queue.announce() as u64;
                        let complete = queue.pending().first().copied().unwrap_or(posts);
                        prop_assert_eq!(announced + skipped, complete);
                    }
                    _ => {
                        if let Head::Done(completion) = queue.take() {
                            prop_assert_eq!(completion, done(taken));
                            // One that is taken before it was announced never is.
                            skipped += u64::from(announced + skipped == taken);
                            taken += 1;
                        }
                    }
                }
                let passed = announced + skipped;
                prop_assert!(taken <= passed && passed <= finished && finished <= posts);
                prop_assert_eq!(queue.len() as u64, posts - taken);
            }
        }
    }
}
