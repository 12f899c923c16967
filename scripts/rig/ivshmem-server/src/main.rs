// SPDX-License-Identifier: GPL-2.0-only
//! Command line of the rig's ivshmem server; see the library for what it does.
//!
//! Prints one line per event. The line `ready` says that all sockets listen.

#![forbid(unsafe_code)]

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use ivshmem_server::board::Geometry;
use ivshmem_server::server::Server;
use lexopt::prelude::*;

const USAGE: &str = "usage: ivshmem-server --dir DIR --ports N --ram-size BYTES \
--area-base ADDRESS --area-size BYTES [--vectors N] [--plain-slot-base N]";

struct Options {
    dir: PathBuf,
    geometry: Geometry,
}

/// A decimal number, or a hexadecimal one after `0x`.
fn number(text: OsString) -> Result<u64, String> {
    let text = text.to_string_lossy().into_owned();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .map_err(|e| format!("{text}: {e}"))
}

fn small_number(text: OsString) -> Result<u32, String> {
    let value = number(text)?;
    u32::try_from(value).map_err(|e| format!("{value}: {e}"))
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut dir = None;
    let mut geometry = Geometry {
        ports: 0,
        vectors: 8,
        ram_size: 0,
        area_base: 0,
        area_size: 0,
        plain_slot_base: 16,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("dir") => dir = Some(PathBuf::from(parser.value()?)),
            Long("ports") => geometry.ports = small_number(parser.value()?)?,
            Long("vectors") => geometry.vectors = small_number(parser.value()?)?,
            Long("ram-size") => geometry.ram_size = number(parser.value()?)?,
            Long("area-base") => geometry.area_base = number(parser.value()?)?,
            Long("area-size") => geometry.area_size = number(parser.value()?)?,
            Long("plain-slot-base") => geometry.plain_slot_base = small_number(parser.value()?)?,
            other => return Err(other.unexpected().into()),
        }
    }
    let dir = dir.ok_or("--dir is missing")?;
    Ok(Options { dir, geometry })
}

fn serve(options: &Options) -> io::Result<()> {
    let mut server = Server::new(&options.dir, options.geometry)?;
    let mut log = io::stdout();
    writeln!(log, "ready")?;
    loop {
        for event in server.step(None)? {
            // The log's reader may go away; the guests still need the server.
            let _ = writeln!(log, "{event}");
        }
    }
}

fn main() -> ExitCode {
    let result = options().and_then(|options| serve(&options).map_err(Into::into));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ivshmem-server: {error}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}
