// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests of clients, which a program accepts or rejects.

use super::{Way, HANDSHAKE, REJECTED};
use crate::{
    attributes::Told,
    lock,
    nic::NicShared,
    trunk::Meeting,
    vi::{Vi, ViShared},
    Error, NetAddress, RemoteViAttributes, Result,
};
use mp_fabric::{CharDevice, Deadline, Device, Error as FabricError, RequestId, Session, Subject};
use std::{
    fmt, mem,
    sync::{Arc, Mutex},
};

/// A client's request, until it is answered. Copies are the same one. A client whose request is
/// dropped finds nobody (VI-CONN-24).
pub struct Request<D: Device = CharDevice>(pub(crate) Arc<RequestShared<D>>);

crate::shared!(Request);

pub(crate) struct RequestShared<D: Device> {
    nic: Arc<NicShared<D>>,
    stage: Mutex<Stage<D>>,
    told: Told,
    address: NetAddress,
}

/// How far a request is.
enum Stage<D: Device> {
    /// It waits for an answer.
    Open(Pending<D>),
    /// A thread answers it, without the lock: the kernel waits for the client.
    Answering,
    /// It is consumed (VI-CONN-13).
    Over,
}

pub(super) struct Pending<D: Device> {
    pub(super) session: Arc<Session<D>>,
    pub(super) id: RequestId,
    /// What a client has told whose session has no windows.
    pub(super) meeting: Option<Meeting>,
}

impl<D: Device> fmt::Debug for RequestShared<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl<D: Device> RequestShared<D> {
    /// Let the client find nobody.
    pub(crate) fn end(&self) {
        let before = mem::replace(&mut *lock(&self.stage), Stage::Over);
        drop(before);
    }

    /// Begin to answer.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: answered before, or by another thread now.
    fn begin(&self) -> Result<Pending<D>> {
        let mut stage = lock(&self.stage);
        match mem::replace(&mut *stage, Stage::Answering) {
            Stage::Open(pending) => Ok(pending),
            other => {
                *stage = other;
                Err(Error::InvalidParameter)
            }
        }
    }

    /// The client goes on waiting for an answer, unless the NIC was closed meanwhile.
    fn reopen(&self, pending: Pending<D>) {
        let mut stage = lock(&self.stage);
        if let Stage::Answering = *stage {
            *stage = Stage::Open(pending);
        }
    }

    /// Connect the client to a VI.
    ///
    /// # Errors
    /// Those of [`Request::accept()`], with what is left to be answered.
    fn accept(
        &self,
        vi: &Arc<ViShared<D>>,
        pending: Pending<D>,
    ) -> std::result::Result<(), (Error, Option<Pending<D>>)> {
        let theirs = &self.told;
        let begun = vi.begin(|core| theirs.attributes.must_fit(core.engine.attributes()));
        let begun = begun.and_then(|(serial, own)| {
            vi.keep(serial, &pending.session)?;
            Ok((serial, own))
        });
        let (serial, own) = match begun {
            Ok(begun) => begun,
            Err(error) => return Err((error, Some(pending))),
        };
        let soon = Deadline::after(HANDSHAKE);
        let answer = match pending.meeting {
            None => own.encode().to_vec(),
            Some(_) => [&own.encode()[..], &self.nic.meeting(serial).encode()].concat(),
        };
        let accepted = match pending.meeting {
            // Nobody is told before.
            Some(partner) if self.nic.lacks_trunk(&pending.session, partner) => {
                Err(FabricError::NoSpace(Subject::Unnamed))
            }
            _ => pending.session.accept(pending.id, &answer, soon),
        };
        let failure = match accepted {
            Ok(()) => {
                let way = Way {
                    session: pending.session,
                    meeting: pending.meeting,
                    checks: own.checks || theirs.checks,
                };
                let established = vi.establish(serial, way, soon);
                return established
                    .map_err(|error| (vi.abandon(serial, self.nic.told(error)), None));
            }
            Err(FabricError::InterfaceDown(_)) => self.nic.told(Error::NotReachable),
            Err(FabricError::NoSpace(_) | FabricError::NoMemory) => {
                vi.release(serial);
                return Err((vi.abandon(serial, Error::Resource), Some(pending)));
            }
            Err(FabricError::Foreign) => Error::InvalidParameter,
            Err(_) => Error::Timeout,
        };
        Err((vi.abandon(serial, failure), None))
    }
}

impl<D: Device> Request<D> {
    pub(super) fn new(
        nic: &Arc<NicShared<D>>,
        pending: Pending<D>,
        told: Told,
        address: NetAddress,
    ) -> Result<Self> {
        let request = Request(Arc::new(RequestShared {
            nic: Arc::clone(nic),
            stage: Mutex::new(Stage::Open(pending)),
            told,
            address,
        }));
        nic.enter_request(&request.0)?;
        Ok(request)
    }

    /// The client's local address, as it has given it (VI-CONN-2).
    pub fn address(&self) -> &NetAddress {
        &self.0.address
    }

    /// What the client's VI has.
    pub fn attributes(&self) -> &RemoteViAttributes {
        &self.0.told.attributes
    }

    /// Connect the client to an idle VI (VI-CONN-8 to VI-CONN-13).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: answered before, or by another thread now, or a VI of another NIC.
    /// [`Error::InvalidState`]: not idle; [`Error::InvalidReliabilityLevel`],
    /// [`Error::InvalidMtu`]: the VI has others; [`Error::Resource`]: memory is missing. After these
    /// the request can still be answered, unless memory went while both sides made the connection.
    /// [`Error::Timeout`]: the client has gone. [`Error::NotReachable`].
    pub fn accept(&self, vi: &Vi<D>) -> Result<()> {
        let (shared, vi) = (&self.0, &vi.0);
        if !Arc::ptr_eq(&shared.nic, &vi.nic) {
            return Err(Error::InvalidParameter);
        }
        let accepted = shared.accept(vi, shared.begin()?);
        accepted.map_err(|(error, pending)| {
            match pending {
                Some(pending) => shared.reopen(pending),
                None => shared.end(),
            }
            error
        })?;
        shared.end();
        Ok(())
    }

    /// Whether it was answered, or the client has gone: nothing can be done with it any more.
    pub fn is_answered(&self) -> bool {
        matches!(*lock(&self.0.stage), Stage::Over)
    }

    /// Reject the client (VI-CONN-14, VI-CONN-15).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: answered before, or by another thread now.
    pub fn reject(&self) -> Result<()> {
        let Pending { session, id, .. } = self.0.begin()?;
        self.0.end();
        match session.reject(id, REJECTED, &[]) {
            Err(FabricError::InterfaceDown(_)) if self.0.nic.tells_partitions => {
                Err(Error::NotReachable)
            }
            // A client that has gone needs no answer.
            _ => Ok(()),
        }
    }
}
