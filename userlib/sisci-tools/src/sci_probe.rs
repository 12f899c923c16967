// SPDX-License-Identifier: MIT OR Apache-2.0

//! `sci_probe`: whether nodes answer, and how long that takes.

use crate::{
    failure::{Called, Failure, Outcome},
    options::Local,
    output::Output,
    Tool,
};
use clap::Parser;
use mp_fabric::Device;
use serde::Serialize;
use sisci::Library;
use std::time::Instant;

/// Tells whether nodes answer, and after how long; the exit status is 0 if all do.
#[derive(Parser, Clone, Debug)]
#[command(name = "sci_probe", version, after_help = "sci_probe(1) tells more.")]
pub struct Options {
    /// The nodes to ask
    #[arg(required = true)]
    nodes: Vec<u32>,

    #[command(flatten)]
    local: Local,
}

/// Whether a node answers.
#[derive(Serialize)]
struct Probe {
    node: u32,
    answers: bool,
    /// Microseconds that it has taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Tool for Options {
    fn json(&self) -> bool {
        self.local.json
    }

    fn run<D: Device>(&self, library: &Library<D>, out: &mut Output<'_>) -> Outcome {
        let desc = library.open().called("SCIOpen")?;
        let mut all = true;
        for &node in &self.nodes {
            let start = Instant::now();
            match desc.probe(self.local.adapter, node) {
                Ok(()) => {
                    let us = start.elapsed().as_secs_f64() * 1e6;
                    let value = Probe {
                        node,
                        answers: true,
                        us: Some(us),
                        error: None,
                    };
                    out.line(&value, &format!("node {node:<5} answers after {us:.3} us"))?;
                }
                Err(error) => {
                    all = false;
                    let error = error.to_string();
                    let words = format!("node {node:<5} {error}");
                    let value = Probe {
                        node,
                        answers: false,
                        us: None,
                        error: Some(error),
                    };
                    out.line(&value, &words)?;
                }
            }
        }
        desc.close().called("SCIClose")?;
        match all {
            true => Ok(()),
            false => Err(Failure::NoAnswer),
        }
    }
}
