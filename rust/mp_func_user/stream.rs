// SPDX-License-Identifier: GPL-2.0-only

//! The records that `read()` gives: which objects of a context have something to tell.

use crate::{
    ready::Ready,
    uapi, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    uaccess::UserSliceWriter, //
};
use mp_kernel::{
    cgroup::atomic_account,
    fifo::Fifo,
    new_spinlock_bh,
    sync::SpinLockBh,
    uaccess::{
        check_size,
        write_element,
        Versioned, //
    },
    wait::{
        Events,
        Sleep,
        WaitQueue, //
    }, //
};

/// Bytes of a record of the first version.
const FIRST: usize = uapi::mp_event::FIRST_SIZE;

struct State {
    /// Objects with something to tell, each once at most.
    queue: Fifo<Arc<Ready>>,
    /// Objects that may be in the queue.
    places: usize,
    /// Bytes of a record, once the context has named them.
    record_size: Option<usize>,
    ended: bool,
}

/// The stream of a context.
#[pin_data]
pub(crate) struct Stream {
    #[pin]
    state: SpinLockBh<State>,
    /// Those who poll the file, or sleep until there is something to read.
    readers: Arc<WaitQueue>,
}

impl Stream {
    /// An empty one, of the file that is polled by `readers`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(readers: Arc<WaitQueue>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock_bh!(State {
                    queue: Fifo::new(),
                    places: 0,
                    record_size: None,
                    ended: false,
                }),
                readers,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The context names the size of the records that it reads; 0 is that of the first version.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that is too small, or not what it has named before; `E2BIG`.
    pub(crate) fn set_record_size(&self, size: usize) -> Result {
        let size = if size == 0 { FIRST } else { size };
        check_size::<uapi::mp_event>(size)?;
        let mut state = self.state.lock();
        if *state.record_size.get_or_insert(size) != size {
            return Err(EINVAL);
        }
        Ok(())
    }

    fn record_size(&self) -> usize {
        self.state.lock().record_size.unwrap_or(FIRST)
    }

    /// An object that has a [`Place`], and is not in the queue, has something to tell; the
    /// caller [wakes](Self::wake) readers afterwards. `false`: it is not told.
    pub(crate) fn push(&self, ready: Arc<Ready>) -> bool {
        let mut state = self.state.lock();
        // There is room, by the object's place.
        !state.ended && state.queue.push(ready).is_ok()
    }

    /// There may be something to read.
    pub(crate) fn wake(&self) {
        self.readers.wake(Events::IN);
    }

    /// An object in the queue gives its place up.
    pub(crate) fn forget(&self, ready: &Ready) -> Option<Arc<Ready>> {
        let is_it = |queued: &Arc<Ready>| core::ptr::eq(&**queued, ready);
        self.state.lock().queue.remove(is_it)
    }

    /// What has been watched is closed: nothing more comes.
    pub(crate) fn end(&self) {
        let queue = {
            let mut state = self.state.lock();
            state.ended = true;
            core::mem::take(&mut state.queue)
        };
        drop(queue);
        self.readers.wake(Events::ALL);
    }

    /// See [`File::poll`](mp_kernel::chardev::File::poll).
    pub(crate) fn poll(&self) -> Events {
        let state = self.state.lock();
        match (state.ended, state.queue.is_empty()) {
            (true, _) => Events::HUP,
            (false, true) => Events::NONE,
            (false, false) => Events::IN,
        }
    }

    /// Give as many records as there are and fit; wait for the first one.
    ///
    /// # Errors
    ///
    /// `EINVAL` if none fits, `EAGAIN` if there is none and the caller does not wait,
    /// `ERESTARTSYS` for a signal, `EFAULT`.
    pub(crate) fn read(&self, to: &mut UserSliceWriter, nonblock: bool) -> Result<usize> {
        loop {
            // Another thread may name the size while this one sleeps.
            if to.len() < self.record_size() {
                return Err(EINVAL);
            }
            let given = self.give(to)?;
            if given != 0 || self.state.lock().ended {
                return Ok(given);
            }
            if nonblock {
                return Err(EAGAIN);
            }
            let waited = self.readers.wait_until(Sleep::Interruptible, None, || {
                let state = self.state.lock();
                state.ended || !state.queue.is_empty()
            });
            waited.ok()?;
        }
    }

    fn give(&self, to: &mut UserSliceWriter) -> Result<usize> {
        let mut given = 0;
        // It may have been named while the caller slept.
        let size = self.record_size();
        while to.len() >= size {
            let Some(ready) = self.state.lock().queue.pop() else {
                break;
            };
            if let Some(record) = ready.record() {
                if let Err(e) = write_element(to, size, &record) {
                    ready.tell_again();
                    return if given == 0 { Err(e) } else { Ok(given) };
                }
                given += size;
            }
        }
        Ok(given)
    }
}

/// A place in the queue of a stream, for one object.
pub(crate) struct Place(Arc<Stream>);

impl Place {
    /// One more place.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(stream: &Arc<Stream>) -> Result<Self> {
        {
            let mut state = stream.state.lock();
            let places = state.places + 1;
            state.queue.reserve(places, atomic_account())?;
            state.places = places;
        }
        Ok(Self(stream.clone()))
    }

    /// The stream.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.state.lock().places -= 1;
    }
}
