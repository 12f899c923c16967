// SPDX-License-Identifier: MIT OR Apache-2.0

//! What this process has open: a context of the fabric, and the sessions by their numbers.
//!
//! Nothing of it is of use to a forked child: the kernel refuses its calls, and the windows are
//! not mapped there. The child starts with nothing.

use mp_c_abi::Objects;
use mp_fabric::Device;
use pximc::{Error, Library, Result, Session};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A session, and what its request has asked for.
#[derive(Debug)]
pub struct Entry<D: Device> {
    pub session: Session<D>,
    /// Whether there may be a remote window.
    pub remote: bool,
    /// Whether there may be a local window.
    pub local: bool,
}

/// An open context.
#[derive(Debug)]
pub struct Context<D: Device> {
    pub library: Library<D>,
    sessions: Objects<u32, Arc<Entry<D>>>,
}

impl<D: Device> Context<D> {
    /// Make a session known; its number.
    pub fn enter(&self, entry: Entry<D>) -> u32 {
        let number = entry.session.number();
        self.sessions.insert(number, Arc::new(entry));
        number
    }
}

/// How a context is opened, as often as necessary; [`Error::InvalidInterface`] if there is no
/// fabric.
pub type Open<D> = &'static (dyn Fn() -> Result<Library<D>> + Sync);

/// What a process has open.
pub struct Process<D: Device> {
    open: Open<D>,
    context: Mutex<Option<Arc<Context<D>>>>,
}

impl<D: Device> Process<D> {
    pub fn new(open: Open<D>) -> Self {
        Process {
            open,
            context: Mutex::new(None),
        }
    }

    fn context_slot(&self) -> MutexGuard<'_, Option<Arc<Context<D>>>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The context, which is opened if necessary.
    ///
    /// # Errors
    /// [`Error::InvalidInterface`]: there is no fabric. It is looked for again every time.
    pub fn context(&self) -> Result<Arc<Context<D>>> {
        let mut slot = self.context_slot();
        if let Some(context) = &*slot {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(Context {
            library: (self.open)()?,
            sessions: Objects::default(),
        });
        *slot = Some(Arc::clone(&context));
        Ok(context)
    }

    /// A session of this process.
    ///
    /// # Errors
    /// [`Error::InvalidSession`].
    pub fn session(&self, number: u32) -> Result<Arc<Entry<D>>> {
        let context = self.context_slot().clone().ok_or(Error::InvalidSession)?;
        context.sessions.get(&number).ok_or(Error::InvalidSession)
    }

    /// Take a session out of the table: no later call finds it.
    ///
    /// # Errors
    /// [`Error::InvalidSession`].
    pub fn take_session(&self, number: u32) -> Result<Arc<Entry<D>>> {
        let context = self.context_slot().clone().ok_or(Error::InvalidSession)?;
        context
            .sessions
            .remove(&number)
            .ok_or(Error::InvalidSession)
    }

    /// Take everything: the next call starts anew.
    pub fn take_all(&self) -> Vec<Arc<Entry<D>>> {
        let context = self.context_slot().take();
        context.map_or(Vec::new(), |context| context.sessions.take())
    }
}
