// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration, which tells nodes and adapters by numbers: the format of `sisci.conf(5)`.
//! Whether a host of the file is reachable is not known here.

use crate::{Error, ADAPTERS};
use mp_fabric::{Errno, Interface, PciFunction};
use std::path::Path;
use tracing::info;

/// Why a configuration cannot be used.
pub use mp_config::FileError as ConfigError;

/// Where the configuration is, unless the environment says otherwise.
pub const CONFIG_PATH: &str = "/etc/sisci.conf";

/// Names another file than [`CONFIG_PATH`].
pub const CONFIG_VARIABLE: &str = "SISCI_CONF";

/// Node id of this host if there is no configuration.
pub const DEFAULT_NODE: u32 = 4;

/// Node ids of hosts; see also [`BROADCAST_NODE`](crate::BROADCAST_NODE).
pub(crate) const NODES: std::ops::RangeInclusive<u32> = 1..=251;

/// A host, as it is seen from one of its adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: u32,
    /// The fabric's id of the host: 0 for the root processor.
    pub peer: u32,
    /// The host's own number of the adapter.
    pub adapter: u32,
    /// What it is called.
    pub names: Vec<String>,
}

/// The numbers of the nodes of the fabric, and those of the local adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    nodes: Vec<Node>,
    adapters: Vec<(u32, PciFunction)>,
}

/// A line that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}: `{text}`; sisci.conf(5) tells what lines are made of")]
pub struct Mistake {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: &'static str,
    /// What it says, without comments.
    pub text: String,
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        let errno = error.why.raw_os_error().map(Errno::from_raw_os_error);
        Error::System(errno.unwrap_or(Errno::INVAL))
    }
}

impl Config {
    /// Read the configuration of this host. Without a file there is this host alone.
    ///
    /// # Errors
    /// The file cannot be read, or has a mistake in a line.
    pub fn load() -> Result<Self, ConfigError> {
        let found = mp_config::load(CONFIG_VARIABLE, Path::new(CONFIG_PATH), Self::parse)?;
        Ok(found.unwrap_or_else(|| {
            info!("no {CONFIG_PATH}: this host is alone, as node {DEFAULT_NODE}");
            Self::default()
        }))
    }

    /// Take a configuration apart.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let mut config = Config::default();
        for (index, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or_default();
            let mut words = content.split_whitespace();
            let parsed = match words.next() {
                None => Ok(()),
                Some("node") => config.add_node(words),
                Some("adapter") => config.add_adapter(words),
                Some(_) => Err("neither node nor adapter"),
            };
            parsed.map_err(|what| Mistake {
                line: index + 1,
                what,
                text: content.trim().into(),
            })?;
        }
        Ok(config)
    }

    fn add_node<'a>(
        &mut self,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<(), &'static str> {
        let id = words.next().and_then(number);
        let mut node = Node {
            id: id.filter(|id| NODES.contains(id)).ok_or("no node id")?,
            ..Node::default()
        };
        let mut peer = None;
        while let Some(key) = words.next() {
            let value = words.next().ok_or("a word is missing at the end")?;
            match key {
                "peer" => peer = Some(number(value).ok_or("not the id of a peer")?),
                "adapter" => node.adapter = adapter(value).ok_or("no number of an adapter")?,
                "name" => node.names.push(value.into()),
                _ => return Err("none of peer, adapter, name"),
            }
        }
        node.peer = peer.ok_or("the node has no peer")?;
        if self.node(node.id).is_some() {
            return Err("another line has that node id");
        }
        let same = |other: &Node| (other.peer, other.adapter) == (node.peer, node.adapter);
        if self.nodes.iter().any(same) {
            return Err("another line has that peer and adapter");
        }
        self.nodes.push(node);
        Ok(())
    }

    fn add_adapter<'a>(
        &mut self,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<(), &'static str> {
        let number = words
            .next()
            .and_then(adapter)
            .ok_or("no number of an adapter")?;
        let function = words.next().and_then(function).ok_or("no PCI function")?;
        if words.next().is_some() {
            return Err("there is too much");
        }
        if self.adapters.iter().any(|(_, other)| *other == function) {
            return Err("another line has that PCI function");
        }
        self.adapters.push((number, function));
        Ok(())
    }

    /// The line of a node.
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The id of a host, as it is seen from its adapter of that number.
    pub fn node_of(&self, peer: Option<u32>, adapter: u32) -> Option<u32> {
        if self.nodes.is_empty() {
            return (adapter == 0).then_some(DEFAULT_NODE);
        }
        let is = |node: &&Node| Some(node.peer) == peer && node.adapter == adapter;
        self.nodes.iter().find(is).map(|node| node.id)
    }

    /// The id of a host that is a peer; any of its adapters.
    pub fn node_of_peer(&self, peer: u32) -> Option<u32> {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.peer == peer).map(|node| node.id)
    }

    /// Those that are called so, one for each adapter.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Node> {
        let is = move |node: &&Node| node.names.iter().any(|other| other == name);
        self.nodes.iter().filter(is)
    }

    /// Whether the end of a link belongs to an adapter. Without numbers for adapters, all belong
    /// to the first one.
    pub fn has(&self, adapter: u32, interface: &Interface) -> bool {
        if self.adapters.is_empty() {
            return adapter == 0;
        }
        let own = |(number, at): &(u32, PciFunction)| {
            *number == adapter && interface.pci.is_some_and(|(_, place)| place == *at)
        };
        self.adapters.iter().any(own)
    }

    /// Whether adapters have numbers of their own.
    pub(crate) fn names_adapters(&self) -> bool {
        !self.adapters.is_empty()
    }
}

/// A number as C writes it.
fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn adapter(word: &str) -> Option<u32> {
    number(word).filter(|adapter| *adapter < ADAPTERS)
}

/// A place on the PCI bus, as the system writes it: `0000:05:00.0`.
fn function(word: &str) -> Option<PciFunction> {
    let (front, function) = word.split_once('.')?;
    let mut parts = front.split(':');
    let mut part = || u32::from_str_radix(parts.next()?, 16).ok();
    let (domain, bus, device) = (part()?, part()?, part()?);
    let function = u8::from_str_radix(function, 16).ok()?;
    if parts.next().is_some() || device > 31 || function > 7 {
        return None;
    }
    Some(PciFunction {
        domain,
        bus: bus.try_into().ok()?,
        device: device.try_into().ok()?,
        function,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        # The hosts of the rack.
        node 4 peer 0 name rp name head
        node 8 peer 0x108 name ep1     # in slot 1
        node 12 peer 0 adapter 1 name rp

        adapter 0 0000:05:00.0
        adapter 1 0001:42:1f.5
    ";

    /// SI-NIDNAME-1: names and hosts are found by what the file says.
    #[test]
    fn nodes_have_names_and_peers() {
        let config = Config::parse(TEXT).unwrap();
        let ids = |name| config.named(name).map(|node| node.id).collect::<Vec<_>>();
        assert_eq!(ids("rp"), [4, 12]);
        assert_eq!(ids("head"), [4]);
        assert_eq!(ids("nobody"), [0; 0]);
        assert_eq!(config.node_of(Some(0), 1), Some(12));
        assert_eq!(config.node_of(Some(0x108), 0), Some(8));
        assert_eq!(config.node_of(Some(0x108), 1), None);
        assert_eq!(config.node_of(None, 0), None);
        assert_eq!(config.node_of_peer(0x108), Some(8));
        assert_eq!(config.node(8).unwrap().names, ["ep1"]);
    }

    #[test]
    fn without_a_file_there_is_this_host() {
        let config = Config::default();
        assert_eq!(config.node_of(None, 0), Some(DEFAULT_NODE));
        assert_eq!(config.node_of(Some(7), 1), None);
        assert_eq!(config.node_of_peer(7), None);
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        for (text, line) in [
            ("node", 1),
            ("\nnode 0 peer 1", 2),
            ("node 252 peer 1", 1),
            ("node 4", 1),
            ("node 4 peer", 1),
            ("node 4 peer x", 1),
            ("node 4 peer 1 adapter 4", 1),
            ("node 4 peer 1 colour red", 1),
            ("node 4 peer 1\nnode 4 peer 2", 2),
            ("node 4 peer 1\nnode 8 peer 1", 2),
            ("adapter 4 0000:00:00.0", 1),
            ("adapter 0 0000:00:00", 1),
            ("adapter 0 0000:00:20.0", 1),
            ("adapter 0 0000:00:00.8", 1),
            ("adapter 0 0000:00:00.0 more", 1),
            ("adapter 0 0000:00:00.0\nadapter 1 0000:00:00.0", 2),
            ("nodes 4 peer 1", 1),
        ] {
            let mistake = Config::parse(text).unwrap_err();
            assert_eq!(mistake.line, line, "{text}");
        }
    }
}
