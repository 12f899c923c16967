// SPDX-License-Identifier: MIT OR Apache-2.0

//! What `ntbctl` can do.

mod completion;
mod interfaces;
mod monitor;
mod peers;
mod ping;
mod smc;
mod stats;
mod topology;

use crate::{
    cli::{Command, Options},
    failure::Failure,
    model::{Host, Interface, Peer},
    netlink::Connection,
    uapi,
};

/// Do what the command line says.
///
/// # Errors
/// See [`Failure`].
pub fn run(options: &Options) -> Result<(), Failure> {
    let kernel = Connection::open;
    let json = options.json;
    match &options.command {
        Command::Peers => peers::show_peers(&mut kernel()?, json),
        Command::Links => peers::show_links(&mut kernel()?, json),
        Command::Interfaces => interfaces::run(&mut kernel()?, json),
        Command::Stats(stats) => stats::run(&mut kernel()?, stats, json),
        Command::Ping(ping) => ping::run(&mut kernel()?, ping, json),
        Command::Topology => topology::run(&mut kernel()?, json),
        Command::Monitor => monitor::run(&mut kernel()?, json),
        Command::Smc(options) => smc::run(&mut Connection::open_smc()?, options, json),
        Command::Completion(completion) => completion::run(completion),
    }
}

/// This host.
fn host(kernel: &mut Connection) -> Result<Host, Failure> {
    Host::read(&kernel.ask(uapi::MP_CMD_HOST_GET, &[])?)
}

/// All peers, in the order of their indices.
fn peers(kernel: &mut Connection) -> Result<Vec<Peer>, Failure> {
    let entries = kernel.list(uapi::MP_CMD_PEER_GET)?;
    entries.iter().map(Peer::read).collect()
}

/// All interfaces, in the order of their ids.
fn interfaces(kernel: &mut Connection) -> Result<Vec<Interface>, Failure> {
    let entries = kernel.list(uapi::MP_CMD_INTERFACE_GET)?;
    entries.iter().map(Interface::read).collect()
}
