// SPDX-License-Identifier: MIT OR Apache-2.0

//! One side of a tool that runs on two nodes: its virtual device, and the patience with the other
//! side, which may come later and go earlier.

use crate::{
    failure::{Called, Failure, Outcome},
    options::Pair,
};
use mp_fabric::Device;
use sisci::{
    CheckFlags, Desc, Error, Library, Map, MapFlags, RemoteSegment, Result, Sequence,
    SequenceStatus, INFINITE,
};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// A virtual device, and what the command line says.
#[derive(Debug)]
pub struct Side<'a, D: Device> {
    /// The virtual device.
    pub desc: Desc<D>,
    /// The command line.
    pub options: &'a Pair,
}

impl<'a, D: Device> Side<'a, D> {
    /// Open a virtual device, have something done with it and close it again.
    ///
    /// # Errors
    /// Those of the calls; so below.
    pub fn on(
        library: &Library<D>,
        options: &'a Pair,
        work: impl FnOnce(&Self) -> Outcome,
    ) -> Outcome {
        let desc = library.open().called("SCIOpen")?;
        let side = Side { desc, options };
        work(&side)?;
        side.desc.close().called("SCIClose")
    }

    /// When the patience that begins now is over.
    pub fn end_of_patience(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.options.patience.into())
    }

    /// Call a function until its error is none of those that pass.
    fn repeat<T>(
        &self,
        passes: impl Fn(Error) -> bool,
        attempt: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let end = self.end_of_patience();
        loop {
            match attempt() {
                Err(error) if passes(error) && Instant::now() < end => sleep(PAUSE),
                other => return other,
            }
        }
    }

    /// Call a function that connects to something by its number, until the other node has it.
    pub fn connect<T>(
        &self,
        function: &'static str,
        number: u32,
        attempt: impl Fn() -> Result<T>,
    ) -> Outcome<T> {
        let not_yet = |error| {
            matches!(
                error,
                Error::NoSuchSegment
                    | Error::NoLinkAccess
                    | Error::NoRemoteLinkAccess
                    | Error::NodeNotResponding
            )
        };
        self.repeat(not_yet, attempt)
            .map_err(|error| Failure::Connect {
                function,
                error,
                node: self.options.node,
                adapter: self.options.adapter(),
                number,
            })
    }

    /// Call a function that removes, until the other node has disconnected.
    pub fn remove(&self, function: &'static str, attempt: impl Fn() -> Result<()>) -> Outcome {
        self.repeat(|error| error == Error::Busy, attempt)
            .called(function)
    }

    /// Connect to a segment of the other node.
    pub fn connect_segment(&self, id: u32) -> Outcome<RemoteSegment<D>> {
        let (node, adapter) = (self.options.node, self.options.adapter());
        self.connect("SCIConnectSegment", id, || {
            self.desc.connect_segment(node, id, adapter, INFINITE)
        })
    }

    /// Wait until something is so.
    ///
    /// # Errors
    /// [`Failure::Silent`]: it does not become so.
    pub fn wait_until(&self, mut so: impl FnMut() -> bool) -> Outcome {
        let end = self.end_of_patience();
        while !so() {
            if Instant::now() >= end {
                return Err(Failure::Silent);
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}

/// Map all of a segment of the other node.
///
/// # Errors
/// Those of the call.
pub fn map_remote<D: Device>(segment: &RemoteSegment<D>, size: usize) -> Outcome<Map<D>> {
    let map = segment.map(0, size, 0, MapFlags::empty());
    map.called("SCIMapRemoteSegment")
}

/// Make a sequence on a map, and start it.
///
/// # Errors
/// Those of the calls.
pub fn start_sequence<D: Device>(map: &Map<D>) -> Outcome<Sequence<D>> {
    let sequence = map.sequence().called("SCICreateMapSequence")?;
    good(sequence.start(), "SCIStartSequence")?;
    Ok(sequence)
}

/// See whether everything has arrived.
///
/// # Errors
/// [`Error::TransferFailed`], or what the check says.
pub fn check<D: Device>(sequence: &Sequence<D>) -> Outcome {
    good(sequence.check(CheckFlags::default()), "SCICheckSequence")
}

fn good((status, result): (SequenceStatus, Result<()>), function: &'static str) -> Outcome {
    result.called(function)?;
    match status {
        SequenceStatus::Ok => Ok(()),
        _ => Err(Failure::Call(function, Error::TransferFailed)),
    }
}
