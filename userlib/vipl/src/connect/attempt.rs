// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attempts of a VI: a client asks a server, a peer meets its partner, and what they agree on is opened.

use super::{
    answered, introduce, name, nap, posts::Posts, told, Peer, Serial, Way, HANDSHAKE, PROTOCOL,
};
use crate::{
    attributes::Told,
    check::Checked,
    link::{Lane, Link, Numbers, Own, ENDS},
    room::must_have_memory,
    state::{Event, State},
    trunk::{Meeting, Patience},
    vi::{Core, Vi, ViShared},
    Error, HostAddress, NetAddress, RemoteViAttributes, Result,
};
use mp_fabric::{thread, Deadline, Device, Error as FabricError, InterfaceId, Session, Wake};
use mp_queue_pair::provider::{Service, NEWS};
use std::{sync::Arc, time::Duration};

impl<D: Device> Vi<D> {
    /// Ask a server for a connection and wait for its answer (VI-CONN-16 to VI-CONN-26); what
    /// the server's VI has.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: an address of the wrong length, a local one of another host,
    /// a deadline in the past. [`Error::InvalidState`]: not idle, or disconnected meanwhile.
    /// [`Error::NoMatch`]: nobody waits for the discriminator. [`Error::Reject`],
    /// [`Error::Timeout`], [`Error::NotReachable`], [`Error::Resource`].
    pub fn connect_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        deadline: Deadline,
    ) -> Result<RemoteViAttributes> {
        let vi = &self.0;
        let host = vi.check_addresses(local, remote, deadline)?;
        let (serial, own) = vi.begin(|_| Ok(()))?;
        let data = introduce(&own, local);
        let connected = vi.reach(serial, deadline, || {
            let asked = vi.ask(host, &remote.discriminator, &data, serial, deadline);
            let (session, meeting, answer) = asked?;
            let way = Way {
                session,
                meeting,
                checks: own.checks || answer.checks,
            };
            vi.establish(serial, way, deadline)?;
            Ok(answer.attributes)
        });
        connected.map_err(|error| vi.abandon(serial, error))
    }

    /// Ask for a connection to a peer that asks for one to this host with the same remote
    /// discriminator (VI-PEER-1 to VI-PEER-6). Does not wait: what comes of it is taken by
    /// [`peer_done()`](Self::peer_done) or [`peer_wait()`](Self::peer_wait).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: as of [`connect_request()`](Self::connect_request).
    /// [`Error::InvalidState`]: not idle. [`Error::Resource`]: there are no more threads.
    pub fn peer_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        deadline: Deadline,
    ) -> Result<()> {
        let host = self.0.check_addresses(local, remote, deadline)?;
        let (serial, own) = self.0.begin(|_| Ok(()))?;
        self.0.with(|core| {
            if core.attempt.serial == serial.attempt {
                core.attempt.peer = Some(Peer::Pending);
            }
            Ok(())
        })?;
        let discriminator = remote.discriminator.clone();
        let vi = Arc::clone(&self.0);
        let meet = move || {
            let met = vi.reach(serial, deadline, || {
                vi.meet(host, &discriminator, &own, serial, deadline)
            });
            vi.latch(serial, met);
        };
        let spawned = thread::spawn("vipl-peer", meet);
        match spawned {
            Ok(_) => Ok(()),
            Err(_) => Err(self.0.abandon(serial, Error::Resource)),
        }
    }

    /// What has come of [`peer_request()`](Self::peer_request); once (VI-PEER-9).
    ///
    /// # Errors
    /// [`Error::NotDone`]; [`Error::InvalidState`]: nothing was requested.
    /// [`Error::Timeout`]: there was no peer in time. [`Error::InvalidReliabilityLevel`],
    /// [`Error::InvalidMtu`]: the peer's VI has others. [`Error::NotReachable`],
    /// [`Error::Resource`].
    pub fn peer_done(&self) -> Result<RemoteViAttributes> {
        self.0.with(|core| match core.attempt.peer.take() {
            None => Err(Error::InvalidState),
            Some(Peer::Pending) => {
                core.attempt.peer = Some(Peer::Pending);
                Err(Error::NotDone)
            }
            Some(Peer::Done(result)) => result,
        })
    }

    /// As [`peer_done()`](Self::peer_done), but waits.
    ///
    /// # Errors
    /// As [`peer_done()`](Self::peer_done).
    pub fn peer_wait(&self) -> Result<RemoteViAttributes> {
        loop {
            match self.peer_done() {
                Err(Error::NotDone) => {}
                other => return other,
            }
            let pending = |core: &Core<D>| matches!(core.attempt.peer, Some(Peer::Pending));
            self.0.sleep(Deadline::NEVER, |core| !pending(core))?;
        }
    }
}

impl<D: Device> ViShared<D> {
    /// The remote host, if both addresses are some.
    fn check_addresses(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        deadline: Deadline,
    ) -> Result<HostAddress> {
        local.must_be_of(self.nic.local())?;
        let host = remote.host()?;
        match deadline == Deadline::PAST {
            true => Err(Error::InvalidParameter),
            false => Ok(host),
        }
    }

    /// Begin an attempt of an idle VI, if the function does not mind; its number, and what the
    /// partner is told of the VI.
    pub(super) fn begin(
        self: &Arc<Self>,
        admit: impl FnOnce(&Core<D>) -> Result<()>,
    ) -> Result<(Serial, Told)> {
        must_have_memory()?;
        self.with(|core| {
            if core.engine.state() != State::Idle {
                return Err(Error::InvalidState);
            }
            admit(core)?;
            core.engine.event(&self.nic.regions, Event::Connect)?;
            core.attempt.cancel();
            let own = Told {
                attributes: core.engine.attributes().into(),
                checks: self.nic.checks,
            };
            let serial = Serial {
                attempt: core.attempt.serial,
                lane: self.nic.number() as u32,
            };
            Ok((serial, own))
        })
    }

    /// Do something for an attempt.
    ///
    /// # Errors
    /// [`Error::InvalidState`]: it was given up meanwhile. Those of the function.
    fn during<T>(
        self: &Arc<Self>,
        serial: Serial,
        act: impl FnOnce(&mut Core<D>) -> Result<T>,
    ) -> Result<T> {
        self.with(|core| match core.attempt.serial == serial.attempt {
            true => act(core),
            false => Err(Error::InvalidState),
        })
    }

    /// Do what an attempt needs. A NIC that does not tell of partitions does it again whenever
    /// interfaces have changed, as long as the host is not reachable (VI-NR-2).
    ///
    /// # Errors
    /// Those of the function. [`Error::Timeout`] in the place of [`Error::NotReachable`], at the
    /// deadline, of such a NIC; [`Error::InvalidState`]: the attempt was given up.
    fn reach<T>(
        self: &Arc<Self>,
        serial: Serial,
        deadline: Deadline,
        act: impl Fn() -> Result<T>,
    ) -> Result<T> {
        if self.nic.tells_partitions {
            return act();
        }
        let wake = self.wake_of(serial)?;
        let mut was_out_of_reach = false;
        loop {
            // Before it is done: what changes later ends the sleep.
            let mut tells = self.nic.arrivals.take(&self.nic.fabric, &wake)?;
            match act() {
                Err(Error::NotReachable) => was_out_of_reach = true,
                // The link has come up, and the server has not posted on it yet: nothing tells of that.
                Err(Error::NoMatch) if was_out_of_reach => tells = false,
                other => return other,
            }
            self.during(serial, |core| {
                core.attempt.close_sessions();
                Ok(())
            })?;
            if deadline.remaining() == Some(Duration::ZERO) {
                return Err(Error::Timeout);
            }
            self.nic.arrivals.sleep(&wake, nap(deadline, tells));
        }
    }

    /// The attempt has failed: the VI is as it was before, unless the host is not reachable
    /// (VI-CONN-23, VI-NR-3). What the caller is told.
    pub(super) fn abandon(self: &Arc<Self>, serial: Serial, error: Error) -> Error {
        let failed = self.during(serial, |core| self.give_up(core, error));
        failed.err().unwrap_or(error)
    }

    fn give_up(&self, core: &mut Core<D>, error: Error) -> Result<()> {
        core.attempt.cancel();
        let reliable = core.engine.attributes().level.is_reliable();
        let event = match error {
            Error::NotReachable => Event::NotReachable { reliable },
            _ => Event::Failed,
        };
        core.engine.event(&self.nic.regions, event)
    }

    /// Make a connection of the session that an attempt has led to, not for longer than until the
    /// deadline; the caller abandons the attempt if that fails. The attempt keeps the session until
    /// then: giving it up ends the wait.
    pub(super) fn establish(
        self: &Arc<Self>,
        serial: Serial,
        way: Way<D>,
        deadline: Deadline,
    ) -> Result<()> {
        let Way {
            session,
            meeting,
            checks,
        } = way;
        let deadline = deadline.min(Deadline::after(HANDSHAKE));
        Service::start(&self.nic, "vipl-service")?;
        let link = match meeting {
            None => {
                let own = self.own_pair(session, deadline)?;
                Link::Own(Checked::new(own, checks, Numbers::default()))
            }
            Some(partner) => {
                let lane = self.lane(serial, session, partner, deadline)?;
                let numbers = lane.numbers();
                Link::Shared(Checked::new(lane, checks, numbers))
            }
        };
        self.connected(serial, link)
    }

    /// Begin a connection on a link that was made for it.
    pub(super) fn connected(self: &Arc<Self>, serial: Serial, link: Link<D>) -> Result<()> {
        self.during(serial, |core| {
            core.engine.event(&self.nic.regions, Event::Established)?;
            core.attempt.sessions.clear();
            if let Link::Shared(lane) = core.link.insert(link) {
                if !lane.start(self) {
                    self.note_end();
                }
            }
            Ok(())
        })?;
        self.wake();
        self.list();
        Ok(())
    }

    /// Make a queue pair of a connection's own.
    fn own_pair(&self, session: Arc<Session<D>>, deadline: Deadline) -> Result<Own<D>> {
        let own = Own::open(session, deadline)?;
        let watched = own.session().watch(NEWS, self.id);
        watched.map_err(|_| Error::Resource)?;
        self.share(None);
        Ok(own)
    }

    /// Make a lane of the trunk to a partner.
    fn lane(
        self: &Arc<Self>,
        serial: Serial,
        session: Arc<Session<D>>,
        partner: Meeting,
        deadline: Deadline,
    ) -> Result<Lane<D>> {
        let nic = &self.nic;
        let both = (nic.meeting(serial), partner);
        let interface = session.state()?.interface;
        let patience = Patience {
            deadline,
            wake: self.wake_of(serial)?,
            given_up: || self.during(serial, |_| Ok(())).is_err(),
        };
        let found = nic.trunks.find(interface, both, nic.number(), &patience);
        let (trunk, numbers) = found?;
        let watched = session.watch(ENDS, self.id);
        watched.map_err(|_| Error::Resource)?;
        self.share(Some(&trunk));
        Ok(Lane::new(trunk, session, numbers))
    }

    /// What one sleeps on who waits for something of an attempt: rung when that is given up.
    pub(super) fn wake_of(self: &Arc<Self>, serial: Serial) -> Result<Arc<Wake>> {
        let wake = self.nic.arrivals.enter()?;
        self.during(serial, |core| {
            core.attempt.wakes.enter(&wake);
            Ok(wake)
        })
    }

    /// Let a disconnect close the session of an attempt.
    pub(super) fn keep(self: &Arc<Self>, serial: Serial, session: &Arc<Session<D>>) -> Result<()> {
        self.during(serial, |core| {
            core.attempt.sessions.push(Arc::clone(session));
            Ok(())
        })
    }

    /// Take the session out of an attempt that does not end it.
    pub(super) fn release(self: &Arc<Self>, serial: Serial) {
        // One that was given up has none.
        let _ = self.during(serial, |core| {
            core.attempt.sessions.clear();
            Ok(())
        });
    }

    /// Make the session of an attempt, which ends with it.
    fn open(
        self: &Arc<Self>,
        serial: Serial,
        host: HostAddress,
        open: impl Fn(InterfaceId) -> mp_fabric::Result<Session<D>>,
    ) -> Result<Arc<Session<D>>> {
        let mut failure = Error::NotReachable;
        for interface in self.nic.interfaces_to(host)? {
            match open(interface) {
                Ok(session) => {
                    let session = Arc::new(session);
                    self.keep(serial, &session)?;
                    return Ok(session);
                }
                Err(FabricError::NoPartner(_)) => failure = Error::NoMatch,
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }

    /// Ask a server, and wait for its answer.
    fn ask(
        self: &Arc<Self>,
        host: HostAddress,
        discriminator: &[u8],
        data: &[u8],
        serial: Serial,
        deadline: Deadline,
    ) -> Result<(Arc<Session<D>>, Option<Meeting>, Told)> {
        let name = name(host, discriminator);
        let bare = [&self.nic.meeting(serial).encode()[..], data].concat();
        let session = self.open(serial, host, |interface| {
            self.ask_over(interface, &name, [data, &bare])
        })?;
        let answer = answered(&session, deadline)?;
        let (answer, meeting) = told(&session, &answer).ok_or(Error::NoMatch)?;
        Ok((session, meeting, answer))
    }

    /// Ask a server over an interface, with what it is told of a connection with windows and of one
    /// without.
    fn ask_over(
        &self,
        interface: InterfaceId,
        name: &[u8],
        [data, bare]: [&[u8]; 2],
    ) -> mp_fabric::Result<Session<D>> {
        let nic = &self.nic;
        let client = || nic.fabric.client(interface, PROTOCOL).name(name).pending();
        let without = || client().data(bare).bare().open();
        let with = || {
            let window = nic.window(interface);
            let client = client().data(data);
            client.local(window.clone()).remote(window).open()
        };
        if nic.is_short(interface) {
            return match without() {
                Err(FabricError::NotSupported(_)) => with(),
                other => other,
            };
        }
        match with() {
            Err(FabricError::NoSpace(_)) => without(),
            other => other,
        }
    }

    /// Meet a peer.
    fn meet(
        self: &Arc<Self>,
        host: HostAddress,
        discriminator: &[u8],
        own: &Told,
        serial: Serial,
        deadline: Deadline,
    ) -> Result<RemoteViAttributes> {
        let posts = Posts::new(self, serial, host, discriminator, own)?;
        let session = posts.wait(deadline)?;
        let answer = answered(&session, deadline)?;
        let (theirs, meeting) = told(&session, &answer).ok_or(Error::Timeout)?;
        let fits = |core: &mut Core<D>| theirs.attributes.must_fit(core.engine.attributes());
        self.during(serial, fits)?;
        let way = Way {
            session,
            meeting,
            checks: own.checks || theirs.checks,
        };
        self.establish(serial, way, deadline)?;
        Ok(theirs.attributes)
    }

    /// Keep what has come of a peer's request (VI-PEER-9, VI-PEER-11): whoever asks sees that it
    /// is pending until then.
    fn latch(self: &Arc<Self>, serial: Serial, met: Result<RemoteViAttributes>) {
        // One that was given up has nobody who asks.
        let _ = self.during(serial, |core| {
            if let Err(error) = met {
                self.give_up(core, error)?;
            }
            core.attempt.peer = Some(Peer::Done(met));
            Ok(())
        });
        self.wake();
    }
}
