// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who may send on a trunk: one lane after the other, as soon as some have to wait.

use std::collections::{HashSet, VecDeque};

/// Messages that a lane sends before others that wait have their turn.
const QUANTUM: u32 = 16;

/// Lanes that wait for room, or for their turn, in order. The first one may send; if none waits,
/// each may. Only those that leave before their turn are looked for among the others.
///
/// # Invariants
/// `members` has the lanes that are in `waiting`, once each.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: VecDeque<u32>,
    members: HashSet<u32>,
    /// Messages that the first one has sent in its turn.
    used: u32,
}

impl Turns {
    /// Whether a lane may send now.
    pub(super) fn may(&self, lane: u32) -> bool {
        self.waiting.front().is_none_or(|first| *first == lane)
    }

    /// A lane could not send.
    pub(super) fn wait(&mut self, lane: u32) {
        if self.members.insert(lane) {
            self.waiting.push_back(lane);
        }
    }

    /// A lane has sent a message.
    pub(super) fn sent(&mut self, lane: u32) {
        if self.waiting.front() != Some(&lane) {
            return;
        }
        self.used += 1;
        if self.used >= QUANTUM {
            self.waiting.rotate_left(1);
            self.used = 0;
        }
    }

    /// A lane has nothing more to send, or has ended.
    pub(super) fn leave(&mut self, lane: u32) {
        if !self.members.remove(&lane) {
            return;
        }
        if self.waiting.front() == Some(&lane) {
            self.waiting.pop_front();
            self.used = 0;
        } else {
            self.waiting.retain(|other| *other != lane);
        }
    }

    /// Whose turn it is.
    pub(super) fn first(&self) -> Option<u32> {
        self.waiting.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_sends_alone_sends_at_once() {
        let mut turns = Turns::default();
        for _ in 0..100 {
            assert!(turns.may(1) && turns.may(2));
            turns.sent(1);
        }
        assert_eq!(turns.first(), None);
    }

    #[test]
    fn a_lane_with_much_to_send_gives_others_a_turn() {
        let mut turns = Turns::default();
        turns.wait(1);
        turns.wait(2);
        turns.wait(2);
        turns.wait(3);
        let mut order = Vec::new();
        for _ in 0..QUANTUM * 4 {
            let lane = turns.first().unwrap();
            assert!([1, 2, 3].map(|other| turns.may(other) == (other == lane)) == [true; 3]);
            turns.sent(lane);
            order.push(lane);
        }
        order.dedup();
        assert_eq!(order, [1, 2, 3, 1]);
        turns.leave(2);
        turns.leave(3);
        assert_eq!(turns.first(), Some(1));
    }

    proptest! {
        /// Whatever lanes do, each that waits is the first one after as many turns as there are
        /// others.
        #[test]
        fn each_lane_comes_to_its_turn(acts in prop::collection::vec((0..4_u8, 0..6_u32), 0..200)) {
            let mut turns = Turns::default();
            for (act, lane) in acts {
                match act {
                    0 => turns.wait(lane),
                    1 => turns.leave(lane),
                    _ if turns.may(lane) => turns.sent(lane),
                    _ => turns.wait(lane),
                }
                prop_assert!(turns.waiting.len() <= 6 && turns.used < QUANTUM);
                prop_assert_eq!(turns.waiting.len(), turns.members.len());
                prop_assert!(turns.waiting.iter().all(|lane| turns.members.contains(lane)));
            }
            let waiting: Vec<u32> = turns.waiting.iter().copied().collect();
            let mut seen = Vec::new();
            while let (Some(lane), true) = (turns.first(), seen.len() < waiting.len()) {
                seen.push(lane);
                while turns.first() == Some(lane) && waiting.len() > 1 {
                    turns.sent(lane);
                }
            }
            prop_assert_eq!(seen, waiting);
        }
    }
}
