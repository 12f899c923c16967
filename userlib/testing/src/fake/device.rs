// SPDX-License-Identifier: MIT OR Apache-2.0

//! A context on one of the hosts: takes calls apart, and waits.

use super::{
    sharing::{slot, STATUS_LEN, STATUS_OFFSET},
    state::{interface, Key, State, BOTH},
    Host, World, LOOPBACK,
};
use mp_fabric::{sys::*, Call, Deadline, Device, Map, Protection, RemoteMemory};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::{self, Errno},
};
use std::{ffi::c_char, sync::PoisonError, thread, time::Duration};

type Result<T> = std::result::Result<T, Errno>;

/// Ids of an IDT switch, so that there is something to look up.
const IDS: (u16, u16) = (0x111d, 0x8091);

/// What behaves like an open file of the character device.
#[derive(Debug)]
pub struct FakeDevice {
    pub(super) world: World,
    host: Host,
    pub(super) context: u32,
    readable: OwnedFd,
}

impl FakeDevice {
    pub(crate) fn new(world: World, host: Host) -> Self {
        let (context, readable) = world
            .change(|state| state.enter(host))
            .expect("descriptors");
        FakeDevice {
            world,
            host,
            context,
            readable,
        }
    }

    fn interfaces(&self, state: &State) -> Vec<u32> {
        let present = |link: &usize| {
            let link = &state.links[*link];
            link.own.is_none() && link.present[self.host as usize]
        };
        let links = (0..state.links.len()).filter(present);
        let ids = links.map(|link| interface(link, self.host));
        std::iter::once(LOOPBACK).chain(ids).collect()
    }

    fn interface(&self, state: &State, out: &mut mp_interface) -> Result<()> {
        let id = out.id;
        *out = mp_interface {
            id,
            peer: MP_PEER_NONE,
            ..Default::default()
        };
        if id == LOOPBACK {
            out.flags = MP_INTERFACE_LOOPBACK;
            out.peer = self.host as u32;
            return Ok(());
        }
        if state.is_routed(id) {
            out.flags |= MP_INTERFACE_ROUTED;
        }
        let number = state.link(self.host, id)?;
        let link = &state.links[number];
        if state.is_up(number) {
            out.flags |= MP_INTERFACE_UP | MP_INTERFACE_REMOTE;
            out.peer = self.host.other() as u32;
            out.epoch = link.epoch;
            out.local_total = link.total;
            out.local_free = link.free[self.host as usize];
            out.remote_total = link.total;
            out.remote_word_size = 64;
            out.remote_big_endian = state.big_endian.into();
        }
        if state.pci {
            out.flags |= MP_INTERFACE_PCI;
            (out.vendor, out.device) = IDS;
            (out.subsystem_vendor, out.subsystem_device) = (0x1234, 0x5678);
            (out.pci_domain, out.pci_domain_high) = (3, 1);
            (out.pci_bus, out.pci_devfn) = (0x42, 0x1f << 3 | 5);
        }
        for (to, from) in out.name.iter_mut().zip(state.name.iter().take(31)) {
            *to = c_char::from_ne_bytes([*from]);
        }
        Ok(())
    }

    fn window(&self, state: &State, out: &mut mp_window, data: &mut [u8]) -> Result<()> {
        let link = state.link_up(self.host, out.interface)?;
        let mut windows = state.windows(self.host, link);
        let session = windows
            .find(|session| session.open.uid == out.id)
            .ok_or(Errno::NOENT)?;
        let open = &session.open;
        out.role = open.role;
        out.location = open.location;
        out.protocol = open.protocol;
        out.paired = u32::from(session.events & MP_EVENT_PAIRED != 0);
        (out.local_min, out.local_max) = (open.local_min, open.local_max);
        (out.remote_min, out.remote_max) = (open.remote_min, open.remote_max);
        if out.paired != 0 {
            (out.local_min, out.local_max) = (session.local.size, session.local.size);
            (out.remote_min, out.remote_max) = (session.remote.size, session.remote.size);
        }
        out.data_size = session.data.len() as u32;
        let room = data.get_mut(..session.data.len()).ok_or(Errno::NOSPC)?;
        room.copy_from_slice(&session.data);
        Ok(())
    }

    fn session(&self, state: &State, out: &mut mp_session) -> Result<()> {
        let session = state.session(self.context, out.handle)?;
        out.events = session.events;
        out.interface = session.open.interface;
        out.status = slot(out.handle) as u32;
        out.uid = session.open.uid;
        let offset = u64::from(out.handle) << 32;
        (out.local_size, out.local_offset) = (session.local.size, offset);
        (out.remote_size, out.remote_offset) = (session.remote.size, offset | 0x1000);
        if session.open.location == MP_LOCATION_PHYSICAL && session.open.role == MP_ROLE_SERVER {
            out.local_offset = 0;
        }
        if state.is_routed(out.interface) {
            out.remote_offset = 0;
        }
        Ok(())
    }

    /// Make stores in the partner's memory, words in one piece.
    fn store(
        &self,
        state: &mut State,
        store: &mp_session_store,
        stores: &[mp_copy],
        bytes: &[u8],
    ) -> Result<()> {
        state.store_fails()?;
        let session = state.session(self.context, store.handle)?;
        match session.events {
            events if events & MP_EVENT_CLOSED != 0 => return Err(Errno::CONNRESET),
            events if events & MP_EVENT_DOWN != 0 => return Err(Errno::NETDOWN),
            events if events & MP_EVENT_PAIRED == 0 => return Err(Errno::NOTCONN),
            _ if !state.is_routed(session.open.interface) => return Err(Errno::OPNOTSUPP),
            _ => {}
        }
        let file = session.remote.file.as_ref().ok_or(Errno::NXIO)?;
        let map = Map::new(file, 0, session.remote.size)?;
        for store in stores {
            let (at, to) = (store.local as usize, store.remote as usize);
            let bytes = bytes.get(at..at + store.length as usize);
            let bytes = bytes.ok_or(Errno::FAULT)?;
            if to % 8 != 0 || bytes.len() % 8 != 0 || bytes.len() > 64 {
                map.write(to, bytes)?;
                continue;
            }
            for (n, word) in bytes.chunks_exact(8).enumerate() {
                let word = word.try_into().map_err(|_| Errno::FAULT)?;
                map.store(to + 8 * n, u64::from_le_bytes(word))?;
            }
        }
        map.barrier();
        Ok(())
    }

    /// Events of a target, and of those the ones that a wait finds.
    fn events(&self, state: &mut State, wait: &mp_wait) -> Result<u32> {
        if wait.flags & MP_WAIT_INTERFACE != 0 {
            if wait.target == MP_INTERFACE_ANY {
                self.check(state, (wait.target, true))?;
                let present = self.present(state, (wait.target, true));
                return Ok(present & wait.mask & MP_EVENT_STATE);
            }
            if wait.target != LOOPBACK {
                let gone = state.link(self.host, wait.target);
                let context = state
                    .contexts
                    .get_mut(&self.context)
                    .ok_or(Errno::SHUTDOWN)?;
                let events = context.interfaces.entry(wait.target).or_insert(BOTH);
                // Its removal is still told.
                if let (Err(errno), true) = (gone, *events & MP_EVENT_STATE == 0) {
                    return Err(errno);
                }
                return Ok(*events & wait.mask);
            }
            return Ok(0);
        }
        if let Ok(events) = state.object_events(self.context, wait.target) {
            return Ok(events & wait.mask);
        }
        let session = state.session(self.context, wait.target)?;
        let first = MP_EVENT_PAIRED | MP_EVENT_REQUEST | MP_EVENT_REFUSED;
        if wait.mask & first == 0 && session.events & MP_EVENT_PAIRED == 0 {
            return Err(Errno::NOTCONN);
        }
        let found = session.events & wait.mask;
        if wait.flags & MP_WAIT_ONE == 0 {
            return Ok(found);
        }
        let order = [
            MP_EVENT_CLOSED,
            MP_EVENT_DOWN,
            MP_EVENT_SIGNAL,
            MP_EVENT_PAIRED,
        ];
        Ok(order
            .into_iter()
            .find(|event| found & event != 0)
            .unwrap_or(0))
    }

    fn take(&self, state: &mut State, wait: &mp_wait, events: u32) {
        if wait.flags & MP_WAIT_INTERFACE != 0 {
            if let Some(context) = state.contexts.get_mut(&self.context) {
                *context.interfaces.entry(wait.target).or_insert(BOTH) &= !events;
            }
        } else if let Ok(session) = state.session_mut(self.context, wait.target) {
            session.events &= !(events & MP_EVENT_SIGNAL);
        } else {
            state.take_object_events(self.context, wait.target, events);
        }
    }

    /// Repeat what says that it has to wait, until the deadline.
    fn until<T>(
        &self,
        deadline: u64,
        mut attempt: impl FnMut(&mut State) -> Result<T>,
    ) -> Result<T> {
        let deadline = Deadline::at(deadline);
        let mut state = self.world.lock();
        loop {
            match attempt(&mut state) {
                Err(Errno::AGAIN) => {}
                done => {
                    drop(state);
                    self.world.0.changed.notify_all();
                    return done;
                }
            }
            let left = deadline.remaining();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Errno::TIMEDOUT);
            }
            state.waiting += 1;
            let left = left.unwrap_or(Duration::from_secs(3600));
            let woken = self.world.0.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }

    fn wait(&self, wait: &mut mp_wait) -> Result<()> {
        let deadline = Deadline::at(wait.deadline);
        let mut state = self.world.lock();
        loop {
            let events = self.events(&mut state, wait)?;
            if events != 0 {
                self.take(&mut state, wait, events);
                wait.events = events;
                return Ok(());
            }
            let left = deadline.remaining();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Errno::TIMEDOUT);
            }
            state.waiting += 1;
            let left = left.unwrap_or(Duration::from_secs(3600));
            let woken = self.world.0.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }

    fn check(&self, state: &State, (target, is_interface): Key) -> Result<()> {
        match is_interface {
            true if target == LOOPBACK => Ok(()),
            true if target == MP_INTERFACE_ANY && state.tells_arrivals => Ok(()),
            true => state.link(self.host, target).map(|_| ()),
            false if state.object_events(self.context, target).is_ok() => Ok(()),
            false => state.session(self.context, target).map(|_| ()),
        }
    }

    /// Events of a target that are there already.
    fn present(&self, state: &mut State, (target, is_interface): Key) -> u32 {
        match is_interface {
            true if target == LOOPBACK => 0,
            true => {
                let context = state.contexts.get(&self.context);
                let events = context.and_then(|context| context.interfaces.get(&target));
                events.copied().unwrap_or(BOTH)
            }
            false => match state.object_events(self.context, target) {
                Ok(events) => events,
                Err(_) => state
                    .session(self.context, target)
                    .map_or(0, |session| session.events),
            },
        }
    }
}

/// Put a list where it belongs.
fn fill(room: &mut [u32], count: &mut u32, ids: &[u32]) -> Result<()> {
    *count = ids.len() as u32;
    room.get_mut(..ids.len())
        .ok_or(Errno::NOSPC)?
        .copy_from_slice(ids);
    Ok(())
}

impl Device for FakeDevice {
    type Remote = Map;

    fn remote(&self, map: Map) -> Map {
        map
    }

    fn call(&self, call: Call<'_>) -> Result<()> {
        match call {
            Call::Info(info) => {
                info.version = self.world.lock().version;
                info.features = u64::from(
                    MP_FEATURE_SESSIONS
                        | MP_FEATURE_SEGMENTS
                        | MP_FEATURE_EVENTS
                        | MP_FEATURE_PORTS
                        | MP_FEATURE_QUEUES
                        | MP_FEATURE_PINNED
                        | MP_FEATURE_ACCEPT
                        | MP_FEATURE_NAMES
                        | MP_FEATURE_ARRIVALS,
                );
                if self.world.lock().fills {
                    info.features |= u64::from(MP_FEATURE_REGISTER);
                }
                if self.world.lock().places {
                    info.features |= u64::from(MP_FEATURE_PLACED);
                }
                (info.status_offset, info.status_length) = (STATUS_OFFSET, STATUS_LEN);
                info.sessions_max = self.world.lock().quota as u32;
                info.user_sessions_max = info.sessions_max;
                (info.objects_max, info.user_objects_max) = (info.sessions_max, info.sessions_max);
                Ok(())
            }
            Call::Close(handle) => {
                self.world
                    .change(|state| match state.is_object(handle.handle) {
                        true => state.close_object(self.context, handle.handle),
                        false => state.close(self.context, handle.handle),
                    })
            }
            Call::Wait(wait) => self.wait(wait),
            Call::Notify(notify, eventfd) => self.world.change(|state| {
                let key = (notify.target, notify.flags & MP_WAIT_INTERFACE != 0);
                self.check(state, key)?;
                let present = self.present(state, key);
                let context = state
                    .contexts
                    .get_mut(&self.context)
                    .ok_or(Errno::SHUTDOWN)?;
                context.notifies.remove(&key);
                if let Some(eventfd) = eventfd {
                    let eventfd = eventfd.try_clone_to_owned().map_err(|_| Errno::BADF)?;
                    context.notifies.insert(key, (notify.mask, eventfd));
                    context.report(key, present);
                }
                Ok(())
            }),
            Call::Watch(watch) => self.world.change(|state| {
                let key = (watch.target, watch.flags & MP_WAIT_INTERFACE != 0);
                self.check(state, key)?;
                let present = self.present(state, key);
                let context = state
                    .contexts
                    .get_mut(&self.context)
                    .ok_or(Errno::SHUTDOWN)?;
                context.watches.insert(key, *watch);
                context.report(key, present);
                Ok(())
            }),
            Call::Signal(_) if self.world.lock().signal_fails() => Err(Errno::NOMEM),
            Call::Signal(handle) => {
                self.world
                    .change(|state| match state.is_object(handle.handle) {
                        true => state.trigger(self.context, handle.handle),
                        false => state.signal(self.context, handle.handle),
                    })
            }
            Call::Interfaces(interfaces, ids) => {
                let present = self.interfaces(&self.world.lock());
                fill(ids, &mut interfaces.count, &present)
            }
            Call::Interface(interface) => self.interface(&self.world.lock(), interface),
            Call::Windows(windows, ids) => {
                let state = self.world.lock();
                let link = state.link_up(self.host, windows.interface)?;
                let present = state
                    .windows(self.host, link)
                    .map(|session| session.open.uid);
                fill(ids, &mut windows.count, &present.collect::<Vec<_>>())
            }
            Call::Window(window, data) => self.window(&self.world.lock(), window, data),
            Call::SessionOpen(open, data, name) => {
                let open = open.into_inner();
                open.name_size = name.len() as u32;
                let opened = |state: &mut State| state.open(self.context, open, data, name);
                self.world.change(opened)?;
                match open.flags & MP_SESSION_NONBLOCK {
                    0 => self.until(MP_DEADLINE_NEVER, |state| {
                        state.outcome(self.context, open.handle)
                    }),
                    _ => Ok(()),
                }
            }
            Call::SessionPartner(partner, room) => {
                self.world.lock().partner(self.context, partner, room)
            }
            Call::SessionAnswer(answer, data) => self
                .world
                .change(|state| state.answer(self.context, answer, data)),
            Call::Session(session) => self.session(&self.world.lock(), session),
            Call::SessionAddress(address) => {
                address.address = self.world.lock().address(self.context, address.handle)?;
                Ok(())
            }
            // As for whoever may not know it.
            Call::Address(_) => Err(Errno::PERM),
            Call::SessionAccess(access) => {
                let mut state = self.world.lock();
                state.address(self.context, access.handle)?;
                let session = state.session_mut(self.context, access.handle)?;
                let high = u32::from(access.pci_domain_high) << 16;
                let (domain, bus) = (high | u32::from(access.pci_domain), access.pci_bus);
                if access.mode == MP_ACCESS_CLEAR {
                    let function = (domain, bus, access.pci_devfn);
                    session
                        .access
                        .retain(|(_, d, b, f)| (*d, *b, *f) != function);
                } else {
                    session
                        .access
                        .push((access.mode, domain, bus, access.pci_devfn));
                }
                Ok(())
            }
            Call::SessionStore(store, stores, bytes) => {
                self.store(&mut self.world.lock(), store, stores, bytes)
            }
            Call::Park(park, entries) => self.park(park, entries),
            // As a kernel that hands nothing over.
            Call::Export(..) | Call::Import(..) | Call::SegmentDmaBuf(..) | Call::Exchange(_) => {
                Err(Errno::NOTTY)
            }
            Call::SegmentCreate(create, name) => self
                .world
                .change(|state| state.segment_create(self.context, create, name)),
            Call::SegmentFill(fill) => self
                .world
                .change(|state| state.segment_register(self.context, fill.into_inner())),
            Call::SegmentGrant(grant) => self
                .world
                .change(|state| state.segment_grant(self.context, grant)),
            Call::SegmentShare(handle) => self
                .world
                .change(|state| state.segment_share(self.context, handle.handle)),
            Call::SegmentAttach(attach) => self
                .world
                .change(|state| state.segment_attach(self.context, attach)),
            Call::SegmentPrepare(at) => self
                .world
                .change(|state| state.segment_at(self.context, at, MP_SEGMENT_PREPARED, false)),
            Call::SegmentPublish(at) => self
                .world
                .change(|state| state.segment_at(self.context, at, MP_SEGMENT_PUBLISHED, false)),
            Call::SegmentWithdraw(at) => self
                .world
                .change(|state| state.segment_at(self.context, at, MP_SEGMENT_PREPARED, true)),
            Call::Segment(segment) => self.world.lock().segment_info(self.context, segment),
            Call::Remove(remove) => self
                .world
                .change(|state| state.remove_object(self.context, remove.handle, remove.flags)),
            Call::Offer(offer, name) => self
                .world
                .change(|state| state.offer(self.context, offer, name)),
            Call::Connect(connect, name) => {
                let until = Deadline::at(connect.deadline);
                let connected = self
                    .world
                    .change(|state| state.connect(self.context, connect, name));
                // A host that does not answer is waited for.
                if connected == Err(Errno::TIMEDOUT) {
                    thread::sleep(until.remaining().unwrap_or(Duration::MAX));
                }
                connected
            }
            Call::Connection(connection) => {
                self.world.lock().connection_info(self.context, connection)
            }
            Call::Notice(notice) => {
                self.until(notice.deadline, |state| state.notice(self.context, notice))
            }
            Call::Send(message, data) => self.until(message.deadline, |state| {
                state.send(self.context, message.handle, data)
            }),
            Call::Receive(message, room) => self.until(message.deadline, |state| {
                state.receive(self.context, message, room)
            }),
            Call::Barrier(barrier) => self.world.lock().barrier(self.context, barrier),
            Call::QueueCreate(create) => self
                .world
                .change(|state| state.queue_create(self.context, create)),
            Call::QueueStart(start, copies) => self
                .world
                .change(|state| state.queue_start(self.context, start, copies.into_inner())),
            Call::QueueAbort(handle) => self
                .world
                .change(|state| state.queue_abort(self.context, handle.handle)),
            Call::Queue(queue) => self.world.lock().queue_info(self.context, queue),
        }
    }

    fn map<P: Protection>(&self, offset: u64, len: u64, hint: usize) -> Result<Map<P>> {
        let state = self.world.lock();
        if !state.mappable {
            return Err(Errno::NOMEM);
        }
        let start = offset & 0xffff_ffff;
        match state.mappable_object(self.context, offset - start) {
            Ok((_, end)) if start + len > end => return Err(Errno::INVAL),
            Ok((file, _)) => return Map::with_hint(file, start, len, hint),
            Err(_) => {}
        }
        let session = state.session(self.context, (offset >> 32) as u32)?;
        if !state.mappable {
            return Err(Errno::NOMEM);
        }
        let place = match offset & 0x1000 {
            0 => &session.local,
            _ => &session.remote,
        };
        let file = place
            .file
            .as_ref()
            .filter(|_| len <= place.size)
            .ok_or(Errno::INVAL)?;
        Map::with_hint(file, 0, len, hint)
    }

    fn read(&self, events: &mut Vec<mp_event>) -> Result<()> {
        self.world.change(|state| {
            let context = state
                .contexts
                .get_mut(&self.context)
                .ok_or(Errno::SHUTDOWN)?;
            let _ = io::read(&self.readable, &mut [0; 8]);
            if context.reported.is_empty() {
                return Err(Errno::AGAIN);
            }
            events.append(&mut context.reported);
            Ok(())
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

impl Drop for FakeDevice {
    fn drop(&mut self) {
        self.world.change(|state| state.leave(self.context));
    }
}
