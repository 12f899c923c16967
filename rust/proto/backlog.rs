// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The order of messages that arrive where nothing may wait for memory: most wait in a queue of the
//! caller's, and those for which there was no memory in a [`Reserve`]. All have numbers, by which
//! they leave in the order in which they have arrived.

use crate::reserve::Reserve;
use core::ops::DerefMut;

/// Bytes of a number.
const NUMBER: usize = 4;

/// The messages that were put by, among those of a queue. Fewer than 2^31 messages wait altogether.
#[derive(Debug)]
pub struct Backlog<B> {
    /// Each message behind its number.
    reserve: Reserve<B>,
    /// How many messages have arrived, modulo 2^32: the number of the next one.
    next: u32,
}

impl<B: DerefMut<Target = [u8]>> Backlog<B> {
    /// No messages, and that memory for those that are to be put by.
    pub fn new(bytes: B) -> Self {
        Backlog {
            reserve: Reserve::new(bytes),
            next: 0,
        }
    }

    /// A message has arrived, which `push` appends to the queue with its number.
    ///
    /// # Errors
    /// That of `push`: it has not arrived, and may be [put by](Self::put_by).
    pub fn enter<E>(&mut self, push: impl FnOnce(u32) -> Result<(), E>) -> Result<(), E> {
        push(self.next)?;
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// A message of `len` bytes has arrived, for which the queue has no memory. `fill` fills it in,
    /// and its error is the result; `None` if there is no room. It has not arrived unless the result
    /// is `Some(Ok)`.
    pub fn put_by<E>(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let number = self.next.to_le_bytes();
        let entered = self.reserve.enter(&number, len, fill)?;
        if entered.is_ok() {
            self.next = self.next.wrapping_add(1);
        }
        Some(entered)
    }

    /// Whether the oldest message is one that was put by, if the oldest one of the queue has that
    /// number; `None` if there is none.
    pub fn is_first(&self, queued: Option<u32>) -> bool {
        let Some((number, _)) = self.reserve.front().and_then(split) else {
            return false;
        };
        queued.is_none_or(|queued| is_before(number, queued))
    }

    /// Whether none is put by.
    pub fn is_empty(&self) -> bool {
        self.reserve.is_empty()
    }

    /// The oldest message that was put by.
    pub fn front(&self) -> Option<&[u8]> {
        Some(split(self.reserve.front()?)?.1)
    }

    /// All messages that were put by, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.reserve.iter().filter_map(|kept| Some(split(kept)?.1))
    }

    /// Drop the oldest message that was put by.
    pub fn pop(&mut self) {
        self.reserve.pop();
    }

    /// Drop all that were put by.
    pub fn clear(&mut self) {
        self.reserve.clear();
    }
}

/// Whether a message has arrived before another one, by their numbers.
pub fn is_before(number: u32, other: u32) -> bool {
    (number.wrapping_sub(other) as i32) < 0
}

/// The number of a message that was put by, and the message.
fn split(kept: &[u8]) -> Option<(u32, &[u8])> {
    let (number, message) = kept.split_first_chunk::<NUMBER>()?;
    Some((u32::from_le_bytes(*number), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::VecDeque, vec, vec::Vec};

    /// What happens to the inbox.
    #[derive(Debug, Clone)]
    enum Step {
        /// A message of so many bytes arrives, with memory or without.
        Arrives { len: usize, has_memory: bool },
        /// The oldest one is taken out.
        Taken,
        /// All are dropped.
        Cleared,
    }

    fn some_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0usize..24, any::<bool>())
                .prop_map(|(len, has_memory)| Step::Arrives { len, has_memory }),
            6 => Just(Step::Taken),
            1 => Just(Step::Cleared),
        ]
    }

    /// A queue beside what was put by, as an inbox has them.
    struct Both {
        queue: VecDeque<(u32, Vec<u8>)>,
        backlog: Backlog<Vec<u8>>,
    }

    impl Both {
        /// Whether a message has found a place.
        fn arrives(&mut self, message: &[u8], has_memory: bool) -> bool {
            let queue = &mut self.queue;
            let entered = self.backlog.enter(|number| match has_memory {
                true => {
                    queue.push_back((number, message.to_vec()));
                    Ok(())
                }
                false => Err(()),
            });
            let put_by = |backlog: &mut Backlog<Vec<u8>>| {
                backlog.put_by(message.len(), |to| {
                    to.copy_from_slice(message);
                    Ok::<_, ()>(())
                })
            };
            entered.is_ok() || put_by(&mut self.backlog).is_some()
        }

        fn take(&mut self) -> Option<Vec<u8>> {
            let queued = self.queue.front().map(|(number, _)| *number);
            if !self.backlog.is_first(queued) {
                return Some(self.queue.pop_front()?.1);
            }
            let oldest = self.backlog.front().map(<[u8]>::to_vec);
            self.backlog.pop();
            oldest
        }
    }

    proptest! {
        /// Whatever waits where, and wherever the numbers begin again: all leave as one queue.
        #[test]
        fn messages_leave_in_the_order_of_their_arrival(
            steps in prop::collection::vec(some_step(), 0..400),
            size in 0usize..200,
            before_the_turn in 0u32..200,
        ) {
            let mut both = Both {
                queue: VecDeque::new(),
                backlog: Backlog::new(vec![0; size]),
            };
            both.backlog.next = before_the_turn.wrapping_neg();
            let mut model: VecDeque<(bool, Vec<u8>)> = VecDeque::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Arrives { len, has_memory } => {
                        let message = vec![n as u8; len];
                        if both.arrives(&message, has_memory) {
                            model.push_back((has_memory, message));
                        } else {
                            // Only what there is neither memory nor room for is lost.
                            let kept = model.iter().filter(|(queued, _)| !queued);
                            let used: usize = kept.map(|(_, m)| 8 + m.len()).sum();
                            prop_assert!(!has_memory && used + 8 + len > size);
                        }
                    }
                    Step::Taken => {
                        prop_assert_eq!(both.take(), model.pop_front().map(|(_, m)| m));
                    }
                    Step::Cleared => {
                        both.queue.clear();
                        both.backlog.clear();
                        model.clear();
                    }
                }
                let kept = model.iter().filter(|(queued, _)| !queued);
                prop_assert!(both.backlog.iter().eq(kept.map(|(_, m)| m.as_slice())));
                prop_assert_eq!(both.backlog.is_empty(), model.iter().all(|(queued, _)| *queued));
            }
            while let Some((_, message)) = model.pop_front() {
                prop_assert_eq!(both.take(), Some(message));
            }
            prop_assert_eq!(both.take(), None);
        }
    }

    /// What could not be filled in has not arrived: its number is that of the next one.
    #[test]
    fn what_cannot_be_read_leaves_no_gap() {
        let mut backlog = Backlog::new(vec![0; 64]);
        assert_eq!(backlog.put_by(1, |_| Err(())), Some(Err(())));
        assert_eq!(backlog.enter(|_| Err(())), Err(()));
        assert_eq!(backlog.put_by(1, |_| Ok::<_, ()>(())), Some(Ok(())));
        let mut queued = None;
        let push = |number| {
            queued = Some(number);
            Ok::<_, ()>(())
        };
        assert_eq!(backlog.enter(push), Ok(()));
        assert_eq!(queued, Some(1));
        assert!(backlog.is_first(queued));
        backlog.pop();
        assert!(!backlog.is_first(queued));
    }
}
