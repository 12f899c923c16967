// SPDX-License-Identifier: MIT OR Apache-2.0

//! Listeners: held server sessions on all interfaces, by the name of an address.

use crate::{address::Address, PROTOCOL};
use mp_fabric::{
    CharDevice, Device, Error, Fabric, InterfaceId, PartnerState, RequestId, Result, Session,
};
use mp_queue_pair::provider::window;
use std::time::{Duration, Instant};

/// Sessions that wait on an interface: clients that ask at the same time find one each.
const BACKLOG: usize = 2;
/// How often interfaces are looked at again on which nothing waits.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Why a request is rejected: the program has said so, or it is none of this library.
pub(crate) const REJECTED: u32 = 1;
const UNKNOWN: u32 = 2;

/// Waits for connections to an address of this host. Dropping it ends that.
#[derive(Debug)]
pub struct Listener<D: Device = CharDevice> {
    own: Address,
    sessions: Vec<(InterfaceId, Session<D>)>,
    again: Option<Instant>,
}

/// A request for a connection. Dropping it refuses that.
#[derive(Debug)]
pub struct Request<D: Device = CharDevice> {
    pub(crate) session: Session<D>,
    pub(crate) id: RequestId,
    /// The address of who asks; port 0 if it has none.
    pub from: Address,
    /// What the program there says.
    pub data: Vec<u8>,
}

impl<D: Device> Request<D> {
    /// Say no, with data for the program that asks. One that has gone needs no answer.
    pub fn reject(self, data: &[u8]) {
        let _ = self.session.reject(self.id, REJECTED, data);
    }
}

impl<D: Device> Listener<D> {
    /// Wait for connections to an address of this host.
    ///
    /// # Errors
    /// Of opening sessions, if there is none.
    pub fn new(fabric: &Fabric<D>, own: Address) -> Result<Self> {
        let mut listener = Listener {
            own,
            sessions: Vec::new(),
            again: None,
        };
        listener.post(fabric)?;
        Ok(listener)
    }

    /// The next request, if there is one.
    ///
    /// # Errors
    /// As [`new()`](Self::new).
    pub fn look(&mut self, fabric: &Fabric<D>) -> Result<Option<Request<D>>> {
        let found = self.take();
        let is_late = self.again.is_none_or(|again| again <= Instant::now());
        if found.is_some() || is_late {
            self.post(fabric)?;
        }
        Ok(found)
    }

    fn take(&mut self) -> Option<Request<D>> {
        let mut index = 0;
        while let Some((_, session)) = self.sessions.get(index) {
            let partner = session.partner().ok();
            let asked = partner.and_then(|partner| match partner.state {
                PartnerState::Request(id) => Some((id, partner.data)),
                _ => None,
            });
            let Some((id, data)) = asked else {
                index += 1;
                continue;
            };
            let (_, session) = self.sessions.swap_remove(index);
            match Address::read(&data) {
                Some((from, data)) => {
                    let data = data.into();
                    return Some(Request {
                        session,
                        id,
                        from,
                        data,
                    });
                }
                None => {
                    let _ = session.reject(id, UNKNOWN, &[]);
                }
            }
        }
        None
    }

    /// Wait on interfaces on which it does not yet.
    fn post(&mut self, fabric: &Fabric<D>) -> Result<()> {
        self.again = Some(Instant::now() + LOOK_AGAIN);
        self.sessions.retain(|(_, session)| !session.is_over());
        let mut failed = None;
        for interface in fabric.interfaces()? {
            let there = |sessions: &[(InterfaceId, _)]| {
                let same = sessions.iter().filter(|(id, _)| *id == interface);
                same.count()
            };
            while there(&self.sessions) < BACKLOG {
                match self.serve(fabric, interface) {
                    Ok(session) => self.sessions.push((interface, session)),
                    // Not reachable now, or not at all.
                    Err(
                        Error::InterfaceDown(_) | Error::NoInterface(_) | Error::NotSupported(_),
                    ) => break,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
        }
        match failed {
            Some(error) if self.sessions.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    fn serve(&self, fabric: &Fabric<D>, interface: InterfaceId) -> Result<Session<D>> {
        let window = window(fabric.interface(interface)?.local_free);
        let name = self.own.bytes();
        let server = fabric.server(interface, PROTOCOL).name(&name);
        let server = server.hold().once();
        server.local(window.clone()).remote(window).open()
    }
}
