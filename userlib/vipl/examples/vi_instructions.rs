// SPDX-License-Identifier: MIT OR Apache-2.0

//! Does operations between two VIs in one thread, for a program that counts instructions.
//!
//! `vi_instructions OPERATION SIZE COUNT`: of `send`, each is received and taken by both sides; each
//! RDMA write (`write`) is taken by its side, and its target looks until the bytes are there; the
//! target of each RDMA read (`read`) looks until the reader has taken it. `checked-send` has checks of
//! what crosses, `received-send` is on Reliable Reception, `queued-send` is taken by completion queues;
//! so of the others. A `look` asks for a receive that is not complete; a `queued-look`, for an entry of a
//! completion queue that `SIZE` VIs are bound to. Over the library's fake device. What is counted is
//! `operations()`; what one operation takes is the difference of two counts, divided by the difference
//! of their operations: `tests/test_instructions.py`.

use mp_testing::{FakeDevice, Host, World};
use std::{env, error, thread, time::Duration};
use vipl::{
    Completion, Cq, Deadline, Descriptor, Error, Fabric, Level, Library, Map, MemAttributes,
    MemHandle, NetAddress, Nic, QueueKind, Remote, Vi, ViAttributes,
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
    /// Of both queues, if there is one.
    cq: Option<Cq<FakeDevice>>,
    map: Map,
    memory: MemHandle,
}

/// How it is done.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Plain,
    Checked,
    Received,
    Queued,
}

impl Side {
    fn new(world: &World, host: Host, size: usize, manner: Manner) -> Outcome<Self> {
        let world = world.clone();
        let library = Library::new(move || Ok(Fabric::with_device(world.open(host))));
        let library = library.checks(manner == Manner::Checked);
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
            level: match manner {
                Manner::Received => Level::ReliableReception,
                _ => Level::ReliableDelivery,
            },
            max_transfer_size: 1 << 20,
            ptag,
            rdma_write: true,
            rdma_read: true,
        };
        let cq = match manner {
            Manner::Queued => Some(nic.create_cq(4, 0)?),
            _ => None,
        };
        let vi = nic.create_vi(&attributes, cq.as_ref(), cq.as_ref(), 0)?;
        Ok(Side {
            nic,
            vi,
            cq,
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

    /// Whether a descriptor of a queue was taken.
    fn taken(&self, kind: QueueKind) -> Outcome<bool> {
        if let Some(cq) = &self.cq {
            match cq.done() {
                Err(Error::NotDone) => return Ok(false),
                entry => {
                    if entry?.1 != kind {
                        return Err("it is of the other queue".into());
                    }
                }
            }
        }
        taken(match kind {
            QueueKind::Send => self.vi.send_done(),
            QueueKind::Receive => self.vi.recv_done(),
        })
    }

    /// Another VI like the one that there is.
    fn another(&self) -> vipl::Result<Vi<FakeDevice>> {
        let attributes = self.vi.query()?.attributes;
        let cq = self.cq.as_ref();
        self.nic.create_vi(&attributes, cq, cq, 0)
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
    Read,
    Look,
    /// In a completion queue.
    LookForEntry,
}

/// Connect VIs of two sides.
fn connect(
    [a, b]: [&Side; 2],
    client_vi: &Vi<FakeDevice>,
    server_vi: &Vi<FakeDevice>,
) -> Outcome<()> {
    let soon = Deadline::after(Duration::from_secs(60));
    let (server, client) = (b.address()?, a.address()?);
    thread::scope(|scope| {
        let serves = scope.spawn(|| {
            let request = b.nic.connect_wait(&server, soon)?;
            request.accept(server_vi)
        });
        loop {
            match client_vi.connect_request(&client, &server, soon) {
                Err(Error::NoMatch) => thread::yield_now(),
                other => break other,
            }
        }?;
        serves.join().map_err(|_| "the server has panicked")??;
        Ok(())
    })
}

/// Whether a descriptor was taken.
fn taken(done: vipl::Result<Completion>) -> Outcome<bool> {
    match done {
        Err(Error::NotDone | Error::Descriptor) => Ok(false),
        other if other?.status.is_error() => Err("an operation has failed".into()),
        _ => Ok(true),
    }
}

/// What is counted. Both sides look in turn: a large operation needs both.
#[inline(never)]
fn operations(a: &Side, b: &Side, operation: Operation, last: usize, count: usize) -> Outcome<()> {
    for n in 0..count {
        // What is written or read differs from what was there before.
        match operation {
            Operation::Look => match b.vi.recv_done() {
                Err(Error::NotDone) => continue,
                other => return Err(format!("there is something: {other:?}").into()),
            },
            Operation::LookForEntry => match b.cq.as_ref().map(Cq::done) {
                Some(Err(Error::NotDone)) => continue,
                other => return Err(format!("there is something: {other:?}").into()),
            },
            Operation::Send => b.vi.post_recv(b.at(DESCRIPTOR), b.memory)?,
            Operation::Write => a.map.volatile().write_obj(n as u8, last)?,
            Operation::Read => b.map.volatile().write_obj(n as u8, last)?,
        }
        a.vi.post_send(a.at(DESCRIPTOR), a.memory)?;
        let (mut arrived, mut done) = (false, false);
        while !arrived || !done {
            if !arrived {
                arrived = b.taken(QueueKind::Receive)?;
                if operation == Operation::Write {
                    arrived = b.map.volatile().read_obj::<u8>(last)? == n as u8;
                }
            }
            if !done {
                done = a.taken(QueueKind::Send)?;
            }
            if operation == Operation::Read {
                arrived = done;
            }
        }
        if operation == Operation::Read && a.map.volatile().read_obj::<u8>(last)? != n as u8 {
            return Err("something else was read".into());
        }
    }
    Ok(())
}

/// The manner and the operation that an argument names.
fn named(argument: &str) -> Outcome<(Manner, Operation)> {
    let (manner, operation) = match argument.split_once('-') {
        None => (Manner::Plain, argument),
        Some(("checked", operation)) => (Manner::Checked, operation),
        Some(("received", operation)) => (Manner::Received, operation),
        Some(("queued", operation)) => (Manner::Queued, operation),
        Some(_) => return Err("it is neither checked nor received nor queued".into()),
    };
    let operation = match operation {
        "send" => Operation::Send,
        "write" => Operation::Write,
        "read" => Operation::Read,
        "look" if manner == Manner::Queued => Operation::LookForEntry,
        "look" => Operation::Look,
        _ => return Err("it is neither send nor write nor read nor look".into()),
    };
    Ok((manner, operation))
}

fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .ok_or("OPERATION, SIZE and COUNT are missing")
    };
    let (manner, operation) = named(&next()?)?;
    let (size, count): (usize, usize) = (next()?.parse()?, next()?.parse()?);
    let world = World::new(1, 1 << 24);
    let (a, b) = (
        Side::new(&world, Host::A, size, manner)?,
        Side::new(&world, Host::B, size, manner)?,
    );
    let remote = Remote {
        address: b.at(DATA) as u64,
        handle: b.memory.0,
    };
    let descriptor = match operation {
        Operation::Write => Descriptor::write(remote),
        Operation::Read => Descriptor::read(remote),
        _ => Descriptor::new(),
    };
    a.describe(descriptor, size)?;
    b.describe(Descriptor::new(), size)?;
    connect([&a, &b], &a.vi, &b.vi)?;
    match operation {
        Operation::Look => b.vi.post_recv(b.at(DESCRIPTOR), b.memory)?,
        Operation::LookForEntry => {
            for _ in 1..size {
                // Their sides have them.
                connect([&a, &b], &a.another()?, &b.another()?)?;
            }
        }
        _ => {}
    }
    operations(&a, &b, operation, DATA + size - 1, count)
}
