// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events of sessions.

use super::*;
use std::time::{Duration, Instant};

/// PXI-AE-3, PXI-AE-4, PXI-AE-5, PXI-WSE-1, PXI-WSE-6, PXI-WSE-8, PXI-WSE-9, PXI-WSE-10
#[test]
fn an_event_is_a_flag_that_waiting_clears() {
    let (_, s0, s1) = systems();
    let (client, server) = pair(&s0, &s1);
    for _ in 0..3 {
        assert_eq!(s0.assert_event(client), PXIMC_SUCCESS);
    }
    assert_eq!(
        s1.event(server, PXIMC_TIMEOUT_INFINITE),
        Ok(PXIMC_EVENT_ASSERTED)
    );
    assert_eq!(s1.event(server, 0), Err(PXIMC_TIMEOUT));
    let start = Instant::now();
    assert_eq!(s1.event(server, 20), Err(PXIMC_TIMEOUT));
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!(s0.event(client, 0), Err(PXIMC_TIMEOUT));
}

/// PXI-WSE-6, PXI-WSE-7, PXI-WSE-12
#[test]
fn every_event_wakes_a_waiter() {
    let (world, s0, s1) = systems();
    let (client, server) = pair(&s0, &s1);
    let wait = move || s1.event(server, PXIMC_TIMEOUT_INFINITE);
    let waiter = waiting(&world, wait);
    assert_eq!(s0.assert_event(client), PXIMC_SUCCESS);
    assert_eq!(waiter.join().unwrap(), Ok(PXIMC_EVENT_ASSERTED));
    let waiter = waiting(&world, wait);
    world.set_up(0, false);
    assert_eq!(waiter.join().unwrap(), Ok(PXIMC_EVENT_INTERFACE_DOWN));
    world.set_up(0, true);
    assert_eq!(wait(), Ok(PXIMC_EVENT_CONNECTION_CLOSED));
}

/// PXI-WSE-11: one event is for one of several waiters.
#[test]
fn one_event_wakes_one_waiter() {
    let (world, s0, s1) = systems();
    let (client, server) = pair(&s0, &s1);
    let first = waiting(&world, move || s1.event(server, 2000));
    let second = waiting(&world, move || s1.event(server, 2000));
    assert_eq!(s0.assert_event(client), PXIMC_SUCCESS);
    while !first.is_finished() && !second.is_finished() {
        thread::yield_now();
    }
    assert_eq!(world.waiting(), 1);
    assert_eq!(s0.close(client), PXIMC_SUCCESS);
    let mut events = [first, second].map(|waiter| waiter.join().unwrap().unwrap());
    events.sort_unstable();
    assert_eq!(
        events,
        [PXIMC_EVENT_ASSERTED, PXIMC_EVENT_CONNECTION_CLOSED]
    );
}

/// PXI-WSE-2, PXI-WSE-4: the end of the partner outranks all, and stays.
#[test]
fn the_partners_end_is_the_next_event_and_the_last_one() {
    let (world, s0, s1) = systems();
    let (client, server) = pair(&s0, &s1);
    assert_eq!(s0.assert_event(client), PXIMC_SUCCESS);
    assert_eq!(s0.close(client), PXIMC_SUCCESS);
    for up in [true, false, true] {
        world.set_up(0, up);
        assert_eq!(s1.event(server, 0), Ok(PXIMC_EVENT_CONNECTION_CLOSED));
    }
}

/// PXI-WSE-5: also without a pointer to write to.
#[test]
fn a_reason_needs_a_place() {
    let (_, s0, s1) = systems();
    let (client, _) = pair(&s0, &s1);
    let wait = |number| functions::wait_for_session_event(s0.process(), number, 0, null());
    assert_eq!(status::number(wait(client)), PXIMC_INVALID_ARGUMENT);
    assert_eq!(status::number(wait(0)), PXIMC_INVALID_SESSION);
}
