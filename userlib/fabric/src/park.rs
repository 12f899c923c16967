// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sleeping until a word of a session's window changes.

use crate::{
    sys::{self, mp_park, mp_park_entry},
    Call, Deadline, Device, Error, EventMask, Fabric, Result, Session, Subject,
};
use rustix::io::retry_on_intr;

/// A word that a thread sleeps on, and how it asks the partner for a signal. Both words are
/// aligned, of 8 bytes, and where they are is in bytes from the start of their window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Park {
    /// Where the word is in the local window.
    pub word: u64,
    /// The thread sleeps as long as the word is this.
    pub value: u64,
    /// Where the arm word is in the remote window.
    pub arm: u64,
    /// What the kernel stores there. A partner that finds a value that it has not answered yet,
    /// after a full barrier behind what it has stored, makes [`Session::signal`] once.
    pub arm_value: u64,
}

/// Why a thread does not sleep any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    /// The word has changed.
    Changed {
        /// For longer than a signal takes: one got lost. The partner did not look at its arm word
        /// after a full barrier.
        late: bool,
    },
    /// The most important of `CLOSED`, `DOWN` and `SIGNAL`, which is taken.
    Event(EventMask),
}

impl Parked {
    fn of(events: u32) -> Self {
        if events & sys::MP_PARK_CHANGED == 0 {
            return Parked::Event(EventMask::from_bits_retain(events));
        }
        Parked::Changed {
            late: events & sys::MP_PARK_LATE != 0,
        }
    }
}

impl<D: Device> Session<D> {
    /// Sleep until the word has changed, the partner signals, or is gone. If there is nothing to
    /// tell, the kernel stores the arm word, asks the partner's host and looks again before the
    /// thread sleeps: no wake-up is lost. [`Deadline::PAST`] arms and looks once.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`]: a word is not aligned; [`Error::System`] with `ERANGE`: one is
    /// outside of its window; [`Error::NotPaired`]; [`Error::NotSupported`]: the window is of
    /// physical addresses; [`Error::TimedOut`], [`Error::NoMemory`].
    pub fn park(&self, park: &Park, deadline: Deadline) -> Result<Parked> {
        let entry = entry(self, park)?;
        let found = call(&*self.device, &[entry], 0, deadline)?;
        found.map_or(Err(Error::Invalid(Subject::Unnamed)), |(_, parked)| {
            Ok(parked)
        })
    }
}

impl<D: Device> Fabric<D> {
    /// As [`Session::park`], on words of several sessions of this context, at most
    /// [`PARK_MAX`]: the number of the first one that there is something to tell of. A session may
    /// be there several times.
    ///
    /// # Errors
    /// As [`Session::park`].
    pub fn park(
        &self,
        words: &[(&Session<D>, Park)],
        deadline: Deadline,
    ) -> Result<(usize, Parked)> {
        let entries = entries(words)?;
        call(&*self.device, &entries, 0, deadline)?.ok_or(Error::Invalid(Subject::Unnamed))
    }

    /// As [`park`](Self::park), but returns before it would sleep: nothing, if there is nothing to
    /// tell. From then on a partner signals, and the program sleeps where events of all sessions
    /// reach it.
    ///
    /// # Errors
    /// As [`Session::park`]; [`Error::TimedOut`]: a host does not answer.
    pub fn arm(
        &self,
        words: &[(&Session<D>, Park)],
        deadline: Deadline,
    ) -> Result<Option<(usize, Parked)>> {
        let entries = entries(words)?;
        call(&*self.device, &entries, sys::MP_PARK_ARMED, deadline)
    }
}

/// Most words of one call.
pub const PARK_MAX: usize = sys::MP_PARK_ENTRIES_MAX as usize;

fn entry<D: Device>(session: &Session<D>, park: &Park) -> Result<mp_park_entry> {
    Ok(mp_park_entry {
        handle: session.open_handle()?,
        reserved: 0,
        word: park.word,
        value: park.value,
        arm: park.arm,
        arm_value: park.arm_value,
    })
}

fn entries<D: Device>(words: &[(&Session<D>, Park)]) -> Result<Vec<mp_park_entry>> {
    let entries = words.iter().map(|(session, park)| entry(session, park));
    entries.collect()
}

fn call(
    device: &impl Device,
    entries: &[mp_park_entry],
    flags: u32,
    deadline: Deadline,
) -> Result<Option<(usize, Parked)>> {
    let mut park = mp_park {
        flags,
        deadline: deadline.nanoseconds(),
        ..Default::default()
    };
    retry_on_intr(|| device.call(Call::Park(&mut park, entries)))?;
    let found = park.index != sys::MP_PARK_NONE;
    Ok(found.then(|| (park.index as usize, Parked::of(park.events))))
}
