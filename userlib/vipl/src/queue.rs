// SPDX-License-Identifier: MIT OR Apache-2.0

//! A work queue: the descriptors that were posted and not handed back, in order.
//!
//! Processing starts them in order and may complete them in any; the program gets them back in
//! order (VI-ORD-4), and so do completion queues hear of them (VI-CQ-3).

use crate::{
    descriptor::{Completion, Posted, Status},
    MemHandle,
};

/// Descriptors that a queue has room for before it grows the first time.
const FIRST: usize = 16;

/// A descriptor on the queue.
#[derive(Clone, Copy, Debug)]
struct Entry {
    posted: Posted,
    /// The operation that was posted, as Status tells it.
    operation: Status,
    done: Option<Completion>,
}

impl Entry {
    /// A place that no descriptor has.
    const NONE: Entry = Entry {
        posted: Posted {
            address: 0,
            handle: MemHandle(0),
        },
        operation: Status(0),
        done: None,
    };
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
    /// None or a power of two: a position leads to a place without a division.
    entries: Vec<Entry>,
    /// Position of the first entry.
    base: u64,
    /// Position of the next one to be posted.
    end: u64,
    /// Position of the first that was not started.
    started: u64,
    /// Position of the first that was not announced as complete.
    announced: u64,
}

impl WorkQueue {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.end - self.base) as usize
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.end == self.base
    }

    /// Where the entry of a position is, if it is on the queue.
    #[inline]
    fn place(&self, position: u64) -> Option<usize> {
        let is_there = self.base <= position && position < self.end;
        is_there.then(|| position as usize & self.entries.len().wrapping_sub(1))
    }

    #[inline]
    fn get(&self, position: u64) -> Option<&Entry> {
        self.entries.get(self.place(position)?)
    }

    #[inline]
    fn get_mut(&mut self, position: u64) -> Option<&mut Entry> {
        let place = self.place(position)?;
        self.entries.get_mut(place)
    }

    /// The descriptor at a position, the operation that was posted, and the descriptor behind it.
    #[inline]
    pub(crate) fn linked(&self, position: u64) -> Option<(Posted, Status, Option<Posted>)> {
        let entry = self.get(position)?;
        let next = self.get(position + 1).map(|next| next.posted);
        Some((entry.posted, entry.operation, next))
    }

    /// The last descriptor, if it is there and not complete.
    #[inline]
    pub(crate) fn last(&self) -> Option<Posted> {
        let last = self.get(self.end.wrapping_sub(1))?;
        last.done.is_none().then_some(last.posted)
    }

    /// Add a descriptor; its position.
    #[inline]
    pub(crate) fn post(&mut self, posted: Posted, operation: Status) -> u64 {
        if self.len() == self.entries.len() {
            self.grow();
        }
        let position = self.end;
        self.end += 1;
        if let Some(entry) = self.get_mut(position) {
            *entry = Entry {
                posted,
                operation,
                done: None,
            };
        }
        position
    }

    /// Make room for twice as many.
    #[cold]
    fn grow(&mut self) {
        let len = (2 * self.entries.len()).max(FIRST);
        let mut entries = vec![Entry::NONE; len];
        for position in self.base..self.end {
            let to = entries.get_mut(position as usize & (len - 1));
            if let Some((to, from)) = to.zip(self.get(position)) {
                *to = *from;
            }
        }
        self.entries = entries;
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
        self.started = self.end.min(self.started + 1);
    }

    /// Complete one. It counts as started.
    #[inline]
    pub(crate) fn complete(&mut self, position: u64, done: Completion) {
        if let Some(entry) = self.get_mut(position) {
            entry.done = Some(done);
            self.started = self.started.max(position + 1);
        }
    }

    /// Positions that are not complete, in order.
    pub(crate) fn pending(&self) -> Vec<u64> {
        let is_pending = |entry: &Entry| entry.done.is_none();
        let all = self.base..self.end;
        all.filter(|position| self.get(*position).is_some_and(is_pending))
            .collect()
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
        let Some(entry) = self.get(self.base) else {
            return Head::Empty;
        };
        let Some(done) = entry.done else {
            return Head::Pending;
        };
        self.base += 1;
        self.announced = self.announced.max(self.base);
        Head::Done(done)
    }

    /// Whether the first one is there and not complete.
    pub(crate) fn is_pending(&self) -> bool {
        let first = self.get(self.base);
        first.is_some_and(|entry| entry.done.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
