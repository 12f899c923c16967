// SPDX-License-Identifier: MIT OR Apache-2.0

//! Virtual devices, with the numbers of nodes and adapters. All of a process share one context of
//! the fabric: programs that have a virtual device for each resource copy from the segment of one
//! of them to that of another one (SI-OPEN-2).

use crate::{
    config::NODES,
    dma,
    users::{User, Users},
    Config, Error, Result, ADAPTERS, ANSWER,
};
use mp_fabric::{
    CharDevice, Deadline, Device, Fabric, Interface, InterfaceId, Peer, Reactor, Status,
};
use std::{
    fmt, fs,
    sync::{Arc, Mutex, OnceLock, Weak},
};

/// What the system tells of the fabric's id of this host.
const SELF: &str = "/sys/kernel/mp/self";

/// Whether this host's numbers have the most significant byte first.
const BIG_ENDIAN: bool = cfg!(target_endian = "big");

/// A channel to the driver. Copies are the same one.
pub struct Desc<D: Device = CharDevice> {
    pub(crate) context: Arc<Context<D>>,
    users: Users,
}

/// What all virtual devices of a process have in common.
pub(crate) struct Context<D: Device> {
    pub(crate) fabric: Fabric<D>,
    config: Arc<Config>,
    status: OnceLock<Option<Status>>,
    pub(crate) reactor: Reactor<D>,
    pub(crate) queues: Mutex<Vec<Weak<dma::Inner<D>>>>,
}

impl<D: Device> Clone for Desc<D> {
    fn clone(&self) -> Self {
        Desc {
            context: Arc::clone(&self.context),
            users: self.users.clone(),
        }
    }
}

impl<D: Device> fmt::Debug for Desc<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desc").finish_non_exhaustive()
    }
}

/// A local adapter: the ends of links that have its number.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Its number.
    pub number: u32,
    /// The loopback interface, which every adapter has.
    pub loopback: Interface,
    /// The ends of links.
    pub links: Vec<Interface>,
}

impl Adapter {
    /// Ids of all its interfaces.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = InterfaceId> + '_ {
        let links = self.links.iter().map(|link| link.id);
        std::iter::once(self.loopback.id).chain(links)
    }

    /// Those that tell the adapter's state: the ends of links, or the loopback interface if there
    /// are none.
    pub(crate) fn telling(&self) -> impl Iterator<Item = InterfaceId> + '_ {
        let skipped = usize::from(!self.links.is_empty());
        self.interfaces().skip(skipped)
    }
}

impl<D: Device> Desc<D> {
    pub(crate) fn new(context: Arc<Context<D>>) -> Self {
        Desc {
            context,
            users: Users::default(),
        }
    }

    pub(crate) fn fabric(&self) -> &Fabric<D> {
        &self.context.fabric
    }

    /// Make the virtual device stay.
    pub(crate) fn enter(&self) -> Result<User> {
        self.users.enter()
    }

    /// Close the virtual device.
    ///
    /// # Errors
    /// [`Error::Busy`]: something that was made on it is still there.
    pub fn close(&self) -> Result<()> {
        self.users.release(|| Ok(()))
    }

    /// The status words of this context; nothing if the driver has none.
    pub(crate) fn status(&self) -> Result<Option<&Status>> {
        if let Some(status) = self.context.status.get() {
            return Ok(status.as_ref());
        }
        let status = self.fabric().status()?;
        Ok(self.context.status.get_or_init(|| status).as_ref())
    }

    fn interface_list(&self) -> Result<Vec<Interface>> {
        let ids = self.fabric().interfaces()?;
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            match self.fabric().interface(id) {
                // Where no window leads, there are no nodes.
                Ok(interface) if interface.routed => {}
                Ok(interface) => all.push(interface),
                // It has gone since it was listed.
                Err(mp_fabric::Error::NoInterface(_)) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(all)
    }

    /// A local adapter.
    ///
    /// # Errors
    /// [`Error::IllegalAdapterNo`], [`Error::NoSuchAdapterNo`].
    pub fn adapter(&self, number: u32) -> Result<Adapter> {
        if number >= ADAPTERS {
            return Err(Error::IllegalAdapterNo);
        }
        let (loopback, links): (Vec<_>, Vec<_>) = self
            .interface_list()?
            .into_iter()
            .partition(|interface| interface.loopback);
        let config = &self.context.config;
        let links: Vec<_> = links
            .into_iter()
            .filter(|link| config.has(number, link))
            .collect();
        // Without numbers for adapters the first one is always there.
        let there = !links.is_empty() || !config.names_adapters() && number == 0;
        let loopback = loopback.into_iter().next();
        match loopback.filter(|_| there) {
            Some(loopback) => Ok(Adapter {
                number,
                loopback,
                links,
            }),
            None => Err(Error::NoSuchAdapterNo),
        }
    }

    /// The node id of this host at an adapter.
    ///
    /// # Errors
    /// [`Error::IllegalAdapterNo`], [`Error::NoSuchAdapterNo`]; [`Error::NoSuchNodeId`]: the
    /// configuration does not have this host.
    pub fn local_node(&self, adapter: u32) -> Result<u32> {
        let adapter = self.adapter(adapter)?;
        self.node_at(&adapter).ok_or(Error::NoSuchNodeId)
    }

    /// The node id of this host at an adapter, if it has one.
    pub fn node_at(&self, adapter: &Adapter) -> Option<u32> {
        let own = self.own_peer(&adapter.loopback);
        self.context.config.node_of(own, adapter.number)
    }

    /// The fabric's id of this host. The loopback interface may have one that means the host
    /// itself everywhere; the system tells the other one.
    fn own_peer(&self, loopback: &Interface) -> Option<u32> {
        let config = &self.context.config;
        let known = |peer: &u32| config.node_of_peer(*peer).is_some();
        loopback.peer.filter(known).or_else(|| {
            let text = fs::read_to_string(SELF).ok()?;
            let digits = text.trim().trim_start_matches("0x");
            u32::from_str_radix(digits, 16).ok()
        })
    }

    /// The interface of an adapter that leads to a node.
    ///
    /// # Errors
    /// In this order: those of [`adapter()`](Self::adapter); [`Error::IllegalNodeId`],
    /// [`Error::NoSuchNodeId`]; [`Error::NoLinkAccess`]: a link is down that may lead there,
    /// [`Error::NoRemoteLinkAccess`]: none does. [`Error::InconsistentVersions`]: the node has the
    /// bytes of numbers in another order.
    pub(crate) fn route(&self, adapter: u32, node: u32) -> Result<InterfaceId> {
        let adapter = self.adapter(adapter)?;
        if !NODES.contains(&node) {
            return Err(Error::IllegalNodeId);
        }
        if self.node_at(&adapter) == Some(node) {
            return Ok(adapter.loopback.id);
        }
        let known = self.context.config.node(node).ok_or(Error::NoSuchNodeId)?;
        if Some(known.peer) == self.own_peer(&adapter.loopback) {
            return Ok(adapter.loopback.id);
        }
        let mut links = adapter.links.iter();
        match links.find(|link| link.up && link.peer == Some(known.peer)) {
            // What programs write would mean something else there.
            Some(link)
                if link
                    .remote
                    .is_some_and(|host| host.big_endian != BIG_ENDIAN) =>
            {
                Err(Error::InconsistentVersions)
            }
            Some(link) => Ok(link.id),
            None if adapter.links.iter().all(|link| link.up) && !adapter.links.is_empty() => {
                Err(Error::NoRemoteLinkAccess)
            }
            None => Err(Error::NoLinkAccess),
        }
    }

    /// Ask whether a node answers.
    ///
    /// # Errors
    /// Those of a node that does not, and why: [`Error::NoLinkAccess`],
    /// [`Error::NoRemoteLinkAccess`]; [`Error::IllegalNodeId`], [`Error::NoSuchNodeId`], and
    /// those of the adapter.
    pub fn probe(&self, adapter: u32, node: u32) -> Result<()> {
        let interface = self.route(adapter, node)?;
        let answered = self.fabric().probe(interface, Deadline::after(ANSWER));
        answered.map_err(|error| match Error::from(error) {
            Error::Timeout | Error::NoSuchSegment => Error::NoRemoteLinkAccess,
            other => no_call(other),
        })
    }

    /// Whether the driver copies in the background.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn has_queues(&self) -> Result<bool> {
        self.has(mp_fabric::sys::MP_FEATURE_QUEUES)
    }

    /// Whether the driver has a feature.
    pub(crate) fn has(&self, feature: u32) -> Result<bool> {
        Ok(self.fabric().info()?.features & u64::from(feature) != 0)
    }

    /// The node that a notice came from, and the adapter; 0 for a host that has no number.
    pub(crate) fn origin(&self, peer: Peer) -> (u32, u32) {
        let config = &self.context.config;
        let interface = self.fabric().interface(peer.interface).ok();
        let loopback = interface.as_ref().is_some_and(|it| it.loopback);
        let adapter = interface
            .as_ref()
            .and_then(|it| (0..ADAPTERS).find(|adapter| config.has(*adapter, it)));
        let adapter = adapter.unwrap_or(0);
        let node = match loopback {
            true => interface
                .as_ref()
                .and_then(|loopback| config.node_of(self.own_peer(loopback), adapter)),
            false => config.node_of_peer(peer.id),
        };
        (node.unwrap_or(0), adapter)
    }
}

/// A call that the driver does not have: what it is for is missing.
pub(crate) fn no_call(error: Error) -> Error {
    match error {
        Error::System(rustix::io::Errno::NOTTY) => Error::NotImplemented,
        other => other,
    }
}

impl<D: Device> Context<D> {
    pub(crate) fn new(fabric: Fabric<D>, config: Arc<Config>) -> Self {
        Context {
            reactor: Reactor::new(&fabric, "sisci"),
            fabric,
            config,
            status: OnceLock::new(),
            queues: Mutex::new(Vec::new()),
        }
    }
}
