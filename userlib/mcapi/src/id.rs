// SPDX-License-Identifier: MIT OR Apache-2.0

//! What nodes and endpoints are called.

use crate::{Error, Result};
use std::fmt;

/// Largest number of a domain.
pub const DOMAIN_MAX: u32 = 0xffff;
/// Largest number of a node.
pub const NODE_MAX: u32 = 0x7fff;
/// Largest port.
pub const PORT_MAX: u32 = 0xfffe;

/// A node: its domain, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    domain: u16,
    node: u16,
}

impl NodeId {
    /// A node of a domain.
    ///
    /// # Errors
    /// [`Error::DomainInvalid`], [`Error::NodeInvalid`]: beyond the largest number.
    pub fn new(domain: u32, node: u32) -> Result<Self> {
        let small = |number: u32, most| u16::try_from(number).ok().filter(|_| number <= most);
        Ok(NodeId {
            domain: small(domain, DOMAIN_MAX).ok_or(Error::DomainInvalid)?,
            node: small(node, NODE_MAX).ok_or(Error::NodeInvalid)?,
        })
    }

    /// The domain.
    pub fn domain(self) -> u32 {
        self.domain.into()
    }

    /// Its number in the domain.
    pub fn node(self) -> u32 {
        self.node.into()
    }

    /// The pair as one number of 31 bits.
    pub(crate) fn number(self) -> u32 {
        self.domain() << 15 | self.node()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{},{}>", self.domain, self.node)
    }
}

/// The handle of an endpoint: a value that means the same on all nodes, and may be sent in a
/// message (MC-GEN-13, MC-EPGET-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    node: NodeId,
    port: u16,
}

impl Endpoint {
    /// The endpoint of a node that has a port.
    ///
    /// # Errors
    /// [`Error::PortInvalid`]: beyond the largest port.
    pub fn new(node: NodeId, port: u32) -> Result<Self> {
        let small = u16::try_from(port).ok().filter(|_| port <= PORT_MAX);
        let port = small.ok_or(Error::PortInvalid)?;
        Ok(Endpoint { node, port })
    }

    pub(crate) fn of(node: NodeId, port: u16) -> Self {
        Endpoint { node, port }
    }

    /// Its node.
    pub fn node(self) -> NodeId {
        self.node
    }

    /// Its port.
    pub fn port(self) -> u16 {
        self.port
    }

    /// The handle as a number: domain, node and port of 16 bits each, the domain the most
    /// significant one.
    pub fn to_raw(self) -> u64 {
        let [domain, node, port] = [self.node.domain, self.node.node, self.port].map(u64::from);
        domain << 32 | node << 16 | port
    }

    /// The handle of a number; nothing if it cannot be one.
    pub fn from_raw(raw: u64) -> Option<Self> {
        let part = |shift: u32| (raw >> shift & 0xffff) as u32;
        let node = NodeId::new(part(32), part(16)).ok()?;
        let endpoint = Endpoint::new(node, part(0)).ok()?;
        (endpoint.to_raw() == raw).then_some(endpoint)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeId { domain, node } = self.node;
        write!(f, "<{domain},{node},{}>", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// MC-EPCREATE-6: no two endpoints have one handle.
        #[test]
        fn handles_are_numbers_and_back(domain: u32, node: u32, port: u32, raw: u64) {
            let named = NodeId::new(domain % 0x1_0001, node % 0x8001);
            prop_assert_eq!(named.is_ok(), domain % 0x1_0001 < 0x1_0000 && node % 0x8001 < 0x8000);
            let endpoint = named.and_then(|named| Endpoint::new(named, port % 0x1_0000));
            if let Ok(endpoint) = endpoint {
                prop_assert_eq!(Endpoint::from_raw(endpoint.to_raw()), Some(endpoint));
            }
            if let Some(endpoint) = Endpoint::from_raw(raw & 0xffff_ffff_ffff) {
                prop_assert_eq!(endpoint.to_raw(), raw & 0xffff_ffff_ffff);
            }
        }
    }

    /// MC-GEN-17: ids outside of the limits are named.
    #[test]
    fn numbers_have_limits() {
        assert_eq!(NodeId::new(0x1_0000, 0), Err(Error::DomainInvalid));
        assert_eq!(NodeId::new(u32::MAX, 0), Err(Error::DomainInvalid));
        assert_eq!(NodeId::new(0, 0x8000), Err(Error::NodeInvalid));
        let node = NodeId::new(0xffff, 0x7fff).unwrap();
        assert_eq!(Endpoint::new(node, 0xffff), Err(Error::PortInvalid));
        assert_eq!(
            Endpoint::new(node, 0xfffe).unwrap().to_raw(),
            0xffff_7fff_fffe
        );
        for raw in [0xffff, 0x8000_0000, 1 << 48, u64::MAX] {
            assert_eq!(Endpoint::from_raw(raw), None);
        }
        assert_eq!(Endpoint::from_raw(0).unwrap().to_string(), "<0,0,0>");
    }
}
