// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Questions to the other host's service. An answer comes behind all that the other host had
//! stored before it, and proves that all that this host had stored before the question is there.
//!
//! At most one question is under way. It has the number of the last one that was asked for when it
//! leaves, and its answer is the answer to all before it: however many processes ask, the peer has
//! one message to answer, and no table is needed at either end.

/// What is asked, and in which life of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    number: u32,
    life: u32,
}

/// A question was asked in a life of the link that is over, and its answer does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// What an answer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Nothing: it is of a number that was not asked, or has been answered.
    Nothing,
    /// Some have been answered.
    Answered {
        /// The caller has to send the next question.
        sends: bool,
    },
}

/// The questions of one end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Questions {
    asked: u32,
    answered: u32,
    life: u32,
    is_under_way: bool,
}

impl Questions {
    /// The number of the last question: what the message carries that leaves now.
    pub fn last(&self) -> u32 {
        self.asked
    }

    /// Ask, for what was stored before; say whether the caller has to send a message, or one
    /// follows the answer that is awaited.
    pub fn ask(&mut self) -> (Ticket, bool) {
        self.asked = self.asked.wrapping_add(1);
        let ticket = Ticket {
            number: self.asked,
            life: self.life,
        };
        (ticket, !core::mem::replace(&mut self.is_under_way, true))
    }

    /// The question of that number has been answered, and all before it.
    pub fn answered(&mut self, number: u32) -> Heard {
        let new = number.wrapping_sub(self.answered);
        if new == 0 || new > self.asked.wrapping_sub(self.answered) {
            return Heard::Nothing;
        }
        self.answered = number;
        let is_left = self.answered != self.asked;
        self.is_under_way = is_left;
        Heard::Answered { sends: is_left }
    }

    /// The services do not listen to each other any more: nothing that was asked is answered.
    pub fn lose(&mut self) {
        self.life = self.life.wrapping_add(1);
        self.answered = self.asked;
        self.is_under_way = false;
    }

    /// Whether a question has been answered.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn is_answered(&self, ticket: Ticket) -> Result<bool, Lost> {
        if ticket.life != self.life {
            return Err(Lost);
        }
        // Those that were asked later are fewer than half of all numbers.
        Ok((self.answered.wrapping_sub(ticket.number) as i32) >= 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Heard = Heard::Answered { sends: false };
    const MORE: Heard = Heard::Answered { sends: true };

    #[test]
    fn one_question_is_under_way_and_its_answer_is_that_to_all_before_it() {
        let mut questions = Questions::default();
        let (first, sends) = questions.ask();
        assert!(sends);
        let (second, sends) = questions.ask();
        assert!(!sends, "one is under way");
        assert_eq!(questions.is_answered(first), Ok(false));
        assert_eq!(
            questions.answered(1),
            MORE,
            "the second one has not been asked"
        );
        assert_eq!(questions.is_answered(first), Ok(true));
        assert_eq!(questions.is_answered(second), Ok(false));
        let (third, _) = questions.ask();
        assert_eq!(questions.last(), 3);
        assert_eq!(questions.answered(3), LAST);
        assert_eq!(questions.is_answered(second), Ok(true));
        assert_eq!(questions.is_answered(third), Ok(true));
        assert!(questions.ask().1);
    }

    #[test]
    fn what_was_not_asked_is_not_answered() {
        let mut questions = Questions::default();
        let (ticket, _) = questions.ask();
        for number in [0, 2, 3, u32::MAX] {
            assert_eq!(questions.answered(number), Heard::Nothing);
            assert_eq!(questions.is_answered(ticket), Ok(false));
        }
        assert!(!questions.ask().1, "the first one is still under way");
    }

    #[test]
    fn a_life_that_is_over_answers_nothing() {
        let mut questions = Questions::default();
        let (before, _) = questions.ask();
        questions.lose();
        assert_eq!(questions.is_answered(before), Err(Lost));
        let (after, sends) = questions.ask();
        assert!(sends);
        assert_eq!(questions.answered(1), Heard::Nothing);
        assert_eq!(questions.is_answered(after), Ok(false));
        assert_eq!(questions.answered(2), LAST);
        assert_eq!(questions.is_answered(after), Ok(true));
        assert_eq!(questions.is_answered(before), Err(Lost));
    }

    #[test]
    fn numbers_begin_anew_after_the_last_one() {
        let mut questions = Questions {
            asked: u32::MAX - 1,
            answered: u32::MAX - 1,
            ..Questions::default()
        };
        let (last, _) = questions.ask();
        let (zero, _) = questions.ask();
        assert_eq!(questions.answered(u32::MAX), MORE);
        assert_eq!(questions.is_answered(last), Ok(true));
        assert_eq!(questions.is_answered(zero), Ok(false));
        assert_eq!(questions.answered(0), LAST);
        assert_eq!(questions.is_answered(zero), Ok(true));
    }
}
