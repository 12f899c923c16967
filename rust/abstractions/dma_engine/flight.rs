// SPDX-License-Identifier: GPL-2.0-only

//! The state of one transfer, and who may touch it when.
//!
//! A flight is free, claimed by a [`Transfer`](super::Transfer), or under way.
//! Under way, it counts the pieces that the engine has not reported, and one
//! more while they are being submitted. Whoever brings the count to zero ends
//! the flight.

use super::{
    Failure,
    Job,
    MAX_PIECES, //
};
use core::cell::UnsafeCell;
use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    }, //
};
use mp_bindings as bindings;

/// One range to copy; bus addresses, bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Piece {
    pub(super) src: u64,
    pub(super) dst: u64,
    pub(super) len: usize,
    /// Whether `dst` is memory that was mapped for the piece, not a window.
    pub(super) inward: bool,
}

/// What a transfer consists of.
pub(super) struct Plan<J> {
    pieces: [Piece; MAX_PIECES],
    count: usize,
    job: Option<J>,
}

impl<J> Plan<J> {
    fn pieces(&self) -> &[Piece] {
        self.pieces.get(..self.count).unwrap_or_default()
    }

    /// The place for one more piece.
    pub(super) fn vacancy(&mut self) -> Option<&mut Piece> {
        self.pieces.get_mut(self.count)
    }

    /// Count the piece that was put into the [`vacancy`](Self::vacancy).
    pub(super) fn added(&mut self) {
        self.count += 1;
    }
}

/// [`Flight::failure`] of a flight without one; others are [`code`]s.
const NONE: u32 = 0;

/// A place for one transfer.
///
/// # Invariants
///
/// `plan` belongs to whoever has claimed the flight, by setting `busy`; while
/// it is under way it does not change, and belongs in the end to whoever brings
/// `open` to zero. Its pieces are mapped for `dev`.
pub(super) struct Flight<J> {
    dev: *mut bindings::device,
    busy: Atomic<bool>,
    open: Atomic<u32>,
    failure: Atomic<u32>,
    plan: UnsafeCell<Plan<J>>,
}

impl<J: Job> Flight<J> {
    /// A free place. `dev` must outlive it.
    pub(super) fn new(dev: *mut bindings::device) -> Self {
        Self {
            dev,
            busy: Atomic::new(false),
            open: Atomic::new(0),
            failure: Atomic::new(NONE),
            plan: UnsafeCell::new(Plan {
                pieces: [Piece::default(); MAX_PIECES],
                count: 0,
                job: None,
            }),
        }
    }

    /// Make the flight the caller's, if it is free.
    pub(super) fn claim(&self) -> bool {
        !self.busy.load(Relaxed) && self.busy.cmpxchg(false, true, Full).is_ok()
    }

    /// Whether it is anybody's.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Acquire)
    }

    /// # Safety
    ///
    /// The plan is the caller's.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn plan(&self) -> &mut Plan<J> {
        // SAFETY: By the type invariants the plan is the caller's alone.
        unsafe { &mut *self.plan.get() }
    }

    /// The pieces of a flight under way.
    ///
    /// # Safety
    ///
    /// The flight must not end while the result is in use.
    pub(super) unsafe fn pieces(&self) -> &[Piece] {
        // SAFETY: By the type invariants the plan does not change before the end.
        unsafe { &*self.plan.get() }.pieces()
    }

    /// Prepare the count: one, until [`land`](Self::land).
    pub(super) fn begin(&self) {
        self.failure.store(NONE, Relaxed);
        self.open.store(1, Relaxed);
    }

    /// Give the flight its job.
    ///
    /// # Safety
    ///
    /// The flight must not end before this returns, and nobody else may look at
    /// its plan.
    pub(super) unsafe fn entrust(&self, job: J) {
        // SAFETY: The caller's promise.
        unsafe { self.plan() }.job = Some(job);
    }

    /// Count one more piece if `submit` succeeds; else the flight has failed.
    pub(super) fn ascend(&self, submit: impl FnOnce() -> bool) -> bool {
        self.open.add(1, Relaxed);
        let accepted = submit();
        if !accepted {
            self.fail(Failure::Refused);
            let _ = self.open.fetch_sub(1, Relaxed);
        }
        accepted
    }

    fn fail(&self, failure: Failure) {
        let _ = self.failure.cmpxchg(NONE, code(failure), Relaxed);
    }

    /// Count one piece less, and end the flight with the last one.
    pub(super) fn land(&self) {
        if self.open.fetch_sub(1, Full) == 1 {
            // SAFETY: The count has come to zero here.
            unsafe { self.end() };
        }
    }

    /// Unmap all pieces and free the flight; its job, if it has one.
    ///
    /// # Safety
    ///
    /// The plan is the caller's, and the engine has nothing of the flight.
    pub(super) unsafe fn leave(&self) -> Option<J> {
        // SAFETY: The caller's promise.
        let plan = unsafe { self.plan() };
        for piece in plan.pieces() {
            // SAFETY: By the type invariants the piece is mapped for `dev`; the engine has
            // finished with it.
            unsafe { bindings::dma_unmap_to_device(self.dev, piece.src, piece.len) };
            if piece.inward {
                // SAFETY: As above.
                unsafe { bindings::dma_unmap_from_device(self.dev, piece.dst, piece.len) };
            }
        }
        plan.count = 0;
        let job = plan.job.take();
        self.open.store(0, Relaxed);
        self.busy.store(false, Release);
        job
    }

    /// End the flight if it is under way, as aborted.
    ///
    /// # Safety
    ///
    /// The engine has stopped and no transfer is being started.
    pub(super) unsafe fn abort(&self) {
        if self.open.load(Acquire) != 0 {
            self.fail(Failure::Aborted);
            // SAFETY: Nobody is left who could bring the count to zero.
            unsafe { self.end() };
        }
    }

    /// # Safety
    ///
    /// The caller has brought `open` to zero, or nobody can any more.
    unsafe fn end(&self) {
        let outcome = match self.failure.load(Relaxed) {
            NONE => Ok(()),
            code => Err(failure(code)),
        };
        // SAFETY: By the type invariants the plan belongs to the caller.
        if let Some(job) = unsafe { self.leave() } {
            job.done(outcome);
        }
    }

    /// # Safety
    ///
    /// Called by the engine, once for each piece it has accepted of a flight,
    /// with that flight as `param`.
    pub(super) unsafe extern "C" fn callback(
        param: *mut c_void,
        result: *const bindings::dmaengine_result,
    ) {
        // SAFETY: A flight, by the caller's promise, and it lives until the engine has stopped.
        let flight = unsafe { &*param.cast::<Self>().cast_const() };
        // SAFETY: The engine passes a result or null.
        if let Some(failure) = unsafe { result.as_ref() }.and_then(failure_of) {
            flight.fail(failure);
        }
        flight.land();
    }
}

/// What an engine's result says; no result says that all is well.
fn failure_of(result: &bindings::dmaengine_result) -> Option<Failure> {
    match result.result {
        bindings::dmaengine_tx_result_DMA_TRANS_NOERROR => None,
        bindings::dmaengine_tx_result_DMA_TRANS_READ_FAILED => Some(Failure::Read),
        bindings::dmaengine_tx_result_DMA_TRANS_WRITE_FAILED => Some(Failure::Write),
        bindings::dmaengine_tx_result_DMA_TRANS_ABORTED => Some(Failure::Aborted),
        _ => Some(Failure::Unknown),
    }
}

/// A failure as a number above [`NONE`].
fn code(failure: Failure) -> u32 {
    match failure {
        Failure::Read => 1,
        Failure::Write => 2,
        Failure::Aborted => 3,
        Failure::Refused => 4,
        Failure::Unknown => 5,
    }
}

/// The inverse of [`code`].
fn failure(code: u32) -> Failure {
    match code {
        1 => Failure::Read,
        2 => Failure::Write,
        3 => Failure::Aborted,
        4 => Failure::Refused,
        _ => Failure::Unknown,
    }
}
