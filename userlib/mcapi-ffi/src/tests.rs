// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions on a stand-in for the device: two hosts in one process, each with programs that pass
//! pointers of C. Names of tests say the rule, doc comments its id.

mod channels;
mod endpoints;
mod limits;
mod memory;
mod messages;
mod misuse;
mod nodes;
mod requests;
mod shared;
mod states;
mod storm;
mod timeouts;

use crate::{
    answer::Answer,
    functions,
    operations::Begun,
    process::{Process, State},
    sys,
};
use mcapi::{Error, Fabric, Result, Topology};
use mp_c_abi::{In, Input, Out, Room};
use mp_testing::{FakeDevice, Host, World};
use std::ptr;

/// Long enough for everything that comes, in milliseconds.
const SOON: u32 = 30_000;
const NEVER: u32 = u32::MAX;
/// What is where a function may write, and where it may not.
const UNTOUCHED: u32 = 0x5A5A_5A5A;

type Program = Process<FakeDevice>;
type Node = State<FakeDevice>;

fn world() -> World {
    let world = World::new(1, 8 << 20);
    world.set_loopback(8 << 20);
    world
}

/// A program that is no node yet.
fn program(world: &World, host: Host) -> Program {
    let world = world.clone();
    let load = move || {
        let fabric = Fabric::with_device(world.open(host));
        Ok((fabric, Topology::default()))
    };
    Process::new(Box::leak(Box::new(load)))
}

/// Parameters that ask for what there is by default.
const PARAMETERS: sys::mcapi_param_t = sys::mcapi_param_t {
    magic: sys::MCAPI_PARAM_MAGIC,
    size: size_of::<sys::mcapi_param_t>() as u32,
    max_endpoints: 0,
    max_requests: 0,
    flags: 0,
    reserved: [0; 11],
};

/// A node 1 of host A with parameters of its own.
fn node_with(parameters: sys::mcapi_param_t) -> Program {
    let program = program(&world(), Host::A);
    let mut info = unset::<sys::mcapi_info_t>();
    let (parameters, info) = (given(&parameters), out(&mut info));
    functions::initialize(&program, 0, 1, In::NULL, parameters, info).unwrap();
    program
}

fn initialize(program: &Program, domain: u32, node: u32) -> Result<sys::mcapi_info_t> {
    let mut info = unset::<sys::mcapi_info_t>();
    let given = functions::initialize(program, domain, node, In::NULL, In::NULL, out(&mut info));
    given.map(|()| info)
}

/// A node of the host's domain.
fn node(world: &World, host: Host, number: u32) -> Program {
    let program = program(world, host);
    initialize(&program, host as u32, number).unwrap();
    program
}

/// Two nodes, 1 and 2, on two hosts.
fn pair() -> [Program; 2] {
    let world = world();
    [node(&world, Host::A, 1), node(&world, Host::B, 2)]
}

fn out<T: Copy>(value: &mut T) -> Out<T> {
    // SAFETY: The value outlives the call, or the operation, that it is for.
    unsafe { Out::new(value) }
}

fn given<T: Copy>(value: &T) -> In<T> {
    // SAFETY: As above.
    unsafe { In::new(value) }
}

fn input<T: Copy>(values: &[T]) -> Input<T> {
    // SAFETY: As above.
    unsafe { Input::new(values.as_ptr(), values.len()) }
}

fn room(bytes: &mut [u8]) -> Room<u8> {
    // SAFETY: As above.
    unsafe { Room::new(bytes.as_mut_ptr(), bytes.len()) }
}

/// NULL, with so many bytes.
fn no_room(len: usize) -> Room<u8> {
    // SAFETY: NULL.
    unsafe { Room::new(ptr::null_mut(), len) }
}

/// The same, to be read.
fn no_input(len: usize) -> Input<u8> {
    // SAFETY: NULL.
    unsafe { Input::new(ptr::null(), len) }
}

/// A structure of C, full of bytes that mean nothing.
fn unset<T: Copy>() -> T {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: There is room, and structures of C are of numbers and pointers.
    unsafe {
        value
            .as_mut_ptr()
            .cast::<u8>()
            .write_bytes(0x5A, size_of::<T>());
        value.assume_init()
    }
}

/// Begin an operation; its request, and whether it is complete already.
fn begin(
    program: &Program,
    start: impl FnOnce(&Node) -> Result<Begun>,
) -> std::result::Result<(u32, bool), u32> {
    let mut request = UNTOUCHED;
    let answer = program.begin(out(&mut request), start);
    match answer.status {
        sys::MCAPI_SUCCESS => Ok((request, true)),
        sys::MCAPI_PENDING => Ok((request, false)),
        error => {
            // MC-GEN-6
            assert_eq!(request, 0);
            Err(error)
        }
    }
}

/// Wait for a request; the size.
fn wait(program: &Program, request: u32) -> Result<usize> {
    let mut size = 0;
    let ended = program.with(|node| {
        let size = out(&mut size);
        functions::wait(node, given(&request), size, SOON)
    });
    ended.map(|value| {
        assert_eq!(value, 1);
        size
    })
}

/// Wait for a request that moves no data: nobody has to want a size (MC-REQ-7).
fn wait_for(program: &Program, request: u32) -> Result<()> {
    let ended = program.with(|node| functions::wait(node, given(&request), Out::NULL, SOON));
    ended.map(|value| assert_eq!(value, 1))
}

fn test(program: &Program, request: u32) -> Answer<u8> {
    let mut size = 0;
    let answer = program.with(|node| functions::test(node, given(&request), out(&mut size)));
    answer.into()
}

fn create(program: &Program, port: u32) -> u64 {
    program
        .with(|node| functions::endpoint_create(node, port))
        .unwrap()
}

fn send(program: &Program, from: u64, to: u64, data: &[u8]) -> Result<()> {
    program.with(|node| functions::msg_send(node, from, to, input(data), 0))
}

/// Set an attribute of one word.
fn set(program: &Program, at: u64, number: u32, value: u32) -> Result<()> {
    let value = value.to_ne_bytes();
    program.with(|node| functions::endpoint_set_attribute(node, at, number, input(&value)))
}

/// The value of an attribute of one word.
fn get_attribute(program: &Program, at: u64, number: u32) -> Result<u32> {
    let mut value = [0x5A; 4];
    let place = room(&mut value);
    program.with(|node| functions::endpoint_get_attribute(node, at, number, place))?;
    Ok(u32::from_ne_bytes(value))
}

/// Send a message of a priority.
fn send_at(program: &Program, from: u64, to: u64, data: &[u8], priority: u32) -> Result<()> {
    program.with(|node| functions::msg_send(node, from, to, input(data), priority))
}

/// Begin to send a message.
fn send_i(
    program: &Program,
    from: u64,
    to: u64,
    data: &[u8],
) -> std::result::Result<(u32, bool), u32> {
    begin(program, |node| {
        functions::msg_send_i(node, from, to, input(data), 7)
    })
}

/// Post a receive of a message.
fn post(program: &Program, at: u64, bytes: &mut [u8]) -> u32 {
    let place = room(bytes);
    begin(program, |node| functions::msg_recv_i(node, at, place))
        .unwrap()
        .0
}

/// Cancel a request.
fn cancel(program: &Program, request: u32) -> Result<()> {
    program.with(|state| functions::cancel(state, given(&request)))
}

/// Messages that can be received.
fn available(program: &Program, at: u64) -> u32 {
    let count = program.with(|state| functions::msg_available(state, at));
    count.unwrap()
}

/// Receive a message into so much room, with bytes behind it that stay as they are.
fn receive(program: &Program, at: u64, len: usize) -> (Result<()>, Vec<u8>) {
    let mut bytes = vec![0x5A; len + 8];
    let mut size = 0;
    let (buffer, to) = (room(&mut bytes[..len]), out(&mut size));
    let result = program.with(|node| functions::msg_recv(node, at, buffer, to));
    assert_eq!(&bytes[size..], vec![0x5A; len + 8 - size]);
    bytes.truncate(size);
    (result, bytes)
}
