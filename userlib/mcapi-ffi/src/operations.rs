// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests of the program, and where their results go.
//!
//! A result is written once, by the first call that learns that the operation is complete (MC-GEN-7), while
//! it has the table. Others that ask for the same request wait until it is there, so that nobody writes after
//! a call has told the program that the memory is its own again.
//!
//! The place of an operation in the table is there before the operation begins: one that there is no memory
//! for has not begun.

use crate::{answer::Answer, process::State};
use mcapi::{Completion, Device, Error, Outcome, Request, Result};
use mp_c_abi::{Null, Out, Room};
use std::{
    collections::HashMap,
    ffi::c_void,
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Where the result of an operation goes.
#[derive(Debug)]
pub enum Destination {
    /// Sends, connections, closing: there is none.
    None,
    /// The handle of an endpoint that a get has found.
    Endpoint(Out<u64>),
    /// The bytes of a message.
    Message(Room<u8>),
    /// The address of a packet.
    Packet(Out<*mut c_void>),
    /// The handle of a channel's end.
    Channel(Out<u32>),
}

// SAFETY: The memory is the operation's until it is complete, whichever thread learns of it.
unsafe impl Send for Destination {}

/// An operation that has begun.
#[derive(Debug)]
pub struct Begun {
    pub request: Request,
    /// Whether it moves data, whose size programs want to know (MC-TEST-4).
    pub moves: bool,
    pub destination: Destination,
}

impl Begun {
    /// One that connects, opens, closes or gets.
    pub fn plain(request: Request, destination: Destination) -> Self {
        Begun {
            request,
            moves: false,
            destination,
        }
    }

    /// One that sends or receives.
    pub fn moving(request: Request, destination: Destination) -> Self {
        Begun {
            request,
            moves: true,
            destination,
        }
    }
}

/// What is known of a request.
#[derive(Debug)]
struct Operation {
    moves: bool,
    /// None once the result was written.
    destination: Option<Destination>,
}

/// The operations of a node, by their requests.
#[derive(Debug, Default)]
pub struct Operations(Mutex<Table>);

/// Invariant: there is memory for as many more operations as were promised a place.
#[derive(Debug, Default)]
struct Table {
    begun: HashMap<Request, Operation>,
    promised: usize,
}

/// A place for an operation that is about to begin.
struct Place<'a>(&'a Operations);

impl Place<'_> {
    fn fill(self, begun: Begun) {
        let operation = Operation {
            moves: begun.moves,
            destination: Some(begun.destination),
        };
        self.0.all().begun.insert(begun.request, operation);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.all().promised -= 1;
    }
}

impl Operations {
    fn all(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more operation.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`].
    fn place(&self) -> Result<Place<'_>> {
        let mut all = self.all();
        let places = all.promised + 1;
        let reserved = all.begun.try_reserve(places);
        reserved.map_err(|_| Error::MemoryLimit)?;
        all.promised = places;
        Ok(Place(self))
    }

    /// Whether one of some operations moves data.
    ///
    /// # Errors
    /// [`Error::RequestInvalid`] (MC-REQ-1, MC-REQ-4): one of them is not there.
    fn any_moves(&self, requests: &[Request]) -> Result<bool> {
        let all = self.all();
        let mut moves = false;
        for request in requests {
            let operation = all.begun.get(request);
            moves |= operation.ok_or(Error::RequestInvalid)?.moves;
        }
        Ok(moves)
    }

    /// Write the result of an operation, unless that was done.
    ///
    /// # Errors
    /// [`Error::MessageTruncated`] (MC-MSGRECV-3).
    fn settle(&self, request: Request, done: &Completion) -> Result<()> {
        let mut all = self.all();
        let operation = all.begun.get_mut(&request);
        let destination = operation.and_then(|operation| operation.destination.take());
        match (destination, done) {
            (Some(Destination::Endpoint(out)), Completion::Endpoint(endpoint)) => {
                out.write(endpoint.to_raw());
            }
            (Some(Destination::Message(room)), Completion::Message { data, .. }) => room.fill(data),
            (Some(Destination::Packet(out)), Completion::Packet(packet)) => {
                out.write(ptr::with_exposed_provenance_mut(packet.address()));
            }
            (Some(Destination::Channel(out)), Completion::Open(channel)) => {
                out.write(channel.to_raw());
            }
            _ => {}
        }
        match done {
            Completion::Message {
                is_truncated: true, ..
            } => Err(Error::MessageTruncated),
            _ => Ok(()),
        }
    }

    /// Write the result and the size, and say what has become of the operation (MC-REQ-8).
    fn end(&self, request: Request, outcome: Outcome, size: Out<usize>) -> Result<()> {
        let done = outcome?;
        size.write(done.size());
        self.settle(request, &done)
    }

    /// Count them.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.all().begun.len()
    }

    /// Forget an operation. Its result is written by then, or nobody writes it any more.
    fn forget(&self, request: Request) {
        self.all().begun.remove(&request);
    }
}

impl<D: Device> State<D> {
    /// Begin an operation and give the program its request (MC-GEN-5, MC-GEN-6). One that fails at
    /// once has not begun.
    ///
    /// # Errors
    /// [`Error::Parameter`]: there is no place for the request; [`Error::MemoryLimit`]; the operation's.
    pub fn begin(
        &self,
        request: Out<u32>,
        start: impl FnOnce(&Self) -> Result<Begun>,
    ) -> Result<Answer<()>> {
        request.required().map_err(|Null| Error::Parameter)?;
        let place = self.operations.place()?;
        let begun = start(self)?;
        let handle = begun.request;
        place.fill(begun);
        let looked = self.look(handle, Out::NULL);
        match looked {
            Ok(_) => request.write(handle.to_raw()),
            Err(_) => self.cancel(handle).unwrap_or_default(),
        }
        looked
    }

    /// What a request has come to; the request stays (MC-TEST-1 to MC-TEST-3).
    ///
    /// # Errors
    /// [`Error::RequestInvalid`]; the operation's.
    fn look(&self, request: Request, size: Out<usize>) -> Result<Answer<()>> {
        match self.node.test(request)? {
            Some(done) => {
                let ended = self.operations.end(request, Ok(done), size);
                ended.map(Answer::success)
            }
            None => Ok(Answer::PENDING),
        }
    }

    /// What a request of the program has come to (MC-TEST-1 to MC-TEST-6).
    ///
    /// # Errors
    /// As [`look`](Self::look); [`Error::Parameter`]: the program wants no size of what has one.
    pub fn test(&self, request: Request, size: Out<usize>) -> Result<Answer<()>> {
        self.known(&[request], size)?;
        self.look(request, size)
    }

    /// Wait until one of several requests has ended, and release that one: its index, and what has
    /// become of it (MC-WAITANY-1 to MC-WAITANY-8).
    ///
    /// # Errors
    /// As [`mcapi::Node::wait_any`], and as [`test`](Self::test).
    pub fn wait_any(
        &self,
        requests: &[Request],
        size: Out<usize>,
        deadline: mcapi::Deadline,
    ) -> Result<(usize, Result<()>)> {
        self.known(requests, size)?;
        let (index, outcome) = self.node.wait_any(requests, deadline)?;
        let request = *requests.get(index).ok_or(Error::General)?;
        let ended = self.operations.end(request, outcome, size);
        self.operations.forget(request);
        Ok((index, ended))
    }

    /// Withdraw an operation and release its request; what it has done stands (MC-CANCEL-1 to
    /// MC-CANCEL-5). Its memory is the program's afterwards.
    ///
    /// # Errors
    /// [`Error::RequestInvalid`].
    pub fn cancel(&self, request: Request) -> Result<()> {
        self.operations.any_moves(&[request])?;
        if let Some(Ok(done)) = self.node.cancel(request)? {
            // That a message was too long is told to those who wait.
            let _ = self.operations.settle(request, &done);
        }
        self.operations.forget(request);
        Ok(())
    }

    /// Refuse requests of which there is none. Those that move data have a size (MC-TEST-4, MC-WAIT-7).
    ///
    /// # Errors
    /// [`Error::RequestInvalid`]; [`Error::Parameter`].
    fn known(&self, requests: &[Request], size: Out<usize>) -> Result<()> {
        if self.operations.any_moves(requests)? {
            size.required().map_err(|Null| Error::Parameter)?;
        }
        Ok(())
    }
}
