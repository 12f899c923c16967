// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Messages for which there was no memory when they arrived: kept in bytes that were put by before,
//! one behind the other, until somebody who can wait for memory takes them out.

use crate::wire::{get_u32, put_u32};
use core::ops::DerefMut;

/// Bytes in front of each message: how many it has.
const HEAD: usize = 4;

/// Such messages, in order.
#[derive(Debug)]
pub struct Reserve<B> {
    bytes: B,
    /// Messages are from here on.
    first: usize,
    /// And not beyond.
    end: usize,
}

impl<B: DerefMut<Target = [u8]>> Reserve<B> {
    /// No messages, in that memory.
    pub fn new(bytes: B) -> Self {
        Reserve {
            bytes,
            first: 0,
            end: 0,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Enter a message of `head` and `len` bytes more, which `fill` fills in, and whose error is
    /// the result; `None` if there is no room. It is not there unless the result is `Some(Ok)`.
    pub fn enter<E>(
        &mut self,
        head: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let size = head.len().checked_add(len)?;
        let whole = size.checked_add(HEAD)?;
        if self.bytes.len() - self.end < whole {
            self.close_up();
        }
        let end = self.end.checked_add(whole)?;
        let room = self.bytes.get_mut(self.end..end)?;
        put_u32(room, 0, u32::try_from(size).ok()?);
        let (to, rest) = room.get_mut(HEAD..)?.split_at_mut_checked(head.len())?;
        to.copy_from_slice(head);
        let filled = fill(rest);
        if filled.is_ok() {
            self.end = end;
        }
        Some(filled)
    }

    /// Move what is there to the front.
    fn close_up(&mut self) {
        self.bytes.copy_within(self.first..self.end, 0);
        (self.first, self.end) = (0, self.end - self.first);
    }

    /// The message that begins at `at`, and where the next one does.
    fn at(&self, at: usize) -> Option<(&[u8], usize)> {
        let bytes = self.bytes.get(at..self.end)?;
        let size = get_u32(bytes.get(..HEAD)?, 0) as usize;
        let message = bytes.get(HEAD..HEAD.checked_add(size)?)?;
        Some((message, at + HEAD + size))
    }

    /// All messages, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + '_ {
        let mut next = self.first;
        core::iter::from_fn(move || {
            let (message, behind) = self.at(next)?;
            next = behind;
            Some(message)
        })
    }

    /// The oldest message.
    pub fn front(&self) -> Option<&[u8]> {
        Some(self.at(self.first)?.0)
    }

    /// Drop the oldest message.
    pub fn pop(&mut self) {
        if let Some((_, behind)) = self.at(self.first) {
            self.first = behind;
        }
    }

    /// Drop all.
    pub fn clear(&mut self) {
        (self.first, self.end) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::VecDeque, vec, vec::Vec};

    fn enter(reserve: &mut Reserve<Vec<u8>>, head: &[u8], tail: &[u8]) -> bool {
        let entered = reserve.enter(head, tail.len(), |to| {
            to.copy_from_slice(tail);
            Ok::<_, ()>(())
        });
        entered.is_some()
    }

    proptest! {
        #[test]
        fn what_was_entered_comes_out_whole_and_in_order(
            steps in prop::collection::vec((0u8..3, 0usize..5, 0usize..40), 0..300),
            size in 0usize..200,
        ) {
            let mut reserve = Reserve::new(vec![0; size]);
            let mut model: VecDeque<Vec<u8>> = VecDeque::new();
            for (n, (step, head, tail)) in steps.into_iter().enumerate() {
                if step == 0 {
                    prop_assert_eq!(reserve.front(), model.front().map(Vec::as_slice));
                    reserve.pop();
                    model.pop_front();
                } else {
                    let (head, tail) = (vec![n as u8; head], vec![!n as u8; tail]);
                    let used: usize = model.iter().map(|m| HEAD + m.len()).sum();
                    let fits = used + HEAD + head.len() + tail.len() <= size;
                    prop_assert_eq!(enter(&mut reserve, &head, &tail), fits);
                    if fits {
                        model.push_back([head, tail].concat());
                    }
                }
                prop_assert_eq!(reserve.is_empty(), model.is_empty());
                prop_assert!(reserve.iter().eq(model.iter().map(Vec::as_slice)));
            }
        }
    }

    #[test]
    fn what_cannot_be_filled_in_is_not_there() {
        let mut reserve = Reserve::new(vec![0; 16]);
        assert!(enter(&mut reserve, b"a", b"b"));
        assert_eq!(reserve.enter(b"c", 1, |_| Err(())), Some(Err(())));
        assert!(reserve.iter().eq([b"ab"]));
        reserve.clear();
        assert!(reserve.is_empty() && reserve.front().is_none());
    }
}
