// SPDX-License-Identifier: MIT OR Apache-2.0

//! A worker: contexts and what it knows of them, from which follows what each call may answer.

use crate::{
    caller::{errno, Caller, OK},
    faults::Faults,
    forms::*,
    log::Log,
    memory::{Arena, Place},
    objects::{Kind, Thing},
    random::Random,
};
use libc::{
    EACCES, EADDRINUSE, EAGAIN, EBADF, EBUSY, ECONNREFUSED, ECONNRESET, EDQUOT, EFAULT, EINVAL,
    ENETDOWN, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOTCONN, ENXIO, EOPNOTSUPP, EPERM, ETIMEDOUT,
};
use mp_fabric::sys::*;
use std::ptr::null_mut;

/// Most contexts of a worker, sessions of one, and mappings.
pub const CONTEXTS: usize = 3;
const SESSIONS: usize = 6;
const MAPS: usize = 12;
/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Upper half of a PCI domain that is not there.
pub const ABSENT_DOMAIN: u16 = 0x7FFF;
/// Handles and identifiers that nobody has.
pub const NOBODY: [u32; 3] = [0, 0x7FFF_FFF1, u32::MAX];

/// The name of sessions and of what is offered, or the start of it.
pub static NAME: [u8; MP_NAME_MAX as usize] = [b'n'; MP_NAME_MAX as usize];

/// Servers whose owner answers, once.
const HOLD_ONCE: u32 = MP_SESSION_DEFER | MP_SESSION_ONCE;

/// A session that is open.
#[derive(Clone, Copy)]
pub struct Session {
    pub handle: u32,
    /// Windows as they were last described: offset and bytes.
    windows: [(u64, u64); 2],
}

/// An open file.
pub struct Context {
    pub fds: Vec<i32>,
    pub sessions: Vec<Session>,
    /// All other objects.
    pub things: Vec<Thing>,
    /// Handles that were of this context, or are of another one.
    pub strangers: Vec<u32>,
    /// Where its status words can be mapped, and how many bytes they are.
    pub status: (u64, u64),
    /// Whether another process has opened it.
    pub is_inherited: bool,
}

/// One worker, in one process.
pub struct Worker {
    pub caller: Caller,
    /// For arrays, apart from the structures that name them.
    pub arrays: Arena,
    pub contexts: Vec<Context>,
    pub maps: Vec<(usize, usize)>,
    pub interfaces: Vec<u32>,
    /// What the kernel has: `MP_FEATURE_*`.
    pub features: u64,
    /// What the user may do.
    pub powers: Powers,
}

/// What the user who runs a worker may do.
#[derive(Debug, Clone, Copy)]
pub struct Powers {
    /// Work with physical addresses.
    pub is_privileged: bool,
    /// Memory that nobody uses, a page at least, if there is such.
    pub spare: Option<u64>,
}

/// Now, as deadlines have it.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: It is written to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Map so many bytes to be read and written, where the kernel chooses; -1 if it does not.
pub fn map(fd: i32, offset: u64, len: usize) -> i64 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: Where the kernel chooses.
    let memory = unsafe {
        libc::mmap(
            null_mut(),
            len,
            protection,
            libc::MAP_SHARED,
            fd,
            offset as i64,
        )
    };
    match memory == libc::MAP_FAILED {
        true => -1,
        false => memory as i64,
    }
}

impl Worker {
    /// In this process, with these random numbers.
    pub fn new(random: Random, log: &'static Log, faults: Faults, powers: Powers) -> Self {
        let caller = Caller {
            random,
            log,
            arena: Arena::new(),
            place: Place::Good,
            faults,
        };
        Worker {
            caller,
            arrays: Arena::new(),
            contexts: Vec::new(),
            maps: Vec::new(),
            interfaces: Vec::new(),
            features: 0,
            powers,
        }
    }

    /// Make calls until as many have been made, by this process or those before it.
    pub fn run(&mut self, calls: u64) {
        while self
            .caller
            .log
            .calls
            .load(std::sync::atomic::Ordering::Relaxed)
            < calls
        {
            if self.contexts.is_empty() {
                self.open();
                while self.interfaces.is_empty() || self.features == 0 {
                    self.interfaces();
                    self.info();
                }
            }
            // Without sessions, little else succeeds.
            let sessions: usize = self.contexts.iter().map(|c| c.sessions.len()).sum();
            match sessions < SESSIONS && self.random().one_in(4) {
                true => self.open_session(),
                false => self.step(),
            }
        }
    }

    pub fn random(&mut self) -> &mut Random {
        &mut self.caller.random
    }

    fn step(&mut self) {
        match self.random().below(16) {
            0..2 => self.step_of_files(),
            2..8 => self.step_of_sessions(),
            8..15 => self.step_of_objects(),
            _ => self.step_of_processes(),
        }
    }

    fn step_of_files(&mut self) {
        match self.random().below(16) {
            0..2 => self.open(),
            2 => self.close_file(),
            3 => self.duplicate(),
            4..7 => self.info(),
            7..9 => self.interfaces(),
            9..11 => self.interface(),
            11..14 => self.read(),
            _ => self.poll(),
        }
    }

    fn step_of_sessions(&mut self) {
        match self.random().below(64) {
            0..4 => self.close(),
            4..13 => self.wait(),
            13..18 => self.notify(),
            18..22 => self.watch(),
            22..29 => self.signal(),
            29..33 => self.windows(),
            33..37 => self.window(),
            37..43 => self.open_session(),
            43 => self.open_physical(),
            44..50 => self.describe(),
            50..52 => self.address(),
            52..54 => self.access(),
            54..58 => self.map(),
            58..60 => self.unmap(),
            60..62 => self.answer(),
            62 => self.park(),
            _ => self.touch(),
        }
    }

    fn step_of_objects(&mut self) {
        match self.random().below(64) {
            0..3 => self.create_segment(),
            3 => self.hand_over(),
            4 if self.random().one_in(2) => self.export_dma_buf(),
            4 => self.grant_segment(),
            5 => self.fill_segment(),
            6 => self.share_segment(),
            7..10 => self.attach_segment(),
            10..13 => self.show_segment(),
            13..17 => self.describe_segment(),
            17..19 => self.remove(),
            19 => self.locate(),
            20 => self.remove_wrongly(),
            21..25 => self.offer(),
            25..33 => self.connect(),
            33..37 => self.describe_connection(),
            37..41 => self.notice(),
            41..45 => self.send(),
            45..49 => self.receive(),
            49..52 => self.barrier(),
            52..54 => self.create_queue(),
            54..59 => self.start_queue(),
            59..61 => self.abort_queue(),
            61 => self.describe_queue(),
            62 => self.exchange(),
            _ => self.close(),
        }
    }

    fn step_of_processes(&mut self) {
        match self.random().below(16) {
            0..3 => self.race(),
            3..5 => self.race_for_memory(),
            5..8 => self.crowd(),
            8..10 => self.child(),
            10..12 => self.become_another(),
            12..14 => self.pass(),
            _ => self.victim(),
        }
    }

    /// One of the contexts, and one of its descriptors.
    pub fn context(&mut self) -> (usize, i32) {
        let n = self.contexts.len();
        let at = self.caller.random.index(n);
        let fds = &self.contexts[at].fds;
        (at, self.caller.random.pick(fds))
    }

    /// A call of a context, with what it may answer to its owner.
    pub fn ask<T: Copy>(
        &mut self,
        (at, fd): (usize, i32),
        form: &Form,
        value: T,
        allowed: &[i32],
        text: &str,
    ) -> Result<T, i32> {
        match self.contexts[at].is_inherited {
            true => self.caller.ask(fd, form, value, &[EACCES], text),
            false => self.caller.ask(fd, form, value, allowed, text),
        }
    }

    /// A session, and whether it is one of the context.
    pub fn session(&mut self, at: usize) -> (u32, bool) {
        let context = &self.contexts[at];
        let random = &mut self.caller.random;
        if !context.sessions.is_empty() && !random.one_in(8) {
            return (random.pick(&context.sessions).handle, true);
        }
        if !context.strangers.is_empty() && random.one_in(2) {
            return (random.pick(&context.strangers), false);
        }
        (random.pick(&NOBODY), false)
    }

    /// An interface, and whether it is there.
    pub fn an_interface(&mut self) -> (u32, bool) {
        let random = &mut self.caller.random;
        if self.interfaces.is_empty() || random.one_in(10) {
            return (random.pick(&NOBODY), false);
        }
        (random.pick(&self.interfaces), true)
    }

    /// What is waited for: a target, flags, whether it is there, and all of its events.
    fn target(&mut self, at: usize) -> (u32, u32, bool, u32) {
        if self.random().one_in(3) {
            match self.an_interface() {
                (MP_INTERFACE_ANY, _) => {
                    (MP_INTERFACE_ANY, MP_WAIT_INTERFACE, true, MP_EVENT_STATE)
                }
                (interface, is_there) => {
                    let events = MP_EVENT_STATE | MP_EVENT_WINDOWS;
                    (interface, MP_WAIT_INTERFACE, is_there, events)
                }
            }
        } else if let (Some(thing), false) = (self.a_thing(at), self.random().one_in(2)) {
            (thing.handle, 0, true, thing.events())
        } else {
            let (session, is_there) = self.session(at);
            let of_pairs = MP_EVENT_PAIRED | MP_EVENT_SIGNAL | MP_EVENT_CLOSED | MP_EVENT_DOWN;
            let of_requests = MP_EVENT_REQUEST | MP_EVENT_REFUSED;
            (session, 0, is_there, of_pairs | of_requests)
        }
    }

    /// An object of the context that is no session.
    fn a_thing(&mut self, at: usize) -> Option<Thing> {
        let things = &self.contexts[at].things;
        (!things.is_empty()).then(|| self.caller.random.pick(things))
    }

    /// Some of these bits, one in sixteen times with one that no object knows; whether that is so.
    fn mask(&mut self, known: u32) -> (u32, bool) {
        let random = self.random();
        let mut mask = random.next() as u32 & known;
        if random.one_in(16) {
            mask |= 1 << (11 + random.below(21));
        }
        (mask, mask & !known != 0)
    }

    pub fn open(&mut self) {
        if self.contexts.len() >= CONTEXTS {
            return;
        }
        let open = || {
            let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
            // SAFETY: A path.
            i64::from(unsafe { libc::open(c"/dev/mp_fabric".as_ptr(), flags) })
        };
        // Without any, nothing can be done.
        let opened = match self.contexts.is_empty() {
            true => self.caller.plain("open", "", &[OK], open),
            false => self.caller.plain_with_faults("open", "", &[OK], open),
        };
        let of = |c: &Context| {
            let sessions = c.sessions.iter().map(|session| session.handle);
            let things = c.things.iter().map(|thing| thing.handle);
            sessions.chain(things).collect::<Vec<_>>()
        };
        let strangers = self.contexts.iter().flat_map(of).collect();
        if let Ok(fd) = opened {
            self.contexts.push(Context {
                fds: vec![fd as i32],
                sessions: Vec::new(),
                things: Vec::new(),
                strangers,
                status: (0, 0),
                is_inherited: false,
            });
        }
    }

    pub fn close_file(&mut self) {
        let (at, fd) = self.context();
        self.caller.with_faults(&mut Vec::new(), || {
            // SAFETY: A descriptor of this process, which forgets it.
            i64::from(unsafe { libc::close(fd) })
        });
        let context = &mut self.contexts[at];
        context.fds.retain(|other| *other != fd);
        if context.fds.is_empty() {
            drop(self.contexts.remove(at));
        }
    }

    fn duplicate(&mut self) {
        let (at, fd) = self.context();
        if self.contexts[at].fds.len() > 3 {
            return;
        }
        // SAFETY: A descriptor of this process.
        let new = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
        if new >= 0 {
            self.contexts[at].fds.push(new);
        }
    }

    pub fn info(&mut self) {
        let of = self.context();
        let info = self.ask(of, &INFO, mp_info::default(), &[OK], "");
        let Ok(info) = info else { return };
        if info.version != MP_FABRIC_VERSION {
            self.caller.fail("another version");
        }
        self.features = info.features;
        self.contexts[of.0].status = (info.status_offset, info.status_length);
    }

    pub fn close(&mut self) {
        let of = self.context();
        let (mut handle, mut is_there) = self.session(of.0);
        if let (Some(thing), true) = (self.a_thing(of.0), self.random().one_in(2)) {
            (handle, is_there) = (thing.handle, true);
        }
        let close = mp_handle { size: 0, handle };
        let allowed = [if is_there { OK } else { ENOENT }];
        let closed = self.ask(of, &CLOSE, close, &allowed, &format!("{handle:#x}"));
        if closed.is_ok() {
            let context = &mut self.contexts[of.0];
            context.sessions.retain(|session| session.handle != handle);
            self.forget(of.0, handle);
        }
    }

    pub fn wait(&mut self) {
        let of = self.context();
        let (target, mut flags, is_there, known) = self.target(of.0);
        let (mask, mut is_wrong) = self.mask(known);
        is_wrong |= mask == 0;
        let random = self.random();
        if random.one_in(3) {
            flags |= MP_WAIT_ONE;
        }
        let reserved = u32::from(random.one_in(40));
        if random.one_in(40) {
            flags |= 0x8000_0000;
        }
        is_wrong |= reserved != 0 || flags & 0x8000_0000 != 0;
        let deadline = match random.below(3) {
            0 => MP_DEADLINE_PAST,
            _ => now() + random.below(2_000_000),
        };
        let absent = if flags & MP_WAIT_INTERFACE != 0 {
            ENODEV
        } else {
            ENOENT
        };
        let allowed: &[i32] = match (is_wrong, is_there) {
            (true, _) => &[EINVAL],
            (_, false) => &[absent],
            _ if flags & MP_WAIT_INTERFACE != 0 || mask & MP_EVENT_PAIRED != 0 => &[OK, ETIMEDOUT],
            _ if self.thing(of.0, target).is_some() => &[OK, ETIMEDOUT],
            _ => &[OK, ETIMEDOUT, ENOTCONN],
        };
        let wait = mp_wait {
            flags,
            target,
            mask,
            deadline,
            reserved,
            ..Default::default()
        };
        let text = format!("target {target:#x} flags {flags:#x} mask {mask:#x}");
        let waited = self.ask(of, &WAIT, wait, allowed, &text);
        // Where the first copy fails there need not be anything to wait for.
        let may_take = is_there && !is_wrong && self.caller.place == Place::ReadOnly;
        if may_take && waited.is_err_and(|error| error == EFAULT) {
            return self.wait_again(of, wait, allowed);
        }
        if let Ok(wait) = waited {
            if wait.events == 0 || wait.events & !mask != 0 {
                self.caller.fail(&format!("events {:#x}", wait.events));
            }
        }
    }

    /// What a wait has taken that could not tell of it, is there for the next one. One that did
    /// not get so far has taken nothing, and the next one may say what it `might`.
    fn wait_again(&mut self, (at, fd): (usize, i32), wait: mp_wait, might: &[i32]) {
        let mut again = mp_wait {
            size: size_of::<mp_wait>() as u32,
            deadline: MP_DEADLINE_PAST,
            ..wait
        };
        // A link that has found no memory starts over: that it was down is not so any more.
        let may_end = self
            .thing(at, wait.target)
            .is_some_and(|thing| wait.mask & !thing.lasting() != 0);
        let allowed = match (self.caller.faults.0, may_end) {
            (true, _) => might,
            (_, true) => &[OK, ETIMEDOUT],
            _ => &[OK],
        };
        let _ = self.caller.plain("WAIT", "again", allowed, || {
            // SAFETY: The structure that goes with the number.
            i64::from(unsafe { libc::ioctl(fd, u64::from(MP_IOC_WAIT), &mut again) })
        });
    }

    /// The object of a context with that handle.
    fn thing(&self, at: usize, handle: u32) -> Option<Thing> {
        let mut things = self.contexts[at].things.iter();
        things.find(|thing| thing.handle == handle).copied()
    }

    /// A descriptor for notifications, and whether it will do.
    fn eventfd(&mut self, of: i32) -> (i32, bool) {
        match self.random().below(6) {
            0 => (-1, true),
            1 => (of, false),
            2 => (9999, false),
            3 => (i32::MIN, false),
            // SAFETY: Makes a descriptor.
            _ => (
                unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) },
                true,
            ),
        }
    }

    fn notify(&mut self) {
        let of = self.context();
        let (target, flags, is_there, known) = self.target(of.0);
        let (mask, is_wrong) = self.mask(known);
        let (eventfd, is_right) = self.eventfd(of.1);
        let absent = if flags & MP_WAIT_INTERFACE != 0 {
            ENODEV
        } else {
            ENOENT
        };
        let allowed = [match (is_wrong, is_there, is_right) {
            (true, _, _) => EINVAL,
            (_, false, _) => absent,
            (_, _, false) => EBADF,
            _ => OK,
        }];
        let notify = mp_eventfd {
            flags,
            target,
            mask,
            eventfd,
            ..Default::default()
        };
        let text = format!("target {target:#x} mask {mask:#x} eventfd {eventfd}");
        let _ = self.ask(of, &EVENTFD, notify, &allowed, &text);
        if is_right && eventfd >= 0 {
            // SAFETY: Made for this call.
            unsafe { libc::close(eventfd) };
        }
    }

    fn watch(&mut self) {
        let of = self.context();
        let (target, flags, is_there, known) = self.target(of.0);
        let (mask, is_wrong) = self.mask(known);
        let absent = if flags & MP_WAIT_INTERFACE != 0 {
            ENODEV
        } else {
            ENOENT
        };
        let allowed = [match (is_wrong, is_there) {
            (true, _) => EINVAL,
            (_, false) => absent,
            _ => OK,
        }];
        let watch = mp_watch {
            flags,
            target,
            mask,
            cookie: u64::from(target),
            ..Default::default()
        };
        let text = format!("target {target:#x} flags {flags:#x} mask {mask:#x}");
        let _ = self.ask(of, &WATCH, watch, &allowed, &text);
    }

    pub fn signal(&mut self) {
        let of = self.context();
        let (mut handle, is_there) = self.session(of.0);
        let mut allowed: &[i32] = match is_there {
            true => &[OK, ECONNRESET, ENETDOWN, ENOTCONN],
            false => &[ENOENT],
        };
        if let (Some(thing), true) = (self.a_thing(of.0), self.random().one_in(2)) {
            handle = thing.handle;
            allowed = match thing.kind {
                Kind::Connection(MP_OBJECT_EVENT) => &[OK, ECONNRESET, ENETDOWN],
                Kind::Connection(_) => &[EINVAL],
                _ => &[ENOENT],
            };
        }
        let signal = mp_handle { size: 0, handle };
        let _ = self.ask(of, &SIGNAL, signal, allowed, &format!("{handle:#x}"));
    }

    /// Room for an array of so many numbers, in a place that is good or not.
    pub fn array(&mut self, len: usize) -> (u64, Place) {
        let random = &mut self.caller.random;
        let place = match random.below(8) {
            0 => Place::Nowhere,
            1 => Place::ReadOnly,
            _ => Place::Good,
        };
        let bytes = vec![0; len];
        (self.arrays.put(&bytes, place, random) as u64, place)
    }

    fn interfaces(&mut self) {
        let of = self.context();
        let capacity = self.random().pick(&[0, 1, 64]);
        let (ids, place) = self.array(256);
        let is_wrong = self.random().one_in(30);
        let allowed: &[i32] = match (is_wrong, capacity, place) {
            (true, _, _) => &[EINVAL],
            (_, 64, Place::Good) => &[OK],
            (_, 64, _) => &[EFAULT],
            (_, _, Place::Good) => &[OK, ENOSPC],
            _ => &[OK, ENOSPC, EFAULT],
        };
        let list = mp_interfaces {
            capacity,
            ids,
            reserved: u32::from(is_wrong),
            ..Default::default()
        };
        let text = format!("capacity {capacity} {place:?}");
        let listed = self.ask(of, &INTERFACES, list, allowed, &text);
        if let (Ok(list), Place::Good) = (listed, place) {
            let bytes = self.arrays.get(ids as usize, 4 * list.count as usize);
            let words = bytes
                .chunks_exact(4)
                .map(|word| word.try_into().unwrap_or_default());
            self.interfaces = words.map(u32::from_ne_bytes).collect();
        }
    }

    fn interface(&mut self) {
        let of = self.context();
        let (id, is_there) = self.an_interface();
        let info = mp_interface {
            id,
            ..Default::default()
        };
        let allowed = [if is_there { OK } else { ENODEV }];
        let _ = self.ask(of, &INTERFACE, info, &allowed, &format!("{id:#x}"));
    }

    fn windows(&mut self) {
        let of = self.context();
        let (interface, is_there) = self.an_interface();
        let capacity = self.random().pick(&[0, 1, 256]);
        let (ids, place) = self.array(1024);
        let allowed: &[i32] = match (is_there, place) {
            (false, _) => &[ENODEV],
            (_, Place::Good) if capacity == 256 => &[OK, ENETDOWN],
            (_, Place::Good) => &[OK, ENETDOWN, ENOSPC],
            _ => &[OK, ENETDOWN, ENOSPC, EFAULT],
        };
        let list = mp_windows {
            interface,
            capacity,
            ids,
            ..Default::default()
        };
        let text = format!("{interface:#x} capacity {capacity} {place:?}");
        let _ = self.ask(of, &WINDOWS, list, allowed, &text);
    }

    /// The first of the windows that there are.
    fn a_window(&mut self, fd: i32, interface: u32) -> u32 {
        let mut ids = [0_u32; 256];
        let mut list = mp_windows {
            size: size_of::<mp_windows>() as u32,
            interface,
            capacity: 256,
            ids: ids.as_mut_ptr().expose_provenance() as u64,
            ..Default::default()
        };
        // SAFETY: The structure that goes with the number, and an array as long as it says.
        let got = unsafe { libc::ioctl(fd, u64::from(MP_IOC_WINDOWS), &mut list) };
        match got == 0 && list.count != 0 {
            true => ids[self.caller.random.index(list.count as usize)],
            false => self.caller.random.pick(&NOBODY),
        }
    }

    fn window(&mut self) {
        let of = self.context();
        let (interface, is_there) = self.an_interface();
        let id = self.a_window(of.1, interface);
        let data_size = self.random().pick(&[0, 1, 1024]);
        let (data, place) = self.array(1024);
        let allowed: &[i32] = match (is_there, place) {
            (false, _) => &[ENODEV],
            (_, Place::Good) if data_size == 1024 => &[OK, ENETDOWN, ENOENT],
            (_, Place::Good) => &[OK, ENETDOWN, ENOENT, ENOSPC],
            _ => &[OK, ENETDOWN, ENOENT, ENOSPC, EFAULT],
        };
        let window = mp_window {
            interface,
            id,
            data_size,
            data,
            ..Default::default()
        };
        let text = format!("{interface:#x} {id:#x} room {data_size} {place:?}");
        let _ = self.ask(of, &WINDOW, window, allowed, &text);
    }

    /// What is asked for, as it should be.
    fn request(&mut self, interface: u32) -> mp_session_open {
        let random = self.random();
        let role = random.pick(&[MP_ROLE_SERVER, MP_ROLE_CLIENT, MP_ROLE_PEER]);
        // As a rule such that two of them fit, and there is room for more.
        let mut sizes = || {
            let max = match random.one_in(40) {
                true => MP_SIZE_MAX,
                false => random.pick(&[0, 1, PAGE, PAGE, 3 * PAGE, 3 * PAGE, 1 << 16]),
            };
            let min = match random.below(6) {
                0 => max.min(PAGE),
                1 => max.min(1),
                _ => 0,
            };
            (min, max)
        };
        let ((local_min, mut local_max), (remote_min, remote_max)) = (sizes(), sizes());
        if local_max == 0 && remote_max == 0 {
            local_max = PAGE;
        }
        let flags = match role {
            // Nobody waits for an owner that may never answer.
            MP_ROLE_CLIENT => MP_SESSION_NONBLOCK,
            MP_ROLE_SERVER => random.pick(&[0, 0, MP_SESSION_DEFER, HOLD_ONCE]),
            _ => 0,
        };
        mp_session_open {
            interface,
            role,
            flags,
            name: NAME.as_ptr().expose_provenance() as u64,
            name_size: random.pick(&[0, 0, 0, 1, 2, MP_NAME_MAX]),
            location: MP_LOCATION_LOGICAL,
            protocol: 0x5701_0000 + random.below(2) as u32,
            uid: random.pick(&[0, 0, 0, 1, 2, 3]),
            local_min,
            local_max,
            remote_min,
            remote_max,
            ..Default::default()
        }
    }

    /// Spoil a request, with the errors that this may have.
    fn spoil(&mut self, open: &mut mp_session_open) -> &'static [i32] {
        match self.random().below(6) {
            0 => open.role = 4,
            1 if self.random().one_in(2) => return self.name_absent(open),
            1 => open.location = 4,
            2 => {
                open.flags &= !MP_SESSION_NO_WINDOWS;
                (
                    open.local_max,
                    open.remote_max,
                    open.local_min,
                    open.remote_min,
                ) = (0, 0, 0, 0)
            }
            3 => (open.remote_min, open.remote_max) = (2, 1),
            4 => match self.random().below(4) {
                0 => open.data_size = MP_WINDOW_DATA_MAX + 1,
                1 => open.name_size = MP_NAME_MAX + 1,
                2 => open.flags = 1 << 31,
                _ => open.flags |= MP_SESSION_DEFER | MP_SESSION_NONBLOCK,
            },
            _ => open.address = 1,
        }
        &[EINVAL]
    }

    /// Name memory of a function that is not there, with the errors that this may have.
    fn name_absent(&mut self, open: &mut mp_session_open) -> &'static [i32] {
        (open.location, open.pci_domain_high) = (MP_LOCATION_BAR, ABSENT_DOMAIN);
        open.pci_bar = self.random().below(8) as u16;
        match (open.role, self.powers.is_privileged) {
            (MP_ROLE_SERVER, false) => &[EPERM],
            (MP_ROLE_SERVER, true) => &[EINVAL, ENODEV],
            _ => &[EINVAL],
        }
    }

    pub fn open_session(&mut self) {
        let of = self.context();
        if self.contexts[of.0].sessions.len() >= SESSIONS {
            return self.close();
        }
        let (interface, is_there) = self.an_interface();
        let mut open = self.request(interface);
        let mut allowed = vec![OK, ENETDOWN, ENOSPC, EADDRINUSE, EDQUOT, ENOMEM];
        if self.random().one_in(20) {
            open.flags |= MP_SESSION_NO_WINDOWS;
            (open.local_min, open.local_max) = (0, 0);
            (open.remote_min, open.remote_max) = (0, 0);
        }
        if open.role == MP_ROLE_CLIENT {
            allowed.push(ECONNREFUSED);
        }
        if open.role != MP_ROLE_CLIENT && self.random().one_in(2) {
            let (data, place) = self.array(1024);
            open.data = data;
            open.data_size = 1 + self.random().below(1024) as u32;
            if place == Place::Nowhere {
                allowed = vec![EFAULT];
            }
        }
        if self.random().one_in(10) {
            allowed = self.spoil(&mut open).to_vec();
        }
        if !is_there {
            allowed = vec![ENODEV];
        }
        let text = format!(
            "{interface:#x} role {} location {} protocol {:#x} uid {} data {:#x}+{} local {:#x}-{:#x} remote {:#x}-{:#x}",
            open.role, open.location, open.protocol, open.uid, open.data, open.data_size,
            open.local_min, open.local_max, open.remote_min, open.remote_max,
        );
        let Ok(open) = self.ask(of, &SESSION_OPEN, open, &allowed, &text) else {
            return;
        };
        if open.handle == 0 || open.uid == 0 && open.role != MP_ROLE_CLIENT {
            self.caller.fail("a session without a name");
        }
        self.contexts[of.0].sessions.push(Session {
            handle: open.handle,
            windows: [(0, 0); 2],
        });
    }

    /// Ask for windows to physical addresses: those of memory that nobody uses, unless the
    /// kernel refuses them anyway.
    fn open_physical(&mut self) {
        let of = self.context();
        if self.contexts[of.0].sessions.len() >= SESSIONS {
            return self.close();
        }
        let (interface, is_there) = self.an_interface();
        let powers = self.powers;
        let random = self.random();
        let mut open = mp_session_open {
            interface,
            location: MP_LOCATION_PHYSICAL,
            protocol: 0x5702_0000,
            ..Default::default()
        };
        match random.one_in(2) {
            true => {
                open.role = MP_ROLE_SERVER;
                (open.local_min, open.local_max) = (PAGE, PAGE);
                open.address = match (powers.is_privileged, powers.spare) {
                    (true, Some(spare)) => spare + random.pick(&[0, 1, PAGE]),
                    (true, None) => return,
                    (false, _) => random.pick(&[1, PAGE, 1 << 20, 1 << 32, u64::MAX - PAGE]),
                };
            }
            false => {
                open.role = MP_ROLE_CLIENT;
                (open.remote_min, open.remote_max) = (1, random.pick(&[1, PAGE, MP_SIZE_MAX]));
            }
        }
        let allowed: &[i32] = match (is_there, powers.is_privileged) {
            (false, _) => &[ENODEV],
            (_, false) => &[EPERM],
            _ => &[
                OK,
                ENETDOWN,
                ENOSPC,
                EOPNOTSUPP,
                ECONNREFUSED,
                EADDRINUSE,
                EDQUOT,
                ENOMEM,
            ],
        };
        let text = format!(
            "{interface:#x} physical role {} {:#x}",
            open.role, open.address
        );
        if let Ok(open) = self.ask(of, &SESSION_OPEN, open, allowed, &text) {
            self.contexts[of.0].sessions.push(Session {
                handle: open.handle,
                windows: [(0, 0); 2],
            });
        }
    }

    pub fn describe(&mut self) {
        let of = self.context();
        let (handle, is_there) = self.session(of.0);
        let allowed = [if is_there { OK } else { ENOENT }];
        let session = mp_session {
            handle,
            ..Default::default()
        };
        let text = format!("{handle:#x}");
        let Ok(told) = self.ask(of, &SESSION, session, &allowed, &text) else {
            return;
        };
        let windows = [
            (told.local_offset, told.local_size),
            (told.remote_offset, told.remote_size),
        ];
        if windows.iter().any(|(offset, _)| offset % PAGE != 0) {
            self.caller.fail("an offset that is in no page's beginning");
        }
        let mut sessions = self.contexts[of.0].sessions.iter_mut();
        if let Some(known) = sessions.find(|session| session.handle == handle) {
            known.windows = windows;
        }
    }

    /// Answer the request that a session has at hand, if it has one; or none.
    fn answer(&mut self) {
        let of = self.context();
        let (handle, is_there) = self.session(of.0);
        let allowed: &[i32] = match is_there {
            true => &[OK, ENOTCONN, ENOSPC],
            false => &[ENOENT],
        };
        let partner = mp_session_partner {
            handle,
            ..Default::default()
        };
        let text = format!("{handle:#x}");
        let told = self.ask(of, &SESSION_PARTNER, partner, allowed, &text);
        if let Ok(told) = told {
            let is_request = told.state == MP_PARTNER_REQUEST;
            if is_request != (told.request != 0) || !(1..=4).contains(&told.state) {
                self.caller.fail("a partner that cannot be");
            }
        }
        let request = told.map_or(1, |told| told.request);
        let random = self.random();
        let flags = random.pick(&[MP_ANSWER_ACCEPT, MP_ANSWER_REJECT, 3]);
        let answer = mp_session_answer {
            handle,
            request,
            flags,
            deadline: random.pick(&[MP_DEADLINE_PAST, MP_DEADLINE_NEVER]),
            ..Default::default()
        };
        let allowed: &[i32] = match (is_there, flags) {
            (false, _) => &[ENOENT],
            (_, 3) => &[EINVAL],
            _ => &[
                OK, EINVAL, ENETDOWN, ECONNRESET, EBUSY, ENOSPC, ETIMEDOUT, ENOENT, ENOMEM,
            ],
        };
        let text = format!("{handle:#x} {request} {flags}");
        let _ = self.ask(of, &SESSION_ANSWER, answer, allowed, &text);
    }

    fn address(&mut self) {
        let of = self.context();
        let (handle, is_there) = self.session(of.0);
        let allowed: &[i32] = match is_there {
            _ if !self.powers.is_privileged => &[EPERM, ENOENT],
            true => &[OK, ENETDOWN, ENOTCONN, ECONNRESET, ENXIO, EOPNOTSUPP],
            false => &[ENOENT],
        };
        let address = mp_session_address {
            handle,
            ..Default::default()
        };
        let _ = self.ask(
            of,
            &SESSION_ADDRESS,
            address,
            allowed,
            &format!("{handle:#x}"),
        );
    }

    fn access(&mut self) {
        let of = self.context();
        let (handle, is_there) = self.session(of.0);
        let mode = self
            .random()
            .pick(&[0, 1, 2, 3, 4, MP_ACCESS_CLEAR, MP_ACCESS_CLEAR | 1]);
        let is_wrong = !matches!(mode, 1..=3 | MP_ACCESS_CLEAR);
        let allowed: &[i32] = match (is_there, is_wrong) {
            _ if !self.powers.is_privileged => &[EPERM, ENOENT, EINVAL],
            (false, true) => &[ENOENT, EINVAL],
            (false, _) => &[ENOENT],
            (_, true) => &[EINVAL],
            _ => &[OK, ENETDOWN, ENOTCONN, ECONNRESET, ENXIO, EOPNOTSUPP],
        };
        let access = mp_session_access {
            handle,
            mode,
            ..Default::default()
        };
        let _ = self.ask(
            of,
            &SESSION_ACCESS,
            access,
            allowed,
            &format!("{handle:#x} {mode:#x}"),
        );
    }

    pub fn map(&mut self) {
        if self.maps.len() >= MAPS {
            return self.unmap();
        }
        let (at, fd) = self.context();
        let known = self.contexts[at].sessions.iter().flat_map(|s| s.windows);
        let things = self.contexts[at].things.iter().map(|thing| thing.window);
        let known = known
            .chain(things)
            .filter(|(offset, len)| *offset != 0 && *len != 0);
        let known: Vec<_> = known.collect();
        let random = &mut self.caller.random;
        let is_known = !known.is_empty() && !random.one_in(6);
        let (offset, len) = match is_known {
            true => random.pick(&known),
            false => (random.pick(&[0, PAGE, 7 * PAGE, 1 << 40, 1 << 43]), PAGE),
        };
        // The whole window, a part, or more than there is.
        let pages = len.div_ceil(PAGE).min(1024);
        let pages = match random.below(6) {
            0 => 1 + random.below(pages),
            1 => pages + 1,
            _ => pages,
        };
        let is_whole = pages <= len.div_ceil(PAGE) && is_known;
        let shared = match random.one_in(12) {
            true => libc::MAP_PRIVATE,
            false => libc::MAP_SHARED,
        };
        let protection = random.pick(&[
            libc::PROT_NONE,
            libc::PROT_READ,
            libc::PROT_WRITE,
            libc::PROT_READ | libc::PROT_WRITE,
        ]);
        let allowed: &[i32] = match (is_whole, shared == libc::MAP_SHARED) {
            _ if self.contexts[at].is_inherited => &[EACCES],
            (true, true) => &[OK, ENOMEM],
            (true, false) => &[EINVAL],
            _ => &[EINVAL, ENOENT],
        };
        // Guessed offsets may be those of a window all the same, or of the status words, which
        // are there to be read only.
        let mut allowed = allowed.to_vec();
        if !is_known && allowed != [EACCES] {
            if shared == libc::MAP_SHARED {
                allowed.push(OK);
            }
            if protection & libc::PROT_WRITE != 0 {
                allowed.push(EACCES);
            }
        }
        let len = (pages * PAGE) as usize;
        let text = format!("fd {fd} offset {offset:#x} bytes {len:#x} flags {shared} {protection}");
        let mapped = self.caller.plain_with_faults("mmap", &text, &allowed, || {
            // SAFETY: Where the kernel chooses.
            let memory =
                unsafe { libc::mmap(null_mut(), len, protection, shared, fd, offset as i64) };
            match memory == libc::MAP_FAILED {
                true => -1,
                false => memory as i64,
            }
        });
        if let Ok(address) = mapped {
            self.maps.push((address as usize, len));
        }
    }

    /// Map so many bytes to be read and written.
    pub fn map_at(&self, fd: i32, offset: u64, len: usize, allowed: &[i32]) -> Option<usize> {
        let text = format!("fd {fd} offset {offset:#x} bytes {len:#x}");
        let mapped = self
            .caller
            .plain("mmap", &text, allowed, || map(fd, offset, len));
        mapped.ok().map(|address| address as usize)
    }

    /// Take away what was mapped.
    pub fn unmap_at(&self, start: usize, len: usize) {
        let text = format!("{start:#x} bytes {len:#x}");
        let _ = self.caller.plain("munmap", &text, &[OK], || {
            // SAFETY: A mapping of this process, without references into it.
            i64::from(unsafe { libc::munmap(start as *mut _, len) })
        });
    }

    fn unmap(&mut self) {
        if self.maps.is_empty() {
            return;
        }
        let at = self.caller.random.index(self.maps.len());
        let (start, len) = self.maps.swap_remove(at);
        let pages = len / PAGE as usize;
        // Sometimes a part first, so that what is left is split.
        if pages > 2 && self.caller.random.one_in(2) {
            let middle = start + PAGE as usize * (1 + self.caller.random.index(pages - 2));
            // SAFETY: A mapping of this module, without references into it.
            unsafe { libc::munmap(middle as *mut _, PAGE as usize) };
        }
        self.unmap_at(start, len);
    }

    /// Use memory that is mapped, or have its protection changed: whatever has become of the
    /// window, that is no fault.
    fn touch(&mut self) {
        if self.maps.is_empty() {
            return;
        }
        let (start, len) = self.caller.random.pick(&self.maps);
        self.caller
            .log
            .begin(&format!("touch {start:#x} bytes {len:#x}"));
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: A mapping of this module, without references into it.
        if unsafe { libc::mprotect(start as *mut _, len, protection) } != 0 {
            // Status words, which nobody but the kernel ever writes.
            if errno() != EACCES {
                self.caller.fail("mprotect");
            }
            return;
        }
        for _ in 0..4 {
            let at = start + 8 * self.caller.random.index(len / 8);
            let word = self.caller.random.next();
            // SAFETY: Inside of the mapping, aligned, shared with processes that do the same.
            unsafe {
                (at as *mut u64).write_volatile(word);
                (at as *const u64).read_volatile();
            }
        }
        if self.caller.random.one_in(4) {
            // SAFETY: As above; the pages come back when they are touched.
            unsafe { libc::madvise(start as *mut _, len, libc::MADV_DONTNEED) };
        }
    }

    pub fn read(&mut self) {
        let (at, fd) = self.context();
        let record = size_of::<mp_event>();
        let len = self
            .random()
            .pick(&[0, 1, record - 1, record, record + 1, 8 * record]);
        let (address, place) = self.array(8 * record);
        let allowed: &[i32] = match place {
            // The kernel does not come to the device with nothing to fill, or nowhere.
            _ if self.contexts[at].is_inherited => &[EACCES, EFAULT],
            Place::Nowhere if len < record => &[EINVAL, EFAULT],
            _ if len < record => &[EINVAL],
            Place::Good => &[OK, EAGAIN],
            _ => &[EAGAIN, EFAULT],
        };
        let text = format!("fd {fd} bytes {len} {place:?}");
        let read = self.caller.plain_with_faults("read", &text, allowed, || {
            // SAFETY: The kernel writes to the arena only, or not at all.
            unsafe { libc::read(fd, address as *mut _, len) as i64 }
        });
        let Ok(read) = read else { return };
        let bytes = self.arrays.get(address as usize, read as usize);
        if read == 0 || bytes.len() % record != 0 {
            self.caller.fail("a part of a record");
        }
        for record in bytes.chunks_exact(record) {
            let word = |at: usize| {
                record[at..at + 4]
                    .iter()
                    .rev()
                    .fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            };
            // Cookies are the targets.
            if word(0) != word(8) || word(12) == 0 {
                self.caller.fail(&format!("record {record:x?}"));
            }
        }
    }

    fn poll(&mut self) {
        let (_, fd) = self.context();
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout = self.random().below(3) as i32;
        let text = format!("fd {fd}");
        let _ = self.caller.plain_with_faults("poll", &text, &[OK], || {
            // SAFETY: One descriptor.
            i64::from(unsafe { libc::poll(&mut poll, 1, timeout) })
        });
        if poll.revents & !libc::POLLIN != 0 {
            self.caller.fail(&format!("events {:#x}", poll.revents));
        }
    }
}
