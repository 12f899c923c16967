// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Where exposed windows lead, as their owner tells it to a peer.

mod common;

use common::Ram;
use mp_proto::layout::{target, MAX_RINGS, STATUS_LEN};
use mp_proto::memory::OutOfBounds;
use mp_proto::reach::MAX_EXPOSED;
use mp_proto::target::Target;
use proptest::prelude::*;

fn page() -> Ram {
    Ram::new(STATUS_LEN)
}

/// design 4.4
#[test]
fn a_window_that_nobody_has_led_leads_nowhere() {
    for window in [0, MAX_EXPOSED - 1, MAX_EXPOSED, u32::MAX] {
        assert_eq!(Target::read(window, &page()), None);
    }
}

/// design 4.4
#[test]
fn there_are_no_further_windows() {
    let there = Target { addr: 0, len: 4096 };
    assert_eq!(there.write(MAX_EXPOSED, &page()), Err(OutOfBounds));
    assert_eq!(Target::clear(MAX_EXPOSED, &page()), Err(OutOfBounds));
}

/// design 4.4: neither Hello, nor heartbeat, nor a ring's words.
#[test]
fn all_windows_have_words_of_their_own() {
    let last_ring = mp_proto::layout::words(MAX_RINGS - 1).expect("exists");
    for window in 0..MAX_EXPOSED {
        let at = target(window).expect("exists");
        assert!(at >= last_ring.want_data + 8 && at + 16 <= STATUS_LEN);
        let ram = page();
        let there = Target {
            addr: 1 << 40,
            len: 8192,
        };
        there.write(window, &ram).expect("fits");
        for other in (0..MAX_EXPOSED).filter(|other| *other != window) {
            assert_eq!(Target::read(other, &ram), None);
        }
    }
}

proptest! {
    /// design 4.4
    #[test]
    fn what_is_written_is_read_until_it_is_cleared(
        window in 0..MAX_EXPOSED, addr in 0..1u64 << 63, pages in 1..1u64 << 40,
    ) {
        let ram = page();
        let there = Target { addr, len: pages << 12 };
        there.write(window, &ram).expect("fits");
        prop_assert_eq!(Target::read(window, &ram), Some(there));
        Target::clear(window, &ram).expect("fits");
        prop_assert_eq!(Target::read(window, &ram), None);
    }

    /// design 2, never 5
    #[test]
    fn no_length_is_believed_that_cannot_be(addr: u64, len: u64) {
        let ram = page();
        let at = target(0).expect("exists");
        ram.set_word(at, addr);
        ram.set_word(at + 8, len);
        if let Some(read) = Target::read(0, &ram) {
            prop_assert_eq!(read, Target { addr, len });
            prop_assert!(len != 0 && len % 4096 == 0 && addr.checked_add(len).is_some());
        } else {
            prop_assert!(len == 0 || len % 4096 != 0 || addr.checked_add(len).is_none());
        }
    }
}
