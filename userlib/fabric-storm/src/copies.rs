// SPDX-License-Identifier: MIT OR Apache-2.0

//! All calls of the device, well put, of which each copy from or to the process fails once: they
//! give `EFAULT` then, have written nothing to their structure, and have changed nothing. What
//! they make is made once, what they take can be taken still, what they send arrives once. All
//! of it is between objects of one process, over the loopback interface; whoever runs it has
//! seen to it that nothing fails but copies.

use crate::{
    caller::{bytes_of, errno, OK},
    faults::Faults,
    forms::*,
    worker::{now, PAGE},
};
use libc::{EAGAIN, EFAULT, EMSGSIZE, ENOSPC, ENXIO, EOPNOTSUPP, ETIMEDOUT};
use mp_fabric::sys::*;
use std::{collections::BTreeSet, ptr::null_mut, thread::sleep, time::Duration};

/// More copies than any of these calls makes.
const MOST: u64 = 16;
/// Long enough for what comes.
const SOON: u64 = 60_000_000_000;
/// What windows are posted with, and what messages are.
const TEXT: &[u8] = b"copied";

/// What is not as it must be.
type Result<T> = std::result::Result<T, String>;

/// The address of what a structure points to.
fn address<T>(of: &[T]) -> u64 {
    of.as_ptr().expose_provenance() as u64
}

/// The address of what the kernel writes to.
fn room<T>(of: &mut [T]) -> u64 {
    of.as_mut_ptr().expose_provenance() as u64
}

/// A process with a context.
struct Process {
    fd: i32,
    /// The loopback interface.
    interface: u32,
    /// The calls whose copies have failed.
    tried: BTreeSet<&'static str>,
}

impl Process {
    fn open() -> Result<Self> {
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: A path.
        let fd = unsafe { libc::open(c"/dev/mp_fabric".as_ptr(), flags) };
        match fd {
            -1 => Err(format!("no device: error {}", errno())),
            fd => Ok(Process {
                fd,
                interface: 0,
                tried: BTreeSet::new(),
            }),
        }
    }

    /// Make a call; its error, or [`OK`].
    fn call<T: Copy>(&self, form: &Form, value: &mut T) -> i32 {
        assert_eq!(size_of::<T>(), form.size, "{}", form.name);
        let start = std::ptr::from_mut(value);
        // SAFETY: All structures begin with their size. The kernel writes to what is there, and
        // to arrays that the callers have.
        match unsafe {
            start.cast::<u32>().write(form.size as u32);
            libc::ioctl(self.fd, u64::from(form.number), start)
        } {
            0 => OK,
            _ => errno(),
        }
    }

    /// Make a call of which the `nth` copy fails, if it makes as many.
    fn call_with_fault<T: Copy>(&self, form: &Form, value: &mut T, nth: u64) -> i32 {
        Faults(true).during(nth, || self.call(form, value))
    }

    /// Let each copy of a call fail, until none does any more; its result is one of `ends` then.
    /// The structure, and how many copies there were.
    fn exhaust<T: Copy>(&mut self, form: &Form, value: T, ends: &[i32]) -> Result<(T, u64)> {
        for nth in 1..=MOST {
            let mut given = value;
            let got = self.call_with_fault(form, &mut given, nth);
            if got != EFAULT {
                let copies = self.end(form, got, ends, nth - 1)?;
                return Ok((given, copies));
            }
            // All but the size, which this has set itself.
            if bytes_of(&given)[4..] != bytes_of(&value)[4..] {
                return Err(format!("{} has written, and failed", form.name));
            }
        }
        Err(format!("{} makes more than {MOST} copies", form.name))
    }

    /// A call has ended after so many faults.
    fn end(&mut self, form: &Form, got: i32, ends: &[i32], copies: u64) -> Result<u64> {
        if !ends.contains(&got) {
            return Err(format!("{} gave error {got}", form.name));
        }
        // Its size, all of it, and what it gives.
        let gives = form.answers == Answers::Late && (got == OK || form.short.contains(&got));
        if copies < 2 + u64::from(gives) {
            return Err(format!("only {copies} copies of {} fail", form.name));
        }
        self.tried.insert(form.name);
        Ok(copies)
    }

    /// As [`exhaust`](Self::exhaust), of a call that succeeds in the end.
    fn ask<T: Copy>(&mut self, form: &Form, value: T) -> Result<T> {
        self.exhaust(form, value, &[OK]).map(|(given, _)| given)
    }

    /// As [`ask`](Self::ask), of a call that makes one of at most so many objects. When it has
    /// failed as often, there is still only one.
    fn make<T: Copy>(&mut self, form: &Form, value: T, most: u32) -> Result<T> {
        let (made, copies) = self.exhaust(form, value, &[OK])?;
        for _ in 0..most {
            let got = self.call_with_fault(form, &mut { value }, copies);
            if got != EFAULT {
                return Err(format!("{} gave error {got} at last", form.name));
            }
        }
        Ok(made)
    }

    /// Make a call that succeeds.
    fn plain<T: Copy>(&self, form: &Form, mut value: T) -> Result<T> {
        match self.call(form, &mut value) {
            OK => Ok(value),
            error => Err(format!("{} gave error {error}", form.name)),
        }
    }

    /// There is nothing, or nothing more.
    fn expect<T: Copy>(&self, error: i32, form: &Form, value: T) -> Result<()> {
        match self.call(form, &mut { value }) {
            got if got == error => Ok(()),
            got => Err(format!("{} gave {got}, not {error}", form.name)),
        }
    }

    fn wait_for(&mut self, target: u32, mask: u32) -> Result<()> {
        let wait = mp_wait {
            target,
            mask,
            deadline: now() + SOON,
            ..Default::default()
        };
        match self.ask(&WAIT, wait)?.events {
            events if events == mask => Ok(()),
            events => Err(format!("events {events:#x}, not {mask:#x}")),
        }
    }

    /// Take a signal that was given once.
    fn take_signal(&mut self, target: u32) -> Result<()> {
        self.wait_for(target, MP_EVENT_SIGNAL)?;
        let wait = mp_wait {
            target,
            mask: MP_EVENT_SIGNAL,
            ..Default::default()
        };
        self.expect(ETIMEDOUT, &WAIT, wait)
    }

    fn find_loopback(&mut self) -> Result<()> {
        let mut ids = [0_u32; 16];
        let list = mp_interfaces {
            capacity: 0,
            ids: room(&mut ids),
            ..Default::default()
        };
        self.exhaust(&INTERFACES, list, &[ENOSPC])?;
        let capacity = ids.len() as u32;
        let list = self.ask(&INTERFACES, mp_interfaces { capacity, ..list })?;
        for id in &ids[..list.count as usize] {
            let about = mp_interface {
                id: *id,
                ..Default::default()
            };
            if self.ask(&INTERFACE, about)?.flags & MP_INTERFACE_LOOPBACK != 0 {
                self.interface = *id;
                return Ok(());
            }
        }
        Err("no loopback interface".to_owned())
    }

    /// A connection to what has the number or, if that is 0, the name.
    fn connect(&mut self, object: u32, number: u32) -> mp_connect {
        let name_size = if number == 0 { TEXT.len() } else { 0 };
        mp_connect {
            interface: self.interface,
            object,
            number,
            name: address(TEXT),
            name_size: name_size as u32,
            deadline: now() + SOON,
            ..Default::default()
        }
    }

    /// A segment that is published, and a connection to it.
    fn share_memory(&mut self, most: u32) -> Result<(u32, u32)> {
        let create = mp_segment_create {
            id: 1,
            id_more: u32::MAX,
            length: 2 * PAGE,
            name: address(TEXT),
            name_size: TEXT.len() as u32,
            ..Default::default()
        };
        let mp_segment_create { handle, id, .. } = self.make(&SEGMENT_CREATE, create, most)?;
        let of = mp_handle { size: 0, handle };
        self.ask(&SEGMENT_SHARE, of)?;
        let attach = mp_segment_attach {
            id,
            ..Default::default()
        };
        let other = self.make(&SEGMENT_ATTACH, attach, most)?.handle;
        let of_other = mp_handle {
            size: 0,
            handle: other,
        };
        self.ask(&CLOSE, of_other)?;
        let at = mp_segment_interface {
            handle,
            interface: self.interface,
            ..Default::default()
        };
        self.ask(&SEGMENT_PREPARE, at)?;
        self.ask(&SEGMENT_PUBLISH, at)?;
        let about = mp_segment {
            handle,
            interface: self.interface,
            ..Default::default()
        };
        if self.ask(&SEGMENT, about)?.state != MP_SEGMENT_PUBLISHED {
            return Err("not published".to_owned());
        }
        let connect = self.connect(MP_OBJECT_SEGMENT, id);
        let connection = self.ask(&CONNECT, connect)?.handle;
        // One that was made, but whose handle nobody was told, was there as well.
        let made = MP_NOTICE_CONNECTED;
        self.take_notices(handle, &[made, MP_NOTICE_DISCONNECTED, made])?;
        Ok((handle, connection))
    }

    /// Take these notices of an object, and there are no others.
    fn take_notices(&mut self, handle: u32, kinds: &[u32]) -> Result<()> {
        let mut notice = mp_notice {
            handle,
            deadline: now() + SOON,
            ..Default::default()
        };
        for kind in kinds {
            let taken = self.ask(&NOTICE, notice)?.notice;
            if taken != *kind {
                return Err(format!("notice {taken}, not {kind}"));
            }
        }
        notice.deadline = MP_DEADLINE_PAST;
        self.expect(ETIMEDOUT, &NOTICE, notice)
    }

    fn use_connection(&mut self, handle: u32) -> Result<()> {
        let about = mp_connection {
            handle,
            ..Default::default()
        };
        if self.ask(&CONNECTION, about)?.state != MP_CONNECTION_OPERATIONAL {
            return Err("not operational".to_owned());
        }
        let barrier = mp_barrier {
            target: handle,
            deadline: now() + SOON,
            ..Default::default()
        };
        self.ask(&BARRIER, barrier)?;
        let word = mp_exchange {
            connection: handle,
            deadline: now() + SOON,
            ..Default::default()
        };
        self.ask(&EXCHANGE, word)?;
        let range = mp_address {
            handle,
            length: 1,
            ..Default::default()
        };
        self.ask(&ADDRESS, range).map(|_| ())
    }

    fn offer(&self, object: u32, flags: u32) -> mp_offer {
        mp_offer {
            flags: MP_OFFER_ANY | flags,
            interface: self.interface,
            object,
            name: address(TEXT),
            name_size: TEXT.len() as u32,
            ..Default::default()
        }
    }

    fn trigger(&mut self, most: u32) -> Result<()> {
        let offer = self.offer(MP_OBJECT_EVENT, MP_OFFER_COUNTED);
        let event = self.make(&OFFER, offer, most)?;
        let connect = self.connect(MP_OBJECT_EVENT, 0);
        let handle = self.make(&CONNECT, connect, most)?.handle;
        let signal = mp_handle { size: 0, handle };
        self.ask(&SIGNAL, signal)?;
        self.take_signal(event.handle)?;
        let watch = mp_watch {
            target: event.handle,
            mask: MP_EVENT_SIGNAL,
            cookie: 7,
            ..Default::default()
        };
        self.ask(&WATCH, watch)?;
        let notify = mp_eventfd {
            target: event.handle,
            mask: MP_EVENT_SIGNAL,
            eventfd: -1,
            ..Default::default()
        };
        self.ask(&EVENTFD, notify)?;
        self.ask(&SIGNAL, signal)?;
        self.wait_until_readable()?;
        self.read_record(event.handle)?;
        self.take_signal(event.handle)
    }

    fn wait_until_readable(&self) -> Result<()> {
        let mut poll = libc::pollfd {
            fd: self.fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: One descriptor.
        match unsafe { libc::poll(&mut poll, 1, (SOON / 1_000_000) as i32) } {
            1 => Ok(()),
            got => Err(format!("poll gave {got}")),
        }
    }

    fn read(&self, record: &mut [u8], nth: u64) -> std::result::Result<usize, i32> {
        // SAFETY: Memory for that.
        let read = Faults(true).during(nth, || unsafe {
            libc::read(self.fd, record.as_mut_ptr().cast(), record.len())
        });
        usize::try_from(read).map_err(|_| errno())
    }

    /// Read the one record that there is, which is there still when it could not be given.
    fn read_record(&self, target: u32) -> Result<()> {
        let mut record = [0_u8; size_of::<mp_event>()];
        let told = |record: &[u8]| record[8..12] == target.to_ne_bytes();
        match self.read(&mut record, 1) {
            Err(EFAULT) if record == [0; size_of::<mp_event>()] => {}
            got => return Err(format!("read gave {got:?} without a copy")),
        }
        match self.read(&mut record, MOST) {
            Ok(len) if len == record.len() && told(&record) => {}
            got => return Err(format!("read gave {got:?}: {record:?}")),
        }
        match self.read(&mut record, MOST) {
            Err(EAGAIN) => Ok(()),
            got => Err(format!("read gave {got:?} once more")),
        }
    }

    fn send(&mut self) -> Result<()> {
        let offer = self.offer(MP_OBJECT_PORT, 0);
        let port = self.ask(&OFFER, offer)?;
        let connect = self.connect(MP_OBJECT_PORT, port.number);
        let handle = self.ask(&CONNECT, connect)?.handle;
        let send = mp_message {
            handle,
            data: address(TEXT),
            length: TEXT.len() as u32,
            deadline: now() + SOON,
            ..Default::default()
        };
        self.ask(&SEND, send)?;
        let mut data = [0_u8; 64];
        let receive = |data: &mut [u8], length: usize, deadline| mp_message {
            handle: port.handle,
            data: room(data),
            length: length as u32,
            deadline,
            ..Default::default()
        };
        // Without the room for it.
        let short = receive(&mut data, 1, now() + SOON);
        let (told, _) = self.exhaust(&RECEIVE, short, &[EMSGSIZE])?;
        let whole = receive(&mut data, 64, MP_DEADLINE_PAST);
        let received = self.ask(&RECEIVE, whole)?.length as usize;
        if told.length as usize != received || data[..received] != *TEXT {
            return Err(format!("received {:?}", &data[..received]));
        }
        self.expect(ETIMEDOUT, &RECEIVE, whole)
    }

    fn copy(&mut self, segment: u32, connection: u32, most: u32) -> Result<()> {
        let create = mp_queue_create {
            interface: self.interface,
            entries: 1,
            ..Default::default()
        };
        let handle = self.make(&QUEUE_CREATE, create, most)?.handle;
        let memory = [7_u8; 64];
        for (segment, local) in [(segment, 0), (0, address(&memory))] {
            let copies = [mp_copy {
                local,
                remote: PAGE,
                length: memory.len() as u64,
            }];
            let start = mp_queue_start {
                handle,
                segment,
                connection,
                count: 1,
                copies: address(&copies),
                ..Default::default()
            };
            self.ask(&QUEUE_START, start)?;
            self.wait_for(handle, MP_EVENT_DONE)?;
            let about = mp_queue {
                handle,
                ..Default::default()
            };
            match self.ask(&QUEUE, about)?.state {
                MP_QUEUE_DONE => {}
                state => return Err(format!("a queue in state {state}")),
            }
        }
        self.ask(&QUEUE_ABORT, mp_handle { size: 0, handle })
            .map(|_| ())
    }

    /// Two sessions that are paired; the server, to whose partner a segment is granted.
    fn pair(&mut self, segment: u32, limits: &mp_info) -> Result<()> {
        let open = mp_session_open {
            interface: self.interface,
            role: MP_ROLE_SERVER,
            location: MP_LOCATION_LOGICAL,
            protocol: 7,
            data: address(TEXT),
            data_size: TEXT.len() as u32,
            // What is empty is copied as well, and no fault is seen then.
            name: address(TEXT),
            name_size: TEXT.len() as u32,
            local_min: PAGE,
            local_max: PAGE,
            remote_min: PAGE,
            remote_max: PAGE,
            ..Default::default()
        };
        let server = self.make(&SESSION_OPEN, open, limits.sessions_max)?;
        self.find_window(server.uid)?;
        let client = mp_session_open {
            role: MP_ROLE_CLIENT,
            data: 0,
            data_size: 0,
            local_min: 1,
            remote_min: 1,
            ..open
        };
        // A client that fails at last has had the only server: it gets no such chance.
        let client = self.plain(&SESSION_OPEN, client)?.handle;
        self.wait_for(server.handle, MP_EVENT_PAIRED)?;
        let about = mp_session {
            handle: client,
            ..Default::default()
        };
        if self.ask(&SESSION, about)?.remote_size != PAGE {
            return Err("a window of another size".to_owned());
        }
        self.reach(client)?;
        let signal = mp_handle {
            size: 0,
            handle: client,
        };
        self.ask(&SIGNAL, signal)?;
        self.take_signal(server.handle)?;
        self.park(server.handle)?;
        self.store(client)?;
        let grant = mp_segment_grant {
            segment,
            session: server.handle,
            rights: MP_GRANT_WRITE,
            ..Default::default()
        };
        self.make(&SEGMENT_GRANT, grant, limits.objects_max)?;
        self.answer(open)
    }

    /// There is no host behind another one here: stores into a window that can be mapped are
    /// refused, but not before the call is copied.
    fn store(&mut self, handle: u32) -> Result<()> {
        let stores = [mp_copy {
            local: address(TEXT),
            remote: 0,
            length: TEXT.len() as u64,
        }];
        let store = mp_session_store {
            handle,
            count: 1,
            stores: address(&stores),
            ..Default::default()
        };
        let end = self.exhaust(&SESSION_STORE, store, &[EOPNOTSUPP]);
        end.map(|_| ())
    }

    /// A server whose owner answers, and a client whose request stays until it is accepted.
    fn answer(&mut self, open: mp_session_open) -> Result<()> {
        let held = mp_session_open {
            flags: MP_SESSION_DEFER,
            protocol: 8,
            ..open
        };
        let server = self.plain(&SESSION_OPEN, held)?.handle;
        let asks = mp_session_open {
            role: MP_ROLE_CLIENT,
            flags: MP_SESSION_NONBLOCK,
            ..held
        };
        let client = self.plain(&SESSION_OPEN, asks)?.handle;
        self.wait_for(server, MP_EVENT_REQUEST)?;
        let mut data = [0_u8; 64];
        let mut partner = mp_session_partner {
            handle: server,
            ..Default::default()
        };
        self.exhaust(&SESSION_PARTNER, partner, &[ENOSPC])?;
        (partner.data, partner.data_size) = (room(&mut data), data.len() as u32);
        let partner = self.ask(&SESSION_PARTNER, partner)?;
        let told = &data[..partner.data_size as usize];
        if partner.state != MP_PARTNER_REQUEST || told != TEXT {
            return Err(format!("a partner in state {}: {told:?}", partner.state));
        }
        let answer = mp_session_answer {
            handle: server,
            request: partner.request,
            flags: MP_ANSWER_ACCEPT,
            data: address(TEXT),
            data_size: TEXT.len() as u32,
            deadline: now() + SOON,
            ..Default::default()
        };
        self.ask(&SESSION_ANSWER, answer)?;
        self.wait_for(client, MP_EVENT_PAIRED)
    }

    /// Arm a word, of which there is nothing to tell.
    fn park(&mut self, handle: u32) -> Result<()> {
        let entries = [mp_park_entry {
            handle,
            arm: 8,
            arm_value: 1,
            ..Default::default()
        }];
        let park = mp_park {
            flags: MP_PARK_ARMED,
            count: 1,
            entries: address(&entries),
            deadline: now() + SOON,
            ..Default::default()
        };
        match self.ask(&PARK, park)?.index {
            MP_PARK_NONE => Ok(()),
            index => Err(format!("entry {index} has something to tell")),
        }
    }

    /// What devices may do with the window of a session, if they reach it.
    fn reach(&mut self, handle: u32) -> Result<()> {
        let ends = [OK, EOPNOTSUPP, ENXIO];
        let address = mp_session_address {
            handle,
            ..Default::default()
        };
        self.exhaust(&SESSION_ADDRESS, address, &ends)?;
        let access = mp_session_access {
            handle,
            mode: MP_ACCESS_READ,
            ..Default::default()
        };
        self.exhaust(&SESSION_ACCESS, access, &ends).map(|_| ())
    }

    fn find_window(&mut self, id: u32) -> Result<()> {
        let mut ids = [0_u32; 256];
        let list = mp_windows {
            interface: self.interface,
            capacity: ids.len() as u32,
            ids: room(&mut ids),
            ..Default::default()
        };
        let until = now() + SOON;
        // Those that nobody was told of go when the other end hears of it.
        loop {
            let found = self.ask(&WINDOWS, list)?.count as usize;
            match &ids[..found] {
                [only] if *only == id => break,
                others if now() > until => return Err(format!("windows {others:?}, not {id}")),
                _ => sleep(Duration::from_millis(10)),
            }
        }
        let mut data = [0_u8; 64];
        let mut window = mp_window {
            interface: self.interface,
            id,
            ..Default::default()
        };
        self.exhaust(&WINDOW, window, &[ENOSPC])?;
        (window.data, window.data_size) = (room(&mut data), data.len() as u32);
        let told = self.ask(&WINDOW, window)?.data_size as usize;
        match data[..told] == *TEXT {
            true => Ok(()),
            false => Err(format!("data {:?}", &data[..told])),
        }
    }

    /// Make a segment with memory of this process.
    fn fill(&mut self) -> Result<()> {
        let create = mp_segment_create {
            flags: MP_SEGMENT_PRIVATE | MP_SEGMENT_EMPTY,
            length: PAGE,
            ..Default::default()
        };
        let handle = self.plain(&SEGMENT_CREATE, create)?.handle;
        // SAFETY: A mapping of its own, which stays.
        let memory = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(null_mut(), PAGE as usize, protection, flags, -1, 0)
        };
        let fill = mp_segment_register {
            handle,
            address: memory.expose_provenance() as u64,
            length: PAGE,
            ..Default::default()
        };
        self.ask(&SEGMENT_REGISTER, fill).map(|_| ())
    }

    fn take_back(&mut self, handle: u32) -> Result<()> {
        let at = mp_segment_interface {
            handle,
            interface: self.interface,
            flags: MP_WITHDRAW_FORCE,
            ..Default::default()
        };
        self.ask(&SEGMENT_WITHDRAW, at)?;
        let remove = mp_remove {
            handle,
            flags: MP_REMOVE_FORCE,
            ..Default::default()
        };
        self.ask(&REMOVE, remove).map(|_| ())
    }
}

/// Run all of it.
pub fn run() -> Result<()> {
    let mut process = Process::open()?;
    let limits = process.ask(&INFO, mp_info::default())?;
    process.find_loopback()?;
    let (segment, connection) = process.share_memory(limits.objects_max)?;
    process.use_connection(connection)?;
    process.copy(segment, connection, limits.objects_max)?;
    process.trigger(limits.objects_max)?;
    process.send()?;
    process.pair(segment, &limits)?;
    process.fill()?;
    process.take_back(segment)?;
    match FORMS.iter().find(|form| !process.tried.contains(form.name)) {
        Some(form) => Err(format!("{} was not tried", form.name)),
        None => Ok(()),
    }
}
