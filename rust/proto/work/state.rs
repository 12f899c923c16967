// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! How reliable an endpoint is, its states, and what leads from one to another.

/// How reliable an endpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Level {
    /// A message arrives at most once. An error ends nothing but its own request.
    #[default]
    Unreliable,
    /// Messages arrive once and in order, or the connection ends.
    Reliable,
    /// As before, and a send or write has succeeded only when its data is in the partner's memory.
    Acknowledged,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 3] = [Level::Unreliable, Level::Reliable, Level::Acknowledged];

    /// Whether an error ends the connection.
    #[inline]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Level::Unreliable)
    }

    /// Whether sends and writes wait for the partner.
    #[inline]
    pub const fn is_acknowledged(self) -> bool {
        matches!(self, Level::Acknowledged)
    }

    /// Whether there are reads: each needs an answer, which must not be lost.
    #[inline]
    pub const fn has_reads(self) -> bool {
        self.is_reliable()
    }
}

/// The state of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Not connected.
    #[default]
    Idle,
    /// A connection is being made.
    Connecting,
    /// Connected.
    Connected,
    /// The connection has ended by an error, or by the partner.
    Broken,
}

/// What happens to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is asked for, or an acceptance begins.
    Connect,
    /// It has come about.
    Established,
    /// It has not.
    Failed,
    /// The partner's host cannot be reached.
    NotReachable {
        /// The [`Level`] is reliable.
        reliable: bool,
    },
    /// The program disconnects.
    Disconnect,
    /// The partner or the link has gone.
    Lost,
    /// An error in a request, or of the transport.
    Fault {
        /// The [`Level`] is reliable.
        reliable: bool,
    },
    /// An error that no level survives.
    Catastrophe,
}

/// Where an event leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state from then on.
    pub state: State,
    /// Whether every request that is not complete is flushed.
    pub flush: bool,
}

/// An event that is not possible in that state: nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

impl State {
    /// Where an event leads.
    ///
    /// # Errors
    /// [`Invalid`]: nowhere.
    pub fn after(self, event: Event) -> Result<Transition, Invalid> {
        use State::*;
        let keep = |state| {
            Ok(Transition {
                state,
                flush: false,
            })
        };
        let flush = |state| Ok(Transition { state, flush: true });
        match (self, event) {
            (Idle, Event::Connect) => keep(Connecting),
            (Connecting, Event::Established) => keep(Connected),
            (Connecting, Event::Failed) => keep(Idle),
            (Connecting | Idle, Event::NotReachable { reliable: true }) => flush(Broken),
            (Connecting | Idle, Event::NotReachable { reliable: false }) => keep(Idle),
            (_, Event::Disconnect) => flush(Idle),
            (Connected, Event::Lost | Event::Fault { reliable: true }) => flush(Broken),
            (Connected, Event::Fault { reliable: false }) => keep(Connected),
            (_, Event::Catastrophe) => flush(Broken),
            _ => Err(Invalid),
        }
    }

    /// Whether a send, write or read that is posted now is flushed at once.
    #[inline]
    pub fn flushes_sends(self) -> bool {
        self != State::Connected
    }

    /// Whether a receive that is posted now is flushed at once.
    #[inline]
    pub fn flushes_receives(self) -> bool {
        self == State::Broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use State::*;

    const STATES: [State; 4] = [Idle, Connected, Connecting, Broken];

    const EVENTS: [Event; 10] = [
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
    ];

    /// The table, row by row: from, event, to, flushed.
    const TABLE: &[(&[State], Event, State, bool)] = &[
        (&[Idle], Event::Connect, Connecting, false),
        (&[Connecting], Event::Established, Connected, false),
        (&[Connecting], Event::Failed, Idle, false),
        (
            &[Connecting, Idle],
            Event::NotReachable { reliable: true },
            Broken,
            true,
        ),
        (
            &[Connecting, Idle],
            Event::NotReachable { reliable: false },
            Idle,
            false,
        ),
        (&STATES, Event::Disconnect, Idle, true),
        (&[Connected], Event::Lost, Broken, true),
        (&[Connected], Event::Fault { reliable: true }, Broken, true),
        (
            &[Connected],
            Event::Fault { reliable: false },
            Connected,
            false,
        ),
        (&STATES, Event::Catastrophe, Broken, true),
    ];

    /// Every row leads where it says, and what is in no row nowhere.
    #[test]
    fn states_change_as_the_table_says_and_not_otherwise() {
        for state in STATES {
            for event in EVENTS {
                let row = TABLE
                    .iter()
                    .find(|row| row.0.contains(&state) && row.1 == event);
                let expected = row.map(|row| Transition {
                    state: row.2,
                    flush: row.3,
                });
                assert_eq!(state.after(event).ok(), expected, "{state:?} {event:?}");
            }
        }
    }

    proptest! {
        /// Nothing but Disconnect leads out of Broken, whatever happens.
        #[test]
        fn only_disconnect_leads_out_of_broken(events in prop::collection::vec(0..EVENTS.len(), 0..40)) {
            let mut state = Idle;
            for event in events {
                let Ok(next) = state.after(EVENTS[event]) else { continue };
                if state == Broken {
                    let out = next.state != Broken;
                    prop_assert_eq!(out, EVENTS[event] == Event::Disconnect);
                }
                if next.state == Connected {
                    prop_assert!(matches!(state, Connecting | Connected));
                }
                state = next.state;
            }
        }
    }

    /// What is posted before a connection waits on the receive queue only; behind its end nowhere.
    #[test]
    fn what_is_posted_waits_or_is_flushed() {
        let flushed = STATES.map(|state| (state.flushes_sends(), state.flushes_receives()));
        assert_eq!(
            flushed,
            [(true, false), (false, false), (true, false), (true, true)]
        );
    }
}
