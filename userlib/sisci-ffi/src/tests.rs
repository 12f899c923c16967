// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions on a stand-in for the device: two hosts in one process, each with a program that
//! has initialized the library. Names of tests say the rule, doc comments its id.

mod callbacks;
mod dma;
mod interrupts;
mod library;
mod maps;
mod misuse;
mod remote;
mod segments;

use crate::{
    functions::{self, LocalCallback, Part, Place},
    process::Process,
    sys,
};
use mp_c_abi::{Handle, Input, Out, Room};
use mp_fabric::{Fabric, ProcessMemory};
use mp_testing::{FakeDevice, Host, World};
use sisci::{Config, Error, Library, Result};
use std::{
    ptr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Node ids of the hosts.
const A: u32 = 4;
const B: u32 = 8;
/// A node that is configured, and that no link leads to.
const C: u32 = 12;

const CONFIG: &str = "node 4 peer 0 name a\nnode 8 peer 1 name b\nnode 12 peer 7 name c\n";

const NONE: Handle = Handle::NULL;

type Program = Process<FakeDevice>;

/// A program on a host that has initialized the library.
fn program(world: &World, host: Host) -> Arc<Program> {
    configured(world, host, CONFIG)
}

fn configured(world: &World, host: Host, config: &'static str) -> Arc<Program> {
    let process = uninitialized(world, host, config);
    process.initialize();
    process
}

fn uninitialized(world: &World, host: Host, config: &'static str) -> Arc<Program> {
    let world = world.clone();
    let load = move || {
        let world = world.clone();
        let config = Config::parse(config).unwrap();
        Ok(Library::new(config, move || {
            Ok(Fabric::with_device(world.open(host)))
        }))
    };
    Arc::new(Process::new(Box::leak(Box::new(load)), None))
}

/// Two hosts with one link, and a program on each.
fn pair() -> (World, Arc<Program>, Arc<Program>) {
    let world = World::new(1, 1 << 20);
    let (a, b) = (program(&world, Host::A), program(&world, Host::B));
    (world, a, b)
}

fn out<T: Copy>(value: &mut T) -> Out<T> {
    // SAFETY: The value outlives the call that it is for.
    unsafe { Out::new(value) }
}

fn nowhere<T: Copy>() -> Out<T> {
    Out::NULL
}

fn bytes(data: &mut [u8]) -> Room<u8> {
    // SAFETY: The data outlive the call that they are for.
    unsafe { Room::new(data.as_mut_ptr(), data.len()) }
}

/// Bytes that a transfer reads, or writes.
fn lent(data: &mut [u8]) -> ProcessMemory<'static> {
    // SAFETY: The data outlive the transfer that they are for.
    unsafe { ProcessMemory::new(data.as_mut_ptr().expose_provenance(), data.len()) }
}

fn input(data: &[u8]) -> Input<u8> {
    // SAFETY: The data outlive the call that they are for.
    unsafe { Input::new(data.as_ptr(), data.len()) }
}

/// Run what writes a handle; NULL if it fails.
fn made(make: impl FnOnce(Out<Handle>) -> Result<()>) -> Result<Handle> {
    let mut handle = NONE;
    let result = make(out(&mut handle));
    assert_eq!(result.is_ok(), handle != NONE);
    result.map(|()| handle)
}

fn open(p: &Program) -> Handle {
    made(|out| functions::open(p, out, 0)).unwrap()
}

fn create_with(
    p: &Program,
    desc: Handle,
    id: u32,
    size: usize,
    callback: Option<LocalCallback>,
    flags: u32,
) -> Result<Handle> {
    made(|out| functions::create_segment(p, desc, out, id, size, callback, flags))
}

fn create(p: &Program, desc: Handle, id: u32, size: usize, flags: u32) -> Result<Handle> {
    create_with(p, desc, id, size, None, flags)
}

/// A segment that nodes can connect to.
fn offered(p: &Program, id: u32, size: usize) -> Handle {
    let segment = create(p, open(p), id, size, 0).unwrap();
    publish(p, segment).unwrap();
    segment
}

fn publish(p: &Program, segment: Handle) -> Result<()> {
    functions::prepare_segment(p, segment, 0, 0)?;
    functions::set_segment_available(p, segment, 0, 0)
}

fn place(node: u32, number: u32) -> Place {
    Place {
        node,
        adapter: 0,
        number,
        timeout: sisci::INFINITE,
    }
}

fn connect(p: &Program, node: u32, id: u32) -> Result<Handle> {
    let desc = open(p);
    made(|out| functions::connect_segment(p, desc, out, place(node, id), None, 0))
}

fn part(offset: usize, size: usize) -> Part {
    Part {
        offset,
        size,
        address: 0,
    }
}

fn map_local(p: &Program, segment: Handle, part: Part, flags: u32) -> Result<(Handle, usize)> {
    let mut address = 0;
    let map = made(|out| {
        address = functions::map_local_segment(p, segment, out, part, flags)?;
        Ok(())
    })?;
    Ok((map, address))
}

fn map_remote(p: &Program, segment: Handle, part: Part, flags: u32) -> Result<(Handle, usize)> {
    let mut address = 0;
    let map = made(|out| {
        address = functions::map_remote_segment(p, segment, out, part, flags)?;
        Ok(())
    })?;
    Ok((map, address))
}

fn sequence(p: &Program, map: Handle) -> Handle {
    made(|out| functions::create_map_sequence(p, map, out, 0)).unwrap()
}

/// The next event of a local segment: reason, node, adapter.
fn local_event(p: &Program, segment: Handle, timeout: u32) -> Result<(u32, u32, u32)> {
    let (mut node, mut adapter) = (u32::MAX, u32::MAX);
    let (to_node, to_adapter) = (out(&mut node), out(&mut adapter));
    let reason =
        functions::wait_for_local_segment_event(p, segment, to_node, to_adapter, timeout, 0)?;
    Ok((reason, node, adapter))
}

/// The next event of a remote segment: reason and status.
fn remote_event(p: &Program, segment: Handle, timeout: u32) -> Result<(u32, u32)> {
    let mut status = u32::MAX;
    let to = out(&mut status);
    let reason = functions::wait_for_remote_segment_event(p, segment, to, timeout, 0)?;
    Ok((reason, status))
}

fn read(address: usize) -> u8 {
    let at: *const u8 = ptr::with_exposed_provenance(address);
    // SAFETY: An address in a map that is there.
    unsafe { at.read_volatile() }
}

fn write(address: usize, value: u8) {
    let at: *mut u8 = ptr::with_exposed_provenance_mut(address);
    // SAFETY: An address in a map that is there.
    unsafe { at.write_volatile(value) }
}

/// Wait until something is so.
fn until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(10), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
