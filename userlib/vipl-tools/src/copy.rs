// SPDX-License-Identifier: MIT OR Apache-2.0

//! Copy a file from one host to another.
//!
//! The receiver waits for a sender. The sender sends parts, the last of them shorter than the others
//! (it may be empty), and the receiver tells how many bytes it has written so far whenever there is
//! room for more parts, and at the end.

use crate::{
    end::{End, Shape, PART, WINDOW},
    failure::{Failure, Outcome},
    Host, Tool,
};
use clap::Parser;
use mp_tools::Sink;
use serde_json::json;
use std::{
    fs::File,
    io::{Read, Write},
    path::PathBuf,
};
use vipl::{
    Descriptor, Device, Level, NetAddress,
    QueueKind::{Receive, Send},
};

const DISCRIMINATOR: &str = "vi_copy";
/// The receiver tells how many bytes it has after so many parts.
const CREDIT: usize = WINDOW / 2;
/// Bytes of such a message: a number, little-endian.
const TOLD: usize = 8;

/// Copy a file from one host to another
#[derive(Debug, Parser)]
#[command(version)]
pub enum Options {
    /// Wait for a sender, and write what it sends to a file
    Receive {
        /// The file, which is written anew
        file: PathBuf,
        /// Milliseconds to be patient with the sender, once there is one
        #[arg(long, value_name = "MS", default_value_t = 30_000)]
        patience: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send a file
    Send {
        /// The receiver: a name of vipl.conf(5), or the number of a host
        host: String,
        /// The file
        file: PathBuf,
        /// Milliseconds to be patient with the receiver
        #[arg(long, value_name = "MS", default_value_t = 30_000)]
        patience: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Tool for Options {
    fn run<D: Device>(&self, host: &Host<D>, out: &mut Sink<'_>) -> Outcome {
        let (Options::Receive { patience, json, .. } | Options::Send { patience, json, .. }) = self;
        let end = End::new(
            host,
            Shape {
                level: Level::ReliableDelivery,
                wait: true,
                cq: false,
                patience: *patience,
            },
        )?;
        let copied = match self {
            Options::Receive { file, .. } => receive(end, &mut File::create(file)?)?,
            Options::Send { host: to, file, .. } => {
                let address = host.address(to)?;
                let to = NetAddress::new(address, DISCRIMINATOR.as_bytes());
                send(end, &to, &mut File::open(file)?)?
            }
        };
        match json {
            true => writeln!(out, "{}", json!({ "bytes": copied }))?,
            false => writeln!(out, "{copied} bytes")?,
        }
        Ok(())
    }
}

/// Tell how many bytes there are.
fn tell<D: Device>(end: &mut End<D>, bytes: u64) -> Outcome {
    end.write(&bytes.to_le_bytes())?;
    end.send(Descriptor::new(), TOLD)?;
    end.take(Send).map(|_| ())
}

fn receive<D: Device>(mut end: End<D>, file: &mut File) -> Outcome<u64> {
    for _ in 0..WINDOW {
        end.receive_part()?;
    }
    end.serve(DISCRIMINATOR)?;
    let mut bytes = 0;
    for number in 1.. {
        let done = end.take(Receive)?;
        let part = end.part(&done)?;
        end.receive_part()?;
        file.write_all(&part)?;
        bytes += part.len() as u64;
        let is_last = part.len() < PART;
        if is_last {
            file.sync_all()?;
        }
        if is_last || number % CREDIT == 0 {
            tell(&mut end, bytes)?;
        }
        if is_last {
            break;
        }
    }
    // The sender leaves first.
    let _ = end.take(Receive);
    end.leave()?;
    Ok(bytes)
}

fn send<D: Device>(mut end: End<D>, to: &NetAddress, file: &mut File) -> Outcome<u64> {
    for _ in 0..WINDOW {
        end.receive()?;
    }
    end.ask(to)?;
    let (mut bytes, mut written) = (0, 0);
    let (mut parts, mut tellings) = (0_usize, 0);
    let mut room = vec![0; PART];
    loop {
        let len = fill(file, &mut room)?;
        // A receive waits for each part that the receiver has not told of.
        if parts - tellings * CREDIT == WINDOW {
            written = told(&mut end)?;
            tellings += 1;
        }
        end.write(room.get(..len).unwrap_or_default())?;
        end.send(Descriptor::new(), len)?;
        end.take(Send)?;
        bytes += len as u64;
        parts += 1;
        if len < PART {
            break;
        }
    }
    // The last part is told of as well.
    while tellings < parts.div_ceil(CREDIT) {
        written = told(&mut end)?;
        tellings += 1;
    }
    end.leave()?;
    match written == bytes {
        true => Ok(bytes),
        false => Err(Failure::Wrong("the receiver has not what was sent")),
    }
}

/// How many bytes the receiver has.
fn told<D: Device>(end: &mut End<D>) -> Outcome<u64> {
    end.take(Receive)?;
    let mut bytes = [0; TOLD];
    end.read(&mut bytes)?;
    end.receive()?;
    Ok(u64::from_le_bytes(bytes))
}

/// Fill room from a file, as far as it goes.
fn fill(file: &mut File, room: &mut [u8]) -> Outcome<usize> {
    let mut len = 0;
    while let Some(rest) = room.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}
