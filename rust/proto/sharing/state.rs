// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The states of a connection, and of a segment at one interface.

/// What happens to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The answer has come, or the link is back.
    Up,
    /// The link is down.
    Down,
    /// The owner asks to leave.
    Withdraw,
    /// It has ended for good.
    Lose,
}

/// The state of a connection (SI-RSM-1 to SI-RSM-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    connecting: bool,
    operational: bool,
    withdrawn: bool,
    lost: bool,
}

impl State {
    /// The other host has not answered.
    pub const CONNECTING: State = State {
        connecting: true,
        operational: false,
        withdrawn: false,
        lost: false,
    };

    /// What is written arrives.
    pub fn is_operational(self) -> bool {
        self.operational
    }

    /// The owner has asked to leave.
    pub fn is_withdrawn(self) -> bool {
        self.withdrawn
    }

    /// It has ended for good.
    pub fn is_lost(self) -> bool {
        self.lost
    }

    /// Go to the next state; `false` if there is no such way, and nothing happens.
    pub fn apply(&mut self, change: Change) -> bool {
        let may = !self.lost
            && match change {
                Change::Up => !self.operational,
                Change::Down => self.operational,
                Change::Withdraw => !self.connecting && !self.withdrawn,
                Change::Lose => true,
            };
        if may {
            self.connecting = false;
            match change {
                Change::Up => self.operational = true,
                Change::Down => self.operational = false,
                Change::Withdraw => self.withdrawn = true,
                Change::Lose => (self.operational, self.lost) = (false, true),
            }
        }
        may
    }
}

/// What the peers at an interface may do with a segment (SI-LSM-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shown {
    /// Nothing.
    #[default]
    Unprepared,
    /// Nothing new.
    Prepared,
    /// Connect to it, to have its host copy for them; that a window leads there was not asked.
    Placed,
    /// Connect to it.
    Published,
}

/// There is no such way from the present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongState;

impl Shown {
    /// The memory has been made reachable (SI-PREP-1, SI-PREP-3).
    pub fn prepare(&mut self) {
        if *self == Shown::Unprepared {
            *self = Shown::Prepared;
        }
    }

    /// Let peers connect (SI-AVAIL-1, SI-AVAIL-3), whether or not a window leads there.
    ///
    /// # Errors
    /// If it is not prepared (SI-AVAIL-2).
    pub fn publish_placed(&mut self) -> Result<(), WrongState> {
        match self {
            Shown::Unprepared => return Err(WrongState),
            Shown::Prepared => *self = Shown::Placed,
            Shown::Placed | Shown::Published => {}
        }
        Ok(())
    }

    /// Let peers connect (SI-AVAIL-1, SI-AVAIL-3), by a window that the caller has seen to.
    ///
    /// # Errors
    /// If it is not prepared (SI-AVAIL-2).
    pub fn publish(&mut self) -> Result<(), WrongState> {
        self.publish_placed()?;
        *self = Shown::Published;
        Ok(())
    }

    /// Whether peers connect to it.
    pub fn is_published(self) -> bool {
        matches!(self, Shown::Placed | Shown::Published)
    }

    /// Let no more peers connect (SI-UNAVAIL-1).
    ///
    /// # Errors
    /// If it is not published (SI-UNAVAIL-2).
    pub fn withdraw(&mut self) -> Result<(), WrongState> {
        if !self.is_published() {
            return Err(WrongState);
        }
        *self = Shown::Prepared;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Change::{Down, Lose, Up, Withdraw};

    fn after(changes: &[Change]) -> State {
        let mut state = State::CONNECTING;
        for change in changes {
            assert!(state.apply(*change), "{changes:?}");
        }
        state
    }

    /// SI-RSM-1, SI-RSM-2, SI-RSM-3, SI-RSM-4, SI-RSM-5
    #[test]
    fn the_ways_between_states_of_a_connection_are_those_of_the_table() {
        // Rows: how to get there; columns: where up, down, withdraw and lose lead from there.
        type Way<'a> = Option<&'a [Change]>;
        let lost: Way<'_> = Some(&[Up, Lose]);
        let lost_leaving: Way<'_> = Some(&[Up, Withdraw, Lose]);
        let table: [(&[Change], [Way<'_>; 4]); 6] = [
            (&[], [Some(&[Up]), None, None, lost]),
            (
                &[Up],
                [None, Some(&[Up, Down]), Some(&[Up, Withdraw]), lost],
            ),
            (
                &[Up, Down],
                [Some(&[Up]), None, Some(&[Up, Down, Withdraw]), lost],
            ),
            (
                &[Up, Withdraw],
                [None, Some(&[Up, Down, Withdraw]), None, lost_leaving],
            ),
            (
                &[Up, Down, Withdraw],
                [Some(&[Up, Withdraw]), None, None, lost_leaving],
            ),
            (&[Up, Lose], [None; 4]),
        ];
        for (from, ways) in table {
            for (change, to) in [Up, Down, Withdraw, Lose].into_iter().zip(ways) {
                let mut state = after(from);
                let went = state.apply(change);
                assert_eq!(went, to.is_some(), "{from:?} {change:?}");
                assert_eq!(state, after(to.unwrap_or(from)), "{from:?} {change:?}");
            }
        }
    }

    /// SI-LSM-1, SI-PREP-1, SI-PREP-3, SI-AVAIL-1, SI-AVAIL-2, SI-AVAIL-3, SI-UNAVAIL-1,
    /// SI-UNAVAIL-2
    #[test]
    fn a_segment_is_prepared_before_it_is_published() {
        let mut shown = Shown::default();
        assert_eq!(shown.publish(), Err(WrongState));
        assert_eq!(shown.withdraw(), Err(WrongState));
        shown.prepare();
        assert_eq!(shown.withdraw(), Err(WrongState));
        assert_eq!((shown.publish(), shown), (Ok(()), Shown::Published));
        shown.prepare();
        assert_eq!((shown.publish(), shown), (Ok(()), Shown::Published));
        assert_eq!((shown.withdraw(), shown), (Ok(()), Shown::Prepared));
        assert_eq!(shown.withdraw(), Err(WrongState));
    }

    /// A window is seen to before the first that needs one, whatever was published before.
    #[test]
    fn what_was_published_without_a_window_is_published_once_more_with_one() {
        let mut shown = Shown::default();
        assert_eq!(shown.publish_placed(), Err(WrongState));
        shown.prepare();
        assert_eq!((shown.publish_placed(), shown), (Ok(()), Shown::Placed));
        assert!(shown.is_published());
        assert_eq!((shown.publish(), shown), (Ok(()), Shown::Published));
        assert_eq!((shown.publish_placed(), shown), (Ok(()), Shown::Published));
        assert_eq!((shown.withdraw(), shown), (Ok(()), Shown::Prepared));
    }
}
