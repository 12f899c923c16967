// SPDX-License-Identifier: MIT OR Apache-2.0

//! Does operations between two VIs in one thread, for a program that counts instructions.
//!
//! `vi_instructions OPERATION SIZE COUNT`: of `send`, each is received and taken by both sides; each
//! RDMA write (`write`) is taken by its side, and its target looks until the bytes are there.
//! `checked-send` and `checked-write` have checks of what crosses. A `look` asks for a receive that is
//! not complete. Over the library's fake device. What is counted is `operations()`; what one operation
//! takes is the difference of two counts, divided by the difference of their operations:
//! `tests/test_instructions.py`.

use mp_testing::{FakeDevice, Host, World};
use std::{env, error, thread, time::Duration};
use vipl::{
    Deadline, Descriptor, Error, Fabric, Level, Library, Map, MemAttributes, MemHandle, NetAddress,
    Nic, Remote, Vi, ViAttributes,
};
use vm_memory::Bytes;

/// Where the descriptor is, where the data.
const DESCRIPTOR: usize = 0;
const DATA: usize = 4096;

type Outcome<T> = Result<T, Box<dyn error::Error>>;

/// A host's program with a VI.
struct Side {
    nic: Nic<FakeDevice>,
    vi: Vi<FakeDevice>,
    map: Map,
    memory: MemHandle,
}

impl Side {
    fn new(world: &World, host: Host, size: usize, checks: bool) -> Outcome<Self> {
        let world = world.clone();
        let library = Library::new(move || Ok(Fabric::with_device(world.open(host))));
        let library = library.checks(checks);
        let nic = library.open_nic("VINIC")?;
        let ptag = nic.create_ptag()?;
        let map = Map::allocate(DATA + size.next_multiple_of(4096))?;
        let attributes = MemAttributes {
            ptag,
            rdma_write: true,
            rdma_read: true,
        };
        let memory = nic.register(map.memory(), &attributes)?;
        let attributes = ViAttributes {
            level: Level::ReliableDelivery,
            max_transfer_size: 1 << 20,
            ptag,
            rdma_write: true,
            rdma_read: true,
        };
        let vi = nic.create_vi(&attributes, None, None, 0)?;
        Ok(Side {
            nic,
            vi,
            map,
            memory,
        })
    }

    fn at(&self, offset: usize) -> usize {
        self.map.memory().start() + offset
    }

    fn address(&self) -> Outcome<NetAddress> {
        let attributes = self.nic.attributes()?;
        Ok(NetAddress::new(attributes.local_address, b"vi"))
    }

    /// Write a descriptor of the data.
    fn describe(&self, descriptor: Descriptor, size: usize) -> Outcome<()> {
        let descriptor = descriptor.segment(self.at(DATA), self.memory, size as u32);
        let bytes = descriptor.encode();
        Ok(self.map.volatile().write_slice(&bytes, DESCRIPTOR)?)
    }
}

/// What is done.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Send,
    Write,
    Look,
}

fn connect(a: &Side, b: &Side) -> Outcome<()> {
    let soon = Deadline::after(Duration::from_secs(60));
    let (server, client) = (b.address()?, a.address()?);
    thread::scope(|scope| {
        let serves = scope.spawn(|| {
            let request = b.nic.connect_wait(&server, soon)?;
            request.accept(&b.vi)
        });
        loop {
            match a.vi.connect_request(&client, &server, soon) {
                Err(Error::NoMatch) => thread::yield_now(),
                other => break other,
            }
        }?;
        serves.join().map_err(|_| "the server has panicked")??;
        Ok(())
    })
}

/// Whether a descriptor was taken.
fn taken(done: vipl::Result<vipl::Completion>) -> Outcome<bool> {
    match done {
        Err(Error::NotDone | Error::Descriptor) => Ok(false),
        other if other?.status.is_error() => Err("an operation has failed".into()),
        _ => Ok(true),
    }
}

/// What is counted. Both sides look in turn: a large operation needs both.
#[inline(never)]
fn operations(a: &Side, b: &Side, operation: Operation, last: usize, count: usize) -> Outcome<()> {
    let write = operation == Operation::Write;
    for n in 0..count {
        if operation == Operation::Look {
            match b.vi.recv_done() {
                Err(Error::NotDone) => continue,
                other => return Err(format!("there is something: {other:?}").into()),
            }
        }
        if write {
            // What is written differs from what was written before.
            a.map.volatile().write_obj(n as u8, last)?;
        } else {
            b.vi.post_recv(b.at(DESCRIPTOR), b.memory)?;
        }
        a.vi.post_send(a.at(DESCRIPTOR), a.memory)?;
        let (mut arrived, mut done) = (false, false);
        while !arrived || !done {
            if !arrived {
                arrived = taken(b.vi.recv_done())?;
                if write {
                    arrived = b.map.volatile().read_obj::<u8>(last)? == n as u8;
                }
            }
            if !done {
                done = taken(a.vi.send_done())?;
            }
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .ok_or("OPERATION, SIZE and COUNT are missing")
    };
    let operation = next()?;
    let plain = operation.strip_prefix("checked-");
    let checks = plain.is_some();
    let operation = match plain.unwrap_or(&operation) {
        "send" => Operation::Send,
        "write" => Operation::Write,
        "look" => Operation::Look,
        _ => return Err("it is neither send nor write nor look".into()),
    };
    let (size, count): (usize, usize) = (next()?.parse()?, next()?.parse()?);
    let world = World::new(1, 1 << 24);
    let (a, b) = (
        Side::new(&world, Host::A, size, checks)?,
        Side::new(&world, Host::B, size, checks)?,
    );
    let descriptor = match operation {
        Operation::Send | Operation::Look => Descriptor::new(),
        Operation::Write => Descriptor::write(Remote {
            address: b.at(DATA) as u64,
            handle: b.memory.0,
        }),
    };
    a.describe(descriptor, size)?;
    b.describe(Descriptor::new(), size)?;
    connect(&a, &b)?;
    if operation == Operation::Look {
        b.vi.post_recv(b.at(DESCRIPTOR), b.memory)?;
    }
    operations(&a, &b, operation, DATA + size - 1, count)
}
