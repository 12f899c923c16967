// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sequences: whether what was written over a map has arrived.
//!
//! The driver keeps a word for each connection, whose upper half counts how often it has ceased to
//! be operational. A start notes the word. A check has the stores leave the processor, reads
//! eight bytes over the map, which are answered only after them, and then looks at the word again: if
//! it is the same, everything between has arrived. None of this is a system call.
//!
//! Over a link that has died a moment ago, and of which the driver does not know yet, ones are
//! read. If it is ones that are read, the driver is asked: it has the peer's confirm that all has
//! arrived.

use crate::{users::Users, Error, Map, Result, ANSWER};
use mp_fabric::{flush_stores, CharDevice, ConnectionState, Deadline, Device, StatusWord};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How transfers have gone. The numbers are those of `sisci_types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceStatus {
    /// They have arrived.
    Ok = 0,
    /// They are to be repeated.
    Retriable = 1,
    /// They have failed, and so will all others.
    NotRetriable = 2,
    /// No transfer before a start has succeeded.
    Pending = 3,
}

impl SequenceStatus {
    /// Whether transfers have arrived.
    pub fn is_ok(self) -> bool {
        self == SequenceStatus::Ok
    }
}

/// What a check leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckFlags {
    /// Stores may stay in the processor.
    pub no_flush: bool,
    /// It is not waited until they have arrived.
    pub no_store_barrier: bool,
}

/// Checks of transfers over a map. Copies are the same sequence.
pub struct Sequence<D: Device = CharDevice>(Arc<Inner<D>>);

struct Inner<D: Device> {
    map: Map<D>,
    /// The word that a check has to find; none without a successful start.
    armed: Mutex<Option<StatusWord>>,
    users: Users,
}

crate::shared!(Sequence);

impl<D: Device> Map<D> {
    /// Make a sequence; the map stays as long as there is one.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: it is unmapped.
    pub fn sequence(&self) -> Result<Sequence<D>> {
        let user = self.users().enter()?;
        Ok(Sequence(Arc::new(Inner {
            map: self.clone(),
            armed: Mutex::new(None),
            users: Users::below(user),
        })))
    }
}

impl<D: Device> Sequence<D> {
    fn armed(&self) -> MutexGuard<'_, Option<StatusWord>> {
        self.0.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is one of the map.
    pub(crate) fn is_of(&self, map: &Map<D>) -> bool {
        self.0.map.is(map)
    }

    /// What a connection's word says; that of memory of this process is always the same.
    fn word(&self) -> Result<StatusWord> {
        match self.0.map.remote() {
            Some(segment) => segment.word(),
            None => Ok(StatusWord(ConnectionState::OPERATIONAL.bits().into())),
        }
    }

    /// Look whether transfers can begin: `Ok` or `Pending`, and an error if that is for ever.
    pub fn start(&self) -> (SequenceStatus, Result<()>) {
        let word = match self.word() {
            Ok(word) => word,
            Err(error) => return (SequenceStatus::Pending, Err(error)),
        };
        let mut armed = self.armed();
        *armed = None;
        let state = word.connection();
        if state.contains(ConnectionState::LOST) {
            (SequenceStatus::Pending, Err(Error::NotConnected))
        } else if !state.contains(ConnectionState::OPERATIONAL) {
            (SequenceStatus::Pending, Ok(()))
        } else {
            *armed = Some(word);
            (SequenceStatus::Ok, Ok(()))
        }
    }

    /// Look whether everything since the last check or start has arrived.
    pub fn check(&self, flags: CheckFlags) -> (SequenceStatus, Result<()>) {
        let mut armed = self.armed();
        let Some(before) = *armed else {
            return (SequenceStatus::Pending, Err(Error::IllegalOperation));
        };
        if !flags.no_flush {
            flush_stores();
        }
        if !flags.no_store_barrier && !self.read_back() && !self.is_confirmed() {
            *armed = None;
            return (SequenceStatus::Pending, Ok(()));
        }
        let word = match self.word() {
            Ok(word) => word,
            Err(error) => return (SequenceStatus::Pending, Err(error)),
        };
        let state = word.connection();
        let status = if state.contains(ConnectionState::LOST) {
            *armed = None;
            SequenceStatus::NotRetriable
        } else if !state.contains(ConnectionState::OPERATIONAL) {
            *armed = None;
            SequenceStatus::Pending
        } else if word.count() != before.count() {
            *armed = Some(word);
            SequenceStatus::Retriable
        } else {
            SequenceStatus::Ok
        };
        (status, Ok(()))
    }

    /// Whether it is known that somebody has answered.
    fn read_back(&self) -> bool {
        self.0.map.is_local() || self.0.map.read_back()
    }

    /// Whether the peer confirms what was stored, or the status word tells why it does not.
    fn is_confirmed(&self) -> bool {
        let Some(segment) = self.0.map.remote() else {
            return true;
        };
        let confirmed = segment
            .connection()
            .map(|connection| connection.barrier(Deadline::after(ANSWER)));
        !matches!(confirmed, Ok(Err(mp_fabric::Error::TimedOut)))
    }

    /// Return when everything that was written before is where it belongs, or lost.
    pub fn store_barrier(&self) {
        flush_stores();
        let _ = self.read_back();
    }

    /// Remove it: the map may go.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: it was removed before.
    pub fn remove(&self) -> Result<()> {
        self.0.users.release(|| Ok(()))
    }
}
