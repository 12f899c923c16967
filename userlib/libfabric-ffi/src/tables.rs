// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program has opened of a fabric, by number, behind one lock: endpoints, what listens, and the
//! queues that are told of both.

use crate::{core::Info, info, sys, Result};
use libfabric::{
    Address, Completion, Endpoint, Event, Kind, Listener, Memory, Refusal, Request, IOV_MAX,
};
use mp_fabric::{vm_memory::VolatileSlice, Fabric, Status};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Memory of a program that it has given to an operation.
#[derive(Debug)]
pub(crate) struct UserMemory {
    pieces: [(usize, usize); IOV_MAX],
    count: usize,
}

impl UserMemory {
    /// # Safety
    /// All pieces are memory of the program as long as this exists.
    pub(crate) unsafe fn new(pieces: &[sys::iovec]) -> Result<Self> {
        let mut memory = UserMemory {
            pieces: [(0, 0); IOV_MAX],
            count: pieces.len(),
        };
        for (index, piece) in pieces.iter().enumerate() {
            let room = memory.pieces.get_mut(index).ok_or(libc::EINVAL)?;
            *room = (piece.iov_base.expose_provenance(), piece.iov_len);
        }
        match pieces.iter().map(|piece| piece.iov_len).sum::<usize>() {
            0..=info::MESSAGE => Ok(memory),
            _ => Err(libc::EMSGSIZE),
        }
    }

    /// A copy of it.
    pub(crate) fn copy(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in (0..self.count).filter_map(|index| self.piece(index)) {
            let at = bytes.len();
            bytes.resize(at + piece.len(), 0);
            piece.copy_to(&mut bytes[at..]);
        }
        bytes
    }
}

impl Memory for UserMemory {
    #[inline]
    fn piece(&self, index: usize) -> Option<VolatileSlice<'_>> {
        let (at, len) = *self.pieces.get(..self.count)?.get(index)?;
        let at = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: It is memory of the program, as who has made this has promised.
        Some(unsafe { VolatileSlice::new(at, len) })
    }
}

/// A fabric that a program has opened.
pub(crate) struct Shared {
    pub(crate) fabric: Fabric,
    /// The number of this host.
    pub(crate) own: u32,
    pub(crate) status: Option<Arc<Status>>,
    tables: Mutex<Tables>,
}

impl Shared {
    pub(crate) fn new(fabric: Fabric) -> Result<Self> {
        Ok(Shared {
            own: info::own_host(&fabric)?,
            status: Endpoint::<UserMemory>::status(&fabric),
            fabric,
            tables: Mutex::default(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A completion queue, and whether one direction of an endpoint tells it only what is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) cq: usize,
    pub(crate) selective: bool,
}

pub(crate) struct Ep {
    pub(crate) endpoint: Endpoint<UserMemory>,
    /// What the program knows it by.
    pub(crate) fid: usize,
    pub(crate) context: usize,
    pub(crate) eq: Option<usize>,
    pub(crate) tx: Option<Bound>,
    pub(crate) rx: Option<Bound>,
    pub(crate) enabled: bool,
    /// What it is to accept.
    pub(crate) request: Option<Request>,
    pub(crate) from: Address,
    pub(crate) to: Address,
}

pub(crate) struct Pep {
    pub(crate) fid: usize,
    pub(crate) eq: Option<usize>,
    pub(crate) own: Address,
    pub(crate) info: Info,
    pub(crate) listener: Option<Listener>,
}

/// What an event queue tells.
pub(crate) enum Told {
    /// Of a connection.
    Connection {
        event: u32,
        fid: usize,
        data: Vec<u8>,
    },
    /// Of a request for one.
    Request {
        fid: usize,
        info: Info,
        request: Request,
    },
    /// Of a failure.
    Failure {
        fid: usize,
        context: usize,
        error: i32,
        data: Vec<u8>,
    },
}

#[derive(Default)]
pub(crate) struct Eq {
    pub(crate) told: VecDeque<Told>,
    /// Data of the last failure, until the queue is read again.
    pub(crate) data: Vec<u8>,
}

pub(crate) struct Cq {
    pub(crate) done: VecDeque<Completion>,
    pub(crate) size: usize,
}

/// Things by number.
pub(crate) struct Slab<T>(Vec<Option<T>>);

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab(Vec::new())
    }
}

impl<T> Slab<T> {
    pub(crate) fn add(&mut self, thing: T) -> usize {
        let free = self.0.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[at] = Some(thing);
        at
    }

    pub(crate) fn get(&mut self, at: usize) -> Result<&mut T> {
        self.0
            .get_mut(at)
            .and_then(Option::as_mut)
            .ok_or(libc::EINVAL)
    }

    pub(crate) fn take(&mut self, at: usize) -> Option<T> {
        self.0.get_mut(at).and_then(Option::take)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }
}

#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) eps: Slab<Ep>,
    pub(crate) peps: Slab<Pep>,
    pub(crate) eqs: Slab<Eq>,
    pub(crate) cqs: Slab<Cq>,
}

/// Where completions of an endpoint go.
fn teller<'a>(
    cqs: &'a mut Slab<Cq>,
    tx: Option<Bound>,
    rx: Option<Bound>,
) -> impl FnMut(Completion) + 'a {
    move |completion| {
        let bound = match completion.kind {
            Kind::Send => tx,
            Kind::Receive => rx,
        };
        if let Some(Ok(cq)) = bound.map(|bound| cqs.get(bound.cq)) {
            cq.done.push_back(completion);
        }
    }
}

impl Tables {
    /// Do something with an endpoint, and tell of what it completes.
    pub(crate) fn with<R>(
        &mut self,
        ep: usize,
        work: impl FnOnce(&mut Ep, &mut dyn FnMut(Completion)) -> R,
    ) -> Result<R> {
        let Tables { eps, cqs, .. } = self;
        let ep = eps.get(ep)?;
        let mut told = teller(cqs, ep.tx, ep.rx);
        Ok(work(ep, &mut told))
    }

    /// Move messages of all endpoints that tell a completion queue.
    pub(crate) fn progress(&mut self, cq: usize) {
        let Tables { eps, cqs, eqs, .. } = self;
        for ep in eps.all() {
            let tells = |bound: Option<Bound>| bound.is_some_and(|bound| bound.cq == cq);
            if tells(ep.tx) || tells(ep.rx) {
                let event = ep.endpoint.progress(&mut teller(cqs, ep.tx, ep.rx));
                if let Some(event) = event {
                    tell(eqs, ep, event);
                }
            }
        }
    }

    /// Find out what has happened to the connections that an event queue tells of.
    pub(crate) fn look(&mut self, shared: &Shared, eq: usize) {
        let Tables {
            eps,
            cqs,
            eqs,
            peps,
        } = self;
        for ep in eps.all().filter(|ep| ep.eq == Some(eq)) {
            let mut told = teller(cqs, ep.tx, ep.rx);
            let event = ep.endpoint.look(&shared.fabric, &mut told);
            drop(told);
            if let Some(event) = event {
                tell(eqs, ep, event);
            }
        }
        for pep in peps.all().filter(|pep| pep.eq == Some(eq)) {
            let Some(listener) = &mut pep.listener else {
                continue;
            };
            // One that cannot wait now, or for want of memory ask, tries again.
            let Ok(Some(request)) = listener.look(&shared.fabric) else {
                continue;
            };
            // SAFETY: It is one of libfabric's.
            let info = unsafe { Info::copy(pep.info.get()) };
            let info = info.and_then(|info| info.between(pep.own, request.from));
            match (info, eqs.get(eq)) {
                (Ok(info), Ok(eq)) => eq.told.push_back(Told::Request {
                    fid: pep.fid,
                    info,
                    request,
                }),
                _ => request.reject(&[]),
            }
        }
    }
}

/// Tell an endpoint's event queue of its connection.
fn tell(eqs: &mut Slab<Eq>, ep: &Ep, event: Event) {
    let Some(Ok(eq)) = ep.eq.map(|eq| eqs.get(eq)) else {
        return;
    };
    let (fid, context) = (ep.fid, ep.context);
    let (error, data) = match event {
        Event::Connected(data) => {
            let event = sys::FI_CONNECTED;
            return eq.told.push_back(Told::Connection { event, fid, data });
        }
        Event::Shutdown => {
            let (event, data) = (sys::FI_SHUTDOWN, Vec::new());
            return eq.told.push_back(Told::Connection { event, fid, data });
        }
        Event::Refused(refusal) => error(refusal),
    };
    eq.told.push_back(Told::Failure {
        fid,
        context,
        error,
        data,
    });
}

/// The error of a connection that has not come to be.
pub(crate) fn error(refusal: Refusal) -> (i32, Vec<u8>) {
    match refusal {
        Refusal::Rejected(data) => (libc::ECONNREFUSED, data),
        Refusal::Nobody => (libc::ECONNREFUSED, Vec::new()),
        Refusal::Unreachable => (libc::EHOSTUNREACH, Vec::new()),
        Refusal::NoMemory => (libc::ENOMEM, Vec::new()),
    }
}
