// SPDX-License-Identifier: MIT OR Apache-2.0

//! The states of a VI. What leads from one to another is the table of its work queues, which is that
//! of the specification.

use mp_proto::work;
pub(crate) use mp_proto::work::Event;

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

impl From<work::State> for State {
    #[inline]
    fn from(state: work::State) -> Self {
        match state {
            work::State::Idle => State::Idle,
            work::State::Connecting => State::ConnectPending,
            work::State::Connected => State::Connected,
            work::State::Broken => State::Error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::Engine,
        memory::{tests::TAG, Regions},
        Error, Level, ViAttributes,
    };

    /// A VI in a state.
    fn in_state(state: State) -> (Engine, Regions) {
        let regions = Regions::default();
        let attributes = ViAttributes {
            level: Level::ReliableDelivery,
            max_transfer_size: 8,
            ptag: TAG,
            rdma_write: false,
            rdma_read: false,
        };
        let mut engine = Engine::new(attributes).unwrap();
        let events: &[Event] = match state {
            State::Idle => &[],
            State::ConnectPending => &[Event::Connect],
            State::Connected => &[Event::Connect, Event::Established],
            State::Error => &[Event::Catastrophe],
        };
        for event in events {
            engine.event(&regions, *event).unwrap();
        }
        assert_eq!(engine.state(), state);
        (engine, regions)
    }

    /// VI-STATE-17, VI-STATE-18, VI-ATTR-1, VI-EP-10: attributes change, and VIs are destroyed, in
    /// Idle only; what is not possible changes nothing.
    #[test]
    fn what_is_for_idle_vis_is_refused_in_other_states() {
        for state in [
            State::Idle,
            State::Connected,
            State::ConnectPending,
            State::Error,
        ] {
            let (mut engine, regions) = in_state(state);
            let expected = match state {
                State::Idle => Ok(()),
                _ => Err(Error::InvalidState),
            };
            let attributes = ViAttributes {
                level: Level::Unreliable,
                ..*engine.attributes()
            };
            assert_eq!(engine.may_change(), expected);
            assert_eq!(engine.set_attributes(attributes), expected);
            assert_eq!(*engine.attributes() == attributes, state == State::Idle);
            assert_eq!(engine.may_be_destroyed(), expected);
            assert_eq!(engine.event(&regions, Event::Connect), expected);
            assert_eq!(engine.state() == state, state != State::Idle);
        }
    }

    /// The numbers are those of `vipl.h`.
    #[test]
    fn states_have_their_numbers() {
        let states = [
            work::State::Idle,
            work::State::Connected,
            work::State::Connecting,
            work::State::Broken,
        ];
        assert_eq!(states.map(|state| State::from(state) as u32), [0, 1, 2, 3]);
    }
}
