// SPDX-License-Identifier: MIT OR Apache-2.0

//! One end of a connection: a VI, and registered memory with descriptors and data.

use crate::{
    failure::{Called, Failure, Outcome},
    Host,
};
use std::{thread, time::Duration};
use vipl::{
    deadline, Completion, Cq, Deadline, Descriptor, Device, Error, Level, Map, MemAttributes,
    MemHandle, NetAddress, Nic, QueueKind, Remote, Vi, ViAttributes,
};
use vm_memory::Bytes;

/// Largest message.
pub const SIZE_MAX: usize = 1 << 20;
/// Descriptors of each queue that are in use at the same time.
pub const WINDOW: usize = 32;
/// Bytes of a part, of which each receive has its own.
pub const PART: usize = SIZE_MAX / WINDOW;
/// Bytes of a descriptor with two segments.
const DESCRIPTOR: usize = 64;
/// Where data begins: what is sent, and behind it what is received.
const DATA: usize = 2 * WINDOW * DESCRIPTOR;
const MEMORY: usize = DATA + 2 * SIZE_MAX;
/// A server that is busy with something else is asked again.
const AGAIN: Duration = Duration::from_micros(50);

/// Looks before a look at the time.
const LOOKS: u32 = 1_000;

/// How an end is made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its reliability.
    pub level: Level,
    /// Sleep for completions, instead of looking all the time.
    pub wait: bool,
    /// Have one completion queue for both queues.
    pub cq: bool,
    /// Milliseconds to be patient with the other side.
    pub patience: u64,
}

/// One end of a connection.
#[derive(Debug)]
pub struct End<D: Device> {
    vi: Vi<D>,
    cq: Option<Cq<D>>,
    nic: Nic<D>,
    map: Map,
    memory: MemHandle,
    shape: Shape,
    /// Descriptors that were posted, of each queue.
    posted: [usize; 2],
    /// Entries of the completion queue that nobody has asked for.
    entries: [usize; 2],
}

fn index(queue: QueueKind) -> usize {
    match queue {
        QueueKind::Send => 0,
        QueueKind::Receive => 1,
    }
}

/// Look until something is done, or the time is over.
fn look<T>(patience: Deadline, mut done: impl FnMut() -> vipl::Result<T>) -> vipl::Result<T> {
    loop {
        for _ in 0..LOOKS {
            match done() {
                Err(Error::NotDone) => std::hint::spin_loop(),
                other => return other,
            }
        }
        if patience.remaining().is_some_and(|left| left.is_zero()) {
            return Err(Error::Timeout);
        }
    }
}

impl<D: Device> End<D> {
    /// Make one that is not connected.
    ///
    /// # Errors
    /// [`Failure::Call`]; so below.
    pub fn new(host: &Host<D>, shape: Shape) -> Outcome<Self> {
        let nic = host.library.open_nic("VINIC").called("VipOpenNic")?;
        let ptag = nic.create_ptag().called("VipCreatePtag")?;
        let map = Map::allocate(MEMORY).map_err(|_| Failure::Wrong("there is no memory"))?;
        let attributes = MemAttributes {
            ptag,
            rdma_write: true,
            rdma_read: true,
        };
        let memory = nic.register(map.memory(), &attributes);
        let memory = memory.called("VipRegisterMem")?;
        let cq = match shape.cq {
            true => Some(nic.create_cq(4 * WINDOW as u64, 0).called("VipCreateCQ")?),
            false => None,
        };
        let attributes = ViAttributes {
            level: shape.level,
            max_transfer_size: SIZE_MAX as u64,
            ptag,
            rdma_write: true,
            rdma_read: shape.level != Level::Unreliable,
        };
        let vi = nic.create_vi(&attributes, cq.as_ref(), cq.as_ref(), 0);
        Ok(End {
            vi: vi.called("VipCreateVi")?,
            cq,
            nic,
            map,
            memory,
            shape,
            posted: [0; 2],
            entries: [0; 2],
        })
    }

    fn patience(&self) -> Deadline {
        deadline(self.shape.patience)
    }

    fn address(&self, discriminator: &str) -> Outcome<NetAddress> {
        let attributes = self.nic.attributes().called("VipQueryNic")?;
        let discriminator = discriminator.as_bytes();
        Ok(NetAddress::new(attributes.local_address, discriminator))
    }

    /// Wait for a client and connect it, however long that takes.
    ///
    /// # Errors
    /// [`Failure::Call`].
    pub fn serve(&self, discriminator: &str) -> Outcome {
        let local = self.address(discriminator)?;
        let request = self.nic.connect_wait(&local, Deadline::NEVER);
        let request = request.called("VipConnectWait")?;
        request.accept(&self.vi).called("VipConnectAccept")
    }

    /// Connect to a server, which may be busy with something else.
    ///
    /// # Errors
    /// [`Failure::Call`].
    pub fn ask(&self, server: &NetAddress) -> Outcome {
        let (local, patience) = (self.address("vi_tool")?, self.patience());
        loop {
            let asked = self.vi.connect_request(&local, server, patience);
            match asked {
                Err(Error::NoMatch) if patience.remaining().is_none_or(|left| !left.is_zero()) => {
                    thread::sleep(AGAIN);
                }
                other => return other.map(|_| ()).called("VipConnectRequest"),
            }
        }
    }

    /// End the connection and take back all descriptors; the end can be connected again.
    ///
    /// # Errors
    /// [`Failure::Call`].
    pub fn leave(&mut self) -> Outcome {
        self.vi.disconnect().called("VipDisconnect")?;
        while self.vi.send_done().is_ok() {}
        while self.vi.recv_done().is_ok() {}
        if let Some(cq) = &self.cq {
            while cq.done().is_ok() {}
        }
        self.entries = [0; 2];
        Ok(())
    }

    /// Where the other side may read and write.
    pub fn remote(&self) -> Remote {
        Remote {
            address: (self.map.memory().start() + DATA + SIZE_MAX) as u64,
            handle: self.memory.0,
        }
    }

    fn post(&mut self, queue: QueueKind, descriptor: Descriptor, len: usize) -> Outcome {
        let kind = index(queue);
        let posted = self
            .posted
            .get_mut(kind)
            .ok_or(Failure::Wrong("no queue"))?;
        let slot = *posted % WINDOW;
        *posted += 1;
        let data = match queue {
            QueueKind::Send => DATA,
            QueueKind::Receive if len == PART => DATA + SIZE_MAX + slot * PART,
            QueueKind::Receive => DATA + SIZE_MAX,
        };
        let offset = (kind * WINDOW + slot) * DESCRIPTOR;
        let start = self.map.memory().start();
        let descriptor = descriptor.segment(start + data, self.memory, len as u32);
        let written = self
            .map
            .volatile()
            .write_slice(&descriptor.encode(), offset);
        written.map_err(|_| Failure::Wrong("a descriptor lies outside"))?;
        match queue {
            QueueKind::Send => self.vi.post_send(start + offset, self.memory),
            QueueKind::Receive => self.vi.post_recv(start + offset, self.memory),
        }
        .called("VipPostSend or VipPostRecv")
    }

    /// Post a receive of any message.
    ///
    /// # Errors
    /// [`Failure::Call`].
    pub fn receive(&mut self) -> Outcome {
        self.post(QueueKind::Receive, Descriptor::new(), SIZE_MAX)
    }

    /// Post a receive of a part.
    ///
    /// # Errors
    /// [`Failure::Call`].
    pub fn receive_part(&mut self) -> Outcome {
        self.post(QueueKind::Receive, Descriptor::new(), PART)
    }

    /// The bytes of a part that was received.
    ///
    /// # Errors
    /// [`Failure::Wrong`]: it is none.
    pub fn part(&self, done: &Completion) -> Outcome<Vec<u8>> {
        let wrong = || Failure::Wrong("that was not a part");
        let offset = done.descriptor.checked_sub(self.map.memory().start());
        let slot = (offset.ok_or_else(wrong)? / DESCRIPTOR).checked_sub(WINDOW);
        let slot = slot.filter(|slot| *slot < WINDOW).ok_or_else(wrong)?;
        let mut bytes = vec![0; (done.length as usize).min(PART)];
        let start = DATA + SIZE_MAX + slot * PART;
        let read = self.map.volatile().read_slice(&mut bytes, start);
        read.map_err(|_| wrong())?;
        Ok(bytes)
    }

    /// Post an operation with as many bytes of what is to be sent; of an RDMA read, for as many.
    ///
    /// # Errors
    /// [`Failure::Call`].
    pub fn send(&mut self, descriptor: Descriptor, len: usize) -> Outcome {
        self.post(QueueKind::Send, descriptor, len)
    }

    /// Put bytes where the next message is sent from.
    ///
    /// # Errors
    /// [`Failure::Wrong`]: too many.
    pub fn write(&self, bytes: &[u8]) -> Outcome {
        let written = self.map.volatile().write_slice(bytes, DATA);
        written.map_err(|_| Failure::Wrong("a message is too long"))
    }

    /// The beginning of the message that was received last.
    ///
    /// # Errors
    /// [`Failure::Wrong`]: too much.
    pub fn read(&self, bytes: &mut [u8]) -> Outcome {
        let read = self.map.volatile().read_slice(bytes, DATA + SIZE_MAX);
        read.map_err(|_| Failure::Wrong("a message is too long"))
    }

    /// Take a descriptor of a queue, as soon as there is one.
    ///
    /// # Errors
    /// [`Failure::Descriptor`]: it has failed. [`Failure::Call`].
    pub fn take(&mut self, queue: QueueKind) -> Outcome<Completion> {
        let patience = self.patience();
        let done = match self.cq.clone() {
            Some(cq) => self.entry(&cq, queue, patience)?,
            None if self.shape.wait => match queue {
                QueueKind::Send => self.vi.send_wait(patience),
                QueueKind::Receive => self.vi.recv_wait(patience),
            },
            None => look(patience, || self.done(queue)),
        };
        let done = done.called("a completion")?;
        match done.status.is_error() {
            true => Err(Failure::Descriptor(done.status)),
            false => Ok(done),
        }
    }

    fn done(&self, queue: QueueKind) -> vipl::Result<Completion> {
        match queue {
            QueueKind::Send => self.vi.send_done(),
            QueueKind::Receive => self.vi.recv_done(),
        }
    }

    fn entry(
        &mut self,
        cq: &Cq<D>,
        queue: QueueKind,
        patience: Deadline,
    ) -> Outcome<vipl::Result<Completion>> {
        loop {
            let wanted = self.entries.get_mut(index(queue));
            if let Some(count) = wanted.filter(|count| **count > 0) {
                *count -= 1;
                return Ok(self.done(queue));
            }
            let entry = match self.shape.wait {
                true => cq.wait(patience),
                false => look(patience, || cq.done()),
            };
            match entry {
                Ok((_, kind)) => {
                    if let Some(count) = self.entries.get_mut(index(kind)) {
                        *count += 1;
                    }
                }
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}
