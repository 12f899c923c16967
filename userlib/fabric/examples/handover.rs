// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hands memory of a segment to another process, and to drivers of devices.
//!
//! `handover` makes a segment with a greeting and starts itself once more, with a descriptor of the
//! segment that may be read. That process maps the memory, tells what is there, and finds that it
//! may not do more. Then the first process makes a dma-buf of the segment, and a segment of the
//! dma-buf, which peers could reach by a window.

use mp_fabric::{
    vm_memory::{Bytes, VolatileSlice},
    Deadline, Fabric, Filling, Imported, Map, ReadOnly, ReadWrite, Rights, Segment,
};
use std::{
    env, io,
    os::fd::{AsFd, OwnedFd},
    process::{Command, ExitCode, Stdio},
};

const PAGE: u64 = 0x1000;
const GREETING: &[u8] = b"from one process to another";

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What is at the start of some memory.
fn told(map: &Map<ReadOnly>) -> Outcome<String> {
    let mut bytes = vec![0; GREETING.len()];
    map.read(0, VolatileSlice::from(&mut bytes[..]))?;
    Ok(String::from_utf8(bytes)?)
}

/// The process that is started with a descriptor as its standard input.
fn receive() -> Outcome<()> {
    let fabric = Fabric::open()?;
    let Imported::Segment(segment, rights) = fabric.import(io::stdin(), Deadline::NEVER)? else {
        return Err("a connection was handed over".into());
    };
    let map = segment.map::<ReadOnly>(0, PAGE, 0)?;
    println!("may {rights:?}: {}", told(&map)?);
    let more = segment.export(Rights::READ | Rights::WRITE);
    println!("more: {}", more.err().ok_or("it has got more")?);
    Ok(())
}

/// A dma-buf of a segment, and a segment of that.
fn give_to_devices(fabric: &Fabric, segment: &Segment) -> Outcome<()> {
    let buffer = segment.dma_buf(Rights::READ | Rights::WRITE)?;
    let over = fabric.create_empty_segment(None, PAGE)?;
    over.fill(Filling::DmaBuf {
        fd: buffer.as_fd(),
        offset: 0,
        len: PAGE,
    })?;
    println!("a segment of {} bytes over a dma-buf", over.len());
    Ok(())
}

fn send() -> Outcome<()> {
    let fabric = Fabric::open()?;
    let segment = fabric.create_segment(None, PAGE)?;
    let map = segment.map::<ReadWrite>(0, PAGE, 0)?;
    map.volatile().write_slice(GREETING, 0)?;
    let descriptor = OwnedFd::from(segment.export(Rights::READ)?);
    let mut other = Command::new(env::current_exe()?);
    other.arg("receive").stdin(Stdio::from(descriptor));
    if !other.status()?.success() {
        return Err("the other process has failed".into());
    }
    give_to_devices(&fabric, &segment)
}

fn main() -> ExitCode {
    let outcome = match env::args().nth(1).as_deref() {
        None => send(),
        Some("receive") => receive(),
        Some(_) => Err("usage: handover".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("handover: {error}");
            ExitCode::FAILURE
        }
    }
}
