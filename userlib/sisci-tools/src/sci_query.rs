// SPDX-License-Identifier: MIT OR Apache-2.0

//! `sci_query`: what is known of the library and of a local adapter, and whether nodes answer.

use crate::{
    failure::{Called, Outcome},
    options::Local,
    output::Output,
    Tool,
};
use clap::Parser;
use mp_fabric::Device;
use serde::{Serialize, Serializer};
use sisci::{Desc, Library, API, VENDOR};
use std::collections::BTreeMap;

/// Tells what is known of a local adapter, and whether nodes answer.
#[derive(Parser, Clone, Debug)]
#[command(name = "sci_query", version, after_help = "sci_query(1) tells more.")]
pub struct Options {
    /// Nodes to ask
    nodes: Vec<u32>,

    #[command(flatten)]
    local: Local,
}

/// What is known, and which nodes answer.
#[derive(Serialize)]
struct Facts {
    vendor: &'static str,
    api: &'static str,
    #[serde(flatten, serialize_with = "as_map")]
    adapter: Vec<(&'static str, u32)>,
    nodes: BTreeMap<u32, bool>,
}

fn as_map<S: Serializer>(numbers: &[(&str, u32)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(numbers.iter().copied())
}

impl Tool for Options {
    fn json(&self) -> bool {
        self.local.json
    }

    fn run<D: Device>(&self, library: &Library<D>, out: &mut Output<'_>) -> Outcome {
        let desc = library.open().called("SCIOpen")?;
        let adapter = self.numbers(&desc)?;
        let answers = self.nodes.iter().map(|&node| {
            let answer = desc.probe(self.local.adapter, node);
            (node, answer.err().map(|error| error.to_string()))
        });
        let answers: Vec<(u32, Option<String>)> = answers.collect();
        desc.close().called("SCIClose")?;

        let mut lines = vec![
            format!("{:<18} {VENDOR}", "vendor"),
            format!("{:<18} {API}", "api"),
        ];
        for (name, number) in &adapter {
            lines.push(format!("{name:<18} {number}"));
        }
        for (node, error) in &answers {
            let words = error.as_deref().unwrap_or("answers");
            lines.push(format!("node {node:<13} {words}"));
        }
        let facts = Facts {
            vendor: VENDOR,
            api: API,
            adapter,
            nodes: answers
                .into_iter()
                .map(|(node, error)| (node, error.is_none()))
                .collect(),
        };
        out.line(&facts, &lines.join("\n"))
    }
}

impl Options {
    /// What there is to know about the adapter; what nothing is known of is left out.
    fn numbers<D: Device>(&self, desc: &Desc<D>) -> Outcome<Vec<(&'static str, u32)>> {
        let adapter = desc.adapter(self.local.adapter).called("SCIQuery")?;
        let node = desc.node_at(&adapter);
        let dma = desc.has_queues().called("SCIQuery")?;
        let all = [
            ("node", node),
            ("configured", Some(node.is_some().into())),
            ("links", Some(adapter.links.len() as u32)),
            (
                "link_operational",
                adapter.is_operational(0).ok().map(u32::from),
            ),
            ("link_width", adapter.link_width(0).ok()),
            ("link_speed", adapter.link_speed(0).ok()),
            ("bdf", adapter.bdf().ok()),
            ("dma", Some(dma.into())),
        ];
        let known = all
            .into_iter()
            .filter_map(|(name, fact)| Some((name, fact?)));
        Ok(known.collect())
    }
}
