// SPDX-License-Identifier: GPL-2.0-only

//! Copies by an engine that are under way: from where they read, and who waits for them.
//!
//! Each counts at both of its ends, the [`Source`] and the [`Remote`](super::Remote) piece.
//! An end that goes lets no more of them begin, and waits for those that have begun, which
//! the transport bounds: it stops an engine that does not report.

use super::{
    Hold,
    Holder, //
};
use crate::{
    copy::Completion,
    local::Piece, //
};
use core::ops::ControlFlow;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_kernel::{
    error,
    new_wait_queue,
    wait::{
        Events,
        Sleep,
        WaitQueue,
        Waited, //
    }, //
};

/// Most runs of memory that one copy takes.
pub(super) const RUNS: usize = 16;

/// Memory that an engine may read.
///
/// # Safety
///
/// What [`run`](Self::run) has named stays allocated while the object is there, and until
/// the holder that [`hold`](Self::hold) was given has been told.
pub unsafe trait Runs: Send + Sync + 'static {
    /// The physical address of byte `at`, and how many bytes are in one run behind it, at
    /// most `most`, which is not zero.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, `EOPNOTSUPP` if no engine can read it, `ENOTCONN` if it has gone.
    fn run(&self, at: u64, most: u64) -> Result<(u64, u64)>;

    /// Let `holder` be told when the memory goes; `None` if it does not. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if it has gone, `ENOMEM`.
    fn hold(&self, holder: Arc<dyn Holder>) -> Result<Option<Hold>>;
}

/// Who is told of the end of copies.
pub trait Told: Send + Sync + 'static {
    /// The copy with that tag has ended; the engine does not touch its memory any more. If it
    /// has failed, what is at its destination is undefined. Any context.
    fn told(&self, tag: usize, result: Result);
}

/// How many copies are under way at one end.
#[pin_data]
pub(super) struct Flights {
    count: Atomic<u32>,
    is_closed: Atomic<bool>,
    #[pin]
    landing: WaitQueue,
}

impl Flights {
    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let this = pin_init!(Self {
            count: Atomic::new(0),
            is_closed: Atomic::new(false),
            landing <- new_wait_queue!("mp_flights"),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// Count one more, until the result is dropped.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` once there are to be no more.
    fn take_off(self: &Arc<Self>) -> Result<Flight> {
        // Either this sees that it is closed, or who closes it sees the count.
        let _ = self.count.fetch_add(1, Full);
        let flight = Flight(self.clone());
        match self.is_closed.load(Relaxed) {
            true => Err(error::not_connected()),
            false => Ok(flight),
        }
    }

    /// None is under way when this returns, and none will be. Sleeps.
    pub(super) fn close(&self) {
        let _ = self.is_closed.xchg(true, Full);
        let is_over = || self.count.load(Acquire) == 0;
        // Also for a process that is being killed.
        while self.landing.wait_until(Sleep::Killable, None, is_over) == Waited::Interrupted
            && !is_over()
        {
            fsleep(Delta::from_millis(1));
        }
    }
}

impl Holder for Flights {
    fn revoke(&self) {
        self.close();
    }
}

/// A copy, as one end of it counts it.
struct Flight(Arc<Flights>);

impl Drop for Flight {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Full) == 1 {
            self.0.landing.wake(Events::IN);
        }
    }
}

/// Memory of this host that engines copy from. Dropping it waits for the copies that are
/// under way, and sleeps.
pub struct Source {
    runs: Arc<dyn Runs>,
    flights: Arc<Flights>,
    hold: Option<Hold>,
}

impl Source {
    /// The memory that `runs` names. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`Runs::hold`].
    pub fn new(runs: Arc<dyn Runs>) -> Result<Self> {
        let flights = Flights::new()?;
        let hold = runs.hold(flights.clone())?;
        Ok(Self {
            runs,
            flights,
            hold,
        })
    }

    /// Put the runs together that begin at `at`, and say how many there are, and how many
    /// bytes: `len`, or fewer if there is no room for all.
    fn gather(&self, at: u64, len: u64, pieces: &mut [Piece; RUNS]) -> Result<(usize, u64)> {
        let mut done = 0;
        let mut count = 0;
        let mut add = |piece: &mut Piece| {
            let (src, n) = self.runs.run(at + done, len - done)?;
            *piece = Piece {
                src,
                off: done,
                len: usize::try_from(n)?,
            };
            done += n;
            count += 1;
            Ok::<_, Error>(done < len && n != 0)
        };
        let filled = pieces.iter_mut().try_for_each(|piece| match add(piece) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(Ok(())),
            Err(e) => ControlFlow::Break(Err(e)),
        });
        match filled {
            ControlFlow::Break(Err(e)) => Err(e),
            _ => Ok((count, done)),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.flights.close();
        drop(self.hold.take());
    }
}

/// A copy under way.
struct Ticket {
    told: Arc<dyn Told>,
    tag: usize,
    /// At its source and at its destination.
    _ends: (Flight, Flight),
}

impl Ticket {
    /// # Safety
    ///
    /// `data` is a leaked box of this type, which is given up.
    unsafe extern "C" fn ended(status: c_int, data: *mut c_void) {
        // SAFETY: As the caller promises.
        let ticket = unsafe { KBox::from_raw(data.cast::<Self>()) };
        ticket
            .told
            .told(ticket.tag, kernel::error::to_result(status));
    }
}

/// Start a copy of at most `len` bytes, which are not zero, by `start`, which gets the
/// pieces and whom to tell; say how many bytes it has started.
///
/// # Errors
///
/// Those of [`Runs::run`] and of `start`, `ENOTCONN` once an end has gone, `ENOMEM`; nobody
/// is told then.
pub(super) fn launch(
    source: &Source,
    at: u64,
    len: u64,
    there: &Arc<Flights>,
    told: (Arc<dyn Told>, usize),
    start: impl FnOnce(&[Piece], Completion) -> Result,
) -> Result<u64> {
    // Before the memory is looked for: it stays then.
    let ends = (source.flights.take_off()?, there.take_off()?);
    let mut pieces = [Piece::default(); RUNS];
    let (count, taken) = source.gather(at, len, &mut pieces)?;
    let (told, tag) = told;
    let ticket = Ticket {
        told,
        tag,
        _ends: ends,
    };
    let data = KBox::into_raw(KBox::new(ticket, GFP_KERNEL)?);
    // SAFETY: Told once, it gives the box up.
    let done = unsafe { Completion::new(Ticket::ended, data.cast()) };
    let started = start(pieces.get(..count).unwrap_or_default(), done);
    if started.is_err() {
        // SAFETY: Nobody has been told: the box is still ours.
        drop(unsafe { KBox::from_raw(data) });
    }
    started.map(|()| taken)
}
