// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the command lines of tools have in common.

use clap::{Args, ValueEnum};

/// Which of the two nodes this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Answers the client
    Server,
    /// Measures, and prints
    Client,
}

/// Options of all tools.
#[derive(Args, Clone, Copy, Debug)]
pub struct Local {
    /// Local adapter
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub adapter: u32,

    /// Print JSON, a line for each result
    #[arg(long)]
    pub json: bool,
}

/// Options of the tools that run on two nodes. Both are given the same ones.
#[derive(Args, Clone, Debug)]
pub struct Pair {
    /// Which of the two this node is
    #[arg(value_enum)]
    pub role: Role,

    /// The other node
    pub node: u32,

    /// Options of all tools.
    #[command(flatten)]
    pub local: Local,

    /// First of the numbers of segments and interrupts
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub id: u32,

    /// Milliseconds to be patient with the other node
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    pub patience: u32,
}

impl Pair {
    /// The local adapter.
    pub fn adapter(&self) -> u32 {
        self.local.adapter
    }

    /// Whether this is the server.
    pub fn is_server(&self) -> bool {
        self.role == Role::Server
    }

    /// The number of this node's own segment or interrupt, where each has one.
    pub fn own_id(&self) -> u32 {
        self.id.wrapping_add(self.is_server().into())
    }

    /// That of the other node.
    pub fn other_id(&self) -> u32 {
        self.id.wrapping_add((!self.is_server()).into())
    }
}

/// How often something is measured.
#[derive(Args, Clone, Copy, Debug)]
pub struct Rounds {
    /// Rounds of each measurement
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
}

/// Options of the tools that measure copies, of several kinds.
#[derive(Args, Clone, Debug)]
pub struct Only<K: ValueEnum + Send + Sync + 'static> {
    /// What to measure; all of it by default
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    only: Vec<K>,
}

impl<K: ValueEnum + PartialEq + Send + Sync> Only<K> {
    /// The kinds to be measured, with their names.
    pub fn kinds(&self) -> impl Iterator<Item = (&K, String)> {
        let kinds = K::value_variants().iter();
        kinds
            .filter(|kind| self.only.is_empty() || self.only.contains(kind))
            .filter_map(|kind| Some((kind, kind.to_possible_value()?.get_name().into())))
    }
}

/// A size in bytes that a segment may have.
///
/// # Errors
/// What is wrong with it.
pub fn size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size @ 1..=0x7fff_ffff) => Ok(size),
        _ => Err("not a number of bytes".into()),
    }
}

/// The largest size.
pub fn largest(sizes: &[usize]) -> usize {
    sizes.iter().copied().max().unwrap_or(0)
}
