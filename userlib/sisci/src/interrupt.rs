// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interrupts: events that other nodes trigger by a number, plain or with a message. The driver
//! offers them at one interface each; here they are an adapter's, at all of its interfaces.

use crate::{
    desc::no_call, next, refuse_callback, remote::connect, users::Users, Action, Adapter, Desc,
    Error, Result, BROADCAST_NODE,
};
use mp_fabric::{
    taken, CharDevice, Connection, Deadline, Device, EventMask, Goal, InterfaceId, Number, Object,
    Offer, Removal, Triggers, Waits,
};
use rustix::io::Errno;
use std::{sync::Arc, time::Duration};

/// Most bytes of a message.
pub const MESSAGE_MAX: usize = 4096;

/// How long a message waits for room at its receiver.
const ROOM: Duration = Duration::from_secs(1);

/// How often another number is looked for, if one is taken at some of the interfaces.
const ATTEMPTS: u32 = 64;

/// How an interrupt is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptFlags {
    /// The number that it is to have; any without.
    pub number: Option<u32>,
    /// Shared with all who say so: each is notified.
    pub shared: bool,
    /// Every trigger counts; of plain interrupts.
    pub counting: bool,
}

/// What the two kinds have in common: offers at all interfaces of an adapter.
struct Local<D: Device> {
    desc: Desc<D>,
    offers: Vec<Offer<D>>,
    number: u32,
    waits: Waits,
    users: Users,
}

impl<D: Device> Local<D> {
    fn new(
        desc: &Desc<D>,
        adapter: u32,
        flags: InterruptFlags,
        offer: impl Fn(InterfaceId, Number) -> mp_fabric::Result<Offer<D>>,
    ) -> Result<Self> {
        let user = desc.enter()?;
        let adapter = desc.adapter(adapter)?;
        let offers = offer_all(&adapter, flags, offer)?;
        Ok(Local {
            desc: desc.clone(),
            number: offers.first().map_or(0, Offer::number),
            offers,
            waits: Waits::default(),
            users: Users::below(user),
        })
    }

    /// The offers, except for those that an attempt to remove it has removed.
    fn open_offers(&self) -> impl DoubleEndedIterator<Item = &Offer<D>> {
        self.offers.iter().filter(|offer| !offer.is_closed())
    }

    fn objects(&self) -> impl Iterator<Item = &Object<D>> {
        self.open_offers().map(|offer| &**offer)
    }

    /// Let a callback run for events; the function takes one of them and run it.
    fn call(
        self: &Arc<Self>,
        mask: EventMask,
        mut run: impl FnMut(&Self) -> Option<Action> + Send + 'static,
    ) -> Result<()> {
        let local = Arc::downgrade(self);
        let run = move || next(local.upgrade().and_then(|local| run(&local)));
        let reactor = &self.desc.context.reactor;
        Ok(self.waits.call(reactor, self.objects(), mask, run)?)
    }

    /// Wait until the function has taken something.
    fn wait<T>(
        &self,
        mask: EventMask,
        milliseconds: u32,
        mut take: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        refuse_callback(&self.waits)?;
        let deadline = Deadline::after_milliseconds(milliseconds);
        self.waits
            .wait(self.objects(), mask, deadline, || take(self))
    }

    /// Busy as long as somebody is connected; nobody new can connect from then on (SI-RMINT-3).
    fn remove(&self) -> Result<()> {
        self.users.release(|| {
            let mut busy = false;
            for offer in self.open_offers() {
                match offer.remove(Removal::Unused) {
                    Ok(()) => {}
                    Err(mp_fabric::Error::System(Errno::BUSY)) => busy = true,
                    Err(other) => return Err(other.into()),
                }
            }
            if busy {
                Err(Error::Busy)
            } else {
                Ok(())
            }
        })?;
        self.waits.cancel();
        Ok(())
    }
}

impl<D: Device> Drop for Local<D> {
    fn drop(&mut self) {
        self.waits.cancel();
    }
}

/// Offer one number at all interfaces.
fn offer_all<D: Device>(
    adapter: &Adapter,
    flags: InterruptFlags,
    offer: impl Fn(InterfaceId, Number) -> mp_fabric::Result<Offer<D>>,
) -> Result<Vec<Offer<D>>> {
    // Those that were in the way stay until the end, so that another number is found.
    let mut rejected = Vec::new();
    for _ in 0..ATTEMPTS {
        let mut offers: Vec<Offer<D>> = Vec::new();
        let mut clash = false;
        for interface in adapter.interfaces() {
            let wanted = match flags.number.or(offers.first().map(Offer::number)) {
                None if flags.shared => Number::AnyShared,
                None => Number::Any,
                Some(number) if flags.shared => Number::Shared(number),
                Some(number) => Number::Own(number),
            };
            match offer(interface, wanted) {
                Ok(new) => offers.push(new),
                Err(mp_fabric::Error::UidTaken(_)) if flags.number.is_none() => {
                    clash = true;
                    break;
                }
                Err(error) => return Err(no_call(error.into())),
            }
        }
        if !clash {
            return Ok(offers);
        }
        rejected.extend(offers);
    }
    Err(Error::HwNoSpace)
}

/// An interrupt that other nodes trigger. Copies are the same one.
pub struct LocalInterrupt<D: Device = CharDevice>(Arc<Local<D>>);

/// An interrupt that other nodes trigger with a message. Copies are the same one.
pub struct LocalDataInterrupt<D: Device = CharDevice>(Arc<Local<D>>);

/// A connection to an interrupt of a node. Copies are the same one.
pub struct RemoteInterrupt<D: Device = CharDevice>(Arc<Remote<D>>);

/// A connection to interrupts with messages of one node or of all. Copies are the same one.
pub struct RemoteDataInterrupt<D: Device = CharDevice>(Arc<Remote<D>>);

struct Remote<D: Device> {
    connections: Vec<Connection<D>>,
    users: Users,
}

crate::shared!(LocalInterrupt LocalDataInterrupt RemoteInterrupt RemoteDataInterrupt);

impl<D: Device> Desc<D> {
    /// Make an interrupt of an adapter.
    ///
    /// # Errors
    /// Those of the adapter; [`Error::SegmentIdUsed`]: the number is used. [`Error::NoSpace`].
    pub fn create_interrupt(
        &self,
        adapter: u32,
        flags: InterruptFlags,
    ) -> Result<LocalInterrupt<D>> {
        let local = Local::new(self, adapter, flags, |interface, number| {
            let triggers = match flags.counting {
                true => Triggers::Counted,
                false => Triggers::Merged,
            };
            self.fabric().offer_event(interface, number, triggers)
        })?;
        Ok(LocalInterrupt(Arc::new(local)))
    }

    /// Make an interrupt of an adapter that carries messages.
    ///
    /// # Errors
    /// As [`create_interrupt()`](Self::create_interrupt).
    pub fn create_data_interrupt(
        &self,
        adapter: u32,
        flags: InterruptFlags,
    ) -> Result<LocalDataInterrupt<D>> {
        let local = Local::new(self, adapter, flags, |interface, number| {
            self.fabric().offer_port(interface, number)
        })?;
        Ok(LocalDataInterrupt(Arc::new(local)))
    }

    /// Connect to an interrupt of a node.
    ///
    /// # Errors
    /// As [`connect_segment()`](Self::connect_segment); [`Error::ConnectionRefused`]: each trigger
    /// is to count, and does not.
    pub fn connect_interrupt(
        &self,
        node: u32,
        adapter: u32,
        number: u32,
        milliseconds: u32,
        triggers: Triggers,
    ) -> Result<RemoteInterrupt<D>> {
        let user = self.enter()?;
        let interface = self.route(adapter, node)?;
        let goal = match triggers {
            Triggers::Merged => Goal::Event(number.into()),
            Triggers::Counted => Goal::CountedEvent(number.into()),
        };
        Ok(RemoteInterrupt(Arc::new(Remote {
            connections: vec![connect(self, interface, goal, milliseconds)?],
            users: Users::below(user),
        })))
    }

    /// Connect to an interrupt with messages of a node.
    ///
    /// # Errors
    /// As [`connect_segment()`](Self::connect_segment).
    pub fn connect_data_interrupt(
        &self,
        node: u32,
        adapter: u32,
        number: u32,
        milliseconds: u32,
    ) -> Result<RemoteDataInterrupt<D>> {
        let user = self.enter()?;
        let interface = self.route(adapter, node)?;
        let connections = vec![connect(
            self,
            interface,
            Goal::Port(number.into()),
            milliseconds,
        )?];
        Ok(RemoteDataInterrupt(Arc::new(Remote {
            connections,
            users: Users::below(user),
        })))
    }

    /// Connect to the interrupts of that number on all nodes that can be reached, this one
    /// included; the node id is [`BROADCAST_NODE`].
    ///
    /// # Errors
    /// In this order: those of the adapter; [`Error::IllegalNodeId`]; [`Error::NoSuchSegment`]:
    /// no node has it.
    pub fn connect_data_interrupts(
        &self,
        node: u32,
        adapter: u32,
        number: u32,
        milliseconds: u32,
    ) -> Result<RemoteDataInterrupt<D>> {
        let user = self.enter()?;
        let adapter = self.adapter(adapter)?;
        if node != BROADCAST_NODE {
            return Err(Error::IllegalNodeId);
        }
        let all = adapter.interfaces();
        let connected = all.map(|id| connect(self, id, Goal::Port(number.into()), milliseconds));
        let connections: Vec<_> = connected.filter_map(Result::ok).collect();
        if connections.is_empty() {
            return Err(Error::NoSuchSegment);
        }
        Ok(RemoteDataInterrupt(Arc::new(Remote {
            connections,
            users: Users::below(user),
        })))
    }
}

impl<D: Device> Local<D> {
    /// Take one trigger, if there is one.
    fn take(&self) -> Result<Option<()>> {
        // The links are behind the loopback interface, and most comes over them.
        for offer in self.open_offers().rev() {
            if taken(offer.wait(EventMask::SIGNAL, Deadline::PAST))?.is_some() {
                return Ok(Some(()));
            }
        }
        Ok(None)
    }

    /// Take one message, if there is one: its length.
    fn receive(&self, room: &mut [u8]) -> Result<Option<usize>> {
        for offer in self.open_offers().rev() {
            if let Some(received) = taken(offer.receive(room, Deadline::PAST))? {
                return Ok(Some(received.len));
            }
        }
        Ok(None)
    }
}

impl<D: Device> LocalInterrupt<D> {
    /// The number by which nodes connect.
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// The virtual device that it was made on.
    pub fn desc(&self) -> &Desc<D> {
        &self.0.desc
    }

    /// Let a callback run for each interrupt, also for those that have come already.
    ///
    /// # Errors
    /// [`Error::System`]: no thread for callbacks.
    pub fn set_callback(
        &self,
        mut callback: impl FnMut() -> Action + Send + 'static,
    ) -> Result<()> {
        self.0.call(EventMask::SIGNAL, move |local| {
            local.take().ok()??;
            Some(callback())
        })
    }

    /// Wait so many milliseconds for one interrupt.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: there is a callback. [`Error::Timeout`].
    /// [`Error::Cancelled`]: it has been removed, or a signal has come.
    pub fn wait(&self, milliseconds: u32) -> Result<()> {
        let take = |local: &Local<D>| local.take();
        self.0.wait(EventMask::SIGNAL, milliseconds, take)
    }

    /// Remove it. The value is of no use afterwards.
    ///
    /// # Errors
    /// [`Error::Busy`]: a node is connected; no other one can connect any more.
    pub fn remove(&self) -> Result<()> {
        self.0.remove()
    }
}

impl<D: Device> LocalDataInterrupt<D> {
    /// The number by which nodes connect.
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// Let a callback run for each message, also for those that have come already.
    ///
    /// # Errors
    /// [`Error::System`]: no thread for callbacks.
    pub fn set_callback(
        &self,
        mut callback: impl FnMut(&[u8]) -> Action + Send + 'static,
    ) -> Result<()> {
        let mut room = vec![0; MESSAGE_MAX];
        self.0.call(EventMask::MESSAGE, move |local| {
            let len = local.receive(&mut room).ok()??;
            Some(callback(room.get(..len)?))
        })
    }

    /// Wait so many milliseconds for one message: its length.
    ///
    /// # Errors
    /// As [`LocalInterrupt::wait`]; [`Error::TooLong`]: it has no room, and stays.
    pub fn wait(&self, room: &mut [u8], milliseconds: u32) -> Result<usize> {
        let take = |local: &Local<D>| local.receive(room);
        self.0.wait(EventMask::MESSAGE, milliseconds, take)
    }

    /// Remove it, and what it has not given yet.
    ///
    /// # Errors
    /// As [`LocalInterrupt::remove`].
    pub fn remove(&self) -> Result<()> {
        self.0.remove()
    }
}

impl<D: Device> Remote<D> {
    fn disconnect(&self) -> Result<()> {
        self.users.release(|| {
            for connection in &self.connections {
                // It ends here in any case; the driver tells the other side.
                let _ = connection.close();
            }
            Ok(())
        })
    }
}

/// What a connection's error means for a trigger.
fn triggered(result: mp_fabric::Result<()>) -> Result<()> {
    result.map_err(|error| match error {
        mp_fabric::Error::NotFound(_) => Error::IllegalParameter,
        mp_fabric::Error::TimedOut => Error::NoSpace,
        mp_fabric::Error::System(Errno::MSGSIZE) => Error::OutOfRange,
        other => other.into(),
    })
}

impl<D: Device> RemoteInterrupt<D> {
    /// Trigger it, after everything that this process has written before.
    ///
    /// # Errors
    /// [`Error::NoLinkAccess`], [`Error::NotConnected`]: its owner is gone.
    pub fn trigger(&self) -> Result<()> {
        let mut connections = self.0.connections.iter();
        connections.try_for_each(|connection| triggered(connection.trigger()))
    }

    /// Disconnect. The value is of no use afterwards.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: that was done before.
    pub fn disconnect(&self) -> Result<()> {
        self.0.disconnect()
    }
}

impl<D: Device> RemoteDataInterrupt<D> {
    /// Send a message; to all nodes, if it is connected to all.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]: longer than [`MESSAGE_MAX`]. [`Error::NoSpace`]: a receiver has
    /// no room. [`Error::NoLinkAccess`], [`Error::NotConnected`]: an owner is gone. With several
    /// nodes the first error; the others have the message.
    pub fn trigger(&self, data: &[u8]) -> Result<()> {
        if data.len() > MESSAGE_MAX {
            return Err(Error::OutOfRange);
        }
        let deadline = Deadline::after(ROOM);
        let sent = self.0.connections.iter();
        let sent = sent.map(|connection| triggered(connection.send(data, deadline)));
        sent.fold(Ok(()), Result::and)
    }

    /// Disconnect. The value is of no use afterwards.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: that was done before.
    pub fn disconnect(&self) -> Result<()> {
        self.0.disconnect()
    }
}
