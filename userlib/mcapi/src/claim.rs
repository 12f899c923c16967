// SPDX-License-Identifier: MIT OR Apache-2.0

//! Claims of node numbers: one process of the fabric has each (MC-INIT-6). See
//! `Documentation/mcapi.md`.
//!
//! | session | where | name | from | until |
//! |---|---|---|---|---|
//! | mark | loopback interface | none | first | the node ends |
//! | claiming | links | [`Name::Claiming`] | before others are asked | "owned" is there |
//! | owned | links | [`Name::Owned`] | nobody else has it | the node ends |
//! | listener | all | [`Name::Listener`] | the same | the node ends |
//! | data of a channel | the one that leads to the other end | [`Name::channel`] | both ends open | both are closed |
//!
//! All but listeners are bare servers that hold requests and answer none: they are only found.
//! The mark and "owned" sessions have the node's unique identifier, of which the kernel lets there be
//! one on an interface, and are posted with the claim's [`Nonce`]. A request that a node sends has
//! the nonce as well: whoever gets it looks whether the host that it comes from has that node, and
//! whether the two are equal.

use crate::{wire::VERSION, Error, NodeId, Result, Topology};
use mp_fabric::{Device, Error as FabricError, Fabric, Interface, InterfaceId, Session};
use rustix::rand::{getrandom, GetRandomFlags};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};
use tracing::error;

/// The protocol of all sessions of nodes.
pub(crate) const PROTOCOL: u32 = 0x4d43_4150;
/// How long a node with a lower host number waits for another one to give up.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// What tells a claim of a node from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonce([u8; 8]);

impl Nonce {
    /// # Errors
    /// [`Error::NodeInitFailed`]: the kernel has none, which does not happen.
    pub(crate) fn new() -> Result<Self> {
        let mut bytes = [0; 8];
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(8) => Ok(Nonce(bytes)),
            _ => Err(Error::NodeInitFailed),
        }
    }

    /// As the mark and "owned" sessions are posted with it.
    pub(crate) fn bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

/// What a client asks a listener for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The node that asks.
    pub(crate) node: NodeId,
    pub(crate) nonce: Nonce,
}

/// What demands are for: a link between two nodes, the only purpose there is.
const PURPOSE: u16 = 1;

impl Demand {
    /// Version, purpose (16 bits each), node (32), nonce (64), little-endian.
    pub(crate) fn bytes(&self) -> [u8; 16] {
        let head = VERSION | u32::from(PURPOSE) << 16;
        let mut bytes = [0; 16];
        let parts = [
            &head.to_le_bytes()[..],
            &self.node.number().to_le_bytes(),
            self.nonce.bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    /// The demand of bytes; nothing if they are none. Later versions may say more.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let (head, number) = (word(0)?, word(4)?);
        if head as u16 == 0 || head >> 16 != u32::from(PURPOSE) {
            return None;
        }
        Some(Demand {
            node: NodeId::new(number >> 15, number & 0x7fff).ok()?,
            nonce: Nonce(bytes.get(8..16)?.try_into().ok()?),
        })
    }

    /// Whether the host at the other end of an interface has the node, with that nonce.
    pub(crate) fn is_of<D: Device>(&self, fabric: &Fabric<D>, interface: InterfaceId) -> bool {
        let window = fabric.window(interface, uid(self.node));
        window.is_ok_and(|window| window.protocol == PROTOCOL && window.data == self.nonce.0)
    }
}

/// What a session of a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Claiming = 1,
    Owned = 2,
    Listener = 3,
}

impl Name {
    /// The name of the session for the data of a channel.
    pub(crate) fn channel(id: u64) -> Vec<u8> {
        let mut name = b"mcapi\x04".to_vec();
        name.extend(id.to_le_bytes());
        name
    }

    /// The name of the session.
    pub(crate) fn of(self, id: NodeId) -> Vec<u8> {
        let mut name = b"mcapi".to_vec();
        name.push(self as u8);
        name.extend(id.number().to_le_bytes());
        name
    }
}

/// The unique identifier of a node's mark, and of its "owned" sessions: no two nodes have the same.
pub(crate) fn uid(id: NodeId) -> u32 {
    0x8000_0000 | id.number()
}

/// The node whose mark, or "owned" session, has a unique identifier.
pub(crate) fn node_of(uid: u32) -> Option<NodeId> {
    let number = uid & 0x7fff_ffff;
    let node = NodeId::new(number >> 15, number & 0x7fff).ok();
    node.filter(|_| uid != number)
}

/// Interfaces of this host that exist now.
pub(crate) fn interfaces<D: Device>(fabric: &Fabric<D>) -> Result<Vec<Interface>> {
    let ids = fabric.interfaces().map_err(failed)?.into_iter();
    Ok(ids.filter_map(|id| fabric.interface(id).ok()).collect())
}

/// What initializing fails with when the fabric does.
pub(crate) fn failed(error: FabricError) -> Error {
    error!("the node cannot be initialized: {error}");
    Error::NodeInitFailed
}

/// Post a session that is only found.
pub(crate) fn post<D: Device>(
    fabric: &Fabric<D>,
    interface: InterfaceId,
    uid: u32,
    name: &[u8],
    data: &[u8],
) -> mp_fabric::Result<Session<D>> {
    let server = fabric.server(interface, PROTOCOL).uid(uid).data(data);
    server.name(name).bare().hold().open()
}

/// A claim that has succeeded, until "owned" sessions are there.
#[derive(Debug)]
pub(crate) struct Claim<D: Device> {
    mark: Session<D>,
    claiming: Vec<Session<D>>,
}

impl<D: Device> Claim<D> {
    /// "Owned" sessions are there: the mark, which has to be kept.
    pub(crate) fn settle(self) -> Session<D> {
        drop(self.claiming);
        self.mark
    }
}

/// Claim a number, over all links that are up.
///
/// # Errors
/// [`Error::DomainInvalid`]: this host, by its number, is none of the domain.
/// [`Error::NodeInitFailed`]: another process has it, or the fabric fails.
pub(crate) fn claim<D: Device>(
    fabric: &Fabric<D>,
    topology: &Topology,
    id: NodeId,
    host: u32,
    nonce: &Nonce,
) -> Result<Claim<D>> {
    if !topology.hosts(id.domain()).contains(&host) {
        return Err(Error::DomainInvalid);
    }
    let (own, links): (Vec<_>, Vec<_>) = interfaces(fabric)?
        .into_iter()
        .partition(|interface| interface.loopback);
    let own = own.first().ok_or(Error::NodeInitFailed)?;
    let mark = post(fabric, own.id, uid(id), &[], nonce.bytes()).map_err(failed)?;
    let links: Vec<_> = links.into_iter().filter(|link| link.up).collect();
    let mut claiming = Vec::new();
    for link in &links {
        match post(fabric, link.id, 0, &Name::Claiming.of(id), &[]) {
            Ok(session) => claiming.push(session),
            // It is down by now, or the other host has no nodes at all.
            Err(FabricError::InterfaceDown(_) | FabricError::NoInterface(_)) => {}
            Err(FabricError::NotSupported(_)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let begun = Instant::now();
    while is_contested(fabric, &links, id, host)? {
        if begun.elapsed() > PATIENCE {
            return Err(Error::NodeInitFailed);
        }
        sleep(PAUSE);
    }
    Ok(Claim { mark, claiming })
}

/// Whether a host with a higher number claims the same.
///
/// # Errors
/// [`Error::NodeInitFailed`]: a host has it, or one with a lower number claims it.
fn is_contested<D: Device>(
    fabric: &Fabric<D>,
    links: &[Interface],
    id: NodeId,
    host: u32,
) -> Result<bool> {
    let mut contested = false;
    for link in links {
        // In this order: "claiming" is withdrawn after "owned" is there.
        if is_found(fabric, link.id, &Name::Claiming.of(id))? {
            if link.peer.is_some_and(|peer| peer < host) {
                return Err(Error::NodeInitFailed);
            }
            contested = true;
        }
        if is_found(fabric, link.id, &Name::Owned.of(id))? {
            return Err(Error::NodeInitFailed);
        }
    }
    Ok(contested)
}

/// Ask the other host whether it has a session of that name. It is asked by one process of this
/// host at a time: the one with the mark.
fn is_found<D: Device>(fabric: &Fabric<D>, link: InterfaceId, name: &[u8]) -> Result<bool> {
    let client = fabric.client(link, PROTOCOL).name(name).bare().pending();
    match client.open() {
        // The request is withdrawn.
        Ok(_) => Ok(true),
        Err(
            FabricError::NoPartner(_) | FabricError::InterfaceDown(_) | FabricError::NoInterface(_),
        ) => Ok(false),
        Err(FabricError::NotSupported(_)) => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Demands are bytes and back; later versions say more, and others are none.
    #[test]
    fn demands_say_who_asks() {
        let demand = Demand {
            node: NodeId::new(3, 5).unwrap(),
            nonce: Nonce(*b"12345678"),
        };
        let bytes = demand.bytes();
        assert_eq!(
            bytes,
            *b"\x01\0\x01\0\x05\x80\x01\0"
                .iter()
                .chain(b"12345678")
                .copied()
                .collect::<Vec<_>>()
        );
        assert_eq!(Demand::read(&bytes), Some(demand));
        let mut later = bytes.to_vec();
        later.push(7);
        later[0] = 9;
        assert_eq!(Demand::read(&later), Some(demand));
        for (at, value) in [(0, 0), (2, 2), (7, 0xff)] {
            let mut bad = bytes;
            bad[at] = value;
            assert_eq!(Demand::read(&bad), None, "{at}");
        }
        assert_eq!(Demand::read(&bytes[..15]), None);
        assert_ne!(Nonce::new(), Nonce::new());
    }

    /// No two nodes, and no two purposes, have one name; no uid means "any".
    #[test]
    fn names_are_their_nodes_own() {
        let ids = [(0, 0), (0, 1), (1, 0), (0xffff, 0x7fff)];
        let ids = ids.map(|(domain, node)| NodeId::new(domain, node).unwrap());
        let mut names: Vec<_> = ids
            .iter()
            .flat_map(|id| [Name::Claiming, Name::Owned, Name::Listener].map(|name| name.of(*id)))
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 12);
        let mut uids = ids.map(uid).to_vec();
        uids.dedup();
        assert!(uids.len() == 4 && !uids.contains(&0));
    }
}
