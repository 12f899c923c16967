// SPDX-License-Identifier: MIT OR Apache-2.0

//! Servers: who waits for clients that ask for a discriminator of this host.

use super::{
    introduced, name, nap,
    request::{Pending, Request},
    PROTOCOL, UNKNOWN,
};
use crate::{
    nic::NicShared, room::must_have_memory, trunk::Meeting, Error, NetAddress, Nic, Result,
};
use mp_fabric::{
    CharDevice, Deadline, Device, Error as FabricError, EventMask, InterfaceId, PartnerState,
    Session, Wake,
};
use rustix::fd::{AsFd, BorrowedFd};
use std::{fmt, sync::Arc, time::Duration};

impl<D: Device> Nic<D> {
    /// Wait for a client that asks for a discriminator of this host (VI-CONN-1 to VI-CONN-7).
    /// Nobody is kept waiting by one that does not wait.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: the host is not this one, or the discriminator is too long; or
    /// the NIC was closed, also meanwhile. [`Error::Timeout`], [`Error::Resource`].
    pub fn connect_wait(&self, local: &NetAddress, deadline: Deadline) -> Result<Request<D>> {
        let mut server = self.serve(local, deadline)?;
        loop {
            if let Some(found) = server.look() {
                return found;
            }
            server.sleep();
        }
    }

    /// Begin to wait, for callers that sleep themselves.
    ///
    /// # Errors
    /// As [`connect_wait()`](Self::connect_wait).
    pub fn serve(&self, local: &NetAddress, deadline: Deadline) -> Result<Server<D>> {
        must_have_memory()?;
        let nic = self.shared();
        nic.must_be_open()?;
        local.must_be_of(nic.local())?;
        Ok(Server {
            nic: Arc::clone(nic),
            name: name(nic.local(), &local.discriminator),
            deadline,
            sessions: Vec::new(),
            wake: nic.arrivals.enter()?,
            is_told: false,
        })
    }
}

/// A server that waits. Once it is dropped, its discriminator matches nobody (VI-CONN-6).
pub struct Server<D: Device = CharDevice> {
    nic: Arc<NicShared<D>>,
    name: Vec<u8>,
    deadline: Deadline,
    sessions: Vec<Posted<D>>,
    wake: Arc<Wake>,
    /// Whether something wakes it whatever happens.
    is_told: bool,
}

/// A session that a server waits with.
struct Posted<D: Device> {
    interface: InterfaceId,
    is_bare: bool,
    session: Session<D>,
}

impl<D: Device> fmt::Debug for Server<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl<D: Device> Server<D> {
    /// Look whether a client has asked, or it is too late; nothing if there is time to
    /// [sleep](Self::nap).
    pub fn look(&mut self) -> Option<Result<Request<D>>> {
        let nic = Arc::clone(&self.nic);
        let ready = nic.arrivals.take(&nic.fabric, &self.wake);
        let ready = ready.and_then(|tells| nic.must_be_open().map(|()| tells));
        match ready.and_then(|tells| Ok(self.post(&nic)? && tells)) {
            Ok(is_told) => self.is_told = is_told,
            Err(error) => return Some(Err(error)),
        }
        if let Some(request) = self.take(&nic) {
            return Some(request);
        }
        let is_late = self.deadline.remaining().is_some_and(|left| left.is_zero());
        is_late.then_some(Err(Error::Timeout))
    }

    /// How long it may sleep before it looks again, nothing if that has no end, and what wakes it
    /// earlier.
    pub fn nap(&self) -> (Option<Duration>, [BorrowedFd<'_>; 2]) {
        let nap = nap(self.deadline, self.is_told);
        (nap, [self.wake.as_fd(), self.nic.arrivals.as_fd()])
    }

    fn sleep(&self) {
        let time = nap(self.deadline, self.is_told);
        self.nic.arrivals.sleep(&self.wake, time);
    }

    /// Wait on interfaces on which it does not yet, with windows and without; false if something
    /// is missing for that which nothing tells of.
    fn post(&mut self, nic: &Arc<NicShared<D>>) -> Result<bool> {
        self.sessions.retain(|posted| !posted.session.is_over());
        let mut failed = None;
        let interfaces = nic.fabric.interfaces()?.into_iter();
        for (interface, is_bare) in interfaces.flat_map(|id| [(id, true), (id, false)]) {
            let is_same =
                |posted: &Posted<D>| (posted.interface, posted.is_bare) == (interface, is_bare);
            if self.sessions.iter().any(is_same) {
                continue;
            }
            let server = nic.fabric.server(interface, PROTOCOL).name(&self.name);
            let server = server.hold().once();
            let server = match is_bare {
                true => server.bare(),
                false => {
                    let window = nic.window(interface);
                    server.local(window.clone()).remote(window)
                }
            };
            match server.open() {
                Ok(session) => {
                    let mask = EventMask::REQUEST | EventMask::CLOSED | EventMask::DOWN;
                    session.notify(mask, Some(self.wake.as_fd()))?;
                    self.sessions.push(Posted {
                        interface,
                        is_bare,
                        session,
                    });
                }
                // Not reachable now, or not at all.
                Err(FabricError::InterfaceDown(_) | FabricError::NoInterface(_)) => {}
                Err(FabricError::NotSupported(_)) => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if self.sessions.is_empty() => Err(error.into()),
            failed => Ok(failed.is_none()),
        }
    }

    /// Take a request, if there is one.
    fn take(&mut self, nic: &Arc<NicShared<D>>) -> Option<Result<Request<D>>> {
        let mut index = 0;
        while let Some(posted) = self.sessions.get(index) {
            let partner = posted.session.partner().ok();
            let asked = partner.and_then(|partner| match partner.state {
                PartnerState::Request(request) => Some((request, partner.data)),
                _ => None,
            });
            let Some((id, data)) = asked else {
                index += 1;
                continue;
            };
            let Posted {
                session, is_bare, ..
            } = self.sessions.swap_remove(index);
            let (meeting, rest) = match Meeting::decode(&data).filter(|_| is_bare) {
                Some((meeting, rest)) => (Some(meeting), rest),
                None => (None, &data[..]),
            };
            match introduced(rest).filter(|_| meeting.is_some() == is_bare) {
                Some((told, address)) => {
                    let pending = Pending {
                        session: Arc::new(session),
                        id,
                        meeting,
                    };
                    return Some(Request::new(nic, pending, told, address));
                }
                // It is over with that, and is posted again by the next look.
                None => {
                    // One that has gone needs no answer.
                    let _ = session.reject(id, UNKNOWN, &[]);
                    self.wake.ring();
                }
            }
        }
        None
    }
}
