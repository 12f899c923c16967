// SPDX-License-Identifier: GPL-2.0

//! What this process has open: a context of the fabric, and the sessions by their numbers.
//!
//! Nothing of it is of use to a forked child: the kernel refuses its calls, and the windows are
//! not mapped there. The child starts with nothing, and never touches the parent's part, whose
//! locks may be held for ever by threads that it does not have.

use mp_fabric::Device;
use pximc::{Error, Library, Result, Session};
use std::{
    collections::HashMap,
    mem, ptr,
    sync::{
        atomic::{AtomicPtr, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
};

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
    sessions: Mutex<HashMap<u32, Arc<Entry<D>>>>,
}

impl<D: Device> Context<D> {
    /// Makes a session known; its number.
    pub fn enter(&self, entry: Entry<D>) -> u32 {
        let number = entry.session.number();
        self.sessions().insert(number, Arc::new(entry));
        number
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<u32, Arc<Entry<D>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a context is opened, as often as necessary; [`Error::InvalidInterface`] if there is no
/// fabric.
pub type Open<D> = &'static (dyn Fn() -> Result<Library<D>> + Sync);

/// The process that is calling, of all those that this memory has been copied to by `fork()`.
pub struct Processes<D: Device> {
    open: Open<D>,
    /// Those of parents are never freed.
    current: AtomicPtr<Process<D>>,
}

impl<D: Device> Processes<D> {
    /// No process has called yet.
    pub const fn new(open: Open<D>) -> Self {
        Processes {
            open,
            current: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The process of that id, which is the one that is calling. Takes no lock: a thread that the
    /// child does not have may hold it.
    pub fn of(&self, id: u32) -> &Process<D> {
        let mut current = self.current.load(Ordering::Acquire);
        loop {
            // SAFETY: NULL, or made below and never freed.
            match unsafe { current.as_ref() } {
                Some(process) if process.id == id => return process,
                _ => {}
            }
            let new = Box::into_raw(Box::new(Process::new(id, self.open)));
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match self
                .current
                .compare_exchange(current, new, success, failure)
            {
                Ok(_) => current = new,
                Err(other) => {
                    // SAFETY: It has just been made, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    current = other;
                }
            }
        }
    }
}

/// What a process has open.
pub struct Process<D: Device> {
    id: u32,
    open: Open<D>,
    context: Mutex<Option<Arc<Context<D>>>>,
}

impl<D: Device> Process<D> {
    fn new(id: u32, open: Open<D>) -> Self {
        Process {
            id,
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
            sessions: Mutex::new(HashMap::new()),
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
        let entry = context.sessions().get(&number).cloned();
        entry.ok_or(Error::InvalidSession)
    }

    /// Takes a session out of the table: no later call finds it.
    ///
    /// # Errors
    /// [`Error::InvalidSession`].
    pub fn take_session(&self, number: u32) -> Result<Arc<Entry<D>>> {
        let context = self.context_slot().clone().ok_or(Error::InvalidSession)?;
        let entry = context.sessions().remove(&number);
        entry.ok_or(Error::InvalidSession)
    }

    /// Takes everything: the next call starts anew.
    pub fn take_all(&self) -> Vec<Arc<Entry<D>>> {
        let Some(context) = self.context_slot().take() else {
            return Vec::new();
        };
        let sessions = mem::take(&mut *context.sessions());
        sessions.into_values().collect()
    }
}
