// SPDX-License-Identifier: GPL-2.0-only

//! Queues that grow as needed.

use kernel::prelude::*;

#[kunit_tests(mp_fifo)]
mod tests {
    use super::*;
    use mp_kernel::fifo::{
        Chunked,
        Fifo,
        Supply, //
    };

    /// Entries of several chunks, and some.
    const MANY: u32 = 200;

    #[test]
    fn entries_leave_in_their_order_wherever_the_queue_begins() -> Result {
        let mut queue = Fifo::new();
        let (mut first, mut next) = (0, 0);
        // Longer in each round, and from another place.
        for round in 1..MANY {
            while next - first < round {
                queue.push(next)?;
                next += 1;
            }
            assert_eq!(queue.len() as u32, round);
            for _ in 0..round.div_ceil(3) {
                assert_eq!(queue.front(), Some(&first));
                assert_eq!(queue.pop(), Some(first));
                first += 1;
            }
        }
        while let Some(entry) = queue.pop() {
            assert_eq!(entry, first);
            first += 1;
        }
        assert_eq!(first, next);
        assert!(queue.is_empty() && queue.front().is_none());
        Ok(())
    }

    #[test]
    fn what_is_taken_out_in_between_leaves_no_gap() -> Result {
        let mut queue = Fifo::new();
        (0..MANY).try_for_each(|n| queue.push(n))?;
        for n in 0..MANY / 2 {
            assert_eq!(queue.pop(), Some(n));
        }
        (MANY..2 * MANY).try_for_each(|n| queue.push(n))?;
        let end = queue.end();
        for gone in [MANY / 2, MANY, 2 * MANY - 1] {
            assert!(queue.any(|n| *n == gone));
            assert_eq!(queue.remove(|n| *n == gone), Some(gone));
            assert!(!queue.any(|n| *n == gone));
            assert_eq!(queue.remove(|n| *n == gone), None);
        }
        let gone = |n: &u32| [MANY / 2, MANY, 2 * MANY - 1].contains(n);
        for n in (MANY / 2..2 * MANY).filter(|n| !gone(n)) {
            assert!(!queue.is_past(end));
            assert_eq!(queue.pop(), Some(n));
        }
        assert!(queue.is_past(end) && queue.is_empty());
        Ok(())
    }

    /// What is had before is behind what waits, wherever the queue begins and however it has grown
    /// meanwhile.
    #[test]
    fn what_was_supplied_is_there_and_in_its_place() -> Result {
        const MORE: usize = 10;
        for (begins, grows) in [(0, 0), (3, 0), (3, 1), (7, 5), (2, MANY / 2)] {
            let mut queue = Chunked::<u32, 4>::new();
            (0..begins).try_for_each(|n| queue.push(n))?;
            for _ in 0..begins / 2 {
                queue.pop();
            }
            let mut supply = Supply::new();
            assert!(!queue.reserve_from(queue.len() + MORE, &mut supply));
            supply.fill(GFP_KERNEL)?;
            (begins..begins + grows).try_for_each(|n| queue.push(n))?;
            while !queue.reserve_from(queue.len() + MORE, &mut supply) {
                supply.fill(GFP_KERNEL)?;
            }
            let room = queue.room();
            assert!(room >= MORE);
            let all = begins + grows + MORE as u32;
            (begins + grows..all).try_for_each(|n| queue.push(n))?;
            assert_eq!(queue.room(), room - MORE);
            for n in begins / 2..all {
                assert_eq!(queue.pop(), Some(n));
            }
            assert!(queue.is_empty());
        }
        Ok(())
    }

    /// Without memory for more than was reserved, that is what there is room for.
    #[test]
    fn what_is_reserved_is_there_wherever_the_queue_begins() -> Result {
        for begins in [0, 1, 63, 64, 65] {
            let mut queue = Fifo::new();
            for n in 0..begins {
                queue.push(n)?;
                queue.pop();
            }
            queue.reserve(MANY as usize, GFP_KERNEL)?;
            let room = queue.room();
            assert!(room >= MANY as usize);
            (0..MANY).try_for_each(|n| queue.push(n))?;
            assert_eq!(queue.room(), room - MANY as usize);
        }
        Ok(())
    }
}
