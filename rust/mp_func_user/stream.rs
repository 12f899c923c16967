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
    fifo::Fifo,
    new_spinlock_bh,
    sync::SpinLockBh,
    wait::{
        Events,
        WaitQueue, //
    }, //
};

/// Bytes of a record.
const RECORD: usize = core::mem::size_of::<uapi::mp_event>();

struct State {
    /// Objects with something to tell, each once at most.
    queue: Fifo<Arc<Ready>>,
    /// Objects that may be in the queue.
    places: usize,
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
                    ended: false,
                }),
                readers,
            }),
            GFP_KERNEL,
        )
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

    /// Gives as many records as there are and fit; waits for the first one.
    ///
    /// # Errors
    ///
    /// `EINVAL` if none fits, `EAGAIN` if there is none and the caller does not wait,
    /// `EINTR`, `EFAULT`.
    pub(crate) fn read(&self, to: &mut UserSliceWriter, nonblock: bool) -> Result<usize> {
        if to.len() < RECORD {
            return Err(EINVAL);
        }
        loop {
            let given = self.give(to)?;
            if given != 0 || self.state.lock().ended {
                return Ok(given);
            }
            if nonblock {
                return Err(EAGAIN);
            }
            let waited = self.readers.wait_until(None, || {
                let state = self.state.lock();
                state.ended || !state.queue.is_empty()
            });
            waited.ok()?;
        }
    }

    fn give(&self, to: &mut UserSliceWriter) -> Result<usize> {
        let mut given = 0;
        while to.len() >= RECORD {
            let Some(ready) = self.state.lock().queue.pop() else {
                break;
            };
            if let Some(record) = ready.record() {
                if let Err(e) = to.write(&record) {
                    ready.tell_again();
                    return if given == 0 { Err(e) } else { Ok(given) };
                }
                given += RECORD;
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
            state.queue.reserve(places, GFP_ATOMIC)?;
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
