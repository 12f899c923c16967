// SPDX-License-Identifier: MIT OR Apache-2.0

//! What there is in the fabric: nodes, and the endpoints of each. For tools; programs find each other by
//! the numbers that were planned for them.

use crate::{
    attributes::EndpointType,
    claim::{failed, interfaces, node_of, PROTOCOL},
    endpoint::ENDPOINTS_MAX,
    node::ANSWER,
    wire::{Subject, NEXT_PORT, PARTNER},
    Attribute, Deadline, Device, Endpoint, Error, Node, NodeId, Result, PORT_MAX,
};

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundNode {
    /// Its domain and number.
    pub node: NodeId,
    /// The host that it is on, by its number in the fabric.
    pub host: u32,
}

/// An endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundEndpoint {
    /// Its handle.
    pub endpoint: Endpoint,
    /// What it is for.
    pub kind: EndpointType,
    /// Flags, as of [`Attribute::Status`].
    pub status: u64,
    /// The other end of its channel, if it is connected.
    pub partner: Option<Endpoint>,
}

impl<D: Device> Node<D> {
    /// List the nodes of this host and of all that links lead to, this one included. What a host says of a
    /// domain that is not on it is no node.
    ///
    /// # Errors
    /// [`Error::NodeInitFailed`]: the fabric fails.
    pub fn nodes(&self) -> Result<Vec<FoundNode>> {
        let fabric = self.fabric();
        let mut found = Vec::new();
        for interface in interfaces(fabric)? {
            let host = match interface.loopback {
                true => Some(fabric.host().map_err(failed)?),
                false => interface.peer.filter(|_| interface.up),
            };
            let Some(host) = host else { continue };
            // One that has gone down since then has nothing.
            for uid in fabric.windows(interface.id).unwrap_or_default() {
                let window = fabric.window(interface.id, uid);
                let is_node = window.is_ok_and(|window| window.protocol == PROTOCOL);
                let is_here = |node: &NodeId| self.topology().hosts(node.domain()).contains(&host);
                let node = node_of(uid).filter(|node| is_node && is_here(node));
                found.extend(node.map(|node| FoundNode { node, host }));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// List the endpoints of a node, by their ports. Those that come and go meanwhile may be missing. The
    /// node has as long to tell them all as it has to answer one question.
    ///
    /// # Errors
    /// As [`node_attribute`](Self::node_attribute); [`Error::AttributeNumber`]: the node is of an
    /// older release, which does not tell.
    pub fn endpoints(&self, node: NodeId) -> Result<Vec<FoundEndpoint>> {
        let mut found = Vec::new();
        let mut from = 0;
        let deadline = Deadline::after(ANSWER);
        let may_be = |from: u16| move |port: &u16| *port >= from && u32::from(*port) <= PORT_MAX;
        // A node cannot have more.
        for _ in 0..ENDPOINTS_MAX {
            let subject = Subject::Endpoint { port: from };
            let port = match self.ask(node, subject, NEXT_PORT, deadline) {
                Err(Error::EndpointInvalid) => break,
                told => u16::try_from(told?).ok().filter(may_be(from)),
            };
            let port = port.ok_or(Error::General)?;
            found.extend(self.found(Endpoint::of(node, port), deadline)?);
            from = port + 1;
            if u32::from(from) > PORT_MAX {
                break;
            }
        }
        Ok(found)
    }

    /// What there is to say of an endpoint; nothing if it has gone.
    fn found(&self, endpoint: Endpoint, deadline: Deadline) -> Result<Option<FoundEndpoint>> {
        let subject = Subject::Endpoint {
            port: endpoint.port(),
        };
        let partner = self.ask(endpoint.node(), subject, PARTNER, deadline);
        let told = |attribute| self.attribute_until(endpoint, attribute, deadline);
        match (told(Attribute::Type), told(Attribute::Status)) {
            (Err(Error::EndpointInvalid), _) | (_, Err(Error::EndpointInvalid)) => Ok(None),
            (kind, status) => Ok(Some(FoundEndpoint {
                endpoint,
                kind: EndpointType::of(kind?).ok_or(Error::General)?,
                status: status?,
                partner: partner.ok().and_then(Endpoint::from_raw),
            })),
        }
    }
}
