// SPDX-License-Identifier: MIT OR Apache-2.0

//! The states of a VI, and what leads from one to another: the transition table of the
//! specification and nothing else.

use crate::Result;

/// The state of a VI; the numbers are those of `vipl.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum State {
    /// Not connected.
    Idle = 0,
    /// Connected.
    Connected = 1,
    /// A connection is being made.
    ConnectPending = 2,
    /// The connection has ended by an error, or by the remote side.
    Error = 3,
}

/// What happens to a VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A connection is asked for, or an acceptance begins.
    Connect,
    /// It has come about.
    Established,
    /// It has not.
    Failed,
    /// The remote host cannot be reached; the VI is of a reliable level or not.
    NotReachable {
        /// Reliable Delivery or Reliable Reception.
        reliable: bool,
    },
    /// The program disconnects.
    Disconnect,
    /// The remote side or the link has gone.
    Lost,
    /// An error in a descriptor, or of the transport.
    Fault {
        /// Reliable Delivery or Reliable Reception.
        reliable: bool,
    },
    /// An error that no level survives.
    Catastrophe,
    /// The program changes attributes.
    SetAttributes,
    /// The program destroys the VI; whether nothing is on its queues.
    Destroy {
        /// Both queues are empty.
        empty: bool,
    },
}

/// Where an event leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    /// The state from then on.
    pub(crate) state: State,
    /// Whether everything that is not complete is flushed.
    pub(crate) flush: bool,
}

impl State {
    /// Where an event leads.
    ///
    /// # Errors
    /// [`InvalidState`](crate::Error::InvalidState): nowhere; the VI stays as it is (VI-STATE-18).
    pub(crate) fn after(self, event: Event) -> Result<Transition> {
        use State::*;
        let keep = |state| {
            Ok(Transition {
                state,
                flush: false,
            })
        };
        let flush = |state| Ok(Transition { state, flush: true });
        match (self, event) {
            (Idle, Event::Connect) => keep(ConnectPending),
            (ConnectPending, Event::Established) => keep(Connected),
            (ConnectPending, Event::Failed) => keep(Idle),
            (ConnectPending | Idle, Event::NotReachable { reliable: true }) => flush(Error),
            (ConnectPending | Idle, Event::NotReachable { reliable: false }) => keep(Idle),
            (_, Event::Disconnect) => flush(Idle),
            (Connected, Event::Lost | Event::Fault { reliable: true }) => flush(Error),
            (Connected, Event::Fault { reliable: false }) => keep(Connected),
            (_, Event::Catastrophe) => flush(Error),
            (Idle, Event::SetAttributes | Event::Destroy { empty: true }) => keep(Idle),
            _ => Err(crate::Error::InvalidState),
        }
    }

    /// Whether a send that is posted now is flushed at once (VI-POST-6, VI-POST-7).
    #[inline]
    pub(crate) fn flushes_sends(self) -> bool {
        self != State::Connected
    }

    /// Whether a receive that is posted now is flushed at once (VI-POST-5, VI-POST-7).
    #[inline]
    pub(crate) fn flushes_receives(self) -> bool {
        self == State::Error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use State::*;

    const STATES: [State; 4] = [Idle, Connected, ConnectPending, Error];

    const EVENTS: [Event; 13] = [
        Event::Connect,
        Event::Established,
        Event::Failed,
        Event::NotReachable { reliable: true },
        Event::NotReachable { reliable: false },
        Event::Disconnect,
        Event::Lost,
        Event::Fault { reliable: true },
        Event::Fault { reliable: false },
        Event::Catastrophe,
        Event::SetAttributes,
        Event::Destroy { empty: true },
        Event::Destroy { empty: false },
    ];

    /// The table, row by row: from, event, to, flushed.
    const TABLE: &[(&str, &[State], Event, State, bool)] = &[
        ("2, 3", &[Idle], Event::Connect, ConnectPending, false),
        ("4", &[ConnectPending], Event::Established, Connected, false),
        ("5", &[ConnectPending], Event::Failed, Idle, false),
        (
            "6",
            &[ConnectPending, Idle],
            Event::NotReachable { reliable: true },
            Error,
            true,
        ),
        (
            "6",
            &[ConnectPending, Idle],
            Event::NotReachable { reliable: false },
            Idle,
            false,
        ),
        ("7, 8, 14, 16", &STATES, Event::Disconnect, Idle, true),
        ("9, 11", &[Connected], Event::Lost, Error, true),
        (
            "10",
            &[Connected],
            Event::Fault { reliable: true },
            Error,
            true,
        ),
        (
            "12",
            &[Connected],
            Event::Fault { reliable: false },
            Connected,
            false,
        ),
        ("13", &STATES, Event::Catastrophe, Error, true),
        ("18", &[Idle], Event::SetAttributes, Idle, false),
        ("17", &[Idle], Event::Destroy { empty: true }, Idle, false),
    ];

    /// VI-STATE-2 to VI-STATE-18: every row leads where it says, and what is in no row nowhere.
    #[test]
    fn states_change_as_the_table_says_and_not_otherwise() {
        for state in STATES {
            for event in EVENTS {
                let row = TABLE
                    .iter()
                    .find(|row| row.1.contains(&state) && row.2 == event);
                let expected = row.map(|row| Transition {
                    state: row.3,
                    flush: row.4,
                });
                assert_eq!(state.after(event).ok(), expected, "{state:?} {event:?}");
            }
        }
    }

    proptest! {
        /// VI-STATE-21: nothing but Disconnect leads out of Error, whatever happens.
        #[test]
        fn only_disconnect_leads_out_of_error(events in prop::collection::vec(0..EVENTS.len(), 0..40)) {
            let mut state = Idle;
            for event in events {
                let Ok(next) = state.after(EVENTS[event]) else { continue };
                if state == Error {
                    let out = next.state != Error;
                    prop_assert_eq!(out, EVENTS[event] == Event::Disconnect);
                }
                if next.state == Connected {
                    prop_assert!(matches!(state, ConnectPending | Connected));
                }
                state = next.state;
            }
        }
    }

    /// VI-POST-5, VI-POST-6, VI-POST-7, VI-STATE-15
    #[test]
    fn what_is_posted_waits_or_is_flushed() {
        let flushed = STATES.map(|state| (state.flushes_sends(), state.flushes_receives()));
        assert_eq!(
            flushed,
            [(true, false), (false, false), (true, false), (true, true)]
        );
    }
}
