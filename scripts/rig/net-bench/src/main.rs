// SPDX-License-Identifier: GPL-2.0-only
//! Measures what a network between two guests does with small messages, and what
//! a guest's scheduler does.
//!
//! ```text
//! net-bench serve ADDR:PORT                    answers one client, then ends
//! net-bench rr ADDR:PORT SECONDS               request/response, one byte each
//! net-bench udp ADDR:PORT SECONDS SIZE         datagrams, as many as can
//! net-bench connect ADDR:PORT SECONDS          connections, opened and closed
//! net-bench pipe SECONDS [PAUSE]               a byte between two processes, which both sleep so
//!                                              many seconds between two of them
//! net-bench line SECONDS                       a word between two threads that look
//! ```
//!
//! A client prints its result as one line of JSON. Client and server agree over
//! a TCP connection; datagrams use the same port number. Every wait ends after
//! [`PATIENCE`].

#![forbid(unsafe_code)]

mod client;
mod line;
mod pipe;
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
/// See [`REQUEST_RESPONSE`].
pub const CONNECTIONS: u8 = b'c';

/// What was asked for on the command line.
enum Command {
    Serve(SocketAddr),
    RequestResponse(SocketAddr, Duration),
    Datagrams(SocketAddr, Duration, usize),
    Connections(SocketAddr, Duration),
    Pipe(Duration, Duration),
    Line(Duration),
    Echo,
}

fn parse() -> Result<Command, lexopt::Error> {
    use lexopt::prelude::*;

    let mut words = lexopt::Parser::from_env();
    let mut next = |what: &'static str| match words.next()? {
        Some(Value(word)) => Ok(word),
        Some(other) => Err(other.unexpected()),
        None => Err(format!("missing: {what}").into()),
    };
    let command = next("serve, rr, udp, connect, pipe or line")?.string()?;
    let command = match command.as_str() {
        "serve" => Command::Serve(next("ADDR:PORT")?.parse()?),
        "rr" => Command::RequestResponse(next("ADDR:PORT")?.parse()?, seconds(next("SECONDS")?)?),
        "udp" => {
            let address = next("ADDR:PORT")?.parse()?;
            let time = seconds(next("SECONDS")?)?;
            Command::Datagrams(address, time, next("SIZE")?.parse()?)
        }
        "connect" => Command::Connections(next("ADDR:PORT")?.parse()?, seconds(next("SECONDS")?)?),
        "pipe" => {
            let time = seconds(next("SECONDS")?)?;
            let pause = next("PAUSE").map_or(Ok(Duration::ZERO), seconds)?;
            Command::Pipe(time, pause)
        }
        "line" => Command::Line(seconds(next("SECONDS")?)?),
        pipe::PARTNER => Command::Echo,
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
        Command::Connections(address, time) => {
            println!("{}", client::connections(address, time)?);
        }
        Command::Pipe(time, pause) => println!("{}", pipe::ping_pong(time, pause)?),
        Command::Line(time) => println!("{}", line::ping_pong(time)),
        Command::Echo => pipe::echo()?,
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
