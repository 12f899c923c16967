// SPDX-License-Identifier: MIT OR Apache-2.0

//! `mcapi_ls`: domains, nodes, endpoints and channels.
//!
//! The tool is a node itself, which asks all others; it does not list itself.

use crate::{failure::Outcome, Tool};
use clap::Parser;
use mcapi::{
    Device, EndpointType, Error, Fabric, FoundEndpoint, FoundNode, Topology, NODE_MAX,
    STATUS_CLOSE_PENDING, STATUS_CONNECTED, STATUS_OPEN, STATUS_OPEN_PENDING, STATUS_RECEIVE,
    STATUS_SEND,
};
use mp_table::{Align, Columns};
use mp_tools::{Output, Sink};
use serde::Serialize;

/// Lists nodes of MCAPI, with their endpoints and channels.
#[derive(Parser, Clone, Debug)]
#[command(name = "mcapi_ls", version, after_help = "mcapi_ls(1) tells more.")]
pub struct Options {
    /// List this domain only
    #[arg(long)]
    domain: Option<u32>,

    /// Be this node of the own domain while asking
    #[arg(long, default_value_t = NODE_MAX)]
    node: u32,

    /// Print JSON, a line for each node
    #[arg(long)]
    json: bool,
}

/// Columns: the width of each, its alignment and its name.
const COLUMNS: [(usize, Align, &str); 6] = [
    (6, Align::Right, "domain"),
    (6, Align::Right, "node"),
    (10, Align::Right, "host"),
    (6, Align::Right, "port"),
    (8, Align::Left, "type"),
    (40, Align::Left, "channel"),
];

/// A node, as it is printed.
#[derive(Serialize)]
struct Listed {
    domain: u32,
    node: u32,
    host: u32,
    /// Nothing: it has not told.
    endpoints: Option<Vec<ListedEndpoint>>,
}

#[derive(Serialize)]
struct ListedEndpoint {
    port: u16,
    r#type: &'static str,
    /// What its end of a channel is, and does.
    state: Vec<&'static str>,
    /// Domain, node and port of the other end.
    partner: Option<(u32, u32, u16)>,
}

impl From<FoundEndpoint> for ListedEndpoint {
    fn from(found: FoundEndpoint) -> Self {
        let states = [
            (STATUS_CONNECTED, "connected"),
            (STATUS_SEND, "send"),
            (STATUS_RECEIVE, "receive"),
            (STATUS_OPEN_PENDING, "opening"),
            (STATUS_OPEN, "open"),
            (STATUS_CLOSE_PENDING, "closing"),
        ];
        let has = |(flag, _): &(u64, _)| found.status & flag != 0;
        ListedEndpoint {
            port: found.endpoint.port(),
            r#type: match found.kind {
                EndpointType::Message => "message",
                EndpointType::PacketChannel => "packet",
                EndpointType::ScalarChannel => "scalar",
            },
            state: states
                .into_iter()
                .filter(has)
                .map(|(_, name)| name)
                .collect(),
            partner: found.partner.map(|partner| {
                let node = partner.node();
                (node.domain(), node.node(), partner.port())
            }),
        }
    }
}

impl ListedEndpoint {
    /// What the table says of its channel.
    fn channel(&self) -> String {
        let partner = self.partner.map(|(domain, node, port)| {
            let arrow = match self.state.contains(&"send") {
                true => "to",
                false => "from",
            };
            format!("{arrow} <{domain},{node},{port}>")
        });
        let told = |state: &&&str| !["connected", "send", "receive"].contains(*state);
        let states = self
            .state
            .iter()
            .filter(told)
            .map(|state| (*state).to_owned());
        partner
            .into_iter()
            .chain(states)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl Listed {
    fn new(found: FoundNode, endpoints: Option<Vec<FoundEndpoint>>) -> Self {
        let listed = |found: Vec<_>| found.into_iter().map(ListedEndpoint::from).collect();
        Listed {
            domain: found.node.domain(),
            node: found.node.node(),
            host: found.host,
            endpoints: endpoints.map(listed),
        }
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |port: String, r#type: &str, channel: String| {
            let host = format!("{:#x}", self.host);
            let numbers = [self.domain.to_string(), self.node.to_string(), host, port];
            numbers
                .into_iter()
                .chain([r#type.to_owned(), channel])
                .collect()
        };
        match &self.endpoints {
            None => vec![row("?".into(), "does not tell", String::new())],
            Some(all) if all.is_empty() => vec![row("-".into(), "-", String::new())],
            Some(all) => {
                let rows = all.iter();
                rows.map(|each| row(each.port.to_string(), each.r#type, each.channel()))
                    .collect()
            }
        }
    }
}

impl Tool for Options {
    fn run<D: Device>(&self, fabric: Fabric<D>, topology: Topology, out: &mut Sink<'_>) -> Outcome {
        let node = crate::node(fabric, topology, self.node)?;
        let own = node.id()?;
        let columns = Columns::new(2, COLUMNS.map(|(width, align, _)| (width, align)));
        let mut out = Output::new(self.json, columns, out);
        out.head(&COLUMNS.map(|(_, _, name)| name))?;
        for found in node.nodes()? {
            let is_wanted = self
                .domain
                .is_none_or(|domain| found.node.domain() == domain);
            if found.node == own || !is_wanted {
                continue;
            }
            let endpoints = match node.endpoints(found.node) {
                // It has gone since it was found.
                Err(Error::NodeInvalid) => continue,
                told => told.ok(),
            };
            let listed = Listed::new(found, endpoints);
            out.result(&listed, &listed.rows())?;
        }
        Ok(node.finalize()?)
    }
}
