// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Places in what a peer reaches of a host, over all windows that lead there: the offsets by
//! which hosts tell each other of memory.
//!
//! A place is one number of 64 bits: the window in the upper 16, the offset in it in the lower 48.
//! Windows are numbered by use, the same on both hosts:
//!
//! | window | leads to |
//! |---|---|
//! | 0 | the arena of the inbound memory, from its start |
//! | 1 | the commons: memory that all peers reach at the same place |
//! | 2 and more | what its owner exposes there at the time |

/// The window of the arena.
pub const ARENA: u16 = 0;
/// The window of the commons.
pub const COMMONS: u16 = 1;
/// The first window that can be led to memory of the owner's choice.
pub const FIRST_EXPOSED: u16 = 2;
/// Most of those windows that are used between two hosts.
pub const MAX_EXPOSED: u32 = 16;

/// Bytes of the arena for a host that another one forwards to, on either side. No window leads
/// there: what is stored is sent.
pub const ROUTED_LEN: usize = 1 << 24;

/// Bits of an offset in a window.
const SHIFT: u32 = 48;

/// A place; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the window.
    pub window: u16,
    /// Bytes from where the window leads to, less than 2^48.
    pub off: u64,
}

impl Place {
    /// The place that a number says. Every number is a place.
    pub const fn decode(number: u64) -> Place {
        Place {
            window: (number >> SHIFT) as u16,
            off: number & ((1 << SHIFT) - 1),
        }
    }

    /// The number of the place.
    pub const fn encode(self) -> u64 {
        start_of(self.window) | (self.off & ((1 << SHIFT) - 1))
    }
}

/// The number of the first place in a window.
pub const fn start_of(window: u16) -> u64 {
    (window as u64) << SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MAX_LEN;
    use proptest::prelude::*;

    /// design 4.4: what hosts without further windows say is the same as ever.
    #[test]
    fn places_in_the_arena_are_its_offsets() {
        for off in [0, 4096, MAX_LEN] {
            let place = Place { window: ARENA, off };
            assert_eq!(place.encode(), off);
            assert_eq!(Place::decode(off), place);
        }
        assert_eq!(start_of(COMMONS), 1 << 48);
    }

    proptest! {
        /// design 2, never 5
        #[test]
        fn every_number_is_one_place(number: u64) {
            prop_assert_eq!(Place::decode(number).encode(), number);
        }
    }
}
