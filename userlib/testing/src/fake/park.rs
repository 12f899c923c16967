// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sleeping until words of windows change.

use super::{
    device::FakeDevice,
    state::{Place, State},
};
use mp_fabric::{sys::*, Deadline};
use rustix::io::{self, Errno};
use std::{
    sync::{
        atomic::{fence, Ordering},
        MutexGuard, PoisonError,
    },
    time::Duration,
};

type Result<T> = std::result::Result<T, Errno>;

/// How often the words of those who sleep are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A word of a window is there, and aligned.
fn check(place: &Place, at: u64) -> Result<()> {
    if at % 8 != 0 {
        return Err(Errno::INVAL);
    }
    let end = at.checked_add(8).filter(|end| *end <= place.size);
    end.map(|_| ()).ok_or(Errno::RANGE)
}

fn load(place: &Place, at: u64) -> Result<u64> {
    let file = place.file.as_ref().ok_or(Errno::OPNOTSUPP)?;
    let mut word = [0; 8];
    io::pread(file, &mut word, at)?;
    Ok(u64::from_ne_bytes(word))
}

fn store(place: &Place, at: u64, value: u64) -> Result<()> {
    let file = place.file.as_ref().ok_or(Errno::OPNOTSUPP)?;
    io::pwrite(file, &value.to_ne_bytes(), at)?;
    Ok(())
}

impl FakeDevice {
    /// What there is to tell, which is taken; and the word that has changed, if that is all.
    fn news(&self, state: &mut State, entries: &[mp_park_entry]) -> Result<Option<(u32, u32)>> {
        for (index, entry) in entries.iter().enumerate() {
            let session = state.session_mut(self.context, entry.handle)?;
            if session.events & MP_EVENT_PAIRED == 0 {
                return Err(Errno::NOTCONN);
            }
            check(&session.local, entry.word)?;
            check(&session.remote, entry.arm)?;
            let order = [MP_EVENT_CLOSED, MP_EVENT_DOWN, MP_EVENT_SIGNAL];
            let events = session.events;
            let found = order.into_iter().find(|event| events & event != 0);
            session.events &= !(found.unwrap_or(0) & MP_EVENT_SIGNAL);
            let found = match found {
                None if load(&session.local, entry.word)? != entry.value => MP_PARK_CHANGED,
                found => found.unwrap_or(0),
            };
            if found != 0 {
                return Ok(Some((index as u32, found)));
            }
        }
        Ok(None)
    }

    /// The other host does not answer until the time is over.
    fn unanswered(&self, mut state: MutexGuard<'_, State>, deadline: Deadline) -> Result<()> {
        while deadline.remaining().is_none_or(|left| !left.is_zero()) {
            let nap = deadline.remaining().map_or(LOOK, |left| left.min(LOOK));
            let woken = self.world.0.changed.wait_timeout(state, nap);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Err(Errno::TIMEDOUT)
    }

    pub(super) fn park(&self, park: &mut mp_park, entries: &[mp_park_entry]) -> Result<()> {
        let most = MP_PARK_ENTRIES_MAX as usize;
        if entries.is_empty() || entries.len() > most || park.flags & !MP_PARK_ARMED != 0 {
            return Err(Errno::INVAL);
        }
        let deadline = Deadline::at(park.deadline);
        let mut state = self.world.lock();
        if let Some(found) = self.news(&mut state, entries)? {
            (park.index, park.events) = found;
            return Ok(());
        }
        for entry in entries {
            store(
                &state.session(self.context, entry.handle)?.remote,
                entry.arm,
                entry.arm_value,
            )?;
        }
        // Whoever stores has a barrier between that and its look at the arm word.
        fence(Ordering::SeqCst);
        if park.flags & MP_PARK_ARMED != 0 && state.sharing.silent {
            return self.unanswered(state, deadline);
        }
        let mut late = 0;
        loop {
            if let Some((index, events)) = self.news(&mut state, entries)? {
                (park.index, park.events) = (index, events);
                if events == MP_PARK_CHANGED {
                    park.events |= late;
                }
                return Ok(());
            }
            if park.flags & MP_PARK_ARMED != 0 {
                (park.index, park.events) = (MP_PARK_NONE, 0);
                return Ok(());
            }
            let left = deadline.remaining();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Errno::TIMEDOUT);
            }
            state.waiting += 1;
            let nap = left.map_or(LOOK, |left| left.min(LOOK));
            let woken = self.world.0.changed.wait_timeout(state, nap);
            let (next, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = next;
            state.waiting -= 1;
            late = match timeout.timed_out() {
                true => MP_PARK_LATE,
                false => 0,
            };
        }
    }
}
