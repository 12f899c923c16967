// SPDX-License-Identifier: MIT OR Apache-2.0

//! S-1 to S-3: processes that share memory.

use crate::{
    system::{ensure, Outcome, Pair, System},
    End, Role,
};
use mp_fabric::Device;
use pximc::{Deadline, Error, SessionEvent};
use std::{process::exit, sync::atomic::Ordering, thread::sleep, time::Duration};
use vm_memory::Bytes;

/// Time for events to overtake memory, which they do not have to.
const SETTLE: Duration = Duration::from_millis(200);

/// S-1: S0 finds the window that S1 has posted, and pairs with it. Both write.
pub fn connect<D: Device>(system: &System<'_, D>) -> Outcome<()> {
    let pair = system.pair()?;
    pair.exchange()?;
    pair.close()
}

/// S-1 with peers: both make the same request. Whoever comes first waits.
pub fn peers<D: Device>(system: &System<'_, D>) -> Outcome<()> {
    let sizes = system.sizes(true, true);
    let session =
        system
            .interface()
            .request_logical_as_peer(system.options.protocol, sizes, 0, b"")?;
    let pair = system.connect(session, system.deadline())?;
    system.check_size(pair.remote()?.len(), "the remote window")?;
    pair.exchange()?;
    pair.close()
}

/// S-2: an event that somebody waits for, one that nobody waits for, and three that are told as
/// one.
pub fn events<D: Device>(system: &System<'_, D>) -> Outcome<()> {
    let pair = system.pair()?;
    match system.role {
        Role::S0 => events_of_s0(&pair)?,
        Role::S1 => events_of_s1(&pair)?,
    }
    pair.close()
}

fn events_of_s0<D: Device>(pair: &Pair<D>) -> Outcome<()> {
    // Steps 2 and 4: S1 waits, then this side does.
    pair.remote()?.store(0x5a_u8, 0, Ordering::Release)?;
    pair.session.assert_event()?;
    pair.event(SessionEvent::Asserted)?;
    pair.flag(1)?;
    // Step 7: the event came while nobody waited.
    pair.wait_for_flag(2)?;
    sleep(SETTLE);
    pair.event(SessionEvent::Asserted)?;
    for _ in 0..3 {
        pair.session.assert_event()?;
    }
    pair.flag(3)?;
    pair.wait_for_flag(4)
}

fn events_of_s1<D: Device>(pair: &Pair<D>) -> Outcome<()> {
    // Steps 1 and 3
    pair.event(SessionEvent::Asserted)?;
    let written: u8 = pair.local()?.load(0, Ordering::Acquire)?;
    ensure(
        written == 0x5a,
        "what was written before the event is there",
    )?;
    // Steps 5 and 6: once while S0 waits, once while it does not.
    pair.session.assert_event()?;
    pair.wait_for_flag(1)?;
    pair.session.assert_event()?;
    pair.flag(2)?;
    // The variant: three events are one.
    pair.wait_for_flag(3)?;
    sleep(SETTLE);
    pair.event(SessionEvent::Asserted)?;
    let next = pair.session.wait_for_event(Deadline::PAST);
    ensure(next == Err(Error::Timeout), "there is no second event")?;
    pair.flag(4)
}

/// S-3: the end of a connection.
pub fn end<D: Device>(system: &System<'_, D>, end: End) -> Outcome<()> {
    let pair = system.pair()?;
    pair.exchange()?;
    // Step 1: S1 has seen everything but the end.
    match system.role {
        Role::S0 => pair.flag(1)?,
        Role::S1 => pair.wait_for_flag(1)?,
    }
    let leaves_first = if end == End::S1 { Role::S1 } else { Role::S0 };
    if system.role != leaves_first {
        stay(&pair)?;
    } else if end == End::Exit {
        println!("  exit without close");
        exit(0);
    }
    pair.session.close()?;
    let again = pair.session.close();
    ensure(again == Err(Error::InvalidSession), "it is closed")
}

/// The other side leaves.
fn stay<D: Device>(pair: &Pair<D>) -> Outcome<()> {
    pair.event(SessionEvent::ConnectionClosed)?;
    let told = pair.session.assert_event();
    ensure(told == Err(Error::SessionClosed), "nobody is there")?;
    // Told again, until this side closes as well; its memory is still there.
    pair.event(SessionEvent::ConnectionClosed)?;
    pair.remote()?.store(1_u8, 0, Ordering::Release)?;
    pair.local()?.store(1_u8, 0, Ordering::Release)?;
    Ok(())
}
