// SPDX-License-Identifier: MIT OR Apache-2.0

//! S-4 to S-8: devices that write to the other system, and devices' memory that the other
//! system writes to.
//!
//! Devices raise no events and close nothing: a process of their system does that for them.

use crate::{
    devices::{Engine, Memory},
    system::{ensure, fill, verify, Outcome, Pair, System},
    Role,
};
use mp_fabric::Device;
use pximc::{Access, Deadline, Error, Library, Location, SessionEvent};
use std::{panic, thread};

const DIGITIZER: &[u8] = b"Vendor XYZ Digitizer 123";
const SOURCE: &[u8] = b"ABC Vendor Digitizer Source";
const CARD: &[u8] = b"ABC Vendor DAQ Card 123";

/// What a process writes to a device's memory.
fn by_process(place: usize) -> u8 {
    (place * 5 + place / 239 + 2) as u8
}

/// What an engine writes.
fn by_engine(place: usize) -> u8 {
    (place * 3 + place / 241 + 1) as u8
}

/// S-4: a process of S0 writes to the memory of a device of S1.
pub fn process_to_device<D: Device>(system: &System<'_, D>) -> Outcome<()> {
    let pair = match system.role {
        Role::S0 => {
            let pair = reach_device(system, DIGITIZER)?;
            fill(&pair.remote()?, 0, by_process)?;
            pair.session.assert_event()?;
            // Who closes at once may be gone before S1 has seen that it was there.
            pair.event(SessionEvent::Asserted)?;
            pair
        }
        Role::S1 => {
            let (pair, memory) = offer_device(system, DIGITIZER)?;
            pair.event(SessionEvent::Asserted)?;
            verify(&memory.volatile(), 0, by_process)?;
            pair.session.assert_event()?;
            pair
        }
    };
    pair.close()
}

/// S-5: a device of S1 writes to the memory of a process of S0.
pub fn device_to_process<D: Device>(system: &System<'_, D>) -> Outcome<()> {
    let (interface, protocol) = (system.interface(), system.options.protocol);
    let pair = match system.role {
        Role::S0 => {
            let window = system.window(SOURCE)?;
            // What is remote there is local here.
            let sizes = system.sizes(true, false);
            let session = interface.request_logical_as_client(protocol, sizes, window.uid)?;
            let pair = system.connect(session, Deadline::PAST)?;
            let address = pair.session.physical_address();
            ensure(address == Err(Error::NoWindow), "there is no remote window")?;
            pair.event(SessionEvent::Asserted)?;
            verify(&pair.local()?, 0, by_engine)?;
            pair
        }
        Role::S1 => {
            let sizes = system.sizes(false, true);
            let session = interface.request_logical_as_server(protocol, sizes, 0, SOURCE)?;
            let pair = system.connect(session, system.deadline())?;
            ensure(pair.connection.local.is_none(), "there is no local window")?;
            have_engine_write(system, &pair)?;
            pair
        }
    };
    pair.close()
}

/// S-6: a device of S1 writes to the memory of a device of S0.
pub fn device_to_device<D: Device>(system: &System<'_, D>) -> Outcome<()> {
    let pair = match system.role {
        Role::S0 => {
            let (pair, memory) = offer_device(system, CARD)?;
            pair.event(SessionEvent::Asserted)?;
            verify(&memory.volatile(), 0, by_engine)?;
            pair
        }
        Role::S1 => {
            let pair = reach_device(system, CARD)?;
            have_engine_write(system, &pair)?;
            pair
        }
    };
    pair.close()
}

/// Two scenarios at the same time.
fn both(
    one: impl FnOnce() -> Outcome<()> + Send,
    other: impl FnOnce() -> Outcome<()>,
) -> Outcome<()> {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        one.join()
            .unwrap_or_else(|cause| panic::resume_unwind(cause))?;
        other
    })
}

/// S-7: S-4 and S-5 over one link.
pub fn both_with_a_process<D: Device>(system: &System<'_, D>) -> Outcome<()> {
    both(|| process_to_device(system), || device_to_process(system))
}

/// S-8: S-6, and S-6 with the systems exchanged.
pub fn both_directions<D: Device>(library: &Library<D>, system: &System<'_, D>) -> Outcome<()> {
    let reversed = system.reversed(library)?;
    both(|| device_to_device(system), || device_to_device(&reversed))
}

/// Offer the memory of the device of `--target`, which this process sees as its driver.
fn offer_device<D: Device>(system: &System<'_, D>, data: &[u8]) -> Outcome<(Pair<D>, Memory)> {
    let place = system.options.target.ok_or("--target names a device")?;
    let memory = Memory::open(place, system.options.length)?;
    println!("  {} bytes at {:#x}", memory.size(), memory.range().start());
    // What an earlier run has left.
    fill(&memory.volatile(), 0, |_| 0)?;
    let session = system.interface().request_physical_as_server(
        system.options.protocol,
        memory.range(),
        0,
        data,
    )?;
    let pair = system.connect(session, system.deadline())?;
    let none = pair.connection.remote.is_none() && pair.connection.local.is_none();
    ensure(none, "the process reaches nothing through the session")?;
    ensure(
        pair.connection.local_size == memory.size(),
        "the other system reaches all of it",
    )?;
    Ok((pair, memory))
}

/// Reach the memory that the other system offers, all of it.
fn reach_device<D: Device>(system: &System<'_, D>, data: &[u8]) -> Outcome<Pair<D>> {
    let window = system.window(data)?;
    ensure(
        window.location == Location::Physical,
        "a device's memory is offered",
    )?;
    let size = *window.local.end();
    let session = system.interface().request_physical_as_client(
        system.options.protocol,
        size,
        size,
        window.uid,
    )?;
    let pair = system.connect(session, Deadline::PAST)?;
    ensure(
        pair.connection.remote_size == size,
        "the device's memory is reached",
    )?;
    Ok(pair)
}

/// Let the device of `--engine` reach the remote window, and have it fill that; tell the
/// other system.
fn have_engine_write<D: Device>(system: &System<'_, D>, pair: &Pair<D>) -> Outcome<()> {
    let place = system.options.engine.ok_or("--engine names a device")?;
    let engine = Engine::open(place)?;
    pair.session
        .enable_device_access(Access::WRITE, place.bus, place.device, place.function)?;
    let (address, size) = (pair.session.physical_address()?, pair.remote()?.len());
    let bytes: Vec<u8> = (0..size).map(by_engine).collect();
    for (part, bytes) in bytes.chunks(Engine::SIZE).enumerate() {
        engine.load(bytes)?;
        engine.store(address + (part * Engine::SIZE) as u64, bytes.len())?;
    }
    println!("  the device has written {size} bytes at {address:#x}");
    Ok(pair.session.assert_event()?)
}
