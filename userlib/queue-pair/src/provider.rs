// SPDX-License-Identifier: MIT OR Apache-2.0

//! What libraries have in common that provide another interface on queue pairs: VIs, nodes,
//! endpoints of a fabric.
//!
//! | piece | owns |
//! |---|---|
//! | [`Outbox`], [`Inbox`] | a half of a pair each, what its partner was not told of yet, and the slot of the last message |
//! | [`Inbox::arm`], [`Question`] | asking a partner for signals, without a lock while its host answers |
//! | [`Inbox::look`], [`End`] | how a pair ends |
//! | [`window`], [`shape`] | how much memory a pair takes, and how it is divided |
//! | [`Service`] | the thread that moves messages while no thread of the program looks |
//! | [`lead`] | the same, done by a thread of the program that waits |
//!
//! The two halves may have a lock each, or one for both. The interface above decides what a message
//! is, what it does and whom its end concerns; nothing here knows of that.

mod inbox;
mod outbox;
mod service;

pub use inbox::{take_signal, Answer, Inbox, Lent, NotNow, Question};
pub use outbox::Outbox;
pub use service::{
    lead, Attention, Follower, Led, Owner, Rest, Role, Served, Service, NAP_MAX, NAP_MIN,
};

use crate::{Error, Park, Shape};
use mp_fabric::{Error as FabricError, EventMask};
use std::ops::RangeInclusive;

/// What the service thread hears of a session.
pub const NEWS: EventMask = EventMask::SIGNAL
    .union(EventMask::CLOSED)
    .union(EventMask::DOWN);

/// Bytes of a slot: what crosses in one piece.
pub const SLOT: usize = 4096;

/// Bytes of a window: the least that is useful, and the most that is used.
pub const WINDOW: RangeInclusive<u64> = 0x4000..=0x1_0000;

/// The part of free memory that one pair takes.
const SHARE: u64 = 32;
/// Bytes of a line.
const LINE: u64 = 64;
/// Lines of a window, also of one that is smaller than it should be.
const LINES_MIN: u64 = 32;
const LINES_MAX: u64 = 1024;
/// Bytes of a window that are neither lines nor slots, at most.
const REST: u64 = 1024;
/// Slots of the partner that are used.
const PARTNER_SLOTS: u32 = 16;

/// Bytes of a window where so many are free: the less there are, the less one pair takes.
pub fn window(free: u64) -> RangeInclusive<u64> {
    let share = free / SHARE / SLOT as u64 * SLOT as u64;
    *WINDOW.start()..=share.clamp(*WINDOW.start(), *WINDOW.end())
}

/// How a window of so many bytes is divided: an eighth for lines, the rest for slots, of which each
/// stream has one.
pub fn shape(size: u64, streams: u16) -> Shape {
    let lines = (size / 8 / LINE).next_power_of_two();
    let lines = lines.clamp(LINES_MIN, LINES_MAX);
    let slots = size.saturating_sub(lines * LINE + REST) / SLOT as u64;
    Shape {
        lines: lines as u32,
        slots: slots.clamp(streams.max(1).into(), PARTNER_SLOTS.into()) as u32,
        slot_size: SLOT as u32,
        streams,
        partner_slots: PARTNER_SLOTS,
    }
}

/// How a pair has ended, for the interface above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The partner has closed it, and everything that it had sent has been received.
    Closed {
        /// Why, as the partner says.
        reason: u16,
    },
    /// The partner's process has gone, or has closed its session.
    Gone,
    /// The link is down.
    Down,
    /// The partner has broken the rules.
    Broken,
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        match error {
            Error::Closed { reason } => End::Closed { reason },
            Error::Fabric(FabricError::InterfaceDown(_) | FabricError::NoInterface(_)) => End::Down,
            Error::Fabric(_) => End::Gone,
            _ => End::Broken,
        }
    }
}

/// What to sleep on, for the kernel.
pub(crate) fn of_engine(park: &Park) -> mp_fabric::Park {
    mp_fabric::Park {
        word: park.word as u64,
        value: park.value,
        arm: park.arm as u64,
        arm_value: park.arm_value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The less memory there is, the less a pair takes of it.
    #[test]
    fn windows_become_smaller_with_what_is_left() {
        for (free, most) in [
            (0, 0x4000),
            (1 << 20, 0x8000),
            (2 << 20, 0x1_0000),
            (u64::MAX, 0x1_0000),
        ] {
            assert_eq!(window(free), 0x4000..=most);
        }
    }

    /// Every window that a pair may get can be divided, for one stream or two.
    #[test]
    fn windows_of_all_sizes_are_divided() {
        for (size, streams) in WINDOW.step_by(4096).flat_map(|size| [(size, 1), (size, 2)]) {
            let Shape {
                lines,
                slots,
                slot_size,
                ..
            } = shape(size, streams);
            let used = u64::from(lines) * LINE + u64::from(slots) * u64::from(slot_size) + REST;
            assert!(
                used <= size && lines.is_power_of_two() && slots >= 2,
                "{size:#x}"
            );
        }
    }
}
