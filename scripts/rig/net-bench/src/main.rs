// SPDX-License-Identifier: GPL-2.0
//! Measures what a network between two guests does with small messages.
//!
//! ```text
//! net-bench serve ADDR:PORT                    answers one client, then ends
//! net-bench rr ADDR:PORT SECONDS               request/response, one byte each
//! net-bench udp ADDR:PORT SECONDS SIZE         datagrams, as many as can
//! ```
//!
//! A client prints its result as one line of JSON. Client and server agree over
//! a TCP connection; datagrams use the same port number. Every wait ends after
//! [`PATIENCE`].

#![forbid(unsafe_code)]

mod client;
mod server;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Most that one side waits for the other.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The first byte of a connection: what the client wants.
pub const REQUEST_RESPONSE: u8 = b'r';
/// See [`REQUEST_RESPONSE`].
pub const DATAGRAMS: u8 = b'u';

/// What was asked for on the command line.
enum Command {
    Serve(SocketAddr),
    RequestResponse(SocketAddr, Duration),
    Datagrams(SocketAddr, Duration, usize),
}

fn parse() -> Result<Command, lexopt::Error> {
    use lexopt::prelude::*;

    let mut words = lexopt::Parser::from_env();
    let mut next = |what: &'static str| match words.next()? {
        Some(Value(word)) => Ok(word),
        Some(other) => Err(other.unexpected()),
        None => Err(format!("missing: {what}").into()),
    };
    let command = next("serve, rr or udp")?.string()?;
    let address: SocketAddr = next("ADDR:PORT")?.parse()?;
    let command = match command.as_str() {
        "serve" => Command::Serve(address),
        "rr" => Command::RequestResponse(address, seconds(next("SECONDS")?)?),
        "udp" => {
            let time = seconds(next("SECONDS")?)?;
            Command::Datagrams(address, time, next("SIZE")?.parse()?)
        }
        _ => return Err(format!("no such command: {command}").into()),
    };
    match words.next()? {
        Some(extra) => Err(extra.unexpected()),
        None => Ok(command),
    }
}

fn seconds(word: std::ffi::OsString) -> Result<Duration, lexopt::Error> {
    use lexopt::ValueExt;

    let value: f64 = word.parse()?;
    Duration::try_from_secs_f64(value).map_err(|error| error.to_string().into())
}

fn run() -> Result<(), Box<dyn Error>> {
    match parse()? {
        Command::Serve(address) => server::serve(address)?,
        Command::RequestResponse(address, time) => {
            println!("{}", client::request_response(address, time)?);
        }
        Command::Datagrams(address, time, size) => {
            println!("{}", client::datagrams(address, time, size)?);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("net-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
