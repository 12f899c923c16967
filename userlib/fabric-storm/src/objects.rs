// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls of segments, events, ports, connections and queues, and what a worker knows of its
//! own, from which follows what each may answer.

use crate::{
    caller::OK,
    forms::*,
    memory::Place,
    worker::{now, Worker, ABSENT_DOMAIN, NAME, NOBODY, PAGE},
};
use libc::{
    EACCES, EADDRINUSE, EBADF, EBUSY, ECONNREFUSED, ECONNRESET, EDQUOT, EEXIST, EFAULT,
    EINPROGRESS, EINVAL, EIO, EMFILE, EMSGSIZE, ENETDOWN, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOTCONN,
    ENXIO, EOPNOTSUPP, EPERM, ERANGE, ETIMEDOUT,
};
use mp_fabric::sys::*;

/// Most objects of a context.
const THINGS: usize = 10;
/// Numbers of segments, events and ports: few, so that others find them.
const NUMBERS: u64 = 4;
/// Bytes of their names, of which most have none.
const NAMES: [u32; 6] = [0, 0, 0, 1, 2, MP_NAME_MAX];
/// Most bytes that are looked at whether they are zero.
const LOOK: u64 = 1 << 16;

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Segment,
    Event,
    Port,
    /// To one of the others.
    Connection(u32),
    Queue,
}

/// An object of a context that is no session.
#[derive(Clone, Copy)]
pub struct Thing {
    pub handle: u32,
    pub kind: Kind,
    /// The interface it is of; of a segment, none.
    interface: u32,
    /// What it is offered by; 0 of what is private.
    number: u32,
    /// Where it is mapped, and how many bytes it has.
    pub window: (u64, u64),
    /// It was made without memory.
    is_empty: bool,
    /// Others of the user can attach to it.
    is_shared: bool,
    /// Of a queue: the most copies, and whether it was ever started.
    entries: u32,
    was_started: bool,
}

impl Thing {
    fn new(handle: u32, kind: Kind) -> Self {
        Thing {
            handle,
            kind,
            interface: 0,
            number: 0,
            window: (0, 0),
            is_empty: false,
            is_shared: false,
            entries: 0,
            was_started: false,
        }
    }

    fn is_port_connection(&self) -> bool {
        self.kind == Kind::Connection(MP_OBJECT_PORT)
    }

    /// All events that it can have.
    pub fn events(&self) -> u32 {
        match self.kind {
            Kind::Segment => MP_EVENT_NOTICE,
            Kind::Event => MP_EVENT_SIGNAL | MP_EVENT_CLOSED,
            Kind::Port => MP_EVENT_MESSAGE | MP_EVENT_CLOSED,
            Kind::Connection(_) => MP_EVENT_NOTICE | MP_EVENT_CLOSED | MP_EVENT_DOWN,
            Kind::Queue => MP_EVENT_DONE,
        }
    }

    /// Those that nothing but a call of its process takes away.
    pub fn lasting(&self) -> u32 {
        match self.kind {
            // A link that is back takes both away.
            Kind::Segment | Kind::Connection(_) => MP_EVENT_CLOSED,
            _ => self.events(),
        }
    }
}

/// What a handle is that a call names.
#[derive(Clone, Copy)]
pub enum Named {
    Thing(Thing),
    Session,
    Nobody,
}

impl Worker {
    /// A handle, mostly of an object that `is_wanted`, and what it is.
    fn named(&mut self, at: usize, is_wanted: impl Fn(&Thing) -> bool) -> (u32, Named) {
        let context = &self.contexts[at];
        let random = &mut self.caller.random;
        let wanted: Vec<_> = context.things.iter().filter(|t| is_wanted(t)).collect();
        if !wanted.is_empty() && !random.one_in(8) {
            let thing = *random.pick(&wanted);
            return (thing.handle, Named::Thing(thing));
        }
        match random.below(4) {
            0 if !context.things.is_empty() => {
                let thing = random.pick(&context.things);
                (thing.handle, Named::Thing(thing))
            }
            1 if !context.sessions.is_empty() => {
                (random.pick(&context.sessions).handle, Named::Session)
            }
            2 if !context.strangers.is_empty() => (random.pick(&context.strangers), Named::Nobody),
            _ => (random.pick(&NOBODY), Named::Nobody),
        }
    }

    /// A context, mostly one that has what `is_wanted`.
    fn context_with(&mut self, is_wanted: impl Fn(&Thing) -> bool) -> (usize, i32) {
        let has_it = |at: &usize| self.contexts[*at].things.iter().any(&is_wanted);
        let having: Vec<_> = (0..self.contexts.len()).filter(has_it).collect();
        if having.is_empty() || self.random().one_in(4) {
            return self.context();
        }
        let at = self.random().pick(&having);
        (at, self.caller.random.pick(&self.contexts[at].fds))
    }

    /// As [`named`](Self::named), of a kind; none if it is not of that.
    fn named_of(&mut self, at: usize, is_wanted: impl Fn(&Thing) -> bool) -> (u32, Option<Thing>) {
        match self.named(at, &is_wanted) {
            (handle, Named::Thing(thing)) if is_wanted(&thing) => (handle, Some(thing)),
            (handle, _) => (handle, None),
        }
    }

    fn segment_of(&mut self, at: usize) -> (u32, Option<Thing>) {
        self.named_of(at, |thing| thing.kind == Kind::Segment)
    }

    fn connection_of(&mut self, at: usize) -> (u32, Option<Thing>) {
        self.named_of(at, |thing| matches!(thing.kind, Kind::Connection(_)))
    }

    fn queue_of(&mut self, at: usize) -> (u32, Option<Thing>) {
        self.named_of(at, |thing| thing.kind == Kind::Queue)
    }

    fn known(&mut self, at: usize, handle: u32) -> Option<&mut Thing> {
        let mut things = self.contexts[at].things.iter_mut();
        things.find(|thing| thing.handle == handle)
    }

    /// A handle was given for a new object.
    fn made(&mut self, at: usize, thing: Thing) {
        if NOBODY.contains(&thing.handle) {
            self.caller.fail("an object without a name");
        }
        self.contexts[at].things.push(thing);
    }

    /// An object is gone.
    pub fn forget(&mut self, at: usize, handle: u32) {
        let context = &mut self.contexts[at];
        context.things.retain(|thing| thing.handle != handle);
        context.strangers.push(handle);
    }

    /// The next deadline: past, soon, or so late that it does not come.
    fn deadline(&mut self, most: u64) -> u64 {
        match self.random().below(3) {
            0 => MP_DEADLINE_PAST,
            _ => now() + self.random().below(most),
        }
    }

    /// Whether there is room for one more object; closes one if not.
    fn has_room(&mut self, at: usize) -> bool {
        let things = &self.contexts[at].things;
        let is_full = things.len() >= THINGS && !self.contexts[at].is_inherited;
        if is_full {
            self.remove();
        }
        !is_full
    }

    pub fn create_segment(&mut self) {
        let of = self.context();
        if !self.has_room(of.0) {
            return;
        }
        let has_fill = self.features & u64::from(MP_FEATURE_REGISTER) != 0;
        let has_one_peer = self.features & u64::from(MP_FEATURE_ONE_PEER) != 0;
        let (interface, is_there) = self.an_interface();
        let random = self.random();
        let is_private = random.one_in(6);
        let is_empty = has_fill && random.one_in(4);
        let is_for_one = has_one_peer && !is_empty && random.one_in(4);
        let flag = |is_so, flag| if is_so { flag } else { 0 };
        let mut create = mp_segment_create {
            flags: flag(is_private, MP_SEGMENT_PRIVATE)
                | flag(is_empty, MP_SEGMENT_EMPTY)
                | flag(is_for_one, MP_SEGMENT_ONE_PEER),
            interface: flag(is_for_one, interface),
            id: random.below(NUMBERS) as u32,
            id_more: match is_private {
                true => 0,
                false => random.pick(&[0, 0, 8, u32::MAX]),
            },
            length: match random.one_in(30) {
                true => random.pick(&[MP_SIZE_MAX, 1 << 40, 1 << 63]),
                false => random.pick(&[1, PAGE, PAGE, 2 * PAGE + 12, LOOK]),
            },
            name: NAME.as_ptr().expose_provenance() as u64,
            name_size: match is_private {
                true => 0,
                false => random.pick(&NAMES),
            },
            ..Default::default()
        };
        let mut allowed: &[i32] = match (is_for_one, is_there) {
            (true, false) => &[ENODEV],
            (true, true) => &[OK, EDQUOT, EADDRINUSE, ENETDOWN, ENOSPC, ENOMEM],
            (false, _) => &[OK, EDQUOT, EADDRINUSE, ENOSPC, ENOMEM],
        };
        if random.one_in(15) {
            match random.below(6) {
                0 => create.length = 0,
                1 => create.flags |= 2,
                2 => (create.flags, create.id_more) = (MP_SEGMENT_PRIVATE, 1),
                3 => (create.flags, create.name_size) = (MP_SEGMENT_PRIVATE, 1),
                4 => create.name_size = MP_NAME_MAX + 1,
                _ => create.reserved = 1,
            }
            allowed = &[EINVAL];
        }
        let text = format!(
            "flags {} id {}+{} name {} bytes {:#x}",
            create.flags, create.id, create.id_more, create.name_size, create.length
        );
        let Ok(made) = self.ask(of, &SEGMENT_CREATE, create, allowed, &text) else {
            return;
        };
        let last = create.id.saturating_add(create.id_more);
        if !is_private && !(create.id..=last).contains(&made.id) {
            self.caller.fail(&format!("id {}", made.id));
        }
        let mut thing = Thing::new(made.handle, Kind::Segment);
        thing.number = if is_private { 0 } else { made.id };
        thing.is_empty = is_empty;
        self.made(of.0, thing);
        if is_empty {
            return;
        }
        // Nobody has had it yet.
        if self.random().one_in(2) && !self.contexts[of.0].is_inherited {
            self.look_at_segment(of, made.handle);
        }
        if !is_private && self.random().one_in(2) {
            self.show(of, made.handle);
        }
    }

    /// A segment that is new has nothing but zero in it.
    fn look_at_segment(&mut self, of: (usize, i32), handle: u32) {
        let segment = mp_segment {
            handle,
            ..Default::default()
        };
        let Ok(told) = self.ask(of, &SEGMENT, segment, &[OK], "new") else {
            return;
        };
        let len = told.length.min(LOOK).next_multiple_of(PAGE) as usize;
        let Some(address) = self.map_at(of.1, told.offset, len, &[OK, ENOMEM]) else {
            return;
        };
        for word in (address..address + len).step_by(8) {
            // SAFETY: Inside of the mapping, aligned.
            if unsafe { (word as *const u64).read_volatile() } != 0 {
                self.caller.fail("a segment that is not zero");
            }
        }
        self.unmap_at(address, len);
    }

    /// Let peers at all interfaces use a segment.
    fn show(&mut self, of: (usize, i32), handle: u32) {
        for interface in self.interfaces.clone() {
            let at = mp_segment_interface {
                handle,
                interface,
                ..Default::default()
            };
            for (form, allowed) in [
                (&SEGMENT_PREPARE, &[OK, ENOSPC][..]),
                (&SEGMENT_PUBLISH, &[OK, ENXIO]),
            ] {
                let _ = self.ask(
                    of,
                    form,
                    at,
                    allowed,
                    &format!("{handle:#x} {interface:#x}"),
                );
            }
        }
    }

    pub fn share_segment(&mut self) {
        let of = self.context_with(|thing| thing.kind == Kind::Segment);
        let (handle, segment) = self.segment_of(of.0);
        // Also those that are private without a number, which is 0.
        let allowed: &[i32] = match segment {
            Some(segment) if segment.number != 0 => &[OK],
            Some(_) => &[OK, EOPNOTSUPP],
            None => &[ENOENT],
        };
        let share = mp_handle { size: 0, handle };
        let text = format!("{handle:#x}");
        if self.ask(of, &SEGMENT_SHARE, share, allowed, &text).is_ok() {
            let things = &mut self.contexts[of.0].things;
            let shared = things.iter_mut().filter(|thing| thing.handle == handle);
            shared.for_each(|thing| thing.is_shared = true);
        }
    }

    /// The number of a segment that can be attached to, if this process has shared one.
    fn shared_number(&mut self) -> Option<u32> {
        let things = self.contexts.iter().flat_map(|context| &context.things);
        let shared: Vec<_> = things.filter(|t| t.is_shared && t.number != 0).collect();
        (!shared.is_empty()).then(|| self.caller.random.pick(&shared).number)
    }

    pub fn attach_segment(&mut self) {
        let of = self.context();
        if !self.has_room(of.0) {
            return;
        }
        let shared = self.shared_number();
        let random = self.random();
        let id = shared.unwrap_or(random.below(NUMBERS) as u32);
        let reserved = u32::from(random.one_in(20));
        let allowed: &[i32] = match reserved {
            0 => &[OK, ENOENT, EPERM, EDQUOT, ENOMEM],
            _ => &[EINVAL],
        };
        let attach = mp_segment_attach {
            id,
            reserved,
            ..Default::default()
        };
        let text = format!("id {id}");
        if let Ok(made) = self.ask(of, &SEGMENT_ATTACH, attach, allowed, &text) {
            let mut thing = Thing::new(made.handle, Kind::Segment);
            thing.number = id;
            self.made(of.0, thing);
        }
    }

    /// Grant a segment to the partner of a session, and end that at once.
    pub fn grant_segment(&mut self) {
        if self.features & u64::from(MP_FEATURE_GRANTS) == 0 {
            return;
        }
        let of = self.context_with(|thing| thing.kind == Kind::Segment);
        if !self.has_room(of.0) {
            return;
        }
        let (segment, thing) = self.segment_of(of.0);
        let (session, _) = self.session(of.0);
        let rights = self.random().pick(&[0, 1, 2, 3, 3, 3, 4]);
        let flags = self.random().pick(&[0, MP_PUBLISH_PLACED]);
        let allowed: &[i32] = match (rights, thing) {
            (0 | 4, _) => &[EINVAL],
            (_, None) => &[ENOENT],
            _ => &[
                OK, ENOENT, EOPNOTSUPP, EDQUOT, ENXIO, ENOTCONN, ECONNRESET, ENETDOWN, ENOSPC,
                ENOMEM,
            ],
        };
        let grant = mp_segment_grant {
            segment,
            session,
            rights,
            flags,
            ..Default::default()
        };
        let text = format!("{segment:#x} to {session:#x} rights {rights} flags {flags}");
        if let Ok(made) = self.ask(of, &SEGMENT_GRANT, grant, allowed, &text) {
            let close = mp_handle {
                handle: made.handle,
                ..Default::default()
            };
            let _ = self.ask(of, &CLOSE, close, &[OK, EINPROGRESS], "grant");
        }
    }

    /// Hand a segment or connection over to a context of this process, which closes it at once.
    pub fn hand_over(&mut self) {
        if self.features & u64::from(MP_FEATURE_HANDOVER) == 0 {
            return;
        }
        let is_carried = |thing: &Thing| matches!(thing.kind, Kind::Segment | Kind::Connection(_));
        let from = self.context_with(is_carried);
        let (handle, named) = self.named(from.0, is_carried);
        let rights = self.random().pick(&[0, 1, 2, 3, 3, 3, 4]);
        let allowed: &[i32] = match (rights, named) {
            (0 | 4, _) => &[EINVAL],
            (_, Named::Nobody) => &[ENOENT],
            (2, Named::Thing(thing)) if thing.kind == Kind::Segment => &[EINVAL, ENOENT],
            (1, Named::Thing(thing)) if is_carried(&thing) => &[
                OK, EINVAL, ENOENT, EACCES, ECONNRESET, ENETDOWN, ENOTCONN, EDQUOT, EMFILE, ENOMEM,
            ],
            (_, Named::Thing(thing)) if is_carried(&thing) => &[
                OK, ENOENT, EACCES, ECONNRESET, ENETDOWN, ENOTCONN, EDQUOT, EMFILE, ENOMEM,
            ],
            (_, Named::Thing(_) | Named::Session) => &[EINVAL],
        };
        let export = mp_export {
            handle,
            rights,
            ..Default::default()
        };
        let text = format!("{handle:#x} rights {rights}");
        let Ok(exported) = self.ask(from, &EXPORT, export, allowed, &text) else {
            return;
        };
        let to = self.context();
        if self.has_room(to.0) {
            self.take_over(to, exported.fd);
        }
        // SAFETY: The kernel has just made the descriptor for this call, and nobody else has it.
        unsafe { libc::close(exported.fd) };
    }

    /// Make a dma-buf of a segment, fill one from it, and let go of it at once.
    pub fn export_dma_buf(&mut self) {
        if self.features & u64::from(MP_FEATURE_DMABUF) == 0 {
            return;
        }
        let of = self.context_with(|thing| thing.kind == Kind::Segment);
        let (handle, segment) = self.segment_of(of.0);
        let rights = self.random().pick(&[0, 1, 2, 3, 3, 3, 4]);
        let allowed: &[i32] = match (rights, segment) {
            (0 | 2 | 4, _) => &[EINVAL],
            (_, None) => &[ENOENT],
            _ => &[OK, ENOENT, ENXIO, EOPNOTSUPP, EDQUOT, EMFILE, ENOMEM],
        };
        let export = mp_segment_dmabuf {
            handle,
            rights,
            ..Default::default()
        };
        let text = format!("{handle:#x} rights {rights}");
        if let Ok(made) = self.ask(of, &SEGMENT_DMABUF, export, allowed, &text) {
            self.fill_from(made.fd);
            // SAFETY: The kernel has just made the descriptor for this call.
            unsafe { libc::close(made.fd) };
        }
    }

    /// Fill a segment from a dma-buf, or from another descriptor.
    fn fill_from(&mut self, descriptor: i32) {
        let of = self.context_with(|thing| thing.is_empty);
        let (handle, segment) = self.named_of(of.0, |thing| thing.kind == Kind::Segment);
        let fd = self.random().pick(&[descriptor, descriptor, -1, of.1]);
        let allowed: &[i32] = match (segment, fd) {
            (None, _) => &[ENOENT],
            (_, -1) => &[EBADF, ERANGE, EEXIST],
            (_, fd) if fd != descriptor => &[EINVAL, ERANGE, EEXIST],
            // To be read only.
            _ => &[OK, EACCES, ERANGE, EEXIST, ENOMEM],
        };
        let fill = mp_segment_register {
            handle,
            flags: MP_REGISTER_DMABUF,
            fd,
            address: self.random().pick(&[0, 0, PAGE, u64::MAX / PAGE * PAGE]),
            length: self.random().pick(&[PAGE, PAGE, 2 * PAGE]),
            ..Default::default()
        };
        let text = format!("{handle:#x} from {fd} at {:#x}", fill.address);
        let _ = self.ask(of, &SEGMENT_REGISTER, fill, allowed, &text);
    }

    /// Import what a descriptor leads to, or another one.
    fn take_over(&mut self, of: (usize, i32), descriptor: i32) {
        let fd = self
            .random()
            .pick(&[descriptor, descriptor, descriptor, -1, of.1]);
        let allowed: &[i32] = match fd {
            -1 => &[EBADF],
            fd if fd != descriptor => &[EINVAL],
            _ => &[
                OK,
                EDQUOT,
                ECONNRESET,
                ENETDOWN,
                ENOTCONN,
                EOPNOTSUPP,
                ENOENT,
                ECONNREFUSED,
                ENOSPC,
                ETIMEDOUT,
                ENOMEM,
            ],
        };
        let import = mp_import {
            fd,
            deadline: self.random().pick(&[MP_DEADLINE_PAST, MP_DEADLINE_NEVER]),
            ..Default::default()
        };
        let text = format!("descriptor {fd}");
        if let Ok(made) = self.ask(of, &IMPORT, import, allowed, &text) {
            let close = mp_handle {
                handle: made.handle,
                ..Default::default()
            };
            let _ = self.ask(of, &CLOSE, close, &[OK, EINPROGRESS], "what was imported");
        }
    }

    /// Give memory to a segment: that of this process, or physical memory that nobody uses.
    pub fn fill_segment(&mut self) {
        let of = self.context_with(|thing| thing.is_empty);
        let (handle, segment) = self.named_of(of.0, |thing| thing.kind == Kind::Segment);
        if self.features & u64::from(MP_FEATURE_REGISTER) == 0 {
            let mut fill = mp_segment_register::default();
            let number = u64::from(MP_IOC_SEGMENT_REGISTER);
            let allowed = [self.unknown_call(of.0)];
            let _ = self
                .caller
                .plain("SEGMENT_REGISTER", "unknown", &allowed, || {
                    // SAFETY: The structure that goes with the number.
                    i64::from(unsafe { libc::ioctl(of.1, number, &mut fill) })
                });
            return;
        }
        let powers = self.powers;
        let is_physical =
            self.random().one_in(3) && (powers.spare.is_some() || !powers.is_privileged);
        let (address, _) = self.array(64);
        let page = address / PAGE * PAGE;
        let random = self.random();
        // A function that is not there.
        let is_absent = random.one_in(20);
        let flags = match random.one_in(20) {
            _ if is_absent => MP_REGISTER_BAR,
            true => 16,
            false => u32::from(is_physical) * MP_REGISTER_PHYSICAL,
        };
        let fill = mp_segment_register {
            handle,
            flags,
            pci_domain_high: u16::from(is_absent) * ABSENT_DOMAIN,
            pci_bar: u16::from(is_absent) * random.below(8) as u16,
            address: match (is_physical, random.below(6)) {
                (true, _) => powers.spare.unwrap_or(PAGE),
                (false, 0) => address | 1,
                (false, 1) => random.pick(&[0, 1 << 46, u64::MAX / PAGE * PAGE]),
                _ => page,
            },
            length: random.pick(&[PAGE, PAGE, PAGE, 2 * PAGE, 0, 1, u64::MAX]),
            ..Default::default()
        };
        let mut allowed = vec![OK, EINVAL, ERANGE, EEXIST, EFAULT, EDQUOT, ENOMEM];
        if is_physical {
            allowed.extend([EPERM, EOPNOTSUPP]);
        }
        if fill.flags & !(MP_REGISTER_PHYSICAL | MP_REGISTER_BAR) != 0 {
            allowed = vec![EINVAL];
        } else if segment.is_none() {
            allowed = vec![ENOENT];
        } else if is_absent {
            let refused = if powers.is_privileged { ENODEV } else { EPERM };
            allowed = vec![EINVAL, ERANGE, EEXIST, refused];
        }
        let text = format!(
            "{handle:#x} flags {} address {:#x} bytes {:#x}",
            fill.flags, fill.address, fill.length
        );
        let _ = self.ask(of, &SEGMENT_REGISTER, fill, &allowed, &text);
    }

    /// Ask where a segment is, or that of a connection.
    pub fn locate(&mut self) {
        let is_memory = |thing: &Thing| {
            matches!(
                thing.kind,
                Kind::Segment | Kind::Connection(MP_OBJECT_SEGMENT)
            )
        };
        let of = self.context_with(is_memory);
        let (handle, thing) = self.named_of(of.0, is_memory);
        let random = self.random();
        let (offset, length) = (
            random.pick(&[0, 8, PAGE - 1, PAGE, u64::MAX]),
            random.pick(&[0, 1, PAGE, 2 * PAGE, u64::MAX]),
        );
        let may = [
            OK, EINVAL, ERANGE, ENXIO, EOPNOTSUPP, ECONNRESET, ENETDOWN, ENOTCONN,
        ];
        let allowed: &[i32] = match thing {
            _ if !self.powers.is_privileged => &[EPERM, ENOENT],
            Some(_) => &may,
            None => &[ENOENT, EOPNOTSUPP, ECONNRESET, ENETDOWN],
        };
        let range = mp_address {
            handle,
            offset,
            length,
            ..Default::default()
        };
        let text = format!("{handle:#x} {offset:#x} {length:#x}");
        let _ = self.ask(of, &ADDRESS, range, allowed, &text);
    }

    /// What a call that the kernel does not have answers.
    fn unknown_call(&self, at: usize) -> i32 {
        match self.contexts[at].is_inherited {
            true => libc::EACCES,
            false => libc::ENOTTY,
        }
    }

    /// Prepare, publish or withdraw a segment.
    pub fn show_segment(&mut self) {
        let of = self.context_with(|thing| thing.kind == Kind::Segment);
        let (handle, segment) = self.segment_of(of.0);
        let (interface, is_there) = self.an_interface();
        let random = self.random();
        let (form, may): (_, &[i32]) = match random.below(3) {
            0 => (
                &SEGMENT_PREPARE,
                &[OK, ENOSPC, ENXIO, ENETDOWN, EOPNOTSUPP, ENOMEM],
            ),
            1 => (&SEGMENT_PUBLISH, &[OK, EOPNOTSUPP, ENXIO, ENOSPC]),
            _ => (&SEGMENT_WITHDRAW, &[OK, ENXIO, EINPROGRESS]),
        };
        let is_withdrawn = form.number == MP_IOC_SEGMENT_WITHDRAW;
        let mut flags = match is_withdrawn {
            true => random.below(4) as u32,
            false => random.pick(&[0, MP_PUBLISH_PLACED]),
        };
        let is_wrong = random.one_in(20);
        if is_wrong {
            flags |= 1 << (2 + random.below(30));
        }
        let allowed: &[i32] = match (is_wrong, segment, is_there) {
            (true, _, _) => &[EINVAL],
            (_, None, _) => &[ENOENT],
            (_, _, false) => &[ENODEV],
            _ => may,
        };
        let at = mp_segment_interface {
            handle,
            interface,
            flags,
            ..Default::default()
        };
        let text = format!("{handle:#x} at {interface:#x} flags {flags:#x}");
        let _ = self.ask(of, form, at, allowed, &text);
    }

    pub fn describe_segment(&mut self) {
        let of = self.context_with(|thing| thing.kind == Kind::Segment);
        let (handle, segment) = self.segment_of(of.0);
        let (mut interface, mut is_there) = self.an_interface();
        if self.random().one_in(2) {
            (interface, is_there) = (0, true);
        }
        let allowed: &[i32] = match (segment, is_there) {
            (None, _) => &[ENOENT],
            (_, false) if interface != 0 => &[ENODEV],
            _ => &[OK],
        };
        let info = mp_segment {
            handle,
            interface,
            ..Default::default()
        };
        let text = format!("{handle:#x} at {interface:#x}");
        let Ok(told) = self.ask(of, &SEGMENT, info, allowed, &text) else {
            return;
        };
        let may_be_empty = told.flags & MP_SEGMENT_EMPTY != 0;
        if told.state > MP_SEGMENT_PUBLISHED || told.length == 0 && !may_be_empty {
            self.caller.fail("a segment that is none");
        }
        // What is no whole pages, or only read, is not mapped.
        let window = match told.offset {
            0 => (0, 0),
            offset => (offset, told.length),
        };
        self.learn_window(of.0, handle, window);
    }

    /// That is where an object can be mapped.
    fn learn_window(&mut self, at: usize, handle: u32, window: (u64, u64)) {
        if window.0 % PAGE != 0 {
            self.caller.fail("an offset that is in no page's beginning");
        }
        if let Some(known) = self.known(at, handle) {
            known.window = window;
        }
    }

    /// Close an object as one can that peers may use.
    pub fn remove(&mut self) {
        let of = self.context();
        let is_offered = |thing: &Thing| !matches!(thing.kind, Kind::Connection(_) | Kind::Queue);
        let (handle, named) = self.named(of.0, |_| true);
        let random = self.random();
        let mut flags = random.below(2) as u32;
        let is_wrong = random.one_in(20);
        if is_wrong {
            flags |= 2;
        }
        let allowed: &[i32] = match named {
            _ if is_wrong => &[EINVAL],
            Named::Nobody => &[ENOENT],
            Named::Session => &[EINVAL],
            Named::Thing(thing) if !is_offered(&thing) => return self.close(),
            Named::Thing(_) if flags != 0 => &[OK],
            Named::Thing(_) => &[OK, EBUSY],
        };
        let remove = mp_remove {
            handle,
            flags,
            ..Default::default()
        };
        let text = format!("{handle:#x} flags {flags}");
        if self.ask(of, &REMOVE, remove, allowed, &text).is_ok() {
            self.forget(of.0, handle);
        }
    }

    /// A connection or queue cannot be removed.
    pub fn remove_wrongly(&mut self) {
        let of = self.context();
        let is_used = |thing: &Thing| matches!(thing.kind, Kind::Connection(_) | Kind::Queue);
        if let (handle, Some(_)) = self.named_of(of.0, is_used) {
            let remove = mp_remove {
                handle,
                ..Default::default()
            };
            let _ = self.ask(of, &REMOVE, remove, &[EINVAL], &format!("{handle:#x}"));
        }
    }

    pub fn offer(&mut self) {
        let of = self.context();
        if !self.has_room(of.0) {
            return;
        }
        let (interface, is_there) = self.an_interface();
        let random = self.random();
        let object = random.pick(&[MP_OBJECT_EVENT, MP_OBJECT_PORT]);
        let mut offer = mp_offer {
            interface,
            object,
            flags: random.pick(&[0, 0, MP_OFFER_ANY, MP_OFFER_SHARED]),
            number: random.below(NUMBERS) as u32,
            name: NAME.as_ptr().expose_provenance() as u64,
            name_size: random.pick(&NAMES),
            ..Default::default()
        };
        if object == MP_OBJECT_EVENT && random.one_in(2) {
            offer.flags |= MP_OFFER_COUNTED;
        }
        let is_wrong = random.one_in(15);
        if is_wrong {
            match random.below(4) {
                0 => offer.object = random.pick(&[0, MP_OBJECT_SEGMENT, MP_OBJECT_QUEUE]),
                1 => offer.flags |= 8,
                2 => offer.name_size = MP_NAME_MAX + 1,
                _ => {
                    offer.object = MP_OBJECT_PORT;
                    offer.flags |= MP_OFFER_COUNTED;
                }
            }
        }
        let allowed: &[i32] = match (is_wrong, is_there) {
            (true, _) => &[EINVAL],
            (_, false) => &[ENODEV],
            _ => &[OK, EDQUOT, EADDRINUSE, ENOMEM],
        };
        let text = format!(
            "object {} number {} name {} flags {} at {interface:#x}",
            offer.object, offer.number, offer.name_size, offer.flags
        );
        let Ok(made) = self.ask(of, &OFFER, offer, allowed, &text) else {
            return;
        };
        if offer.flags & MP_OFFER_ANY == 0 && made.number != offer.number {
            self.caller.fail(&format!("number {}", made.number));
        }
        let kind = match object {
            MP_OBJECT_EVENT => Kind::Event,
            _ => Kind::Port,
        };
        let mut thing = Thing::new(made.handle, kind);
        (thing.interface, thing.number) = (interface, made.number);
        self.made(of.0, thing);
    }

    /// Something that this worker offers: what and by which number; and at which interface,
    /// zero if at several.
    fn something_offered(&mut self) -> Option<((u32, u32), u32)> {
        let object = |thing: &Thing| match thing.kind {
            Kind::Segment => Some(MP_OBJECT_SEGMENT),
            Kind::Event => Some(MP_OBJECT_EVENT),
            Kind::Port => Some(MP_OBJECT_PORT),
            _ => None,
        };
        let things = self.contexts.iter().flat_map(|context| &context.things);
        let offered = |thing: &Thing| Some(((object(thing)?, thing.number), thing.interface));
        let offered: Vec<_> = things.filter_map(offered).collect();
        (!offered.is_empty()).then(|| self.caller.random.pick(&offered))
    }

    pub fn connect(&mut self) {
        let of = self.context();
        if !self.has_room(of.0) {
            return;
        }
        let (mut interface, mut is_there) = self.an_interface();
        let own = self.something_offered();
        let random = self.random();
        let mut object = random.pick(&[MP_OBJECT_SEGMENT, MP_OBJECT_EVENT, MP_OBJECT_PORT]);
        let mut number = random.below(NUMBERS) as u32;
        // The number of something of one's own: there at least on the host itself.
        if let (Some((known, at)), false) = (own, random.one_in(3)) {
            (object, number) = (known.0, known.1);
            if at != 0 {
                (interface, is_there) = (at, true);
            }
        }
        let mut connect = mp_connect {
            interface,
            object,
            number,
            ..Default::default()
        };
        if random.one_in(3) {
            connect.number = 0;
            connect.name = NAME.as_ptr().expose_provenance() as u64;
            connect.name_size = random.pick(&NAMES);
        }
        if object == MP_OBJECT_EVENT && random.one_in(3) {
            connect.flags = MP_CONNECT_COUNTED;
        }
        if object == MP_OBJECT_SEGMENT && random.one_in(3) {
            connect.flags = MP_CONNECT_PLACED;
        }
        connect.deadline = match random.one_in(6) {
            true => now() + random.below(1_000_000),
            false => now() + 5_000_000_000,
        };
        let is_wrong = random.one_in(15);
        if is_wrong {
            match random.below(5) {
                0 => connect.object = random.pick(&[0, MP_OBJECT_SESSION, MP_OBJECT_QUEUE]),
                1 => connect.flags |= 8,
                2 => connect.name_size = MP_NAME_MAX + 1,
                3 => {
                    connect.name = NAME.as_ptr().expose_provenance() as u64;
                    (connect.name_size, connect.number) = (1, 1);
                }
                _ => {
                    connect.object = MP_OBJECT_SEGMENT;
                    connect.flags = MP_CONNECT_COUNTED;
                }
            }
        }
        let allowed: &[i32] = match (is_wrong, is_there) {
            (true, _) => &[EINVAL],
            (_, false) => &[ENODEV],
            _ => &[
                OK,
                EDQUOT,
                ENETDOWN,
                ENOENT,
                ECONNREFUSED,
                ENOSPC,
                ETIMEDOUT,
                ENOMEM,
            ],
        };
        let text = format!(
            "object {} number {} name {} flags {} at {interface:#x}",
            connect.object, connect.number, connect.name_size, connect.flags
        );
        if let Ok(made) = self.ask(of, &CONNECT, connect, allowed, &text) {
            let mut thing = Thing::new(made.handle, Kind::Connection(object));
            (thing.interface, thing.number) = (interface, connect.number);
            self.made(of.0, thing);
        }
    }

    pub fn describe_connection(&mut self) {
        let of = self.context_with(|thing| matches!(thing.kind, Kind::Connection(_)));
        let (handle, connection) = self.connection_of(of.0);
        let allowed = [if connection.is_some() { OK } else { ENOENT }];
        let info = mp_connection {
            handle,
            ..Default::default()
        };
        let text = format!("{handle:#x}");
        let (Ok(told), Some(known)) =
            (self.ask(of, &CONNECTION, info, &allowed, &text), connection)
        else {
            return;
        };
        let is_it = (told.interface, told.number) == (known.interface, known.number);
        if !is_it || known.kind != Kind::Connection(told.object) || told.state > 15 {
            self.caller.fail("another connection");
        }
        let is_mapped = told.offset != 0 && told.length != 0;
        if is_mapped {
            self.learn_window(of.0, handle, (told.offset, told.length));
        }
        self.look_at_status(of, told.status);
    }

    /// A status word has a state that there is, and nobody but the kernel writes it.
    fn look_at_status(&mut self, of: (usize, i32), position: u32) {
        let (offset, len) = self.contexts[of.0].status;
        if len == 0 || self.contexts[of.0].is_inherited || !self.random().one_in(4) {
            return;
        }
        if u64::from(position) + 8 > len || position % 8 != 0 {
            self.caller.fail(&format!("a status word at {position:#x}"));
        }
        let len = len as usize;
        let text = format!("fd {} status words", of.1);
        let mapped = self.caller.plain("mmap", &text, &[OK, ENOMEM], || {
            // SAFETY: Where the kernel chooses.
            let memory = unsafe {
                let (null, flags) = (std::ptr::null_mut(), libc::MAP_SHARED);
                libc::mmap(null, len, libc::PROT_READ, flags, of.1, offset as i64)
            };
            match memory == libc::MAP_FAILED {
                true => -1,
                false => memory as i64,
            }
        });
        let Ok(address) = mapped else { return };
        // SAFETY: Inside of the mapping, aligned.
        let word =
            unsafe { ((address as usize + position as usize) as *const u64).read_volatile() };
        if word as u32 > 15 {
            self.caller.fail(&format!("status {word:#x}"));
        }
        self.unmap_at(address as usize, len);
    }

    pub fn notice(&mut self) {
        let of = self.context_with(|thing| matches!(thing.kind, Kind::Connection(_)));
        let has_notices = |t: &Thing| matches!(t.kind, Kind::Segment | Kind::Connection(_));
        let (handle, named) = self.named(of.0, has_notices);
        let reserved = u32::from(self.random().one_in(30));
        let allowed: &[i32] = match named {
            _ if reserved != 0 => &[EINVAL],
            Named::Nobody => &[ENOENT],
            Named::Thing(thing) if has_notices(&thing) => &[OK, ETIMEDOUT],
            _ => &[EINVAL],
        };
        let notice = mp_notice {
            handle,
            deadline: self.deadline(2_000_000),
            reserved,
            ..Default::default()
        };
        let taken = self.ask(of, &NOTICE, notice, allowed, &format!("{handle:#x}"));
        if taken.is_ok_and(|taken| !(1..=5).contains(&taken.notice)) {
            self.caller.fail("a notice that there is not");
        }
    }

    pub fn send(&mut self) {
        let of = self.context_with(Thing::is_port_connection);
        let (handle, named) = self.named(of.0, Thing::is_port_connection);
        let random = self.random();
        let length = random.pick(&[0, 1, 64, 64, MP_MESSAGE_MAX, MP_MESSAGE_MAX + 1, u32::MAX]);
        let (data, place) = self.array(MP_MESSAGE_MAX as usize);
        let allowed: &[i32] = match named {
            Named::Thing(thing) if thing.is_port_connection() => match (length, place) {
                (..=MP_MESSAGE_MAX, Place::Nowhere) if length != 0 => &[EFAULT],
                (..=MP_MESSAGE_MAX, _) => &[OK, ETIMEDOUT, ECONNRESET, ENETDOWN, ENOMEM],
                _ => &[EMSGSIZE],
            },
            Named::Thing(thing) if matches!(thing.kind, Kind::Connection(_)) => &[EINVAL],
            _ => &[ENOENT],
        };
        let message = mp_message {
            handle,
            data,
            length,
            deadline: self.deadline(2_000_000),
            ..Default::default()
        };
        let text = format!("{handle:#x} bytes {length} {place:?}");
        let _ = self.ask(of, &SEND, message, allowed, &text);
    }

    pub fn receive(&mut self) {
        let of = self.context_with(|thing| thing.kind == Kind::Port);
        if self.random().one_in(3) {
            self.prepare_mail(of);
        }
        let (handle, named) = self.named(of.0, |thing| thing.kind == Kind::Port);
        let length = self.random().pick(&[0, 1, MP_MESSAGE_MAX, MP_MESSAGE_MAX]);
        let (data, place) = self.array(MP_MESSAGE_MAX as usize);
        let allowed: &[i32] = match named {
            Named::Thing(thing) if thing.kind == Kind::Port => match place {
                Place::Good => &[OK, ETIMEDOUT, EMSGSIZE],
                _ => &[OK, ETIMEDOUT, EMSGSIZE, EFAULT],
            },
            Named::Thing(_) => &[EINVAL],
            Named::Session => &[ENOENT, EINVAL],
            Named::Nobody => &[ENOENT],
        };
        let message = mp_message {
            handle,
            data,
            length,
            deadline: self.deadline(2_000_000),
            ..Default::default()
        };
        let text = format!("{handle:#x} room {length} {place:?}");
        let received = self.ask(of, &RECEIVE, message, allowed, &text);
        if received.is_ok_and(|got| got.length > length) {
            self.caller.fail("more than there was room for");
        }
    }

    pub fn barrier(&mut self) {
        let of = self.context_with(|thing| matches!(thing.kind, Kind::Connection(_)));
        let at_interface = self.random().one_in(3);
        let (target, is_there, absent) = match at_interface {
            true => {
                let (interface, is_there) = self.an_interface();
                (interface, is_there, ENODEV)
            }
            false => {
                let (handle, connection) = self.connection_of(of.0);
                (handle, connection.is_some(), ENOENT)
            }
        };
        let is_wrong = self.random().one_in(20);
        let absent = [absent];
        let allowed: &[i32] = match (is_wrong, is_there) {
            (true, _) => &[EINVAL],
            (_, false) => &absent,
            _ => &[OK, ECONNRESET, ENETDOWN, ETIMEDOUT, ENOMEM],
        };
        let barrier = mp_barrier {
            flags: if at_interface { MP_WAIT_INTERFACE } else { 0 },
            target,
            reserved: u32::from(is_wrong),
            deadline: self.deadline(50_000_000),
            ..Default::default()
        };
        let text = format!("target {target:#x} flags {}", barrier.flags);
        let _ = self.ask(of, &BARRIER, barrier, allowed, &text);
    }

    pub fn exchange(&mut self) {
        let of = self.context_with(|thing| thing.kind == Kind::Connection(MP_OBJECT_SEGMENT));
        let (handle, connection) = self.connection_of(of.0);
        let is_wrong = self.random().one_in(20);
        let kind = connection.map(|connection| connection.kind);
        let is_segment = kind == Some(Kind::Connection(MP_OBJECT_SEGMENT));
        let allowed: &[i32] = match (is_wrong, connection.is_some(), is_segment) {
            (true, ..) => &[EINVAL],
            (_, false, _) => &[ENOENT],
            (_, _, false) => &[EINVAL],
            _ => &[
                OK, ERANGE, ECONNRESET, ENETDOWN, EOPNOTSUPP, EACCES, EIO, ETIMEDOUT, ENOMEM,
            ],
        };
        let exchange = mp_exchange {
            connection: handle,
            offset: 8 * self.random().below(1024),
            expected: self.random().below(2),
            desired: self.random().below(2),
            deadline: self.deadline(50_000_000),
            reserved: u32::from(is_wrong),
            ..Default::default()
        };
        let text = format!("{handle:#x} at {}", exchange.offset);
        let _ = self.ask(of, &EXCHANGE, exchange, allowed, &text);
    }

    pub fn create_queue(&mut self) {
        let of = self.context_with(|thing| thing.kind == Kind::Connection(MP_OBJECT_SEGMENT));
        if !self.has_room(of.0) {
            return;
        }
        let (interface, is_there) = self.an_interface();
        let entries = self.random().pick(&[1, 2, 8, 256, 0, 257, u32::MAX]);
        let allowed: &[i32] = match (is_there, entries) {
            (false, _) => &[ENODEV],
            (_, 1..=256) => &[OK, EDQUOT, ENOMEM],
            _ => &[EINVAL],
        };
        let create = mp_queue_create {
            interface,
            entries,
            ..Default::default()
        };
        let text = format!("{entries} at {interface:#x}");
        if let Ok(made) = self.ask(of, &QUEUE_CREATE, create, allowed, &text) {
            let mut thing = Thing::new(made.handle, Kind::Queue);
            (thing.interface, thing.entries) = (interface, entries);
            self.made(of.0, thing);
        }
    }

    pub fn start_queue(&mut self) {
        let of = self.context_with(|thing| thing.kind == Kind::Queue);
        let (handle, queue) = self.queue_of(of.0);
        let interface = queue.map_or(0, |queue| queue.interface);
        let is_fit = |thing: &Thing| {
            thing.kind == Kind::Connection(MP_OBJECT_SEGMENT) && thing.interface == interface
        };
        let (to, connection) = match self.named(of.0, is_fit) {
            (to, Named::Thing(thing)) if matches!(thing.kind, Kind::Connection(_)) => {
                (to, Some(thing))
            }
            (to, _) => (to, None),
        };
        let is_fit = connection.is_some_and(|connection| is_fit(&connection));
        if !is_fit && self.random().one_in(2) {
            self.prepare_copies(of);
        }
        let (segment, is_there) = match self.random().one_in(2) {
            true => (0, true),
            false => {
                let (handle, segment) = self.segment_of(of.0);
                // The memory of the process.
                (handle, segment.is_some() || handle == 0)
            }
        };
        let most = queue.map_or(1, |queue| queue.entries);
        let random = self.random();
        let count = match random.one_in(10) {
            true => random.pick(&[0, most + 1, u32::MAX]),
            false => 1 + random.below(u64::from(most.min(8))) as u32,
        };
        let is_beyond = random.one_in(8);
        let (source, _) = self.array(64);
        let (copies, place) =
            self.copies(count.min(8), is_beyond, (segment == 0).then_some(source));
        let has_pinned = self.features & u64::from(MP_FEATURE_PINNED) != 0;
        let flags = match self.random().below(30) {
            0 => 4,
            1..8 if has_pinned && segment == 0 => MP_QUEUE_PINNED,
            8..12 if has_pinned && segment == 0 => MP_QUEUE_PINNED | MP_QUEUE_READ,
            8..16 if segment != 0 => MP_QUEUE_READ,
            _ => 0,
        };
        let allowed: &[i32] = match (flags, queue, connection) {
            (4, _, _) => &[EINVAL],
            (_, Some(_), Some(_)) if is_there => match place {
                _ if !is_fit || count == 0 || count > most => &[EBUSY, EINVAL],
                Place::Nowhere => &[EBUSY, EFAULT],
                _ if is_beyond => &[EBUSY, ERANGE],
                _ => &[
                    OK, EBUSY, EFAULT, ERANGE, ENXIO, EOPNOTSUPP, ECONNRESET, ENETDOWN, EACCES,
                    EDQUOT, ENOMEM,
                ],
            },
            _ => &[ENOENT],
        };
        let start = mp_queue_start {
            handle,
            segment,
            connection: to,
            count,
            flags,
            copies,
            ..Default::default()
        };
        let text = format!("{handle:#x} segment {segment:#x} to {to:#x} count {count} {place:?}");
        let started = self.ask(of, &QUEUE_START, start, allowed, &text);
        match started {
            Ok(_) => self
                .known(of.0, handle)
                .into_iter()
                .for_each(|queue| queue.was_started = true),
            // Before or after it was started.
            Err(EFAULT) if queue.is_some() => self.drop_queue(of, handle),
            Err(_) => {}
        }
    }

    /// Make a call that may fail, but not because it is badly put.
    fn tell<T: Copy>(&self, fd: i32, form: &Form, mut value: T) -> Option<T> {
        let allowed = [&[OK], form.errors].concat();
        let made = self.caller.plain(form.name, "for copies", &allowed, || {
            // SAFETY: The structure that goes with the number.
            i64::from(unsafe { libc::ioctl(fd, u64::from(form.number), &mut value) })
        });
        made.ok().map(|_| value)
    }

    /// An interface, if a context has room for so many objects more: that of the host itself.
    fn room_for(&self, at: usize, more: usize) -> Option<u32> {
        let context = &self.contexts[at];
        let has_room = !context.is_inherited && context.things.len() + more <= THINGS;
        self.interfaces.first().copied().filter(|_| has_room)
    }

    /// Connect a context to something that there is.
    fn connect_surely(
        &mut self,
        (at, fd): (usize, i32),
        interface: u32,
        to: (u32, u32),
    ) -> Option<u32> {
        let (object, number) = to;
        let connect = mp_connect {
            size: CONNECT.size as u32,
            interface,
            object,
            number,
            deadline: now() + 5_000_000_000,
            ..Default::default()
        };
        let made = self.tell(fd, &CONNECT, connect)?;
        let mut thing = Thing::new(made.handle, Kind::Connection(object));
        (thing.interface, thing.number) = (interface, number);
        self.made(at, thing);
        Some(made.handle)
    }

    /// Make in one context what a copy needs: a queue, and a connection to a segment.
    fn prepare_copies(&mut self, (at, fd): (usize, i32)) -> Option<()> {
        let interface = self.room_for(at, 3)?;
        let create = mp_segment_create {
            size: SEGMENT_CREATE.size as u32,
            id: NUMBERS as u32,
            id_more: u32::MAX,
            length: PAGE,
            ..Default::default()
        };
        let segment = self.tell(fd, &SEGMENT_CREATE, create)?;
        let mut thing = Thing::new(segment.handle, Kind::Segment);
        thing.number = segment.id;
        self.made(at, thing);
        let shown = mp_segment_interface {
            size: SEGMENT_PREPARE.size as u32,
            handle: segment.handle,
            interface,
            ..Default::default()
        };
        self.tell(fd, &SEGMENT_PREPARE, shown)?;
        self.tell(fd, &SEGMENT_PUBLISH, shown)?;
        self.connect_surely((at, fd), interface, (MP_OBJECT_SEGMENT, segment.id))?;
        let create = mp_queue_create {
            size: QUEUE_CREATE.size as u32,
            interface,
            entries: 8,
            ..Default::default()
        };
        let made = self.tell(fd, &QUEUE_CREATE, create)?;
        let mut thing = Thing::new(made.handle, Kind::Queue);
        (thing.interface, thing.entries) = (interface, 8);
        self.made(at, thing);
        Some(())
    }

    /// Make a port in a context, and a message in it.
    fn prepare_mail(&mut self, (at, fd): (usize, i32)) -> Option<()> {
        let interface = self.room_for(at, 2)?;
        let offer = mp_offer {
            size: OFFER.size as u32,
            flags: MP_OFFER_ANY,
            interface,
            object: MP_OBJECT_PORT,
            ..Default::default()
        };
        let port = self.tell(fd, &OFFER, offer)?;
        let mut thing = Thing::new(port.handle, Kind::Port);
        (thing.interface, thing.number) = (interface, port.number);
        self.made(at, thing);
        let handle = self.connect_surely((at, fd), interface, (MP_OBJECT_PORT, port.number))?;
        let message = mp_message {
            size: SEND.size as u32,
            handle,
            ..Default::default()
        };
        self.tell(fd, &SEND, message)?;
        Some(())
    }

    /// Close a queue.
    fn drop_queue(&mut self, of: (usize, i32), handle: u32) {
        let mut close = mp_handle {
            size: size_of::<mp_handle>() as u32,
            handle,
        };
        let closed = self
            .caller
            .plain("CLOSE", &format!("{handle:#x}"), &[OK], || {
                // SAFETY: The structure that goes with the number.
                i64::from(unsafe { libc::ioctl(of.1, u64::from(MP_IOC_CLOSE), &mut close) })
            });
        if closed.is_ok() {
            self.forget(of.0, handle);
        }
    }

    /// An array of copies of a few bytes each: from the memory of the process, if `source` is
    /// some.
    fn copies(&mut self, count: u32, is_beyond: bool, source: Option<u64>) -> (u64, Place) {
        let random = &mut self.caller.random;
        let mut bytes = Vec::new();
        for _ in 0..count {
            let mut copy = mp_copy {
                local: source.unwrap_or(random.below(2) * 8),
                remote: random.below(2) * 8,
                length: random.pick(&[0, 1, 8, 64]),
            };
            if is_beyond {
                (copy.remote, copy.length) =
                    random.pick(&[(u64::MAX, 1), (1 << 40, 8), (0, 1 << 63)]);
            }
            for word in [copy.local, copy.remote, copy.length] {
                bytes.extend(word.to_ne_bytes());
            }
        }
        let place = match random.below(8) {
            0 if count != 0 => Place::Nowhere,
            _ => Place::Good,
        };
        (self.arrays.put(&bytes, place, random) as u64, place)
    }

    pub fn abort_queue(&mut self) {
        let of = self.context_with(|thing| thing.kind == Kind::Queue);
        let (handle, queue) = self.queue_of(of.0);
        let allowed = [match queue {
            None => ENOENT,
            Some(queue) if queue.was_started => OK,
            Some(_) => ENXIO,
        }];
        let abort = mp_handle { size: 0, handle };
        let _ = self.ask(of, &QUEUE_ABORT, abort, &allowed, &format!("{handle:#x}"));
    }

    pub fn describe_queue(&mut self) {
        let of = self.context_with(|thing| thing.kind == Kind::Queue);
        let (handle, queue) = self.queue_of(of.0);
        let allowed = [if queue.is_some() { OK } else { ENOENT }];
        let info = mp_queue {
            handle,
            ..Default::default()
        };
        let told = self.ask(of, &QUEUE, info, &allowed, &format!("{handle:#x}"));
        let (Ok(told), Some(known)) = (told, queue) else {
            return;
        };
        let is_it = (told.interface, told.entries) == (known.interface, known.entries);
        let was_started = told.state != MP_QUEUE_IDLE;
        if !is_it || was_started != known.was_started {
            self.caller.fail("another queue");
        }
        self.look_at_status(of, told.status);
    }
}
