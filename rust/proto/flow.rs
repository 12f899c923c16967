// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Back-pressure of forwarded frames (IDT-MSG-7, design 4.8).
//!
//! A host that forwards keeps what the next link cannot take yet, so that the link it came from
//! stays free for others. How much that can be is limited by the sender: of each lane it may have
//! [`WINDOW`] units under way. The sender's half is a [`Window`], that of the host which forwards
//! a [`Meter`]. Both count all units of an epoch modulo 2^32, so that a report that is lost or
//! comes twice does no harm.
//!
//! A frame that is dropped counts as passed on. The sender's host is told for which function it was:
//! [`Losses`].

/// Units that a sender may have under way in a lane.
pub const WINDOW: u32 = 8192;

/// Bytes of a unit.
const UNIT: usize = 64;

/// What a frame occupies besides its data: headers and bookkeeping, in bytes.
const OVERHEAD: usize = 512;

/// Passed units are reported unasked once they make up this part of the window.
const REPORT_PART: u32 = 4;

/// What a frame with `len` bytes of function header and data costs, in units.
#[inline]
pub fn cost(len: usize) -> u32 {
    u32::try_from(len.saturating_add(OVERHEAD).div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// The sender's half.
///
/// `sent - passed` is at most [`WINDOW`].
#[derive(Debug, Default, Clone)]
pub struct Window {
    sent: u32,
    passed: u32,
}

impl Window {
    /// Units under way.
    #[inline]
    pub fn under_way(&self) -> u32 {
        self.sent.wrapping_sub(self.passed)
    }

    /// Whether a frame that costs `units` may be sent.
    #[inline]
    pub fn has_room(&self, units: u32) -> bool {
        units <= WINDOW - self.under_way()
    }

    /// Count a frame that was sent; there was room.
    #[inline]
    pub fn sent(&mut self, units: u32) {
        self.sent = self.sent.wrapping_add(units);
    }

    /// The host between has passed `total` units on: how many are new. `None` if that cannot be.
    pub fn passed(&mut self, total: u32) -> Option<u32> {
        let new = total.wrapping_sub(self.passed);
        if new > self.under_way() {
            return None;
        }
        self.passed = total;
        Some(new)
    }

    /// Which total to be told of, when there is no room: half of what is under way.
    pub fn wanted(&self) -> u32 {
        self.passed.wrapping_add(self.under_way().div_ceil(2))
    }
}

/// The sender has sent more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overrun;

/// The half of the host between.
#[derive(Debug, Default, Clone)]
pub struct Meter {
    arrived: u32,
    passed: u32,
    reported: u32,
    wanted: Option<u32>,
}

impl Meter {
    /// A frame that costs `units` has come.
    ///
    /// # Errors
    /// [`Overrun`]; the frame must not be kept, and is not counted.
    #[inline]
    pub fn arrive(&mut self, units: u32) -> Result<(), Overrun> {
        let under_way = self.arrived.wrapping_sub(self.reported);
        if units > WINDOW - under_way {
            return Err(Overrun);
        }
        self.arrived = self.arrived.wrapping_add(units);
        Ok(())
    }

    /// A frame has been passed on, or dropped.
    #[inline]
    pub fn pass(&mut self, units: u32) {
        self.passed = self.passed.wrapping_add(units);
    }

    /// The sender wants to be told once `total` units have been passed on.
    pub fn want(&mut self, total: u32) {
        self.wanted = Some(total);
    }

    /// The total to report, if it is time to.
    #[inline]
    pub fn due(&self) -> Option<u32> {
        let unreported = self.passed.wrapping_sub(self.reported);
        let asked = self.wanted.is_some_and(|total| {
            let reached = self.passed.wrapping_sub(total);
            reached <= WINDOW
        });
        (unreported >= WINDOW / REPORT_PART || asked).then_some(self.passed)
    }

    /// The sender has been told of `total`.
    pub fn reported(&mut self, total: u32) {
        self.reported = total;
        self.wanted = self
            .wanted
            .filter(|wanted| total.wrapping_sub(*wanted) > WINDOW);
    }
}

/// Frames of a lane that the host between has dropped, and has not told the sender of: the function
/// that they were for, [`ANY`] if they were for several ones.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Losses {
    untold: Option<u32>,
}

/// Stands for each function: frames for that of the message frame service are not forwarded.
pub const ANY: u32 = crate::manage::FUNC_ID;

impl Losses {
    /// A frame for that function was dropped.
    pub fn note(&mut self, function: u32) {
        self.untold = match self.untold {
            Some(other) if other != function => Some(ANY),
            _ => Some(function),
        };
    }

    /// What the sender is to be told.
    #[inline]
    pub fn untold(&self) -> Option<u32> {
        self.untold
    }

    /// It has been told.
    pub fn told(&mut self) {
        self.untold = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// design 4.8
    #[test]
    fn a_sender_has_at_most_a_window_under_way() {
        let mut window = Window::default();
        window.sent(WINDOW);
        assert!(!window.has_room(1));
        assert_eq!(window.passed(10), Some(10));
        assert!(window.has_room(10) && !window.has_room(11));
    }

    #[test]
    fn a_report_that_comes_twice_or_late_changes_nothing() {
        let mut window = Window::default();
        window.sent(100);
        assert_eq!(window.passed(60), Some(60));
        assert_eq!(window.passed(60), Some(0));
        assert_eq!(window.passed(40), None);
        assert_eq!(window.passed(101), None);
        assert_eq!(window.under_way(), 40);
    }

    #[test]
    fn a_sender_that_does_not_keep_to_its_window_is_found_out() {
        let mut meter = Meter::default();
        assert_eq!(meter.arrive(WINDOW), Ok(()));
        assert_eq!(meter.arrive(1), Err(Overrun));
        meter.pass(WINDOW);
        assert_eq!(meter.arrive(1), Err(Overrun));
        meter.reported(WINDOW);
        assert_eq!(meter.arrive(1), Ok(()));
    }

    #[test]
    fn small_amounts_are_reported_on_demand_only() {
        let mut meter = Meter::default();
        meter.arrive(100).expect("fits");
        meter.pass(40);
        assert_eq!(meter.due(), None);
        meter.want(50);
        assert_eq!(meter.due(), None);
        meter.pass(20);
        assert_eq!(meter.due(), Some(60));
        meter.reported(60);
        meter.pass(40);
        assert_eq!(meter.due(), None);
    }

    #[test]
    fn of_what_was_dropped_the_sender_is_told_once_for_which_function_it_was() {
        let mut losses = Losses::default();
        assert_eq!(losses.untold(), None);
        losses.note(7);
        losses.note(7);
        assert_eq!(losses.untold(), Some(7));
        losses.told();
        assert_eq!(losses.untold(), None);
        for function in [7, 8, 7] {
            losses.note(function);
        }
        assert_eq!(losses.untold(), Some(ANY));
    }

    #[test]
    fn the_largest_frame_fits_into_a_window() {
        assert!(cost(128 << 10) <= WINDOW);
        assert!(cost(0) > 0);
    }

    proptest! {
        /// Whatever is lost of the reports: a sender that asks when it has no room goes on.
        #[test]
        fn no_sender_waits_for_ever(
            start in prop_oneof![Just(0u32), Just(u32::MAX - 5)],
            steps in prop::collection::vec((1u32..=WINDOW, any::<bool>()), 1..200),
        ) {
            let mut window = Window { sent: start, passed: start };
            let mut meter =
                Meter { arrived: start, passed: start, reported: start, wanted: None };
            let mut queue = VecDeque::new();
            for (units, lose) in steps {
                while !window.has_room(units) {
                    if let Some(units) = queue.pop_front() {
                        meter.pass(units);
                    }
                    meter.want(window.wanted());
                    let Some(total) = meter.due() else {
                        prop_assert!(!queue.is_empty());
                        continue;
                    };
                    if !lose || queue.is_empty() {
                        prop_assert!(window.passed(total).is_some());
                        meter.reported(total);
                    }
                }
                window.sent(units);
                prop_assert_eq!(meter.arrive(units), Ok(()));
                queue.push_back(units);
            }
        }
    }
}
